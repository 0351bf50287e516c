# SPDX-License-Identifier: BSD-3-Clause
r"""Compiled kernel matrices and their gradients.

Every kernel here is a function of one sum per pair of rows, :math:`s = \sum_j |x_j - z_j|^p`: with
:math:`t = (c s)^e` it is :math:`e^{-t}` or, for the Matern kernel with nu = 3/2, :math:`(1 + t) e^{-t}`. Sums and
exponentials are loops that the compiler turns into SIMD code; float32 has its own exponential and logarithm, because
those of the C library are not vectorized. Float64 exists for small data and for tests.
"""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from bochner.feature_maps.elementary import LOG2_E, exp2_32
from bochner.kernels import Exponential, Gaussian, Kernel, Laplacian, Matern, PowerExponential
from bochner.rows import Array, Floats

__all__ = ["KernelShape", "kernel_shape"]

MAX_COLUMNS = 40  # with more columns, squared distances are cheaper through a matrix product
# Larger exponents would give denormal numbers, which slow all arithmetic down.
LARGEST_EXPONENT = 60.0

# Full fastmath would allow the compiler to undo the rounding in `exp2_32`; these three flags do not.
_compile = numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz", "arcp"}, error_model="numpy")
# Sums may be reordered, so that they become SIMD code.
_compile_sums = numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"}, error_model="numpy")


@dataclass(frozen=True)
class KernelShape:
    """The exponents and factors of a kernel, see the module.

    Attributes
    ----------
    p : float
        Power of the differences in the sums.
    factor, exponent : float
        The numbers c and e.
    is_matern : bool
        Whether the kernel has the factor 1 + t.
    """

    p: float
    factor: float
    exponent: float
    is_matern: bool = False

    def matrix(self, X: Array, Z: Array | None = None) -> Array:
        """Return kernel values of all pairs of rows in their dtype; without `Z`, of the pairs of rows of `X`."""
        return self.values(self.sums(X, Z))

    def sums(self, X: Array, Z: Array | None = None) -> Array:
        """Return the sums s of all pairs of rows."""
        if self.p == 2.0 and X.shape[1] > MAX_COLUMNS:
            return _squared_distances(X, X if Z is None else Z, Z is None)
        sums = np.zeros((len(X), len(X if Z is None else Z)), X.dtype)
        columns = np.ascontiguousarray((X if Z is None else Z).T)
        _add_powers(np.ascontiguousarray(X), columns, X.dtype.type(self.p), Z is None, sums)
        return sums

    def values(self, sums: Array) -> Array:
        """Return kernel values of sums, which are overwritten."""
        if sums.dtype == np.float32:
            _profile32(sums.reshape(-1), *self._constants(), sums.reshape(-1), sums.reshape(-1)[:0])
            return sums
        powers = (self.factor * sums) ** self.exponent
        return np.asarray((1.0 + powers * self.is_matern) * np.exp(-np.minimum(powers, LARGEST_EXPONENT)))

    def values_and_slopes(self, sums: Array) -> tuple[Array, Array]:
        """Return kernel values of sums, and their derivatives with respect to the sums; 0 where the sum is 0."""
        if sums.dtype == np.float32:
            values, slopes = np.empty_like(sums), np.empty_like(sums)
            _profile32(sums.reshape(-1), *self._constants(), values.reshape(-1), slopes.reshape(-1))
            return values, slopes
        powers = (self.factor * sums) ** self.exponent
        exponentials = np.exp(-np.minimum(powers, LARGEST_EXPONENT))
        if self.is_matern:
            return (1.0 + powers) * exponentials, -0.5 * self.factor * exponentials
        ratios = np.divide(powers, sums, out=np.zeros_like(sums), where=sums > 0.0)
        return exponentials, -self.exponent * ratios * exponentials

    def scale_gradient(self, X: Array, weights: Array) -> Floats:
        r"""Return :math:`p \sum_{ik} h_{ik} |x_{ij} - x_{kj}|^p` for each column j and symmetric weights h."""
        if self.p != 2.0:
            columns = np.ascontiguousarray(X.T)
            return np.asarray(self.p * _contract_powers(columns, weights, X.dtype.type(self.p)))
        return np.asarray(4.0 * np.einsum("ij,ij->j", _laplacian(X, weights), X, dtype=np.float64))

    def metric_gradient(self, X: Array, weights: Array) -> Floats:
        r"""Return :math:`\sum_{ik} h_{ik} (x_i - x_k)(x_i - x_k)^T` for symmetric weights h."""
        return 2.0 * np.asarray(X.T @ _laplacian(X, weights), dtype=np.float64)

    def row_gradients(self, X: Array, Z: Array, coef: Floats) -> Floats:
        """Return the gradients of the kernel expansion with rows `Z` and coefficients (n_z, n_outputs) at rows `X`."""
        slopes = self.values_and_slopes(self.sums(X, Z))[1]
        gradients = np.empty((*X.shape, coef.shape[1]))
        for number, column in enumerate(coef.T):
            weights = slopes * column
            if self.p == 2.0:
                gradients[:, :, number] = 2.0 * (weights.sum(axis=1)[:, None] * X - weights @ Z)
            else:
                _contract_rows(X, np.ascontiguousarray(Z.T), weights, self.p, gradients[:, :, number])
        return gradients

    def _constants(self) -> tuple[np.float32, np.float32, bool]:
        return np.float32(self.factor), np.float32(self.exponent), self.is_matern


def kernel_shape(kernel: Kernel) -> KernelShape:
    """Return the shape of a kernel; raise ValueError for a kernel that has none."""
    if isinstance(kernel, PowerExponential):
        return KernelShape(float(kernel.p), 1.0, float(kernel.q / kernel.p))
    if isinstance(kernel, Gaussian):
        return KernelShape(2.0, 0.5, 1.0)
    if isinstance(kernel, Laplacian):
        return KernelShape(1.0, 1.0, 1.0)
    if isinstance(kernel, Exponential) or (isinstance(kernel, Matern) and kernel.nu == 0.5):
        return KernelShape(2.0, 1.0, 0.5)
    if isinstance(kernel, Matern) and kernel.nu == 1.5:
        return KernelShape(2.0, 3.0, 0.5, is_matern=True)
    raise ValueError(
        f"{kernel} has no compiled kernel matrix; use Gaussian(), Laplacian(), Exponential(), Matern(nu=1.5) or "
        f"PowerExponential()."
    )


def _squared_distances(X: Array, Z: Array, is_same: bool) -> Array:
    """Return squared distances by a product in float64, because float32 would lose those of close rows."""
    center = X.mean(axis=0, dtype=np.float64)
    left = X - center
    right = left if is_same else Z - center
    sums = left @ (-2.0 * right.T)
    sums += np.einsum("ij,ij->i", left, left)[:, None]
    sums += np.einsum("ij,ij->i", right, right)
    np.maximum(sums, 0.0, out=sums)
    if is_same:
        np.fill_diagonal(sums, 0.0)
    return np.asarray(sums, X.dtype)


def _laplacian(X: Array, weights: Array) -> Array:
    """Return the weights' graph Laplacian times the rows."""
    return np.asarray(weights.sum(axis=1)[:, None] * X - weights @ X)


@_compile
def _add_powers(X: Any, columns: Any, p: Any, is_symmetric: bool, sums: Any) -> None:
    """Add |x_j - z_j|^p of all columns j to the sums; half of symmetric sums is copied from the other half."""
    n_rows, n_columns = X.shape
    for i in range(n_rows):
        row = sums[i, : i + 1] if is_symmetric else sums[i]
        for j in range(n_columns):
            x, column = X[i, j], columns[j, : row.size]
            if p == 1.0:
                for k in range(row.size):
                    row[k] += abs(x - column[k])
            elif p == 2.0:
                for k in range(row.size):
                    row[k] += (x - column[k]) * (x - column[k])
            elif p == 1.5:
                for k in range(row.size):
                    row[k] += abs(x - column[k]) * np.sqrt(abs(x - column[k]))
            else:
                for k in range(row.size):
                    row[k] += abs(x - column[k]) ** p
    if is_symmetric:
        for start in range(0, n_rows, 32):  # blocks of both halves stay in the cache
            for i in range(start, n_rows):
                for k in range(start, min(start + 32, i)):
                    sums[k, i] = sums[i, k]


@_compile_sums
def _contract_powers(columns: Any, weights: Any, p: Any) -> Any:
    """Return sums over pairs of rows of symmetric weights times |x_j - z_j|^p, one per column j."""
    n_columns, n_rows = columns.shape
    totals = np.zeros(n_columns)
    for i in range(1, n_rows):
        weight = weights[i, :i]
        for j in range(n_columns):
            x, column = columns[j, i], columns[j, :i]
            total = weight[0] * 0
            if p == 1.0:
                for k in range(i):
                    total += weight[k] * abs(x - column[k])
            elif p == 1.5:
                for k in range(i):
                    total += weight[k] * abs(x - column[k]) * np.sqrt(abs(x - column[k]))
            else:
                for k in range(i):
                    total += weight[k] * abs(x - column[k]) ** p
            totals[j] += 2.0 * total
    return totals


@_compile
def _contract_rows(X: Any, columns: Any, weights: Any, p: float, out: Any) -> None:
    """Write the sums over k of weights[i, k] times the derivative of |x_ij - z_kj|^p with respect to x_ij."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            total = 0.0
            for k in range(columns.shape[1]):
                difference = X[i, j] - columns[j, k]
                if difference != 0.0:
                    total += weights[i, k] * np.sign(difference) * abs(difference) ** (p - 1.0)
            out[i, j] = p * total


@_compile
def _log2(x: Any) -> Any:
    """Return the logarithm of a positive, normal float32: the exponent, and a series of the mantissa's artanh."""
    bits = np.float32(x).view(np.int32)
    exponent = (bits - np.int32(0x3F3504F3)) >> np.int32(23)  # the mantissa is between sqrt(1/2) and sqrt(2)
    mantissa = np.int32(bits - (exponent << np.int32(23))).view(np.float32)
    z = (mantissa - np.float32(1.0)) / (mantissa + np.float32(1.0))
    w = z * z
    series = np.float32(2.8853900817779268 / 9) * w + np.float32(2.8853900817779268 / 7)
    series = series * w + np.float32(2.8853900817779268 / 5)
    series = series * w + np.float32(2.8853900817779268 / 3)
    series = series * w + np.float32(2.8853900817779268)
    return np.float32(exponent) + series * z


@_compile
def _profile32(sums: Any, factor: Any, exponent: Any, is_matern: bool, values: Any, slopes: Any) -> None:
    """Write kernel values of sums and, unless `slopes` is empty, their derivatives."""
    tiny, largest, log2_e = np.float32(1e-30), np.float32(LARGEST_EXPONENT), np.float32(LOG2_E)
    one, zero = np.float32(1.0), np.float32(0.0)
    for i in range(sums.size):
        s = sums[i]
        t = s * factor
        if exponent == np.float32(0.5):
            t = np.sqrt(t)
        elif exponent != one:
            t = exp2_32(min(max(exponent * _log2(max(t, tiny)), np.float32(-100.0)), np.float32(20.0)))
            t = t if s > zero else zero
        exponential = exp2_32(-log2_e * min(t, largest))
        if slopes.size:
            ratio = exponent * t / max(s, tiny)
            slope = np.float32(0.5) * factor if is_matern else (ratio if s > zero else zero)
            slopes[i] = -slope * exponential
        values[i] = (one + t) * exponential if is_matern else exponential
