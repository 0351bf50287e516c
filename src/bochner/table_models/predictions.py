# SPDX-License-Identifier: BSD-3-Clause
"""Predictions of a model for the rows of another table, and its errors there."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bochner.kernel_error import KernelError
from bochner.linear_models import FourierLogisticRegression, FourierRidge
from bochner.progress import track
from bochner.rows import Array, Floats
from bochner.table_models.fitted_model import FittedModel
from bochner.tables.survey import Sample

__all__ = ["Evaluation", "evaluate", "write_predictions"]


@dataclass(frozen=True)
class Evaluation:
    """The errors of a model on a table.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    kernel_error : KernelError
        Relative error of the approximate kernel on a sample of the rows, with its 95 % interval.
    measures : dict of str to float
        For a regression "rmse" and "r2", for a classification "error_rate", the share of misclassified rows; empty
        where the table has no target.
    """

    n_rows: int
    kernel_error: KernelError
    measures: dict[str, float]


def evaluate(
    model: FittedModel, data: Any, *, label: str | None = None, report: Callable[[str], None] | None = None
) -> Evaluation:
    """Evaluate a model on a table, its predictions too if the table has the target.

    Parameters
    ----------
    model : FittedModel
        The model.
    data : path or data frame
        The table. Rows without a target are left out.
    label : str, default=None
        What messages call the table; None means its path.
    report : callable, default=None
        Called with messages about cells that the training rows had none like.
    """
    with_target = model.target in model.open(data, with_target=False, label=label).table.names
    source = model.open(data, with_target=with_target, label=label)
    sample = Sample.of(source.table, 0)
    totals = np.zeros(3)  # losses, targets and squared targets, the latter two relative to the first target
    n_rows, origin = 0, None
    for chunk, rows in track(source.batches(for_training=with_target), "evaluating", source.table.n_chunks()):
        sample.add(chunk.cells)
        n_rows += len(rows)
        if with_target and len(rows):
            actual, predicted = source.targets(chunk), model.estimator.predict(rows)
            if model.task == "classification":
                totals[0] += float((actual != predicted).sum())
            else:
                origin = actual[0] if origin is None else origin
                offset = actual.astype(np.float64) - origin
                totals += np.square(actual - predicted).sum(), offset.sum(), np.square(offset).sum()
    if not n_rows or sample.cells is None:
        raise ValueError(f"{source.table.path} has no rows to evaluate the model on.")
    if report is not None:
        for message in source.unseen.messages():
            report(message)
    kernel_error = model.estimator.features_.kernel_error(model.encoding.encode(sample.cells), random_state=0)
    return Evaluation(n_rows, kernel_error, _measures(model.task, totals / n_rows) if with_target else {})


def _measures(task: str, means: Floats) -> dict[str, float]:
    loss, mean, mean_square = (float(value) for value in means)
    if task == "classification":
        return {"error_rate": loss}
    variance = mean_square - mean**2
    return {"rmse": loss**0.5, "r2": 1.0 - loss / variance if variance > 0.0 else float("nan")}


def write_predictions(
    model: FittedModel,
    data: Any,
    output: Path,
    *,
    with_std: bool = False,
    with_proba: bool = False,
    label: str | None = None,
    report: Callable[[str], None] | None = None,
) -> int:
    """Predict every row of a table into a CSV or Parquet file, which appears once it is complete.

    Parameters
    ----------
    model : FittedModel
        The model.
    data : path or data frame
        The table.
    output : path
        The file to write.
    with_std : bool, default=False
        Whether to add the standard deviations of a regression.
    with_proba : bool, default=False
        Whether to add the probabilities of a logistic regression, one column per class.
    label : str, default=None
        What messages call the table; None means its path.
    report : callable, default=None
        Called with messages about cells that the training rows had none like.

    Returns
    -------
    int
        Number of rows.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    writers = {".csv": csv.CSVWriter, ".parquet": parquet.ParquetWriter}
    if output.suffix.lower() not in writers:
        raise ValueError(f"--output {output} must end in .csv or .parquet.")
    if with_std and not isinstance(model.estimator, FourierRidge):
        raise ValueError("Only the predictions of a regression have standard deviations; omit --std.")
    if with_proba and not isinstance(model.estimator, FourierLogisticRegression):
        raise ValueError("Only a model of `bochner fit --head logistic` has probabilities; omit --proba.")
    source = model.open(data, with_target=False, label=label)
    temporary = output.with_name(output.name + ".new")
    n_rows, writer = 0, None
    try:
        for _, rows in track(source.batches(), "predicting", source.table.n_chunks()):
            batch = pa.RecordBatch.from_pydict(_prediction_columns(model, rows, with_std, with_proba))
            writer = writers[output.suffix.lower()](temporary, batch.schema) if writer is None else writer
            writer.write_batch(batch)
            n_rows += len(rows)
        if writer is None:
            raise ValueError(f"{source.table.path} has no rows to predict.")
        writer.close()
        os.replace(temporary, output)
    finally:
        temporary.unlink(missing_ok=True)
    if report is not None:
        for message in source.unseen.messages():
            report(message)
    return n_rows


def _prediction_columns(model: FittedModel, rows: Array, with_std: bool, with_proba: bool) -> dict[str, Array]:
    if isinstance(model.estimator, FourierRidge) and with_std:
        predictions, deviations = model.estimator.predict(rows, return_std=True)
        return {model.target: predictions, f"{model.target}_std": deviations}
    columns = {model.target: np.asarray(model.estimator.predict(rows))}
    if isinstance(model.estimator, FourierLogisticRegression) and with_proba:
        names = [f"{model.target}_probability_{label}" for label in model.estimator.classes_.tolist()]
        columns |= dict(zip(names, model.estimator.predict_proba(rows).T, strict=True))
    return columns
