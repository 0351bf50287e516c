# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products that are added to an array in place, and the Cholesky factor that they give.

A product of NumPy needs another array of the size of the result, and SciPy's wrappers of BLAS hold the GIL, so that
threads cannot share the work. Here the routines of SciPy's BLAS are called through `ctypes`, which releases it.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import cython_blas

from bochner.rows.arrays import Floats
from bochner.rows.threads import row_spans
from bochner.rows.workers import in_threads, serial_blas

__all__ = ["add_gram", "add_product", "cholesky", "mirror"]

TILE = 256  # rows and columns of the parts of a matrix that threads share


def add_product(out: Floats, left: Floats, right: Floats, scale: float = 1.0) -> None:
    """Add a product of two matrices to an array, in the calling thread.

    All arrays are float64. Rows of `out` are contiguous; of the factors, rows or columns are.

    Parameters
    ----------
    out : ndarray of shape (m, n)
        The array to add to.
    left, right : ndarray of shape (m, k) and (k, n)
        The factors.
    scale : float, default=1
        A factor of the product.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows.blas import add_product
    >>> total = np.ones((2, 2))
    >>> add_product(total, np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]), scale=-1.0)
    >>> total
    array([[ 0., -1.],
           [-2., -3.]])
    """
    # BLAS takes rows for columns: it computes the transpose, from the transposed factors.
    (m, n), k = out.shape, left.shape[1]
    first, second = _Operand(right), _Operand(left)
    _call("dgemm", first.flag, second.flag, n, m, k, scale, *first.array, *second.array, 1.0, *_Operand(out).array)


def add_gram(out: Floats, rows: Floats, keep: float = 1.0) -> None:
    """Add the lower half of the Gram matrix of the columns of a matrix, in the calling thread.

    Parameters
    ----------
    out : ndarray of shape (n, n)
        The array to add to, as for `add_product`; its upper half is not changed.
    rows : ndarray of shape (k, n)
        The matrix.
    keep : float, default=1
        A factor of what `out` holds; 0 overwrites it, even where it is NaN.
    """
    matrix = _Operand(rows)
    _call("dsyrk", b"U", matrix.flag, len(out), len(rows), 1.0, *matrix.array, keep, *_Operand(out).array)


def mirror(matrix: Floats) -> None:
    """Copy the lower half of a square matrix to its upper half, in the calling thread."""
    spans = row_spans(len(matrix), TILE)
    for number, rows in enumerate(spans):
        for columns in spans[:number]:
            matrix[columns, rows] = matrix[rows, columns].T
        block = matrix[rows, rows]
        block[...] = np.tril(block) + np.tril(block, -1).T


def cholesky(matrix: Floats) -> Floats:
    r"""Return the lower Cholesky factor L of a positive definite matrix :math:`L L^T`, computed in threads.

    Columns of tiles are computed one after the other from those to their left. No bit depends on the number of threads.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        The matrix; only its lower half is read.

    Returns
    -------
    ndarray of shape (n, n)
        The factor.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix is not positive definite, or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows.blas import cholesky
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    factor = np.zeros(matrix.shape)  # `zeros_like` writes them, also where they stay
    spans = row_spans(len(factor), TILE)
    for number, columns in enumerate(spans):
        left = factor[columns, : columns.start]

        def subtract(rows: slice, columns: slice = columns, left: Floats = left) -> None:
            factor[rows, columns] = matrix[rows, columns]
            if columns.start:
                add_product(factor[rows, columns], factor[rows, : columns.start], left.T, -1.0)

        list(in_threads(subtract, spans[number:]))
        pivot = factor[columns, columns]
        pivot[...] = serial_blas(linalg.cholesky)(pivot, lower=True, check_finite=False)
        if not np.isfinite(np.diag(pivot)).all():  # LAPACK does not report NaN
            raise linalg.LinAlgError("The matrix is not finite.")

        def divide(rows: slice, columns: slice = columns, pivot: Floats = pivot) -> None:
            arrays = *_Operand(pivot).array, *_Operand(factor[rows, columns]).array
            _call("dtrsm", b"L", b"U", b"T", b"N", len(pivot), rows.stop - rows.start, 1.0, *arrays)

        list(in_threads(divide, spans[number + 1 :]))
    return factor


class _Operand:
    """A matrix as BLAS takes it: whether to transpose it, its address and the distance of its rows."""

    def __init__(self, matrix: Floats) -> None:
        item = matrix.itemsize
        by_rows = matrix.strides[1] == item or matrix.shape[1] == 1
        self.flag = b"N" if by_rows else b"T"
        step = matrix.strides[0 if by_rows else 1] // item
        # A single row, whose stride is arbitrary, is as long as the matrix is wide.
        self.array = ctypes.c_void_p(matrix.ctypes.data), max(step, matrix.shape[1 if by_rows else 0], 1)


def _call(name: str, *arguments: Any) -> None:
    """Call a routine of BLAS, which takes numbers by reference."""
    _routine(name)(*map(_by_reference, arguments))


def _by_reference(argument: Any) -> Any:
    if isinstance(argument, int):
        return ctypes.byref(_integer()(argument))
    return ctypes.byref(ctypes.c_double(argument)) if isinstance(argument, float) else argument


@cache
def _routine(name: str) -> Any:
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None)(get_pointer(_capsules()[name], _signature(name)))


@cache
def _integer() -> Any:
    """Return the type of the integers of SciPy's BLAS."""
    return ctypes.c_int if b" int *" in _signature("dgemm") else ctypes.c_int64


def _signature(name: str) -> bytes:
    """Return the signature of a routine in C."""
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return bytes(get_name(_capsules()[name]))


def _capsules() -> Any:
    return cython_blas.__pyx_capi__
