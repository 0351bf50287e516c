# SPDX-License-Identifier: BSD-3-Clause
"""Parquet and CSV files as streams of rows: read a batch at a time, checked cell by cell, turned into numbers.

`survey` looks at every row once and keeps what a model needs to know beforehand (means, categories, a sample of rows);
`EncodedTable.batches` then gives the rows as numbers. What is held does not grow with the file.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.preprocessing._data import _handle_zeros_in_scale, _is_constant_feature

from bochner.blocks import Array

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EncodedTable", "Encoding", "Sample", "Survey", "Table", "plain_schema", "survey"]

BATCH_BYTES = 1 << 25  # cells that are read at a time
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
                raise ValueError(f"{self.path} has no column {name!r}; its columns are {_listed(self.names)}.")
        if kinds is None:
            kinds = {name: self._kind(name) for name in self.names if name not in (target, *drop)}
        elif self._is_parquet:
            self._check_kinds(kinds)
        if not kinds:
            raise ValueError(f"{self.path} has no column but {_listed(self.names)}: nothing to predict from.")
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
        except (_arrow().ArrowException, OSError) as error:
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
        pa = _arrow()
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
        pa = _arrow()
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
            if _arrow().types.is_floating(column.type):
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
            others = "true and false" if self.schema.field(name).type == _arrow().bool_() else "numbers"
            self._refuse_cell(int(cell[2]) - 2, name, f"has the {cell[3]} among {others}")
        if row:
            raise ValueError(f"{self.path}: row {int(row[1]) - 1} is malformed: {row[2]}.") from None
        raise ValueError(f"{self.path} cannot be read as {self.path.suffix[1:]}: {said}.") from None


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

    def open(self, path: str | PathLike[str], target: str | None = None) -> "EncodedTable":
        """Another table with the same columns."""
        kinds = dict.fromkeys(self.numeric, "number") | dict.fromkeys(self.categories, "text")
        return EncodedTable(Table(path, target, kinds=kinds), self)

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
            codes = pa.compute.index_in(cells.column(name), known).fill_null(-1).to_numpy(False)
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
class Sample:
    """A uniform sample of the rows of a table, however they are cut into chunks; `add` takes the next rows.

    One that begins within the table has the number of rows before it as `n_rows`; `merged` puts neighbours together.
    """

    seed: int
    size: int
    numeric: list[str]
    text: list[str]
    n_rows: int = 0
    keys: Array = field(default_factory=lambda: np.empty(0))
    columns: dict[str, Any] = field(default_factory=dict)
    targets: Array = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, table: Table, seed: int, first_row: int = 0) -> "Sample":
        """No rows yet; the seed decides which ones it will be."""
        # Enough for the features, and not more than some megabytes.
        width = len(table.numeric) + 8 * len(table.text)
        size = max(1000, min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * width)))
        return cls(seed, size, table.numeric, table.text, first_row)

    def add(self, cells: "pa.RecordBatch", targets: Array | None = None) -> None:
        """Keep the rows with the smallest of random keys, and their targets."""
        # The key of a row depends on the seed and the row's number alone.
        rng = np.random.Generator(np.random.Philox(key=self.seed).advance(self.n_rows // 4))
        skipped = self.n_rows % 4  # Philox makes four numbers at a time
        n_old = len(self.keys)
        keys = np.concatenate([self.keys, rng.random(skipped + cells.num_rows)[skipped:]])
        kept = _smallest(keys, self.size)
        self.keys = keys[kept]
        old, taken = kept[kept < n_old], cells.take(_arrow().array(kept[kept >= n_old] - n_old))
        for name in [*self.numeric, *self.text]:
            values = taken.column(name).to_numpy(False)
            self.columns[name] = np.concatenate([self.columns[name][old], values]) if n_old else values
        if targets is not None:
            chosen = targets[kept[kept >= n_old] - n_old]
            self.targets = np.concatenate([self.targets[old], chosen]) if n_old else chosen
        self.n_rows += cells.num_rows

    def merged(self, following: "Sample") -> "Sample":
        """One sample of two: `following` has begun at the row after the last one of this."""
        keys = np.concatenate([self.keys, following.keys])
        kept = _smallest(keys, self.size)
        columns = {name: np.concatenate([self.columns[name], following.columns[name]])[kept] for name in self.columns}
        targets = np.concatenate([self.targets, following.targets])
        targets = targets[kept] if len(targets) else targets
        return replace(self, n_rows=following.n_rows, keys=keys[kept], columns=columns, targets=targets)

    def cells(self) -> "pa.RecordBatch":
        """The sampled rows, in their order."""
        return _arrow().RecordBatch.from_pydict(self.columns)


@dataclass
class Survey:
    """What one look at every row of a table has found so far; `add` takes the next rows."""

    sample: Sample
    single: bool
    scaler: StandardScaler = field(default_factory=StandardScaler)
    categories: dict[str, list[str]] = field(default_factory=dict)
    target_values: list[Any] | None = field(default_factory=list)

    @classmethod
    def of(cls, table: Table, seed: int, first_row: int = 0) -> "Survey":
        """A survey that has not begun, of the rows from the first one on; the seed decides which are sampled."""
        single = all(str(table.schema.field(name).type) in ("float", "halffloat") for name in table.numeric)
        return cls(Sample.of(table, seed, first_row), single)

    @property
    def n_rows(self) -> int:
        """How many rows of the table there were, up to the last one seen."""
        return self.sample.n_rows

    def add(self, table: Table, chunk: Chunk) -> None:
        """Take the rows of a chunk into account."""
        cells = chunk.cells
        if table.numeric:
            self.scaler.partial_fit(_numbers(cells, table.numeric))
        for name in table.text:
            self._add_categories(table, name, cells.column(name).unique().to_pylist())
        targets = None if table.target is None else table.target_values(chunk)
        if targets is not None and self.target_values is not None:
            self._add_target_values(np.unique(targets).tolist())
        self.sample.add(cells, targets)

    def merged(self, table: Table, following: "Survey") -> "Survey":
        """One survey of two: `following` has begun at the row after the last one of this."""
        scaler = _merged_scaler(self.scaler, following.scaler) if table.numeric else self.scaler
        both = replace(
            self, sample=self.sample.merged(following.sample), scaler=scaler, categories=dict(self.categories)
        )
        for name in table.text:
            both._add_categories(table, name, following.categories[name])
        both._add_target_values(following.target_values)
        return both

    def check_not_empty(self, table: Table) -> None:
        """Refuse a table without rows."""
        if not self.n_rows:
            raise ValueError(f"{table.path} has no rows; its columns are {_listed(table.names)}.")

    def _add_target_values(self, values: list[Any] | None) -> None:
        """Take different targets into account; None stands for too many."""
        found = None if self.target_values is None or values is None else {*self.target_values, *values}
        self.target_values = None if found is None or len(found) > MOST_CLASSES else sorted(found)

    def _add_categories(self, table: Table, name: str, values: list[str]) -> None:
        found = sorted(set(self.categories.get(name, [])) | set(values))
        if len(found) > MOST_CATEGORIES:
            raise ValueError(
                f"{table.path}: column {name!r} holds text with more than {MOST_CATEGORIES} different values; drop it, "
                f"or make numbers or fewer categories of it."
            )
        self.categories[name] = found

    def classes(self, table: Table) -> list[Any]:
        """The different targets, for a classification; a quantity is refused."""
        place = f"{table.path}: column {table.target!r}"
        if self.target_values is None:
            raise ValueError(
                f"{place} has more than {MOST_CLASSES} different values, too many for classes; make it a regression."
            )
        if not isinstance(self.target_values[0], float):
            return self.target_values
        if not all(value.is_integer() for value in self.target_values):
            raise ValueError(f"{place} holds numbers that are not whole, which are no classes; make it a regression.")
        return [int(value) for value in self.target_values]  # a CSV file's whole numbers come as floats

    def encoding(self, *, standardise: bool) -> Encoding:
        """How to turn the table's rows into numbers."""
        numeric = self.sample.numeric
        scaled = standardise and bool(numeric)
        return Encoding(
            numeric=numeric,
            categories={name: self.categories[name] for name in self.sample.text},
            mean=self.scaler.mean_ if scaled else np.zeros(len(numeric)),
            scale=self.scaler.scale_ if scaled else np.ones(len(numeric)),
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
    return np.column_stack([cells.column(name).to_numpy(False).astype(np.float64) for name in names])


def _smallest(keys: Array, size: int) -> Array:
    """Where the smallest keys are, in order; all if there are not more than `size`."""
    return np.sort(np.argpartition(keys, size)[:size]) if len(keys) > size else np.arange(len(keys))


def _merged_scaler(left: StandardScaler, right: StandardScaler) -> StandardScaler:
    """The scaler of the rows of two, by the formula of Chan, Golub and LeVeque."""
    n_rows = left.n_samples_seen_ + right.n_samples_seen_
    share = right.n_samples_seen_ / n_rows
    distance = right.mean_ - left.mean_
    both = StandardScaler()
    both.n_samples_seen_ = n_rows
    both.mean_ = left.mean_ + share * distance
    both.var_ = (1.0 - share) * left.var_ + share * right.var_ + share * (1.0 - share) * distance**2
    constant = _is_constant_feature(both.var_, both.mean_, n_rows)
    both.scale_ = _handle_zeros_in_scale(np.sqrt(both.var_), constant_mask=constant)
    return both


def plain_schema(schema: "pa.Schema") -> "pa.Schema":
    """Decimals as floats and all kinds of text as strings: what the rest can work with."""
    pa = _arrow()

    def plain(kind: Any) -> Any:
        if pa.types.is_dictionary(kind):
            return plain(kind.value_type)
        if pa.types.is_decimal(kind):
            return pa.float64()
        return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind

    return pa.schema([(name, plain(kind)) for name, kind in zip(schema.names, schema.types, strict=True)])


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
