# SPDX-License-Identifier: BSD-3-Clause
r"""Compiled sines and cosines of arrays of phases, powers of two, and Gaussian kernel values from inner products.

Phases are measured in **quarter turns**: :math:`u = 2 p / \pi`. Then :math:`q = \mathrm{rint}(u)` and
:math:`f = u - q` are exact for every finite u. Sine and cosine share this reduction. Two short polynomials approximate
them for :math:`|f| \le 1/2`, and q modulo 4 determines their order and signs.

For a power :math:`2^t`, adding a large constant to t rounds it to an integer q, whose low bits become the exponent of
the result. A polynomial approximates :math:`2^{t - q}` for :math:`|t - q| \le 1/2`. With rows x and landmarks l at unit
length scale, :math:`e^{-|x - l|^2 / 2} = 2^t` with :math:`t = (x \cdot l - |x|^2 / 2 - |l|^2 / 2) \log_2 e`.

The machine code is cached on disk. Constants of float32 arithmetic are float32, because a float64 constant would turn
all of it into float64.
"""

from typing import Any

import numba
import numpy as np

from bochner.rows import Array

__all__ = ["LOG2_E", "exp2_32", "exp2_64", "exponential_rows", "sincos_rows"]

LOG2_E = 1.0 / float(np.log(2.0))

# Minimax polynomials of 2^f on [-1/2, 1/2], lowest coefficient first.
COEFFICIENTS_64 = (
    *(1.0, 0.6931471805599453, 0.24022650695910158, 0.055504108664821625, 0.009618129107587256),
    *(0.001333355814640647, 0.00015403530463724353, 1.5252733841556773e-05, 1.3215432535912375e-06),
    *(1.0178057087733941e-07, 7.074194297288521e-09, 4.4558179083360645e-10),
)
COEFFICIENTS_32 = (
    *map(np.float32, (1.0, 0.6931472067028326, 0.24022650922288757, 0.05550327226670302)),
    *map(np.float32, (0.009618056678524637, 0.0013400428177615838, 0.0001546144469856913)),
)
ROUNDING_64, ROUNDING_32 = 1.5 * 2.0**52, np.float32(1.5 * 2.0**23)
# Smaller powers of 2 are not normal numbers.
SMALLEST_64, SMALLEST_32, ZERO_32 = -1021.0, np.float32(-125.0), np.float32(0.0)
# With t = f^2: sin(pi f / 2) = f (a + (b + t S(t) ...)), where a + b is pi / 2 in twice the precision, and
# cos(pi f / 2) = 1 + t C(t). S and C are minimax polynomials on [0, 1/4], lowest coefficient first.
_TABLES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "float64": (
        (
            *(6.123233995736766e-17, -0.6459640975062453, 0.07969262624607465, -0.004681754132695618),
            *(0.00016044115236531464, -3.598645959530153e-06, 5.633936132274569e-08),
        ),
        (
            *(-1.2337005501361697, 0.25366950790104714, -0.02086348076331817, 0.0009192602742368791),
            *(-2.520203696171001e-05, 4.710612286370465e-07, -6.321258921033099e-09),
        ),
    ),
    "float32": (
        (np.pi / 2 - float(np.float32(np.pi / 2)), -0.6459636327062469, 0.07968084085240228, -0.004602163104958913),
        (-1.2337005440548092, 0.25366924020713605, -0.020860167483770706, 0.0009036298848564614),
    ),
}

# Full fastmath would allow the compiler to undo the exact reductions; these three flags do not.
_compile = numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz", "arcp"}, error_model="numpy")


def sincos_rows(turns: Array, amplitudes: Array, out: Array) -> None:
    """Write amplitude * cos and amplitude * sin of each row of phases into the left and right half of a row of `out`.

    Parameters
    ----------
    turns : ndarray of shape (n, m)
        Phases in quarter turns.
    amplitudes : ndarray of shape (m,)
        One factor per column.
    out : ndarray of shape (n, 2 * m)
        Array to write into. All three arrays have the same dtype, float32 or float64, and contiguous rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps.elementary import sincos_rows
    >>> out = np.empty((1, 4))
    >>> sincos_rows(np.array([[0.0, 1.0]]), np.array([1.0, 5.0]), out)
    >>> out + 0.0
    array([[1., 0., 0., 5.]])
    """
    _sincos(turns, amplitudes, *_coefficients(turns.dtype), out)


def _coefficients(dtype: np.dtype[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    sine, cosine = _TABLES[dtype.name]
    return tuple(map(dtype.type, (np.pi / 2, *sine))), tuple(map(dtype.type, cosine))


@_compile
def _sincos(turns: Any, amplitudes: Any, sine: Any, cosine: Any, out: Any) -> None:
    half, one, two = turns.dtype.type(0.5), turns.dtype.type(1.0), turns.dtype.type(2.0)
    n_columns = turns.shape[1]
    for i in range(turns.shape[0]):
        # One-dimensional views of rows, because indexing the matrix prevents the vectorization of the loop.
        row, cosines, sines = turns[i], out[i, :n_columns], out[i, n_columns:]
        for k in range(n_columns):
            u = row[k]
            q = np.rint(u)
            f = u - q
            t = f * f
            s = sine[-1]
            for j in range(len(sine) - 2, 0, -1):
                s = s * t + sine[j]
            s = f * sine[0] + f * s
            c = cosine[-1]
            for j in range(len(cosine) - 2, -1, -1):
                c = c * t + cosine[j]
            c = one + t * c
            # An odd q swaps sine and cosine, and an odd floor(q / 2) changes signs.
            half_turns = np.floor(half * q)
            odd = q != two * half_turns
            negative = half_turns != two * np.floor(half * half_turns)
            a = amplitudes[k]
            x, y = (s, c) if odd else (c, s)
            cosines[k] = -a * x if negative != odd else a * x
            sines[k] = -a * y if negative else a * y


def exponential_rows(products: Array, row_terms: Array, column_terms: Array, out: Array) -> None:
    """Write 2 ** (products - row_terms - column_terms) into `out`, which may be `products` itself.

    Exponents above 0 are rounding errors of squared distances; their value is 1. All arrays have the same dtype,
    float32 or float64, and contiguous rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps.elementary import exponential_rows
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
