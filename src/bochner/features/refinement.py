# SPDX-License-Identifier: BSD-3-Clause
r"""Refinement: the kernel error minimized over frequencies and weights together.

With Z the weighted features of n points, the objective and its gradient with respect to Z are

.. math:: |K - Z Z^T|_F^2 = |K|_F^2 - 2 \, \mathrm{tr}(Z^T K Z) + |Z^T Z|_F^2, \quad 4 (Z Z^T Z - K Z).

The chain rule gives the gradient with respect to the frequencies :math:`w_m`, by the phases :math:`w_m \cdot x`, and
with respect to the amplitudes :math:`\sqrt{\beta_m}`.
"""

from typing import Any

import numpy as np
from scipy.optimize import minimize

from bochner.feature_maps import fourier_map
from bochner.feature_maps.kernel_columns import kernel_function
from bochner.kernels import Kernel
from bochner.rows import Floats, Rows, shuffled_sample

__all__ = ["KernelObjective", "refine"]

N_POINTS = 2000  # a quarter of them is held out
REQUIRED_RATIO = 0.99  # the held-out error must fall below this multiple of its value at the start
TOLERATED_RATIO = 1.02  # an iterate is kept if its held-out error is below this multiple of the smallest one
PATIENCE = 20  # iterations without such an iterate
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
        The scaled rows.
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
    objective = KernelObjective(kernel, points[training], counts[training])
    validation = KernelObjective(kernel, points[held_out], counts[held_out])
    m, step = len(weights), AMPLITUDE_STEP / float(np.sqrt(len(weights)))
    amplitudes = np.sqrt(np.maximum(weights, LEAST_WEIGHT / m))

    def at(flat: Floats) -> tuple[Floats, Floats]:
        """Return frequencies and amplitudes at the optimizer's vector, which is zero at the start."""
        return frequencies + flat[:-m].reshape(frequencies.shape), amplitudes + step * flat[-m:]

    unit = objective.value(frequencies, np.sqrt(weights)) or 1.0
    required = smallest = REQUIRED_RATIO**2 * validation.value(frequencies, np.sqrt(weights), X.shape[0])
    best, n_stale = (frequencies, weights), 0

    def loss(flat: Floats) -> tuple[float, Floats]:
        value, frequency_gradient, amplitude_gradient = objective.with_gradient(*at(flat))
        return value / unit, np.append(frequency_gradient, step * amplitude_gradient) / unit

    def keep_best(flat: Floats) -> None:
        nonlocal best, smallest, n_stale
        moved, roots = at(flat)
        error = validation.value(moved, roots, X.shape[0])
        n_stale += 1
        if error < min(required, TOLERATED_RATIO**2 * smallest):
            best, smallest, n_stale = (moved, np.square(roots)), min(smallest, error), 0
        if n_stale >= PATIENCE:
            raise StopIteration

    options: Any = {"maxiter": n_iterations, "maxcor": 20, "ftol": 1e-6, "gtol": 0.0}
    callback: Any = keep_best
    with np.errstate(over="ignore", invalid="ignore"):  # a step can go too far, and is never the best one
        start = np.zeros(frequencies.size + m)
        minimize(loss, start, jac=True, method="L-BFGS-B", callback=callback, options=options)
    return best


class KernelObjective:
    """Squared kernel error on a set of points, as a function of frequencies and amplitudes (roots of the weights).

    Parameters
    ----------
    kernel : Kernel
        A kernel at unit length scale.
    points : {ndarray, CSR matrix} of shape (n_points, n_features)
        Scaled rows.
    counts : ndarray of shape (n_points,)
        Sample weights.
    """

    def __init__(self, kernel: Kernel, points: Any, counts: Floats) -> None:
        self.points, self.roots = points, np.sqrt(counts)
        self.exact = kernel_function(kernel)(points, points) * (self.roots[:, None] * self.roots)

    def value(self, frequencies: Floats, amplitudes: Floats, n_rows: int | None = None) -> float:
        """Return the squared error; with `n_rows`, as if the kernel matrix had the diagonal of that many rows."""
        features = self._features(frequencies) * np.tile(amplitudes, 2)
        value = self._error(features, self.exact @ features, features.T @ features)
        size = len(features)
        if n_rows is None or size == 1:
            return value
        diagonal = float(np.square(np.diagonal(self.exact) - np.square(features).sum(axis=1)).sum())
        return (value - diagonal) * (n_rows - 1) / (size - 1) + diagonal

    def with_gradient(self, frequencies: Floats, amplitudes: Floats) -> tuple[float, Floats, Floats]:
        """Return the squared error and its gradients with respect to the frequencies and to the amplitudes."""
        m = len(amplitudes)
        plain = self._features(frequencies)
        features = plain * np.tile(amplitudes, 2)
        gram, product = features.T @ features, self.exact @ features
        feature_gradient = 4.0 * (features @ gram - product)
        amplitude_gradient = np.einsum("ij,ij->j", feature_gradient, plain).reshape(2, m).sum(axis=0)
        cosine_gradient, sine_gradient = np.hsplit(feature_gradient, 2)
        cosines, sines = np.hsplit(plain, 2)
        phase_gradient = amplitudes * (sine_gradient * cosines - cosine_gradient * sines)
        return self._error(features, product, gram), np.asarray((self.points.T @ phase_gradient).T), amplitude_gradient

    def _features(self, frequencies: Floats) -> Floats:
        return fourier_map(self.points, frequencies, np.ones(len(frequencies))) * self.roots[:, None]

    def _error(self, features: Floats, product: Floats, gram: Floats) -> float:
        return float(np.square(self.exact).sum() - 2.0 * np.vdot(features, product) + np.square(gram).sum())
