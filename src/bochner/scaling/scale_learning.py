# SPDX-License-Identifier: BSD-3-Clause
r"""Learning of scales: the rows are multiplied by one number per column, or by a matrix, before the kernel.

The logarithm of a held-out error of kernel ridge regression is minimized over the logarithms of the scales, or over
the matrix, together with the logarithm of the penalty, by a few L-BFGS steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bochner.kernels import Kernel
from bochner.rows import Array, Floats
from bochner.scaling.held_out_errors import fold_error
from bochner.scaling.kernel_values import KernelShape, kernel_shape

__all__ = ["LearnedScales", "held_out_objective", "initial_scales", "learn_scales", "scaled_rows"]

Objective = Callable[[Floats], tuple[float, Floats]]
PENALTIES = (1e-4, 100.0)  # the range of the penalty; noisy targets need large ones
SMALLEST_ERROR = 1e-12  # relative to targets of unit variance; targets without noise would have a logarithm of 0
FEW_ROWS = 1_500  # fewer rows have four folds, because one half of them is too few to learn from


@dataclass(frozen=True)
class LearnedScales:
    """Scales of the columns and a penalty.

    Attributes
    ----------
    scales : ndarray of shape (n_features,) or (n_features, n_features)
        Factors of the columns, the inverse length scales; or the matrix that rows are multiplied by.
    penalty : float
        The penalty of kernel ridge regression.
    error : float
        The held-out error with them: the weighted mean of squared residuals, summed over the outputs.
    """

    scales: Floats
    penalty: float
    error: float


def scaled_rows(X: Array, scales: Array) -> Array:
    """Return rows times scales: a number, one per column, or a matrix."""
    return np.asarray(X @ scales if np.ndim(scales) == 2 else X * scales, dtype=X.dtype)


def held_out_objective(
    shape: KernelShape, X: Array, Y: Floats, w: Floats, n_folds: int = 2, is_metric: bool = False
) -> Objective:
    """Return the logarithm of a held-out error and its gradient, as a function of the parameters.

    The parameters are the logarithms of the scales, or the entries of the matrix, and then the logarithm of the
    penalty.
    """
    n_columns = X.shape[1]

    def objective(parameters: Floats) -> tuple[float, Floats]:
        penalty = float(np.exp(parameters[-1]))
        scales = parameters[:-1].reshape(n_columns, -1) if is_metric else np.exp(parameters[:-1])
        rows = scaled_rows(X, scales.astype(X.dtype))
        values, slopes = shape.values_and_slopes(shape.sums(rows))
        result = fold_error(values, Y, w, penalty, n_folds)
        np.multiply(slopes, result.kernel_gradient, out=slopes)
        if is_metric:
            gradient = 2.0 * (shape.metric_gradient(X, slopes) @ scales).ravel()
        else:
            gradient = shape.scale_gradient(rows, slopes)
        error = result.error + SMALLEST_ERROR
        return float(np.log(error)), np.append(gradient, result.penalty_gradient) / error

    return objective


def initial_scales(shape: KernelShape, X: Array, Y: Floats, w: Floats, n_folds: int) -> LearnedScales:
    """Return the best of three scales that all columns share, each with its best penalty among powers of ten."""
    sums = shape.sums(X)
    positive = sums[::7][sums[::7] > 0.0]
    median = float(np.median(positive)) ** (1.0 / shape.p) if positive.size else 1.0
    is_smooth = shape.is_matern or (shape.exponent == 1.0 and shape.p == 2.0)  # kernels without a kink at zero
    candidates = []
    for multiple in (0.5, 1.0, 3.0) if is_smooth else (1.0, 3.0, 10.0):
        scale = 1.0 / (multiple * median)
        K = shape.values(sums * X.dtype.type(scale**shape.p))
        candidates.append(LearnedScales(np.full(X.shape[1], scale), *_best_penalty(K, Y, w, n_folds)))
    return min(candidates, key=lambda candidate: candidate.error)


def _best_penalty(K: Array, Y: Floats, w: Floats, n_folds: int) -> tuple[float, float]:
    """Return the best of the powers of ten from 1e-4 to 100, searched from 1e-2 downhill, and its held-out error."""

    @cache
    def error(power: int) -> float:
        return fold_error(K, Y, w, 10.0**power, n_folds).error

    power = -2
    step = -1 if error(-3) < error(-2) else 1
    while -4 <= power + step <= 2 and error(power + step) < error(power):
        power += step
    return 10.0**power, error(power)


def learn_scales(
    kernel: Kernel | KernelShape,
    X: Array,
    Y: Floats,
    w: Floats | None = None,
    *,
    start: LearnedScales | None = None,
    is_metric: bool = False,
    max_steps: int = 20,
) -> LearnedScales:
    """Learn one scale per column, or a matrix, from a sample of rows in random order.

    Parameters
    ----------
    kernel : Kernel or KernelShape
        A kernel of `kernel_shape`, or its shape; with `is_metric` one of the Euclidean distance.
    X : ndarray of shape (n, n_features)
        Standardized rows, about 1,000 or 2,000; float32 is twice as fast.
    Y : ndarray of shape (n, n_outputs)
        Centered targets, or indicators of classes.
    w : ndarray of shape (n,), default=None
        Positive sample weights.
    start : LearnedScales, default=None
        Where to start; None means the best scale that all columns share.
    is_metric : bool, default=False
        Whether to learn a matrix.
    max_steps : int, default=20
        Largest number of L-BFGS steps; fewer, at least 6, are made when they no longer lower the error.

    Returns
    -------
    LearnedScales
        The scales, the penalty, the error on held-out folds.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Matern
    >>> from bochner.scaling.scale_learning import learn_scales
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> learned = learn_scales(Matern(), X, np.sin(3 * X[:, :1]))  # only the first column matters
    >>> bool(learned.scales[0] > 10 * learned.scales[1:].max())
    True
    """
    shape, n_columns = kernel if isinstance(kernel, KernelShape) else kernel_shape(kernel), X.shape[1]
    w = np.ones(len(X)) if w is None else w
    n_folds = 4 if len(X) < FEW_ROWS else 2
    if start is None:
        start = initial_scales(shape, X, Y, w, n_folds)
    penalty = float(np.clip(start.penalty, *PENALTIES))
    objective = held_out_objective(shape, X, Y, w, n_folds, is_metric)
    unit = 1.0
    if is_metric:  # entries relative to the largest one
        scales = np.diag(start.scales) if start.scales.ndim == 1 else start.scales
        unit = float(np.abs(scales).max())
        parameters, bounds = scales.ravel() / unit, [(None, None)] * scales.size
    else:
        parameters = np.log(start.scales)
        bounds = [(value - 6.0, value + 4.0) for value in parameters]
    units = np.append(np.full(parameters.size, unit), 1.0)
    bounds.append(tuple(np.log(PENALTIES)))
    history: list[float] = []

    def relative(point: Floats) -> tuple[float, Floats]:
        value, gradient = objective(point * units)
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return 1e3, np.zeros_like(point)  # the line search steps back
        if not history:
            history.append(value)
        return value, gradient * units

    def stop_when_slow(intermediate_result: Any) -> None:
        history.append(intermediate_result.fun)
        if len(history) > 6 and history[-4] - history[-1] < 0.02:
            raise StopIteration

    result = minimize(
        relative,
        np.append(parameters, np.log(penalty)),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=stop_when_slow,
        options={"maxiter": max_steps, "maxfun": 2 * max_steps},
    )
    point = result.x * units
    scales = point[:-1].reshape(n_columns, -1) if is_metric else np.exp(point[:-1])
    return LearnedScales(scales, float(np.exp(point[-1])), float(np.exp(result.fun)))
