# SPDX-License-Identifier: BSD-3-Clause
"""Parquet and CSV files as streams of row batches, with every cell checked."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.rows import Array

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Chunk", "Table", "import_pyarrow", "join_names", "plain_schema"]

BATCH_BYTES = 1 << 25  # of encoded rows per batch
CSV_BLOCK_BYTES = 1 << 22
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
MAX_JOINED_NAMES = 20


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a table.

    Attributes
    ----------
    group : int
        Index of the group that the rows belong to: a row group of a Parquet file or a block of a CSV file. An
        interrupted training is resumed at the beginning of a group.
    first_row : int
        Index of the first row in the table.
    cells : RecordBatch
        The cells.
    """

    group: int
    first_row: int
    cells: "pa.RecordBatch"


class Table:
    """A Parquet or CSV file with named columns.

    Parameters
    ----------
    path : str or path
        A ``.parquet`` file, or a ``.csv`` file with a header.
    target : str, default=None
        Name of the column to predict, if there is one.
    drop : sequence of str, default=()
        Names of columns to ignore.
    kinds : dict of str to {"number", "text"}, default=None
        The columns to read, in this order, with the kind that each must have. None reads all columns except the
        target and the dropped ones.

    Attributes
    ----------
    names : list of str
        Names of all columns of the file.
    numeric, text : list of str
        Names of the numeric (or boolean) columns and of the text columns to predict from.
    target_is_text : bool
        Whether the target column contains text.
    batch_rows : int
        Maximum number of rows per chunk of a Parquet file.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        target: str | None = None,
        drop: Sequence[str] = (),
        kinds: dict[str, str] | None = None,
    ) -> None:
        self.path = Path(path)
        self.target = target
        self.schema, self._row_counts = self._open()
        self.names = list(self.schema.names)
        self._check_names([*([] if target is None else [target]), *drop, *(kinds or [])])
        if kinds is None:
            kinds = {name: self._kind(name) for name in self.names if name not in (target, *drop)}
        elif not self._is_csv:  # the cells of a CSV file are converted to these kinds as they are read
            self._check_kinds(kinds)
        if not kinds:
            raise ValueError(
                f"{self.path} has no columns to predict from; besides the target and the dropped columns, at least one "
                f"of {join_names(self.names)} is needed."
            )
        self.numeric = [name for name, kind in kinds.items() if kind == "number"]
        self.text = [name for name, kind in kinds.items() if kind == "text"]
        self.target_is_text = target is not None and self._kind(target) == "text"
        # One-hot encoding makes several columns of a text column; 16 is a guess that bounds the memory of a batch.
        self.batch_rows = max(1024, min(2**17, BATCH_BYTES // (8 * (len(self.numeric) + 16 * len(self.text)))))

    def chunks(self, first_group: int = 0) -> Iterator[Chunk]:
        """Yield the rows in chunks with checked cells, from the beginning of a group on."""
        try:
            yield from map(self.checked, self._csv_chunks(first_group) if self._is_csv else self._chunks(first_group))
        except (import_pyarrow().ArrowException, OSError) as error:
            raise self._read_error(error) from None

    def checked(self, chunk: Chunk) -> Chunk:
        """Return a chunk with plain column types; a missing or infinite cell raises an error that names its row."""
        for name, column in zip(chunk.cells.schema.names, chunk.cells.columns, strict=True):
            if column.null_count:
                row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
                raise self._cell_error(chunk.first_row + row, name, "the value is missing")
            if import_pyarrow().types.is_floating(column.type):
                values = np.asarray(column.to_numpy(False))
                if not np.isfinite(values).all():
                    row = int(np.flatnonzero(~np.isfinite(values))[0])
                    raise self._cell_error(chunk.first_row + row, name, f"the value is {values[row]}")
        return replace(chunk, cells=chunk.cells.cast(plain_schema(chunk.cells.schema)))

    @property
    def columns(self) -> list[str]:
        """Names of the columns to read: numeric columns, text columns, target."""
        return [*self.numeric, *self.text, *([] if self.target is None else [self.target])]

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None for a CSV file, which does not record it."""
        return None if self._row_counts is None else sum(self._row_counts)

    @property
    def n_groups(self) -> int | None:
        """Number of groups; None for a CSV file, which does not record it."""
        return None if self._row_counts is None else len(self._row_counts)

    def n_chunks(self, first_group: int = 0) -> int | None:
        """Return the number of chunks from the beginning of a group on; None for a CSV file."""
        if self._row_counts is None:
            return None
        return sum(-(-n_rows // self.batch_rows) for n_rows in self._row_counts[first_group:])

    def target_values(self, chunk: Chunk) -> Array:
        """Return the targets of a chunk: text, or numbers of the type that the file has."""
        column = chunk.cells.column(self.target)
        return np.asarray(column.to_pylist()) if self.target_is_text else np.asarray(column.to_numpy(False))

    def fingerprint(self) -> list[str]:
        """Return what identifies this version of the table: names, sizes and times of its files, columns and types."""
        statuses = [(path.name, path.stat()) for path in self._paths()]
        files = [f"{name}: {status.st_size} bytes, {status.st_mtime_ns} ns" for name, status in statuses]
        return [*files, *self.numeric, *self.text, str(self.target), str(self.schema.types)]

    @property
    def _is_csv(self) -> bool:
        return self._row_counts is None

    def _paths(self) -> list[Path]:
        """Return the files of the table."""
        return [self.path]

    def _open(self) -> tuple["pa.Schema", list[int] | None]:
        """Return the column types and the number of rows per group; None for a CSV file, which does not record it."""
        suffix = self.path.suffix.lower()
        if suffix not in (".parquet", ".csv"):
            raise ValueError(f"{self.path} has an unsupported file type; give a .parquet or .csv file.")
        if not self.path.is_file():
            raise ValueError(f"{self.path} {'is a folder, not a file' if self.path.is_dir() else 'does not exist'}.")
        try:
            return _open_parquet(self.path) if suffix == ".parquet" else (_infer_csv_schema(self.path), None)
        except (import_pyarrow().ArrowException, OSError) as error:
            raise self._read_error(error) from None
        except UnicodeDecodeError:
            raise ValueError(f"{self.path} is not UTF-8 text; convert the file to UTF-8.") from None

    def _check_names(self, requested: list[str]) -> None:
        """Check that column names are unique and that the requested columns exist."""
        duplicates = [name for name in self.names if self.names.count(name) > 1]
        if duplicates:
            raise ValueError(f"{self.path} has more than one column named {duplicates[0]!r}; rename one of them.")
        if self._is_csv and len(self.names) == 1 and re.search("[;\t|]", self.names[0]):
            raise ValueError(f"{self.path} has a single column, {self.names[0]!r}; separate the columns with commas.")
        for name in requested:
            if name not in self.names:
                raise ValueError(f"{self.path} has no column {name!r}; its columns are {join_names(self.names)}.")

    def _check_kinds(self, expected: dict[str, str]) -> None:
        """Check that the columns have the kinds that a model was fitted on."""
        words = {"number": "numbers", "text": "text"}
        for name, kind in expected.items():
            is_empty = import_pyarrow().types.is_null(self.schema.field(name).type)  # a column without any value
            if self._kind(name) != kind and not is_empty:
                raise ValueError(
                    f"{self.path}: column {name!r} contains {words[self._kind(name)]}, but the model was fitted on "
                    f"{words[kind]}; convert it."
                )

    def _kind(self, name: str) -> str:
        """Return "number" or "text"; a column of any other type raises an error."""
        types = import_pyarrow().types
        column_type = self.schema.field(name).type
        if types.is_dictionary(column_type):
            column_type = column_type.value_type
        numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
        if any(has_kind(column_type) for has_kind in numeric):
            return "number"
        if any(has_kind(column_type) for has_kind in (types.is_string, types.is_large_string, types.is_string_view)):
            return "text"
        if types.is_binary(column_type):
            raise ValueError(
                f"{self.path}: column {name!r} contains bytes that are not UTF-8 text; convert or drop it."
            )
        raise ValueError(
            f"{self.path}: column {name!r} has type {column_type}; convert it to numbers or text, or drop it."
        )

    def _chunks(self, first_group: int) -> Iterator[Chunk]:
        """Yield the rows of a Parquet file."""
        from pyarrow.parquet import ParquetFile

        row_counts = self._row_counts or []
        first_row = sum(row_counts[:first_group])
        with ParquetFile(self.path, pre_buffer=False) as file:
            for group in range(first_group, len(row_counts)):
                for cells in file.iter_batches(self.batch_rows, row_groups=[group], columns=self.columns):
                    yield Chunk(group, first_row, cells)
                    first_row += cells.num_rows

    def _csv_chunks(self, first_group: int) -> Iterator[Chunk]:
        """Yield the rows of a CSV file."""
        pa = import_pyarrow()
        text = [*self.text, *([self.target] if self.target_is_text else [])]
        # Numbers are read as floats: a column of whole numbers in the first block may have fractions in a later one.
        types = {name: pa.string() if name in text else pa.float64() for name in self.columns}
        types |= {name: pa.bool_() for name in types if name not in text and self._is_boolean(name)}
        first_row = 0
        for group, cells in enumerate(_open_csv(self.path, types)):
            if group >= first_group:
                yield Chunk(group, first_row, cells)
            first_row += cells.num_rows

    def _is_boolean(self, name: str) -> bool:
        return bool(self.schema.field(name).type == import_pyarrow().bool_())

    def _place(self, row: int) -> str:
        """Return the file and the number of a row, counted from 1, for an error message."""
        return f"{self.path}: row {row + 1}"

    def _cell_error(self, row: int, name: str, problem: str) -> ValueError:
        return ValueError(f"{self._place(row)}, column {name!r}: {problem}; correct it, or drop the row or the column.")

    def _read_error(self, error: Exception) -> ValueError:
        """Return pyarrow's error as one message, with the row and the column where they are known."""
        message = str(error).splitlines()[0]
        # Pyarrow numbers the rows from 1 and counts the header as a row.
        cell = re.search(r"In CSV column #(\d+): Row #(\d+): .*(invalid value .*)", message)
        if cell:
            name = self.names[int(cell[1])]
            expected = "true or false" if self._is_boolean(name) else "a number"
            return self._cell_error(int(cell[2]) - 2, name, f"{cell[3]}, expected {expected}")
        row = re.search(r"Row #(\d+): (.*)", message)
        if row:
            return ValueError(f"{self._place(int(row[1]) - 2)} is malformed: {row[2]}.")
        return ValueError(f"{self.path} cannot be read as {self.path.suffix[1:]}: {message}.")


def plain_schema(schema: "pa.Schema") -> "pa.Schema":
    """Replace decimal types by float64, and dictionary, large and view types of text by string."""
    pa = import_pyarrow()

    def plain(column_type: Any) -> Any:
        if pa.types.is_dictionary(column_type):
            return plain(column_type.value_type)
        if pa.types.is_decimal(column_type):
            return pa.float64()
        is_text = pa.types.is_large_string(column_type) or pa.types.is_string_view(column_type)
        return pa.string() if is_text else column_type

    return pa.schema([(name, plain(kind)) for name, kind in zip(schema.names, schema.types, strict=True)])


def import_pyarrow() -> Any:
    """Return the module pyarrow, which is an optional dependency."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise ValueError("Reading Parquet and CSV files needs pyarrow: pip install 'bochner[table]'.") from error
    return pyarrow


def join_names(names: Sequence[str]) -> str:
    """Return column names as a list for an error message, shortened if there are many."""
    joined = ", ".join(map(repr, names[:MAX_JOINED_NAMES]))
    n_more = len(names) - MAX_JOINED_NAMES
    return f"{joined} and {n_more} more" if n_more > 0 else joined


def _open_parquet(path: Path) -> tuple["pa.Schema", list[int]]:
    """Return the column types and the number of rows per row group."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        return file.schema_arrow, [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]


def _infer_csv_schema(path: Path) -> "pa.Schema":
    """Return the column types of the first block of a CSV file.

    A text column whose values are mostly numbers counts as numeric, so that reading it reports the row of a typing
    error instead of making categories of all numbers.
    """
    pa = import_pyarrow()
    reader = _open_csv(path)
    schema = reader.schema
    for cells in islice(reader, 1):
        for index, column in enumerate(cells.columns):
            if pa.types.is_string(column.type):
                n_numbers = pa.compute.sum(pa.compute.match_substring_regex(column, NUMBER)).as_py() or 0
                if 2 * n_numbers > cells.num_rows:
                    schema = schema.set(index, schema.field(index).with_type(pa.float64()))
    return schema


def _open_csv(path: Path, types: dict[str, Any] | None = None) -> Any:
    """Open a CSV file for reading block by block: the given columns, or all of them with inferred types."""
    from pyarrow import csv

    return csv.open_csv(
        path,
        # Pyarrow reports the row of an error only with a single thread.
        read_options=csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=types,
            include_columns=None if types is None else list(types),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
