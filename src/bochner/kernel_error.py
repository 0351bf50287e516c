# SPDX-License-Identifier: BSD-3-Clause
"""Relative Frobenius error of an approximate kernel matrix, estimated from pairs of rows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from bochner.rows import Floats, Indices, Rows, in_threads, pair_blocks, row_spans, sample_pairs

__all__ = ["KernelError", "estimate_kernel_error", "sampled_error"]

SPAN_PAIRS = 128  # of which a thread computes the kernel at a time
DIAGONAL_ROWS = 10_000  # with more rows the diagonal has a negligible share, and a sample of it is sufficient


class KernelError(NamedTuple):
    """Relative Frobenius error of an approximate kernel matrix, with a confidence interval.

    Parameters
    ----------
    error : float
        The estimate; exact if all pairs of rows were used.
    low, high : float
        Ends of the confidence interval; both equal `error` if it is exact.

    Examples
    --------
    >>> from bochner.kernel_error import KernelError
    >>> print(KernelError(0.0213, 0.0209, 0.0217))
    2.13 % (2.09 % to 2.17 %)
    """

    error: float
    low: float
    high: float

    def __str__(self) -> str:
        error, low, high = (f"{100 * value:.3g} %" for value in self)
        return f"{error} ({low} to {high})"


def estimate_kernel_error(
    similarity: Callable[[Floats, Floats], Floats],
    exact: Callable[[Any, Any], Floats],
    X: Rows,
    n_pairs: int,
    confidence: float,
    rng: np.random.Generator,
    width: int = 1,
) -> KernelError:
    r"""Estimate :math:`|K - \hat K|_F / |K|_F` over all pairs of the n rows of X from a sample of pairs.

    Let a and b be the means of the squared error and of the squared kernel over independent pairs of distinct rows, and
    c and d the same means on the diagonal. The squared relative error is estimated by

    .. math:: \theta = \frac{(n - 1) a + c}{(n - 1) b + d}.

    Its standard error follows from a linearization of the ratio, and the interval is symmetric for
    :math:`\log\theta`. The interval is too narrow if a few of the sampled pairs dominate the error or the kernel, as
    with very short length scales. Then use more pairs.

    Parameters
    ----------
    similarity : callable
        Approximate kernel values of pairs. It takes two sets of n rows and returns shape (n,).
    exact : callable
        Exact kernel values of pairs, likewise.
    X : Rows of shape (n_samples, n_features)
        The data divided by the length scale.
    n_pairs : int
        Number of pairs. All pairs are used if there are no more than that.
    confidence : float
        Probability that the interval covers the error.
    rng : numpy.random.Generator
        Random numbers that select the pairs.
    width : int, default=1
        Number of columns that `similarity` computes per row, which bounds the number of rows per block.

    Returns
    -------
    KernelError
        The estimate and its confidence interval.
    """
    n_rows = X.shape[0]
    first, second = sample_pairs(n_rows, n_pairs, rng) if n_rows > 1 else (np.zeros(1, dtype=np.intp),) * 2
    squared_errors, squared_values = np.empty((2, len(first)))
    for pairs, x, y in pair_blocks(X, first, second, width):
        values, errors = _values_and_errors(similarity, exact, x, y)
        squared_errors[pairs] = np.square(errors)
        squared_values[pairs] = np.square(values)
    others = n_rows - 1
    is_exact = len(first) >= others * n_rows // 2
    diagonal_rows = np.arange(n_rows) if is_exact or n_rows <= DIAGONAL_ROWS else first[:DIAGONAL_ROWS]
    diagonal_errors, diagonal_values = _diagonal_means(similarity, exact, X, diagonal_rows, width)
    norm = others * squared_values.mean() + diagonal_values
    ratio = (others * squared_errors.mean() + diagonal_errors) / norm
    error = float(np.sqrt(ratio))
    if ratio == 0.0 or is_exact:
        return KernelError(error, error, error)
    influence = others / norm * (squared_errors - ratio * squared_values)
    relative_deviation = influence.std(ddof=1) / np.sqrt(len(first)) / ratio
    spread = float(np.exp(0.5 * ndtri(0.5 + confidence / 2) * relative_deviation))
    return KernelError(error, error / spread, error * spread)


def _values_and_errors(
    similarity: Callable[[Any, Any], Floats], exact: Callable[[Any, Any], Floats], x: Any, y: Any
) -> Floats:
    """Return the exact kernel values of pairs and the errors of the approximate ones, of shape (2, n_pairs).

    The spans of pairs do not depend on the number of threads, so the bits do not either.
    """

    def part(span: slice) -> Floats:
        values = exact(x[span], y[span])
        return np.stack([values, values - similarity(x[span], y[span])])

    return np.concatenate(list(in_threads(part, row_spans(x.shape[0], SPAN_PAIRS))), axis=1)


def _diagonal_means(
    similarity: Callable[[Any, Any], Floats],
    exact: Callable[[Any, Any], Floats],
    X: Rows,
    rows: Indices,
    width: int,
) -> tuple[float, float]:
    """Return the mean squared error and the mean squared value of the kernel of a row with itself."""
    totals = np.zeros(2)
    for _, x, _ in pair_blocks(X, rows, rows, width):
        values, errors = _values_and_errors(similarity, exact, x, x)
        totals += np.square(errors).sum(), np.square(values).sum()
    errors, values = (totals / len(rows)).tolist()
    return errors, values


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
    >>> from bochner.kernel_error import sampled_error
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
