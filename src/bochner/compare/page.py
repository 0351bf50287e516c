# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison says: a recommendation, a table for the terminal, and a page with figures."""

from collections.abc import Callable
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from bochner.compare.comparison import LIMIT, MANY_ROWS, Comparison, standard_error
from bochner.compare.methods import METHODS
from bochner.inspection.displays import STYLES, percent_axis
from bochner.pages import Table, bullets, paragraph, picture_grid, render, subplots, svg, versions
from bochner.rows import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["comparison_page", "comparison_table", "percent", "recommend", "recommendation"]

AS_LOW = 1.1  # a kernel error of up to this many times the lowest counts as the lowest
AS_GOOD = 1.01  # likewise for a test error
SMALLEST = 1e-9  # smaller errors are rounding, and zero has no place on a logarithmic axis
FURTHEST = 100.0  # a limit this many times below the lowest error would only stretch the axis
# Markers differ, so that a print without color can be read; the color is that of the kind of features.
COLORS, MARKERS = ("#1f6fb4",) * 4 + ("#d9601a",) * 2 + ("#5f5f5f",) * 2, "ov^*hXsD"
LEAD = "Features that approximate the Gaussian kernel, compared at equal numbers of columns."
PROTOCOL = (
    "The kernel error is the relative Frobenius error of the Gaussian kernel matrix of held-out rows; the lowest is "
    "bold. Bars are one standard error, and dashed lines are the SVD limit: the lowest error of any matrix of that "
    "rank, which is not a method, because it cannot transform other rows. The recommended method is the fastest of "
    "those whose kernel error is within 10 % of the lowest at the largest number of columns; with a target, of those "
    "whose test error is also within 1 % or one standard error of the lowest. Times are medians over the seeds, "
    "measured one fit at a time on the machine that wrote this page."
)
TEST_ERRORS = {
    "regression": " The test error is that of ridge regression on the features, in % of the error of the mean.",
    "classification": " The test error is the share of rows that a ridge classifier on the features misclassifies.",
}


def percent(values: Floats) -> str:
    """Return the mean and the standard error of errors (n_seeds,) in %, with the digits for a table."""
    mean, error = 100.0 * float(values.mean()), 100.0 * float(standard_error(values))
    digits = ".1e" if 0.0 < mean < 0.01 else ".3f" if mean < 1.0 else ".2f"
    return f"{mean:{digits}}" + (f" ± {error:{digits}}" if len(values) > 1 else "")


def recommend(comparison: Comparison) -> str:
    """Return the fastest of the methods whose kernel error is within 10 % of the lowest.

    A wider margin would give up what a slower method gains; no margin would follow the noise of a few seeds. If there
    is a target, only methods whose test error is within the noise of the lowest are considered.
    """
    size, errors = comparison.sizes[-1], _means(comparison, "kernel_error")
    if comparison.task:
        values = {method: comparison.values("test_error", method, size) for method in METHODS}
        best = min(values.values(), key=lambda errors: float(errors.mean()))
        noise = {method: standard_error(values[method] - best) for method in METHODS}
        most = {method: max(AS_GOOD * best.mean(), best.mean() + noise[method]) for method in METHODS}
        errors = {method: errors[method] for method in METHODS if values[method].mean() <= most[method]}
    highest = max(AS_LOW * min(errors.values()), SMALLEST)
    # Of methods with the same error, only the first: the others do more work for the same features.
    low = {round(error, 12): method for method, error in reversed(errors.items()) if error <= highest}
    return min(low.values(), key=lambda method: comparison.seconds(method, size))


def recommendation(comparison: Comparison) -> list[str]:
    """Return sentences on the recommended method, the best one of the other kind, and the lowest errors."""
    chosen, size, errors = recommend(comparison), comparison.sizes[-1], _means(comparison, "kernel_error")
    rival = min((m for m in METHODS if ("Nystroem" in m) != ("Nystroem" in chosen)), key=errors.__getitem__)
    best = min(errors, key=errors.__getitem__)
    times = {method: _duration(comparison.seconds(method, size)) for method in METHODS}
    sentences = [
        f"Use {comparison.finished(chosen, size)[0].call}: {_share(errors[chosen])} error at {size} columns, compared "
        f"with {_share(errors[rival])} for {rival}. Fitting on {comparison.n_train:,} rows and transforming "
        f"{MANY_ROWS:,} rows takes about {times[chosen]}, and {times[rival]} with {rival}."
    ]
    if best not in (chosen, rival) and _share(errors[best]) != _share(errors[chosen]):
        sentences.append(f"The lowest error is that of {best}: {_share(errors[best])} in {times[best]}.")
    if comparison.task:
        test_errors = _means(comparison, "test_error")
        lowest = min(test_errors, key=test_errors.__getitem__)
        start = f"Ridge regression on these features has a test error of {_share(test_errors[chosen])}"
        rest = f"within the noise of the lowest, {_share(test_errors[lowest])} with {lowest}."
        sentences.append(f"{start}, " + ("the lowest of all methods." if lowest == chosen else rest))
    return sentences


def comparison_table(comparison: Comparison, name: str) -> Table:
    """Return the errors of all methods so far, and the times at the largest number of columns."""
    size = comparison.sizes[-1]
    columns = {f"{of} columns": ("kernel_error", of) for of in comparison.sizes}
    columns |= {"test error": ("test_error", size)} if comparison.task else {}
    values = [[comparison.values(field, method, of) for field, of in columns.values()] for method in (*METHODS, LIMIT)]
    lines = []
    for method, cells in zip((*METHODS, LIMIT), values, strict=True):
        times = [comparison.values(field, method, size) for field in ("fit_seconds", "transform_seconds")]
        texts = [percent(cell) if np.isfinite(cell).any() else "" for cell in cells]
        lines.append([method, *texts, *(f"{np.median(x):.3f}" if np.isfinite(x).any() else "" for x in times)])
    means = [[float(cell.mean()) if len(cell) else np.inf for cell in cells] for cells in values[: len(METHODS)]]
    bold = {(int(line), column) for column, line in enumerate(np.argmin(means, axis=0), 1)}
    seeds = f"mean of {comparison.n_seeds} seeds ± standard error" if comparison.n_seeds > 1 else "one seed"
    return Table(
        ["method", *columns, "fit, s", f"{MANY_ROWS:,} rows, s"],
        lines,
        f"Kernel error in % on {comparison.n_test:,} held-out rows of {name}, {seeds}",
        frozenset(bold),
        frozenset({len(METHODS) - 3, len(METHODS) - 1}),
    )


def comparison_page(comparison: Comparison, name: str, command: str) -> str:
    """Return the page of a finished comparison."""
    answer, *more = recommendation(comparison)
    table = comparison_table(comparison, name).html()
    draws = {"Kernel errors": _draw_errors, "Error against time": _draw_times}
    pictures = {title: _picture(comparison, title, draw) for title, draw in draws.items()}
    calls = [(method, "", comparison.finished(method, comparison.sizes[-1])[0].call) for method in METHODS]
    text = PROTOCOL + TEST_ERRORS.get(comparison.task or "", "")
    n_rows, n_columns = comparison.X.shape
    data = (
        f"{n_rows:,} rows with {n_columns:,} columns. Each of {comparison.n_seeds} seeds draws {comparison.n_train:,} "
        f"training rows and {comparison.n_test:,} held-out rows. The length scale is {comparison.length_scale:g}."
    )
    sections = {
        "Errors and times": picture_grid(pictures) + table + paragraph(text, "lead"),
        "Methods": paragraph(f"The calls for {comparison.sizes[-1]} columns:") + bullets(calls),
        "Data": paragraph(data),
    }
    title, footer = f"Which features to use on {name}?", f"Written by: {command}. {versions()}."
    return render(title, LEAD, sections, footer, answer=answer, more=" ".join(more))


def _means(comparison: Comparison, field: str) -> dict[str, float]:
    """Return the mean over the seeds of a field of each method, at the largest number of columns."""
    return {method: float(comparison.values(field, method, comparison.sizes[-1]).mean()) for method in METHODS}


def _share(value: float) -> str:
    return f"{100.0 * value:.3g} %"


def _duration(seconds: float) -> str:
    if seconds < 10.0:
        return f"{seconds:.2g} s"
    return f"{seconds:.0f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} min"


def _picture(comparison: Comparison, title: str, draw: Callable[[Comparison, "Axes"], None]) -> str:
    """Draw axes with their legend below, readable on a narrow screen."""
    figure, axes = subplots(1, 1, (4.6, 4.2))
    draw(comparison, axes[0, 0])
    axes[0, 0].set_title(title, fontsize=9)
    axes[0, 0].grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return svg(figure, title)


def _draw_errors(comparison: Comparison, ax: "Axes") -> None:
    """Draw one line per method, with one marker per number of columns; the dashed lines are the limits."""
    for size, style in zip(comparison.sizes, cycle(STYLES), strict=False):
        values = [np.maximum(SMALLEST, comparison.values("kernel_error", method, size)) for method in METHODS]
        means, bars = [errors.mean() for errors in values], [standard_error(errors) for errors in values]
        marks = {"color": style["color"], "marker": style["marker"], "linestyle": "none", "markersize": 5}
        ax.errorbar(means, range(len(METHODS)), xerr=bars, label=f"{size} columns", **marks)
        limit = float(comparison.values("kernel_error", LIMIT, size).mean())
        if limit > min(means) / FURTHEST:
            ax.axvline(limit, color=style["color"], linestyle="--", linewidth=1.0)
    ax.set(xscale="log", xlabel="relative kernel error")
    ax.set_yticks(range(len(METHODS)), labels=list(METHODS), fontsize=9)
    ax.invert_yaxis()
    percent_axis(ax.xaxis)


def _draw_times(comparison: Comparison, ax: "Axes") -> None:
    """Draw the error against the time for many rows; a line joins the numbers of columns of a method."""
    for method, color, marker in zip(METHODS, COLORS, MARKERS, strict=True):
        seconds = [comparison.seconds(method, size) for size in comparison.sizes]
        errors = [max(SMALLEST, comparison.values("kernel_error", method, size).mean()) for size in comparison.sizes]
        ax.plot(seconds, errors, label=method, color=color, marker=marker, markersize=6)
    ax.set(xscale="log", yscale="log", ylabel="relative kernel error")
    ax.set_xlabel(f"seconds to fit on {comparison.n_train:,} rows\nand to transform {MANY_ROWS:,} rows")
    ax.margins(0.1)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    percent_axis(ax.yaxis)
