# SPDX-License-Identifier: BSD-3-Clause
"""Measure classifiers of growing width on mnist beside scikit-learn's: `make bench-mnist`.

Every model is fitted in a process of its own, which reports the seconds of fit and prediction, the error on the 10,000
test rows and the peak memory. The script writes one line per model to `bench-mnist.jsonl`, and a plot. Run the same
command again to resume an interrupted run; delete lines to repeat their fits.
"""

import json
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from bochner import (
    FeatureClassifier,
    FourierFeatures,
    LandmarkFeatures,
)
from bochner.progress import progress_bar, show_progress

FIGURE_SIZE = (11, 4.4)
WIDTHS = (512, 1024, 2048, 4096)
HEADS = {
    "ridge": partial(FeatureClassifier, loss="squared_error"),
    "SVC": FeatureClassifier,
    "logistic": partial(FeatureClassifier, loss="log_loss"),
}
# Features, model, widths: frequencies of Fourier features, which have two columns each, and landmarks.
SERIES = {
    "Fourier, ridge": (*WIDTHS, 8192),
    "Fourier, SVC(C=10)": (*WIDTHS, 8192),
    "Fourier, logistic(C=10)": (*WIDTHS, 8192),
    "Fourier, learned length scales, ridge": (*WIDTHS, 8192),
    "Fourier, learned length scales, SVC(C=10)": (*WIDTHS, 8192),
    "Fourier, learned length scales, logistic(C=10)": (*WIDTHS, 8192),
    "landmarks, ridge": WIDTHS,
    "landmarks, SVC(C=10)": WIDTHS,
    "landmarks, logistic(C=10)": WIDTHS,
    "Fourier, SVC": WIDTHS,
    "Fourier, logistic": (512, 1024),
    "Fourier, learned length scales, SVC": WIDTHS,
    "landmarks, SVC": WIDTHS,
    "landmarks, logistic": (512, 1024, 2048),
    "Nystroem, LinearSVC(C=10)": (1000, 2000),
    "exact kernel, SVC(C=10)": (0,),
}
MODELS = {"ridge": "ridge regression", "SVC(C=10)": "support vector machine", "logistic(C=10)": "logistic regression"}
STYLES: dict[str, dict[str, Any]] = {
    "Fourier": {"color": "#3182bd", "marker": "o"},
    "Fourier, learned length scales": {"color": "#08306b", "marker": "s", "linestyle": "--"},
    "landmarks": {"color": "#e6550d", "marker": "^"},
    "Nystroem, LinearSVC(C=10)": {"color": "#969696", "marker": "X", "linestyle": ":"},
    "exact kernel, SVC(C=10)": {"color": "#1b1b1b", "marker": "*", "markersize": 13, "linestyle": "none"},
}
console = Console() if Console().is_terminal else Console(width=120)


def build(series: str, width: int) -> Any:
    """Return the unfitted model of a series."""
    if series.startswith("exact"):
        return SVC(C=10.0, gamma="scale")
    if series.startswith("Nystroem"):
        # The length scale of the others: gamma = 1 / (n_columns * variance) as in SVC(gamma="scale").
        return make_pipeline(Nystroem(gamma=0.0134, n_components=width, random_state=0), LinearSVC(C=10.0, dual=False))
    kind, *options, head = series.split(", ")
    scale = "learn" if options else "scale"
    if kind == "landmarks":
        features: Any = LandmarkFeatures(n_landmarks=width, length_scale=scale)
    else:
        features = FourierFeatures(n_frequencies=width, length_scale=scale)
    fixed: Any = {"Cs": [10.0], "cv": None} if head.endswith("(C=10)") else {}
    return HEADS[head.removesuffix("(C=10)")](features, random_state=0, **fixed)


def measure(data: Path, series: str, width: int) -> dict[str, Any]:
    """Fit a model in this process and measure it."""
    with np.load(data / "mnist.npz") as arrays:
        train, test = (arrays[name].astype(np.float32) / arrays["X_train"].max() for name in ("X_train", "X_test"))
        y_train, y_test = arrays["y_train"], arrays["y_test"]
    start, model = perf_counter(), build(series, width)
    model.fit(train, y_train)
    fitted = perf_counter()
    error = float(np.mean(model.predict(test) != y_test))
    return {
        "series": series,
        "width": width,
        "error": error,
        "fit": fitted - start,
        "predict": perf_counter() - fitted,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "penalty": float(getattr(model, "alpha_", getattr(model, "C_", np.nan))),
    }


def show(results: list[dict[str, Any]]) -> None:
    """Print the results as a table."""
    table = Table(title="mnist, 60,000 training rows, 10,000 test rows")
    for name in ("model", "width", "test error, %", "fit, s", "predict, s", "peak memory, GB", "alpha or C"):
        table.add_column(name, justify="left" if name == "model" else "right")
    for row in results:
        numbers = (f"{100 * row['error']:.2f}", f"{row['fit']:.1f}", f"{row['predict']:.2f}", f"{row['gigabytes']:.1f}")
        table.add_row(row["series"], str(row["width"] or ""), *numbers, f"{row['penalty']:.2g}")
    console.print(table)


def draw(figure: Figure, results: list[dict[str, Any]]) -> None:
    """Draw errors against seconds of fit and prediction: one panel per model, without those that also choose C."""
    panels = figure.subplots(1, len(MODELS), sharex=True, sharey=True)
    for axes, (head, title) in zip(panels, MODELS.items(), strict=True):
        for name, style in STYLES.items():
            series = name if name in SERIES else f"{name}, {head}"
            rows = sorted((row for row in results if row["series"] == series), key=lambda row: int(row["width"]))
            seconds, errors = [row["fit"] + row["predict"] for row in rows], [100 * row["error"] for row in rows]
            axes.plot(seconds, errors, label=name, markeredgecolor="#1b1b1b", markeredgewidth=0.5, **style)
        axes.set(xscale="log", yscale="log", title=title, xlabel="seconds of fit and prediction")
        axes.set_yticks([1.5, 2, 3, 4, 5], ["1.5", "2", "3", "4", "5"])
        axes.set_xticks([3, 10, 30, 100, 300, 1000], ["3", "10", "30", "100", "300", "1000"])
        axes.minorticks_off()
        axes.grid(color="#dddddd", linewidth=0.6)
    panels[0].set_ylabel("test error, %")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)


def main(
    data: Annotated[Path, typer.Option(envvar="BOCHNER_DATA", help="Folder with mnist.npz.")],
    output: Annotated[Path, typer.Option(help="Folder for bench-mnist.jsonl and bench-mnist.png.")] = Path(),
    only: Annotated[str | None, typer.Option(help="Series to run, such as 'landmarks, SVC:2048'.")] = None,
    worker: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Measure all models, print a table and plot it."""
    stored = output / "bench-mnist.jsonl"
    tasks = [(series, width) for series, widths in SERIES.items() for width in widths]
    if only is not None:
        tasks = [(series, width) for series, width in tasks if only in (series, f"{series}:{width}")]
        if not tasks:
            raise typer.BadParameter(f"{only!r} is not a series; use one of {', '.join(SERIES)}.", param_hint="--only")
    if worker:
        print(json.dumps(measure(data, *tasks[0])))
        return
    results = [json.loads(line) for line in stored.read_text("utf-8").splitlines()] if stored.exists() else []
    done = {(row["series"], row["width"]) for row in results}
    with show_progress(1), progress_bar("fitting", len(tasks)) as advance:
        for series, width in tasks:
            if (series, width) not in done:
                command = [sys.executable, __file__, "--data", str(data), "--worker", "--only", f"{series}:{width}"]
                line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                results.append(json.loads(line))
                with stored.open("a", encoding="utf-8") as file:
                    file.write(line)
            advance(1)
    order = {task: number for number, task in enumerate(tasks)}
    results = [row for row in results if (row["series"], row["width"]) in order]
    results.sort(key=lambda row: order[row["series"], row["width"]])
    show(results)
    figure = Figure(figsize=FIGURE_SIZE, layout="constrained")
    draw(figure, results)
    figure.savefig(output / "bench-mnist.png", dpi=120)


if __name__ == "__main__":
    typer.run(main)
