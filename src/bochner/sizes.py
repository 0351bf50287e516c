# SPDX-License-Identifier: BSD-3-Clause
"""How many features are enough: the smallest size whose error stays below a tolerance."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

__all__ = ["Suggestion", "smallest_size"]

FIRST_SIZE = 16
LARGEST_STEP = 4.0  # beyond the largest size tried: further, a straight line is no guide
TRIALS = 4  # at a size that is about to be suggested
CLOSE = 1.15  # a size this near to the one tried needs no more trials


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
    error_at: Callable[[int, int], float], tolerance: float, largest: int, confidence: float = 0.95
) -> tuple[int, float]:
    r"""The smallest size whose error stays below the tolerance with the given confidence.

    Sizes are tried along a line through the last two errors, log error against log size, until one is below the
    tolerance. Where the line crosses it, several trials show the error's mean :math:`m` and spread :math:`s`; the
    size is moved along the line to where :math:`m + z s` meets the tolerance.

    Parameters
    ----------
    error_at : callable
        The error at a size, in the trial of a number: other trials are other draws of what is random.
    tolerance : float
        The largest error that is accepted.
    largest : int
        The largest size to try.
    confidence : float, default=0.95
        Probability that the error of another draw is below the tolerance.

    Returns
    -------
    size : int
        The size.
    error : float
        The error to expect at it.

    Examples
    --------
    >>> from bochner.sizes import smallest_size
    >>> size, error = smallest_size(lambda size, trial: size**-0.5, 0.1, 1000)
    >>> size
    100
    """
    spread = float(ndtri(confidence))
    size, slope = _crossing(error_at, tolerance, largest)
    for attempt in range(3):
        logs = np.log([max(error_at(size, 1 + TRIALS * attempt + trial), 1e-300) for trial in range(TRIALS)])
        excess = logs.mean() + spread * logs.std(ddof=1) - np.log(tolerance)
        moved = _within(size * np.exp(-excess / slope), largest)
        error = float(np.exp(logs.mean() + slope * np.log(moved / size)))
        if max(moved, size) <= CLOSE * min(moved, size) + 1:
            break
        size = moved
    if moved > largest:
        raise _out_of_reach(moved, tolerance, largest)
    return moved, error


def _crossing(error_at: Callable[[int, int], float], tolerance: float, largest: int) -> tuple[int, float]:
    """About where the error crosses the tolerance, and the slope of log error against log size there."""
    tried: dict[int, float] = {}
    for size in _guesses(tried, tolerance):
        if size > largest:
            raise _out_of_reach(size, tolerance, largest)
        tried[size] = max(error_at(size, 0), 1e-300)
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


def _within(size: float, largest: int) -> int:
    return int(np.clip(np.ceil(size - 1e-9), 1, 2 * largest))


def _out_of_reach(size: int, tolerance: float, largest: int) -> ValueError:
    return ValueError(
        f"An error of {tolerance:g} takes a size of about {size}, and more than {largest} are not tried; give a larger "
        f"`tolerance` or `length_scale`, or a smoother `kernel`."
    )
