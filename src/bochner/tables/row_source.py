# SPDX-License-Identifier: BSD-3-Clause
"""The encoded rows of a table as a row source, which feature models read batch by batch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bochner.rows import Array, Batch, MemoryRows, RowSource, compose, stack_batches
from bochner.tables.encoding import EncodedTable


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
