# SPDX-License-Identifier: BSD-3-Clause
"""Tables as streams of row batches: CSV and Parquet files, data frames in memory, and which of their columns are read.

A `Source` is where the cells are: text in a CSV file, typed columns everywhere else. A `Table` is a source with the
columns to read and what is known about them.
"""

import gzip
import os
import re
from abc import ABC, abstractmethod
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bochner.progress import progress_bar
from bochner.tables.columns import KINDS, Reading, plain_type, storage_of, without_marks

CSV_BLOCK_BYTES = 1 << 22
MAX_JOINED_NAMES = 20
NOT_UTF8 = "bytes that are not UTF-8 text"
ENCODING_REMEDY = "give its encoding, such as file_encoding='cp1252'"
PLAIN_READING = Reading()
BATCH_BYTES = 1 << 25  # of encoded rows per batch
MAX_PROBLEMS = 20


class Source(ABC):
    """Batches of rows with named columns.

    Attributes
    ----------
    label : str
        The name of the file, for messages.
    schema : Schema
        The names and types of all columns. Those of a CSV file are those of its first block.
    n_rows : int or None
        Number of rows; None for a CSV file, which does not record it.
    untyped : set of str
        The columns whose cells are text, whatever the schema says, and may be numbers or dates.
    path : Path or None
        The file or folder; None for a data frame.
    """

    label: str
    schema: pa.Schema
    n_rows: int | None
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
        known = "a .parquet, .csv or .csv.gz file, a folder of .parquet files, or in Python a data frame"
        raise ValueError(f"{path} has an unsupported file type; give {known}.")
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
    >>> from bochner.tables.reader import is_part_of_table
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
        self._parts = [part for part in opened if part[2]] or opened[:1]
        self.n_rows: int = sum(n_rows for _, _, n_rows in self._parts)
        self.schema = self._parts[0][1]
        for file, schema, _ in self._parts[1:]:
            self.schema = self._common_schema(file, schema)

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        from pyarrow.parquet import ParquetFile

        for path, _, _ in self._parts:
            with ParquetFile(path, pre_buffer=False) as file:
                yield from file.iter_batches(batch_rows, columns=columns)

    def place(self, row: int) -> str:
        for file, _, n_rows in self._parts:
            if row < n_rows:
                return f"{file}: row {row + 1}"
            row -= n_rows
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


def _read_footer(file: Path) -> tuple[Path, pa.Schema, int]:
    """Return a Parquet file with its schema and number of rows."""
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(file) as opened:
            list(opened.schema_arrow.names)  # decodes the names
            return file, opened.schema_arrow, opened.metadata.num_rows
    except (pa.ArrowException, OSError, MemoryError, UnicodeError) as error:
        raise ValueError(f"{file} cannot be read as parquet: {_cause(error)}.") from None


class CsvFile(Source):
    """A CSV file with a header, read block by block; all its cells are text.

    The separator is a comma, or else the semicolon, tab or bar that the header contains.
    """

    n_rows = None

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
            place = f"{self.place(int(cell[2]) - 2)}, column {self.schema.names[int(cell[1])]!r}"
            return ValueError(f"{place}: the cell contains {NOT_UTF8}; {ENCODING_REMEDY}.")
        if isinstance(error, UnicodeError):
            is_utf16 = getattr(error, "object", b"")[:2] in (BOM_UTF16_LE, BOM_UTF16_BE)
            remedy = ENCODING_REMEDY.replace("cp1252", "utf-16") if is_utf16 else ENCODING_REMEDY
            return ValueError(f"{self.label} cannot be read as {self._encoding} text; {remedy}.")
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
        self.schema, self.n_rows = table.schema, table.num_rows

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        yield from self.table.select(columns).to_batches(batch_rows)


def is_frame(data: Any) -> bool:
    """Return whether data are a table: pandas, polars (lazy too), Arrow, or anything that exports an Arrow stream."""
    # Attributes of the type, because a lazy polars frame computes its columns.
    return any(hasattr(type(data), name) for name in ("columns", "column_names", "schema"))


def open_frame(data: Any, label: str = "the table") -> Frame:
    """Open rows in memory; `label` is what messages call them."""
    if not is_frame(data):
        found = type(data).__name__
        raise ValueError(f"Expected a path, a pandas or polars data frame or an Arrow table. Got {found} instead.")
    if hasattr(data, "iloc"):
        columns = (data.iloc[:, index] for index in range(data.shape[1]))
        return frame_of_columns([str(name) for name in data.columns], columns, label)
    data = data.collect() if hasattr(data, "collect") else data
    return Frame(data.to_arrow() if hasattr(data, "to_arrow") else pa.table(data), label)


def frame_of_columns(names: Sequence[str], columns: Iterable[Any], label: str) -> Frame:
    """Return pandas series or numpy arrays as a table; those of mixed objects become text."""
    arrays, mixed = [], set()
    for name, values in zip(names, columns, strict=True):
        try:
            arrays.append(pa.array(values, from_pandas=True))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            gaps = values.isna() if hasattr(values, "isna") else [value is None or value != value for value in values]
            texts = [None if is_gap else str(value) for value, is_gap in zip(values, gaps, strict=True)]
            # Surrogates outside of pairs, which no file can have, become question marks.
            texts = [text and text.encode(errors="replace").decode() for text in texts]
            arrays.append(pa.array(texts, pa.string()))
            mixed.add(name)
    return Frame(pa.table(arrays, list(names)), label, mixed)


def join_names(names: Sequence[str]) -> str:
    """Return quoted column names as a list for an error message."""
    return join_words([repr(name) for name in names])


def join_words(words: Sequence[str]) -> str:
    """Return words as a list for a message, shortened if there are many."""
    joined = ", ".join(words[:MAX_JOINED_NAMES])
    n_more = len(words) - MAX_JOINED_NAMES
    return f"{joined} and {n_more} more" if n_more > 0 else joined


class Table:
    """A table with named columns: a file, several Parquet files, or a data frame.

    Parameters
    ----------
    data : path, pandas or polars data frame, Arrow table
        What `sources.open_source` opens.
    target : str, default=None
        Name of the column to predict, if there is one.
    drop : sequence of str, default=()
        Names of columns to leave out.
    kinds : mapping of str to str, default=None
        Kinds of columns that are not to be recognized, such as ``{"zip": "category", "day": "date:%d/%m/%Y"}``.
    columns : sequence of str, default=None
        The columns to read, in this order. None reads all columns except the dropped ones and those of unsupported
        types.
    reading : Reading, default=Reading()
        How cells are read.

    Attributes
    ----------
    path : str
        What messages call the table.
    names : list of str
        Names of all columns.
    columns : list of str
        Names of the columns to read; the target is the last one.
    unsupported : dict of str to str
        The columns of unsupported types, with what they contain.
    storages : dict of str to str
        How the cells of the columns to read are stored.
    batch_rows : int
        Maximum number of rows per chunk, except for a CSV file.
    """

    def __init__(
        self,
        data: Any,
        target: str | None = None,
        drop: Sequence[str] = (),
        kinds: Mapping[str, str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        reading: Reading = PLAIN_READING,
    ) -> None:
        self.source = open_source(data, reading.encoding)
        self.path, self.schema = self.source.label, self.source.schema
        self.target, self.drop, self.kinds, self.reading = target, list(drop), dict(kinds or {}), reading
        self.names = list(self.schema.names)
        targets = [] if target is None else [target]
        raise_problems(self.path, self._wrong_names([*targets, *drop, *self.kinds, *(columns or [])]))
        untyped = self.source.untyped
        storages = {field.name: storage_of(field.type) for field in self.schema}
        self.unsupported = {
            field.name: NOT_UTF8 if field.name in untyped else f"cells of type {field.type}"
            for field in self.schema
            if storages[field.name] is None
        }
        if columns is None:
            columns = [name for name in self.names if name not in (target, *drop, *self.unsupported)]
        self.columns = [*columns, *targets]
        raise_problems(self.path, [self.unsupported_problem(name) for name in self.columns if name in self.unsupported])
        # The text columns of a CSV file are guessed from its first block.
        self.text_columns = {name for name in columns if storages[name] in ("text", "dictionary")}
        self.storages: dict[str, Any] = storages | dict.fromkeys(untyped, "untyped")
        types = {field.name: plain_type(field.type) for field in self.schema}
        self._plain_types = types | dict.fromkeys(untyped, pa.string())
        # Text makes several encoded columns; 16 is a guess that bounds the memory of a batch.
        width = len(columns) + 15 * len(self.text_columns)
        self.batch_rows = max(1024, min(2**17, BATCH_BYTES // (8 * max(1, width))))
        self._n_read = self.source.n_rows

    def chunks(self, description: str = "") -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows in chunks with plain column types, with the index of the first row."""
        first_row = 0
        try:
            with progress_bar(description, self.source.n_rows) as advance:
                for cells in self.source.batches(self.columns, self.batch_rows):
                    yield first_row, self.plain(cells)
                    first_row += cells.num_rows
                    advance(cells.num_rows)
        except (pa.ArrowException, OSError, MemoryError, UnicodeError, EOFError) as error:
            raise self.source.read_error(error) from None
        if self._n_read not in (None, first_row):
            rows = f"{self._n_read:,} rows in the first pass, {first_row:,} in a later one"
            raise ValueError(f"{self.path} changed while it was read ({rows}); try again when nothing writes to it.")
        self._n_read = first_row

    def plain(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        """Return cells with the types of `plain_type`, text where the columns are untyped."""
        cells.validate(full=True)  # text that is not UTF-8, and lengths that a damaged file gives
        plain = cells.cast(pa.schema([(name, self._plain_types[name]) for name in cells.schema.names]))
        if not self.reading.missing:
            return plain
        columns = [without_marks(column, self.reading.missing) for column in plain.columns]
        return pa.RecordBatch.from_arrays(columns, schema=plain.schema)

    def unsupported_problem(self, name: str) -> str:
        """Return a message about a column of an unsupported type."""
        remedy = ENCODING_REMEDY if self.unsupported[name] == NOT_UTF8 else "convert or drop it"
        return f"{self.path}: column {name!r} contains {self.unsupported[name]}; {remedy}."

    def _wrong_names(self, requested: list[str]) -> list[str]:
        """Return what is wrong with the names of the columns and with those that were requested."""
        if not self.names:
            return [f"{self.path} has no columns; give a table with a header."]
        repeated = [name for name, count in Counter(self.names).items() if count > 1]
        problems = [f"{self.path} has more than one column named {name!r}; rename one of them." for name in repeated]
        for name in dict.fromkeys(requested):
            if name not in self.names:
                problems.append(f"{self.path} has no column {name!r}; its columns are {join_names(self.names)}.")
        for name, kind in self.kinds.items():
            if kind.partition(":")[0] not in KINDS:
                remedy = f"give one of {', '.join(KINDS)}, or drop=[{name!r}] to leave it out"
                problems.append(f"Column {name!r} cannot be of the kind {kind!r}; {remedy}.")
        if self.target in self.drop:
            problems.append(f"{self.path}: column {self.target!r} is the target; omit it from drop={self.drop}.")
        return problems


def raise_problems(label: str, problems: Sequence[str]) -> None:
    """Raise all problems of a table as one error, if there are any."""
    if len(problems) == 1:
        raise ValueError(problems[0])
    if problems:
        shown = [f"  {number}. {problem}" for number, problem in enumerate(problems[:MAX_PROBLEMS], start=1)]
        more = [f"  and {len(problems) - MAX_PROBLEMS} more."] if len(problems) > MAX_PROBLEMS else []
        raise ValueError("\n".join([f"{label} has {len(problems)} problems:", *shown, *more]))
