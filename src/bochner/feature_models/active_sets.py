# SPDX-License-Identifier: BSD-3-Clause
r"""The L2-loss support vector machine, class by class, with the features of all rows in memory.

.. math:: f(w) = \tfrac12 |w|^2 + C \sum_i s_i \max(0, 1 - y_i \, w \cdot a_i)^2, \quad a = [z, 1],

is liblinear's objective; the intercept is penalized with the other coefficients. Of one class against the rest, few
rows are inside the margin or near it, and only these enter the gradient and the Hessian
:math:`I + 2 C \sum_{active} s_i a_i a_i^T`. Each class is solved on a copy of its near rows; a pass over all rows then
shows whether others are active at the solution, which are added. The problems without a fold start from the solution on
all rows, whose factorized Hessian preconditions them.

`newton` solves the same problems for any loss. A prototype of it with a preconditioner per class took 0.7 to 1.4 times
the processor time of this module with 26 classes, 15,000 rows and 512 columns, and 1.9 times with 10 classes, 20,000
rows and 1,024 columns (mnist).
"""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from bochner.feature_models.newton import ALL_ROWS, TOLERANCE
from bochner.linalg import conjugate_gradients, jittered_cholesky
from bochner.rows import Array, Batch, Floats, Indices, Mask, in_threads, row_spans
from bochner.rows.block_sizes import MAX_SPAN_ROWS

__all__ = ["ActiveSetSolver"]

MAX_STEPS = 100
JITTERS = (0.0, 1e-15, 1e-13, 1e-11)
NEAR_SHARE = 2.5  # near rows per active row
MIN_NEAR = 64
SCORE_BYTES = 1 << 28  # of the scores of all rows, folds and some classes
SAMPLE_SHARES = (64, 16, 4)  # the first start is solved on these parts of the rows, one after the other
FEW_EQUATIONS = 1.0  # active rows per column, up to which systems have one equation per active row
ROUGH_TOLERANCE = 1e-2  # predicted decrease of the last step, relative to the objective
LAST_TOLERANCE = 1e-14
FLOAT32_PENALTY = 2.5e6  # of C times the weights of the near rows, up to which paths are followed in float32
RESIDUAL = 0.1  # of a Newton system, relative to the gradient
MAX_PRODUCTS = 25  # conjugate gradient iterations per Newton step
INEXACT_STEPS = 6  # after which systems are solved exactly
LONGEST_SLOPE = 0.3  # at the end of a step, relative to its start, up to which the whole step is taken
SEARCH_STEPS = 20


@dataclass
class ActiveSetSolver:
    """Problems of one class against the rest, on all rows or on the rows outside a fold.

    Arrays of weights have the shape (width + 1, n_problems, n_outputs).

    Parameters
    ----------
    batch : Batch
        The features of all rows.
    n_outputs : int
        One for two classes, the second against the first, else one per class.
    """

    batch: Batch
    n_outputs: int

    def start(self, C: float, held_out: Indices) -> Floats:
        """Return rough weights on all rows, from parts of the rows of growing size, with C in proportion."""
        n_rows = len(self.batch.y)
        order = np.random.default_rng(0).permutation(n_rows)
        weights = np.zeros((self.batch.X.shape[1] + 1, 1, self.n_outputs))
        for share in SAMPLE_SHARES:
            sample = ActiveSetSolver(self.batch.select(order[: -(-n_rows // share)]), self.n_outputs)
            weights = sample.solve(share * C, weights, ALL_ROWS, ROUGH_TOLERANCE)
        return np.repeat(self.solve(C, weights, ALL_ROWS, ROUGH_TOLERANCE), len(held_out), axis=1)

    def solve(self, C: float, start: Floats, held_out: Indices, tolerance: float) -> Floats:
        """Return the optimal weights on all rows, which come first, and without each fold.

        A problem is solved after a step whose predicted decrease was below `tolerance`, relative to its objective.
        """
        weights, n_scores = start.copy(), len(self.batch.y) * len(held_out)
        for group in row_spans(self.n_outputs, max(1, SCORE_BYTES // (8 * n_scores))):
            first = (self.n_outputs == 1) + group.start
            weights[:, :, group] = self._solve_group(C, weights[:, :, group], first, held_out, tolerance)
        return weights

    def _solve_group(self, C: float, weights: Floats, first: int, held_out: Indices, tolerance: float) -> Floats:
        """Return the weights of some consecutive classes."""
        near = [np.empty(0, dtype=np.intp)] * weights.shape[2]
        scores, moving = self._scores(weights), list(range(len(near)))

        def slack_of(number: int) -> Floats:
            return _slack(self.batch.y == first + number, self.batch.fold_of, scores[:, :, number], held_out)

        def solve(number: int) -> Floats:
            rows = _NearRows.of(self.batch, C, first + number, near[number], tolerance)
            return rows.solve(weights[:, :, number], held_out, max(tolerance, LAST_TOLERANCE))

        def others_matter(number: int) -> bool:
            losses = self.batch.loss_weight[:, None] * np.square(np.maximum(slack_of(number), 0.0))
            objectives = 0.5 * np.square(weights[:, :, number]).sum(axis=0) + C * losses.sum(axis=0)
            losses[near[number]] = 0.0
            share = 0.0 if tolerance == TOLERANCE else tolerance
            return bool((C * losses.sum(axis=0) > share * objectives).any())

        for _ in range(MAX_STEPS):
            for number in moving:
                near[number] = np.union1d(near[number], _near(slack_of(number)))
            weights[:, :, moving] = np.stack(list(in_threads(solve, moving)), axis=2)
            scores = self._scores(weights)
            moving = [number for number in moving if others_matter(number)]
            if not moving:
                break
        return weights

    def _scores(self, weights: Floats) -> Floats:
        """Return the scores of all rows, in the precision of the features."""
        features, flat = self.batch.X, weights.reshape(len(weights), -1)
        coefficients = flat[:-1].astype(features.dtype)
        scores = np.empty((len(features), flat.shape[1]))

        def write(span: slice) -> None:
            np.add(features[span] @ coefficients, flat[-1], out=scores[span])

        list(in_threads(write, row_spans(len(features), MAX_SPAN_ROWS)))
        return scores.reshape(len(features), *weights.shape[1:])


def _slack(is_own: Mask, folds: Indices, scores: Floats, held_out: Indices) -> Floats:
    """Return distances to the margin (n_rows, n_problems), positive for active rows, -inf for held-out ones."""
    signs = np.where(is_own, 1.0, -1.0)
    return np.where(folds[:, None] == held_out, -np.inf, 1.0 - signs[:, None] * scores)


def _near(slack: Floats) -> Indices:
    """Return the rows that are active in a problem, and the nearest of the others."""
    largest = slack.max(axis=1)
    n_near = min(len(largest), int(NEAR_SHARE * np.count_nonzero(largest > 0.0)) + MIN_NEAR)
    return np.argpartition(-largest, n_near - 1)[:n_near]


class _Factor(NamedTuple):
    r"""A factorized Hessian :math:`I + 2 C A^T S A` of active rows A.

    With more columns than rows, `rows` is A, and the factor is that of the smaller matrix in
    :math:`I - A^T (A A^T + (2 C S)^{-1})^{-1} A`, the inverse.
    """

    cholesky: Array
    rows: Array | None = None

    def solve(self, vectors: Floats) -> Floats:
        """Return the inverse times vectors."""
        if not self.cholesky.size:  # no row is active
            return vectors
        # The transpose of a lower factor is an upper one in the order of LAPACK, which makes no copy.
        upper = (self.cholesky.T, False)
        small = vectors.astype(self.cholesky.dtype, copy=False)
        if self.rows is None:
            return np.asarray(linalg.cho_solve(upper, small, check_finite=False), dtype=np.float64)
        return np.asarray(vectors - self.rows.T @ linalg.cho_solve(upper, self.rows @ small, check_finite=False))


@dataclass
class _NearRows:
    """The rows near the margin of a class, and its Newton systems for one C.

    Arrays of weights have the shape (width + 1, n_problems), those of scores and slacks (n_near, n_problems).

    Attributes
    ----------
    C : float
        The value of C.
    signs : ndarray of shape (n_near,)
        1 for the rows of the class, -1 for others.
    folds : ndarray of shape (n_near,)
        Folds.
    weights : ndarray of shape (n_near,)
        Weights in the loss.
    copied : ndarray of shape (n_near, width + 1)
        Rows a = [z, 1], in float32 or float64.
    """

    C: float
    signs: Floats
    folds: Indices
    weights: Floats
    copied: Array

    @classmethod
    def of(cls, batch: Batch, C: float, label: int, rows: Indices, tolerance: float) -> "_NearRows":
        weights = batch.loss_weight[rows]
        is_rough = tolerance > TOLERANCE and C * weights.sum() < FLOAT32_PENALTY
        copied = np.ones((len(rows), batch.X.shape[1] + 1), dtype=np.float32 if is_rough else np.float64)
        copied[:, :-1] = batch.X[rows]
        return cls(C, np.where(batch.y[rows] == label, 1.0, -1.0), batch.fold_of[rows], weights, copied)

    def __post_init__(self) -> None:
        n_near = len(self.copied)
        self.active = np.zeros(n_near, dtype=bool)  # in the problem on all rows
        self.gram: Array | None = None  # the sum of s a a' over these
        self.multiplied, self.products = np.empty(0, dtype=np.intp), self.copied[:0, :0]  # inner products of some rows

    def solve(self, start: Floats, held_out: Indices, tolerance: float) -> Floats:
        """Return the weights on all rows and without each fold, if only the near rows mattered."""
        weights, whole = start.copy(), _Directions(self, 1)
        weights[:, :1] = self.descend(start[:, :1], held_out[:1], whole, tolerance)
        if len(held_out) > 1:
            # The solutions without a fold move along with that on all rows.
            parts = start[:, 1:] + (weights[:, :1] - start[:, :1])
            weights[:, 1:] = self.descend(parts, held_out[1:], _Directions(self, len(parts.T), whole), tolerance)
        return weights

    def descend(self, weights: Floats, held_out: Indices, directions: "_Directions", tolerance: float) -> Floats:
        """Take Newton steps until predicted decreases are below `tolerance` of the objectives."""
        weights = weights.copy()
        scores = self.scores(weights)
        lowest = np.full(weights.shape[1], np.inf)
        moving = np.arange(weights.shape[1])  # problems that are not solved
        for _ in range(MAX_STEPS):
            before, slack = (
                weights[:, moving],
                _slack(self.signs > 0.0, self.folds, scores[:, moving], held_out[moving]),
            )
            objectives, gradients = self._evaluate(before, slack)
            steps = directions(moving, gradients, slack > 0.0)
            changes = self.scores(steps)
            lengths = self._lengths(before, steps, slack, changes)
            weights[:, moving] += lengths * steps
            scores[:, moving] += lengths * changes
            decrease = -np.einsum("ij,ij->j", gradients, steps)
            # Rounding may allow no further decrease.
            is_unsolved = (decrease > tolerance * objectives) & (objectives < lowest[moving])
            lowest[moving] = objectives
            moving = moving[is_unsolved]
            if not len(moving):
                break
        else:
            warnings.warn(
                f"A class did not converge in {MAX_STEPS} steps at C={self.C:g}; leave such large values out of `Cs`.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return weights

    def scores(self, weights: Floats) -> Floats:
        """Return the rows times vectors."""
        return np.asarray(self.copied @ weights.astype(self.copied.dtype, copy=False), dtype=np.float64)

    def transposed(self, values: Floats) -> Floats:
        """Return sums of the rows times values."""
        return np.asarray(self.copied.T @ values.astype(self.copied.dtype, copy=False), dtype=np.float64)

    def _evaluate(self, weights: Floats, slack: Floats) -> tuple[Floats, Floats]:
        """Return objectives and gradients."""
        pulls = np.maximum(slack, 0.0)
        weighted = self.weights[:, None] * pulls
        losses = np.einsum("ij,ij->j", weighted, pulls)
        gradients = weights - 2.0 * self.C * self.transposed(self.signs[:, None] * weighted)
        return 0.5 * np.square(weights).sum(axis=0) + self.C * losses, gradients

    def has_few(self, active: Mask) -> bool:
        """Return whether systems have one equation per active row."""
        return bool(np.count_nonzero(active) <= FEW_EQUATIONS * self.copied.shape[1])

    def remember(self, active: Mask) -> None:
        """Sum over active rows; later sums are corrected from this one."""
        self.gram = None if self.has_few(active) else self._gram(active)
        self.active = active

    def factor(self, active: Mask) -> _Factor:
        """Return the factorized Hessian of some active rows."""
        if self.has_few(active):
            (rows,) = np.nonzero(active)
            factor = _cholesky(self._products(rows), 0.5 / (self.C * self.weights[rows]), self.C)
            return _Factor(factor, self.copied[rows])
        return _Factor(_cholesky(2.0 * self.C * self._gram(active), 1.0, self.C))

    def _products(self, rows: Indices) -> Array:
        """Return the inner products of some rows; those of rows that were not asked for before are computed."""
        added = np.setdiff1d(rows, self.multiplied, assume_unique=True)
        if len(added):
            n_before = len(self.multiplied)
            self.multiplied = np.append(self.multiplied, added)
            products = np.empty((len(self.multiplied),) * 2, dtype=self.copied.dtype)
            products[:n_before, :n_before] = self.products
            products[:, n_before:] = self.copied[self.multiplied] @ self.copied[added].T
            products[n_before:, :n_before] = products[:n_before, n_before:].T
            self.products = products
        order = np.argsort(self.multiplied)
        places = order[np.searchsorted(self.multiplied, rows, sorter=order)]
        return self.products[np.ix_(places, places)]

    def _gram(self, active: Mask) -> Array:
        """Return the sum of s a a' over active rows, which corrects the last one where few rows have changed."""
        changed = active != self.active
        if self.gram is None or np.count_nonzero(changed) > np.count_nonzero(active):
            return self._sum(active)
        added, removed = self._sum(changed & active), self._sum(changed & ~active)
        return np.asarray(self.gram + added - removed)

    def _sum(self, chosen: Mask) -> Array:
        rows = self.copied[chosen]
        rows *= np.sqrt(self.weights[chosen, None]).astype(rows.dtype)
        return np.asarray(rows.T @ rows)

    def _lengths(self, weights: Floats, directions: Floats, slack: Floats, changes: Floats) -> Floats:
        """Return step lengths (n_problems,): 1, or the minimum along a direction where 1 goes too far.

        The derivative along a direction increases, and is linear between the lengths at which a row becomes active or
        inactive: Newton's method, inside a shrinking interval, finds its zero.
        """
        linear, square = np.einsum("ij,ij->j", weights, directions), np.square(directions).sum(axis=0)
        rates = self.signs[:, None] * changes
        weighted = self.weights[:, None] * rates

        def slopes_at(lengths: Floats) -> tuple[Floats, Floats]:
            ahead = np.maximum(slack - lengths * rates, 0.0)
            first = np.einsum("ij,ij->j", weighted, ahead)
            second = np.einsum("ij,ij->j", weighted * (ahead > 0.0), rates)
            return linear + lengths * square - 2.0 * self.C * first, square + 2.0 * self.C * second

        low, high = np.zeros_like(linear), np.ones_like(linear)
        first, lengths = np.abs(slopes_at(low)[0]), high
        for _ in range(SEARCH_STEPS):
            slopes, curvatures = slopes_at(lengths)
            far = slopes > LONGEST_SLOPE * first
            short = (slopes < -LONGEST_SLOPE * first) & (lengths < 1.0)
            if not (far | short).any():
                break
            high, low = np.where(far, lengths, high), np.where(short, lengths, low)
            guesses = lengths - np.divide(slopes, curvatures, out=np.zeros_like(slopes), where=curvatures > 0.0)
            inside = (guesses > low) & (guesses < high)
            lengths = np.where(far | short, np.where(inside, guesses, 0.5 * (low + high)), lengths)
        return np.asarray(lengths)

    def inexact(self, factor: _Factor, gradients: Floats, active: Mask) -> tuple[Floats, Mask]:
        """Return Newton directions up to a residual, and where that was reached; the factor is the preconditioner."""
        scales = 2.0 * self.C * self.weights[:, None] * active

        def product(steps: Array) -> Array:
            return steps + self.transposed(scales * self.scores(steps[:, :, 0]))[:, :, None]

        def precondition(residuals: Array) -> Array:
            return factor.solve(residuals[:, :, 0])[:, :, None]

        right = -gradients[:, :, None]
        solution, is_solved, _ = conjugate_gradients(product, precondition, right, RESIDUAL, MAX_PRODUCTS)
        return solution[:, :, 0], is_solved


class _Directions:
    """Newton directions on all rows, or without each fold.

    Systems with few equations are solved exactly, and the others by conjugate gradients, which the last exact system on
    all rows preconditions. Where these converge slowly, the next directions are exact.
    """

    def __init__(self, near: _NearRows, n_problems: int, whole: "_Directions | None" = None) -> None:
        self.near, self.is_whole, self.n_steps = near, whole is None, 0
        self.factor: _Factor = _Factor(near.copied[:0]) if whole is None else whole.factor
        self.is_exact = np.full(n_problems, whole is None or near.has_few(near.active))

    def __call__(self, problems: Indices, gradients: Floats, active: Mask) -> Floats:
        """Return directions of some problems from gradients (width + 1, n_problems) and active rows."""
        near, directions = self.near, np.empty_like(gradients)
        self.n_steps += 1
        self.is_exact |= self.n_steps > INEXACT_STEPS
        exact = self.is_exact[problems]
        for j in np.flatnonzero(exact).tolist():
            if self.is_whole:
                near.remember(active[:, j])
                self.factor, self.n_steps = near.factor(near.active), 0
                self.is_exact[:] = near.has_few(near.active)
                directions[:, j] = self.factor.solve(-gradients[:, j])
            else:
                directions[:, j] = near.factor(active[:, j]).solve(-gradients[:, j])
        if not exact.all():
            found, solved = near.inexact(self.factor, gradients[:, ~exact], active[:, ~exact])
            directions[:, ~exact] = found
            self.is_exact[problems[~exact]] = ~solved
        return directions


def _cholesky(matrix: Array, added: float | Floats, C: float) -> Array:
    """Return the Cholesky factor of a matrix, which is overwritten, with numbers added to its diagonal."""
    unit = np.finfo(matrix.dtype).eps / np.finfo(np.float64).eps
    np.fill_diagonal(matrix, np.diag(matrix) + added)
    try:  # for a large C, rounding can exceed what is added
        return jittered_cholesky(matrix, [unit * jitter for jitter in JITTERS])[0]
    except np.linalg.LinAlgError:
        raise ValueError(f"C={C:g} times the sample weights is too large to solve for; give smaller `Cs`.") from None
