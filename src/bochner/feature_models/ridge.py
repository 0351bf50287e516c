# SPDX-License-Identifier: BSD-3-Clause
r"""Ridge regression from second moments: all penalties, folds and candidate features after one pass over the rows.

A row has the vector :math:`a = [z, 1, y]` of its features, a one and its targets. The moments of the training rows are
the total minus those of the held-out fold, and the squared error on a fold is a quadratic form in its moments.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from bochner.feature_maps import FeatureMap, ProductMap, add_moments
from bochner.feature_models.band_form import solve_shifted
from bochner.feature_models.candidates import feature_map_of
from bochner.feature_models.folds import Choice, RoundRobin, TrainingSet, check_fold_weights
from bochner.linalg import jittered_cholesky
from bochner.memory import check_memory
from bochner.rows import Batch, Floats, MemoryRows, RowSource, in_threads, row_spans, stack_batches
from bochner.rows.block_sizes import MAX_SMALL_ROWS

__all__ = [
    *("MomentAccumulator", "Moments", "Posterior", "check_moments", "fit_ridge", "generalized_errors"),
    *("fold_errors", "moments_of_batch", "r2_scores", "solve_ridge", "target_variances"),
]

MAX_EXTRA_COLUMNS = 1.5  # columns before a matrix product per feature, up to which their moments cost less
MAX_ROUNDING = 1e-10  # of accumulated moments, relative to the number of rows: a hundredth of the smallest penalty
FIRST_ROWS = 8192  # that features are fitted on and targets are centered by, where rows arrive in several calls
MIN_VARIANCE = 1e-100  # of the targets of a fold, relative to all rows: errors divided by smaller ones overflow
RAISES = (1.0, 1e2, 1e4, 1e6)  # factors of the penalty, tried in this order until the matrix has a Cholesky factor

Encode = Callable[[Any], Floats]
PenaltiesFor = Callable[[float], Floats]


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
    candidates: list[Any], training: TrainingSet, encode: Encode, penalties_for: PenaltiesFor, cv: Any
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
    penalties_for : callable
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
    return accumulator.choose(penalties_for, cv), accumulator


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
        start = 0 if self.moments is None else int(self.moments.sums[0])  # rows so far
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
        return replace(self, waiting=(), candidates=candidates).add(batch, fit_candidates)  # which fits nothing now

    def choose(self, penalties_for: PenaltiesFor, cv: Any) -> Choice:
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
            total, alphas = sum(parts[1:], parts[0]), penalties_for(float(weights.sum()))
            errors, by_penalty = _cross_validate(total, parts[:-1], n_targets, alphas, row_factor)
            scores[number] = by_penalty.max()
            if number == 0 or scores[number] > scores[best]:
                best, best_total, best_errors, position = number, total, errors, int(by_penalty.argmax())
        _warn_of_constant_targets(best_total, n_targets)
        alpha, weight = float(alphas[position]), float(weights.sum())  # the same weights and alphas for all candidates
        counted = row_factor * best_total if row_factor > 1.0 else best_total  # few models need a copy
        coef, intercept, posterior = solve_ridge(counted, n_targets, alpha * weight * row_factor)
        intercept = intercept + self.origin
        return Choice(self.candidates[best], position, alpha, weight, coef, intercept, best_errors, scores, posterior)


def _cross_validate(
    total: Floats, folds: list[Floats], n_targets: int, alphas: Floats, row_factor: float
) -> tuple[Floats, Floats]:
    """Return mean errors (n_penalties, n_folds), and mean R2 over folds and targets (n_penalties,), from moments."""
    weight, overall = float(total[-1 - n_targets, -1 - n_targets]), target_variances(total, n_targets)

    def of_fold(held_out: Floats) -> tuple[Floats, Floats]:
        return fold_errors(total, held_out, n_targets, alphas * weight), target_variances(held_out, n_targets)

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


class _Centered(NamedTuple):
    """Second moments of [z, 1, y] about the means."""

    gram: Floats
    cross: Floats
    mean: Floats
    target_mean: Floats
    weight: float

    @classmethod
    def from_moments(cls, moments: Floats, n_targets: int) -> "_Centered":
        """Center moments, which are overwritten."""
        width = len(moments) - 1 - n_targets
        weight = float(moments[width, width])
        mean, target_mean = moments[:width, width] / weight, moments[width + 1 :, width] / weight
        gram = moments[:width, :width]
        for rows in row_spans(width, MAX_SMALL_ROWS):
            gram[rows] -= np.multiply.outer(weight * mean[rows], mean)
        return cls(gram, moments[:width, width + 1 :] - weight * np.outer(mean, target_mean), mean, target_mean, weight)


def _least_penalty(moments: Floats, n_targets: int) -> float:
    """Return the rounding errors of a Gram matrix: with a smaller penalty, a singular one has no Cholesky factor."""
    width = len(moments) - 1 - n_targets
    return width * float(np.finfo(float).eps) * float(np.diag(moments)[:width].max(initial=0.0))


@dataclass(frozen=True)
class Posterior:
    r"""The posterior covariance of ridge coefficients, for the variances of predictions.

    Parameters
    ----------
    mean : ndarray of shape (width,)
        Mean of the features.
    factor : ndarray of shape (width, width)
        The lower Cholesky factor of :math:`G + \lambda`, where G is the centered Gram matrix.
    residual_squares : ndarray of shape (n_targets,)
        Residual sums of squares.
    penalty : float
        The penalty :math:`\lambda` of the factor, which may have been raised above rounding errors.
    weight : float
        Sum of the sample weights.
    """

    mean: Floats
    factor: Floats
    residual_squares: Floats
    penalty: float
    weight: float

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what can be computed from it, which would double the size of a model file."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def inverse_factor(self) -> Floats:
        r"""R with :math:`R R^T = (G + \lambda)^{-1}`; it is computed when variances are first needed."""
        return np.asarray(linalg.lapack.dtrtri(self.factor, lower=1)[0].T)

    @cached_property
    def noise(self) -> Floats:
        """Variance of the noise: the residual sum of squares divided by the residual degrees of freedom."""
        degrees_of_freedom = 1.0 + len(self.mean) - self.penalty * float(np.square(self.inverse_factor).sum())
        # With fewer rows than degrees of freedom, no residual degrees of freedom are left to estimate the noise.
        return self.residual_squares / max(self.weight - degrees_of_freedom, 1e-3 * self.weight)

    def variance(self, features: Floats) -> Floats:
        r"""Return predictive variances :math:`\sigma^2 (1 + 1/n + |R^T (z - \bar z)|^2)` of rows and targets."""
        leverage = np.square((features - self.mean) @ self.inverse_factor).sum(axis=1)
        return np.asarray((1.0 + 1.0 / self.weight + leverage)[:, None] * self.noise)


def solve_ridge(moments: Floats, n_targets: int, penalty: float) -> tuple[Floats, Floats, Posterior]:
    r"""Minimize :math:`\sum_i w_i |y_i - c^T z_i - b|^2 + \lambda |c|^2`.

    Parameters
    ----------
    moments : ndarray of shape (size, size)
        Second moments of [z, 1, y].
    n_targets : int
        Number of targets.
    penalty : float
        The ridge penalty.

    Returns
    -------
    coef : ndarray of shape (width, n_targets)
        The coefficients c.
    intercept : ndarray of shape (n_targets,)
        The intercept b.
    posterior : Posterior
        Their covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.ridge import solve_ridge
    >>> rows = np.array([[-1.0, 1.0, 3.0], [1.0, 1.0, 7.0]])  # y = 5 + 2 z
    >>> coef, intercept, _ = solve_ridge(rows.T @ rows, 1, 0.0)
    >>> coef.round(6), intercept.round(6)
    (array([[2.]]), array([5.]))
    """
    floor = max(penalty, _least_penalty(moments, n_targets))
    squares = target_variances(moments, n_targets)
    gram, cross, mean, target_mean, weight = _Centered.from_moments(moments.copy(), n_targets)
    gram.flat[:: len(gram) + 1] += floor
    largest = float(np.diag(gram).max(initial=0.0)) or 1.0
    try:
        # The diagonal has the penalty already, and jitters are relative to the largest entry.
        factor, jitter = jittered_cholesky(gram, [(ratio - 1.0) * floor / largest for ratio in RAISES])
    except np.linalg.LinAlgError:
        raise ValueError(
            f"The Gram matrix of the features is not finite, or not positive definite with a penalty of "
            f"{floor * RAISES[-1]:.3g}; give larger `alphas`, or weights that differ less."
        ) from None
    raised = floor + jitter * largest
    if jitter:
        warnings.warn(
            f"The Gram matrix of the features is singular to rounding. The penalty was raised from {penalty:.3g} to "
            f"{raised:.3g}, and predictions lose digits; give `alphas` of at least {raised / weight:.1g}, or weights "
            f"that differ less.",
            linalg.LinAlgWarning,
            stacklevel=2,
        )
    # The transpose of the factor is a view in the order of LAPACK, which would copy the factor itself.
    coef = linalg.cho_solve((factor.T, False), cross, check_finite=False)
    residual_squares = np.maximum(weight * squares - (coef * (cross + raised * coef)).sum(axis=0), 0.0)
    return coef, target_mean - mean @ coef, Posterior(mean, factor, residual_squares, raised, weight)


def fold_errors(total: Floats, held_out: Floats, n_targets: int, penalties: Floats) -> Floats:
    """Return mean squared errors on a fold, of shape (n_penalties, n_targets), from solutions on the other rows."""
    penalties = np.maximum(penalties, _least_penalty(total, n_targets))
    gram, cross, mean, target_mean, _ = _Centered.from_moments(total - held_out, n_targets)
    coef = solve_shifted(gram, cross.T, penalties)  # (n_penalties, n_targets, width)
    # The product of a = [z, 1, y] with [c, b, -1] is the residual.
    minus_targets = np.broadcast_to(-np.eye(n_targets), (len(penalties), n_targets, n_targets))
    combination = np.concatenate([coef, (target_mean - coef @ mean)[:, :, None], minus_targets], axis=2)
    combination = combination.reshape(-1, len(total))
    squares = np.einsum("ij,ij->i", combination, combination @ held_out).reshape(len(penalties), n_targets)
    return np.asarray(np.maximum(squares / held_out[-1 - n_targets, -1 - n_targets], 0.0))


def generalized_errors(moments: Floats, n_targets: int, penalties: Floats) -> Floats:
    r"""Return generalized cross-validation errors :math:`\mathrm{RSS} / n / (1 - \mathrm{df} / n)^2`.

    Parameters
    ----------
    moments : ndarray of shape (size, size)
        Second moments of [z, 1, y].
    n_targets : int
        Number of targets.
    penalties : ndarray of shape (n_penalties,)
        Ridge penalties.

    Returns
    -------
    ndarray of shape (n_penalties, 1, n_targets)
        The errors; infinite where no residual degrees of freedom are left.
    """
    squares = target_variances(moments, n_targets)
    gram, cross, _, _, weight = _Centered.from_moments(moments.copy(), n_targets)
    coef = solve_shifted(gram, cross.T, penalties)
    explained = (coef * (cross.T + penalties[:, None, None] * coef)).sum(axis=2)
    values = np.maximum(np.linalg.eigvalsh(gram), 0.0)  # rounding makes the smallest ones of a singular matrix negative
    residual_share = 1.0 - (1.0 + (values / (values + penalties[:, None])).sum(axis=1)) / weight
    possible = residual_share > 1e-12
    if not possible.any():
        raise ValueError(
            f"`cv`=None needs more rows than degrees of freedom, and by their weights there are "
            f"n_samples={weight:.3g}; use larger `alphas` or a number of folds."
        )
    errors = np.maximum(squares - explained / weight, 0.0) / np.square(np.where(possible, residual_share, 1.0))[:, None]
    return np.where(possible[:, None], errors, np.inf)[:, None, :]


def target_variances(moments: Floats, n_targets: int) -> Floats:
    """Return the variances of the targets, exactly 0 for targets that are constant up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.ridge import target_variances
    >>> rows = np.array([[1.0, 3.0], [1.0, 7.0]])  # no features, a one, one target
    >>> target_variances(rows.T @ rows, 1)
    array([4.])
    """
    weight = moments[-1 - n_targets, -1 - n_targets]
    squares = np.diag(moments)[len(moments) - n_targets :] / weight
    variances = squares - np.square(moments[len(moments) - n_targets :, -1 - n_targets] / weight)
    return np.where(variances > 1e-14 * squares, variances, 0.0)


def r2_scores(errors: Floats, variances: Floats, overall: Floats) -> Floats:
    """Compute R2 = 1 - error / variance, of shape (n_penalties, n_folds, n_targets).

    Where a target is constant in one of the folds, as in a fold of a single row, or varies by less than 1e-100 of its
    variance over all rows, the latter replaces that of every fold. Where it is constant in all rows, R2 is 1 if it is
    predicted exactly and 0 otherwise.
    """
    variances = np.where((variances > MIN_VARIANCE * overall).all(axis=0), variances, overall)
    ratios = np.divide(errors, variances, out=np.ones_like(errors), where=variances > 0.0)
    return 1.0 - np.where((variances == 0.0) & (errors == 0.0), 0.0, ratios)
