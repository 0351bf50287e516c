# SPDX-License-Identifier: BSD-3-Clause
r"""Second moments of features and targets, accumulated over blocks of rows.

A row has the vector :math:`a = [z, 1, y]` of its features, a one and its targets. The second moments
:math:`\sum_i w_i a_i a_i^T` are all that least squares needs.
"""

from collections.abc import MutableMapping
from typing import Any

import numpy as np

from bochner.feature_maps.feature_map import FeatureMap
from bochner.rows import Floats, Indices, in_threads, row_spans

__all__ = ["SPAN_ROWS", "add_moments"]

SPAN_ROWS = 8192  # rows that one thread adds up before its part joins the total


def add_moments(
    totals: "Floats | MutableMapping[int, Any]",
    feature_map: FeatureMap,
    X: Any,
    targets: Floats,
    row_weights: Floats | None = None,
    folds: Indices | None = None,
    span_rows: int = SPAN_ROWS,
) -> None:
    """Add the second moments of the rows of each fold to `totals[fold]`.

    Rows are added up in spans of `span_rows`, in threads, and the spans in order: the result does not depend on the
    number of threads, and a sum that is continued after a whole number of spans equals an uninterrupted one bit by bit.

    Parameters
    ----------
    totals : ndarray of shape (n_folds, size, size) or mapping of int to ndarray of shape (size, size)
        The accumulated moments, in float64; size = width of the features + 1 + n_targets.
    feature_map : FeatureMap
        The map to features.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows of the map's dtype; a memory map is read once.
    targets : ndarray of shape (n_samples, n_targets)
        Targets.
    row_weights : ndarray of shape (n_samples,), default=None
        Sample weights; None means 1 for every row.
    folds : ndarray of shape (n_samples,), default=None
        The fold of each row; None means fold 0 for every row.
    span_rows : int, default=8192
        Rows per span. Small data need shorter spans to occupy all threads.
    """
    fold_of = np.zeros(X.shape[0], dtype=np.intp) if folds is None else folds

    def part(span: slice) -> list[tuple[int, Floats]]:
        own: list[Any]
        own_folds = fold_of[span]
        if own_folds.min() == own_folds.max():
            present, own = [int(own_folds[0])], [span]  # a slice copies nothing
        else:
            present = np.unique(own_folds).tolist()
            own = [span.start + np.flatnonzero(own_folds == fold) for fold in present]
        return [
            (fold, _moments(feature_map, X[rows], targets[rows], None if row_weights is None else row_weights[rows]))
            for fold, rows in zip(present, own, strict=True)
        ]

    for parts in in_threads(part, row_spans(X.shape[0], span_rows)):
        for fold, moments in parts:
            if isinstance(totals, np.ndarray) or fold in totals:
                totals[fold] += moments
            else:
                totals[fold] = moments
    feature_map.release_buffers()


def _moments(feature_map: FeatureMap, X: Any, targets: Floats, row_weights: Floats | None) -> Floats:
    """Return the second moments of [z, 1, y] over the rows of X, computed in the calling thread."""
    width = feature_map.width
    moments = np.zeros((width + 1 + targets.shape[1],) * 2)
    gram, product = moments[:width, :width], feature_map.square_buffer()
    for rows in row_spans(X.shape[0], feature_map.gram_rows):
        features = feature_map.features64(X[rows])
        rest = np.column_stack([np.ones(len(features)), targets[rows]])
        if row_weights is not None:
            roots = np.sqrt(row_weights[rows])[:, None]
            features *= roots
            rest *= roots
        # numpy computes half of a product with the transpose and releases the GIL; scipy's syrk holds it.
        gram += np.matmul(features.T, features, out=product)
        moments[:width, width:] += features.T @ rest
        moments[width:, width:] += rest.T @ rest
    moments[width:, :width] = moments[:width, width:].T
    return moments
