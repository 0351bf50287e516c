# SPDX-License-Identifier: BSD-3-Clause
"""`TableModel`: a model of one column of a table, in Python what `bochner fit` is on the command line."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bochner.parameters import Parametrized
from bochner.rows import Array, Floats
from bochner.table_models.fitted_model import Estimator, FittedModel
from bochner.table_models.predictions import PredictionColumns
from bochner.table_models.search import Budget
from bochner.table_models.settings import FREE, Settings, TrainingOptions
from bochner.table_models.training import fit_table
from bochner.table_models.trials import Trial
from bochner.tables.columns import NumberStyle
from bochner.tables.encoding import Encoding
from bochner.tables.file_table import FileTable
from bochner.tables.survey import Standardization
from bochner.validation import HasMethods, Interval, StrOptions, fit_context

__all__ = ["TableModel"]


def _has_probabilities(model: "TableModel") -> bool:
    """Raise an AttributeError unless the estimator has probabilities."""
    estimator = model.model_.estimator if hasattr(model, "model_") else model.estimator
    return hasattr(estimator, "predict_proba")


class TableModel(Parametrized):
    """Predict one column of a table from the others, whatever they contain.

    The columns are recognized, encoded and standardized as by ``bochner fit``: see `TableEncoder`. Files are streamed,
    and may be larger than memory. Without an estimator, a few settings are compared by cross-validation on a sample of
    at most 4,000 rows, and the best ones are fitted on all rows.

    Parameters
    ----------
    estimator : FeatureRegressor or FeatureClassifier, default=None
        The linear model. None means `FeatureRegressor` for a regression and `FeatureClassifier` with squared errors for
        a classification, with features, kernel, length scales and number of columns that are chosen by
        cross-validation.
    effort : {"search", "fast"}, default="search"
        Whether to compare settings, or to fit 256 frequencies of the Gaussian kernel with the median length scale at
        once. An estimator that was given is fitted as it is.
    minutes : float, default=None
        The time for a search and the fit; None means no limit. Settings are tried in order of promise, and the best one
        of those tried in time is fitted. The result then depends on the speed of the machine.
    task : {"auto", "regression", "classification"}, default="auto"
        Whether to predict a number or a class. "auto" means that of the estimator or, without one, decides by the
        values of the target: text, booleans and up to 20 whole numbers are classes.
    kinds : mapping of str to str, default=None
        Kinds of columns that are not to be recognized, such as ``{"zip": "category", "day": "date:%d/%m/%Y"}``.
    drop : sequence of str, default=()
        Columns to leave out.
    standardize : {"robust", "plain", "none"}, default="robust"
        How numbers are standardized: as by `RobustStandardizer`, by mean and standard deviation, or not at all.
    decimal, thousands : str, default="." and ""
        Separators of numbers that are text.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample of rows and, without an estimator, of the folds and the features.

    Attributes
    ----------
    model_ : FittedModel
        The fitted linear model with the encoding of the columns, as it is stored in model files.
    estimator_ : estimator
        The fitted linear model.
    trials_ : tuple of Trial
        The settings that were compared, with their cross-validated errors; empty without a search.
    encoding_ : Encoding
        How the columns become numbers.
    task_ : {"regression", "classification"}
        What is predicted.
    classes_ : ndarray of shape (n_classes,)
        The classes of a classification.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        The columns that the model needs.
    n_features_in_ : int
        Number of these columns.

    See Also
    --------
    TableEncoder : The encoding alone, as a transformer for pipelines.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import TableModel
    >>> table = load_diabetes(as_frame=True, scaled=False).frame
    >>> table["sex"] = table["sex"].map({1.0: "female", 2.0: "male"})
    >>> model = TableModel(effort="fast", random_state=0).fit(table[:300], "target")
    >>> model.task_
    'regression'
    >>> round(model.score(table[300:], "target"), 2)
    0.53
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "effort": [StrOptions(["search", "fast"])],
        "minutes": [Interval(Real, 0, None, closed="neither"), None],
        "task": [StrOptions(["auto", "regression", "classification"])],
        "kinds": [dict, None],
        "drop": [list, tuple],
        "standardize": [StrOptions(["robust", "plain", "none"])],
        "decimal": [str],
        "thousands": [str],
        "random_state": ["random_state"],
    }

    model_: FittedModel

    def __init__(
        self,
        estimator: Estimator | None = None,
        *,
        effort: str = "search",
        minutes: float | None = None,
        task: str = "auto",
        kinds: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
        standardize: Standardization = "robust",
        decimal: str = ".",
        thousands: str = "",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.effort = effort
        self.minutes = minutes
        self.task = task
        self.kinds = kinds
        self.drop = drop
        self.standardize = standardize
        self.decimal = decimal
        self.thousands = thousands
        self.random_state = random_state

    @fit_context
    def fit(self, X: Any, target: str) -> Self:
        """Recognize the columns and fit the linear model.

        Parameters
        ----------
        X : path, pandas or polars data frame, or Arrow table
            The table: a .csv or .parquet file, a folder of Parquet files, or rows in memory. Rows
            without a target are left out.
        target : str
            The column to predict.

        Returns
        -------
        self
            The fitted model.
        """
        if not isinstance(target, str):
            raise ValueError(f"`target` must be the name of a column. Got {target!r:.100} instead.")
        budget = Budget(self.minutes)
        style = NumberStyle(self.decimal, self.thousands)
        table = FileTable(X, target, self.drop, self.kinds, style=style)
        self.model_ = fit_table(table, self._options(), _ignore, budget=budget).model
        return self

    def _options(self) -> TrainingOptions:
        """Return the options of `bochner fit` that are the same as these parameters."""
        state: Any = self.random_state
        seed = int(state if isinstance(state, Integral) else check_random_state(state).randint(2**31))
        if self.estimator is not None:
            return _Options(self, seed)
        free = FREE if self.effort == "search" else ()
        task: Any = self.task
        return Settings("ridge", task, ["gaussian"], 256, [1.0], seed, standardize=self.standardize, free=free)

    def predict(self, X: Any) -> Array:
        """Predict the target.

        Parameters
        ----------
        X : path, pandas or polars data frame, or Arrow table
            A table with the columns that the model was fitted on.

        Returns
        -------
        ndarray of shape (n_samples,)
            The predicted numbers or classes.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(X))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities of the classes, if the estimator has them.

        Parameters
        ----------
        X : path, pandas or polars data frame, or Arrow table
            A table with the columns that the model was fitted on.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class, in the order of `classes_`.
        """
        check_is_fitted(self)
        estimator: Any = self.estimator_
        return np.asarray(estimator.predict_proba(X))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Predict the bounds that contain a share of the targets of new rows, for a regression.

        Parameters
        ----------
        X : path, pandas or polars data frame, or Arrow table
            A table with the columns that the model was fitted on.
        coverage : float, default=0.9
            The share of targets.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            The lower and the upper bound.
        """
        check_is_fitted(self)
        columns = PredictionColumns(interval=coverage)
        columns.check(self.model_)
        source = self.model_.open(X, with_target=False)
        names = f"{self.model_.target}_low", f"{self.model_.target}_high"
        parts = [columns.of(self.model_, chunk.cells, rows) for chunk, rows in source.batches()]
        source.unseen.warn()
        return np.column_stack([np.concatenate([part[name] for part in parts]) for name in names])

    def score(self, X: Any, target: Any = None) -> float:
        """Compute R2 of a regression, or the accuracy of a classification.

        Parameters
        ----------
        X : path, pandas or polars data frame, or Arrow table
            A table with the columns that the model was fitted on.
        target : str or array-like of shape (n_samples,), default=None
            The target: its name in the table, or its values. None means the column of the fit.

        Returns
        -------
        float
            R2, or the share of rows whose class is predicted.
        """
        check_is_fitted(self)
        return float(self.estimator_.score(X, self.model_.target if target is None else target))

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, as `bochner fit` does.

        Parameters
        ----------
        path : path
            The file.
        """
        from bochner.table_models.model_files import save

        check_is_fitted(self)
        save(self.model_, Path(path))

    @classmethod
    def load(cls, path: Any) -> "TableModel":
        """Read a model file; nothing in it is executed.

        Parameters
        ----------
        path : path
            A file written by `save` or by `bochner fit`.

        Returns
        -------
        TableModel
            The fitted model.
        """
        from bochner.table_models.model_files import load

        loaded = load(Path(path))
        model = cls(clone(loaded.estimator), task=loaded.task)
        model.model_ = loaded
        return model

    @property
    def estimator_(self) -> Estimator:
        """The fitted linear model."""
        return self.model_.estimator

    @property
    def trials_(self) -> tuple[Trial, ...]:
        """The settings that were compared."""
        return self.model_.trials

    @property
    def encoding_(self) -> Encoding:
        """How the columns become numbers."""
        return self.model_.encoding

    @property
    def task_(self) -> str:
        """What is predicted: "regression" or "classification"."""
        return self.model_.task

    @property
    def classes_(self) -> Array:
        """The classes of a classification."""
        estimator: Any = self.estimator_
        return np.asarray(estimator.classes_)

    @property
    def feature_names_in_(self) -> Array:
        """The columns that the model needs."""
        return np.array([column.name for column in self.encoding_.columns], dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of columns that the model needs."""
        return len(self.encoding_.columns)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        task = self.task_ if hasattr(self, "model_") else _given_task(self)
        tags.estimator_type = {"regression": "regressor", "classification": "classifier"}.get(task)
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags


def _given_task(model: TableModel) -> str:
    """Return the task of the estimator, if there is one."""
    if model.estimator is None:
        return model.task
    return "classification" if is_classifier(model.estimator) else "regression"


class _Options:
    """The options of a `TableModel` that has an estimator, for `fit_table`."""

    def __init__(self, model: TableModel, seed: int) -> None:
        self._estimator = model.estimator
        self.seed = seed
        self.task = _given_task(model)
        self.standardize = model.standardize

    def new_estimator(self, task: str) -> Any:
        """Return the unfitted estimator."""
        return clone(self._estimator)


def _ignore(message: str) -> None:
    """Report a message to nobody."""
