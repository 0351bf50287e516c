# SPDX-License-Identifier: BSD-3-Clause
"""Files as they come: each is read, or refused with one message."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
from pyarrow import parquet

PLAIN = "a,b,color\n" + "".join(f"{i % 10},{i * 0.5},{'red' if i % 3 else 'blue'}\n" for i in range(1, 31))
WIDE = ",".join(f"c{i}" for i in range(3000))

# Contents by name, with the kinds that `describe` finds or the beginning of its message after the name of the file;
# nothing where both are fine.
TEXT_FILES = {
    "plain.csv": (PLAIN, "number number category"),
    "bom.csv": ("﻿" + PLAIN, "number number category"),
    "utf-16.csv": (
        PLAIN.encode("utf-16"),
        " cannot be read as utf-8 text; give its encoding, such as --encoding utf-16.",
    ),
    "latin-1.csv": (
        "a,b\nü,1\né,2\n".encode("latin-1"),
        " cannot be read as utf-8 text; give its",
    ),
    "latin-1-late.csv": (
        ("a,b\n" + "x,1\n" * 30_000 + "é,2\n").encode("latin-1"),
        ": row 30001, column 'a': the cell contains bytes that are not UTF-8 text; give its",
    ),
    "latin-1-header.csv": (
        "à,b\n1,2\n".encode("latin-1"),
        " cannot be read as utf-8 text; give its encoding, such as --encoding cp1252.",
    ),
    "binary.csv": (bytes(range(256)) * 8, ""),
    "nul.csv": ("a,b\nx\0y,1\nz,2\n", "category number"),
    "crlf.csv": (PLAIN.replace("\n", "\r\n"), "number number category"),
    "mixed-line-ends.csv": ("a,b\n1,x\r\n2,y\n3,x\r\n", "number category"),
    "old-mac.csv": ("a,b\r1,x\r2,y\r", "number category"),
    "no-final-newline.csv": ("a,b\n1,x\n2,y", "number category"),
    "blank-lines.csv": ("a,b\n1,x\n\n2,y\n\n", "number category"),
    "semicolons.csv": (PLAIN.replace(",", ";"), "number number category"),
    "tabs.csv": (PLAIN.replace(",", "\t"), "number number category"),
    "quotes.csv": ('a,b\n"x, ""y""",1\n"line\nbreak",2\n', "category number"),
    "open-quote.csv": ('a,b\n"x,1\ny,2\n', ""),
    "quoted-header.csv": ('"a, b","c ""d"""\n1,x\n2,y\n', "number category"),
    "ragged.csv": ("a,b\n1,2\n3\n4,5,6\n7,8\n", " cannot be read: row 2 is malformed: it has 1 cells and"),
    "duplicates.csv": ("a,b,a,b\n1,2,3,4\n", " has 2 problems:"),
    "empty.csv": ("", " cannot be read: Empty CSV file."),
    "only-newline.csv": ("\n", ""),
    "only-header.csv": ("a,b\n", "empty empty"),
    "one-row.csv": ("a,b\n1,x\n", "constant constant"),
    "one-cell.csv": ("a\n1\n", "constant"),
    "no-names.csv": (",\n1,x\n2,y\n", " has more than one column named ''; rename one of them."),
    "one-name-missing.csv": (",b\n1,x\n2,y\n", "number category"),
    "spaces.csv": ("a , b\n 1 , x \n 2 , y \n", "number category"),
    "wide.csv": (f"{WIDE}\n{','.join(['1'] * 3000)}\n{','.join(['2'] * 3000)}\n", " ".join(["number"] * 3000)),
    "huge-integers.csv": (f"a,b\n{2**63},{2**70}\n{2**63 + 1},{-(2**70)}\n", "number number"),
    "missing.csv": ("a,b,c\n,NA,1\n,NA,2\n", "empty empty number"),
    "marks.csv": ("a,b\n1,2020-01-01\n?,-\n3,2020-01-03\n", "number date"),
    "infinite.csv": ("a,b\n1,x\ninf,y\n", "number category"),
    "booleans.csv": ("a,b,c,d\nyes,T,on,FALSE\nno,F,off,TRUE\n", "boolean boolean boolean boolean"),
    "dates.csv": (
        "a,b,c,d\n2020-01-31,31.01.2020,1/31/2020 10:00,2020-01-31T10:00:00+02:00\n"
        "2020-02-01,01.02.2020,2/1/2020 11:30,2020-02-01T10:00:00+02:00\n",
        "date date date date",
    ),
    "times.csv": ("a\n10:30\n11:45\n", "time"),
    "text-among-numbers.csv": ("a\n1\n2\n3\nfour\n", "number"),
    "long-cell.csv": ("a,b\n" + "x" * 3_000_000 + ",1\ny,2\n", "category number"),
    "markup.csv": ("[bold]a[/bold],[/]\n[red]x,1\n\x1b[31my,2\n", "category number"),
    "broken.parquet": ("PAR1", " cannot be read as parquet: "),
    "cut.parquet": (b"PAR1" + b"\0" * 100 + b"PAR1", " cannot be read as parquet: "),
    "text.txt": (
        "a\n1\n",
        " has an unsupported file type; give a .parquet, .csv or .csv.gz file, a folder of .parquet files, or in ",
    ),
}

PARQUET_FILES = {
    "types.parquet": (
        {
            "uint64": pa.array([2**64 - 1, 2**63], pa.uint64()),
            "half": pa.array(np.array([1.5, 2.5], dtype=np.float16)),
            "decimal": [Decimal("1.50"), Decimal("2.25")],
            "bool": [True, None],
            "day": [date(2020, 1, 1), date(2020, 1, 2)],
            "zone": pa.array([datetime(2020, 1, 1), datetime(2021, 1, 1)], pa.timestamp("ns", "Europe/Paris")),
            "time": [time(1), time(2)],
            "duration": [timedelta(1), timedelta(2)],
            "dictionary": pa.array(["a", "b"]).dictionary_encode(),
            "codes": pa.array([7, 9]).dictionary_encode(),
            "large": pa.array(["x", "y"], pa.large_string()),
            "null": pa.nulls(2),
        },
        "number number number boolean date date time duration category number category empty",
    ),
    "nested.parquet": (
        {"list": [[1], [2]], "struct": [{"a": 1}, {"a": 2}], "bytes": [b"\xff", b"\0"], "x": [1.0, 2.0]},
        "unsupported unsupported unsupported number",
    ),
    "no-rows.parquet": ({"x": pa.array([], pa.float64())}, "empty"),
    "no-columns.parquet": ({}, " has no columns; give a table with a header."),
    "old-dates.parquet": ({"when": [date(1, 1, 1), date(9999, 12, 31)]}, "date"),
}


def write_odd_file(folder, name):
    """Write a file, and return its path and what is expected of `describe`."""
    path = folder / name
    if name in PARQUET_FILES:
        columns, expected = PARQUET_FILES[name]
        parquet.write_table(pa.table(columns), path)
        return path, expected
    content, expected = TEXT_FILES[name]
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path, expected
