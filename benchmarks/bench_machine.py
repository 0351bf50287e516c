# SPDX-License-Identifier: BSD-3-Clause
"""Measure how the seconds of a fit of `KernelRegressor` grow with rows and columns: `make bench-machine`.

Targets are a smooth function of four columns plus noise. Every size is fitted in a process of its own, so that the peak
memory is its own; HistGradientBoosting with its defaults stands beside it. The result, `bench-machine.json`, belongs
into benchmarks/results as machine.json. Wall-clock seconds: run it on a machine that does nothing else.
"""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from bochner import KernelRegressor

FIGURE_SIZE = (8.0, 3.4)
N_PREDICTIONS = 100_000
BY_ROWS = [(n_rows, 20) for n_rows in (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)]
BY_COLUMNS = [(5_000, n_columns) for n_columns in (5, 10, 20, 50, 100, 200)]
SIZES = [(1_000, 10), *dict.fromkeys(BY_ROWS + BY_COLUMNS)]
METHODS = {
    "bochner": KernelRegressor(random_state=0),
    "bochner-fast": KernelRegressor(effort="fast", random_state=0),
    "boosting": HistGradientBoostingRegressor(random_state=0),
}
LABELS = {
    "bochner": "KernelRegressor",
    "bochner-fast": 'KernelRegressor(effort="fast")',
    "boosting": "HistGradientBoosting",
}
COLORS = {"bochner": "#d9601a", "bochner-fast": "#e8a87c", "boosting": "#4a5a6a"}


def simulate(n_rows: int, n_columns: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return normal rows and targets with interactions and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.2 * rng.normal(size=n_rows)
    return X, y


def measure(method: str, n_rows: int, n_columns: int) -> dict[str, Any]:
    """Fit one size and predict; compiled code is loaded before."""
    model = METHODS[method]
    small, targets = simulate(300, n_columns, 1)
    model.fit(small, targets).predict(small)
    X, y = simulate(n_rows, n_columns, 0)
    begin = perf_counter()
    model.fit(X, y)
    fitted = perf_counter()
    model.predict(simulate(N_PREDICTIONS, n_columns, 2)[0])
    return {
        "method": method,
        "n_rows": n_rows,
        "n_columns": n_columns,
        "fit_seconds": fitted - begin,
        "predict_seconds": perf_counter() - fitted,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def draw(figure: Figure, rows: list[dict[str, Any]]) -> None:
    """Draw the seconds of a fit against rows and against columns."""
    panels = ((BY_ROWS, "n_rows", "rows, of 20 columns"), (BY_COLUMNS, "n_columns", "columns, of 5,000 rows"))
    for axes, (sizes, column, label) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
        for method in METHODS:
            line = [row for row in rows if row["method"] == method and (row["n_rows"], row["n_columns"]) in sizes]
            line.sort(key=lambda row: row[column])
            points = [row[column] for row in line], [row["fit_seconds"] for row in line]
            axes.plot(*points, "o-", color=COLORS[method], label=LABELS[method], markersize=4)
        axes.set(xscale="log", yscale="log", xlabel=label)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.grid(color="#e4e4e4", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("seconds of a fit, two cores")
    figure.axes[0].legend(frameon=False, fontsize=8)


def main() -> None:
    """Measure all sizes, or the one of the command line."""
    if len(sys.argv) == 4:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
        return
    results = []
    for n_rows, n_columns in SIZES:
        for method in METHODS:
            command = [sys.executable, __file__, method, str(n_rows), str(n_columns)]
            results.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            print(
                *(f"{value:.2f}" if isinstance(value, float) else value for value in results[-1].values()), flush=True
            )
    Path("bench-machine.json").write_text(json.dumps({"cores": os.cpu_count(), "rows": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
