# SPDX-License-Identifier: BSD-3-Clause
"""`FourierSVC`: the L2-loss support vector machine on features."""

from collections.abc import Mapping
from typing import Any, ClassVar

from bochner.linear_models.active_sets import ClassProblems, solve_classes, walk_classes
from bochner.linear_models.feature_passes import FeaturePasses, are_held
from bochner.linear_models.path_classifier import PathClassifier
from bochner.linear_models.squared_hinge import HESSIAN_BYTES, Path, solve_one, walk
from bochner.memory import check_memory
from bochner.parameters import C_EXPLANATIONS, Explanation
from bochner.rows import Floats, RowSource

__all__ = ["FourierSVC"]

FEWER = "use fewer frequencies or classes"
NO_PROBABILITIES = (
    "FourierSVC has no probabilities; use FourierLogisticRegression, or wrap FourierSVC in CalibratedClassifierCV."
)


class FourierSVC(PathClassifier):
    r"""L2-loss support vector machine on features, the paper's classifier; C is chosen by cross-validation.

    Minimizes liblinear's :math:`\tfrac12 (|c|^2 + b^2) + C \sum_i w_i \max(0, 1 - y_i (c \cdot z(x_i) + b))^2`, one
    class against the rest, for all folds and classes at once by Newton's method.

    Parameters
    ----------
    features : transformer, default=None
        The features: `FourierFeatures` (None means the default ones), or any scikit-learn transformer, such as
        ``Nystroem(256)`` or a pipeline, which is applied block by block.
    Cs : sequence of float, default=None
        Candidates for C; None means ``numpy.logspace(-3, 5, 9)``. They are tried from the middle upwards and then
        downwards, each time until the mean error over the folds is above its minimum by more than two standard errors.
        A warning says if the best one is at an edge of three or more given ones, and the error still falls there.
    cv : int, splitter, iterable or None, default=5
        Cross-validation folds, as in scikit-learn. Each row must be in at most one test set, and in the training set of
        every other fold. None skips cross-validation and needs a single candidate.
    length_scales : sequence of float, default=(1.0,)
        Candidate length scales, as multiples of the length scale of the features.
    kernels : sequence of str or Kernel, default=None
        Candidate kernels, as for `FourierFeatures`, each combined with every length scale; None means the kernel of the
        features.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights.
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
        The fitted features; ``features_.kernel_`` and ``features_.length_scale_`` are the chosen ones.
    encoding_ : Encoding
        How the columns of a table become numbers; only after a fit on a file.
    cv_errors_ : ndarray of shape (n_Cs, n_folds)
        Shares of misclassified rows with the chosen features; NaN for values of C that were not tried.
    best_score_ : float
        Mean accuracy over the folds with the chosen C.
    length_scale_scores_ : ndarray of shape (n_length_scales,)
        The best mean accuracy of each length scale with the chosen kernel.
    kernel_scores_ : ndarray of shape (n_kernels,)
        The best mean accuracy of each kernel; a single one if `kernels` is None.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns seen during `fit`, if they were all strings.

    See Also
    --------
    FourierLogisticRegression : Logistic regression, for probabilities.

    Notes
    -----
    The solution on all rows has liblinear's objective up to rounding. Solutions without a fold only serve the choice of
    C: with several classes and features of up to 4 GiB in memory, they end when a step changes the objective by less
    than 1e-4 of it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import FourierFeatures, FourierSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FourierSVC(FourierFeatures(n_frequencies=64), random_state=0).fit(X[:1000], y[:1000])
    >>> round(model.score(X[1000:], y[1000:]), 2)
    0.94
    """

    _explanations: ClassVar[Mapping[str, Explanation]] = C_EXPLANATIONS
    _perfect_score = 1.0

    @property
    def predict_proba(self) -> Any:
        """Not available: a support vector machine has no probabilities."""
        raise AttributeError(NO_PROBABILITIES)

    def _check_width(self, width: int, rows: RowSource) -> None:
        if not are_held(rows, width, 4):  # every class has a Hessian, and a correction of it
            n_bytes = 8 * (width + 1) ** 2 * 2 * (self._n_targets + 1)
            check_memory(n_bytes, f"A support vector machine on {width:,} columns", "Hessians", FEWER)
        self._check_scores(rows, width)

    def _problems(self, passes: FeaturePasses) -> ClassProblems | FeaturePasses:
        """Return the problems of several classes whose features are held in memory; all others need passes."""
        return passes if passes.held is None or self._n_targets == 1 else ClassProblems(passes.held, self._n_targets)

    def _walk(self, problems: ClassProblems | FeaturePasses, n_folds: int, Cs: Floats) -> Path:
        if isinstance(problems, ClassProblems):
            return walk_classes(problems, n_folds, Cs)
        # Every worker of a cluster holds Hessians of its own.
        max_bytes = HESSIAN_BYTES // (8 if problems.training.rows.location == "cluster" else 1)
        return walk(problems.accumulate, n_folds, self._n_targets, Cs, max_bytes)

    def _solve_one(self, problems: ClassProblems | FeaturePasses, C: float, path: Path | None, position: int) -> Floats:
        if isinstance(problems, ClassProblems):
            return solve_classes(problems, C, path, position)
        return solve_one(problems.accumulate, self._n_targets, C, path, position)
