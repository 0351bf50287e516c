# SPDX-License-Identifier: BSD-3-Clause
"""How many features are enough: the smallest size whose error stays below a tolerance."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

__all__ = ["OutOfReachError", "Suggestion", "smallest_size"]

FIRST_SIZE = 16
LARGEST_STEP = 4.0  # beyond the largest size tried: further, a straight line is no guide
OTHER_ROWS = 0.03  # by which the error of other rows differs: seen on six data sets, of 2,000 rows each
ATTEMPTS = 5
CLOSE = 1.1  # a size that has passed this near to the crossing is the answer


class OutOfReachError(ValueError):
    """No size that is tried is enough."""


class Suggestion(NamedTuple):
    """How many features reach a tolerance.

    Attributes
    ----------
    n_frequencies : int
        Number of frequencies.
    n_components : int or None
        Number of columns of ``weighting="matrix"``; None for the other weightings.
    error : float
        The kernel error to expect.

    Examples
    --------
    >>> from bochner.sizes import Suggestion
    >>> Suggestion(300, None, 0.0187).n_frequencies
    300
    """

    n_frequencies: int
    n_components: int | None
    error: float


def smallest_size(
    error_at: Callable[[int, int, int], float],
    tolerance: float,
    largest: int,
    confidence: float = 0.95,
    n_divisions: int = 3,
    unit: str = "frequencies",
) -> tuple[int, float]:
    r"""The smallest size whose error stays below the tolerance with the given confidence.

    Sizes are tried along a line through the last two errors, log error against log size, until one is below the
    tolerance. Where the line crosses it, a few divisions of the rows with two draws of the features each show the mean
    :math:`m` of its logarithm, how far it varies with the draw, :math:`s`, and how well the mean is known, :math:`e`.
    The size is moved along the line to where :math:`m + z \sqrt{s^2 + e^2 + 0.03^2}` meets the tolerance, and tried
    again, until a size has passed that is close to the crossing; the last term is for other rows than these.

    Parameters
    ----------
    error_at : callable
        The error at a size, given the numbers of a division of the rows and of a draw of the features.
    tolerance : float
        The largest error that is accepted.
    largest : int
        The largest size to try.
    confidence : float, default=0.95
        Probability that the error of another draw is below the tolerance.
    n_divisions : int, default=3
        Divisions of the rows to try.
    unit : str, default="frequencies"
        What a size is a number of, for the sentence when the largest is not enough.

    Returns
    -------
    size : int
        The size.
    error : float
        The error to expect at it.

    Examples
    --------
    >>> from bochner.sizes import smallest_size
    >>> size, error = smallest_size(lambda size, division, draw: 1 / size, 0.01, 1000)
    >>> size
    106
    """
    spread = float(ndtri(confidence))

    def floored(size: int, division: int, draw: int) -> float:
        return max(error_at(size, division, draw), 1e-3 * tolerance)  # rounding errors have no slope

    size, slope = _crossing(floored, tolerance, largest, unit)
    passed: dict[int, float] = {}
    for _ in range(ATTEMPTS):
        mean, deviation = _trials(floored, size, n_divisions)
        excess = mean + spread * deviation - np.log(tolerance)
        moved = int(np.clip(np.ceil(size * np.exp(-excess / slope) - 1e-9), 1, 2 * largest))
        if excess <= 1e-9:
            passed[size] = float(np.exp(mean))
            if moved * CLOSE >= size - 1:
                break
        elif moved > largest:
            raise _out_of_reach(moved, tolerance, largest, unit)
        # A size that has passed is an upper end, whatever the line says.
        size = min([moved if excess <= 0.0 else max(moved, size + 1), *passed])
        if size in passed:
            break
    if not passed:
        return size, float(np.exp(mean - excess))
    return min(passed.items())


def _trials(error_at: Callable[[int, int, int], float], size: int, n_divisions: int) -> tuple[float, float]:
    """Mean of the log errors at a size, and the standard deviation of one of another draw from it."""
    logs = np.log([[error_at(size, 1 + i, j) for j in range(2)] for i in range(n_divisions)])
    between_draws = np.square(logs[:, 0] - logs[:, 1]).mean() / 2.0
    of_the_mean = logs.mean(axis=1).var(ddof=1) / n_divisions
    return float(logs.mean()), float(np.sqrt(between_draws + of_the_mean + OTHER_ROWS**2))


def _crossing(
    error_at: Callable[[int, int, int], float], tolerance: float, largest: int, unit: str
) -> tuple[int, float]:
    """About where the error crosses the tolerance, and the slope of log error against log size there."""
    tried: dict[int, float] = {}
    for size in _guesses(tried, tolerance):
        if size > largest:
            raise _out_of_reach(size, tolerance, largest, unit)
        tried[size] = error_at(size, 0, 0)
    above, below, slope = _bracket(tried, tolerance)
    if above is None:
        return below, slope
    crossing = above * np.exp(np.log(tolerance / tried[above]) / slope)
    return int(np.clip(np.ceil(crossing), above + 1, below)), slope


def _guesses(tried: dict[int, float], tolerance: float) -> Iterator[int]:
    """Sizes to try until the tolerance lies between two of them; `tried` grows meanwhile."""
    yield FIRST_SIZE
    yield FIRST_SIZE // 2 if tried[FIRST_SIZE] <= tolerance else 2 * FIRST_SIZE
    while min(tried) > 1 and max(tried.values()) <= tolerance:
        yield min(tried) // 2
    while tried[max(tried)] > tolerance:
        small, large = sorted(tried)[-2:]
        slope = _slope(tried, small, large)
        step = np.exp(np.log(tolerance / tried[large]) / slope)
        yield int(np.ceil(large * np.clip(1.1 * step, 1.25, LARGEST_STEP)))


def _bracket(tried: dict[int, float], tolerance: float) -> tuple[int | None, int, float]:
    """The largest size that fails, if any does, the smallest beyond it that does not, and the slope between them."""
    failing = [size for size in tried if tried[size] > tolerance]
    if not failing:
        small, large = sorted(tried)[:2]
        return None, small, _slope(tried, small, large)
    above = max(failing)
    below = min(size for size in tried if size > above)
    return above, below, _slope(tried, above, below)


def _slope(tried: dict[int, float], small: int, large: int) -> float:
    """Slope of log error against log size; chance may hide it, so that it is kept between -1/4 and -4."""
    slope = np.log(tried[large] / tried[small]) / np.log(large / small)
    return float(np.clip(slope, -4.0, -0.25))


def _out_of_reach(size: int, tolerance: float, largest: int, unit: str) -> OutOfReachError:
    return OutOfReachError(
        f"An error of {tolerance:g} takes about {size} {unit}, and more than {largest} are not tried on these rows; "
        f"give a larger `tolerance` or `length_scale`, a smoother `kernel`, or another `weighting`."
    )
