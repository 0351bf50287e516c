# SPDX-License-Identifier: BSD-3-Clause
r"""Newton's method for any loss, along a path of penalties and for the problems of all folds at a time.

.. math:: f(W) = \tfrac12 |W|^2 + C \sum_i s_i \, \ell(y_i, W^T z(x_i) + b)

A problem leaves out the rows of one fold, or none. Gradients come from a pass over all rows, in float64. The Newton
system is solved by conjugate gradients on rows that are held, in float32 (`curvature`): an inexact direction costs
steps, not digits. Where the rows do not fit into memory, the held ones are a sample.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bochner.feature_models.curvature import SPAN_ROWS, Curvature, cached_rows, inner
from bochner.feature_models.feature_passes import Accumulate, FeatureBatch
from bochner.feature_models.folds import NO_FOLD, passed_minimum
from bochner.losses import Loss
from bochner.progress import progress_bar
from bochner.rows import Floats, Indices, in_threads, row_spans

__all__ = ["NewtonProblems", "Path", "solve_one", "walk"]

MAX_STEPS = 100
MAX_SECANTS = 20
RESIDUAL = 0.1  # of a Newton system, relative to the gradient
LAST_RESIDUAL = 0.01  # of the solution on all rows, whose last step cannot be seen in the objective
FIRST_C = 0.01  # up to which Newton's method starts from coefficients 0
ROUGH_TOLERANCE = 1e-3
PATH_TOLERANCE = 1e-5  # predicted decrease of the last step, relative to the objective; it serves the choice of C
TOLERANCE = 1e-17
RESOLUTION = 1e-14  # predicted decrease, relative, that cannot be seen in the objective
PATIENCE = 4  # steps below the resolution that do not halve the smallest predicted decrease
ROUNDING = 1e-12  # of an objective, relative
ALL_ROWS = np.array([NO_FOLD])


@dataclass(frozen=True)
class Evaluation:
    """The losses of some problems over some rows.

    Attributes
    ----------
    losses : ndarray of shape (n_problems,)
        Sums of weighted losses over training rows.
    gradients : ndarray of shape (width + 1, n_problems, n_outputs)
        Their gradients; last, those of the intercepts.
    weights : ndarray of shape (n_problems,)
        Total weights of training rows.
    held_out, totals : ndarray of shape (n_problems,)
        Sums of errors over the held-out rows, and their total weights.
    """

    losses: Floats
    gradients: Floats
    weights: Floats
    held_out: Floats
    totals: Floats

    def __add__(self, other: "Evaluation") -> "Evaluation":
        return Evaluation(
            *(own + others for own, others in zip(vars(self).values(), vars(other).values(), strict=True))
        )

    def select(self, problems: Indices) -> "Evaluation":
        """Return the evaluation of some of the problems."""
        return Evaluation(
            *(array[..., problems, :] if array.ndim == 3 else array[problems] for array in vars(self).values())
        )

    def update(self, problems: Indices, now: "Evaluation") -> "Evaluation":
        """Return the evaluation with that of some of the problems replaced."""
        result = replace(self, **{name: value.copy() for name, value in vars(self).items()})
        for name, value in vars(now).items():
            array = getattr(result, name)
            array[(slice(None), problems) if array.ndim == 3 else problems] = value
        return result


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


def walk(problems: "NewtonProblems", n_folds: int, Cs: Floats) -> Path:
    """Solve on all rows and without each fold, for increasing C until the error on the folds has passed its minimum."""
    folds = np.arange(n_folds)
    whole, parts = problems.start(slice(-1, None)), problems.start(slice(n_folds))
    errors = np.full((len(Cs), n_folds), np.nan)
    weights = np.zeros((len(Cs), len(whole), whole.shape[2]))
    order = np.argsort(Cs).tolist()
    with progress_bar("choosing the penalty", len(Cs)) as advance:
        for number, step in enumerate(order):
            C = float(Cs[step])
            for waypoint in _waypoints(float(Cs[order[number - 1]]) if number else FIRST_C, C):
                whole, _ = problems.solve(waypoint, ALL_ROWS, whole, ROUGH_TOLERANCE)
                parts, _ = problems.solve(waypoint, folds, parts, ROUGH_TOLERANCE)
            before, (whole, _) = whole, problems.solve(C, ALL_ROWS, whole, PATH_TOLERANCE)
            # The solutions without a fold move along with that on all rows.
            parts, last = problems.solve(C, folds, parts + (whole - before), PATH_TOLERANCE)
            errors[step] = last.held_out / last.totals
            weights[step] = whole[:, 0]
            advance(1)
            if passed_minimum(errors[order[: number + 1]]):
                advance(len(Cs) - number - 1)
                break
    return Path(errors, weights)


def solve_one(problems: "NewtonProblems", C: float, path: Path | None = None, position: int = 0) -> Floats:
    """Return coefficients and intercepts (width + 1, n_outputs) on all rows, starting from a path if there is one."""
    if path is not None:
        return problems.solve(C, ALL_ROWS, path.weights[position][:, None], TOLERANCE)[0][:, 0]
    weights = problems.start(slice(-1, None))
    for waypoint in _waypoints(FIRST_C, C):
        weights, _ = problems.solve(waypoint, ALL_ROWS, weights, ROUGH_TOLERANCE)
    return problems.solve(C, ALL_ROWS, weights, TOLERANCE)[0][:, 0]


def _waypoints(before: float, C: float) -> list[float]:
    """Return values of C between two others: from one decade to the next, Newton's method needs few steps."""
    n_decades = max(1, int(np.ceil(np.log10(C / before) - 1e-9)))
    waypoints: list[float] = np.geomspace(before, C, n_decades + 1)[1:-1].tolist()
    return waypoints


@dataclass
class NewtonProblems:
    """Problems that differ in the fold which they leave out.

    Parameters
    ----------
    accumulate : callable
        A pass over all rows: adds up the statistics that a function computes of batches.
    curvature : Curvature
        The rows that Hessians are computed from.
    loss : Loss
        The loss.
    intercepts : ndarray of shape (n_folds + 1, n_outputs)
        Scores of good constant predictions without each fold, and for all rows.
    width : int
        Number of features.
    """

    accumulate: Accumulate
    curvature: Curvature
    loss: Loss
    intercepts: Floats
    width: int

    def start(self, problems: slice) -> Floats:
        """Return coefficients 0 and the intercepts of constant predictions, for some of the problems."""
        intercepts = self.intercepts[problems]
        return np.concatenate([np.zeros((self.width, *intercepts.shape)), intercepts[None]])

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
            origin, objective = weights[:, moving], self._objective(C, weights[:, moving], now.losses)
            gradients = self._gradients(C, origin, now)
            newton = partial(
                self.curvature.directions,
                *(C, held_out[moving], origin),
                row_weights=now.weights,
                residual=LAST_RESIDUAL if tolerance == TOLERANCE else RESIDUAL,
            )
            directions = _corrected(newton, gradients, secants)
            decrease = -inner(gradients, directions)
            reached, now = self._search(C, held_out[moving], origin, directions, objective, decrease)
            weights[:, moving] = reached
            done = done.update(moving, now)
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
            too_far = np.flatnonzero(~(self._objective(C, reached, done.losses) <= allowed))
            if not len(too_far):
                break
            lengths[too_far] *= 0.3
            reached[:, too_far] = (origin + lengths[:, None] * directions)[:, too_far]
            done = done.update(too_far, self._evaluate(held_out[too_far], reached[:, too_far]))
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
        return np.asarray(0.5 * np.square(weights[self._penalized]).sum(axis=(0, 2)) + C * losses)


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


def _evaluate(loss: Loss, held_out: Indices, weights: Floats, batch: FeatureBatch) -> Evaluation:
    """Evaluate the problems on a batch."""
    spans = row_spans(len(batch.targets), min(SPAN_ROWS, cached_rows(len(weights))))
    parts = in_threads(partial(_evaluate_span, loss, held_out, weights, batch), spans)
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def _evaluate_span(loss: Loss, held_out: Indices, weights: Floats, batch: FeatureBatch, span: slice) -> Evaluation:
    features, targets = batch.features[span].astype(np.float64, copy=False), batch.targets[span]
    n_rows, flat = len(features), weights.reshape(len(weights), -1)
    scores = (features @ flat[:-1] + flat[-1]).reshape(n_rows, *weights.shape[1:])
    losses, slopes = loss.evaluate(targets, scores)
    seen = batch.folds[span, None] != held_out
    row_weights = batch.weights[span, None] * seen
    own = batch.counts[span, None] * ~seen
    errors = loss.errors(targets, scores) if own.any() else np.zeros_like(own)
    with np.errstate(over="ignore", invalid="ignore"):  # of steps that are too long, which are shortened
        slopes *= row_weights[:, :, None]
        pulls = slopes.reshape(n_rows, -1)
        return Evaluation(
            (row_weights * losses).sum(axis=0),
            np.vstack([features.T @ pulls, pulls.sum(axis=0)]).reshape(weights.shape),
            row_weights.sum(axis=0),
            (own * errors).sum(axis=0),
            own.sum(axis=0),
        )
