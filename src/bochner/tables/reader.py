# SPDX-License-Identifier: BSD-3-Clause
"""Parquet and CSV files as streams of rows: read a batch at a time, checked cell by cell."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from bochner.rows import Array

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Chunk", "Table", "arrow", "listed", "plain_schema"]

BATCH_BYTES = 1 << 25  # cells that are read at a time
CSV_BLOCK_BYTES = 1 << 22
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


@dataclass(frozen=True)
class Chunk:
    """Some consecutive rows: the group they belong to (the unit of resuming), the first one's number, the cells."""

    group: int
    first_row: int
    cells: "pa.RecordBatch"


class Table:
    """A Parquet or CSV file with named columns.

    Parameters
    ----------
    path : str or path
        A ``.parquet`` or ``.csv`` file; a CSV file has a header.
    target : str, default=None
        The column to predict, if there is one.
    drop : sequence of str, default=()
        Columns to leave out.
    kinds : dict of str to {"number", "text"}, default=None
        The columns to read, in that order, and what they must hold; None means all but the target and the dropped
        ones, as they are.

    Attributes
    ----------
    numeric, text : list of str
        The columns with numbers (or booleans), and those with text, which are categories.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        target: str | None = None,
        drop: Sequence[str] = (),
        kinds: dict[str, str] | None = None,
    ) -> None:
        self.path = Path(path)
        self._mostly_numbers: set[str] = set()
        self.schema = self._read_schema()
        self.names = self._read_names()
        self.target = target
        for name in [*([] if target is None else [target]), *drop, *(kinds or [])]:
            if name not in self.names:
                raise ValueError(f"{self.path} has no column {name!r}; its columns are {listed(self.names)}.")
        if kinds is None:
            kinds = {name: self._kind(name) for name in self.names if name not in (target, *drop)}
        elif self._is_parquet:
            self._check_kinds(kinds)
        if not kinds:
            raise ValueError(f"{self.path} has no column but {listed(self.names)}: nothing to predict from.")
        self.numeric = [name for name, kind in kinds.items() if kind == "number"]
        self.text = [name for name, kind in kinds.items() if kind == "text"]
        self.target_is_text = target is not None and self._kind(target) == "text"
        # A category is a column, and a column with text has some.
        self.batch_rows = max(1024, min(2**17, BATCH_BYTES // (8 * (len(self.numeric) + 16 * len(self.text)))))

    def chunks(self, first_group: int = 0) -> Iterator[Chunk]:
        """The rows in pieces, from the beginning of a group on: a Parquet row group, or a block of a CSV file."""
        read = self._parquet_chunks if self._is_parquet else self._csv_chunks
        try:
            yield from map(self.checked, read(self.columns, first_group))
        except (arrow().ArrowException, OSError) as error:
            self._explain(error)

    def checked(self, chunk: Chunk) -> Chunk:
        """A chunk whose cells are all there and finite, as plain numbers and text."""
        self._check_cells(chunk)
        return replace(chunk, cells=chunk.cells.cast(plain_schema(chunk.cells.schema)))

    @property
    def columns(self) -> list[str]:
        """The columns that are read: those with numbers, those with text, the target."""
        return [*self.numeric, *self.text, *([] if self.target is None else [self.target])]

    @property
    def n_rows(self) -> int | None:
        """The number of rows, if the file tells."""
        return int(self._parquet().metadata.num_rows) if self._is_parquet else None

    @property
    def n_groups(self) -> int | None:
        """The number of groups, if the file tells."""
        return int(self._parquet().num_row_groups) if self._is_parquet else None

    def n_chunks(self, first_group: int = 0) -> int | None:
        """The number of chunks from the beginning of a group on, if the file tells."""
        if not self._is_parquet:
            return None
        metadata = self._parquet().metadata
        return sum(
            -(-int(metadata.row_group(group).num_rows) // self.batch_rows)
            for group in range(first_group, metadata.num_row_groups)
        )

    def target_values(self, chunk: Chunk) -> Array:
        """The targets of a chunk: text, or numbers as the file has them."""
        column = chunk.cells.column(self.target)
        return np.asarray(column.to_pylist()) if self.target_is_text else np.asarray(column.to_numpy(False))

    def fingerprint(self) -> list[str]:
        """What tells this file from another one or a later version of it."""
        status = self.path.stat()
        columns = [*self.numeric, *self.text, self.target]
        return [
            self.path.name,
            str(status.st_size),
            str(status.st_mtime_ns),
            *map(str, columns),
            str(self.schema.types),
        ]

    @property
    def _is_parquet(self) -> bool:
        return self.path.suffix.lower() == ".parquet"

    def _parquet(self) -> Any:
        from pyarrow import parquet

        return parquet.ParquetFile(self.path, pre_buffer=False)

    def _read_schema(self) -> "pa.Schema":
        pa = arrow()
        if self.path.suffix.lower() not in (".parquet", ".csv"):
            raise ValueError(f"{self.path} is not a table that can be read; give a .parquet or .csv file.")
        if not self.path.is_file():
            raise ValueError(f"{self.path} {'is a folder, not a file' if self.path.is_dir() else 'does not exist'}.")
        try:
            schema = self._parquet().schema_arrow if self._is_parquet else self._read_csv_schema()
        except (pa.ArrowException, OSError) as error:
            self._explain(error)
        except UnicodeDecodeError:
            raise ValueError(f"{self.path} is not UTF-8 text; convert it.") from None
        return schema

    def _read_names(self) -> list[str]:
        names = list(self.schema.names)
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"{self.path} has more than one column named {twice[0]!r}; rename one of them.")
        if not self._is_parquet and len(names) == 1 and re.search("[;\t|]", names[0]):
            raise ValueError(f"{self.path} has one column only, {names[0]!r}; separate the columns with commas.")
        return names

    def _read_csv_schema(self) -> "pa.Schema":
        pa = arrow()
        reader = self._open_csv(None)
        for cells in islice(reader, 1):
            for name, column in zip(cells.schema.names, cells.columns, strict=True):
                if pa.types.is_string(column.type):
                    numbers = pa.compute.match_substring_regex(column, NUMBER)
                    if 2 * (pa.compute.sum(numbers).as_py() or 0) > cells.num_rows:
                        self._mostly_numbers.add(name)
        return reader.schema

    def _check_kinds(self, kinds: dict[str, str]) -> None:
        for name, wanted in kinds.items():
            if self._kind(name) != wanted:
                found = {"number": "numbers", "text": "text"}
                raise ValueError(
                    f"{self.path}: column {name!r} holds {found[self._kind(name)]}, and the model was trained on "
                    f"{found[wanted]}."
                )

    def _kind(self, name: str) -> str:
        pa = arrow()
        kind = self.schema.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
        if any(test(kind) for test in tests):
            return "number"
        if any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
            # A slip among numbers does not make a category: reading it as a number says where it is.
            return "number" if name in self._mostly_numbers else "text"
        if pa.types.is_binary(kind) and not self._is_parquet:
            raise ValueError(f"{self.path}: column {name!r} is not UTF-8 text; convert the file.")
        raise ValueError(f"{self.path}: column {name!r} holds {kind}; make numbers or text of it, or drop it.")

    def _parquet_chunks(self, columns: list[str], first_group: int) -> Iterator[Chunk]:
        file = self._parquet()
        first_row = sum(file.metadata.row_group(group).num_rows for group in range(first_group))
        for group in range(first_group, file.num_row_groups):
            for cells in file.iter_batches(self.batch_rows, row_groups=[group], columns=columns):
                yield Chunk(group, first_row, cells)
                first_row += cells.num_rows

    def _csv_chunks(self, columns: list[str], first_group: int) -> Iterator[Chunk]:
        first_row = 0
        for group, cells in enumerate(self._open_csv(columns)):
            if group >= first_group:
                yield Chunk(group, first_row, cells)
            first_row += cells.num_rows

    def _open_csv(self, columns: list[str] | None) -> Any:
        from pyarrow import csv

        pa = arrow()
        types = None
        if columns is not None:
            # Types are guessed from the first block; a later 0.5 must not break a column that began with whole numbers.
            numeric = [*self.numeric, *([self.target] if self.target and not self.target_is_text else [])]
            types = {name: pa.float64() if name in numeric else pa.string() for name in columns}
            types |= {name: pa.bool_() for name in numeric if self.schema.field(name).type == pa.bool_()}
        return csv.open_csv(
            self.path,
            # One thread knows the number of a row that is malformed.
            read_options=csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=types, include_columns=columns, strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )

    def _check_cells(self, chunk: Chunk) -> None:
        """Refuse missing and infinite cells with the first one's place."""
        for name, column in zip(chunk.cells.schema.names, chunk.cells.columns, strict=True):
            if column.null_count:
                row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
                self._refuse_cell(chunk.first_row + row, name, "is missing")
            if arrow().types.is_floating(column.type):
                values = np.asarray(column.to_numpy(False))
                if not np.isfinite(values).all():
                    row = int(np.flatnonzero(~np.isfinite(values))[0])
                    self._refuse_cell(chunk.first_row + row, name, f"is {values[row]}")

    def _refuse_cell(self, row: int, name: str, what: str) -> NoReturn:
        raise ValueError(f"{self._place(row)}, column {name!r} {what}; fill it in, or drop the row or the column.")

    def _place(self, row: int) -> str:
        return f"{self.path}: row {row + 1}"

    def _explain(self, error: Exception) -> NoReturn:
        """Raise one sentence for what pyarrow says, with the row and the column where there are any."""
        said = str(error).splitlines()[0]
        cell = re.search(r"In CSV column #(\d+): Row #(\d+): .*(invalid value .*)", said)
        row = re.search(r"Row #(\d+): (.*)", said)
        if cell:  # pyarrow counts the header as a row
            name = self.names[int(cell[1])]
            others = "true and false" if self.schema.field(name).type == arrow().bool_() else "numbers"
            self._refuse_cell(int(cell[2]) - 2, name, f"has the {cell[3]} among {others}")
        if row:
            raise ValueError(f"{self.path}: row {int(row[1]) - 1} is malformed: {row[2]}.") from None
        raise ValueError(f"{self.path} cannot be read as {self.path.suffix[1:]}: {said}.") from None


def plain_schema(schema: "pa.Schema") -> "pa.Schema":
    """Decimals as floats and all kinds of text as strings: what the rest can work with."""
    pa = arrow()

    def plain(kind: Any) -> Any:
        if pa.types.is_dictionary(kind):
            return plain(kind.value_type)
        if pa.types.is_decimal(kind):
            return pa.float64()
        return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind

    return pa.schema([(name, plain(kind)) for name, kind in zip(schema.names, schema.types, strict=True)])


def arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise ValueError("Reading Parquet and CSV files needs pyarrow: pip install 'bochner[table]'.") from error
    return pyarrow


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return f"{shown} and {len(names) - 20} more" if len(names) > 20 else shown
