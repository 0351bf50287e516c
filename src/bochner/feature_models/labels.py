# SPDX-License-Identifier: BSD-3-Clause
"""Class labels: checks, positions among the classes, and the one-vs-rest targets that linear models are fitted to."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from bochner.rows import Array, Batch, Floats, Indices

__all__ = [
    *("ClassCounts", "ClassWeights"),
    *("check_labels", "count_classes", "indicators", "label_indicators", "label_positions"),
]


def check_labels(y: Any) -> Array:
    """Return class labels as a column, one label per row."""
    labels: Array = column_or_1d(y)
    check_classification_targets(labels)
    return labels


def label_positions(classes: Array, y: Array) -> Indices:
    """Return the position of each label in the sorted `classes`."""
    positions = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = classes[positions] != y
    if unknown.any():
        raise ValueError(f"y has the label {y[unknown].tolist()[0]!r}, which is not among {classes.tolist()}.")
    return positions


def label_indicators(classes: Array, y: Array) -> Floats:
    """Return 1 for a row's class and -1 for the rest: one column per class, a single column for two classes."""
    return indicators(label_positions(classes, y), len(classes))


def indicators(positions: Indices, n_classes: int) -> Floats:
    """Return 1 for a row's class and -1 for the rest: one column per class, that of the second class for two classes.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.labels import indicators
    >>> indicators(np.array([0, 1, 1]), 2).ravel()
    array([-1.,  1.,  1.])
    """
    positive = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
    return np.where(positions[:, None] == positive, 1.0, -1.0)


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
    >>> from bochner.feature_models.labels import ClassCounts
    >>> ClassCounts.of(np.array(["b", "a", "b"]), None).classes.tolist()
    ['b', 'a']
    """

    classes: Array
    counts: Indices
    weights: Floats

    @classmethod
    def of(cls, y: Array, weights: Floats | None) -> "ClassCounts":
        """Count the classes of some rows."""
        classes, first, positions, counts = np.unique(y, return_index=True, return_inverse=True, return_counts=True)
        totals = np.bincount(positions, weights, len(classes)).astype(np.float64)
        order = np.argsort(first)
        return cls(classes[order], counts[order], totals[order])

    @classmethod
    def total(cls, parts: "list[ClassCounts]") -> "ClassCounts":
        """Return the counts of all rows from those of consecutive parts."""
        everything = np.concatenate([part.classes for part in parts])
        classes, first, positions = np.unique(everything, return_index=True, return_inverse=True)
        order = np.argsort(first)
        counts = np.bincount(positions, np.concatenate([part.counts for part in parts]), len(classes))
        totals: Any = np.bincount(positions, np.concatenate([part.weights for part in parts]), len(classes))
        return cls(classes[order], counts[order].astype(np.intp), totals[order])


@dataclass(frozen=True)
class ClassWeights:
    """Weights of classes, which multiply the sample weights of a batch of rows with labels.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        The sorted classes.
    weights : ndarray of shape (n_classes,)
        One weight per class.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.labels import ClassWeights
    >>> from bochner.rows import Batch
    >>> ClassWeights(np.array([0, 1]), np.array([1.0, 3.0]))(Batch(None, np.array([1, 0, 1]))).weights
    array([3., 1., 3.])
    """

    classes: Array
    weights: Floats

    def __call__(self, batch: Batch) -> Batch:
        return batch._replace(weights=batch.counts * self.weights[label_positions(self.classes, batch.y)])


def count_classes(start: Any, batch: Batch) -> list[ClassCounts]:
    """Count the classes of a batch, for `RowSource.accumulate`; lists add up in the order of the rows."""
    del start
    return [ClassCounts.of(batch.y, batch.weights)]
