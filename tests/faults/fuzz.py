# SPDX-License-Identifier: BSD-3-Clause
"""Damaged files by the thousand: each is read, or refused by one ValueError that names the file.

``python -m tests.faults.fuzz`` prints a table of the kinds of files, with a process per kind, so that a crash is found.
``--step 1`` changes every byte.
"""

import argparse
import io
import json
import os
import signal
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from bochner import TableRegressor
from bochner.tables.encoding import EncodedTable, load_rows
from bochner.tables.evaluation import evaluate, write_predictions
from bochner.tables.model_files import load, save
from bochner.tables.reader import Table
from bochner.tables.survey import Survey
from reproduction.store import NAMES, Store
from tests.tables.models import quick_classifier, quick_regressor
from tests.tables.tables import make_table, write_table

SECONDS_PER_FILE = 60


def damaged(content: bytes, step: int) -> Iterator[bytes]:
    """Yield the content cut off, and with one byte changed, at every `step`-th position."""
    for number, position in enumerate(range(0, len(content), step)):
        yield content[:position]
        byte = (content[position] ^ (1 << number % 8), 0, 255, 128)[number % 4]
        yield content[:position] + bytes([byte]) + content[position + 1 :]


def damaged_archive(content: bytes, step: int) -> Iterator[bytes]:
    """Yield a zip archive whose entries are damaged and whose checksums are right, so that readers see the damage."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {entry: archive.read(entry) for entry in archive.infolist()}
    for changed in entries:
        for variant in damaged(entries[changed], step):
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w") as archive:
                for entry, original in entries.items():
                    archive.writestr(entry, variant if entry is changed else original)
            yield file.getvalue()


def damaged_schema(content: bytes, step: int) -> Iterator[bytes]:
    """Yield a model file in whose schema every `step`-th entry is replaced."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    text = entries["schema.json"]
    for number, position in enumerate(range(0, len(list(walk(json.loads(text)))), step)):
        schema = json.loads(text)
        node, key = list(walk(schema))[position]
        node[key] = (None, -1, "os", {}, "MethodNode", [], "1e400", [[]], "nan", 10**400)[number % 10]
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, original in entries.items():
                archive.writestr(name, json.dumps(schema) if name == "schema.json" else original)
        yield file.getvalue()


def walk(node):
    """Yield every entry of a schema: a dictionary or list with a key or an index."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield node, key
        yield from walk(child)


PRICES = {damaged: 20, damaged_archive: 100, damaged_schema: 2}  # how many bytes or entries are between two changes


# What is done with each kind of file.


def use_model(data: Path, path: Path) -> None:
    """Load a model and predict with it."""
    model = load(path)
    assert write_predictions(model, data, path.with_suffix(".csv")) > 0
    evaluate(model, data)


def read_table(path: Path, target: str | None = None) -> None:
    """Survey a table and encode all its rows."""
    survey = Survey(Table(path, target))
    survey.check()
    load_rows(EncodedTable(survey.table, survey.encoding()))


def use_store(path: Path) -> None:
    """Read the rows of a reproduction."""
    with Store.open(path):
        pass


Case = tuple[str, bytes, Callable[[Path], object], Callable[[bytes, int], Iterator[bytes]], int]


def cases(folder: Path) -> Iterator[Case]:
    """Yield file names with their contents, what is done with them, how they are damaged, and the price of one."""
    table = make_table()
    small = {"y": table.drop_columns("kind")[:200], "kind": table.drop_columns("y")[:200]}
    rows = {name: write_table(folder / f"{name}.parquet", part, row_group_size=80) for name, part in small.items()}
    machine = TableRegressor(effort="fast", random_state=0)
    models = {
        "regression": (quick_regressor(), "y"),
        "classes": (quick_classifier(), "kind"),
        "machine": (machine, "y"),
    }
    for name, (model, target) in models.items():
        save(model.fit(rows[target], target), folder / "model.skops")
        content, use = (folder / "model.skops").read_bytes(), partial(use_model, rows[target])
        for how in (damaged, damaged_archive, damaged_schema):
            yield f"{name}.skops", content, use, how, PRICES[how]
    yield "t.parquet", rows["y"].read_bytes(), partial(read_table, target="y"), damaged, 4
    text = "\n".join(f"{i % 7},{i * 0.5},{'<a>' if i % 3 else '=b'},2020-01-{i % 28 + 1:02}" for i in range(40))
    yield "t.csv", f"number,other,text,day\n{text}\n".encode(), partial(read_table, target="number"), damaged, 2
    yield from stored_rows(folder)


def stored_rows(folder: Path) -> Iterator[Case]:
    """Yield the files of a reproduction and of a comparison."""
    row = "figure1,digits,mc,16,0,median,1.5,0,p,0.1,0.2,0.3,1.0,0.1,0.1,0.5 0.5,numpy"
    yield "rows.csv", ("\n".join([",".join(NAMES), row, row]) + "\n").encode(), use_store, damaged, 1


def outcome(use: Callable[[Path], object], path: Path) -> str:
    """Return whether a file is read or refused; any other error is raised."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            use(path)
        except ValueError as error:
            if path.name not in str(error):
                raise AssertionError(f"the message does not name the file: {type(error).__name__}: {error}") from error
            return "refused"
    return "read"


def fuzz(case: Case, step: int, folder: Path) -> Counter[str]:
    """Return how often a damaged file was read and refused, and what else has happened."""
    name, content, use, damage, price = case
    path = folder / name
    outcomes: Counter[str] = Counter()
    for variant in damage(content, step * price):
        path.write_bytes(variant)
        signal.alarm(SECONDS_PER_FILE)
        try:
            outcomes[outcome(use, path)] += 1
        except Exception as error:
            outcomes[f"{type(error).__name__}: {str(error)[:200]}"] += 1
            if len(outcomes) < 5:
                (folder / f"failed-{len(outcomes)}-{name}").write_bytes(variant)
        finally:
            signal.alarm(0)
    return outcomes


def fuzz_in_a_process(case: Case, step: int, folder: Path) -> Counter[str]:
    """Return the outcomes of `fuzz`; the process may crash."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(writer, "w") as file:
            file.write(json.dumps(fuzz(case, step, folder)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = file.read()
    _, status = os.waitpid(child, 0)
    return Counter(json.loads(found)) if found else Counter({f"crash, status {status}": 1})


def main() -> int:
    """Fuzz every kind of file and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=4, help="every how many bytes of the cheapest files one changes")
    parser.add_argument("--only", default="", help="a part of the names of files")
    parser.add_argument("--keep", type=Path, help="the folder to write files to")
    options = parser.parse_args()
    totals: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        print("| file | damage | tried | read | refused | other |\n|---|---|---|---|---|---|")
        for case in cases(folder):
            if options.only in case[0]:
                found = fuzz_in_a_process(case, options.step, folder)
                n_other = found.total() - found["read"] - found["refused"]
                how = case[3].__name__.replace("_", " ")
                print(f"| {case[0]} | {how} | {found.total()} | {found['read']} | {found['refused']} | {n_other} |")
                for message, count in found.items():
                    if message not in ("read", "refused"):
                        print(f"    {count} x {message}")
                sys.stdout.flush()
                totals += Counter({"tried": found.total(), "other": n_other})
    print(f"{totals['tried']} files tried, {totals['other']} neither read nor refused by one message")
    return int(totals["other"] > 0)


if __name__ == "__main__":
    sys.exit(main())
