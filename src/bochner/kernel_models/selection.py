# SPDX-License-Identifier: BSD-3-Clause
"""Selection of the members of a kernel machine: kernels, scales and penalties, by their errors on validation rows.

The error of the rows that the scales were learned on is too optimistic to choose by, so that every candidate is fitted
to the sample that it was learned on and judged on other rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TypeVar

import numpy as np

from bochner.kernels import Exponential, Kernel, Laplacian, Matern, PowerExponential
from bochner.progress import track
from bochner.rows import Array, Floats, in_threads
from bochner.scaling.cholesky import factorize
from bochner.scaling.kernel_values import kernel_shape
from bochner.scaling.scale_learning import (
    FEW_ROWS,
    PENALTIES,
    LearnedScales,
    initial_scales,
    learn_scales,
    scaled_rows,
)

__all__ = ["Candidate", "Sample", "select_members"]

Task = TypeVar("Task")
FIRST_SAMPLE, SECOND_SAMPLE = 1_000, 2_000  # rows that the scales are learned on
SAMPLE_ROWS = 2 * SECOND_SAMPLE  # rows of both stages, validation rows included
LEAST_ROWS = 20  # fewer rows are too few to learn from
# Few rows are divided several times, because a single division is noisy: this number over that of the rows.
DIVIDED_ROWS, MIN_DIVISIONS, MAX_DIVISIONS = 2_500, 2, 6
MAX_METRIC_COLUMNS = 60
MAX_MEMBERS = 3
SMALLEST_GAIN = 0.005  # by which a further member lowers the error of the mean
CLOSE = 1.1  # the other column scaling is tried with the best kernel, if its error is at most this multiple
HOPELESS = 0.98  # relative error; beyond, the second stage finds nothing more
_error = attrgetter("error")


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel with scales and a penalty, and its error on validation rows.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    uses_ranks : bool
        The scaling of the columns, see `ColumnScaling`.
    kind : {"one scale", "scales", "metric"}
        Whether all columns share a scale, or have one each, or a matrix is learned.
    learned : LearnedScales
        The scales and the penalty.
    error : float
        Weighted mean squared error on the validation rows, relative to that of predicting the mean.
    predictions : ndarray of shape (n_validation, n_outputs)
        Predictions for the validation rows.
    """

    kernel: Kernel
    uses_ranks: bool
    kind: str
    learned: LearnedScales
    error: float = np.inf
    predictions: Floats = field(default_factory=lambda: np.empty((0, 0)), repr=False)


@dataclass(frozen=True)
class Sample:
    """Rows in both scalings of the columns; the first ones are learned from, the next ones are validation rows."""

    rows: dict[bool, Array]
    Y: Floats
    w: Floats
    n_learn: int = 0
    n_used: int = 0

    def rotated(self, share: float) -> "Sample":
        """Return this sample with a share of its rows moved from the beginning to the end."""
        n = int(share * len(self.Y))
        rows = {uses_ranks: np.roll(X, -n, axis=0) for uses_ranks, X in self.rows.items()}
        return replace(self, rows=rows, Y=np.roll(self.Y, -n, axis=0), w=np.roll(self.w, -n))

    def divided(self, n_learn: int, n_validation: int) -> "Sample":
        """Return this sample with numbers of rows to learn from and to validate with."""
        n_learn = min(n_learn, int(0.7 * len(self.Y)))
        return replace(self, n_learn=n_learn, n_used=min(n_learn + n_validation, len(self.Y)))

    def learning_rows(self, uses_ranks: bool) -> tuple[Array, Floats, Floats]:
        """Return the rows, targets and weights to learn from."""
        return self.rows[uses_ranks][: self.n_learn], self.Y[: self.n_learn], self.w[: self.n_learn]

    def learn(self, candidate: Candidate, max_steps: int) -> Candidate:
        """Continue to learn the scales of a candidate."""
        rows, is_metric = self.learning_rows(candidate.uses_ranks), candidate.kind == "metric"
        learned = learn_scales(
            candidate.kernel, *rows, start=candidate.learned, is_metric=is_metric, max_steps=max_steps
        )
        return self.validate(replace(candidate, learned=learned))

    def validate(self, candidate: Candidate) -> Candidate:
        """Return the candidate with its error on the validation rows, for the best of up to three penalties."""
        shape, scales = kernel_shape(candidate.kernel), candidate.learned.scales.astype(np.float32)
        X = scaled_rows(self.rows[candidate.uses_ranks][: self.n_used], scales)
        n, w = self.n_learn, self.w[: self.n_learn]
        K, cross = shape.matrix(X[:n]), shape.matrix(X[n:], X[:n])
        best = candidate
        for factor in (1.0, 0.25, 4.0):
            penalty = float(np.clip(factor * candidate.learned.penalty, 0.1 * PENALTIES[0], PENALTIES[1]))
            predictions = cross @ factorize(K, penalty / w).solve(self.Y[:n])
            error = self.error(predictions)
            if factor == 1.0 or error < best.error:
                learned = replace(candidate.learned, penalty=penalty)
                best = replace(candidate, learned=learned, error=error, predictions=predictions)
            if factor == 0.25 and best.learned.penalty < candidate.learned.penalty:
                break
        return best

    def error(self, predictions: Floats) -> float:
        """Return the weighted mean squared error on the validation rows, relative to that of predicting zero."""
        rows = slice(self.n_learn, self.n_used or None)
        errors, squares = (np.square(values).sum(axis=1) for values in (predictions - self.Y[rows], self.Y[rows]))
        return float(np.average(errors, weights=self.w[rows]) / (np.average(squares, weights=self.w[rows]) or 1.0))


def select_members(sample: Sample, is_fast: bool) -> tuple[list[Candidate], list[Candidate]]:
    """Return the members, and all candidates of the last stage of the first division, sorted by their errors.

    Each division of the sample into rows to learn from and validation rows has members of its own, the best one first.
    """
    if len(sample.Y) < LEAST_ROWS:
        learned = LearnedScales(np.ones(sample.rows[False].shape[1]), 1.0, 1.0)
        if len(sample.Y) > 1:
            folds = min(4, len(sample.Y))
            learned = initial_scales(kernel_shape(Matern()), sample.rows[False], sample.Y, sample.w, folds)
        variance = float(np.average(np.square(sample.Y).sum(axis=1), weights=sample.w)) or 1.0
        only = Candidate(Matern(), False, "one scale", learned, learned.error / variance)
        return [only], [only]
    stage = sample.divided(FIRST_SAMPLE, SECOND_SAMPLE)
    candidates = _first_stage(stage)
    if is_fast:
        return candidates[:1], candidates
    if len(sample.Y) < FEW_ROWS:
        found = [(stage, candidates)]
        n_divisions = int(np.clip(DIVIDED_ROWS // len(sample.Y), MIN_DIVISIONS, MAX_DIVISIONS))
        for number in range(1, n_divisions):
            stage = sample.rotated(number / n_divisions).divided(FIRST_SAMPLE, SECOND_SAMPLE)
            found.append((stage, _first_stage(stage)))
    elif candidates[0].error > HOPELESS:
        found = [(stage, candidates)]
    else:
        stage = sample.divided(SECOND_SAMPLE, SECOND_SAMPLE)
        found = [(stage, _second_stage(stage, candidates, validates=True))]
        stage = sample.rotated(0.5).divided(SECOND_SAMPLE, SECOND_SAMPLE)
        found.append((stage, _second_stage(stage, candidates, validates=False)))
    members = [member for stage, candidates in found for member in _average(stage, candidates)]
    return members, found[0][1]


def _first_stage(sample: Sample) -> list[Candidate]:
    """Learn every kernel on a small sample and return the candidates, the best one first."""

    def learn(task: tuple[Kernel, bool] | Candidate) -> list[Candidate]:
        if isinstance(task, Candidate):
            return [sample.learn(task, 16)]
        kernel, uses_ranks = task
        start = initial_scales(kernel_shape(kernel), *sample.learning_rows(uses_ranks), 4)
        shared = Candidate(kernel, uses_ranks, "one scale", start)
        return [sample.validate(shared), sample.learn(replace(shared, kind="scales"), 20)]

    matern = _in_parallel(learn, [(Matern(), True), (Matern(), False)], "learning the first kernel")
    best_errors = {ranks: min(c.error for c in matern if c.uses_ranks == ranks) for ranks in (True, False)}
    uses_ranks = best_errors[True] <= best_errors[False]
    kernels = (PowerExponential(p=1.5, q=1.0), Laplacian(), Exponential())
    found = matern + _in_parallel(learn, [(kernel, uses_ranks) for kernel in kernels], "learning other kernels")
    tasks: list[tuple[Kernel, bool] | Candidate] = []
    if sample.rows[uses_ranks].shape[1] <= MAX_METRIC_COLUMNS:
        euclidean = [c for c in found if kernel_shape(c.kernel).p == 2.0 and c.kind == "scales"]
        tasks.append(replace(min(euclidean, key=_error), kind="metric"))
    leader = min(found, key=_error)
    if best_errors[not uses_ranks] <= CLOSE * best_errors[uses_ranks] and leader not in matern:
        tasks.append((leader.kernel, not uses_ranks))
    return sorted(found + _in_parallel(learn, tasks, "learning a matrix"), key=_error)


def _second_stage(sample: Sample, candidates: list[Candidate], validates: bool) -> list[Candidate]:
    """Continue the best two on more rows; if asked for, validate the best of the first stage beside them."""
    learned = [candidate for candidate in candidates if candidate.kind != "one scale"][:2]
    shared = [candidate for candidate in candidates[3:] if candidate.kind == "one scale"][:1]
    tasks = [(candidate, True) for candidate in learned]
    tasks += [(candidate, False) for candidate in candidates[:3] + shared if validates]

    def work(task: tuple[Candidate, bool]) -> list[Candidate]:
        candidate, continues = task
        return [sample.learn(candidate, 10) if continues else sample.validate(candidate)]

    return sorted(_in_parallel(work, tasks, "learning on more rows"), key=_error)


def _in_parallel(work: Callable[[Task], list[Candidate]], tasks: Sequence[Task], name: str) -> list[Candidate]:
    """Return the candidates of all tasks, computed in threads, with progress."""
    return [candidate for found in track(in_threads(work, tasks), name, len(tasks)) for candidate in found]


def _average(sample: Sample, candidates: list[Candidate]) -> list[Candidate]:
    """Return the best candidate and those that lower the error of the mean of the predictions."""
    members, total, error = [candidates[0]], candidates[0].predictions, candidates[0].error
    while len(members) < min(MAX_MEMBERS, len(candidates)):
        rest = [candidate for candidate in candidates if candidate not in members]
        errors = [sample.error((total + c.predictions) / (len(members) + 1)) for c in rest]
        number = int(np.argmin(errors))
        if errors[number] > (1.0 - SMALLEST_GAIN) * error:
            break
        members.append(rest[number])
        total, error = total + rest[number].predictions, errors[number]
    return members
