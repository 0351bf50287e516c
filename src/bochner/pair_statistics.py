# SPDX-License-Identifier: BSD-3-Clause
r"""Statistics of the regression of a kernel on cosines, averaged over pairs of rows.

For a pair of rows with difference :math:`\delta`, z holds the cosines :math:`\cos(w_m \cdot \delta)` and k is the exact
kernel value. The mean squared error of weights :math:`\beta` over pairs is a quadratic function of :math:`\beta`, so
that the averages of :math:`z z^T`, :math:`k z` and :math:`k^2` determine it. The pairs are all pairs of a sample of
rows (`point_statistics`), or sampled pairs (`pair_statistics`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from bochner.feature_maps import fourier_map
from bochner.kernels import Kernel
from bochner.rows import Floats, Rows, draw_pairs, in_threads, pair_differences, row_spans

__all__ = ["PairStatistics", "pair_statistics", "point_statistics"]

POOL_FACTOR = 16  # candidate pairs per sampled pair, to estimate the distribution of row norms
SPAN_ROWS = 128


@dataclass(frozen=True)
class PairStatistics:
    r"""Averages over pairs that determine the mean squared error of weights.

    Parameters
    ----------
    gram : ndarray of shape (n_frequencies, n_frequencies)
        Average of :math:`z z^T`.
    target : ndarray of shape (n_frequencies,)
        Average of :math:`k z`.
    energy : float
        Average of :math:`k^2`.
    """

    gram: Floats
    target: Floats
    energy: float

    @classmethod
    def from_points(cls, n_points: float, grams: Sequence[Floats], forms: Floats) -> "PairStatistics":
        r"""Return the statistics over all pairs of n points, without forming the pairs.

        With features [C | S] at unit weight, :math:`\sum z z^T` is the entrywise sum
        :math:`(C^TC)^2 + (C^TS)^2 + (S^TC)^2 + (S^TS)^2`, and
        :math:`\sum k z_m = c_m^T K c_m + s_m^T K s_m`.

        Parameters
        ----------
        n_points : float
            Number of points, or the sum of their weights.
        grams : sequence of ndarray of shape (2 * n_frequencies, 2 * n_frequencies)
            Gram matrices of the features of disjoint sets of the points.
        forms : ndarray of shape (2 * n_frequencies + 1,)
            Quadratic forms of the feature columns in the kernel matrix K, and last the sum of the squared entries of K.

        Returns
        -------
        PairStatistics
            The statistics.
        """
        m, n_pairs = len(grams[0]) // 2, n_points**2
        products = np.zeros((m, m))
        for rows, columns in ((0, 0), (0, m), (m, 0), (m, m)):
            products += np.square(sum(gram[rows : rows + m, columns : columns + m] for gram in grams))
        products /= n_pairs
        return cls(products, (forms[:m] + forms[m:-1]) / n_pairs, float(forms[-1]) / n_pairs)

    @classmethod
    def from_pairs(cls, cosines: Floats, exact: Floats, pair_weights: Floats) -> "PairStatistics":
        """Return the statistics over explicit pairs.

        Parameters
        ----------
        cosines : ndarray of shape (n_pairs, n_frequencies)
            Cosines of the pairs.
        exact : ndarray of shape (n_pairs,)
            Exact kernel values of the pairs.
        pair_weights : ndarray of shape (n_pairs,)
            Weights of the pairs, with expected mean 1.

        Returns
        -------
        PairStatistics
            The statistics.
        """
        roots = np.sqrt(pair_weights / len(exact))
        cosines, exact = cosines * roots[:, None], exact * roots
        return cls(cosines.T @ cosines, cosines.T @ exact, float(exact @ exact))

    def risk(self, weights: Floats) -> float:
        """Return the mean squared error over the pairs.

        Parameters
        ----------
        weights : ndarray of shape (n_frequencies,)
            Weights of the frequencies.

        Returns
        -------
        float
            The mean squared error of the weighted kernel.
        """
        return float(self.energy - 2.0 * self.target @ weights + weights @ self.gram @ weights)


def point_statistics(
    frequencies: Floats, kernel: Kernel, points: Any, point_weights: Floats
) -> tuple[PairStatistics, PairStatistics, PairStatistics]:
    """Return statistics over all pairs of points, over the pairs of the first half, and over those of the second half.

    Parameters
    ----------
    frequencies : ndarray of shape (n_frequencies, n_features)
        Frequencies of `kernel`.
    kernel : Kernel
        A kernel at unit length scale.
    points : {ndarray, CSR matrix} of shape (n_points, n_features)
        Distinct scaled rows, in random order.
    point_weights : ndarray of shape (n_points,)
        Sample weights of the points.

    Returns
    -------
    tuple of PairStatistics
        Statistics of all points, of the first half and of the second half. For a single point, all three are equal.
    """
    roots = np.sqrt(point_weights)
    features = fourier_map(points, frequencies, np.ones(len(frequencies)))
    features *= roots[:, None]
    n = len(features)
    halves = slice(0, max(1, n // 2)), slice(n // 2, n)  # a single point is both
    sizes = [float(point_weights[half].sum()) for half in halves]
    grams = [features[half].T @ features[half] for half in halves]
    own = [_kernel_forms(kernel, points, roots, features, half, half) for half in halves]
    # The kernel is symmetric, so that pairs between the halves count twice.
    forms = own[0] + own[1] + 2.0 * _kernel_forms(kernel, points, roots, features, *halves)
    first, second = (PairStatistics.from_points(sizes[i], [grams[i]], own[i]) for i in (0, 1))
    return PairStatistics.from_points(sum(sizes), grams, forms), first, second


def _kernel_forms(kernel: Kernel, points: Any, roots: Floats, features: Floats, rows: slice, columns: slice) -> Floats:
    """Return quadratic forms f' K f of the feature columns and, last, the sum of squares of a block K of the kernel.

    Rows and columns of K are multiplied by `roots`, the square roots of the points' weights, as the features are. The
    matrix is computed a few rows at a time, in threads. For a diagonal block, only the upper half is computed.
    """
    is_diagonal = rows == columns

    def forms_of(span: slice) -> Floats:
        own = slice(rows.start + span.start, rows.start + span.stop)
        others = slice(own.start, columns.stop) if is_diagonal else columns
        exact = kernel(points[own], points[others])
        exact *= roots[own, None] * roots[others]
        norms = np.einsum("ij,ij->j", exact, exact)
        if is_diagonal:
            above = slice(own.stop - own.start, None)  # these columns also stand for the lower half
            exact[:, above] *= 2.0
            norms[above] *= 2.0
        return np.append(np.einsum("ij,ij->j", features[own], exact @ features[others]), norms.sum())

    return reduce(np.add, in_threads(forms_of, row_spans(rows.stop - rows.start, SPAN_ROWS)))


def pair_statistics(
    frequencies: Floats, kernel: Kernel, X: Rows, n_pairs: int, rng: np.random.Generator, by_norm: bool = False
) -> PairStatistics:
    """Return statistics over sampled pairs of rows; all pairs if there are no more than `n_pairs`.

    Parameters
    ----------
    frequencies : ndarray of shape (n_frequencies, n_features)
        Frequencies of `kernel`.
    kernel : Kernel
        A kernel at unit length scale.
    X : Rows of shape (n_samples, n_features)
        The scaled rows.
    n_pairs : int
        Number of pairs.
    rng : numpy.random.Generator
        Random numbers that select the pairs.
    by_norm : bool, default=False
        Whether to sample pairs with probabilities p in proportion to the norm of their row of cosines. Each pair then
        has the weight 1 / (n p), which makes the statistics unbiased. The norms of all pairs would be too expensive, so
        that the pairs are sampled from a uniform sample that is 16 times as large.

    Returns
    -------
    PairStatistics
        The statistics.
    """
    first, second, pair_weights = draw_pairs(X, POOL_FACTOR * n_pairs if by_norm else n_pairs, rng)
    if by_norm:
        norms = np.empty(len(first))
        for pairs, differences in pair_differences(X, first, second, len(frequencies)):
            norms[pairs] = np.linalg.norm(np.cos(differences @ frequencies.T), axis=1)
        probabilities = pair_weights * norms
        probabilities /= probabilities.sum()
        selected = rng.choice(len(norms), size=n_pairs, p=probabilities)
        pair_weights = pair_weights[selected] / (len(norms) * probabilities[selected])
        first, second = first[selected], second[selected]
    cosines, exact = np.empty((len(first), len(frequencies))), np.empty(len(first))
    for pairs, differences in pair_differences(X, first, second, len(frequencies)):
        cosines[pairs] = np.cos(differences @ frequencies.T)
        exact[pairs] = kernel.at(differences)
    return PairStatistics.from_pairs(cosines, exact, pair_weights)
