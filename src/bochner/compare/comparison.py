# SPDX-License-Identifier: BSD-3-Clause
"""The comparison: one fit per method, number of columns and seed, measured one at a time."""

import sys
from collections.abc import Sequence
from functools import partial
from itertools import product
from timeit import repeat, timeit
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn import config_context
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from bochner.compare.methods import METHODS
from bochner.features.fourier_features import FourierFeatures
from bochner.rows import Array, Floats

if TYPE_CHECKING:
    import pandas

__all__ = ["LIMIT", "MANY_ROWS", "compare"]

LIMIT = "SVD limit"  # not a method: the lowest error of any matrix of that rank
MANY_ROWS = 100_000  # transformed rows in the reported times
SIZES = (64, 256)
TEST_ROWS = 1_000
FEWEST_ROWS = 20
TIMED_ROWS = 10_000  # rows in one timed call of `transform`
MOST_WHOLE_NUMBERS = 20  # a target with more distinct whole numbers is a quantity and not a class
ALPHAS = np.logspace(-9.0, 2.0, 23)


def compare(
    X: Any,
    y: Any = None,
    *,
    n_components: Sequence[int] | None = None,
    length_scale: float | None = None,
    n_seeds: int = 2,
    n_train: int = 2_000,
    verbose: int = 0,
) -> "pandas.DataFrame":
    """Measure the errors and times of Fourier features, landmark features and Nystroem on your rows.

    The features approximate the Gaussian kernel. Each seed draws up to 2,000 training rows and up to 1,000 held-out
    rows, on which errors are measured.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, standardized as for a kernel method.
    y : array-like of shape (n_samples,), default=None
        Targets: numbers, or classes. With them, ridge regression on the features is compared, too.
    n_components : sequence of int, default=None
        Numbers of columns to compare at; None means 64 and 256, or fewer than half of few training rows.
    length_scale : float, default=None
        Length scale of the kernel; None means the median distance between rows.
    n_seeds : int, default=2
        Repetitions with other rows and other random numbers.
    n_train : int, default=2000
        Largest number of training rows per fit.
    verbose : int, default=0
        Print a line about each fit to standard error when `verbose` > 0.

    Returns
    -------
    DataFrame
        One line per number of columns and method. `kernel_error` is the relative Frobenius error of the kernel matrix
        of the held-out rows, and `test_error` the share of misclassified rows, or the error of ridge regression
        relative to that of the mean; both are means over the seeds, with standard errors in the columns that end in
        `_se`. `fit_seconds` and `transform_seconds` (of 100,000 rows) are medians, and `call` creates the features. The
        method "SVD limit" is the lowest kernel error that is possible with that number of columns. The attributes
        (`attrs`) have the task, the numbers of rows, columns and seeds, and the length scale.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bochner.compare import compare
    >>> found = compare(load_iris().data, n_components=[8], n_seeds=1)
    >>> found.sort_values("kernel_error")["method"].iloc[0]
    'SVD limit'
    """
    import pandas

    X = check_array(X, dtype=np.float64, ensure_min_samples=FEWEST_ROWS)
    task, y = _recognized(y)
    check_consistent_length(X, y)
    n_test = min(TEST_ROWS, len(X) // 2)
    n_train = min(n_train, len(X) - n_test)
    sizes, scale = _checked_sizes(n_components, n_train), _checked_scale(length_scale, X)
    if n_seeds < 1:
        raise ValueError(f"n_seeds is {n_seeds}; give at least 1.")
    for make in METHODS.values():  # compile all loops, so that no measured time includes it
        make(4, scale, 0).fit(X[:200]).transform(X[:200])
    fits: list[dict[str, Any]] = []
    # All methods with one seed before the next seed, so that a stopped run has printed all of them.
    for seed in range(n_seeds):
        rows = np.random.default_rng(seed).permutation(len(X))[: n_test + n_train]
        split = _Split(X, y, task, train=rows[n_test:], test=rows[:n_test], scale=scale)
        for size, method in product(sizes, (*METHODS, LIMIT)):
            measured = split.limit(size) if method == LIMIT else split.measure(METHODS[method](size, scale, seed))
            fits.append({"n_components": size, "method": method} | measured)
            if verbose > 0:
                place = f"{len(fits)} of {n_seeds * len(sizes) * (len(METHODS) + 1)}"
                error = f"kernel error {100.0 * measured['kernel_error']:.3g} %"
                print(f"{place}: {method}, {size} columns, seed {seed}: {error}", file=sys.stderr, flush=True)
    columns: dict[str, tuple[str, str]] = {}
    for name in ("kernel_error", "test_error") if task else ("kernel_error",):
        columns |= {name: (name, "mean"), f"{name}_se": (name, "sem")}
    columns |= {name: (name, "median") for name in ("fit_seconds", "transform_seconds")} | {"call": ("call", "first")}
    found = pandas.DataFrame(fits).groupby(["n_components", "method"], sort=False).agg(**columns).reset_index()
    found = found.fillna({"call": ""} | {name: 0.0 for name in columns if name.endswith("_se")})  # errors of one seed
    about = {"task": task, "n_rows": X.shape[0], "n_columns": X.shape[1], "n_train": n_train, "n_test": n_test}
    found.attrs = about | {"n_seeds": n_seeds, "length_scale": scale}
    return found


class _Split:
    """Training and held-out rows, and what features are measured by on them."""

    def __init__(self, X: Floats, y: Any, task: str | None, *, train: Array, test: Array, scale: float) -> None:
        self.X_train, self.X_test, self.task = X[train], X[test], task
        self.y_train: Any = None if y is None else y[train]
        self.y_test: Any = None if y is None else y[test]
        self.exact = np.asarray(rbf_kernel(self.X_test, gamma=0.5 / scale**2))
        self.eigenvalues = np.linalg.eigvalsh(self.exact)[::-1]

    def limit(self, size: int) -> dict[str, Any]:
        """Return the lowest kernel error of any matrix of a rank."""
        return {"kernel_error": float(np.linalg.norm(self.eigenvalues[size:]) / np.linalg.norm(self.eigenvalues))}

    def measure(self, features: Any) -> dict[str, Any]:
        """Fit features and return their errors as fractions, and the seconds of fit and of many rows' transform."""
        fit_seconds = timeit(partial(features.fit, self.X_train), number=1)
        many = np.resize(self.X_test, (TIMED_ROWS, self.X_test.shape[1]))
        fastest = min(repeat(partial(features.transform, many), number=1, repeat=3))  # the first warms up the caches
        columns = features.transform(self.X_test)
        measured = {
            "kernel_error": float(np.linalg.norm(self.exact - columns @ columns.T) / np.linalg.norm(self.exact)),
            "fit_seconds": fit_seconds,
            "transform_seconds": fastest * MANY_ROWS / TIMED_ROWS,
        }
        if self.task is not None:
            measured["test_error"] = self._test_error(features.transform(self.X_train), columns)
        with config_context(print_changed_only=True):
            return measured | {"call": " ".join(repr(features.set_params(random_state=None)).split())}

    def _test_error(self, train: Floats, test: Floats) -> float:
        """Return the error of ridge regression on the features: relative to that of the mean, or misclassified rows."""
        if self.task == "classification":
            return 1.0 - float(RidgeClassifierCV(ALPHAS).fit(train, self.y_train).score(test, self.y_test))
        residuals = self.y_test - RidgeCV(ALPHAS).fit(train, self.y_train).predict(test)
        return float(np.linalg.norm(residuals) / np.linalg.norm(self.y_test - np.mean(self.y_train)))


def _checked_sizes(n_components: Sequence[int] | None, n_train: int) -> tuple[int, ...]:
    """Return the numbers of columns in ascending order; by default, those that the rows allow."""
    if n_components is None:
        return tuple(size for size in SIZES if 4 * size <= n_train) or (n_train // 4 * 2,)
    sizes = tuple(sorted(set(n_components)))
    if not sizes or any(size % 2 or not 2 <= size <= n_train for size in sizes):
        reason = "a frequency has two columns, and Nystroem needs one row per column"
        allowed = f"even numbers from 2 to {n_train}, the number of training rows: {reason}"
        raise ValueError(f"n_components is {list(n_components)}; give {allowed}.")
    return sizes


def _checked_scale(length_scale: float | None, X: Floats) -> float:
    """Return the length scale, by default the median distance, rounded so that calls are short."""
    if length_scale is None:
        median = FourierFeatures(n_frequencies=1, weighting="uniform", random_state=0).fit(X).length_scale_
        return float(f"{median:.4g}")
    if not 0.0 < length_scale < np.inf:
        raise ValueError(f"length_scale is {length_scale}; give a positive number, or None for the median.")
    return length_scale


def _recognized(y: Any) -> tuple[Literal["regression", "classification"] | None, Array | None]:
    """Return the task, by the rule of `bochner fit`, and the targets as numbers or integer labels."""
    if y is None:
        return None, None
    y = column_or_1d(y)
    values, labels = np.unique(y, return_inverse=True)
    if len(values) < 2:
        raise ValueError(f"All targets are equal to {values[0]}; give targets that differ, or none.")
    is_number = y.dtype.kind in "iuf"
    if is_number and (len(values) > MOST_WHOLE_NUMBERS or (values != np.round(values)).any()):
        return "regression", check_array(y, ensure_2d=False, dtype=np.float64)
    return "classification", labels
