# SPDX-License-Identifier: BSD-3-Clause
"""Measure how often the interval of `kernel_error` covers the error: `make bench-coverage`.

Every case has several data sets with features fitted on 3,000 other rows. The true error is that of all pairs, and
`kernel_error` samples rows with several seeds: with the default `n_pairs`, for which every row is surveyed, and with
fewer pairs, for which the survey itself is a sample. The script prints one line per case: the share of intervals that
cover the true error, their mean width relative to the error, and the share of calls that warn. It writes
`bench-coverage.json`. All cases take about an hour.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bochner import FourierFeatures, LandmarkFeatures

FEW_PAIRS = 200_000
FEATURES: dict[str, Callable[[int], Any]] = {
    "Fourier": lambda seed: FourierFeatures(random_state=seed),
    "landmarks": lambda seed: LandmarkFeatures(random_state=seed),
}
DATA: dict[str, Callable[[np.random.Generator, int, int], Any]] = {
    "normal": lambda rng, *shape: rng.normal(size=shape),
    "t(2)": lambda rng, *shape: rng.standard_t(2, size=shape),
    "Cauchy": lambda rng, *shape: rng.standard_cauchy(size=shape),
    "20 clusters": lambda rng, n_rows, n_columns: (
        np.random.default_rng(0).normal(size=(20, n_columns))[rng.integers(20, size=n_rows)]
        + 0.01 * rng.normal(size=(n_rows, n_columns))
    ),
}
CASES = [  # data, columns, length scale as a multiple of the median distance
    *(("normal", n_columns, 1.0) for n_columns in (1, 2, 10)),
    *((name, n_columns, 1.0) for name in ("t(2)", "Cauchy") for n_columns in (2, 5)),
    ("20 clusters", 5, 1.0),
    *(("normal", 5, factor) for factor in (0.2, 5.0)),
]


def main(
    n_rows: Annotated[int, typer.Option(help="Rows per data set.")] = 20_000,
    n_sets: Annotated[int, typer.Option(help="Data sets per case.")] = 5,
    n_seeds: Annotated[int, typer.Option(help="Calls of `kernel_error` per data set.")] = 40,
    output: Annotated[Path, typer.Option(help="Where to write the results.")] = Path("bench-coverage.json"),
) -> None:
    """Measure the coverage of the interval of `kernel_error`."""
    results: list[dict[str, Any]] = []
    for data, n_columns, factor in CASES:
        for features in FEATURES:
            case = {"data": data, "columns": n_columns, "length scale": factor, "features": features}
            results.append(case | measure(data, n_columns, factor, features, n_rows, n_sets, n_seeds))
            typer.echo("  ".join(f"{name} {value}" for name, value in results[-1].items()))
    output.write_text(json.dumps(results, indent=1) + "\n")


def measure(
    data: str, n_columns: int, factor: float, features: str, n_rows: int, n_sets: int, n_seeds: int
) -> dict[str, float]:
    """Return the coverage, the mean width and the share of warnings in %, with the default and with fewer pairs."""
    outcomes: list[list[Any]] = []
    for number in range(n_sets):
        rng = np.random.default_rng(number)
        training, X = DATA[data](rng, 3000, n_columns), DATA[data](rng, n_rows, n_columns)
        fitted = FEATURES[features](number)
        fitted.set_params(length_scale=factor * fitted.find_length_scale(training)).fit(training)
        truth = fitted.kernel_error(X, n_pairs=n_rows**2).error
        for seed in range(n_seeds * number, n_seeds * (number + 1)):
            options: list[dict[str, int]] = [{}, {"n_pairs": FEW_PAIRS}]
            outcomes.append([outcome(fitted, X, truth, seed, **option) for option in options])
    default, few = (100.0 * np.mean(outcomes, axis=0)).round(1).tolist()
    names = ("covered", "width", "warned")
    named = dict(zip(names, default, strict=True)) | {f"{n}, few": v for n, v in zip(names, few, strict=True)}
    return {"error": float(f"{truth:.2g}")} | named


def outcome(fitted: Any, X: Any, truth: float, seed: int, **options: int) -> tuple[float, float, float]:
    """Return whether the interval covers the true error, its relative width, and whether the call warns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        error, low, high = fitted.kernel_error(X, random_state=seed, **options)
    is_covered = low <= truth <= high or (low == high and abs(error - truth) <= 1e-9 * truth)
    return float(is_covered), (high - low) / error, float(bool(caught))


if __name__ == "__main__":
    typer.run(main)
