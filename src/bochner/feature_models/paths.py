# SPDX-License-Identifier: BSD-3-Clause
"""The choice of features and of a penalty along paths of solutions, for losses without a closed form.

Paths are followed on features in memory: those of all rows, or of a sample where they do not fit. Then the solution
for the chosen penalty on the sample is the start of a few passes over all rows.
"""

import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from bochner.feature_maps import FeatureMap, map_rows
from bochner.feature_models import active_sets, newton
from bochner.feature_models.candidates import feature_map_of
from bochner.feature_models.folds import GivenFolds, RoundRobin, check_fold_weights
from bochner.feature_models.training import Choice, TrainingSet, weights_of_folds
from bochner.losses import Loss, SquaredHinge
from bochner.rows import Array, Batch, Floats, RowSource, Statistic, row_spans
from bochner.rows.block_sizes import MAX_FEATURE_ROWS, MAX_HELD_BYTES, MAX_PATH_BYTES, MAX_PATH_ROWS

__all__ = ["fit_path", "is_held"]


Encode = Callable[[Array], Array]


def is_held(rows: RowSource, width: int, item_bytes: int) -> bool:
    """Return whether the features of all rows are held: those of rows in memory, if they are not large."""
    return rows.location == "memory" and rows.shape[0] * width * item_bytes <= MAX_HELD_BYTES


def fit_path(
    candidates: list[Any],
    training: TrainingSet,
    encode: Encode,
    penalties: Callable[[float], Floats],
    cv: Any,
    loss: Loss,
    n_outputs: int,
) -> Choice:
    """Choose the candidate and the penalty with the smallest mean error over the folds, and solve on all rows.

    Parameters
    ----------
    candidates : list of transformer
        Fitted features.
    training : TrainingSet
        Rows with folds.
    encode : callable
        Returns what the loss compares with scores: positions of classes, or columns of targets.
    penalties : callable
        Returns candidate penalties, relative to the sum of the weights, for that sum.
    cv : object
        What the user asked for, for the error message.
    loss : Loss
        The loss, which is fitted to the targets.
    n_outputs : int
        Number of outputs of the model.
    """
    rows, weigh, n_folds = training.rows, training.weigh, training.n_folds
    row = rows.select(slice(0, 1)).X
    maps = [feature_map_of(features, row=row) for features in candidates]
    sample = _hold_rows(training, max(feature_map.n_columns for feature_map in maps), encode)
    is_whole = len(sample.y) == rows.shape[0]
    weight = float(training.fold_weights().sum())
    alphas = penalties(weight)
    sample = sample.drop_zero_weights()
    if n_folds:
        check_fold_weights(cv, weights_of_folds(n_folds, sample))
    elif len(maps) * len(alphas) > 1:
        raise ValueError(
            "`cv`=None cannot choose among candidates; give a number of folds, or a single penalty, length scale and "
            "kernel."
        )
    unit = float(sample.row_weights.mean())  # of sample weights, so that float32 holds them
    prepare = partial(_feature_batch, encode, weigh, unit)
    targets, in_loss = encode(sample.y), sample.row_weights
    loss.fit(targets, in_loss)
    Cs = 0.5 / (alphas * float((in_loss if weigh is None else in_loss * weigh(sample.y)).sum() / unit))
    scores, best, position = np.zeros(len(maps)), 0, 0
    for number, feature_map in enumerate(maps):
        tried = _problems(prepare(feature_map, sample), loss, n_outputs)
        path = tried.follow(n_folds, Cs) if n_folds else None
        by_penalty = np.zeros(1) if path is None else loss.perfect_score - path.errors.mean(axis=1)
        scores[number] = np.nanmax(by_penalty)
        if number == 0 or scores[number] > scores[best]:
            best, position = number, int(np.nanargmax(by_penalty))
            problems, chosen = tried, path
    errors, start = (np.empty((len(Cs), 0)), None) if chosen is None else (chosen.errors, chosen.weights[position])
    alpha, weights = float(alphas[position]), problems.finish(float(Cs[position]), start)
    if not is_whole:
        C, of_rows = 0.5 * unit / (alpha * weight), partial(prepare, maps[best])
        weights = _finish_on_all_rows(rows, of_rows, problems.batch, loss, C, weights)
    return Choice(candidates[best], position, alpha, weight, weights[:-1], weights[-1], errors, scores)


def _hold_rows(training: TrainingSet, width: int, encode: Encode) -> Batch:
    """Return all rows, or a sample where the features of all rows are not held, with their folds."""
    rows, folds = training.rows, training.assignment
    chosen: Any = slice(None)
    if not is_held(rows, width, rows.dtype.itemsize):
        n_most = min(MAX_PATH_ROWS, MAX_PATH_BYTES // (rows.dtype.itemsize * width))
        chosen = rows.draw_rows(n_most, np.random.default_rng(0))
    batch = rows.select(chosen)
    if isinstance(folds, RoundRobin):
        return batch._replace(fold_of=folds.fold_of(0, batch.y))
    if not isinstance(folds, GivenFolds):  # as many folds of the sample
        is_classifier = encode(batch.y[:1]).ndim == 1
        folds, chosen = GivenFolds.split(folds.n_folds, batch.X, batch.y, classifier=is_classifier), slice(None)
    return batch._replace(fold_of=folds.given[chosen])


def _problems(batch: Batch, loss: Loss, n_outputs: int) -> "active_sets.ClassProblems | newton.NewtonProblems":
    """Return the problems on all rows and without each fold: those of a squared hinge have a faster solver."""
    if isinstance(loss, SquaredHinge):
        return active_sets.ClassProblems(batch, n_outputs)
    return newton.NewtonProblems(batch, loss, n_outputs)


def _finish_on_all_rows(
    rows: RowSource, prepare: Callable[[Batch], Batch], sample: Batch, loss: Loss, C: float, start: Floats
) -> Floats:
    """Solve by passes over all rows, from the solution on a sample, whose features Hessians are computed from."""
    training = TrainingSet(rows, RoundRobin(0))

    def accumulate(statistic: Callable[[Batch], Statistic]) -> Statistic:
        return training.accumulate(partial(_statistic_of_features, prepare, statistic), "passes over all rows")

    return newton.solve_all_rows(sample, loss, C, start, accumulate)


def _feature_batch(
    encode: Encode, weigh: Callable[[Array], Floats] | None, unit: float, feature_map: FeatureMap, batch: Batch
) -> Batch:
    """Return the features of rows, with what the loss compares with scores and with weights of mean one."""
    feature_map.check(batch.X)
    weights = batch.row_weights / unit
    in_loss = weights if weigh is None else weights * weigh(batch.y)
    return Batch(map_rows(feature_map, batch.X), encode(batch.y), weights, batch.fold_of, in_loss)


def _statistic_of_features(
    prepare: Callable[[Batch], Batch], statistic: Callable[[Batch], Statistic], batch: Batch
) -> Statistic:
    """Add up a statistic of the features of some rows, which are computed again in every pass."""
    blocks = (batch.select(span) for span in row_spans(batch.X.shape[0], MAX_FEATURE_ROWS))
    return reduce(operator.add, (statistic(prepare(block)) for block in blocks))
