# SPDX-License-Identifier: BSD-3-Clause
"""Classifiers that choose C along a path of solutions on all rows and without each fold."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bochner.kernels import Kernel
from bochner.linear_models.candidates import best_scores
from bochner.linear_models.feature_passes import FeaturePasses, are_held, fold_weights
from bochner.linear_models.folds import check_fold_weights, warn_at_edge
from bochner.linear_models.linear_model import LinearModel, OneVsRestMixin
from bochner.linear_models.training_sets import TrainingSet
from bochner.memory import check_memory
from bochner.rows import Floats, RowSource
from bochner.validation import StrOptions, positive_values

__all__ = ["PathClassifier"]

# Of C times the sum of the weights: Hessians in float32 overflow soon after, and float64 loses the penalty.
LARGEST_C = 1e30
LARGEST_DEFAULT_C = 1e15
CS = tuple(float(C) for C in np.logspace(-3, 5, 9))


class PathClassifier(OneVsRestMixin, LinearModel):
    """Base class of the support vector machine and of logistic regression.

    Subclasses solve their problems for one C and along a path of C. Their score is `_perfect_score` minus the mean
    error over the folds.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "Cs": ["array-like", None],
        "class_weight": [dict, StrOptions(["balanced"]), None],
    }
    _fitted_names = (
        *LinearModel._fitted_names,
        *("C_", "cv_errors_", "best_score_", "length_scale_scores_", "kernel_scores_", "_weights", "_class_totals"),
    )
    _perfect_score: ClassVar[float]

    def __init__(
        self,
        features: Any = None,
        *,
        Cs: Sequence[float] | None = None,
        cv: Any = 5,
        length_scales: Sequence[float] = (1.0,),
        kernels: Sequence[str | Kernel] | None = None,
        class_weight: Any = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.Cs = Cs
        self.cv = cv
        self.length_scales = length_scales
        self.kernels = kernels
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _problems(self, passes: FeaturePasses) -> Any:
        """Return the problems on the features of one candidate."""

    def _check_scores(self, rows: RowSource, width: int) -> None:
        """Refuse classes whose scores of all rows, which are held with the features, the memory is too small for."""
        if width and are_held(rows, width, 4):
            subject = f"{type(self).__name__} on {rows.shape[0]:,} rows of {len(self.classes_):,} classes"
            check_memory(8 * rows.shape[0] * self._n_targets, subject, "scores", "use fewer classes or rows")

    @abstractmethod
    def _walk(self, problems: Any, n_folds: int, Cs: Floats) -> Any:
        """Return the path along C, with its `errors` (n_Cs, n_folds)."""

    @abstractmethod
    def _solve_one(self, problems: Any, C: float, path: Any, position: int) -> Floats:
        """Return the weights (width + 1, n_targets) for one C on all rows; `path` is None without folds."""

    def _solve(self, training: TrainingSet, candidates: list[Any]) -> None:
        class_weights, n_folds = self._class_weights(training.rows), training.n_folds
        weights: Floats = training.accumulate(partial(fold_weights, n_folds), with_rows=False)
        Cs = self._solvable_Cs(float(weights.sum() * class_weights.max()))
        if n_folds:
            check_fold_weights(self.cv, weights[:-1], float(weights.sum()))
        elif len(candidates) * len(Cs) > 1:
            raise ValueError(
                "`cv`=None cannot choose among candidates; give a number of folds, or a single C, length scale and "
                "kernel."
            )
        problems = [
            self._problems(FeaturePasses.of(training, self.classes_, class_weights, features))
            for features in candidates
        ]
        paths = [self._walk(one, n_folds, Cs) for one in problems] if n_folds else []
        best = position = 0
        if paths:
            scores = np.array([self._perfect_score - path.errors.mean(axis=1) for path in paths])
            best, position = (int(index) for index in np.unravel_index(np.nanargmax(scores), scores.shape))
            self.cv_errors_ = paths[best].errors
            self.kernel_scores_, self.length_scale_scores_ = best_scores(np.nanmax(scores, axis=1), self._n_kernels)
            self.best_score_ = float(scores[best, position])
            if self.Cs is not None:
                warn_at_edge("Cs", Cs, float(Cs[position]), self.cv_errors_)
        self.features_, self.C_ = candidates[best], float(Cs[position])
        self._weights = self._solve_one(problems[best], self.C_, paths[best] if paths else None, position)

    def _solvable_Cs(self, total_weight: float) -> Floats:
        """Return the given values of C, or the default ones for which rounding leaves something of the penalty."""
        Cs = positive_values("Cs", self.Cs, default=CS)
        largest = (LARGEST_DEFAULT_C if self.Cs is None else LARGEST_C) / total_weight
        if Cs.min() > largest or (self.Cs is not None and Cs.max() > largest):
            raise ValueError(
                f"C={Cs.max():g} times the sample weights, which sum to {total_weight:.3g}, is too large to solve for; "
                f"give `Cs` of at most {largest:.3g}, or divide the weights by their mean."
            )
        return Cs[Cs <= largest]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_weights")  # a failed fit leaves some of the other attributes

    def _coefficients(self) -> tuple[Floats, Floats]:
        check_is_fitted(self)
        return self._weights[:-1], self._weights[-1]
