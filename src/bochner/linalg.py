# SPDX-License-Identifier: BSD-3-Clause
"""Cholesky factors of matrices that may be singular to rounding, conjugate gradients, non-negative ridge regression."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import linalg
from scipy.optimize import nnls

from bochner.rows import Array, Floats, Mask

__all__ = ["conjugate_gradients", "inner", "jittered_cholesky", "nonnegative_ridge"]

LONGEST_STEP = 1e30  # of conjugate gradients, which may be in float32
LARGEST_GROWTH = 1e15  # of squared residuals in conjugate gradients, beyond which they soon overflow float32
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


def conjugate_gradients(
    product: Callable[[Array], Array],
    precondition: Callable[[Array], Array],
    right: Array,
    tolerance: float,
    max_products: int,
) -> tuple[Floats, Mask, int]:
    """Solve one positive definite system per problem; arrays have the shape (size, n_problems, n_outputs).

    Iterations end when the residuals, in the norm of the preconditioner, are below `tolerance` of those at the start,
    or far above them: where rounding makes a matrix singular in float32, they grow.

    Parameters
    ----------
    product, precondition : callable
        Multiply vectors by the matrices, and by approximate inverses of them.
    right : ndarray of shape (size, n_problems, n_outputs)
        Right-hand sides; their dtype is that of the products.
    tolerance : float
        Size of the residuals at the end.
    max_products : int
        Largest number of products.

    Returns
    -------
    solution : ndarray of shape (size, n_problems, n_outputs)
        Solutions, in float64.
    is_solved : ndarray of bool of shape (n_problems,)
        Whether the tolerance was reached.
    n_products : int
        Number of products.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import conjugate_gradients
    >>> diagonal, right = np.array([1.0, 2.0, 4.0])[:, None, None], np.ones((3, 1, 1))
    >>> solution, _, n_products = conjugate_gradients(lambda v: diagonal * v, lambda v: v, right, 1e-10, 10)
    >>> solution.ravel().round(6), n_products
    (array([1.  , 0.5 , 0.25]), 3)
    """
    solution, residuals = np.zeros(right.shape), right
    steps = precondition(residuals)
    sizes = inner(residuals, steps)
    goal, bound = tolerance**2 * sizes, LARGEST_GROWTH * sizes
    is_open, n_products = sizes > goal, 0
    while is_open.any() and n_products < max_products:
        products = product(steps)
        n_products += 1
        curvatures = inner(steps, products)
        is_open &= curvatures > sizes / LONGEST_STEP
        lengths = np.divide(sizes, curvatures, out=np.zeros_like(sizes), where=is_open)[:, None]
        solution += lengths * steps
        residuals = residuals - lengths.astype(right.dtype) * products
        preconditioned = precondition(residuals)
        before, sizes = sizes, np.where(is_open, inner(residuals, preconditioned), sizes)
        is_open &= (sizes > goal) & (sizes < bound)
        ratios = np.divide(sizes, before, out=np.zeros_like(sizes), where=is_open)[:, None]
        steps = preconditioned + ratios.astype(right.dtype) * steps
    return solution, sizes <= goal, n_products


def inner(left: Array, right: Array) -> Floats:
    """Return the inner product of each problem, in float64."""
    return np.asarray(np.einsum("ijk,ijk->j", left, right, dtype=np.float64))


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
