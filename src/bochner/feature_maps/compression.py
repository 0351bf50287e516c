# SPDX-License-Identifier: BSD-3-Clause
r"""The best matrix on a pool of features: many columns become few, and the kernel is met more closely.

Weights are a diagonal matrix between features, :math:`\hat K = F D F^T`. Any positive semidefinite A gives a kernel
:math:`F A F^T`, and a root of A of rank w gives w columns :math:`F B`, with :math:`A = B B^T`.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from bochner.rows import Floats, in_threads, serial_blas

__all__ = ["best_matrix"]

RANK_TOLERANCE = 1e-10  # directions of the pool below this, relative to the largest, are rounding errors


@dataclass(frozen=True)
class _Fit:
    r"""What is known of the kernel in a pool of features after looking at some rows.

    With :math:`F^T F = U g U^T`, the columns of :math:`Q = F T`, :math:`T = U g^{-1/2}`, are orthonormal on the rows.
    There the pool's own kernel is diag(g), and `projection` :math:`= Q^T K Q` is the exact one.
    """

    size: float
    spectrum: Floats
    whitening: Floats
    projection: Floats

    @classmethod
    def of(cls, features: Floats, exact: Floats, size: float) -> "_Fit":
        spectrum, whitening = _whitened(features)
        orthonormal = features @ whitening
        return cls(size, spectrum, whitening, orthonormal.T @ (exact @ orthonormal))

    def shrunk(self, alpha: float) -> Floats:
        r"""The kernel in orthonormal columns, :math:`g + h (Q^T K Q - g) h` with :math:`h = g / (g + \alpha n)`.

        It is :math:`Q^T F A F^T Q` for the ridge regression of the exact kernel on the pool, started from the plain
        kernel: :math:`A = I + (F^TF + \alpha n)^{-1} F^T (K - FF^T) F (F^TF + \alpha n)^{-1}`.
        """
        trust = self.spectrum / (self.spectrum + alpha * self.size)
        kernel: Floats = trust[:, None] * self.projection * trust
        kernel.flat[:: len(kernel) + 1] += self.spectrum * (1.0 - np.square(trust))
        return kernel

    def columns(self, alpha: float, n_columns: int) -> Floats:
        """The matrix B of the best kernel of that rank on the rows."""
        values, vectors = np.linalg.eigh(self.shrunk(alpha))
        roots = np.sqrt(np.maximum(values[::-1][:n_columns], 0.0))
        matrix: Floats = self.whitening @ (vectors[:, ::-1][:, :n_columns] * roots)
        return _completed(matrix, self.whitening, n_columns)


@dataclass(frozen=True)
class _Judge:
    """Rows that a fit has not seen, in the fit's orthonormal columns.

    With `complete`, the directions of the pool that no row of the fit has shown count as well; they stay as they are.
    """

    fit: _Fit
    complete: bool
    gram: Floats
    target: Floats

    @classmethod
    def of(cls, fit: _Fit, features: Floats, exact: Floats, complete: bool) -> "_Judge":
        columns = features @ fit.whitening
        if complete:
            exact = exact - features @ features.T
        return cls(fit, complete, columns.T @ columns, columns.T @ (exact @ columns))

    def risk(self, alpha: float) -> float:
        """Squared error of the fit's kernel on these rows, but for a constant."""
        kernel = self.fit.shrunk(alpha)
        if self.complete:
            kernel.flat[:: len(kernel) + 1] -= self.fit.spectrum
        product = kernel @ self.gram
        return float(np.vdot(product, product.T) - 2.0 * np.vdot(kernel, self.target))


def best_matrix(features: Floats, exact: Floats, counts: Floats, n_columns: int, alphas: Floats) -> Floats:
    r"""The matrix B for which the columns F B have inner products closest to the exact kernel.

    .. math:: \min_A |K - F A F^T|_F^2, \quad A = B B^T \text{ of rank } w,

    shrunk towards the pool's own kernel, A = I, by a ridge: the candidate of `alphas` with the smallest error on rows
    that were held out, each half of the rows judging the other. The walk goes from the largest down, and ends where
    the error rises.

    Parameters
    ----------
    features : ndarray of shape (n_rows, width)
        F, the features of a few rows in random order, at weights that make :math:`F F^T` approximate the kernel.
    exact : ndarray of shape (n_rows, n_rows)
        K, the exact kernel matrix of the rows.
    counts : ndarray of shape (n_rows,)
        How many times each row counts.
    n_columns : int
        w, at most `width`.
    alphas : ndarray of shape (n_alphas,)
        Ridge candidates, for rows of F of length one. A single one is not judged.

    Returns
    -------
    ndarray of shape (width, n_columns)
        B. When the rows show fewer directions than that, the other columns are zero; of all `width` columns they
        are those directions of the pool that no row has shown, as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps.compression import best_matrix
    >>> features = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> best_matrix(features, np.diag([4.0, 1.0]), np.ones(2), 1, np.array([0.0])).round(6) + 0.0
    array([[2.],
           [0.]])
    """
    roots = np.sqrt(counts)
    features, exact = features * roots[:, None], exact * roots[:, None] * roots
    n_rows = len(features)
    everything, first, second = slice(0, n_rows), slice(0, n_rows // 2), slice(n_rows // 2, n_rows)

    def fit(rows: slice) -> _Fit:
        return _Fit.of(features[rows], exact[rows, rows], float(counts[rows].sum()))

    if len(alphas) == 1 or n_rows == 1:  # a single row cannot be held out: it is trusted least
        with serial_blas():  # no bit of the matrix depends on the number of threads
            return fit(everything).columns(float(alphas.max()), n_columns)

    # The largest first: the two threads are then busy for about as long.
    whole, *halves = in_threads(fit, [everything, first, second])

    def judge(pair: tuple[_Fit, slice]) -> _Judge:
        return _Judge.of(pair[0], features[pair[1]], exact[pair[1], pair[1]], n_columns == features.shape[1])

    judges = list(in_threads(judge, [(halves[0], second), (halves[1], first)]))
    best, best_risk = 0.0, np.inf
    for alpha in np.sort(alphas)[::-1].tolist():
        risk = sum(in_threads(partial(_Judge.risk, alpha=alpha), judges))
        if risk > best_risk:
            break
        best, best_risk = alpha, risk
    with serial_blas():
        return whole.columns(best, n_columns)


def principal_components(features: Floats, counts: Floats, n_columns: int) -> Floats:
    """The matrix B of shape (width, n_columns) for which F B has the inner products of F as nearly as can be.

    Parameters are those of `best_matrix`; the kernel is that of the features themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps.compression import principal_components
    >>> np.abs(principal_components(np.array([[2.0, 0.0], [0.0, 1.0]]), np.ones(2), 1))
    array([[1.],
           [0.]])
    """
    with serial_blas():  # no bit of the matrix depends on the number of threads
        spectrum, whitening = _whitened(features * np.sqrt(counts)[:, None])
        basis = whitening * np.sqrt(spectrum)
        return _completed(basis[:, ::-1][:, :n_columns], whitening, n_columns)


def _whitened(features: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues g of F'F, rising, those of rounding errors left out, and T for which F T is orthonormal."""
    n_rows, width = features.shape
    if width <= n_rows:
        spectrum, basis = np.linalg.eigh(features.T @ features)
    else:
        spectrum, rows = np.linalg.eigh(features @ features.T)
        basis = features.T @ (rows / np.sqrt(np.maximum(spectrum, np.finfo(float).tiny)))
    seen = spectrum > RANK_TOLERANCE * spectrum[-1]
    return spectrum[seen], basis[:, seen] / np.sqrt(spectrum[seen])


def _completed(matrix: Floats, whitening: Floats, n_columns: int) -> Floats:
    """The matrix with all its columns: zeros, or of a full pool the directions that no row has shown."""
    width, rank = whitening.shape
    if matrix.shape[1] == n_columns:
        return matrix
    if n_columns == width:
        return np.hstack([matrix, np.linalg.qr(whitening, mode="complete")[0][:, rank:]])
    return np.hstack([matrix, np.zeros((width, n_columns - matrix.shape[1]))])
