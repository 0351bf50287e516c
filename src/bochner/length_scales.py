# SPDX-License-Identifier: BSD-3-Clause
"""Length scales from data: the unit of distance that a kernel's shape is measured in."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bochner.blocks import Floats, ScaledRows, draw_pairs, is_sparse, max_abs, row_blocks

__all__ = ["LENGTH_SCALES", "entry_scale", "median_distance"]

N_PAIRS = 20_000  # the median of so many distances is known to about one percent


def median_distance(X: Any, rng: np.random.Generator, weights: Floats | None = None) -> float:
    """Median Euclidean distance of sampled pairs of rows that differ; 1 when all rows are equal.

    `weights` say how many times each row counts.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.length_scales import median_distance
    >>> median_distance(np.array([[0.0], [1.0], [3.0]]), np.random.default_rng(0))
    2.0
    """
    top = float(max_abs(X).max())
    if top == 0.0:
        return 1.0
    rows = ScaledRows(X, top, weights)  # in units of the largest entry the squares neither overflow nor vanish
    first, second, pair_weights = draw_pairs(rows, N_PAIRS, rng)
    distances = np.empty(len(first))
    for pairs in row_blocks(len(first), 8 * X.shape[1], 1024 if is_sparse(X) else 16):
        differences = rows[first[pairs]] - rows[second[pairs]]
        if is_sparse(differences):  # most are zero, and stay unwritten
            distances[pairs] = np.sqrt(differences.multiply(differences).sum(axis=1))
        else:
            distances[pairs] = np.linalg.norm(differences, axis=1)
    apart = distances > 0.0
    return top * _weighted_median(distances[apart], pair_weights[apart]) if apart.any() else 1.0


def _weighted_median(values: Floats, weights: Floats) -> float:
    """The middle of the values, each repeated as often as its weight says; between the two middle ones their mean."""
    order = np.argsort(values)
    totals = np.cumsum(weights[order])
    # Sums of fractional weights are rounded: a total within rounding of the half is the half.
    half, slack = totals[-1] / 2, 1e-12 * totals[-1]
    low, high = np.searchsorted(totals, [half - slack, half + slack])
    return float(values[order[low]] + values[order[high]]) / 2


def entry_scale(X: Any, rng: np.random.Generator, weights: Floats | None = None) -> float:
    """sqrt(n_features * X.var() / 2), which is scikit-learn's ``gamma="scale"``; 1 when X is constant.

    `weights` say how many times each row counts.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.length_scales import entry_scale
    >>> entry_scale(np.array([[0.0, 2.0], [0.0, 2.0]]), np.random.default_rng(0))
    1.0
    """
    del rng  # every entry counts
    top = float(max_abs(X).max())
    if top == 0.0:
        return 1.0
    counts = np.ones(X.shape[0]) if weights is None else weights
    values = X.data[:, None] if is_sparse(X) else X
    shares = np.repeat(counts, np.diff(X.indptr)) if is_sparse(X) else counts
    size = float(counts.sum()) * X.shape[1]
    blocks = list(row_blocks(values.shape[0], 8 * values.shape[1]))
    rows = ScaledRows(values, top)
    mean = sum(float(shares[block] @ rows[block].sum(axis=1)) for block in blocks) / size
    squares = sum(float(shares[block] @ np.square(rows[block] - mean).sum(axis=1)) for block in blocks)
    squares += (size - float(shares.sum()) * values.shape[1]) * mean**2  # zeros that a sparse matrix does not store
    # Below the rounding of the mean a constant X would look like a varying one.
    variance = squares / size if squares > 1e-28 * size else 0.0
    return top * float(np.sqrt(X.shape[1] * variance / 2)) if variance > 0.0 else 1.0


LENGTH_SCALES: dict[str, Callable[[Any, np.random.Generator, Floats | None], float]] = {
    "median": median_distance,
    "scale": entry_scale,
}
