# SPDX-License-Identifier: BSD-3-Clause
"""Figures: findings become panels, drawn one by one for a page or together for a file."""

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.display import STYLES, KernelErrorDisplay
from bochner.experiments.findings import Findings, standard_error
from bochner.experiments.studies import DEFAULT, NYSTROEM
from bochner.rows import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Panel", "compose", "grid", "panels", "subplots", "svg"]

# A method looks the same in every figure, and no two share a colour, a marker and a dash.
STYLE = dict(zip(("MC", "QMC", "BQ", "SES", DEFAULT, NYSTROEM), STYLES, strict=True)) | {
    "SES, pairs": {"color": "#5c3317", "marker": "P", "linestyle": "--"},
    "SES, row-norm pairs": {"color": "#c9a227", "marker": "v", "linestyle": ":"},
    "MC, uniform shrinkage": {"color": "#7b9acc", "marker": "s", "linestyle": "--"},
    "MC, SES weights": {"color": "#b5446e", "marker": "^", "linestyle": "-"},
}
HISTOGRAM_SIZES = (32, 128, 512)
PLAIN = "all weights 1/M"


@dataclass(frozen=True)
class Panel:
    """One pair of axes: what stands above it, and what draws into it."""

    title: str
    draw: Callable[["Axes"], None]


def panels(found: Findings) -> dict[str, list[Panel]]:
    """The figures of a study, by file name, as lists of panels; none for a table."""
    name = found.study.name
    makers = {"figure1": _error_panels, "figure2": _weight_panels, "figure3": _pair_panels, "figure4": _ratio_panels}
    if name not in makers:
        return {}
    first, *others = (str(bandwidth) for bandwidth in found.study.bandwidths)
    return {name: list(makers[name](found, first))} | {
        f"{name}-{bandwidth}": list(makers[name](found, bandwidth)) for bandwidth in others
    }


def _draw_alone(panel: Panel) -> "Figure":
    """A panel with its own legend below: readable at the width of a telephone."""
    figure, axes = subplots(1, 1, (4.6, 4.0))
    _draw(panel, axes[0, 0])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    n_columns = 3 if len(labels) > 4 else 2
    figure.legend(handles, labels, loc="outside lower center", ncols=n_columns, fontsize=8, frameon=False)
    return figure


def grid(figures: dict[str, list[Panel]]) -> str:
    """Panels, each a picture of its own, so that they find their places on a screen of any width."""
    pictures = []
    for name, chosen in figures.items():
        for panel in chosen:
            title = panel.title.replace("\n", ", ")
            picture = svg(_draw_alone(panel), f"{name}: {title}")
            pictures.append(f'<figure role="img" aria-label="{html.escape(title)}">{picture}</figure>')
    kind = "panels" if len(pictures) % 3 == 0 else "panels pairs"
    return f'<div class="{kind}">\n' + "\n".join(pictures) + "\n</div>" if pictures else ""


def compose(chosen: list[Panel]) -> "Figure":
    """Panels side by side with one legend below."""
    n_columns = min(len(chosen), 3 if len(chosen) != 4 else 2)
    n_rows = -(-len(chosen) // n_columns)
    figure, axes = subplots(n_rows, n_columns, (3.6 * n_columns + 0.6, 3.0 * n_rows + 0.6))
    labelled: dict[str, Any] = {}
    for panel, ax in zip(chosen, axes.flat, strict=False):
        _draw(panel, ax)
        labelled = {label: handle for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)} | labelled
    for ax in axes.flat[len(chosen) :]:
        ax.remove()
    figure.legend(
        labelled.values(), labelled, loc="outside lower center", ncols=(2, 3, 6)[n_columns - 1], frameon=False
    )
    return figure


def svg(figure: "Figure", title: str) -> str:
    """The figure as an element of a page, with a title for who cannot see it."""
    import matplotlib as mpl

    buffer = StringIO()
    # Letters as text, which is smaller and can be read aloud; names in the file that repeat from run to run.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Title": title})
    text = buffer.getvalue()
    # Names in the file become the figure's own: there may be other figures on the page.
    slug = re.sub(r"\W+", "-", title)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{slug}-", text)
    return text[text.index("<svg") :]


def subplots(n_rows: int, n_columns: int, size: tuple[float, float], *, share: bool = False) -> tuple["Figure", Any]:
    """A figure with a grid of axes, which may share their scales."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained", figsize=size)  # no pyplot: nothing global, no window
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, sharex=share, sharey=share)


def _draw(panel: Panel, ax: "Axes") -> None:
    panel.draw(ax)
    ax.set_title(panel.title.replace(" (", "\n(", 1), fontsize=9)  # what is missing of a data set has its own line


def _error_panels(found: Findings, bandwidth: str) -> Iterator[Panel]:
    for name, split in found.splits.items():
        scale = found.length_scale(name, bandwidth)
        yield Panel(f"{split.name}\n{bandwidth} length scale, {scale:.3g}", partial(_errors, found, name, bandwidth))


def _ratio_panels(found: Findings, bandwidth: str) -> Iterator[Panel]:
    for panel, (name, split) in zip(_error_panels(found, bandwidth), found.splits.items(), strict=True):
        yield panel
        yield Panel(f"{split.name}\nin units of the error of MC", partial(_ratios, found, name))


def _ratios(found: Findings, name: str, ax: "Axes") -> None:
    """Kernel error over that of the study's first method with the same frequencies, against M."""
    sizes, (plain, *others) = found.sizes(name), found.study.methods
    ax.axhline(1.0, label=plain, color=STYLE[plain]["color"])
    for method in others:
        _line(ax, sizes, found.errors(name, method) / found.errors(name, plain), method)
    _size_axis(ax, sizes, "error / error of MC")
    ax.set_ylim(bottom=0.0)


def _errors(found: Findings, name: str, bandwidth: str, ax: "Axes") -> None:
    """Kernel error against M."""
    errors = {method: found.errors(name, method, bandwidth) for method in found.study.methods}
    KernelErrorDisplay(found.sizes(name), errors).plot(ax, styles=STYLE)
    ax.legend().remove()  # the figure has one for all panels
    ax.set_xlabel("M (2 M columns)")


def _weight_panels(found: Findings, bandwidth: str) -> Iterator[Panel]:
    for name, split in found.splits.items():
        for size in (size for size in HISTOGRAM_SIZES if size in found.sizes(name)):
            yield Panel(f"{split.name}, M = {size}", partial(_histogram, found, name, size))
        yield Panel(f"{split.name}, sum of the weights", partial(_sums, found, name))


def _histogram(found: Findings, name: str, size: int, ax: "Axes") -> None:
    """Weights of the first seed in units of 1/M."""
    weights = {method: size * found.weights(name, method, size)[0] for method in ("BQ", "SES")}
    top = max(2.0, *(float(values.max()) for values in weights.values()))
    bins = np.linspace(0.0, top, 31).tolist()
    ax.hist(weights["BQ"], bins, color="#9cc3e6", edgecolor="#1f6fb4", linewidth=0.8, label="BQ")
    ax.hist(weights["SES"], bins, histtype="step", hatch="////", color="#d9601a", linewidth=1.6, label="SES")
    ax.axvline(1.0, color="#1b1b1b", linestyle="--", label=PLAIN)
    ax.set(xlabel=f"weight in units of 1/M, seed {found.study.seeds[0]}", ylabel="frequencies")


def _sums(found: Findings, name: str, ax: "Axes") -> None:
    """Sum of the weights against M."""
    sizes = found.sizes(name)
    ax.axhline(1.0, color="#1b1b1b", linestyle="--", label=PLAIN)
    for method in ("BQ", "SES"):
        sums = np.array([found.weights(name, method, size).sum(axis=1) for size in sizes])
        _line(ax, sizes, sums, method)
    _size_axis(ax, sizes, "sum of the weights")


def _size_axis(ax: "Axes", sizes: tuple[int, ...], ylabel: str) -> None:
    """M on a logarithmic scale, with a tick at every size."""
    ax.set(xscale="log", xlabel="M (2 M columns)", ylabel=ylabel)
    ax.set_xticks(sizes, labels=[str(size) for size in sizes])
    ax.minorticks_off()
    ax.grid(alpha=0.3)


def _pair_panels(found: Findings, bandwidth: str) -> Iterator[Panel]:
    for name, split in found.splits.items():
        for size in found.sizes(name):
            yield Panel(f"{split.name}, M = {size}", partial(_pairs, found, name, size))


def _pairs(found: Findings, name: str, size: int, ax: "Axes") -> None:
    """Kernel error against the number of sampled pairs."""
    counts = [round(ratio * size) for ratio in found.study.ratios]
    for method in found.study.methods:
        errors = found.pair_errors(name, method, size)
        if method == NYSTROEM:  # a number: a line far below the others would leave them no room
            text = f"{NYSTROEM}: {100.0 * errors.mean():.2g} %"
            ax.text(0.97, 0.03, text, transform=ax.transAxes, ha="right", color="#555555", fontsize=9)
        elif method == "QMC":
            ax.axhline(float(errors.mean()), label=method, color=STYLE[method]["color"], linestyle="--")
        else:
            _line(ax, counts, errors, "SES, all pairs of r rows" if method == "SES" else method, STYLE[method])
    ax.set(xscale="log", xlabel="sampled pairs r", ylabel="relative kernel error")
    ax.set_xticks(counts, labels=[str(count) for count in counts])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    ax.margins(y=0.15)
    ax.grid(alpha=0.3)


def _line(ax: "Axes", x: Any, values: Floats, label: str, style: dict[str, Any] | None = None) -> None:
    """Means with bars of one standard error."""
    ax.errorbar(x, values.mean(axis=1), standard_error(values), label=label, markersize=4, **(style or STYLE[label]))
