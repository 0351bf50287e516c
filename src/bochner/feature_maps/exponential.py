# SPDX-License-Identifier: BSD-3-Clause
r"""Compiled powers of two, and Gaussian kernel values from inner products.

Adding a large constant to t rounds it to an integer q, whose low bits become the exponent of the result. A polynomial
approximates :math:`2^{t - q}` for :math:`|t - q| \le 1/2`. With rows x and landmarks l at unit length scale,
:math:`e^{-|x - l|^2 / 2} = 2^t` with :math:`t = (x \cdot l - |x|^2 / 2 - |l|^2 / 2) \log_2 e`. The machine code is
cached on disk.
"""

from typing import Any

import numba
import numpy as np

from bochner.rows import Array

__all__ = ["LOG2_E", "exp2_32", "exp2_64", "exponential_rows"]

LOG2_E = 1.0 / float(np.log(2.0))

# Minimax polynomials of 2^f on [-1/2, 1/2], lowest coefficient first.
COEFFICIENTS_64 = (
    *(1.0, 0.6931471805599453, 0.24022650695910158, 0.055504108664821625, 0.009618129107587256),
    *(0.001333355814640647, 0.00015403530463724353, 1.5252733841556773e-05, 1.3215432535912375e-06),
    *(1.0178057087733941e-07, 7.074194297288521e-09, 4.4558179083360645e-10),
)
# Constants of float32 arithmetic are float32, because a float64 constant would turn all of it into float64.
COEFFICIENTS_32 = (
    *map(np.float32, (1.0, 0.6931472067028326, 0.24022650922288757, 0.05550327226670302)),
    *map(np.float32, (0.009618056678524637, 0.0013400428177615838, 0.0001546144469856913)),
)
ROUNDING_64, ROUNDING_32 = 1.5 * 2.0**52, np.float32(1.5 * 2.0**23)
# Smaller powers of 2 are not normal numbers.
SMALLEST_64, SMALLEST_32, ZERO_32 = -1021.0, np.float32(-125.0), np.float32(0.0)

# Full fastmath would allow the compiler to undo the rounding; these three flags do not.
_compile = numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz", "arcp"}, error_model="numpy")


def exponential_rows(products: Array, row_terms: Array, column_terms: Array, out: Array) -> None:
    """Write 2 ** (products - row_terms - column_terms) into `out`, which may be `products` itself.

    Exponents above 0 are rounding errors of squared distances; their value is 1. All arrays have the same dtype,
    float32 or float64, and contiguous rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps.exponential import exponential_rows
    >>> out = np.empty((1, 2))
    >>> exponential_rows(np.array([[3.0, 4.0]]), np.array([1.0]), np.array([2.0, 5.0]), out)
    >>> out
    array([[1.  , 0.25]])
    """
    exponential = _rows_64 if out.dtype == np.float64 else _rows_32
    exponential(products, row_terms, column_terms, out)


@_compile
def _polynomial(coefficients: Any, f: Any) -> Any:
    value = coefficients[-1]
    for j in range(len(coefficients) - 2, -1, -1):
        value = value * f + coefficients[j]
    return value


@_compile
def exp2_64(t: Any) -> Any:
    """Return 2^t in float64 for t between -1021 and 1022."""
    shifted = t + ROUNDING_64
    power = _polynomial(COEFFICIENTS_64, t - (shifted - ROUNDING_64))
    bits = (np.float64(shifted).view(np.int64) + 1023) << 52
    return power * np.int64(bits).view(np.float64)


@_compile
def exp2_32(t: Any) -> Any:
    """Return 2^t in float32 for t between -125 and 126."""
    shifted = t + ROUNDING_32
    power = _polynomial(COEFFICIENTS_32, t - (shifted - ROUNDING_32))
    bits = (np.float32(shifted).view(np.int32) + np.int32(127)) << np.int32(23)
    return power * np.int32(bits).view(np.float32)


@_compile
def _rows_64(products: Any, row_terms: Any, column_terms: Any, out: Any) -> None:
    for i in range(products.shape[0]):
        row, values, row_term = products[i], out[i], row_terms[i]
        for k in range(products.shape[1]):
            values[k] = exp2_64(min(max(row[k] - row_term - column_terms[k], SMALLEST_64), 0.0))


@_compile
def _rows_32(products: Any, row_terms: Any, column_terms: Any, out: Any) -> None:
    for i in range(products.shape[0]):
        row, values, row_term = products[i], out[i], row_terms[i]
        for k in range(products.shape[1]):
            values[k] = exp2_32(min(max(row[k] - row_term - column_terms[k], SMALLEST_32), ZERO_32))
