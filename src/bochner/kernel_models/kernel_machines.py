# SPDX-License-Identifier: BSD-3-Clause
"""KernelRegressor and KernelClassifier: exact kernel methods whose defaults are meant for tables of numbers."""

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from bochner.kernel_models.calibration import Calibration
from bochner.kernel_models.members import (
    KernelMember,
    fit_members,
    mean_gradients,
    mean_prediction,
    predictive_variance,
)
from bochner.kernel_models.selection import SAMPLE_ROWS, Sample, select_members
from bochner.kernel_models.training_rows import ColumnScaling, merge_copies, sampling_order
from bochner.parameters import Parametrized
from bochner.progress import show_progress
from bochner.rows import Array, Floats, Indices, is_sparse
from bochner.validation import StrOptions, check_weights, fit_context, validate_numbers

__all__ = ["KernelClassifier", "KernelRegressor"]

MAX_MEMBERS = {10_000: 3, 100_000: 2}  # of more rows than these: the leaves of further members would take too long
MAX_TARGET = 1e120
LEAST_IMITATED_ROWS = 10  # one fifth is held out, and the others are divided into five folds
MAX_RESIDUALS = 2_000  # order statistics that prediction intervals are computed from
SELECTION_ROWS = 6.0  # residuals of n rows are multiplied by 1 + SELECTION_ROWS / n


class _KernelMachine(Parametrized):
    """What both machines share: validation, selection of members, leaves and scores."""

    _table_model: ClassVar[str]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "effort": [StrOptions(["default", "fast"])],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    effort: str
    random_state: Any
    verbose: int

    def gradients(self, X: Any) -> Floats:
        """Compute the gradients of the scores with respect to the columns of X, in closed form.

        The scores are the predictions of a regression, and the values of `decision_function` of a classifier.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_outputs)
            The gradients, in float64; one output per target or class, a single one for two classes.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
        >>> model = KernelRegressor(random_state=0).fit(X, 3 * X[:, 0])
        >>> model.gradients(np.zeros((1, 2))).shape
        (1, 2, 1)
        """
        X = self._validate_rows(X)
        return np.asarray(mean_gradients(self.members_, X) * self._score_slopes(X))

    def to_features(self, X: Any, n_landmarks: int = 1024) -> tuple[Any, float]:
        """Fit a model on landmark features that imitates this one, for faster predictions and ONNX.

        A prediction needs `n_landmarks` kernel values, instead of up to 5,000 per member. What it loses differs between
        tables, so that it is measured on one fifth of the rows, which the imitation is not fitted to.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, for example the training rows; they need no targets.
        n_landmarks : int, default=1024
            Number of landmarks.

        Returns
        -------
        model : FeatureRegressor or FeatureClassifier
            The imitation.
        loss : float
            Root mean squared difference of the predictions on held-out rows, in standard deviations of the
            predictions; for classifiers, the share of rows whose predicted classes differ.
        """
        from bochner.feature_models.classifier import FeatureClassifier
        from bochner.feature_models.regressor import FeatureRegressor
        from bochner.features.landmark_features import LandmarkFeatures

        X = self._validate_rows(X)
        if len(X) < LEAST_IMITATED_ROWS:
            raise ValueError(f"`to_features` needs {LEAST_IMITATED_ROWS} rows or more. Got {len(X)}; give more rows.")
        y = self.predict(X)
        is_test = np.arange(len(X)) % 5 == 4
        member = next((member for member in self.members_ if member.scales.ndim == 1), self.members_[0])
        scales = member.scales if member.scales.ndim == 1 else np.linalg.norm(member.scales, axis=1)
        deviations = np.where(np.isfinite(member.scaling.deviations), member.scaling.deviations, 1.0)
        n_landmarks = min(n_landmarks, int((~is_test).sum()))
        features = LandmarkFeatures(member.kernel, length_scale=deviations / scales, n_landmarks=n_landmarks)
        is_classifier = hasattr(self, "classes_")
        kind = FeatureClassifier if is_classifier else FeatureRegressor
        model = kind(features, length_scale_factors=(0.5, 1.0, 2.0), random_state=self.random_state)
        model.fit(X[~is_test], y[~is_test])
        found, expected = model.predict(X[is_test]), y[is_test]
        if is_classifier:
            return model, float(np.mean(found != expected))
        differences = np.square(found - expected).mean(axis=0) / np.maximum(expected.var(axis=0), 1e-300)
        return model, float(np.sqrt(differences.mean()))

    def _score_slopes(self, X: Array) -> Floats:
        raise NotImplementedError

    def _validate(self, X: Any, *y: Any, **options: Any) -> Any:
        """Check rows and targets; errors about sparse rows and missing values name the remedy."""
        name = type(self).__name__
        if is_sparse(X):
            feature_model = name.replace("Kernel", "Feature")
            raise TypeError(
                f"{name} needs dense rows, and X is sparse; use {feature_model}(LandmarkFeatures()), or X.toarray() if "
                f"it fits into memory."
            )
        try:
            return validate_numbers(self, X, *y, dtype=[np.float64, np.float32], **options)
        except ValueError as error:
            if "Input X contains NaN" not in str(error):
                raise
        raise ValueError(
            f"Input X contains NaN, and {name} has no missing values; use {self._table_model}, which encodes them, or "
            f"fill them with a SimpleImputer first."
        )

    def _validate_rows(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(self._validate(X, reset=False))

    def _fit_rows(
        self, X: Array, Y: Floats, w: Floats, labels: Indices | None = None, log_odds: float | None = None
    ) -> tuple[Floats, Floats]:
        """Select and fit the members on distinct rows; return leave-one-out residuals and variances."""
        generator = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        scalings = {uses_ranks: ColumnScaling.from_rows(X, w, uses_ranks) for uses_ranks in (False, True)}
        order = sampling_order(labels, len(X), SAMPLE_ROWS, generator)[:SAMPLE_ROWS]
        scaled = {uses_ranks: scaling(X[order]).astype(np.float32) for uses_ranks, scaling in scalings.items()}
        sample = Sample(scaled, Y[order], w[order])
        with show_progress(self.verbose):
            chosen, candidates = select_members(sample, self.effort == "fast")
            for n_rows, n_members in MAX_MEMBERS.items():
                chosen = chosen[:n_members] if len(X) > n_rows else chosen
            self.members_ = [
                KernelMember(
                    c.kernel, scalings[c.uses_ranks], c.learned.scales, c.learned.penalty, float(np.sqrt(c.error))
                )
                for c in chosen
            ]
            self.validation_errors_ = [
                (str(c.kernel), "soft ranks" if c.uses_ranks else "plain", c.kind, float(np.sqrt(c.error)))
                for c in candidates
            ]
            return fit_members(self.members_, X, Y, w, labels is not None, log_odds)

    def _distinct(self, X: Array, y: Array, sample_weight: Any) -> tuple[Floats, Array, Floats, Indices]:
        """Return distinct rows and targets, their weights with mean 1, and the number of its copy for each row."""
        w = check_weights(sample_weight, X)
        w = np.ones(len(X)) if w is None else w
        Y = y.reshape(len(y), -1).astype(np.float64)
        rows, weights, copy_of = merge_copies(X.astype(np.float64), Y, w)
        return X[rows].astype(np.float64), y[rows], weights / weights.mean(), copy_of


class KernelRegressor(MultiOutputMixin, RegressorMixin, _KernelMachine):
    r"""Kernel ridge regression with learned scales, for rows of numbers in memory.

    The prediction is the mean of several kernel expansions :math:`f(x) = \sum_i a_i k(A x - A x_i)` with
    :math:`a = (K + \lambda W^{-1})^{-1} y`. Kernels, scales A (one number per column, or a matrix) and penalties are
    learned on held-out folds of a sample and chosen on validation rows. Above 5,000 rows, the expansions are those of
    the leaves of a tree.

    Parameters
    ----------
    effort : {"default", "fast"}, default="default"
        "fast" learns on one sample of 1,000 rows and keeps a single kernel.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples that kernels and scales are learned on.
    verbose : int, default=0
        Show progress if positive.

    Attributes
    ----------
    members_ : list of KernelMember
        The kernels with their length scales or matrices, penalties, validation errors and trees.
    validation_errors_ : list of tuple
        The candidates of the first division of the rows, the best one first: kernel, scaling of the columns, kind of
        scales, and root mean squared error on validation rows relative to that of predicting the mean.
    loo_prediction_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Predictions of the training rows by the members without the row and its copies. NaN for rows of weight 0, and
        for some of more than 5,000 equal rows.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns seen during `fit`, if they were all strings.

    See Also
    --------
    FeatureRegressor : For streams, clusters, sparse rows, millions of rows and the fastest predictions.
    TableRegressor : For tables with text, dates and missing values.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRegressor(random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.45)
    True
    >>> lower, upper = model.predict_interval(X[300:], coverage=0.8).T
    >>> bool(0.7 < ((lower < y[300:]) & (y[300:] < upper)).mean() < 0.9)
    True
    """

    _table_model = "TableRegressor"

    def __init__(self, *, effort: str = "default", random_state: Any = None, verbose: int = 0) -> None:
        self.effort = effort
        self.random_state = random_state
        self.verbose = verbose

    @fit_context
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn kernels and scales, and solve for the coefficients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. A weight of 2 is the same as a row that occurs twice.

        Returns
        -------
        KernelRegressor
            The fitted model.
        """
        X, y = self._validate(X, y, multi_output=True, y_numeric=True)
        X, y, w, copy_of = self._distinct(X, y, sample_weight)
        largest = float(np.abs(y).max())
        if largest > MAX_TARGET or 0.0 < largest < 1.0 / MAX_TARGET:
            raise ValueError(f"y contains values up to {largest:.3g}, whose squares overflow or underflow; rescale it.")
        self._is_single = y.ndim == 1
        Y = y.reshape(len(y), -1).astype(np.float64)
        self._target_means = np.average(Y, axis=0, weights=w)
        deviations = np.sqrt(np.average(np.square(Y - self._target_means), axis=0, weights=w))
        self._target_scales = np.where(deviations > 1e-12 * np.abs(self._target_means), deviations, 1.0)
        residuals, variances = self._fit_rows(X, (Y - self._target_means) / self._target_scales, w)
        left_out = self._as_targets(Y - self._target_scales * residuals, Y)
        self.loo_prediction_ = np.append(left_out, left_out[:1] * np.nan, axis=0)[copy_of]
        known = np.isfinite(variances)
        scaled = residuals[known] / np.sqrt(variances[known])[:, None]
        self._amplitudes = np.sqrt(np.average(np.square(scaled), axis=0, weights=w[known]))
        self._residual_quantiles = _residual_quantiles(scaled, w[known])
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            Whether to return predictive standard deviations, too, which takes as long as fitting a member.

        Returns
        -------
        predictions : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictions, in the dtype of X.
        deviations : ndarray of the same shape
            Standard deviations of new targets, if `return_std` is True.
        """
        X = self._validate_rows(X)
        predictions = mean_prediction(self.members_, X) * self._target_scales + self._target_means
        if not return_std:
            return self._as_targets(predictions, X)
        deviations = np.sqrt(predictive_variance(self.members_[0], X))[:, None] * self._amplitudes * self._target_scales
        return self._as_targets(predictions, X), self._as_targets(deviations, X)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        r"""Predict intervals that contain a share of the targets of new rows.

        The bounds are :math:`f(x) + q \, s(x)` with the predictive standard deviation s of the first member, and
        quantiles q of leave-one-out residuals divided by their standard deviations. With few rows, q is increased,
        because the scales were learned on the same rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            The share, between 0 and 1.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, n_targets, 2)
            Lower and upper bounds.
        """
        if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
            raise ValueError(f"`coverage` must be a number between 0 and 1. Got {coverage!r} instead.")
        X = self._validate_rows(X)
        predictions = mean_prediction(self.members_, X)
        deviations = np.sqrt(predictive_variance(self.members_[0], X))[:, None]
        bounds = [
            self._as_targets((predictions + quantile * deviations) * self._target_scales + self._target_means, X)
            for quantile in np.quantile(self._residual_quantiles, [0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage], axis=0)
        ]
        return np.stack(bounds, axis=-1)

    def _as_targets(self, values: Floats, X: Array) -> Array:
        return (values[:, 0] if self._is_single else values).astype(X.dtype)

    def _score_slopes(self, X: Array) -> Floats:
        return self._target_scales


def _residual_quantiles(residuals: Floats, w: Floats) -> Floats:
    """Return quantiles of the residuals of each target; the k-th of n residuals has the level k / (n + 1).

    The residuals are too small, because kernels, scales and penalties were selected on the same rows: errors on new
    rows are 1.2 to 1.3 times as large with 30 rows, 1.1 times with 100 and 1.03 times with 300 (simulated).
    """
    levels = (np.arange(MAX_RESIDUALS) + 0.5) / MAX_RESIDUALS
    columns = []
    for values in residuals.T:
        order = np.argsort(values)
        columns.append(np.interp(levels, np.cumsum(w[order]) / (w.sum() + w.mean()), values[order]))
    return (1.0 + SELECTION_ROWS / len(residuals)) * np.column_stack(columns)


class KernelClassifier(ClassifierMixin, _KernelMachine):
    r"""Kernel ridge classification with learned scales and calibrated probabilities, for rows of numbers in memory.

    One-versus-rest scores :math:`s_k` are those of `KernelRegressor` with targets of 1 and -1. The score of two classes
    is a logit, from there by one Newton step of kernel logistic regression. The probabilities are the softmax of
    :math:`t s_k + u s_k^3 + b_k`, whose numbers minimize the log loss of leave-one-out scores.

    Parameters
    ----------
    effort : {"default", "fast"}, default="default"
        "fast" learns on one sample of 1,000 rows and keeps a single kernel.
    class_weight : dict, "balanced" or None, default=None
        Factors of the sample weights of the classes; "balanced" gives all classes the same total weight.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples that kernels and scales are learned on.
    verbose : int, default=0
        Show progress if positive.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    members_ : list of KernelMember
        The kernels with their length scales or matrices, penalties, validation errors and trees.
    validation_errors_ : list of tuple
        The candidates of the first division of the rows, the best one first: kernel, scaling of the columns, kind of
        scales, and root mean squared error on validation rows relative to that of predicting the mean.
    calibration_ : Calibration
        The numbers t, u and b of the probabilities.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns seen during `fit`, if they were all strings.

    See Also
    --------
    FeatureClassifier : For streams, clusters, sparse rows, millions of rows and the fastest predictions.
    TableClassifier : For tables with text, dates and missing values.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bochner import KernelClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    >>> bool(model.predict_proba(X[:1])[0, 0] > 0.8)
    True
    """

    _table_model = "TableClassifier"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_KernelMachine._parameter_constraints,
        "class_weight": [dict, StrOptions(["balanced"]), None],
    }

    def __init__(
        self, *, effort: str = "default", class_weight: Any = None, random_state: Any = None, verbose: int = 0
    ) -> None:
        self.effort = effort
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    @fit_context
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn kernels and scales, solve for the coefficients and calibrate the probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. A weight of 2 is the same as a row that occurs twice.

        Returns
        -------
        KernelClassifier
            The fitted model.
        """
        X, y = self._validate(X, y)
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        present = y if sample_weight is None else y[np.asarray(check_weights(sample_weight, X)) > 0.0]
        self.classes_ = np.unique(present)
        if len(self.classes_) < 2:
            raise ValueError(
                f"KernelClassifier needs at least two classes. Got one class: {self.classes_.tolist()[0]!r}."
            )
        codes = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        X, labels, w, _ = self._distinct(X, codes, sample_weight)
        X, labels, w = self._weigh_classes(X, labels, w)
        signs = np.where(labels[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)
        Y = signs[:, 1:] if len(self.classes_) == 2 else signs
        means = np.average(Y, axis=0, weights=w)
        log_odds = float(2.0 * np.arctanh(means[0].clip(-0.9999, 0.9999))) if len(means) == 1 else None
        self._score_offsets = means if log_odds is None else np.array([log_odds])
        residuals, variances = self._fit_rows(X, Y - means, w, labels, log_odds)
        known = np.isfinite(variances)
        scores = Y - means - residuals + self._score_offsets
        self.calibration_ = Calibration.from_scores(scores[known], labels[known], w[known])
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the logits of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, the logit of the second one; else one logit per class, in the order of `classes_`.
        """
        X = self._validate_rows(X)
        logits = self.calibration_.logits(self._scores(X)).astype(X.dtype)
        return logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`.
        """
        logits = self.decision_function(X)
        if logits.ndim == 1:
            return np.stack([special.expit(-logits), special.expit(logits)], axis=1)
        return np.asarray(special.softmax(logits, axis=1))

    def predict(self, X: Any) -> Array:
        """Predict the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            The classes with the largest probabilities.
        """
        logits = self.decision_function(X)
        numbers = (logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(axis=1)
        return np.asarray(self.classes_[numbers])

    def _scores(self, X: Array) -> Floats:
        return np.asarray(mean_prediction(self.members_, X) + self._score_offsets)

    def _score_slopes(self, X: Array) -> Floats:
        return self.calibration_.slopes(self._scores(X))[:, None, :]

    def _weigh_classes(self, X: Floats, labels: Indices, w: Floats) -> tuple[Floats, Indices, Floats]:
        """Multiply the weights by those of the classes, and drop rows of classes whose weight is zero."""
        if self.class_weight is None:
            return X, labels, w
        y = self.classes_[labels]
        factors = compute_class_weight(self.class_weight, classes=self.classes_, y=y, sample_weight=w)
        if factors.min() < 0.0:
            raise ValueError(f"`class_weight` must not be negative. Got {self.class_weight!r} instead.")
        w = w * factors[labels]
        kept = w > 0.0
        if not kept.any():
            raise ValueError(f"`class_weight`={self.class_weight!r} gives all rows the weight 0; use positive numbers.")
        return X[kept], labels[kept], w[kept] / w[kept].mean()
