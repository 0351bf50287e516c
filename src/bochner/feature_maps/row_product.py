# SPDX-License-Identifier: BSD-3-Clause
"""The compiled product of one row with a matrix.

BLAS divides it among threads, though it takes microseconds; to hold BLAS at one thread would take longer than the
product. The machine code is cached on disk. Importing this module imports numba, which is slow, so that `feature_map`
imports it only for a product.
"""

from typing import Any

import numba

from bochner.rows import Array

__all__ = ["multiply_row"]


def multiply_row(row: Array, matrix: Array, out: Array) -> None:
    """Write the product of a row with a matrix into `out`.

    Parameters
    ----------
    row : ndarray of shape (n,)
        The row.
    matrix : ndarray of shape (n, m)
        The matrix, with contiguous rows.
    out : ndarray of shape (m,)
        Array to write into. All three arrays have the same dtype, float32 or float64.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps.row_product import multiply_row
    >>> out = np.empty(2)
    >>> multiply_row(np.array([1.0, 2.0]), np.array([[3.0, 4.0], [5.0, 6.0]]), out)
    >>> out
    array([13., 16.])
    """
    _multiply(row, matrix, out)


@numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def _multiply(row: Any, matrix: Any, out: Any) -> None:
    out[:] = 0
    n_whole = len(row) // 4 * 4
    for i in range(0, n_whole, 4):  # four rows of the matrix at a time, because `out` is read and written for each
        a, b, c, d = row[i], row[i + 1], row[i + 2], row[i + 3]
        first, second, third, fourth = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        for j in range(len(out)):
            out[j] += (a * first[j] + b * second[j]) + (c * third[j] + d * fourth[j])
    for i in range(n_whole, len(row)):
        for j in range(len(out)):
            out[j] += row[i] * matrix[i, j]
