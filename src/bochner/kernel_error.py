# SPDX-License-Identifier: BSD-3-Clause
"""How good an approximate kernel is: the relative Frobenius error, estimated from pairs of rows."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bochner.kernels import Kernel
from bochner.rows import Floats, Indices, Rows, pair_blocks, sample_pairs, to_dense

__all__ = ["KernelError", "estimate_kernel_error", "sampled_error"]

DIAGONAL_ROWS = 10_000  # in more rows the diagonal is next to nothing


class KernelError(NamedTuple):
    """Relative Frobenius error of an approximate kernel matrix, with a confidence interval.

    Attributes
    ----------
    error : float
        The estimate; exact when every pair of rows was looked at.
    low, high : float
        Ends of the confidence interval; both equal `error` when it is exact.

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
    kernel: Kernel,
    X: Rows,
    n_pairs: int,
    confidence: float,
    rng: np.random.Generator,
    width: int = 1,
) -> KernelError:
    r"""Estimate :math:`|K - \hat K|_F / |K|_F` over all pairs of the n rows of X from `n_pairs` of them.

    The means of the squared error a and of the squared kernel b are taken over independent pairs of different rows,
    and the mean c of the squared error on the diagonal, where :math:`k = 1`, over their rows, so that

    .. math:: \theta = \frac{(n - 1) a + c}{(n - 1) b + 1}

    estimates the squared error, with the standard error that linearising the ratio gives. The interval is symmetric
    for :math:`\log\theta`. It is too narrow when a handful of the sampled pairs make up the whole error or the whole
    kernel, as at very short length scales: there, more pairs are needed.

    Parameters
    ----------
    similarity : callable
        The approximate kernel of the pairs of rows of two arrays: shape (n,) of two arrays (n, n_features).
    kernel : Kernel
        A shape at unit length scale.
    X : rows of shape (n_samples, n_features)
        The data in units of the length scale.
    n_pairs : int
        Number of pairs; all pairs are taken when there are no more.
    confidence : float
        Probability that the interval covers the error.
    rng : numpy.random.Generator
        Chooses the pairs.
    width : int, default=1
        Number of columns that `similarity` makes of a row, so that those fit into a block too.

    Returns
    -------
    KernelError
        The estimate and its interval.
    """
    n_rows = X.shape[0]
    first, second = sample_pairs(n_rows, n_pairs, rng) if n_rows > 1 else (np.zeros(1, dtype=np.intp),) * 2
    exact, approximate = np.empty((2, len(first)))
    for pairs, *both in pair_blocks(X, first, second, width):
        x, y = map(to_dense, both)
        exact[pairs] = kernel.at(x - y)
        approximate[pairs] = similarity(x, y)
    squared_errors, squared_values = np.square(exact - approximate), np.square(exact)
    others = n_rows - 1
    every_pair = len(first) >= others * n_rows // 2
    on_diagonal = np.arange(n_rows) if every_pair or n_rows <= DIAGONAL_ROWS else first[:DIAGONAL_ROWS]
    diagonal = _diagonal_error(similarity, X, on_diagonal, width)
    norm = others * squared_values.mean() + 1.0
    ratio = (others * squared_errors.mean() + diagonal) / norm
    error = float(np.sqrt(ratio))
    if ratio == 0.0 or every_pair:
        return KernelError(error, error, error)
    influence = others / norm * (squared_errors - ratio * squared_values)
    relative_deviation = influence.std(ddof=1) / np.sqrt(len(first)) / ratio
    spread = float(np.exp(0.5 * ndtri(0.5 + confidence / 2) * relative_deviation))
    return KernelError(error, error / spread, error * spread)


def _diagonal_error(similarity: Callable[[Floats, Floats], Floats], X: Rows, rows: Indices, width: int) -> float:
    """Mean squared error of the approximate kernel of a row with itself, which is exactly 1."""
    total = 0.0
    for _, some, _ in pair_blocks(X, rows, rows, width):
        x = to_dense(some)
        total += float(np.square(1.0 - similarity(x, x)).sum())
    return total / len(rows)


def sampled_error(exact: Floats, approximate: Floats, weights: Floats, n_rows: int) -> float:
    r"""The relative Frobenius error over `n_rows` rows, from kernel matrices of a few of them.

    A small matrix has the larger share of its norm on the diagonal: its means on and off the diagonal are put
    together in the proportions of the large one, as in `estimate_kernel_error`. `weights` say how much each row counts.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernel_error import sampled_error
    >>> sampled_error(np.ones((2, 2)), np.array([[1.0, 0.9], [0.9, 1.0]]), np.ones(2), 2**20).__round__(6)
    0.1
    """
    shares = weights / weights.sum()
    of_pairs = max(1.0 - float(shares @ shares), np.finfo(float).eps)
    means = []
    for squares in (np.square(exact - approximate), np.square(exact)):
        diagonal = float(shares @ np.diagonal(squares))
        others = float(shares @ squares @ shares) - float(np.square(shares) @ np.diagonal(squares))
        means.append((n_rows - 1) * others / of_pairs + diagonal)
    return float(np.sqrt(means[0] / means[1]))
