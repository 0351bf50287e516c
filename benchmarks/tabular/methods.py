# SPDX-License-Identifier: BSD-3-Clause
"""The methods that are compared, all with their default settings and one thread.

The table models of this library get the data frame as it is. For the others, dates become day, month, weekday and hour,
and text becomes categories, which each of them gets in the form that suits it best: as native categories where it has
them, otherwise as integers (random forest) or as one column per category (ridge, xRFM). Other libraries are imported
when they are measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

__all__ = ["ENCODERS", "METHODS", "OURS", "Method", "TypedColumns"]

MOST_CATEGORIES = 254  # of HistGradientBoosting


class TypedColumns(TransformerMixin, BaseEstimator):
    """Make every column of a data frame float64 or a category, known from the training rows; dates become four."""

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Find dates and categories."""
        others = X.select_dtypes(exclude=["number", "bool"])
        self.dates_ = [name for name in others if _is_date(others[name])]
        self.categories_ = {
            name: others[name].astype(str).where(others[name].notna()).value_counts().index[:MOST_CATEGORIES]
            for name in others
            if name not in self.dates_
        }
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the typed columns; unknown categories are missing."""
        columns = {}
        for name in X:
            if name in self.dates_:
                dates = pd.to_datetime(X[name], format="ISO8601", utc=True)
                columns[f"{name} day"] = (dates - pd.Timestamp(0, tz="utc")).dt.total_seconds() / 86_400
                columns |= {f"{name} {part}": getattr(dates.dt, part) for part in ("month", "day_of_week", "hour")}
            elif name in self.categories_:
                known = self.categories_[name]
                text = X[name].astype(str)
                columns[name] = pd.Categorical(text.where(text.isin(known)), known)
            else:
                columns[name] = X[name].astype(float)
        return pd.DataFrame(columns, index=X.index)


def _is_date(column: "pd.Series[Any]") -> bool:
    try:
        pd.to_datetime(column, format="ISO8601", utc=True)
    except (ValueError, TypeError):
        return False
    return True


class Xrfm(BaseEstimator):
    """xRFM with its defaults; one fifth of the rows are its validation rows."""

    def __init__(self, is_regression: bool, seed: int) -> None:
        self.is_regression = is_regression
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model; targets are standardized."""
        import torch
        from xrfm import xRFM

        torch.set_num_threads(1)
        self.classes_, self.center_, self.scale_ = np.unique(y), y.mean(), y.std()
        y = ((y - self.center_) / self.scale_).astype(np.float32)[:, None] if self.is_regression else y.astype(np.int64)
        parts = train_test_split(X.astype(np.float32), y, test_size=0.2, random_state=self.seed)
        X_train, X_val, y_train, y_val = (torch.as_tensor(part) for part in parts)
        self.model_ = xRFM(random_state=self.seed, verbose=False, device=torch.device("cpu"))
        self.model_.fit(X_train, y_train, X_val, y_val)
        return self

    def predict(self, X: Any) -> Any:
        """Predict targets or classes."""
        if not self.is_regression:
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        return np.asarray(self.model_.predict(X.astype(np.float32)))[:, 0] * self.scale_ + self.center_

    def predict_proba(self, X: Any) -> Any:
        """Predict probabilities."""
        return np.asarray(self.model_.predict_proba(X.astype(np.float32)))


def _ours(effort: str) -> Callable[[bool, int], Any]:
    def build(is_regression: bool, seed: int) -> Any:
        from bochner import TableClassifier, TableRegressor

        return (TableRegressor if is_regression else TableClassifier)(effort=effort, random_state=seed)

    return build


def _hist_gradient_boosting(is_regression: bool, seed: int) -> Any:
    model = HistGradientBoostingRegressor if is_regression else HistGradientBoostingClassifier
    return make_pipeline(TypedColumns(), model(random_state=seed))


def _lightgbm(is_regression: bool, seed: int) -> Any:
    import lightgbm

    model = lightgbm.LGBMRegressor if is_regression else lightgbm.LGBMClassifier
    return make_pipeline(TypedColumns(), model(random_state=seed, n_jobs=1, verbose=-1))


class _CatBoost(BaseEstimator):
    """CatBoost with text columns as its categories, which must not be missing."""

    def __init__(self, is_regression: bool, seed: int) -> None:
        self.is_regression = is_regression
        self.seed = seed

    def fit(self, X: pd.DataFrame, y: Any) -> Self:
        """Fit the model."""
        import catboost

        model = catboost.CatBoostRegressor if self.is_regression else catboost.CatBoostClassifier
        self.model_ = model(random_seed=self.seed, thread_count=1, verbose=0, allow_writing_files=False)
        self.model_.fit(self._strings(X), y, cat_features=list(X.select_dtypes("category")))
        return self

    def predict(self, X: pd.DataFrame) -> Any:
        """Predict; classes would otherwise be a column."""
        return np.ravel(self.model_.predict(self._strings(X)))

    def predict_proba(self, X: pd.DataFrame) -> Any:
        """Predict probabilities."""
        return self.model_.predict_proba(self._strings(X))

    def _strings(self, X: pd.DataFrame) -> pd.DataFrame:
        return X.assign(**{name: X[name].astype(object).fillna("missing") for name in X.select_dtypes("category")})


def _catboost(is_regression: bool, seed: int) -> Any:
    return make_pipeline(TypedColumns(), _CatBoost(is_regression, seed))


def _ebm(is_regression: bool, seed: int) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    model = ExplainableBoostingRegressor if is_regression else ExplainableBoostingClassifier
    return make_pipeline(TypedColumns(), model(random_state=seed, n_jobs=1))


def _random_forest(is_regression: bool, seed: int) -> Any:
    model = RandomForestRegressor if is_regression else RandomForestClassifier
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1)
    selected = (codes, make_column_selector(dtype_include="category"))
    columns = make_column_transformer(selected, remainder="passthrough")
    return make_pipeline(TypedColumns(), columns, model(random_state=seed, n_jobs=1))


def _standardized(model: Any) -> Pipeline:
    """Return a pipeline with gaps imputed, one column per category, and all columns standardized."""
    one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=0.01, sparse_output=False)
    columns = make_column_transformer(
        (SimpleImputer(strategy="median", keep_empty_features=True), make_column_selector(dtype_include="number")),
        (one_hot, make_column_selector(dtype_include="category")),
    )
    return make_pipeline(TypedColumns(), columns, StandardScaler(), model)


def _ridge(is_regression: bool, seed: int) -> Any:
    return _standardized(RidgeCV() if is_regression else LogisticRegression(max_iter=1000, random_state=seed))


def _skrub(is_regression: bool, seed: int) -> Any:
    """Return skrub's recommended pipeline: its encoder and HistGradientBoosting."""
    import skrub

    model = HistGradientBoostingRegressor if is_regression else HistGradientBoostingClassifier
    return skrub.tabular_pipeline(model(random_state=seed))


def _skrub_ours(is_regression: bool, seed: int) -> Any:
    """Return skrub's pipeline with the kernel machine, which shows what the encoder contributes."""
    import skrub

    from bochner import KernelClassifier, KernelRegressor

    return skrub.tabular_pipeline((KernelRegressor if is_regression else KernelClassifier)(random_state=seed))


def _xrfm(is_regression: bool, seed: int) -> Any:
    return _standardized(Xrfm(is_regression, seed))


@dataclass(frozen=True)
class Method:
    """An estimator of data frames for regression or classes, from a seed, and its name for readers."""

    build: Callable[[bool, int], Any]
    label: str
    package: str = "scikit-learn"


OURS = {
    "tables": Method(_ours("default"), "bochner", "bochner"),
    "tables-fast": Method(_ours("fast"), 'bochner, effort="fast"', "bochner"),
}
METHODS = {
    "ridge": Method(_ridge, "ridge / logistic regression"),
    "hgb": Method(_hist_gradient_boosting, "HistGradientBoosting"),
    "lightgbm": Method(_lightgbm, "LightGBM", "lightgbm"),
    "forest": Method(_random_forest, "random forest"),
    "catboost": Method(_catboost, "CatBoost", "catboost"),
    "xrfm": Method(_xrfm, "xRFM", "xrfm"),
    "ebm": Method(_ebm, "EBM", "interpret-core"),
    **OURS,
}
ENCODERS = {  # what the encoder of tables contributes; not in the default run
    "skrub-hgb": Method(_skrub, "skrub, HistGradientBoosting", "skrub"),
    "skrub-bochner": Method(_skrub_ours, "skrub, kernel machine", "skrub"),
}
METHODS |= ENCODERS
