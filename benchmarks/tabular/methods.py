# SPDX-License-Identifier: BSD-3-Clause
"""The methods that are compared: estimators that accept the raw columns of a table.

Boosting gets the columns as they are; all other methods standardize them on the training rows. Every method chooses
its length scale and its penalty on the training rows; the seconds of a fit include that choice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, LandmarkFeatures
from tabular.data import Kind

__all__ = ["BOOSTING", "METHODS", "OURS", "Method"]

LENGTH_SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)  # multiples of the median distance
SVM_LENGTH_SCALES = (0.25, 0.5, 1.0)
SVM_ROWS = 5_000


@dataclass(frozen=True)
class Method:
    """An estimator for each kind of target.

    Attributes
    ----------
    build : callable
        Returns an estimator for a kind of target, a number of columns and a seed.
    description : str
        What it is, for readers of the page.
    max_rows : int, default=None
        With more training rows, the method cannot finish in reasonable time and is not run.
    """

    build: Callable[[Kind, int, int], Any]
    description: str
    max_rows: int | None = None

    def accepts(self, n_rows: int) -> bool:
        """Return whether the method is run with so many training rows."""
        return self.max_rows is None or n_rows <= self.max_rows


def gamma(multiple: float, n_columns: int) -> float:
    """Return scikit-learn's gamma for a length scale of `multiple` times sqrt(2 n_columns).

    That is the median distance of standardized columns, up to a few percent.
    """
    return 1.0 / (4.0 * n_columns * multiple**2)


class NystroemRidge(BaseEstimator):
    """Nystroem features and scikit-learn's ridge regression, with the best of several length scales.

    Both the penalty and the length scale are those with the lowest leave-one-out error, so that one fit per length
    scale is enough.
    """

    def __init__(self, kind: Kind = "regression", n_components: int = 512, random_state: int = 0) -> None:
        self.kind = kind
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit one model per length scale and keep the best one."""
        ridge = RidgeCV if self.kind == "regression" else RidgeClassifierCV
        alphas = len(X) * np.logspace(-8, 0, 17)
        models = []
        for multiple in LENGTH_SCALES:
            features = Nystroem(
                gamma=gamma(multiple, X.shape[1]),
                n_components=min(self.n_components, len(X)),
                random_state=self.random_state,
            )
            models.append(make_pipeline(StandardScaler(), features, ridge(alphas)).fit(X, y))
        self.model_ = max(models, key=lambda model: model[-1].best_score_)
        return self

    def predict(self, X: Any) -> Any:
        """Predict with the best model."""
        return self.model_.predict(X)


def _boosting(kind: Kind, n_columns: int, seed: int) -> Any:
    del n_columns
    if kind == "regression":
        return HistGradientBoostingRegressor(random_state=seed)
    return HistGradientBoostingClassifier(random_state=seed)


def _nystroem(kind: Kind, n_columns: int, seed: int) -> Any:
    del n_columns
    return NystroemRidge(kind, random_state=seed)


def _svm(kind: Kind, n_columns: int, seed: int) -> Any:
    """Return a grid search; targets are standardized, because the width of the tube of SVR is absolute."""
    del seed
    gammas = [gamma(multiple, n_columns) for multiple in SVM_LENGTH_SCALES]
    # A narrower tube than the default of 0.1, which exceeds the noise of some tables.
    machine, name = (SVR(epsilon=0.05), "svr") if kind == "regression" else (SVC(), "svc")
    grid = {f"{name}__C": [1.0, 10.0, 100.0], f"{name}__gamma": gammas}
    search = GridSearchCV(make_pipeline(StandardScaler(), machine), grid, cv=3)
    return TransformedTargetRegressor(search, transformer=StandardScaler()) if kind == "regression" else search


def _ours(features: Callable[[], Any], multiples: tuple[float, ...], kind: Kind, n_columns: int, seed: int) -> Any:
    del n_columns
    ridge = FeatureRegressor if kind == "regression" else partial(FeatureClassifier, loss="squared_error")
    return make_pipeline(StandardScaler(), ridge(features(), length_scale_factors=multiples, random_state=seed))


def _fourier(length_scale: str, n_frequencies: int) -> Callable[[Kind, int, int], Any]:
    features = partial(FourierFeatures, length_scale=length_scale, n_frequencies=n_frequencies)
    return partial(_ours, features, LENGTH_SCALES if length_scale == "median" else (1.0,))


def _landmarks(length_scale: str) -> Callable[[Kind, int, int], Any]:
    return partial(_ours, partial(LandmarkFeatures, length_scale=length_scale, n_landmarks=512), (1.0,))


BOOSTING = "boosting"
OURS = {
    "isotropic-256": Method(_fourier("median", 256), "256 frequencies, the best of five length scales"),
    "isotropic-1024": Method(_fourier("median", 1024), "1,024 frequencies, the best of five length scales"),
    "learn-256": Method(_fourier("learn", 256), "256 frequencies, one learned length scale per column"),
    "learn-1024": Method(_fourier("learn", 1024), "1,024 frequencies, one learned length scale per column"),
    "learn-matrix-256": Method(_fourier("learn-matrix", 256), "256 frequencies, a learned matrix"),
    "learn-matrix-1024": Method(_fourier("learn-matrix", 1024), "1,024 frequencies, a learned matrix"),
    "landmarks-learn": Method(_landmarks("learn"), "512 landmarks, one learned length scale per column"),
    "landmarks-learn-matrix": Method(_landmarks("learn-matrix"), "512 landmarks, a learned matrix"),
}
METHODS = {
    BOOSTING: Method(_boosting, "scikit-learn's HistGradientBoosting with its defaults"),
    "nystroem": Method(
        _nystroem, "scikit-learn's Nystroem with 512 landmarks and RidgeCV, the best of five length scales"
    ),
    "svm": Method(
        _svm, f"scikit-learn's SVR or SVC, the best of nine settings; up to {SVM_ROWS:,} training rows", SVM_ROWS
    ),
    **OURS,
}
