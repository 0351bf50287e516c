# SPDX-License-Identifier: BSD-3-Clause
"""Learned scalings of features: one length scale per column, or a linear map of all columns, from targets.

A sample of rows is divided: the scales are learned on one part, by the held-out error of exact kernel ridge regression
(`scale_learning`), and validated on the other one, against the start and against scales between both.
"""

import reprlib
import warnings
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bochner.kernels import Gaussian, Kernel
from bochner.parameters import Parametrized
from bochner.progress import progress_bar
from bochner.rows import (
    Array,
    Floats,
    Indices,
    LengthScales,
    Mask,
    Metric,
    Scaling,
    TrainingRows,
    is_sparse,
    shuffled_sample,
)
from bochner.scaling.cholesky import factorize
from bochner.scaling.kernel_values import kernel_shape
from bochner.scaling.median import median_distance
from bochner.scaling.scale_learning import (
    FEW_ROWS,
    PENALTIES,
    LearnedScales,
    initial_scales,
    learn_scales,
    scaled_rows,
)
from bochner.validation import Interval

__all__ = ["LearnedLengthScales", "LearnedMetric", "LearningResult", "regression_targets"]

FEWEST_ROWS = 20  # with fewer rows nothing is learned
MAX_CLASSES = 20  # integers with more distinct values are treated as numbers
MAX_TARGETS = 32  # more targets, such as those of many classes, are projected on random directions
MAX_CELLS = 1 << 27  # of a dense sample; wide rows are fewer
MAX_METRIC_COLUMNS = 256  # with more columns, a matrix has too many entries to learn
SHARES = (0.0, 0.5, 0.75, 1.0)  # of the learned change, in logarithms; the best one on validation rows is taken
LEAST_GAIN = 0.01  # smaller relative gains on the validation rows are attributed to chance
CONSTANT_FACTOR = 1e3  # length scale of a constant column, as a multiple of the largest other one


class LearningResult(NamedTuple):
    """A learned scaling, and the relative decrease of the squared error on validation rows; 0 for the start."""

    scaling: Scaling
    gain: float


class LearnedLengthScales(Parametrized):
    r"""Learn one length scale per column from the targets.

    The mean squared error of kernel ridge regression on held-out folds of a sample is minimized over the logarithms of
    the length scales and of the penalty, with its analytic gradient, by L-BFGS. The start is the best of a few length
    scales that all columns share, or that are proportional to the spreads of the columns. Other rows then choose how
    much of the change is kept: :math:`\log \ell = (1 - t) \log \ell_0 + t \log \hat\ell` with t between 0 and 1.
    Kernels without compiled values learn with the Gaussian kernel.

    Parameters
    ----------
    n_rows : int, default=2000
        Maximum number of rows to learn from; as many further rows validate.
    n_iterations : int, default=20
        Maximum number of iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FeatureRegressor, FourierFeatures
    >>> from bochner.scaling import LearnedLengthScales
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> y = np.sin(2 * X[:, 0])  # only the first column is informative
    >>> features = FourierFeatures(length_scale=LearnedLengthScales(n_iterations=10), n_frequencies=32)
    >>> model = FeatureRegressor(features, random_state=0).fit(X, y)
    >>> int(model.features_.relevance_.argmax())
    0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_rows": [Interval(Integral, FEWEST_ROWS, None, closed="left")],
        "n_iterations": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, n_rows: int = 2000, n_iterations: int = 20) -> None:
        self.n_rows = n_rows
        self.n_iterations = n_iterations

    def learn(self, rows: TrainingRows, kernel: Kernel, rng: np.random.Generator) -> LearningResult:
        """Learn the scaling.

        Parameters
        ----------
        rows : TrainingRows
            Rows with weights, and with targets (n_samples, n_targets) to regress on.
        kernel : Kernel
            The kernel of the features.
        rng : numpy.random.Generator
            Random numbers that select rows.

        Returns
        -------
        LearningResult
            ``(scaling, gain)``.
        """
        n_features = rows.X.shape[1]
        X, Y, w = _sample(rows, int(np.clip(MAX_CELLS // n_features, FEWEST_ROWS, 2 * self.n_rows)), rng)
        median = median_distance(X, rng, w)
        columns = _Columns.from_rows(X, w)
        if len(X) < FEWEST_ROWS or not Y.shape[1] or not columns.varying.any():
            return LearningResult(LengthScales(np.full(n_features, median)), 0.0)
        Z = columns.standardize(X)
        with progress_bar("learning length scales"):
            division = _Division(_compiled(kernel), Z, Y, w, min(self.n_rows, int(0.7 * len(Z))))
            proportions = columns.proportions(median)
            start = division.start(proportions)
            found = self._refined(division, division.learn(start, self.n_iterations), columns)
            # Short length scales fit the noise of few rows: they must be better than the median distance.
            plain = LearnedScales(proportions[0], 1.0, np.inf)
            found = division.better(plain if found.scales.ndim == 1 else _diagonal(plain), found)
        error = division.error(start)
        return LearningResult(columns.scaling(found.scales), max(0.0, 1.0 - division.error(found) / error))

    def _refined(self, division: "_Division", learned: LearnedScales, columns: "_Columns") -> LearnedScales:
        """Return what is learned from the length scales on."""
        return learned


class LearnedMetric(LearnedLengthScales):
    r"""Learn a linear map of all columns from the targets.

    The map A of the distance :math:`|A (x - y)|` starts from learned length scales and is learned as these are. It is
    kept if it lowers the error on validation rows; otherwise it is the diagonal map of the length scales. More than 256
    columns have length scales only.

    Parameters
    ----------
    n_rows : int, default=2000
        Maximum number of rows to learn from; as many further rows validate.
    n_iterations : int, default=20
        Maximum number of iterations, of the length scales and of the map.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FeatureRegressor, FourierFeatures
    >>> X = np.random.default_rng(0).normal(size=(800, 6))
    >>> y = np.sin(X.sum(axis=1))
    >>> features = FourierFeatures(length_scale="learn-matrix", n_frequencies=64)
    >>> model = FeatureRegressor(features, random_state=0).fit(X, y)
    >>> direction = np.linalg.svd(model.features_.metric_)[2][0]  # in which the distance grows fastest
    >>> np.abs(direction).round(1)
    array([0.4, 0.4, 0.4, 0.4, 0.4, 0.4])
    """

    def _refined(self, division: "_Division", learned: LearnedScales, columns: "_Columns") -> LearnedScales:
        n_columns = len(learned.scales)
        if n_columns > MAX_METRIC_COLUMNS:
            warnings.warn(
                f"A metric of {n_columns} columns has too many entries to learn; one length scale per column is "
                f"learned instead, as by `length_scale`='learn'.",
                stacklevel=2,
            )
            return learned
        diagonal = _diagonal(learned)
        return division.better(diagonal, division.learn_metric(diagonal, self.n_iterations))


@dataclass(frozen=True)
class _Columns:
    """Centers, deviations and spreads of the columns that vary."""

    varying: Mask
    centers: Floats
    deviations: Floats
    spreads: Floats

    @classmethod
    def from_rows(cls, X: Floats, w: Floats) -> "_Columns":
        """Measure columns; the spread is the deviation among the rows that differ from the most frequent value.

        For the indicator of a rare category it is about 1, unlike the standard deviation.
        """
        varying = X.max(axis=0) > X.min(axis=0)
        magnitudes = np.abs(X[:, varying]).max(axis=0)
        relative = X[:, varying] / magnitudes  # squares neither overflow nor underflow
        shares = w / w.sum()
        means = shares @ relative
        deviations = np.sqrt(shares @ np.square(relative - means))
        deviations = np.maximum(deviations, 1e-12)
        # A value that more than half of the rows share is the median.
        differing = shares @ (relative != np.median(relative, axis=0))
        spreads = deviations / np.sqrt(np.maximum(differing, shares.min()))
        return cls(varying, means * magnitudes, deviations * magnitudes, spreads * magnitudes)

    def standardize(self, X: Floats) -> Array:
        """Return the varying columns, standardized, in float32."""
        return np.asarray((X[:, self.varying] - self.centers) / self.deviations, dtype=np.float32)

    def proportions(self, median: float) -> list[Floats]:
        """Return scales of standardized columns to start from: equal length scales, or those of equal spreads."""
        equal, spread = self.deviations / median, self.deviations / self.spreads
        spread /= np.sqrt(2.0 * np.square(spread).sum())  # the root mean squared distance is 1
        return [equal, spread] if equal.max() < 1e4 else [spread]

    def scaling(self, scales: Floats) -> Scaling:
        """Return the map of all columns that scales of the standardized ones stand for."""
        if scales.ndim == 2:
            directions = np.zeros((len(scales), len(self.varying)))
            directions[:, self.varying] = scales.T / self.deviations
            return Metric(directions)
        lengths = self.deviations / scales
        # Other values of a constant column in new rows hardly change the features.
        longest = min(float(lengths.max()), np.finfo(np.float64).max / CONSTANT_FACTOR)
        length_scales = np.full(len(self.varying), CONSTANT_FACTOR * longest)
        length_scales[self.varying] = lengths
        return LengthScales(length_scales)


@dataclass(frozen=True)
class _Division:
    """Standardized rows, of which the first `n_learn` are learned from and the others validate."""

    kernel: Kernel
    Z: Array
    Y: Floats
    w: Floats
    n_learn: int

    @property
    def _learning(self) -> tuple[Array, Floats, Floats]:
        return self.Z[: self.n_learn], self.Y[: self.n_learn], self.w[: self.n_learn]

    def start(self, proportions: list[Floats]) -> LearnedScales:
        """Return the best multiple of given proportions of scales, with a penalty."""
        Z, Y, w = self._learning
        starts = []
        for factors in proportions:
            scaled = scaled_rows(Z, factors.astype(np.float32))
            found = initial_scales(kernel_shape(self.kernel), scaled, Y, w, 4 if len(Z) < FEW_ROWS else 2)
            starts.append(replace(found, scales=found.scales * factors))
        return min(starts, key=lambda found: found.error)

    def learn(self, start: LearnedScales, max_steps: int) -> LearnedScales:
        """Learn one scale per column; return the best mixture with the start on the validation rows."""
        learned = learn_scales(self.kernel, *self._learning, start=start, max_steps=max_steps)
        change, best = np.log(learned.scales / start.scales), start
        for share in SHARES:
            best = self.better(best, replace(learned, scales=start.scales * np.exp(share * change)))
        return best

    def learn_metric(self, start: LearnedScales, max_steps: int) -> LearnedScales:
        """Learn a matrix of scales."""
        kernel = self.kernel if kernel_shape(self.kernel).p == 2.0 else Gaussian()
        return learn_scales(kernel, *self._learning, start=start, is_metric=True, max_steps=max_steps)

    def better(self, first: LearnedScales, second: LearnedScales) -> LearnedScales:
        """Return the second scales if they lower the error on the validation rows noticeably."""
        least = max(LEAST_GAIN, 1.0 / (len(self.Z) - self.n_learn))
        return second if self.error(second) < (1.0 - least) * self.error(first) else first

    def error(self, learned: LearnedScales) -> float:
        """Return the mean squared error on the validation rows, with the best of a few penalties."""
        shape, n = kernel_shape(self.kernel), self.n_learn
        rows = scaled_rows(self.Z, learned.scales.astype(np.float32))
        K, cross = shape.matrix(rows[:n]), shape.matrix(rows[n:], rows[:n])
        penalties = np.clip(learned.penalty * np.array([0.25, 1.0, 4.0]), *PENALTIES)
        coefs = [factorize(K, penalty / self.w[:n]).solve(self.Y[:n]) for penalty in penalties]
        squares = [np.square(cross @ coef - self.Y[n:]).sum(axis=1) for coef in coefs]
        return min(float(np.average(values, weights=self.w[n:])) for values in squares)


@dataclass(frozen=True)
class _LabeledRows:
    """Rows with the targets as further columns, so that copies are equal in both."""

    rows: TrainingRows

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.X.shape[0], self.rows.X.shape[1] + np.asarray(self.rows.targets).shape[1]

    @property
    def weights(self) -> Floats | None:
        return self.rows.weights

    def __getitem__(self, numbers: slice | Indices) -> Floats:
        block = self.rows.X[numbers]
        block = block.toarray() if is_sparse(block) else block
        return np.hstack([block, np.asarray(self.rows.targets)[numbers]], dtype=np.float64)


def _sample(rows: TrainingRows, size: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return distinct rows in random order, standardized targets that vary, and weights."""
    joined, w = shuffled_sample(_LabeledRows(rows), size, rng)
    X, Y = np.hsplit(joined, [rows.X.shape[1]])
    # Relative to the largest magnitude, squares neither overflow nor underflow.
    Y = Y / np.maximum(np.abs(Y).max(axis=0), np.finfo(float).tiny)
    Y = Y - np.average(Y, axis=0, weights=w)
    deviations = np.sqrt(np.average(np.square(Y), axis=0, weights=w))
    varying = deviations > 1e-10
    Y = Y[:, varying] / deviations[varying]
    if Y.shape[1] > MAX_TARGETS:  # random directions preserve squared errors, up to a constant factor
        directions = rng.normal(size=(Y.shape[1], MAX_TARGETS))
        Y = Y @ (directions / np.linalg.norm(directions, axis=0))
    return X, Y, w / w.mean()


def _diagonal(learned: LearnedScales) -> LearnedScales:
    """Return scales as a diagonal matrix."""
    return replace(learned, scales=np.diag(learned.scales))


def _compiled(kernel: Kernel) -> Kernel:
    """Return the kernel, or the Gaussian one in place of a kernel without compiled values."""
    try:
        kernel_shape(kernel)
    except ValueError:
        return Gaussian()
    return kernel


def regression_targets(y: Any) -> Floats:
    """Return columns (n_samples, n_columns) to regress on.

    Numbers are used as they are. Text, booleans and up to 20 distinct integers are classes: two classes become one
    column of -1 and 1, more classes become one such column per class.
    """
    y = y.toarray() if is_sparse(y) else np.asarray(y)
    if y.dtype.kind == "O":
        y = np.array(y.tolist())  # finds the dtype of numbers that are stored as objects
    if y.dtype.kind not in "biufUS" or (y.ndim > 1 and y.dtype.kind in "US"):
        raise ValueError(
            f"y must contain numbers or, in one column, class labels to learn from. Got "
            f"{reprlib.repr(y.tolist())} instead."
        )
    if y.ndim == 1 and (y.dtype.kind not in "iuf" or (y == np.rint(y)).all()):
        # Whether integers are classes does not depend on the number of rows: a weight of two equals two rows.
        classes = np.unique(y)
        if y.dtype.kind not in "iuf" or len(classes) <= MAX_CLASSES:
            return np.where(y[:, None] == classes[1 if len(classes) == 2 else 0 :], 1.0, -1.0)
    return np.asarray(y.reshape(len(y), -1), dtype=np.float64)
