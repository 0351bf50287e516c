# SPDX-License-Identifier: BSD-3-Clause
"""From a table and the options of a fit to a model, by the same path as `fit(path, target)` in Python."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from sklearn.base import is_classifier

from bochner.fourier_features import FourierFeatures
from bochner.landmark_features import LandmarkFeatures
from bochner.linear_models import FourierLogisticRegression, FourierRidge, FourierRidgeClassifier, FourierSVC
from bochner.linear_models.table_training import TableTraining
from bochner.rows import Array
from bochner.table_models.fitted_model import Estimator, FittedModel
from bochner.table_models.intervals import studentized_residuals
from bochner.tables.description import column_messages
from bochner.tables.file_table import FileTable
from bochner.tables.parquet_folder import ParquetFolder
from bochner.tables.survey import MAX_CLASSES, Standardization, Survey

__all__ = ["FittedTable", "Settings", "StoredTraining", "TrainingOptions", "fit_table"]

N_FOLDS = 5
MOST_WHOLE_NUMBERS = 20  # a target with more distinct whole numbers is a quantity and not a class

CLASSIFIERS: dict[str, Any] = {
    "ridge": FourierRidgeClassifier,
    "svm": FourierSVC,
    "logistic": FourierLogisticRegression,
}

Report = Callable[[str], None]


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

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["learn"], bool):  # a checkpoint from before metrics could be learned
            state = state | {"learn": "learn" if state["learn"] else None}
        self.__dict__.update(state)

    def new_estimator(self, task: str) -> Estimator:
        """Return the unfitted estimator for a task."""
        if task == "regression" and self.head != "ridge":
            name = "support vector machine" if self.head == "svm" else "logistic model"
            raise ValueError(f"A {name} cannot do regression; use --head ridge.")
        kind = FourierRidge if task == "regression" else CLASSIFIERS[self.head]
        kernels = self.kernels if len(self.kernels) > 1 else None
        return kind(
            self._new_features(),
            cv=N_FOLDS,
            length_scales=self.length_scales,
            kernels=kernels,
            random_state=self.seed,
        )

    def _new_features(self) -> FourierFeatures | LandmarkFeatures:
        kernel, length_scale = self.kernels[0], self.learn or "median"
        if self.features == "landmarks":  # as many columns as Fourier features have
            return LandmarkFeatures(kernel, length_scale=length_scale, n_landmarks=2 * self.n_frequencies)
        return FourierFeatures(kernel, length_scale=length_scale, n_frequencies=self.n_frequencies)


@dataclass
class StoredTraining:
    """An interrupted training, with the options that it was started with."""

    settings: Settings
    training: TableTraining


@dataclass(frozen=True)
class FittedTable:
    """A fitted model, the encoded sample of rows that its features were fitted on, and the survey of the table."""

    model: FittedModel
    sample: Array
    survey: Survey


def fit_table(
    table: FileTable | ParquetFolder,
    settings: TrainingOptions,
    report: Report,
    training: TableTraining | None = None,
    checkpoint: Callable[[TableTraining], None] | None = None,
) -> FittedTable:
    """Fit a model on a table.

    Parameters
    ----------
    table : FileTable or ParquetFolder
        The table.
    settings : TrainingOptions
        The options, such as `Settings`.
    report : callable
        Called with messages about what was decided.
    training : TableTraining, default=None
        An interrupted training to continue; None starts from the beginning.
    checkpoint : callable, default=None
        Called with the training whenever it can be stored.

    Returns
    -------
    FittedTable
        The model.
    """
    training = training or TableTraining.begin(table, settings.seed, settings.standardize)

    def choose_estimator(survey: Survey) -> Estimator:
        estimator: Estimator = settings.new_estimator(_choose_task(table, survey, settings, report))
        return estimator

    estimator: Any = training.run(table, choose_estimator, checkpoint).finalize()
    task = "classification" if is_classifier(estimator) else "regression"
    sample = estimator.encoding_.encode(training.survey.sample.cells)
    residuals = None
    if isinstance(estimator, FourierRidge):
        targets = estimator.encoding_.targets(training.survey.sample.cells).astype(np.float64)
        residuals = studentized_residuals(estimator, sample, targets)
    center = sample.mean(axis=0, dtype=np.float64)
    model = FittedModel(estimator, task, str(table.target), training.survey.n_rows, residuals, center=center)
    return FittedTable(model, sample, training.survey)


def _choose_task(table: FileTable | ParquetFolder, survey: Survey, settings: TrainingOptions, report: Report) -> str:
    """Choose between regression and classification, check that the target allows it, and report the choice."""
    task, reason = _infer_task(table, survey)
    if settings.task != "auto":
        task, reason = settings.task, "as requested"
    _check_target(table, survey, task)
    report(f"Task: {task} ({reason}).")
    for message in column_messages(table, survey):
        report(message)
    return task


def _infer_task(table: FileTable | ParquetFolder, survey: Survey) -> tuple[str, str]:
    """Return the task that the values of the target suggest, and the reason."""
    values = survey.target_values
    column = f"column {table.target!r}"
    if survey.target_is_text:
        return "classification", f"{column} contains text with {len(values or [])} distinct values"
    if values is None:
        return "regression", f"{column} contains numbers with more than {MAX_CLASSES} distinct values"
    if all(isinstance(value, bool) for value in values):
        return "classification", f"{column} contains booleans"
    if all(float(value).is_integer() for value in values) and len(values) <= MOST_WHOLE_NUMBERS:
        return "classification", f"{column} contains {len(values)} distinct whole numbers"
    return "regression", f"{column} contains numbers with {len(values)} distinct values"


def _check_target(table: FileTable | ParquetFolder, survey: Survey, task: str) -> None:
    """Refuse a target that no model can be fitted to."""
    values = survey.target_values
    if values is not None and len(values) == 1:
        raise ValueError(
            f"{table.path}: column {table.target!r} has the value {values[0]!r} in all {survey.n_rows} rows, so there "
            f"is nothing to predict; give another target."
        )
    if task == "regression" and survey.target_is_text:
        raise ValueError(f"{table.path}: column {table.target!r} contains text; use --task classification.")
    if task == "classification":
        survey.classes(table)
