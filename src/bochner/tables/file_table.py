# SPDX-License-Identifier: BSD-3-Clause
"""A table that one process reads: its survey, and its encoded rows as a row source; both can be resumed."""

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
        chunks = self.chunks(first_group, skip_malformed=True)
        for chunk in track(chunks, "reading", self.n_chunks(first_group)):
            if chunk.group > group and checkpoint is not None:
                group = chunk.group
                checkpoint(group, survey)
            survey.add(chunk)
        survey.malformed = self.malformed_problems()
        return survey

    def rows(self, encoding: Encoding, lengths: Sequence[int], **resume: Any) -> "FileRows":
        """Return the encoded rows with a target as a source.

        Parameters
        ----------
        encoding : Encoding
            How rows become numbers.
        lengths : sequence of int
            Number of rows with a target in each chunk, as counted by a survey.
        **resume : object
            `first_group`, `initial` and `checkpoint` of `FileRows`.
        """
        used = self.restricted([column.name for column in encoding.columns])
        return FileRows(EncodedTable(used, encoding), list(lengths), **resume)


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
    first_group : int, default=0
        The row group that `accumulate` starts at.
    initial : statistic, default=None
        The accumulated statistic of the row groups before.
    checkpoint : callable, default=None
        Called by `accumulate` with the number of the next row group and the statistic so far, before each row group.
    """

    table: EncodedTable
    lengths: list[int]
    encode: Callable[[Any], Array] = np.asarray
    has_targets: bool = True
    first_group: int = 0
    initial: Any = None
    checkpoint: Callable[[int, Any], None] | None = None
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
        for _, first_row, batch in self._batches(0):
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
        total: Any = self.initial
        group = self.first_group
        batches = self._batches(self.first_group)
        steps = track(batches, description, self.table.table.n_chunks(self.first_group))
        for number, (next_group, first_row, batch) in enumerate(steps):
            if next_group > group and self.checkpoint is not None:
                group = next_group
                self.checkpoint(group, total)
            if batch.X.shape[0]:
                start = first_row if arguments is None else arguments[number]
                total = add_pair(total, part(start, batch))
        result: Statistic | None = total
        return result

    def _batches(self, first_group: int) -> Iterator[tuple[int, int, Batch]]:
        """Yield groups and batches of rows with targets, with the index of their first row among all such rows."""
        first_row = sum(self.lengths[: self._first_chunk(first_group)])
        for chunk, X in self.table.batches(first_group, for_training=True):
            yield chunk.group, first_row, Batch(X, self.encode(self.table.targets(chunk)) if self.has_targets else None)
            first_row += len(X)

    def _first_chunk(self, group: int) -> int:
        """Return the number of the first chunk of a group; a group of a CSV file is one chunk."""
        n_chunks, n_following = self.table.table.n_chunks(), self.table.table.n_chunks(group)
        return group if n_chunks is None or n_following is None else n_chunks - n_following
