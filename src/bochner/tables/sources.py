# SPDX-License-Identifier: BSD-3-Clause
"""Where the cells of a table are: CSV and Parquet files, which are streamed, and data frames in memory.

The cells of a CSV file are text; all other sources have typed columns.
"""

import gzip
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bochner.rows import row_spans
from bochner.tables.columns import plain_type

CSV_BLOCK_BYTES = 1 << 22
MAX_JOINED_NAMES = 20
NOT_UTF8 = "bytes that are not UTF-8 text"
ENCODING_REMEDY = "give its encoding, such as file_encoding='latin-1'"


class Source(ABC):
    """Batches of rows with named columns.

    Attributes
    ----------
    label : str
        The name of the file, for messages.
    schema : Schema
        The names and types of all columns. Those of a CSV file are those of its first block.
    row_counts : list of int or None
        Number of rows per row group; None for a CSV file, which does not record it.
    untyped : set of str
        The columns whose cells are text, whatever the schema says, and may be numbers or dates.
    path : Path or None
        The file or folder; None for a data frame.
    """

    label: str
    schema: pa.Schema
    row_counts: list[int] | None
    untyped: Collection[str] = ()
    path: Path | None = None

    @abstractmethod
    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield batches of the given columns."""

    def place(self, row: int) -> str:
        """Return the file and the number of a row, counted from 1, for a message."""
        return f"{self.label}: row {row + 1}"

    def read_error(self, error: Exception) -> ValueError:
        """Return pyarrow's error as one message, with the row and the column where they are known."""
        if isinstance(error, ValueError) and not isinstance(error, pa.ArrowException):
            return error
        return ValueError(f"{self.label} cannot be read: {_cause(error)}.")


def open_source(data: Any, encoding: str = "utf-8") -> Source:
    """Open a file, a folder of Parquet files, or rows in memory."""
    if isinstance(data, Source):
        return data
    if not is_path(data):
        return open_frame(data)
    path = Path(data)
    source: Source
    if path.is_dir() or (path.is_file() and path.name.lower().endswith(".parquet")):
        source = ParquetFiles(path)
    elif not path.is_file():
        raise ValueError(f"{path} does not exist.")
    elif path.name.lower().endswith((".csv", ".csv.gz")):
        source = CsvFile(path, encoding)
    else:
        raise ValueError(
            f"{path} has an unsupported file type; give a .parquet, .csv or .csv.gz file, a folder of .parquet files, "
            f"or in Python a data frame."
        )
    source.path = path
    return source


def is_path(data: Any) -> bool:
    """Return whether data are the path of a file."""
    return isinstance(data, str | os.PathLike)


def _files(path: Path) -> list[Path]:
    """Return the files of a table, those of a folder in natural order: ``part-2`` before ``part-10``."""
    if not path.is_dir():
        return [path]
    return sorted(path.glob("*.parquet"), key=lambda file: re.sub(r"\d+", lambda found: found[0].zfill(20), file.name))


def is_part_of_table(file: Path, path: Path) -> bool:
    """Return whether a table would be read from a file, among others; the file need not exist.

    Examples
    --------
    >>> from pathlib import Path
    >>> from bochner.tables.sources import is_part_of_table
    >>> [is_part_of_table(Path(name), Path(".")) for name in ("new.parquet", "new.csv")]
    [True, False]
    """
    if file.exists() and any(other.exists() and file.samefile(other) for other in _files(path)):
        return True
    return path.is_dir() and file.suffix == ".parquet" and file.parent.samefile(path)


def _cause(error: Exception) -> str:
    """Return the first line of an error, without the contents of a file that is not text."""
    line = next(iter(str(error).splitlines()), type(error).__name__)
    row = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", line)
    if row:
        line = f"row {int(row[1]) - 1} is malformed: it has {row[3]} cells and the header has {row[2]}"
    line = line.rstrip(".")
    return "".join(character if character.isprintable() else "?" for character in line)[:300]


class ParquetFiles(Source):
    """A Parquet file, or the files of a folder, which have the same columns: the rows of the first file, then the next.

    Numbers of different types become floats, and text of different types strings. Files without rows are left out,
    because their column types may be unknown.
    """

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        opened = [_read_footer(file) for file in _files(path)]
        if not opened:
            raise ValueError(f"{path} has no .parquet files; give a .parquet file or a folder of them.")
        self._parts = [part for part in opened if sum(part[2])] or opened[:1]
        self.row_counts: list[int] = [n_rows for part in self._parts for n_rows in part[2]]
        self.schema = self._parts[0][1]
        for file, schema, _ in self._parts[1:]:
            self.schema = self._common_schema(file, schema)

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        from pyarrow.parquet import ParquetFile

        for path, _, counts in self._parts:
            with ParquetFile(path, pre_buffer=False) as file:
                for group in range(len(counts)):
                    yield from file.iter_batches(batch_rows, row_groups=[group], columns=columns)

    def place(self, row: int) -> str:
        for file, _, counts in self._parts:
            if row < sum(counts):
                return f"{file}: row {row + 1}"
            row -= sum(counts)
        return self.label

    def _common_schema(self, file: Path, schema: pa.Schema) -> pa.Schema:
        """Return a schema that the files so far and another one can be converted to."""
        common, first = self.schema, self._parts[0][0]
        for name in sorted({*common.names} ^ {*schema.names}):
            has, lacks = (first, file) if name in common.names else (file, first)
            raise ValueError(f"{has} has a column {name!r} and {lacks} has none; give files with the same columns.")
        if common.types == [schema.field(name).type for name in common.names]:
            return common
        plain = [pa.schema([(field.name, plain_type(field.type)) for field in part]) for part in (common, schema)]
        try:
            return pa.unify_schemas(plain, promote_options="permissive")
        except pa.ArrowException as error:
            raise ValueError(f"{file} and {first} differ: {_cause(error)}; convert one of them.") from None


def _read_footer(file: Path) -> tuple[Path, pa.Schema, list[int]]:
    """Return a Parquet file with its schema and the numbers of rows of its row groups."""
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(file) as opened:
            counts = [opened.metadata.row_group(group).num_rows for group in range(opened.num_row_groups)]
            list(opened.schema_arrow.names)  # decodes the names
            return file, opened.schema_arrow, counts
    except (pa.ArrowException, OSError, MemoryError, UnicodeError) as error:
        raise ValueError(f"{file} cannot be read as parquet: {_cause(error)}.") from None


class CsvFile(Source):
    """A CSV file with a header, read block by block; all its cells are text.

    The separator is a comma, or else the semicolon, tab or bar that the header contains.
    """

    row_counts = None

    def __init__(self, path: Path, encoding: str) -> None:
        self._file, self.label, self._encoding = path, str(path), encoding
        try:
            self._delimiter = self._find_delimiter()
            self.schema = self._open().schema
            self.untyped = {*self.schema.names}
        except LookupError as error:
            raise ValueError(f"{path} cannot be read: {error}; {ENCODING_REMEDY}.") from None
        except (pa.ArrowException, OSError, EOFError, MemoryError, UnicodeError) as error:
            raise self.read_error(error) from None

    def _find_delimiter(self) -> str:
        """Return what separates the names of the columns in the first line."""
        opener = gzip.open if self._file.suffix == ".gz" else open
        with opener(self._file, "rt", encoding=self._encoding) as file:
            header = file.readline(CSV_BLOCK_BYTES)
        if header.count(";") > header.count(","):
            return ";"  # also between names such as "price, EUR"
        return "," if "," in header else max(",\t|", key=header.count)

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        del batch_rows
        yield from self._open(columns)

    def read_error(self, error: Exception) -> ValueError:
        cell = re.search(r"In CSV column #(\d+): Row #(\d+): .*invalid UTF8", str(error))
        if cell:  # pyarrow numbers the rows from 1 and counts the header as a row
            return ValueError(
                f"{self.place(int(cell[2]) - 2)}, column {self.schema.names[int(cell[1])]!r}: the cell contains "
                f"{NOT_UTF8}; {ENCODING_REMEDY}."
            )
        if isinstance(error, UnicodeError):
            return ValueError(f"{self.label} cannot be read as {self._encoding} text; {ENCODING_REMEDY}.")
        return super().read_error(error)

    def _open(self, columns: list[str] | None = None) -> Any:
        """Open the file: the given columns as text, or all of them with inferred types."""
        from pyarrow import csv, string

        # Pyarrow reports the rows of errors only with a single thread.
        read = csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False, encoding=self._encoding)
        parse = csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        convert = csv.ConvertOptions(
            column_types=None if columns is None else dict.fromkeys(columns, string()),
            include_columns=columns,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return csv.open_csv(self._file, read, parse, convert)


class Frame(Source):
    """Rows in memory; `untyped` are the columns of mixed objects, which have become text."""

    def __init__(self, table: pa.Table, label: str, untyped: Collection[str] = ()) -> None:
        self.table, self.label, self.untyped = table, label, untyped
        self.schema = table.schema
        self.row_counts: list[int] = [table.num_rows] if table.num_rows else []

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        selected = self.table.select(columns)
        for rows in row_spans(self.table.num_rows, batch_rows):
            yield selected.slice(rows.start, rows.stop - rows.start).combine_chunks().to_batches()[0]


def is_frame(data: Any) -> bool:
    """Return whether data are a table: pandas, polars (lazy too), Arrow, or anything that exports an Arrow stream."""
    if type(data).__module__.startswith("polars") and hasattr(data, "collect"):
        return True  # without a look at its columns, which would be computed
    is_stream = hasattr(data, "__arrow_c_stream__") or hasattr(data, "iloc")
    has_columns = any(hasattr(data, name) for name in ("columns", "column_names", "schema"))
    return (is_stream and has_columns) or hasattr(data, "num_columns")  # the last one is a record batch


def open_frame(data: Any, label: str = "the table") -> Frame:
    """Open rows in memory; `label` is what messages call them."""
    if not is_frame(data):
        raise ValueError(
            f"Expected a path, a pandas or polars data frame or an Arrow table. Got {type(data).__name__} instead."
        )
    if hasattr(data, "iloc"):
        columns = (data.iloc[:, index] for index in range(data.shape[1]))
        return frame_of_columns([str(name) for name in data.columns], columns, label)
    if hasattr(data, "collect"):
        data = data.collect()
    if isinstance(data, pa.RecordBatch):
        return Frame(pa.Table.from_batches([data]), label)
    return Frame(data.to_arrow() if hasattr(data, "to_arrow") else pa.table(data), label)


def frame_of_columns(names: Sequence[str], columns: Iterable[Any], label: str) -> Frame:
    """Return pandas series or numpy arrays as a table; those of mixed objects become text."""
    arrays, mixed = [], set()
    for name, values in zip(names, columns, strict=True):
        try:
            arrays.append(pa.array(values, from_pandas=True))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            missing = (
                values.isna() if hasattr(values, "isna") else [value is None or value != value for value in values]
            )
            texts = [None if is_missing else str(value) for value, is_missing in zip(values, missing, strict=True)]
            arrays.append(pa.array(texts, pa.string()))
            mixed.add(name)
    return Frame(pa.table(arrays, list(names)), label, mixed)


def join_names(names: Sequence[str]) -> str:
    """Return column names as a list for an error message, shortened if there are many."""
    joined = ", ".join(map(repr, names[:MAX_JOINED_NAMES]))
    n_more = len(names) - MAX_JOINED_NAMES
    return f"{joined} and {n_more} more" if n_more > 0 else joined
