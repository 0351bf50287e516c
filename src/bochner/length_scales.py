# SPDX-License-Identifier: BSD-3-Clause
"""Length scales from data: the unit of distance that a kernel's shape is measured in."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bochner.rows import (
    Floats,
    ScaledRows,
    draw_pairs,
    is_sparse,
    max_abs,
    pair_blocks,
    row_blocks,
    sum_over_rows,
)

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
    for pairs, x, y in pair_blocks(rows, first, second, least=1024 if is_sparse(X) else 16):
        differences = x - y
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
    size = sum_over_rows(_n_entries, X, weights)
    mean = sum_over_rows(partial(_entry_sum, top), X, weights) / size
    squares = sum_over_rows(partial(_entry_squares, top, mean), X, weights)
    # Below the rounding of the mean a constant X would look like a varying one.
    variance = squares / size if squares > 1e-28 * size else 0.0
    return top * float(np.sqrt(X.shape[1] * variance / 2)) if variance > 0.0 else 1.0


def _n_entries(X: Any, weights: Floats | None) -> float:
    return float((X.shape[0] if weights is None else weights.sum()) * X.shape[1])


def _entry_sum(top: float, X: Any, weights: Floats | None) -> float:
    """The sum of all entries, in units of `top`."""
    rows, shares = _entries(X, weights, top)
    blocks = row_blocks(rows.shape[0], 8 * rows.shape[1])
    return sum((float(shares[block] @ rows[block].sum(axis=1)) for block in blocks), 0.0)


def _entry_squares(top: float, mean: float, X: Any, weights: Floats | None) -> float:
    """The sum of the squared differences of all entries from `mean`, in units of `top`."""
    rows, shares = _entries(X, weights, top)
    blocks = row_blocks(rows.shape[0], 8 * rows.shape[1])
    squares = sum(float(shares[block] @ np.square(rows[block] - mean).sum(axis=1)) for block in blocks)
    stored = float(shares.sum()) * rows.shape[1]
    return float(squares + (_n_entries(X, weights) - stored) * mean**2)  # zeros that a sparse matrix does not store


def _entries(X: Any, weights: Floats | None, top: float) -> tuple[ScaledRows, Floats]:
    """The entries that are stored, in units of `top`, and how many times each row of them counts."""
    counts = np.ones(X.shape[0]) if weights is None else weights
    if is_sparse(X):
        return ScaledRows(X.data[:, None], top), np.repeat(counts, np.diff(X.indptr))
    return ScaledRows(X, top), counts


LENGTH_SCALES: dict[str, Callable[[Any, np.random.Generator, Floats | None], float]] = {
    "median": median_distance,
    "scale": entry_scale,
}
