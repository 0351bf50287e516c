# SPDX-License-Identifier: BSD-3-Clause
"""Figures of the page of a model: its errors on held-out rows, learning curves, importance and effects of columns."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from bochner.inspection.displays import STYLES, ImportanceDisplay, draw_bars, shortened
from bochner.pages import subplots, svg
from bochner.rows import Array, Floats
from bochner.table_models.diagnostics import MOST_COLUMNS, Diagnostics
from bochner.table_models.held_out import HeldOut
from bochner.table_models.learning_curves import LearningCurve
from bochner.table_models.partial_dependence import PartialDependence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curve_figures", "dependence_figures", "error_figures", "importance_figures"]

TRIPLE, PAIR = (4.0, 3.3), (4.8, 3.3)  # sizes of figures of which three or two fit side by side
INK, BLUE, RUST, PALE = "#1b1b1b", "#1f6fb4", "#d9601a", "#b9d2ea"
FEW_ROWS = 300  # fewer rows are drawn one by one
N_GROUPS = 10
MOST_CLASSES = 10  # of a confusion matrix
MOST_LINES = 4

Draw = Callable[["Axes"], None]


def error_figures(held_out: HeldOut) -> dict[str, str]:
    """Return figures of the errors on held-out rows, by their titles."""
    if held_out.model.task == "regression":
        draws: dict[str, Draw] = {
            "Observed against predicted": partial(_draw_observed, held_out),
            "Residuals against prediction": partial(_draw_residuals, held_out),
            "Error by decile of the prediction": partial(_draw_deciles, held_out),
        }
        return _figures(draws)
    draws = {
        "Confusion matrix": partial(_draw_confusion, held_out),
        "ROC curve": partial(_draw_roc, held_out),
        "Calibration": partial(_draw_calibration, held_out),
    }
    return _figures(draws)


def curve_figures(diagnostics: Diagnostics) -> dict[str, str]:
    """Return figures of the error against the numbers of training rows and of features."""
    draws: dict[str, Draw] = {
        f"Error against the number of {curve.subject}": partial(_draw_curve, diagnostics, curve)
        for curve in diagnostics.curves
    }
    return _figures(draws, PAIR)


def importance_figures(diagnostics: Diagnostics) -> dict[str, str]:
    """Return bars of the importance of columns, from gradients and from shuffled cells."""
    found, permutation = diagnostics.importance, diagnostics.permutation
    n_bars = min(MOST_COLUMNS, len(found.names))
    draws: dict[str, Draw] = {"Importance from gradients": partial(_draw_importance, diagnostics)}
    if permutation is not None:
        draws["Importance from shuffled cells"] = partial(_draw_permutation, diagnostics)
    return _figures(draws, (PAIR[0], max(2.2, 1.1 + 0.26 * n_bars)))


def dependence_figures(parts: list[PartialDependence], unit: str) -> dict[str, str]:
    """Return figures of the effects of columns, all with the same vertical axis."""
    if not parts:
        return {}
    low, high = min(part.low.min() for part in parts), max(part.high.max() for part in parts)
    margin = 0.06 * (high - low) or 1.0
    limits = (float(low - margin), float(high + margin))
    if parts[0].response == "probability":
        limits = (max(-0.03, limits[0]), min(1.03, limits[1]))
    draws: dict[str, Draw] = {
        f"{number}. {part.name}": partial(_draw_dependence, part, unit, limits) for number, part in enumerate(parts, 1)
    }
    return _figures(draws)


def _figures(draws: dict[str, Draw], size: tuple[float, float] = TRIPLE) -> dict[str, str]:
    """Draw each of several axes in a figure of its own, so that a narrow screen has one per line."""
    pictures = {}
    for title, draw in draws.items():
        figure, axes = subplots(1, 1, size)
        draw(axes[0, 0])
        axes[0, 0].set_title(shortened(title, 46), fontsize=11, loc="left")
        axes[0, 0].spines[["top", "right"]].set_visible(False)
        pictures[title] = svg(figure, title)
    return pictures


# Errors of a regression.


def _draw_observed(held_out: HeldOut, ax: "Axes") -> None:
    predicted, observed = held_out.predicted.astype(float), held_out.targets.astype(float)
    _draw_density(ax, predicted, observed)
    ends = [min(predicted.min(), observed.min()), max(predicted.max(), observed.max())]
    ax.plot(ends, ends, color=INK, linestyle="--", linewidth=1.2, label="perfect prediction")
    name = shortened(held_out.model.target)
    ax.set(xlabel=f"predicted {name}", ylabel=f"observed {name}")
    ax.legend(frameon=False, fontsize=8, loc="upper left")


def _draw_residuals(held_out: HeldOut, ax: "Axes") -> None:
    from matplotlib.patheffects import withStroke

    predicted = held_out.predicted.astype(float)
    residuals = held_out.targets.astype(float) - predicted
    _draw_density(ax, predicted, residuals)
    ax.axhline(0.0, color=INK, linestyle="--", linewidth=1.2)
    centers = [float(np.median(predicted[group])) for group in _groups(predicted)]
    quantiles = np.array([np.quantile(residuals[group], [0.1, 0.5, 0.9]) for group in _groups(predicted)])
    halo = [withStroke(linewidth=3.5, foreground="#ffffff")]  # lines stand out from the rows without color too
    style: Any = {"color": RUST, "path_effects": halo}
    ax.plot(centers, quantiles[:, 1], marker="o", markersize=3, label="median of a decile", **style)
    for column, label in ((0, "80 % of the rows"), (2, None)):
        ax.plot(centers, quantiles[:, column], linestyle="--", linewidth=1.4, label=label, **style)
    ax.set(xlabel=f"predicted {shortened(held_out.model.target)}", ylabel="observed minus predicted")
    ax.legend(frameon=False, fontsize=8)


def _draw_deciles(held_out: HeldOut, ax: "Axes") -> None:
    predicted = held_out.predicted.astype(float)
    residuals = held_out.targets.astype(float) - predicted
    groups = _groups(predicted)
    errors = [float(np.sqrt(np.mean(np.square(residuals[group])))) for group in groups]
    ax.bar(range(1, len(groups) + 1), errors, color=PALE, edgecolor=INK, linewidth=0.5, label="RMSE")
    means = [float(residuals[group].mean()) for group in groups]
    bars = [float(residuals[group].std() / np.sqrt(len(group))) for group in groups]
    style: Any = {"color": RUST, "marker": "D", "markersize": 4, "linestyle": "none", "capsize": 2}
    ax.errorbar(range(1, len(groups) + 1), means, bars, label="mean error, one standard error", **style)
    ax.axhline(0.0, color=INK, linewidth=0.8)
    ax.set_xticks(range(1, len(groups) + 1))
    ax.set(xlabel="decile of the prediction, lowest first", ylabel=f"error of {shortened(held_out.model.target, 20)}")
    ax.set_ylim(top=1.3 * max(errors))
    ax.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")


def _draw_density(ax: "Axes", x: Floats, y: Floats) -> None:
    """Draw rows: one by one, or the numbers of them in hexagons where there are many."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    if len(x) <= FEW_ROWS:
        ax.plot(x, y, marker="o", markersize=3, linestyle="none", color=BLUE, alpha=0.5, markeredgewidth=0)
        return
    colors = LinearSegmentedColormap.from_list("blues", ["#d6e6f5", "#5b9bd0", "#0b3c6f"])
    drawn = ax.hexbin(x, y, gridsize=(30, 18), mincnt=1, cmap=colors, norm=LogNorm(), linewidths=0.1)
    most = float(np.max(np.asarray(drawn.get_array())))
    ticks = [step * 10.0**power for power in range(7) for step in (1, 2, 5) if step * 10.0**power <= most]
    bar = ax.figure.colorbar(drawn, ax=ax, pad=0.02, aspect=40, format=lambda value, _: f"{value:,.0f}")
    bar.set_ticks(ticks)
    bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize=8)
    bar.set_label("rows per hexagon", fontsize=8)


def _groups(values: Floats) -> list[Array]:
    """Return the positions of the rows of each decile."""
    n_groups = max(1, min(N_GROUPS, len(values) // 5))
    return np.array_split(np.argsort(values, kind="stable"), n_groups)


# Errors of a classification.


def _draw_confusion(held_out: HeldOut, ax: "Axes") -> None:
    labels, counts = _confusion(held_out)
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    ax.pcolormesh(shares, cmap="Blues", vmin=0.0, vmax=1.0, edgecolors="#888888", linewidth=0.3)
    size = 9 if len(labels) <= 4 else 8 if len(labels) <= 7 else 6
    for (i, j), share in np.ndenumerate(shares):
        text = f"{counts[i, j]:,}" + (f"\n{100 * share:.0f} %" if len(labels) <= 5 else "")
        color = "#ffffff" if share > 0.5 else "#000000"
        ax.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=size, color=color)
    places = np.arange(len(labels)) + 0.5
    ax.set_xticks(places, labels=[shortened(label, 10) for label in labels], fontsize=8)
    ax.set_yticks(places, labels=[shortened(label, 14) for label in labels], fontsize=8)
    if len(labels) > 4:
        ax.tick_params(axis="x", rotation=45)
    ax.invert_yaxis()
    name = shortened(held_out.model.target, 20)
    ax.set(xlabel=f"predicted {name}", ylabel=f"observed {name}")


def _confusion(held_out: HeldOut) -> tuple[list[str], Any]:
    """Return the classes, of many the most frequent ones and all others as one, and the counts of pairs."""
    observed, predicted = held_out.targets.astype(str), held_out.predicted.astype(str)
    classes, frequency = np.unique(observed, return_counts=True)
    labels = sorted({*classes.tolist(), *predicted.tolist()})
    if len(labels) > MOST_CLASSES:
        kept = sorted(classes[np.argsort(-frequency, kind="stable")[: MOST_CLASSES - 1]].tolist())
        observed, predicted = (np.where(np.isin(names, kept), names, "others") for names in (observed, predicted))
        labels = [*kept, "others"]
    counts = [[int(((observed == a) & (predicted == b)).sum()) for b in labels] for a in labels]
    return labels, np.array(counts)


def _draw_roc(held_out: HeldOut, ax: "Axes") -> None:
    ax.plot([0, 1], [0, 1], color="#777777", linestyle="--", linewidth=1.0)
    for style, number in zip(STYLES, _frequent_outputs(held_out), strict=False):
        truth, values = held_out.is_class(number), held_out.responses.values[:, number]
        false_rates, true_rates, _ = roc_curve(truth, values)
        label = f"{shortened(held_out.responses.names[number], 16)}: area {roc_auc_score(truth, values):.3f}"
        ax.plot(false_rates, true_rates, color=style["color"], linestyle=style["linestyle"], label=label)
    ax.set(xlabel="share of other classes that is taken for it", ylabel="share of the class that is found")
    _percent_axes(ax)
    ax.legend(frameon=False, fontsize=8, loc="lower right")


def _draw_calibration(held_out: HeldOut, ax: "Axes") -> None:
    kind = held_out.responses.kind
    if kind == "probability":
        ax.plot([0, 1], [0, 1], color="#777777", linestyle="--", linewidth=1.0, label="perfect calibration")
    for style, number in zip(STYLES, _frequent_outputs(held_out), strict=False):
        truth, values = held_out.is_class(number).astype(float), held_out.responses.values[:, number]
        groups = _groups(values)
        means = [float(values[group].mean()) for group in groups]
        shares = np.array([truth[group].mean() for group in groups])
        bars = np.sqrt(shares * (1.0 - shares) / [len(group) for group in groups])
        label = shortened(held_out.responses.names[number], 16)
        ax.errorbar(means, shares, bars, label=label, markersize=4, capsize=2, linewidth=1.2, **style)
    ax.set(xlabel=f"predicted {kind} of the class", ylabel="observed share of the class")
    _percent_axes(ax, with_x=kind == "probability")
    ax.legend(frameon=False, fontsize=8, loc="upper left")


def _frequent_outputs(held_out: HeldOut) -> list[int]:
    """Return the numbers of the outputs with the most frequent classes, those that only some of the rows have."""
    counts = np.array([held_out.is_class(k).sum() for k in range(len(held_out.responses.names))])
    usable = [k for k in np.argsort(-counts, kind="stable").tolist() if 0 < counts[k] < len(held_out.targets)]
    return sorted(usable[:MOST_LINES])


def _percent_axes(ax: "Axes", *, with_x: bool = True) -> None:
    for axis in (ax.xaxis, ax.yaxis) if with_x else (ax.yaxis,):
        axis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    ax.set_ylim(-0.03, 1.03)
    if with_x:
        ax.set_xlim(-0.03, 1.03)
    ax.grid(alpha=0.3)


# Learning curves, importance and effects of columns.


def _draw_curve(diagnostics: Diagnostics, curve: LearningCurve, ax: "Axes") -> None:
    style: Any = {"color": BLUE, "marker": "o", "markersize": 5, "capsize": 3}
    ax.errorbar(curve.sizes, curve.errors, curve.deviations, label="model, one standard error", **style)
    assert diagnostics.held_out is not None
    is_regression = diagnostics.model.task == "regression"
    constant, top = diagnostics.held_out.constant.error, float((curve.errors + curve.deviations).max())
    label = "always the mean" if is_regression else "always the most frequent class"
    label += f": {constant:.4g}" if is_regression else f": {100 * constant:.3g} %"
    if constant < 1.5 * top:
        ax.axhline(constant, color=INK, linestyle="--", linewidth=1.2, label=label)
    else:  # as text: a line far above the others would leave them no room
        ax.plot([], [], linestyle="none", label=label)
    ax.set(xscale="log", xlabel=f"number of {curve.subject}", ylabel="RMSE" if is_regression else "error rate")
    ax.set_xticks(curve.sizes, labels=[f"{size:,}" for size in curve.sizes.tolist()])
    ax.minorticks_off()
    ax.margins(y=0.25)
    if not is_regression:
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False, fontsize=8)


def _draw_importance(diagnostics: Diagnostics, ax: "Axes") -> None:
    found = diagnostics.importance
    ImportanceDisplay(found.effects, found.names).plot(ax, n_columns=MOST_COLUMNS)
    unit = shortened(diagnostics.model.target, 20) if diagnostics.model.task == "regression" else "the scores"
    ax.set(xlabel=f"typical change of {unit}")


def _draw_permutation(diagnostics: Diagnostics, ax: "Axes") -> None:
    permutation = diagnostics.permutation
    assert permutation is not None
    draw_bars(ax, permutation.increases, permutation.names, permutation.deviations)
    ax.axvline(0.0, color=INK, linewidth=0.8)
    if diagnostics.model.task == "regression":
        ax.set(xlabel="increase of the RMSE")
    else:
        ax.set(xlabel="increase of the error rate")
        ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")


def _draw_dependence(part: PartialDependence, unit: str, limits: tuple[float, float], ax: "Axes") -> None:
    chosen = np.sort(np.argsort(-part.means.mean(axis=0), kind="stable")[:MOST_LINES])
    single: Any = ({"color": BLUE, "marker": "o", "linestyle": "-"},)
    styles = single if len(part.outputs) == 1 else STYLES
    for place, (style, number) in enumerate(zip(styles, chosen.tolist(), strict=False)):
        label = shortened(part.outputs[number], 14)
        means, low, high = part.means[:, number], part.low[:, number], part.high[:, number]
        if part.labels:
            bars = np.maximum(0.0, [means - low, high - means])
            shift = 0.16 * (place - 0.5 * (len(chosen) - 1))  # classes stand side by side
            marks = style | {"linestyle": "none", "capsize": 4, "markersize": 5}
            ax.errorbar(part.values + shift, means, bars, label=label, **marks)
        else:
            ax.fill_between(part.values, low, high, color=style["color"], alpha=0.22, linewidth=0)
            ax.plot(part.values, means, label=label, color=style["color"], linestyle=style["linestyle"])
    _value_axis(part, ax)
    ax.set(ylim=limits, ylabel=unit)
    if part.response == "probability":
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    ax.grid(alpha=0.3)
    if len(chosen) > 1:
        ax.legend(frameon=False, fontsize=8, ncols=2)


def _value_axis(part: PartialDependence, ax: "Axes") -> None:
    """Label the values, and mark the deciles of the rows on the axis."""
    if part.labels:
        ax.set_xticks(part.values, labels=[shortened(label, 12) for label in part.labels], fontsize=8)
        ax.set_xlim(-0.5, len(part.labels) - 0.5)
        if len(part.labels) > 4:
            ax.tick_params(axis="x", rotation=40)
        return
    if part.kind == "date":
        from matplotlib import dates

        locator: Any = dates.AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    else:
        ax.locator_params(axis="x", nbins=5)
    units = {"time": " (hour of the day)", "duration": " (seconds)"}
    ax.set_xlabel(shortened(part.name) + units.get(part.kind, ""))
    inside = part.deciles[(part.deciles >= part.values[0]) & (part.deciles <= part.values[-1])]
    ax.vlines(inside, 0.0, 0.035, transform=ax.get_xaxis_transform(), color=INK, linewidth=1.0)
