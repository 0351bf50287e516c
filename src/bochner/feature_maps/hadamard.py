# SPDX-License-Identifier: BSD-3-Clause
r"""Structured frequencies: products of Hadamard matrices and random signs, applied in O(p log p).

A block of p frequencies is :math:`R \, (H D_1 H D_2 H D_3) / p^{3/2}` (Yu et al., 2016), where p is a power of two and
at least the number of columns. H is the Hadamard matrix, the D are diagonal matrices of random signs, and R is the
diagonal matrix of the lengths. The rows are orthogonal. The fast Walsh-Hadamard transform replaces the matrix product.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numba
import numpy as np

from bochner.rows import Array, Floats

__all__ = ["HadamardFrequencies"]

BATCH = 8  # rows that are transformed together, so that the innermost loops run over them


@dataclass(frozen=True)
class HadamardFrequencies:
    """Frequencies in blocks of Hadamard products, truncated to the number of columns.

    Parameters
    ----------
    signs : ndarray of shape (n_blocks, 3, p)
        Random signs.
    radii : ndarray of shape (n_frequencies,)
        Lengths of the frequencies before truncation.
    units : ndarray of shape (n_features,)
        Divisors of the columns of the data.

    Attributes
    ----------
    dtype : dtype
        Floating-point type of the frequencies.
    is_fast : bool
        Whether `multiply` is faster than a product with the dense matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps.hadamard import HadamardFrequencies
    >>> frequencies = HadamardFrequencies(np.ones((1, 3, 2)), np.full(2, 3.0), np.ones(2))
    >>> np.asarray(frequencies).round(3)
    array([[ 2.121,  2.121],
           [ 2.121, -2.121]])
    """

    signs: Array
    radii: Array
    units: Array

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.radii.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the frequencies as a matrix, one frequency per row."""
        n_features = len(self.units)
        columns = np.empty((n_features, len(self.radii)))
        replace(self, units=np.ones(n_features)).astype(np.float64).multiply(np.eye(n_features), 1.0, columns)
        return np.asarray(np.ascontiguousarray(columns.T / self.units, dtype=self.dtype), dtype=dtype)

    def __truediv__(self, length_scale: float | Floats) -> Self:
        """Return the frequencies divided by a length scale, or by one length scale per column."""
        return replace(self, units=self.units * length_scale)

    def astype(self, dtype: Any) -> Self:
        """Return the frequencies in another floating-point type.

        Parameters
        ----------
        dtype : dtype
            The floating-point type.

        Returns
        -------
        HadamardFrequencies
            The converted frequencies.
        """
        return type(self)(self.signs.astype(dtype), self.radii.astype(dtype), self.units.astype(dtype))

    @property
    def is_fast(self) -> bool:
        """Whether `multiply` is faster than a product with the dense matrix."""
        # In the time of one operation of the transform, the dense product does about 10 operations in float64 and 18 in
        # float32, measured with AVX2.
        n_blocks, _, p = self.signs.shape
        product, transform = 2 * len(self.radii) * len(self.units), 3 * n_blocks * p * np.log2(p)
        return bool(product > (10 if self.dtype.itemsize == 8 else 18) * transform)

    def multiply(self, X: Array, factor: float, out: Array) -> None:
        """Write ``factor * (X @ frequencies.T)`` into an array.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Rows.
        factor : float
            Factor of the product.
        out : ndarray of shape (n_rows, n_frequencies)
            Array to write into, of the dtype of the frequencies.
        """
        p = self.signs.shape[2]
        buffers = np.empty((2, p * BATCH), dtype=out.dtype)
        _project(X, 1 / self.units, self.signs, (self.radii * (factor / p**1.5)).astype(out.dtype), buffers, out)


@numba.njit(nogil=True, cache=True)
def _project(X: Any, scale: Any, signs: Any, radii: Any, buffers: Any, out: Any) -> None:
    n_rows, n_features = X.shape
    n_blocks, _, p = signs.shape
    batch = buffers.shape[1] // p
    data, work = buffers[0], buffers[1]  # element j of the rows in a batch starts at j * batch
    for start in range(0, n_rows, batch):
        size = min(batch, n_rows - start)
        data[:] = 0
        for r in range(size):
            row = X[start + r]
            for j in range(n_features):
                data[j * batch + r] = row[j] * scale[j]
        for block in range(n_blocks):
            _multiply_signs(data, signs[block, 2], work)
            _transform(work, batch)
            for factor in (1, 0):
                _multiply_signs(work, signs[block, factor], work)
                _transform(work, batch)
            first, last = block * p, min(block * p + p, len(radii))
            for r in range(size):
                row = out[start + r]
                for m in range(first, last):
                    row[m] = work[(m - first) * batch + r] * radii[m]


@numba.njit(nogil=True, cache=True)
def _multiply_signs(source: Any, signs: Any, target: Any) -> None:
    batch = len(source) // len(signs)
    for j in range(len(signs)):
        sign = signs[j]
        x, y = source[j * batch : (j + 1) * batch], target[j * batch : (j + 1) * batch]
        for r in range(batch):
            y[r] = x[r] * sign


@numba.njit(nogil=True, cache=True)
def _transform(work: Any, batch: Any) -> None:
    """Compute the Walsh-Hadamard transform in place, with two stages per pass over memory."""
    n = len(work)
    step = batch
    while 2 * step < n:
        for start in range(0, n, 4 * step):
            a, b = work[start : start + step], work[start + step : start + 2 * step]
            c, d = work[start + 2 * step : start + 3 * step], work[start + 3 * step : start + 4 * step]
            for k in range(step):
                ab, a_b, cd, c_d = a[k] + b[k], a[k] - b[k], c[k] + d[k], c[k] - d[k]
                a[k], b[k], c[k], d[k] = ab + cd, a_b + c_d, ab - cd, a_b - c_d
        step *= 4
    if step < n:
        a, b = work[:step], work[step:]
        for k in range(step):
            a[k], b[k] = a[k] + b[k], a[k] - b[k]
