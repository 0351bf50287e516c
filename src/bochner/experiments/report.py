# SPDX-License-Identifier: BSD-3-Clause
"""Reports: rows become a table in the terminal and one self-contained page."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from bochner.display import KernelErrorDisplay, WeightsDisplay
from bochner.experiments.datasets import Split
from bochner.experiments.figures import subplots, svg
from bochner.experiments.pages import fill, write_atomically
from bochner.experiments.run import KernelRow, versions
from bochner.experiments.studies import NYSTROEM, KernelStudy, method_name
from bochner.fourier_features import FourierFeatures
from bochner.rows import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Summary", "terminal_table", "write_page"]


class Summary:
    """Mean errors and standard errors of a study's rows, by method and size."""

    def __init__(self, study: KernelStudy, data: Split, rows: Sequence[KernelRow]) -> None:
        self.study = study
        self.data = data
        found = {(row.method, row.n_frequencies, row.seed): row.error for row in rows}
        self.errors: dict[str, Floats] = {
            method: np.array([[found[method, size, seed] for seed in study.seeds] for size in study.n_frequencies])
            for method in study.methods
        }
        means = np.array([errors.mean(axis=1) for errors in self.errors.values()])
        self.best = [study.methods[i] for i in means.argmin(axis=0)]
        self.best_fourier = [study.methods[i] for i in means[:-1].argmin(axis=0)]

    def cell(self, method: str, column: int) -> str:
        """Mean error in percent, with its standard error when there are several seeds."""
        values = 100 * self.errors[method][column]
        if len(values) == 1:
            return _percent(values[0])
        return f"{_percent(values.mean())} ±{values.std(ddof=1) / np.sqrt(len(values)):.2f}"

    def verdict(self) -> str:
        """What the numbers say, in two sentences."""
        last = len(self.study.n_frequencies) - 1
        columns = 2 * self.study.n_frequencies[last]
        ours = self.best_fourier[last]
        mean = {name: 100 * float(self.errors[name][last].mean()) for name in (ours, NYSTROEM)}
        plain = 100 * float(self.errors[method_name("mc", "uniform")][last].mean())
        lead = "Nystroem is lower still" if mean[NYSTROEM] < mean[ours] else "Nystroem is higher"
        return (
            f"At {columns} columns the best Fourier features are {ours}: {_percent(mean[ours])} % error, against "
            f"{_percent(plain)} % for plain random Fourier features. {lead} at {_percent(mean[NYSTROEM])} %."
        )


def terminal_table(summary: Summary) -> Table:
    """The errors of all methods as a rich table: best of all bold, best Fourier features underlined."""
    study, data = summary.study, summary.data
    table = Table(
        title=f"Relative kernel error in % on {len(data.X_test)} held-out rows of {data.name}, mean of "
        f"{len(study.seeds)} seeds ± standard error",
        caption="bold: lowest of all; underlined: lowest of the Fourier features",
    )
    table.add_column("columns", no_wrap=True)
    for size in study.n_frequencies:
        table.add_column(str(2 * size), justify="right", no_wrap=True)
    for i, method in enumerate(study.methods):
        cells = [Text(summary.cell(method, j), _emphasis(summary, method, j)) for j in range(len(study.n_frequencies))]
        table.add_row(method, *cells, end_section=(i + 1) % len(study.weightings) == 0)
    return table


def write_page(summary: Summary, path: Path) -> None:
    """Write the study as one HTML file with nothing outside itself: plots, table, seeds and versions."""
    study, data = summary.study, summary.data
    page = fill(
        "page.html",
        f"kernel error on {data.name}",
        name=html.escape(data.name),
        shape=f"{len(data.X_train)} rows to fit on, {len(data.X_test)} held-out rows, {data.X_train.shape[1]} columns",
        verdict=html.escape(summary.verdict()),
        errors=svg(_error_figure(summary), "Error against number of columns"),
        weights=_weights_section(summary),
        table=_html_table(summary),
        seeds=", ".join(str(seed) for seed in study.seeds),
        versions=html.escape(versions()),
    )
    write_atomically(path, page)


def _percent(value: float) -> str:
    """Two decimals, or two significant digits where those would all be zero."""
    return f"{value:.2f}" if value >= 0.1 or value == 0.0 else f"{value:.2g}"


def _emphasis(summary: Summary, method: str, column: int) -> str:
    marks = [(summary.best, "bold"), (summary.best_fourier, "underline")]
    return " ".join(style for best, style in marks if best[column] == method)


def _html_table(summary: Summary) -> str:
    study = summary.study
    head = "".join(f"<th>{2 * size}</th>" for size in study.n_frequencies)
    lines = [f"<tr><th>columns</th>{head}</tr>"]
    for i, method in enumerate(study.methods):
        cells = "".join(
            f'<td class="{_emphasis(summary, method, j)}">{summary.cell(method, j)}</td>'
            for j in range(len(study.n_frequencies))
        )
        first = ' class="first"' if i % len(study.weightings) == 0 else ""
        lines.append(f"<tr{first}><th>{method}</th>{cells}</tr>")
    return "\n".join(lines)


def _error_figure(summary: Summary) -> "Figure":
    """One panel a sampler with all its weightings, and Nystroem in each of them."""
    study = summary.study
    figure, axes = subplots(2, 2, (9.5, 7.5), share=True)
    columns = [2 * size for size in study.n_frequencies]
    for ax, sampler in zip(axes.flat, study.samplers, strict=True):
        errors = {weighting: summary.errors[method_name(sampler, weighting)] for weighting in study.weightings}
        KernelErrorDisplay(columns, errors | {NYSTROEM: summary.errors[NYSTROEM]}).plot(ax=ax)
        ax.set_title(sampler)
        ax.label_outer()
    for ax in axes.flat[1:]:
        ax.get_legend().remove()
    return figure


def _weights_section(summary: Summary) -> str:
    """Histograms of the stein weights of independent frequencies at the paper's sizes, where the study has them."""
    sizes = [size for size in (32, 128, 512) if size in summary.study.n_frequencies]
    if not sizes:
        return ""
    figure, axes = subplots(1, len(sizes), (9.5, 3.0))
    for ax, size in zip(axes.flat, sizes, strict=True):
        features = FourierFeatures(n_frequencies=size, sampler="mc", random_state=summary.study.seeds[0])
        WeightsDisplay.from_estimator(features.fit(summary.data.X_train), ax=ax)
        ax.title.set_fontsize(10)
    for ax in axes.flat[1:]:
        ax.set_ylabel("")
    return (
        "<h2>The weights that the data chose</h2>\n<p>Stein weights of independent (mc) frequencies. Plain Fourier "
        f"features give every frequency the dashed weight.</p>\n{svg(figure, 'Histograms of the weights')}"
    )
