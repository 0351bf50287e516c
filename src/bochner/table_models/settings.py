# SPDX-License-Identifier: BSD-3-Clause
"""`Settings`: the options of a fit on a table, and which of them are chosen by cross-validation."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from bochner.feature_models.classifier import FeatureClassifier
from bochner.feature_models.regressor import FeatureRegressor
from bochner.features.fourier_features import FourierFeatures
from bochner.features.landmark_features import LandmarkFeatures
from bochner.table_models.fitted_model import Estimator
from bochner.tables.survey import Standardization

__all__ = ["FREE", "Settings", "TrainingOptions"]

N_FOLDS = 5
FREE = ("features", "learn", "kernels", "n_frequencies")  # settings that can be chosen by cross-validation

LOSSES = {"ridge": "squared_error", "svm": "squared_hinge", "logistic": "log_loss"}


class TrainingOptions(Protocol):
    """What `fit_table` needs to know: `Settings`, or a `TableModel`."""

    @property
    def task(self) -> str:
        """One of "auto", "regression" and "classification"."""

    @property
    def standardize(self) -> Standardization:
        """How numbers are standardized."""

    @property
    def seed(self) -> int:
        """Seed of the sample of rows."""

    def new_estimator(self, task: str) -> Any:
        """Return the unfitted estimator for a task."""


@dataclass(frozen=True)
class Settings:
    """The options of `bochner fit` that determine the model.

    Attributes
    ----------
    head : {"ridge", "svm", "logistic"}
        Ridge regression, support vector machine or logistic regression.
    task : {"auto", "regression", "classification"}
        What the target is; "auto" decides by its values.
    kernels : list of str
        Names of the candidate kernels.
    n_frequencies : int
        Number of frequencies.
    length_scales : list of float
        Candidate length scales, as multiples of the median distance or of the learned length scales.
    seed : int
        Seed of the frequencies and of the sample of rows.
    learn : {"learn", "learn-matrix"} or None
        Whether to learn one length scale per column, or a metric; None means the median distance.
    features : {"fourier", "landmarks"}
        Cosines and sines of random frequencies, or kernel values at landmarks.
    standardize : {"robust", "plain", "none"}
        How numeric columns are standardized: by quartiles with soft clipping, by mean and standard deviation, or not.
    free : tuple of str
        Names of settings, among `FREE`, that are chosen by cross-validation; their values are the first to be tried.
    """

    head: Literal["ridge", "svm", "logistic"]
    task: Literal["auto", "regression", "classification"]
    kernels: list[str]
    n_frequencies: int
    length_scales: list[float]
    seed: int
    learn: Literal["learn", "learn-matrix"] | None = None
    features: Literal["fourier", "landmarks"] = "fourier"
    standardize: Standardization = "robust"
    free: tuple[str, ...] = ()

    def new_estimator(self, task: str) -> Estimator:
        """Return the unfitted estimator for a task."""
        if task == "regression" and self.head != "ridge":
            name = "support vector machine" if self.head == "svm" else "logistic model"
            raise ValueError(f"A {name} cannot do regression; use --head ridge.")
        kind: Any = FeatureRegressor if task == "regression" else FeatureClassifier
        kernels = self.kernels if len(self.kernels) > 1 else None
        estimator: Estimator = kind(
            self._new_features(),
            loss=LOSSES[self.head],
            cv=N_FOLDS,
            length_scale_factors=self.length_scales,
            kernels=kernels,
            random_state=self.seed,
        )
        return estimator

    def _new_features(self) -> FourierFeatures | LandmarkFeatures:
        kernel, length_scale = self.kernels[0], self.learn or "median"
        if self.features == "landmarks":  # as many columns as Fourier features have
            return LandmarkFeatures(kernel, length_scale=length_scale, n_landmarks=2 * self.n_frequencies)
        return FourierFeatures(kernel, length_scale=length_scale, n_frequencies=self.n_frequencies)
