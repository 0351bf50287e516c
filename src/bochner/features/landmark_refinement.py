# SPDX-License-Identifier: BSD-3-Clause
r"""Refinement of landmarks: gradient steps that lower the kernel error of plain Nystroem features.

With C = k(X, L), W = k(L, L) and the residual :math:`D = K - C W^{-1} C^T`, the objective and its gradients are

.. math:: |D|_F^2, \quad \partial_C = -4 D C W^{-1}, \quad \partial_W = 2 W^{-1} C^T D C W^{-1}.

The whitening is fitted afterwards. Landmarks that minimize the error of the best whitening itself,
:math:`|K - P K P|_F^2` with the projector P on the columns of C, fit the rows at hand and no others when there are many
landmarks. Plain features are not fitted to rows, so that each step needs a few rows only, and the steps use many: with
a quarter of the rows, they move landmarks away from rare rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg

from bochner.kernels import IsotropicKernel, Kernel
from bochner.rows import Floats, serial_blas, to_dense

__all__ = ["nystroem_error", "refine_landmarks"]

BATCH_ROWS = 128
DIAGONAL_WEIGHT = 0.3  # of pairs of a row with itself; a batch has more of them than all pairs, but outliers need them
FIRST_STEP = 0.1  # length of the first step of each landmark, in length scales; the steps become shorter linearly
MOMENTUM, SQUARE_DECAY = 0.8, 0.95  # of the running means of gradients and of their squared norms, as in Adam
SMALLEST_NORM = 0.1  # of gradients, relative to all landmarks: noise would lead those of rare rows away from them
ROUNDING = 1e-14  # of squared distances, relative to the squared norms that they are differences of
JITTER = 1e-6  # added to the diagonal of W, so that landmarks may come close to each other


@serial_blas  # the same landmarks for any number of threads
def refine_landmarks(landmarks: Floats, kernel: Kernel, points: Any, counts: Floats, n_steps: int) -> Floats:
    """Move landmarks to lower the kernel error of plain Nystroem features.

    Each step follows the gradient on the next 128 rows. The landmarks are returned as they were if the kernel has no
    gradients or, as the Laplacian, kinks where two rows are equal in a column, and if rounding prevents steps.

    Parameters
    ----------
    landmarks : ndarray of shape (n_landmarks, n_features)
        Landmarks to start from.
    kernel : Kernel
        A kernel at unit length scale.
    points : {ndarray, CSR matrix} of shape (n_points, n_features)
        Rows in random order, divided by the length scale.
    counts : ndarray of shape (n_points,)
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
    >>> from bochner.features.landmark_refinement import refine_landmarks
    >>> from bochner.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(500, 1))
    >>> refine_landmarks(X[:3], Gaussian(), X, np.ones(500), 100).shape
    (3, 1)
    """
    if not isinstance(kernel, IsotropicKernel) and _has_kink(kernel, landmarks.shape[1]):
        return landmarks
    roots = np.sqrt(counts / counts.mean())
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
    landmarks: Floats, rows: Floats, roots: Floats, kernel: Kernel, diagonal: float = 1.0
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
    kernel : Kernel
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
    >>> from bochner.features.landmark_refinement import nystroem_error
    >>> from bochner.kernels import Gaussian
    >>> value, gradient = nystroem_error(np.array([[0.0]]), np.array([[-1.0], [1.0]]), np.ones(2), Gaussian())
    >>> round(value, 3), gradient.round(6) + 0.0
    (0.907, array([[0.]]))
    """
    columns, pull_back = _kernel_columns(kernel, rows, landmarks)
    inner, pull_back_inner = _kernel_columns(kernel, landmarks, landmarks)
    exact, _ = _kernel_columns(kernel, rows, rows)
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


def _has_kink(kernel: Kernel, n_features: int) -> bool:
    """Return whether the kernel has a kink where a difference in one column is zero: steps would follow rounding."""
    differences = np.full((1, n_features), 1.0 / n_features)
    differences[0, 0] = 1e-9
    try:
        return bool(abs(kernel.gradient_at(differences)[0, 0]) > 1e-3 * kernel.at(differences)[0])
    except NotImplementedError:
        return True


def _kernel_columns(kernel: Kernel, X: Floats, Y: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
    """Return k(X, Y), and the function that turns a gradient with respect to it into one with respect to Y."""
    if not isinstance(kernel, IsotropicKernel):

        def sum_gradients(gradient: Floats) -> Floats:
            total = np.zeros_like(Y)
            for x, weights in zip(X, gradient, strict=True):
                total -= weights[:, None] * kernel.gradient_at(x - Y)
            return total

        return kernel(X, Y), sum_gradients
    sums = np.square(X).sum(axis=1)[:, None] + np.square(Y).sum(axis=1)
    squares = sums - 2.0 * (X @ Y.T)
    squares[squares <= ROUNDING * sums] = 0.0  # equal rows, at which a kernel can have a kink

    def chain(gradient: Floats) -> Floats:
        slopes = 2.0 * gradient * kernel.slope(squares)
        return np.asarray(slopes.sum(axis=0)[:, None] * Y - slopes.T @ X)

    return kernel.profile(squares.copy()), chain  # the Gaussian one overwrites its argument
