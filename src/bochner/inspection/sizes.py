# SPDX-License-Identifier: BSD-3-Clause
"""Smallest number of features whose kernel error stays below a tolerance."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from bochner.inspection.kernel_error import sampled_error
from bochner.rows import Floats, MemoryRows

__all__ = ["LandmarkSuggestion", "OutOfReachError", "SizeTrials", "Suggestion", "smallest_size"]

TRIAL_ROWS = 2000  # rows to fit on, and others to validate on
FIRST_SIZE = 16
LARGEST_STEP = 4.0  # the extrapolation of log error against log size is unreliable beyond this factor
NEW_ROW_DEVIATION = 0.03  # relative difference of the error on new rows, measured on six data sets with 2,000 rows each
MAX_ATTEMPTS = 5
CLOSE_ENOUGH = 1.1  # a size with a small enough error is accepted within this factor of the estimated smallest size


class OutOfReachError(ValueError):
    """No size up to the largest one reaches the tolerance."""


class Suggestion(NamedTuple):
    """Number of features that reaches a tolerance.

    Parameters
    ----------
    n_frequencies : int
        Number of frequencies.
    n_components : int or None
        Number of columns for ``weighting="matrix"``; None for the other weightings.
    error : float
        Expected kernel error.

    Examples
    --------
    >>> from bochner.inspection.sizes import Suggestion
    >>> Suggestion(300, None, 0.0187).n_frequencies
    300
    """

    n_frequencies: int
    n_components: int | None
    error: float


class LandmarkSuggestion(NamedTuple):
    """Number of landmarks that reaches a tolerance.

    Parameters
    ----------
    n_landmarks : int
        Number of landmarks.
    error : float
        Expected kernel error.

    Examples
    --------
    >>> from bochner.inspection.sizes import LandmarkSuggestion
    >>> LandmarkSuggestion(90, 0.0187).n_landmarks
    90
    """

    n_landmarks: int
    error: float


class SizeTrials:
    """Trials of sizes on samples of the rows: features are fitted on some rows and validated on others.

    Parameters
    ----------
    X : rows of shape (n_samples, n_features)
        The rows.
    weights : ndarray of shape (n_samples,) or None
        Sample weights; None means 1 for every row.
    seed : int
        Seed of the splits of the rows and of the features.

    Attributes
    ----------
    n_fit, n_validation : int
        Numbers of rows to fit on and to validate on; fewer than eight rows are all used for both.
    """

    def __init__(self, X: Any, weights: Floats | None, seed: int) -> None:
        self.X, self.weights, self.seed = X, weights, seed
        n_sampled = min(int(X.shape[0]), 2 * TRIAL_ROWS)
        self.n_fit = self.n_validation = n_sampled
        if n_sampled >= 8:
            self.n_validation = max(n_sampled // 4, n_sampled - TRIAL_ROWS)
            self.n_fit = n_sampled - self.n_validation

    def smallest(
        self,
        make_features: Callable[[int], Any],
        tolerance: float,
        largest: int,
        confidence: float,
        unit: str = "frequencies",
    ) -> tuple[int, float]:
        """Return the smallest size whose kernel error stays below a tolerance, and its expected error.

        Parameters
        ----------
        make_features : callable
            Returns unfitted features of a size.
        tolerance, largest, confidence, unit : float, int, float, str
            As in `smallest_size`.

        Returns
        -------
        size : int
            The smallest size.
        error : float
            Its expected kernel error.
        """
        n_splits = 3 if 2 * self.n_validation >= TRIAL_ROWS else 8
        return smallest_size(partial(self._error, make_features), tolerance, largest, confidence, n_splits, unit)

    def _error(self, make_features: Callable[[int], Any], size: int, split: int, draw: int) -> float:
        """Fit features with the seed of a draw on a split of the rows, and return the error on the other rows."""
        features = make_features(size)
        splitting, drawing = np.random.default_rng([self.seed, split]), np.random.default_rng([self.seed, split, draw])
        order = splitting.permutation(self.X.shape[0])
        fit, validation = order[-self.n_fit :], order[: self.n_validation]
        features.set_params(random_state=int(drawing.integers(2**31)))
        rows = MemoryRows(self.X[fit], None, None if self.weights is None else self.weights[fit])
        features.fit_rows(rows, warn=False)
        held_out = self.X[validation]
        exact, approximate = features.exact_kernel(held_out), features.approximate_kernel(held_out)
        counts = np.ones(len(validation)) if self.weights is None else self.weights[validation]
        # For more rows the diagonal counts less, and the error is smaller.
        return sampled_error(exact, approximate, counts, min(self.X.shape[0], TRIAL_ROWS))


def smallest_size(
    error_at: Callable[[int, int, int], float],
    tolerance: float,
    largest: int,
    confidence: float = 0.95,
    n_divisions: int = 3,
    unit: str = "frequencies",
) -> tuple[int, float]:
    r"""Find the smallest size whose error stays below the tolerance with the given confidence.

    Sizes are tried along a line through the last two errors, log error against log size, until one error is below the
    tolerance. At the crossing, a few splits of the rows with two draws of the features each give the mean log error
    :math:`m`, its standard deviation between draws :math:`s` and the standard error of the mean :math:`e`. The size
    moves along the line until :math:`m + z \sqrt{s^2 + e^2 + 0.03^2}` equals the logarithm of the tolerance, where the
    last term is the variation on new rows. This is repeated until a size passes that is close to the crossing.

    Parameters
    ----------
    error_at : callable
        Function of a size, the number of a split of the rows and the number of a draw of the features. It returns the
        error.
    tolerance : float
        Largest acceptable error.
    largest : int
        Largest size to try.
    confidence : float, default=0.95
        Probability that the error of another draw is below the tolerance.
    n_divisions : int, default=3
        Number of splits of the rows.
    unit : str, default="frequencies"
        What is counted by a size, for the error message.

    Returns
    -------
    size : int
        The size.
    error : float
        Expected error at that size.

    Raises
    ------
    OutOfReachError
        If the largest size does not reach the tolerance.

    Examples
    --------
    >>> from bochner.inspection.sizes import smallest_size
    >>> size, error = smallest_size(lambda size, division, draw: 1 / size, 0.01, 1000)
    >>> size
    106
    """
    quantile = float(ndtri(confidence))

    def floored_error(size: int, division: int, draw: int) -> float:
        return max(error_at(size, division, draw), 1e-3 * tolerance)  # rounding errors would give a slope of zero

    size, slope = _crossing(floored_error, tolerance, largest, unit)
    passed: dict[int, float] = {}
    for _ in range(MAX_ATTEMPTS):
        logs = np.log([[floored_error(size, 1 + i, j) for j in range(2)] for i in range(n_divisions)])
        mean, draw_variance = float(logs.mean()), np.square(logs[:, 0] - logs[:, 1]).mean() / 2.0
        mean_variance = logs.mean(axis=1).var(ddof=1) / n_divisions
        deviation = float(np.sqrt(draw_variance + mean_variance + NEW_ROW_DEVIATION**2))  # of the log error of a draw
        excess = mean + quantile * deviation - np.log(tolerance)
        next_size = int(np.clip(np.ceil(size * np.exp(-excess / slope) - 1e-9), 1, 2 * largest))
        if excess <= 1e-9:
            passed[size] = float(np.exp(mean))
            if next_size * CLOSE_ENOUGH >= size - 1:
                break
        elif next_size > largest:
            raise _out_of_reach(next_size, tolerance, largest, unit)
        # A size that has passed is an upper bound.
        size = min([next_size if excess <= 0.0 else max(next_size, size + 1), *passed])
        if size in passed:
            break
    if not passed:
        return size, float(np.exp(mean - excess))
    return min(passed.items())


def _crossing(
    error_at: Callable[[int, int, int], float], tolerance: float, largest: int, unit: str
) -> tuple[int, float]:
    """Return about where the error crosses the tolerance, and the slope of log error against log size there."""
    tried: dict[int, float] = {}

    def attempt(size: int) -> None:
        if size > largest:
            raise _out_of_reach(size, tolerance, largest, unit)
        tried[size] = error_at(size, 0, 0)

    attempt(FIRST_SIZE)
    attempt(FIRST_SIZE // 2 if tried[FIRST_SIZE] <= tolerance else 2 * FIRST_SIZE)
    while min(tried) > 1 and max(tried.values()) <= tolerance:
        attempt(min(tried) // 2)
    while tried[max(tried)] > tolerance:
        small, large = sorted(tried)[-2:]
        step = np.exp(np.log(tolerance / tried[large]) / _slope(tried, small, large))
        attempt(int(np.ceil(large * np.clip(1.1 * step, 1.25, LARGEST_STEP))))
    failing = [size for size in tried if tried[size] > tolerance]
    if not failing:
        small, large = sorted(tried)[:2]
        return small, _slope(tried, small, large)
    above = max(failing)
    below = min(size for size in tried if size > above)
    slope = _slope(tried, above, below)
    crossing = above * np.exp(np.log(tolerance / tried[above]) / slope)
    return int(np.clip(np.ceil(crossing), above + 1, below)), slope


def _slope(tried: dict[int, float], small: int, large: int) -> float:
    """Return the slope of log error against log size, clipped to [-4, -1/4] because single errors are noisy."""
    slope = np.log(tried[large] / tried[small]) / np.log(large / small)
    return float(np.clip(slope, -4.0, -0.25))


def _out_of_reach(size: int, tolerance: float, largest: int, unit: str) -> OutOfReachError:
    other = "more rows" if "landmarks" in unit else "another `weighting`"
    return OutOfReachError(
        f"An error of {tolerance:g} needs about {size} {unit}, but at most {largest} are tried on these rows; use a "
        f"larger `tolerance` or `length_scale`, a smoother `kernel`, or {other}."
    )
