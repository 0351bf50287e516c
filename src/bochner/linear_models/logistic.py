# SPDX-License-Identifier: BSD-3-Clause
"""`FourierLogisticRegression`: multinomial logistic regression on features."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.utils.validation import check_is_fitted

from bochner.kernels import Kernel
from bochner.linear_models.candidates import best_scores
from bochner.linear_models.feature_passes import FeaturePasses, fold_weights
from bochner.linear_models.folds import check_fold_weights
from bochner.linear_models.linear_model import LinearModel, OneVsRestMixin
from bochner.linear_models.log_loss import CURVATURE_BYTES, Curvature, LogisticProblems, solve_one, walk
from bochner.linear_models.memory import check_memory
from bochner.linear_models.training_sets import TrainingSet
from bochner.parameters import LOGISTIC_EXPLANATIONS, Explanation
from bochner.rows import Floats, RowSource
from bochner.validation import StrOptions, positive_values

__all__ = ["FourierLogisticRegression"]

CS = tuple(float(C) for C in np.logspace(-3, 5, 9))
MOST_SAMPLED = 1 << 16  # rows that Hessians are computed from when the features of all rows are not held


class FourierLogisticRegression(OneVsRestMixin, LinearModel):
    r"""Logistic regression on features, for probabilities; C is chosen by the cross-validated log loss.

    Minimizes the objective of scikit-learn's `LogisticRegression`,
    :math:`\tfrac12 |c|^2 - C \sum_i w_i \log p_{y_i}(x_i)` with :math:`p(x) \propto \exp(c \cdot z(x) + b)`, for all
    folds at once by Newton's method. Several classes have one column of coefficients each (multinomial), two classes
    have a single one. The intercepts are not penalized.

    Parameters
    ----------
    features : transformer, default=None
        The features: `FourierFeatures` (None means the default ones), or any scikit-learn transformer, such as
        ``Nystroem(256)`` or a pipeline, which is applied block by block.
    Cs : sequence of float, default=None
        Candidates for C; None means ``numpy.logspace(-3, 5, 9)``. They are tried in increasing order, until the mean
        log loss over the folds is above its minimum by more than two standard errors.
    cv : int, splitter, iterable or None, default=5
        Cross-validation folds, as in scikit-learn. Each row must be in at most one test set, and in the training set of
        every other fold. None skips cross-validation and needs a single candidate.
    length_scales : sequence of float, default=(1.0,)
        Candidate length scales, as multiples of the length scale of the features.
    kernels : sequence of str or Kernel, default=None
        Candidate kernels, as for `FourierFeatures`, each combined with every length scale; None means the kernel of the
        features.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights in the training loss.
    random_state : int, RandomState instance or None, default=None
        Seed of the features; None keeps the `random_state` of `features`.
    verbose : int, default=0
        Show a progress bar when `verbose` > 0 and the output is a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The sorted classes.
    coef_ : ndarray of shape (1, n_columns) or (n_classes, n_columns)
        Coefficients of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    C_ : float
        The chosen C.
    features_ : transformer
        The fitted features.
    encoding_ : Encoding
        How the columns of a table become numbers; only after a fit on a file.
    cv_errors_ : ndarray of shape (n_Cs, n_folds)
        Mean log losses with the chosen features; NaN for values of C that were not tried.
    best_score_ : float
        Minus the mean log loss over the folds with the chosen C.
    length_scale_scores_ : ndarray of shape (n_length_scales,)
        The best score of each length scale with the chosen kernel.
    kernel_scores_ : ndarray of shape (n_kernels,)
        The best score of each kernel.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns seen during `fit`, if they were all strings.

    See Also
    --------
    FourierSVC : The support vector machine, without probabilities.

    Notes
    -----
    If the features of all rows take more than 4 GiB, or the rows are in a file or on a cluster, the directions of
    Newton's steps are computed from a sample of up to 65,536 rows, and gradients from all rows. The optimum is the
    same.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import FourierFeatures, FourierLogisticRegression
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FourierLogisticRegression(FourierFeatures(n_frequencies=64), random_state=0).fit(X[:1000], y[:1000])
    >>> round(model.score(X[1000:], y[1000:]), 2)
    0.94
    >>> model.predict_proba(X[1000:1002]).max(axis=1).round(2)
    array([0.99, 1.  ])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "Cs": ["array-like", None],
        "class_weight": [dict, StrOptions(["balanced"]), None],
    }
    _explanations: ClassVar[Mapping[str, Explanation]] = LOGISTIC_EXPLANATIONS
    _fitted_names = (
        *LinearModel._fitted_names,
        *("C_", "cv_errors_", "best_score_", "length_scale_scores_", "kernel_scores_", "_weights", "_class_totals"),
    )

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

    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or path
            Rows, or a file when the model was fitted on one.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`; for a Dask collection a Dask array.
        """
        return self._map_scores(X, _probabilities)

    def predict_log_proba(self, X: Any) -> Any:
        """Predict the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or path
            Rows, or a file when the model was fitted on one.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of probabilities, in the order of `classes_`; for a Dask collection a Dask array.
        """
        return self._map_scores(X, _log_probabilities)

    def _check_width(self, width: int, rows: RowSource) -> None:
        del rows
        check_memory(8 * (width + 1) ** 2 * 4, width, "A logistic regression", "a preconditioner")

    def _solve(self, training: TrainingSet, candidates: list[Any]) -> None:
        """Follow the path along C for every candidate, then solve on all rows."""
        Cs = positive_values("Cs", self.Cs, default=CS)
        class_weights = self._class_weights(training.rows)
        n_folds = training.n_folds
        if n_folds:
            weights: Floats = training.accumulate(partial(fold_weights, n_folds), with_rows=False)
            check_fold_weights(self.cv, weights[:-1], float(weights.sum()))
        elif len(candidates) * len(Cs) > 1:
            raise ValueError(
                "`cv`=None cannot choose among candidates; give a number of folds, or a single C, length scale and "
                "kernel."
            )
        problems = [self._problems(training, class_weights, features) for features in candidates]
        paths = [walk(one, n_folds, Cs) for one in problems] if n_folds else []
        best = position = 0
        if paths:
            scores = np.array([-path.errors.mean(axis=1) for path in paths])
            best, position = (int(index) for index in np.unravel_index(np.nanargmax(scores), scores.shape))
            self.cv_errors_ = paths[best].errors
            self.kernel_scores_, self.length_scale_scores_ = best_scores(np.nanmax(scores, axis=1), self._n_kernels)
            self.best_score_ = float(scores[best, position])
        self.features_, self.C_ = candidates[best], float(Cs[position])
        self._weights = solve_one(problems[best], self.C_, paths[best] if paths else None, position)

    def _problems(self, training: TrainingSet, class_weights: Floats, features: Any) -> LogisticProblems:
        """Return the problems of candidate features, with the rows that Hessians are computed from."""
        passes = FeaturePasses.of(training, self.classes_, class_weights, features)
        width, n_classes = passes.feature_map.width, len(self.classes_)
        # Features and the probabilities of every fold, in float32.
        n_most = CURVATURE_BYTES // (4 * (width + (training.n_folds + 1) * n_classes))
        held = passes.held
        is_sample = held is None or len(held.labels) > n_most
        rows = passes.sample(min(n_most, MOST_SAMPLED)) if is_sample else held
        assert rows is not None
        return LogisticProblems(passes.accumulate, Curvature(rows, is_sample), width, n_classes)

    def _coefficients(self) -> tuple[Floats, Floats]:
        check_is_fitted(self)
        return self._weights[:-1], self._weights[-1]


def _probabilities(scores: Floats) -> Floats:
    if scores.shape[1] == 1:
        return np.hstack([expit(-scores), expit(scores)])
    return np.asarray(softmax(scores, axis=1))


def _log_probabilities(scores: Floats) -> Floats:
    if scores.shape[1] == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
