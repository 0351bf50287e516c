# SPDX-License-Identifier: BSD-3-Clause
"""Length scales computed from the rows alone: heuristics for the unit of distance of a kernel."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from bochner.rows import (
    Floats,
    Indices,
    ScaledRows,
    column_ranges,
    draw_pairs,
    is_sparse,
    max_abs,
    pair_blocks,
    row_blocks,
    serial_blas,
    sum_over_rows,
    to_dense,
)

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
    rows = ScaledRows(X, magnitude, weights)  # relative to the largest entry, squares neither overflow nor underflow
    first, second, pair_weights = draw_pairs(rows, N_PAIRS, rng)
    distances = np.empty(len(first))
    for pairs, x, y in pair_blocks(rows, first, second, least=1024 if is_sparse(X) else 16):
        differences = x - y
        if is_sparse(differences):
            distances[pairs] = np.sqrt(differences.multiply(differences).sum(axis=1))
        else:
            distances[pairs] = np.linalg.norm(differences, axis=1)
    near = np.flatnonzero(distances < SMALLEST_DISTANCE)  # of equal rows, or the squares have underflowed
    if len(near):
        distances[near] = _near_distances(ScaledRows(X, 1.0), first[near], second[near]) / magnitude
    distinct = distances > 0.0
    return magnitude * _weighted_median(distances[distinct], pair_weights[distinct]) if distinct.any() else 1.0


def _near_distances(rows: ScaledRows, first: Indices, second: Indices) -> Floats:
    """Return the distances of pairs of rows that differ little, without squares that underflow."""
    distances = np.empty(len(first))
    for pairs, x, y in pair_blocks(rows, first, second):
        differences = np.abs(to_dense(x - y))
        largest = np.maximum(differences.max(axis=1), np.finfo(np.float64).tiny)
        distances[pairs] = largest * np.linalg.norm(differences / largest[:, None], axis=1)
    return distances


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
    size = sum_over_rows(_n_entries, X, weights)
    mean = sum_over_rows(partial(_entry_sum, magnitude), X, weights) / size
    squares = sum_over_rows(partial(_entry_squares, magnitude, mean), X, weights)
    # The mean is rounded, so that the computed variance of constant entries is tiny instead of zero.
    variance = squares / size if squares > 1e-28 * size else 0.0
    return magnitude * float(np.sqrt(X.shape[1] * variance / 2)) if variance > 0.0 else 1.0


def _n_entries(X: Any, weights: Floats | None) -> float:
    """Return the number of entries, rows counted with their weights."""
    return float((X.shape[0] if weights is None else weights.sum()) * X.shape[1])


@serial_blas  # no bit depends on the number of threads
def _entry_sum(magnitude: float, X: Any, weights: Floats | None) -> float:
    """Return the sum of all entries, divided by `magnitude`."""
    rows, row_weights = _stored_entries(X, weights, magnitude)
    blocks = row_blocks(rows.shape[0], 8 * rows.shape[1])
    return sum((float(row_weights[block] @ rows[block].sum(axis=1)) for block in blocks), 0.0)


@serial_blas  # no bit depends on the number of threads
def _entry_squares(magnitude: float, mean: float, X: Any, weights: Floats | None) -> float:
    """Return the sum of squared differences from `mean` over all entries, which are divided by `magnitude`."""
    rows, row_weights = _stored_entries(X, weights, magnitude)
    blocks = row_blocks(rows.shape[0], 8 * rows.shape[1])
    squares = sum(float(row_weights[block] @ np.square(rows[block] - mean).sum(axis=1)) for block in blocks)
    n_stored = float(row_weights.sum()) * rows.shape[1]
    return float(squares + (_n_entries(X, weights) - n_stored) * mean**2)  # a sparse matrix does not store zeros


def _stored_entries(X: Any, weights: Floats | None, magnitude: float) -> tuple[ScaledRows, Floats]:
    """Return the stored entries divided by `magnitude`, and their weights; each one of a sparse matrix is a row."""
    row_weights = np.ones(X.shape[0]) if weights is None else weights
    if is_sparse(X):
        return ScaledRows(X.data[:, None], magnitude), np.repeat(row_weights, np.diff(X.indptr))
    return ScaledRows(X, magnitude), row_weights


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
    if _share_of_others(ScaledRows(X, length_scale, weights)) >= NEGLIGIBLE:
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


def _share_of_others(rows: ScaledRows) -> float:
    """Return the share of all columns but the largest one in the squared distances of pairs, or in 1 if that is more.

    It is a mean over pairs, in which a few rows far away from all others hardly count.
    """
    first, second, pair_weights = draw_pairs(rows, PAIRS_OF_COLUMNS, np.random.default_rng(0))
    totals = np.zeros(rows.shape[1])
    for pairs, x, y in pair_blocks(rows, first, second):
        differences = x - y
        squares = differences.multiply(differences) if is_sparse(differences) else np.square(differences)
        totals += squares.T @ (pair_weights[pairs] / np.maximum(squares.sum(axis=1), 1.0))
    return float((totals.sum() - totals.max()) / pair_weights.sum())


LENGTH_SCALES: dict[str, Callable[[Any, np.random.Generator, Floats | None], float]] = {
    "median": median_distance,
    "scale": entry_scale,
}
