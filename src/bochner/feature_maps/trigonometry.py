# SPDX-License-Identifier: BSD-3-Clause
r"""Compiled sines and cosines of arrays of phases.

Phases are measured in **quarter turns**: :math:`u = 2 p / \pi`. Then :math:`q = \mathrm{rint}(u)` and
:math:`f = u - q` are exact for every finite u. Sine and cosine share this reduction. Two short polynomials approximate
them for :math:`|f| \le 1/2`, and q modulo 4 determines their order and signs. The machine code is cached on disk.
"""

from typing import Any

import numba
import numpy as np

from bochner.rows import Array

__all__ = ["sincos_rows"]

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
    >>> from bochner.feature_maps.trigonometry import sincos_rows
    >>> out = np.empty((1, 4))
    >>> sincos_rows(np.array([[0.0, 1.0]]), np.array([1.0, 5.0]), out)
    >>> out + 0.0
    array([[1., 0., 0., 5.]])
    """
    _sincos(turns, amplitudes, *_coefficients(turns.dtype), out)


def _coefficients(dtype: np.dtype[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    sine, cosine = _TABLES[dtype.name]
    return tuple(map(dtype.type, (np.pi / 2, *sine))), tuple(map(dtype.type, cosine))


# Full fastmath would allow the compiler to undo the exact reduction; these three flags do not.
@numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz", "arcp"}, error_model="numpy")
def _sincos(turns: Any, amplitudes: Any, sine: Any, cosine: Any, out: Any) -> None:
    # Constants have the dtype of the phases, because a float64 constant would turn float32 arithmetic into float64.
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
