# SPDX-License-Identifier: BSD-3-Clause
r"""Held-out errors of kernel ridge regression and their gradients with respect to the kernel matrix.

With the kernel matrix K, a penalty :math:`\lambda` and sample weights w, the coefficients are
:math:`a = C^{-1} Y`, :math:`C = K + \lambda \, \mathrm{diag}(1 / w)`; a weight of 2 is a row that occurs twice.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bochner.rows import Array, Floats
from bochner.scaling.cholesky import factorize

__all__ = ["HeldOutError", "fold_error"]


@dataclass(frozen=True)
class HeldOutError:
    """A mean squared error on held-out rows.

    Attributes
    ----------
    error : float
        Weighted mean over the rows of the squared residuals, summed over the outputs.
    kernel_gradient : ndarray of shape (n, n)
        The symmetric gradient with respect to the kernel matrix.
    penalty_gradient : float
        The derivative with respect to the logarithm of the penalty.
    residuals : ndarray of shape (n, n_outputs)
        Targets minus predictions without the row or its fold.
    """

    error: float
    kernel_gradient: Array
    penalty_gradient: float
    residuals: Floats


def fold_error(K: Array, Y: Floats, w: Floats, penalty: float, n_folds: int) -> HeldOutError:
    r"""Return the error of contiguous folds of rows, each predicted from all others.

    With training rows t and held-out rows v, :math:`r = Y_v - K_{vt} a` and :math:`b = C_t^{-1} K_{tv} \omega r`, the
    gradient of :math:`\sum \omega |r|^2` is the symmetric matrix with the blocks :math:`-\omega r a^T` at (v, t)
    and :math:`a b^T + b a^T` at (t, t). Its rank is low, so that it costs less than the leave-one-out gradient.
    """
    shares, n_outputs = (w / w.sum())[:, None], Y.shape[1]
    left, right = np.zeros((2, len(K), n_folds * n_outputs), K.dtype)
    residuals, penalty_gradient = np.empty_like(Y), 0.0
    for number, held_out in enumerate(_folds(len(K), n_folds)):
        columns = slice(number * n_outputs, (number + 1) * n_outputs)
        cross = np.delete(K[held_out], held_out, axis=1)
        factor = factorize(_without(K, held_out), penalty / np.delete(w, held_out))
        a = factor.solve(np.delete(Y, held_out, axis=0))
        residuals[held_out] = Y[held_out] - cross @ a
        weighted = (shares[held_out] * residuals[held_out]).astype(a.dtype)
        b = factor.solve(cross.T @ weighted)
        rest = np.delete(np.arange(len(K)), held_out)
        left[rest, columns], right[rest, columns], right[held_out, columns] = a, b, -weighted
        penalty_gradient += 2.0 * penalty * float((np.einsum("ij,ij->i", a, b) / w[rest]).sum())
    gradient = np.hstack([left, right]) @ np.hstack([right, left]).T
    return HeldOutError(float((shares * np.square(residuals)).sum()), gradient, penalty_gradient, residuals)


def _without(K: Array, held_out: slice) -> Array:
    """Return a kernel matrix without some of its rows and columns; for one half of them, a view."""
    if held_out.start == 0:
        return K[held_out.stop :, held_out.stop :]
    if held_out.stop == len(K):
        return K[: held_out.start, : held_out.start]
    return np.delete(np.delete(K, held_out, axis=0), held_out, axis=1)


def _folds(n_rows: int, n_folds: int) -> list[slice]:
    edges = np.linspace(0, n_rows, n_folds + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]
