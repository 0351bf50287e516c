# SPDX-License-Identifier: BSD-3-Clause
"""Encoding of table cells as rows of numbers."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bochner.rows import Array, Batch, Mask, MemoryRows, RowSource, compose, stack_batches
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

    categories: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    missing: Counter[str] = field(default_factory=Counter)

    def warn(self) -> None:
        """Warn of unseen cells, once for all columns."""
        messages = []
        for name, values in self.categories.items():
            shown = ", ".join(repr(value) for value, _ in values.most_common(3))
            shown += f" and {len(values) - 3} more" if len(values) > 3 else ""
            found = f"has categories that are not in the training rows, in {values.total()} rows: {shown}"
            messages.append(f"Column {name!r} {found}.")
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
        """Names of the encoded columns, with a number where two would be the same."""
        numbers = [f"{column.name}{': days' * (column.kind == 'date')}" for column in self.columns if column.has_number]
        unique: dict[str, None] = {}
        for name in numbers + [name for column in self.columns for name in column.other_names]:
            while name in unique:
                name += " (2)"
            unique[name] = None
        return list(unique)

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
        unseen = UnseenCells() if unseen is None else unseen
        encoded = np.zeros((cells.num_rows, len(self.names)), dtype=self.dtype)
        bounds = np.cumsum([len(self.mean), *(len(column.other_names) for column in self.columns)])
        standardized, *blocks, _ = np.split(encoded, bounds, axis=1)  # views, which are written into
        numbers: list[Array] = []
        for column, others in zip(self.columns, blocks, strict=True):
            values = cells.column(column.name)
            if column.has_number:
                number = cell_numbers(values, column)
                is_missing = np.isnan(number)
                numbers.append(np.where(is_missing, column.fill, number))
            if column.kind == "category":
                is_missing = _write_categories(values, column, others, unseen)
            elif column.kind in ("date", "time"):
                moments = moments_in_time(values, column)
                is_missing = np.isnat(moments)
                for index, cycle in enumerate(column.cycles):
                    others[:, 2 * index : 2 * index + 2] = date_cycles(moments, cycle)
            elif column.kind == "text":
                is_missing = np.asarray(values.is_null())
                others[:, : column.components.shape[1]] = encode_text(cell_text(values), column.components)
            if column.missing:
                others[:, -1] = is_missing
            elif is_missing.any() and not column.gaps:
                unseen.missing[column.name] += int(is_missing.sum())
        filled = np.reshape(numbers, (len(numbers), cells.num_rows)).T
        centered = standardize(filled, np.asarray(self.mean), np.asarray(self.scale))
        standardized[:] = soft_clip(centered, self.limit) if self.limit < np.inf else centered
        return encoded

    def targets(self, cells: pa.RecordBatch) -> Array:
        """Return the targets of cells without missing ones: text, booleans, or numbers of the type of the table."""
        assert self.target is not None
        return cell_targets(cells.column(self.target.name), self.target)


def _write_categories(values: pa.Array, column: Column, one_hot: Array, unseen: UnseenCells) -> Mask:
    """Write the one-hot encoding of a column into zeros, and return which cells are missing."""
    texts = cell_text(values)
    # Empty text and missing cells are the same, unless the training rows had both.
    if "" not in column.categories:
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
    elif not column.missing:
        texts = texts.fill_null("")
    found = pc.index_in(texts, pa.array(list(column.categories), pa.string())).fill_null(-1)
    codes = found.to_numpy(False).astype(np.intp)
    is_missing = np.asarray(texts.is_null())
    is_other = (codes < 0) & ~is_missing
    if column.other:
        codes[is_other] = len(column.categories)
    elif is_other.any():
        unseen.categories[column.name].update(texts.filter(pa.array(is_other)).to_pylist())
    rows = np.flatnonzero(codes >= 0)
    one_hot[rows, codes[rows]] = 1.0
    return is_missing


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

    def batches(self, description: str = "") -> Iterator[EncodedBatch]:
        """Yield the encoded rows of each chunk; where the table has a target, without the rows that lack it."""
        target = self.encoding.target if self.table.target is not None else None
        for first_row, cells in self.table.chunks(description):
            is_used = np.ones(cells.num_rows, dtype=bool)
            if target is not None:
                is_used = ~missing_targets(cells.column(target.name), target)
                cells = cells if is_used.all() else cells.filter(pa.array(is_used))
            try:
                X = self.encoding.encode(cells, self.unseen)
                yield EncodedBatch(cells, X, None if target is None else self.encoding.targets(cells), is_used)
            except CellError as error:
                place = self.table.source.place(first_row + int(np.flatnonzero(is_used)[error.row]))
                remedy = "correct it, or drop the row or the column"
                raise ValueError(f"{place}, column {error.name!r}: {error}; {remedy}.") from None


def load_rows(source: EncodedTable) -> EncodedBatch:
    """Return all rows of a table in memory, without their cells."""
    empty = np.empty((0, len(source.encoding.names)), source.encoding.dtype)
    batches = [*source.batches()] or [EncodedBatch(None, empty, None, np.empty(0, dtype=bool))]
    columns: Any = zip(*(batch[1:] for batch in batches), strict=True)
    joined: Any = (None if parts[0] is None else np.concatenate(parts) for parts in columns)
    return EncodedBatch(None, *joined)


@dataclass(frozen=True)
class TableRows(RowSource):
    """Encoded rows and targets of a table; rows without a target are left out.

    Parameters
    ----------
    table : EncodedTable
        The table, and how its rows become numbers.
    lengths : list of int
        Number of rows of each chunk.
    encode : callable, default=numpy.asarray
        Checks and encodes a block of targets.
    has_targets : bool, default=True
        Whether targets are read.
    """

    table: EncodedTable
    lengths: list[int]
    encode: Callable[[Any], Array] = np.asarray
    has_targets: bool = True
    location = "file"

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.lengths), len(self.table.encoding.names)

    @property
    def dtype(self) -> Any:
        return self.table.encoding.dtype

    @property
    def target_template(self) -> Any:
        return np.empty(0)

    @property
    def partition_numbers(self) -> list[int]:
        return [number for number, n_rows in enumerate(self.lengths) if n_rows]

    def with_targets(self, encode: Callable[[Any], Array] | None) -> "TableRows":
        return replace(self, encode=compose(self.encode, encode), has_targets=encode is not None)

    def validate(self, estimator: Any, **options: Any) -> "TableRows":
        MemoryRows(np.zeros((1, self.shape[1]), self.dtype)).validate(estimator, **options)
        return self

    def select(self, rows: Any, with_rows: bool = True) -> Batch:
        numbers = np.arange(*rows.indices(self.shape[0])) if isinstance(rows, slice) else np.asarray(rows, np.intp)
        unique, inverse = np.unique(numbers, return_inverse=True)
        parts: list[Batch] = []
        for _, first_row, batch in self.batches():
            start, stop = np.searchsorted(unique, [first_row, first_row + batch.X.shape[0]])
            if stop > start or not parts:
                parts.append(batch.select(unique[start:stop] - first_row))
            if stop == len(unique):
                break
        batch = stack_batches(parts).select(inverse)
        return batch if with_rows else batch._replace(X=None)

    def batches(self, with_rows: bool = True) -> Iterator[tuple[int, int, Batch]]:
        first_row = 0
        for number, batch in enumerate(self.table.batches()):
            if len(batch.X):
                yield number, first_row, Batch(batch.X, self.encode(batch.y) if self.has_targets else None)
                first_row += len(batch.X)
