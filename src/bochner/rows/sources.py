# SPDX-License-Identifier: BSD-3-Clause
"""Row sources: rows with targets and sample weights, read in the same way from memory, files and clusters.

A source collects selected rows into memory (`select`) and accumulates statistics over batches of all rows
(`accumulate`); that is all that fitting needs. `MemoryRows` is for arrays, memory maps and CSR matrices,
`bochner.rows.partitions` for rows in partitions on a cluster, and `bochner.tables` for rows of files.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_non_negative

from bochner.progress import track
from bochner.rows.arrays import Array, Floats, Indices, is_sparse, stack_rows
from bochner.rows.block_sizes import MAX_BATCH_ROWS
from bochner.rows.threads import row_spans
from bochner.validation import check_weight_range, check_weights, validate_numbers


class Rows(Protocol):
    """What components read data through: a shape, and rows by slice or by index."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


Statistic = TypeVar("Statistic")  # of some rows; the sum of two statistics is that of the rows of both


class Batch(NamedTuple):
    """Some rows in memory.

    Attributes
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        The rows.
    y : ndarray or None
        Targets or class labels, one per row.
    sample_weight : ndarray of shape (n_rows,) or None
        Sample weights; None means 1 for every row.
    fold_of : ndarray of shape (n_rows,) or None
        The cross-validation fold of each row, where folds were assigned.
    loss_weight : ndarray of shape (n_rows,) or None
        Sample weights times class weights, in batches of features for losses without a closed form, whose errors on
        held-out rows have sample weights alone. For squared errors, `TrainingSet` multiplies `sample_weight` itself.
    """

    X: Any
    y: Any = None
    sample_weight: Any = None
    fold_of: Any = None
    loss_weight: Any = None

    def select(self, rows: Any) -> "Batch":
        """Return the batch of some of the rows."""
        return Batch(*(None if column is None else column[rows] for column in self))

    def drop_zero_weights(self) -> "Batch":
        """Return the batch of the rows with a positive weight."""
        weights = self.sample_weight
        return self if weights is None or weights.all() else self.select(weights > 0.0)

    @property
    def row_weights(self) -> Floats:
        """Sample weights, ones where none are given."""
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight


class RowSource(ABC):
    """Rows with targets and sample weights.

    Attributes
    ----------
    location : {"memory", "file", "cluster"}
        Where the rows are.
    column_names : ndarray of str or None
        Names of the columns, where they are known.
    """

    location: Literal["memory", "file", "cluster"]
    column_names: Any = None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """The dtype of collected rows."""

    @property
    @abstractmethod
    def has_targets(self) -> bool:
        """Whether there are targets."""

    @property
    @abstractmethod
    def target_template(self) -> Any:
        """The targets of no rows: their dtype, and their shape beyond the first axis."""

    @property
    @abstractmethod
    def partition_numbers(self) -> list[int]:
        """The numbers of the partitions that have rows; `accumulate` makes one batch of each."""

    @property
    def data(self) -> Any:
        """What components read rows from: an array where the rows are in memory, else the source."""
        return self

    @abstractmethod
    def with_targets(self, encode: Callable[[Any], Array] | None) -> Self:
        """Return the source whose targets are `encode` of its present ones, block by block; None drops them."""

    @abstractmethod
    def validate(self, estimator: Any, **options: Any) -> Self:
        """Return the rows validated as the training data of an estimator.

        What can be checked without reading the rows is checked now; other rows are checked as they are read.

        Parameters
        ----------
        estimator : estimator
            Gets `n_features_in_` and `feature_names_in_`.
        **options
            Options of scikit-learn's `validate_data`.
        """

    @abstractmethod
    def select(self, rows: Any, with_rows: bool = True) -> Batch:
        """Collect rows, by slice or by index; without `with_rows`, only their targets and weights."""

    def draw_rows(self, size: int, rng: np.random.Generator) -> Indices:
        """Draw different rows at random, all with the same probability.

        Rows in partitions are drawn in the same way, except where that would read more than 128 of them.

        Parameters
        ----------
        size : int
            Number of rows; all are returned when there are no more.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        ndarray of int
            Row indices, in ascending order.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner.rows import MemoryRows
        >>> MemoryRows(np.zeros((100, 1))).draw_rows(3, np.random.default_rng(0))
        array([51, 63, 83])
        """
        n_rows = self.shape[0]
        return np.sort(rng.choice(n_rows, min(size, n_rows), replace=False, shuffle=False))

    def batches(self, with_rows: bool = True) -> Iterator[tuple[int, int, Batch]]:
        """Yield the number, the first row and the batch of each partition that has rows and is read in this process."""
        raise NotImplementedError

    def accumulate(
        self,
        part: Callable[[Any, Batch], Statistic | None],
        arguments: Mapping[int, Any] | None = None,
        description: str = "",
        with_rows: bool = True,
    ) -> Statistic | None:
        """Add up the statistics that `part` computes of batches of rows.

        Parameters
        ----------
        part : callable
            Computes a statistic from an argument and a `Batch`, or None for a batch that contributes nothing. It can be
            pickled and changes nothing that it is given.
        arguments : mapping of int to object, default=None
            The first argument of `part` for each partition that has rows. None means the number of the first row of a
            batch among all rows.
        description : str, default=""
            What is going on, for the progress bar.
        with_rows : bool, default=True
            Whether `part` needs the rows; else it may get batches of targets and weights alone, which are read faster.

        Returns
        -------
        statistic or None
            The sum; None when no batch contributed.
        """
        total: Statistic | None = None
        steps = track(self.batches(with_rows), description, len(self.partition_numbers))
        for number, first_row, batch in steps:
            total = add_pair(total, part(first_row if arguments is None else arguments[number], batch))
        return total

    def __getitem__(self, rows: Any) -> Any:
        return self.select(rows).X


@dataclass(frozen=True)
class MemoryRows(RowSource):
    """Rows of an array, a memory map or a CSR matrix."""

    X: Any
    y: Any = None
    weights: Any = None
    encode: Callable[[Any], Array] = np.asarray
    column_names: Any = None
    location = "memory"

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1] if self.X.ndim == 2 else 1  # rows of any kind may have one axis

    @property
    def dtype(self) -> Any:
        return self.X.dtype

    @property
    def has_targets(self) -> bool:
        return self.y is not None

    @property
    def target_template(self) -> Any:
        return self.y[:0]

    @property
    def partition_numbers(self) -> list[int]:
        return list(range(-(-self.shape[0] // MAX_BATCH_ROWS)))

    @property
    def data(self) -> Any:
        return self.X

    def with_targets(self, encode: Callable[[Any], Array] | None) -> "MemoryRows":
        return replace(self, y=None if encode is None else self.y, encode=compose(self.encode, encode))

    def validate(self, estimator: Any, **options: Any) -> "MemoryRows":
        if self.y is None:
            options.pop("multi_output", None)
            X, y = validate_numbers(estimator, self.X, **options), None
        else:
            X, y = validate_numbers(estimator, self.X, self.y, **options)
            y = y.toarray() if is_sparse(y) else y  # numpy.asarray would not convert it
        names = getattr(estimator, "feature_names_in_", self.column_names)
        return replace(self, X=X, y=y, weights=check_weights(self.weights, X), column_names=names)

    def select(self, rows: Any, with_rows: bool = True) -> Batch:
        batch = Batch(self.X if with_rows else None, self.y, self.weights).select(rows)
        return batch if batch.y is None else batch._replace(y=self.encode(batch.y))

    def batches(self, with_rows: bool = True) -> Iterator[tuple[int, int, Batch]]:
        for number, span in enumerate(row_spans(self.shape[0], MAX_BATCH_ROWS)):
            yield number, span.start, self.select(span, with_rows)


def stack_batches(batches: Sequence[Batch]) -> Batch:
    """Return the batch of the rows of several batches."""
    return Batch(*(None if column[0] is None else stack_rows(column) for column in zip(*batches, strict=True)))


def compose(first: Callable[[Any], Array], second: Callable[[Any], Array] | None) -> Callable[[Any], Array]:
    """Return the function that applies `first`, and then `second` unless that is None; it can be pickled."""
    return first if second is None else partial(_apply_both, first, second)


def _apply_both(first: Callable[[Any], Array], second: Callable[[Any], Array], y: Any) -> Array:
    return second(first(y))


def add_pair(left: Any, right: Any) -> Any:
    """Add two statistics, either of which may be None."""
    if left is None or right is None:
        return right if left is None else left
    return left + right


def check_batch_weights(weights: Any, n_rows: int) -> Floats | None:
    """Return the weights of some of the rows as finite, non-negative numbers, all of which may be zero."""
    if weights is None:
        return None
    checked = check_array(weights, ensure_2d=False, dtype=np.float64, ensure_min_samples=0, input_name="sample_weight")
    if checked.shape != (n_rows,):
        raise ValueError(f"`sample_weight` has shape {checked.shape}; give one weight for each of the {n_rows} rows.")
    if n_rows:
        check_non_negative(checked, "`sample_weight`")
        check_weight_range(checked, all_rows=False)
    return np.asarray(checked)
