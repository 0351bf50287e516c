# SPDX-License-Identifier: BSD-3-Clause
"""Second moments of candidate features by fold, and the choice of a candidate and a penalty from them."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from bochner.feature_maps import FeatureMap, ProductMap, add_moments
from bochner.feature_maps.moments import SPAN_ROWS
from bochner.feature_models.candidates import feature_map_of
from bochner.feature_models.folds import RoundRobin, check_fold_weights
from bochner.feature_models.ridge import (
    RidgeSolution,
    cross_validated_errors,
    generalized_errors,
    ridge_solution,
    streamed_errors,
    target_variances,
    total_moments,
)
from bochner.feature_models.streamed_folds import StreamedFolds, streamed_bytes
from bochner.feature_models.training_sets import TrainingSet
from bochner.rows import Batch, Floats, MemoryRows, RowSource, in_threads, row_spans, serial_blas, stack_rows

__all__ = ["MomentAccumulator", "Residuals", "RidgeChoice", "RidgeMoments", "moments_of_batch", "r2_scores"]

MOST_EXTRA_COLUMNS = 1.5  # columns before a matrix product per feature, up to which their moments cost less
LARGEST_ROUNDING = 1e-10  # of accumulated moments, relative to the number of rows: a hundredth of the smallest penalty
SMALLEST_VARIANCE = 1e-100  # of the targets of a fold, relative to all rows: errors divided by smaller ones overflow

Encode = Callable[[Any], Floats]
Penalties = Callable[[float], Floats]
FitCandidates = Callable[[RowSource], list[Any]]


@dataclass(frozen=True)
class RidgeMoments:
    """Second moments of [z, 1, y] for each candidate and fold.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    totals : list of dict of int to ndarray of shape (size, size)
        For each candidate the moments of the folds that have rows; those of rows that are always trained on under -1.
    weight_sums : ndarray of shape (2,)
        Sums of the sample weights and of their squares.
    """

    n_rows: int
    totals: list[dict[int, Floats]]
    weight_sums: Floats

    def __add__(self, other: "RidgeMoments") -> "RidgeMoments":
        totals = [_add_by_fold(own, others) for own, others in zip(self.totals, other.totals, strict=True)]
        return RidgeMoments(self.n_rows + other.n_rows, totals, self.weight_sums + other.weight_sums)

    @property
    def row_factor(self) -> float:
        r"""What weights are multiplied by to count rows: 1 for counts, :math:`\sum w / \sum w^2` for smaller weights.

        The rows then number :math:`\max(\sum w, (\sum w)^2 / \sum w^2)`, the larger one of the sum of the weights and
        Kish's effective sample size. Counts have no larger sum than their squares, so that a weight of two remains
        equal to two copies of a row.
        """
        total, squares = self.weight_sums
        return max(1.0, float(total / squares))

    def by_fold(self, candidate: int, n_folds: int) -> list[Floats]:
        """Return the moments of a candidate for each fold, those of the always trained rows last, without a copy."""
        totals = self.totals[candidate]
        missing = np.zeros_like(next(iter(totals.values())))
        return [totals.get(fold, missing) for fold in [*range(n_folds), -1]]


def _add_by_fold(left: dict[int, Floats], right: dict[int, Floats]) -> dict[int, Floats]:
    return left | {fold: left[fold] + moments if fold in left else moments for fold, moments in right.items()}


def moments_of_batch(
    maps: list[FeatureMap], encode: Encode, origin: Floats, batch: Batch, before: RidgeMoments | None = None
) -> RidgeMoments:
    """Compute the moments of a batch of rows, of the columns before a matrix product where `moment_map` says so.

    Parameters
    ----------
    maps : list of FeatureMap
        The candidates.
    encode : callable
        Returns the targets (n_rows, n_targets) of checked targets or labels.
    origin : ndarray of shape (n_targets,)
        What is subtracted from the targets, so that their squares keep their digits.
    batch : Batch
        Rows with folds.
    before : RidgeMoments, default=None
        Moments of the rows before, to which those of the batch are added span by span; they are not changed.
    """
    targets = encode(batch.y) - origin
    all_totals = []
    for number, feature_map in enumerate(maps):
        feature_map.check(batch.X)
        earlier = {} if before is None else before.totals[number]
        totals: dict[int, Floats] = {fold: moments.copy() for fold, moments in earlier.items()}
        add_moments(totals, moment_map(feature_map)[0], batch.X, targets, batch.weights, batch.folds)
        all_totals.append(totals)
    counts, weight_sums = batch.counts, np.zeros(2) if before is None else before.weight_sums.copy()
    for rows in row_spans(len(targets), SPAN_ROWS):
        weight_sums += counts[rows].sum(), np.square(counts[rows]).sum()
    return RidgeMoments(len(targets) + (0 if before is None else before.n_rows), all_totals, weight_sums)


def _moments_of_all_folds(feature_map: FeatureMap, encode: Encode, origin: Floats, batch: Batch) -> RidgeMoments:
    """Compute the moments of a batch of rows whatever their folds, as those of rows that are always trained on."""
    return moments_of_batch([feature_map], encode, origin, batch._replace(folds=np.full(len(batch.y), -1)))


def moment_map(feature_map: FeatureMap) -> tuple[FeatureMap, Floats | None]:
    r"""Return the map whose moments are accumulated, and the matrix that turns these into moments of the features.

    Features that are a matrix product :math:`z = T^T k` have the moments :math:`T^T (\sum k k^T) T`. The product is
    then computed once instead of for every row. Rounding errors of the sum grow by :math:`|T|^2`: where they could
    exceed a hundredth of the smallest default penalty, or where there are many more columns than features, rows are
    multiplied one by one.
    """
    if (
        not isinstance(feature_map, ProductMap)
        or feature_map.inner.n_columns > MOST_EXTRA_COLUMNS * feature_map.n_columns
    ):
        return feature_map, None
    rounding = np.finfo(np.float64).eps * np.sqrt(feature_map.inner.n_columns) * feature_map.matrix_norm**2
    if rounding > LARGEST_ROUNDING:
        return feature_map, None
    return feature_map.inner, feature_map.matrix.astype(np.float64)


def _moments_of_features(features: Any, moments: list[Floats]) -> list[Floats]:
    """Return the moments of fitted features for each fold, from accumulated ones."""
    prepared: FeatureMap | None = getattr(features, "feature_map_", None)
    matrix = None if prepared is None else moment_map(prepared)[1]
    if matrix is None:
        return moments
    factor = linalg.block_diag(matrix, np.eye(len(moments[0]) - len(matrix)))

    def of_features(part: Floats) -> Floats:
        product = factor.T @ part @ factor
        return np.asarray(0.5 * (product + product.T))

    return list(in_threads(of_features, moments))


@dataclass
class MomentAccumulator:
    """Moments of rows that arrive in several calls, the same however the rows are divided into calls.

    Whole spans of rows are added up; the rest waits for more rows. Folds are assigned round-robin.
    """

    n_folds: int
    n_targets: int
    candidates: list[Any] = field(default_factory=list)
    # Empty before the first row.
    origin: Floats = field(default_factory=lambda: np.empty(0))
    moments: RidgeMoments | None = None
    waiting: list[Batch] = field(default_factory=list)

    def add(self, batch: Batch, fit_candidates: FitCandidates, encode: Encode) -> None:
        """Add rows with checked targets; the candidates, unless there are any, are fitted on the first span of rows."""
        for rows in row_spans(batch.X.shape[0], 16 * SPAN_ROWS):  # copies a part of the rows at a time
            some = batch.select(rows)
            self.waiting.append(some._replace(X=some.X.copy(), weights=some.counts))
            n_waiting = sum(len(part.y) for part in self.waiting)
            if n_waiting >= SPAN_ROWS:
                seen = self._merge_waiting()
                n_whole = n_waiting // SPAN_ROWS * SPAN_ROWS
                self._add_spans(seen.select(slice(0, n_whole)), fit_candidates, encode)
                self.waiting = [seen.select(slice(n_whole, None))] if n_waiting > n_whole else []

    def complete(self, fit_candidates: FitCandidates, encode: Encode) -> "MomentAccumulator":
        """Return the accumulator with the waiting rows added; this one keeps them waiting."""
        if not self.waiting:
            return self
        completed = replace(self, waiting=[])
        completed._add_spans(self._merge_waiting(), fit_candidates, encode)
        return completed

    def _merge_waiting(self) -> Batch:
        X, y, weights = (stack_rows([part[column] for part in self.waiting]) for column in range(3))
        return Batch(X, y, weights)

    def _add_spans(self, batch: Batch, fit_candidates: FitCandidates, encode: Encode) -> None:
        if not self.candidates:
            self.candidates = fit_candidates(MemoryRows(*batch.select(slice(0, SPAN_ROWS))[:3]))
        if not len(self.origin):
            self.origin = np.median(encode(batch.y[:SPAN_ROWS]), axis=0)
        start = 0 if self.moments is None else self.moments.n_rows
        batch = batch._replace(folds=RoundRobin(self.n_folds).folds(start, batch.y))
        maps = [feature_map_of(features, row=batch.X[:1]) for features in self.candidates]
        # Spans are added one by one, so that the division of rows into calls changes no bit.
        self.moments = moments_of_batch(maps, encode, self.origin, batch, self.moments)


@dataclass(frozen=True)
class RidgeChoice:
    """The chosen features and penalty, and the solution on all rows.

    Attributes
    ----------
    features : transformer
        The chosen features.
    alpha : float
        The chosen penalty, relative to the number of rows.
    solution : RidgeSolution
        Coefficients, intercept and posterior.
    errors : ndarray of shape (n_alphas, n_folds)
        Mean squared errors of the chosen features, the mean over targets.
    scores : ndarray of shape (n_candidates,)
        The best mean R2 of each candidate.
    weight : float
        The sum of the weights.
    """

    features: Any
    alpha: float
    solution: RidgeSolution
    errors: Floats
    scores: Floats
    weight: float

    @property
    def coef(self) -> Floats:
        """Coefficients (width, n_targets)."""
        return self.solution.coef

    @property
    def intercept(self) -> Floats:
        """Intercepts (n_targets,)."""
        return self.solution.intercept

    @classmethod
    def of(
        cls, candidates: list[Any], moments: RidgeMoments, origin: Floats, n_folds: int, alphas: Penalties, cv: Any
    ) -> "RidgeChoice":
        """Choose the candidate and penalty with the best mean R2 over the folds, or by generalized cross-validation.

        Parameters
        ----------
        candidates : list of transformer
            Fitted features.
        moments : RidgeMoments
            Their second moments.
        origin : ndarray of shape (n_targets,)
            What was subtracted from the targets.
        n_folds : int
            Number of folds; 0 means generalized cross-validation.
        alphas : callable
            Returns candidate penalties, relative to the sum of the weights, for that sum.
        cv : object
            What the user asked for, for the error message.
        """
        outcomes = []
        for number, features in enumerate(candidates):
            of_features = _moments_of_features(features, moments.by_fold(number, n_folds))
            outcomes.append(_Outcome.of(of_features, len(origin), alphas, cv, moments.row_factor))
        return cls._best(candidates, outcomes, origin)

    @classmethod
    def streamed(
        cls, candidates: list[Any], training: TrainingSet, encode: Encode, origin: Floats, alphas: Penalties, cv: Any
    ) -> "RidgeChoice":
        """Choose as `of` does, from moments of all rows and passes over the rows of the folds.

        Parameters
        ----------
        candidates : list of transformer
            Fitted features.
        training : TrainingSet
            Rows with folds.
        encode : callable
            Returns the targets (n_rows, n_targets) of checked targets or labels.
        origin : ndarray of shape (n_targets,)
            What is subtracted from the targets.
        alphas : callable
            Returns candidate penalties, relative to the sum of the weights, for that sum.
        cv : object
            What the user asked for, for the error message.
        """
        outcomes = []
        row = training.rows.select(slice(0, 1)).X
        for features in candidates:
            feature_map = feature_map_of(features, row=row)
            n_bytes = streamed_bytes(feature_map.n_columns + 1 + len(origin), len(candidates))
            part = partial(_moments_of_all_folds, feature_map, encode, origin)
            moments = training.accumulate(part, f"accumulating moments ({n_bytes / 1e9:.1f} GB)")
            total = _moments_of_features(features, moments.by_fold(0, 0))[0]
            folds = StreamedFolds.of(training, feature_map, encode, origin)
            outcomes.append(_Outcome.streamed(total, folds, len(origin), alphas, cv, moments.row_factor))
        return cls._best(candidates, outcomes, origin)

    @classmethod
    def _best(cls, candidates: list[Any], outcomes: list["_Outcome"], origin: Floats) -> "RidgeChoice":
        """Return the candidate with the best outcome, solved on all rows."""
        n_targets = len(origin)
        scores = np.array([outcome.score for outcome in outcomes])
        best = int(np.argmax(scores))
        chosen = outcomes[best]
        _warn_of_constant_targets(chosen.total, n_targets)
        weight = chosen.total[-1 - n_targets, -1 - n_targets]
        solution = ridge_solution(chosen.total, n_targets, chosen.alpha * weight)
        solution = replace(solution, intercept=solution.intercept + origin)
        return cls(candidates[best], chosen.alpha, solution, chosen.errors, scores, chosen.weight)


def _warn_of_constant_targets(moments: Floats, n_targets: int) -> None:
    """Warn of targets without variance: constant ones, and those that vary only in rows of a negligible weight.

    Targets are relative to their median, so that the second moment of a constant one is exactly zero.
    """
    is_flat = target_variances(moments, n_targets) == 0.0
    if not is_flat.any():
        return
    message = "A target is constant: the model predicts that constant."
    if np.diag(moments)[len(moments) - n_targets :][is_flat].any():
        message = (
            "The weighted variance of a target is zero to rounding: the `sample_weight` of one row, or of rows with "
            "equal targets, exceeds that of all other rows, which have no influence. The model predicts the weighted "
            "mean; give weights that differ by less than a factor of 1e13."
        )
    warnings.warn(message, UserWarning, stacklevel=3)


@dataclass(frozen=True)
class _Outcome:
    """The best penalty of one candidate."""

    alpha: float
    errors: Floats
    total: Floats  # of rows, after the weights were multiplied by the `row_factor`
    score: float  # mean R2 over folds and targets
    weight: float  # the sum of the weights

    @classmethod
    def of(cls, moments: list[Floats], n_targets: int, penalties: Penalties, cv: Any, factor: float) -> "_Outcome":
        total = total_moments(moments)
        weight = float(total[-1 - n_targets, -1 - n_targets])
        alphas = penalties(weight)
        fold_weights = np.array([held_out[-1 - n_targets, -1 - n_targets] for held_out in moments[:-1]])
        check_fold_weights(cv, fold_weights, weight)
        if len(moments) > 1:
            errors = cross_validated_errors(moments, n_targets, alphas * weight, total)
            variances = np.array([target_variances(held_out, n_targets) for held_out in moments[:-1]])
        else:
            errors = generalized_errors(_scaled(total, factor), n_targets, alphas * factor * weight)
            variances = target_variances(total, n_targets)[None]
        return cls._best(errors, variances, total, alphas, factor, weight)

    @classmethod
    def streamed(
        cls, total: Floats, folds: StreamedFolds, n_targets: int, penalties: Penalties, cv: Any, factor: float
    ) -> "_Outcome":
        """Return the outcome without the moments of the folds."""
        weight = float(total[-1 - n_targets, -1 - n_targets])
        alphas = penalties(weight)
        corners = folds.borders[:, :, -1 - n_targets :]
        check_fold_weights(cv, corners[:, 0, 0], weight)
        errors = streamed_errors(total, folds, n_targets, alphas * weight)
        variances = np.array([target_variances(corner, n_targets) for corner in corners])
        return cls._best(errors, variances, total, alphas, factor, weight)

    @classmethod
    def _best(
        cls, errors: Floats, variances: Floats, total: Floats, alphas: Floats, factor: float, weight: float
    ) -> "_Outcome":
        scores = r2_scores(errors, variances, target_variances(total, errors.shape[2]))
        best = int(scores.mean(axis=(1, 2)).argmax())
        score = float(scores[best].mean(axis=1).mean())
        return cls(float(alphas[best]), errors.mean(axis=2), _scaled(total, factor), score, weight)


def _scaled(moments: Floats, factor: float) -> Floats:
    return moments if factor == 1.0 else factor * moments  # few models need a copy


@dataclass(frozen=True)
class Residuals:
    """What R2 needs of some rows; sums are merged by the formula of Chan, Golub and LeVeque, which loses no digits.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    weight : float
        Sum of the sample weights.
    errors : ndarray of shape (n_targets,)
        Weighted sums of squared errors.
    mean : ndarray of shape (n_targets,)
        Weighted means of the targets.
    deviations : ndarray of shape (n_targets,)
        Weighted sums of squared deviations from the mean.
    """

    n_rows: int
    weight: float
    errors: Floats
    mean: Floats
    deviations: Floats

    @classmethod
    @serial_blas  # no bit depends on the number of threads
    def of(cls, predictions: Floats, batch: Batch) -> "Residuals":
        """Return the sums of a batch of rows of positive weight."""
        weights = batch.counts
        mean = np.average(batch.y, axis=0, weights=weights)
        errors, deviations = (weights @ np.square(batch.y - center) for center in (predictions, mean))
        return cls(len(weights), float(weights.sum()), errors, mean, deviations)

    def __add__(self, other: "Residuals") -> "Residuals":
        weight = self.weight + other.weight
        distance = other.mean - self.mean
        deviations = self.deviations + other.deviations + self.weight * other.weight / weight * distance**2
        mean = self.mean + other.weight / weight * distance
        return Residuals(self.n_rows + other.n_rows, weight, self.errors + other.errors, mean, deviations)


def r2_scores(errors: Floats, variances: Floats, overall: Floats) -> Floats:
    """Compute R2 = 1 - error / variance, of shape (n_penalties, n_folds, n_targets).

    Where a target is constant in one of the folds, as in a fold of a single row, or varies by less than 1e-100 of its
    variance over all rows, the latter replaces that of every fold. Where it is constant in all rows, R2 is 1 if it is
    predicted exactly and 0 otherwise.
    """
    variances = np.where((variances > SMALLEST_VARIANCE * overall).all(axis=0), variances, overall)
    ratios = np.divide(errors, variances, out=np.ones_like(errors), where=variances > 0.0)
    return 1.0 - np.where((variances == 0.0) & (errors == 0.0), 0.0, ratios)
