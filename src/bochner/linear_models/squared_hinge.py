# SPDX-License-Identifier: BSD-3-Clause
r"""The L2-loss support vector machine in the primal, for many problems at a time.

.. math:: f(w) = \tfrac12 |w|^2 + C \sum_i s_i \max(0, 1 - y_i \, w \cdot a_i)^2, \quad a = [z, 1],

This is liblinear's objective; the intercept is penalized with the other coefficients. f is piecewise quadratic, and
Newton's method with the Hessian :math:`I + 2 C \sum_{active} s_i a_i a_i^T` converges in a few steps. Problems (one
class against the rest, on the rows outside a fold) share every pass over the rows. A Hessian is corrected by the rows
that became active or inactive since the last pass; along a path of C that costs as much as computing it once or twice.
"""

import warnings
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from bochner.linear_models.feature_passes import Accumulate, FeatureBatch
from bochner.linear_models.folds import NO_FOLD, search_path
from bochner.progress import progress_bar
from bochner.rows import Array, Floats, Indices, Mask, in_threads, row_spans, sum_over_spans

__all__ = ["HESSIAN_BYTES", "Path", "solve_one", "walk"]

HESSIAN_BYTES = 1 << 30
MAX_STEPS = 100
JITTERS = (0.0, 1e-15, 1e-13, 1e-11)
PATH_TOLERANCE = 1e-10  # predicted decrease, relative to the objective, below which no step is taken
TOLERANCE = 1e-15
LENGTHS = np.geomspace(1e-8, 1.0, 60)  # of a step, where a whole one goes too far
SPAN_ROWS = 4096  # rows per thread and matrix product


@dataclass(frozen=True)
class ByNumber:
    """Matrices by the number of a fold or of a problem; sums are taken number by number."""

    matrices: dict[int, Floats]

    def __add__(self, other: "ByNumber") -> "ByNumber":
        own = self.matrices
        return ByNumber(own | {key: own[key] + value if key in own else value for key, value in other.matrices.items()})


@dataclass(frozen=True)
class Evaluation:
    """The losses of all problems over some rows.

    Attributes
    ----------
    losses : ndarray of shape (n_problems,)
        Sums of weighted squared slacks.
    slopes : ndarray of shape (width + 1, n_problems)
        Half their negative gradients.
    wrong, total : ndarray of shape (n_folds,)
        Weights of the misclassified and of all rows of the held-out folds.
    corrections : ByNumber
        Changes of the Hessians, by the number of the problem.
    """

    losses: Floats
    slopes: Floats
    wrong: Floats
    total: Floats
    corrections: ByNumber

    def __add__(self, other: "Evaluation") -> "Evaluation":
        return Evaluation(
            self.losses + other.losses,
            self.slopes + other.slopes,
            self.wrong + other.wrong,
            self.total + other.total,
            self.corrections + other.corrections,
        )


class Path(NamedTuple):
    """The solutions along a path of C.

    Attributes
    ----------
    errors : ndarray of shape (n_Cs, n_folds)
        Shares of misclassified rows of the folds; NaN for values of C that were not tried.
    starts : ndarray of shape (n_Cs, width + 1, n_targets)
        Mean weights over the folds, which are close to those of all rows.
    gram : ndarray of shape (width + 1, width + 1) or None
        Sum of s a a' over all rows.
    """

    errors: Floats
    starts: Floats
    gram: Floats | None


def walk(accumulate: Accumulate, n_folds: int, n_targets: int, Cs: Floats, max_bytes: int = HESSIAN_BYTES) -> Path:
    """Solve the problems of all folds and classes for the values of C that `search_path` chooses.

    Parameters
    ----------
    accumulate : callable
        A pass over all rows: adds up the statistics that a function computes of batches.
    n_folds : int
        Folds are numbered from 0; rows of fold -1 are always trained on.
    n_targets : int
        Problems per fold: one for two classes (label 1 against label 0), else one per class, against the rest.
    Cs : ndarray of shape (n_Cs,)
        Values of C, in any order.
    max_bytes : int, default=2**30
        Size of the Hessians of problems that are solved at a time, unless those of a single fold are larger.
    """
    grams = _fold_grams(accumulate, n_folds)
    total = grams.sum(axis=0)
    errors, starts = np.full((len(Cs), n_folds), np.nan), np.zeros((len(Cs), len(total), n_targets))
    groups = row_spans(n_folds, max(1, max_bytes // (n_targets * total.nbytes)))
    order = np.argsort(Cs).tolist()
    with progress_bar("choosing C", len(groups) * len(Cs)) as advance:
        for group in groups:
            folds = np.arange(n_folds)[group]
            problems = Problems(accumulate, folds, n_targets, total - grams[folds])

            def evaluate(position: int, folds: Indices = folds, problems: Problems = problems) -> Floats:
                step = order[position]
                weights = problems.solve(float(Cs[step]))
                errors[step, folds] = problems.errors
                starts[step] += weights.reshape(len(total), len(folds), n_targets).sum(axis=1) / n_folds
                advance(1)
                return problems.errors

            if len(groups) == 1:
                search_path(len(Cs), evaluate)
            else:  # whether the errors have passed their minimum is known after the last group
                for position in range(len(Cs)):
                    evaluate(position)
    return Path(errors, starts, total)


def solve_one(accumulate: Accumulate, n_targets: int, C: float, path: Path | None = None, position: int = 0) -> Floats:
    """Return the weights (width + 1, n_targets) for one C on all rows, starting from a path over folds if there is one.

    Parameters
    ----------
    accumulate : callable
        A pass over all rows.
    n_targets : int
        Number of problems.
    C : float
        The value of C.
    path : Path, default=None
        The path over folds.
    position : int, default=0
        The position of C on the path.
    """
    gram = _fold_grams(accumulate, 0)[0] if path is None or path.gram is None else path.gram
    problems = Problems(accumulate, np.array([NO_FOLD]), n_targets, gram[None])
    return problems.solve(C, None if path is None else path.starts[position], TOLERANCE)


def _fold_grams(accumulate: Accumulate, n_folds: int) -> Floats:
    """Return the sums of s a a' over the rows of each fold, and last over those that are always trained on."""
    grams = accumulate(partial(_grams, n_folds)).matrices
    empty = np.zeros_like(next(iter(grams.values())))
    return np.array([grams.get(fold, empty) for fold in range(n_folds + 1)])


def _grams(n_folds: int, batch: FeatureBatch) -> ByNumber:
    grams: dict[int, Floats] = {}
    folds = batch.folds % (n_folds + 1)  # -1 and n_folds are equivalent
    for fold in np.unique(folds).tolist():
        rows = np.flatnonzero(folds == fold)
        spans = [rows[span] for span in row_spans(len(rows), SPAN_ROWS)]
        grams[fold] = reduce(np.add, in_threads(partial(_gram, batch), spans))
    return ByNumber(grams)


def _gram(batch: FeatureBatch, rows: Indices) -> Floats:
    weighted = np.ones((len(rows), batch.features.shape[1] + 1))  # sqrt(s) [z, 1]
    weighted[:, :-1] = batch.features[rows]
    weighted *= np.sqrt(batch.weights[rows, None])
    return np.asarray(weighted.T @ weighted)


def _scores(batch: FeatureBatch, span: slice, weights: Floats) -> Floats:
    """Return w . [z, 1] for every row and column of weights."""
    return np.asarray(batch.features[span].astype(np.float64, copy=False) @ weights[:-1] + weights[-1])


@dataclass
class Problems:
    """One problem for each fold and class: that class against the rest, on the rows outside the fold.

    Parameters
    ----------
    accumulate : callable
        A pass over all rows: adds up the statistics that a function computes of batches.
    held_out : ndarray of shape (n_folds,)
        The fold that each group of problems leaves out; NO_FOLD means that all rows are used.
    n_targets : int
        Number of problems per fold: one for two classes (the second against the first), else one per class.
    grams : ndarray of shape (n_folds, width + 1, width + 1)
        Sums of s a a' over the rows of each group of problems.
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
        # Up to this C no row becomes inactive, so that the first step ends at the optimum.
        self.C = 0.5 / max(float(np.trace(gram)) for gram in self.grams)

    def solve(self, C: float, start: Floats | None = None, tolerance: float = PATH_TOLERANCE) -> Floats:
        """Return the optimal weights (width + 1, n_problems) for C, starting from the last solution or from `start`.

        Large steps along C are divided into decades: from one optimum to the next, Newton's method needs few passes.
        `errors` then holds the share of misclassified rows of each held-out fold.
        """
        if start is not None:
            self._move(start)
            self.C = C
        n_decades = max(0, int(np.ceil(np.log10(C / self.C) - 1e-9)))
        for waypoint in np.geomspace(self.C, C, n_decades + 1)[1:-1].tolist():
            self._descend(waypoint, 1e-3)
        unsolved = self._descend(C, tolerance)
        self.C = C
        if unsolved.any():
            warnings.warn(
                f"{int(unsolved.sum())} of {len(unsolved)} problems did not converge in {MAX_STEPS} steps at C={C:g}; "
                f"leave such large values out of `Cs`.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self.weights

    def _descend(self, C: float, tolerance: float) -> Mask:
        """Take Newton steps until predicted decreases are below `tolerance` of the objectives; return which are not."""
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
        """Return the best of the step lengths LENGTHS for every problem, all tried in one pass."""
        losses = self.accumulate(partial(_losses_along, self.layout, np.hstack([origin, direction])))
        norms = np.array([np.square(origin + t * direction).sum(axis=0) for t in LENGTHS.tolist()])
        return np.asarray(LENGTHS[(0.5 * norms + C * losses).argmin(axis=0)])

    def _objective(self, C: float) -> Floats:
        return np.asarray(0.5 * np.square(self.weights).sum(axis=0) + C * self.losses)

    def _directions(self, C: float, chosen: Mask) -> tuple[Floats, Floats]:
        """Return Newton directions d and the predicted decreases -g'd of the chosen problems, zeros for the others."""
        gradients = self.weights - 2.0 * C * self.slopes
        problems = np.flatnonzero(chosen)

        def direction(problem: int) -> Floats:
            hessian = 2.0 * C * self.hessians[problem]
            diagonal = np.diag(hessian).copy()
            for jitter in JITTERS:  # for a large C, rounding can exceed the unit diagonal of the penalty
                np.fill_diagonal(hessian, diagonal + 1.0 + jitter * diagonal.max())
                try:
                    factor = np.linalg.cholesky(hessian)  # unlike scipy's, it releases the GIL
                except np.linalg.LinAlgError:
                    continue
                return np.asarray(linalg.cho_solve((factor, True), -gradients[:, problem], check_finite=False))
            raise ValueError(f"C={C:g} times the sample weights is too large to solve for; give smaller `Cs`.")

        directions = np.zeros_like(gradients)
        for problem, column in zip(problems, in_threads(direction, problems.tolist()), strict=True):
            directions[:, problem] = column
        return directions, -np.einsum("ij,ij->j", gradients, directions)

    def _move(self, weights: Floats) -> None:
        before, self.weights = self.weights, weights
        self.losses, self.slopes = self._pass(before)

    def _pass(self, before: Floats) -> tuple[Floats, Floats]:
        """Return losses and slopes at `weights`; update held-out errors, and the Hessians from those at `before`."""
        moved = not np.array_equal(before, self.weights)
        both = np.hstack([self.weights, before]) if moved else self.weights
        evaluation: Evaluation = self.accumulate(partial(_evaluate, self.layout, both))
        corrections = evaluation.corrections.matrices

        def correct(problem: int) -> None:
            self.hessians[problem] += corrections[problem]

        list(in_threads(correct, sorted(corrections)))
        wrong, total = evaluation.wrong, evaluation.total
        self.errors = np.divide(wrong, total, out=np.zeros_like(wrong), where=total > 0.0)
        return evaluation.losses, evaluation.slopes


@dataclass(frozen=True)
class _Layout:
    """The order of the problems: one for each held-out fold and class."""

    held_out: Indices
    n_targets: int

    def signs(self, batch: FeatureBatch, span: slice) -> tuple[Floats, Mask]:
        """Return 1 or -1, and whether the problem uses the row, for each row and problem."""
        positive = np.arange(1, 2) if self.n_targets == 1 else np.arange(self.n_targets)
        signs = np.where(batch.labels[span, None] == positive, 1.0, -1.0)
        seen = batch.folds[span, None] != self.held_out
        return np.tile(signs, len(self.held_out)), np.repeat(seen, self.n_targets, axis=1)


def _losses_along(layout: _Layout, both: Floats, batch: FeatureBatch) -> Floats:
    """Return losses (n_lengths, n_problems) at the step lengths LENGTHS; `both` holds the origins, then directions."""

    def part(span: slice) -> Floats:
        signs, seen = layout.signs(batch, span)
        start, slope = np.hsplit(_scores(batch, span, both), 2)
        weights = batch.weights[span]
        slack, slope = np.where(seen, 1.0 - signs * start, -np.inf), np.where(seen, signs * slope, 0.0)
        return np.array([weights @ np.square(np.maximum(slack - t * slope, 0.0)) for t in LENGTHS.tolist()])

    return sum_over_spans(part, len(batch.labels), SPAN_ROWS)


def _evaluate(layout: _Layout, both: Floats, batch: FeatureBatch) -> Evaluation:
    """Evaluate all problems on a batch.

    `both` holds the weights of the problems and, if they have moved, the weights before, from which the corrections of
    the Hessians follow.
    """
    spans = row_spans(len(batch.labels), SPAN_ROWS)
    parts = list(in_threads(partial(_evaluate_span, layout, both, batch), spans))
    losses, slopes, flips, wrong, total = zip(*parts, strict=True)
    corrections = _corrections(batch, np.concatenate(flips))
    return Evaluation(_total(losses), _total(slopes), _total(wrong), _total(total), corrections)


def _total(parts: tuple[Floats, ...]) -> Floats:
    return reduce(np.add, parts)


def _evaluate_span(layout: _Layout, both: Floats, batch: FeatureBatch, span: slice) -> "_SpanEvaluation":
    """Evaluate all problems on a span of rows, and find the rows that became active (1) or inactive (-1)."""
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
    return _SpanEvaluation(losses, slopes, flips, (own * (guesses != labels[:, None])).sum(axis=0), own.sum(axis=0))


def _corrections(batch: FeatureBatch, flips: Array) -> ByNumber:
    """Return the changes of the Hessians by the rows that became active or inactive."""

    def correction(problem: int) -> Floats:
        total: Any = None  # mostly the first term, which is large, alone
        for sign in (1, -1):
            rows = np.flatnonzero(flips[:, problem] == sign)
            for some in row_spans(len(rows), SPAN_ROWS):
                term = _gram(batch, rows[some])
                term = term if sign > 0 else np.negative(term, out=term)
                total = term if total is None else np.add(total, term, out=total)
        return np.asarray(total)

    changed = np.flatnonzero(flips.any(axis=0)).tolist()
    return ByNumber(dict(zip(changed, in_threads(correction, changed), strict=True)))


class _SpanEvaluation(NamedTuple):
    """Losses and slopes per problem, flips per row and problem, weights of wrong and of all rows per held-out fold."""

    losses: Floats
    slopes: Floats
    flips: Array
    wrong: Floats
    total: Floats
