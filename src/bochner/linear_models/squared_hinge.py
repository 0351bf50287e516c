# SPDX-License-Identifier: BSD-3-Clause
r"""The L2-loss support vector machine in the primal, many problems at a time.

.. math:: f(w) = \tfrac12 |w|^2 + C \sum_i s_i \max(0, 1 - y_i \, w \cdot a_i)^2, \quad a = [z, 1],

liblinear's objective, the intercept penalised with the rest. f is piecewise quadratic: Newton's method with the
Hessian :math:`I + 2 C \sum_{active} s_i a_i a_i^T` ends after a handful of steps. Problems (a class against the rest,
on the rows outside a fold) share every pass over the rows, and a Hessian is corrected by the rows that became active
or inactive since the last pass alone; along a path of C that is about as much work as computing it once or twice.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, reduce
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack
from sklearn.exceptions import ConvergenceWarning

from bochner.rows import Array, Floats, Indices, Mask, Sums, in_threads, row_spans, sum_over_spans

__all__ = ["HESSIAN_BYTES", "Accumulate", "Batch", "Path", "solve_one", "walk"]

HESSIAN_BYTES = 1 << 30
MAX_STEPS = 100
JITTERS = (0.0, 1e-15, 1e-13, 1e-11)
TOLERANCE = 1e-10  # of the objective; Newton's last step makes the error smaller still
LENGTHS = np.geomspace(1e-8, 1.0, 60)  # of a step, where a whole one goes too far
GATHERED_ROWS = 4096
NO_FOLD = -2


class Batch(NamedTuple):
    """Some of the rows: features (n, width) and, one a row, labels from 0 on, weights in the loss, counts in the errors
    on held-out rows, and folds.
    """

    features: Array
    labels: Indices
    weights: Floats
    counts: Floats
    folds: Indices


# A pass over all rows: what a function makes of batches, added up key by key.
Accumulate = Callable[[Callable[[Batch], Sums]], Sums]


class Path(NamedTuple):
    """What a walk along C has found.

    Attributes
    ----------
    errors : ndarray of shape (n_Cs, n_folds)
        Misclassified shares of the folds.
    starts : ndarray of shape (n_Cs, width + 1, n_targets)
        Mean weights of the folds' problems, close to those of all rows.
    gram : ndarray of shape (width + 1, width + 1)
        Sum of s a a' over all rows.
    """

    errors: Floats
    starts: Floats
    gram: Floats


def walk(
    accumulate: Accumulate,
    n_folds: int,
    n_targets: int,
    Cs: Floats,
    progress: Callable[[list[int]], Iterable[int]] = lambda steps: steps,
    most_bytes: int = HESSIAN_BYTES,
) -> Path:
    """Solve the problems of all folds and classes for every C, each from the solution of the C below.

    Parameters
    ----------
    accumulate : callable
        A pass over all rows: adds up the sums that a function makes of batches.
    n_folds : int
        Folds are numbered from 0; rows of fold -1 are always trained on.
    n_targets : int
        Problems a fold: one for two classes (label 1 against label 0), else one a class, against the rest.
    Cs : ndarray of shape (n_Cs,)
        Values of C, in any order.
    progress : callable, default=identity
        Wraps the steps, a value of C each, for a progress bar.
    most_bytes : int, default=2**30
        Of the Hessians of problems that are solved at a time, unless a single fold's are more.
    """
    grams = _fold_grams(accumulate, n_folds)
    total = grams.sum(axis=0)
    at_once = max(1, most_bytes // (n_targets * total.nbytes))
    errors, starts = np.zeros((len(Cs), n_folds)), np.zeros((len(Cs), len(total), n_targets))
    groups = row_spans(n_folds, at_once)
    steps = iter(progress([int(step) for _ in groups for step in np.argsort(Cs)]))
    for group in groups:
        folds = np.arange(n_folds)[group]
        problems = Problems(accumulate, folds, n_targets, total - grams[folds])
        for step in islice(steps, len(Cs)):
            weights = problems.solve(float(Cs[step]))
            errors[step, folds] = problems.errors
            starts[step] += weights.reshape(len(total), len(folds), n_targets).sum(axis=1) / n_folds
    next(steps, None)  # the bar is done
    return Path(errors, starts, total)


def solve_one(accumulate: Accumulate, n_targets: int, C: float, path: Path | None = None, place: int = 0) -> Floats:
    """The weights (width + 1, n_targets) for one C on all rows, from where a walk over folds ended if there was one."""
    gram = _fold_grams(accumulate, 0)[0] if path is None else path.gram
    problems = Problems(accumulate, np.array([NO_FOLD]), n_targets, gram[None])
    return problems.solve(C, None if path is None else path.starts[place])


def _fold_grams(accumulate: Accumulate, n_folds: int) -> Floats:
    """Sums of s a a' over the rows of each fold, and last over those that are always trained on."""
    sums = accumulate(partial(_grams, n_folds))
    if not sums:
        raise ValueError("There are no rows to learn from.")
    nothing = np.zeros_like(next(iter(sums.values())))
    return np.array([sums.get(fold, nothing) for fold in range(n_folds + 1)])


def _grams(n_folds: int, batch: Batch) -> Sums:
    sums: Sums = {}
    folds = batch.folds % (n_folds + 1)  # -1 and the last are one
    for fold in np.unique(folds).tolist():
        rows = np.flatnonzero(folds == fold)
        spans = [rows[span] for span in row_spans(len(rows), GATHERED_ROWS)]
        sums[fold] = reduce(np.add, in_threads(partial(_gram, batch), spans))
    return sums


def _gram(batch: Batch, rows: Indices) -> Floats:
    gathered = _gathered(batch, rows)
    return np.asarray(gathered.T @ gathered)


def _scores(batch: Batch, span: slice, weights: Floats) -> Floats:
    """w . [z, 1] for every row and column of weights."""
    return np.asarray(batch.features[span].astype(np.float64, copy=False) @ weights[:-1] + weights[-1])


def _gathered(batch: Batch, rows: Indices) -> Floats:
    """sqrt(s) [z, 1] for some rows."""
    gathered = np.ones((len(rows), batch.features.shape[1] + 1))
    gathered[:, :-1] = batch.features[rows]
    gathered *= np.sqrt(batch.weights[rows, None])
    return gathered


@dataclass
class Problems:
    """One problem for each fold and class: that class against the rest, on the rows outside the fold.

    Parameters
    ----------
    accumulate : callable
        A pass over all rows: adds up the sums that a function makes of batches.
    held_out : ndarray of shape (n_folds,)
        The fold that each group of problems does not see; NO_FOLD means that it sees all rows.
    n_targets : int
        Number of problems a fold: one for two classes (the second against the first), else one a class.
    grams : ndarray of shape (n_folds, width + 1, width + 1)
        Sums of s a a' over the rows that each group of problems sees.
    """

    accumulate: Accumulate
    held_out: Indices
    n_targets: int
    grams: Floats

    def __post_init__(self) -> None:
        self.layout = _Layout(self.held_out, self.n_targets)
        n_problems, width = len(self.held_out) * self.n_targets, self.grams.shape[1]
        self.weights = np.zeros((width, n_problems))
        # At w = 0 every row is active.
        self.hessians = [gram.copy() for gram in self.grams for _ in range(self.n_targets)]
        self.losses, self.slopes = self._pass(self.weights)
        # Up to here no row has become inactive: the first step ends at the optimum.
        self.C = 0.5 / max(float(np.trace(gram)) for gram in self.grams)

    def solve(self, C: float, start: Floats | None = None) -> Floats:
        """Go from where the last call ended (or from `start`) to the optimum for C; weights (width + 1, n_problems).

        Far steps along C are divided into decades: from one optimum to the next, Newton's method needs few passes.
        `errors` then has the misclassified share of each fold's own rows.
        """
        if start is not None:
            self._move(start)
            self.C = C
        n_decades = max(0, int(np.ceil(np.log10(C / self.C) - 1e-9)))
        for waypoint in np.geomspace(self.C, C, n_decades + 1)[1:-1].tolist():
            self._descend(waypoint, 1e-3)
        unsolved = self._descend(C, TOLERANCE)
        self.C = C
        if unsolved.any():
            warnings.warn(
                f"{int(unsolved.sum())} of {len(unsolved)} problems did not converge in {MAX_STEPS} steps at C={C:g}; "
                f"leave such large values of `Cs` out.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self.weights

    def _descend(self, C: float, tolerance: float) -> Mask:
        """Newton steps until the promised decreases are below `tolerance` of the objectives; which are not, then."""
        origin, objective = self.weights, self._objective(C)
        direction, decrement = self._directions(C, np.ones(len(objective), dtype=bool))
        stuck = np.zeros(len(objective), dtype=bool)  # where rounding allows no further decrease
        for _ in range(MAX_STEPS):
            moving = (decrement > tolerance * objective) & ~stuck
            if not moving.any():
                break
            self._move(origin + moving * direction)
            too_far = moving & (self._objective(C) > objective - 1e-4 * decrement)
            if too_far.any():
                lengths = np.where(too_far, self._best_lengths(C, origin, direction), moving)
                self._move(origin + lengths * direction)
            reached = self._objective(C)
            better = moving & (reached < objective)
            stuck |= moving & ~better
            origin = np.where(better, self.weights, origin)
            objective = np.where(better, reached, objective)
            fresh_direction, fresh_decrement = self._directions(C, better)
            direction = np.where(better, fresh_direction, direction)
            decrement = np.where(better, fresh_decrement, decrement)
        if stuck.any():
            self._move(origin)
        return moving

    def _best_lengths(self, C: float, origin: Floats, direction: Floats) -> Floats:
        """The best of the step lengths LENGTHS for every problem, all tried in one pass."""
        losses = self.accumulate(partial(_losses_along, self.layout, np.hstack([origin, direction])))["losses"]
        norms = np.array([np.square(origin + t * direction).sum(axis=0) for t in LENGTHS.tolist()])
        return np.asarray(LENGTHS[(0.5 * norms + C * losses).argmin(axis=0)])

    def _objective(self, C: float) -> Floats:
        return np.asarray(0.5 * np.square(self.weights).sum(axis=0) + C * self.losses)

    def _directions(self, C: float, chosen: Mask) -> tuple[Floats, Floats]:
        """Newton's directions and the decreases -g'd that they promise, for the chosen problems (others: zeros)."""
        gradients = self.weights - 2.0 * C * self.slopes
        problems = np.flatnonzero(chosen)

        def direction(problem: int) -> Floats:
            hessian = 2.0 * C * self.hessians[problem]
            diagonal = np.diag(hessian).copy()
            for jitter in JITTERS:  # rounding of a large C can outweigh the one of the penalty
                np.fill_diagonal(hessian, diagonal + 1.0 + jitter * diagonal.max())
                try:
                    factor = np.linalg.cholesky(hessian)  # scipy's does not let other threads run
                except np.linalg.LinAlgError:
                    continue
                return np.asarray(lapack.dpotrs(factor.T, -gradients[:, problem], lower=0)[0])
            raise ValueError(f"C={C:g} times the weights of the rows is too large to solve for; give smaller `Cs`.")

        directions = np.zeros_like(gradients)
        for problem, column in zip(problems, in_threads(direction, problems.tolist()), strict=True):
            directions[:, problem] = column
        return directions, -np.einsum("ij,ij->j", gradients, directions)

    def _move(self, weights: Floats) -> None:
        before, self.weights = self.weights, weights
        self.losses, self.slopes = self._pass(before)

    def _pass(self, before: Floats) -> tuple[Floats, Floats]:
        """Losses and slopes at `weights`; Hessians follow from those at `before`; errors on the held-out rows."""
        moved = not np.array_equal(before, self.weights)
        both = np.hstack([self.weights, before]) if moved else self.weights
        sums = self.accumulate(partial(_evaluate, self.layout, both))
        moving = [problem for problem in range(len(self.hessians)) if problem in sums]
        list(in_threads(lambda problem: np.add(self.hessians[problem], sums[problem], self.hessians[problem]), moving))
        wrong, total = sums["wrong"], sums["total"]
        self.errors = np.divide(wrong, total, out=np.zeros_like(wrong), where=total > 0.0)
        return sums["losses"], sums["slopes"]


@dataclass(frozen=True)
class _Layout:
    """Which problems there are: one for each held-out fold and class."""

    held_out: Indices
    n_targets: int

    def signs(self, batch: Batch, span: slice) -> tuple[Floats, Mask]:
        """1 or -1, and whether the problem sees the row, for each row and problem."""
        positive = np.arange(1, 2) if self.n_targets == 1 else np.arange(self.n_targets)
        signs = np.where(batch.labels[span, None] == positive, 1.0, -1.0)
        seen = batch.folds[span, None] != self.held_out
        return np.tile(signs, len(self.held_out)), np.repeat(seen, self.n_targets, axis=1)


def _losses_along(layout: _Layout, both: Floats, batch: Batch) -> Sums:
    """Losses (n_lengths, n_problems) at the step lengths LENGTHS; `both` has the origins, then the directions."""

    def part(span: slice) -> Floats:
        signs, seen = layout.signs(batch, span)
        start, slope = np.hsplit(_scores(batch, span, both), 2)
        weights = batch.weights[span]
        slack, slope = np.where(seen, 1.0 - signs * start, -np.inf), np.where(seen, signs * slope, 0.0)
        return np.array([weights @ np.square(np.maximum(slack - t * slope, 0.0)) for t in LENGTHS.tolist()])

    return {"losses": sum_over_spans(part, len(batch.labels), GATHERED_ROWS)}


def _evaluate(layout: _Layout, both: Floats, batch: Batch) -> Sums:
    """What a batch adds to losses, slopes and errors; and, under a problem's number, to its Hessian.

    `both` has the weights of the problems and, if they have moved, those before, by which a Hessian is corrected.
    """
    losses = slopes = wrong = total = np.zeros(())
    flips: list[Array] = []
    spans = row_spans(len(batch.labels), GATHERED_ROWS)
    for parts in in_threads(partial(_evaluate_span, layout, both, batch), spans):
        losses = losses + parts.losses
        slopes = slopes + parts.slopes
        wrong = wrong + parts.wrong
        total = total + parts.total
        flips.append(parts.flips)
    sums: Sums = {"losses": losses, "slopes": slopes, "wrong": wrong, "total": total}
    return sums | _corrections(batch, np.concatenate(flips))


def _evaluate_span(layout: _Layout, both: Floats, batch: Batch, span: slice) -> "_Parts":
    """What the rows of a span add to the sums, and which of them became active (1) or inactive (-1)."""
    features = batch.features[span].astype(np.float64, copy=False)
    labels, folds, weights = batch.labels[span], batch.folds[span], batch.weights[span]
    n_problems = len(layout.held_out) * layout.n_targets
    signs, seen = layout.signs(batch, span)
    scores = _scores(batch, span, both)
    slack = np.where(seen, 1.0 - signs * scores[:, :n_problems], 0.0)
    np.maximum(slack, 0.0, out=slack)
    pull = weights[:, None] * slack
    losses = np.einsum("ij,ij->j", pull, slack)
    pull *= signs
    slopes = np.vstack([features.T @ pull, pull.sum(axis=0)])
    flips = np.zeros((len(labels), 0), dtype=np.int8)
    if both.shape[1] > n_problems:
        was_active = seen & (signs * scores[:, n_problems:] < 1.0)
        flips = (slack > 0.0).astype(np.int8) - was_active
    by_fold = scores[:, :n_problems].reshape(len(labels), len(layout.held_out), layout.n_targets)
    guesses = (by_fold[:, :, 0] > 0.0).astype(np.intp) if layout.n_targets == 1 else by_fold.argmax(axis=2)
    own = batch.counts[span, None] * (folds[:, None] == layout.held_out)
    return _Parts(losses, slopes, flips, (own * (guesses != labels[:, None])).sum(axis=0), own.sum(axis=0))


def _corrections(batch: Batch, flips: Array) -> Sums:
    """What the rows that became active or inactive change in the Hessians, by the problems' numbers."""

    def correction(problem: int) -> Floats:
        total: Any = None  # large, and mostly the first term
        for sign in (1, -1):
            rows = np.flatnonzero(flips[:, problem] == sign)
            for some in row_spans(len(rows), GATHERED_ROWS):
                term = _gram(batch, rows[some])
                term = term if sign > 0 else np.negative(term, out=term)
                total = term if total is None else np.add(total, term, out=total)
        return np.asarray(total)

    changed = np.flatnonzero(flips.any(axis=0)).tolist()
    return dict(zip(changed, in_threads(correction, changed), strict=True))


class _Parts(NamedTuple):
    """What a span of rows adds: losses and slopes a problem, flips a row and problem, errors and weights a fold."""

    losses: Floats
    slopes: Floats
    flips: Array
    wrong: Floats
    total: Floats
