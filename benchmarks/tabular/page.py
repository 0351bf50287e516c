# SPDX-License-Identifier: BSD-3-Clause
"""The page of the benchmark: errors and seconds by table, a picture, ratios, and where boosting is ahead."""

import re
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from bochner.pages import Table, bullets, paragraph, picture_grid, render, subplots, svg
from tabular.data import TABLES, Kind
from tabular.methods import BOOSTING, METHODS, OURS
from tabular.results import Ratios, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

__all__ = ["markdown", "page"]

KINDS: dict[Kind, str] = {
    "regression": "Regression: root mean squared error on test rows, in standard deviations of the target",
    "classes": "Classification: share of test rows that are misclassified",
}
EQUAL = 0.02  # errors that differ by a smaller share are called equal
COMPARISONS = [
    *(("learn-matrix-256", other) for other in ("learn-256", "isotropic-256", BOOSTING)),
    *(("learn-matrix-1024", other) for other in ("learn-1024", "isotropic-1024", BOOSTING)),
    *(("landmarks-learn-matrix", other) for other in ("landmarks-learn", BOOSTING)),
    *(("learn-256", other) for other in ("isotropic-256", BOOSTING)),
    *(("learn-1024", other) for other in ("isotropic-1024", "nystroem", "svm", BOOSTING)),
    ("landmarks-learn", BOOSTING),
]
# No two methods share a marker, so that a print without color can be read.
STYLE = {
    BOOSTING: ("#d9601a", "D"),
    "nystroem": ("#5f5f5f", "s"),
    "svm": ("#5f5f5f", "X"),
    "isotropic-256": ("#7b9acc", "v"),
    "isotropic-1024": ("#7b9acc", "^"),
    "learn-256": ("#1f3a5f", "<"),
    "learn-1024": ("#1f3a5f", ">"),
    "learn-matrix-256": ("#b5446e", "o"),
    "learn-matrix-1024": ("#b5446e", "*"),
    "landmarks-learn": ("#1f3a5f", "h"),
    "landmarks-learn-matrix": ("#b5446e", "P"),
}


def page(summary: Summary) -> str:
    """Return the page as one HTML document that needs no other file."""
    ours = best_of_ours(summary)
    sections = {
        "Seconds and ranks": _picture(summary) + rank_table(summary).html(),
        "Errors": paragraph(
            "The lowest error of a line is in bold; processor seconds of the fit are below each error. A method that "
            "cannot finish with many training rows is not run there."
        )
        + Markup("\n").join(_small_seconds(table.html()) for table in error_tables(summary)),
        "Ratios of errors": paragraph("Below 1, the first method is more accurate. The mean is the geometric one.")
        + ratio_table(summary).html(),
        "Where boosting is ahead, and where it is not": _boosting(summary, ours),
        "Methods": bullets((method, "", METHODS[method].description + ".") for method in summary.methods),
        "Tables": _preparation() + size_table(summary).html(),
    }
    versions = "; ".join(dict.fromkeys(result.versions for result in summary.results))
    return render(
        "Public tables",
        f"Errors and seconds of {len(summary.methods)} methods on {len(summary.tables)} tables.",
        sections,
        f"Made by `make bench-tabular` with {versions}. Seconds are processor seconds of fits with one thread.",
        answer=_answer(summary, ours),
        more="Each number is the mean over random divisions into training rows (three quarters) and test rows.",
    )


def markdown(summary: Summary) -> str:
    """Return the tables of errors and ratios for the documentation; the lowest error of a line is in bold."""
    parts = []
    for table in error_tables(summary, with_seconds=False):
        lines = [
            [f"**{cell}**" if (row, column) in table.bold else cell for column, cell in enumerate(line)]
            for row, line in enumerate(table.lines)
        ]
        parts.append(f"{table.title}\n\n{Table(table.head, lines).markdown()}")
    parts.append(f"Mean rank and geometric mean of the seconds\n\n{rank_table(summary).markdown()}")
    parts.append(f"Ratios of errors\n\n{ratio_table(summary).markdown()}")
    return "\n\n".join(parts) + "\n"


def error_tables(summary: Summary, with_seconds: bool = True) -> list[Table]:
    """Return one table of errors per kind of target."""
    tables = []
    for kind, title in KINDS.items():
        rows = [row for row, name in enumerate(summary.tables) if summary.facts(name).kind == kind]
        lines, bold = [], set()
        for number, row in enumerate(rows):
            cells = [_error(kind, error) for error in summary.errors[row]]
            bold |= {(number, 1 + int(column)) for column in np.flatnonzero(_is_lowest(summary.errors[row]))}
            if with_seconds:
                cells = [cell + _seconds(value) for cell, value in zip(cells, summary.seconds[row], strict=True)]
            lines.append([summary.tables[row], *cells])
        if lines:
            tables.append(Table(["table", *summary.methods], lines, title, frozenset(bold)))
    return tables


def rank_table(summary: Summary) -> Table:
    """Return the mean rank and the typical seconds of each method."""
    figures = zip(summary.methods, summary.mean_ranks(), summary.typical_seconds(), summary.n_tables(), strict=True)
    lines = [[method, f"{rank:.1f}", f"{seconds:.2g}", str(n)] for method, rank, seconds, n in figures]
    return Table(["method", "mean rank", "seconds", "tables"], lines)


def ratio_table(summary: Summary) -> Table:
    """Return the ratios of the errors of pairs of methods."""
    pairs = {pair: summary.ratios(*pair) for pair in COMPARISONS}
    lines = [[" / ".join(pair), *_ratio_cells(ratios)] for pair, ratios in pairs.items() if ratios is not None]
    return Table(["errors", "mean", "median", "best table", "worst table", "tables"], lines)


def size_table(summary: Summary) -> Table:
    """Return the sizes of the tables and where they come from."""
    lines = []
    for name in summary.tables:
        facts, source = summary.facts(name), TABLES[name]
        target = "class" if source.kind == "classes" else ("logarithm of " if source.log else "") + str(source.target)
        sizes = [f"{size:,}" for size in (facts.n_train, facts.n_test, facts.n_columns)]
        lines.append([name, *sizes, str(summary.n_divisions[name]), target, source.package.replace("_", "-")])
    return Table(["table", "training rows", "test rows", "columns", "divisions", "target", "package"], lines)


def best_of_ours(summary: Summary) -> str | None:
    """Return the method of this library with the lowest mean rank among those with results for all tables."""
    ranks = dict(zip(summary.methods, summary.mean_ranks(), strict=True))
    complete = [method for method in OURS if method in ranks and not np.isnan(summary.error(method)).any()]
    return min(complete, key=ranks.__getitem__) if complete else None


def _answer(summary: Summary, ours: str | None) -> str:
    if ours is None or BOOSTING not in summary.methods:
        return ""
    ahead, equal, behind = (len(names) for names in _compare(summary, ours))
    return (
        f"{ours}, the best of our methods by its mean rank, is more accurate than boosting on {behind} of "
        f"{len(summary.tables)} tables, equal within {100 * EQUAL:.0f} % on {equal}, and less accurate on {ahead}."
    )


def _compare(summary: Summary, ours: str) -> tuple[list[str], list[str], list[str]]:
    """Return the tables on which boosting is ahead, equal and behind."""
    logs = np.log(summary.error(ours) / summary.error(BOOSTING))
    order = [(summary.tables[row], logs[row]) for row in np.argsort(-logs) if not np.isnan(logs[row])]
    limit = np.log1p(EQUAL)
    return (
        [name for name, log in order if log > limit],
        [name for name, log in order if abs(log) <= limit],
        [name for name, log in order if log < -limit],
    )


def _boosting(summary: Summary, ours: str | None) -> str:
    """Say in words which tables boosting predicts better than our best method, and which worse."""
    if ours is None or BOOSTING not in summary.methods:
        return paragraph("Boosting, or all of our methods, have not been run on all tables.")
    parts = []
    for title, names in zip(("Boosting is ahead", "Equal", "Boosting is behind"), _compare(summary, ours), strict=True):
        items = []
        for name in names:
            row, kind = summary.tables.index(name), summary.facts(name).kind
            theirs, own = summary.error(BOOSTING)[row], summary.error(ours)[row]
            errors = f"boosting {_error(kind, theirs)}, {ours} {_error(kind, own)}"
            items.append((name, "", f"{errors}, {100 * abs(own / theirs - 1):.0f} % {_direction(own, theirs)}."))
        parts.append(paragraph(f"{title}: {len(names)} of {len(summary.tables)} tables.") + bullets(items))
    return Markup("\n").join(parts)


def _direction(own: float, theirs: float) -> str:
    return "higher" if own > theirs else "lower"


def _preparation() -> str:
    return paragraph(
        "Exact copies of a row are dropped. Columns of numbers of which more than half are missing are dropped, then "
        "rows with a missing number; missing text is a category. Text is one-hot encoded, and categories of fewer than "
        "1 % of the rows share one column. Dates become year, day of the year and weekday. At most 20,000 training "
        "rows are used, a random sample of a larger table."
    )


def _ratio_cells(ratios: Ratios) -> list[str]:
    extremes = [f"{ratios.best:.2f} ({ratios.best_table})", f"{ratios.worst:.2f} ({ratios.worst_table})"]
    return [f"{ratios.mean:.3f}", f"{ratios.median:.3f}", *extremes, str(ratios.n_tables)]


def _is_lowest(errors: Any) -> Any:
    return errors == np.nanmin(errors)


def _error(kind: Kind, error: float) -> str:
    if np.isnan(error):
        return "not run"
    return f"{100 * error:.1f} %" if kind == "classes" else f"{error:.{3 if error >= 0.1 else 4}f}"


def _seconds(seconds: float) -> str:
    if np.isnan(seconds):
        return ""
    return f" ({seconds:.1f} s)" if seconds < 10 else f" ({seconds:.0f} s)"


def _small_seconds(text: str) -> Markup:
    """Put the seconds in small print below the errors, which keeps the columns narrow, and all errors in one line."""
    text = re.sub(r" \(([\d.]+ s)\)", r'<br><small style="font-weight: normal; color: #555">\1</small>', str(text))
    text = text.replace("<td>not run", '<td style="vertical-align: top">not run')
    return Markup(re.sub(r"<th>([^<]*</th><td)", r'<th style="vertical-align: top">\1', text))


def _picture(summary: Summary) -> str:
    """Draw the mean rank of each method against its typical seconds."""
    figure, axes = subplots(1, 1, (9.0, 5.4))
    ax = axes[0, 0]
    seconds, ranks = summary.typical_seconds(), summary.mean_ranks()
    ax.set(xscale="log", xlim=(seconds.min() / 2.5, seconds.max() * 2.5), ylim=(ranks.max() + 0.8, ranks.min() - 0.8))
    for method, x, y in zip(summary.methods, seconds, ranks, strict=True):
        color, marker = STYLE[method]
        ax.plot(x, y, marker=marker, color=color, markersize=9, markeredgecolor="#1b1b1b", linestyle="none")
    labels = [
        method if n == len(summary.tables) else f"{method} ({n} of {len(summary.tables)} tables)"
        for method, n in zip(summary.methods, summary.n_tables(), strict=True)
    ]
    ax.set_xlabel("processor seconds per fit, geometric mean over tables")
    ax.set_ylabel("mean rank of the error (1 is best)")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.grid(alpha=0.3)
    _place_labels(ax, labels, np.column_stack([seconds, ranks]))
    title = "Mean rank against seconds: methods at the upper left are accurate and fast"
    ax.set_title(title, fontsize=10)
    return picture_grid({title: svg(figure, title)})


def _place_labels(ax: "Axes", labels: list[str], points: Any) -> None:
    """Write each label beside its point, at the nearest place that no point and no other label covers."""
    figure: Any = ax.figure
    figure.draw_without_rendering()
    pixels = ax.transData.transform(points)
    taken: list[Bbox] = []
    for label, point in zip(labels, points, strict=True):
        text = ax.annotate(label, point, (0, 0), textcoords="offset points", fontsize=9)
        for step, (align, shift) in product((0, 12, 24, 36), (("left", 9), ("right", -9), ("center", 0))):
            for sign in (1, -1):
                text.set(ha=align, va="center", position=(shift, sign * (step + (12 if shift == 0 else 0))))
                box = text.get_window_extent().padded(2)
                covers_point = any(box.contains(*pixel) for pixel in pixels)
                if not covers_point and not any(box.overlaps(other) for other in taken) and _is_inside(ax, box):
                    break
            else:
                continue
            break
        taken.append(text.get_window_extent())


def _is_inside(ax: "Axes", box: "Bbox") -> bool:
    frame = ax.get_window_extent()
    return bool(frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1))
