# SPDX-License-Identifier: BSD-3-Clause
r"""Length scales learned from targets: one a column, by the error that ridge regression makes with them.

With frequencies W at unit length scale, row x has the phases :math:`W (x / \ell)`. An objective (see
`bochner.learning.objectives`) is a function of the features' second moments; the chain rule leads back from there through
cosines and sines to the phases :math:`\phi`, and :math:`\partial / \partial \log \ell_j = -\sum_{im} (x_{ij} / \ell_j)
W_{mj} \, \partial / \partial \phi_{im}`. Two passes over a sample of rows make a value and its gradient, for L-BFGS.
"""

import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, minimize
from sklearn.base import BaseEstimator, clone

from bochner.feature_maps import FourierMap, add_moments
from bochner.feature_maps.feature_map import GRAM_ROWS
from bochner.learning.objectives import OBJECTIVES, Objective, Slope, held_out_error
from bochner.learning.ridge import cross_validated_errors
from bochner.length_scales import median_distance
from bochner.progress import stepping
from bochner.rows import (
    Floats,
    Indices,
    Mask,
    ScaledRows,
    column_ranges,
    in_threads,
    is_sparse,
    max_abs,
    row_spans,
    serial_blas,
    shuffled_sample,
    sum_over_spans,
)
from bochner.validation import Interval, StrOptions

__all__ = ["Evaluation", "LabelledRows", "Learned", "LearnedLengthScales", "LearningProblem", "regression_targets"]

FEWEST_ROWS = 20  # of fewer rows nothing is learned
HELD_OUT = 5  # one row in so many judges what the others have learned
FEW = 4  # times as many rows fit into `n_rows`: a further trial is made, with other rows held out
LEAST_GAIN = 0.01  # of the start's squared error there, or one row's share: less is taken for chance
MOST_CLASSES = 20  # a target of more different whole numbers is a quantity
MOST_TARGETS = 32  # more, say of many classes, are projected on so many random directions
PATIENCE = 15  # iterations without a gain on the rows held out
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # isotropic starts, in units of the median distance
ALPHAS = np.logspace(-8, 1, 10)
ALPHA_BOUNDS = (np.log(1e-9), np.log(1e2))
REACH = np.log(1e3)  # a length scale moves by a factor of up to a thousand
IGNORED = 1e3  # times the longest length scale, for a column that never varies
UNEVEN = 2.0  # times the smallest unit of a column: then the units are tried as a start


@dataclass(frozen=True)
class LabelledRows:
    """Rows with their targets (n_samples, n_targets) and how many times each counts, None meaning once.

    Read like any rows, they have the targets as further columns.
    """

    X: Any
    targets: Floats
    weights: Floats | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.X.shape[0], self.X.shape[1] + self.targets.shape[1])

    def __getitem__(self, rows: slice | Indices) -> Any:
        if is_sparse(self.X):
            return sparse.hstack([self.X[rows], sparse.csr_array(self.targets[rows])], format="csr", dtype=np.float64)
        return np.hstack([self.X[rows], self.targets[rows]], dtype=np.float64)

    @serial_blas()
    def sample(self, size: int, rng: np.random.Generator) -> "LabelledRows":
        """So many rows in random order, every different one once, in float64; targets that vary, in their own units.

        A target's units are its mean and standard deviation.
        """
        joined, counts = shuffled_sample(self, size, rng)
        n_features = self.X.shape[1]
        X, targets = joined[:, :n_features], joined[:, n_features:]
        targets = targets.toarray() if is_sparse(targets) else targets
        # In units of the largest the squares neither overflow nor vanish.
        targets = targets / np.maximum(np.abs(targets).max(axis=0), np.finfo(float).tiny)
        targets = targets - np.average(targets, axis=0, weights=counts)
        spreads = np.sqrt(np.average(np.square(targets), axis=0, weights=counts))
        varying = spreads > 1e-10
        targets = targets[:, varying] / spreads[varying]
        if targets.shape[1] > MOST_TARGETS:  # random directions keep squared errors, but for a constant
            directions = rng.normal(size=(targets.shape[1], MOST_TARGETS))
            targets = targets @ (directions / np.linalg.norm(directions, axis=0))
        return LabelledRows(sparse.csr_array(X) if is_sparse(X) else np.ascontiguousarray(X), targets, counts)

    def rolled(self, n_rows: int) -> "LabelledRows":
        """The rows in another order: the first `n_rows` come last."""
        order = np.roll(np.arange(self.shape[0]), -n_rows)
        weights = None if self.weights is None else self.weights[order]
        return LabelledRows(self.X[order], self.targets[order], weights)


def regression_targets(y: Any) -> Floats:
    """Columns to regress on: numbers as they are; of classes, 1 and -1, one column a class, or one for two."""
    y = y.toarray() if is_sparse(y) else np.asarray(y)
    if y.dtype.kind == "O":
        y = np.array(y.tolist())  # numbers in a column of objects are numbers
    if y.dtype.kind not in "biufUS" or (y.ndim > 1 and y.dtype.kind in "US"):
        raise ValueError(
            f"y must hold numbers or, in one column, labels of classes to learn length scales from. Got "
            f"{reprlib.repr(y.tolist())} instead."
        )
    if y.ndim == 1:
        numbers = y.dtype.kind in "iuf"
        classes = np.unique(y) if not numbers or (y == np.rint(y)).all() else y  # a fraction: as many as there are rows
        if not numbers or len(classes) <= MOST_CLASSES < len(y):
            return np.where(y[:, None] == classes[1 if len(classes) == 2 else 0 :], 1.0, -1.0)
    return np.asarray(y.reshape(len(y), -1), dtype=np.float64)


class Learned(NamedTuple):
    """What was learned.

    Attributes
    ----------
    length_scales : ndarray of shape (n_features,)
        One length scale a column.
    gain : float
        The share by which the squared error on rows held out fell below the start's; 0 where the start was kept.
    """

    length_scales: Floats
    gain: float


class Evaluation(NamedTuple):
    """An objective at some length scales and penalty.

    Attributes
    ----------
    value : float
        The objective.
    gradient : ndarray of shape (n_features,)
        Its derivatives in the logarithms of the length scales.
    in_log_alpha : float
        Its derivative in the logarithm of the penalty.
    risk : float
        Mean squared error on the rows held out of ridge regression on the others; NaN when none are.
    """

    value: float
    gradient: Floats
    in_log_alpha: float
    risk: float


@dataclass(frozen=True)
class LearningProblem:
    """Sampled rows in folds, and what their features' moments have to do with length scales.

    Attributes
    ----------
    rows : LabelledRows
        The sample.
    folds : ndarray of shape (n_samples,)
        The fold of each row, in order; rows of fold `n_folds` are held out.
    n_folds : int
        Number of folds.
    frequencies : ndarray of shape (n_frequencies, n_features)
        Frequencies at unit length scale, of equal weights.
    """

    rows: LabelledRows
    folds: Indices
    n_folds: int
    frequencies: Floats

    @classmethod
    def of(cls, rows: LabelledRows, n_folds: int, n_held_out: int, frequencies: Floats) -> "LearningProblem":
        """The first rows in folds of equal size, the last ones held out."""
        n_seen = rows.shape[0] - n_held_out
        folds = np.minimum(np.arange(rows.shape[0]) * n_folds // n_seen, n_folds)
        return cls(rows, folds, n_folds, frequencies)

    @property
    def n_targets(self) -> int:
        return int(self.rows.targets.shape[1])

    def moments(self, length_scales: Floats) -> Floats:
        """Second moments of [z, 1, y] for each fold, those of the rows held out last, if there are any."""
        feature_map = self._feature_map()
        width = feature_map.width + 1 + self.n_targets
        totals = np.zeros((int(self.folds.max()) + 1, width, width))
        scaled = ScaledRows(self.rows.X, length_scales)
        add_moments(totals, feature_map, scaled, self.rows.targets, self.rows.weights, self.folds, GRAM_ROWS)
        return totals

    def evaluate(self, objective: Objective, length_scales: Floats, alpha: float) -> Evaluation:
        """The objective with its derivatives, and the error on the rows held out."""
        moments = self.moments(length_scales)
        seen, held_out = moments[: self.n_folds], moments[self.n_folds :].sum(axis=0)
        slope = objective.slope(seen, self.n_targets, alpha)
        risk = held_out_error(seen.sum(axis=0), held_out, self.n_targets, alpha) if held_out.any() else np.nan
        return Evaluation(slope.value, self._gradient(length_scales, slope), slope.in_log_alpha, risk)

    def _gradient(self, length_scales: Floats, slope: Slope) -> Floats:
        """Derivatives of the objective with that slope in the logarithms of the length scales."""
        scaled, feature_map = ScaledRows(self.rows.X, length_scales), self._feature_map()
        n_rows, n_frequencies = self.rows.X.shape[0], len(self.frequencies)
        n_seen = int(np.searchsorted(self.folds, len(slope.left)))
        in_phases = np.zeros((n_rows, n_frequencies))

        def work(span: slice) -> None:
            features = feature_map.features(scaled[span])
            rows = np.column_stack([features, np.ones(len(features)), self.rows.targets[span]])
            if self.rows.weights is not None:
                rows *= self.rows.weights[span, None]
            for fold in np.unique(self.folds[span]).tolist():
                own = self.folds[span] == fold
                in_features = rows[own] @ slope.left[fold] @ slope.right[fold, : feature_map.width].T
                cosines, sines = np.hsplit(features[own], 2)
                in_cosines, in_sines = np.hsplit(in_features, 2)
                in_phases[span][own] = in_sines * cosines - in_cosines * sines

        list(in_threads(work, row_spans(n_seen, GRAM_ROWS // 4)))
        columns = scaled[:].T

        def part(span: slice) -> Floats:
            return np.asarray(-((columns @ in_phases[:, span]) * self.frequencies[span].T).sum(axis=1))

        return sum_over_spans(part, n_frequencies, 32)

    def _feature_map(self) -> FourierMap:
        return FourierMap(self.frequencies, np.full(len(self.frequencies), 1.0 / len(self.frequencies)))


class LearnedLengthScales(BaseEstimator):
    r"""One length scale a column, learned from the targets.

    Starts at the best of a few isotropic length scales (and, where the columns have uneven units, of a few that are
    proportional to these) and goes on by L-BFGS in the logarithms of the length scales and of the ridge penalty. A
    fifth of the sampled rows is held out: the iterate with the smallest error there is kept, so that it is the start
    where learning does not help. Few rows are divided several times, and the outcomes are averaged.

    Parameters
    ----------
    n_rows : int, default=8000
        Rows to learn from, at most.
    n_iterations : int, default=40
        Iterations at most.
    folds : int, default=3
        Folds of the validation loss.
    penalty : float, default=10.0
        Pull towards the start's proportions: a normal prior of standard deviation :math:`1 / \sqrt{\mathrm{penalty}}`
        for the logarithms of the length scales. 0 means none.
    objective : str or Objective, default="validation"
        What to minimise: "validation", the mean squared error of each fold when the others teach ridge regression;
        "likelihood", minus the evidence of a Bayesian linear model; or a part.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures, FourierRidge
    >>> from bochner.learning import LearnedLengthScales
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> y = np.sin(2 * X[:, 0])  # the other columns have no say
    >>> features = FourierFeatures(length_scale=LearnedLengthScales(n_iterations=20), n_frequencies=32)
    >>> model = FourierRidge(features, random_state=0).fit(X, y)
    >>> int(model.features_.relevance_.argmax())
    0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_rows": [Interval(Integral, FEWEST_ROWS, None, closed="left")],
        "n_iterations": [Interval(Integral, 0, None, closed="left")],
        "folds": [Interval(Integral, 2, None, closed="left")],
        "penalty": [Interval(Real, 0, None, closed="left")],
        "objective": [StrOptions(set(OBJECTIVES)), Objective],
    }

    def __init__(
        self,
        n_rows: int = 8000,
        n_iterations: int = 40,
        folds: int = 3,
        penalty: float = 10.0,
        objective: str | Objective = "validation",
    ) -> None:
        self.n_rows = n_rows
        self.n_iterations = n_iterations
        self.folds = folds
        self.penalty = penalty
        self.objective = objective

    def learn(self, rows: LabelledRows, frequencies: Floats, rng: np.random.Generator, verbose: int = 0) -> Learned:
        """Learn the length scales.

        Parameters
        ----------
        rows : LabelledRows
            What to learn from.
        frequencies : ndarray of shape (n_frequencies, n_features)
            Frequencies at unit length scale.
        rng : numpy.random.Generator
            Chooses rows.
        verbose : int, default=0
            Whether to show a progress bar in a terminal.

        Returns
        -------
        Learned
            ``(length_scales, gain)``.
        """
        sample = rows.sample(self.n_rows, rng)
        n_rows, n_features = sample.X.shape
        if n_rows < max(FEWEST_ROWS, 2 * self.folds) or not sample.targets.shape[1]:
            return Learned(np.full(n_features, median_distance(rows.X, rng, rows.weights)), 0.0)
        n_held_out = n_rows // HELD_OUT
        whole = LearningProblem.of(sample, self.folds, 0, frequencies)
        start, alpha = self._start(whole, self._shapes(sample, rng))
        n_trials = int(np.clip(self.n_rows // (FEW * n_rows), 1, HELD_OUT - 1))
        moves, gains = [], []
        with stepping(n_trials * self.n_iterations, "learning length scales", verbose) as step:
            for trial in range(n_trials):
                problem = LearningProblem.of(sample.rolled(trial * n_held_out), self.folds, n_held_out, frequencies)
                move, gain = self._descend(problem, start, alpha, step)
                moves.append(move)
                gains.append(gain)
        return Learned(_ignoring_constants(rows.X, start * np.exp(np.mean(moves, axis=0))), float(np.mean(gains)))

    def _shapes(self, sample: LabelledRows, rng: np.random.Generator) -> list[Floats]:
        """Length scales to start from, up to a factor: one for all columns, and their units if those are uneven."""
        units = _units(sample)
        varying = units > 0.0
        shapes = [np.ones(len(units))]
        if varying.any() and units.max() > UNEVEN * units[varying].min():
            shapes.append(np.where(varying, units, 1.0))
        return [shape * median_distance(ScaledRows(sample.X, shape)[:], rng, sample.weights) for shape in shapes]

    def _start(self, problem: LearningProblem, shapes: list[Floats]) -> tuple[Floats, float]:
        """The best start of a few and the best penalty there, by the mean squared error over the folds."""
        found = []
        for length_scales in [factor * shape for shape in shapes for factor in FACTORS]:
            moments = problem.moments(length_scales)
            n_trained = float(moments[:, -1 - problem.n_targets, -1 - problem.n_targets].sum()) * (1 - 1 / self.folds)
            folds = np.concatenate([moments, np.zeros_like(moments[:1])])
            errors = cross_validated_errors(folds, problem.n_targets, ALPHAS * n_trained).mean(axis=(1, 2))
            found.append((float(errors.min()), length_scales, float(ALPHAS[errors.argmin()])))
        _, length_scales, alpha = min(found, key=lambda one: one[0])
        return length_scales, alpha

    def _descend(
        self, problem: LearningProblem, start: Floats, alpha: float, step: Callable[[], None]
    ) -> tuple[Floats, float]:
        """How far the logarithms of the length scales are to move, judged by the rows held out, and the gain there."""
        objective = OBJECTIVES[self.objective]() if isinstance(self.objective, str) else clone(self.objective)
        pull = self.penalty / problem.rows.shape[0]
        best, least, since = np.zeros(len(start)), np.inf, 0
        worst = 1.0 - max(LEAST_GAIN, 1.0 / np.count_nonzero(problem.folds == problem.n_folds))
        first = risk = np.nan  # the latter of the last evaluation, that of the iterate when L-BFGS calls back

        def loss(flat: Floats) -> tuple[float, Floats]:
            nonlocal first, risk, least
            found = problem.evaluate(objective, start * np.exp(flat[:-1]), float(np.exp(flat[-1])))
            risk = found.risk
            if least == np.inf:  # at the start
                first, least = risk, worst * risk
            uneven = flat[:-1] - flat[:-1].mean()
            value = found.value + pull * float(np.square(uneven).sum())
            return value, np.append(found.gradient + 2.0 * pull * uneven, found.in_log_alpha)

        def judge(flat: Floats) -> None:
            nonlocal best, least, since
            step()
            since += 1
            if risk < least:
                best, least, since = flat[:-1].copy(), risk, 0
            if since >= PATIENCE:
                raise StopIteration

        reach = np.full(len(start), REACH)
        bounds = Bounds(np.append(-reach, ALPHA_BOUNDS[0]), np.append(reach, ALPHA_BOUNDS[1]))
        options: Any = {"maxiter": self.n_iterations, "maxcor": 20, "ftol": 1e-4, "gtol": 0.0}
        options["maxfun"] = 1 + 5 * self.n_iterations // 4  # most iterations need one evaluation
        callback: Any = judge
        begin = np.append(best, np.log(alpha))
        if self.n_iterations:
            minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds, callback=callback, options=options)
        return best, 1.0 - least / first if best.any() else 0.0


@serial_blas()  # no bit depends on the number of threads
def _units(sample: LabelledRows) -> Floats:
    """The spread of each column among the rows off its commonest value; 0 for a column that does not vary.

    It is the standard deviation over the root of the share of those rows: that of a column that has no commonest
    value, and for a rare category the difference that it makes, which its standard deviation is not.
    """
    tops = np.maximum(max_abs(sample.X), np.finfo(np.float64).tiny)
    X = ScaledRows(sample.X, tops)[:]  # the squares neither overflow nor vanish
    counts = np.ones(X.shape[0]) if sample.weights is None else sample.weights
    shares = counts / counts.sum()
    mean, mean_squares = X.T @ shares, (X.multiply(X) if is_sparse(X) else np.square(X)).T @ shares
    variances = np.where(_varying(sample.X), np.maximum(mean_squares - np.square(mean), 0.0), 0.0)
    # A value that more than half of the rows have is the median.
    off = (X != 0).T @ shares if is_sparse(X) else (np.median(X, axis=0) != X).T @ shares
    return np.asarray(tops * np.sqrt(variances / np.maximum(off, np.finfo(np.float64).tiny)))


def _varying(X: Any) -> Mask:
    """Which columns have more than one value."""
    low, high = column_ranges(X)
    return np.asarray(low < high)


def _ignoring_constants(X: Any, length_scales: Floats) -> Floats:
    """Length scales so long that columns which never vary have no say, whatever values they take one day."""
    varying = _varying(X)
    if varying.all() or not varying.any():
        return length_scales
    return np.where(varying, length_scales, IGNORED * length_scales[varying].max())
