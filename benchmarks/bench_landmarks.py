# SPDX-License-Identifier: BSD-3-Clause
"""Measure landmark features beside Nystroem, kernel PCA and the SVD limit: `make bench-landmarks`.

`errors`: relative kernel errors in % on 1,500 held-out rows, fitted on 5,000 rows (4,331 of years), by data set, number
of columns, length scale and seed, which also draws the rows. Kernel PCA has the best columns that the training rows
give, at the cost of kernel values at all of them; the SVD limit is fitted to the held-out rows themselves. `times`:
processor seconds of fit and transform at the smallest width that has a kernel error of 2 %. One line per measurement is
appended to `landmarks.jsonl`; the same command resumes an interrupted run. Then `kernel-error-landmarks.json` is
written (a copy belongs into benchmarks/results). The settings of the refinement were chosen on the data sets of
`DESIGNING`, with other seeds.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, median
from time import process_time
from typing import Annotated, Any

import numpy as np
import typer
from scipy import linalg
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bench import Contest
from bochner import LandmarkFeatures
from bochner.kernels import Gaussian

Row = dict[str, Any]
FILES = {
    "cpu": "cpu",
    "covtype": "covtype",
    "census (22 of 119 columns)": "census",
    "adult": "adult",
    "mnist": "mnist",
    "years (5,831 rows, 54 of 90 columns)": "years_sub54",
}
DESIGNING = list(FILES)[:3]
WIDTHS = (32, 64, 128, 256)
FACTORS = (0.5, 1.0, 2.0)  # of the median distance
N_TRAINING, N_HELD_OUT = 5000, 1500
TIMED_ROWS = 100_000
TARGET = 0.02  # kernel error
SPARE_DIRECTIONS, N_PASSES = 64, 4  # of the subspace iteration for kernel PCA


def load(folder: Path, name: str, seed: int, n_training: int = N_TRAINING) -> tuple[Any, Any]:
    """Return training and held-out rows, standardized by the training rows."""
    with np.load(folder / f"{FILES[name]}.npz") as archive:
        X = np.concatenate([archive[part] for part in ("X_train", "X_test", "X") if part in archive])
    X = X[np.random.default_rng(seed).permutation(len(X))[: n_training + N_HELD_OUT]].astype(np.float64)
    scaler = StandardScaler().fit(X[N_HELD_OUT:])
    return scaler.transform(X[N_HELD_OUT:]), scaler.transform(X[:N_HELD_OUT])


def kernel_pca(X: Any, held_out: Any, n_columns: int) -> Any:
    """Return the uncentered principal components of the kernel on training rows, by subspace iteration."""
    kernel = Gaussian()
    matrix = kernel(X, X)
    basis = np.random.default_rng(0).normal(size=(len(X), n_columns + SPARE_DIRECTIONS))
    for _ in range(N_PASSES):
        basis = linalg.qr(matrix @ basis, mode="economic", overwrite_a=True)[0]
    values, vectors = linalg.eigh(basis.T @ (matrix @ basis))
    largest = slice(None, -n_columns - 1, -1)
    return (
        kernel(held_out, X) @ (basis @ vectors[:, largest]) / np.sqrt(np.maximum(values[largest], 1e-13 * values[-1]))
    )


def errors(folder: Path, name: str, factor: float, seed: int) -> Iterator[Row]:
    """Yield the kernel errors of all methods and the processor seconds of their fits, one row per width."""
    X, held_out = load(folder, name, seed)
    scale = factor * LandmarkFeatures(n_landmarks=2, random_state=0).fit(X).length_scale_
    exact = Gaussian()(held_out / scale, held_out / scale)
    size = linalg.norm(exact)
    spectrum = linalg.eigvalsh(exact)[::-1]
    components = kernel_pca(X / scale, held_out / scale, max(WIDTHS))
    for width in WIDTHS:
        row: Row = {"what": "error", "data": name, "columns": width, "factor": factor, "seed": seed}
        maps: dict[str, Any] = {
            "nystroem": Nystroem(gamma=0.5 / scale**2, n_components=width, random_state=seed),
            "kmeans": LandmarkFeatures(length_scale=scale, n_landmarks=width, refine=0, random_state=seed),
            "landmarks": LandmarkFeatures(length_scale=scale, n_landmarks=width, random_state=seed),
        }
        columns = {"kernel_pca": components[:, :width]}
        for method, features in maps.items():
            begin = process_time()
            features.fit(X)
            row[f"{method}_seconds"] = process_time() - begin
            columns[method] = features.transform(held_out)
        row |= {method: 100.0 * linalg.norm(exact - Z @ Z.T) / size for method, Z in columns.items()}
        yield row | {"svd": 100.0 * linalg.norm(spectrum[width:]) / size}


def times(folder: Path, name: str) -> Iterator[Row]:
    """Yield the processor seconds of fit and transform at the error `TARGET`, of 100,000 and of a million rows."""
    contest = Contest(*load(folder, name, 0, TIMED_ROWS))
    methods = {"nystroem": "Nystroem", "kmeans": "bochner, landmarks", "landmarks": "bochner, refined landmarks"}
    widths = {name: contest.smallest_width(method, TARGET) for name, method in methods.items()}
    contest.X = np.resize(contest.X, (TIMED_ROWS, contest.X.shape[1]))  # small data sets are repeated
    for n_blocks, repeats in ((1, 3), (10, 1)):
        seconds: dict[str, list[float]] = {method: [] for method in methods}
        for _ in range(repeats):
            for method, width in widths.items():
                begin = process_time()
                contest.run(methods[method], width, TIMED_ROWS, n_blocks)
                seconds[method].append(process_time() - begin)
        row: Row = {"what": "time", "data": name, "rows": n_blocks * TIMED_ROWS}
        row |= {f"{method}_columns": width for method, width in widths.items()}
        yield row | {f"{method}_seconds": median(seconds[method]) for method in methods}


def summarize(lines: list[Row]) -> dict[str, Any]:
    """Return the means over seeds, and the means of their ratios by width."""
    cells: dict[tuple[str, int, float], list[Row]] = {}
    for line in lines:
        if line["what"] == "error":
            cells.setdefault((line["data"], line["columns"], line["factor"]), []).append(line)
    rows = []
    for (name, width, factor), group in cells.items():
        means = {key: fmean(row[key] for row in group) for key in group[0] if isinstance(group[0][key], float)}
        rows.append({"data": name, "columns": width, **means, "factor": factor, "seeds": len(group)})
    timed = [{key: value for key, value in line.items() if key != "what"} for line in lines if line["what"] == "time"]
    halves = {"all": list(FILES), "designing": DESIGNING, "confirming": list(FILES)[3:]}
    summary = [
        {"columns": width, "half": half} | ratios([row for row in rows if row["data"] in names], width)
        for half, names in halves.items()
        for width in WIDTHS
        if any(row["data"] in names and row["columns"] == width for row in rows)
    ]
    about = {"command": "make bench-landmarks", "conditions": " ".join((__doc__ or "").split())}
    return {"about": about, "rows": rows, "summary": summary, "times": timed}


def ratios(rows: list[Row], width: int) -> Row:
    """Return the ratios of errors at one width, and the mean seconds of fit."""
    rows = [row for row in rows if row["columns"] == width]

    def over(method: str, other: str, statistic: Callable[[list[float]], float] = fmean) -> float:
        return statistic([row[method] / row[other] for row in rows])

    methods = ("kmeans", "landmarks", "kernel_pca", "svd")
    result = {f"{method}_over_nystroem": over(method, "nystroem") for method in methods}
    result |= {f"{method}_over_svd": over(method, "svd") for method in ("landmarks", "kernel_pca")}
    result["landmarks_over_kernel_pca"] = over("landmarks", "kernel_pca")
    result["worst_over_kmeans"] = over("landmarks", "kmeans", max)
    result["worst_over_nystroem"] = over("landmarks", "nystroem", max)
    seconds = ("nystroem_seconds", "kmeans_seconds", "landmarks_seconds")
    return result | {name: fmean(row[name] for row in rows) for name in seconds}


def as_text(sections: dict[str, Any]) -> str:
    """Return JSON with one row per line, rounded to four digits."""

    def line(row: Row) -> str:
        return json.dumps({k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()})

    parts = [f'  "about": {json.dumps(sections["about"])}']
    for name in ("rows", "summary", "times"):
        rows = ",\n    ".join(line(row) for row in sections[name])
        parts.append(f'  "{name}": [\n    {rows}\n  ]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(
    data: Annotated[Path, typer.Option(envvar="BOCHNER_DATA", help="Folder with the data sets as .npz.")],
    output: Annotated[Path, typer.Option(help="Folder for the results.")] = Path(),
    only: Annotated[str | None, typer.Option(help="'errors' or 'times'.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 4,
) -> None:
    """Measure what has no result yet, and summarize all results."""
    path = output / "landmarks.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(line["data"], line.get("factor"), line.get("seed")) for line in lines}
    tasks: list[tuple[str, float | None, int | None]] = []
    if only != "errors":
        tasks += [(name, None, None) for name in FILES]
    if only != "times":
        tasks += [(name, factor, seed) for seed in range(seeds) for name in FILES for factor in FACTORS]
    for name, factor, seed in [task for task in tasks if task not in done]:
        with threadpool_limits(1):
            found = list(times(data, name) if factor is None or seed is None else errors(data, name, factor, seed))
        lines += found
        with path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in found)
        print(name, factor, seed, flush=True)
    (output / "kernel-error-landmarks.json").write_text(as_text(summarize(lines)))


if __name__ == "__main__":
    typer.run(main)
