# SPDX-License-Identifier: BSD-3-Clause
"""Parquet and CSV files as streams of rows: read a batch at a time, checked cell by cell, turned into numbers.

A table is read twice at most: `survey` looks at every row once and keeps what a model needs to know beforehand (means,
categories, a sample of rows); `Table.batches` then gives the rows themselves. What is held does not grow with the file.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sklearn.preprocessing import StandardScaler

from bochner.blocks import Array

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EncodedTable", "Encoding", "Survey", "Table", "survey"]

BATCH_ROWS = 32_768
CSV_BLOCK_BYTES = 1 << 22
SAMPLE_ROWS = 20_000  # for the features: ten times what weights are learned from
SAMPLE_BYTES = 1 << 26
MOST_CATEGORIES = 100
MOST_CLASSES = 1000
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
    columns : sequence of str, default=None
        The columns to read, in that order; None means all but the target and the dropped ones.

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
        columns: Sequence[str] | None = None,
    ) -> None:
        self.path = Path(path)
        self._mostly_numbers: set[str] = set()
        self.schema = self._read_schema()
        self.target = target
        named = [target] if target is not None else []
        for name in [*named, *drop, *(columns or [])]:
            if name not in self.schema.names:
                raise ValueError(f"{self.path} has no column {name!r}; its columns are {_listed(self.schema.names)}.")
        chosen = [name for name in self.schema.names if name not in (target, *drop)] if columns is None else columns
        if not chosen:
            raise ValueError(f"{self.path} has no column but {_listed(self.schema.names)}: nothing to predict from.")
        kinds = {name: self._kind(name) for name in [*chosen, *named]}
        self.numeric = [name for name in chosen if kinds[name] == "number"]
        self.text = [name for name in chosen if kinds[name] == "text"]
        self.target_is_text = target is not None and kinds[target] == "text"

    def chunks(self, first_group: int = 0) -> Iterator[Chunk]:
        """The rows in pieces, from the beginning of a group on: a Parquet row group, or a block of a CSV file."""
        columns = [*self.numeric, *self.text, *([] if self.target is None else [self.target])]
        read = self._parquet_chunks if self._is_parquet else self._csv_chunks
        try:
            for chunk in read(columns, first_group):
                self._check_cells(chunk)
                yield chunk
        except (_arrow().ArrowException, OSError) as error:
            self._explain(error)

    @property
    def n_groups(self) -> int | None:
        """The number of groups, if the file tells."""
        return int(self._parquet().num_row_groups) if self._is_parquet else None

    @property
    def n_chunks(self) -> int | None:
        """The number of chunks, if the file tells."""
        if not self._is_parquet:
            return None
        metadata = self._parquet().metadata
        return sum(
            -(-int(metadata.row_group(group).num_rows) // BATCH_ROWS) for group in range(metadata.num_row_groups)
        )

    def target_values(self, chunk: Chunk) -> Array:
        """The targets of a chunk: text, or numbers as the file has them."""
        column = chunk.cells.column(self.target)
        return np.asarray(column.to_pylist()) if self.target_is_text else np.asarray(column.to_numpy(False))

    def fingerprint(self) -> list[str]:
        """What tells this file from another one or a later version of it."""
        status = self.path.stat()
        return [self.path.name, str(status.st_size), str(status.st_mtime_ns), *self.numeric, *self.text]

    @property
    def _is_parquet(self) -> bool:
        return self.path.suffix.lower() == ".parquet"

    def _parquet(self) -> Any:
        from pyarrow import parquet

        return parquet.ParquetFile(self.path, pre_buffer=False)

    def _read_schema(self) -> "pa.Schema":
        pa = _arrow()
        if self.path.suffix.lower() not in (".parquet", ".csv"):
            raise ValueError(f"{self.path} is not a table this command reads; give a .parquet or .csv file.")
        if not self.path.is_file():
            raise ValueError(f"{self.path} {'is a folder, not a file' if self.path.is_dir() else 'does not exist'}.")
        try:
            schema = self._parquet().schema_arrow if self._is_parquet else self._read_csv_schema()
        except (pa.ArrowException, OSError) as error:
            self._explain(error)
        if len(set(schema.names)) < len(schema.names):
            twice = [name for name in schema.names if schema.names.count(name) > 1]
            raise ValueError(f"{self.path} has more than one column named {twice[0]!r}; rename one of them.")
        return schema

    def _read_csv_schema(self) -> "pa.Schema":
        pa = _arrow()
        reader = self._open_csv(None)
        for name, kind in zip(reader.schema.names, reader.schema.types, strict=True):
            if not pa.types.is_string(kind):
                continue
            for cells in islice(self._open_csv(None), 1):
                numbers = pa.compute.match_substring_regex(cells.column(name), NUMBER)
                if 2 * (pa.compute.sum(numbers).as_py() or 0) > cells.num_rows:
                    self._mostly_numbers.add(name)
        return reader.schema

    def _kind(self, name: str) -> str:
        pa = _arrow()
        kind = self.schema.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
        if any(test(kind) for test in tests):
            return "number"
        if any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
            # A slip among numbers does not make a category: reading it as a number says where it is.
            return "number" if name in self._mostly_numbers else "text"
        raise ValueError(f"{self.path}: column {name!r} holds {kind}; make numbers or text of it, or drop it.")

    def _parquet_chunks(self, columns: list[str], first_group: int) -> Iterator[Chunk]:
        file = self._parquet()
        first_row = sum(file.metadata.row_group(group).num_rows for group in range(first_group))
        for group in range(first_group, file.num_row_groups):
            for cells in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns):
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

        pa = _arrow()
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
            if _arrow().types.is_floating(column.type):
                values = np.asarray(column.to_numpy(False))
                if not np.isfinite(values).all():
                    row = int(np.flatnonzero(~np.isfinite(values))[0])
                    self._refuse_cell(chunk.first_row + row, name, f"is {values[row]}")

    def _refuse_cell(self, row: int, name: str, what: str) -> NoReturn:
        raise ValueError(
            f"{self.path}: row {row + 1}, column {name!r} {what}; fill it in, or drop the row or the column."
        )

    def _explain(self, error: Exception) -> NoReturn:
        """Raise one sentence for what pyarrow says, with the row and the column where there are any."""
        said = str(error).splitlines()[0]
        cell = re.search(r"In CSV column #(\d+): Row #(\d+): .*(invalid value .*)", said)
        row = re.search(r"Row #(\d+): (.*)", said)
        if cell:  # pyarrow counts the header as a row
            name = self._csv_names()[int(cell[1])]
            self._refuse_cell(int(cell[2]) - 2, name, f"has the {cell[3]} among numbers")
        if row:
            raise ValueError(f"{self.path}: row {int(row[1]) - 1} is malformed: {row[2]}.") from None
        raise ValueError(f"{self.path} cannot be read as {self.path.suffix[1:]}: {said}.") from None

    def _csv_names(self) -> list[str]:
        return [*self.schema.names]


@dataclass(frozen=True)
class Encoding:
    """How rows of a table become rows of numbers: numeric columns standardised, text columns one column a category.

    Attributes
    ----------
    numeric : list of str
        Columns with numbers.
    categories : dict of str to list of str
        The values of each column with text. A value that is not among them makes zeros.
    mean, scale : ndarray of shape (len(numeric),)
        What is subtracted from numeric columns, and what they are divided by then.
    single : bool
        Whether the numbers are float32.
    """

    numeric: list[str]
    categories: dict[str, list[str]]
    mean: Array
    scale: Array
    single: bool

    @property
    def names(self) -> list[str]:
        """Names of the columns that `encode` makes."""
        return [*self.numeric, *(f"{name}={value}" for name, values in self.categories.items() for value in values)]

    def encode(self, cells: "pa.RecordBatch") -> Array:
        """The cells as an array of numbers."""
        pa = _arrow()
        encoded = np.zeros((cells.num_rows, len(self.names)), dtype=np.float32 if self.single else np.float64)
        for place, name in enumerate(self.numeric):
            column = cells.column(name).to_numpy(False).astype(np.float64)
            encoded[:, place] = (column - self.mean[place]) / self.scale[place]
        first = len(self.numeric)
        for name, values in self.categories.items():
            known = pa.array(values, pa.string())
            codes = pa.compute.index_in(cells.column(name).cast(pa.string()), known).fill_null(-1).to_numpy(False)
            rows = np.flatnonzero(codes >= 0)
            encoded[rows, first + codes[rows]] = 1.0
            first += len(values)
        return encoded


@dataclass(frozen=True)
class EncodedTable:
    """A table whose rows come out as numbers."""

    table: Table
    encoding: Encoding

    def batches(self, first_group: int = 0) -> Iterator[tuple[Chunk, Array]]:
        """Chunks of the table, each with its rows encoded."""
        for chunk in self.table.chunks(first_group):
            yield chunk, self.encoding.encode(chunk.cells)


@dataclass
class Survey:
    """What one look at every row of a table has found so far; `add` takes the next rows."""

    seed: int
    sample_rows: int
    numeric: list[str]
    text: list[str]
    single: bool
    n_rows: int = 0
    scaler: StandardScaler = field(default_factory=StandardScaler)
    categories: dict[str, list[str]] = field(default_factory=dict)
    target_values: list[Any] | None = field(default_factory=list)
    keys: Array = field(default_factory=lambda: np.empty(0))
    sample: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, seed: int) -> "Survey":
        """A survey that has not begun; the seed decides which rows are sampled."""
        # Enough for the features, and not more than some megabytes.
        width = len(table.numeric) + 8 * len(table.text)
        sample_rows = max(1000, min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * width)))
        single = all(str(table.schema.field(name).type) in ("float", "halffloat") for name in table.numeric)
        return cls(seed, sample_rows, table.numeric, table.text, single)

    def add(self, table: Table, chunk: Chunk) -> None:
        """Take the rows of a chunk into account."""
        cells = chunk.cells
        if table.numeric:
            self.scaler.partial_fit(_numbers(cells, table.numeric))
        for name in table.text:
            self._add_categories(table, name, cells.column(name).unique().to_pylist())
        if table.target is not None and self.target_values is not None:
            found = set(self.target_values) | set(np.unique(table.target_values(chunk)).tolist())
            self.target_values = sorted(found) if len(found) <= MOST_CLASSES else None
        self._add_to_sample(cells)
        self.n_rows += cells.num_rows

    def check_not_empty(self, table: Table) -> None:
        """Refuse a table without rows."""
        if not self.n_rows:
            raise ValueError(f"{table.path} has no rows; its columns are {_listed(table.schema.names)}.")

    def _add_categories(self, table: Table, name: str, values: list[str]) -> None:
        found = sorted(set(self.categories.get(name, [])) | set(values))
        if len(found) > MOST_CATEGORIES:
            raise ValueError(
                f"{table.path}: column {name!r} holds text with more than {MOST_CATEGORIES} different values; drop it, "
                f"or make numbers or fewer categories of it."
            )
        self.categories[name] = found

    def _add_to_sample(self, cells: "pa.RecordBatch") -> None:
        """Keep the rows with the smallest of random keys: a uniform sample, however the rows are cut into chunks."""
        # The key of a row depends on the seed and the row's number alone.
        rng = np.random.Generator(np.random.Philox(key=self.seed).advance(self.n_rows // 4))
        skipped = self.n_rows % 4  # Philox makes four numbers at a time
        n_old = len(self.keys)
        keys = np.concatenate([self.keys, rng.random(skipped + cells.num_rows)[skipped:]])
        kept = np.arange(len(keys))
        if len(keys) > self.sample_rows:
            kept = np.sort(np.argpartition(keys, self.sample_rows)[: self.sample_rows])
        self.keys = keys[kept]
        old, taken = kept[kept < n_old], cells.take(_arrow().array(kept[kept >= n_old] - n_old))
        for name in [*self.numeric, *self.text]:
            values = taken.column(name).to_numpy(False)
            self.sample[name] = np.concatenate([self.sample[name][old], values]) if n_old else values

    def cells(self) -> "pa.RecordBatch":
        """The sampled rows, in their order."""
        return _arrow().RecordBatch.from_pydict({name: self.sample[name] for name in [*self.numeric, *self.text]})

    def encoding(self, *, standardise: bool) -> Encoding:
        """How to turn the table's rows into numbers."""
        scaled = standardise and bool(self.numeric)
        return Encoding(
            numeric=self.numeric,
            categories={name: self.categories[name] for name in self.text},
            mean=self.scaler.mean_ if scaled else np.zeros(len(self.numeric)),
            scale=self.scaler.scale_ if scaled else np.ones(len(self.numeric)),
            single=self.single,
        )


def survey(table: Table, seed: int) -> Survey:
    """Look at every row of a table once.

    Parameters
    ----------
    table : Table
        The table.
    seed : int
        Seed of the sample of rows.
    """
    found = Survey.of(table, seed)
    for chunk in table.chunks():
        found.add(table, chunk)
    found.check_not_empty(table)
    return found


def _numbers(cells: "pa.RecordBatch", names: list[str]) -> Array:
    columns = [cells.column(name).to_numpy(False).astype(np.float64) for name in names]
    return np.column_stack(columns) if columns else np.empty((cells.num_rows, 0))


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise ValueError("Reading Parquet and CSV files needs pyarrow: pip install 'bochner[table]'.") from error
    return pyarrow


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return f"{shown} and {len(names) - 20} more" if len(names) > 20 else shown
