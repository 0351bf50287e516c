# SPDX-License-Identifier: BSD-3-Clause
r"""A metric learned from targets: a linear map of all columns instead of one length scale per column.

A ridge model on the features says along which directions the targets change: its average gradient outer product G (see
`bochner.scaling.gradients`). A better metric has the distances :math:`|x - y|^2 = (x - y)^T G (x - y)`, under which
the targets change equally fast along all directions. A model in that metric has a more accurate G, and so on: recursive
feature machines (Radhakrishnan, Beaglehole, Pandit and Belkin, Science 2024), for which Fourier features need no pass
over the rows beside that of ridge regression.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import linalg

from bochner.feature_maps import apply_to_features
from bochner.parameters import Parametrized
from bochner.progress import progress_bar
from bochner.rows import Floats, LengthScales, Metric, in_threads, is_sparse
from bochner.scaling.gradients import gradient_factor
from bochner.scaling.learned_scales import (
    HELD_OUT_RATIO,
    LabeledRows,
    LearnedLengthScales,
    LearningProblem,
    LearningResult,
)
from bochner.scaling.objectives import held_out_error, ridge_residuals
from bochner.validation import HasMethods, Interval, make_part

__all__ = ["LearnedMetric"]

MOST_DIRECTIONS = 128  # more columns than that get a diagonal and a few directions
FEW_DIRECTIONS = 64
FIRST_FACTORS = (0.71, 1.0, 1.41)  # multiples of the length scales that the first round tries
LATER_FACTORS = (0.84, 1.0, 1.19)
ALPHAS = np.logspace(-9, 1, 11)
NEARBY = np.logspace(-0.5, 0.5, 3)  # penalties that a round tries, as multiples of that of the round before
LEAST_FACTOR = 1e-3  # smallest scale along a direction, as a multiple of the largest one
LEAST_PROGRESS = 0.97  # ratio of errors that a round must reach after the first one that is kept
PATIENCE = 2  # rounds without a smaller error on the held-out rows
LARGEST_QUANTILE = 0.95  # of errors on held-out rows; larger ones count as that
N_DIFFERENCES = 1000  # differences of rows whose mean square is kept from round to round


class LearnedMetric(Parametrized):
    r"""Learn a linear map of the columns from the targets.

    The start are length scales, one per column, learned by `length_scales`. In every round a ridge model is fitted in
    the current coordinates, its average gradient outer product G is computed, and the map is multiplied by a power of
    G. The overall scale and the ridge penalty are then selected by cross-validation. A fifth of the sampled rows is
    held out. Round 1 is kept if its error on them is smaller than that of round 0, the length scales; a later round
    replaces the one that is kept if its error is smaller by three percent.

    Parameters
    ----------
    n_rounds : int, default=5
        Maximum number of rounds; they stop after two rounds without a smaller error on the held-out rows.
    power : float, default=0.25
        Exponent of G in the coordinates of the round before. With 1/2 the distances become those of G at once; with 1/4
        a round goes half of the way, on a logarithmic scale.
    rank : int, default=None
        Number of directions that get a scale of their own; all other directions keep the learned length scales, up to
        one common factor. None means one direction per column up to 128 columns, and 64 directions for more columns,
        so that no matrix has as many entries as the square of their number.
    length_scales : LearnedLengthScales, default=None
        The part that learns the start, and whose `n_rows` and `folds` hold for the rounds too; None means
        ``LearnedLengthScales()``.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FeatureRegressor, FourierFeatures
    >>> X = np.random.default_rng(0).normal(size=(600, 4))
    >>> y = np.sin(1.5 * (X[:, 0] + X[:, 1]))  # only the sum of two columns is informative
    >>> per_column, metric = (
    ...     FeatureRegressor(FourierFeatures(length_scale=name, n_frequencies=64), random_state=0).fit(X[:400], y[:400])
    ...     for name in ("learn", "learn-matrix")
    ... )
    >>> bool(metric.score(X[400:], y[400:]) > per_column.score(X[400:], y[400:]))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_rounds": [Interval(Integral, 0, None, closed="left")],
        "power": [Interval(Real, 0, 1, closed="right")],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "length_scales": [HasMethods(["learn_from"]), None],
    }
    _default_parts: ClassVar[Mapping[str, Mapping[Any, type]]] = {"length_scales": {None: LearnedLengthScales}}

    def __init__(
        self,
        n_rounds: int = 5,
        power: float = 0.25,
        rank: int | None = None,
        length_scales: LearnedLengthScales | None = None,
    ) -> None:
        self.n_rounds = n_rounds
        self.power = power
        self.rank = rank
        self.length_scales = length_scales

    def n_added_dimensions(self, n_features: int, n_frequencies: int) -> int:
        """Return how many coordinates the map has beside one per column.

        Parameters
        ----------
        n_features : int
            Number of columns.
        n_frequencies : int
            Number of frequencies to learn with.

        Returns
        -------
        int
            0 if all directions get a scale of their own, else their number.
        """
        rank = self._n_directions(n_features, n_frequencies)
        return 0 if rank == n_features else rank

    def _n_directions(self, n_features: int, n_frequencies: int) -> int:
        rank = (n_features if n_features <= MOST_DIRECTIONS else FEW_DIRECTIONS) if self.rank is None else self.rank
        if n_features <= min(rank, n_frequencies):
            return n_features
        return min(rank, max(1, n_frequencies // 2))  # the other half determines the scale of all other directions

    def learn(self, rows: LabeledRows, frequencies: Floats, rng: np.random.Generator) -> LearningResult:
        """Learn the map.

        Parameters
        ----------
        rows : LabeledRows
            Rows and targets to learn from.
        frequencies : ndarray of shape (n_frequencies, n_features + n_added)
            Frequencies at unit length scale, with `n_added_dimensions` more coordinates than there are columns.
        rng : numpy.random.Generator
            Random numbers that select rows.

        Returns
        -------
        LearningResult
            The map, and the relative decrease of the squared error on held-out rows since the start of the length
            scales.
        """
        start: LearnedLengthScales = make_part(self.length_scales or LearnedLengthScales(), {})
        sample = rows.sample(start.n_rows, rng)
        n_rows, n_features = sample.X.shape
        scaling, gain = start.learn_from(sample, rows, frequencies[:, :n_features], rng)
        length_scales = np.asarray(scaling.length_scales)
        with np.errstate(over="ignore"):
            column_scales = 1.0 / length_scales
        if not np.isfinite(column_scales).all():
            raise ValueError(f"The length scale {length_scales.min():.3g} is too short; rescale the columns of X.")
        initial = _DirectionScales.of_columns(column_scales, self._n_directions(n_features, len(frequencies)))
        if not self.n_rounds or not start.is_possible(sample):
            return LearningResult(_column_metric(initial), gain)
        problem = LearningProblem.with_folds(sample, start.n_folds, n_rows // HELD_OUT_RATIO, frequencies)
        best, further_gain = self._best_round(problem, initial)
        if best is None:
            return LearningResult(_column_metric(initial), gain)
        return LearningResult(best.metric(), 1.0 - (1.0 - gain) * (1.0 - further_gain))

    def _best_round(
        self, problem: LearningProblem, initial: "_DirectionScales"
    ) -> tuple["_DirectionScales | None", float]:
        """Return the scales of the best round and their gain; None and 0 if no round is better than the start."""
        differences = _differences(problem.rows, initial.column_scales)
        start = current = _evaluate(problem, initial, (1.0,), ALPHAS)
        best, smallest_error, n_stale = None, 1.0, 0
        with progress_bar("learning the metric", self.n_rounds) as advance:
            for index in range(self.n_rounds):
                scales = current.scales.step(current.gradients, self.power, differences)
                factors = LATER_FACTORS if index else FIRST_FACTORS
                current = _evaluate(problem, scales, factors, current.nearby_alphas())
                advance(1)
                n_stale += 1
                error = current.error_over(start)
                # Further rounds fit the sampled rows ever more closely, so they must be clearly better.
                if error < (smallest_error if best is None else LEAST_PROGRESS * smallest_error):
                    best, smallest_error, n_stale = current.scales, error, 0
                if n_stale == PATIENCE:
                    break
        return best, 1.0 - smallest_error


@dataclass(frozen=True)
class _DirectionScales:
    r"""A map x -> B (c * x) with :math:`B = f (I - U U^T) + U \mathrm{diag}(s) U^T`, of scales along directions.

    Parameters
    ----------
    column_scales : ndarray of shape (n_features,)
        The scales c of the columns: one over their length scales.
    directions : ndarray of shape (n_features, rank)
        Orthonormal directions U.
    factors : ndarray of shape (rank,)
        Scales s along the directions.
    floor : float
        Scale f of all other directions, if there are any.
    """

    column_scales: Floats
    directions: Floats
    factors: Floats
    floor: float

    @classmethod
    def of_columns(cls, column_scales: Floats, rank: int) -> "_DirectionScales":
        return cls(column_scales, np.eye(len(column_scales), rank), np.ones(rank), 1.0)

    @classmethod
    def of_factor(cls, column_scales: Floats, factor: Floats, floor: float, rank: int) -> "_DirectionScales":
        """Return the scales with :math:`B^2 = f^2 I + F F^T`, up to the smallest singular values of F beyond `rank`."""
        directions, singular_values, _ = linalg.svd(factor, full_matrices=False, check_finite=False)
        factors = singular_values[:rank] if rank == len(column_scales) else np.hypot(singular_values[:rank], floor)
        # No direction is lost for good: a later round may find that it matters.
        return cls(column_scales, directions[:, :rank], np.maximum(factors, LEAST_FACTOR * factors.max()), floor)

    @property
    def is_complete(self) -> bool:
        """Whether the directions span all columns, so that the floor has no meaning."""
        return len(self.factors) == len(self.column_scales)

    def metric(self, factor: float = 1.0) -> Metric:
        """Return the map, with length scales that are longer by a factor."""
        if self.is_complete:
            return Metric((self.directions * (self.factors / factor)) @ self.directions.T * self.column_scales)
        excess = self._excess()
        return Metric(excess.T / factor * self.column_scales, self.floor / factor * self.column_scales)

    def longer(self, factor: float) -> "_DirectionScales":
        """Return scales whose length scales are longer by a factor."""
        return _DirectionScales(self.column_scales, self.directions, self.factors / factor, self.floor / factor)

    def step(self, gradient_factor: Floats, power: float, differences: Any) -> "_DirectionScales":
        """Return the scales of the next round, with the same mean square of given differences of rows.

        With L'L = G in the current coordinates, the squared distances become those of B G^(2 power) B.
        """
        factor = self._times_power(gradient_factor / self.column_scales, -1.0)
        values, vectors, rest = _leading_eigenvectors(factor, len(self.factors))
        size = self._size(differences)
        if not values[0] > 0.0 or not size > 0.0:
            return self  # the model is constant, or all rows are equal
        powers, rest_power = np.power(values, 2.0 * power), rest ** (2.0 * power)
        rest_power = max(rest_power, LEAST_FACTOR**2 * powers[0])
        excess = powers if self.is_complete else np.maximum(powers - rest_power, 0.0)
        new = self._times_power(vectors.T, 1.0).T * np.sqrt(excess)
        factor = new if self.is_complete else np.hstack([new, np.sqrt(rest_power) * self._excess()])
        following = self.of_factor(self.column_scales, factor, np.sqrt(rest_power) * self.floor, len(self.factors))
        return following.longer(following._size(differences) / size)

    def _times_power(self, rows: Floats, power: float) -> Floats:
        """Return rows (n_rows, n_features) times a power of B."""
        along = rows @ self.directions
        if self.is_complete:
            return np.asarray(along * np.power(self.factors, power) @ self.directions.T)
        floor = self.floor**power
        return np.asarray(floor * rows + along * (np.power(self.factors, power) - floor) @ self.directions.T)

    def _excess(self) -> Floats:
        """Return F of shape (n_features, rank) with B^2 = f^2 I + F F', where f counts as zero if B is complete."""
        floor = 0.0 if self.is_complete else self.floor
        return np.asarray(self.directions * np.sqrt(np.maximum(np.square(self.factors) - floor**2, 0.0)))

    def _size(self, differences: Any) -> float:
        """Return the root mean square of differences of rows, which are given in the columns c * x."""
        size = np.square(differences @ self._excess()).sum()
        if not self.is_complete:
            size += (
                self.floor**2 * (differences.multiply(differences) if is_sparse(differences) else differences**2).sum()
            )
        return float(np.sqrt(size / differences.shape[0]))


def _column_metric(scales: _DirectionScales) -> Metric:
    """Return the metric of the scales of columns alone."""
    if scales.is_complete:
        return Metric(np.diag(scales.column_scales))
    return Metric(np.empty((0, len(scales.column_scales))), scales.column_scales)


class _Round(NamedTuple):
    """A round.

    Attributes
    ----------
    scales : _DirectionScales
        Its scales.
    alpha : float
        Its ridge penalty, relative to the number of rows.
    gradients : ndarray of shape (n_frequencies, n_features)
        L with L'L = G of its ridge model.
    errors, weights : ndarray of shape (n_held_out,)
        Squared errors of its model on the held-out rows, and their weights.
    """

    scales: _DirectionScales
    alpha: float
    gradients: Floats
    errors: Floats
    weights: Floats

    def nearby_alphas(self) -> Floats:
        """Return penalties for the next round to try."""
        return np.unique(np.clip(self.alpha * NEARBY, ALPHAS[0], ALPHAS[-1]))

    def error_over(self, start: "_Round") -> float:
        """Return the mean error on the held-out rows, as a share of that of another round.

        Errors beyond a quantile count as that quantile, so that a few outlying rows do not choose the round.
        """
        largest = np.quantile(start.errors, LARGEST_QUANTILE)
        before, after = (float(np.minimum(one.errors, largest) @ one.weights) for one in (start, self))
        return after / before if before > 0.0 else 1.0


def _evaluate(problem: LearningProblem, scales: _DirectionScales, factors: Sequence[float], alphas: Floats) -> _Round:
    """Return the round at the best multiple of the length scales."""
    trials = []
    for factor in factors:
        moments = problem.moments(scales.metric(factor))[: problem.n_folds]
        errors = _validation_errors(moments, problem.n_targets, alphas)
        trials.append((float(errors.min()), factor, float(alphas[errors.argmin()]), moments.sum(axis=0)))
    _, factor, alpha, total = min(trials, key=lambda trial: trial[0])
    scales = scales.longer(factor)
    (residuals,) = in_threads(lambda moments: ridge_residuals(moments, problem.n_targets, alpha), [total])
    width = len(total) - 1 - problem.n_targets
    coef, intercept = residuals[:width], residuals[width]
    metric = scales.metric()
    is_held_out = problem.folds == problem.n_folds
    predictions = apply_to_features(
        problem.feature_map(metric)[0],
        problem.rows.X[is_held_out],
        problem.n_targets,
        lambda features: features @ coef + intercept,
    )
    errors = np.square(predictions - problem.rows.targets[is_held_out]).mean(axis=1)
    weights = np.ones(len(errors)) if problem.rows.weights is None else problem.rows.weights[is_held_out]
    gram = total[:width, :width] / total[width, width]
    gradients = gradient_factor(metric.fold(problem.frequencies), coef, gram)
    return _Round(scales, alpha, gradients, errors, weights)


def _validation_errors(fold_moments: Floats, n_targets: int, alphas: Floats) -> Floats:
    """Return the mean squared error over the folds for each penalty.

    A few penalties need one Cholesky factor each; that is faster than one reduction of the matrix for all penalties.
    """
    total = fold_moments.sum(axis=0)
    tasks = [(alpha, fold) for alpha in alphas.tolist() for fold in fold_moments]
    errors = in_threads(lambda task: held_out_error(total - task[1], task[1], n_targets, task[0]), tasks)
    return np.asarray(np.array(list(errors)).reshape(len(alphas), len(fold_moments)).mean(axis=1))


def _leading_eigenvectors(factor: Floats, rank: int) -> tuple[Floats, Floats, float]:
    """Return the largest eigenvalues of L'L, in descending order, their eigenvectors, and the mean of all others."""
    n_rows, n_features = factor.shape
    if n_features <= n_rows:
        values, vectors = linalg.eigh(factor.T @ factor, driver="evd", check_finite=False)
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        left, singular_values, right = linalg.svd(factor, full_matrices=False, check_finite=False)
        del left
        values, vectors = np.square(singular_values), right.T
    values = np.maximum(values, 0.0)
    n_others = n_features - rank
    return values[:rank], vectors[:, :rank], float(values[rank:].sum()) / n_others if n_others else 0.0


def _differences(rows: LabeledRows, column_scales: Floats) -> Any:
    """Return differences of consecutive rows, which are in random order, in the columns c * x."""
    X = LengthScales(1.0 / column_scales).apply(rows.X[: N_DIFFERENCES + 1])
    return X[1:] - X[:-1]
