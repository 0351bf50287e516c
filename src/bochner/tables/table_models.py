# SPDX-License-Identifier: BSD-3-Clause
"""`TableRegressor` and `TableClassifier`: models of tables with text, dates and gaps.

`fit` reads the table, surveys its columns, encodes them and fits an estimator on the encoded rows.
"""

import warnings
from collections.abc import Callable
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_array, column_or_1d, get_tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, has_fit_parameter

from bochner.feature_models.classifier import FeatureClassifier
from bochner.feature_models.feature_model import FeatureModel
from bochner.feature_models.regressor import FeatureRegressor
from bochner.features.landmark_features import LandmarkFeatures
from bochner.kernel_models import KernelClassifier, KernelRegressor
from bochner.parameters import Parametrized
from bochner.rows import Array, Floats, Mask
from bochner.tables.encoding import EncodedTable, TableRows, load_rows
from bochner.tables.intervals import prediction_intervals, studentized_residuals
from bochner.tables.reader import Table, frame_of_columns, is_frame, is_path
from bochner.tables.survey import Survey
from bochner.tables.table_encoder import TableEncoder, with_cells
from bochner.validation import HasMethods, StrOptions, available_if, check_weights, fit_context

__all__ = ["MEMORY_ROWS", "TableClassifier", "TableModel", "TableRegressor"]

MEMORY_ROWS = 200_000  # that are encoded in memory; feature models read more of them batch by batch
N_LANDMARKS = 512
RESIDUAL_ROWS = 20_000
INTERVAL = "predict_interval"
LOG_ROWS, SMALLEST_SKEWNESS = 2_000, 1.0  # for the comparison of targets and their logarithms


def default_estimator(is_classifier: bool, n_rows: int, effort: str, seed: Any, *, features: bool = False) -> Any:
    """Return the kernel machine, or landmark features for more rows than it takes or where they are asked for."""
    if n_rows <= MEMORY_ROWS and not features:
        machine = KernelClassifier if is_classifier else KernelRegressor
        return machine(effort=effort, random_state=seed)
    length_scale = "learn" if effort == "default" else "median"
    n_landmarks = max(1, min(N_LANDMARKS, n_rows // 4))
    landmarks = LandmarkFeatures("matern", n_landmarks=n_landmarks, length_scale=length_scale)
    if is_classifier:
        return FeatureClassifier(landmarks, loss="log_loss", random_state=seed)
    return FeatureRegressor(landmarks, random_state=seed)


def _has_method(name: str) -> Callable[["TableModel"], bool]:
    """Return a check that the estimator has a method; the default estimators have all."""

    def check(model: "TableModel") -> bool:
        estimator = getattr(model, "estimator_", model.estimator)
        return estimator is None or hasattr(estimator, name) or (name == INTERVAL and _has_closed_form(estimator))

    return check


class TableModel(Parametrized):
    """What both estimators share: reading, encoding, fitting, and predicting in batches."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "encoder": [HasMethods(["fit", "transform"]), None],
        "effort": [StrOptions(["default", "fast"])],
        "class_weight": [dict, StrOptions(["balanced"]), None],
        "random_state": ["random_state"],
    }

    class_weight: Any = None
    estimator_: Any
    encoder_: Any
    log_factor_: float | None = None
    residuals_: Floats
    target_name_: str | None
    n_rows_: int

    def __init__(
        self, estimator: Any = None, *, encoder: Any = None, effort: str = "default", random_state: Any = None
    ) -> None:
        self.estimator = estimator
        self.encoder = encoder
        self.effort = effort
        self.random_state = random_state

    @fit_context
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Recognize and encode the columns, and fit the estimator.

        Parameters
        ----------
        X : pandas or polars data frame, Arrow table, path, or array-like of shape (n_samples, n_features)
            The table: rows in memory, a .csv (or .csv.gz) or .parquet file, or a folder of Parquet files.
        y : array-like of shape (n_samples,), or str
            The targets, or the name of their column in the table. Rows without a target in that column are left out.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, for rows in memory.

        Returns
        -------
        self
            The fitted model.
        """
        if isinstance(sample_weight, str):
            raise ValueError(f"`sample_weight` must be one number per row. Got the text {sample_weight!r} instead.")
        name = y if isinstance(y, str) else None
        self.target_name_ = getattr(y, "name", None) if name is None else name
        self.encoder_ = TableEncoder(random_state=self.random_state) if self.encoder is None else clone(self.encoder)
        if not isinstance(self.encoder_, TableEncoder):
            X, y, sample_weight = _split_target(X, y, sample_weight)
            y = self._check_targets(y)
            return self._fit_estimator(self._rows(self.encoder_.fit_transform(X, y)), y, sample_weight)
        if name is None and is_path(X):
            raise ValueError(f"`y` must be the name of a column of {X}. Got {type(y).__name__} instead.")
        if sample_weight is not None and is_path(X):
            raise ValueError("`sample_weight` needs rows in memory; read the file into a data frame.")
        X = X.collect() if hasattr(X, "collect") else X
        sample_weight = check_weights(sample_weight, X)

        # Read and survey: one pass counts the cells of every column and samples rows.
        survey = X if isinstance(X, Survey) else self.encoder_.survey(X, name)

        # Encode: recognize the columns, and turn their cells into rows of numbers.
        encoding = self.encoder_.fit_survey(survey).encoding_
        source = EncodedTable(survey.table, encoding)
        if survey is not X:
            survey.warn(stacklevel=4)
        if name is None:
            return self._fit_estimator(load_rows(source).X, self._check_targets(y), sample_weight)
        survey.check_target(is_classifier=isinstance(self, ClassifierMixin))

        # Fit: feature models read many rows batch by batch, other estimators get all rows.
        is_streamed = survey.n_rows > MEMORY_ROWS and isinstance(self._new_estimator(survey.n_rows), FeatureModel)
        if is_streamed and sample_weight is None:
            cells = survey.sample.cells
            y = self._check_targets(encoding.targets(cells))
            return self._fit_estimator(encoding.encode(cells), y, None, TableRows(source, survey.lengths))
        rows = load_rows(source)
        weights = None if sample_weight is None else sample_weight[rows.is_used]
        return self._fit_estimator(rows.X, self._check_targets(rows.y), weights)

    def _fit_estimator(self, X: Array, y: Array, sample_weight: Any, rows: TableRows | None = None) -> Self:
        """Fit the estimator on encoded rows, or on a row source from which they are a sample."""
        check_consistent_length(X, y, sample_weight)
        self.n_rows_ = X.shape[0] if rows is None else rows.shape[0]
        self.__dict__.pop("feature_names_in_", None)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.encoder_, name):
                setattr(self, name, getattr(self.encoder_, name))
        estimator, weights = self._new_estimator(self.n_rows_), check_weights(sample_weight, X)
        if isinstance(self, RegressorMixin):
            is_dense = not issparse(X)
            is_logarithmic = self.estimator is None and is_dense and is_better_on_log_scale(np.asarray(X), y)
            self.log_factor_ = 1.0 if is_logarithmic else None
        if rows is not None:
            if self.class_weight is not None:
                estimator.set_params(class_weight=self.class_weight)
            self.estimator_ = estimator.fit(rows.with_targets(self._scaled_targets))
        else:
            if self.class_weight is not None:
                factors = np.asarray(compute_sample_weight(self.class_weight, y))
                weights = factors if weights is None else factors * weights
            if weights is not None and not has_fit_parameter(estimator, "sample_weight"):
                raise ValueError(f"{type(estimator).__name__} does not accept `sample_weight`; omit it.")
            options = {} if weights is None else {"sample_weight": weights}
            self.estimator_ = estimator.fit(X, self._scaled_targets(y), **options)
        if self.log_factor_ is not None:
            left_out = getattr(self.estimator_, "loo_prediction_", None)
            self.log_factor_ = log_factor(self.estimator_.predict(X) if left_out is None else left_out, y, weights)
        if _has_closed_form(self.estimator_):
            shown = slice(RESIDUAL_ROWS)
            self.residuals_ = studentized_residuals(self.estimator_, X[shown], self._scaled_targets(y[shown]))
        return self

    def _new_estimator(self, n_rows: int) -> Any:
        """Return the unfitted estimator; one of the other task is refused."""
        kind = "classifier" if isinstance(self, ClassifierMixin) else "regressor"
        if self.estimator is None:
            return default_estimator(kind == "classifier", n_rows, self.effort, self.random_state)
        found = get_tags(self.estimator).estimator_type
        if found not in (kind, None):
            name = type(self).__name__
            raise ValueError(f"`estimator` of {name} must be a {kind}. Got the {found} {self.estimator!r}.")
        return clone(self.estimator)

    def _check_targets(self, y: Any) -> Array:
        """Return targets as an array that the estimator accepts."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None; give y.")
        is_class = isinstance(self, ClassifierMixin)
        dtype = None if is_class else "numeric"
        n_missing = _are_missing(y).sum()
        if n_missing:
            raise ValueError(f"`y` has missing values in {n_missing:,} rows; leave these rows out.")
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=dtype, input_name="y", estimator=self), warn=True)
        if is_class:
            check_classification_targets(y)
        return np.asarray(y) if is_class else np.asarray(y, dtype=np.float64)

    def _rows(self, encoded: Any) -> Any:
        """Return encoded rows, as an array where an estimator of bochner would get a data frame."""
        is_own = self.estimator is None or isinstance(self.estimator, FeatureModel)
        return np.asarray(encoded) if is_own and is_frame(encoded) else encoded

    def _scaled_targets(self, y: Any) -> Array:
        """Return targets, or their logarithms, as the estimator is fitted to them."""
        y = self._check_targets(y)
        return y if self.log_factor_ is None else np.asarray(np.log(y))

    def predict(self, X: Any) -> Array:
        """Predict the targets.

        Parameters
        ----------
        X : pandas or polars data frame, Arrow table, path, or array-like of shape (n_samples, n_features)
            A table with the columns of the fit.

        Returns
        -------
        ndarray of shape (n_samples,)
            The predicted numbers or classes.
        """
        return self._map(X, self.predict_rows)

    def predict_rows(self, rows: Array) -> Array:
        """Predict the targets of encoded rows."""
        predicted = np.asarray(self.estimator_.predict(rows))
        return predicted if self.log_factor_ is None else self.log_factor_ * np.exp(predicted)

    def _map(self, X: Any, function: Callable[[Array], Array]) -> Array:
        """Apply a function to the encoded rows of a table, batch by batch for a file."""
        check_is_fitted(self, "estimator_")
        if not is_path(X):
            return function(self._rows(self.encoder_.transform(X)))
        if not isinstance(self.encoder_, TableEncoder):
            raise ValueError(f"A {type(self.encoder_).__name__} reads no files; give the rows of {X} as a data frame.")
        source = self.encoder_.open(X)
        parts = [function(batch.X) for batch in source.batches() if len(batch.X)]
        source.unseen.warn()
        if not parts:
            raise ValueError(f"{X} has no rows to predict.")
        return np.concatenate(parts)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute R2 of a regression, or the accuracy of a classification.

        Parameters
        ----------
        X : pandas or polars data frame, Arrow table, path, or array-like of shape (n_samples, n_features)
            A table with the columns of the fit.
        y : array-like of shape (n_samples,), or str
            The targets, or the name of their column in the table.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            R2, or the share of rows whose class is predicted.
        """
        check_is_fitted(self, "estimator_")
        target = getattr(getattr(self.encoder_, "encoding_", None), "target", None)
        if isinstance(y, str) and target is not None and target.name == y:
            batches = self.encoder_.encoding_.open(X, with_target=True).batches()
            parts = [(self.predict_rows(batch.X), batch.y) for batch in batches]
            predicted, y = (np.concatenate(values) for values in zip(*parts, strict=True))
        else:
            X, y, sample_weight = _split_target(X, y, sample_weight)
            predicted = self.predict(X)
        measure = accuracy_score if isinstance(self, ClassifierMixin) else r2_score
        return float(measure(self._check_targets(y), predicted, sample_weight=sample_weight))

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, as `bochner fit` does.

        Parameters
        ----------
        path : path
            The file, which ends in .skops.
        """
        from bochner.tables.model_files import save

        check_is_fitted(self, "estimator_")
        save(self, Path(path))

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read a model file; nothing in it is executed.

        Parameters
        ----------
        path : path
            A file written by `save` or by `bochner fit`.

        Returns
        -------
        TableRegressor or TableClassifier
            The fitted model.
        """
        from bochner.tables.model_files import load

        model = load(Path(path))
        if not isinstance(model, cls):
            raise ValueError(f"{path} has a {type(model).__name__}; read it by {type(model).__name__}.load.")
        return model

    def __sklearn_tags__(self) -> Any:
        return with_cells(super().__sklearn_tags__())


class TableRegressor(TableModel, RegressorMixin, Parametrized):
    """Predict numbers from a table with numbers, text, dates and gaps.

    Numbers are standardized, categories are one-hot encoded, text becomes hashed n-grams, dates a trend and cycles, as
    by `TableEncoder`. Positive targets with a long tail are replaced by their logarithms where that lowers the error of
    a quick model on held-out rows; predictions and intervals are always in the units of the target.

    Parameters
    ----------
    estimator : estimator, default=None
        What is fitted on the encoded rows: any regressor. None means `KernelRegressor` up to 200,000 rows, and beyond a
        `FeatureRegressor` of 512 landmarks with learned length scales. Feature models are fitted batch by batch on a
        table of more than 200,000 rows with a named target, which may be larger than memory.
    encoder : transformer, default=None
        What encodes the columns: any transformer of data frames. None means `TableEncoder()`; files need one.
    effort : {"default", "fast"}, default="default"
        "fast" takes a second or two. A given estimator is fitted as it is.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample of rows and, without an estimator, of the default one.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator of encoded rows.
    encoder_ : transformer
        The fitted encoder.
    target_name_ : str or None
        The name of the target, where it has one.
    log_factor_ : float or None
        What exponentials of predicted logarithms are multiplied by, because they are below the mean: the ratio of
        the mean target to that of leave-one-out predictions. None if the targets are as they were.
    n_rows_ : int
        Number of training rows.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns.

    See Also
    --------
    TableClassifier : Predict classes.
    TableEncoder : The encoding alone, for pipelines.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import cross_val_score
    >>> from bochner import TableRegressor
    >>> X, y = load_diabetes(as_frame=True, scaled=False, return_X_y=True)
    >>> X["sex"] = X["sex"].map({1.0: "female", 2.0: "male"})
    >>> model = TableRegressor(effort="fast", random_state=0)
    >>> bool(cross_val_score(model, X, y, cv=3).mean() > 0.4)
    True
    """

    @available_if(_has_method(INTERVAL))
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Predict the bounds that contain a share of the targets of new rows.

        Parameters
        ----------
        X : pandas or polars data frame, Arrow table, path, or array-like of shape (n_samples, n_features)
            A table with the columns of the fit.
        coverage : float, default=0.9
            The share of targets.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            The lower and the upper bound.
        """
        if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
            raise ValueError(f"`coverage` must be a share between 0 and 1, such as 0.9. Got {coverage!r}.")
        return self._map(X, lambda rows: self.interval_rows(rows, coverage))

    def interval_rows(self, rows: Array, coverage: float) -> Floats:
        """Predict the bounds of encoded rows."""
        if not rows.shape[0]:
            return np.empty((0, 2))
        if _has_closed_form(self.estimator_):
            predicted, deviations = self.estimator_.predict(rows, return_std=True)
            bounds = prediction_intervals(predicted, deviations, self.residuals_, coverage)
        else:
            bounds = self.estimator_.predict_interval(rows, coverage)
        return np.asarray(bounds if self.log_factor_ is None else np.exp(bounds))


class TableClassifier(TableModel, ClassifierMixin, Parametrized):
    """Predict classes from a table with numbers, text, dates and gaps.

    The columns are encoded as by `TableEncoder`.

    Parameters
    ----------
    estimator : estimator, default=None
        What is fitted on the encoded rows: any classifier. None means `KernelClassifier` up to 200,000 rows, and beyond
        a `FeatureClassifier` of 512 landmarks with learned length scales and log loss. Feature models are fitted batch
        by batch on a table of more than 200,000 rows with a named target, which may be larger than memory.
    encoder : transformer, default=None
        What encodes the columns: any transformer of data frames. None means `TableEncoder()`; files need one.
    effort : {"default", "fast"}, default="default"
        "fast" takes a second or two. A given estimator is fitted as it is.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which sample weights are multiplied by.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample of rows and, without an estimator, of the default one.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator of encoded rows.
    encoder_ : transformer
        The fitted encoder.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    target_name_ : str or None
        The name of the target, where it has one.
    n_rows_ : int
        Number of training rows.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns.

    See Also
    --------
    TableRegressor : Predict numbers.
    TableEncoder : The encoding alone, for pipelines.

    Examples
    --------
    >>> import pandas as pd
    >>> from bochner import TableClassifier
    >>> table = pd.DataFrame({"size": [1.0, 2.0, None, 9.0, 8.0, 7.0] * 5, "color": ["red", "red", "blue"] * 10})
    >>> y = ["small", "small", "small", "large", "large", "large"] * 5
    >>> model = TableClassifier(effort="fast", random_state=0).fit(table, y)
    >>> model.predict(table[:2]).tolist(), model.predict_proba(table[:2]).shape
    (['small', 'small'], (2, 2))
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        encoder: Any = None,
        effort: str = "default",
        class_weight: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(estimator, encoder=encoder, effort=effort, random_state=random_state)
        self.class_weight = class_weight

    @property
    def classes_(self) -> Array:
        """The classes."""
        return np.asarray(self.estimator_.classes_)

    @available_if(_has_method("predict_proba"))
    def predict_proba(self, X: Any) -> Floats:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : pandas or polars data frame, Arrow table, path, or array-like of shape (n_samples, n_features)
            A table with the columns of the fit.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class, in the order of `classes_`.
        """
        return self._map(X, lambda rows: np.asarray(self.estimator_.predict_proba(rows)))

    @available_if(_has_method("decision_function"))
    def decision_function(self, X: Any) -> Floats:
        """Compute the scores of the classes.

        Parameters
        ----------
        X : pandas or polars data frame, Arrow table, path, or array-like of shape (n_samples, n_features)
            A table with the columns of the fit.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the score of the second one, else one column per class.
        """
        return self._map(X, lambda rows: np.asarray(self.estimator_.decision_function(rows)))


def _has_closed_form(estimator: Any) -> bool:
    """Return whether predictions have standard deviations in closed form."""
    return isinstance(estimator, FeatureRegressor) and estimator.loss == "squared_error"


def is_better_on_log_scale(X: Array, y: Floats) -> bool:
    """Return whether targets are positive and skewed, and a quick model predicts them better by their logarithms."""
    deviation = y.std()
    if len(y) < 50 or y.min() <= 0.0 or np.mean((y - y.mean()) ** 3) <= SMALLEST_SKEWNESS * deviation**3:
        return False
    order = np.random.default_rng(0).permutation(len(y))[:LOG_ROWS]
    train, test = order[len(order) // 3 :], order[: len(order) // 3]
    features = LandmarkFeatures(n_landmarks=min(128, len(train) // 2), random_state=0)
    model = FeatureRegressor(features, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the penalty may be the largest one
        direct = model.fit(X[train], y[train]).predict(X[test])
        logs = model.fit(X[train], np.log(y[train])).predict(X[test])
    predicted = log_factor(logs, y[test]) * np.exp(logs)
    return bool(np.square(predicted - y[test]).mean() < np.square(direct - y[test]).mean())


def log_factor(logs: Floats, y: Floats, sample_weight: Floats | None = None) -> float:
    r"""Return the factor of exponentials of predicted logarithms whose mean is that of the targets.

    The exponential of a mean logarithm is less than the mean. With predictions :math:`f_i` of rows that the model was
    not fitted to, the factor is :math:`\sum w_i y_i / \sum w_i e^{f_i}`. Small targets do not dominate it, unlike the
    mean of :math:`y_i e^{-f_i}` (Duan's smearing).
    """
    known = np.isfinite(logs)
    shift = logs[known].max()  # exponentials must not overflow
    w = None if sample_weight is None else sample_weight[known]
    mean = np.average(np.exp(logs[known] - shift), weights=w)
    return float(np.exp(np.log(np.average(y[known], weights=w)) - shift - np.log(mean)))


def _split_target(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return the rows of a data frame that have a target, without it, with their targets and weights."""
    if not isinstance(y, str):
        return X, y, sample_weight
    if is_path(X) or not is_frame(X):
        raise ValueError(f"A target given by its name ({y!r}) needs a data frame here. Got {type(X).__name__} instead.")
    X = X.collect() if hasattr(X, "collect") else X
    Table(X[:0], y)  # refuses the name of a column that the table does not have
    name, y, weights, is_pandas = y, np.asarray(X[y]), check_weights(sample_weight, X), hasattr(X, "iloc")
    X = X.drop(columns=name) if is_pandas else X.drop(name)
    is_used = ~_are_missing(y)
    if is_used.all():
        return X, y, weights
    warnings.warn(f"{len(y) - is_used.sum():,} rows have no {name!r} and are left out.", stacklevel=4)
    X = X[is_used] if is_pandas else X.filter(is_used)
    return X, y[is_used], None if weights is None else weights[is_used]


def _are_missing(y: Any) -> Mask:
    """Return which targets are missing."""
    return np.asarray(frame_of_columns(["y"], [np.ravel(np.asarray(y))], "`y`").table.column(0).is_null())
