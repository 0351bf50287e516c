# SPDX-License-Identifier: BSD-3-Clause
"""The page of a fitted model: its cross-validated score, the relevances of the columns and the learned metric."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bochner.display import MetricDisplay, RelevanceDisplay
from bochner.experiments.figures import new_figure, subplots, svg
from bochner.experiments.pages import Table, paragraph, picture_grid, render, write_atomically
from bochner.experiments.run import versions

__all__ = ["format_values", "is_diagonal", "relevances", "write_model_page"]

MOST_BARS = 25
LEARNED = "The model has one length scale per column, learned from the target. "
LEARNED_METRIC = (
    "The model has a metric, learned from the target: a linear map of all columns, in which the distance of two rows "
    "is measured. The directions along which distances grow fastest are combinations of columns, shown below. The "
    "length scale of a column is the change of this column alone that moves a row by a distance of 1. "
)
KEPT_LENGTH_SCALES = (
    "No metric was better on held-out rows than one length scale per column, so that the model has learned length "
    "scales. "
)
RELEVANCE = (
    "The relevance of a column is its share of the inverse length scales: with a short length scale, small changes of "
    "the column matter. A column with a linear effect needs a long length scale, so that a column of low relevance can "
    "matter as well. All this was learned from a sample of the rows that are also used for cross-validation, which "
    "makes the cross-validated score slightly optimistic."
)
KEPT = (
    "No learned length scales were better on held-out rows than the initial ones, so that all columns keep their "
    "initial length scale."
)
GIVEN = (
    "All columns share one length scale; `bochner fit --learn` learns one length scale per column from the target, and "
    "`--learn-matrix` a linear map of all columns."
)


def relevances(model: Any) -> dict[str, float]:
    """Return the relevances of the columns of a fitted `FittedModel`, the largest first.

    A name that occurs more than once gets the number of its column.
    """
    names, values = model.encoding.names, model.estimator.features_.relevance_.tolist()
    repeated = {name for name in names if names.count(name) > 1}
    unique = [f"{name} (column {j})" if name in repeated else name for j, name in enumerate(names)]
    return dict(sorted(zip(unique, values, strict=True), key=lambda item: -item[1]))


def format_values(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a report as text, without those of single columns."""
    return {
        name.replace("_", " "): f"{value:.4g}" if isinstance(value, float) else str(value)
        for name, value in report.items()
        if not isinstance(value, Mapping)
    }


def write_model_page(
    model: Any, report: Mapping[str, Any], path: Path, *, learned: Literal["learn", "learn-matrix"] | None
) -> None:
    """Write one self-contained HTML file about a fitted `FittedModel`."""
    shares = relevances(model)
    improved = learned is not None and report.get("learning_gain", 0.0) > 0.0
    measure = next(name for name in report if name.startswith("cross_validated"))
    kind = "accuracy" if measure.endswith("accuracy") else "R²"
    numbers = Table(["quantity", "value"], list(format_values(report).items())).html()
    if improved:
        columns = _learned_columns(model, has_metric=learned == "learn-matrix")
        lines = [(name, f"{100 * share:.3g} %") for name, share in shares.items()]
        numbers += Table(["column", "relevance"], lines).html()
    else:
        columns = paragraph(GIVEN if learned is None else KEPT)
    page = render(
        title=f"A model of {model.target}",
        lead=f"{model.task.capitalize()}, trained on {model.n_rows:,} rows with {len(shares)} columns.",
        sections={"Which columns matter": columns, "All numbers": numbers},
        footer=f"{versions()}.",
        answer=f"The cross-validated {kind} is {report[measure]:.3f}.",
        more=f"The most relevant columns are {', '.join(list(shares)[:3])}." if improved else "",
    )
    write_atomically(path, page)


def _learned_columns(model: Any, *, has_metric: bool) -> str:
    """Return a text and plots about what was learned."""
    if not has_metric:
        return paragraph(LEARNED + RELEVANCE) + _bars(model)
    if is_diagonal(model.estimator.features_.metric_):
        return paragraph(KEPT_LENGTH_SCALES + RELEVANCE) + _bars(model)
    return paragraph(LEARNED_METRIC + RELEVANCE) + _directions(model) + _bars(model)


def is_diagonal(metric: Any) -> bool:
    """Return whether a map of columns is diagonal: the learned length scales, because no metric was better."""
    rows, columns = metric.nonzero()
    return metric.shape[0] == metric.shape[1] and bool(np.array_equal(rows, columns))


def _bars(model: Any) -> str:
    n_bars = min(len(model.encoding.names), MOST_BARS)
    figure, axes = subplots(1, 1, (8.0, 1.2 + 0.24 * n_bars))
    RelevanceDisplay.from_estimator(model.estimator, names=model.encoding.names, n_columns=n_bars, ax=axes[0, 0])
    title = "Relevances of the columns"
    return picture_grid({title: svg(figure, title)})


def _directions(model: Any) -> str:
    figure = new_figure((9.0, max(3.2, 1.4 + 0.24 * min(len(model.encoding.names), MOST_BARS))))
    MetricDisplay.from_estimator(model.estimator, names=model.encoding.names, n_columns=MOST_BARS, figure=figure)
    title = "Eigenvalues and leading directions of the metric"
    return picture_grid({title: svg(figure, title)})
