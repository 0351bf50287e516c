# SPDX-License-Identifier: BSD-3-Clause
r"""Length scales learned from targets: one per column, by minimizing the error of ridge regression.

With frequencies W at unit length scale, row x has the phases :math:`\phi = W (x / \ell)`. An objective (see
`bochner.scaling.objectives`) is a function of the features' second moments. The chain rule gives its derivatives with
respect to features, phases and length scales: :math:`\partial / \partial \log \ell_j = -\sum_{im} (x_{ij} / \ell_j)
W_{mj} \, \partial / \partial \phi_{im}`. One evaluation of the value and the gradient takes two passes over a sample of
rows. L-BFGS minimizes the objective.
"""

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, minimize
from sklearn.base import clone

from bochner.feature_maps import FourierMap, add_moments
from bochner.feature_maps.feature_map import GRAM_ROWS
from bochner.feature_models.ridge import cross_validated_errors
from bochner.parameters import Parametrized
from bochner.progress import progress_bar
from bochner.rows import (
    Floats,
    Indices,
    LengthScales,
    Mask,
    Metric,
    Scaling,
    column_ranges,
    in_threads,
    is_sparse,
    max_abs,
    row_spans,
    shuffled_sample,
    sum_over_spans,
)
from bochner.scaling.median import median_distance
from bochner.scaling.objectives import OBJECTIVES, Objective, ObjectiveGradient, held_out_error
from bochner.validation import Interval, StrOptions

__all__ = [
    "Evaluation",
    "LabeledRows",
    "LearnedLengthScales",
    "LearningProblem",
    "LearningResult",
    "regression_targets",
]

FEWEST_ROWS = 20  # with fewer rows nothing is learned
HELD_OUT_RATIO = 5  # one in five rows is held out for validation
TRIAL_RATIO = 4  # small samples get one trial for each time that four such samples fit into `n_rows`
LEAST_GAIN = 0.01  # smaller relative gains on the held-out rows are attributed to chance
MAX_CLASSES = 20  # integers with more distinct values are treated as numbers
MAX_TARGETS = 32  # more targets, such as those of many classes, are projected on random directions
PATIENCE = 15  # iterations without a smaller error on the held-out rows
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # starts, as multiples of the median distance
ALPHAS = np.logspace(-8, 1, 10)
LOG_ALPHA_BOUNDS = (np.log(1e-9), np.log(1e2))
LARGEST_LOG_CHANGE = np.log(1e3)  # a length scale changes by at most a factor of 1,000
CONSTANT_FACTOR = 1e3  # length scale of a constant column, as a multiple of the largest other one
LARGEST_MULTIPLE = 1e13  # values beyond this multiple of a length scale are not resolved by float64
UNEVEN_RATIO = 2.0  # if spreads of columns differ by more, starts proportional to them are tried


@dataclass(frozen=True)
class LabeledRows:
    """Rows with targets and sample weights.

    Indexing returns rows with the targets as further columns.

    Parameters
    ----------
    X : rows of shape (n_samples, n_features)
        The rows.
    targets : ndarray of shape (n_samples, n_targets)
        Targets to regress on.
    weights : ndarray of shape (n_samples,), default=None
        Sample weights; None means 1 for every row.
    """

    X: Any
    targets: Floats
    weights: Floats | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.X.shape[0], self.X.shape[1] + self.targets.shape[1])

    def __getitem__(self, rows: slice | Indices) -> Any:
        block, targets = self.X[rows], self.targets[rows]
        if is_sparse(block):
            return sparse.hstack([block, sparse.csr_array(targets)], format="csr", dtype=np.float64)
        return np.hstack([block, targets], dtype=np.float64)

    def sample(self, size: int, rng: np.random.Generator) -> "LabeledRows":
        """Return a sample of distinct rows in random order, with standardized targets.

        Parameters
        ----------
        size : int
            Number of rows. All rows are returned if there are no more than that.
        rng : numpy.random.Generator
            Random numbers that select the rows.

        Returns
        -------
        LabeledRows
            Rows and targets in float64. Constant targets are dropped.
        """
        joined, counts = shuffled_sample(self, size, rng)
        n_features = self.X.shape[1]
        X, targets = joined[:, :n_features], joined[:, n_features:]
        targets = targets.toarray() if is_sparse(targets) else targets
        # Relative to the largest magnitude, squares neither overflow nor underflow.
        targets = targets / np.maximum(np.abs(targets).max(axis=0), np.finfo(float).tiny)
        targets = targets - np.average(targets, axis=0, weights=counts)
        deviations = np.sqrt(np.average(np.square(targets), axis=0, weights=counts))
        varying = deviations > 1e-10
        targets = targets[:, varying] / deviations[varying]
        if targets.shape[1] > MAX_TARGETS:  # random directions preserve squared errors, up to a constant factor
            directions = rng.normal(size=(targets.shape[1], MAX_TARGETS))
            targets = targets @ (directions / np.linalg.norm(directions, axis=0))
        return LabeledRows(sparse.csr_array(X) if is_sparse(X) else np.ascontiguousarray(X), targets, counts)

    def rolled(self, n_rows: int) -> "LabeledRows":
        """Return the rows in another order, with the first rows moved to the end.

        Parameters
        ----------
        n_rows : int
            Number of rows to move.

        Returns
        -------
        LabeledRows
            The rows in their new order.
        """
        order = np.roll(np.arange(self.shape[0]), -n_rows)
        weights = None if self.weights is None else self.weights[order]
        return LabeledRows(self.X[order], self.targets[order], weights)


def regression_targets(y: Any) -> Floats:
    """Return columns to regress on.

    Numbers are used as they are. Text, booleans and up to 20 distinct integers are classes: two classes become one
    column of -1 and 1, more classes become one such column per class.

    Parameters
    ----------
    y : {array-like, sparse matrix} of shape (n_samples,) or (n_samples, n_targets)
        Numbers, or class labels in one column.

    Returns
    -------
    ndarray of shape (n_samples, n_columns)
        Targets in float64.

    Examples
    --------
    >>> from bochner.scaling.learned_scales import regression_targets
    >>> regression_targets(["no", "yes", "no"]).ravel()
    array([-1.,  1., -1.])
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


class LearningResult(NamedTuple):
    """Learned length scales or a learned metric.

    Parameters
    ----------
    scaling : LengthScales or Metric
        One length scale per column, or a map of the columns.
    gain : float
        Relative decrease of the squared error on held-out rows, compared with the start; 0 if the start was kept.
    """

    scaling: Scaling
    gain: float


class Evaluation(NamedTuple):
    """Value and derivatives of an objective at given length scales and penalty.

    Parameters
    ----------
    value : float
        The objective.
    gradient : ndarray of shape (n_features,)
        Derivatives with respect to the logarithms of the length scales.
    log_alpha_derivative : float
        Derivative with respect to the logarithm of the penalty.
    held_out_error : float
        Mean squared error of ridge regression on the held-out rows; NaN if there are none.
    """

    value: float
    gradient: Floats
    log_alpha_derivative: float
    held_out_error: float


@dataclass(frozen=True)
class LearningProblem:
    """Sampled rows in folds, and the objective on them as a function of length scales.

    Parameters
    ----------
    rows : LabeledRows
        The sample.
    folds : ndarray of shape (n_samples,)
        The fold of each row, in ascending order. Rows of fold `n_folds` are held out.
    n_folds : int
        Number of folds.
    frequencies : ndarray of shape (n_frequencies, n_features)
        Frequencies at unit length scale, with equal weights.
    """

    rows: LabeledRows
    folds: Indices
    n_folds: int
    frequencies: Floats

    @classmethod
    def with_folds(cls, rows: LabeledRows, n_folds: int, n_held_out: int, frequencies: Floats) -> "LearningProblem":
        """Divide the first rows into folds of equal size, and hold out the last rows.

        Parameters
        ----------
        rows : LabeledRows
            The sample, in random order.
        n_folds : int
            Number of folds.
        n_held_out : int
            Number of held-out rows.
        frequencies : ndarray of shape (n_frequencies, n_features)
            Frequencies at unit length scale.

        Returns
        -------
        LearningProblem
            The problem.
        """
        n_training = rows.shape[0] - n_held_out
        folds = np.minimum(np.arange(rows.shape[0]) * n_folds // n_training, n_folds)
        return cls(rows, folds, n_folds, frequencies)

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return int(self.rows.targets.shape[1])

    def moments(self, scaling: Scaling) -> Floats:
        """Return second moments of [z, 1, y] per fold, those of the held-out rows last.

        Parameters
        ----------
        scaling : Scaling
            The map of the rows.

        Returns
        -------
        ndarray of shape (n_folds, size, size) or (n_folds + 1, size, size)
            The moments; the larger shape if rows are held out.
        """
        feature_map, rows = self.feature_map(scaling)
        size = feature_map.n_columns + 1 + self.n_targets
        totals = np.zeros((int(self.folds.max()) + 1, size, size))
        add_moments(totals, feature_map, rows, self.rows.targets, self.rows.weights, self.folds)
        return totals

    def feature_map(self, scaling: Scaling) -> tuple[FourierMap, Any]:
        """Return the map to features, and the rows that it takes.

        Parameters
        ----------
        scaling : Scaling
            The map of the rows.

        Returns
        -------
        feature_map : FourierMap
            The map. Its frequencies have absorbed a metric, so that rows cost what they cost without it.
        rows : rows of shape (n_samples, n_features)
            The rows of the sample, divided by length scales.
        """
        weights = np.full(len(self.frequencies), 1.0 / len(self.frequencies))
        if isinstance(scaling, Metric):
            return FourierMap(scaling.fold(self.frequencies), weights), self.rows.X
        return FourierMap(self.frequencies, weights), scaling.apply(self.rows.X)

    def evaluate(self, objective: Objective, length_scales: Floats, alpha: float) -> Evaluation:
        """Evaluate an objective with its derivatives, and the error on the held-out rows.

        Parameters
        ----------
        objective : Objective
            The objective.
        length_scales : ndarray of shape (n_features,)
            One length scale per column.
        alpha : float
            The ridge penalty, relative to the number of rows.

        Returns
        -------
        Evaluation
            Value, derivatives and held-out error.
        """
        moments = self.moments(LengthScales(length_scales))
        training, held_out = moments[: self.n_folds], moments[self.n_folds :].sum(axis=0)
        result = objective.value_and_gradient(training, self.n_targets, alpha)
        error = held_out_error(training.sum(axis=0), held_out, self.n_targets, alpha) if held_out.any() else np.nan
        return Evaluation(result.value, self._gradient(length_scales, result), result.log_alpha_derivative, error)

    def _gradient(self, length_scales: Floats, result: ObjectiveGradient) -> Floats:
        """Return derivatives with respect to the logarithms of the length scales."""
        feature_map, scaled = self.feature_map(LengthScales(length_scales))
        n_rows, n_frequencies = self.rows.X.shape[0], len(self.frequencies)
        n_training = int(np.searchsorted(self.folds, len(result.left)))
        phase_gradient = np.zeros((n_rows, n_frequencies))

        def work(span: slice) -> None:
            features = feature_map.features(scaled[span])
            rows = np.column_stack([features, np.ones(len(features)), self.rows.targets[span]])
            if self.rows.weights is not None:
                rows *= self.rows.weights[span, None]
            for fold in np.unique(self.folds[span]).tolist():
                own = self.folds[span] == fold
                feature_gradient = rows[own] @ result.left[fold] @ result.right[fold, : feature_map.n_columns].T
                cosines, sines = np.hsplit(features[own], 2)
                cosine_gradient, sine_gradient = np.hsplit(feature_gradient, 2)
                phase_gradient[span][own] = sine_gradient * cosines - cosine_gradient * sines

        list(in_threads(work, row_spans(n_training, GRAM_ROWS // 4)))
        columns = scaled.T

        def part(span: slice) -> Floats:
            return np.asarray(-((columns @ phase_gradient[:, span]) * self.frequencies[span].T).sum(axis=1))

        return sum_over_spans(part, n_frequencies, 32)


class LearnedLengthScales(Parametrized):
    r"""Learn one length scale per column from the targets.

    The optimization starts at the best of a few isotropic length scales. If the columns have different spreads, length
    scales proportional to the spreads are further candidates. L-BFGS then minimizes the objective over the logarithms
    of the length scales and of the ridge penalty. A fifth of the sampled rows is held out, and the iterate with the
    smallest error on them is kept. If no iterate improves on the start, the start is kept. With few rows, several
    trials hold out different rows, and their results are averaged.

    Parameters
    ----------
    n_rows : int, default=8000
        Maximum number of rows to learn from.
    n_iterations : int, default=40
        Maximum number of iterations.
    n_folds : int, default=3
        Number of folds of the validation loss.
    prior_strength : float, default=10.0
        Strength of a normal prior that pulls the length scales towards their initial proportions. Their logarithms
        have the standard deviation one over the square root of this number; 0 means no prior.
    objective : {"validation", "likelihood"} or Objective, default="validation"
        Objective to minimize: "validation" is the cross-validated mean squared error of ridge regression, "likelihood"
        is minus the log evidence of a Bayesian linear model.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FeatureRegressor, FourierFeatures
    >>> from bochner.scaling import LearnedLengthScales
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> y = np.sin(2 * X[:, 0])  # only the first column is informative
    >>> features = FourierFeatures(length_scale=LearnedLengthScales(n_iterations=20), n_frequencies=32)
    >>> model = FeatureRegressor(features, random_state=0).fit(X, y)
    >>> int(model.features_.relevance_.argmax())
    0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_rows": [Interval(Integral, FEWEST_ROWS, None, closed="left")],
        "n_iterations": [Interval(Integral, 0, None, closed="left")],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "prior_strength": [Interval(Real, 0, None, closed="left")],
        "objective": [StrOptions(OBJECTIVES), Objective],
    }
    _default_parts: ClassVar[Mapping[str, Mapping[Any, type]]] = {"objective": OBJECTIVES}

    def __init__(
        self,
        n_rows: int = 8000,
        n_iterations: int = 40,
        n_folds: int = 3,
        prior_strength: float = 10.0,
        objective: str | Objective = "validation",
    ) -> None:
        self.n_rows = n_rows
        self.n_iterations = n_iterations
        self.n_folds = n_folds
        self.prior_strength = prior_strength
        self.objective = objective

    def learn(self, rows: LabeledRows, frequencies: Floats, rng: np.random.Generator) -> LearningResult:
        """Learn the length scales.

        Parameters
        ----------
        rows : LabeledRows
            Rows and targets to learn from.
        frequencies : ndarray of shape (n_frequencies, n_features)
            Frequencies at unit length scale.
        rng : numpy.random.Generator
            Random numbers that select rows.

        Returns
        -------
        LearningResult
            ``(scaling, gain)``.
        """
        return self.learn_from(rows.sample(self.n_rows, rng), rows, frequencies, rng)

    def learn_from(
        self, sample: LabeledRows, rows: LabeledRows, frequencies: Floats, rng: np.random.Generator
    ) -> LearningResult:
        """Learn the length scales from a sample of rows that was drawn before.

        Parameters
        ----------
        sample : LabeledRows
            The sample, in random order, with standardized targets.
        rows : LabeledRows
            All rows.
        frequencies : ndarray of shape (n_frequencies, n_features)
            Frequencies at unit length scale.
        rng : numpy.random.Generator
            Random numbers that select pairs of rows.

        Returns
        -------
        LearningResult
            ``(scaling, gain)``.
        """
        n_rows, n_features = sample.X.shape
        if not self.is_possible(sample):
            return LearningResult(LengthScales(np.full(n_features, median_distance(rows.X, rng, rows.weights))), 0.0)
        n_held_out = n_rows // HELD_OUT_RATIO
        whole = LearningProblem.with_folds(sample, self.n_folds, 0, frequencies)
        start, alpha = self._select_start(whole, _start_candidates(sample, rng))
        n_trials = int(np.clip(self.n_rows // (TRIAL_RATIO * n_rows), 1, HELD_OUT_RATIO - 1))
        changes, gains = [], []
        with progress_bar("learning length scales", n_trials * self.n_iterations) as advance:
            for trial in range(n_trials):
                problem = LearningProblem.with_folds(
                    sample.rolled(trial * n_held_out), self.n_folds, n_held_out, frequencies
                )
                change, gain = self._optimize(problem, start, alpha, advance)
                changes.append(change)
                gains.append(gain)
        length_scales = _suppress_constant_columns(rows.X, start * np.exp(np.mean(changes, axis=0)))
        return LearningResult(LengthScales(length_scales), float(np.mean(gains)))

    def is_possible(self, sample: LabeledRows) -> bool:
        """Return whether a sample has enough rows, and targets that vary.

        Parameters
        ----------
        sample : LabeledRows
            The sample.

        Returns
        -------
        bool
            Whether anything can be learned.
        """
        return bool(sample.X.shape[0] >= max(FEWEST_ROWS, 2 * self.n_folds) and sample.targets.shape[1] > 0)

    def _select_start(self, problem: LearningProblem, candidates: list[Floats]) -> tuple[Floats, float]:
        """Return the candidate multiple and the penalty with the smallest mean squared error over the folds."""
        results = []
        for length_scales in [factor * candidate for candidate in candidates for factor in FACTORS]:
            moments = problem.moments(LengthScales(length_scales))
            n_training = float(moments[:, -1 - problem.n_targets, -1 - problem.n_targets].sum()) * (
                1 - 1 / self.n_folds
            )
            folds = np.concatenate([moments, np.zeros_like(moments[:1])])
            errors = cross_validated_errors(folds, problem.n_targets, ALPHAS * n_training).mean(axis=(1, 2))
            results.append((float(errors.min()), length_scales, float(ALPHAS[errors.argmin()])))
        _, length_scales, alpha = min(results, key=lambda result: result[0])
        return length_scales, alpha

    def _optimize(
        self, problem: LearningProblem, start: Floats, alpha: float, advance: Callable[[float], None]
    ) -> tuple[Floats, float]:
        """Return changes of the logarithms of the length scales, selected on the held-out rows, and the gain there."""
        objective = OBJECTIVES[self.objective]() if isinstance(self.objective, str) else clone(self.objective)
        prior_strength = self.prior_strength / problem.rows.shape[0]
        required_ratio = 1.0 - max(LEAST_GAIN, 1.0 / np.count_nonzero(problem.folds == problem.n_folds))
        best, smallest_error, n_stale = np.zeros(len(start)), np.inf, 0
        start_error = last_error = np.nan  # L-BFGS evaluates an iterate last before it calls back

        def loss(flat: Floats) -> tuple[float, Floats]:
            nonlocal start_error, last_error, smallest_error
            evaluation = problem.evaluate(objective, start * np.exp(flat[:-1]), float(np.exp(flat[-1])))
            last_error = evaluation.held_out_error
            if smallest_error == np.inf:  # the first evaluation is at the start
                start_error, smallest_error = last_error, required_ratio * last_error
            deviation = flat[:-1] - flat[:-1].mean()
            value = evaluation.value + prior_strength * float(np.square(deviation).sum())
            gradient = evaluation.gradient + 2.0 * prior_strength * deviation
            return value, np.append(gradient, evaluation.log_alpha_derivative)

        def keep_best(flat: Floats) -> None:
            nonlocal best, smallest_error, n_stale
            advance(1)
            n_stale += 1
            if last_error < smallest_error:
                best, smallest_error, n_stale = flat[:-1].copy(), last_error, 0
            if n_stale >= PATIENCE:
                raise StopIteration

        largest = np.full(len(start), LARGEST_LOG_CHANGE)
        bounds = Bounds(np.append(-largest, LOG_ALPHA_BOUNDS[0]), np.append(largest, LOG_ALPHA_BOUNDS[1]))
        options: Any = {"maxiter": self.n_iterations, "maxcor": 20, "ftol": 1e-4, "gtol": 0.0}
        options["maxfun"] = 1 + 5 * self.n_iterations // 4  # most iterations need one evaluation
        callback: Any = keep_best
        origin = np.append(best, np.log(alpha))
        if self.n_iterations:
            minimize(loss, origin, jac=True, method="L-BFGS-B", bounds=bounds, callback=callback, options=options)
        return best, 1.0 - smallest_error / start_error if best.any() else 0.0


def _start_candidates(sample: LabeledRows, rng: np.random.Generator) -> list[Floats]:
    """Return length scales to start from: equal ones, and ones proportional to spreads of columns that differ."""
    spreads = _column_spreads(sample)
    varying = spreads > 0.0
    proportions = [np.ones(len(spreads))]
    if varying.any() and spreads.max() > UNEVEN_RATIO * spreads[varying].min():
        proportions.append(np.where(varying, spreads, 1.0))
    candidates = [
        scales * median_distance(LengthScales(scales).apply(sample.X), rng, sample.weights) for scales in proportions
    ]
    # Beside an outlying value, equal length scales can be too short for float64.
    smallest = max_abs(sample.X) / LARGEST_MULTIPLE
    return [scales for scales in candidates if (scales >= smallest).all()] or candidates[-1:]


def _column_spreads(sample: LabeledRows) -> Floats:
    """Return the spread of each column among the rows that differ from its most frequent value; 0 if it is constant.

    It is the standard deviation divided by the square root of the share of those rows. For a column without a frequent
    value it is the standard deviation. For the indicator of a rare category it is about 1, unlike the standard
    deviation.
    """
    magnitudes = np.maximum(max_abs(sample.X), np.finfo(np.float64).tiny)
    X = LengthScales(magnitudes).apply(sample.X)  # squares neither overflow nor underflow
    counts = np.ones(X.shape[0]) if sample.weights is None else sample.weights
    shares = counts / counts.sum()
    mean, mean_squares = X.T @ shares, (X.multiply(X) if is_sparse(X) else np.square(X)).T @ shares
    variances = np.where(_varying_columns(sample.X), np.maximum(mean_squares - np.square(mean), 0.0), 0.0)
    # A value that more than half of the rows share is the median, or the zero of a sparse column.
    differing = (X != 0).T @ shares if is_sparse(X) else (np.median(X, axis=0) != X).T @ shares
    return np.asarray(magnitudes * np.sqrt(variances / np.maximum(differing, np.finfo(np.float64).tiny)))


def _varying_columns(X: Any) -> Mask:
    low, high = column_ranges(X)
    return np.asarray(low < high)


def _suppress_constant_columns(X: Any, length_scales: Floats) -> Floats:
    """Give constant columns a length scale so large that other values in new rows hardly change the features."""
    varying = _varying_columns(X)
    if varying.all() or not varying.any():
        return length_scales
    return np.where(varying, length_scales, CONSTANT_FACTOR * length_scales[varying].max())
