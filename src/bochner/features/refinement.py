# SPDX-License-Identifier: BSD-3-Clause
r"""Refinement: the kernel error minimized over frequencies and their weights, or over landmarks.

**Frequencies.** With Z the weighted features of n points, the objective and its gradient with respect to Z are

.. math:: |K - Z Z^T|_F^2 = |K|_F^2 - 2 \, \mathrm{tr}(Z^T K Z) + |Z^T Z|_F^2, \quad 4 (Z Z^T Z - K Z).

The chain rule gives the gradient with respect to the frequencies :math:`w_m`, by the phases :math:`w_m \cdot x`, and
with respect to the amplitudes :math:`\sqrt{\beta_m}`. `refine` follows it by L-BFGS.

**Landmarks.** With C = k(X, L), W = k(L, L) and the residual :math:`D = K - C W^{-1} C^T` of plain Nystroem features,
the objective and its gradients are

.. math:: |D|_F^2, \quad \partial_C = -4 D C W^{-1}, \quad \partial_W = 2 W^{-1} C^T D C W^{-1}.

`refine_landmarks` takes gradient steps. The whitening is fitted afterwards. Landmarks that minimize the error of the
best whitening itself, :math:`|K - P K P|_F^2` with the projector P on the columns of C, fit the rows at hand and no
others when there are many landmarks. Plain features are not fitted to rows, so that each step needs a few rows only,
and the steps use many: with a quarter of the rows, they move landmarks away from rare rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import minimize

from bochner.feature_maps import fourier_map
from bochner.feature_maps.kernel_columns import kernel_function
from bochner.kernels import IsotropicKernel, Kernel
from bochner.rows import Floats, Rows, serial_blas, shuffled_sample, to_dense

__all__ = ["KernelObjective", "nystroem_error", "refine", "refine_landmarks"]

# Of frequencies
N_POINTS = 2000  # a quarter of them is held out
REQUIRED_RATIO = 0.99  # the held-out error must fall below this multiple of its value at the start
TOLERATED_RATIO = 1.02  # an iterate is kept if its held-out error is below this multiple of the smallest one
PATIENCE = 20  # iterations without such an iterate
AMPLITUDE_STEP = 0.2  # the weights start near their optimum, so that the frequencies should move more
LEAST_WEIGHT = 0.1  # relative to 1/M; the gradient with respect to a frequency of weight zero would be zero
# Of landmarks
BATCH_ROWS = 128
DIAGONAL_WEIGHT = 0.3  # of pairs of a row with itself; a batch has more of them than all pairs, but outliers need them
FIRST_STEP = 0.1  # length of the first step of each landmark, in length scales; the steps become shorter linearly
MOMENTUM, SQUARE_DECAY = 0.8, 0.95  # of the running means of gradients and of their squared norms, as in Adam
SMALLEST_NORM = 0.1  # of gradients, relative to all landmarks: noise would lead those of rare rows away from them
ROUNDING = 1e-14  # of squared distances, relative to the squared norms that they are differences of
JITTER = 1e-6  # added to the diagonal of W, so that landmarks may come close to each other


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
    points, point_weights = shuffled_sample(X, N_POINTS, rng)
    n_points = points.shape[0]
    if n_points < 4:  # a quarter would be empty
        return frequencies, weights
    training, held_out = slice(n_points // 4, None), slice(0, n_points // 4)
    objective = KernelObjective(kernel, points[training], point_weights[training])
    validation = KernelObjective(kernel, points[held_out], point_weights[held_out])
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
        minimize(loss, np.zeros(frequencies.size + m), jac=True, method="L-BFGS-B", callback=callback, options=options)
    return best


class KernelObjective:
    """Squared kernel error on a set of points, as a function of frequencies and amplitudes (roots of the weights).

    Parameters
    ----------
    kernel : Kernel
        A kernel at unit length scale.
    points : {ndarray, CSR matrix} of shape (n_points, n_features)
        Scaled rows.
    point_weights : ndarray of shape (n_points,)
        Sample weights.
    """

    def __init__(self, kernel: Kernel, points: Any, point_weights: Floats) -> None:
        self.points, self.roots = points, np.sqrt(point_weights)
        self.exact = kernel_function(kernel)(points, points) * (self.roots[:, None] * self.roots)

    def value(self, frequencies: Floats, amplitudes: Floats, n_rows: int | None = None) -> float:
        """Return the squared error; with `n_rows`, as if the kernel matrix had the diagonal of that many rows."""
        features = self._features(frequencies) * np.tile(amplitudes, 2)
        squares = np.square(self.exact - features @ features.T)
        value, size = float(squares.sum()), len(features)
        if n_rows is None or size == 1:
            return value
        diagonal = float(np.trace(squares))
        return (value - diagonal) * (n_rows - 1) / (size - 1) + diagonal

    def with_gradient(self, frequencies: Floats, amplitudes: Floats) -> tuple[float, Floats, Floats]:
        """Return the squared error and its gradients with respect to the frequencies and to the amplitudes."""
        m = len(amplitudes)
        plain = self._features(frequencies)
        features = plain * np.tile(amplitudes, 2)
        gram, product = features.T @ features, self.exact @ features
        feature_gradient = 4.0 * (features @ gram - product)
        amplitude_gradient = np.einsum("ij,ij->j", feature_gradient, plain).reshape(2, m).sum(axis=0)
        (cosines, sines), (cosine_gradient, sine_gradient) = np.hsplit(plain, 2), np.hsplit(feature_gradient, 2)
        phase_gradient = amplitudes * (sine_gradient * cosines - cosine_gradient * sines)
        value = float(np.square(self.exact).sum() - 2.0 * np.vdot(features, product) + np.square(gram).sum())
        return value, np.asarray((self.points.T @ phase_gradient).T), amplitude_gradient

    def _features(self, frequencies: Floats) -> Floats:
        return fourier_map(self.points, frequencies, np.ones(len(frequencies))) * self.roots[:, None]


@serial_blas  # the same landmarks for any number of threads
def refine_landmarks(
    landmarks: Floats, kernel: IsotropicKernel, points: Any, point_weights: Floats, n_steps: int
) -> Floats:
    """Move landmarks to lower the kernel error of plain Nystroem features.

    Each step follows the gradient on the next 128 rows. The landmarks are returned as they were if the kernel has no
    gradients, and if rounding prevents steps.

    Parameters
    ----------
    landmarks : ndarray of shape (n_landmarks, n_features)
        Landmarks to start from.
    kernel : IsotropicKernel
        A kernel at unit length scale.
    points : {ndarray, CSR matrix} of shape (n_points, n_features)
        Rows in random order, divided by the length scale.
    point_weights : ndarray of shape (n_points,)
        Sample weights.
    n_steps : int
        Number of steps.

    Returns
    -------
    ndarray of shape (n_landmarks, n_features)
        The landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.features.refinement import refine_landmarks
    >>> from bochner.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(500, 1))
    >>> refine_landmarks(X[:3], Gaussian(), X, np.ones(500), 100).shape
    (3, 1)
    """
    roots = np.sqrt(point_weights / point_weights.mean())
    center = landmarks.mean(axis=0)  # squared distances lose no digits to a common offset
    batch = np.arange(min(BATCH_ROWS, len(roots)))
    moved = landmarks.astype(np.float64) - center
    mean, square = np.zeros(moved.shape), np.zeros((len(moved), 1))
    for step in range(n_steps):
        chosen = (batch + step * len(batch)) % len(roots)
        rows = to_dense(points[chosen]).astype(np.float64) - center
        try:
            _, gradient = nystroem_error(moved, rows, roots[chosen], kernel, DIAGONAL_WEIGHT)
        except (linalg.LinAlgError, NotImplementedError):  # rounding errors of rows far away; no gradients
            return landmarks
        mean = MOMENTUM * mean + (1.0 - MOMENTUM) * gradient
        square = SQUARE_DECAY * square + (1.0 - SQUARE_DECAY) * np.square(gradient).sum(axis=1, keepdims=True)
        # Running means are divided by the sum of their weights, as in Adam.
        norm = np.sqrt(square / (1.0 - SQUARE_DECAY ** (step + 1))) * (1.0 - MOMENTUM ** (step + 1))
        norm = np.maximum(norm, SMALLEST_NORM * np.sqrt(np.mean(np.square(norm))))
        length = FIRST_STEP * (1.0 - step / n_steps)
        moved = moved - length * np.divide(mean, norm, out=np.zeros_like(mean), where=norm > 0.0)
    return np.asarray(moved + center, dtype=landmarks.dtype) if np.isfinite(moved).all() else landmarks


def nystroem_error(
    landmarks: Floats, rows: Floats, roots: Floats, kernel: IsotropicKernel, diagonal: float = 1.0
) -> tuple[float, Floats]:
    r"""Return the squared kernel error of plain Nystroem features, and its gradient.

    Parameters
    ----------
    landmarks : ndarray of shape (n_landmarks, n_features)
        Landmarks.
    rows : ndarray of shape (n_rows, n_features)
        Rows divided by the length scale.
    roots : ndarray of shape (n_rows,)
        Square roots of the sample weights.
    kernel : IsotropicKernel
        A kernel at unit length scale, with gradients.
    diagonal : float, default=1.0
        Weight of the pairs of a row with itself.

    Returns
    -------
    value : float
        The sum of :math:`w_i w_j (k(x_i, x_j) - \hat k(x_i, x_j))^2`.
    gradient : ndarray of shape (n_landmarks, n_features)
        Gradient with respect to the landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.features.refinement import nystroem_error
    >>> from bochner.kernels import Gaussian
    >>> value, gradient = nystroem_error(np.array([[0.0]]), np.array([[-1.0], [1.0]]), np.ones(2), Gaussian())
    >>> round(value, 3), gradient.round(6) + 0.0
    (0.907, array([[0.]]))
    """
    columns, pull_back = _kernel_and_pull_back(kernel, rows, landmarks)
    inner, pull_back_inner = _kernel_and_pull_back(kernel, landmarks, landmarks)
    exact, _ = _kernel_and_pull_back(kernel, rows, rows)
    inner.flat[:: len(inner) + 1] += JITTER
    factor = linalg.cholesky(inner, check_finite=False)
    features = linalg.solve_triangular(factor, (columns * roots[:, None]).T, trans="T", check_finite=False)
    residual = exact * roots[:, None] * roots - features.T @ features
    weighted = residual.copy()
    weighted.flat[:: len(rows) + 1] *= diagonal
    solved = linalg.solve_triangular(factor, features, check_finite=False)  # the transpose of C W^-1
    product = solved @ weighted
    # W changes with a landmark in a row and in a column.
    gradient = pull_back((-4.0 * product * roots).T) + pull_back_inner(4.0 * product @ solved.T)
    return float(np.vdot(weighted, residual)), gradient


def _kernel_and_pull_back(kernel: IsotropicKernel, X: Floats, Y: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
    """Return k(X, Y), and the function that turns a gradient with respect to it into one with respect to Y."""
    sums = np.square(X).sum(axis=1)[:, None] + np.square(Y).sum(axis=1)
    squares = sums - 2.0 * (X @ Y.T)
    squares[squares <= ROUNDING * sums] = 0.0  # equal rows, at which a kernel can have a kink

    def pull_back(gradient: Floats) -> Floats:
        slopes = 2.0 * gradient * kernel.slope(squares)
        return np.asarray(slopes.sum(axis=0)[:, None] * Y - slopes.T @ X)

    return kernel.profile(squares.copy()), pull_back  # the Gaussian one overwrites its argument
