# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison says: a recommendation, a table for the terminal, and a page with figures."""

from math import inf, isfinite, nan
from typing import Any

from bochner.compare.comparison import LIMIT, MANY_ROWS, Comparison
from bochner.compare.methods import METHODS
from bochner.inspection.displays import percent_axis
from bochner.pages import Table, bullets, paragraph, picture_grid, render, subplots, svg, versions

__all__ = ["comparison_page", "comparison_table", "recommend", "recommendation"]

AS_LOW = 1.1  # a kernel error of up to this many times the lowest counts as the lowest
AS_GOOD = 1.01  # likewise for a test error
SMALLEST = 1e-9  # smaller errors are rounding, and zero has no place on a logarithmic axis
FURTHEST = 100.0  # a limit this many times below the lowest error would only stretch the axis
# Markers differ, so that a print without color can be read; the color is that of the kind of features.
COLORS, MARKERS = ("#1f6fb4",) * 4 + ("#d9601a",) * 2 + ("#5f5f5f",) * 2, "ov^*hXsD"
LEAD = "Features that approximate the Gaussian kernel, compared at equal numbers of columns."
PROTOCOL = (
    "The kernel error is the relative Frobenius error of the Gaussian kernel matrix of held-out rows; the lowest is "
    "bold. Dashed lines are the SVD limit: the lowest error of any matrix of that rank, which is not a method, because "
    "it cannot transform other rows. The recommended method is the fastest of those whose kernel error is within 10 % "
    "of the lowest at the largest number of columns; with a target, of those whose test error is also within 1 % or "
    "one standard error of the lowest. Times are medians over the seeds, "
    "measured one fit at a time on the machine that wrote this page."
)
TEST_ERRORS = {
    "regression": " The test error is that of ridge regression on the features, in % of the error of the mean.",
    "classification": " The test error is the share of rows that a ridge classifier on the features misclassifies.",
}


def recommend(comparison: Comparison) -> str:
    """Return the fastest of the methods whose kernel error is within 10 % of the lowest.

    A wider margin would give up what a slower method gains; no margin would follow the noise of a few seeds. If there
    is a target, only methods whose test error is within the noise of the lowest are considered.
    """
    lines = _largest(comparison)
    if comparison.task:
        best = min(lines.values(), key=lambda line: float(line["test_error"]))
        most = max(AS_GOOD * best["test_error"], best["test_error"] + best["test_error_se"])
        lines = {method: line for method, line in lines.items() if line["test_error"] <= most}
    highest = max(AS_LOW * min(line["kernel_error"] for line in lines.values()), SMALLEST)
    # Of methods with the same error, only the first: the others do more work for the same features.
    low = {round(line["kernel_error"], 12): name for name, line in reversed(lines.items())}
    return min((low[error] for error in low if error <= highest), key=lambda method: _seconds(lines[method]))


def recommendation(comparison: Comparison) -> list[str]:
    """Return sentences on the recommended method, the best one of the other kind, and the lowest errors."""
    chosen, lines = recommend(comparison), _largest(comparison)
    errors = {method: line["kernel_error"] for method, line in lines.items()}
    rival = min((m for m in METHODS if ("Nystroem" in m) != ("Nystroem" in chosen)), key=errors.__getitem__)
    best = min(errors, key=errors.__getitem__)
    times = {method: _duration(_seconds(line)) for method, line in lines.items()}
    sentences = [
        f"Use {lines[chosen]['call']}: {_share(errors[chosen])} error at {comparison.sizes[-1]} columns, compared with "
        f"{_share(errors[rival])} for {rival}. Fitting on {comparison.n_train:,} rows and transforming {MANY_ROWS:,} "
        f"rows takes about {times[chosen]}, and {times[rival]} with {rival}."
    ]
    if best not in (chosen, rival) and _share(errors[best]) != _share(errors[chosen]):
        sentences.append(f"The lowest error is that of {best}: {_share(errors[best])} in {times[best]}.")
    if comparison.task:
        test_errors = {method: line["test_error"] for method, line in lines.items()}
        lowest = min(test_errors, key=test_errors.__getitem__)
        start = f"Ridge regression on these features has a test error of {_share(test_errors[chosen])}"
        rest = f"within the noise of the lowest, {_share(test_errors[lowest])} with {lowest}."
        sentences.append(f"{start}, " + ("the lowest of all methods." if lowest == chosen else rest))
    return sentences


def comparison_table(comparison: Comparison, name: str) -> Table:
    """Return the errors of all methods so far, and the times at the largest number of columns."""
    results, size = comparison.results(), comparison.sizes[-1]
    columns = {f"{of} columns": (of, "kernel_error") for of in comparison.sizes}
    columns |= {"test error": (size, "test_error")} if comparison.task else {}
    lines = []
    for method in (*METHODS, LIMIT):
        cells = [_percent(results.get((of, method), {}), field) for of, field in columns.values()]
        times = [results.get((size, method), {}).get(field, nan) for field in ("fit_seconds", "transform_seconds")]
        lines.append([method, *cells, *(f"{seconds:.3f}" if isfinite(seconds) else "" for seconds in times)])
    bold = set()
    for column, (of, field) in enumerate(columns.values(), 1):
        found = [results.get((of, method), {}).get(field, inf) for method in METHODS]
        bold.add((found.index(min(found)), column))
    seeds = f"mean of {comparison.n_seeds} seeds ± standard error" if comparison.n_seeds > 1 else "one seed"
    title = f"Kernel error in % on {comparison.n_test:,} held-out rows of {name}, {seeds}"
    head = ["method", *columns, "fit, s", f"{MANY_ROWS:,} rows, s"]
    return Table(head, lines, title, frozenset(bold), frozenset({len(METHODS) - 3, len(METHODS) - 1}))


def comparison_page(comparison: Comparison, name: str, command: str) -> str:
    """Return the page of a finished comparison."""
    answer, *more = recommendation(comparison)
    picture = picture_grid({"Error against time": _picture(comparison)})
    calls = [(method, "", line["call"]) for method, line in _largest(comparison).items()]
    text = PROTOCOL + TEST_ERRORS.get(comparison.task or "", "")
    n_rows, n_columns = comparison.X.shape
    data = (
        f"{n_rows:,} rows with {n_columns:,} columns. Each of {comparison.n_seeds} seeds draws {comparison.n_train:,} "
        f"training rows and {comparison.n_test:,} held-out rows. The length scale is {comparison.length_scale:g}."
    )
    sections = {
        "Errors and times": picture + comparison_table(comparison, name).html() + paragraph(text, "lead"),
        "Methods": paragraph(f"The calls for {comparison.sizes[-1]} columns:") + bullets(calls),
        "Data": paragraph(data),
    }
    title, footer = f"Which features to use on {name}?", f"Written by: {command}. {versions()}."
    return render(title, LEAD, sections, footer, answer=answer, more=" ".join(more))


def _picture(comparison: Comparison) -> str:
    """Draw the error against the time for many rows; a line joins the numbers of columns of a method."""
    figure, ((ax,),) = subplots(1, 1, (6.4, 4.8))
    results = comparison.results()
    for method, color, marker in zip(METHODS, COLORS, MARKERS, strict=True):
        lines = [results[size, method] for size in comparison.sizes]
        errors = [max(SMALLEST, line["kernel_error"]) for line in lines]
        ax.plot([_seconds(line) for line in lines], errors, label=method, color=color, marker=marker, markersize=6)
    for size in comparison.sizes:
        limit = results[size, LIMIT]["kernel_error"]
        if limit > min(results[size, method]["kernel_error"] for method in METHODS) / FURTHEST:
            ax.axhline(limit, color="#5f5f5f", linestyle="--", linewidth=1.0)
    ax.set(xscale="log", yscale="log", ylabel="relative kernel error")
    ax.set_xlabel(f"seconds to fit on {comparison.n_train:,} rows\nand to transform {MANY_ROWS:,} rows")
    ax.margins(0.1)
    ax.grid(alpha=0.3)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    percent_axis(ax.yaxis)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return svg(figure, "Error against time")


def _largest(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """Return the results of each method at the largest number of columns."""
    results = comparison.results()
    return {method: results[comparison.sizes[-1], method] for method in METHODS}


def _seconds(line: dict[str, Any]) -> float:
    """Return the seconds to fit and to transform many rows."""
    return float(line["fit_seconds"] + line["transform_seconds"])


def _percent(line: dict[str, Any], field: str) -> str:
    """Return an error and its standard error in %, with the digits for a table; empty if it was not measured."""
    mean, noise = 100.0 * line.get(field, nan), 100.0 * line.get(f"{field}_se", 0.0)
    if not isfinite(mean):
        return ""
    digits = ".1e" if 0.0 < mean < 0.01 else ".3f" if mean < 1.0 else ".2f"
    return f"{mean:{digits}}" + (f" ± {noise:{digits}}" if noise else "")


def _share(value: float) -> str:
    return f"{100.0 * value:.3g} %"


def _duration(seconds: float) -> str:
    if seconds < 10.0:
        return f"{seconds:.2g} s"
    return f"{seconds:.0f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} min"
