# SPDX-License-Identifier: BSD-3-Clause
"""The page of a fitted model: errors on held-out rows, importance and effects of columns, what was done with them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bochner.features.kernel_features import KernelFeatures
from bochner.inspection.displays import ImportanceDisplay
from bochner.inspection.kernel_error import KernelError
from bochner.pages import (
    Table,
    code,
    paragraph,
    picture_grid,
    render,
    subplots,
    svg,
    versions,
    write_atomically,
)
from bochner.table_models.diagnostics import MOST_COLUMNS, STRONGEST, Diagnostics
from bochner.table_models.model_figures import (
    curve_figures,
    dependence_figures,
    error_figures,
    importance_figures,
)
from bochner.tables.columns import Column

__all__ = ["column_lines", "format_values", "is_diagonal", "write_model_page"]

REFIT = (
    "The predictions are those of the same settings, fitted on the other rows of the sample. The model in the file was "
    "fitted on all rows, so that it is slightly better."
)
NEW_ROWS = "The model has not seen these rows, unless they were among its training rows."
CURVES = (
    "The first curve shows whether more rows would help, the second one whether more features would: they would where "
    "a curve still falls at its end. Kernel and length scales are the same at all points, and the penalty is chosen "
    "again."
)
GRADIENTS = (
    "Importance from gradients is the root of the mean squared gradient of the model times the variance of the column: "
    "how much predictions typically change if this column alone changes as it does from row to row. Linear effects "
    "count as well as curved ones. "
)
SHUFFLED = (
    "Importance from shuffled cells is measured on held-out rows: how much the error grows if the cells of the column "
    "are shuffled, with the standard deviation of five repetitions. If two columns are nearly equal, shuffling one of "
    "them costs little, although the model uses both."
)
NOT_LEARNED = (
    "On held-out rows the predictions are not related to the target by more than chance explains. A ranking of the "
    "columns would show noise, so there is none."
)
NOT_HELD_OUT = "There are no held-out rows with the target, so that it is not known whether the model predicts well."
DEPENDENCE = (
    "Each line is the mean prediction if the column had this value in all rows. The band has 80 % of the rows, each "
    "shifted to the same mean: where it is wide, the effect of the column depends on other columns. The ticks on the "
    "axis are the deciles of the column, and all plots have the same vertical axis."
)
RIDGE_PROBABILITY = (
    "A ridge classifier has scores s and not probabilities; (1 + s) / 2, between 0 and 1, is shown instead. "
    "bochner fit --head logistic fits a model with probabilities."
)
SVM_SCORE = (
    "A support vector machine has scores and not probabilities; bochner fit --head logistic fits a model with "
    "probabilities."
)
LEARNED = "The model has one length scale per column, learned from the target. "
LEARNED_METRIC = (
    "The model has a metric, learned from the target: a linear map of all columns, in which the distance of two rows "
    "is measured. The length scale of a column is the change of this column alone that moves a row by a distance of 1. "
)
KEPT_LENGTH_SCALES = (
    "No metric was better on held-out rows than one length scale per column, so that the model has learned length "
    "scales. "
)
RELEVANCE = (
    "The bars are the shares of the inverse length scales. They show how quickly the target varies along a column, and "
    "not how much the column matters: a linear effect needs only a long length scale."
)
KEPT = (
    "No learned length scales were better on held-out rows than the initial ones, so that all columns keep their "
    "initial length scale."
)


def format_values(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the single values of a report as text, with units.

    Examples
    --------
    >>> from bochner.table_models.model_page import format_values
    >>> format_values({"rows": 1600, "cross_validated_r2": 0.91234, "kernel_error": 0.006185})
    {'rows': '1600', 'cross validated r2': '0.9123', 'kernel error': '0.619 % of the exact kernel matrix'}
    """
    lines = {}
    for name, value in report.items():
        if isinstance(value, Mapping | list):
            continue
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        if name == "kernel_error":
            text = f"{100 * value:.3g} % of the exact kernel matrix"
            low, high = report.get("kernel_error_low", value), report.get("kernel_error_high", value)
            if not KernelError(value, low, high).is_exact:
                text += f" (95 % interval {100 * low:.3g} % to {100 * high:.3g} %)"
        if name not in ("kernel_error_low", "kernel_error_high"):
            lines[name.replace("_", " ")] = text
    return lines


def write_model_page(
    diagnostics: Diagnostics,
    report: Mapping[str, Any],
    path: Path,
    *,
    columns: Sequence[Sequence[str]],
    model_file: str = "model.skops",
) -> None:
    """Write one self-contained HTML file about a fitted model.

    Parameters
    ----------
    diagnostics : Diagnostics
        What is known about the model.
    report : mapping from str to object
        Numbers for a table.
    path : path
        The file.
    columns : sequence of sequences of str
        Name, kind and treatment of each column of the table.
    model_file : str, default="model.skops"
        The name of the model file, for the lines that load it.
    """
    model = diagnostics.model
    used = len(model.encoding.columns)
    page = render(
        title=f"A model of {model.target}",
        lead=f"{model.task.capitalize()}, trained on {model.n_rows:,} rows with {used:,} columns.",
        sections=_sections(diagnostics, report, columns, model_file),
        footer=f"{versions()}.",
        answer=_answer(diagnostics),
        more=_strongest(diagnostics),
    )
    write_atomically(path, page)


def column_lines(columns: Sequence[Column]) -> list[tuple[str, str, str]]:
    """Return name, kind and treatment of the columns that a model uses, as far as the model knows them.

    Parameters
    ----------
    columns : sequence of Column
        The columns.
    """
    return [(column.name, column.kind, _treatment(column)) for column in columns]


def _treatment(column: Column) -> str:
    if column.kind == "category":
        parts = [f"one-hot encoded: {len(column.categories)} categories"]
        parts += ["all others are one category"] * column.other + ["missing is a category"] * column.missing
        return ", ".join(parts)
    parts = ["linear trend in days"] if column.kind == "date" else []
    parts += ["standardized"] if column.kind in ("number", "boolean", "duration") else []
    parts += [f"sine and cosine of the {cycle}" for cycle in column.cycles]
    parts += ["missing: the median and an indicator" if column.missing else "missing: the median"] * column.gaps
    return ", ".join(parts)


def _sections(
    diagnostics: Diagnostics, report: Mapping[str, Any], columns: Sequence[Sequence[str]], model_file: str
) -> dict[str, str]:
    """Return the sections of the page; those without content are left out."""
    trials = getattr(diagnostics.model, "trials", None)
    sections = {
        "Predictions": _predictions(diagnostics),
        "Which columns matter": _importance(diagnostics),
        "What the columns do": _dependence(diagnostics),
        "More rows, more features": _curves(diagnostics),
        "What was tried": _trials(trials) if trials else "",
        "What was learned": _learned(diagnostics.model, report),
        "What was done with the columns": Table(["column", "taken for", "what was done"], columns).html("words"),
        "How to use the model": _usage(diagnostics.model, model_file),
        "All numbers": Table(["quantity", "value"], list(format_values(report).items())).html("words"),
    }
    return {title: body for title, body in sections.items() if body}


def _answer(diagnostics: Diagnostics) -> str:
    """Return how good the model is, in one sentence."""
    held_out, measures = diagnostics.held_out, diagnostics.measures
    if held_out is None:
        return "It is not known how well this model predicts rows that it has not seen."
    plain = held_out.constant.error
    if diagnostics.model.task == "classification":
        right = 100 * (1.0 - measures["error_rate"])
        return (
            f"The class of {right:.1f} % of new rows is predicted correctly; the most frequent class is that of "
            f"{100 * (1.0 - plain):.1f} %."
        )
    return (
        f"On new rows R² is {measures['r2']:.3f}: the typical error (RMSE) is {measures['rmse']:.4g}, and "
        f"{plain:.4g} if the mean is always predicted."
    )


def _strongest(diagnostics: Diagnostics) -> str:
    """Return which columns matter most, where something was learned."""
    if diagnostics.has_learned is False:
        return "It has learned nothing that predicts new rows."
    if diagnostics.has_learned is None:
        return ""
    names = diagnostics.importance.ranking[:3]
    return f"The columns that matter most are {', '.join(names)}." if len(names) > 1 else ""


def _predictions(diagnostics: Diagnostics) -> str:
    held_out = diagnostics.held_out
    if held_out is None:
        return paragraph(NOT_HELD_OUT)
    is_refitted = held_out.estimator is not held_out.model.estimator
    text = f"The plots show {diagnostics.origin}. {REFIT if is_refitted else NEW_ROWS}"
    notes = ""
    if held_out.model.task == "classification":
        notes = {"squared_error": RIDGE_PROBABILITY, "squared_hinge": SVM_SCORE}.get(held_out.estimator.loss, "")
    return paragraph(text) + picture_grid(error_figures(held_out)) + paragraph(notes)


def _importance(diagnostics: Diagnostics) -> str:
    if diagnostics.has_learned is False:
        return paragraph(NOT_LEARNED)
    text = GRADIENTS + (SHUFFLED if diagnostics.permutation is not None else NOT_HELD_OUT)
    n_all = len(diagnostics.importance.names)
    more = f" Shown are the {MOST_COLUMNS} most important of {n_all:,} columns." if n_all > MOST_COLUMNS else ""
    return paragraph(text + more) + picture_grid(importance_figures(diagnostics))


def _dependence(diagnostics: Diagnostics) -> str:
    if not diagnostics.dependence:
        return ""
    part = diagnostics.dependence[0]
    unit = {"prediction": "mean prediction", "probability": "mean probability", "score": "mean score"}[part.response]
    if diagnostics.model.task == "classification" and len(part.outputs) == 1:
        unit += f" of {part.outputs[0]}"
    n_all = len(diagnostics.importance.names)
    most = f" Shown are the {STRONGEST} strongest of {n_all:,} columns." if n_all > STRONGEST else ""
    return paragraph(DEPENDENCE + most) + picture_grid(dependence_figures(diagnostics.dependence, unit))


def _curves(diagnostics: Diagnostics) -> str:
    figures = curve_figures(diagnostics)
    return paragraph(CURVES) + picture_grid(figures) if figures else ""


def _trials(trials: Sequence[Any]) -> str:
    """Return a table of what was tried before the model was chosen, one line per trial, the chosen one in bold."""
    records = [dict(trial) if isinstance(trial, Mapping) else trial.summary() for trial in trials]
    chosen = [number for number, record in enumerate(records) if record.pop("chosen", False)]
    cells = [
        [f"{value:.4g}" if isinstance(value, float) else str(value) for value in record.values()] for record in records
    ]
    bold = frozenset((number, column) for number in chosen for column in range(len(records[0])))
    return Table([name.replace("_", " ") for name in records[0]], cells, bold=bold).html()


def _usage(model: Any, model_file: str) -> str:
    lines = f"from bochner import TableModel\nmodel = TableModel.load({model_file!r})\nmodel.predict('new.csv')"
    python = f"In Python, for a table with the same columns, with or without {model.target}:"
    shell = "On the command line, with the contributions of the columns to each prediction:"
    command = f"bochner predict {model_file} new.csv --explain"
    return paragraph(python) + code(lines) + paragraph(shell) + code(command)


def _learned(model: Any, report: Mapping[str, Any]) -> str:
    """Return what was learned of length scales or of a metric, if that was asked for."""
    features = model.estimator.features_
    if "learning_gain" not in report or not isinstance(features, KernelFeatures):
        return ""
    if not report["learning_gain"] > 0.0:
        return paragraph(KEPT)
    metric = getattr(features, "metric_", None)
    if metric is None:
        return paragraph(LEARNED + RELEVANCE) + _bars(model)
    if is_diagonal(metric):
        return paragraph(KEPT_LENGTH_SCALES + RELEVANCE) + _bars(model)
    return paragraph(LEARNED_METRIC + RELEVANCE) + _bars(model)


def is_diagonal(metric: Any) -> bool:
    """Return whether a map of columns is diagonal: the learned length scales, because no metric was better."""
    rows, columns = metric.nonzero()
    return metric.shape[0] == metric.shape[1] and bool(np.array_equal(rows, columns))


def _bars(model: Any) -> str:
    n_bars = min(len(model.encoding.names), MOST_COLUMNS)
    figure, axes = subplots(1, 1, (6.4, 1.2 + 0.24 * n_bars))
    ImportanceDisplay.from_estimator(model.estimator, names=model.encoding.names, n_columns=n_bars, ax=axes[0, 0])
    title = "Inverse length scales of the columns"
    return picture_grid({title: svg(figure, title)})
