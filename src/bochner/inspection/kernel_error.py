# SPDX-License-Identifier: BSD-3-Clause
"""Relative Frobenius error of an approximate kernel matrix, estimated from the pairs of sampled rows."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from bochner.rows import Floats, Indices, Rows, in_threads, row_blocks, row_spans
from bochner.rows.block_sizes import MAX_FETCH_BYTES

__all__ = ["Approximation", "KernelError", "estimate_kernel_error", "sampled_error"]

Matrix = Callable[[Any, Any], Floats]
SPAN_ROWS = 256  # whose kernel values with as many others a thread computes at a time
SURVEYED = 16  # rows of the survey per sampled row
MOST_SCANNED = 1 << 27  # entries of the rows in which outlying ones are looked for
OUTLYING = 0.25  # share of the surveyed, and of the sampled rows
FEWEST_PILOTS, FEWEST_ROWS = 16, 128  # of fewer rows the variance is unknown
FEWEST_EFFECTIVE = 4.0  # rows in the variance; the interval of fewer rows may be too narrow
NARROW = 1e-3  # relative half width of an interval that needs no warning
SMALLEST, LARGEST_LOG = 1e-300, 100.0  # avoid a division by zero and an overflow
RELATIVE_ROUNDING, ABSOLUTE_ROUNDING = 1e-7, 1e-12


class KernelError(NamedTuple):
    """Relative Frobenius error of an approximate kernel matrix, with a confidence interval.

    Parameters
    ----------
    error : float
        The estimate; exact if all pairs of rows were used.
    low, high : float
        Ends of the confidence interval; they differ from `error` only by rounding errors if it is exact.

    Examples
    --------
    >>> from bochner.inspection.kernel_error import KernelError
    >>> print(KernelError(0.0213, 0.0209, 0.0217))
    2.13 % (2.09 % to 2.17 %)
    >>> print(KernelError(0.0213, 0.0213, 0.0213))
    2.13 % (exact)
    """

    error: float
    low: float
    high: float

    @property
    def is_exact(self) -> bool:
        """Whether all pairs of rows were used."""
        return self.high - self.low <= 2.0 * _rounding(self.error)

    def __str__(self) -> str:
        error, low, high = (f"{100 * value:.3g} %" for value in self)
        return f"{error} (exact)" if self.is_exact else f"{error} ({low} to {high})"


def _rounding(error: float) -> float:
    """Return a bound of the rounding errors of an exact error, with a margin for sums in another order."""
    return RELATIVE_ROUNDING * error + ABSOLUTE_ROUNDING


def _exact(error: float) -> KernelError:
    return KernelError(error, max(0.0, error - 0.5 * _rounding(error)), error + 0.5 * _rounding(error))


class Approximation(NamedTuple):
    """Rows, a kernel, and features that approximate it.

    Parameters
    ----------
    rows : Rows of shape (n_samples, n_features)
        The rows.
    points : callable
        Maps a block of rows to the points that the kernel compares.
    matrix : callable
        Exact kernel matrix of two blocks of points.
    diagonal : callable
        Exact kernel values of each point of a block with itself.
    features : callable
        Features of a block of rows, of shape (n, width) in float64.
    """

    rows: Rows
    points: Callable[[Any], Any]
    matrix: Matrix
    diagonal: Callable[[Any], Floats]
    features: Callable[[Any], Floats]


@dataclass(frozen=True)
class _Block:
    """Points and features of some rows, and the error and the value of the kernel of each row with itself."""

    points: Any
    features: Floats
    diagonal: Floats

    def __getitem__(self, rows: slice) -> "_Block":
        return _Block(self.points[rows], self.features[rows], self.diagonal[:, rows])


def estimate_kernel_error(
    approximation: Approximation, n_pairs: int, confidence: float, rng: np.random.Generator
) -> KernelError:
    r"""Estimate :math:`|K - \hat K|_F / |K|_F` over all pairs of the rows from all pairs of sampled rows.

    Rows that are far from all others often dominate the error. So rows are sampled in two phases:

    1. The survey has the rows with the smallest kernel values at a few random rows, and a random sample of the others.
       It computes the squared errors and kernel values of each surveyed row with itself and with random pilot rows.
    2. The sample has the surveyed rows with the smallest kernel values at the pilot rows, and others with probabilities
       in proportion to the squares that the survey has found.

    A sum over all pairs is estimated by the sum over the pairs of sampled rows, each divided by the probabilities of
    its two rows. The standard error follows from a linearization of the ratio of two such sums. The interval is
    symmetric for the logarithm of the ratio, with quantiles of Student's t distribution, whose degrees of freedom are
    the effective number of rows in the variance.

    Parameters
    ----------
    approximation : Approximation
        The rows, the kernel and the features.
    n_pairs : int
        About how many pairs of rows are compared. All pairs are if there are no more.
    confidence : float
        Probability that the interval covers the error.
    rng : numpy.random.Generator
        Random numbers that select the rows.

    Returns
    -------
    KernelError
        The estimate and its confidence interval.

    Warns
    -----
    UserWarning
        If so few rows dominate the variance that the interval may be too narrow.
    """
    n_rows = approximation.rows.shape[0]
    all_pairs = n_rows * (n_rows - 1) // 2 <= n_pairs
    n_sampled = n_rows if all_pairs else max(FEWEST_ROWS, int(np.sqrt(n_pairs)))
    approximation, numbers, first = _surveyed_rows(approximation, n_sampled, rng)
    chosen, second, surveyed = np.arange(len(numbers)), np.ones(len(numbers)), None
    if len(numbers) > n_sampled:
        n_pilots = max(FEWEST_PILOTS, n_pairs // (2 * len(numbers)))
        sums, surveyed = _survey(approximation, numbers, first, n_pilots, rng)
        chosen, second = _sample(sums, surveyed, first, n_sampled, rng)
    rows = _read(approximation, numbers[chosen])
    sums, diagonal = _pair_sums(approximation.matrix, rows, 1.0 / (first * second)[chosen]), rows.diagonal
    on_diagonal = np.square(diagonal if surveyed is None else surveyed) @ (1.0 / first)
    first, second = first[chosen], second[chosen]
    errors, values = on_diagonal + sums @ (1.0 / (first * second))
    ratio = errors / values
    error = float(np.sqrt(ratio))
    if error == 0.0 or len(chosen) == n_rows:
        return _exact(error)
    influence = 2.0 * (sums[0] - ratio * sums[1]) / errors
    variances = _variances(influence / first, second)  # of the second phase, in which the diagonal is known
    influence += (np.square(diagonal[0]) - ratio * np.square(diagonal[1])) / errors
    variances += _variances(influence, first, 1.0 / second)
    return _interval(error, variances, confidence)


def _surveyed_rows(
    approximation: Approximation, n_sampled: int, rng: np.random.Generator
) -> tuple[Approximation, Indices, Floats]:
    """Return the numbers of the surveyed rows and their probabilities; remote rows are collected and renumbered."""
    rows, n_rows = approximation.rows, approximation.rows.shape[0]
    n_features = math.prod(rows.shape[1:])  # rows of any kind may have one axis
    is_remote = getattr(rows, "location", "memory") != "memory"
    most = max(1024, MAX_FETCH_BYTES // (16 * n_features)) if is_remote else n_rows
    size = n_rows if n_sampled >= n_rows else min(n_rows, SURVEYED * n_sampled, most)
    numbers, probabilities = np.arange(n_rows), np.ones(size)
    if size < n_rows:
        is_scanned = not is_remote and n_rows * n_features <= MOST_SCANNED
        outlying = _outlying_rows(approximation, int(OUTLYING * size), rng) if is_scanned else np.arange(0)
        others = np.setdiff1d(rng.choice(n_rows, size - len(outlying), replace=False), outlying)
        numbers = np.sort(np.concatenate([outlying, others]))
        probabilities = np.where(np.isin(numbers, outlying), 1.0, len(others) / (n_rows - len(outlying)))
    if is_remote:
        return approximation._replace(rows=rows[numbers]), np.arange(len(numbers)), probabilities
    return approximation, numbers, probabilities


def _outlying_rows(approximation: Approximation, count: int, rng: np.random.Generator) -> Indices:
    """Return the numbers of the rows with the smallest kernel values at a few random rows."""
    rows = approximation.rows
    pilots = approximation.points(rows[np.sort(rng.choice(rows.shape[0], FEWEST_PILOTS, replace=False))])

    def part(span: slice) -> Floats:
        values = approximation.matrix(approximation.points(rows[span]), pilots)
        return np.asarray(np.square(values).sum(axis=1))

    spans = row_blocks(rows.shape[0], 8 * max(math.prod(rows.shape[1:]), FEWEST_PILOTS))
    return np.argsort(np.concatenate(list(in_threads(part, spans))), kind="stable")[:count]


def _survey(
    approximation: Approximation, numbers: Indices, probabilities: Floats, n_pilots: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return sums of squared errors and kernel values over pilot rows, and errors and values on the diagonal."""
    pilots = np.sort(rng.choice(len(numbers), n_pilots, replace=False))
    pilot_rows = _read(approximation, numbers[pilots])

    def part(span: slice) -> Floats:
        block = _read(approximation, numbers[span])
        squares = _squares(approximation.matrix, block, pilot_rows)
        squares[:, np.arange(span.start, span.stop)[:, None] == pilots] = 0.0
        return np.stack([squares @ (1.0 / probabilities[pilots]), block.diagonal])

    sums, diagonal = np.concatenate(list(in_threads(part, row_spans(len(numbers), SPAN_ROWS))), axis=2)
    return sums, diagonal


def _sample(
    sums: Floats, diagonal: Floats, first: Floats, n_sampled: int, rng: np.random.Generator
) -> tuple[Indices, Floats]:
    """Draw `n_sampled` of the surveyed rows; return their positions, and the probabilities of all surveyed rows."""
    # With a positive semidefinite error, no squared error is larger than the product of two errors on the diagonal.
    measures = np.vstack([np.ones_like(first), np.vstack([sums, np.abs(diagonal[0])]) / first])
    shares = (measures / np.maximum(measures.sum(axis=1, keepdims=True), SMALLEST)).sum(axis=0)
    certain = np.zeros(len(first), dtype=bool)
    certain[np.argsort(sums[1], kind="stable")[: int(OUTLYING * n_sampled)]] = True
    probabilities = np.full(len(first), np.inf)
    while probabilities.max() > 1.0:
        probabilities = np.where(certain, 1.0, shares * ((n_sampled - certain.sum()) / shares[~certain].sum()))
        certain |= probabilities > 1.0
    # Systematic sampling from the rows in random order draws a fixed number of them.
    order = rng.permutation(len(first))
    counts = np.floor(np.cumsum(probabilities[order]) + rng.random())
    return np.sort(order[np.diff(counts, prepend=0.0) > 0.0]), probabilities


def _pair_sums(matrix: Matrix, rows: _Block, weights: Floats) -> Floats:
    """Return sums of squared errors and kernel values of each row over the other rows."""

    def part(spans: tuple[slice, slice]) -> tuple[Floats, Floats]:
        squares = _squares(matrix, rows[spans[0]], rows[spans[1]])
        if spans[0] == spans[1]:
            np.einsum("kii->ki", squares)[...] = 0.0
        return squares @ weights[spans[1]], weights[spans[0]] @ squares

    tiles = list(combinations_with_replacement(row_spans(len(weights), SPAN_ROWS), 2))
    sums = np.zeros((2, len(weights)))
    for (left, right), (own, others) in zip(tiles, in_threads(part, tiles), strict=True):
        sums[:, left] += own
        if left != right:
            sums[:, right] += others
    return sums


def _read(approximation: Approximation, numbers: Indices) -> _Block:
    """Read some rows and map them to points and features."""
    rows = approximation.rows[numbers]
    blocks = [rows[span] for span in row_spans(len(numbers), SPAN_ROWS)]
    points, features = approximation.points(rows), np.concatenate(list(in_threads(approximation.features, blocks)))
    values = approximation.diagonal(points)
    return _Block(points, features, np.stack([values - np.einsum("ij,ij->i", features, features), values]))


def _squares(matrix: Matrix, rows: _Block, others: _Block) -> Floats:
    """Return squared errors and squared kernel values of two sets of rows, of shape (2, n_rows, n_others)."""
    values = matrix(rows.points, others.points)
    squares = np.stack([values, values])
    squares[0] -= rows.features @ others.features.T
    return np.asarray(np.square(squares, out=squares))


def _variances(values: Floats, probabilities: Floats, weights: Floats | float = 1.0) -> Floats:
    """Return the terms of the variance of a sum over rows that is estimated from a fixed number of them (Hajek)."""
    shares, terms = weights * (1.0 - probabilities), values / probabilities
    return np.asarray(shares * np.square(terms - shares @ terms / max(shares.sum(), SMALLEST)))


def _interval(error: float, variances: Floats, confidence: float) -> KernelError:
    """Return the interval of an error from the terms of the relative variance of its square."""
    variance = float(variances.sum())
    if variance == 0.0:
        return _exact(error)
    shares = variances / variance
    n_effective = 1.0 / float(shares @ shares)
    quantile = float(stdtrit(n_effective, 0.5 + confidence / 2))
    spread = float(np.exp(min(0.5 * quantile * np.sqrt(variance), LARGEST_LOG)))
    interval = KernelError(error, error / spread, error * spread)
    if n_effective < FEWEST_EFFECTIVE and spread > 1.0 + NARROW:
        warnings.warn(
            f"A few of the sampled rows dominate the kernel error {interval}, whose interval may be too narrow; give "
            f"a larger `n_pairs`.",
            stacklevel=4,
        )
    return interval


def sampled_error(exact: Floats, approximate: Floats, weights: Floats, n_rows: int) -> float:
    r"""Estimate the relative Frobenius error over `n_rows` rows from kernel matrices of a sample of rows.

    The diagonal has a larger share in a small matrix. So the means on and off the diagonal are combined in the
    proportions of the large matrix, as in `estimate_kernel_error`.

    Parameters
    ----------
    exact : ndarray of shape (n_sampled, n_sampled)
        Exact kernel matrix of the sample.
    approximate : ndarray of shape (n_sampled, n_sampled)
        Approximate kernel matrix of the sample.
    weights : ndarray of shape (n_sampled,)
        Sample weights.
    n_rows : int
        Number of rows that the error refers to.

    Returns
    -------
    float
        The relative Frobenius error.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.inspection.kernel_error import sampled_error
    >>> round(sampled_error(np.ones((2, 2)), np.array([[1.0, 0.9], [0.9, 1.0]]), np.ones(2), 2**20), 6)
    0.1
    """
    shares = weights / weights.sum()
    pair_share = max(1.0 - float(shares @ shares), np.finfo(float).eps)
    means = []
    for squares in (np.square(exact - approximate), np.square(exact)):
        diagonal = float(shares @ np.diagonal(squares))
        others = float(shares @ squares @ shares) - float(np.square(shares) @ np.diagonal(squares))
        means.append((n_rows - 1) * others / pair_share + diagonal)
    return float(np.sqrt(means[0] / means[1]))
