# SPDX-License-Identifier: BSD-3-Clause
"""Predictions of a model for the rows of another table, and its errors there."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.atomic_files import replaced_file
from bochner.inspection.kernel_error import KernelError
from bochner.progress import track
from bochner.rows import Array, Floats
from bochner.table_models.explanations import explanation_columns
from bochner.table_models.fitted_model import FittedModel
from bochner.table_models.intervals import prediction_intervals
from bochner.tables.columns import import_pyarrow
from bochner.tables.survey import Sample

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Evaluation", "PredictionColumns", "evaluate", "write_predictions"]


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
    sample : RecordBatch
        A sample of the rows.
    """

    n_rows: int
    kernel_error: KernelError
    measures: dict[str, float]
    sample: "pa.RecordBatch"


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
    estimator = model.estimator.without_encoding()
    for chunk, rows in track(source.batches(for_training=with_target), "evaluating", source.table.n_chunks()):
        sample.add(chunk.cells)
        n_rows += len(rows)
        if with_target and len(rows):
            actual, predicted = source.targets(chunk), estimator.predict(rows)
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
    measures = _measures(model.task, totals / n_rows) if with_target else {}
    return Evaluation(n_rows, kernel_error, measures, sample.cells)


def _measures(task: str, means: Floats) -> dict[str, float]:
    loss, mean, mean_square = (float(value) for value in means)
    if task == "classification":
        return {"error_rate": loss}
    variance = mean_square - mean**2
    return {"rmse": loss**0.5, "r2": 1.0 - loss / variance if variance > 0.0 else float("nan")}


@dataclass(frozen=True)
class PredictionColumns:
    """What a file of predictions contains beside the predictions.

    Attributes
    ----------
    std : bool
        Whether to add the standard deviations of a regression.
    proba : bool
        Whether to add the probabilities of a logistic regression, one column per class.
    interval : float or None
        Share of the targets that the added prediction intervals of a regression contain.
    keep : sequence of str
        Columns of the table to copy, such as an id.
    explanation : bool
        Whether to add the contributions of the columns.
    """

    std: bool = False
    proba: bool = False
    interval: float | None = None
    keep: Sequence[str] = ()
    explanation: bool = False

    def check(self, model: FittedModel) -> None:
        """Refuse columns that a model does not have."""
        if self.std and model.task != "regression":
            raise ValueError("Only the predictions of a regression have standard deviations; omit --std.")
        if self.proba and not hasattr(model.estimator, "predict_proba"):
            raise ValueError(
                "This model has no probabilities; fit it with `bochner fit --head logistic`, or omit --proba."
            )
        if self.interval is None:
            return
        if not 0.0 < self.interval < 1.0:
            raise ValueError(
                f"A prediction interval cannot contain a share of {self.interval:g}; give one between 0 and 1, such as "
                f"0.9."
            )
        if model.residuals is None:
            raise ValueError("Only the predictions of a regression have intervals; this is a model of classes.")

    def of(self, model: FittedModel, cells: "pa.RecordBatch", rows: Array) -> dict[str, Any]:
        """Return the columns for rows of a table, given as cells and encoded."""
        explanation = explanation_columns(model, rows) if self.explanation else {}
        return self._predictions(model, cells, rows) | explanation

    def _predictions(self, model: FittedModel, cells: "pa.RecordBatch", rows: Array) -> dict[str, Any]:
        target: str = model.target
        estimator: Any = model.estimator.without_encoding()
        columns = {f"{name}_observed" if name == target else name: cells.column(name) for name in self.keep}
        if model.task == "regression" and (self.std or self.interval is not None):
            columns[target], deviations = estimator.predict(rows, return_std=True)
            if self.std:
                columns[f"{target}_std"] = deviations
            if self.interval is not None and model.residuals is not None:
                bounds = prediction_intervals(columns[target], deviations, model.residuals, self.interval)
                columns[f"{target}_low"], columns[f"{target}_high"] = bounds
            return columns
        columns[target] = np.asarray(estimator.predict(rows))
        if self.proba:
            names = [f"{target}_probability_{label}" for label in estimator.classes_.tolist()]
            columns |= dict(zip(names, estimator.predict_proba(rows).T, strict=True))
        return columns


def write_predictions(
    model: FittedModel,
    data: Any,
    output: Path | None,
    columns: PredictionColumns | None = None,
    *,
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
    output : path or None
        The file to write; None writes CSV to standard output.
    columns : PredictionColumns, default=None
        What is written beside the predictions.
    label : str, default=None
        What messages call the table; None means its path.
    report : callable, default=None
        Called with messages about cells that the training rows had none like.

    Returns
    -------
    int
        Number of rows.
    """
    columns = columns or PredictionColumns()
    columns.check(model)
    source = model.open(data, with_target=False, label=label, keep=columns.keep)
    n_rows, writer = 0, None
    with _opened(output) as open_writer:
        for chunk, rows in track(source.batches(), "predicting", source.table.n_chunks()):
            batch = import_pyarrow().RecordBatch.from_pydict(columns.of(model, chunk.cells, rows))
            writer = open_writer(batch.schema) if writer is None else writer
            writer.write_batch(batch)
            n_rows += len(rows)
        if writer is None:
            raise ValueError(f"{source.table.path} has no rows to predict.")
        writer.close()
    if report is not None:
        for message in source.unseen.messages():
            report(message)
    return n_rows


@contextmanager
def _opened(output: Path | None) -> Iterator[Callable[["pa.Schema"], Any]]:
    """Return a function that opens a writer of a file, which is renamed when it is complete, or of standard output."""
    from pyarrow import csv, parquet

    if output is None:
        yield partial(csv.CSVWriter, sys.stdout.buffer)
        return
    writers = {".csv": csv.CSVWriter, ".parquet": parquet.ParquetWriter}
    if output.suffix.lower() not in writers:
        raise ValueError(f"--output {output} must end in .csv or .parquet, or be - for standard output.")
    with replaced_file(output) as temporary:
        yield partial(writers[output.suffix.lower()], temporary)
