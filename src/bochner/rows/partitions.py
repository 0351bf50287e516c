# SPDX-License-Identifier: BSD-3-Clause
"""Rows in partitions on a cluster: the one method that an engine needs, and the row source on top of it.

An engine implements `Partitions.reduce`: call a function on every partition where it is, and combine the results
pairwise. Only the function and its results are sent over the network, never the rows. `bochner.rows.dask_partitions`
has the engine for Dask collections.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from bochner.rows.arrays import Array, Indices
from bochner.rows.sources import (
    Batch,
    MemoryRows,
    RowSource,
    Statistic,
    add_pair,
    check_batch_weights,
    compose,
    stack_batches,
)

Result = TypeVar("Result")
SAMPLED_PARTITIONS = 128  # that are computed for a sample of rows; more if they are short


class Partitions(ABC):
    """Blocks of rows, and of targets and sample weights where there are any, partition by partition.

    Attributes
    ----------
    templates : dict of str to ndarray, CSR matrix or DataFrame
        A block without rows for each of the names "X", "y", "sample_weight" that there is: its width, dtype and column
        names.
    n_partitions : int
        Number of partitions.
    lengths : ndarray of shape (n_partitions,)
        Number of rows of each partition.

    Notes
    -----
    **Subclassing.** Set `templates` and `n_partitions`, and write `reduce`. Set `lengths` too where they are known;
    else they are counted when they are first needed. An instance can be passed as X to `fit`, with its own targets and
    weights, to `score`, and to `transform` and `predict`, whose results are collected.
    """

    templates: dict[str, Any]
    n_partitions: int

    @abstractmethod
    def reduce(
        self,
        part: Callable[..., Result],
        combine: Callable[[Result, Result], Result],
        names: Sequence[str],
        arguments: Mapping[int, Any],
        description: str = "",
    ) -> Result:
        """Combine `part(argument, *blocks)` over partitions, neighbors pairwise, so that few results are held at once.

        Parameters
        ----------
        part : callable
            What to compute of a partition. It can be pickled and changes nothing that it is given.
        combine : callable
            Combines two neighboring results; associative up to rounding.
        names : sequence of str
            The blocks that `part` needs; others are not computed.
        arguments : mapping of int to object
            The first argument of `part` for each partition to visit, by partition number, in order; not empty.
        description : str, default=""
            What is going on, for the progress bar.
        """

    @cached_property
    def lengths(self) -> NDArray[np.intp]:
        """Number of rows of each partition."""
        narrowest = "y" if "y" in self.templates else next(iter(self.templates))
        lengths = self.reduce(_length, add_pair, [narrowest], dict.fromkeys(range(self.n_partitions)))
        return np.array(lengths, dtype=np.intp)

    @property
    def first_rows(self) -> dict[int, int]:
        """The number of the first row of each partition that has rows."""
        firsts = np.cumsum(self.lengths) - self.lengths
        return {int(i): int(firsts[i]) for i in np.flatnonzero(self.lengths)}


def _length(argument: None, block: Any) -> list[int]:
    del argument
    return [block.shape[0]]


class _Blocks(NamedTuple):
    """Conversion of the blocks of a partition to a batch; it is sent to the worker that has the partition."""

    names: list[str]
    dtype: Any
    encode: Callable[[Any], Array]
    finite: bool | str

    def batch(self, n_rows: int, blocks: Sequence[Any]) -> Batch:
        """Return the validated batch of a partition, of which `n_rows` rows were counted."""
        given = dict(zip(self.names, blocks, strict=True))
        if any(block.shape[0] != n_rows for block in blocks):
            counts = " and ".join(f"{block.shape[0]} rows of {name}" for name, block in given.items())
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: a partition of {n_rows} rows has "
                f"{counts}; give X, y and `sample_weight` in partitions of the same rows."
            )
        X, y = given.get("X"), given.get("y")
        if X is not None:
            options: Any = {"accept_sparse": "csr", "dtype": self.dtype, "ensure_min_samples": 0}
            X = check_array(X, ensure_all_finite=self.finite, input_name="X", **options)
        y = None if y is None else self.encode(y)
        return Batch(X, y, check_batch_weights(given.get("sample_weight"), n_rows))


@dataclass(frozen=True)
class PartitionedRows(RowSource):
    """Rows in partitions on a cluster: selected rows are collected, and all others stay on the workers.

    Parameters
    ----------
    partitions : Partitions
        Where the rows are.
    dtype : dtype
        The dtype of collected rows.
    encode : callable, default=numpy.asarray
        Checks and encodes a block of targets.
    has_targets : bool, default=False
        Whether targets are read.
    finite : bool or "allow-nan", default=True
        Whether rows must be finite, as scikit-learn's `ensure_all_finite`.
    """

    partitions: Partitions
    dtype: Any = None
    encode: Callable[[Any], Array] = np.asarray
    has_targets: bool = False
    finite: bool | str = True
    location = "cluster"

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.partitions.lengths.sum()), int(self.partitions.templates["X"].shape[1])

    @property
    def target_template(self) -> Any:
        return self.partitions.templates["y"]

    @property
    def partition_numbers(self) -> list[int]:
        return list(self.partitions.first_rows)

    def with_targets(self, encode: Callable[[Any], Array] | None) -> "PartitionedRows":
        has_targets = encode is not None and self.has_targets
        return replace(self, encode=compose(self.encode, encode), has_targets=has_targets)

    def validate(self, estimator: Any, **options: Any) -> "PartitionedRows":
        # A source that was validated before comes from an estimator, which has seen to the names of the columns.
        template = self.partitions.templates["X"] if self.dtype is None else np.empty((0, self.shape[1]), self.dtype)
        checked = MemoryRows(template).validate(estimator, ensure_min_samples=0, **options)
        source = replace(self, dtype=checked.dtype, finite=options.get("ensure_all_finite", True))
        if not source.shape[0]:
            raise ValueError(f"Found array with 0 sample(s) (shape={source.shape}) while a minimum of 1 is required.")
        return source

    def draw_rows(self, size: int, rng: np.random.Generator) -> Indices:
        lengths = self.partitions.lengths
        n_partitions, ends = int(np.count_nonzero(lengths)), np.cumsum(lengths)
        n_visits = max(SAMPLED_PARTITIONS, size * n_partitions // int(ends[-1]))
        if n_partitions <= n_visits:
            return super().draw_rows(size, rng)
        # One partition at a random place of each equal part of all rows. The rows are drawn from all of it, because
        # it is computed as a whole and may be in some order.
        places = (np.arange(n_visits) + rng.random(n_visits)) / n_visits * ends[-1]
        visited = np.minimum(np.searchsorted(ends, places, side="right"), len(ends) - 1)
        local = (rng.random((-(-size // n_visits), n_visits)) * lengths[visited]).astype(np.intp)
        return np.unique((ends - lengths)[visited] + local)

    def select(self, rows: Any, with_rows: bool = True) -> Batch:
        in_slice = isinstance(rows, slice)
        numbers = np.arange(*rows.indices(self.shape[0])) if in_slice else np.asarray(rows, dtype=np.intp)
        if not len(numbers):
            blocks = self._blocks(with_rows)
            return blocks.batch(0, [self.partitions.templates[name] for name in blocks.names])
        unique, inverse = np.unique(numbers, return_inverse=True)
        ends = np.cumsum(self.partitions.lengths)
        owners = np.searchsorted(ends, unique, side="right")
        local = unique - (ends - self.partitions.lengths)[owners]
        arguments = {int(number): local[owners == number] for number in np.unique(owners)}
        parts = self.accumulate(_select, arguments, with_rows=with_rows)
        return stack_batches(parts or []).select(inverse)

    def accumulate(
        self,
        part: Callable[[Any, Batch], Statistic | None],
        arguments: Mapping[int, Any] | None = None,
        description: str = "",
        with_rows: bool = True,
    ) -> Statistic | None:
        arguments = self.partitions.first_rows if arguments is None else arguments
        blocks, lengths = self._blocks(with_rows), self.partitions.lengths.tolist()
        counted = {number: (lengths[number], argument) for number, argument in arguments.items()}
        of_partition = partial(_part_of_partition, part, blocks)
        total: Statistic | None = self.partitions.reduce(of_partition, add_pair, blocks.names, counted, description)
        return total

    def _blocks(self, with_rows: bool) -> _Blocks:
        wanted = {"X": with_rows, "y": self.has_targets, "sample_weight": True}
        names = [name for name, needed in wanted.items() if needed and name in self.partitions.templates]
        return _Blocks(names, self.dtype, self.encode, self.finite)


def _select(rows: Indices, batch: Batch) -> list[Batch]:
    return [batch.select(rows)]


def _part_of_partition(
    part: Callable[[Any, Batch], Statistic | None], blocks: _Blocks, counted: tuple[int, Any], *given: Any
) -> Statistic | None:
    n_rows, argument = counted
    return part(argument, blocks.batch(n_rows, given))
