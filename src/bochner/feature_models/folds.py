# SPDX-License-Identifier: BSD-3-Clause
"""Training sets, which are rows with cross-validation folds wherever the rows are, and what is chosen on them."""

import reprlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from bochner.rows import Array, Batch, Floats, Indices, RowSource, Statistic, row_spans

__all__ = [
    *("ClassCounts", "Choice", "FoldAssignment", "GivenFolds", "KFolds", "RoundRobin", "StratifiedFolds"),
    *("NO_FOLD", "TrainingSet", "assign_folds", "check_fold_weights", "count_classes", "count_folds"),
    *("weights_of_folds",),
]

NO_FOLD = -2  # the fold of no row: a problem that leaves it out uses all rows


class ClassCounts(NamedTuple):
    """The classes of some rows, in order of appearance.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        The classes.
    counts : ndarray of shape (n_classes,)
        Number of rows of each class.
    weights : ndarray of shape (n_classes,)
        Sum of the sample weights of each class.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.folds import ClassCounts
    >>> ClassCounts.from_labels(np.array(["b", "a", "b"]), None).classes.tolist()
    ['b', 'a']
    """

    classes: Array
    counts: Indices
    weights: Floats

    @classmethod
    def from_labels(cls, y: Array, sample_weight: Floats | None) -> "ClassCounts":
        """Count the classes of some rows."""
        ones = np.ones(len(y))
        return cls(y, ones.astype(np.intp), ones if sample_weight is None else sample_weight).merged()

    @classmethod
    def total(cls, parts: "list[ClassCounts]") -> "ClassCounts":
        """Return the counts of all rows from those of consecutive parts."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True))).merged()

    def merged(self) -> "ClassCounts":
        """Return each class once."""
        classes, first, positions = np.unique(self.classes, return_index=True, return_inverse=True)
        counts, weights = (np.bincount(positions, column, len(classes)) for column in self[1:])
        order = np.argsort(first)
        return ClassCounts(classes[order], counts[order].astype(np.intp), weights[order].astype(np.float64))


def count_classes(start: Any, batch: Batch) -> list[ClassCounts]:
    """Count the classes of a batch, for `RowSource.accumulate`; lists add up in the order of the rows."""
    del start
    return [ClassCounts.from_labels(batch.y, batch.sample_weight)]


class FoldAssignment(ABC):
    """How folds are assigned to batches of consecutive rows.

    What the assignment needs to know about the rows before a batch is the batch's `start`: for most, the number of its
    first row.
    """

    n_folds: int

    @abstractmethod
    def fold_of(self, start: Any, y: Array) -> Indices:
        """Return the fold of each row of a batch with targets y; -1 for rows that are always trained on."""


@dataclass(frozen=True)
class GivenFolds(FoldAssignment):
    """Folds that a splitter has chosen for rows in memory."""

    given: Indices
    n_folds: int

    @classmethod
    def split(cls, cv: Any, X: Any, y: Array, *, classifier: bool) -> "GivenFolds":
        """Split rows by a number of folds, a scikit-learn splitter or an iterable of splits; None makes no folds."""
        fold_of, n_folds = np.full(X.shape[0], -1), 0
        if cv is None:
            return cls(fold_of, n_folds)
        from sklearn.model_selection import check_cv  # a slow import, which `import bochner` does without

        splitter = check_cv(cv, y, classifier=classifier)
        routing = getattr(splitter, "get_metadata_routing", None)  # a user's own splitter has none
        if routing is not None and routing().consumes("split", ["groups"]):
            raise ValueError(
                f"`cv`={cv!r} needs groups, which `fit` does not take; give its splits, "
                f"`list(splitter.split(X, y, groups))`."
            )
        if isinstance(cv, Integral):
            n_rows = np.unique(y, return_counts=True)[1].max() if classifier else len(y)
            check_number(int(cv), n_rows, " of any class" * classifier)
        for fold, (train, test) in enumerate(splitter.split(X, y)):
            trained = np.zeros(len(fold_of), dtype=bool)
            trained[train] = True
            missing = np.count_nonzero(trained) + len(test) < len(fold_of)
            if trained[test].any() or missing or (fold_of[test] != -1).any():
                raise ValueError(
                    f"`cv` must test every row at most once and train on all others, as KFold does. Got "
                    f"{reprlib.repr(cv)} instead; for other splits, such as those of TimeSeriesSplit, use GridSearchCV "
                    f"with `cv`=None and a single penalty per candidate."
                )
            fold_of[test] = fold
            n_folds = fold + 1
        if not n_folds:
            raise ValueError(f"`cv` has no splits; give a number of folds, or None. Got {reprlib.repr(cv)}.")
        return cls(fold_of, n_folds)

    def fold_of(self, start: int, y: Array) -> Indices:
        return self.given[start : start + len(y)]


@dataclass(frozen=True)
class RoundRobin(FoldAssignment):
    """Row i is in fold i modulo `n_folds`; without folds, in -1."""

    n_folds: int

    def fold_of(self, start: int, y: Array) -> Indices:
        numbers = start + np.arange(len(y))
        return numbers % self.n_folds if self.n_folds else np.full(len(y), -1)


@dataclass(frozen=True)
class KFolds(FoldAssignment):
    """Consecutive rows share a fold, as in scikit-learn's KFold."""

    n_folds: int
    n_rows: int

    def __post_init__(self) -> None:
        check_number(self.n_folds, self.n_rows)

    def fold_of(self, start: int, y: Array) -> Indices:
        sizes = np.full(self.n_folds, self.n_rows // self.n_folds)
        sizes[: self.n_rows % self.n_folds] += 1
        return np.searchsorted(np.cumsum(sizes), start + np.arange(len(y)), side="right")


@dataclass(frozen=True)
class StratifiedFolds(FoldAssignment):
    """Every fold has about the same share of each class, as in scikit-learn's StratifiedKFold.

    Rows sorted by class, the classes in order of appearance, are assigned round-robin; that gives the number of rows of
    each class in each fold. The first rows of a class then form its part of the first fold. The start of a batch is the
    number of rows of each class before it.
    """

    n_folds: int
    classes: Array
    ends: Indices  # (n_classes, n_folds): the rank within its class of the row after the last one of each fold

    @classmethod
    def from_counts(cls, n_folds: int, parts: list[ClassCounts]) -> tuple["StratifiedFolds", list[Indices]]:
        """Return the assignment for consecutive parts of the rows, and the start of each part."""
        total = ClassCounts.total(parts)
        check_number(n_folds, total.counts.max(), " of any class")
        if total.counts.min() < n_folds:
            warnings.warn(
                f"The least populated class in y has {total.counts.min()} rows, fewer than the {n_folds} folds.",
                UserWarning,
                stacklevel=2,
            )
        last = np.cumsum(total.counts)[:, None] - np.arange(n_folds)
        first = last - total.counts[:, None]
        sizes = -(-last // n_folds) - -(-first // n_folds)
        order = np.argsort(total.classes)
        classes = total.classes[order]
        counts = np.zeros((len(parts), len(classes)), dtype=np.intp)
        for row, part in zip(counts, parts, strict=True):
            row[np.searchsorted(classes, part.classes)] = part.counts
        starts = np.cumsum(counts, axis=0) - counts
        return cls(n_folds, classes, np.cumsum(sizes[order], axis=1)), list(starts)

    def fold_of(self, start: Indices, y: Array) -> Indices:
        positions = np.searchsorted(self.classes, y)
        folds = np.empty(len(y), dtype=np.intp)
        for position in np.unique(positions):
            members = np.flatnonzero(positions == position)
            ranks = start[position] + np.arange(len(members))
            folds[members] = np.searchsorted(self.ends[position], ranks, side="right")
        return folds


def assign_folds(
    cv: Any, source: RowSource, class_counts: list[ClassCounts] | None = None
) -> tuple[FoldAssignment, dict[int, Any] | None]:
    """Assign folds to the rows of a source as scikit-learn would assign them to rows in memory.

    Parameters
    ----------
    cv : int, splitter, iterable or None
        Rows in memory accept what scikit-learn accepts; other rows a number of folds, or None.
    source : RowSource
        Rows with targets.
    class_counts : list of ClassCounts, default=None
        The classes of each partition, for stratified folds; None for a regression.

    Returns
    -------
    assignment : FoldAssignment
        The folds.
    starts : dict of int to object, or None
        The start of each partition; None means the number of its first row.
    """
    if source.location == "memory":
        y = source.select(slice(None), with_rows=False).y
        return GivenFolds.split(cv, source.data, y, classifier=class_counts is not None), None
    n_folds = count_folds(cv)
    if not n_folds or source.location == "file":  # rows of a file are often sorted
        return RoundRobin(n_folds), None
    if class_counts is None:
        return KFolds(n_folds, source.shape[0]), None
    assignment, starts = StratifiedFolds.from_counts(n_folds, class_counts)
    return assignment, dict(zip(source.partition_numbers, starts, strict=True))


def check_number(n_folds: int, n_rows: int, kind: str = "") -> None:
    """Refuse more folds than rows."""
    if n_folds > n_rows:
        raise ValueError(
            f"`cv`={n_folds} is more folds than the {n_rows} samples{kind}; give fewer folds, or `cv`=None."
        )


def count_folds(cv: Any) -> int:
    """Return the number of folds for rows that are not in memory; 0 means none."""
    if cv is not None and not isinstance(cv, Integral):
        raise ValueError(
            f"`cv` must be a number of folds or None for rows that are not in memory. Got {reprlib.repr(cv)} instead."
        )
    if cv is None:
        return 0
    from sklearn.model_selection import KFold  # as above

    return int(KFold(cv).n_splits)


@dataclass(frozen=True)
class Choice:
    """The chosen features and penalty, and the solution on all rows.

    Attributes
    ----------
    features : transformer
        The chosen features.
    position : int
        The position of the chosen penalty among the candidates.
    alpha : float
        The chosen penalty, relative to the sum of the weights.
    weight : float
        The sum of the weights.
    coef : ndarray of shape (n_columns, n_outputs)
        Coefficients.
    intercept : ndarray of shape (n_outputs,)
        Intercepts.
    errors : ndarray of shape (n_penalties, n_folds)
        Mean errors of the chosen features on the folds; NaN for penalties that were not tried.
    scores : ndarray of shape (n_candidates,)
        The best mean score of each candidate.
    posterior : Posterior or None
        The posterior covariance of the coefficients of a ridge regression.
    penalty : float
        The chosen one of the user's candidates: alpha, or C.
    """

    features: Any
    position: int
    alpha: float
    weight: float
    coef: Floats
    intercept: Floats
    errors: Floats
    scores: Floats
    posterior: Any = None
    penalty: float = float("nan")


@dataclass(frozen=True)
class TrainingSet:
    """Rows to train on.

    Parameters
    ----------
    rows : RowSource
        The rows, with checked targets or class labels.
    assignment : FoldAssignment
        Their folds.
    starts : mapping of int to object, default=None
        What the assignment needs for each partition; None means the index of its first row.
    weigh : callable, default=None
        Returns factors of the sample weights for some targets, such as the weights of classes.
    """

    rows: RowSource
    assignment: FoldAssignment
    starts: Mapping[int, Any] | None = None
    weigh: Callable[[Array], Floats] | None = None

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return self.assignment.n_folds

    def first_targets(self, n_rows: int) -> Array:
        """Return the targets of the first rows of positive weight."""
        for rows in row_spans(self.rows.shape[0], n_rows):
            y: Array = self.rows.select(rows, with_rows=False).drop_zero_weights().y
            if len(y):
                return y
        raise ValueError("No row has a positive `sample_weight`; give some rows a weight.")

    def fold_weights(self) -> Floats:
        """Return the total weight of the rows of each fold, and last of those that are always trained on."""
        return self.accumulate(partial(weights_of_folds, self.n_folds), with_rows=False)

    def accumulate(
        self, statistic: Callable[[Batch], Statistic], description: str = "", with_rows: bool = True
    ) -> Statistic:
        """Add up a statistic, which can be pickled, of batches of rows of positive weight, with their folds."""
        of_batch = partial(_statistic_with_folds, statistic, self.assignment, self.weigh)
        total: Statistic | None = self.rows.accumulate(of_batch, self.starts, description, with_rows)
        if total is None:
            raise ValueError("No row has a positive `sample_weight`; give some rows a weight.")
        return total


def _statistic_with_folds(
    statistic: Callable[[Batch], Statistic],
    assignment: FoldAssignment,
    weigh: Callable[[Array], Floats] | None,
    start: Any,
    batch: Batch,
) -> Statistic | None:
    batch = batch._replace(fold_of=assignment.fold_of(start, batch.y))
    if weigh is not None:
        batch = batch._replace(sample_weight=batch.row_weights * weigh(batch.y))
    batch = batch.drop_zero_weights()
    return statistic(batch) if len(batch.y) else None


def weights_of_folds(n_folds: int, batch: Batch) -> Floats:
    """Return the weight of the rows of each fold, and last of those that are always trained on."""
    assert batch.fold_of is not None
    totals = np.bincount(batch.fold_of % (n_folds + 1), batch.row_weights, n_folds + 1)  # -1 is equivalent to n_folds
    return totals.astype(np.float64)


def check_fold_weights(cv: Any, fold_weights: Floats) -> None:
    """Refuse folds without rows of positive weight to train or to test on; last is the weight of rows in no fold."""
    tested, weight = fold_weights[:-1], fold_weights.sum()
    if not (tested > 0.0).all() or not (tested < weight).all():
        raise ValueError(
            f"A fold of `cv`={reprlib.repr(cv)} has no rows of positive weight to train or to test on; give fewer "
            f"folds or more rows."
        )
