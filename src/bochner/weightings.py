# SPDX-License-Identifier: BSD-3-Clause
r"""Weightings, which weight frequencies so that the features approximate the kernel well on the data.

A weighting returns the weights :math:`\beta_m` of :math:`\hat k(\delta) = \sum_m \beta_m \cos(w_m \cdot \delta)`.
Weights are never negative, so that :math:`\sqrt{\beta_m}` exists and the approximate kernel is positive semidefinite.
Plain random Fourier features have :math:`\beta_m = 1/M`. `Matrix` generalizes the weights to a matrix.

`Stein` and `Quadrature` compute weights from `PairStatistics`, averages over pairs of rows. For a pair with difference
:math:`\delta`, z holds the cosines :math:`\cos(w_m \cdot \delta)` and k is the exact kernel value. The mean squared
error of weights :math:`\beta` over pairs is a quadratic function of :math:`\beta`, so that the averages of
:math:`z z^T`, :math:`k z` and :math:`k^2` determine it. The pairs are all pairs of a sample of rows
(`point_statistics`), or sampled pairs (`pair_statistics`).
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.base import BaseEstimator

from bochner.compression import best_matrix, principal_components
from bochner.feature_maps import fourier_map
from bochner.feature_maps.kernel_columns import kernel_function
from bochner.kernels import Kernel
from bochner.linalg import jittered_cholesky, nonnegative_ridge
from bochner.rows import Floats, Mask, Rows, in_threads, row_spans
from bochner.rows.sampling import draw_pairs, pair_differences, sample_rows, shuffled_sample
from bochner.validation import COUNT, StrOptions, positive_values

__all__ = [*("PAPER_GRID", "WEIGHTINGS"), *("Matrix", "Quadrature", "Shrinkage", "Stein", "Uniform", "Weighting")]

PAPER_GRID = tuple(2.0**exponent for exponent in range(-8, 9, 2))
PAIRS_PER_FREQUENCY = 4  # the paper finds 2 to 4 pairs per frequency sufficient
MATRIX_GRID = (*(10.0**exponent for exponent in range(-7, 1)), 1e3)  # the last one almost keeps the plain kernel
JITTERS = (1e-10, 1e-8, 1e-6, 1e-4)
COMPRESSION_ROWS = 2000
POOL_FACTOR = 16  # candidate pairs per sampled pair, to estimate the distribution of row norms
SPAN_ROWS = 128


class Weighting(BaseEstimator, ABC):
    """Base class of weightings.

    Attributes
    ----------
    always_compresses : bool
        Whether the weighting needs a number of output columns, as `Matrix` does; False by default.
    needs_targets : bool
        Whether the weights are fitted to targets; False by default. `fit` then requires y.
    n_square_matrices : int
        Number of matrices with a row and a column per frequency that `weigh` holds; 0 by default. `fit` refuses those
        that exceed the memory of the machine.

    Notes
    -----
    **Subclassing**

    Write `weigh`, which returns one non-negative weight per frequency. Weights that sum to about 1 keep k(0) at about
    1. The frequencies are drawn before and from another random stream, so that a weighting never changes them. The
    method `compress` is used when `n_components` is given; the inherited one computes principal components. With
    ``needs_targets = True``, the rows that `weigh` gets have an attribute `targets`.

    Examples
    --------
    A weighting that gives high frequencies less weight.

    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.weightings import Weighting
    >>> class LowPass(Weighting):
    ...     def __init__(self, cutoff=3.0):
    ...         self.cutoff = cutoff
    ...     def weigh(self, frequencies, kernel, X, rng):
    ...         norms = np.linalg.norm(frequencies, axis=1)
    ...         weights = 1 / (1 + (norms / self.cutoff) ** 4)
    ...         return weights / weights.sum()
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> features = FourierFeatures(weighting=LowPass(cutoff=2.0), random_state=0).fit(X)
    >>> largest = np.linalg.norm(features.frequencies_, axis=1).argmax()
    >>> bool(features.weights_[largest] == features.weights_.min())
    True
    """

    always_compresses: ClassVar[bool] = False
    needs_targets: ClassVar[bool] = False
    n_square_matrices: ClassVar[int] = 0

    @abstractmethod
    def weigh(self, frequencies: Floats, kernel: Kernel, X: Rows, rng: np.random.Generator) -> Floats:
        """Return the weights of frequencies.

        Parameters
        ----------
        frequencies : ndarray of shape (n_frequencies, n_features)
            Frequencies of `kernel`, at unit length scale.
        kernel : Kernel
            A kernel at unit length scale.
        X : Rows of shape (n_samples, n_features)
            The data divided by the length scale; ``X[rows]`` reads rows by slice or index. If the weighting needs
            targets, ``X.targets`` are numbers of shape (n_samples, n_targets).
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        ndarray of shape (n_frequencies,)
            Non-negative weights.
        """

    def compress(
        self, frequencies: Floats, weights: Floats, kernel: Kernel, X: Rows, n_components: int, rng: np.random.Generator
    ) -> Floats:
        """Return a matrix that turns the weighted features into fewer columns.

        The columns are the uncentered principal components of the features of a sample of 2,000 rows.

        Parameters
        ----------
        frequencies : ndarray of shape (n_frequencies, n_features)
            Frequencies of `kernel`, at unit length scale.
        weights : ndarray of shape (n_frequencies,)
            Weights of the frequencies.
        kernel : Kernel
            A kernel at unit length scale.
        X : Rows of shape (n_samples, n_features)
            The data divided by the length scale.
        n_components : int
            Number of columns, at most ``2 * n_frequencies``.
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        ndarray of shape (2 * n_frequencies, n_components)
            The matrix by which the weighted features are multiplied.
        """
        del kernel
        points, point_weights = shuffled_sample(X, COMPRESSION_ROWS, rng)
        return principal_components(fourier_map(points, frequencies, weights), point_weights, n_components)


class Uniform(Weighting):
    """Equal weights 1/M, as in plain random Fourier features.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> from bochner.weightings import Uniform
    >>> Uniform().weigh(np.zeros((4, 2)), Gaussian(), np.zeros((1, 2)), np.random.default_rng(0))
    array([0.25, 0.25, 0.25, 0.25])
    """

    def weigh(self, frequencies: Floats, kernel: Kernel, X: Rows, rng: np.random.Generator) -> Floats:
        del kernel, X, rng
        return np.full(len(frequencies), 1.0 / len(frequencies))


class Shrinkage(Weighting):
    r"""Equal weights :math:`(1 - \alpha^*) / M`, the paper's Theorem 1 with :math:`\mu = 0`.

    .. math:: \alpha^* = \frac{V}{V + E[k^2]}, \quad V = \frac1M E\left[\frac{1 + k(2\delta)}2 - k(\delta)^2\right],

    with expectations over pairs of rows. V is the variance for independent frequencies. Other samplers have a smaller
    variance, and the formula shrinks their weights slightly too much.

    Parameters
    ----------
    n_points : int, default=2000
        Number of sampled rows. The expectations are averages over all pairs of them.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> from bochner.weightings import Shrinkage
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> Shrinkage().weigh(np.zeros((2, 1)), Gaussian(), X, np.random.default_rng(0)).round(3)
    array([0.418, 0.418])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"n_points": [COUNT]}

    def __init__(self, n_points: int = 2000) -> None:
        self.n_points = n_points

    def weigh(self, frequencies: Floats, kernel: Kernel, X: Rows, rng: np.random.Generator) -> Floats:
        points, point_weights = sample_rows(X, self.n_points, rng)
        shares = point_weights / point_weights.sum()
        energy, mean_at_twice = shares @ np.square(kernel(points)) @ shares, shares @ kernel(2.0 * points) @ shares
        variance = (0.5 + 0.5 * mean_at_twice - energy) / len(frequencies)
        return np.full(len(frequencies), energy / (max(variance, 0.0) + energy) / len(frequencies))


class Quadrature(Weighting):
    r"""Bayesian quadrature: weights of the posterior mean of a Gaussian process over frequencies.

    With :math:`K_{ml} = e^{-|w_m - w_l|^2 / (2 s^2)}` and :math:`\gamma_m = \int e^{-|w - w_m|^2 / (2 s^2)} dP(w)`, the
    weights :math:`K^{-1} \gamma` minimize the posterior variance :math:`\beta^T K \beta - 2 \gamma^T \beta`. Some of
    them can be negative. This class minimizes the posterior variance over :math:`\beta \ge 0` instead.

    Parameters
    ----------
    bandwidths : sequence of float, default=PAPER_GRID
        Candidates for s, as multiples of the median distance between frequencies.
    n_pairs : int, default=None
        Number of sampled pairs on which s has the smallest squared error; None means four per frequency.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> from bochner.weightings import Quadrature
    >>> rng = np.random.default_rng(0)
    >>> weights = Quadrature().weigh(rng.normal(size=(8, 2)), Gaussian(), rng.normal(size=(50, 2)), rng)
    >>> bool(weights.min() >= 0)
    True
    """

    n_square_matrices: ClassVar[int] = 16
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"bandwidths": ["array-like"], "n_pairs": [COUNT, None]}

    def __init__(self, bandwidths: Sequence[float] = PAPER_GRID, n_pairs: int | None = None) -> None:
        self.bandwidths = bandwidths
        self.n_pairs = n_pairs

    def weigh(self, frequencies: Floats, kernel: Kernel, X: Rows, rng: np.random.Generator) -> Floats:
        bandwidths = positive_values("bandwidths", self.bandwidths)
        n_pairs = self.n_pairs or PAIRS_PER_FREQUENCY * len(frequencies)
        statistics = pair_statistics(frequencies, kernel, X, n_pairs, rng)
        squared_distances = squareform(pdist(frequencies, "sqeuclidean"))
        positive = squared_distances[squared_distances > 0.0]
        bandwidths = bandwidths * (float(np.sqrt(np.median(positive))) if len(positive) else 1.0)

        def solve(candidate: tuple[float, Floats]) -> tuple[Floats, float]:
            bandwidth, log_embedding = candidate
            with np.errstate(over="ignore"):
                covariance = np.exp(-0.5 * np.square(np.sqrt(squared_distances) / bandwidth))
            _, jitter = jittered_cholesky(covariance, JITTERS)
            covariance.flat[:: len(covariance) + 1] += jitter
            # In many dimensions the embedding underflows, but the ratios of its entries do not.
            largest = float(log_embedding.max())
            return np.exp(largest) * nonnegative_ridge(covariance, np.exp(log_embedding - largest), 0.0), jitter

        candidates = list(zip(bandwidths, kernel.log_embedding(frequencies, bandwidths), strict=True))
        rules = list(in_threads(solve, candidates))
        weights, jitter = min(rules, key=lambda rule: statistics.risk(rule[0]))
        if jitter > JITTERS[0]:
            message = f"The covariance of frequencies is nearly singular, jitter {jitter:g}; use smaller `bandwidths`."
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        return weights


class Stein(Weighting):
    r"""Data-driven weights of the paper: non-negative ridge regression of the exact kernel on the cosines.

    .. math:: \min_{\beta \ge 0} \; \mathrm{mean}_{(x, y)} \Big(k(x - y) - \sum_m \beta_m \cos(w_m \cdot (x - y))
        \Big)^2 + \frac{\alpha}{4M} |\beta|^2

    The penalty `alpha` is the candidate with the smallest error on held-out pairs. The weights are then shrunk towards
    1/M by the factor that minimizes the held-out error. With few rows, they therefore stay close to uniform weights.

    Parameters
    ----------
    sketch : {"points", "pairs"}, default="points"
        Pairs that the mean is taken over: all pairs of sampled rows, or sampled pairs as in the paper.
    n_points : int, default=2000
        Number of sampled rows with ``sketch="points"``. Each half of them validates the weights of the other half.
    n_pairs : int, default=None
        Number of sampled pairs with ``sketch="pairs"``; as many again select `alpha`. None means four per frequency.
        If there are no more pairs than that, all pairs are used.
    sampling : {"uniform", "row-norm"}, default="uniform"
        Sampling probabilities with ``sketch="pairs"``: equal, or proportional to the norm of a pair's row of cosines.
        In the latter case, the regression weights each pair by its inverse probability.
    alphas : sequence of float, default=PAPER_GRID
        Candidates for `alpha`. With a single candidate, no pairs are held out and the weights are not shrunk.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> from bochner.weightings import Stein
    >>> rng = np.random.default_rng(0)
    >>> weights = Stein().weigh(rng.normal(size=(8, 2)), Gaussian(), rng.normal(size=(50, 2)), rng)
    >>> bool(weights.min() >= 0)
    True
    """

    n_square_matrices: ClassVar[int] = 10
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "sketch": [StrOptions(["points", "pairs"])],
        "n_points": [COUNT],
        "n_pairs": [COUNT, None],
        "sampling": [StrOptions(["uniform", "row-norm"])],
        "alphas": ["array-like"],
    }

    def __init__(
        self,
        sketch: Literal["points", "pairs"] = "points",
        n_points: int = 2000,
        n_pairs: int | None = None,
        sampling: Literal["uniform", "row-norm"] = "uniform",
        alphas: Sequence[float] = PAPER_GRID,
    ) -> None:
        self.sketch = sketch
        self.n_points = n_points
        self.n_pairs = n_pairs
        self.sampling = sampling
        self.alphas = alphas

    def weigh(self, frequencies: Floats, kernel: Kernel, X: Rows, rng: np.random.Generator) -> Floats:
        # With a mean over pairs, alpha / (4 M) is what alpha is with a sum over 4 M pairs.
        ridges = positive_values("alphas", self.alphas, zero=True) / (PAIRS_PER_FREQUENCY * len(frequencies))
        if self.sketch == "points":
            points, point_weights = shuffled_sample(X, self.n_points, rng)
            statistics, first, second = point_statistics(frequencies, kernel, points, point_weights)
            splits = [(first, second), (second, first)]
        else:
            n_pairs = self.n_pairs or PAIRS_PER_FREQUENCY * len(frequencies)
            statistics = pair_statistics(frequencies, kernel, X, n_pairs, rng, self.sampling == "row-norm")
            splits = [(statistics, pair_statistics(frequencies, kernel, X, n_pairs, rng))]
        if len(ridges) == 1:
            return nonnegative_ridge(statistics.gram, statistics.target, float(ridges[0]))
        ridge, shrinkage_factor = _select_ridge(splits, ridges)
        weights = nonnegative_ridge(statistics.gram, statistics.target, ridge)
        return shrinkage_factor * weights + (1.0 - shrinkage_factor) / len(weights)


def _select_ridge(splits: list[tuple["PairStatistics", "PairStatistics"]], ridges: Floats) -> tuple[float, float]:
    r"""Return the ridge with the smallest validation error, and the shrinkage factor of its weights.

    The validation error first falls, then rises as the ridge decreases. So the search goes from the largest ridge down
    and stops when the error rises. Each solution starts from the signs of the one before. The shrinkage factor is the
    :math:`\theta` in [0, 1] with the smallest validation error of :math:`u + \theta (\beta - u)`, a parabola, where u
    are uniform weights.
    """
    best, smallest_risk, solutions = 0.0, np.inf, []
    starts: list[Mask | None] = [None] * len(splits)

    def solve(number: int) -> Floats:
        training, _ = splits[number]
        return nonnegative_ridge(training.gram, training.target, ridge, starts[number])

    for ridge in np.sort(ridges)[::-1].tolist():
        found = list(in_threads(solve, range(len(splits))))
        risk = sum(validation.risk(weights) for (_, validation), weights in zip(splits, found, strict=True))
        if risk > smallest_risk:
            break
        best, smallest_risk, solutions = ridge, risk, found
        starts = [weights > 0.0 for weights in found]
    gain = curvature = 0.0
    for (_, validation), weights in zip(splits, solutions, strict=True):
        uniform = np.full(len(weights), 1.0 / len(weights))
        step = weights - uniform
        gain += float(step @ (validation.target - validation.gram @ uniform))
        curvature += float(step @ validation.gram @ step)
    return best, float(np.clip(gain / curvature, 0.0, 1.0)) if curvature > 0.0 else 1.0


class Matrix(Weighting):
    r"""A matrix in place of weights, which compresses many frequencies to few columns.

    The approximate kernel is :math:`F A F^T`, where F are the plain features and A is a positive semidefinite matrix of
    rank `n_components`. A minimizes the error on sampled rows, and is shrunk towards the identity matrix, which gives
    the plain kernel :math:`F F^T`. See `bochner.compression.best_matrix`. More frequencies for the same
    number of columns lower the error and slow down the map. Twelve frequencies per column are a good start.

    Parameters
    ----------
    n_points : int, default=2000
        Number of sampled rows. Each half of them validates the penalty on the other half.
    alphas : sequence of float, default=MATRIX_GRID
        Candidates for the ridge penalty, relative to feature rows of norm 1. With a single candidate, no rows are held
        out.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> features = FourierFeatures(n_frequencies=128, n_components=16, weighting="matrix", random_state=0)
    >>> features.fit_transform(X).shape
    (500, 16)
    """

    always_compresses: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"n_points": [COUNT], "alphas": ["array-like"]}

    def __init__(self, n_points: int = 2000, alphas: Sequence[float] = MATRIX_GRID) -> None:
        self.n_points = n_points
        self.alphas = alphas

    def weigh(self, frequencies: Floats, kernel: Kernel, X: Rows, rng: np.random.Generator) -> Floats:
        del kernel, X, rng
        positive_values("alphas", self.alphas, zero=True)
        return np.full(len(frequencies), 1.0 / len(frequencies))

    def compress(
        self, frequencies: Floats, weights: Floats, kernel: Kernel, X: Rows, n_components: int, rng: np.random.Generator
    ) -> Floats:
        alphas = positive_values("alphas", self.alphas, zero=True)
        points, point_weights = shuffled_sample(X, self.n_points, rng)
        features = fourier_map(points, frequencies, weights)
        return best_matrix(features, kernel_function(kernel)(points, points), point_weights, n_components, alphas)


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


WEIGHTINGS: dict[str, type[Weighting]] = {
    "uniform": Uniform,
    "shrinkage": Shrinkage,
    "quadrature": Quadrature,
    "stein": Stein,
    "matrix": Matrix,
}
