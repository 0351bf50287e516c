# SPDX-License-Identifier: BSD-3-Clause
r"""Compiled Gaussian kernel values from inner products.

With rows x and landmarks l at unit length scale, :math:`e^{-|x - l|^2 / 2} = 2^t` with
:math:`t = (x \cdot l - |x|^2 / 2 - |l|^2 / 2) \log_2 e`. Adding a large constant to t rounds it to an integer q, whose
low bits become the exponent of the result. A polynomial approximates :math:`2^{t - q}` for :math:`|t - q| \le 1/2`. The
machine code is cached on disk. Importing this module imports numba, which is slow, so that `kernel_columns` imports it
only when a map is created.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bochner.rows import Array

__all__ = ["LOG2_E", "exponential_rows"]

LOG2_E = 1.0 / float(np.log(2.0))

# Minimax polynomials of 2^f on [-1/2, 1/2], lowest coefficient first.
_COEFFICIENTS: dict[str, tuple[float, ...]] = {
    "float64": (
        *(1.0, 0.6931471805599453, 0.24022650695910158, 0.055504108664821625, 0.009618129107587256),
        *(0.001333355814640647, 0.00015403530463724353, 1.5252733841556773e-05, 1.3215432535912375e-06),
        *(1.0178057087733941e-07, 7.074194297288521e-09, 4.4558179083360645e-10),
    ),
    "float32": (
        *(1.0, 0.6931472067028326, 0.24022650922288757, 0.05550327226670302),
        *(0.009618056678524637, 0.0013400428177615838, 0.0001546144469856913),
    ),
}


def exponential_rows(products: Array, row_terms: Array, column_terms: Array, out: Array) -> None:
    """Write 2 ** (products - row_terms - column_terms) into `out`, which may be `products` itself.

    Exponents above 0 are rounding errors of squared distances; their value is 1.

    Parameters
    ----------
    products : ndarray of shape (n, m)
        Inner products times log2(e).
    row_terms : ndarray of shape (n,)
        Half the squared norms of the rows, times log2(e).
    column_terms : ndarray of shape (m,)
        Half the squared norms of the landmarks, times log2(e).
    out : ndarray of shape (n, m)
        Array to write into. All arrays have the same dtype, float32 or float64, and contiguous rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps.exponential import exponential_rows
    >>> out = np.empty((1, 2))
    >>> exponential_rows(np.array([[3.0, 4.0]]), np.array([1.0]), np.array([2.0, 5.0]), out)
    >>> out
    array([[1.  , 0.25]])
    """
    kind = out.dtype.type
    coefficients = tuple(kind(value) for value in _COEFFICIENTS[out.dtype.name])
    exponential = _exponential64 if kind is np.float64 else _exponential32
    exponential(products, row_terms, column_terms, coefficients, out)


def _bitcast(source: Any, target: Any, target_type: Any) -> Any:
    """Return a compiled function that takes the bits of a number as another type."""

    def reinterpret(context: Any, number: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], target_type)

        return target(source), code

    return intrinsic(reinterpret)


_bits64 = _bitcast(types.float64, types.int64, ir.IntType(64))
_float64 = _bitcast(types.int64, types.float64, ir.DoubleType())
_bits32 = _bitcast(types.float32, types.int32, ir.IntType(32))
_float32 = _bitcast(types.int32, types.float32, ir.FloatType())

# Full fastmath would allow the compiler to undo the rounding; these three flags do not.
_compile = numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz", "arcp"}, error_model="numpy")


@_compile
def _exponential64(products: Any, row_terms: Any, column_terms: Any, coefficients: Any, out: Any) -> None:
    rounding, smallest, largest = 1.5 * 2.0**52, -1021.0, 0.0  # smaller powers of 2 are not normal numbers
    for i in range(products.shape[0]):
        row, values, row_term = products[i], out[i], row_terms[i]
        for k in range(products.shape[1]):
            t = min(max(row[k] - row_term - column_terms[k], smallest), largest)
            shifted = t + rounding
            f = t - (shifted - rounding)
            power = coefficients[-1]
            for j in range(len(coefficients) - 2, -1, -1):
                power = power * f + coefficients[j]
            values[k] = power * _float64((_bits64(shifted) + 1023) << 52)


@_compile
def _exponential32(products: Any, row_terms: Any, column_terms: Any, coefficients: Any, out: Any) -> None:
    # Constants are float32, because a float64 constant would turn all arithmetic into float64.
    rounding, smallest, largest = np.float32(1.5 * 2.0**23), np.float32(-125.0), np.float32(0.0)
    for i in range(products.shape[0]):
        row, values, row_term = products[i], out[i], row_terms[i]
        for k in range(products.shape[1]):
            t = min(max(row[k] - row_term - column_terms[k], smallest), largest)
            shifted = t + rounding
            f = t - (shifted - rounding)
            power = coefficients[-1]
            for j in range(len(coefficients) - 2, -1, -1):
                power = power * f + coefficients[j]
            values[k] = power * _float32((_bits32(shifted) + np.int32(127)) << np.int32(23))
