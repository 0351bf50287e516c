# SPDX-License-Identifier: BSD-3-Clause
r"""Newton's method for any loss, along a path of penalties and for the problems of all folds at a time.

.. math:: f(W) = \tfrac12 |W|^2 + C \sum_i s_i \, \ell(y_i, W^T z(x_i) + b)

A problem leaves out the rows of one fold, or none. Gradients come from a pass over all rows, in float64. The Newton
system is solved by conjugate gradients on rows that are held, in float32 (`curvature`): an inexact direction costs
steps, not digits. Where the rows do not fit into memory, the held ones are a sample.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bochner.feature_models.curvature import Curvature, cached_rows
from bochner.feature_models.folds import NO_FOLD, passed_minimum
from bochner.linalg import inner
from bochner.losses import Loss
from bochner.progress import progress_bar
from bochner.rows import Batch, Floats, Indices, in_threads, row_spans
from bochner.rows.block_sizes import MAX_SPAN_ROWS

__all__ = ["NewtonProblems", "Path", "solve_all_rows"]

MAX_STEPS = 100
MAX_SECANTS = 20
RESIDUAL = 0.1  # of a Newton system, relative to the gradient
LAST_RESIDUAL = 0.01  # of the solution on all rows, whose last step cannot be seen in the objective
FIRST_C = 0.01  # up to which Newton's method starts from coefficients 0
ROUGH_TOLERANCE = 1e-3
# Predicted decrease of the last step, relative to the objective; what is left after it is a hundredth of that or less.
PATH_TOLERANCE = 1e-4  # serves the choice of C
TOLERANCE = 1e-17
PASS_TOLERANCE = 1e-9  # where a step needs a pass over rows that are not held
RESOLUTION = 1e-13  # predicted decrease, relative, that cannot be seen in the objective
PATIENCE = 4  # steps below the resolution that do not halve the smallest predicted decrease
ROUNDING = 1e-12  # of an objective, relative
ALL_ROWS = np.array([NO_FOLD])


class Evaluation(NamedTuple):
    """The losses of some problems over some rows.

    Attributes
    ----------
    sums : ndarray of shape (4, n_problems)
        Weighted losses and weights of training rows, and weighted errors and weights of held-out rows.
    gradients : ndarray of shape (width + 1, n_problems, n_outputs)
        Gradients of the weighted losses; last, those of the intercepts.
    """

    sums: Floats
    gradients: Floats

    def __add__(self, other: "Evaluation") -> "Evaluation":  # type: ignore[override]
        return Evaluation(self.sums + other.sums, self.gradients + other.gradients)

    def select(self, problems: Indices) -> "Evaluation":
        """Return the evaluation of some of the problems."""
        return Evaluation(self.sums[:, problems], self.gradients[:, problems])

    def update(self, problems: Indices, now: "Evaluation") -> None:
        """Replace the evaluation of some of the problems."""
        self.sums[:, problems], self.gradients[:, problems] = now


class Path(NamedTuple):
    """The solutions along a path of C.

    Attributes
    ----------
    errors : ndarray of shape (n_Cs, n_folds)
        Mean errors on the folds; NaN for values of C beyond the minimum.
    weights : ndarray of shape (n_Cs, width + 1, n_outputs)
        Solutions on all rows.
    """

    errors: Floats
    weights: Floats


def solve_all_rows(
    batch: Batch, loss: Loss, C: float, start: Floats, accumulate: Callable[[Callable[[Batch], Any]], Any]
) -> Floats:
    """Return coefficients and intercepts (width + 1, n_outputs) on rows that are not held.

    Parameters
    ----------
    batch : Batch
        The features of a sample of the rows.
    loss : Loss
        The loss.
    C : float
        The factor of the sum of the losses.
    start : ndarray of shape (width + 1, n_outputs)
        Where to start: the solution on the sample.
    accumulate : callable
        A pass over all rows: adds up the statistics that a function computes of batches of features.
    """
    problems = NewtonProblems(batch, loss, start.shape[1], accumulate)
    return problems.solve(C, ALL_ROWS, start[:, None], PASS_TOLERANCE)[0][:, 0]


class NewtonProblems:
    """Problems that differ in the fold which they leave out.

    Parameters
    ----------
    batch : Batch
        The features, targets, weights and folds of all rows, or of a sample of the rows.
    loss : Loss
        The loss.
    n_outputs : int
        Number of outputs.
    accumulate : callable, default=None
        A pass over all rows, if `batch` is a sample of them.
    """

    def __init__(
        self,
        batch: Batch,
        loss: Loss,
        n_outputs: int,
        accumulate: Callable[[Callable[[Batch], Any]], Any] | None = None,
    ) -> None:
        self.batch, self.loss, self.n_outputs = batch, loss, n_outputs
        self.width = batch.X.shape[1]
        self.curvature = Curvature(batch, loss, is_sample=accumulate is not None)
        self.accumulate = accumulate or (lambda statistic: statistic(batch))

    def start(self, held_out: Indices) -> Floats:
        """Return coefficients 0 and the intercepts of good constant predictions (width + 1, n_problems, n_outputs)."""
        weights = np.zeros((self.width + 1, len(held_out), self.n_outputs))
        for number, fold in enumerate(held_out.tolist()):
            rows = self.batch.fold_of != fold
            weights[-1, number] = self.loss.start(self.batch.y[rows], self.batch.loss_weight[rows], self.n_outputs)
        return weights

    def follow(self, n_folds: int, Cs: Floats) -> Path:
        """Solve on all rows and without each fold, for increasing C until the error has passed its minimum."""
        folds = np.arange(n_folds)
        whole, parts = self.start(ALL_ROWS), self.start(folds)
        errors = np.full((len(Cs), n_folds), np.nan)
        weights = np.zeros((len(Cs), len(whole), self.n_outputs))
        order = np.argsort(Cs).tolist()
        with progress_bar("choosing the penalty", len(Cs)) as advance:
            for number, step in enumerate(order):
                C = float(Cs[step])
                for waypoint in _waypoints(float(Cs[order[number - 1]]) if number else FIRST_C, C):
                    whole, _ = self.solve(waypoint, ALL_ROWS, whole, ROUGH_TOLERANCE)
                    parts, _ = self.solve(waypoint, folds, parts, ROUGH_TOLERANCE)
                before, (whole, _) = whole, self.solve(C, ALL_ROWS, whole, PATH_TOLERANCE)
                # The solutions without a fold move along with that on all rows.
                parts, last = self.solve(C, folds, parts + (whole - before), PATH_TOLERANCE)
                errors[step] = last.sums[2] / last.sums[3]
                weights[step] = whole[:, 0]
                advance(1)
                if passed_minimum(errors[order[: number + 1]]):
                    advance(len(Cs) - number - 1)
                    break
        return Path(errors, weights)

    def finish(self, C: float, start: Floats | None) -> Floats:
        """Return coefficients and intercepts (width + 1, n_outputs) on all rows, from a point of a path or from 0."""
        if start is None:
            weights = self.start(ALL_ROWS)
            for waypoint in _waypoints(FIRST_C, C):
                weights, _ = self.solve(waypoint, ALL_ROWS, weights, ROUGH_TOLERANCE)
        else:
            weights = start[:, None]
        return self.solve(C, ALL_ROWS, weights, TOLERANCE)[0][:, 0]

    def solve(self, C: float, held_out: Indices, start: Floats, tolerance: float) -> tuple[Floats, Evaluation]:
        """Return the optimal weights (width + 1, n_problems, n_outputs) for C, and their evaluation.

        A problem is solved after a step whose predicted decrease was below `tolerance`, relative to its objective.
        """
        weights, done = start.copy(), self._evaluate(held_out, start)
        moving, least = np.arange(len(held_out)), np.full(len(held_out), np.inf)
        n_stalled = np.zeros(len(held_out), dtype=np.intp)
        secants: list[_Secant] = []
        for _ in range(MAX_STEPS):
            now = done.select(moving)
            origin, objective = weights[:, moving], self._objective(C, weights[:, moving], now.sums[0])
            gradients = self._gradients(C, origin, now)
            newton = partial(
                self.curvature.directions,
                *(C, held_out[moving], origin),
                row_weights=now.sums[1],
                residual=LAST_RESIDUAL if tolerance == TOLERANCE else RESIDUAL,
            )
            directions = _corrected(newton, gradients, secants)
            decrease = -inner(gradients, directions)
            reached, now = self._search(C, held_out[moving], origin, directions, objective, decrease)
            weights[:, moving] = reached
            done.update(moving, now)
            n_stalled[moving] = np.where(decrease < 0.5 * least[moving], 0, n_stalled[moving] + 1)
            least[moving] = np.minimum(decrease, least[moving])
            is_visible = decrease > RESOLUTION * objective
            still = (decrease > tolerance * objective) & (is_visible | (n_stalled[moving] < PATIENCE))
            if self.curvature.is_sample:
                last = _Secant(reached - origin, self._gradients(C, reached, now) - gradients)
                recent = [*secants[1 - MAX_SECANTS :], last]
                secants = [_Secant(moved[:, still], changed[:, still]) for moved, changed in recent]
            moving = moving[still]
            if not len(moving):
                break
        else:
            warnings.warn(
                f"{len(moving)} of {len(held_out)} problems did not converge in {MAX_STEPS} steps at C={C:g}; use a "
                f"larger penalty.",
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
            too_far = np.flatnonzero(~(self._objective(C, reached, done.sums[0]) <= allowed))
            if not len(too_far):
                break
            lengths[too_far] *= 0.3
            reached[:, too_far] = (origin + lengths[:, None] * directions)[:, too_far]
            done.update(too_far, self._evaluate(held_out[too_far], reached[:, too_far]))
        return reached, done

    def _evaluate(self, held_out: Indices, weights: Floats) -> Evaluation:
        result: Evaluation = self.accumulate(partial(_evaluate, self.loss, held_out, weights))
        return result

    @property
    def _penalized(self) -> slice:
        return slice(None if self.loss.penalizes_intercept else self.width)

    def _gradients(self, C: float, weights: Floats, done: Evaluation) -> Floats:
        gradients = C * done.gradients
        gradients[self._penalized] += weights[self._penalized]
        return gradients

    def _objective(self, C: float, weights: Floats, losses: Floats) -> Floats:
        with np.errstate(over="ignore"):  # of a step that is too long
            return np.asarray(0.5 * np.square(weights[self._penalized]).sum(axis=(0, 2)) + C * losses)


def _waypoints(before: float, C: float) -> list[float]:
    """Return values of C between two others: from one decade to the next, Newton's method needs few steps."""
    n_decades = max(1, int(np.ceil(np.log10(C / before) - 1e-9)))
    waypoints: list[float] = np.geomspace(before, C, n_decades + 1)[1:-1].tolist()
    return waypoints


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


def _evaluate(loss: Loss, held_out: Indices, weights: Floats, batch: Batch) -> Evaluation:
    """Evaluate the problems on a batch."""
    spans = row_spans(len(batch.y), min(MAX_SPAN_ROWS, cached_rows(len(weights))))
    parts = in_threads(partial(_evaluate_span, loss, held_out, weights, batch), spans)
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def _evaluate_span(loss: Loss, held_out: Indices, weights: Floats, batch: Batch, span: slice) -> Evaluation:
    features, targets, sample_weight, fold_of, loss_weight = (column[span] for column in batch)
    features = features.astype(np.float64, copy=False)
    flat = weights.reshape(len(weights), -1)
    scores = (features @ flat[:-1] + flat[-1]).reshape(len(features), *weights.shape[1:])
    losses, slopes = loss.evaluate(targets, scores)
    seen = fold_of[:, None] != held_out
    row_weights, own = loss_weight[:, None] * seen, sample_weight[:, None] * ~seen
    errors = loss.errors(targets, scores) if own.any() else np.zeros_like(own)
    with np.errstate(over="ignore", invalid="ignore"):  # of steps that are too long, which are shortened
        slopes *= row_weights[:, :, None]
        pulls = slopes.reshape(len(features), -1)
        sums = np.stack([(row_weights * losses).sum(axis=0), row_weights.sum(axis=0)])
        held_out_sums = np.stack([(own * errors).sum(axis=0), own.sum(axis=0)])
        gradients = np.vstack([features.T @ pulls, pulls.sum(axis=0)]).reshape(weights.shape)
    return Evaluation(np.vstack([sums, held_out_sums]), gradients)
