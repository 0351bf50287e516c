# SPDX-License-Identifier: BSD-3-Clause
"""Runs: studies become trials, and trials become rows, in parallel processes or one at a time."""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from itertools import groupby, product
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics.pairwise import rbf_kernel

from bochner.experiments.datasets import Split
from bochner.experiments.methods import LIMIT, METHODS
from bochner.experiments.predictors import Prediction, classification_error, regression_error
from bochner.experiments.store import Row, Store, Trial
from bochner.experiments.studies import MEDIAN, LengthScale, Study
from bochner.fourier_features import FourierFeatures
from bochner.rows import Floats

__all__ = ["Plan", "check_comparison", "median_distance", "sample", "versions"]

PACKAGES = ("bochner", "numpy", "scipy", "scikit-learn")
TIMED_ROWS = 10_000  # rows in one timed call of `transform`
FEWEST_TARGETS = 10  # training rows that a model can be selected on
MOST_SIZES = 6  # that a figure can separate
SECONDS_PER_TIMING = 0.1  # calls are repeated for at least this long, and the shortest counts


class Plan:
    """The trials of studies on data sets.

    Parameters
    ----------
    studies : iterable of Study
        The studies.
    splits : mapping from str to Split
        The data sets, by the paper's names.
    tuning : Study, default=None
        The study that finds the tuned length scale; it runs first if another study needs that length scale.
    """

    def __init__(self, studies: Iterable[Study], splits: Mapping[str, Split], tuning: Study | None = None) -> None:
        self.studies = list(studies)
        self.splits = dict(splits)
        self.tuning = tuning
        self._fingerprints = {name: _fingerprint(split) for name, split in self.splits.items()}
        self._samples: dict[tuple[Any, ...], Split] = {}
        self._medians: dict[tuple[Any, ...], float] = {}

    def datasets(self, study: Study) -> list[str]:
        """Return the names of the data sets that a study runs on: its own, or all if none of them is here."""
        return [name for name in self.splits if name in study.datasets] or list(self.splits)

    def tuning_trials(self) -> list[Trial]:
        """Return the trials that find the tuned length scale, if a study needs it."""
        tuned = {
            name
            for study in self.studies
            if any(scale.rule == "tuned" for scale in study.length_scales)
            for name in self.datasets(study)
        }
        if not (self.tuning and tuned):
            return []
        return [trial for name in self.splits if name in tuned for trial in self._trials(self.tuning, name, {})]

    def tuned(self, rows: Mapping[Trial, Row]) -> dict[str, float]:
        """Return, for each data set, the smallest length scale whose cross-validated error of MC is the lowest.

        Errors within one standard error over the seeds count as equal. On some data a wider kernel costs nothing, and
        the lowest error alone would often choose a kernel that is all but constant.
        """
        errors: dict[str, dict[float, list[float]]] = {}
        for trial in self.tuning_trials():
            errors.setdefault(trial.dataset, {}).setdefault(trial.length_scale, []).append(rows[trial].cv_error)
        best = {dataset: _smallest_of_lowest(by_scale) for dataset, by_scale in errors.items()}
        return {name: best[split.name] for name, split in self.splits.items() if split.name in best}

    def trials(self, study: Study, tuned: Mapping[str, float]) -> list[Trial]:
        """Return the trials of a study, given the tuned length scales."""
        return [trial for name in self.datasets(study) for trial in self._trials(study, name, tuned)]

    def all_trials(self, tuned: Mapping[str, float]) -> list[Trial]:
        """Return the trials of all studies, given the tuned length scales."""
        return [trial for study in self.studies for trial in self.trials(study, tuned)]

    def _trials(self, study: Study, name: str, tuned: Mapping[str, float]) -> Iterator[Trial]:
        protocols = {method: f"{study.protocol(method)}-{self._fingerprints[name]}" for method in study.methods}
        parts = product(study.sizes(name), study.seeds, study.length_scales, study.methods, study.ratios or (0.0,))
        trials: dict[Trial, None] = {}  # a method without pairs has the same trial at each number of pairs
        for size, seed, scale, method, ratio in parts:
            n_pairs = round(ratio * size) if method in METHODS and METHODS[method].uses_pairs else 0
            value = scale.factor * self._unit(study, name, seed, scale, tuned)
            dataset = self.splits[name].name
            trials[Trial(study.name, dataset, method, size, n_pairs, scale.label, value, seed, protocols[method])] = (
                None
            )
        yield from trials

    def _unit(self, study: Study, name: str, seed: int, scale: LengthScale, tuned: Mapping[str, float]) -> float:
        """Return the length that a length scale is a multiple of."""
        if scale.rule == "grid":
            return 1.0
        if scale.rule == "tuned":
            return tuned[name]
        key = (name, study.n_train, seed) if study.sample_per_seed else (name,)
        if key not in self._medians:
            rows = self.rows(study, name, seed) if study.sample_per_seed else self.splits[name]
            self._medians[key] = median_distance(rows)
        return self._medians[key]

    def rows(self, study: Study, name: str, seed: int) -> Split:
        """Return the rows of a data set that a study uses with a seed."""
        key = (name, study.n_train, study.n_test, seed if study.sample_per_seed else 0)
        if key not in self._samples:  # always the same arrays, so that processes share one copy
            self._samples[key] = sample(self.splits[name], *key[1:])
        return self._samples[key]

    def progress(self, store: Store) -> tuple[int, int]:
        """Return the number of stored trials and the number of all trials."""
        first = self.tuning_trials()
        # Without the tuned length scales no trial at them can be stored; any length scale gives their number.
        known = all(trial in store.rows for trial in first)
        rest = self.all_trials(self.tuned(store.rows) if known else dict.fromkeys(self.splits, 0.0))
        return sum(trial in store.rows for trial in (*first, *rest)), len(first) + len(rest)

    def run(self, store: Store) -> Iterator[int]:
        """Run the trials that are not stored; yield the number of fits whenever some are finished and stored."""
        for find in (self.tuning_trials, lambda: self.all_trials(self.tuned(store.rows))):
            missing = [trial for trial in find() if trial not in store.rows]
            for rows in self._finished(missing):
                store.append(rows)
                yield len(rows)

    def _finished(self, trials: list[Trial]) -> Iterator[list[Row]]:
        """Yield rows as they are finished: one by one for a study that shows times, else job by job."""
        timed = {trial: None for trial in trials if self._study(trial).measure == "comparison"}
        if timed:
            _warm_up(timed, self._inputs(trials)[1])
        for job in self._jobs(timed):
            for row in measure(job, *self._inputs(job)):
                yield [row]
        if jobs := self._jobs(trial for trial in trials if trial not in timed):
            parallel = Parallel(n_jobs=-1, return_as="generator_unordered", max_nbytes="1M")
            yield from parallel(delayed(_measure_all)(job, *self._inputs(job)) for job in jobs)

    def _jobs(self, trials: Iterable[Trial]) -> list[list[Trial]]:
        """Return groups of trials for one process each: those that share an exact kernel, or a single prediction."""

        def group(trial: Trial) -> tuple[Any, ...]:
            kind = self._study(trial).measure
            size = 0 if kind == "comparison" else trial.n_frequencies
            method = trial.method if kind == "prediction" else ""
            return trial.study, trial.dataset, trial.length_scale, trial.seed, size, method

        jobs = [list(job) for _, job in groupby(sorted(trials, key=group), group)]
        return sorted(jobs, key=self._cost, reverse=True)  # the longest first, so that no core idles at the end

    def _cost(self, job: list[Trial]) -> float:
        """Return about how long a job takes, in an arbitrary unit."""
        study, data = self._inputs(job)
        squares = sum(trial.n_frequencies**2 for trial in job)
        if study.measure != "prediction":
            return float(len(data.X_test) * squares)
        n_models = 1 if data.task == "regression" else len(np.unique(data.targets[0]))
        return float(len(data.X_train) * squares * n_models)

    def _inputs(self, job: list[Trial]) -> tuple[Study, Split]:
        study = self._study(job[0])
        return study, self.rows(study, self._name(job[0]), job[0].seed)

    def _study(self, trial: Trial) -> Study:
        return next(study for study in (self.tuning, *self.studies) if study and study.name == trial.study)

    def _name(self, trial: Trial) -> str:
        return next(name for name, split in self.splits.items() if split.name == trial.dataset)


def versions() -> str:
    """Return the versions of Python and of the packages that rows depend on."""
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)])


def median_distance(split: Split) -> float:
    """Return the median distance of the training rows, rounded because it is part of the identity of a trial."""
    reference = FourierFeatures(n_frequencies=1, weighting="uniform", random_state=0).fit(split.X_train)
    return float(f"{reference.length_scale_:.4g}")


def sample(split: Split, n_train: int, n_test: int, seed: int = 0) -> Split:
    """Return at most `n_train` training rows and `n_test` test rows, drawn at random."""

    def draw(most: int, *parts: Any) -> list[Any]:
        n_rows = len(parts[0])
        if n_rows <= most:
            return list(parts)
        rows = np.sort(np.random.default_rng(seed).permutation(n_rows)[:most])
        return [part if part is None else part[rows] for part in parts]

    X_train, y_train = draw(n_train, split.X_train, split.y_train)
    X_test, y_test = draw(n_test, split.X_test, split.y_test)
    return replace(split, X_train=X_train, y_train=y_train, X_test=X_test, y_test=y_test)


def check_comparison(study: Study, data: Split) -> None:
    """Raise an error for data on which a comparison cannot run, before any work."""
    n_rows = min(len(data.X_train), study.n_train)
    sizes = study.sizes(data.name)
    if 2 * max(sizes) > n_rows:
        raise ValueError(
            f"--widths {2 * max(sizes)} is more than the {n_rows} training rows of {data.name}, and Nystroem needs one "
            f"row per column; give at most {n_rows - n_rows % 2}."
        )
    if len(sizes) > MOST_SIZES:
        raise ValueError(f"--widths has {len(sizes)} values; give at most {MOST_SIZES}.")
    if data.task and n_rows < FEWEST_TARGETS:
        raise ValueError(f"{data.name} has {n_rows} training rows; predictions need at least {FEWEST_TARGETS}.")
    for seed in study.seeds if data.task else ():
        if len(np.unique(sample(data, study.n_train, study.n_test, seed).targets[0])) == 1:
            raise ValueError(
                f"The {n_rows} training rows of {data.name} with seed {seed} all have the same target; omit --target, "
                f"or give fewer --seeds."
            )


# From here on, what runs in the process of a job.


class ExactKernel:
    """The Gaussian kernel of the test rows, computed when it is needed."""

    def __init__(self, data: Split, length_scale: float) -> None:
        self.data = data
        self.length_scale = length_scale

    @cached_property
    def matrix(self) -> Floats:
        """The kernel matrix."""
        return np.asarray(rbf_kernel(self.data.X_test, gamma=0.5 / self.length_scale**2))

    @cached_property
    def eigenvalues(self) -> Floats:
        """The eigenvalues of the matrix, the largest first."""
        return np.asarray(np.linalg.eigvalsh(self.matrix)[::-1], dtype=np.float64)

    def error(self, features: Floats) -> float:
        """Return the relative Frobenius error of the inner products of features."""
        return float(np.linalg.norm(self.matrix - features @ features.T) / np.linalg.norm(self.matrix))

    def limit(self, rank: int) -> float:
        """Return the lowest relative error of any matrix of that rank."""
        return float(np.linalg.norm(self.eigenvalues[rank:]) / np.linalg.norm(self.eigenvalues))


def measure(trials: list[Trial], study: Study, data: Split) -> Iterator[Row]:
    """Yield the rows of trials that share the data and the length scale."""
    exact = ExactKernel(data, trials[0].length_scale)
    for trial in trials:
        outcome = MEASURES[study.measure](trial, data, exact)
        seconds = {name: float(f"{value:.4g}") for name, value in outcome.items() if name.endswith("seconds")}
        yield Row(**vars(trial), **(outcome | seconds), versions=versions())


def _measure_all(trials: list[Trial], study: Study, data: Split) -> list[Row]:
    return list(measure(trials, study, data))


def _kernel_outcome(trial: Trial, data: Split, exact: ExactKernel) -> dict[str, Any]:
    features, fit_seconds = _timed(_estimator(trial, data).fit, data.X_train)
    columns, seconds = _timed(features.transform, data.X_test)
    return {
        "kernel_error": exact.error(columns),
        "fit_seconds": fit_seconds,
        "row_seconds": seconds / len(data.X_test),
    }


def _prediction_outcome(trial: Trial, data: Split, exact: ExactKernel) -> dict[str, Any]:
    start = perf_counter()
    features = _estimator(trial, data).fit(data.X_train)
    train = features.transform(data.X_train)
    test, seconds = _timed(features.transform, data.X_test)
    outcome = _predict(train, test, data)._asdict()
    return outcome | {"fit_seconds": perf_counter() - start - seconds, "row_seconds": seconds / len(data.X_test)}


def _weights_outcome(trial: Trial, data: Split, exact: ExactKernel) -> dict[str, Any]:
    features, fit_seconds = _timed(_estimator(trial, data).fit, data.X_train)
    return {"weights": " ".join(f"{weight:.6g}" for weight in features.weights_), "fit_seconds": fit_seconds}


def _comparison_outcome(trial: Trial, data: Split, exact: ExactKernel) -> dict[str, Any]:
    """Measure the kernel error and times, and the test error if there is a target, at the median distance only."""
    if trial.method == LIMIT:
        return {"kernel_error": exact.limit(2 * trial.n_frequencies)}
    features, fit_seconds = _timed(_estimator(trial, data).fit, data.X_train)
    columns = features.transform(data.X_test)
    many = np.resize(data.X_test, (TIMED_ROWS, data.X_test.shape[1]))
    outcome = {
        "kernel_error": exact.error(columns),
        "fit_seconds": fit_seconds,
        "row_seconds": _shortest_seconds(features.transform, many) / TIMED_ROWS,
    }
    if data.task and trial.bandwidth == MEDIAN.label:
        outcome["test_error"] = _predict(features.transform(data.X_train), columns, _centered(data)).test_error
    return outcome


MEASURES: dict[str, Callable[[Trial, Split, ExactKernel], dict[str, Any]]] = {
    "kernel": _kernel_outcome,
    "prediction": _prediction_outcome,
    "weights": _weights_outcome,
    "comparison": _comparison_outcome,
}


def _estimator(trial: Trial, data: Split) -> Any:
    size, scale, seed = trial.n_frequencies, trial.length_scale, trial.seed
    return METHODS[trial.method].estimator(size, scale, seed, data.X_train, trial.n_pairs)


def _predict(train: Floats, test: Floats, data: Split) -> Prediction:
    """Return the errors of a linear model on the features of the training and test rows."""
    y_train, y_test = data.targets
    error = regression_error if data.task == "regression" else classification_error
    return error(train, y_train, test, y_test)


def _centered(data: Split) -> Split:
    """Return the data with the mean of the training targets subtracted, so that errors are relative to that mean."""
    if data.task == "classification":
        return data
    y_train, y_test = data.targets
    return replace(data, y_train=y_train - y_train.mean(), y_test=y_test - y_train.mean())


def _warm_up(trials: Iterable[Trial], data: Split) -> None:
    """Compile the loops of all methods, so that no measured time includes it."""
    X = sample(data, 200, 200).X_train
    for method in dict.fromkeys(trial.method for trial in trials if trial.method != LIMIT):
        METHODS[method].estimator(4, 1.0, 0, X).fit(X).transform(X)


def _timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return the result of a call and the seconds it took."""
    start = perf_counter()
    result = function(*arguments)
    return result, perf_counter() - start


def _shortest_seconds(function: Callable[[Floats], Floats], X: Floats) -> float:
    """Return the seconds of the shortest of at least three calls; the first call warms up the caches."""
    calls = [_timed(function, X)[1] for _ in range(3)]
    while sum(calls) < SECONDS_PER_TIMING:
        calls.append(_timed(function, X)[1])
    return min(calls)


def _smallest_of_lowest(errors: Mapping[float, list[float]]) -> float:
    """Return the smallest key whose mean is within one standard error of the lowest mean."""
    means = {scale: float(np.mean(by_seed)) for scale, by_seed in errors.items()}
    lowest = min(means, key=means.__getitem__)
    n_seeds = len(errors[lowest])
    noise = float(np.std(errors[lowest], ddof=1)) / n_seeds**0.5 if n_seeds > 1 else 0.0
    return min(scale for scale, mean in means.items() if mean <= means[lowest] + noise)


def _fingerprint(split: Split) -> str:
    """Return a few characters that change with the data."""
    digest = sha256()
    for part in (split.X_train, split.y_train, split.X_test, split.y_test):
        if part is not None:
            digest.update(repr((part.shape, part.dtype.str)).encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:8]
