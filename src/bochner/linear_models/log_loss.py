# SPDX-License-Identifier: BSD-3-Clause
r"""Logistic regression in the primal, for the problems of all folds at a time.

.. math:: f(W) = \tfrac12 |W|^2 - C \sum_i s_i \log p_{y_i}(x_i), \quad p(x) \propto \exp(W^T z(x) + b),

This is the objective of scikit-learn's `LogisticRegression`; the intercepts b are not penalized. Two classes have a
single column of coefficients, the score of the second class. Newton's method takes the gradient from a pass over all
rows, in float64. The Newton system is solved by conjugate gradients on rows that are held, in float32 (`curvature`): an
inexact direction costs steps, not digits. Where the rows do not fit into memory, these are a sample.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from bochner.linear_models.curvature import SPAN_ROWS, Curvature, cached_rows, inner
from bochner.linear_models.feature_passes import Accumulate, FeatureBatch
from bochner.linear_models.folds import NO_FOLD, passed_minimum
from bochner.progress import progress_bar
from bochner.rows import Floats, Indices, in_threads, row_spans

__all__ = ["LogLossPath", "LogisticProblems", "solve_one", "walk"]

MAX_STEPS = 100
MAX_SECANTS = 20
FIRST_C = 0.01  # up to which Newton's method starts from coefficients 0
ROUGH_TOLERANCE = 1e-3
PATH_TOLERANCE = 1e-6  # predicted decrease of the last step, relative to the objective
TOLERANCE = 1e-17
RESOLUTION = 1e-14  # predicted decrease, relative, below which the last decrease of an objective may be the last one
ROUNDING = 1e-12  # of an objective, relative
LARGEST_LOSS = float(-np.log(np.finfo(np.float64).eps))  # of a held-out row, as in scikit-learn's log_loss


@dataclass(frozen=True)
class Evaluation:
    """The losses of some problems over some rows.

    Attributes
    ----------
    losses : ndarray of shape (n_problems,)
        Sums of weighted losses over training rows.
    gradients : ndarray of shape (width + 1, n_problems, n_columns)
        Their gradients; last, those of the intercepts.
    weights : ndarray of shape (n_problems,)
        Total weights of training rows.
    held_out, totals : ndarray of shape (n_problems,)
        Sums of losses over the held-out rows, and their total weights.
    """

    losses: Floats
    gradients: Floats
    weights: Floats
    held_out: Floats
    totals: Floats

    def __add__(self, other: "Evaluation") -> "Evaluation":
        return Evaluation(
            self.losses + other.losses,
            self.gradients + other.gradients,
            self.weights + other.weights,
            self.held_out + other.held_out,
            self.totals + other.totals,
        )


class LogLossPath(NamedTuple):
    """The solutions along a path of C.

    Attributes
    ----------
    errors : ndarray of shape (n_Cs, n_folds)
        Mean log losses of the folds; NaN for values of C beyond the minimum.
    weights : ndarray of shape (n_Cs, width + 1, 1, n_columns)
        Solutions on all rows.
    """

    errors: Floats
    weights: Floats


def walk(problems: "LogisticProblems", n_folds: int, Cs: Floats) -> LogLossPath:
    """Solve on all rows and without each fold, for increasing C until the held-out loss has passed its minimum.

    Parameters
    ----------
    problems : LogisticProblems
        The rows.
    n_folds : int
        Folds are numbered from 0; rows of fold -1 are always trained on.
    Cs : ndarray of shape (n_Cs,)
        Values of C, in any order.
    """
    everything, folds = np.array([NO_FOLD]), np.arange(n_folds)
    whole, parts = problems.start(everything), problems.start(folds)
    errors = np.full((len(Cs), n_folds), np.nan)
    weights = np.zeros((len(Cs), *whole.shape))
    order = np.argsort(Cs).tolist()
    with progress_bar("choosing C", len(Cs)) as advance:
        for number, step in enumerate(order):
            C = float(Cs[step])
            for waypoint in _waypoints(float(Cs[order[number - 1]]) if number else FIRST_C, C):
                whole, _ = problems.solve(waypoint, everything, whole, ROUGH_TOLERANCE)
                parts, _ = problems.solve(waypoint, folds, parts, ROUGH_TOLERANCE)
            before, (whole, _) = whole, problems.solve(C, everything, whole, PATH_TOLERANCE)
            # The solutions without a fold move along with that on all rows.
            parts, last = problems.solve(C, folds, parts + (whole - before), PATH_TOLERANCE)
            errors[step] = last.held_out / last.totals
            weights[step] = whole
            advance(1)
            if passed_minimum(errors[order[: number + 1]]):
                advance(len(Cs) - number - 1)
                break
    return LogLossPath(errors, weights)


def solve_one(problems: "LogisticProblems", C: float, path: LogLossPath | None = None, position: int = 0) -> Floats:
    """Return the coefficients and intercepts (width + 1, n_columns) on all rows, starting from a path if there is one.

    Parameters
    ----------
    problems : LogisticProblems
        The rows.
    C : float
        The value of C.
    path : LogLossPath, default=None
        The path over folds.
    position : int, default=0
        The position of C on the path.
    """
    everything = np.array([NO_FOLD])
    if path is not None:
        return problems.solve(C, everything, path.weights[position], TOLERANCE)[0][:, 0]
    weights = problems.start(everything)
    for waypoint in _waypoints(FIRST_C, C):
        weights, _ = problems.solve(waypoint, everything, weights, ROUGH_TOLERANCE)
    return problems.solve(C, everything, weights, TOLERANCE)[0][:, 0]


def _waypoints(before: float, C: float) -> list[float]:
    """Return values of C between two others: from one decade to the next, Newton's method needs few steps."""
    n_decades = max(1, int(np.ceil(np.log10(C / before) - 1e-9)))
    waypoints: list[float] = np.geomspace(before, C, n_decades + 1)[1:-1].tolist()
    return waypoints


@dataclass
class LogisticProblems:
    """Problems that differ in the fold which they leave out.

    Parameters
    ----------
    accumulate : callable
        A pass over all rows: adds up the statistics that a function computes of batches.
    curvature : Curvature
        The rows that Hessians are computed from.
    width : int
        Number of features.
    n_classes : int
        Number of classes.
    """

    accumulate: Accumulate
    curvature: Curvature
    width: int
    n_classes: int

    @property
    def n_columns(self) -> int:
        """Columns of coefficients: one for two classes, else one per class."""
        return 1 if self.n_classes == 2 else self.n_classes

    def start(self, held_out: Indices) -> Floats:
        """Return coefficients 0, and the intercepts that are best with them: logarithms of the classes' shares."""
        counts: Floats = self.accumulate(partial(_class_weights, held_out, self.n_classes))
        with np.errstate(divide="ignore"):
            logarithms = np.maximum(np.log(counts / counts.sum(axis=1, keepdims=True)), -LARGEST_LOSS)
        weights = np.zeros((self.width + 1, len(held_out), self.n_columns))
        if self.n_columns == 1:
            weights[-1] = np.diff(logarithms, axis=1)
        else:
            weights[-1] = logarithms - logarithms.mean(axis=1, keepdims=True)
        return weights

    def solve(self, C: float, held_out: Indices, start: Floats, tolerance: float) -> tuple[Floats, Evaluation]:
        """Return the optimal weights (width + 1, n_problems, n_columns) for C, and their evaluation.

        Parameters
        ----------
        C : float
            The value of C.
        held_out : ndarray of shape (n_problems,)
            The fold that each problem leaves out; NO_FOLD means that all rows are used.
        start : ndarray of shape (width + 1, n_problems, n_columns)
            Where to start.
        tolerance : float
            A problem is solved after a step whose predicted decrease was below this share of its objective.
        """
        weights, done = start.copy(), self._evaluate(held_out, start)
        moving = np.arange(len(held_out))
        secants: list[_Secant] = []
        for _ in range(MAX_STEPS):
            now = _select(done, moving)
            origin, objective = weights[:, moving], _objective(C, weights[:, moving], now.losses)
            gradients = _gradients(C, origin, now)
            newton = partial(self.curvature.directions, C, held_out[moving], origin, row_weights=now.weights)
            directions = _corrected(newton, gradients, secants)
            decrease = -inner(gradients, directions)
            reached, now = self._search(C, held_out[moving], origin, directions, objective, decrease)
            weights[:, moving] = reached
            done = _replace(done, moving, now)
            change = objective - _objective(C, reached, now.losses)
            still = (decrease > tolerance * objective) & ((decrease > RESOLUTION * objective) | (change > 0.0))
            if self.curvature.is_sample:
                last = _Secant(reached - origin, _gradients(C, reached, now) - gradients)
                recent = [*secants[1 - MAX_SECANTS :], last]
                secants = [_Secant(moved[:, still], changed[:, still]) for moved, changed in recent]
            moving = moving[still]
            if not len(moving):
                break
        else:
            warnings.warn(
                f"{len(moving)} of {len(held_out)} problems did not converge in {MAX_STEPS} steps at C={C:g}; leave "
                f"such large values out of `Cs`.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return weights, done

    def _search(
        self, C: float, held_out: Indices, origin: Floats, directions: Floats, objective: Floats, decrease: Floats
    ) -> tuple[Floats, Evaluation]:
        """Take steps along the directions, shorter ones where the objective does not decrease enough."""
        lengths = np.ones(len(held_out))
        reached = origin + directions
        done = self._evaluate(held_out, reached)
        for _ in range(MAX_STEPS):
            allowed = objective * (1.0 + ROUNDING) - 1e-4 * lengths * decrease
            too_far = np.flatnonzero(~(_objective(C, reached, done.losses) <= allowed))
            if not len(too_far):
                break
            lengths[too_far] *= 0.3
            reached[:, too_far] = (origin + lengths[:, None] * directions)[:, too_far]
            done = _replace(done, too_far, self._evaluate(held_out[too_far], reached[:, too_far]))
        return reached, done

    def _evaluate(self, held_out: Indices, weights: Floats) -> Evaluation:
        result: Evaluation = self.accumulate(partial(_evaluate, held_out, weights))
        return result


class _Secant(NamedTuple):
    """A step of every problem, and the change of the gradient along it."""

    moved: Floats
    changed: Floats


def _corrected(newton: Callable[[Floats], Floats], gradients: Floats, secants: list[_Secant]) -> Floats:
    """Return directions as in L-BFGS, where `newton` takes the place of the initial inverse Hessian.

    Hessians of a sample differ from those of all rows, and Newton's steps would converge slowly without correction.
    """
    shares = []
    for moved, changed in reversed(secants):
        share = inner(moved, gradients) / _curvatures(moved, changed)
        gradients = gradients - share[:, None] * changed
        shares.append(share)
    directions = newton(gradients)
    for (moved, changed), share in zip(secants, reversed(shares), strict=True):
        directions = directions - (share + inner(changed, directions) / _curvatures(moved, changed))[:, None] * moved
    return directions


def _curvatures(moved: Floats, changed: Floats) -> Floats:
    """Return the curvature along steps, which are zero where rounding allows no further decrease."""
    return np.maximum(inner(moved, changed), np.finfo(np.float64).tiny)


def _gradients(C: float, weights: Floats, done: Evaluation) -> Floats:
    gradients = C * done.gradients
    gradients[:-1] += weights[:-1]
    return gradients


def _objective(C: float, weights: Floats, losses: Floats) -> Floats:
    return np.asarray(0.5 * np.square(weights[:-1]).sum(axis=(0, 2)) + C * losses)


def _select(done: Evaluation, problems: Indices) -> Evaluation:
    """Return the evaluation of some of the problems."""
    return Evaluation(
        done.losses[problems],
        done.gradients[:, problems],
        done.weights[problems],
        done.held_out[problems],
        done.totals[problems],
    )


def _replace(done: Evaluation, problems: Indices, now: Evaluation) -> Evaluation:
    """Return the evaluation with that of some of the problems replaced."""
    result = replace(done, **{name: value.copy() for name, value in vars(done).items()})
    result.gradients[:, problems] = now.gradients
    for name in ("losses", "weights", "held_out", "totals"):
        getattr(result, name)[problems] = getattr(now, name)
    return result


def _class_weights(held_out: Indices, n_classes: int, batch: FeatureBatch) -> Floats:
    """Return the total weight of each class in the training rows of each problem."""
    seen = [batch.folds != fold for fold in held_out.tolist()]
    totals = [np.bincount(batch.labels[rows], batch.weights[rows], n_classes) for rows in seen]
    return np.array(totals, dtype=np.float64)


def _evaluate(held_out: Indices, weights: Floats, batch: FeatureBatch) -> Evaluation:
    """Evaluate the problems on a batch."""
    spans = row_spans(len(batch.labels), min(SPAN_ROWS, cached_rows(len(weights))))
    parts = in_threads(partial(_evaluate_span, held_out, weights, batch), spans)
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def _evaluate_span(held_out: Indices, weights: Floats, batch: FeatureBatch, span: slice) -> Evaluation:
    features = batch.features[span].astype(np.float64, copy=False)
    n_rows, (size, n_problems, n_columns) = len(features), weights.shape
    flat = weights.reshape(size, -1)
    scores = (features @ flat[:-1] + flat[-1]).reshape(n_rows, n_problems, n_columns)
    losses, residuals = _losses(scores, batch.labels[span])
    seen = batch.folds[span, None] != held_out
    row_weights = batch.weights[span, None] * seen
    residuals *= row_weights[:, :, None]
    pulls = residuals.reshape(n_rows, -1)
    gradients = np.vstack([features.T @ pulls, pulls.sum(axis=0)]).reshape(weights.shape)
    own = batch.counts[span, None] * ~seen
    return Evaluation(
        (row_weights * losses).sum(axis=0),
        gradients,
        row_weights.sum(axis=0),
        (own * np.minimum(losses, LARGEST_LOSS)).sum(axis=0),
        own.sum(axis=0),
    )


def _losses(scores: Floats, labels: Indices) -> tuple[Floats, Floats]:
    """Return log losses (n_rows, n_problems) and their derivatives by the scores, which are overwritten."""
    if scores.shape[2] == 1:
        is_second = (labels == 1)[:, None]
        losses = np.logaddexp(0.0, np.where(is_second, -scores[:, :, 0], scores[:, :, 0]))
        return losses, expit(scores) - is_second[:, :, None]
    rows = np.arange(len(labels))
    own = scores[rows, :, labels].copy()
    largest = scores.max(axis=2)
    scores -= largest[:, :, None]
    np.exp(scores, out=scores)
    sums = scores.sum(axis=2)
    scores /= sums[:, :, None]
    scores[rows, :, labels] -= 1.0
    return np.log(sums) + (largest - own), scores
