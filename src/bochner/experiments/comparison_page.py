# SPDX-License-Identifier: BSD-3-Clause
"""The comparison shown: tables in the terminal, and one self-contained page."""

import html
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from bochner.display import STYLES
from bochner.experiments.comparison import MANY_ROWS, Comparison
from bochner.experiments.figures import STYLE, Panel, grid
from bochner.experiments.findings import standard_error
from bochner.experiments.pages import fill, html_table, write_atomically
from bochner.experiments.run import versions
from bochner.experiments.studies import KMEANS_NYSTROEM, LIMIT, NYSTROEM, RECIPES
from bochner.rows import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["terminal_tables", "write_comparison"]

SMALLEST = 1e-9  # errors below are rounding
MARGIN = 1.4  # times the largest and below the lowest value are the ends of an axis
FURTHEST = 100.0  # times below the lowest error, a limit would only stretch the axis
# A marker of its own for every method, so that they are told apart without colours.
MARKS: dict[str, dict[str, Any]] = dict(zip(RECIPES, STYLES, strict=False)) | {
    "refined stein": STYLE["SES, pairs"],
    "matrix": {"color": "#b5446e", "marker": "*", "linestyle": "-"},
    "refined matrix": {"color": "#7b9acc", "marker": "h", "linestyle": "-."},
    NYSTROEM: STYLE[NYSTROEM],
    KMEANS_NYSTROEM: STYLES[4],
}


def terminal_tables(comparison: Comparison) -> list[Table]:
    """A rich table a width, the lowest errors bold."""
    data, study = comparison.data, comparison.study
    tables = []
    for width in study.widths:
        head, lines, bold = comparison.table(width)
        table = Table(
            title=f"{width} columns: kernel error in % on {comparison.n_test:,} held-out rows of {data.name}, "
            f"mean of {len(study.seeds)} seeds ± standard error",
            caption="bold: lowest; times at the median distance",
        )
        table.add_column("length scale", no_wrap=True)
        for title in head[1:]:
            table.add_column(title, justify="right", no_wrap=True)
        for i, (method, *cells) in enumerate(lines):
            marked = [Text(cell, "bold" if (i, j) in bold else "") for j, cell in enumerate(cells, 1)]
            table.add_row(method, *marked, end_section=i in (len(RECIPES) - 1, len(lines) - 2))
        tables.append(table)
    return tables


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write the comparison as one HTML file with nothing outside itself."""
    study, data = comparison.study, comparison.data
    width = study.widths[-1]
    median = comparison.of("length_scale", NYSTROEM, width).mean()
    answer, *more = comparison.recommendation()
    page = fill(
        "comparison.html",
        f"features compared on {data.name}",
        name=html.escape(data.name),
        shape=f"{comparison.n_train:,} rows to fit on, {comparison.n_test:,} held-out rows, {data.X_train.shape[1]} "
        f"numbers a row",
        median=f"{median:.3g}",
        answer=html.escape(answer),
        more=html.escape(" ".join(more)),
        figures=grid({"comparison": _panels(comparison)}),
        most=f"{study.n_rows:,}",
        target=TOLD[data.task],
        tables="\n".join(html_table(*comparison.table(width)) for width in study.widths),
        width=str(width),
        methods="\n".join(f"<li><b>{name}</b>: {html.escape(what)}</li>" for name, what in _methods(width).items()),
        seeds=", ".join(str(seed) for seed in study.seeds),
        versions=html.escape(versions()),
    )
    write_atomically(path, page)


TOLD = {
    None: "",
    "regression": "The test error is that of a ridge regression on the columns, in % of the error of the mean, at the "
    "median distance.",
    "classification": "The test error is the share of wrong labels, in %, of a linear support vector machine on the "
    "columns, at the median distance.",
}


def _methods(width: int) -> dict[str, str]:
    """What the methods are."""
    return {method: recipe.call(width) for method, recipe in RECIPES.items()} | {
        NYSTROEM: f"scikit-learn's, on {width} rows drawn at random",
        KMEANS_NYSTROEM: f"the same on the centres of {width} clusters of the rows; the more rows, the longer its fit",
    }


def _panels(comparison: Comparison) -> list[Panel]:
    """A panel of errors for every length scale, and one of errors against time."""
    factors = comparison.study.factors
    titles = [f"length scale {factor:g} x the median distance" for factor in factors]
    dots = [Panel(title, partial(_dots, comparison, factor)) for title, factor in zip(titles, factors, strict=True)]
    return [*dots, Panel("error against time at the median distance", partial(_times, comparison))]


def _dots(comparison: Comparison, factor: float, ax: "Axes") -> None:
    """Error of every method and of the limit, a line each, with a marker of its own for every width."""
    methods, widths = [*comparison.study.methods, LIMIT], comparison.study.widths
    means = _errors(comparison, methods, factor)
    lowest = max(means.min(), means[:-1].min() / FURTHEST)
    ax.set(xscale="log", xlim=(lowest / MARGIN, means.max() * MARGIN), xlabel="relative kernel error")
    for column, (width, style) in enumerate(zip(widths, STYLES, strict=False)):
        bars = [float(standard_error(comparison.of("error", method, width, factor))) for method in methods]
        plain = {"color": style["color"], "marker": style["marker"], "linestyle": "none", "markersize": 5}
        ax.errorbar(means[:, column], range(len(methods)), xerr=bars, label=f"{width} columns", **plain)
        ax.axvline(means[-1, column], color=style["color"], linestyle="--", linewidth=1.0)
    ax.set_yticks(range(len(methods)), labels=methods, fontsize=9)
    ax.invert_yaxis()
    _label_percent(ax.xaxis)
    ax.grid(alpha=0.3)


def _times(comparison: Comparison, ax: "Axes") -> None:
    """Error against the time of many rows; a line joins the widths of a method."""
    methods, widths = comparison.study.methods, comparison.study.widths
    seconds = np.array([[comparison.seconds(method, width) for width in widths] for method in methods])
    errors = _errors(comparison, methods, 1.0)
    ax.set(xscale="log", xlim=(seconds.min() / MARGIN, seconds.max() * MARGIN))
    ax.set(yscale="log", ylim=(errors.min() / MARGIN, errors.max() * MARGIN), ylabel="relative kernel error")
    for method, x, y in zip(methods, seconds, errors, strict=True):
        ax.plot(x, y, label=method, markersize=6, **MARKS[method])
    fitted = f"seconds: fit on {comparison.n_train:,} rows + transform of {MANY_ROWS:,}"
    ax.set_xlabel(f"{fitted}\n(extrapolated from the time a row)")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    _label_percent(ax.yaxis)
    ax.grid(alpha=0.3)


def _errors(comparison: Comparison, methods: list[str], factor: float) -> Floats:
    """Mean errors (n_methods, n_widths) that a logarithmic axis can show."""
    widths = comparison.study.widths
    means = [[comparison.error(method, width, factor) for width in widths] for method in methods]
    return np.maximum(SMALLEST, means)


def _label_percent(axis: "Axis") -> None:
    """Ticks at 1, 2 and 5 of each decade, at 1 alone where there are many, in percent."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 200.0 * low else (1.0,), numticks=5))
    axis.set_tick_params(labelsize=9)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{100.0 * value:g} %")
