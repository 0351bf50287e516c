# SPDX-License-Identifier: BSD-3-Clause
r"""Logistic regression in the primal, for the problems of all folds at a time.

.. math:: f(W) = \tfrac12 |W|^2 - C \sum_i s_i \log p_{y_i}(x_i), \quad p(x) \propto \exp(W^T z(x) + b),

This is the objective of scikit-learn's `LogisticRegression`; the intercepts b are not penalized. Two classes have a
single column of coefficients, the score of the second class. Newton's method takes the gradient from a pass over all
rows, in float64. The Newton system is solved by conjugate gradients on rows that are held, in float32: an inexact
direction costs steps, not digits. Where the rows do not fit into memory, these are a sample. Rows whose class is
certain contribute nothing to the Hessian :math:`\sum_i s_i (\operatorname{diag} p_i - p_i p_i^T) \otimes z_i z_i^T` and
are left out. The preconditioner replaces this sum of products by the mean over some of the rows, the same for all
classes.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from bochner.linear_models.feature_passes import Accumulate, FeatureBatch
from bochner.linear_models.folds import NO_FOLD, passed_minimum
from bochner.progress import progress_bar
from bochner.rows import Array, Floats, Indices, cholesky, in_threads, row_spans, serial_blas

__all__ = ["CURVATURE_BYTES", "Curvature", "LogLossPath", "LogisticProblems", "solve_one", "walk"]

Singles = NDArray[np.float32]

CURVATURE_BYTES = 1 << 29  # of the sampled rows that Hessians are computed from, with their probabilities
MAX_STEPS = 100
MAX_SECANTS = 20
MAX_PRODUCTS = 200  # conjugate gradient iterations per Newton step
LARGEST_GROWTH = 1e15  # of squared residuals in conjugate gradients, beyond which they soon overflow float32
RESIDUAL = 0.1  # of a Newton system, relative to the gradient
FIRST_C = 0.01  # up to which Newton's method starts from coefficients 0
ROUGH_TOLERANCE = 1e-3
PATH_TOLERANCE = 1e-6  # predicted decrease of the last step, relative to the objective
TOLERANCE = 1e-17
RESOLUTION = 1e-14  # predicted decrease, relative, below which the last decrease of an objective may be the last one
ROUNDING = 1e-12  # of an objective, relative
LARGEST_LOSS = float(-np.log(np.finfo(np.float64).eps))  # of a held-out row, as in scikit-learn's log_loss
FEW_PRODUCTS = 15  # in conjugate gradients: with more, another preconditioner is worth as many as it costs
PRECONDITIONER_ROWS = 4  # per column
JITTERS = (1e-7, 1e-6, 1e-5, 1e-4)  # of the moments of rows, which are float32
TILE = 512  # columns of these moments per thread and matrix product
CERTAIN = 1e-3  # a row's share of the mean uncertainty, below which it is left out of Hessians
SPAN_ROWS = 2048  # rows per thread
CACHED_ROWS = 256  # rows per matrix product, so that the second product with them reads the cache


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
    curvature: "Curvature"
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
            decrease = -_inner(gradients, directions)
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
        share = _inner(moved, gradients) / _curvatures(moved, changed)
        gradients = gradients - share[:, None] * changed
        shares.append(share)
    directions = newton(gradients)
    for (moved, changed), share in zip(secants, reversed(shares), strict=True):
        directions = directions - (share + _inner(changed, directions) / _curvatures(moved, changed))[:, None] * moved
    return directions


def _curvatures(moved: Floats, changed: Floats) -> Floats:
    """Return the curvature along steps, which are zero where rounding allows no further decrease."""
    return np.maximum(_inner(moved, changed), np.finfo(np.float64).tiny)


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
    spans = row_spans(len(batch.labels), CACHED_ROWS)
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


@dataclass
class Curvature:
    """The rows that Hessians are computed from.

    Parameters
    ----------
    batch : FeatureBatch
        The rows.
    is_sample : bool
        Whether these are a sample of all rows, which stands for the training rows of every problem.
    preconditioner : Preconditioner or None
        That of the last problem on all rows. Problems without a fold use it too.
    is_slow : bool
        Whether the last conjugate gradients needed so many products that another preconditioner costs less.
    """

    batch: FeatureBatch
    is_sample: bool
    preconditioner: "Preconditioner | None" = None
    is_slow: bool = False

    def directions(
        self, C: float, held_out: Indices, weights: Floats, gradients: Floats, *, row_weights: Floats
    ) -> Floats:
        """Return Newton directions (width + 1, n_problems, n_columns) up to a residual, by conjugate gradients.

        Parameters
        ----------
        C : float
            The value of C.
        held_out : ndarray of shape (n_problems,)
            The fold that each problem leaves out.
        weights, gradients : ndarray of shape (width + 1, n_problems, n_columns)
            The coefficients and intercepts, and the gradients of the objectives.
        row_weights : ndarray of shape (n_problems,)
            Total weights of the training rows.
        """
        hessian = self._hessian(held_out, weights, row_weights)
        known = self.preconditioner
        if known is None or (NO_FOLD in held_out and (self.is_slow or known.C != C)):
            self.preconditioner = known = Preconditioner.of(hessian, C)
        scale = np.abs(gradients).max(axis=(0, 2), keepdims=True)  # float32 has few exponents
        scale[scale == 0.0] = 1.0
        residuals = (-gradients / scale).astype(np.float32)
        solution, n_products = _conjugate_gradients(partial(hessian.product, C), known.solve, residuals, RESIDUAL)
        self.is_slow = n_products > FEW_PRODUCTS + len(weights) ** 2 / (len(self.batch.labels) * weights.shape[2])
        solution *= scale
        if solution.shape[2] > 1:  # the same number added to all intercepts of a problem changes no probability
            solution[-1] -= solution[-1].mean(axis=1, keepdims=True)
        return solution

    def _hessian(self, held_out: Indices, weights: Floats, row_weights: Floats) -> "Hessian":
        """Return the Hessians of the problems at `weights`, without the rows whose class is certain."""
        batch = self.batch
        flat = weights.reshape(len(weights), -1).astype(np.float32)

        def of_span(span: slice) -> tuple[Singles, Floats, Floats]:
            features = batch.features[span].astype(np.float32, copy=False)
            scores = (features @ flat[:-1] + flat[-1]).reshape(-1, *weights.shape[1:])
            probabilities = _probabilities(scores)
            if self.is_sample:
                own = np.outer(batch.weights[span], row_weights / batch.weights.sum())
            else:
                own = batch.weights[span, None] * (batch.folds[span, None] != held_out)
            return probabilities, own, np.asarray(_uncertainty(probabilities) * (own > 0.0), dtype=np.float64)

        spans = row_spans(len(batch.labels), SPAN_ROWS)
        parts = list(in_threads(of_span, spans))
        totals = np.sum([uncertainty.sum(axis=0) for _, _, uncertainty in parts], axis=0)
        least = CERTAIN * totals / len(batch.labels)  # of each problem
        kept = []
        for span, (probabilities, own, uncertainty) in zip(spans, parts, strict=True):
            rows: Any = np.flatnonzero((uncertainty >= least).any(axis=1))
            if 2 * len(rows) > len(own):
                rows = slice(None)  # a copy of most rows would cost more than their share of the products
            features = batch.features[span][rows].astype(np.float32, copy=False)
            kept.append(_HessianBlock(features, probabilities[rows], own[rows].astype(np.float32)))
        return Hessian(kept, weights.shape[1:])


def _probabilities(scores: Singles) -> Singles:
    """Return probabilities (n_rows, n_problems, n_columns); for two classes, those of the second one."""
    if scores.shape[2] == 1:
        return np.asarray(expit(scores))
    scores -= scores.max(axis=2, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=2, keepdims=True)
    return scores


def _uncertainty(probabilities: Singles) -> Singles:
    """Return the trace of a row's Hessian by the scores, for each problem."""
    if probabilities.shape[2] == 1:
        return np.asarray((probabilities * (1.0 - probabilities))[:, :, 0])
    return np.asarray((probabilities * (1.0 - probabilities)).sum(axis=2))  # 1 - sum of squares would cancel


class _HessianBlock(NamedTuple):
    """Features of rows, probabilities (n_rows, n_problems, n_columns) and weights (n_rows, n_problems)."""

    features: Singles
    probabilities: Singles
    weights: Singles

    @property
    def uncertainty(self) -> Singles:
        """The traces of the Hessians by the scores, summed over problems."""
        return np.asarray((self.weights * _uncertainty(self.probabilities)).sum(axis=1))


@dataclass
class Hessian:
    """Hessians of the losses of several problems, as blocks of rows."""

    blocks: list[_HessianBlock]
    shape: tuple[int, ...]

    def product(self, C: float, vectors: Singles) -> Singles:
        """Return the Hessians of the objectives times vectors, each of shape (width + 1, n_problems, n_columns)."""
        flat = vectors.reshape(len(vectors), -1)

        def part(block: _HessianBlock) -> Singles:
            total = np.zeros_like(flat)
            for rows in row_spans(len(block.features), CACHED_ROWS):
                total += of_rows(*(array[rows] for array in block))
            return total

        def of_rows(features: Singles, probabilities: Singles, weights: Singles) -> Singles:
            changes = (features @ flat[:-1] + flat[-1]).reshape(len(features), *self.shape)
            if self.shape[1] == 1:
                changes *= probabilities * (1.0 - probabilities)
            else:
                changes -= np.einsum("ijk,ijk->ij", probabilities, changes)[:, :, None]
                changes *= probabilities
            changes *= weights[:, :, None]
            changes = changes.reshape(len(features), -1)
            return np.vstack([features.T @ changes, changes.sum(axis=0)])

        parts = in_threads(part, self.blocks)
        total = next(parts)
        for addend in parts:
            total += addend
        result = np.float32(C) * total.reshape(vectors.shape)
        result[:-1] += vectors[:-1]
        return result

    def class_curvature(self) -> float:
        r"""Return the mean curvature by the scores, :math:`\sum_i s_i \operatorname{tr}(\operatorname{diag} p - p p^T)`.

        It is the mean over the problems and over the directions in which a common number is not added to all scores.
        """
        n_problems, n_columns = self.shape
        total = sum(float(block.uncertainty.sum(dtype=np.float64)) for block in self.blocks)
        return total / (n_problems * max(1, n_columns - 1))

    def row_moments(self) -> Floats:
        """Return the lower half of the mean of [z, 1] [z, 1]' over some rows, which count by their uncertainty."""
        size = self.blocks[0].features.shape[1] + 1
        step = max(1, sum(len(block.features) for block in self.blocks) // (PRECONDITIONER_ROWS * size))
        sample = np.concatenate([_weighted_rows(block, step) for block in self.blocks])
        moments = np.zeros((size, size))

        def fill(rows: slice) -> None:
            moments[rows, : rows.stop] = sample[:, rows].T @ sample[:, : rows.stop]

        list(in_threads(fill, row_spans(size, TILE)[::-1]))  # the longest first
        return np.asarray(moments / max(float(moments[-1, -1]), np.finfo(np.float64).tiny))


def _weighted_rows(block: _HessianBlock, step: int) -> Singles:
    """Return every `step`-th row [z, 1] times the root of its uncertainty."""
    roots = np.sqrt(block.uncertainty[::step, None])
    return np.hstack([block.features[::step] * roots, roots])


@dataclass(frozen=True)
class Preconditioner:
    r"""The inverse of :math:`D + C s G`, the same for all classes.

    G are the moments of rows, s the curvature by the scores, and D is the identity matrix, 0 for the intercept. A
    common number that is added to all scores changes no probability: there the inverse is that of the identity.

    Attributes
    ----------
    C : float
        The value of C.
    factor : ndarray of shape (width + 1, width + 1)
        The lower Cholesky factor.
    """

    C: float
    factor: Singles

    @classmethod
    def of(cls, hessian: Hessian, C: float) -> "Preconditioner":
        """Return the preconditioner whose moments are means over the rows of all problems."""
        moments = hessian.row_moments()
        moments *= C * hessian.class_curvature()
        diagonal = np.diag(moments).copy()
        penalty = np.append(np.ones(len(diagonal) - 1), 0.0)
        for jitter in JITTERS:
            np.fill_diagonal(moments, diagonal + penalty + jitter * diagonal.max() + np.finfo(np.float32).tiny)
            try:
                return cls(C, cholesky(moments).astype(np.float32))
            except np.linalg.LinAlgError:
                continue
        return cls(C, np.diag(np.sqrt(diagonal + penalty)).astype(np.float32))

    @serial_blas
    def solve(self, vectors: Singles) -> Singles:
        """Return the inverse times vectors of shape (width + 1, n_problems, n_columns)."""
        common = vectors.mean(axis=2, keepdims=True) if vectors.shape[2] > 1 else np.float32(0.0)
        flat = (vectors - common).reshape(len(vectors), -1)
        solution = linalg.cho_solve((self.factor.T, False), flat, check_finite=False)
        return np.asarray(solution.reshape(vectors.shape) + common)


def _conjugate_gradients(
    product: Callable[[Singles], Singles],
    precondition: Callable[[Singles], Singles],
    residuals: Singles,
    tolerance: float,
) -> tuple[Floats, int]:
    """Solve one system per problem; arrays have the shape (width + 1, n_problems, n_columns).

    Return the solutions, and the number of products.

    Iterations end when the residuals, in the norm of the preconditioner, are below `tolerance` of those at the start,
    or far above them: where rows of very different weights make a Hessian singular in float32, they grow.
    """
    solution = np.zeros(residuals.shape)
    steps = preconditioned = precondition(residuals)
    sizes = _inner(residuals, preconditioned)
    goal, bound = tolerance**2 * sizes, LARGEST_GROWTH * sizes
    for n_products in range(MAX_PRODUCTS):
        products = product(steps)
        curvatures = _inner(steps, products)
        open_problems = (sizes > goal) & (sizes < bound) & (curvatures > 0.0)
        if not open_problems.any():
            break
        lengths = np.divide(sizes, curvatures, out=np.zeros_like(sizes), where=open_problems)[:, None]
        solution += lengths * steps
        residuals = residuals - lengths.astype(np.float32) * products
        preconditioned = precondition(residuals)
        before, sizes = sizes, np.where(open_problems, _inner(residuals, preconditioned), sizes)
        is_bounded = open_problems & (sizes < bound)
        ratios = np.divide(sizes, before, out=np.zeros_like(sizes), where=is_bounded)[:, None]
        steps = preconditioned + ratios.astype(np.float32) * steps
    return solution, n_products


def _inner(left: Array, right: Array) -> Floats:
    """Return the inner product of each problem, in float64."""
    return np.asarray(np.einsum("ijk,ijk->j", left, right, dtype=np.float64))
