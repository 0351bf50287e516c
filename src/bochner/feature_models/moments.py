# SPDX-License-Identifier: BSD-3-Clause
r"""Second moments of candidate features by fold, and the choice of a candidate and a penalty from them.

The moments of [z, 1, y] are accumulated once per fold, in one pass over the rows, and determine every ridge regression
(`ridge`).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from bochner.feature_maps import FeatureMap, ProductMap, add_moments
from bochner.feature_models.candidates import feature_map_of
from bochner.feature_models.folds import Choice, RoundRobin, TrainingSet, check_fold_weights
from bochner.feature_models.ridge import generalized_errors, held_out_errors, r2_scores, solve_ridge, target_variances
from bochner.memory import check_memory
from bochner.rows import Batch, Floats, MemoryRows, RowSource, in_threads, stack_batches

__all__ = ["MomentAccumulator", "Moments", "check_moments", "fit_ridge", "moments_of_batch"]

MAX_EXTRA_COLUMNS = 1.5  # columns before a matrix product per feature, up to which their moments cost less
MAX_ROUNDING = 1e-10  # of accumulated moments, relative to the number of rows: a hundredth of the smallest penalty
FIRST_ROWS = 8192  # that features are fitted on and targets are centered by, where rows arrive in several calls

Encode = Callable[[Any], Floats]
Penalties = Callable[[float], Floats]


@dataclass(frozen=True)
class Moments:
    """Second moments of [z, 1, y] for each candidate and fold.

    Attributes
    ----------
    totals : list of dict of int to ndarray of shape (size, size)
        For each candidate the moments of the folds that have rows; those of rows that are always trained on under -1.
    sums : ndarray of shape (3,)
        Number of rows, and sums of the sample weights and of their squares.
    """

    totals: list[dict[int, Floats]]
    sums: Floats

    def __add__(self, other: "Moments") -> "Moments":
        totals = [
            own | {fold: own[fold] + moments if fold in own else moments for fold, moments in others.items()}
            for own, others in zip(self.totals, other.totals, strict=True)
        ]
        return Moments(totals, self.sums + other.sums)

    @property
    def row_factor(self) -> float:
        r"""What weights are multiplied by to count rows: 1 for counts, :math:`\sum w / \sum w^2` for smaller weights.

        The rows then number :math:`\max(\sum w, (\sum w)^2 / \sum w^2)`, the larger one of the sum of the weights and
        Kish's effective sample size. Counts have no larger sum than their squares, so that a weight of two remains
        equal to two copies of a row.
        """
        return max(1.0, float(self.sums[1] / self.sums[2]))

    def by_fold(self, candidate: int, n_folds: int) -> list[Floats]:
        """Return the moments of a candidate for each fold, those of the always trained rows last, without a copy."""
        totals = self.totals[candidate]
        missing = np.zeros_like(next(iter(totals.values())))
        return [totals.get(fold, missing) for fold in [*range(n_folds), -1]]


def moments_of_batch(maps: list[FeatureMap], encode: Encode, origin: Floats, batch: Batch) -> Moments:
    """Compute the moments of a batch of rows with folds; `origin` is subtracted from targets to keep their digits."""
    targets, all_totals = encode(batch.y) - origin, []
    for feature_map in maps:
        feature_map.check(batch.X)
        totals: dict[int, Floats] = {}
        add_moments(totals, _moment_map(feature_map)[0], batch.X, targets, batch.sample_weight, batch.fold_of)
        all_totals.append(totals)
    weights = batch.row_weights
    return Moments(all_totals, np.array([len(weights), weights.sum(), np.square(weights).sum()]))


def _moment_map(feature_map: FeatureMap) -> tuple[FeatureMap, Floats | None]:
    r"""Return the map whose moments are accumulated, and the matrix that turns these into moments of the features.

    Features that are a matrix product :math:`z = T^T k` have the moments :math:`T^T (\sum k k^T) T`. The product is
    then computed once instead of for every row. Rounding errors of the sum grow by :math:`|T|^2`: where they could
    exceed a hundredth of the smallest default penalty, or where there are many more columns than features, rows are
    multiplied one by one.
    """
    if (
        not isinstance(feature_map, ProductMap)
        or feature_map.inner.n_columns > MAX_EXTRA_COLUMNS * feature_map.n_columns
    ):
        return feature_map, None
    rounding = np.finfo(np.float64).eps * np.sqrt(feature_map.inner.n_columns) * feature_map.matrix_norm**2
    if rounding > MAX_ROUNDING:
        return feature_map, None
    return feature_map.inner, feature_map.matrix.astype(np.float64)


def _moments_of_features(features: Any, moments: Floats) -> Floats:
    """Return the moments of fitted features from accumulated ones."""
    prepared: FeatureMap | None = getattr(features, "feature_map_", None)
    matrix = None if prepared is None else _moment_map(prepared)[1]
    if matrix is None:
        return moments
    factor = linalg.block_diag(matrix, np.eye(len(moments) - len(matrix)))
    product = factor.T @ moments @ factor
    return np.asarray(0.5 * (product + product.T))


def check_moments(size: int, n_folds: int, n_candidates: int) -> None:
    """Refuse moments of columns and targets that exceed the memory of the machine; with those in work, six more."""
    subject = f"A ridge regression on {size:,} columns and targets with {n_folds} folds"
    remedy = "use fewer frequencies, `length_scale_factors`, classes or folds, or `cv`=None"
    check_memory(8 * size**2 * (n_candidates * (n_folds + 1) + 6), subject, "second moments", remedy)


def fit_ridge(
    candidates: list[Any], training: TrainingSet, encode: Encode, penalties: Penalties, cv: Any
) -> "tuple[Choice, MomentAccumulator]":
    """Accumulate second moments of all rows, and choose the candidate and the penalty from them.

    Parameters
    ----------
    candidates : list of transformer
        Fitted features.
    training : TrainingSet
        Rows with folds.
    encode : callable
        Returns the targets (n_rows, n_targets) of checked targets or labels.
    penalties : callable
        Returns candidate penalties, relative to the sum of the weights, for that sum.
    cv : object
        What the user asked for, for the error message.

    Returns
    -------
    choice : Choice
        The chosen features and penalty, and the solution.
    accumulator : MomentAccumulator
        The moments, which more rows continue.
    """
    origin = np.median(encode(training.first_targets(FIRST_ROWS)), axis=0)
    row = training.rows.select(slice(0, 1)).X
    maps = [feature_map_of(features, row=row) for features in candidates]
    check_moments(max(feature_map.n_columns for feature_map in maps) + 1 + len(origin), training.n_folds, len(maps))
    moments = training.accumulate(partial(moments_of_batch, maps, encode, origin), "accumulating moments")
    accumulator = MomentAccumulator(training.n_folds, encode, candidates, origin, moments)
    return accumulator.choose(penalties, cv), accumulator


@dataclass(frozen=True)
class MomentAccumulator:
    """Moments of rows that arrive in several calls; folds are assigned round-robin.

    Features are fitted on the first 8,192 rows, which wait until there are as many, or until a model is needed.
    """

    n_folds: int
    encode: Encode
    candidates: list[Any] = field(default_factory=list)
    origin: Floats | None = None
    moments: Moments | None = None
    waiting: tuple[Batch, ...] = ()

    def add(self, batch: Batch, fit_candidates: Callable[[RowSource], list[Any]]) -> "MomentAccumulator":
        """Return the accumulator with more rows; the candidates are fitted when there are enough of them."""
        if not self.candidates:
            kept = batch._replace(X=batch.X.copy(), sample_weight=batch.row_weights)
            longer = replace(self, waiting=(*self.waiting, kept))
            is_complete = sum(len(part.y) for part in longer.waiting) >= FIRST_ROWS
            return longer.complete(fit_candidates) if is_complete else longer
        origin = np.median(self.encode(batch.y[:FIRST_ROWS]), axis=0) if self.origin is None else self.origin
        start = 0 if self.moments is None else int(self.moments.sums[0])
        batch = batch._replace(fold_of=RoundRobin(self.n_folds).fold_of(start, batch.y))
        maps = [feature_map_of(features, row=batch.X[:1]) for features in self.candidates]
        moments = moments_of_batch(maps, self.encode, origin, batch)
        return replace(self, origin=origin, moments=moments if self.moments is None else self.moments + moments)

    def complete(self, fit_candidates: Callable[[RowSource], list[Any]]) -> "MomentAccumulator":
        """Return the accumulator whose candidates are fitted, on the rows that wait."""
        if not self.waiting:
            return self
        batch = stack_batches(self.waiting)
        candidates = fit_candidates(MemoryRows(*batch.select(slice(0, FIRST_ROWS))[:3]))
        return replace(self, waiting=(), candidates=candidates).add(batch, fit_candidates)

    def choose(self, penalties: Penalties, cv: Any) -> Choice:
        """Choose the candidate and penalty with the best mean R2 over the folds, or by generalized cross-validation."""
        assert self.moments is not None
        assert self.origin is not None
        scores, best = np.zeros(len(self.candidates)), 0
        n_targets, row_factor = len(self.origin), self.moments.row_factor
        for number, features in enumerate(self.candidates):
            accumulated = self.moments.by_fold(number, self.n_folds)
            parts = list(in_threads(partial(_moments_of_features, features), accumulated))
            weights = np.array([moments[-1 - n_targets, -1 - n_targets] for moments in parts])
            if self.n_folds:
                check_fold_weights(cv, weights)
            total, alphas = sum(parts[1:], parts[0]), penalties(float(weights.sum()))
            errors, by_penalty = _evaluate(total, parts[:-1], n_targets, alphas, row_factor)
            scores[number] = by_penalty.max()
            if number == 0 or scores[number] > scores[best]:
                best, best_total, best_errors, position = number, total, errors, int(by_penalty.argmax())
        _warn_of_constant_targets(best_total, n_targets)
        alpha, weight = float(alphas[position]), float(weights.sum())
        counted = row_factor * best_total if row_factor > 1.0 else best_total  # few models need a copy
        coef, intercept, posterior = solve_ridge(counted, n_targets, alpha * weight * row_factor)
        intercept = intercept + self.origin
        return Choice(self.candidates[best], position, alpha, weight, coef, intercept, best_errors, scores, posterior)


def _evaluate(
    total: Floats, folds: list[Floats], n_targets: int, alphas: Floats, row_factor: float
) -> tuple[Floats, Floats]:
    """Return mean errors (n_penalties, n_folds), and mean R2 over folds and targets (n_penalties,), from moments."""
    weight, overall = float(total[-1 - n_targets, -1 - n_targets]), target_variances(total, n_targets)

    def of_fold(held_out: Floats) -> tuple[Floats, Floats]:
        return held_out_errors(total, held_out, n_targets, alphas * weight), target_variances(held_out, n_targets)

    found = list(in_threads(of_fold, folds))
    if found:
        errors, variances = (np.stack(column, axis=-2) for column in zip(*found, strict=True))
    else:
        scaled = row_factor * total if row_factor > 1.0 else total
        errors, variances = generalized_errors(scaled, n_targets, alphas * row_factor * weight), overall[None]
    return errors.mean(axis=2), r2_scores(errors, variances, overall).mean(axis=(1, 2))


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
