# SPDX-License-Identifier: BSD-3-Clause
"""The comparison: one fit per method, number of columns and seed, measured one at a time."""

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import product
from math import nan
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn import config_context
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from bochner.compare.methods import METHODS
from bochner.features.fourier_features import FourierFeatures
from bochner.progress import show_progress, track
from bochner.rows import Array, Floats

if TYPE_CHECKING:
    import pandas

__all__ = ["LIMIT", "MANY_ROWS", "Comparison", "compare"]

LIMIT = "SVD limit"  # not a method: the lowest error of any matrix of that rank
MANY_ROWS = 100_000  # transformed rows in the reported times
SIZES = (64, 256)
TEST_ROWS = 1_000
FEWEST_ROWS = 20
TIMED_ROWS = 10_000  # rows in one timed call of `transform`
MOST_WHOLE_NUMBERS = 20  # a target with more distinct whole numbers is a quantity and not a class
ALPHAS = np.logspace(-9.0, 2.0, 23)


class Comparison:
    """All methods on the same rows, at the same numbers of columns.

    Parameters
    ----------
    X, y, n_components, length_scale, n_seeds
        As in `compare`.
    n_train : int, default=2000
        Largest number of training rows per fit.

    Attributes
    ----------
    task : {"regression", "classification"} or None
        The kind of targets.
    sizes : tuple of int
        The numbers of columns.
    length_scale : float
        The length scale of the Gaussian kernel.
    trials : list of (int, int, str)
        Seed, number of columns and method of each fit, in the order of the work.
    fits : list of dict
        What is measured so far.
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        n_components: Sequence[int] | None = None,
        length_scale: float | None = None,
        n_seeds: int = 2,
        n_train: int = 2_000,
    ) -> None:
        self.X: Floats = check_array(X, dtype=np.float64, ensure_min_samples=FEWEST_ROWS)
        self.task, self.y = _recognized(y)
        check_consistent_length(self.X, self.y)
        self.n_test = min(TEST_ROWS, len(self.X) // 2)
        self.n_train = min(n_train, len(self.X) - self.n_test)
        self.sizes = _checked_sizes(n_components, self.n_train)
        if n_seeds < 1:
            raise ValueError(f"n_seeds is {n_seeds}; give at least 1.")
        if length_scale is None:
            median = FourierFeatures(n_frequencies=1, weighting="uniform", random_state=0).fit(self.X).length_scale_
            length_scale = float(f"{median:.4g}")
        elif not 0.0 < length_scale < np.inf:
            raise ValueError(f"length_scale is {length_scale}; give a positive number, or None for the median.")
        self.length_scale, self.n_seeds = length_scale, n_seeds
        # All methods with one seed before the next seed, so that a stopped run has compared all of them.
        self.trials = list(product(range(n_seeds), self.sizes, (*METHODS, LIMIT)))
        self.fits: list[dict[str, Any]] = []

    def run(self) -> Iterator[dict[str, Any]]:
        """Measure all fits, one at a time."""
        for make in METHODS.values():  # compile all loops, so that no measured time includes it
            make(4, self.length_scale, 0).fit(self.X[:200]).transform(self.X[:200])
        split: _Split | None = None
        for seed, size, method in self.trials:
            if split is None or split.seed != seed:
                split = _Split(self, seed)
            self.fits.append({"n_components": size, "method": method, "seed": seed} | split.measure(method, size))
            yield self.fits[-1]

    def results(self) -> "pandas.DataFrame":
        """Return means over the seeds so far with standard errors (`_se`), by number of columns and method."""
        import pandas

        columns: dict[str, tuple[str, str]] = {}
        errors = ["kernel_error", "test_error"] if self.task else ["kernel_error"]
        for name in errors:
            columns |= {name: (name, "mean"), f"{name}_se": (name, "sem")}
        columns |= {name: (name, "median") for name in ("fit_seconds", "transform_seconds")}
        groups = pandas.DataFrame(self.fits).groupby(["n_components", "method"], sort=False)
        found = groups.agg(**columns, call=("call", "first")).reset_index()
        return found.fillna({f"{name}_se": 0.0 for name in errors})  # of one seed


class _Split:
    """Training and held-out rows of a seed, and what a fit on them is measured by."""

    def __init__(self, comparison: Comparison, seed: int) -> None:
        self.seed, self.scale, self.task = seed, comparison.length_scale, comparison.task
        order = np.random.default_rng(seed).permutation(len(comparison.X))
        test, train = np.split(order[: comparison.n_test + comparison.n_train], [comparison.n_test])
        self.X_train, self.X_test = comparison.X[train], comparison.X[test]
        self.y = None if comparison.y is None else (comparison.y[train], comparison.y[test])
        self.exact = np.asarray(rbf_kernel(self.X_test, gamma=0.5 / self.scale**2))
        self.eigenvalues = np.linalg.eigvalsh(self.exact)[::-1]

    def measure(self, method: str, size: int) -> dict[str, Any]:
        """Fit a method and return its errors as fractions, and the seconds of fit and of many rows' transform."""
        seconds = {"fit_seconds": nan, "transform_seconds": nan}
        if method == LIMIT:
            error = np.linalg.norm(self.eigenvalues[size:]) / np.linalg.norm(self.eigenvalues)
            return {"kernel_error": float(error), "test_error": nan, **seconds, "call": ""}
        features = METHODS[method](size, self.scale, self.seed)
        seconds["fit_seconds"] = _seconds(features.fit, self.X_train)
        columns = features.transform(self.X_test)
        many = np.resize(self.X_test, (TIMED_ROWS, self.X_test.shape[1]))
        fastest = min(_seconds(features.transform, many) for _ in range(3))  # the first call warms up the caches
        seconds["transform_seconds"] = fastest * MANY_ROWS / TIMED_ROWS
        error = np.linalg.norm(self.exact - columns @ columns.T) / np.linalg.norm(self.exact)
        test_error = self._test_error(features.transform(self.X_train), columns)
        with config_context(print_changed_only=True):
            call = " ".join(repr(features.set_params(random_state=None)).split())
        return {"kernel_error": float(error), "test_error": test_error, **seconds, "call": call}

    def _test_error(self, train: Floats, test: Floats) -> float:
        """Return the error of ridge regression on the features: relative to that of the mean, or misclassified rows."""
        if self.y is None:
            return nan
        y_train, y_test = self.y
        if self.task == "classification":
            return float(np.mean(RidgeClassifierCV(ALPHAS).fit(train, y_train).predict(test) != y_test))
        residuals = y_test - RidgeCV(ALPHAS).fit(train, y_train).predict(test)
        return float(np.linalg.norm(residuals) / np.linalg.norm(y_test - y_train.mean()))


def compare(
    X: Any,
    y: Any = None,
    *,
    n_components: Sequence[int] | None = None,
    length_scale: float | None = None,
    n_seeds: int = 2,
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
    verbose : int, default=0
        Show a progress bar when `verbose` > 0 and the output is a terminal.

    Returns
    -------
    DataFrame
        One line per number of columns and method. `kernel_error` is the relative Frobenius error of the kernel matrix
        of the held-out rows, and `test_error` the share of misclassified rows, or the error of ridge regression
        relative to that of the mean; both are means over the seeds, with standard errors in the columns that end in
        `_se`. `fit_seconds` and `transform_seconds` (of 100,000 rows) are medians, and `call` creates the features. The
        method "SVD limit" is the lowest kernel error that is possible with that number of columns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bochner.compare import compare
    >>> found = compare(load_iris().data, n_components=[8], n_seeds=1)
    >>> found.sort_values("kernel_error")["method"].iloc[0]
    'SVD limit'
    """
    if find_spec("pandas") is None:
        raise ImportError("`compare` returns a data frame, which needs pandas: pip install pandas.")
    comparison = Comparison(X, y, n_components=n_components, length_scale=length_scale, n_seeds=n_seeds)
    with show_progress(verbose):
        for _ in track(comparison.run(), "fitting", len(comparison.trials)):
            pass
    return comparison.results()


def _seconds(function: Callable[[Floats], Any], X: Floats) -> float:
    """Return the seconds that a call takes."""
    start = perf_counter()
    function(X)
    return perf_counter() - start


def _checked_sizes(n_components: Sequence[int] | None, n_train: int) -> tuple[int, ...]:
    """Return the numbers of columns in ascending order; by default, those that the rows allow."""
    if n_components is None:
        return tuple(size for size in SIZES if 4 * size <= n_train) or (n_train // 4 * 2,)
    sizes = tuple(sorted(set(n_components)))
    if not sizes or any(size % 2 or not 2 <= size <= n_train for size in sizes):
        raise ValueError(
            f"n_components is {list(n_components)}; give even numbers from 2 to {n_train}, the number of training "
            f"rows: a frequency has two columns, and Nystroem needs one row per column."
        )
    return sizes


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
