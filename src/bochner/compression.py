# SPDX-License-Identifier: BSD-3-Clause
r"""Compression: a matrix that turns many feature columns into few, with the smallest kernel error.

Weights are a diagonal matrix between features, :math:`\hat K = F D F^T`. More generally, any positive semidefinite
matrix A gives a kernel :math:`F A F^T`. If A has rank w, it is :math:`A = B B^T`, and the w columns :math:`F B` are
features of that kernel.
"""

from functools import partial

import numpy as np

from bochner.rows import Floats, in_threads

__all__ = ["best_matrix", "inverse_root", "principal_components"]

RANK_TOLERANCE = 1e-10  # smaller eigenvalues, relative to the largest, are rounding errors


class _Fit:
    r"""The kernel on some of the rows, in an orthonormal basis of the features, and its error on other rows.

    With :math:`F^T F = U g U^T`, the columns of :math:`Q = F T`, :math:`T = U g^{-1/2}`, are orthonormal on the rows.
    In this basis the plain kernel :math:`F F^T` is diag(g), and `projection` :math:`= Q^T K Q` is the exact kernel.

    If all columns are kept (`is_complete`), feature directions outside the basis keep their plain kernel, which is part
    of the error on other rows. Otherwise they are dropped.
    """

    def __init__(
        self,
        features: Floats,
        exact: Floats,
        point_weights: Floats,
        is_complete: bool,
        rows: slice,
        others: slice | None,
    ) -> None:
        self.size, self.is_complete = float(point_weights[rows].sum()), is_complete
        self.spectrum, self.whitening = _whitening(features[rows])
        orthonormal = features[rows] @ self.whitening
        self.projection = orthonormal.T @ (exact[rows, rows] @ orthonormal)
        if others is not None:
            held_out, target = features[others], exact[others, others]
            columns = held_out @ self.whitening
            target = target - held_out @ held_out.T if is_complete else target
            self.gram, self.target = columns.T @ columns, columns.T @ (target @ columns)

    def shrunk_kernel(self, alpha: float) -> Floats:
        r"""Return the fitted kernel in the basis, :math:`g + h (Q^T K Q - g) h` with :math:`h = g / (g + \alpha n)`.

        It is :math:`Q^T F A F^T Q` for the ridge regression of the exact kernel that shrinks towards the plain kernel:
        :math:`A = I + (F^TF + \alpha n)^{-1} F^T (K - FF^T) F (F^TF + \alpha n)^{-1}`.
        """
        shrinkage = self.spectrum / (self.spectrum + alpha * self.size)
        kernel: Floats = shrinkage[:, None] * self.projection * shrinkage
        kernel.flat[:: len(kernel) + 1] += self.spectrum * (1.0 - np.square(shrinkage))
        return kernel

    def columns(self, alpha: float, n_columns: int) -> Floats:
        """Return the matrix B of the best approximation of that rank on the rows."""
        values, vectors = np.linalg.eigh(self.shrunk_kernel(alpha))
        roots = np.sqrt(np.maximum(values[::-1][:n_columns], 0.0))
        return _with_all_columns(self.whitening @ (vectors[:, ::-1][:, :n_columns] * roots), self.whitening, n_columns)

    def risk(self, alpha: float) -> float:
        """Return the squared error of the fitted kernel on the other rows, up to a constant."""
        kernel = self.shrunk_kernel(alpha)
        if self.is_complete:
            kernel.flat[:: len(kernel) + 1] -= self.spectrum
        product = kernel @ self.gram
        return float(np.vdot(product, product.T) - 2.0 * np.vdot(kernel, self.target))


def best_matrix(features: Floats, exact: Floats, point_weights: Floats, n_columns: int, alphas: Floats) -> Floats:
    r"""Return the matrix B for which the inner products of F B are closest to the exact kernel.

    .. math:: \min_A |K - F A F^T|_F^2, \quad A = B B^T \text{ of rank } w

    A ridge penalty shrinks A towards the identity matrix, which gives the plain kernel. It is the candidate with the
    smallest error on held-out rows, where each half of the rows validates the other. The error first falls, then rises
    as the penalty decreases. So the search goes from the largest candidate down and stops when the error rises.

    Parameters
    ----------
    features : ndarray of shape (n_rows, n_inner)
        Features F of sampled rows in random order, weighted so that :math:`F F^T` approximates the kernel.
    exact : ndarray of shape (n_rows, n_rows)
        Exact kernel matrix K of the rows.
    point_weights : ndarray of shape (n_rows,)
        Sample weights.
    n_columns : int
        Number of columns w, at most `n_inner`.
    alphas : ndarray of shape (n_alphas,)
        Candidates for the ridge penalty, relative to feature rows of norm 1. With a single one, no rows are held out.

    Returns
    -------
    ndarray of shape (n_inner, n_columns)
        The matrix B. If the features of the rows have a lower rank, the remaining columns are zero. If `n_columns`
        equals `n_inner`, they are instead an orthonormal basis of the remaining directions.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.compression import best_matrix
    >>> features = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> best_matrix(features, np.diag([4.0, 1.0]), np.ones(2), 1, np.array([0.0])).round(6) + 0.0
    array([[2.],
           [0.]])
    """
    roots = np.sqrt(point_weights)
    features, exact = features * roots[:, None], exact * roots[:, None] * roots
    middle, is_complete = len(features) // 2, n_columns == features.shape[1]
    whole, first, second = slice(None), slice(0, middle), slice(middle, None)

    def fit(split: tuple[slice, slice | None]) -> _Fit:
        return _Fit(features, exact, point_weights, is_complete, *split)

    if len(alphas) == 1 or middle == 0:  # a single row cannot be held out, and gets the largest penalty
        return fit((whole, None)).columns(float(alphas.max()), n_columns)
    # The largest fit comes first, so that two threads finish at about the same time.
    final, *halves = in_threads(fit, [(whole, None), (first, second), (second, first)])
    best, smallest_risk = 0.0, np.inf
    for alpha in np.sort(alphas)[::-1].tolist():
        risk = sum(in_threads(partial(_Fit.risk, alpha=alpha), halves))
        if risk > smallest_risk:
            break
        best, smallest_risk = alpha, risk
    return final.columns(best, n_columns)


def principal_components(features: Floats, point_weights: Floats, n_columns: int) -> Floats:
    """Return the matrix B for which the inner products of F B are closest to those of F.

    Parameters
    ----------
    features : ndarray of shape (n_rows, n_inner)
        Features F of sampled rows.
    point_weights : ndarray of shape (n_rows,)
        Sample weights.
    n_columns : int
        Number of columns of B, at most `n_inner`.

    Returns
    -------
    ndarray of shape (n_inner, n_columns)
        The matrix B, of uncentered principal axes.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.compression import principal_components
    >>> np.abs(principal_components(np.array([[2.0, 0.0], [0.0, 1.0]]), np.ones(2), 1))
    array([[1.],
           [0.]])
    """
    spectrum, whitening = _whitening(features * np.sqrt(point_weights)[:, None])
    basis = whitening * np.sqrt(spectrum)
    return _with_all_columns(basis[:, ::-1][:, :n_columns], whitening, n_columns)


def inverse_root(matrix: Floats, tolerance: float = RANK_TOLERANCE) -> tuple[Floats, Floats]:
    r"""Return the eigenvalues of a positive semidefinite matrix, and T for which :math:`T T^T` is its pseudo-inverse.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        The matrix.
    tolerance : float, default=1e-10
        Smaller eigenvalues, relative to the largest one, are dropped.

    Returns
    -------
    values : ndarray of shape (rank,)
        The other eigenvalues, in ascending order.
    root : ndarray of shape (n, rank)
        Their eigenvectors, divided by the roots of the eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.compression import inverse_root
    >>> values, root = inverse_root(np.diag([4.0, 0.0]))
    >>> values, np.abs(root)
    (array([4.]), array([[0.5],
           [0. ]]))
    """
    values, vectors = np.linalg.eigh(matrix)
    kept = values > tolerance * values[-1]
    return values[kept], vectors[:, kept] / np.sqrt(values[kept])


def _whitening(features: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues g of F'F above rounding errors, in ascending order, and T for which F T is orthonormal."""
    n_rows, n_inner = features.shape
    if n_inner <= n_rows:
        return inverse_root(features.T @ features)
    spectrum, root = inverse_root(features @ features.T)
    return spectrum, features.T @ (root / np.sqrt(spectrum))


def _with_all_columns(matrix: Floats, whitening: Floats, n_columns: int) -> Floats:
    """Append the missing columns: zeros, or the directions outside the basis if all columns are kept."""
    n_inner, rank = whitening.shape
    if matrix.shape[1] == n_columns:
        return matrix
    if n_columns == n_inner:
        return np.hstack([matrix, np.linalg.qr(whitening, mode="complete")[0][:, rank:]])
    return np.hstack([matrix, np.zeros((n_inner, n_columns - matrix.shape[1]))])
