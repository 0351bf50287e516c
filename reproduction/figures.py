# SPDX-License-Identifier: BSD-3-Clause
"""Figures: findings become panels, which are drawn one by one for a page or together for a file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.inspection.displays import KernelErrorDisplay
from bochner.pages import subplots
from bochner.rows import Floats
from reproduction.findings import Findings, standard_error
from reproduction.methods import DEFAULT, NYSTROEM

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PANELS", "Panel", "compose", "draw_alone", "panels"]

# Colors of increasing lightness, which remain distinct in grayscale, each with its own marker and dash pattern.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#1b1b1b", "marker": "o", "linestyle": "-"},
    {"color": "#7a1f5c", "marker": "s", "linestyle": "--"},
    {"color": "#1f6fb4", "marker": "^", "linestyle": "-."},
    {"color": "#d9601a", "marker": "D", "linestyle": "-"},
    {"color": "#4aa564", "marker": "v", "linestyle": ":"},
    {"color": "#a9a9a9", "marker": "x", "linestyle": "--"},
)
# A method has the same style in every figure; no two methods of a study share a marker, so that a print without color
# can be read.
STYLE: dict[str, dict[str, Any]] = dict(zip(("MC", "QMC", "BQ", "SES", DEFAULT, NYSTROEM), STYLES, strict=True)) | {
    "SES, pairs": {"color": "#5c3317", "marker": "P", "linestyle": "--"},
    "SES, row-norm pairs": {"color": "#c9a227", "marker": "v", "linestyle": ":"},
    "MC, uniform shrinkage": {"color": "#7b9acc", "marker": "s", "linestyle": "--"},
    "MC, SES weights": {"color": "#b5446e", "marker": "^", "linestyle": "-"},
}
HISTOGRAM_SIZES = (32, 128, 512)
PLAIN = "all weights 1/M"


@dataclass(frozen=True)
class Panel:
    """A pair of axes: the file it belongs to, its title, and the function that draws it."""

    file: str
    title: str
    draw: Callable[["Axes"], None]


def panels(found: Findings) -> list[Panel]:
    """Return the panels of a study."""
    return [panel for kind in found.study.figures for panel in PANELS[kind](found)]


def draw_alone(panel: Panel) -> "Figure":
    """Draw a panel with its own legend below, readable on a narrow screen."""
    figure, axes = subplots(1, 1, (4.6, 4.0))
    _draw(panel, axes[0, 0])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    n_columns = 3 if len(labels) > 2 and max(map(len, labels)) < 20 else 2
    figure.set_figheight(3.7 + 0.17 * -(-len(labels) // n_columns))
    figure.legend(handles, labels, loc="outside lower center", ncols=n_columns, fontsize=8, frameon=False)
    return figure


def compose(chosen: list[Panel]) -> "Figure":
    """Draw panels side by side with one legend below."""
    n_columns = min(len(chosen), 3 if len(chosen) != 4 else 2)
    n_rows = -(-len(chosen) // n_columns)
    figure, axes = subplots(n_rows, n_columns, (3.6 * n_columns + 0.6, 3.0 * n_rows + 0.6))
    legend: dict[str, Any] = {}
    for panel, ax in zip(chosen, axes.flat, strict=False):
        _draw(panel, ax)
        legend = {label: handle for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)} | legend
    for ax in axes.flat[len(chosen) :]:
        ax.remove()
    figure.legend(legend.values(), legend, loc="outside lower center", ncols=(2, 3, 6)[n_columns - 1], frameon=False)
    return figure


def _draw(panel: Panel, ax: "Axes") -> None:
    panel.draw(ax)
    ax.set_title(panel.title.replace(" (", "\n(", 1), fontsize=9)  # the reduction of a data set has its own line


def _error_panels(found: Findings) -> Iterator[Panel]:
    for number, label in enumerate(found.study.labels):
        file = f"{found.study.name}-{label}" if number else found.study.name
        for name, split in found.splits.items():
            title = f"{split.name}\n{label} length scale, {found.length_scale(name, label):.3g}"
            yield Panel(file, title, partial(_draw_errors, found, name, label))


def _draw_errors(found: Findings, name: str, label: str, ax: "Axes") -> None:
    errors = {method: found.errors(name, method, label) for method in found.study.methods}
    KernelErrorDisplay(found.study.sizes(name), errors).plot(ax, styles=STYLE)
    ax.legend().remove()  # the figure has one for all panels
    ax.set_xlabel("M (2 M columns)")


def _ratio_panels(found: Findings) -> Iterator[Panel]:
    for name, split in found.splits.items():
        title = f"{split.name}\nas a multiple of the error of MC"
        yield Panel(found.study.name, title, partial(_draw_ratios, found, name))


def _draw_ratios(found: Findings, name: str, ax: "Axes") -> None:
    """Draw the errors over those of the first method, which has the same frequencies."""
    sizes, (plain, *others) = found.study.sizes(name), found.study.methods
    ax.axhline(1.0, label=plain, color=STYLE[plain]["color"])
    for method in others:
        _line(ax, sizes, found.errors(name, method) / found.errors(name, plain), method, STYLE[method])
    _size_axis(ax, sizes, "error / error of MC")
    ax.set_ylim(bottom=0.0)


def _weight_panels(found: Findings) -> Iterator[Panel]:
    for name, split in found.splits.items():
        for size in (size for size in HISTOGRAM_SIZES if size in found.study.sizes(name)):
            yield Panel(found.study.name, f"{split.name}, M = {size}", partial(_draw_histogram, found, name, size))
        yield Panel(found.study.name, f"{split.name}, sum of the weights", partial(_draw_sums, found, name))


def _draw_histogram(found: Findings, name: str, size: int, ax: "Axes") -> None:
    """Draw the weights of the first seed."""
    weights = {method: size * found.weights(name, method, size)[0] for method in ("BQ", "SES")}
    top = max(2.0, *(float(values.max()) for values in weights.values()))
    bins = np.linspace(0.0, top, 31).tolist()
    ax.hist(weights["BQ"], bins, color="#9cc3e6", edgecolor="#1f6fb4", linewidth=0.8, label="BQ")
    ax.hist(weights["SES"], bins, histtype="step", hatch="////", color="#d9601a", linewidth=1.6, label="SES")
    ax.axvline(1.0, color="#1b1b1b", linestyle="--", label=PLAIN)
    ax.set(xlabel=f"weight as a multiple of 1/M, seed {found.study.seeds[0]}", ylabel="number of frequencies")


def _draw_sums(found: Findings, name: str, ax: "Axes") -> None:
    sizes = found.study.sizes(name)
    ax.axhline(1.0, color="#1b1b1b", linestyle="--", label=PLAIN)
    for method in ("BQ", "SES"):
        sums = np.array([found.weights(name, method, size).sum(axis=1) for size in sizes])
        _line(ax, sizes, sums, method, STYLE[method])
    _size_axis(ax, sizes, "sum of the weights")


def _pair_panels(found: Findings) -> Iterator[Panel]:
    for name, split in found.splits.items():
        for size in found.study.sizes(name):
            yield Panel(found.study.name, f"{split.name}, M = {size}", partial(_draw_pairs, found, name, size))


def _draw_pairs(found: Findings, name: str, size: int, ax: "Axes") -> None:
    """Draw the kernel error against the number of sampled pairs."""
    counts = [round(ratio * size) for ratio in found.study.ratios]
    for method in found.study.methods:
        errors = found.pair_errors(name, method, size)
        if method == NYSTROEM:  # as text: a line far below the others would leave them no room
            text = f"{NYSTROEM}: {100.0 * errors.mean():.2g} %"
            ax.text(0.97, 0.03, text, transform=ax.transAxes, ha="right", color="#555555", fontsize=9)
        elif method == "QMC":
            ax.axhline(float(errors.mean()), label=method, color=STYLE[method]["color"], linestyle="--")
        else:
            _line(ax, counts, errors, "SES, all pairs of r rows" if method == "SES" else method, STYLE[method])
    _size_axis(ax, counts, "relative kernel error", "sampled pairs r")
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    ax.margins(y=0.15)


def _size_axis(ax: "Axes", sizes: Any, ylabel: str, xlabel: str = "M (2 M columns)") -> None:
    """Put sizes on a logarithmic scale with a tick at each of them."""
    ax.set(xscale="log", xlabel=xlabel, ylabel=ylabel)
    ax.set_xticks(sizes, labels=[str(size) for size in sizes])
    ax.minorticks_off()
    ax.grid(alpha=0.3)


def _line(ax: "Axes", x: Any, values: Floats, label: str, style: dict[str, Any]) -> None:
    """Draw means with bars of one standard error."""
    ax.errorbar(x, values.mean(axis=1), standard_error(values), label=label, markersize=4, **style)


PANELS: dict[str, Callable[[Findings], Iterator[Panel]]] = {
    "errors": _error_panels,
    "ratios": _ratio_panels,
    "weights": _weight_panels,
    "pairs": _pair_panels,
}
