# SPDX-License-Identifier: BSD-3-Clause
"""The choice of features and of a penalty along paths of solutions, for losses without a closed form."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bochner.feature_models import active_sets, newton
from bochner.feature_models.curvature import CURVATURE_BYTES, Curvature
from bochner.feature_models.feature_passes import FeaturePasses, fold_weights
from bochner.feature_models.folds import NO_FOLD, check_fold_weights
from bochner.feature_models.training_sets import TrainingSet
from bochner.losses import Loss, SquaredHinge
from bochner.rows import Array, Floats

__all__ = ["PathChoice"]

MOST_SAMPLED = 1 << 16  # rows that Hessians are computed from when the features of all rows are not held


@dataclass(frozen=True)
class PathChoice:
    """The chosen features and penalty, and the solution on all rows.

    Attributes
    ----------
    features : transformer
        The chosen features.
    position : int
        The position of the chosen penalty.
    C : float
        The chosen penalty.
    coef : ndarray of shape (width, n_outputs)
        Coefficients.
    intercept : ndarray of shape (n_outputs,)
        Intercepts.
    errors : ndarray of shape (n_penalties, n_folds)
        Mean errors of the chosen features on the folds; NaN for penalties that were not tried.
    scores : ndarray of shape (n_candidates,)
        The best score of each candidate.
    """

    features: Any
    position: int
    C: float
    coef: Floats
    intercept: Floats
    errors: Floats
    scores: Floats

    @classmethod
    def of(
        cls,
        candidates: list[Any],
        training: TrainingSet,
        loss: Loss,
        n_outputs: int,
        encode: Callable[[Array], Array],
        class_weights: Floats | None,
        Cs: Floats,
        cv: Any,
    ) -> "PathChoice":
        """Choose the candidate and the penalty with the smallest mean error over the folds, and solve on all rows.

        Parameters
        ----------
        candidates : list of transformer
            Fitted features.
        training : TrainingSet
            Rows with folds.
        loss : Loss
            The loss, fitted to the targets.
        n_outputs : int
            Number of outputs of the model.
        encode : callable
            Returns what the loss compares with scores.
        class_weights : ndarray of shape (n_classes,) or None
            Weights of the classes.
        Cs : ndarray of shape (n_penalties,)
            Factors of the sum of losses, relative to half of the squared coefficients.
        cv : object
            What the user asked for, for the error message.
        """
        n_folds = training.n_folds
        weights: Floats = training.accumulate(partial(fold_weights, n_folds), with_rows=False)
        unit = float(weights.sum()) / training.rows.shape[0]
        if n_folds:
            check_fold_weights(cv, weights[:-1], float(weights.sum()))
        elif len(candidates) * len(Cs) > 1:
            raise ValueError(
                "`cv`=None cannot choose among candidates; give a number of folds, or a single penalty, length scale "
                "and kernel."
            )
        problems = [
            _problems(FeaturePasses.of(training, encode, class_weights, unit, features), loss, n_outputs)
            for features in candidates
        ]
        paths = [walk(n_folds, unit * Cs) for walk, _ in problems] if n_folds else []
        best = position = 0
        errors, scores = np.empty((len(Cs), 0)), np.zeros(len(candidates))
        if paths:
            by_penalty = np.array([loss.perfect_score - path.errors.mean(axis=1) for path in paths])
            best, position = (int(index) for index in np.unravel_index(np.nanargmax(by_penalty), by_penalty.shape))
            errors, scores = paths[best].errors, np.nanmax(by_penalty, axis=1)
        weights = problems[best][1](unit * float(Cs[position]), paths[best] if paths else None, position)
        return cls(candidates[best], position, float(Cs[position]), weights[:-1], weights[-1], errors, scores)


def _problems(passes: FeaturePasses, loss: Loss, n_outputs: int) -> tuple[Callable[..., Any], Callable[..., Floats]]:
    """Return the functions that follow a path of penalties over folds, and that solve for one penalty on all rows."""
    training, held = passes.training, passes.held
    if isinstance(loss, SquaredHinge) and held is not None:
        classes = active_sets.ClassProblems(held, n_outputs)
        return partial(active_sets.walk_classes, classes), partial(active_sets.solve_classes, classes)
    width = passes.feature_map.n_columns
    if held is not None:
        curvature = Curvature(held, loss, is_sample=False)
    else:  # features and the curvatures of every fold, in float32
        n_most = CURVATURE_BYTES // (4 * (width + (training.n_folds + 1) * n_outputs))
        curvature = Curvature(passes.sample(min(n_most, MOST_SAMPLED)), loss, is_sample=True)
    batch = training.sample_targets(MOST_SAMPLED)
    targets = passes.encode(batch.y)
    in_loss = batch.counts if passes.class_weights is None else batch.counts * passes.class_weights[targets]
    parts = [batch.folds != fold for fold in (*range(training.n_folds), NO_FOLD)]
    intercepts = np.array([loss.start(targets[part], in_loss[part], n_outputs) for part in parts])
    newton_problems = newton.NewtonProblems(passes.accumulate, curvature, loss, intercepts, width)
    return partial(newton.walk, newton_problems), partial(newton.solve_one, newton_problems)
