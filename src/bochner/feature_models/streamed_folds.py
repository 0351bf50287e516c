# SPDX-License-Identifier: BSD-3-Clause
"""Cross-validation of wide ridge models, whose second moments per fold do not fit into memory.

The moments of all rows are stored once. A product with the moments of a fold is a pass over its rows, and all folds,
penalties and targets share a pass.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bochner.feature_maps import GRAM_ROWS, FeatureMap
from bochner.feature_maps.moments import SPAN_ROWS
from bochner.feature_models.training_sets import TrainingSet
from bochner.rows import Batch, Floats, in_threads, row_spans

__all__ = ["MOST_MOMENT_BYTES", "StreamedFolds", "stored_bytes", "streamed_bytes"]

MOST_MOMENT_BYTES = 8 << 30  # of moments per fold; wider models read the rows again instead

Encode = Callable[[Any], Floats]


def stored_bytes(size: int, n_folds: int, n_candidates: int) -> int:
    """Return the memory of a fit that stores the moments of every fold: per candidate, and those in work."""
    return 8 * size**2 * (n_candidates * (n_folds + 1) + 6)


def streamed_bytes(size: int, n_candidates: int) -> int:
    """Return the memory of a fit that stores the moments of all rows only: per candidate, and those in work."""
    return 8 * size**2 * (n_candidates + 5)


@dataclass(frozen=True)
class StreamedFolds:
    """Products with the moments of the folds, each of which is a pass over the rows.

    Attributes
    ----------
    training : TrainingSet
        Rows with folds.
    feature_map : FeatureMap
        The features.
    borders : ndarray of shape (n_folds, 1 + n_targets, size)
        The rows of the moments of [z, 1, y] that belong to the one and to the targets.
    """

    training: TrainingSet
    feature_map: FeatureMap
    borders: Floats

    @classmethod
    def of(cls, training: TrainingSet, feature_map: FeatureMap, encode: Encode, origin: Floats) -> "StreamedFolds":
        """Compute the borders in a pass.

        Parameters
        ----------
        training, feature_map : TrainingSet, FeatureMap
            As the attributes.
        encode : callable
            Returns the targets (n_rows, n_targets) of checked targets or labels.
        origin : ndarray of shape (n_targets,)
            What is subtracted from the targets.
        """
        part = partial(_borders_of_batch, feature_map, training.n_folds, encode, origin)
        return cls(training, feature_map, training.accumulate(part, "means of the folds"))

    def multiply(self, rows: Floats) -> Floats:
        """Multiply rows of shape (n_penalties, n_folds, n_targets, width + 1) by the moments of [z, 1] of each fold."""
        products = self.training.accumulate(partial(_products_of_batch, self.feature_map, rows), "products with folds")
        return np.asarray(products)


def _borders_of_batch(feature_map: FeatureMap, n_folds: int, encode: Encode, origin: Floats, batch: Batch) -> Floats:
    """Return sums of [1, y] times [z, 1, y] over the rows of each fold."""
    targets = encode(batch.y) - origin
    rest = np.column_stack([np.ones(len(targets)), targets])

    def of_rows(fold: int, rows: Any, features: Floats) -> Floats:
        weighted = rest[rows] if batch.weights is None else rest[rows] * batch.weights[rows][:, None]
        return np.asarray(weighted.T @ np.hstack([features, rest[rows]]))

    return _sum_by_fold(
        feature_map, batch, np.zeros((n_folds, rest.shape[1], feature_map.n_columns + rest.shape[1])), of_rows
    )


def _products_of_batch(feature_map: FeatureMap, vectors: Floats, batch: Batch) -> Floats:
    """Return the products of vectors with the moments of [z, 1] over the rows of each fold."""
    by_fold = np.ascontiguousarray(vectors.swapaxes(0, 1))
    flat = by_fold.reshape(len(by_fold), -1, vectors.shape[-1])

    def of_rows(fold: int, rows: Any, features: Floats) -> Floats:
        scores = features @ flat[fold, :, :-1].T + flat[fold, :, -1]
        if batch.weights is not None:
            scores *= batch.weights[rows][:, None]
        return np.hstack([scores.T @ features, scores.sum(axis=0)[:, None]])

    products = _sum_by_fold(feature_map, batch, np.zeros_like(flat), of_rows)
    return products.reshape(by_fold.shape).swapaxes(0, 1)


def _sum_by_fold(
    feature_map: FeatureMap, batch: Batch, zeros: Floats, of_rows: Callable[[int, Any, Floats], Floats]
) -> Floats:
    """Sum a function of rows and their features over the rows of each fold; no bit depends on the number of threads."""
    assert batch.folds is not None
    feature_map.check(batch.X)
    folds = batch.folds

    def part(span: slice) -> Floats:
        total = zeros.copy()
        for fold in range(len(total)):
            own = span.start + np.flatnonzero(folds[span] == fold)
            for rows in row_spans(len(own), GRAM_ROWS):
                total[fold] += of_rows(
                    fold, own[rows], feature_map.features(batch.X[own[rows]]).astype(np.float64, copy=False)
                )
        return total

    result = zeros
    for addend in in_threads(part, row_spans(len(folds), SPAN_ROWS)):
        result = result + addend
    return result
