# SPDX-License-Identifier: BSD-3-Clause
"""Ridge regression with non-negative coefficients."""

import numpy as np
from scipy import linalg
from scipy.optimize import nnls

from bochner.rows import Floats, Mask, cholesky, serial_blas

__all__ = ["nonnegative_ridge"]

PATIENCE = 5  # exchanges without progress before the active-set method takes over


def nonnegative_ridge(gram: Floats, target: Floats, ridge: float, start: Mask | None = None) -> Floats:
    r"""Return the minimizer of :math:`\beta^T (G + \rho I) \beta - 2 t^T \beta` over :math:`\beta \ge 0`.

    The method is block principal pivoting (Portugal, Judice and Vicente, 1994). It guesses the positive coefficients,
    solves for them, and exchanges every coefficient that has the wrong sign. It needs a few Cholesky factorizations,
    where an active-set method needs about one step per coefficient. If the exchanges cycle, scipy's active-set method
    solves the problem.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The positive semidefinite matrix G.
    target : ndarray of shape (n,)
        The vector t.
    ridge : float
        The penalty. It is raised to the size of the rounding errors of G if it is smaller.
    start : ndarray of bool of shape (n,), default=None
        First guess of the positive coefficients; None means all.

    Returns
    -------
    ndarray of shape (n,)
        The coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import nonnegative_ridge
    >>> nonnegative_ridge(np.eye(2), np.array([1.0, -1.0]), 0.0).round(6)
    array([1., 0.])
    """
    n = len(target)
    smallest_ridge = n * np.finfo(float).eps * float(np.max(np.diag(gram)) or 1.0)
    gram = gram.copy()
    gram.flat[:: n + 1] += max(ridge, smallest_ridge)
    slack = 1e-12 * float(np.abs(target).max())
    positive = np.ones(n, dtype=bool) if start is None else start.copy()
    fewest_wrong, n_attempts = n + 1, PATIENCE
    while True:
        coef = np.zeros(n)
        if positive.any():
            factor = cholesky(gram if positive.all() else gram[np.ix_(positive, positive)])
            coef[positive] = serial_blas(linalg.cho_solve)((factor.T, False), target[positive], check_finite=False)
        gradient = serial_blas(np.matmul)(gram, coef) - target
        wrong = np.where(positive, coef < 0.0, gradient < -slack)
        n_wrong = int(wrong.sum())
        if n_wrong == 0:
            return coef
        if n_wrong >= fewest_wrong:
            n_attempts -= 1
            if n_attempts == 0:
                return _active_set(gram, target)
        fewest_wrong = min(fewest_wrong, n_wrong)
        positive ^= wrong


def _active_set(gram: Floats, target: Floats) -> Floats:
    """Return the same minimizer by scipy's active-set method, for a positive definite Gram matrix."""
    factor = linalg.cholesky(gram, lower=True)
    whitened = linalg.solve_triangular(factor, target, lower=True)
    return np.asarray(nnls(factor.T, whitened, maxiter=100 * len(target))[0])
