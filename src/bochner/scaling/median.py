# SPDX-License-Identifier: BSD-3-Clause
"""Length scales computed from the rows alone: heuristics for the unit of distance of a kernel."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bochner.rows import Floats, LengthScales, TrainingRows, draw_pairs, pair_blocks, row_blocks
from bochner.rows.arrays import column_ranges, is_sparse, max_abs, to_dense

__all__ = ["LENGTH_SCALES", "entry_scale", "median_distance", "warn_of_dominant_column"]

N_PAIRS = 20_000  # the median of this many distances has a standard error of about one percent
SMALLEST_DISTANCE = 1e-150  # squares of smaller ones underflow
PAIRS_OF_COLUMNS = 500
NEGLIGIBLE = 0.005  # part of squared distances


def median_distance(X: Any, rng: np.random.Generator, weights: Floats | None = None) -> float:
    """Return the median Euclidean distance of sampled pairs of distinct rows.

    Parameters
    ----------
    X : rows of shape (n_samples, n_features)
        The data.
    rng : numpy.random.Generator
        Random numbers that select the pairs.
    weights : ndarray of shape (n_samples,), default=None
        Sample weights; None means 1 for every row.

    Returns
    -------
    float
        The median distance; 1 if all rows are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.scaling.median import median_distance
    >>> median_distance(np.array([[0.0], [1.0], [3.0]]), np.random.default_rng(0))
    2.0
    """
    magnitude = float(max_abs(X).max())
    if magnitude == 0.0:
        return 1.0
    # Relative to the largest entry, squares neither overflow nor underflow.
    rows = TrainingRows(X, weights, LengthScales(magnitude))
    first, second, pair_weights = draw_pairs(rows, N_PAIRS, rng)
    distances = np.empty(len(first))
    for pairs, x, y in pair_blocks(rows, first, second, least=1024 if is_sparse(X) else 16):
        distances[pairs] = np.sqrt(_squares(x - y).sum(axis=1))
    near = np.flatnonzero(distances < SMALLEST_DISTANCE)  # of equal rows, or the squares have underflowed
    for pairs, x, y in pair_blocks(TrainingRows(X, scaling=LengthScales(1.0)), first[near], second[near]):
        differences = np.abs(to_dense(x - y))
        largest = np.maximum(differences.max(axis=1), np.finfo(np.float64).tiny)
        distances[near[pairs]] = largest * np.linalg.norm(differences / largest[:, None], axis=1) / magnitude
    distinct = distances > 0.0
    if not distinct.any():
        return 1.0
    median = magnitude * _weighted_median(distances[distinct], pair_weights[distinct])
    return min(median, float(np.finfo(np.float64).max))  # rows near the largest number


def _squares(differences: Any) -> Any:
    """Return the squares of all entries; those of sparse rows are sparse."""
    return differences.multiply(differences) if is_sparse(differences) else np.square(differences)


def _weighted_median(values: Floats, weights: Floats) -> float:
    """Return the weighted median; if half of the total weight lies on each side of two values, return their mean."""
    order = np.argsort(values)
    totals = np.cumsum(weights[order])
    # Sums of fractional weights are rounded, so that a total close to the half counts as the half.
    half, slack = totals[-1] / 2, 1e-12 * totals[-1]
    low, high = np.searchsorted(totals, [half - slack, half + slack])
    return float(values[order[low]] + values[order[high]]) / 2


def entry_scale(X: Any, rng: np.random.Generator, weights: Floats | None = None) -> float:
    """Return ``sqrt(n_features * X.var() / 2)``, which is equivalent to scikit-learn's ``gamma="scale"``.

    Parameters
    ----------
    X : rows of shape (n_samples, n_features)
        The data.
    rng : numpy.random.Generator
        Not used; all entries of X contribute.
    weights : ndarray of shape (n_samples,), default=None
        Sample weights; None means 1 for every row.

    Returns
    -------
    float
        The length scale; 1 if all entries of X are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.scaling.median import entry_scale
    >>> entry_scale(np.array([[0.0, 2.0], [0.0, 2.0]]), np.random.default_rng(0))
    1.0
    """
    del rng
    magnitude = float(max_abs(X).max())
    if magnitude == 0.0:
        return 1.0
    row_weights = np.ones(X.shape[0]) if weights is None else weights
    size = float(row_weights.sum()) * X.shape[1]
    scaled, blocks = TrainingRows(X, scaling=LengthScales(magnitude)), row_blocks(X.shape[0], 8 * X.shape[1])
    mean = sum(float(row_weights[rows] @ to_dense(scaled[rows]).sum(axis=1)) for rows in blocks) / size
    squares = sum(float(row_weights[rows] @ np.square(to_dense(scaled[rows]) - mean).sum(axis=1)) for rows in blocks)
    # The mean is rounded, so that the computed variance of constant entries is tiny instead of zero.
    variance = squares / size if squares > 1e-28 * size else 0.0
    return magnitude * float(np.sqrt(X.shape[1] * variance / 2)) if variance > 0.0 else 1.0


def warn_of_dominant_column(
    X: Any, length_scale: float, weights: Floats | None = None, names: Sequence[str] | None = None
) -> None:
    """Warn if all columns but one are negligible in the distances between rows, at one length scale for all columns.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        The data.
    length_scale : float
        The length scale. Differences that are small beside it have no effect either.
    weights : ndarray of shape (n_samples,), default=None
        Sample weights; None means 1 for every row.
    names : sequence of str, default=None
        Names of the columns for the message.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.scaling.median import warn_of_dominant_column
    >>> warn_of_dominant_column(np.random.default_rng(0).normal(size=(100, 3)), 1.0)
    """
    if X.shape[1] < 2:
        return
    rows = TrainingRows(X, weights, LengthScales(length_scale))
    first, second, pair_weights = draw_pairs(rows, PAIRS_OF_COLUMNS, np.random.default_rng(0))
    totals = np.zeros(X.shape[1])
    # A mean over pairs of shares of their squared distance, or of 1 if that is more: a few rows far away hardly count.
    for pairs, x, y in pair_blocks(rows, first, second):
        squares = _squares(x - y)
        totals += squares.T @ (pair_weights[pairs] / np.maximum(squares.sum(axis=1), 1.0))
    if totals.sum() - totals.max() >= NEGLIGIBLE * pair_weights.sum():
        return
    low, high = (np.asarray(ends, dtype=np.float64) for ends in column_ranges(X))
    halves = high / 2.0 - low / 2.0  # the difference may overflow
    column = int(np.argmax(halves))
    others = np.delete(halves, column)
    if not others.any() or np.square(others / halves[column]).sum() >= 10.0 * NEGLIGIBLE:
        return
    name = f"Column {column}" if names is None else f"Column {column} ({names[column]!r})"
    warnings.warn(
        f"{name} has values from {low[column]:.3g} to {high[column]:.3g}, and the other columns have ranges of at most "
        f"{2.0 * others.max():.3g}, so that they have hardly any effect on the distances between rows; standardize the "
        f"columns, for example with StandardScaler, or use length_scale='learn'.",
        UserWarning,
        stacklevel=2,
    )


LENGTH_SCALES: dict[str, Callable[[Any, np.random.Generator, Floats | None], float]] = {
    "median": median_distance,
    "scale": entry_scale,
}
