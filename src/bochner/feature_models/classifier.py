# SPDX-License-Identifier: BSD-3-Clause
"""`FeatureClassifier`: classification on features, with any loss."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from bochner.feature_models.feature_model import ALPHAS, FeatureModel, has_closed_form
from bochner.feature_models.folds import ClassCounts, count_classes
from bochner.kernels import Kernel
from bochner.losses import CLASSIFICATION_LOSSES, best_classes, class_signs
from bochner.parameters import CLASSIFIER_EXPLANATIONS
from bochner.rows import Array, Batch, Floats, Indices, RowSource
from bochner.validation import StrOptions, available_if, fit_context, positive_values

__all__ = ["FeatureClassifier"]

# Of C times the sum of the weights: Hessians in float32 overflow soon after, and float64 loses the penalty.
MAX_C = 1e30
MAX_DEFAULT_C = 1e15
CS = tuple(float(C) for C in np.logspace(-3, 5, 9))


def _has_probabilities(model: "FeatureClassifier") -> bool:
    """Return whether the loss has probabilities; else say which one has."""
    if not hasattr(model._made_loss(), "predict_proba"):
        raise AttributeError(
            f"The loss {model.loss!r} has no probabilities; use `loss`='log_loss', or CalibratedClassifierCV."
        )
    return True


class FeatureClassifier(ClassifierMixin, FeatureModel):
    r"""Classification on features; the penalty is chosen by cross-validation.

    Minimizes :math:`\tfrac12 |c|^2 + C \sum_i w_i \, \ell(y_i, c \cdot z(x_i) + b)`. The squared hinge loss, each class
    against the rest, is the paper's support vector machine: liblinear's objective, which penalizes the intercept too.
    The log loss is scikit-learn's multinomial `LogisticRegression`, for probabilities. Squared errors of class
    indicators (1 and -1) are ridge regression, in one pass over the rows.

    Parameters
    ----------
    features : transformer, default=None
        The features: `LandmarkFeatures`, `FourierFeatures`, or any scikit-learn transformer, such as ``Nystroem(256)``
        or a pipeline, which is applied block by block. None means ``LandmarkFeatures(n_landmarks=512)``: of as many
        columns, landmarks had the lower test error on four of the five data sets of the benchmarks, and no higher one
        on the fifth. Fourier features are faster, and contain no rows of the data.
    loss : {"squared_error", "squared_hinge", "log_loss"} or Loss, default="squared_hinge"
        The loss, by name or as a component of `bochner.losses`.
    Cs : sequence of float, default=None
        Candidates for C. None means ``numpy.logspace(-3, 5, 9)``; for squared errors ``1 / (2 * n * alpha)`` with the
        sum n of the weights and ``alpha`` from ``numpy.logspace(-8, 4, 25)``, as `FeatureRegressor` has. Other losses
        try them from the middle upwards, and then downwards, until the mean error over the folds is above its minimum
        by more than two standard errors.
    cv : int, splitter, iterable or None, default=5
        Cross-validation folds, as in scikit-learn. Each row must be in at most one test set, and in the training set of
        every other fold. None means generalized cross-validation for squared errors; other losses need a single
        candidate then.
    length_scale_factors : sequence of float, default=(1.0,)
        Candidate length scales, as multiples of the length scale of the features.
    kernels : sequence of str or Kernel, default=None
        Candidate kernels, as for `FourierFeatures`, each combined with every length scale; None means the kernel of the
        features.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights; with squared errors those of held-out rows too.
        `partial_fit`, which has not seen all rows, needs a dict or None.
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
    loss_ : Loss
        The loss.
    features_ : transformer
        The fitted features; ``features_.kernel_`` and ``features_.length_scale_`` are the chosen ones.
    cv_errors_ : ndarray of shape (n_Cs, n_folds)
        Errors on the folds with the chosen features: shares of misclassified rows for the squared hinge loss, mean log
        losses, or mean squared errors of the class indicators. NaN for values of C that were not tried.
    best_score_ : float
        The mean over the folds with the chosen C: accuracy for the squared hinge loss, minus the log loss, or R2.
    length_scale_scores_ : ndarray of shape (n_length_scale_factors,)
        The best score of each length scale with the chosen kernel.
    kernel_scores_ : ndarray of shape (n_kernels,)
        The best score of each kernel; a single one if `kernels` is None.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns seen during `fit`, if they were all strings.

    Notes
    -----
    The solution on all rows has liblinear's, or scikit-learn's, objective up to rounding. Solutions without a fold only
    serve the choice of C: with the squared hinge loss and features of up to 4 GiB in memory, they end when a step
    changes the objective by less than 1e-4 of it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import FeatureClassifier, FourierFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FeatureClassifier(FourierFeatures(n_frequencies=64), random_state=0).fit(X[:1000], y[:1000])
    >>> round(model.score(X[1000:], y[1000:]), 2)
    0.94
    >>> logistic = FeatureClassifier(FourierFeatures(n_frequencies=64), loss="log_loss", random_state=0)
    >>> logistic.fit(X[:1000], y[:1000]).predict_proba(X[1000:1002]).max(axis=1).round(2)
    array([0.99, 1.  ])
    """

    _default_parts: ClassVar[Mapping[str, Mapping[Any, type]]] = {
        **FeatureModel._default_parts,
        "loss": CLASSIFICATION_LOSSES,
    }
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FeatureModel._parameter_constraints,
        "loss": [StrOptions(CLASSIFICATION_LOSSES), *FeatureModel._parameter_constraints["loss"]],
        "Cs": ["array-like", None],
        "class_weight": [dict, StrOptions(["balanced"]), None],
    }
    _explanations: ClassVar[Mapping[str, str]] = CLASSIFIER_EXPLANATIONS
    _penalty_name = "Cs"
    classes_: Array

    def __init__(
        self,
        features: Any = None,
        *,
        loss: Any = "squared_hinge",
        Cs: Sequence[float] | None = None,
        cv: Any = 5,
        length_scale_factors: Sequence[float] = (1.0,),
        kernels: Sequence[str | Kernel] | None = None,
        class_weight: Any = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.loss = loss
        self.Cs = Cs
        self.cv = cv
        self.length_scale_factors = length_scale_factors
        self.kernels = kernels
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    @available_if(has_closed_form)
    @fit_context
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows; how the rows are divided into calls makes no difference.

        Row i (of all calls) is in fold i modulo `cv`. The features are those of `fit_features`, or are fitted on the
        first 8,192 rows: shuffle rows that are ordered. A call that fails or is interrupted adds no rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Classes.
        classes : array-like of shape (n_classes,), default=None
            All classes that will occur; required in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        FeatureClassifier
            The model, which is solved when it is used next.
        """
        if classes is None and not hasattr(self, "classes_"):
            raise ValueError("`classes` must be given in the first call of `partial_fit`: all classes that will occur.")
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"`class_weight`={self.class_weight!r} needs all rows; use `fit`, or give `partial_fit` a dict."
            )
        return self._add_rows(X, y, sample_weight, partial(self._check_classes, classes))

    def predict(self, X: Any) -> Any:
        """Predict classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or Partitions
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            The class with the largest score; for a Dask collection a Dask array.
        """
        check_is_fitted(self)
        return self._map_scores(X, partial(_predicted, self.classes_))

    def decision_function(self, X: Any) -> Any:
        """Compute the scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or Partitions
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the score of the second one, else one column per class; for a Dask collection a Dask array.
        """
        return self._map_scores(X, _squeezed)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or Partitions
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`; for a Dask collection a Dask array.
        """
        return self._map_scores(X, self._made_loss().predict_proba)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Any:
        """Predict the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or Partitions
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of probabilities, in the order of `classes_`; for a Dask collection a Dask array.
        """
        return self._map_scores(X, self._made_loss().predict_log_proba)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Compute the accuracy of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or Partitions
            Rows.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            The share of rows whose class is predicted.
        """
        rows = self._rows_to_score(X, y, sample_weight)
        right, total = self._accumulate_scores(rows, partial(_count_right, self.classes_))
        return float(right / total)

    @property
    def C_(self) -> float:
        """The chosen C."""
        return self._chosen().penalty

    @property
    def coef_(self) -> Floats:
        """Coefficients of the features, one row per class, a single row for two classes."""
        return np.asarray(self._chosen().coef.T)

    @property
    def intercept_(self) -> Floats:
        """One intercept per row of `coef_`."""
        return np.asarray(self._chosen().intercept)

    @property
    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _check_classes(self, classes: Any, rows: RowSource) -> None:
        """Set the classes in the first call of `partial_fit`; refuse others, and other labels."""
        if not hasattr(self, "classes_"):
            self._set_classes(np.unique(classes))
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"`classes` must be the same in every call. Got {np.unique(classes).tolist()}, and "
                f"{self.classes_.tolist()} before."
            )
        label_positions(self.classes_, rows.select(slice(None), with_rows=False).y)

    def _set_classes(self, classes: Array) -> None:
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; y has only one class, {classes.tolist()[0]!r}."
            )
        self.classes_ = classes

    def _check_targets(self, rows: RowSource) -> RowSource:
        column_or_1d(rows.target_template, warn=True)  # here and not for every block, to warn once
        return rows.with_targets(check_labels)

    def _learn_targets(self, rows: RowSource) -> list[ClassCounts]:
        parts: list[ClassCounts] = rows.accumulate(count_classes, with_rows=False) or []
        total = ClassCounts.total(parts)
        order = np.argsort(total.classes)
        order = order[total.weights[order] > 0.0]
        if not len(order):
            raise ValueError("No row has a positive `sample_weight`; give some rows a weight.")
        self._set_classes(total.classes[order])
        self._class_totals = total.weights[order]
        return parts

    def _weigh(self) -> Callable[[Array], Floats] | None:
        if self.class_weight is None:
            return None
        totals = getattr(self, "_class_totals", np.ones(len(self.classes_)))
        # Every class is one sample that stands for all its rows.
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_, sample_weight=totals)
        if not (weights >= 0.0).all():
            raise ValueError(f"`class_weight` must not be negative. Got {self.class_weight!r} instead.")
        return partial(_weights_of_labels, self.classes_, weights)

    def _penalties(self, weight: float) -> Floats:
        if self._made_loss().has_closed_form:
            return 0.5 / (np.array(ALPHAS) * weight) if self.Cs is None else positive_values("Cs", self.Cs)
        Cs = positive_values("Cs", self.Cs, default=CS)
        largest = (MAX_DEFAULT_C if self.Cs is None else MAX_C) / weight
        if Cs.min() > largest or (self.Cs is not None and Cs.max() > largest):
            raise ValueError(
                f"C={Cs.max():g} times the sample weights, which sum to {weight:.3g}, is too large to solve for; "
                f"give `Cs` of at most {largest:.3g}, or divide the weights by their mean."
            )
        return Cs[Cs <= largest]

    def _alphas(self, weight: float) -> Floats:
        return 0.5 / (self._penalties(weight) * weight)

    def _columns_of(self) -> Callable[[Any], Floats]:
        return partial(label_indicators, self.classes_)

    def _targets_of(self) -> Callable[[Any], Array]:
        return partial(label_positions, self.classes_)

    def _columns_of_sample(self, y: Any) -> Floats:
        labels = check_labels(y)
        return label_indicators(np.unique(labels), labels)


def check_labels(y: Any) -> Array:
    """Return class labels as a column, one label per row."""
    labels: Array = column_or_1d(y)
    check_classification_targets(labels)
    return labels


def label_positions(classes: Array, y: Array) -> Indices:
    """Return the position of each label in the sorted `classes`."""
    positions = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = classes[positions] != y
    if unknown.any():
        raise ValueError(f"y has the label {y[unknown].tolist()[0]!r}, which is not among {classes.tolist()}.")
    return positions


def label_indicators(classes: Array, y: Array) -> Floats:
    """Return 1 for a row's class and -1 for the rest: one column per class, that of the second class for two classes.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.classifier import label_indicators
    >>> label_indicators(np.array(["a", "b"]), np.array(["a", "b", "b"])).ravel()
    array([-1.,  1.,  1.])
    """
    return class_signs(label_positions(classes, y), 1 if len(classes) == 2 else len(classes))


def _weights_of_labels(classes: Array, weights: Floats, y: Array) -> Floats:
    return np.asarray(weights[label_positions(classes, y)])


def _predicted(classes: Array, scores: Floats) -> Array:
    return np.asarray(classes[best_classes(scores)])


def _squeezed(scores: Floats) -> Floats:
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _count_right(classes: Array, scores: Floats, batch: Batch) -> Floats:
    """Return the weights of the rows that are classified right, and of all rows."""
    return np.array([batch.row_weights @ (_predicted(classes, scores) == batch.y), batch.row_weights.sum()])
