# SPDX-License-Identifier: BSD-3-Clause
r"""Newton directions by preconditioned conjugate gradients in float32.

The Hessian of the losses by coefficients is :math:`\sum_i s_i D_i \otimes z_i z_i^T`, where D are the second
derivatives of a row's loss by its scores. Rows with hardly any curvature are left out. The preconditioner replaces the
sum of products by a product of means, and is the same for all outputs: the moments of some of the rows, sampled by the
trace of D.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from bochner.feature_models.folds import NO_FOLD
from bochner.linalg import conjugate_gradients, jittered_cholesky
from bochner.losses import Loss
from bochner.rows import Batch, Floats, Indices, in_threads, row_spans
from bochner.rows.block_sizes import MAX_SPAN_ROWS

__all__ = ["Curvature", "cached_rows"]

Singles = NDArray[np.float32]

MAX_PRODUCTS = 200  # conjugate gradient iterations per Newton step
FEW_PRODUCTS = 15  # in conjugate gradients: with more, another preconditioner is worth as many as it costs
PRECONDITIONER_ROWS = 4  # per column
JITTERS = (1e-7, 1e-6, 1e-5, 1e-4)  # of the moments of rows, which are float32
MAX_COPIED = 0.8  # share of rows: copies of more cost more than products with all
NEGLIGIBLE = 1e-3  # curvature of a row, relative to the mean, below which it is left out of Hessians
CACHED_NUMBERS = 1 << 20  # features per matrix product, so that the second product with them reads the cache
MIN_ROWS = 64  # per matrix product


@dataclass
class Curvature:
    """The rows that Hessians are computed from.

    Parameters
    ----------
    batch : Batch
        The rows.
    loss : Loss
        The loss.
    is_sample : bool
        Whether these are a sample of all rows, which stands for the training rows of every problem.
    """

    batch: Batch
    loss: Loss
    is_sample: bool

    def __post_init__(self) -> None:
        self.preconditioner: Preconditioner | None = None  # of the last problem on all rows; folds use it too
        self.is_slow = False  # whether the last conjugate gradients needed more time than another preconditioner

    def directions(
        self, C: float, held_out: Indices, weights: Floats, gradients: Floats, *, row_weights: Floats, residual: float
    ) -> Floats:
        """Return Newton directions (width + 1, n_problems, n_outputs) up to a residual, by conjugate gradients.

        Parameters
        ----------
        C : float
            The value of C.
        held_out : ndarray of shape (n_problems,)
            The fold that each problem leaves out.
        weights, gradients : ndarray of shape (width + 1, n_problems, n_outputs)
            The coefficients and intercepts, and the gradients of the objectives.
        row_weights : ndarray of shape (n_problems,)
            Total weights of the training rows.
        residual : float
            Residual of the Newton system at which to stop, relative to the gradient.
        """
        hessian = self._hessian(held_out, weights, row_weights)
        known = self.preconditioner
        if known is None or (NO_FOLD in held_out and (self.is_slow or known.C != C)):
            self.preconditioner = known = hessian.preconditioner(C)
        scale = np.abs(gradients).max(axis=(0, 2), keepdims=True)  # float32 has few exponents
        scale[scale == 0.0] = 1.0
        residuals = (-gradients / scale).astype(np.float32)
        product = partial(hessian.product, C)
        solution, _, n_products = conjugate_gradients(product, known.solve, residuals, residual, MAX_PRODUCTS)
        self.is_slow = n_products > FEW_PRODUCTS + len(weights) ** 2 / (len(self.batch.y) * weights.shape[2])
        solution *= scale
        if self.loss.ignores_shift and solution.shape[2] > 1:
            solution[-1] -= solution[-1].mean(axis=1, keepdims=True)
        return solution

    def _hessian(self, held_out: Indices, weights: Floats, row_weights: Floats) -> "Hessian":
        """Return the Hessians of the problems at `weights`, without the rows that have hardly any curvature."""
        batch = self.batch
        flat = weights.reshape(len(weights), -1).astype(np.float32)

        def of_span(span: slice) -> tuple[Singles, Floats, Floats]:
            features = batch.X[span].astype(np.float32, copy=False)
            scores = (features @ flat[:-1] + flat[-1]).reshape(-1, *weights.shape[1:])
            curvature = self.loss.curvature(batch.y[span], scores)
            if self.is_sample:
                own = np.outer(batch.loss_weight[span], row_weights / batch.loss_weight.sum())
            else:
                own = batch.loss_weight[span, None] * (batch.fold_of[span, None] != held_out)
            return curvature, own, np.asarray(self.loss.trace(curvature) * (own > 0.0), dtype=np.float64)

        spans = row_spans(len(batch.y), MAX_SPAN_ROWS)
        parts = list(in_threads(of_span, spans))
        totals = np.sum([trace.sum(axis=0) for _, _, trace in parts], axis=0)
        least = NEGLIGIBLE * totals / len(batch.y)  # of each problem
        kept = []
        for span, (curvature, own, trace) in zip(spans, parts, strict=True):
            rows: Any = np.flatnonzero((trace >= least).any(axis=1))
            if len(rows) > MAX_COPIED * len(own):
                rows = slice(None)  # a copy of most rows would cost more than their share of the products
            features = batch.X[span][rows].astype(np.float32, copy=False)
            kept.append(_HessianBlock(features, curvature[rows], own[rows].astype(np.float32)))
        return Hessian(kept, self.loss, weights.shape[1:])


class _HessianBlock(NamedTuple):
    """Features of rows, curvatures (n_rows, n_problems, n_outputs) and weights (n_rows, n_problems)."""

    features: Singles
    curvature: Singles
    weights: Singles

    def traces(self, loss: Loss) -> Singles:
        """Return the traces of the Hessians by the scores, summed over problems."""
        return np.asarray((self.weights * loss.trace(self.curvature)).sum(axis=1))


@dataclass
class Hessian:
    """Hessians of the losses of several problems, as blocks of rows."""

    blocks: list[_HessianBlock]
    loss: Loss
    shape: tuple[int, ...]

    def product(self, C: float, vectors: Singles) -> Singles:
        """Return the Hessians of the objectives times vectors, each of shape (width + 1, n_problems, n_outputs)."""
        flat = vectors.reshape(len(vectors), -1)

        def part(block: _HessianBlock) -> Singles:
            total = np.zeros_like(flat)
            for rows in row_spans(len(block.features), cached_rows(len(flat))):
                total += of_rows(*(array[rows] for array in block))
            return total

        def of_rows(features: Singles, curvature: Singles, weights: Singles) -> Singles:
            changes = (features @ flat[:-1] + flat[-1]).reshape(len(features), *self.shape)
            changes = self.loss.multiply(curvature, changes)
            changes *= weights[:, :, None]
            changes = changes.reshape(len(features), -1)
            return np.vstack([features.T @ changes, changes.sum(axis=0)])

        parts = in_threads(part, self.blocks)
        total = next(parts)
        for addend in parts:
            total += addend
        result = np.float32(C) * total.reshape(vectors.shape)
        n_penalized = len(vectors) - (not self.loss.penalizes_intercept)
        result[:n_penalized] += vectors[:n_penalized]
        return result

    def preconditioner(self, C: float) -> "Preconditioner":
        r"""Return the inverse of :math:`I + C s G`, where G are moments of rows and s is the mean curvature.

        The moments are those of a sample of four rows per column, drawn in proportion to their traces.
        """
        traces = np.concatenate([block.traces(self.loss) for block in self.blocks]).astype(np.float64)
        n_problems, n_outputs = self.shape
        size, total = self.blocks[0].features.shape[1] + 1, float(traces.sum())
        matrix = np.zeros((size, size))
        if total > 0.0:
            chosen = np.random.default_rng(0).choice(len(traces), PRECONDITIONER_ROWS * size, p=traces / total)
            chosen.sort()
            starts = np.cumsum([0, *(len(block.features) for block in self.blocks[:-1])])
            parts = np.split(chosen, np.searchsorted(chosen, starts[1:]))
            features = [
                block.features[own - first] for block, own, first in zip(self.blocks, parts, starts, strict=True)
            ]
            sample = np.hstack([np.concatenate(features), np.ones((len(chosen), 1), dtype=np.float32)])
            mean_curvature = total / (n_problems * max(1, n_outputs - self.loss.ignores_shift))
            matrix = (sample.T @ sample).astype(np.float64) * (C * mean_curvature / len(chosen))
        np.fill_diagonal(matrix, np.diag(matrix) + 1.0)
        try:
            factor, _ = jittered_cholesky(matrix, JITTERS)
        except np.linalg.LinAlgError:
            factor = np.diag(np.sqrt(np.diag(matrix)))
        return Preconditioner(C, factor.astype(np.float32), self.loss.ignores_shift)


class Preconditioner(NamedTuple):
    """An approximate inverse of a Hessian, the same for all outputs, by its lower Cholesky factor.

    Where adding a number to all scores of a row changes nothing, vectors are left as they are in this direction.
    """

    C: float
    factor: Singles
    ignores_shift: bool

    def solve(self, vectors: Singles) -> Singles:
        """Return the inverse times vectors of shape (width + 1, n_problems, n_outputs)."""
        has_shift = self.ignores_shift and vectors.shape[2] > 1
        common = vectors.mean(axis=2, keepdims=True) if has_shift else np.float32(0.0)
        flat = (vectors - common).reshape(len(vectors), -1)
        solution = linalg.cho_solve((self.factor.T, False), flat, check_finite=False)
        return np.asarray(solution.reshape(vectors.shape) + common)


def cached_rows(width: int) -> int:
    """Return the number of rows per matrix product for the number of columns."""
    return max(MIN_ROWS, CACHED_NUMBERS // width)
