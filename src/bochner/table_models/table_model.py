# SPDX-License-Identifier: BSD-3-Clause
"""`TableModel`: a model of one column of a table, in Python what `bochner fit` is on the command line."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bochner.linear_models import FourierRidge, FourierRidgeClassifier
from bochner.parameters import Parametrized
from bochner.rows import Array, Floats
from bochner.table_models.fitted_model import Estimator, FittedModel
from bochner.table_models.predictions import PredictionColumns
from bochner.table_models.training import fit_table
from bochner.tables.columns import NumberStyle
from bochner.tables.encoding import Encoding
from bochner.tables.file_table import FileTable
from bochner.tables.survey import Standardization
from bochner.validation import HasMethods, StrOptions, fit_context

__all__ = ["TableModel"]


def _has_probabilities(model: "TableModel") -> bool:
    """Raise an AttributeError unless the estimator has probabilities."""
    estimator = model.model_.estimator if hasattr(model, "model_") else model.estimator
    return hasattr(estimator, "predict_proba")


class TableModel(Parametrized):
    """Predict one column of a table from the others, whatever they contain.

    The columns are recognized, encoded and standardized as by ``bochner fit``: see `TableEncoder`. Files are streamed,
    and may be larger than memory.

    Parameters
    ----------
    estimator : FourierRidge, FourierRidgeClassifier, FourierSVC or FourierLogisticRegression, default=None
        The linear model. None means `FourierRidge` for a regression and `FourierRidgeClassifier` for a classification.
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
        Seed of the sample of rows and, without an estimator, of the features.

    Attributes
    ----------
    model_ : FittedModel
        The fitted linear model with the encoding of the columns, as it is stored in model files.
    estimator_ : estimator
        The fitted linear model.
    encoding_ : Encoding
        How the columns become numbers.
    task_ : {"regression", "classification"}
        What is predicted.
    classes_ : ndarray of shape (n_classes,)
        The classes of a classification.
    feature_names_in_ : ndarray of shape (n_features_in_,)
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
    >>> model = TableModel(random_state=0).fit(table[:300], "target")
    >>> model.task_
    'regression'
    >>> round(model.score(table[300:], "target"), 2)
    0.53
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
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
        task: str = "auto",
        kinds: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
        standardize: Standardization = "robust",
        decimal: str = ".",
        thousands: str = "",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
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
            The table: a .csv, .parquet, .jsonl or .xlsx file, a folder of Parquet files, or rows in memory. Rows
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
        style = NumberStyle(self.decimal, self.thousands)
        table = FileTable(X, target, self.drop, self.kinds, style=style)
        seed = int(check_random_state(self.random_state).randint(2**31)) if self.random_state is not None else 0
        self.model_ = fit_table(table, _Options(self, seed), _ignore).model
        return self

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
        if not isinstance(loaded, FittedModel):
            raise ValueError(
                f"{path} is a checkpoint and not a model; run the interrupted `bochner fit` with --resume."
            )
        model = cls(clone(loaded.estimator), task=loaded.task)
        model.model_ = loaded
        return model

    @property
    def estimator_(self) -> Estimator:
        """The fitted linear model."""
        return self.model_.estimator

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
    """The options of a `TableModel` for `fit_table`."""

    def __init__(self, model: TableModel, seed: int) -> None:
        self._model = model
        self.seed = seed
        self.task = _given_task(model)
        self.standardize = model.standardize

    def new_estimator(self, task: str) -> Any:
        """Return the unfitted estimator for a task."""
        if self._model.estimator is not None:
            return clone(self._model.estimator)
        kind = FourierRidge if task == "regression" else FourierRidgeClassifier
        return kind(random_state=self._model.random_state)


def _ignore(message: str) -> None:
    """Report a message to nobody."""
