# SPDX-License-Identifier: BSD-3-Clause
r"""The L2-loss support vector machine, class by class, with the features of its rows in memory.

.. math:: f(w) = \tfrac12 |w|^2 + C \sum_i s_i \max(0, 1 - y_i \, w \cdot a_i)^2, \quad a = [z, 1],

is liblinear's objective; the intercept is penalized with the other coefficients. Of one class against the rest, few
rows are inside the margin or near it, and only these enter the gradient and the Hessian
:math:`I + 2 C \sum_{active} s_i a_i a_i^T`. Each class is solved on a copy of its near rows; a pass over all rows then
shows whether others are active at the solution, which are added. The systems on all rows are solved exactly. Without
a fold, nearly the same rows are active, and the factor on all rows preconditions conjugate gradients; where these
converge slowly, the Gram matrix of the fold is corrected from that on all rows.

`newton` solves the same problems for any loss. Its conjugate gradients for all classes and folds at a time took seven
times as long with 26 classes, 15,000 rows and 512 columns.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning

from bochner.feature_models.folds import NO_FOLD
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
START_DIVISORS = (64, 16, 4)  # the start is solved on one 64th of the rows, from there on one 16th, and so on
FEW_EQUATIONS = 1.0  # active rows per column, up to which systems have one equation per active row
START_TOLERANCE = 1e-2  # predicted decrease of the last step, relative to the objective
LAST_TOLERANCE = 1e-14
FLOAT32_PENALTY = 2.5e6  # of C times the weights of the near rows, up to which paths are followed in float32
RESIDUAL = 0.1  # of a Newton system without a fold, relative to the gradient
INEXACT_STEPS = 6  # after which these systems are solved exactly: inexact steps can zigzag
MAX_PRODUCTS = 8  # conjugate gradient iterations; with more, an exact solution is faster
LONGEST_SLOPE = 0.3  # at the end of a step, relative to its start, up to which the whole step is taken
LENGTH_ERROR = 0.05  # of shorter steps, relative


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
        for divisor in START_DIVISORS:
            sample = ActiveSetSolver(self.batch.select(order[: -(-n_rows // divisor)]), self.n_outputs)
            weights = sample.solve(divisor * C, weights, ALL_ROWS, START_TOLERANCE)
        return np.repeat(self.solve(C, weights, ALL_ROWS, START_TOLERANCE), len(held_out), axis=1)

    def solve(self, C: float, start: Floats, held_out: Indices, tolerance: float) -> Floats:
        """Return the optimal weights on all rows, which come first, and without each fold.

        A problem is solved after a step whose predicted decrease was below `tolerance`, relative to its objective.
        """
        weights, n_scores = start.copy(), len(self.batch.y) * len(held_out)
        for group in row_spans(self.n_outputs, max(1, SCORE_BYTES // (8 * n_scores))):
            first = 1 if self.n_outputs == 1 else group.start  # the label of the first class; of two, the second one
            weights[:, :, group] = self._solve_group(C, weights[:, :, group], first, held_out, tolerance)
        return weights

    def _solve_group(self, C: float, weights: Floats, first: int, held_out: Indices, tolerance: float) -> Floats:
        """Return the weights of some consecutive classes."""
        near = [np.empty(0, dtype=np.intp)] * weights.shape[2]
        scores, moving = self._scores(weights), list(range(len(near)))

        def slack_of(number: int) -> Floats:
            return _slack(self.batch.y == first + number, self.batch.fold_of, scores[:, :, number], held_out)

        def solve(number: int) -> Floats:
            rows = _NearRows(self.batch, C, first + number, near[number], tolerance)
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


class _NearRows:
    """The rows near the margin of a class, and Newton's method on them for one C.

    Arrays of weights have the shape (width + 1, n_problems), those of scores and slacks (n_near, n_problems).
    """

    def __init__(self, batch: Batch, C: float, label: int, rows: Indices, tolerance: float) -> None:
        self.C, self.signs, self.folds = C, np.where(batch.y[rows] == label, 1.0, -1.0), batch.fold_of[rows]
        self.scale = 2.0 * C * batch.loss_weight[rows]
        is_rough = tolerance > TOLERANCE and 0.5 * self.scale.sum() < FLOAT32_PENALTY
        self.copied = np.ones((len(rows), batch.X.shape[1] + 1), dtype=np.float32 if is_rough else np.float64)
        self.copied[:, :-1] = batch.X[rows]
        # The active rows of the last step on all rows, with their Gram matrix, and inner products of some rows.
        self.active, self.gram = np.zeros(len(rows), dtype=bool), np.zeros((0, 0))
        self.factor: Array | None = None  # of the last step on all rows, if it had one equation per column
        self.multiplied, self.products = np.empty(0, dtype=np.intp), np.zeros((0, 0), dtype=self.copied.dtype)

    def solve(self, start: Floats, held_out: Indices, tolerance: float) -> Floats:
        """Return the weights on all rows and without each fold, if only the near rows mattered."""
        weights = self.descend(start[:, :1], held_out[:1], tolerance)
        if len(held_out) == 1:
            return weights
        # The solutions without a fold move along with that on all rows.
        parts = start[:, 1:] + (weights - start[:, :1])
        return np.hstack([weights, self.descend(parts, held_out[1:], tolerance)])

    def descend(self, start: Floats, held_out: Indices, tolerance: float) -> Floats:
        """Take Newton steps until predicted decreases are below `tolerance` of the objectives."""
        weights, scores = start.copy(), self._scores(start)
        lowest, moving = np.full(len(held_out), np.inf), np.arange(len(held_out))  # problems that are not solved
        for n_steps in range(MAX_STEPS):
            before = weights[:, moving]
            slack = _slack(self.signs > 0.0, self.folds, scores[:, moving], held_out[moving])
            pulls = np.maximum(slack, 0.0)
            weighted = self.scale[:, None] * pulls
            objectives = 0.5 * (np.square(before).sum(axis=0) + np.einsum("ij,ij->j", weighted, pulls))
            gradients = before - self._sums(self.signs[:, None] * weighted)
            directions, is_found = np.empty_like(gradients), np.zeros(len(moving), dtype=bool)
            if self.factor is not None and NO_FOLD not in held_out and n_steps < INEXACT_STEPS:
                directions, is_found = self._inexact(slack > 0.0, gradients)
            for place in np.flatnonzero(~is_found).tolist():
                is_whole = held_out[moving[place]] == NO_FOLD
                directions[:, place] = self._direction(slack[:, place] > 0.0, -gradients[:, place], is_whole)
            changes = self._scores(directions)
            decrease = -np.einsum("ij,ij->j", gradients, directions)
            for place, problem in enumerate(moving.tolist()):
                step = directions[:, place]
                length = self._length(before[:, place] @ step, step @ step, slack[:, place], changes[:, place])
                weights[:, problem] += length * step
                scores[:, problem] += length * changes[:, place]
            # Rounding may allow no further decrease.
            is_unsolved = (decrease > tolerance * objectives) & (objectives < lowest[moving])
            lowest[moving] = objectives
            moving = moving[is_unsolved]
            if not len(moving):
                return weights
        warnings.warn(
            f"A class did not converge in {MAX_STEPS} steps at C={self.C:g}; leave such large values out of `Cs`.",
            ConvergenceWarning,
            stacklevel=2,
        )
        return weights

    def _scores(self, weights: Floats) -> Floats:
        """Return the rows times vectors."""
        return np.asarray(self.copied @ weights.astype(self.copied.dtype), dtype=np.float64)

    def _sums(self, values: Floats) -> Floats:
        """Return sums of the rows times values."""
        return np.asarray(self.copied.T @ values.astype(self.copied.dtype), dtype=np.float64)

    def _length(self, linear: Any, square: Any, slack: Floats, changes: Floats) -> float:
        """Return the length of a step: 1, or about the minimum along the direction where 1 goes too far."""
        rates = self.signs * changes
        weighted = self.scale * rates

        def slope(length: float) -> float:
            return float(linear + length * square - weighted @ np.maximum(slack - length * rates, 0.0))

        first = slope(0.0)
        if first >= 0.0 or slope(1.0) <= -LONGEST_SLOPE * first:
            return 1.0
        return float(brentq(slope, 0.0, 1.0, rtol=LENGTH_ERROR))

    def _inexact(self, active: Mask, gradients: Floats) -> tuple[Floats, Mask]:
        """Return Newton directions up to a residual, and where it was reached; the factor on all rows preconditions."""
        scale, factor = self.scale[:, None] * active, self.factor
        assert factor is not None

        def product(steps: Array) -> Array:
            return steps + self._sums(scale * self._scores(steps[:, :, 0]))[:, :, None]

        def precondition(residuals: Array) -> Array:
            return _solve(factor, residuals[:, :, 0])[:, :, None]

        right = -gradients[:, :, None]
        solution, is_found, _ = conjugate_gradients(product, precondition, right, RESIDUAL, MAX_PRODUCTS)
        return solution[:, :, 0], is_found

    def _direction(self, active: Mask, right: Floats, is_whole: bool) -> Floats:
        r"""Return the inverse Hessian :math:`(I + A^T S A)^{-1}` of the active rows A times a vector.

        With more columns than rows, the inverse is :math:`I - A^T (A A^T + S^{-1})^{-1} A`.
        """
        (rows,) = np.nonzero(active)
        if not len(rows):
            return right
        if len(rows) <= FEW_EQUATIONS * len(right):
            self.factor = None if is_whole else self.factor
            own, small = self.copied[rows], right.astype(self.copied.dtype)
            factor = self._factorize(self._products(rows), 1.0 / self.scale[rows])
            return np.asarray(right - own.T @ _solve(factor, own @ small).astype(own.dtype))
        changed = active != self.active
        if not len(self.gram) or np.count_nonzero(changed) > len(rows):
            gram = self._gram(active)
        else:
            gram = self.gram + self._gram(changed & active) - self._gram(changed & ~active)
        factor = self._factorize(gram.copy(), 1.0)
        if is_whole:
            self.active, self.gram, self.factor = active, gram, factor
        return _solve(factor, right)

    def _gram(self, chosen: Mask) -> Array:
        """Return the sum of 2 C s a a' over some rows."""
        rows = self.copied[chosen]
        rows *= np.sqrt(self.scale[chosen, None]).astype(rows.dtype)
        return np.asarray(rows.T @ rows)

    def _products(self, rows: Indices) -> Array:
        """Return the inner products of some rows; those of rows that were not asked for before are computed."""
        added = np.setdiff1d(rows, self.multiplied, assume_unique=True)
        if len(added):
            before, self.multiplied = len(self.multiplied), np.append(self.multiplied, added)
            new = self.copied[self.multiplied] @ self.copied[added].T
            self.products = np.block([[self.products, new[:before]], [new[:before].T, new[before:]]])
        order = np.argsort(self.multiplied)
        places = order[np.searchsorted(self.multiplied, rows, sorter=order)]
        return self.products[np.ix_(places, places)]

    def _factorize(self, matrix: Array, added: float | Floats) -> Array:
        """Return the Cholesky factor of a matrix, which is overwritten, with numbers added to its diagonal."""
        unit = np.finfo(matrix.dtype).eps / np.finfo(np.float64).eps
        np.fill_diagonal(matrix, np.diag(matrix) + added)
        try:  # for a large C, rounding can exceed what is added
            return jittered_cholesky(matrix, [unit * jitter for jitter in JITTERS])[0]
        except np.linalg.LinAlgError:
            raise ValueError(
                f"C={self.C:g} times the sample weights is too large to solve for; give smaller `Cs`."
            ) from None


def _solve(factor: Array, right: Array) -> Floats:
    """Solve with a lower Cholesky factor, whose transpose is an upper one in the order of LAPACK: no copy."""
    solution = linalg.cho_solve((factor.T, False), right.astype(factor.dtype), check_finite=False)
    return np.asarray(solution, dtype=np.float64)
