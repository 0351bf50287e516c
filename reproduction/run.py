# SPDX-License-Identifier: BSD-3-Clause
"""Runs: studies become trials, and trials become rows, in parallel processes or one at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from itertools import groupby, product
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics.pairwise import rbf_kernel

from bochner import FourierFeatures
from bochner.pages import versions
from bochner.rows import Floats
from reproduction.datasets import Split
from reproduction.methods import METHODS
from reproduction.predictors import Prediction, classification_error, regression_error
from reproduction.store import Row, Store, Trial
from reproduction.studies import LengthScale, Study

__all__ = ["Plan", "median_distance", "sample"]


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
        self._samples: dict[tuple[str, int, int], Split] = {}
        self._medians: dict[str, float] = {}

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
            n_pairs = round(ratio * size) if METHODS[method].uses_pairs else 0
            value = scale.factor * self._unit(name, scale, tuned)
            dataset = self.splits[name].name
            trials[Trial(study.name, dataset, method, size, n_pairs, scale.label, value, seed, protocols[method])] = (
                None
            )
        yield from trials

    def _unit(self, name: str, scale: LengthScale, tuned: Mapping[str, float]) -> float:
        """Return the length that a length scale is a multiple of."""
        if scale.rule == "grid":
            return 1.0
        if scale.rule == "tuned":
            return tuned[name]
        if name not in self._medians:
            self._medians[name] = median_distance(self.splits[name])
        return self._medians[name]

    def rows(self, study: Study, name: str) -> Split:
        """Return the rows of a data set that a study uses."""
        key = (name, study.n_train, study.n_test)
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
        """Yield rows job by job, as they are finished."""
        if jobs := self._jobs(trials):
            parallel = Parallel(n_jobs=-1, return_as="generator_unordered", max_nbytes="1M")
            yield from parallel(delayed(measure)(job, *self._inputs(job)) for job in jobs)

    def _jobs(self, trials: Iterable[Trial]) -> list[list[Trial]]:
        """Return groups of trials for one process each: those that share an exact kernel, or a single prediction."""

        def group(trial: Trial) -> tuple[Any, ...]:
            method = trial.method if self._study(trial).measure == "prediction" else ""
            return trial.study, trial.dataset, trial.length_scale, trial.seed, trial.n_frequencies, method

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
        return study, self.rows(study, self._name(job[0]))

    def _study(self, trial: Trial) -> Study:
        return next(study for study in (self.tuning, *self.studies) if study and study.name == trial.study)

    def _name(self, trial: Trial) -> str:
        return next(name for name, split in self.splits.items() if split.name == trial.dataset)


def median_distance(split: Split) -> float:
    """Return the median distance of the training rows, rounded because it is part of the identity of a trial."""
    reference = FourierFeatures(n_frequencies=1, weighting="uniform", random_state=0).fit(split.X_train)
    return float(f"{reference.length_scale_:.4g}")


def sample(split: Split, n_train: int, n_test: int) -> Split:
    """Return at most `n_train` training rows and `n_test` test rows, drawn at random."""

    def draw(most: int, *parts: Any) -> list[Any]:
        n_rows = len(parts[0])
        if n_rows <= most:
            return list(parts)
        rows = np.sort(np.random.default_rng(0).permutation(n_rows)[:most])
        return [part if part is None else part[rows] for part in parts]

    X_train, y_train = draw(n_train, split.X_train, split.y_train)
    X_test, y_test = draw(n_test, split.X_test, split.y_test)
    return replace(split, X_train=X_train, y_train=y_train, X_test=X_test, y_test=y_test)


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

    def error(self, features: Floats) -> float:
        """Return the relative Frobenius error of the inner products of features."""
        return float(np.linalg.norm(self.matrix - features @ features.T) / np.linalg.norm(self.matrix))


def measure(trials: list[Trial], study: Study, data: Split) -> list[Row]:
    """Return the rows of trials that share the data and the length scale."""
    exact, rows = ExactKernel(data, trials[0].length_scale), []
    for trial in trials:
        outcome = MEASURES[study.measure](trial, data, exact)
        seconds = {name: float(f"{value:.4g}") for name, value in outcome.items() if name.endswith("seconds")}
        rows.append(Row(**vars(trial), **(outcome | seconds), versions=versions()))
    return rows


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


MEASURES: dict[str, Callable[[Trial, Split, ExactKernel], dict[str, Any]]] = {
    "kernel": _kernel_outcome,
    "prediction": _prediction_outcome,
    "weights": _weights_outcome,
}


def _estimator(trial: Trial, data: Split) -> Any:
    size, scale, seed = trial.n_frequencies, trial.length_scale, trial.seed
    return METHODS[trial.method].estimator(size, scale, seed, data.X_train, trial.n_pairs)


def _predict(train: Floats, test: Floats, data: Split) -> Prediction:
    """Return the errors of a linear model on the features of the training and test rows."""
    y_train, y_test = data.targets
    error = regression_error if data.task == "regression" else classification_error
    return error(train, y_train, test, y_test)


def _timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return the result of a call and the seconds it took."""
    start = perf_counter()
    result = function(*arguments)
    return result, perf_counter() - start


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
