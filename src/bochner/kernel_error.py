# SPDX-License-Identifier: BSD-3-Clause
"""How good an approximate kernel is: the relative Frobenius error, estimated from pairs of rows."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bochner.blocks import Floats, Rows, pair_differences, sample_pairs
from bochner.kernels import Kernel

__all__ = ["KernelError", "estimate_kernel_error"]


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
    frequencies: Floats,
    weights: Floats,
    kernel: Kernel,
    X: Rows,
    n_pairs: int,
    confidence: float,
    rng: np.random.Generator,
) -> KernelError:
    r"""Estimate :math:`|K - \hat K|_F / |K|_F` over all pairs of the n rows of X from `n_pairs` of them.

    The diagonal is known: there :math:`k = 1` and :math:`\hat k = \sum_m \beta_m`. Off the diagonal the means of the
    squared error a and of the squared kernel b are taken over independent pairs, so that

    .. math:: \theta = \frac{(n - 1) a + (1 - \sum_m \beta_m)^2}{(n - 1) b + 1}

    estimates the squared error, with the standard error that linearising the ratio gives. The interval is symmetric
    for :math:`\log\theta`. It is too narrow when a handful of the sampled pairs make up the whole error or the whole
    kernel, as at very short length scales: there, more pairs are needed.

    Parameters
    ----------
    frequencies : ndarray of shape (n_frequencies, n_features)
        Frequencies of `kernel`.
    weights : ndarray of shape (n_frequencies,)
        Their weights.
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

    Returns
    -------
    KernelError
        The estimate and its interval.
    """
    first, second = sample_pairs(X.shape[0], n_pairs, rng)
    exact, approximate = np.empty(len(first)), np.empty(len(first))
    for pairs, differences in pair_differences(X, first, second, len(frequencies)):
        exact[pairs] = kernel.at(differences)
        approximate[pairs] = np.cos(differences @ frequencies.T) @ weights
    squared_errors, squared_values = np.square(exact - approximate), np.square(exact)
    others = X.shape[0] - 1
    diagonal = (1.0 - float(weights.sum())) ** 2
    if not others:
        return KernelError(*[float(np.sqrt(diagonal))] * 3)
    norm = others * squared_values.mean() + 1.0
    ratio = (others * squared_errors.mean() + diagonal) / norm
    error = float(np.sqrt(ratio))
    if ratio == 0.0 or len(first) == others * (others + 1) // 2:
        return KernelError(error, error, error)
    influence = others / norm * (squared_errors - ratio * squared_values)
    relative_deviation = influence.std(ddof=1) / np.sqrt(len(first)) / ratio
    spread = float(np.exp(0.5 * ndtri(0.5 + confidence / 2) * relative_deviation))
    return KernelError(error, error / spread, error * spread)
