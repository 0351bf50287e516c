# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons: ways to make a number of columns, measured one after the other, and the one to use, in sentences."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import nan
from typing import Any, Self
from warnings import catch_warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem

from bochner.experiments.datasets import Split
from bochner.experiments.findings import percent
from bochner.experiments.predictors import classification_error, regression_error
from bochner.experiments.run import exact_kernel, median_distance, nystroem, relative_error, sample, targets, timed
from bochner.experiments.studies import KMEANS_NYSTROEM, LIMIT, NYSTROEM, RECIPES, ComparisonStudy
from bochner.fourier_features import FourierFeatures
from bochner.rows import Floats, distinct_rows

__all__ = ["MANY_ROWS", "Comparison", "KMeansNystroem", "Measurement", "check", "measure"]

TIMED_ROWS = 10_000  # that the time of a transform is measured on
MOMENT_SECONDS = 0.1  # longer than another process holds a core
MANY_ROWS = 100_000  # that it is told for
ROUNDING = 1e-9  # errors below are none
SETTLED = 1.1  # times the lowest error counts as the lowest
FEWEST_TARGETS = 10  # training rows that a model can be chosen on
MOST_WIDTHS = 6  # that a figure tells apart


@dataclass(frozen=True)
class Measurement:
    """One fit: its relative kernel error on the held-out rows, its times, and the test error of a linear model on it.

    The test error is measured at the median distance alone, and NaN elsewhere, as are the times of the limit.
    """

    method: str
    width: int
    factor: float
    seed: int
    length_scale: float
    error: float
    fit_seconds: float = nan
    row_seconds: float = nan
    test_error: float = nan


class KMeansNystroem(Nystroem):
    """Nystroem whose landmarks are the centres of clusters instead of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.experiments.comparison import KMeansNystroem
    >>> features = KMeansNystroem(gamma=0.5, n_components=2, random_state=0)
    >>> _ = features.fit(np.array([[0.0], [1.0], [10.0], [11.0]]))
    >>> sorted(features.components_.ravel().tolist())
    [0.5, 10.5]
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the centres, and fit on them."""
        clusters = KMeans(self.n_components, n_init=1, random_state=self.random_state)
        with catch_warnings(action="ignore", category=ConvergenceWarning):  # two centres may be one to rounding
            centres = clusters.fit(X).cluster_centers_
        super().fit(centres)
        return self


def check(study: ComparisonStudy, data: Split) -> None:
    """Refuse what the data cannot serve, before any work."""
    n_rows = min(len(data.X_train), study.n_rows)
    for width in study.widths:
        if width < 2 or width % 2:
            raise ValueError(f"--widths {width} must be even and at least 2: a frequency makes two columns.")
        if width > n_rows:
            raise ValueError(
                f"--widths {width} is more than the {n_rows} training rows of {data.name}, and Nystroem needs one a "
                f"column; give at most {n_rows - n_rows % 2}."
            )
    if len(study.widths) > MOST_WIDTHS:
        raise ValueError(f"--widths has {len(study.widths)} values; give at most {MOST_WIDTHS}.")
    if data.task is None:
        return
    if n_rows < FEWEST_TARGETS:
        raise ValueError(f"{data.name} has {n_rows} training rows; at least {FEWEST_TARGETS} are needed to predict.")
    for seed in study.seeds:
        if len(np.unique(targets(sample(data, study.n_rows, study.n_rows, seed))[0])) == 1:
            raise ValueError(
                f"The {n_rows} training rows of {data.name} with seed {seed} have one and the same target: there is "
                f"nothing to learn; leave out --target, or give fewer --seeds."
            )


def measure(study: ComparisonStudy, data: Split) -> Iterator[Measurement]:
    """Yield the measurements as they are made, one fit after the other in this process, because times are shown."""
    _warm_up(study, data)
    for seed in study.seeds:
        drawn = sample(data, study.n_rows, study.n_rows, seed)
        median = median_distance(drawn)
        for factor in study.factors:
            scale = factor * median
            exact = exact_kernel(drawn, scale)
            values = np.linalg.eigvalsh(exact)[::-1]
            for width in study.widths:
                limit = float(np.linalg.norm(values[width:]) / np.linalg.norm(values))
                yield Measurement(LIMIT, width, factor, seed, scale, limit)
                for method in study.methods:
                    features = _features(method, width, scale, seed, drawn.X_train)
                    outcome = _outcome(features, drawn, exact, predicts=factor == 1.0)
                    yield Measurement(method, width, factor, seed, scale, **outcome)


def _warm_up(study: ComparisonStudy, data: Split) -> None:
    """Compile the loops, which happens when they are first run, so that no time has it in it."""
    few = sample(data, 200, 200).X_train
    for method in study.methods:
        _features(method, 8, 1.0, 0, few).fit(few).transform(few)


def _features(method: str, width: int, length_scale: float, seed: int, X: Floats) -> BaseEstimator:
    """The method's map of rows to so many columns, not yet fitted."""
    if method in RECIPES:
        return FourierFeatures(length_scale=length_scale, random_state=seed, **RECIPES[method].settings(width))
    uniform = nystroem(length_scale, width // 2, seed, len(X))
    if method == NYSTROEM:
        return uniform
    n_different = len(distinct_rows(X, None)[0])
    return KMeansNystroem(gamma=uniform.gamma, n_components=min(width, n_different), random_state=seed)


def _outcome(features: BaseEstimator, data: Split, exact: Floats, *, predicts: bool) -> dict[str, float]:
    _, fit_seconds = timed(features.fit, data.X_train)
    columns = features.transform(data.X_test)
    many = np.resize(data.X_test, (TIMED_ROWS, data.X_test.shape[1]))
    return {
        "error": relative_error(exact, columns),
        "fit_seconds": fit_seconds,
        "row_seconds": _shortest_call(features.transform, many) / TIMED_ROWS,
        "test_error": _test_error(features.transform(data.X_train), columns, data) if predicts and data.task else nan,
    }


def _shortest_call(function: Callable[[Floats], Floats], X: Floats) -> float:
    """Seconds of the least disturbed of three calls, or of as many as a moment holds; the first one warms up."""
    calls = [timed(function, X)[1] for _ in range(3)]
    while sum(calls) < MOMENT_SECONDS:
        calls.append(timed(function, X)[1])
    return min(calls)


def _test_error(train: Floats, test: Floats, data: Split) -> float:
    """Share of wrong labels; of a regression, the norm of the residuals over that of the distances to the mean."""
    y_train, y_test = targets(data)
    if data.task == "classification":
        return classification_error(train, y_train, test, y_test).error
    return regression_error(train, y_train - y_train.mean(), test, y_test - y_train.mean()).error


class Comparison:
    """The measurements of a study, and what they say.

    Parameters
    ----------
    study : ComparisonStudy
        What was compared.
    data : Split
        What it was measured on.
    rows : iterable of Measurement
        One a method, width, length scale and seed.
    """

    def __init__(self, study: ComparisonStudy, data: Split, rows: Iterable[Measurement]) -> None:
        self.study = study
        self.data = data
        self.n_train, self.n_test = (min(len(X), study.n_rows) for X in (data.X_train, data.X_test))
        self._found: dict[tuple[str, int, float], list[Measurement]] = {}
        for row in rows:
            self._found.setdefault((row.method, row.width, row.factor), []).append(row)

    def of(self, field: str, method: str, width: int, factor: float = 1.0) -> Floats:
        """A field of the measurements (n_seeds,)."""
        return np.array([getattr(row, field) for row in self._found[method, width, factor]])

    def error(self, method: str, width: int, factor: float = 1.0) -> float:
        """Mean kernel error."""
        return float(self.of("error", method, width, factor).mean())

    def seconds(self, method: str, width: int, factor: float = 1.0) -> float:
        """What the fit and the transform of many rows take, from the measured time a row; the median of the seeds."""
        fit, row = (self.of(field, method, width, factor) for field in ("fit_seconds", "row_seconds"))
        return float(np.median(fit + MANY_ROWS * row))

    def choice(self, width: int, factor: float = 1.0) -> str:
        """The method to use: of those whose error is within 10 % of the lowest, the one that takes the least time.

        A wider margin would give away what a slower map buys; none at all would pay for the noise of a few seeds.
        """
        lowest = min(self.error(method, width, factor) for method in self.study.methods)
        good: dict[float, str] = {}  # of methods that came out the same, the first: a slower way to it gains nothing
        for method in self.study.methods:
            error = self.error(method, width, factor)
            if error <= max(SETTLED * lowest, ROUNDING):
                good.setdefault(round(error, 12), method)
        return min(good.values(), key=lambda method: self.seconds(method, width, factor))

    def recommendation(self) -> list[str]:
        """The choice at the largest width and the median distance, in a sentence with the numbers; others follow it.

        The method is put beside the best of the other kind: Fourier features beside Nystroem, Nystroem beside Fourier
        features. Then comes the lowest error, if neither of the two has it, what the choice is at the other length
        scales, and how a linear model on the columns does, if there is a target.
        """
        width = self.study.widths[-1]
        chosen = self.choice(width)
        others = [method for method in self.study.methods if (method in RECIPES) != (chosen in RECIPES)]
        rival, best = (min(of, key=lambda method: self.error(method, width)) for of in (others, self.study.methods))
        told = [
            f"Use {self._call(chosen, width)}: {_share(self.error(chosen, width))} error at {width} columns against "
            f"{_share(self.error(rival, width))} for {rival}; to fit on {self.n_train:,} rows and transform "
            f"{MANY_ROWS:,} it takes about {_duration(self.seconds(chosen, width))} where {rival} takes "
            f"{_duration(self.seconds(rival, width))}."
        ]
        if best not in (chosen, rival) and _share(self.error(best, width)) != _share(self.error(chosen, width)):
            told.append(f"The lowest error is that of {best}: {self._told(best, width)}.")
        return [*told, *self._elsewhere(chosen, width), *self._predictions(chosen, width)]

    def _call(self, method: str, width: int) -> str:
        """What to write in a program; the length scale is the median distance."""
        if method in RECIPES:
            return RECIPES[method].call(width)
        gamma = 0.5 / float(self.of("length_scale", method, width).mean()) ** 2
        fitted = f" fitted on the centres of {width} k-means clusters" if method == KMEANS_NYSTROEM else ""
        return f"scikit-learn's Nystroem(gamma={gamma:.3g}, n_components={width}){fitted}"

    def _elsewhere(self, chosen: str, width: int) -> list[str]:
        """What the same rule says at the other length scales."""
        choices = {factor: self.choice(width, factor) for factor in self.study.factors if factor != 1.0}
        same = [f"{factor:g}" for factor, method in choices.items() if method == chosen]
        told = [f"At {' and '.join(same)} times the median distance the choice is the same."] if same else []
        for factor, method in choices.items():
            if method != chosen:
                this, that = (self._told(of, width, factor) for of in (method, chosen))
                told.append(f"At {factor:g} times the median distance it is {method}: {this} against {that}.")
        return told

    def _told(self, method: str, width: int, factor: float = 1.0) -> str:
        return f"{_share(self.error(method, width, factor))} in {_duration(self.seconds(method, width, factor))}"

    def _predictions(self, chosen: str, width: int) -> list[str]:
        if self.data.task is None:
            return []
        errors = {method: float(self.of("test_error", method, width).mean()) for method in self.study.methods}
        best = min(errors, key=errors.__getitem__)
        lead = f"A linear model on its columns has a test error of {_share(errors[chosen])}"
        if errors[best] == errors[chosen]:
            return [f"{lead}, the lowest of all."]
        return [f"{lead}; the lowest is that of {best}, {_share(errors[best])}."]

    def table(self, width: int) -> tuple[list[str], list[list[str]], set[tuple[int, int]]]:
        """Titles, lines of a method each, and the places of the lowest errors; the limit is the last line."""
        factors = self.study.factors
        head = [f"{width} columns", *(f"{factor:g} x median" for factor in factors), "fit, s", "µs a row"]
        lines = [self._line(method, width) for method in (*self.study.methods, LIMIT)]
        columns = [[self.error(method, width, factor) for method in self.study.methods] for factor in factors]
        bold = {(int(np.argmin(errors)), column) for column, errors in enumerate(columns, 1)}
        if self.data.task:
            head.append("test error")
            errors = [self.of("test_error", method, width).mean() for method in self.study.methods]
            bold.add((int(np.argmin(errors)), len(head) - 1))
        return head, lines, bold

    def _line(self, method: str, width: int) -> list[str]:
        errors = [percent(self.of("error", method, width, factor)) for factor in self.study.factors]
        if method == LIMIT:
            return [method, *errors, *([""] * (3 if self.data.task else 2))]
        fit, row = (float(np.median(self.of(field, method, width))) for field in ("fit_seconds", "row_seconds"))
        predicted = [percent(self.of("test_error", method, width))] if self.data.task else []
        return [method, *errors, f"{fit:.3f}", f"{1e6 * row:.2f}", *predicted]


def _share(value: float) -> str:
    return f"{100.0 * value:.3g} %"


def _duration(seconds: float) -> str:
    if seconds < 10.0:
        return f"{seconds:.2g} s"
    return f"{seconds:.0f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} min"
