# SPDX-License-Identifier: BSD-3-Clause
"""Folds of cross-validation: which rows test, dealt out to rows in memory or, as they would be there, to pieces."""

import reprlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold, check_cv

from bochner.rows import Array, Floats, Indices

__all__ = ["ClassCounts", "Dealing", "InTurn", "KFolds", "StratifiedFolds", "check_folds", "fold_numbers", "n_folds_of"]


def fold_numbers(cv: Any, X: Any, y: Array, *, classifier: bool) -> tuple[Indices, int]:
    """The fold that tests each row, -1 for a row that is always trained on, and the number of folds."""
    folds, n_folds = np.full(X.shape[0], -1), 0
    if cv is None:
        return folds, n_folds
    for fold, (train, test) in enumerate(check_cv(cv, y, classifier=classifier).split(X, y)):
        trained = np.zeros(len(folds), dtype=bool)
        trained[train] = True
        if trained[test].any() or np.count_nonzero(trained) + len(test) < len(folds) or (folds[test] != -1).any():
            raise ValueError(
                f"`cv` must test every row at most once and train on all others, as KFold does. Got "
                f"{reprlib.repr(cv)} instead."
            )
        folds[test] = fold
        n_folds = fold + 1
    if not n_folds:
        raise ValueError(f"`cv` gives no folds; give a number of folds, or None. Got {reprlib.repr(cv)}.")
    return folds, n_folds


def n_folds_of(cv: Any) -> int:
    """The number of folds where rows come in pieces; 0 means none."""
    if cv is not None and not isinstance(cv, Integral):
        raise ValueError(
            f"`cv` must be a number of folds or None where rows come in pieces. Got {reprlib.repr(cv)} instead."
        )
    return 0 if cv is None else int(KFold(cv).n_splits)


def check_folds(cv: Any, fold_weights: Floats, weight: float) -> None:
    """Refuse folds without a row that counts, or with all of them."""
    if not (fold_weights > 0.0).all() or not (fold_weights < weight).all():
        raise ValueError(
            f"A fold of `cv`={reprlib.repr(cv)} has no rows to train or to test on (of positive weight); give fewer "
            f"folds or more rows."
        )


class Dealing(ABC):
    """How folds are dealt out to pieces of rows; what a piece must know for it is its `start`."""

    n_folds: int

    @abstractmethod
    def folds(self, start: Any, y: Array) -> Indices:
        """The fold of each row of a piece with targets y."""


@dataclass(frozen=True)
class InTurn(Dealing):
    """Row i is in fold i modulo `n_folds`, -1 if that is 0; a piece starts with the number of its first row."""

    n_folds: int

    def folds(self, start: int, y: Array) -> Indices:
        numbers = start + np.arange(len(y))
        return numbers % self.n_folds if self.n_folds else np.full(len(y), -1)


@dataclass(frozen=True)
class KFolds(Dealing):
    """Consecutive rows in a fold, as of scikit-learn's KFold; a piece starts with the number of its first row."""

    n_folds: int
    n_rows: int

    def __post_init__(self) -> None:
        if self.n_folds > self.n_rows:
            raise ValueError(f"`cv`={self.n_folds} is more folds than the {self.n_rows} rows; give fewer folds.")

    def folds(self, start: int, y: Array) -> Indices:
        sizes = np.full(self.n_folds, self.n_rows // self.n_folds)
        sizes[: self.n_rows % self.n_folds] += 1
        return np.searchsorted(np.cumsum(sizes), start + np.arange(len(y)), side="right")


class ClassCounts(NamedTuple):
    """The classes of a piece in the order they appear in, how many rows each has, and the rows' weights.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linear_models.folds import ClassCounts
    >>> ClassCounts.of(np.array(["b", "a", "b"]), None).classes.tolist()
    ['b', 'a']
    """

    classes: Array
    counts: Indices
    weights: Floats

    @classmethod
    def of(cls, y: Array, weights: Floats | None) -> "ClassCounts":
        classes, first, labels, counts = np.unique(y, return_index=True, return_inverse=True, return_counts=True)
        sums = np.bincount(labels, weights, len(classes)).astype(np.float64)
        order = np.argsort(first)
        return cls(classes[order], counts[order], sums[order])

    @classmethod
    def total(cls, pieces: Sequence["ClassCounts"]) -> "ClassCounts":
        """The classes of all pieces."""
        everything = np.concatenate([piece.classes for piece in pieces])
        classes, first, labels = np.unique(everything, return_index=True, return_inverse=True)
        order = np.argsort(first)
        counts = np.bincount(labels, np.concatenate([piece.counts for piece in pieces]), len(classes))
        sums: Any = np.bincount(labels, np.concatenate([piece.weights for piece in pieces]), len(classes))
        return cls(classes[order], counts[order].astype(np.intp), sums[order])


@dataclass(frozen=True)
class StratifiedFolds(Dealing):
    """As many rows of a class in each fold as can be, as of scikit-learn's StratifiedKFold.

    Sorted by class, the classes in the order they appear in, rows are dealt out in turn; that is how many of a class
    come into each fold. The first rows of the class are the first fold's. A piece starts with how many rows of each
    class there were before it.
    """

    n_folds: int
    classes: Array
    ends: Indices  # (n_classes, n_folds): the rank in its class of the row after the last one of each fold

    @classmethod
    def of(cls, n_folds: int, pieces: Sequence[ClassCounts]) -> tuple["StratifiedFolds", list[Indices]]:
        """The dealing, and the start of each piece."""
        total = ClassCounts.total(pieces)
        if (total.counts < n_folds).all():
            raise ValueError(f"`cv`={n_folds} is more folds than any class of y has rows; give fewer folds.")
        if total.counts.min() < n_folds:
            warnings.warn(
                f"The least populated class in y has {total.counts.min()} rows, fewer than the {n_folds} folds.",
                UserWarning,
                stacklevel=2,
            )
        last = np.cumsum(total.counts)[:, None] - np.arange(n_folds)
        first = last - total.counts[:, None]
        dealt = -(-last // n_folds) - -(-first // n_folds)
        order = np.argsort(total.classes)
        classes = total.classes[order]
        counts = np.zeros((len(pieces), len(classes)), dtype=np.intp)
        for row, piece in zip(counts, pieces, strict=True):
            row[np.searchsorted(classes, piece.classes)] = piece.counts
        starts = np.cumsum(counts, axis=0) - counts
        return cls(n_folds, classes, np.cumsum(dealt[order], axis=1)), list(starts)

    def folds(self, start: Indices, y: Array) -> Indices:
        labels = np.searchsorted(self.classes, y)
        folds = np.empty(len(y), dtype=np.intp)
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            folds[members] = np.searchsorted(self.ends[label], start[label] + np.arange(len(members)), side="right")
        return folds
