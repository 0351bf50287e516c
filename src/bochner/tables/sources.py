# SPDX-License-Identifier: BSD-3-Clause
"""Where the cells of a table are: CSV and Parquet files, which are streamed, and data frames in memory.

The cells of a CSV file are text; all other sources have typed columns.
"""

import gzip
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from glob import glob
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
        The file, folder or pattern; None for a data frame.
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
    """Open a file, a folder of Parquet files, a pattern such as ``data/*.parquet``, or rows in memory."""
    if isinstance(data, Source):
        return data
    if not is_path(data):
        return open_frame(data)
    path = Path(data)
    source = _open_files(path, str(path), encoding)
    source.path = path
    return source


def is_path(data: Any) -> bool:
    """Return whether data are the path of a file."""
    return isinstance(data, str | os.PathLike)


def _open_files(path: Path, label: str, encoding: str) -> Source:
    """Open a file, a folder of Parquet files, or those that match a pattern."""
    name = path.name.lower()
    if _pattern(path) is not None:
        return _opened(lambda: ParquetFiles(_parquet_files(path), label), label, "parquet")
    if not path.is_file():
        raise ValueError(f"{label} does not exist.")
    if name.endswith(".parquet"):
        return _opened(lambda: ParquetFiles([path], label), label, "parquet")
    if name.endswith((".csv", ".csv.gz")):
        return _opened(lambda: CsvFile(path, label, encoding), label, "csv")
    raise ValueError(
        f"{label} has an unsupported file type; give a .parquet, .csv or .csv.gz file, or in Python a data frame."
    )


def _opened(opener: Callable[[], Source], label: str, kind: str) -> Source:
    """Open a source; the errors of a damaged file are reported as one message."""
    try:
        source = opener()
        list(source.schema.names)  # decodes the names
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise ValueError(f"{label} cannot be read as {kind}: {_cause(error)}.") from None
    except (UnicodeError, LookupError) as error:
        problem = str(error) if isinstance(error, LookupError) else "the file is not text of that encoding"
        raise ValueError(f"{label} cannot be read: {problem}; {ENCODING_REMEDY}.") from None
    return source


def _cause(error: Exception) -> str:
    """Return the first line of an error, without the contents of a file that is not text."""
    line = next(iter(str(error).splitlines()), type(error).__name__)
    row = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", line)
    if row:
        line = f"row {int(row[1]) - 1} is malformed: it has {row[3]} cells and the header has {row[2]}"
    line = line.rstrip(".")
    return "".join(character if character.isprintable() else "?" for character in line)[:300]


class ParquetFiles(Source):
    """Parquet files with the same columns: the rows of the first file, then those of the next.

    Numbers of different types become floats, and text of different types strings.

    Parameters
    ----------
    files : list of Path
        The files. Those without rows are left out, because their column types may be unknown.
    label : str
        What messages call the table.
    """

    def __init__(self, files: list[Path], label: str) -> None:
        from pyarrow.parquet import ParquetFile

        schemas, counts = [], []
        for file in files:
            with _named_errors(file, len(files) > 1), ParquetFile(file) as opened:
                schemas.append(opened.schema_arrow)
                groups = range(opened.num_row_groups)
                counts.append([opened.metadata.row_group(group).num_rows for group in groups])
        kept = [i for i, count in enumerate(counts) if sum(count)] or [0]
        self.files = [files[i] for i in kept]
        self.label = label
        self._counts = [counts[i] for i in kept]
        self.row_counts: list[int] = [n_rows for count in self._counts for n_rows in count]
        self.schema = self._common_schema([schemas[i] for i in kept])

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        from pyarrow.parquet import ParquetFile

        for path, counts in zip(self.files, self._counts, strict=True):
            with ParquetFile(path, pre_buffer=False) as file:
                for group in range(len(counts)):
                    yield from file.iter_batches(batch_rows, row_groups=[group], columns=columns)

    def place(self, row: int) -> str:
        for file, counts in zip(self.files, self._counts, strict=True):
            if row < sum(counts):
                return f"{file}: row {row + 1}"
            row -= sum(counts)
        return self.label

    def _common_schema(self, schemas: list[pa.Schema]) -> pa.Schema:
        """Return a schema that all files can be converted to."""
        common = schemas[0]
        for file, schema in zip(self.files[1:], schemas[1:], strict=True):
            for name in sorted({*common.names} ^ {*schema.names}):
                has, lacks = (self.files[0], file) if name in common.names else (file, self.files[0])
                raise ValueError(f"{has} has a column {name!r} and {lacks} has none; give files with the same columns.")
            if common.types != [schema.field(name).type for name in common.names]:
                plain = [
                    pa.schema([(field.name, plain_type(field.type)) for field in part]) for part in (common, schema)
                ]
                try:
                    common = pa.unify_schemas(plain, promote_options="permissive")
                except pa.ArrowException as error:
                    raise ValueError(
                        f"{file} and {self.files[0]} differ: {_cause(error)}; convert one of them."
                    ) from None
        return common


@contextmanager
def _named_errors(file: Path, is_one_of_several: bool) -> Iterator[None]:
    """Name the damaged file of several."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if not is_one_of_several:
            raise
        raise ValueError(f"{file} cannot be read as parquet: {_cause(error)}.") from None


def _pattern(path: Path) -> str | None:
    """Return the pattern that the files of a table match; None for a single file."""
    if path.is_dir():
        return str(path / "*.parquet")
    return str(path) if not path.exists() and any(character in str(path) for character in "*?[") else None


def _listed(path: Path) -> list[Path]:
    """Return the files of a table, in no order."""
    pattern = _pattern(path)
    return [path] if pattern is None else [Path(name) for name in glob(pattern, recursive=True)]


def is_part_of_table(file: Path, path: Path) -> bool:
    """Return whether a table would be read from a file, among others; the file need not exist.

    Examples
    --------
    >>> from pathlib import Path
    >>> from bochner.tables.sources import is_part_of_table
    >>> [is_part_of_table(Path(name), Path("*.parquet")) for name in ("new.parquet", "new.csv")]
    [True, False]
    """
    if file.exists() and any(other.exists() and file.samefile(other) for other in _listed(path)):
        return True
    parent, name = os.path.split(_pattern(path) or "")
    folders = [Path(folder) for folder in glob(parent, recursive=True) or [parent]]
    return fnmatch(file.name, name) and any(folder.exists() and folder.samefile(file.parent) for folder in folders)


def _parquet_files(path: Path) -> list[Path]:
    """Return the files of a folder or a pattern, in natural order: ``part-2`` before ``part-10``."""
    files = _listed(path)
    if not files:
        raise ValueError(
            f"{_pattern(path)} matches no file; give a .parquet file, a folder of them, or a quoted pattern such as "
            f"'data/*.parquet'."
        )
    for file in files:
        if file.suffix.lower() != ".parquet":
            raise ValueError(f"Of several files, only .parquet files are read as one table, not {file}; convert it.")
    return sorted(files, key=lambda file: _natural_key(os.path.abspath(file)))


def _natural_key(name: str) -> list[Any]:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


class CsvFile(Source):
    """A CSV file with a header, read block by block; all its cells are text.

    The separator is a comma, or else the semicolon, tab or bar that the header contains.
    """

    row_counts = None

    def __init__(self, path: Path, label: str, encoding: str) -> None:
        self._file, self.label, self._encoding = path, label, encoding
        self._delimiter = ","
        header = self._header()
        if "," not in header and re.search("[;\t|]", header):
            self._delimiter = max(";\t|", key=header.count)
        elif header.count(";") > header.count(","):
            self._delimiter = ";"  # names such as "price, EUR" between semicolons
        self.schema = self._open().schema
        self.untyped = {*self.schema.names}

    def _header(self) -> str:
        """Return the first line, which names the columns."""
        opener = gzip.open if self._file.suffix == ".gz" else open
        with opener(self._file, "rt", encoding=self._encoding) as file:
            return file.readline(CSV_BLOCK_BYTES)

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
