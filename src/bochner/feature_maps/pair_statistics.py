# SPDX-License-Identifier: BSD-3-Clause
r"""Statistics of the regression of a kernel on cosines, averaged over pairs of rows.

For a pair of rows with difference :math:`\delta`, z holds the cosines :math:`\cos(w_m \cdot \delta)` and k is the exact
kernel value. The mean squared error of weights :math:`\beta` over pairs is a quadratic function of :math:`\beta`, so
that the averages of :math:`z z^T`, :math:`k z` and :math:`k^2` determine it. The pairs are all pairs of a sample of
rows (`point_statistics`), or sampled pairs (`uniform_pair_statistics`, `row_norm_pair_statistics`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.feature_maps import fourier_map
from bochner.kernels import Kernel
from bochner.rows import (
    Floats,
    Indices,
    Rows,
    add_gram,
    draw_pairs,
    in_threads,
    mirror,
    pair_differences,
    row_spans,
    serial_blas,
    sum_over_spans,
)

__all__ = ["PairStatistics", "point_statistics", "row_norm_pair_statistics", "uniform_pair_statistics"]

POOL_FACTOR = 16  # candidate pairs per sampled pair, to estimate the distribution of row norms
SPAN_ROWS = 128
TILE = 64  # rows of a matrix that a thread computes at a time, in the cache


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
    def of_points(cls, n_points: float, grams: Sequence[Floats], forms: Floats) -> "PairStatistics":
        r"""Return the statistics over all pairs of n points, without forming the pairs.

        With features [C | S] at unit weight, :math:`\sum z z^T` is the entrywise sum
        :math:`(C^TC)^2 + (C^TS)^2 + (S^TC)^2 + (S^TS)^2`, and
        :math:`\sum k z_m = c_m^T K c_m + s_m^T K s_m`.

        Parameters
        ----------
        n_points : float
            Number of points, or the sum of their weights.
        grams : sequence of ndarray of shape (2 * n_frequencies, 2 * n_frequencies)
            Gram matrices of the features of parts of the points; only their lower halves are read.
        forms : ndarray of shape (2 * n_frequencies + 1,)
            Quadratic forms of the feature columns in the kernel matrix K, and last the sum of the squared entries of K.

        Returns
        -------
        PairStatistics
            The statistics.
        """
        m, n_pairs = len(grams[0]) // 2, n_points**2
        cosines = np.empty((m, m))

        def fill(rows: slice) -> None:
            above, sines = slice(0, rows.stop), slice(m + rows.start, m + rows.stop)
            own = cosines[rows, above]
            own[...] = 0.0
            for left, right in ((rows, above), (sines, slice(m, m + rows.stop)), (sines, above)):
                own += np.square(_sum([gram[left, right] for gram in grams]))
            own += np.square(_sum([gram[m : m + rows.stop, rows] for gram in grams])).T
            own /= n_pairs

        list(in_threads(fill, row_spans(m, TILE)[::-1]))  # the longest first
        mirror(cosines)
        return cls(cosines, (forms[:m] + forms[m:-1]) / n_pairs, float(forms[-1]) / n_pairs)

    @classmethod
    @serial_blas  # no bit depends on the number of threads
    def of_pairs(cls, cosines: Floats, exact: Floats, pair_weights: Floats) -> "PairStatistics":
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

    @serial_blas
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
        Distinct rows divided by the length scale, in random order.
    point_weights : ndarray of shape (n_points,)
        Sample weights of the points.

    Returns
    -------
    tuple of PairStatistics
        Statistics of all points, of the first half and of the second half. For a single point, all three are equal.
    """
    roots = np.sqrt(point_weights)
    features = fourier_map(points, frequencies, np.ones(len(frequencies)))
    n = len(features)
    if n == 1:
        whole = PairStatistics.of_points(1.0, [features.T @ features], np.append(np.square(features[0]), 1.0))
        return whole, whole, whole
    features *= roots[:, None]
    halves = slice(0, n // 2), slice(n // 2, n)
    sizes = [float(np.square(roots[half]).sum()) for half in halves]
    grams = list(in_threads(lambda half: _gram(features[half]), halves))
    own = [_kernel_forms(kernel, points, roots, features, half, half) for half in halves]
    # The kernel is symmetric, so that pairs between the halves count twice.
    forms = own[0] + own[1] + 2.0 * _kernel_forms(kernel, points, roots, features, *halves)
    halved = [(size, [gram], form) for size, gram, form in zip(sizes, grams, own, strict=True)]
    samples = [(sum(sizes), grams, forms), *halved]
    whole, first, second = (PairStatistics.of_points(*sample) for sample in samples)
    return whole, first, second


def _sum(parts: list[Floats]) -> Floats:
    return parts[0] if len(parts) == 1 else np.asarray(sum(parts[1:], start=parts[0]))


def _gram(features: Floats) -> Floats:
    """Return the lower half of the Gram matrix of features."""
    gram = np.zeros((features.shape[1],) * 2)
    add_gram(gram, features)
    return gram


def _kernel_forms(kernel: Kernel, points: Any, roots: Floats, features: Floats, rows: slice, columns: slice) -> Floats:
    """Return quadratic forms f' K f of the feature columns and, last, the sum of squares of a block K of the kernel.

    Rows and columns of K are multiplied by `roots`, the square roots of the points' weights, as the features are. The
    matrix is computed a few rows at a time. For a diagonal block, only the upper half is computed.
    """
    is_diagonal = rows == columns

    def part(span: slice) -> Floats:
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

    return sum_over_spans(part, rows.stop - rows.start, SPAN_ROWS)


def uniform_pair_statistics(
    frequencies: Floats, kernel: Kernel, X: Rows, n_pairs: int, rng: np.random.Generator
) -> PairStatistics:
    """Return statistics over pairs of rows that are sampled uniformly.

    Parameters
    ----------
    frequencies : ndarray of shape (n_frequencies, n_features)
        Frequencies of `kernel`.
    kernel : Kernel
        A kernel at unit length scale.
    X : Rows of shape (n_samples, n_features)
        The data divided by the length scale.
    n_pairs : int
        Number of pairs. All pairs are used if there are no more than that.
    rng : numpy.random.Generator
        Random numbers that select the pairs.

    Returns
    -------
    PairStatistics
        The statistics.
    """
    first, second, pair_weights = draw_pairs(X, n_pairs, rng)
    return PairStatistics.of_pairs(*_cosines(frequencies, kernel, X, first, second), pair_weights)


def row_norm_pair_statistics(
    frequencies: Floats, kernel: Kernel, X: Rows, n_pairs: int, rng: np.random.Generator
) -> PairStatistics:
    """Return statistics over pairs sampled with probabilities p proportional to the norm of their row of cosines.

    Each pair has the weight 1 / (n p), which makes the statistics unbiased. The norms of all pairs would be too
    expensive, so that the pairs are sampled from a uniform sample that is 16 times as large.

    Parameters
    ----------
    frequencies : ndarray of shape (n_frequencies, n_features)
        Frequencies of `kernel`.
    kernel : Kernel
        A kernel at unit length scale.
    X : Rows of shape (n_samples, n_features)
        The data divided by the length scale.
    n_pairs : int
        Number of pairs.
    rng : numpy.random.Generator
        Random numbers that select the pairs.

    Returns
    -------
    PairStatistics
        The statistics.
    """
    first, second, pair_weights = draw_pairs(X, POOL_FACTOR * n_pairs, rng)
    norms = np.empty(len(first))
    for pairs, differences in pair_differences(X, first, second, len(frequencies)):
        norms[pairs] = np.linalg.norm(_cosines_of(differences, frequencies), axis=1)
    probabilities = pair_weights * norms
    probabilities /= probabilities.sum()
    selected = rng.choice(len(norms), size=n_pairs, p=probabilities)
    cosines, exact = _cosines(frequencies, kernel, X, first[selected], second[selected])
    return PairStatistics.of_pairs(cosines, exact, pair_weights[selected] / (len(norms) * probabilities[selected]))


def _cosines(frequencies: Floats, kernel: Kernel, X: Rows, first: Indices, second: Indices) -> tuple[Floats, Floats]:
    """Return cos(w_m . (x_i - x_j)) and k(x_i - x_j) of pairs, of shapes (n_pairs, n_frequencies) and (n_pairs,)."""
    cosines, exact = np.empty((len(first), len(frequencies))), np.empty(len(first))
    for pairs, differences in pair_differences(X, first, second, len(frequencies)):
        cosines[pairs] = _cosines_of(differences, frequencies)
        exact[pairs] = kernel.at(differences)
    return cosines, exact


@serial_blas
def _cosines_of(differences: Floats, frequencies: Floats) -> Floats:
    return np.asarray(np.cos(differences @ frequencies.T))
