# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison says: a recommendation, a table for the terminal, and a page with figures."""

from math import isnan
from typing import TYPE_CHECKING

from bochner.compare.comparison import LIMIT, MANY_ROWS
from bochner.compare.methods import METHODS
from bochner.inspection.displays import percent_axis
from bochner.pages import Table, fill_template, picture_grid, subplots, svg

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["comparison_page", "comparison_table", "recommend", "recommendation"]

SHARE = "{:.3g} %".format
AS_LOW = 1.1  # a kernel error of up to this many times the lowest counts as the lowest
AS_GOOD = 1.01  # likewise for a test error
SMALLEST = 1e-9  # smaller errors are rounding, and zero has no place on a logarithmic axis
FURTHEST = 100.0  # a limit this many times below the lowest error would only stretch the axis
# Markers differ, so that a print without color can be read; the color is that of the kind of features.
COLORS, MARKERS = ("#1f6fb4",) * 4 + ("#d9601a",) * 2 + ("#5f5f5f",) * 2, "ov^*hXsD"


def recommend(found: "DataFrame") -> str:
    """Return the fastest of the methods whose kernel error is within 10 % of the lowest.

    A wider margin would give up what a slower method gains; no margin would follow the noise of a few seeds. If there
    is a target, only methods whose test error is within the noise of the lowest are considered.
    """
    lines = _methods(found)
    if found.attrs["task"]:
        best = lines.loc[lines["test_error"].idxmin()]
        most = max(AS_GOOD * best["test_error"], best["test_error"] + best["test_error_se"])
        lines = lines[lines["test_error"] <= most]
    lines = lines[lines["kernel_error"] <= max(AS_LOW * lines["kernel_error"].min(), SMALLEST)]
    # Of methods with the same error, only the first: the others do more work for the same features.
    lines = lines[~lines["kernel_error"].round(12).duplicated()]
    return str(lines["seconds"].idxmin())


def recommendation(found: "DataFrame") -> list[str]:
    """Return sentences on the recommended method, the best one of the other kind, and the test error."""
    chosen, lines = recommend(found), _methods(found)
    is_rival = lines.index.str.contains("Nystroem") != ("Nystroem" in chosen)
    rival = lines.loc[is_rival, "kernel_error"].idxmin()
    errors, times = (100.0 * lines["kernel_error"]).map(SHARE), lines["seconds"].map("{:.2g} s".format)
    sentences = [
        f"Use {lines.loc[chosen, 'call']}: {errors[chosen]} error at {found['n_components'].max()} columns, compared "
        f"with {errors[rival]} for {rival}. Fitting on {found.attrs['n_train']:,} rows and transforming {MANY_ROWS:,} "
        f"rows takes about {times[chosen]}, and {times[rival]} with {rival}."
    ]
    if found.attrs["task"]:
        lowest, test_errors = lines["test_error"].idxmin(), (100.0 * lines["test_error"]).map(SHARE)
        sentences.append(
            f"Ridge regression on these features has a test error of {test_errors[chosen]}; the lowest is "
            f"{test_errors[lowest]}, with {lowest}."
        )
    return sentences


def comparison_table(found: "DataFrame", name: str) -> Table:
    """Return the errors and times of all methods at each number of columns."""
    fields = ["kernel_error", "test_error"] if found.attrs["task"] else ["kernel_error"]
    lines, bold, ends = [], set(), set()
    for _, line in found.iterrows():
        errors = [_percent(line[field], line[f"{field}_se"]) for field in fields]
        seconds = [f"{line[field]:.3f}".replace("nan", "") for field in ("fit_seconds", "transform_seconds")]
        lines.append([line["method"], str(line["n_components"]), *errors, *seconds])
    for _, at_size in found.groupby("n_components"):
        ends.add(int(at_size.index[-1]))
        for column, field in enumerate(fields, 2):
            bold.add((int(at_size.loc[at_size["method"] != LIMIT, field].idxmin()), column))
    seeds = f"mean of {found.attrs['n_seeds']} seeds ± standard error" if found.attrs["n_seeds"] > 1 else "one seed"
    title = f"Errors in % on {found.attrs['n_test']:,} held-out rows of {name}, {seeds}"
    head = ["method", "columns", *(field.replace("_", " ") for field in fields), "fit, s", f"{MANY_ROWS:,} rows, s"]
    return Table(head, lines, title, frozenset(bold), frozenset(ends))


def comparison_page(found: "DataFrame", name: str, command: str) -> str:
    """Return the page of a finished comparison."""
    answer, *more = recommendation(found)
    return fill_template(
        "comparison.html",
        about=found.attrs,
        name=name,
        command=command,
        answer=answer,
        more=" ".join(more),
        picture=picture_grid({"Error against time": _picture(found)}),
        table=comparison_table(found, name).html(),
        size=found["n_components"].max(),
        calls=_methods(found)["call"],
    )


def _picture(found: "DataFrame") -> str:
    """Draw the error against the time for many rows; a line joins the numbers of columns of a method."""
    figure, ((ax,),) = subplots(1, 1, (6.4, 4.8))
    for method, color, marker in zip(METHODS, COLORS, MARKERS, strict=True):
        lines = found[found["method"] == method]
        seconds, errors = lines["fit_seconds"] + lines["transform_seconds"], lines["kernel_error"].clip(lower=SMALLEST)
        ax.plot(seconds, errors, label=method, color=color, marker=marker, markersize=6)
    for _, lines in found.groupby("n_components"):
        errors = lines.set_index("method")["kernel_error"]
        if errors[LIMIT] > errors.drop(LIMIT).min() / FURTHEST:
            ax.axhline(errors[LIMIT], color="#5f5f5f", linestyle="--", linewidth=1.0)
    ax.set(xscale="log", yscale="log", ylabel="relative kernel error")
    ax.set_xlabel(f"seconds to fit on {found.attrs['n_train']:,} rows\nand to transform {MANY_ROWS:,} rows")
    ax.margins(0.1)
    ax.grid(alpha=0.3)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    percent_axis(ax.yaxis)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return svg(figure, "Error against time")


def _methods(found: "DataFrame") -> "DataFrame":
    """Return the results of the methods at the largest number of columns, by method, with all seconds."""
    results = found[found["n_components"] == found["n_components"].max()].set_index("method").drop(LIMIT)
    return results.assign(seconds=results["fit_seconds"] + results["transform_seconds"])


def _percent(error: float, noise: float) -> str:
    """Return an error and its standard error in %, with the digits for a table; empty if it was not measured."""
    mean, noise = 100.0 * error, 100.0 * noise
    if isnan(mean):
        return ""
    digits = ".1e" if 0.0 < mean < 0.01 else ".3f" if mean < 1.0 else ".2f"
    return f"{mean:{digits}}" + (f" ± {noise:{digits}}" if noise else "")
