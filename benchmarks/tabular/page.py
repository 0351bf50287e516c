# SPDX-License-Identifier: BSD-3-Clause
"""The page of the benchmark, and its picture: Elo ratings against seconds."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bochner.pages import Table, fill_template, paragraph, picture_grid, svg, write_atomically
from tabular.data import N_FOLDS
from tabular.methods import METHODS, OURS

__all__ = ["FIGURE_SIZE", "draw", "write_page"]

FIGURE_SIZE = (5.6, 3.8)  # letters can be read on a phone
# Labels that would otherwise cover others.
LABELS = {
    "catboost": ((-9, -4), "right"),
    "forest": ((-8, -16), "right"),
    "hgb": ((7, 9), "left"),
    "lightgbm": ((-8, 3), "right"),
    "xrfm": ((9, -12), "left"),
}
TITLE = "Elo rating against seconds of one fit"
ENCODING = """All methods have their default settings and one thread. The models of bochner get the data frames as they
are. For the others, dates become day, month, weekday and hour; text becomes native categories (HistGradientBoosting,
LightGBM, CatBoost, EBM), integers (random forest) or one column per category (ridge, xRFM, with gaps imputed by medians
and columns standardized). xRFM has one fifth of the training rows as validation rows. A fit that fails or takes too
long counts as one of the random forest."""
TABARENA = """Of TabArena's 51 tables, 11 are among these, as their packages have them, which may differ from OpenML's
versions: airfoil (airfoil_self_noise), casp (physiochemical_protein), churn, concrete (concrete_compressive_strength),
credit-g, diabetes, diamonds (with a log target here), fish-toxicity (QSAR_fish_toxicity), insurance
(healthcare_insurance_expenses), maternal-health (maternal_health_risk), splice; wine-white is a part of a twelfth,
wine_quality. The other 39 are downloaded from OpenML, which this benchmark does without; benchmarks/tabarena has an
entry for TabArena's own runner."""


def draw(figure: Figure, summary: dict[str, Any]) -> None:
    """Draw the Elo rating of each method, with its interval, against the median seconds of a fit."""
    axes = figure.subplots()
    complete = [row for row in summary["rows"] if row["elo"] is not None]
    for row in complete:
        is_ours = row["method"] in OURS
        color = "#d9601a" if is_ours else "#4a5a6a"
        x, y, interval = row["fit_seconds"], row["elo"], [[row["elo-"]], [row["elo+"]]]
        axes.errorbar(x, y, yerr=interval, fmt="o", color=color, markersize=8, elinewidth=1, ecolor="#bbbbbb")
        weight = "bold" if is_ours else "normal"
        shift, side = LABELS.get(row["method"], ((9, 3), "left"))
        axes.annotate(
            row["label"], (x, y), shift, textcoords="offset points", ha=side, color=color, weight=weight, fontsize=9
        )
    seconds = [row["fit_seconds"] for row in complete]
    axes.set(xscale="log", xlim=(min(seconds) / 1.6, max(seconds) * 14))
    axes.set_xlabel("processor seconds of one fit, median over tables")
    axes.set_ylabel("Elo rating, random forest = 1,000")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)


def write_page(path: Path, summary: dict[str, Any]) -> None:
    """Write the page as one HTML document that needs no other file."""
    figure = Figure(figsize=FIGURE_SIZE, layout="constrained")
    draw(figure, summary)
    best, n_tables = summary["rows"][0], len(summary["tables"])
    rows = summary["limit_of_rows"]
    reduced = f"Tables are reduced to {rows:,} rows, of which two thirds are training rows." if rows else ""
    sections = {
        "Elo and seconds": picture_grid({TITLE: svg(figure, TITLE)}) + _leaderboard(summary).html(),
        "Ratios of errors": paragraph("Medians over tables; below 1, the first method is more accurate.")
        + _ratios(summary).html(),
        "Errors": paragraph("Root mean squared error, 1 - AUC or log loss; the lowest error of a line is in bold.")
        + _errors(summary).html(),
        "Failures": _failures(summary).html(),
        "What the methods get": paragraph(ENCODING),
        "TabArena's tables": paragraph(TABARENA),
    }
    lead = f"{len(summary['rows'])} methods with their default settings on {n_tables} public tables."
    more = f"{N_FOLDS}-fold cross-validation as in TabArena. {reduced} Seconds are processor seconds of one thread."
    footer = f"Made by `make bench-tabular` with {'; '.join(summary['versions'])}."
    answer = f"{best['label']} has the highest Elo rating, {best['elo']:,.0f}."
    texts = {"title": "Public tables", "lead": lead, "footer": footer, "answer": answer, "more": more}
    write_atomically(path, fill_template("page.html", sections=sections, **texts))


def _leaderboard(summary: dict[str, Any]) -> Table:
    head = ["method", "Elo (95 %)", "mean rank (95 %)", "fit, s", "predict 10,000 rows, s", "tables", "fits", "failed"]
    lines = []
    for row in summary["rows"]:
        elo = rank = "not all fits"
        if row["elo"] is not None:
            elo = f"{row['elo']:.0f} ({row['elo'] - row['elo-']:.0f} to {row['elo'] + row['elo+']:.0f})"
            rank = f"{row['rank']:.1f} ({row['rank_low']:.1f} to {row['rank_high']:.1f})"
        seconds = [f"{row['fit_seconds']:.2g}", f"{row['seconds_of_10000_predictions']:.2g}"]
        counts = [str(row[name]) for name in ("n_tables", "n_fits", "n_failures")]
        lines.append([row["label"], elo, rank, *seconds, *counts])
    return Table(head, lines)


def _ratios(summary: dict[str, Any]) -> Table:
    head = ["method", "over", "measure", "tables", "median", "geometric mean", "above 1.05"]
    lines = []
    for row in summary["ratios"]:
        if row["method"] in OURS:
            names = METHODS[row["method"]].label, METHODS[row["rival"]].label, row["measure"]
            numbers = f"{row['median']:.3f}", f"{row['mean']:.3f}", str(row["above"])
            lines.append([*names, f"{row['tables']} ({row['n_tables']})", *numbers])
    return Table(head, lines)


def _failures(summary: dict[str, Any]) -> Table:
    names = ("method", "table", "fold", "failure")
    return Table(names, [[str(row[name]) for name in names] for row in summary["failures"]])


def _errors(summary: dict[str, Any]) -> Table:
    methods = [row["method"] for row in summary["rows"]]
    lines, bold = [], set()
    for number, row in enumerate(summary["tables"]):
        errors = [row.get(method) for method in methods]
        lowest = min(error for error in errors if error is not None)
        bold |= {(number, 2 + column) for column, error in enumerate(errors) if error == lowest}
        size = f"{row['kind']}, {row['n_train']:,} x {row['n_columns']}"
        lines.append([row["table"], size, *("" if error is None else f"{error:.3g}" for error in errors)])
    return Table(
        ["table", "kind, training rows x columns", *(METHODS[m].label for m in methods)], lines, "", frozenset(bold)
    )
