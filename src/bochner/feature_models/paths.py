# SPDX-License-Identifier: BSD-3-Clause
"""The choice of features and of a penalty along paths of solutions, for losses without a closed form.

Paths are followed on features in memory: those of all rows, or of a sample where they do not fit. Then the solution
for the chosen penalty on the sample is the start of a few passes over all rows.
"""

import operator
import warnings
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from bochner.feature_maps import FeatureMap, map_rows
from bochner.feature_models.active_sets import ActiveSetSolver
from bochner.feature_models.candidates import feature_map_of
from bochner.feature_models.folds import (
    Choice,
    GivenFolds,
    RoundRobin,
    TrainingSet,
    check_fold_weights,
    weights_of_folds,
)
from bochner.feature_models.newton import ALL_ROWS, ROUGH_TOLERANCE, TOLERANCE, NewtonSolver, scores_of, waypoints
from bochner.losses import Loss, SquaredHinge
from bochner.progress import progress_bar
from bochner.rows import Array, Batch, Floats, RowSource, Statistic, in_threads, row_spans
from bochner.rows.block_sizes import MAX_FEATURE_ROWS, MAX_HELD_BYTES, MAX_PATH_BYTES, MAX_PATH_ROWS, MAX_SPAN_ROWS

__all__ = ["fit_path", "is_held", "passed_minimum", "search_path", "warn_at_edge"]

PATH_TOLERANCE = 1e-4  # predicted decrease of the last step, relative to the objective; serves the choice of C
PASS_TOLERANCE = 1e-9  # where a step needs a pass over rows that are not held
CLEAR = 2.0  # standard errors by which a mean error is clearly above another one
LEAST_FALL = 0.01  # of the error at the edge of a grid that is worth a warning

Encode = Callable[[Array], Array]
Solver = ActiveSetSolver | NewtonSolver


def is_held(rows: RowSource, width: int, item_bytes: int) -> bool:
    """Return whether the features of all rows are held: those of rows in memory, if they are not large."""
    return rows.location == "memory" and rows.shape[0] * width * item_bytes <= MAX_HELD_BYTES


def fit_path(
    candidates: list[Any],
    training: TrainingSet,
    encode: Encode,
    penalties_for: Callable[[float], Floats],
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
    penalties_for : callable
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
    alphas = penalties_for(weight)
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
    loss.fit(encode(sample.y), sample.row_weights)
    scores, best = np.zeros(len(maps)), 0
    for number, feature_map in enumerate(maps):
        held = prepare(feature_map, sample)
        Cs = 0.5 / (alphas * float(held.loss_weight.sum()))
        has_active_sets = type(loss) is SquaredHinge  # a subclass can be another loss
        solver: Solver = ActiveSetSolver(held, n_outputs) if has_active_sets else NewtonSolver(held, loss, n_outputs)
        path = _follow(solver, loss, n_folds, Cs)
        scores[number] = loss.perfect_score - np.nanmin(path.means)
        if number == 0 or scores[number] > scores[best]:
            best, chosen, chosen_path = number, solver, path
    position = int(np.nanargmin(chosen_path.means))
    C, alpha = float(Cs[position]), float(alphas[position])
    weights = chosen.solve(C, chosen_path.weights[position][:, None], ALL_ROWS, TOLERANCE)
    if not is_whole:
        C_of_all = 0.5 * unit / (alpha * weight)
        held = chosen.batch._replace(loss_weight=chosen.batch.loss_weight * (C / C_of_all))  # stands for all rows
        weights = _finish_in_passes(rows, partial(prepare, maps[best]), held, loss, C_of_all, weights)
    coef, intercept = weights[:-1, 0], weights[-1, 0]
    return Choice(candidates[best], position, alpha, weight, coef, intercept, chosen_path.errors, scores)


class _Path(NamedTuple):
    """Errors (n_Cs, n_folds), their means, and weights (n_Cs, width + 1, n_outputs) on all rows.

    Errors of values of C that were not tried are NaN.
    """

    errors: Floats
    means: Floats
    weights: Floats


def _follow(solver: Solver, loss: Loss, n_folds: int, Cs: Floats) -> _Path:
    """Solve on all rows and without each fold for values of C from the middle on, as `search_path` chooses."""
    order, middle = np.argsort(Cs).tolist(), len(Cs) // 2
    first, held_out = float(Cs[order[middle]]), np.append(ALL_ROWS, np.arange(n_folds))
    latest = at_middle = solver.start(first, held_out)
    if not n_folds:
        return _Path(np.empty((1, 0)), np.zeros(1), latest[None, :, 0])
    errors, weights = np.full((len(Cs), n_folds), np.nan), np.zeros((len(Cs), len(latest), latest.shape[2]))
    with progress_bar("choosing the penalty", len(Cs)) as advance:

        def evaluate(place: int) -> Floats:
            nonlocal latest, at_middle
            before, C = at_middle if place == middle - 1 else latest, float(Cs[order[place]])
            if place > middle:
                for waypoint in waypoints(float(Cs[order[place - 1]]), C):
                    before = solver.solve(waypoint, before, held_out, ROUGH_TOLERANCE)
            latest = solver.solve(C, before, held_out, PATH_TOLERANCE)
            at_middle = latest if place == middle else at_middle
            weights[order[place]] = latest[:, 0]
            errors[order[place]] = _mean_errors(solver.batch, loss, latest[:, 1:])
            advance(1)
            return np.asarray(errors[order[place]])

        search_path(len(Cs), evaluate)
    return _Path(errors, errors.mean(axis=1), weights)


def _mean_errors(batch: Batch, loss: Loss, weights: Floats) -> Floats:
    """Return the mean errors (n_folds,) on the rows that each problem leaves out."""

    def of_span(span: slice) -> Floats:
        own = batch.sample_weight[span, None] * (batch.fold_of[span, None] == np.arange(weights.shape[1]))
        errors = loss.errors(batch.y[span], scores_of(batch.X[span], weights))
        return np.stack([(own * errors).sum(axis=0), own.sum(axis=0)])

    errors, weight = reduce(operator.add, in_threads(of_span, row_spans(len(batch.y), MAX_SPAN_ROWS)))
    return np.asarray(errors / weight)


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


def _finish_in_passes(
    rows: RowSource, prepare: Callable[[Batch], Batch], sample: Batch, loss: Loss, C: float, start: Floats
) -> Floats:
    """Solve by passes over all rows, from the solution on a sample, whose features Hessians are computed from."""
    training = TrainingSet(rows, RoundRobin(0))  # without weights of classes, which `prepare` multiplies by

    def accumulate(statistic: Callable[[Batch], Statistic]) -> Statistic:
        return training.accumulate(partial(_statistic_of_features, prepare, statistic), "passes over all rows")

    return NewtonSolver(sample, loss, start.shape[2], accumulate).solve(C, start, ALL_ROWS, PASS_TOLERANCE)


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


def passed_minimum(errors: Floats) -> bool:
    """Return whether the last of the mean errors along a path is clearly above the smallest one.

    Clearly means by more than two standard errors of the differences between the folds.

    Parameters
    ----------
    errors : ndarray of shape (n_steps, n_folds)
        Errors of the folds at each step along the path.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.paths import passed_minimum
    >>> passed_minimum(np.array([[0.3, 0.2, 0.3], [0.1, 0.2, 0.1], [0.2, 0.1, 0.2]]))
    False
    >>> passed_minimum(np.array([[0.3, 0.2, 0.3], [0.1, 0.2, 0.1], [0.3, 0.4, 0.2]]))
    True
    """
    n_folds = errors.shape[1]
    differences = errors[-1] - errors[errors.mean(axis=1).argmin()]
    if n_folds < 2 or differences.mean() <= 0.0:
        return False
    return bool(differences.mean() > CLEAR * differences.std(ddof=1) / np.sqrt(n_folds))


def warn_at_edge(name: str, values: Floats, chosen: float, errors: Floats) -> None:
    """Warn of a grid of three or more values whose best one is at an edge, where the error still falls clearly.

    Clearly means by more than 1 % and by more than two standard errors over the folds.

    Parameters
    ----------
    name : str
        The parameter that has the values.
    values : ndarray of shape (n_values,)
        The grid.
    chosen : float
        Its best value.
    errors : ndarray of shape (n_values, n_folds)
        Errors of the folds; NaN for values that were not tried.
    """
    if len(values) < 3 or values.min() < chosen < values.max():
        return
    order = np.argsort(values)
    errors, (edge, inner) = errors[order], (0, 1) if chosen == values.min() else (-1, -2)
    fall = 1.0 - errors[edge].mean() / errors[inner].mean() if errors[inner].mean() > 0.0 else 0.0
    if fall > LEAST_FALL and passed_minimum(errors[[edge, inner]]):
        side = "smallest" if edge == 0 else "largest"
        warnings.warn(
            f"The best one of `{name}` is the {side}, {chosen:g}, whose error is {fall:.0%} below that of the next "
            f"one; add {'smaller' if edge == 0 else 'larger'} values.",
            UserWarning,
            stacklevel=3,
        )


def search_path(n_steps: int, evaluate: Callable[[int], Floats]) -> None:
    """Evaluate errors along a path, from its middle upwards and then downwards, until each has passed the minimum.

    Parameters
    ----------
    n_steps : int
        Number of steps of the path.
    evaluate : callable
        Returns the errors (n_folds,) at a step.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.paths import search_path
    >>> steps = []
    >>> search_path(9, lambda step: steps.append(step) or np.full(5, abs(step - 6.0)))
    >>> steps
    [4, 5, 6, 7]
    """
    middle = n_steps // 2
    upwards: list[Floats] = []
    for step in range(middle, n_steps):
        upwards.append(evaluate(step))
        if passed_minimum(np.array(upwards)):
            break
    downwards = upwards[::-1]
    for step in range(middle - 1, -1, -1):
        if passed_minimum(np.array(downwards)):
            break
        downwards.append(evaluate(step))
