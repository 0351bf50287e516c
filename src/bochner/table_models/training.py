# SPDX-License-Identifier: BSD-3-Clause
"""From a table and the options of a fit to a model, by the same path as `fit(path, target)` in Python."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from bochner.feature_models.table_training import TableTraining
from bochner.rows import Array, Floats
from bochner.table_models.fitted_model import Estimator, FittedModel
from bochner.table_models.intervals import studentized_residuals
from bochner.table_models.search import Budget, search
from bochner.table_models.settings import Settings, TrainingOptions
from bochner.table_models.trials import MOST_ROWS
from bochner.tables.description import column_messages
from bochner.tables.file_table import FileTable
from bochner.tables.survey import MAX_CLASSES, Survey

__all__ = ["FittedTable", "Settings", "TrainingOptions", "fit_table"]

MOST_WHOLE_NUMBERS = 20  # a target with more distinct whole numbers is a quantity and not a class

Report = Callable[[str], None]


@dataclass(frozen=True)
class FittedTable:
    """A fitted model, the encoded sample of rows that its features were fitted on, and the survey of the table."""

    model: FittedModel
    sample: Array
    survey: Survey


def fit_table(
    table: FileTable,
    settings: TrainingOptions,
    report: Report,
    budget: Budget | None = None,
) -> FittedTable:
    """Fit a model on a table.

    Parameters
    ----------
    table : FileTable
        The table.
    settings : TrainingOptions
        The options, such as `Settings`. Those of its settings that are free are chosen by cross-validation on a sample
        of the rows.
    report : callable
        Called with messages about what was decided.
    budget : Budget, default=None
        The time for trials and the fit; None means no limit.

    Returns
    -------
    FittedTable
        The model.
    """
    training = TableTraining.begin(table, settings.seed, settings.standardize)
    budget = budget or Budget()

    def choose_estimator(survey: Survey) -> Estimator:
        task = _choose_task(table, survey, settings, report)
        best: TrainingOptions = settings
        if isinstance(settings, Settings) and settings.free:
            best = search(table, training, settings, task, budget, report)
        estimator: Estimator = best.new_estimator(task)
        return estimator

    estimator: Any = training.run(table, choose_estimator).finalize()
    task = "classification" if is_classifier(estimator) else "regression"
    sample = estimator.encoding_.encode(training.survey.sample.cells)
    model = FittedModel(
        estimator,
        task,
        str(table.target),
        training.survey.n_rows,
        _residuals(estimator, sample, training),
        center=sample.mean(axis=0, dtype=np.float64),
        trials=tuple(replace(trial, residuals=None) for trial in training.trials),
    )
    return FittedTable(model, sample, training.survey)


def _residuals(estimator: Estimator, sample: Array, training: TableTraining) -> Floats | None:
    """Return residuals for prediction intervals: those of the chosen trial, or leave-one-out residuals.

    Length scales that were learned from few rows make the residuals of these rows too small; in a trial they were
    learned without the validation rows. With more rows than a trial has, the model is better than that of a trial.
    """
    if is_classifier(estimator) or estimator.loss != "squared_error":
        return None
    chosen = [trial.residuals for trial in training.trials if trial.chosen]
    if chosen and training.survey.n_rows <= 1.25 * MOST_ROWS:
        residuals: Floats = chosen[0]
        return residuals
    targets = estimator.encoding_.targets(training.survey.sample.cells).astype(np.float64)
    return studentized_residuals(estimator, sample, targets)


def _choose_task(table: FileTable, survey: Survey, settings: TrainingOptions, report: Report) -> str:
    """Choose between regression and classification, check that the target allows it, and report the choice."""
    task, reason = _infer_task(table, survey)
    if settings.task != "auto":
        task, reason = settings.task, "as requested"
    _check_target(table, survey, task)
    report(f"Task: {task} ({reason}).")
    for message in column_messages(table, survey):
        report(message)
    return task


def _infer_task(table: FileTable, survey: Survey) -> tuple[str, str]:
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


def _check_target(table: FileTable, survey: Survey, task: str) -> None:
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
