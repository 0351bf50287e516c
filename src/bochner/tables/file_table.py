# SPDX-License-Identifier: BSD-3-Clause
"""A table that one process reads: its survey, and its encoded rows as a row source."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bochner.progress import track
from bochner.rows import Array, Batch, Floats, MemoryRows, RowSource, Statistic, add_pair, compose, stack_batches
from bochner.tables.encoding import EncodedTable, Encoding
from bochner.tables.reader import Table
from bochner.tables.survey import Survey

__all__ = ["FileRows", "FileTable"]


class FileTable(Table):
    """A file, a folder of Parquet files or a data frame that a model is trained on."""

    def survey(self, survey: Survey) -> Survey:
        """Complete a survey, which is changed in place, by one pass over the rows."""
        for chunk in track(self.chunks(skip_malformed=True), "reading", self.n_chunks()):
            survey.add(chunk)
        survey.malformed = self.malformed_problems()
        return survey

    def rows(self, encoding: Encoding, lengths: Sequence[int]) -> "FileRows":
        """Return the encoded rows with a target as a source; `lengths` are their numbers per chunk, by a survey."""
        used = self.restricted([column.name for column in encoding.columns])
        return FileRows(EncodedTable(used, encoding), list(lengths))


@dataclass(frozen=True)
class FileRows(RowSource):
    """Rows and targets of a table; rows without a target are left out.

    Parameters
    ----------
    table : EncodedTable
        The file, and how its rows become numbers.
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
    has_weights = False
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

    def with_targets(self, encode: Callable[[Any], Array] | None) -> "FileRows":
        return replace(self, encode=compose(self.encode, encode), has_targets=encode is not None)

    def validate(self, estimator: Any, **options: Any) -> "FileRows":
        MemoryRows(np.zeros((1, self.shape[1]), self.dtype)).validate(estimator, **options)
        return self

    def select(self, rows: Any, with_rows: bool = True) -> Batch:
        numbers = np.arange(*rows.indices(self.shape[0])) if isinstance(rows, slice) else np.asarray(rows, np.intp)
        unique, inverse = np.unique(numbers, return_inverse=True)
        parts: list[Batch] = []
        for first_row, batch in self._batches():
            start, stop = np.searchsorted(unique, [first_row, first_row + batch.X.shape[0]])
            if stop > start or not parts:
                parts.append(batch.select(unique[start:stop] - first_row))
            if stop == len(unique):
                break
        batch = stack_batches(parts).select(inverse)
        return batch if with_rows else batch._replace(X=None)

    def drop_zero_weights(self, weights: Floats) -> "FileRows":
        return self  # every row of a file has weight 1

    def accumulate(
        self,
        part: Callable[[Any, Batch], Statistic | None],
        arguments: Mapping[int, Any] | None = None,
        description: str = "",
        with_rows: bool = True,
    ) -> Statistic | None:
        total: Any = None
        steps = track(self._batches(), description, self.table.table.n_chunks())
        for number, (first_row, batch) in enumerate(steps):
            if batch.X.shape[0]:
                start = first_row if arguments is None else arguments[number]
                total = add_pair(total, part(start, batch))
        result: Statistic | None = total
        return result

    def _batches(self) -> Iterator[tuple[int, Batch]]:
        """Yield batches of rows with targets, with the index of their first row among all such rows."""
        first_row = 0
        for chunk, X in self.table.batches(for_training=True):
            yield first_row, Batch(X, self.encode(self.table.targets(chunk)) if self.has_targets else None)
            first_row += len(X)
