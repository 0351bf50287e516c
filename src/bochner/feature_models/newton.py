# SPDX-License-Identifier: BSD-3-Clause
r"""Newton's method for any loss and one penalty, for the problems of all folds at a time.

.. math:: f(W) = \tfrac12 |W|^2 + C \sum_i s_i \, \ell(y_i, W^T z(x_i) + b)

A problem leaves out the rows of one fold, or none. Gradients come from a pass over all rows, in float64. The Newton
system is solved by preconditioned conjugate gradients on rows that are held, in float32: an inexact direction costs
steps, not digits. Where the rows do not fit into memory, the held ones are a sample.

The Hessian of the losses by coefficients is :math:`\sum_i s_i D_i \otimes z_i z_i^T`, where D are the second
derivatives of a row's loss by its scores. Rows with hardly any curvature are left out. The preconditioner replaces the
sum of products by a product of means, and is the same for all outputs: the moments of some of the rows, sampled by the
trace of D.
"""

import warnings
from collections.abc import Callable
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from bochner.feature_models.folds import NO_FOLD
from bochner.linalg import conjugate_gradients, inner, jittered_cholesky
from bochner.losses import Loss
from bochner.rows import Batch, Floats, Indices, in_threads, row_spans
from bochner.rows.block_sizes import MAX_SPAN_ROWS

__all__ = ["ALL_ROWS", "ROUGH_TOLERANCE", "TOLERANCE", "NewtonSolver", "scores_of", "waypoints"]

Singles = NDArray[np.float32]
_Secant = tuple[Floats, Floats]  # a step of every problem, and the change of the gradient along it

ALL_ROWS = np.array([NO_FOLD])
MAX_STEPS = 100
MAX_SECANTS = 20
MAX_PRODUCTS = 200  # conjugate gradient iterations per Newton step
RESIDUAL = 0.1  # of a Newton system, relative to the gradient
LAST_RESIDUAL = 0.01  # of the solution on all rows, whose last step cannot be seen in the objective
FIRST_C = 0.01  # up to which Newton's method starts from coefficients 0
# Predicted decrease of the last step, relative to the objective; what is left after it is a hundredth of that or less.
ROUGH_TOLERANCE = 1e-3
TOLERANCE = 1e-17
RESOLUTION = 1e-10  # predicted decrease, relative; below, steps end that rounding keeps from decreasing the objective
PATIENCE = 8  # steps below the resolution that do not halve the smallest predicted decrease
ROUNDING = 1e-12  # of an objective, relative
FEW_PRODUCTS = 15  # in conjugate gradients: with more, another preconditioner is worth as many as it costs
PRECONDITIONER_ROWS = 4  # per column
JITTERS = (1e-7, 1e-6, 1e-5, 1e-4)  # of the moments of rows, which are float32
MAX_COPIED = 0.8  # share of rows: copies of more cost more than products with all
NEGLIGIBLE = 1e-3  # curvature of a row, relative to the mean, below which it is left out of Hessians
CACHED_NUMBERS = 1 << 20  # features per matrix product, so that the second product with them reads the cache
MIN_ROWS = 64  # per matrix product


class Evaluation(NamedTuple):
    """The weighted losses (n_problems,) over some rows, and their gradients (width + 1, n_problems, n_outputs)."""

    losses: Floats
    gradients: Floats

    def __add__(self, other: "Evaluation") -> "Evaluation":  # type: ignore[override]
        return Evaluation(self.losses + other.losses, self.gradients + other.gradients)


class NewtonSolver:
    """Problems that differ in the fold which they leave out; weights have the shape (width + 1, n_problems, n_outputs).

    Parameters
    ----------
    batch : Batch
        The features, targets, weights and folds of all rows, or of a sample of the rows with weights for all.
    loss : Loss
        The loss.
    n_outputs : int
        Number of outputs.
    accumulate : callable, default=None
        A pass over all rows, if `batch` is a sample: adds up what a function computes of batches of features.
    """

    def __init__(
        self,
        batch: Batch,
        loss: Loss,
        n_outputs: int,
        accumulate: Callable[[Callable[[Batch], Any]], Any] | None = None,
    ) -> None:
        self.batch, self.loss, self.n_outputs = batch, loss, n_outputs
        self.is_sample = accumulate is not None
        self.accumulate = accumulate or (lambda statistic: statistic(batch))
        self.penalized = slice(batch.X.shape[1] + loss.penalizes_intercept)
        # The factor for one C, of the last problem on all rows; folds use it too.
        self.C_of_factor, self.factor = 0.0, np.empty((0, 0), dtype=np.float32)
        self.is_slow = False  # whether the last conjugate gradients needed more time than another preconditioner

    def start(self, C: float, held_out: Indices) -> Floats:
        """Return rough weights for C, from constant predictions and a tenth of C, a hundredth of C and so on."""
        weights = np.zeros((self.batch.X.shape[1] + 1, len(held_out), self.n_outputs))
        for number, fold in enumerate(held_out.tolist()):
            rows = self.batch.fold_of != fold
            weights[-1, number] = self.loss.start(self.batch.y[rows], self.batch.loss_weight[rows], self.n_outputs)
        whole = weights[:, :1]
        for waypoint in waypoints(FIRST_C, C):
            whole = self._descend(waypoint, ALL_ROWS, whole, ROUGH_TOLERANCE)
        return np.asarray(weights + (whole - weights[:, :1]))

    def solve(self, C: float, start: Floats, held_out: Indices, tolerance: float) -> Floats:
        """Return the optimal weights on all rows, which come first, and without each fold.

        A problem is solved after a step whose predicted decrease was below `tolerance`, relative to its objective.
        """
        whole = self._descend(C, ALL_ROWS, start[:, :1], tolerance)
        if len(held_out) == 1:
            return whole
        # The solutions without a fold move along with that on all rows.
        parts = self._descend(C, held_out[1:], start[:, 1:] + (whole - start[:, :1]), tolerance)
        return np.concatenate([whole, parts], axis=1)

    def _descend(self, C: float, held_out: Indices, start: Floats, tolerance: float) -> Floats:
        """Take Newton steps until all problems are solved."""
        weights, done = start.copy(), self._evaluate(held_out, start)
        moving, least = np.arange(len(held_out)), np.full(len(held_out), np.inf)
        n_stalled = np.zeros(len(held_out), dtype=np.intp)
        secants: list[_Secant] = []  # of a sample, whose Hessians differ from those of all rows
        for _ in range(MAX_STEPS):
            origin, now = weights[:, moving], Evaluation(done.losses[moving], done.gradients[:, moving])
            objective, gradients = self._objective(C, origin, now), self._gradients(C, origin, now)
            residual = LAST_RESIDUAL if tolerance == TOLERANCE else RESIDUAL
            directions = _corrected(
                partial(self._directions, C, held_out[moving], origin, residual), gradients, secants
            )
            decrease = -inner(gradients, directions)
            reached, now = self._line_search(C, held_out[moving], origin, directions, objective, decrease)
            weights[:, moving], done.losses[moving], done.gradients[:, moving] = reached, *now
            if self.is_sample:  # of which there is one problem
                last = reached - origin, self._gradients(C, reached, now) - gradients
                secants = [*secants[1 - MAX_SECANTS :], last]
            n_stalled[moving] = np.where(decrease < 0.5 * least[moving], 0, n_stalled[moving] + 1)
            least[moving] = np.minimum(decrease, least[moving])
            is_visible = decrease > RESOLUTION * objective
            moving = moving[(decrease > tolerance * objective) & (is_visible | (n_stalled[moving] < PATIENCE))]
            if not len(moving):
                return weights
        warnings.warn(
            f"{len(moving)} of {len(held_out)} problems did not converge in {MAX_STEPS} steps at C={C:g}; use a "
            f"larger penalty.",
            ConvergenceWarning,
            stacklevel=2,
        )
        return weights

    def _line_search(
        self, C: float, held_out: Indices, origin: Floats, directions: Floats, objective: Floats, decrease: Floats
    ) -> tuple[Floats, Evaluation]:
        """Take steps along the directions, shorter ones where the objective does not decrease enough."""
        lengths = np.ones(len(held_out))
        reached = origin + directions
        done = self._evaluate(held_out, reached)
        for _ in range(MAX_STEPS):
            allowed = objective * (1.0 + ROUNDING) - 1e-4 * lengths * decrease
            far = np.flatnonzero(~(self._objective(C, reached, done) <= allowed))
            if not len(far):
                break
            lengths[far] *= 0.3
            reached[:, far] = (origin + lengths[:, None] * directions)[:, far]
            done.losses[far], done.gradients[:, far] = self._evaluate(held_out[far], reached[:, far])
        return reached, done

    def _evaluate(self, held_out: Indices, weights: Floats) -> Evaluation:
        result: Evaluation = self.accumulate(partial(_evaluate_batch, self.loss, held_out, weights))
        return result

    def _gradients(self, C: float, weights: Floats, done: Evaluation) -> Floats:
        gradients = C * done.gradients
        gradients[self.penalized] += weights[self.penalized]
        return gradients

    def _objective(self, C: float, weights: Floats, done: Evaluation) -> Floats:
        with np.errstate(over="ignore"):  # of a step that is too long
            return np.asarray(0.5 * np.square(weights[self.penalized]).sum(axis=(0, 2)) + C * done.losses)

    def _directions(self, C: float, held_out: Indices, weights: Floats, residual: float, gradients: Floats) -> Floats:
        """Return Newton directions up to a residual, by conjugate gradients in float32."""
        blocks = self._hessian(held_out, weights)
        if not self.C_of_factor or (NO_FOLD in held_out and (self.is_slow or self.C_of_factor != C)):
            self.C_of_factor, self.factor = C, self._make_factor(C, blocks)
        scale = np.abs(gradients).max(axis=(0, 2), keepdims=True)  # float32 has few exponents
        scale[scale == 0.0] = 1.0
        right, product = (-gradients / scale).astype(np.float32), partial(self._multiply, C, blocks)
        solution, _, n_products = conjugate_gradients(product, self._precondition, right, residual, MAX_PRODUCTS)
        self.is_slow = n_products > FEW_PRODUCTS + len(weights) ** 2 / (len(self.batch.y) * self.n_outputs)
        solution *= scale
        if self.loss.ignores_shift and self.n_outputs > 1:
            solution[-1] -= solution[-1].mean(axis=1, keepdims=True)
        return solution

    def _hessian(self, held_out: Indices, weights: Floats) -> "list[_HessianBlock]":
        """Return what the Hessians of problems consist of, without the rows that have hardly any curvature."""
        batch, singles = self.batch, weights.astype(np.float32)

        def of_span(span: slice) -> _HessianBlock:
            features = batch.X[span].astype(np.float32, copy=False)
            curvature = self.loss.curvature(batch.y[span], scores_of(features, singles))
            own = (batch.loss_weight[span, None] * (batch.fold_of[span, None] != held_out)).astype(np.float32)
            return _HessianBlock(features, curvature, own, self.loss.trace(curvature) * own)

        blocks = list(in_threads(of_span, row_spans(len(batch.y), MAX_SPAN_ROWS)))
        totals = np.sum([block.traces.sum(axis=0, dtype=np.float64) for block in blocks], axis=0)
        least = NEGLIGIBLE * totals / len(batch.y)  # of each problem
        for number, block in enumerate(blocks):
            (rows,) = np.nonzero((block.traces >= least).any(axis=1))
            if len(rows) <= MAX_COPIED * len(block.features):
                blocks[number] = _HessianBlock(*(array[rows] for array in block))
        return blocks

    def _multiply(self, C: float, blocks: "list[_HessianBlock]", vectors: Singles) -> Singles:
        """Return the Hessians of the objectives times vectors of shape (width + 1, n_problems, n_outputs)."""

        def of_block(block: _HessianBlock) -> Singles:
            total = np.zeros_like(vectors)
            for rows in row_spans(len(block.features), _cached_rows(len(vectors))):
                features, curvature, own = (array[rows] for array in block[:3])
                changes = self.loss.multiply(curvature, scores_of(features, vectors))
                changes *= own[:, :, None]
                total += _transposed(features, changes)
            return total

        result = np.float32(C) * reduce(np.add, in_threads(of_block, blocks))
        result[self.penalized] += vectors[self.penalized]
        return np.asarray(result)

    def _make_factor(self, C: float, blocks: "list[_HessianBlock]") -> Singles:
        r"""Return the Cholesky factor of :math:`I + C s G`, where G are moments of rows and s is the mean curvature.

        The moments are those of a sample of four rows per column, drawn in proportion to their traces.
        """
        traces = np.concatenate([block.traces.sum(axis=1) for block in blocks]).astype(np.float64)
        size, total = self.batch.X.shape[1] + 1, float(traces.sum())
        matrix = np.zeros((size, size))
        if total > 0.0:
            chosen = np.sort(np.random.default_rng(0).choice(len(traces), PRECONDITIONER_ROWS * size, p=traces / total))
            starts = np.cumsum([0, *(len(block.features) for block in blocks)])
            parts = np.split(chosen, np.searchsorted(chosen, starts[1:-1]))
            sample = np.ones((len(chosen), size), dtype=np.float32)
            sample[:, :-1] = np.concatenate(
                [b.features[own - s] for b, own, s in zip(blocks, parts, starts, strict=False)]
            )
            mean_curvature = total / (blocks[0].traces.shape[1] * max(1, self.n_outputs - self.loss.ignores_shift))
            matrix = (sample.T @ sample).astype(np.float64) * (C * mean_curvature / len(chosen))
        np.fill_diagonal(matrix, np.diag(matrix) + 1.0)
        try:
            return jittered_cholesky(matrix, JITTERS)[0].astype(np.float32)
        except np.linalg.LinAlgError:
            return np.diag(np.sqrt(np.diag(matrix))).astype(np.float32)

    def _precondition(self, vectors: Singles) -> Singles:
        """Return the approximate inverse of a Hessian, the same for all outputs, times vectors.

        Where adding a number to all scores of a row changes nothing, vectors are left as they are in this direction.
        """
        has_shift = self.loss.ignores_shift and self.n_outputs > 1
        common = vectors.mean(axis=2, keepdims=True) if has_shift else np.float32(0.0)
        flat = (vectors - common).reshape(len(vectors), -1)
        solution = linalg.cho_solve((self.factor.T, False), flat, check_finite=False)
        return np.asarray(solution.reshape(vectors.shape) + common)


class _HessianBlock(NamedTuple):
    """Features, curvatures (n_rows, n_problems, n_outputs), weights and weighted traces (n_rows, n_problems)."""

    features: Singles
    curvature: Singles
    weights: Singles
    traces: Singles


def waypoints(before: float, C: float) -> list[float]:
    """Return values of C between two others: from one decade to the next, Newton's method needs few steps."""
    n_decades = max(1, int(np.ceil(np.log10(C / before) - 1e-9)))
    between: list[float] = np.geomspace(before, C, n_decades + 1)[1:-1].tolist()
    return between


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


def _evaluate_batch(loss: Loss, held_out: Indices, weights: Floats, batch: Batch) -> Evaluation:
    """Evaluate the problems on a batch."""
    spans = row_spans(len(batch.y), min(MAX_SPAN_ROWS, _cached_rows(len(weights))))
    return reduce(add, in_threads(partial(_evaluate_span, loss, held_out, weights, batch), spans))


def _evaluate_span(loss: Loss, held_out: Indices, weights: Floats, batch: Batch, span: slice) -> Evaluation:
    features = batch.X[span].astype(np.float64, copy=False)
    losses, slopes = loss.evaluate(batch.y[span], scores_of(features, weights))
    own = batch.loss_weight[span, None] * (batch.fold_of[span, None] != held_out)
    with np.errstate(over="ignore", invalid="ignore"):  # of steps that are too long, which are shortened
        slopes *= own[:, :, None]
        return Evaluation((own * losses).sum(axis=0), _transposed(features, slopes))


def scores_of(features: Any, weights: Any) -> Any:
    """Return features times coefficients plus intercepts, of shape (n_rows, n_problems, n_outputs)."""
    flat = weights.reshape(len(weights), -1)
    return (features @ flat[:-1] + flat[-1]).reshape(len(features), *weights.shape[1:])


def _transposed(features: Any, values: Any) -> Any:
    """Return sums of features, and of ones, times values of rows."""
    flat = values.reshape(len(features), -1)
    return np.vstack([features.T @ flat, flat.sum(axis=0)]).reshape(-1, *values.shape[1:])


def _cached_rows(size: int) -> int:
    """Return the number of rows per matrix product for the number of columns."""
    return max(MIN_ROWS, CACHED_NUMBERS // size)
