# SPDX-License-Identifier: BSD-3-Clause
"""Encoding of table cells as rows of numbers."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bochner.rows import Array, Mask
from bochner.scaling.robust_standardizer import soft_clip, standardize
from bochner.tables.columns import (
    CellError,
    Column,
    Reading,
    cell_numbers,
    cell_targets,
    cell_text,
    date_cycles,
    missing_targets,
    moments_in_time,
)
from bochner.tables.reader import Table
from bochner.tables.text import encode_text


@dataclass
class UnseenCells:
    """Counts of new cells of which the training rows had none like them.

    Attributes
    ----------
    categories : dict of str to Counter
        Unknown categories of each column; they are encoded as zeros.
    missing : Counter
        Missing cells per column whose cells were all present; they are encoded as the median, or as zeros. Empty text
        is a missing category, unless the training rows had it.
    """

    categories: dict[str, Counter[str]] = field(default_factory=dict)
    missing: Counter[str] = field(default_factory=Counter)

    def warn(self) -> None:
        """Warn of unseen cells, once for all columns."""
        messages = []
        for name, values in self.categories.items():
            n_rows, shown = sum(values.values()), ", ".join(repr(value) for value, _ in values.most_common(3))
            more = f" and {len(values) - 3} more" if len(values) > 3 else ""
            messages.append(f"Column {name!r} has categories that are not in the training rows, in {n_rows} rows: ")
            messages[-1] += f"{shown}{more}."
        for name, n_rows in self.missing.items():
            messages.append(f"Column {name!r} has no value in {n_rows} rows; in the training rows it always had one.")
        if messages:
            warnings.warn(" ".join(messages), UserWarning, stacklevel=4)


@dataclass(frozen=True)
class Encoding:
    """Standardized numbers, one-hot categories, text as numbers, cycles of dates and indicators of missing cells.

    The encoded columns are first one standardized number per column that has one (those of dates are days), then for
    each column its cycles, categories, numbers of text and the indicator of missing cells, which are left as they are.

    Attributes
    ----------
    columns : list of Column
        The columns that are used. A category that is not among those of its column is encoded as zeros. Empty text and
        missing cells are the same category, unless the training rows had both.
    mean, scale : ndarray of shape (n_numbers,)
        The value that is subtracted from each number, and the value that it is then divided by.
    single : bool
        Whether the encoded rows are float32 instead of float64.
    limit : float
        Bound of the standardized numbers, which are clipped by `soft_clip`; infinity leaves them as they are.
    target : Column or None
        The column to predict.
    reading : Reading
        How cells are read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from bochner.tables.columns import Column
    >>> from bochner.tables.encoding import Encoding
    >>> columns = [Column("color", "category", categories=("blue", "red")), Column("size", "number", fill=2.0)]
    >>> encoding = Encoding(columns, mean=[2.0], scale=[0.5], single=False)
    >>> encoding.names
    ['size', 'color=blue', 'color=red']
    >>> encoding.encode(pa.RecordBatch.from_pydict({"size": [3.0, None], "color": ["red", "green"]}))
    array([[2., 0., 1.],
           [0., 0., 0.]])
    """

    columns: list[Column]
    mean: Array
    scale: Array
    single: bool
    limit: float = np.inf
    target: Column | None = None
    reading: Reading = field(default_factory=Reading)

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns."""
        numbers = [column.number_name for column in self.columns if column.has_number]
        return numbers + [name for column in self.columns for name in column.other_names]

    @property
    def origins(self) -> list[str]:
        """Name of the column of the table that each encoded column comes from."""
        numbers = [column.name for column in self.columns if column.has_number]
        return numbers + [column.name for column in self.columns for _ in column.other_names]

    @property
    def dtype(self) -> Any:
        """Type of the encoded rows."""
        return np.dtype(np.float32 if self.single else np.float64)

    def open(self, data: Any, *, with_target: bool = False, keep: Sequence[str] = ()) -> "EncodedTable":
        """Open another table that has the same columns, and others to read without encoding them."""
        target = self.target.name if with_target and self.target is not None else None
        columns = list(dict.fromkeys([*(column.name for column in self.columns), *keep]))
        return EncodedTable(Table(data, target, columns=columns, reading=self.reading), self)

    def encode(self, cells: pa.RecordBatch, unseen: UnseenCells | None = None) -> Array:
        """Return the cells as an array of shape (n_rows, len(names)); `unseen` counts new kinds of cells."""
        numeric = [column for column in self.columns if column.has_number]
        encoded = np.zeros((cells.num_rows, len(self.names)), dtype=self.dtype)
        numbers = np.empty((cells.num_rows, len(numeric)), order="F")
        first, position = len(numeric), 0
        for column in self.columns:
            values = cells.column(column.name)
            others = encoded[:, first : first + len(column.other_names)]
            first += len(column.other_names)
            if column.has_number:
                numbers[:, position] = cell_numbers(values, column)
                is_missing = np.isnan(numbers[:, position])
                numbers[is_missing, position] = column.fill
                position += 1
            if column.kind == "category":
                is_missing = _write_categories(values, column, others, unseen)
            elif column.kind in ("date", "time"):
                is_missing = _write_cycles(values, column, others)
            elif column.kind == "text":
                is_missing = np.asarray(values.is_null())
                others[:, : column.components.shape[1]] = encode_text(cell_text(values), column.components)
            if is_missing.any():
                if column.missing:
                    others[:, -1] = is_missing
                elif unseen is not None and not column.gaps:
                    unseen.missing[column.name] += int(is_missing.sum())
        standardized = standardize(numbers, np.asarray(self.mean), np.asarray(self.scale))
        encoded[:, : len(numeric)] = soft_clip(standardized, self.limit) if self.limit < np.inf else standardized
        return encoded

    def targets(self, cells: pa.RecordBatch) -> Array:
        """Return the targets of cells without missing ones: text, booleans, or numbers of the type of the table."""
        assert self.target is not None
        return cell_targets(cells.column(self.target.name), self.target)


def _write_categories(values: pa.Array, column: Column, indicators: Array, unseen: UnseenCells | None) -> Mask:
    """Write the one-hot encoding of a column into zeros, and return which cells are missing."""
    texts = _with_known_gaps(cell_text(values), column)
    found = pc.index_in(texts, pa.array(list(column.categories), pa.string())).fill_null(-1)
    codes = found.to_numpy(False).astype(np.intp)
    is_missing = np.asarray(texts.is_null())
    is_other = (codes < 0) & ~is_missing
    if column.other:
        codes[is_other] = len(column.categories)
    elif unseen is not None and is_other.any():
        counts = texts.filter(pa.array(is_other)).value_counts()
        new = dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))
        unseen.categories.setdefault(column.name, Counter()).update(new)
    rows = np.flatnonzero(codes >= 0)
    indicators[rows, codes[rows]] = 1.0
    return is_missing


def _with_known_gaps(texts: pa.Array, column: Column) -> pa.Array:
    """Take empty text for missing cells, or these for empty text, unless the training rows had both."""
    if "" not in column.categories:
        return pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
    return texts if column.missing else texts.fill_null("")


def _write_cycles(values: pa.Array, column: Column, others: Array) -> Mask:
    """Write the cycles of dates, and return which of them are missing."""
    moments = moments_in_time(values, column)
    for number, cycle in enumerate(column.cycles):
        others[:, 2 * number : 2 * number + 2] = date_cycles(moments, cycle)
    return np.isnat(moments)


class EncodedBatch(NamedTuple):
    """Encoded rows: the cells, the numbers, the targets and which rows of the chunk have one."""

    cells: pa.RecordBatch
    X: Array
    y: Array | None
    is_used: Mask


@dataclass(frozen=True)
class EncodedTable:
    """A table with the encoding of its rows; `unseen` counts cells unlike those of the training rows."""

    table: Table
    encoding: Encoding
    unseen: UnseenCells = field(default_factory=UnseenCells)

    def batches(self) -> Iterator[EncodedBatch]:
        """Yield the encoded rows of each chunk; where the table has a target, without the rows that lack it."""
        target = self.encoding.target if self.table.target is not None else None
        for first_row, cells in self.table.chunks():
            is_used = np.ones(cells.num_rows, dtype=bool)
            if target is not None:
                is_used = ~missing_targets(cells.column(target.name), target)
                cells = cells if is_used.all() else cells.filter(pa.array(is_used))
            try:
                X = self.encoding.encode(cells, self.unseen)
                yield EncodedBatch(cells, X, None if target is None else self.encoding.targets(cells), is_used)
            except CellError as error:
                raise self.table.cell_error(first_row + int(np.flatnonzero(is_used)[error.row]), error) from None


def load_rows(source: EncodedTable) -> EncodedBatch:
    """Return all rows of a table in memory, without their cells."""
    batches = list(source.batches())
    if not batches:
        empty = np.empty((0, len(source.encoding.names)), source.encoding.dtype)
        return EncodedBatch(None, empty, None, np.empty(0, dtype=bool))
    columns: Any = zip(*(batch[1:] for batch in batches), strict=True)
    joined: list[Any] = [None if parts[0] is None else np.concatenate(parts) for parts in columns]
    return EncodedBatch(None, *joined)
