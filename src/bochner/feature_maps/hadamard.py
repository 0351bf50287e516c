# SPDX-License-Identifier: BSD-3-Clause
r"""Structured frequencies: products of Hadamard matrices and random signs, applied in O(p log p).

A block of p frequencies (p a power of two, at least the number of columns) is
:math:`R \, (H D_1 H D_2 H D_3) / p^{3/2}`: D are random signs, H is Hadamard's matrix, so the directions are
orthogonal, and R holds the radii (Yu et al., 2016). The fast Walsh-Hadamard transform replaces the matrix product.
"""

from dataclasses import dataclass
from typing import Any, Self

import numba
import numpy as np

from bochner.rows import Array, Floats

__all__ = ["HadamardFrequencies"]

BATCH = 8  # rows transformed together: the innermost loops run over them


@dataclass(frozen=True)
class HadamardFrequencies:
    """Frequencies in blocks of Hadamard products, cut to the number of columns.

    Parameters
    ----------
    signs : ndarray of shape (n_blocks, 3, p)
        Random signs.
    radii : ndarray of shape (n_frequencies,)
        Lengths of the uncut frequencies.
    units : ndarray of shape (n_features,)
        What the columns of the data are divided by first.
    """

    signs: Array
    radii: Array
    units: Array

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.radii.dtype

    def __len__(self) -> int:
        return len(self.radii)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.dense(), dtype=dtype)

    def __truediv__(self, length_scale: float | Floats) -> Self:
        """The frequencies for data whose unit of distance is `length_scale`."""
        return type(self)(self.signs, self.radii, self.units * length_scale)

    def astype(self, dtype: Any) -> Self:
        """The frequencies in another floating-point type."""
        return type(self)(self.signs.astype(dtype), self.radii.astype(dtype), self.units.astype(dtype))

    def dense(self) -> Array:
        """The frequencies as a matrix (n_frequencies, n_features), one a row."""
        p = self.signs.shape[2]
        blocks = []
        for start, (first, second, third) in zip(range(0, len(self), p), self.signs, strict=True):
            rows = np.eye(min(p, len(self) - start), p)
            for signs in (first, second, third):
                rows = _walsh_hadamard(rows) * signs
            blocks.append(rows[:, : len(self.units)])
        return np.asarray(np.concatenate(blocks) * (self.radii / p**1.5)[:, None] / self.units, dtype=self.dtype)

    @property
    def is_fast(self) -> bool:
        """Whether `multiply` is faster than the product with the dense matrix.

        The product does about 10 (float64) or 18 (float32) operations in the time of one of the transform's, as
        measured with AVX2; the ratio of the numbers of operations decides.
        """
        n_blocks, _, p = self.signs.shape
        product = 2 * len(self) * len(self.units)
        transform = 3 * n_blocks * p * np.log2(p)
        return bool(product > (10 if self.dtype.itemsize == 8 else 18) * transform)

    def multiply(self, X: Array, factor: float, out: Array) -> None:
        """Write factor * (X @ frequencies.T) into `out`, of shape (n, n_frequencies)."""
        p = self.signs.shape[2]
        buffers = np.empty((2, p * BATCH), dtype=out.dtype)
        _project(X, 1 / self.units, self.signs, (self.radii * (factor / p**1.5)).astype(out.dtype), buffers, out)


def _walsh_hadamard(rows: Array) -> Array:
    """The Walsh-Hadamard transform of each row, by halves."""
    n, p = rows.shape
    step = 1
    while step < p:
        pairs = rows.reshape(n, -1, 2, step)
        rows = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(n, p)
        step *= 2
    return rows


@numba.njit(nogil=True, cache=True)
def _project(X: Any, scale: Any, signs: Any, radii: Any, buffers: Any, out: Any) -> None:
    n_rows, n_features = X.shape
    n_blocks, _, p = signs.shape
    batch = buffers.shape[1] // p
    data, work = buffers[0], buffers[1]
    for start in range(0, n_rows, batch):
        size = min(batch, n_rows - start)
        # Element j of the batch's rows stands at j * batch, the rows side by side.
        data[:] = 0
        for r in range(size):
            row = X[start + r]
            for j in range(n_features):
                data[j * batch + r] = row[j] * scale[j]
        for block in range(n_blocks):
            _multiply_signs(data, signs[block, 2], work)
            _transform(work, batch)
            _multiply_signs(work, signs[block, 1], work)
            _transform(work, batch)
            _multiply_signs(work, signs[block, 0], work)
            _transform(work, batch)
            first = block * p
            last = min(first + p, len(radii))
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
    """Walsh-Hadamard transform in place, two stages a pass over memory while two are left."""
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
