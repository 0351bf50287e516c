# SPDX-License-Identifier: BSD-3-Clause
r"""Refinement: the kernel error minimized over frequencies and weights together.

With Z the weighted features of n points, the objective and its gradient with respect to Z are

.. math:: |K - Z Z^T|_F^2 = |K|_F^2 - 2 \, \mathrm{tr}(Z^T K Z) + |Z^T Z|_F^2, \quad 4 (Z Z^T Z - K Z).

The chain rule gives the gradient with respect to the frequencies :math:`w_m`, by the phases :math:`w_m \cdot x`, and
with respect to the amplitudes :math:`\sqrt{\beta_m}`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bochner.feature_maps import fourier_map
from bochner.kernels import Kernel, kernel_matrix
from bochner.rows import Floats, Rows, shuffled_sample, sum_over_spans

__all__ = ["KernelObjective", "refine"]

N_POINTS = 2000  # a quarter of them is held out
REQUIRED_RATIO = 0.99  # the held-out error must fall below this multiple of its value at the start
TOLERATED_RATIO = 1.02  # an iterate is kept if its held-out error is below this multiple of the smallest one
PATIENCE = 20  # iterations without such an iterate
SPAN_ROWS = 128
AMPLITUDE_STEP = 0.2  # the weights start near their optimum, so that the frequencies should move more
LEAST_WEIGHT = 0.1  # relative to 1/M; the gradient with respect to a frequency of weight zero would be zero


def refine(
    frequencies: Floats, weights: Floats, kernel: Kernel, X: Rows, n_iterations: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Move frequencies and weights by L-BFGS to lower the kernel error.

    A quarter of the sampled points is held out. The result is the last iterate whose held-out error is within 2 % of
    the smallest one, because smaller differences are chance. If no iterate lowers the held-out error of the start by
    1 %, the result is the start.

    Parameters
    ----------
    frequencies : ndarray of shape (n_frequencies, n_features)
        Frequencies to start from.
    weights : ndarray of shape (n_frequencies,)
        Weights of the frequencies.
    kernel : Kernel
        A kernel at unit length scale.
    X : Rows of shape (n_samples, n_features)
        The data divided by the length scale.
    n_iterations : int
        Largest number of iterations. The optimization stops earlier if the held-out error no longer falls.
    rng : numpy.random.Generator
        Random numbers that select the points.

    Returns
    -------
    frequencies : ndarray of shape (n_frequencies, n_features)
        The refined frequencies.
    weights : ndarray of shape (n_frequencies,)
        Their non-negative weights.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> from bochner.features.refinement import refine
    >>> rng = np.random.default_rng(0)
    >>> start, X = rng.normal(size=(4, 2)), rng.normal(size=(200, 2))
    >>> frequencies, weights = refine(start, np.full(4, 0.25), Gaussian(), X, 20, rng)
    >>> frequencies.shape, bool(weights.min() >= 0)
    ((4, 2), True)
    """
    points, counts = shuffled_sample(X, N_POINTS, rng)
    n_points = points.shape[0]
    if n_points < 4:  # a quarter would be empty
        return frequencies, weights
    training, held_out = slice(n_points // 4, None), slice(0, n_points // 4)
    objective = KernelObjective.of(kernel, points[training], counts[training])
    validation = KernelObjective.of(kernel, points[held_out], counts[held_out])
    parameters = _Parameters(frequencies, np.sqrt(np.maximum(weights, LEAST_WEIGHT / len(weights))))

    unit = objective.value(frequencies, np.sqrt(weights)) or 1.0
    required = smallest = REQUIRED_RATIO**2 * validation.value(frequencies, np.sqrt(weights), X.shape[0])
    best, n_stale = (frequencies, weights), 0

    def loss(flat: Floats) -> tuple[float, Floats]:
        value, *gradients = objective.with_gradient(*parameters.at(flat))
        return value / unit, parameters.gradient(*gradients) / unit

    def keep_best(flat: Floats) -> None:
        nonlocal best, smallest, n_stale
        moved, amplitudes = parameters.at(flat)
        error = validation.value(moved, amplitudes, X.shape[0])
        n_stale += 1
        if error < min(required, TOLERATED_RATIO**2 * smallest):
            best, smallest, n_stale = (moved, np.square(amplitudes)), min(smallest, error), 0
        if n_stale >= PATIENCE:
            raise StopIteration

    options: Any = {"maxiter": n_iterations, "maxcor": 20, "ftol": 1e-6, "gtol": 0.0}
    callback: Any = keep_best
    with np.errstate(over="ignore", invalid="ignore"):  # a step can go too far, and is never the best one
        minimize(loss, parameters.zero(), jac=True, method="L-BFGS-B", callback=callback, options=options)
    return best


@dataclass(frozen=True)
class _Parameters:
    """Frequencies and amplitudes as functions of the optimizer's flat vector, which is zero at the start."""

    frequencies: Floats
    amplitudes: Floats

    def zero(self) -> Floats:
        return np.zeros(self.frequencies.size + len(self.amplitudes))

    def at(self, flat: Floats) -> tuple[Floats, Floats]:
        frequency_steps, amplitude_steps = flat[: self.frequencies.size], flat[self.frequencies.size :]
        return (
            self.frequencies + frequency_steps.reshape(self.frequencies.shape),
            self.amplitudes + self._amplitude_unit * amplitude_steps,
        )

    def gradient(self, frequency_gradient: Floats, amplitude_gradient: Floats) -> Floats:
        return np.concatenate([frequency_gradient.ravel(), self._amplitude_unit * amplitude_gradient])

    @property
    def _amplitude_unit(self) -> float:
        return AMPLITUDE_STEP / float(np.sqrt(len(self.amplitudes)))


@dataclass(frozen=True)
class KernelObjective:
    """Squared kernel error on a set of points, as a function of frequencies and amplitudes (roots of the weights).

    Parameters
    ----------
    points : {ndarray, CSR matrix} of shape (n_points, n_features)
        Rows divided by the length scale.
    roots : ndarray of shape (n_points,)
        Square roots of the sample weights.
    exact : ndarray of shape (n_points, n_points)
        Exact kernel matrix, rows and columns multiplied by `roots`.
    energy : float
        Sum of the squared entries of `exact`.
    """

    points: Any
    roots: Floats
    exact: Floats
    energy: float

    @classmethod
    def of(cls, kernel: Kernel, points: Any, counts: Floats) -> "KernelObjective":
        """Prepare the objective for points with sample weights.

        Parameters
        ----------
        kernel : Kernel
            A kernel at unit length scale.
        points : {ndarray, CSR matrix} of shape (n_points, n_features)
            Rows divided by the length scale.
        counts : ndarray of shape (n_points,)
            Sample weights.

        Returns
        -------
        KernelObjective
            The objective.
        """
        roots = np.sqrt(counts)
        exact = kernel_matrix(kernel, points)
        exact *= roots[:, None] * roots
        return cls(points, roots, exact, float(np.square(exact).sum()))

    def value(self, frequencies: Floats, amplitudes: Floats, n_rows: int | None = None) -> float:
        """Return the squared error.

        Parameters
        ----------
        frequencies : ndarray of shape (n_frequencies, n_features)
            Frequencies.
        amplitudes : ndarray of shape (n_frequencies,)
            Square roots of the weights.
        n_rows : int, default=None
            Give the diagonal the share that it has in a kernel matrix of this many rows; None means no correction.

        Returns
        -------
        float
            The squared error.
        """
        features = self._features(frequencies) * np.tile(amplitudes, 2)
        products = sum_over_spans(self._product_part(features), len(features), SPAN_ROWS)
        value = float(self.energy - 2.0 * products[0] + np.square(self._gram(features)).sum())
        size = len(features)
        if n_rows is None or size == 1:
            return value
        diagonal = float(np.square(np.diagonal(self.exact) - np.square(features).sum(axis=1)).sum())
        return (value - diagonal) * (n_rows - 1) / (size - 1) + diagonal

    def with_gradient(self, frequencies: Floats, amplitudes: Floats) -> tuple[float, Floats, Floats]:
        """Return the squared error and its gradient.

        Parameters
        ----------
        frequencies : ndarray of shape (n_frequencies, n_features)
            Frequencies.
        amplitudes : ndarray of shape (n_frequencies,)
            Square roots of the weights.

        Returns
        -------
        value : float
            The squared error.
        frequency_gradient : ndarray of shape (n_frequencies, n_features)
            Gradient with respect to the frequencies.
        amplitude_gradient : ndarray of shape (n_frequencies,)
            Gradient with respect to the amplitudes.
        """
        m = len(amplitudes)
        plain = self._features(frequencies)
        features = plain * np.tile(amplitudes, 2)
        gram = self._gram(features)

        def part(span: slice) -> Floats:
            product = self.exact[span] @ features
            feature_gradient = 4.0 * (features[span] @ gram - product)
            amplitude_gradient = (feature_gradient * plain[span]).sum(axis=0)
            cosines, sines = plain[span, :m], plain[span, m:]
            phase_gradient = amplitudes * (feature_gradient[:, m:] * cosines - feature_gradient[:, :m] * sines)
            frequency_gradient = np.asarray((self.points[span].T @ phase_gradient).T)
            return np.concatenate(
                [
                    [np.vdot(features[span], product)],
                    amplitude_gradient[:m] + amplitude_gradient[m:],
                    frequency_gradient.ravel(),
                ]
            )

        sums = sum_over_spans(part, len(features), SPAN_ROWS)
        value = float(self.energy - 2.0 * sums[0] + np.square(gram).sum())
        return value, sums[1 + m :].reshape(frequencies.shape), sums[1 : 1 + m]

    def _features(self, frequencies: Floats) -> Floats:
        return fourier_map(self.points, frequencies, np.ones(len(frequencies))) * self.roots[:, None]

    def _gram(self, features: Floats) -> Floats:
        return sum_over_spans(lambda span: features[span].T @ features[span], len(features), 4 * SPAN_ROWS)

    def _product_part(self, features: Floats) -> Callable[[slice], Floats]:
        return lambda span: np.array([np.vdot(features[span], self.exact[span] @ features)])
