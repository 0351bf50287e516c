# SPDX-License-Identifier: BSD-3-Clause
"""The page of a fitted model: how good it is by cross-validation, and which columns matter to it."""

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bochner.display import RelevanceDisplay
from bochner.experiments.figures import subplots, svg
from bochner.experiments.pages import fill, html_table, write_atomically
from bochner.experiments.run import versions

__all__ = ["figures", "relevances", "write_model_page"]

MOST_BARS = 25
LEARNED = (
    "Distances have a length scale a column, learned from the target. A column's relevance is its share of one over "
    "the length scale: a short length scale means that small changes matter. What depends on a column in a straight "
    "line needs a long one, so a column of low relevance can matter, too. The length scales were learned from a sample "
    "of the rows that the cross-validation judges by, which makes that a little optimistic."
)
KEPT = (
    "Length scales were to be learned from the target, and on rows held out nothing was better than what learning "
    "starts from: the columns keep their proportions."
)
GIVEN = "All columns share one length scale; <code>bochner fit --learn</code> learns one a column from the target."


def relevances(model: Any) -> dict[str, float]:
    """Relevances of the columns of a fitted `TableModel`, the largest first; a name that repeats has its number."""
    names, found = model.encoding.names, model.head.features_.relevance_.tolist()
    repeated = {name for name in names if names.count(name) > 1}
    unique = [f"{name} (column {j})" if name in repeated else name for j, name in enumerate(names)]
    return dict(sorted(zip(unique, found, strict=True), key=lambda item: -item[1]))


def figures(report: Mapping[str, Any]) -> dict[str, str]:
    """The figures of a report in words, without those of single columns."""
    return {
        name.replace("_", " "): f"{value:.4g}" if isinstance(value, float) else str(value)
        for name, value in report.items()
        if not isinstance(value, Mapping)
    }


def write_model_page(model: Any, report: Mapping[str, Any], path: Path, *, learned: bool) -> None:
    """Write one HTML file about a fitted `TableModel`, with nothing outside itself."""
    shares = relevances(model)
    differ = report.get("learning_gain", 0.0) > 0.0
    measure = next(name for name in report if name.startswith("cross_validated"))
    kind = "accuracy" if measure.endswith("accuracy") else "R<sup>2</sup>"
    answer = f"By cross-validation its {kind} is {report[measure]:.3f}."
    if learned and differ:
        first = ", ".join(html.escape(name) for name in list(shares)[:3])
        answer += f" The most relevant columns are {first}."
    page = fill(
        "model.html",
        f"a model of {model.target}",
        target=html.escape(model.target),
        lead=f"{model.task.capitalize()}, trained on {model.n_rows:,} rows of {len(shares)} columns.",
        answer=answer,
        explanation=(LEARNED if differ else KEPT) if learned else GIVEN,
        figure=_bars(model, len(shares)) if learned and differ else "",
        report=html_table(["figure", "value"], [list(line) for line in figures(report).items()]),
        relevances=_all_relevances(shares) if learned and differ else "",
        versions=html.escape(versions()),
    )
    write_atomically(path, page)


def _bars(model: Any, n_columns: int) -> str:
    shown = min(n_columns, MOST_BARS)
    figure, axes = subplots(1, 1, (8.0, 1.2 + 0.24 * shown))
    RelevanceDisplay.from_estimator(model.head, names=model.encoding.names, n_columns=shown, ax=axes[0, 0])
    return svg(figure, "Relevances of the columns")


def _all_relevances(shares: Mapping[str, float]) -> str:
    lines = [[name, f"{100 * share:.3g} %"] for name, share in shares.items()]
    return f"<h2>Relevances</h2>\n{html_table(['column', 'relevance'], lines)}"
