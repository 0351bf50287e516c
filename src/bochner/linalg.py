# SPDX-License-Identifier: BSD-3-Clause
"""Cholesky factors of matrices that may be singular to rounding, and ridge regression with coefficients >= 0."""

from collections.abc import Sequence

import numpy as np
from scipy import linalg
from scipy.optimize import nnls

from bochner.rows import Array, Floats, Mask

__all__ = ["jittered_cholesky", "nonnegative_ridge"]

PATIENCE = 5  # exchanges without progress before the active-set method takes over


def jittered_cholesky(matrix: Array, jitters: Sequence[float] = (0.0,)) -> tuple[Array, float]:
    r"""Return the lower Cholesky factor L of a positive definite matrix, and what was added to its diagonal.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        The matrix.
    jitters : sequence of float, default=(0.0,)
        Multiples of the largest diagonal entry to add to the diagonal, tried in this order.

    Returns
    -------
    factor : ndarray of shape (n, n)
        The factor L of the first sum that is positive definite.
    jitter : float
        Its multiple.

    Raises
    ------
    numpy.linalg.LinAlgError
        If no sum is positive definite, or the matrix is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import jittered_cholesky
    >>> factor, jitter = jittered_cholesky(np.ones((2, 2)), jitters=(0.0, 1e-10))
    >>> jitter, (factor @ factor.T).round(6).tolist()
    (1e-10, [[1.0, 1.0], [1.0, 1.0]])
    """
    largest = float(np.diag(matrix).max(initial=0.0))
    for jitter in jitters:
        shifted = np.array(matrix)
        shifted.flat[:: len(matrix) + 1] += jitter * largest
        try:
            factor = np.linalg.cholesky(shifted)  # SciPy's does not release the GIL
        except linalg.LinAlgError:
            continue
        if np.isfinite(np.diag(factor)).all():  # LAPACK does not report NaN
            return factor, jitter
    raise linalg.LinAlgError("The matrix is not positive definite, or not finite.")


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
            factor, _ = jittered_cholesky(gram if positive.all() else gram[np.ix_(positive, positive)])
            coef[positive] = linalg.cho_solve((factor, True), target[positive], check_finite=False)
        gradient = gram @ coef - target
        wrong = np.where(positive, coef < 0.0, gradient < -slack)
        n_wrong = int(wrong.sum())
        if n_wrong == 0:
            return coef
        if n_wrong >= fewest_wrong:
            n_attempts -= 1
            if n_attempts == 0:
                factor, _ = jittered_cholesky(gram)
                whitened = linalg.solve_triangular(factor, target, lower=True)
                return np.asarray(nnls(factor.T, whitened, maxiter=100 * n)[0])
        fewest_wrong = min(fewest_wrong, n_wrong)
        positive ^= wrong
