# SPDX-License-Identifier: BSD-3-Clause
"""Errors of models on tables and on held-out rows, and files of predictions."""

import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import clone, is_classifier
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from bochner.atomic_files import replaced_file
from bochner.rows import Array, Floats
from bochner.tables.encoding import EncodedTable
from bochner.tables.reader import Frame
from bochner.tables.survey import Sample, Survey
from bochner.tables.table_encoder import TableEncoder
from bochner.tables.table_models import TableModel

HELD_OUT_ROWS, LEAST_ROWS, HELD_OUT_SHARE = 10_000, 50, 0.2


@dataclass(frozen=True)
class Evaluation:
    """Predictions for the rows of a table.

    Attributes
    ----------
    cells : RecordBatch
        A sample of the rows.
    n_rows : int
        Number of rows.
    measures : dict of str to float
        Errors on all rows.
    observed, predicted : ndarray of shape (n_sampled,)
        Targets and predictions of the sampled rows.
    proba : ndarray of shape (n_sampled, n_classes) or None
        Probabilities of the classes of the sampled rows.
    """

    cells: pa.RecordBatch
    n_rows: int
    measures: dict[str, float]
    observed: Array
    predicted: Array
    proba: Floats | None


def error_measures(model: TableModel, observed: Array, predicted: Array, proba: Floats | None) -> dict[str, float]:
    """Return the errors of predictions: those of a regression, or of classes beside the share of the most frequent."""
    if not is_classifier(model):
        varies = np.ptp(observed) > 0.0
        return {
            "rmse": float(np.sqrt(np.square(observed - predicted).mean())),
            "mean_absolute_error": float(mean_absolute_error(observed, predicted)),
            "r2": float(r2_score(observed, predicted)) if varies else float("nan"),
        }
    found, counts = np.unique(observed, return_counts=True)
    measures = {"accuracy": float(accuracy_score(observed, predicted)), "majority_share": counts.max() / counts.sum()}
    classes = model.estimator_.classes_
    if proba is not None and np.isin(found, classes).all():
        measures["log_loss"] = float(log_loss(observed, proba, labels=classes))
        if len(found) == len(classes):
            scores = proba[:, 1] if len(classes) == 2 else proba
            measures["auc"] = float(roc_auc_score(observed, scores, multi_class="ovr", labels=classes))
    return measures


def evaluate(model: Any, data: Any) -> Evaluation:
    """Evaluate the predictions of a model on a table that has the target."""
    source = _open(model, data, with_target=True)
    sample, parts = Sample(source.table, 0), []
    for batch in source.batches("evaluating"):
        sample.add(batch.cells)
        if len(batch.X):
            proba = model.estimator_.predict_proba(batch.X) if hasattr(model, "predict_proba") else None
            parts.append((batch.y, model.predict_rows(batch.X), proba))
    if not parts:
        raise ValueError(f"{source.table.path} has no rows to evaluate the model on.")
    source.unseen.warn()
    found: list[Any] = [None if part[0] is None else np.concatenate(part) for part in zip(*parts, strict=True)]
    shown: Any = (None if values is None else values[sample.positions] for values in found)
    return Evaluation(sample.cells, len(found[0]), error_measures(model, *found), *shown)


def _open(model: Any, data: Any, *, with_target: bool = False, keep: Sequence[str] = ()) -> EncodedTable:
    """Open a table with the columns of a model; models that read no tables by themselves are refused."""
    encoder = model.encoder_
    if not isinstance(encoder, TableEncoder):
        raise ValueError(f"Tables are read by a `TableEncoder`. The model has a {type(encoder).__name__}; use Python.")
    if with_target and encoder.encoding_.target is None:
        raise ValueError("The model does not know its target; fit it with the name of a column as `y`.")
    return encoder.encoding_.open(data, with_target=with_target, keep=keep)


def held_out(model: TableModel, survey: Survey, seed: int = 0) -> tuple[TableModel, Evaluation] | None:
    """Fit a copy of a model on four fifths of the sampled rows, and evaluate it on the others.

    None if there are fewer than 50 rows, or a class has a single one of them.
    """
    cells, table = survey.sample.cells, survey.table
    if cells.num_rows < LEAST_ROWS:
        return None
    order = np.random.default_rng(seed).permutation(cells.num_rows)[:HELD_OUT_ROWS]
    labels = model.encoder_.encoding_.targets(cells)[order] if is_classifier(model) else None
    if labels is not None and np.unique(labels, return_counts=True)[1].min() < 2:
        return None
    train, test = (
        Frame(pa.Table.from_batches([cells.take(pa.array(rows))]), table.path, table.source.untyped)
        for rows in train_test_split(order, test_size=HELD_OUT_SHARE, stratify=labels, random_state=seed)
    )
    other = clone(model)
    if other.encoder is not None:  # the sample has no dropped columns
        kinds = {name: kind for name, kind in table.kinds.items() if name in cells.schema.names}
        other.set_params(encoder__drop=[], encoder__kinds=kinds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the same as those of the fit on all rows
        return other.fit(train, table.target), evaluate(other, test)


def write_predictions(
    model: Any,
    data: Any,
    output: Path | None,
    *,
    keep: Sequence[str] = (),
    interval: float | None = None,
    proba: bool = False,
) -> int:
    """Predict every row of a table into a CSV or Parquet file, and return the number of rows.

    Parameters
    ----------
    model : TableRegressor or TableClassifier
        The model.
    data : path or data frame
        The table.
    output : path or None
        The file, which appears once it is complete; None writes CSV to standard output.
    keep : sequence of str, default=()
        Columns of the table to copy, such as an id.
    interval : float, default=None
        Share of the targets that the added prediction intervals of a regression contain.
    proba : bool, default=False
        Whether to add the probabilities of the classes.
    """
    from pyarrow import csv, parquet

    if interval is not None and not hasattr(model, "predict_interval"):
        raise ValueError("Only regressions have prediction intervals; omit `interval`.")
    if interval is not None and not 0.0 < interval < 1.0:
        raise ValueError(f"`interval` must be a share between 0 and 1, such as 0.9. Got {interval:g}.")
    if proba and not hasattr(model, "predict_proba"):
        raise ValueError("This model has no probabilities; omit `proba`.")
    writers: dict[str, Any] = {".csv": csv.CSVWriter, ".parquet": parquet.ParquetWriter}
    suffix = ".csv" if output is None else output.suffix.lower()
    if suffix not in writers:
        raise ValueError(f"`output` must end in .csv or .parquet. Got {output}.")
    source, target = _open(model, data, keep=keep), model.target_name_ or "prediction"
    n_rows, writer = 0, None
    with nullcontext(sys.stdout.buffer) if output is None else replaced_file(output) as file:
        for batch in source.batches("predicting"):
            columns = {target: model.predict_rows(batch.X)}
            if interval is not None:
                columns[f"{target}_low"], columns[f"{target}_high"] = model.interval_rows(batch.X, interval).T
            if proba:
                names = [f"{target}_probability_{label}" for label in model.classes_.tolist()]
                columns |= dict(zip(names, model.estimator_.predict_proba(batch.X).T, strict=True))
            copied = {f"{name}_observed" if name == target else name: batch.cells.column(name) for name in keep}
            if clash := copied.keys() & columns.keys():
                problem = f"`keep` has the column {min(clash)!r}, which is also one of the predictions"
                raise ValueError(f"{problem}; omit it.")
            cells = pa.RecordBatch.from_pydict(copied | columns)
            writer = writers[suffix](file, cells.schema) if writer is None else writer
            writer.write_batch(cells)
            n_rows += len(batch.X)
        if writer is None:
            raise ValueError(f"{source.table.path} has no rows to predict.")
        writer.close()
    source.unseen.warn()
    return n_rows
