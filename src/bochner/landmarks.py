# SPDX-License-Identifier: BSD-3-Clause
"""Landmarks: the points at which `LandmarkFeatures` evaluates its kernel.

Each selection has one method, `select`. A new selection is one class and one line in `LANDMARKS`.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from bochner.feature_maps.kernel_columns import kernel_diagonal
from bochner.linalg import jittered_cholesky
from bochner.rows import Floats, Indices, Rows, in_threads, shuffled_sample, to_dense
from bochner.validation import COUNT

__all__ = ["LANDMARKS", "KMeans", "LandmarkSelection", "Pivoted", "Uniform", "pivots"]

KernelFunction = Callable[[Any, Any], Floats]
SMALLEST_RESIDUAL = 1e-10  # smaller residuals, relative to the largest value of the kernel, are rounding errors
N_POINTS = 2000
POINTS_PER_CENTER, MOST_POINTS = 40, 10_000  # of k-means
VALIDATION_POINTS = 1000


class LandmarkSelection(BaseEstimator, ABC):
    """Base class of landmark selections.

    Attributes
    ----------
    needs_numbers : bool
        Whether landmarks are computed from numeric rows; else they are rows of the data, of any kind.

    Notes
    -----
    **Subclassing**

    Write `select`. Rows are divided by the length scale before they reach it, and so are the landmarks that it returns.
    Parameters follow scikit-learn's conventions: `__init__` stores them unchanged.

    Examples
    --------
    The first rows of a sample in random order:

    >>> import numpy as np
    >>> from bochner import LandmarkFeatures
    >>> from bochner.landmarks import LandmarkSelection
    >>> from bochner.rows import shuffled_sample
    >>> class First(LandmarkSelection):
    ...     def select(self, kernel, n_landmarks, X, rng):
    ...         points, _ = shuffled_sample(X, n_landmarks, rng)
    ...         return points[:n_landmarks]
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> features = LandmarkFeatures(landmarks=First(), n_landmarks=64, random_state=0).fit(X)
    >>> bool(features.kernel_error(X, random_state=0).error < 0.05)
    True
    """

    needs_numbers: ClassVar[bool] = False

    @abstractmethod
    def select(self, kernel: KernelFunction, n_landmarks: int, X: Rows, rng: np.random.Generator) -> Any:
        """Select landmarks.

        Parameters
        ----------
        kernel : callable
            Returns the kernel matrix of two sets of rows.
        n_landmarks : int
            Number of landmarks.
        X : Rows of shape (n_samples, n_features)
            Rows, with sample weights if they have any.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        {ndarray, CSR matrix} of shape (at most n_landmarks, n_features)
            The landmarks; fewer where there are fewer distinct rows.
        """


class Uniform(LandmarkSelection):
    """Rows drawn at random, as in scikit-learn's `Nystroem`; with sample weights, in proportion to them.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.landmarks import Uniform
    >>> Uniform().select(None, 2, np.arange(6.0).reshape(3, 2), np.random.default_rng(0)).shape
    (2, 2)
    """

    def select(self, kernel: KernelFunction, n_landmarks: int, X: Rows, rng: np.random.Generator) -> Any:
        points, point_weights = shuffled_sample(X, max(N_POINTS, n_landmarks), rng)
        return points[_draw(point_weights, n_landmarks, rng)]


class Pivoted(LandmarkSelection):
    r"""Pivots of a randomly pivoted Cholesky factorization of the kernel matrix of sampled rows.

    A row is drawn with a probability in proportion to its residual :math:`k(x, x) - \hat k(x, x)` after the rows drawn
    before, so that landmarks are spread over the data.

    Parameters
    ----------
    n_points : int, default=2000
        Number of sampled rows.

    References
    ----------
    Chen, Epperly, Tropp and Webber, "Randomly pivoted Cholesky", Communications on Pure and Applied Mathematics 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> from bochner.landmarks import Pivoted
    >>> X = np.array([[0.0], [0.1], [9.0]])
    >>> sorted(Pivoted().select(Gaussian(), 2, X, np.random.default_rng(0)).round().ravel().tolist())
    [0.0, 9.0]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"n_points": [COUNT]}

    def __init__(self, n_points: int = N_POINTS) -> None:
        self.n_points = n_points

    def select(self, kernel: KernelFunction, n_landmarks: int, X: Rows, rng: np.random.Generator) -> Any:
        points, point_weights = shuffled_sample(X, max(self.n_points, n_landmarks), rng)
        return points[pivots(kernel, points, point_weights, n_landmarks, rng)]


class KMeans(LandmarkSelection):
    """Centers of a few steps of k-means on sampled rows.

    The steps start once from random rows, which suit short length scales, and once from k-means++, which covers
    clusters and tails. The centers with the smaller kernel error on sampled rows are kept. A few steps
    are enough: k-means at convergence has no lower kernel error.

    Parameters
    ----------
    n_points : int, default=None
        Number of sampled rows; None means 40 per landmark, at least 2,000 and at most 10,000.
    n_iterations : int, default=4
        Number of steps.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> from bochner.landmarks import KMeans
    >>> X = np.array([[0.0], [0.2], [9.0], [9.2]])
    >>> sorted(KMeans().select(Gaussian(), 2, X, np.random.default_rng(0)).round(6).ravel().tolist())
    [0.1, 9.1]
    """

    needs_numbers = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"n_points": [COUNT, None], "n_iterations": [COUNT]}

    def __init__(self, n_points: int | None = None, n_iterations: int = 4) -> None:
        self.n_points = n_points
        self.n_iterations = n_iterations

    def select(self, kernel: KernelFunction, n_landmarks: int, X: Rows, rng: np.random.Generator) -> Any:
        from sklearn import cluster  # a slow import, which `import bochner` does without

        n_points = self.n_points or int(np.clip(POINTS_PER_CENTER * n_landmarks, N_POINTS, MOST_POINTS))
        points, point_weights = shuffled_sample(X, max(n_points, n_landmarks), rng)
        if points.shape[0] <= n_landmarks:
            return points
        random = points[_draw(point_weights, n_landmarks, rng)]
        options: Any = {"sample_weight": point_weights, "random_state": int(rng.integers(2**31)), "n_local_trials": 1}

        def centers(is_spread: bool) -> Floats:
            start = cluster.kmeans_plusplus(points, n_landmarks, **options)[0] if is_spread else random
            steps = cluster.KMeans(n_landmarks, init=to_dense(start), n_init=1, max_iter=self.n_iterations, tol=0.0)
            with threadpool_limits(1, user_api="openmp"):  # several threads add up in any order
                return np.asarray(steps.fit(points, sample_weight=point_weights).cluster_centers_)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is meant to stop early, also with equal centers
            candidates = list(in_threads(centers, [False, True]))
        points, point_weights = points[:VALIDATION_POINTS], point_weights[:VALIDATION_POINTS]
        exact = kernel(points, points)
        errors = [_squared_error(kernel, exact, landmarks, points, point_weights) for landmarks in candidates]
        return candidates[int(np.argmin(errors))]


def pivots(
    kernel: KernelFunction, points: Any, point_weights: Floats, n_pivots: int, rng: np.random.Generator
) -> Indices:
    r"""Draw the pivots of a randomly pivoted Cholesky factorization.

    Several pivots are proposed at a time, in proportion to residuals :math:`d_i`; a proposal whose residual has become
    :math:`h_i` by the accepted ones before it is accepted with probability :math:`h_i / d_i`. The pivots have the same
    distribution as if they were drawn one by one.

    Parameters
    ----------
    kernel : callable
        Returns the kernel matrix of two sets of rows.
    points : {ndarray, CSR matrix} of shape (n_points, n_features)
        Rows.
    point_weights : ndarray of shape (n_points,)
        Sample weights, which multiply the residuals.
    n_pivots : int
        Number of pivots.
    rng : numpy.random.Generator
        Random numbers.

    Returns
    -------
    ndarray of shape (at most n_pivots,)
        Indices of the rows; fewer where the kernel matrix has a lower rank, but at least one.
    """
    residuals = kernel_diagonal(kernel, points)
    smallest = SMALLEST_RESIDUAL * max(0.0, residuals.max())
    factor = np.zeros((len(residuals), 0))
    chosen: list[int] = []
    while len(chosen) < n_pivots and (residuals > smallest).any():
        probabilities = np.where(residuals > smallest, residuals, 0.0) * point_weights
        n_proposals = min(n_pivots - len(chosen), max(8, n_pivots // 8))
        proposals = rng.choice(len(residuals), n_proposals, p=probabilities / probabilities.sum())
        # A row that is proposed again is not left out: after a rejection, it has another chance to be accepted.
        distinct, positions = np.unique(proposals, return_inverse=True)
        columns = kernel(points[distinct], points)[positions] - factor[proposals] @ factor.T
        block = columns[:, proposals]
        # Residuals that are computed anew replace those with the rounding errors of all steps before, so that a
        # proposal that is not accepted because its residual is too small is not proposed again.
        residuals[proposals] = np.diagonal(block)
        accepted = _accept(block, smallest, rng)
        if accepted:
            triangle = linalg.cholesky(block[np.ix_(accepted, accepted)], lower=True)
            new = linalg.solve_triangular(triangle, columns[accepted], lower=True).T
            factor = np.hstack([factor, new])
            residuals = residuals - np.square(new).sum(axis=1)
            chosen += proposals[accepted].tolist()
        residuals[chosen] = 0.0
    return np.array(chosen or [0], dtype=np.intp)


def _accept(block: Floats, smallest: float, rng: np.random.Generator) -> list[int]:
    """Accept proposals one by one, each with a probability in proportion to what is left of its residual."""
    block, proposed = block.copy(), np.diagonal(block)
    accepted: list[int] = []
    for i, uniform in enumerate(rng.random(len(block)).tolist()):
        if block[i, i] > smallest and uniform * proposed[i] < block[i, i]:
            block -= np.outer(block[:, i], block[:, i]) / block[i, i]
            accepted.append(i)
    return accepted


def _draw(point_weights: Floats, size: int, rng: np.random.Generator) -> Indices:
    """Draw rows without replacement, in proportion to their sample weights."""
    size = min(size, len(point_weights))
    return np.sort(rng.choice(len(point_weights), size, replace=False, p=point_weights / point_weights.sum()))


def _squared_error(
    kernel: KernelFunction, exact: Floats, landmarks: Floats, points: Any, point_weights: Floats
) -> float:
    """Return the squared error on some rows of the kernel that landmarks give."""
    columns = kernel(points, landmarks)
    try:  # equal centers make the matrix singular
        factor, _ = jittered_cholesky(kernel(landmarks, landmarks), jitters=[1e-10 * len(landmarks)])
    except linalg.LinAlgError:  # landmarks so far away that rounding leaves no positive definite matrix
        return np.inf
    approximate = columns @ linalg.cho_solve((factor, True), columns.T)
    return float(point_weights @ np.square(exact - approximate) @ point_weights)


LANDMARKS: dict[str, type[LandmarkSelection]] = {"uniform": Uniform, "pivoted": Pivoted, "kmeans": KMeans}
