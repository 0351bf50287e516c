# SPDX-License-Identifier: BSD-3-Clause
r"""The L2-loss support vector machine for many classes, with the features of all rows in memory.

The objective is that of `squared_hinge`. With many classes, a row violates the margin of few of them: the Hessian
:math:`I + 2 C \sum_{active} s_i a_i a_i^T` of one class against the rest has few terms. Newton's systems are solved by
conjugate gradients on the active rows of each class. The inverse Hessian of a class on all rows is the preconditioner
of its problems without a fold, which start from the solution on all rows. Where there are fewer active rows than
columns, systems with one equation per active row are solved exactly.
"""

import warnings
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from bochner.linear_models.feature_passes import FeatureBatch
from bochner.linear_models.folds import NO_FOLD, search_path
from bochner.linear_models.squared_hinge import JITTERS, MAX_STEPS, Path
from bochner.progress import progress_bar
from bochner.rows import Floats, Indices, Mask, in_threads, row_spans, sum_over_spans

__all__ = ["ClassProblems", "solve_classes", "walk_classes"]

SPAN_ROWS = 2048  # rows per thread and matrix product
LARGEST_SHARE = 0.25  # of the rows that are active for a class, up to which they are copied
COPIED_BYTES = 1 << 29  # of active rows that are copied at a time
FEW_EQUATIONS = 1.2  # active rows per column, up to which systems have one equation per active row
PATH_TOLERANCE = 1e-7  # predicted decrease of the last step, relative to the objective
TOLERANCE = 1e-14
RESIDUAL = 0.2  # of a Newton system, relative to the gradient
MAX_PRODUCTS = 25  # conjugate gradient iterations per Newton step
INEXACT_STEPS = 8  # after which systems are solved exactly
FEW_PRODUCTS = 12  # up to which an inverse is kept for the next step
LONGEST_SLOPE = 0.3  # at the end of a step, relative to its start, up to which the whole step is taken
SEARCH_STEPS = 20


def walk_classes(problems: "ClassProblems", n_folds: int, Cs: Floats) -> Path:
    """Solve on all rows and without each fold, for values of C from the middle on, as `search_path` chooses.

    Parameters
    ----------
    problems : ClassProblems
        The rows.
    n_folds : int
        Folds are numbered from 0; rows of fold -1 are always trained on.
    Cs : ndarray of shape (n_Cs,)
        Values of C, in any order.
    """
    order, folds = np.argsort(Cs).tolist(), np.arange(n_folds)
    errors = np.full((len(Cs), n_folds), np.nan)
    starts = np.zeros((len(Cs), problems.width + 1, problems.n_targets))
    whole = problems.start()
    parts = np.repeat(whole, n_folds, axis=1)
    with progress_bar("choosing C", len(Cs)) as advance:

        def evaluate(position: int) -> Floats:
            nonlocal whole, parts
            step = order[position]
            C = float(Cs[step])
            before, whole = whole, problems.solve(C, np.array([NO_FOLD]), whole, PATH_TOLERANCE)
            # The solutions without a fold move along with that on all rows.
            parts = problems.solve(C, folds, parts + (whole - before), PATH_TOLERANCE)
            errors[step] = problems.errors(folds, parts)
            starts[step] = whole[:, 0]
            advance(1)
            return np.asarray(errors[step])

        search_path(len(Cs), evaluate)
    return Path(errors, starts, None)


def solve_classes(problems: "ClassProblems", C: float, path: Path | None = None, position: int = 0) -> Floats:
    """Return the weights (width + 1, n_targets) for one C on all rows, starting from a path over folds if there is one.

    Parameters
    ----------
    problems : ClassProblems
        The rows.
    C : float
        The value of C.
    path : Path, default=None
        The path over folds.
    position : int, default=0
        The position of C on the path.
    """
    start = problems.start() if path is None else path.starts[position][:, None]
    return problems.solve(C, np.array([NO_FOLD]), start, TOLERANCE)[:, 0]


@dataclass
class ClassProblems:
    """Problems of one class against the rest, on all rows or on the rows outside a fold.

    Arrays of weights have the shape (width + 1, n_folds, n_targets), those of scores (n_rows, n_folds, n_targets).

    Parameters
    ----------
    batch : FeatureBatch
        The features of all rows.
    n_targets : int
        Number of classes.
    inverses : dict of int to ndarray of shape (width + 1, width + 1)
        Inverse Hessians of classes on all rows, for some C and active rows before.
    """

    batch: FeatureBatch
    n_targets: int
    inverses: dict[int, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.width = self.batch.features.shape[1]
        self.gram: Floats = sum_over_spans(
            lambda span: _gram(self.batch, np.arange(span.start, span.stop)), len(self.batch.labels), SPAN_ROWS
        )

    def start(self) -> Floats:
        """Return weights 0, from which the first step leads to the solution of least squares: all rows are active."""
        return np.zeros((self.width + 1, 1, self.n_targets))

    def solve(self, C: float, held_out: Indices, start: Floats, tolerance: float) -> Floats:
        """Return the optimal weights for C.

        Parameters
        ----------
        C : float
            The value of C.
        held_out : ndarray of shape (n_folds,)
            The fold that each group of problems leaves out; NO_FOLD means that all rows are used.
        start : ndarray of shape (width + 1, n_folds, n_targets)
            Where to start.
        tolerance : float
            A problem is solved after a step whose predicted decrease was below this share of its objective.
        """
        weights, scores = start.copy(), self._scores(start)
        moving = np.arange(self.n_targets)  # classes with a problem that is not solved
        stale = set(moving.tolist()) if NO_FOLD in held_out else set()
        lowest = np.full(start.shape[1:], np.inf)
        is_slow = np.zeros(self.n_targets, dtype=bool)  # classes for which an inverse was a poor preconditioner
        for step in range(MAX_STEPS):
            system = _NewtonSystem.of(self, C, held_out, weights[:, :, moving], scores[:, :, moving], moving)
            system.is_exact |= is_slow[moving]
            large = moving[system.large].tolist()
            missing = [number for number in large if number in stale or number not in self.inverses]
            self.inverses |= self._invert(C, system, missing)
            directions, n_products = system.solve(self.inverses)
            is_slow[moving] |= (n_products >= MAX_PRODUCTS) | (step >= INEXACT_STEPS)
            stale = set(moving[n_products > FEW_PRODUCTS].tolist()) if NO_FOLD in held_out else set()
            changes = self._scores(directions)
            lengths = system.search(directions, changes)
            weights[:, :, moving] += lengths * directions
            scores[:, :, moving] += lengths * changes
            decrease = -np.einsum("ijk,ijk->jk", system.gradients, directions)
            # Rounding may allow no further decrease.
            unsolved = (decrease > tolerance * system.objectives) & (system.objectives < lowest[:, moving])
            lowest[:, moving] = system.objectives
            moving = moving[unsolved.any(axis=0)]
            if not len(moving):
                break
        else:
            warnings.warn(
                f"{len(moving)} of {self.n_targets} classes did not converge in {MAX_STEPS} steps at C={C:g}; leave "
                f"such large values out of `Cs`.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return weights

    def errors(self, folds: Indices, weights: Floats) -> Floats:
        """Return the share of misclassified rows of each fold."""
        batch = self.batch
        guesses = self._scores(weights).argmax(axis=2)
        own = batch.counts[:, None] * (batch.folds[:, None] == folds)
        return np.asarray((own * (guesses != batch.labels[:, None])).sum(axis=0) / own.sum(axis=0))

    def _scores(self, weights: Floats) -> Floats:
        flat = weights.reshape(len(weights), -1)
        scores = np.empty((len(self.batch.labels), flat.shape[1]))

        def write(span: slice) -> None:
            np.matmul(self.batch.features[span].astype(np.float64, copy=False), flat[:-1], out=scores[span])
            scores[span] += flat[-1]

        list(in_threads(write, row_spans(len(scores), SPAN_ROWS)))
        return scores.reshape(len(scores), *weights.shape[1:])

    def _invert(self, C: float, system: "_NewtonSystem", classes: list[int]) -> dict[int, Floats]:
        """Return the inverse Hessians of some classes, in the first group of problems."""
        positions = np.searchsorted(system.classes, classes).tolist()

        def inverse(position: int) -> Floats:
            active = system.pulls[:, 0, position] > 0.0
            if 2 * np.count_nonzero(active) > len(active):  # fewer rows are inactive
                hessian = self.gram - _gram(self.batch, np.flatnonzero(~active))
            else:
                hessian = _gram(self.batch, np.flatnonzero(active))
            hessian *= 2.0 * C
            factor = _cholesky(hessian, 1.0, C)
            lower = linalg.lapack.dpotri(factor, lower=True, overwrite_c=True)[0]
            return np.asarray(np.tril(lower) + np.tril(lower, -1).T)

        return dict(zip(classes, in_threads(inverse, positions), strict=True))


def _cholesky(matrix: Floats, added: float | Floats, C: float) -> Floats:
    """Return the Cholesky factor of a matrix, which is overwritten, with numbers added to its diagonal."""
    diagonal = np.diag(matrix).copy()
    for jitter in JITTERS:  # for a large C, rounding can exceed what is added
        np.fill_diagonal(matrix, diagonal + added + jitter * diagonal.max())
        try:
            return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)  # scipy's does not release the GIL
        except np.linalg.LinAlgError:
            continue
    raise ValueError(f"C={C:g} times the sample weights is too large to solve for; give smaller `Cs`.")


def _gram(batch: FeatureBatch, rows: Indices) -> Floats:
    """Return the sum of s a a' over some rows."""
    total = np.zeros((batch.features.shape[1] + 1,) * 2)
    for some in row_spans(len(rows), SPAN_ROWS):
        weighted = _with_ones(batch, rows[some])
        weighted *= np.sqrt(batch.weights[rows[some], None])
        total += weighted.T @ weighted
    return total


def _with_ones(batch: FeatureBatch, rows: Indices) -> Floats:
    """Return rows a = [z, 1]."""
    copied = np.ones((len(rows), batch.features.shape[1] + 1))
    copied[:, :-1] = batch.features[rows]
    return copied


@dataclass
class _NewtonSystem:
    """Newton's systems of some classes, on all rows or without each of several folds.

    Attributes
    ----------
    margins : ndarray of shape (n_rows, n_folds, n_classes)
        Signs times scores.
    pulls : ndarray of shape (n_rows, n_folds, n_classes)
        Slacks of the active rows; zero for all others.
    """

    batch: FeatureBatch
    C: float
    classes: Indices
    weights: Floats
    signs: Floats  # (n_rows, 1, n_classes)
    seen: Mask  # (n_rows, n_folds, 1)
    margins: Floats
    pulls: Floats
    copies: dict[int, tuple[Indices, Floats]]  # the active rows of a class, by its position
    dense: Indices  # positions of the other classes
    objectives: Floats
    gradients: Floats
    is_exact: Mask  # whether the systems of each class are solved exactly

    @classmethod
    def of(
        cls, problems: ClassProblems, C: float, held_out: Indices, weights: Floats, scores: Floats, classes: Indices
    ) -> "_NewtonSystem":
        batch = problems.batch
        signs = np.where(batch.labels[:, None] == classes, 1.0, -1.0)[:, None, :]
        seen = (batch.folds[:, None] != held_out)[:, :, None]
        margins = signs * scores
        pulls = np.maximum(1.0 - margins, 0.0)
        pulls *= seen
        losses = np.einsum("i,ijk,ijk->jk", batch.weights, pulls, pulls)
        objectives = 0.5 * np.square(weights).sum(axis=0) + C * losses
        n_active = np.count_nonzero(pulls.any(axis=1), axis=0)
        most = COPIED_BYTES // (8 * len(weights))
        order = np.argsort(n_active, kind="stable")
        few = order[(np.cumsum(n_active[order]) <= most) & (n_active[order] <= LARGEST_SHARE * len(pulls))]
        rows = [np.flatnonzero(pulls[:, :, position].any(axis=1)) for position in few.tolist()]
        copied = in_threads(partial(_with_ones, batch), rows)
        copies = dict(zip(few.tolist(), zip(rows, copied, strict=True), strict=True))
        dense = np.setdiff1d(np.arange(len(classes)), few)
        is_exact = n_active <= FEW_EQUATIONS * len(weights)
        is_exact[dense] = False
        parts = (signs, seen, margins, pulls, copies, dense, objectives)
        system = cls(batch, C, classes, weights, *parts, np.empty(0), is_exact)
        system.gradients = weights - 2.0 * C * system._transposed(batch.weights[:, None, None] * signs * pulls)
        return system

    @property
    def large(self) -> Indices:
        """Positions of the classes that are solved by conjugate gradients."""
        return np.flatnonzero(~self.is_exact)

    def solve(self, inverses: dict[int, Floats]) -> tuple[Floats, Indices]:
        """Return directions, and the largest number of conjugate gradient iterations of each class.

        Parameters
        ----------
        inverses : dict of int to ndarray of shape (width + 1, width + 1)
            Preconditioners of the large classes.
        """
        directions, n_products = np.empty_like(self.gradients), np.zeros(len(self.classes), dtype=np.intp)
        large = self.large
        small = np.flatnonzero(self.is_exact).tolist()
        for position, direction in zip(small, in_threads(self._direction, small), strict=True):
            directions[:, :, position] = direction
        if len(large):
            chosen = [inverses[number] for number in self.classes[large].tolist()]
            directions[:, :, large], n_products[large] = self._conjugate_gradients(large, chosen)
        return directions, n_products

    def _direction(self, position: int) -> Floats:
        r"""Return the exact directions of a class.

        With active rows A, the minimum is :math:`w = A^T (A A^T + \mathrm{diag}(1 / 2 C s))^{-1} y`, or, with fewer
        columns than rows, :math:`w = 2 C (I + 2 C A^T S A)^{-1} A^T S y`.
        """
        if position in self.copies:
            rows, copied = self.copies[position]
        else:
            rows = np.flatnonzero(self.pulls[:, :, position].any(axis=1))
            copied = _with_ones(self.batch, rows)
        result = np.zeros((len(self.weights), self.pulls.shape[1]))
        if not len(rows):
            return np.asarray(result - self.weights[:, :, position])
        few = len(rows) <= FEW_EQUATIONS * len(self.weights)
        products = copied @ copied.T if few else np.empty((0, 0))
        for fold in range(result.shape[1]):
            active = np.flatnonzero(self.pulls[rows, fold, position] > 0.0)
            if not len(active):
                continue
            signs, weights = self.signs[rows[active], 0, position], self.batch.weights[rows[active]]
            if few:
                factor = _cholesky(products[np.ix_(active, active)], 0.5 / (self.C * weights), self.C)
                solution = linalg.cho_solve((factor, True), signs, check_finite=False)
                result[:, fold] = copied[active].T @ solution
            else:
                weighted = copied[active] * np.sqrt(2.0 * self.C * weights)[:, None]
                right = copied[active].T @ (2.0 * self.C * weights * signs)
                factor = _cholesky(weighted.T @ weighted, 1.0, self.C)
                result[:, fold] = linalg.cho_solve((factor, True), right, check_finite=False)
        return np.asarray(result - self.weights[:, :, position])

    def _conjugate_gradients(self, positions: Indices, inverses: list[Floats]) -> tuple[Floats, Indices]:
        """Return directions of some classes up to a residual, and their numbers of iterations."""
        residuals = -self.gradients[:, :, positions]
        solution = np.zeros_like(residuals)
        preconditioned = steps = _multiply(inverses, residuals)
        sizes = np.einsum("ijk,ijk->jk", residuals, preconditioned)
        goal = RESIDUAL**2 * sizes
        n_products = np.zeros(len(positions), dtype=np.intp)
        for _ in range(MAX_PRODUCTS):
            unsolved = sizes > goal
            if not unsolved.any():
                break
            n_products[unsolved.any(axis=0)] += 1
            products = steps + 2.0 * self.C * self._curvature(positions, steps, unsolved.any(axis=0))
            curvatures = np.einsum("ijk,ijk->jk", steps, products)
            lengths = np.divide(sizes, curvatures, out=np.zeros_like(sizes), where=unsolved & (curvatures > 0.0))
            solution += lengths * steps
            residuals = residuals - lengths * products
            preconditioned = _multiply(inverses, residuals)
            before, sizes = sizes, np.where(unsolved, np.einsum("ijk,ijk->jk", residuals, preconditioned), sizes)
            steps = preconditioned + np.divide(sizes, before, out=np.zeros_like(sizes), where=unsolved) * steps
        return solution, n_products

    def _curvature(self, positions: Indices, vectors: Floats, chosen: Mask) -> Floats:
        """Return the sums of s a a' over active rows times vectors of some classes, zeros where not chosen."""
        result = np.zeros_like(vectors)

        def of_class(number: int) -> Floats:
            rows, copied = self.copies[int(positions[number])]
            changes = copied @ vectors[:, :, number]
            changes *= self.batch.weights[rows, None]
            changes *= self.pulls[rows, :, positions[number]] > 0.0
            return np.asarray(copied.T @ changes)

        is_dense = np.isin(positions, self.dense)
        numbers = np.flatnonzero(chosen & ~is_dense).tolist()
        for number, product in zip(numbers, in_threads(of_class, numbers), strict=True):
            result[:, :, number] = product
        dense = np.flatnonzero(chosen & is_dense)
        if len(dense):
            flat = np.ascontiguousarray(vectors[:, :, dense]).reshape(len(vectors), -1)

            def of_span(span: slice) -> Floats:
                features = self.batch.features[span].astype(np.float64, copy=False)
                changes = (features @ flat[:-1] + flat[-1]).reshape(len(features), -1, len(dense))
                changes *= (self.pulls[span][:, :, positions[dense]] > 0.0) * self.batch.weights[span, None, None]
                return _transposed(features, changes)

            result[:, :, dense] = sum_over_spans(of_span, len(self.pulls), SPAN_ROWS)
        return result

    def _transposed(self, values: Floats) -> Floats:
        """Return the sums of a times values (n_rows, n_folds, n_classes), zero for rows that are not active."""
        result = np.empty((len(self.weights), *values.shape[1:]))

        def of_class(position: int) -> Floats:
            rows, copied = self.copies[position]
            return np.asarray(copied.T @ values[rows, :, position])

        for position, product in zip(self.copies, in_threads(of_class, list(self.copies)), strict=True):
            result[:, :, position] = product
        if len(self.dense):

            def of_span(span: slice) -> Floats:
                features = self.batch.features[span].astype(np.float64, copy=False)
                return _transposed(features, values[span][:, :, self.dense])

            result[:, :, self.dense] = sum_over_spans(of_span, len(values), SPAN_ROWS)
        return result

    def search(self, directions: Floats, changes: Floats) -> Floats:
        """Return step lengths (n_folds, n_classes): 1, or the minimum along a direction where 1 goes too far.

        The derivative along a direction increases, and is linear between the lengths at which a row becomes active or
        inactive: Newton's method, inside a shrinking interval, finds its zero.
        """
        linear = np.einsum("ijk,ijk->jk", self.weights, directions)
        square = np.square(directions).sum(axis=0)
        slack = np.where(self.seen, 1.0 - self.margins, -np.inf)
        rates = self.signs * changes
        lengths = np.ones_like(linear)
        first = np.abs(self._slopes(np.zeros_like(linear), linear, square, slack, rates)[0])
        low, high = np.zeros_like(linear), np.ones_like(linear)
        for _ in range(SEARCH_STEPS):
            slopes, curvatures = self._slopes(lengths, linear, square, slack, rates)
            far = slopes > LONGEST_SLOPE * first
            short = (slopes < -LONGEST_SLOPE * first) & (lengths < 1.0)
            if not (far | short).any():
                break
            high, low = np.where(far, lengths, high), np.where(short, lengths, low)
            guesses = lengths - np.divide(slopes, curvatures, out=np.zeros_like(slopes), where=curvatures > 0.0)
            inside = (guesses > low) & (guesses < high)
            lengths = np.where(far | short, np.where(inside, guesses, 0.5 * (low + high)), lengths)
        return np.asarray(lengths)

    def _slopes(
        self, lengths: Floats, linear: Floats, square: Floats, slack: Floats, rates: Floats
    ) -> tuple[Floats, Floats]:
        """Return first and second derivatives of the objectives along directions."""

        def of_span(span: slice) -> Floats:
            ahead = np.maximum(slack[span] - lengths * rates[span], 0.0)
            weighted = self.batch.weights[span, None, None] * rates[span]
            second = np.einsum("ijk,ijk->jk", weighted * (ahead > 0.0), rates[span])
            return np.array([np.einsum("ijk,ijk->jk", weighted, ahead), second])

        first, second = sum_over_spans(of_span, len(slack), SPAN_ROWS)
        slopes = np.asarray(linear + lengths * square - 2.0 * self.C * first)
        return slopes, np.asarray(square + 2.0 * self.C * second)


def _transposed(features: Floats, values: Floats) -> Floats:
    """Return the sums of [z, 1] times values."""
    flat = values.reshape(len(values), -1)
    sums = np.vstack([features.T @ flat, flat.sum(axis=0)])
    return np.asarray(sums.reshape(-1, *values.shape[1:]))


def _multiply(matrices: list[Floats], vectors: Floats) -> Floats:
    """Multiply the vectors of each class by its matrix."""
    result = np.empty_like(vectors)

    def multiply(position: int) -> None:
        result[:, :, position] = matrices[position] @ vectors[:, :, position]

    list(in_threads(multiply, range(len(matrices))))
    return result
