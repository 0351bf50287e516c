# SPDX-License-Identifier: BSD-3-Clause
"""Measure the speed of bochner relative to scikit-learn: `make bench`.

Absolute times are not reliable on a shared machine; ratios measured in one interleaved run are. Each repetition runs
all competitors once, one after the other, and the medians are compared. The script prints tables and writes
`bench.json` and `bench.png`.
"""

import json
import os
import platform
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Annotated, Any

import numpy as np
import typer
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import linalg
from scipy.optimize import nnls
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.feature_maps import FourierMap, add_moments, fourier_map
from bochner.feature_maps.elementary import exponential_rows, sincos_rows
from bochner.kernels import Gaussian
from bochner.linalg import nonnegative_ridge
from bochner.rows import in_threads
from bochner.weightings import Matrix, Stein

Row = dict[str, Any]
OUTPUT_BYTES = 2**27  # outputs are several times larger than any cache
FIGURE_SIZE = (10, 4.6)
ERRORS = (0.05, 0.02, 0.01)
# These differ in lightness from their neighbors, for print in gray.
BAR_COLORS = ("#1f3a5f", "#a9c4e0", "#5b84b1", "#d9601a", "#f7c9a3", "#7a4a21", "#ffffff")
console = Console() if Console().is_terminal else Console(width=120)


def interleave(actions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each action."""
    return {name: median(values) for name, values in repetitions(actions, repeats).items()}


def repetitions(actions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of each action; a repetition runs all of them once, and the first is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for repetition in range(repeats + 1):
        for name, action in actions.items():
            if len(actions) > 1:
                sleep(0.1)  # the threads of OpenBLAS spin for a while after a product and would slow the next action
            begin = perf_counter()
            action()
            if repetition:
                seconds[name].append(perf_counter() - begin)
    return seconds


def spread(numerator: list[float], denominator: list[float]) -> str:
    """Return the smallest and the largest ratio of the repetitions."""
    ratios = [a / b for a, b in zip(numerator, denominator, strict=True)]
    return f"{min(ratios):.1f} to {max(ratios):.1f}"


def show(title: str, rows: list[Row]) -> None:
    """Print rows as a table."""
    table = Table(title=title, title_justify="left")
    for column in rows[0]:
        table.add_column(column, justify="left" if isinstance(rows[0][column], str) else "right")
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    console.print(table)


def transform(repeats: int) -> list[Row]:
    """Compare `transform` with RBFSampler and Nystroem at equal width; each call allocates its output, as theirs do."""
    cases = [(54, 256, "orthogonal"), (90, 128, "orthogonal"), (784, 512, "orthogonal"), (784, 512, "sorf")]
    rows = []
    for dtype in (np.float64, np.float32):
        for d, m, sampler in cases:
            n = OUTPUT_BYTES // (2 * m * np.dtype(dtype).itemsize)
            X = np.random.default_rng(0).standard_normal((n, d), dtype=dtype)
            ours = FourierFeatures(n_frequencies=m, sampler=sampler, weighting="uniform", random_state=0).fit(X[:2000])
            plain = RBFSampler(gamma=0.5 / d, n_components=2 * m, random_state=0).fit(X[:2000])
            landmarks = Nystroem(gamma=0.5 / d, n_components=2 * m, random_state=0).fit(X[:2000])
            out = ours.transform(X)
            runs = repetitions(
                {
                    "RBFSampler": lambda plain=plain, X=X: plain.transform(X),
                    "Nystroem": lambda landmarks=landmarks, X=X: landmarks.transform(X),
                    "ours": lambda ours=ours, X=X: ours.transform(X),
                    "out": lambda ours=ours, X=X, out=out: ours.transform(X, out=out),
                },
                repeats,
            )
            seconds = {name: median(values) for name, values in runs.items()}
            rows.append(
                {
                    "sampler": sampler,
                    "dtype": np.dtype(dtype).name,
                    "d": d,
                    "M": m,
                    "rows": n,
                    "x RBFSampler": seconds["RBFSampler"] / seconds["ours"],
                    "x Nystroem": seconds["Nystroem"] / seconds["ours"],
                    "out=: x RBFSampler": seconds["RBFSampler"] / seconds["out"],
                    "spread": spread(runs["RBFSampler"], runs["ours"]),
                    "out=: spread": spread(runs["RBFSampler"], runs["out"]),
                }
            )
    return rows


def landmark_transform(repeats: int) -> list[Row]:
    """Compare `LandmarkFeatures.transform` with Nystroem at equal width, and with the time at peak rates.

    The peak is the time of both matrix products at the rate of a large one, of the exponentials in cache and of writing
    the output.
    """
    rows = []
    for dtype in (np.float64, np.float32):
        for d, w in ((54, 128), (123, 152), (784, 512)):
            n = OUTPUT_BYTES // (2 * w * np.dtype(dtype).itemsize)
            X = np.random.default_rng(0).standard_normal((n, d), dtype=dtype)
            ours = LandmarkFeatures(n_landmarks=w, landmarks="uniform", random_state=0).fit(X[:2000])
            theirs = Nystroem(gamma=0.5 / d, n_components=w, random_state=0).fit(X[:2000])
            out = ours.transform(X)
            square = np.random.default_rng(0).standard_normal((1536, 1536), dtype=dtype)
            product, halves = np.empty_like(square), [out[: n // 2], out[n // 2 :]]
            seconds = interleave(
                {
                    "Nystroem": lambda theirs=theirs, X=X: theirs.transform(X),
                    "ours": lambda ours=ours, X=X: ours.transform(X),
                    "out": lambda ours=ours, X=X, out=out: ours.transform(X, out=out),
                    "gemm": lambda square=square, product=product: np.matmul(square, square, out=product),
                    "exponentials": lambda n=n, w=w, dtype=dtype: _exponentials(n, w, dtype),
                    "write": lambda halves=halves: list(in_threads(lambda half: half.fill(0.0), halves)),
                },
                repeats,
            )
            peak = seconds["gemm"] * (n * (d + w) * w) / 1536**3 + seconds["exponentials"] + seconds["write"]
            rows.append(
                {
                    "dtype": np.dtype(dtype).name,
                    "d": d,
                    "columns": w,
                    "rows": n,
                    "x Nystroem": seconds["Nystroem"] / seconds["ours"],
                    "out=: x Nystroem": seconds["Nystroem"] / seconds["out"],
                    "out=: share of the peak": peak / seconds["out"],
                }
            )
    return rows


def _exponentials(n: int, w: int, dtype: Any) -> None:
    """Compute n * w exponentials in blocks that stay in cache, in two threads."""

    def work(block: Any) -> None:
        zeros = np.zeros(len(block), dtype=dtype), np.zeros(w, dtype=dtype)
        for _ in range(n // 256):
            exponential_rows(block, *zeros, block)

    list(in_threads(work, [np.zeros((128, w), dtype=dtype) for _ in range(2)]))


def roofline(repeats: int) -> list[Row]:
    """Compare the map with the time it would take at the peak rates of GEMM, of sines in cache, and of memory.

    The three times are added, so a map that computes while it writes can exceed 1.
    """
    rows, (d, m) = [], (54, 256)
    for dtype in (np.float64, np.float32):
        n = OUTPUT_BYTES // (2 * m * np.dtype(dtype).itemsize)
        X = np.random.default_rng(0).standard_normal((n, d), dtype=dtype)
        features = FourierFeatures(n_frequencies=m, weighting="uniform", random_state=0).fit(X[:2000])
        out = features.transform(X)
        square = np.random.default_rng(0).standard_normal((1536, 1536), dtype=dtype)
        product = np.empty_like(square)
        blocks = [np.random.default_rng(i).standard_normal((128, m), dtype=dtype) for i in range(2)]
        halves = [out[: n // 2], out[n // 2 :]]
        ones = np.ones(m, dtype=dtype)

        def sines(block: Any, ones: Any = ones, passes: int = n // 256) -> None:
            target = np.empty((len(block), 2 * ones.size), dtype=block.dtype)
            for _ in range(passes):
                sincos_rows(block, ones, target)

        seconds = interleave(
            {
                "gemm": lambda square=square, product=product: np.matmul(square, square, out=product),
                "sines": lambda blocks=blocks, sines=sines: list(in_threads(sines, blocks)),
                "write": lambda halves=halves: list(in_threads(lambda half: half.fill(0.0), halves)),
                "map": lambda f=features, X=X, out=out: fourier_map(X, f.frequencies_, f.weights_, out),
                "transform": lambda f=features, X=X, out=out: f.transform(X, out=out),
            },
            repeats,
        )
        peak = seconds["gemm"] * (2 * n * d * m) / (2 * 1536**3) + seconds["sines"] + seconds["write"]
        rows.append(
            {
                "dtype": np.dtype(dtype).name,
                "d": d,
                "M": m,
                "map": peak / seconds["map"],
                "transform(out=)": peak / seconds["transform"],
            }
        )
    return rows


def growth(repeats: int) -> list[Row]:
    """Fit the log-log slopes of the time of `transform` into a given output against n, M and d."""

    def seconds(n: int, d: int, m: int) -> float:
        X = np.random.default_rng(0).standard_normal((n, d))
        features = FourierFeatures(n_frequencies=m, weighting="uniform", sampler="mc", random_state=0).fit(X[:100])
        out = features.transform(X)
        # Short calls are repeated more often, because a few milliseconds are within the noise.
        return interleave({"map": lambda: features.transform(X, out=out)}, max(repeats, 10**8 // out.size))["map"]

    ranges = {
        "n": {n: (n, 54, 256) for n in (10_000, 31_600, 100_000, 316_000, 1_000_000)},
        "M": {m: (40_000, 54, m) for m in (128, 256, 512, 1024, 2048)},
        "d": {d: (8_000, d, 256) for d in (1000, 2000, 4000, 8000)},
    }
    rows = []
    for name, sizes in ranges.items():
        times = [seconds(*size) for size in sizes.values()]
        slope = np.polyfit(np.log(list(sizes)), np.log(times), 1)[0]
        rows.append({"against": name, "from": min(sizes), "to": max(sizes), "slope": float(slope)})
    return rows


def data_sets(folder: Path | None) -> dict[str, tuple[Any, Any]]:
    """Return standardized rows, and 2,000 held-out rows to measure errors on; the digits if the others are missing."""
    tables = {}
    for name in ("adult", "covtype", "cpu", "mnist"):
        if folder is None or not (folder / f"{name}.npz").is_file():
            continue
        with np.load(folder / f"{name}.npz") as archive:
            X = archive["X_train" if "X_train" in archive else "X"]
        tables[name] = X[np.random.default_rng(0).permutation(len(X))[:102_000]].astype(np.float64)
    if not tables:
        tables["digits"] = load_digits().data
    held_out = {name: min(2000, len(X) // 5) for name, X in tables.items()}
    scaled = {name: StandardScaler().fit_transform(X) for name, X in tables.items()}
    return {name: (X[held_out[name] :], X[: held_out[name]]) for name, X in scaled.items()}


class Contest:
    """Several methods on one data set: their kernel errors by width, and the smallest width that reaches an error."""

    def __init__(self, X: Any, test: Any) -> None:
        reference = FourierFeatures(n_frequencies=1, weighting="uniform", random_state=0).fit(X)
        gamma = 0.5 / reference.length_scale_**2
        self.X, self.test, self.exact = X, test, reference.exact_kernel(test)
        self.errors: dict[tuple[str, int], float] = {}
        self.methods: dict[str, Callable[[int, int], Any]] = {
            "RBFSampler": lambda w, seed: RBFSampler(gamma=gamma, n_components=w, random_state=seed),
            "bochner (default)": lambda w, seed: FourierFeatures(n_frequencies=w // 2, random_state=seed),
            "bochner, 1,000 points": lambda w, seed: FourierFeatures(
                n_frequencies=w // 2, weighting=Stein(n_points=1000), random_state=seed
            ),
            "bochner, uniform": lambda w, seed: FourierFeatures(
                n_frequencies=w // 2, weighting="uniform", random_state=seed
            ),
            "bochner, matrix": lambda w, seed: FourierFeatures(
                n_frequencies=4 * w, n_components=w, weighting=Matrix(n_points=1000), random_state=seed
            ),
            "bochner, landmarks": lambda w, seed: LandmarkFeatures(
                length_scale=reference.length_scale_, n_landmarks=w, refine=0, random_state=seed
            ),
            "bochner, refined landmarks": lambda w, seed: LandmarkFeatures(
                length_scale=reference.length_scale_, n_landmarks=w, random_state=seed
            ),
            "Nystroem": lambda w, seed: Nystroem(gamma=gamma, n_components=w, random_state=seed),
        }
        # Fitting weights for more than 4,096 columns takes too long. Nystroem has at most one landmark per row.
        self.max_widths = {"RBFSampler": 2**16, "bochner, uniform": 2**16, "Nystroem": min(len(X), 10_000)}
        self.max_widths["bochner, matrix"] = 512  # as many frequencies as the others have at 4,096 columns

    def error(self, method: str, width: int) -> float:
        """Return the mean kernel error of two seeds."""
        if (method, width) not in self.errors:
            maps = [self.methods[method](width, seed).fit(self.X[:10_000]).transform(self.test) for seed in range(2)]
            errors = [np.linalg.norm(self.exact - Z @ Z.T) / np.linalg.norm(self.exact) for Z in maps]
            self.errors[method, width] = float(np.mean(errors))
        return self.errors[method, width]

    def smallest_width(self, method: str, target: float) -> int | None:
        """Return the smallest width with at most the target error, or None if there is none."""
        return _smallest(lambda width: self.error(method, width) <= target, self.max_widths.get(method, 4096))

    def run(self, method: str, width: int, n_rows: int, n_blocks: int = 1) -> None:
        """Fit on the first rows, and transform them as often as there are blocks of so many rows."""
        rows = self.X[:n_rows]
        features = self.methods[method](width, 0).fit(rows)
        for _ in range(n_blocks):
            features.transform(rows)


def time_to_error(folder: Path | None, repeats: int) -> list[Row]:
    """Time fit and transform at the smallest width with which a method reaches an error on held-out rows."""
    rows = []
    for name, (X, test) in data_sets(folder).items():
        contest = Contest(X, test)
        for target in ERRORS:
            widths = {method: contest.smallest_width(method, target) for method in contest.methods}
            reached = {method: width for method, width in widths.items() if width is not None}
            # The output of the widest competitor must fit into memory; otherwise all of them get fewer rows.
            n = min(len(X), 2**31 // (8 * max(reached.values())))
            seconds = interleave(
                {method: partial(contest.run, method, width, n) for method, width in reached.items()}, repeats
            )
            rows += [
                {
                    "data": name,
                    "error": f"{100 * target:.0f} %",
                    "method": method,
                    "columns": width,
                    "rows": n,
                    "x RBFSampler": seconds["RBFSampler"] / seconds[method],
                }
                for method, width in reached.items()
            ]
    return rows


def _smallest(is_enough: Callable[[int], bool], largest: int) -> int | None:
    """Return the smallest width that is enough, to a quarter of an octave, by doubling from 16 and bisection."""
    widths = [2 * round(8 * 2 ** (k / 4)) for k in range(49)]
    high = next((k for k in range(0, len(widths), 4) if widths[k] <= largest and is_enough(widths[k])), None)
    if high is None:
        return None
    low = max(high - 3, 0)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(widths[middle]) else (middle + 1, high)
    return widths[high]


def fitting(repeats: int) -> list[Row]:
    """Compare the fit of stein weights at M = 1024 with `transform`, and the non-negative solver with SciPy's."""
    rows = []
    for dtype in (np.float64, np.float32):
        X = np.random.default_rng(0).standard_normal((500_000, 54), dtype=dtype)
        features = FourierFeatures(n_frequencies=1024, random_state=0).fit(X[:5000])
        out = np.empty((len(X), 2048), dtype=dtype)
        seconds = interleave(
            {"fit": lambda f=features, X=X: f.fit(X), "map": lambda f=features, X=X, o=out: f.transform(X, out=o)}, 3
        )
        what = f"fit / transform(out=), 500,000 x 54 {np.dtype(dtype).name}, M = 1024"
        rows.append({"what": what, "ratio": seconds["fit"] / seconds["map"]})
        del out
    gram, target = _stein_problem(1024)
    factor = linalg.cholesky(gram + 1e-4 * np.eye(1024))
    whitened = linalg.solve_triangular(factor, target, trans="T")
    seconds = interleave(
        {"ours": lambda: nonnegative_ridge(gram, target, 1e-4), "scipy": lambda: nnls(factor, whitened)}, repeats
    )
    rows.append({"what": "scipy.optimize.nnls / ours, 1024 unknowns", "ratio": seconds["scipy"] / seconds["ours"]})
    return rows


def _stein_problem(m: int) -> tuple[Any, Any]:
    """Return the Gram matrix and target of the stein regression on clustered data, for which many weights are 0."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(5, 20))[rng.integers(5, size=1500)] + 0.2 * rng.normal(size=(1500, 20))) * 0.8 ** np.arange(
        20
    )
    Z = fourier_map(X, rng.normal(size=(m, 20)), np.ones(m))
    squares, forms = np.square(Z.T @ Z), np.einsum("ij,ij->j", Z, Gaussian()(X) @ Z)
    gram = squares[:m, :m] + squares[:m, m:] + squares[m:, :m] + squares[m:, m:]
    return gram / len(X) ** 2, (forms[:m] + forms[m:]) / len(X) ** 2


def linear_models(folder: Path | None) -> list[Row]:
    """Compare the linear models at M = 256 with a grid search over a scikit-learn pipeline, which runs once."""
    X, *rest = _labeled_data(folder, "covtype")
    plain = make_pipeline(RBFSampler(gamma=0.5 / _median(X) ** 2, n_components=512, random_state=0), Ridge())
    search = GridSearchCV(plain, {"ridge__alpha": np.logspace(-8, 4, 25) * len(X)}, cv=5)
    ridge = FeatureRegressor(FourierFeatures(random_state=0))
    rows = [_model_row("FeatureRegressor, 25 alphas, 5 folds", ridge, search, X, *rest)]
    X, *rest = _labeled_data(folder, "adult")
    sampler = RBFSampler(gamma=0.5 / _median(X) ** 2, n_components=512, random_state=0)
    search = GridSearchCV(make_pipeline(sampler, LinearSVC(dual=False)), {"linearsvc__C": np.logspace(-3, 5, 9)}, cv=5)
    svc = FeatureClassifier(FourierFeatures(random_state=0))
    return [*rows, _model_row("FeatureClassifier, 9 values of C, 5 folds", svc, search, X, *rest)]


def wide_ridge(repeats: int) -> list[Row]:
    """Compare fits of wide ridge models with one transform and Gram matrix."""
    X, y, _, _ = _labeled_data(None, "simulated")
    rows = []
    for m in (1024, 2048):
        features = FourierFeatures(n_frequencies=m, random_state=0)
        fitted = FourierFeatures(n_frequencies=m, random_state=0).fit(X)

        def transform_and_gram(fitted: Any = fitted) -> None:
            Z = fitted.transform(X)
            Z.T @ Z

        seconds = interleave(
            {
                "pass": transform_and_gram,
                "fit": lambda features=features: FeatureRegressor(features).fit(X, y),
            },
            repeats,
        )
        rows.append(
            {
                "M": m,
                "rows": len(X),
                "fit, s": seconds["fit"],
                "fit / (transform + Gram)": seconds["fit"] / seconds["pass"],
            }
        )
    return rows


def one_row() -> list[Row]:
    """Compare the prediction of one row with that of a pipeline of RBFSampler and Ridge, call by call in turns."""
    X = np.random.default_rng(0).standard_normal((2000, 54))
    y = np.sin(X[:, 0])
    models = {
        "FeatureRegressor": FeatureRegressor(FourierFeatures(random_state=0)).fit(X, y),
        "RBFSampler, Ridge": make_pipeline(RBFSampler(n_components=512, random_state=0), Ridge()).fit(X, y),
    }
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(5000):
        for name, model in models.items():
            begin = perf_counter()
            model.predict(X[:1])
            seconds[name].append(perf_counter() - begin)
    return [
        {
            "model": name,
            "median, us": 1e6 * median(values),
            "99 of 100 below, us": 1e6 * float(np.quantile(values, 0.99)),
        }
        for name, values in seconds.items()
    ]


def learning(folder: Path | None) -> list[Row]:
    """Measure what learning length scales adds to a ridge fit at M = 256: seconds, and R2 on test rows."""
    X, y, X_test, y_test = _labeled_data(folder, "covtype")
    plain, learned = (
        FeatureRegressor(FourierFeatures(length_scale=scale, random_state=0)) for scale in ("median", "learn")
    )
    seconds = interleave({"plain": lambda: plain.fit(X, y), "learned": lambda: learned.fit(X, y)}, 3)
    return [
        {
            "what": f"FeatureRegressor, {X.shape[0]:,} x {X.shape[1]}",
            "one fit, s": seconds["plain"],
            "learning adds, s": seconds["learned"] - seconds["plain"],
            "learning / one fit": seconds["learned"] / seconds["plain"] - 1.0,
            "R2": plain.score(X_test, y_test),
            "R2, learned": learned.score(X_test, y_test),
        }
    ]


def learning_metric(repeats: int) -> list[Row]:
    """Measure the time of learning a metric relative to that of learning length scales, its start, at M = 256."""
    X = np.random.default_rng(0).standard_normal((20_000, 12))
    y = np.sin(X[:, 0] - X[:, 1]) * X[:, 2] + X[:, 3:6].sum(axis=1)
    features = {name: FourierFeatures(length_scale=name, random_state=0) for name in ("learn", "learn-matrix")}
    seconds = interleave({name: partial(f.find_length_scale, X, y) for name, f in features.items()}, repeats)
    return [
        {
            "what": f"find_length_scale, {X.shape[0]:,} x {X.shape[1]}, M = 256",
            "learn, s": seconds["learn"],
            "learn-matrix, s": seconds["learn-matrix"],
            "learn-matrix / learn": seconds["learn-matrix"] / seconds["learn"],
        }
    ]


def _model_row(name: str, model: Any, search: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> Row:
    fitted = FourierFeatures(random_state=0).fit(X)

    def transform_and_gram() -> None:
        features = fitted.transform(X)
        features.T @ features

    seconds = _around(lambda: search.fit(X, y), {"ours": lambda: model.fit(X, y), "pass": transform_and_gram})
    return {
        "model": name,
        "rows": len(X),
        "seconds": seconds["ours"],
        "x grid search": seconds["search"] / seconds["ours"],
        "/ (transform + Gram)": seconds["ours"] / seconds["pass"],
        "test score": model.score(X_test, y_test),
        "grid search: test score": search.score(X_test, y_test),
    }


def _around(search: Callable[[], Any], actions: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the seconds of one long search, and the medians of the actions measured before and after it."""
    before = interleave(actions, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # liblinear at large C
        begin = perf_counter()
        search()
        seconds = perf_counter() - begin
    after = interleave(actions, 3)
    return {"search": seconds} | {name: (before[name] + after[name]) / 2 for name in actions}


def _median(X: Any) -> float:
    """Return the median distance that `FourierFeatures` uses as its length scale."""
    return float(FourierFeatures(n_frequencies=1, weighting="uniform", random_state=0).fit(X).length_scale_)


def _labeled_data(folder: Path | None, name: str) -> tuple[Any, Any, Any, Any]:
    """Return standardized training and test rows with targets -1 and 1; simulated ones without the folder."""
    if folder is not None and (folder / f"{name}.npz").is_file():
        with np.load(folder / f"{name}.npz") as data:
            if name == "covtype":  # class 2 against the rest; the next rows are the test rows
                parts = (
                    data["X"][:100_000],
                    data["y"][:100_000] == 2,
                    data["X"][100_000:120_000],
                    data["y"][100_000:120_000] == 2,
                )
            else:
                parts = data["X_train"], data["y_train"] > 0, data["X_test"], data["y_test"] > 0
    else:
        X, y = make_classification(24_000, 54, n_informative=10, random_state=0)
        parts = X[:20_000], y[:20_000] > 0, X[20_000:], y[20_000:] > 0
    scaler = StandardScaler().fit(parts[0].astype(np.float64))
    X, X_test = (scaler.transform(part.astype(np.float64)) for part in (parts[0], parts[2]))
    return X, np.where(parts[1], 1.0, -1.0), X_test, np.where(parts[3], 1.0, -1.0)


def memory(tmp: Path) -> list[Row]:
    """Measure the resident memory beyond input and output, in MB (Linux only)."""
    if not Path("/proc/self/status").exists():
        return [{"what": "not measured (needs Linux)", "MB": 0.0}]
    rows = []
    for n in (100_000, 1_000_000):
        X = np.random.default_rng(0).standard_normal((n, 54), dtype=np.float32)
        features = FourierFeatures(n_frequencies=64, weighting="uniform", random_state=0).fit(X[:2000])
        out = features.transform(X)
        extra = _peak_anonymous(lambda f=features, X=X, out=out: f.transform(X, out=out))
        rows.append({"what": f"transform(out=), {n:,} x 54 float32, M = 64", "MB": extra})
    path = tmp / "bench-rows.npy"
    try:
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(500_000, 54))
        for start in range(0, len(X), 50_000):
            X[start : start + 50_000] = np.random.default_rng(start).standard_normal((50_000, 54), dtype=np.float32)
        X = np.load(path, mmap_mode="r")
        features = FourierFeatures(n_frequencies=1024, random_state=0)
        extra = _peak_anonymous(lambda: features.fit(X))
        rows.append({"what": "fit (stein), memory map 500,000 x 54 float32, M = 1024", "MB": extra})
        feature_map = FourierMap(features.frequencies_, features.weights_)
        extra = _peak_anonymous(lambda: add_moments({}, feature_map, X, np.empty((len(X), 0))))
        rows.append({"what": "second moments of these features", "MB": extra})
    finally:
        path.unlink(missing_ok=True)
    return rows


def _peak_anonymous(action: Callable[[], Any]) -> float:
    """Return the growth of the anonymous memory of this process during an action, sampled every few milliseconds."""

    def resident() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0])

    before, peak, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    action()
    done.set()
    watcher.join()
    return (max(peak[0], resident()) - before) / 1024


def start_up() -> list[Row]:
    """Measure the start-up of a new process: importing bochner after scikit-learn, and the first `transform`."""
    code = (
        "from time import perf_counter as t; import numpy as np, sklearn.kernel_approximation; a = t();"
        "import bochner; b = t(); X = np.ones((10, 3));"
        "f = bochner.FourierFeatures(n_frequencies=4, weighting='uniform', length_scale=1.0).fit(X); c = t();"
        "f.transform(X); print(b - a, t() - c)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(4)]
    times = np.median([[float(word) for word in run.stdout.split()] for run in runs[1:]], axis=0)
    return [
        {"what": "import bochner, after scikit-learn", "seconds": float(times[0])},
        {"what": "first transform, with compiled loops cached", "seconds": float(times[1])},
    ]


def draw(figure: Figure, results: dict[str, list[Row]]) -> None:
    """Draw the ratios of `transform` and of the time to 2 % error."""
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.2))
    cases = results["transform"]
    names = [f"{row['sampler']}\nd={row['d']}, M={row['M']}" for row in cases if row["dtype"] == "float64"]
    for i, (dtype, color) in enumerate((("float64", "#1f3a5f"), ("float32", "#c9a227"))):
        heights = [row["x RBFSampler"] for row in cases if row["dtype"] == dtype]
        bars = left.bar(np.arange(len(names)) + 0.4 * i - 0.2, heights, 0.38, label=dtype, color=color)
        left.bar_label(bars, fmt="%.1f", fontsize=8)
    left.axhline(1.0, color="#1b1b1b", linewidth=0.8)
    left.set_xticks(range(len(names)), names, fontsize=8)
    left.set(ylabel="speed relative to RBFSampler", title="transform at equal width")
    left.legend(frameon=False)

    rows = [row for row in results["time to error"] if row["error"] == "2 %" and row["method"] != "RBFSampler"]
    sets, methods = list(dict.fromkeys(row["data"] for row in rows)), list(dict.fromkeys(row["method"] for row in rows))
    for i, method in enumerate(methods):
        ratios = {row["data"]: row["x RBFSampler"] for row in rows if row["method"] == method}
        places = [sets.index(name) + 0.14 * (i - (len(methods) - 1) / 2) for name in ratios]
        style: Any = {"color": BAR_COLORS[i], "edgecolor": "#1b1b1b", "linewidth": 0.5}
        right.bar(places, list(ratios.values()), 0.13, label=method, **style)
    right.axhline(1.0, color="#1b1b1b", linewidth=0.8)
    right.set(yscale="log", title="fit and transform at 2 % kernel error", ylabel="speed relative to RBFSampler")
    right.set_xticks(range(len(sets)), sets)
    right.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
    right.set_ylim(top=3 * right.get_ylim()[1])


def main(
    data: Annotated[
        Path | None, typer.Option(envvar="BOCHNER_DATA", help="Folder with adult, covtype, cpu and mnist as .npz.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for bench.json and bench.png.")] = Path(),
    repeats: Annotated[int, typer.Option(min=1, help="Number of repetitions of each measurement.")] = 7,
    only: Annotated[
        str | None, typer.Option(help="Measure one section, by its name in bench.json, and keep the others.")
    ] = None,
) -> None:
    """Measure and print all sections."""
    sections: dict[str, tuple[str, Callable[[], list[Row]]]] = {
        "transform": ("transform: speed ratios at equal width", lambda: transform(repeats)),
        "landmarks": ("transform of landmark features: speed ratios", lambda: landmark_transform(repeats)),
        "roofline": ("fraction of the roofline (GEMM + sines + write)", lambda: roofline(repeats)),
        "growth": ("growth: log-log slope of the time of transform", lambda: growth(repeats)),
        "start-up": ("start-up of a new process", start_up),
        "fitting": ("fitting", lambda: fitting(repeats)),
        "linear models": ("linear models against a grid search", lambda: linear_models(data)),
        "wide ridge": ("ridge at large width: 25 alphas, 5 folds", lambda: wide_ridge(min(repeats, 3))),
        "one row": ("prediction of one row: microseconds", one_row),
        "learning": ("learned length scales against one ridge fit", lambda: learning(data)),
        "learned metric": ("learned metric against learned length scales", lambda: learning_metric(min(repeats, 3))),
        "memory": ("memory beyond input and output", lambda: memory(output)),
        "time to error": (
            "fit + transform at a given kernel error: speed ratios",
            lambda: time_to_error(data, min(repeats, 3)),
        ),
    }
    if only is not None and only not in sections:
        raise typer.BadParameter(f"{only!r} is not a section; use one of {', '.join(sections)}.", param_hint="--only")
    stored = output / "bench.json"
    results: dict[str, Any] = {}
    if only is not None and stored.exists():
        results = json.loads(stored.read_text(encoding="utf-8"))
    names = list(sections) if only is None else [only]
    for name in track(names, "measuring", console=console, transient=True, disable=not console.is_terminal):
        title, measure = sections[name]
        results[name] = measure()
        show(title, results[name])
    packages = {name: version(name) for name in ("bochner", "numpy", "scipy", "scikit-learn", "numba")}
    about = {"packages": packages, "python": platform.python_version(), "cores": os.cpu_count(), "repeats": repeats}
    stored.write_text(json.dumps(results | {"about": about}, indent=2) + "\n", encoding="utf-8")
    console.print(f"Wrote {stored}", soft_wrap=True)
    if {"transform", "time to error"} <= results.keys():
        figure = Figure(figsize=FIGURE_SIZE, layout="constrained")
        draw(figure, results)
        figure.savefig(output / "bench.png", dpi=120)
        console.print(f"Wrote {output / 'bench.png'}", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
