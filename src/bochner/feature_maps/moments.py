# SPDX-License-Identifier: BSD-3-Clause
r"""Second moments of features and targets, accumulated over blocks of rows.

A row has the vector :math:`a = [z, 1, y]` of its features, a one and its targets. The second moments
:math:`\sum_i w_i a_i a_i^T` are all that least squares needs.
"""

from collections import deque
from collections.abc import MutableMapping
from typing import Any

import numpy as np

from bochner.feature_maps.feature_map import GRAM_ROWS, FeatureMap
from bochner.rows import Floats, Indices, add_gram, in_threads, mirror, row_spans

__all__ = ["SPAN_ROWS", "add_moments"]

SPAN_ROWS = 8192  # rows whose parts join the total before those of the next ones
TASK_ROWS = 2048  # rows of a fold that one thread adds up before its part joins the total


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
    size = feature_map.width + 1 + targets.shape[1]
    spare: deque[Floats] = deque()  # new memory costs page faults

    def part(task: tuple[int, Any]) -> Floats:
        rows = task[1]
        try:
            moments = spare.pop()
        except IndexError:
            moments = np.zeros((size, size))
        _write_moments(moments, feature_map, X[rows], targets[rows], None if row_weights is None else row_weights[rows])
        return moments

    tasks = [task for span in row_spans(X.shape[0], span_rows) for task in _tasks(span, fold_of[span])]
    for (fold, _), moments in zip(tasks, in_threads(part, tasks), strict=True):
        if isinstance(totals, np.ndarray) or fold in totals:
            for rows in row_spans(size, GRAM_ROWS):  # the lower half
                totals[fold][rows, : rows.stop] += moments[rows, : rows.stop]
            spare.append(moments)
        else:
            totals[fold] = moments
    list(in_threads(mirror, list(totals if isinstance(totals, np.ndarray) else totals.values())))
    feature_map.release_buffers()


def _tasks(span: slice, folds: Indices) -> list[tuple[int, Any]]:
    """Return folds and rows of theirs, few enough for the work to be divided evenly among threads."""
    tasks: list[tuple[int, Any]] = []
    for fold in np.unique(folds).tolist():
        own = span.start + np.flatnonzero(folds == fold)
        for part in row_spans(len(own), TASK_ROWS):
            first, last = int(own[part][0]), int(own[part][-1])
            is_dense = last - first == part.stop - part.start - 1
            tasks.append((fold, slice(first, last + 1) if is_dense else own[part]))  # a slice copies nothing
    return tasks


def _write_moments(
    moments: Floats, feature_map: FeatureMap, X: Any, targets: Floats, row_weights: Floats | None
) -> None:
    """Write the lower half of the second moments of [z, 1, y] over the rows of X, computed in the calling thread."""
    width = feature_map.width
    moments[width:] = 0.0
    for rows in row_spans(X.shape[0], GRAM_ROWS):
        features = feature_map.features64(X[rows])
        rest = np.column_stack([np.ones(len(features)), targets[rows]])
        if row_weights is not None:
            roots = np.sqrt(row_weights[rows])[:, None]
            features *= roots
            rest *= roots
        add_gram(moments[:width, :width], features, keep=float(rows.start > 0))
        moments[width:, :width] += rest.T @ features
        moments[width:, width:] += rest.T @ rest
