# SPDX-License-Identifier: BSD-3-Clause
"""A table in one file: its survey, and its encoded rows as a row source; both can be resumed between row groups."""

from collections.abc import Callable, Mapping
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
    """A Parquet or CSV file that a model is trained on."""

    def survey(
        self, survey: Survey, first_group: int = 0, checkpoint: Callable[[int, Survey], None] | None = None
    ) -> Survey:
        """Complete a survey by one pass over the rows from a row group on.

        Parameters
        ----------
        survey : Survey
            The survey of the rows before; it is changed in place.
        first_group : int, default=0
            The row group to start at.
        checkpoint : callable, default=None
            Called with the number of the next row group and the survey so far, before each row group.

        Returns
        -------
        Survey
            The complete survey.
        """
        group = first_group
        for chunk in track(self.chunks(first_group), "reading", self.n_chunks(first_group)):
            if chunk.group > group and checkpoint is not None:
                group = chunk.group
                checkpoint(group, survey)
            survey.add(self, chunk)
        return survey

    def rows(self, encoding: Encoding, n_rows: int, **resume: Any) -> "FileRows":
        """Return the encoded rows as a source; `resume` has `first_group`, `initial` and `checkpoint` of `FileRows`."""
        return FileRows(EncodedTable(self, encoding), n_rows, **resume)


@dataclass(frozen=True)
class FileRows(RowSource):
    """Rows and targets of a Parquet or CSV file.

    Parameters
    ----------
    table : EncodedTable
        The file, and how its rows become numbers.
    n_rows : int
        Number of rows.
    encode : callable, default=numpy.asarray
        Checks and encodes a block of targets.
    has_targets : bool, default=True
        Whether targets are read.
    first_group : int, default=0
        The row group that `accumulate` starts at.
    initial : statistic, default=None
        The accumulated statistic of the row groups before.
    checkpoint : callable, default=None
        Called by `accumulate` with the number of the next row group and the statistic so far, before each row group.
    """

    table: EncodedTable
    n_rows: int
    encode: Callable[[Any], Array] = np.asarray
    has_targets: bool = True
    first_group: int = 0
    initial: Any = None
    checkpoint: Callable[[int, Any], None] | None = None
    has_weights = False
    location = "file"

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.table.encoding.names)

    @property
    def dtype(self) -> Any:
        return np.dtype(np.float32 if self.table.encoding.single else np.float64)

    @property
    def target_template(self) -> Any:
        return np.empty(0)

    @property
    def partition_numbers(self) -> list[int]:
        return [number for number, _ in enumerate(self.table.table.chunks())]

    def with_targets(self, encode: Callable[[Any], Array] | None) -> "FileRows":
        return replace(self, encode=compose(self.encode, encode), has_targets=encode is not None)

    def validate(self, estimator: Any, **options: Any) -> "FileRows":
        MemoryRows(np.zeros((1, self.shape[1]), self.dtype)).validate(estimator, **options)
        return self

    def select(self, rows: Any, with_rows: bool = True) -> Batch:
        numbers = np.arange(*rows.indices(self.n_rows)) if isinstance(rows, slice) else np.asarray(rows, dtype=np.intp)
        unique, inverse = np.unique(numbers, return_inverse=True)
        parts: list[Batch] = []
        for chunk, X in self.table.batches():
            start, stop = np.searchsorted(unique, [chunk.first_row, chunk.first_row + len(X)])
            if stop > start or not parts:
                parts.append(self._batch(chunk, X).select(unique[start:stop] - chunk.first_row))
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
        total: Any = self.initial
        group = self.first_group
        chunks = self.table.batches(self.first_group)
        steps = track(chunks, description, self.table.table.n_chunks(self.first_group))
        for number, (chunk, X) in enumerate(steps):
            if chunk.group > group and self.checkpoint is not None:
                group = chunk.group
                self.checkpoint(group, total)
            start = chunk.first_row if arguments is None else arguments[number]
            total = add_pair(total, part(start, self._batch(chunk, X)))
        result: Statistic | None = total
        return result

    def _batch(self, chunk: Any, X: Array) -> Batch:
        return Batch(X, self.encode(self.table.table.target_values(chunk)) if self.has_targets else None)
