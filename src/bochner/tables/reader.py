# SPDX-License-Identifier: BSD-3-Clause
"""Tables as streams of row batches: which columns are read, from which source, and messages about their cells."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bochner.tables.columns import KINDS, CellError, Reading, plain_type, split_kind, storage_of, without_marks
from bochner.tables.sources import ENCODING_REMEDY, NOT_UTF8, join_names, open_source

PLAIN_READING = Reading()
BATCH_BYTES = 1 << 25  # of encoded rows per batch
MAX_PROBLEMS = 20


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
        self.unsupported = {
            field.name: NOT_UTF8 if field.name in self.source.untyped else f"cells of type {field.type}"
            for field in self.schema
            if storage_of(field.type) is None
        }
        if columns is None:
            columns = [name for name in self.names if name not in (target, *drop, *self.unsupported)]
        self.columns = [*columns, *targets]
        raise_problems(self.path, [self.unsupported_problem(name) for name in self.columns if name in self.unsupported])
        types = {name: self.schema.field(name).type for name in self.columns}
        self.storages: dict[str, Any] = {
            name: "untyped" if name in self.source.untyped else storage_of(column_type)
            for name, column_type in types.items()
        }
        # Text makes several encoded columns; 16 is a guess that bounds the memory of a batch.
        width = len(columns) + 15 * sum(self.is_text(name) for name in columns)
        self.batch_rows = max(1024, min(2**17, BATCH_BYTES // (8 * max(1, width))))
        self._n_read = None if self.source.row_counts is None else sum(self.source.row_counts)

    def chunks(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows in chunks with plain column types, with the index of the first row."""
        first_row = 0
        try:
            for cells in self.source.batches(self.columns, self.batch_rows):
                yield first_row, self.plain(cells)
                first_row += cells.num_rows
        except (pa.ArrowException, OSError, MemoryError, UnicodeError, EOFError) as error:
            raise self.source.read_error(error) from None
        if self._n_read not in (None, first_row):
            raise ValueError(
                f"{self.path} changed while it was read ({self._n_read:,} rows in the first pass, {first_row:,} in a "
                f"later one); try again when nothing writes to it."
            )
        self._n_read = first_row

    def plain(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        """Return cells with the types of `plain_type`, text where the columns are untyped."""
        cells.validate(full=True)  # text that is not UTF-8, and lengths that a damaged file gives
        types = {name: plain_type(self.schema.field(name).type) for name in cells.schema.names}
        types |= {name: pa.string() for name in cells.schema.names if name in self.source.untyped}
        plain = cells.cast(pa.schema(list(types.items())))
        if not self.reading.missing:
            return plain
        return pa.RecordBatch.from_arrays(
            [without_marks(column, self.reading.missing) for column in plain.columns], schema=plain.schema
        )

    def n_chunks(self) -> int | None:
        """Return the number of chunks; None for a CSV file."""
        if self.source.row_counts is None:
            return None
        return sum(-(-n_rows // self.batch_rows) for n_rows in self.source.row_counts)

    def cell_error(self, row: int, error: CellError) -> ValueError:
        """Return the error of a cell with the place of its row."""
        place = self.source.place(row)
        return ValueError(
            f"{place}, column {error.name!r}: {error.problem}; correct it, or drop the row or the column."
        )

    def unsupported_problem(self, name: str) -> str:
        """Return a message about a column of an unsupported type."""
        remedy = ENCODING_REMEDY if self.unsupported[name] == NOT_UTF8 else "convert or drop it"
        return f"{self.path}: column {name!r} contains {self.unsupported[name]}; {remedy}."

    def is_text(self, name: str) -> bool:
        """Return whether a column has the type of text; that of a CSV file is guessed from its first block."""
        return storage_of(self.schema.field(name).type) in ("text", "dictionary")

    def _wrong_names(self, requested: list[str]) -> list[str]:
        """Return what is wrong with the names of the columns and with those that were requested."""
        if not self.names:
            return [f"{self.path} has no columns; give a table with a header."]
        problems = [
            f"{self.path} has more than one column named {name!r}; rename one of them."
            for name, count in Counter(self.names).items()
            if count > 1
        ]
        for name in dict.fromkeys(requested):
            if name not in self.names:
                problems.append(f"{self.path} has no column {name!r}; its columns are {join_names(self.names)}.")
        for name, kind in self.kinds.items():
            if split_kind(kind)[0] not in KINDS:
                problems.append(f"Column {name!r} cannot be of the kind {kind!r}; give one of {', '.join(KINDS)}.")
        return problems


def raise_problems(label: str, problems: Sequence[str]) -> None:
    """Raise all problems of a table as one error, if there are any."""
    if len(problems) == 1:
        raise ValueError(problems[0])
    if problems:
        shown = [f"  {number}. {problem}" for number, problem in enumerate(problems[:MAX_PROBLEMS], start=1)]
        more = [f"  and {len(problems) - MAX_PROBLEMS} more."] if len(problems) > MAX_PROBLEMS else []
        raise ValueError("\n".join([f"{label} has {len(problems)} problems:", *shown, *more]))
