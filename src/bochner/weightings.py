# SPDX-License-Identifier: BSD-3-Clause
r"""Weightings: how much each frequency counts in :math:`\hat k(\delta) = \sum_m \beta_m \cos(w_m \cdot \delta)`.

Weights are never negative, so that :math:`\sqrt{\beta_m}` exists and the approximate kernel is positive
semidefinite. Plain Fourier features have :math:`\beta_m = 1/M`. One step on, `Matrix` lets the frequencies count
in pairs as well.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import linalg
from scipy.optimize import nnls
from scipy.spatial.distance import pdist, squareform
from sklearn.base import BaseEstimator

from bochner.feature_maps import fourier_map
from bochner.feature_maps.compression import best_matrix, principal_components
from bochner.kernels import Kernel, kernel_matrix
from bochner.rows import (
    Floats,
    Indices,
    Mask,
    Rows,
    draw_pairs,
    in_threads,
    pair_differences,
    sample_rows,
    serial_blas,
    shuffled_sample,
    sum_over_spans,
)
from bochner.validation import Interval, StrOptions, positive_values

__all__ = [
    "PAPER_GRID",
    "WEIGHTINGS",
    "Matrix",
    "PairStatistics",
    "Quadrature",
    "Shrinkage",
    "Stein",
    "Uniform",
    "Weighting",
    "nonnegative_ridge",
]

PAPER_GRID = tuple(2.0**exponent for exponent in range(-8, 9, 2))
PAIRS_PER_FREQUENCY = 4  # the paper: "2 to 4 times the number of random features" are enough
MATRIX_GRID = (*(10.0**exponent for exponent in range(-7, 1)), 1e3)  # the last one trusts the data next to nothing
JITTERS = (1e-10, 1e-8, 1e-6, 1e-4)


class Weighting(BaseEstimator, ABC):
    """Chooses one weight a frequency; subclasses write `weigh`."""

    always_compresses: ClassVar[bool] = False  # or only when asked for a number of columns
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @abstractmethod
    def weigh(self, frequencies: Floats, kernel: Kernel, X: Rows, rng: np.random.Generator) -> Floats:
        """Weights (n_frequencies,), none negative.

        Parameters
        ----------
        frequencies : ndarray of shape (n_frequencies, n_features)
            Frequencies of `kernel`.
        kernel : Kernel
            A shape at unit length scale.
        X : rows of shape (n_samples, n_features)
            The data in units of the length scale.
        rng : numpy.random.Generator
            The only source of randomness; the frequencies were drawn from another one.
        """

    def compress(
        self,
        frequencies: Floats,
        weights: Floats,
        kernel: Kernel,
        X: Rows,
        n_components: int,
        rng: np.random.Generator,
    ) -> Floats:
        """The matrix (2 * n_frequencies, n_components) that the weighted features are multiplied by.

        The columns are the principal components, about zero, of the features of 2,000 rows.
        """
        del kernel
        points, counts = shuffled_sample(X, 2000, rng)
        return principal_components(fourier_map(points, frequencies, weights), counts, n_components)


class Uniform(Weighting):
    """The plain weights 1/M.

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
        return _uniform(len(frequencies))


class Shrinkage(Weighting):
    r"""One number for all frequencies: :math:`(1 - \alpha^*) / M`, the paper's Theorem 1 with :math:`\mu = 0`.

    .. math:: \alpha^* = \frac{V}{V + E[k^2]}, \quad V = \frac1M E\left[\frac{1 + k(2\delta)}2 - k(\delta)^2\right],

    expectations over pairs of data. The variance is that of independent frequencies; samplers that do better are
    shrunk a little too much.

    Parameters
    ----------
    n_points : int, default=2000
        Rows sampled for the expectations, which run over all their pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> from bochner.weightings import Shrinkage
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> Shrinkage().weigh(np.zeros((2, 1)), Gaussian(), X, np.random.default_rng(0)).round(3)
    array([0.418, 0.418])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"n_points": [Interval(Integral, 1, None, closed="left")]}

    def __init__(self, n_points: int = 2000) -> None:
        self.n_points = n_points

    @serial_blas()  # no bit of the weights depends on the number of threads
    def weigh(self, frequencies: Floats, kernel: Kernel, X: Rows, rng: np.random.Generator) -> Floats:
        points, counts = sample_rows(X, self.n_points, rng)
        shares = counts / counts.sum()
        energy = float(shares @ np.square(kernel(points)) @ shares)
        variance = (0.5 + 0.5 * float(shares @ kernel(2.0 * points) @ shares) - energy) / len(frequencies)
        return energy / (max(variance, 0.0) + energy) * _uniform(len(frequencies))


@dataclass(frozen=True)
class PairStatistics:
    r"""What a quadratic risk over pairs is made of: averages of :math:`z z^T`, :math:`k z` and :math:`k^2`.

    z holds the cosines :math:`\cos(w_m \cdot \delta)` of a pair and k its exact kernel value.
    """

    gram: Floats
    target: Floats
    energy: float

    @classmethod
    def of_points(cls, n_points: float, gram: Floats, forms: Floats, energy: float) -> "PairStatistics":
        r"""Over all pairs of n points with features [C | S] at unit weight and kernel matrix K, without a pair formed.

        :math:`\sum z z^T` is the entrywise :math:`(C^TC)^2 + (C^TS)^2 + (S^TC)^2 + (S^TS)^2`, squares of blocks of
        the features' Gram matrix, and :math:`\sum k z_m = c_m^T K c_m + s_m^T K s_m`, sums of the quadratic forms
        `forms` of the columns in K; `energy` is the sum of squares of K.
        """
        m, n_pairs = len(gram) // 2, n_points**2
        squares = np.square(gram)
        cosines = squares[:m, :m] + squares[:m, m:] + squares[m:, :m] + squares[m:, m:]
        return cls(cosines / n_pairs, (forms[:m] + forms[m:]) / n_pairs, energy / n_pairs)

    @classmethod
    def of_pairs(cls, cosines: Floats, exact: Floats, pair_weights: Floats) -> "PairStatistics":
        """Over explicit pairs, each row multiplied by the root of its weight (the weights' mean estimates 1)."""
        roots = np.sqrt(pair_weights / len(exact))
        cosines, exact = cosines * roots[:, None], exact * roots
        return cls(cosines.T @ cosines, cosines.T @ exact, float(exact @ exact))

    def risk(self, weights: Floats) -> float:
        """Mean squared error of the weighted kernel over the pairs."""
        return float(self.energy - 2.0 * self.target @ weights + weights @ self.gram @ weights)


class Quadrature(Weighting):
    r"""Bayesian quadrature: the weights of the posterior mean of a Gaussian process over frequencies.

    With :math:`K_{ml} = e^{-|w_m - w_l|^2 / (2 s^2)}` and :math:`\gamma_m = \int e^{-|w - w_m|^2 / (2 s^2)} dP(w)`
    the weights are :math:`K^{-1} \gamma`, the minimiser of the posterior variance :math:`\beta^T K \beta - 2
    \gamma^T \beta`; here the minimiser over :math:`\beta \ge 0`, which is the same when none is negative.

    Parameters
    ----------
    bandwidths : sequence of float, default=PAPER_GRID
        Candidates for s, in units of the median distance between frequencies.
    selection : {"pairs", "likelihood"}, default="pairs"
        Choose s by the squared error on sampled pairs, or by the marginal likelihood of their cosines.
    n_pairs : int, default=None
        Number of sampled pairs; None means four a frequency.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "bandwidths": ["array-like"],
        "selection": [StrOptions({"pairs", "likelihood"})],
        "n_pairs": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        bandwidths: Sequence[float] = PAPER_GRID,
        selection: Literal["pairs", "likelihood"] = "pairs",
        n_pairs: int | None = None,
    ) -> None:
        self.bandwidths = bandwidths
        self.selection = selection
        self.n_pairs = n_pairs

    @serial_blas()  # no bit of the weights depends on the number of threads
    def weigh(self, frequencies: Floats, kernel: Kernel, X: Rows, rng: np.random.Generator) -> Floats:
        if not hasattr(kernel, "log_embedding"):
            raise ValueError(
                f"{type(kernel).__name__} is not compatible with weighting Quadrature: it must implement "
                f"`log_embedding`; use weighting='stein', 'shrinkage' or 'uniform'."
            )
        bandwidths = positive_values("bandwidths", self.bandwidths)
        n_pairs = self.n_pairs or PAIRS_PER_FREQUENCY * len(frequencies)
        statistics = PairStatistics.of_pairs(*_uniform_sample(frequencies, kernel, X, n_pairs, rng))
        squared = squareform(pdist(frequencies, "sqeuclidean"))
        apart = squared[squared > 0.0]
        unit = float(np.sqrt(np.median(apart))) if len(apart) else 1.0
        log_embeddings = kernel.log_embedding(frequencies, unit * bandwidths)
        rules = [
            _QuadratureRule.at(bandwidth, log_embedding, squared)
            for bandwidth, log_embedding in zip((unit * bandwidths).tolist(), log_embeddings, strict=True)
        ]
        if self.selection == "pairs" or len(frequencies) == 1:  # one value has no length scale to be likely
            best = min(rules, key=lambda rule: statistics.risk(rule.weights))
        else:
            best = max(rules, key=lambda rule: rule.log_likelihood(statistics))
        if best.jitter > JITTERS[0]:
            warnings.warn(
                f"The covariance of the frequencies is nearly singular: {best.jitter:g} was added to its diagonal. "
                f"Smaller `bandwidths` avoid it.",
                RuntimeWarning,
                stacklevel=2,
            )
        return best.weights


@dataclass(frozen=True)
class _QuadratureRule:
    """Bayesian quadrature at one bandwidth: the covariance's Cholesky factor and the non-negative weights."""

    factor: Floats
    weights: Floats
    jitter: float

    @classmethod
    def at(cls, bandwidth: float, log_embedding: Floats, squared: Floats) -> "_QuadratureRule":
        with np.errstate(over="ignore"):
            covariance = np.exp(-0.5 * np.square(np.sqrt(squared) / bandwidth))
        # In many dimensions the embedding underflows long before the ratios of its entries do.
        top = float(log_embedding.max())
        for jitter in JITTERS:
            covariance.flat[:: len(covariance) + 1] = 1.0 + jitter
            try:
                factor = linalg.cholesky(covariance, lower=True)
                weights = nonnegative_ridge(covariance, np.exp(log_embedding - top), 0.0)
            except linalg.LinAlgError:
                continue
            return cls(factor, np.exp(top) * weights, jitter)
        raise linalg.LinAlgError(f"The covariance of the frequencies is singular at bandwidth {bandwidth:g}.")

    def log_likelihood(self, statistics: PairStatistics) -> float:
        """Marginal likelihood of the pairs' cosines as independent functions, their amplitude maximised out."""
        amplitude = np.trace(linalg.cho_solve((self.factor, True), statistics.gram)) / len(self.factor)
        log_determinant = 2.0 * np.log(np.diag(self.factor)).sum()
        return -0.5 * float(len(self.factor) * np.log(amplitude) + log_determinant)


class Stein(Weighting):
    r"""The paper's data-driven weights: ridge regression of the exact kernel on the cosines, without negative weights.

    .. math:: \min_{\beta \ge 0} \; \mathrm{mean}_{(x, y)} \Big(k(x - y) - \sum_m \beta_m \cos(w_m \cdot (x - y))
        \Big)^2 + \frac{\alpha}{4M} |\beta|^2

    `alpha` is the candidate with the smallest error on held-out pairs; then the weights are moved towards 1/M by the
    factor that those pairs ask for, so that few data never make them worse than uniform ones there.

    Parameters
    ----------
    sketch : {"points", "pairs"}, default="points"
        Which pairs the mean runs over: all pairs of sampled rows, or sampled pairs (the paper's sketch).
    n_points : int, default=2000
        Rows sampled by ``sketch="points"``; half of them judge the weights of the other half.
    n_pairs : int, default=None
        Pairs sampled by ``sketch="pairs"`` for the regression, and as many again to choose `alpha`; None means four
        a frequency, n_samples squared or more all of them.
    sampling : {"uniform", "row-norm"}, default="uniform"
        Probabilities of ``sketch="pairs"``: equal, or proportional to the norm of the row of cosines, which the
        regression then weighs by the inverse.
    alphas : sequence of float, default=PAPER_GRID
        Ridge candidates, in units of the paper's sketch of 4M pairs. With a single one nothing is held out and the
        weights solve the problem above exactly.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "sketch": [StrOptions({"points", "pairs"})],
        "n_points": [Interval(Integral, 1, None, closed="left")],
        "n_pairs": [Interval(Integral, 1, None, closed="left"), None],
        "sampling": [StrOptions({"uniform", "row-norm"})],
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
        ridges = positive_values("alphas", self.alphas, zero=True) / (PAIRS_PER_FREQUENCY * len(frequencies))
        sketch = self._points if self.sketch == "points" else self._pairs
        statistics, splits = sketch(frequencies, kernel, X, rng)
        if len(ridges) == 1:
            return _solve(statistics, float(ridges[0]))
        ridge, trust = _select(splits, ridges)
        weights = _solve(statistics, ridge)
        return trust * weights + (1.0 - trust) * _uniform(len(weights))

    def _points(self, frequencies: Floats, kernel: Kernel, X: Rows, rng: np.random.Generator) -> "_Sketch":
        points, counts = shuffled_sample(X, self.n_points, rng)
        roots = np.sqrt(counts)
        features = fourier_map(points, frequencies, np.ones(len(frequencies)))
        n = len(features)
        if n == 1:  # a single row, however often it counts, judges itself
            whole = PairStatistics.of_points(1.0, features.T @ features, np.square(features[0]), 1.0)
            return whole, [(whole, whole)]
        features *= roots[:, None]
        halves = slice(0, n // 2), slice(n // 2, n)
        sizes = [float(np.square(roots[half]).sum()) for half in halves]
        grams = list(in_threads(lambda half: features[half].T @ features[half], halves))
        own = [_kernel_sums(kernel, points, roots, features, half, half) for half in halves]
        across = _kernel_sums(kernel, points, roots, features, *halves)
        parts = [
            PairStatistics.of_points(size, gram, sums[:-1], sums[-1])
            for size, gram, sums in zip(sizes, grams, own, strict=True)
        ]
        # The kernel is symmetric: pairs across the halves count twice.
        sums = own[0] + own[1] + 2.0 * across
        whole = PairStatistics.of_points(sum(sizes), grams[0] + grams[1], sums[:-1], sums[-1])
        return whole, [(parts[0], parts[1]), (parts[1], parts[0])]

    @serial_blas()
    def _pairs(self, frequencies: Floats, kernel: Kernel, X: Rows, rng: np.random.Generator) -> "_Sketch":
        n_pairs = self.n_pairs or PAIRS_PER_FREQUENCY * len(frequencies)
        sample = _uniform_sample if self.sampling == "uniform" else _row_norm_sample
        drawn = PairStatistics.of_pairs(*sample(frequencies, kernel, X, n_pairs, rng))
        return drawn, [(drawn, PairStatistics.of_pairs(*_uniform_sample(frequencies, kernel, X, n_pairs, rng)))]


_Sketch = tuple[PairStatistics, list[tuple[PairStatistics, PairStatistics]]]


def _kernel_sums(kernel: Kernel, points: Any, roots: Floats, features: Floats, rows: slice, columns: slice) -> Floats:
    """Quadratic forms f' K f of the feature columns, then the sum of squares of K, for a block K of the kernel matrix.

    The rows and columns of K are multiplied by `roots`, the roots of the points' weights, as the features are. The
    matrix is made and used a few rows at a time, and of a block on the diagonal only the upper half.
    """
    square = rows == columns

    def part(span: slice) -> Floats:
        own = slice(rows.start + span.start, rows.start + span.stop)
        others = slice(own.start, columns.stop) if square else columns
        exact = kernel(points[own], points[others])
        exact *= roots[own, None] * roots[others]
        norms = np.einsum("ij,ij->j", exact, exact)
        if square:
            twice = slice(own.stop - own.start, None)  # beyond the diagonal's own piece, for the lower half
            exact[:, twice] *= 2.0
            norms[twice] *= 2.0
        return np.append(np.einsum("ij,ij->j", features[own], exact @ features[others]), norms.sum())

    return sum_over_spans(part, rows.stop - rows.start, 128)


def _select(splits: list[tuple[PairStatistics, PairStatistics]], ridges: Floats) -> tuple[float, float]:
    r"""The ridge with the smallest held-out risk, and how far to trust its weights against uniform ones.

    The risk falls, then rises along the ridges: the walk goes from the largest down and ends where it rises; each
    solution starts from the signs of the one before. The risk of :math:`u + \theta (\beta - u)` is a parabola in
    :math:`\theta`; its minimum in [0, 1] is returned.
    """
    best, best_risk = 0.0, np.inf
    chosen: list[Floats] = []
    starts: list[Mask | None] = [None] * len(splits)
    for ridge in np.sort(ridges)[::-1]:
        problems = [(seen, float(ridge), start) for (seen, _), start in zip(splits, starts, strict=True)]
        solutions = list(in_threads(lambda problem: _solve(*problem), problems))
        risk = sum(held.risk(weights) for (_, held), weights in zip(splits, solutions, strict=True))
        if risk > best_risk:
            break
        best, best_risk, chosen = float(ridge), risk, solutions
        starts = [weights > 0.0 for weights in solutions]
    return best, _trust([held for _, held in splits], chosen)


def _trust(held: list[PairStatistics], weights: list[Floats]) -> float:
    """How far to go from uniform weights to the given ones, for the smallest held-out risk: between 0 and 1."""
    gain = curvature = 0.0
    for statistics, candidate in zip(held, weights, strict=True):
        uniform = _uniform(len(candidate))
        step = candidate - uniform
        gain += float(step @ (statistics.target - statistics.gram @ uniform))
        curvature += float(step @ statistics.gram @ step)
    return float(np.clip(gain / curvature, 0.0, 1.0)) if curvature > 0.0 else 1.0


class Matrix(Weighting):
    r"""A matrix between the features in place of weights: a pool of frequencies compressed to a few columns.

    The approximate kernel is :math:`F A F^T`, F the pool's plain features and A the positive semidefinite matrix of
    rank `n_components` that comes closest to the exact kernel on sampled rows, shrunk towards the plain kernel
    :math:`F F^T`; see `bochner.feature_maps.compression.best_matrix`. The larger the pool for a number of columns, the lower the
    error and the slower the map: twelve frequencies a column are a good start.

    Parameters
    ----------
    n_points : int, default=2000
        Rows sampled; the halves of them judge each other's ridge.
    alphas : sequence of float, default=MATRIX_GRID
        Ridge candidates, for rows of features of length one. With a single one nothing is held out.

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
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_points": [Interval(Integral, 1, None, closed="left")],
        "alphas": ["array-like"],
    }

    def __init__(self, n_points: int = 2000, alphas: Sequence[float] = MATRIX_GRID) -> None:
        self.n_points = n_points
        self.alphas = alphas

    def weigh(self, frequencies: Floats, kernel: Kernel, X: Rows, rng: np.random.Generator) -> Floats:
        """The weights 1/M of the pool, which the matrix builds on."""
        del kernel, X, rng
        positive_values("alphas", self.alphas, zero=True)
        return _uniform(len(frequencies))

    def compress(
        self,
        frequencies: Floats,
        weights: Floats,
        kernel: Kernel,
        X: Rows,
        n_components: int,
        rng: np.random.Generator,
    ) -> Floats:
        """The matrix (2 * n_frequencies, n_components) that the pool's features are multiplied by."""
        alphas = positive_values("alphas", self.alphas, zero=True)
        points, counts = shuffled_sample(X, self.n_points, rng)
        features = fourier_map(points, frequencies, weights)
        return best_matrix(features, kernel_matrix(kernel, points), counts, n_components, alphas)


def _solve(statistics: PairStatistics, ridge: float, start: Mask | None = None) -> Floats:
    with serial_blas():  # threads only wait for each other in factorisations of this size
        return nonnegative_ridge(statistics.gram, statistics.target, ridge, start)


def nonnegative_ridge(gram: Floats, target: Floats, ridge: float, start: Mask | None = None) -> Floats:
    r"""The minimiser of :math:`\beta^T (G + \rho I) \beta - 2 t^T \beta` over :math:`\beta \ge 0`.

    Block principal pivoting (Portugal, Judice and Vicente, 1994): guess the positive weights, solve for them, and
    exchange every weight that came out with the wrong sign. That takes a handful of Cholesky factorisations, where
    an active-set method needs a step a weight; such a method (scipy's) takes over when the exchanges go in circles.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        G, positive semidefinite.
    target : ndarray of shape (n,)
        t.
    ridge : float
        The ridge; where it is 0, a rounding error's worth is added.
    start : ndarray of bool of shape (n,), default=None
        First guess of the positive weights; None means all.

    Returns
    -------
    ndarray of shape (n,)
        The weights.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.weightings import nonnegative_ridge
    >>> nonnegative_ridge(np.eye(2), np.array([1.0, -1.0]), 0.0).round(6)
    array([1., 0.])
    """
    n = len(target)
    floor = n * np.finfo(float).eps * float(np.max(np.diag(gram)) or 1.0)
    gram = gram.copy()
    gram.flat[:: n + 1] += max(ridge, floor)
    slack = 1e-12 * float(np.abs(target).max())
    positive = np.ones(n, dtype=bool) if start is None else start.copy()
    fewest, patience = n + 1, 5
    while True:
        weights = np.zeros(n)
        if positive.any():
            factor = linalg.cho_factor(gram[np.ix_(positive, positive)], overwrite_a=True, check_finite=False)
            weights[positive] = linalg.cho_solve(factor, target[positive], check_finite=False)
        gradient = gram @ weights - target
        wrong = np.where(positive, weights < 0.0, gradient < -slack)
        count = int(wrong.sum())
        if count == 0:
            return weights
        if count >= fewest:
            patience -= 1
            if patience == 0:
                return _active_set(gram, target)
        fewest = min(fewest, count)
        positive ^= wrong


def _active_set(gram: Floats, target: Floats) -> Floats:
    """The same minimiser by scipy's active-set method, from the Cholesky factor of the (definite) Gram matrix."""
    factor = linalg.cholesky(gram, lower=True)
    whitened = linalg.solve_triangular(factor, target, lower=True)
    return np.asarray(nnls(factor.T, whitened, maxiter=100 * len(target))[0])


def _uniform(n_frequencies: int) -> Floats:
    return np.full(n_frequencies, 1.0 / n_frequencies)


def _cosines(frequencies: Floats, kernel: Kernel, X: Rows, first: Indices, second: Indices) -> tuple[Floats, Floats]:
    """cos(w_m . (x_i - x_j)) and k(x_i - x_j) for the given pairs, shapes (n_pairs, M) and (n_pairs,)."""
    cosines, exact = np.empty((len(first), len(frequencies))), np.empty(len(first))
    for pairs, differences in pair_differences(X, first, second, len(frequencies)):
        np.matmul(differences, frequencies.T, out=cosines[pairs])
        np.cos(cosines[pairs], out=cosines[pairs])
        exact[pairs] = kernel.at(differences)
    return cosines, exact


def _uniform_sample(
    frequencies: Floats, kernel: Kernel, X: Rows, n_pairs: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Cosines and kernel values of pairs of rows, each pair as likely as any other, and the pairs' weights."""
    first, second, pair_weights = draw_pairs(X, n_pairs, rng)
    return *_cosines(frequencies, kernel, X, first, second), pair_weights


def _row_norm_sample(
    frequencies: Floats, kernel: Kernel, X: Rows, n_pairs: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Pairs drawn with probability p proportional to the norm of their row of cosines, and their weights 1/(n p).

    The norms of all n^2 rows are out of reach: a uniform pool of 16 times the size stands for them.
    """
    first, second, pair_weights = draw_pairs(X, 16 * n_pairs, rng)
    norms = np.empty(len(first))
    for pairs, differences in pair_differences(X, first, second, len(frequencies)):
        norms[pairs] = np.linalg.norm(np.cos(differences @ frequencies.T), axis=1)
    probabilities = pair_weights * norms / (pair_weights @ norms)
    chosen = rng.choice(len(norms), size=n_pairs, p=probabilities)
    cosines, exact = _cosines(frequencies, kernel, X, first[chosen], second[chosen])
    return cosines, exact, pair_weights[chosen] / (len(norms) * probabilities[chosen])


WEIGHTINGS: dict[str, type[Weighting]] = {
    "uniform": Uniform,
    "shrinkage": Shrinkage,
    "quadrature": Quadrature,
    "stein": Stein,
    "matrix": Matrix,
}
