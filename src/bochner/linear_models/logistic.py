# SPDX-License-Identifier: BSD-3-Clause
"""`FourierLogisticRegression`: multinomial logistic regression on features."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax

from bochner.feature_maps.formulas import LogisticFormula
from bochner.linear_models.curvature import CURVATURE_BYTES, Curvature
from bochner.linear_models.feature_passes import FeaturePasses
from bochner.linear_models.log_loss import LogisticProblems, LogLossPath, solve_one, walk
from bochner.linear_models.path_classifier import PathClassifier
from bochner.memory import check_memory
from bochner.parameters import C_EXPLANATIONS, Explanation
from bochner.rows import Floats, RowSource

__all__ = ["FourierLogisticRegression"]

MOST_SAMPLED = 1 << 16  # rows that Hessians are computed from when the features of all rows are not held


class FourierLogisticRegression(PathClassifier):
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
        log loss over the folds is above its minimum by more than two standard errors. A
        warning says if the best one is at an edge of three or more given ones, and the error still falls there.
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
        Show progress on standard error when `verbose` > 0: a bar in a terminal (with rich), else a few lines per task.

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
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
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

    _explanations: ClassVar[Mapping[str, Explanation]] = C_EXPLANATIONS
    _perfect_score = 0.0
    _formula = LogisticFormula

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
        subject = f"A logistic regression on {width:,} columns"
        check_memory(36 * (width + 1) ** 2, subject, "a preconditioner", "use fewer frequencies")
        self._check_scores(rows, width)

    def _problems(self, passes: FeaturePasses) -> LogisticProblems:
        """Return the problems on the features of one candidate, with the rows that Hessians are computed from."""
        width, n_classes, held = passes.feature_map.width, len(self.classes_), passes.held
        if held is not None:
            curvature = Curvature(held, is_sample=False)
        else:  # features and the probabilities of every fold, in float32
            n_most = CURVATURE_BYTES // (4 * (width + (passes.training.n_folds + 1) * n_classes))
            curvature = Curvature(passes.sample(min(n_most, MOST_SAMPLED)), is_sample=True)
        return LogisticProblems(passes.accumulate, curvature, width, n_classes)

    def _walk(self, problems: LogisticProblems, n_folds: int, Cs: Floats) -> LogLossPath:
        return walk(problems, n_folds, Cs)

    def _solve_one(self, problems: LogisticProblems, C: float, path: LogLossPath | None, position: int) -> Floats:
        return solve_one(problems, C, path, position)


def _probabilities(scores: Floats) -> Floats:
    if scores.shape[1] == 1:
        return np.hstack([expit(-scores), expit(scores)])
    return np.asarray(softmax(scores, axis=1))


def _log_probabilities(scores: Floats) -> Floats:
    if scores.shape[1] == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
