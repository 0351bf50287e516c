# SPDX-License-Identifier: BSD-3-Clause
r"""Second moments of features and targets, accumulated over blocks of rows.

A row has the vector :math:`a = [z, 1, y]` of its features, a one and its targets. The second moments
:math:`\sum_i w_i a_i a_i^T` are all that least squares needs.
"""

from collections.abc import MutableMapping
from typing import Any

import numpy as np

from bochner.feature_maps.feature_map import GRAM_ROWS, FeatureMap
from bochner.rows import Floats, Indices, in_threads, row_spans

__all__ = ["add_moments"]


def add_moments(
    totals: "Floats | MutableMapping[int, Any]",
    feature_map: FeatureMap,
    X: Any,
    targets: Floats,
    row_weights: Floats | None = None,
    folds: Indices | None = None,
) -> None:
    """Add the second moments of the rows of each fold to `totals[fold]`, computed in threads.

    Parameters
    ----------
    totals : ndarray of shape (n_folds, size, size) or mapping of int to ndarray of shape (size, size)
        The accumulated moments, in float64; size = number of features + 1 + n_targets.
    feature_map : FeatureMap
        The map to features.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows of the map's dtype.
    targets : ndarray of shape (n_samples, n_targets)
        Targets.
    row_weights : ndarray of shape (n_samples,), default=None
        Sample weights; None means 1 for every row.
    folds : ndarray of shape (n_samples,), default=None
        The fold of each row; None means fold 0 for every row.
    """
    fold_of = np.zeros(X.shape[0], dtype=np.intp) if folds is None else folds
    tasks: list[tuple[int, Any]] = []
    for fold in np.unique(fold_of).tolist():
        own = np.flatnonzero(fold_of == fold)
        for rows in (own[block] for block in row_spans(len(own), GRAM_ROWS)):
            is_slice = rows[-1] - rows[0] == len(rows) - 1  # which copies nothing
            tasks.append((fold, slice(int(rows[0]), int(rows[-1]) + 1) if is_slice else rows))

    def moments_of(task: tuple[int, Any]) -> Floats:
        rows = task[1]
        features = feature_map.features(X[rows])
        joined = np.column_stack([features, np.ones(len(features)), targets[rows]])
        if row_weights is not None:
            joined *= np.sqrt(row_weights[rows])[:, None]
        return np.asarray(joined.T @ joined)

    for (fold, _), moments in zip(tasks, in_threads(moments_of, tasks), strict=True):
        if isinstance(totals, np.ndarray) or fold in totals:
            totals[fold] += moments
        else:
            totals[fold] = moments
