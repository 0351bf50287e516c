# SPDX-License-Identifier: BSD-3-Clause
"""Runs: a study becomes tidy rows, one a fit."""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from itertools import groupby, product
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import Nystroem

from bochner.experiments.datasets import Split
from bochner.experiments.predictors import classification_error, regression_error
from bochner.experiments.store import Row, Store, Trial
from bochner.experiments.studies import BANDWIDTH, METHODS, NYSTROEM, KernelStudy, Study, method_name
from bochner.fourier_features import FourierFeatures
from bochner.rows import Array, Floats

__all__ = [
    "KernelRow",
    "Plan",
    "exact_kernel",
    "median_distance",
    "nystroem",
    "relative_error",
    "run_kernel_study",
    "sample",
    "targets",
    "timed",
    "versions",
]

PACKAGES = ("bochner", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class KernelRow:
    """One fit and its relative kernel error on the test rows."""

    method: str
    n_frequencies: int
    seed: int
    error: float


def run_kernel_study(study: KernelStudy, data: Split) -> Iterator[KernelRow]:
    """Yield the rows of a study as its fits finish, in parallel over processes with BLAS at one thread each."""
    # The largest sizes first: no core idles at the end.
    tasks = sorted(product(study.n_frequencies, study.seeds), reverse=True)
    parallel = Parallel(n_jobs=-1, return_as="generator_unordered")
    for rows in parallel(delayed(_fit_all)(study, data, size, seed) for size, seed in tasks):
        yield from rows


def _fit_all(study: KernelStudy, data: Split, size: int, seed: int) -> list[KernelRow]:
    """Every method at one size and seed; they share the length scale and the exact kernel."""
    reference = FourierFeatures(n_frequencies=1, weighting="uniform", random_state=seed).fit(data.X_train)
    exact = reference.exact_kernel(data.X_test)
    scale = float(reference.length_scale_)
    rows = []
    for sampler, weighting in product(study.samplers, study.weightings):
        features = FourierFeatures(
            length_scale=scale, n_frequencies=size, sampler=sampler, weighting=weighting, random_state=seed
        )
        error = relative_error(exact, features.fit(data.X_train).transform(data.X_test))
        rows.append(KernelRow(method_name(sampler, weighting), size, seed, error))
    landmarks = nystroem(scale, size, seed, len(data.X_train)).fit(data.X_train)
    rows.append(KernelRow(NYSTROEM, size, seed, relative_error(exact, landmarks.transform(data.X_test))))
    return rows


class Plan:
    """The trials of studies on data sets; those that tune the length scale come first, the others wait for them.

    Parameters
    ----------
    studies : list of Study
        What to run.
    splits : mapping from str to Split
        The data sets, by the paper's names.
    """

    def __init__(self, studies: Iterable[Study], splits: Mapping[str, Split], tuning: Study = BANDWIDTH) -> None:
        self.studies = list(studies)
        self.splits = dict(splits)
        self.tuning = tuning
        self._sampled: dict[tuple[str, int, int], Split] = {}
        self.fingerprints = {name: _fingerprint(split) for name, split in self.splits.items()}
        self.medians = {name: median_distance(split) for name, split in self.splits.items()}
        self.n_problems = {split.name: _n_problems(split) for split in self.splits.values()}

    def datasets(self, study: Study) -> list[str]:
        """The study's data sets, or all of the plan if it has none of the study's."""
        return [name for name in self.splits if name in study.datasets] or list(self.splits)

    def tuning_trials(self) -> list[Trial]:
        """The trials that find the length scale in favour of MC, if a study asks for it."""
        wanted = {name for study in self.studies if "tuned" in study.bandwidths for name in self.datasets(study)}
        return [trial for name in self.splits if name in wanted for trial in self._trials(self.tuning, name, {})]

    def tuned(self, rows: Mapping[Trial, Row]) -> dict[str, float]:
        """For every data set the smallest length scale with the lowest cross-validated error of MC, within its noise.

        That is one standard error over the seeds of the lowest. Without, it would often be one at which the kernel is
        all but constant: on some data nothing is lost by widening it.
        """
        errors: dict[str, dict[float, list[float]]] = {}
        for trial in self.tuning_trials():
            errors.setdefault(trial.dataset, {}).setdefault(trial.length_scale, []).append(rows[trial].cv_error)
        best = {dataset: _smallest_good(of_scale) for dataset, of_scale in errors.items()}
        return {name: best[split.name] for name, split in self.splits.items() if split.name in best}

    def trials(self, study: Study, tuned: Mapping[str, float]) -> list[Trial]:
        """The trials of a study."""
        return [trial for name in self.datasets(study) for trial in self._trials(study, name, tuned)]

    def _trials(self, study: Study, name: str, tuned: Mapping[str, float]) -> Iterator[Trial]:
        scales = {"median": self.medians[name]} | ({"tuned": tuned[name]} if name in tuned else {})
        parts = product(study.sizes(name), study.seeds, study.bandwidths, study.methods, study.ratios or (0.0,))
        seen = set()
        protocols = {method: f"{study.protocol(method)}-{self.fingerprints[name]}" for method in study.methods}
        for size, seed, bandwidth, method, ratio in parts:
            label = bandwidth if isinstance(bandwidth, str) else "grid"
            scale = scales[bandwidth] if isinstance(bandwidth, str) else bandwidth
            n_pairs = round(ratio * size) if _counts_pairs(method) else 0
            trial = Trial(
                study.name, self.splits[name].name, method, size, n_pairs, label, scale, seed, protocols[method]
            )
            if trial not in seen:  # a method without pairs is the same at every number of them
                seen.add(trial)
                yield trial

    def split(self, trial: Trial) -> Split:
        """The data set of a trial."""
        return next(split for split in self.splits.values() if split.name == trial.dataset)

    def run(self, store: Store) -> Iterator[float]:
        """Run the trials that the store has not; yield what they cost as they are finished and stored."""
        yield from self._run(self.tuning_trials(), store)
        yield from self._run(self.all_trials(self.tuned(store.rows)), store)

    def total_cost(self) -> float:
        """The sum of what `run` yields; it does not depend on the length scales, which are not known yet."""
        return self.cost([*self.tuning_trials(), *self.all_trials(self.medians)])

    def progress(self, store: Store) -> tuple[int, int]:
        """How many of the trials are stored, and how many there are."""
        first = self.tuning_trials()
        done = all(trial in store.rows for trial in first)
        # While length scales are not known, none of the trials at them can be stored.
        rest = self.all_trials(self.tuned(store.rows) if done else dict.fromkeys(self.splits, 0.0))
        return sum(trial in store.rows for trial in (*first, *rest)), len(first) + len(rest)

    def all_trials(self, tuned: Mapping[str, float]) -> list[Trial]:
        """The trials of all studies."""
        return [trial for study in self.studies for trial in self.trials(study, tuned)]

    def _run(self, trials: list[Trial], store: Store) -> Iterator[float]:
        missing = [trial for trial in trials if trial not in store.rows]
        yield self.cost(trials) - self.cost(missing)
        parallel = Parallel(n_jobs=-1, return_as="generator_unordered", max_nbytes="1M")
        jobs = (delayed(_run_job)(job, self._study(job[0]).measure, self._rows(job[0])) for job in self._jobs(missing))
        for rows in parallel(jobs):
            store.append(rows)
            yield self.cost(rows)

    def cost(self, trials: Iterable[Trial]) -> float:
        """About how long trials take, in an arbitrary unit: for the time left, and to begin with the longest."""
        total = 0.0
        for trial in trials:
            split, width = self.split(trial), 2.0 * trial.n_frequencies
            total += 0.1 + 5e-7 * width**2
            if self._study(trial).measure == "prediction":
                n_rows = min(len(split.X_train), self._study(trial).n_train)
                total += 1e-10 * n_rows * width**2 * self.n_problems[split.name]
        return total

    def _jobs(self, trials: list[Trial]) -> list[list[Trial]]:
        """Trials in the groups that one process runs: kernel errors that share the exact kernel, the longest first."""

        def group(trial: Trial) -> tuple[Any, ...]:
            alone = trial.method if self._study(trial).measure == "prediction" else ""
            return trial.study, trial.dataset, trial.n_frequencies, trial.length_scale, trial.seed, alone

        jobs = [list(job) for _, job in groupby(sorted(trials, key=group), group)]
        return sorted(jobs, key=self.cost, reverse=True)

    def _study(self, trial: Trial) -> Study:
        return next(study for study in (self.tuning, *self.studies) if study.name == trial.study)

    def _rows(self, trial: Trial) -> Split:
        """The rows that a trial uses: all, or the same random ones for every trial."""
        study, split = self._study(trial), self.split(trial)
        key = (split.name, study.n_train, study.n_test)
        if key not in self._sampled:  # the same arrays every time: processes then share one copy
            self._sampled[key] = sample(split, study.n_train, study.n_test)
        return self._sampled[key]


def versions() -> str:
    """What made a row."""
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)])


def _run_job(trials: list[Trial], measure: str, data: Split) -> list[Row]:
    """The rows of trials that share their data and length scale."""
    exact = exact_kernel(data, trials[0].length_scale) if measure == "kernel" else None
    return [MEASURES[measure](trial, data, exact) for trial in trials]


def _kernel_row(trial: Trial, data: Split, exact: Floats) -> Row:
    features, fit_seconds = timed(_features(trial, data.X_train.shape).fit, data.X_train)
    columns, transform_seconds = timed(features.transform, data.X_test)
    return _finished(trial, fit_seconds, transform_seconds, error=relative_error(exact, columns))


def _prediction_row(trial: Trial, data: Split, exact: None) -> Row:
    begin = perf_counter()
    features = _features(trial, data.X_train.shape).fit(data.X_train)
    train = features.transform(data.X_train)
    test, transform_seconds = timed(features.transform, data.X_test)
    error = regression_error if data.task == "regression" else classification_error
    y_train, y_test = targets(data)
    outcome = error(train, y_train, test, y_test)
    fit_seconds = perf_counter() - begin - transform_seconds
    return _finished(trial, fit_seconds, transform_seconds, **outcome._asdict())


def _weights_row(trial: Trial, data: Split, exact: None) -> Row:
    features, fit_seconds = timed(_features(trial, data.X_train.shape).fit, data.X_train)
    weights = " ".join(f"{weight:.6g}" for weight in features.weights_)
    return _finished(trial, fit_seconds, 0.0, weights=weights)


MEASURES: dict[str, Callable[[Trial, Split, Any], Row]] = {
    "kernel": _kernel_row,
    "prediction": _prediction_row,
    "weights": _weights_row,
}


def _finished(trial: Trial, fit_seconds: float, transform_seconds: float, **outcome: Any) -> Row:
    missing = float("nan")
    found: dict[str, Any] = vars(trial) | {"error": missing, "cv_error": missing, "penalty": missing, "weights": ""}
    seconds = {"fit_seconds": round(fit_seconds, 4), "transform_seconds": round(transform_seconds, 4)}
    return Row(**(found | outcome | seconds), versions=versions())


def _features(trial: Trial, shape: tuple[int, ...]) -> BaseEstimator:
    """The trial's map of rows of so many columns to 2 M columns."""
    n_rows, n_columns = shape
    if trial.method == NYSTROEM:
        return nystroem(trial.length_scale, trial.n_frequencies, trial.seed, n_rows)
    method = METHODS[trial.method]
    return FourierFeatures(
        length_scale=trial.length_scale,
        n_frequencies=trial.n_frequencies,
        sampler=method.sampling(n_columns),
        weighting=method.weighing(trial.n_pairs),
        random_state=trial.seed,
    )


def nystroem(length_scale: float, size: int, seed: int, n_rows: int) -> Nystroem:
    """Nystroem with uniformly sampled landmarks, at the same width; more landmarks than rows there cannot be."""
    return Nystroem(gamma=0.5 / length_scale**2, n_components=min(2 * size, n_rows), random_state=seed)


def targets(data: Split) -> tuple[Array, Array]:
    """What the training and the test rows are to predict."""
    if data.y_train is None or data.y_test is None:
        raise ValueError(f"{data.name} has no targets to predict.")
    return data.y_train, data.y_test


def _n_problems(data: Split) -> float:
    """How many times the work of a Gram matrix a model on the data takes, roughly."""
    return 2.0 if data.task == "regression" else 4.0 * max(1, len(np.unique(targets(data)[0])) - 1)


def _counts_pairs(method: str) -> bool:
    return method in METHODS and not isinstance(METHODS[method].weighting, str)


def exact_kernel(data: Split, length_scale: float) -> Floats:
    """The Gaussian kernel of the test rows."""
    reference = FourierFeatures(length_scale=length_scale, n_frequencies=1, weighting="uniform", random_state=0)
    return np.asarray(reference.fit(data.X_test).exact_kernel(data.X_test))


def relative_error(exact: Floats, features: Floats) -> float:
    """Relative Frobenius error of the inner products of features."""
    return float(np.linalg.norm(exact - features @ features.T) / np.linalg.norm(exact))


def _smallest_good(errors: Mapping[float, list[float]]) -> float:
    """The smallest key whose mean is within a standard error of the lowest mean."""
    means = {scale: float(np.mean(of_seeds)) for scale, of_seeds in errors.items()}
    lowest = min(means, key=means.__getitem__)
    n_seeds = len(errors[lowest])
    noise = float(np.std(errors[lowest], ddof=1)) / n_seeds**0.5 if n_seeds > 1 else 0.0
    return min(scale for scale, mean in means.items() if mean <= means[lowest] + noise)


def sample(split: Split, n_train: int, n_test: int, seed: int = 0) -> Split:
    """At most so many rows, drawn at random."""

    def draw(most: int, *parts: Any) -> list[Any]:
        n_rows = len(parts[0])
        if n_rows <= most:
            return list(parts)
        rows = np.sort(np.random.default_rng(seed).permutation(n_rows)[:most])
        return [part if part is None else part[rows] for part in parts]

    X_train, y_train = draw(n_train, split.X_train, split.y_train)
    X_test, y_test = draw(n_test, split.X_test, split.y_test)
    return replace(split, X_train=X_train, y_train=y_train, X_test=X_test, y_test=y_test)


def median_distance(split: Split) -> float:
    """The median distance of the training rows, in few digits: it is part of a row's identity."""
    reference = FourierFeatures(n_frequencies=1, weighting="uniform", random_state=0).fit(split.X_train)
    return float(f"{reference.length_scale_:.4g}")


def _fingerprint(split: Split) -> str:
    """A few letters that change with the data."""
    digest = sha256()
    for part in (split.X_train, split.y_train, split.X_test, split.y_test):
        if part is not None:
            digest.update(repr((part.shape, part.dtype.str)).encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:8]


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """What a function returns, and the seconds it takes."""
    begin = perf_counter()
    result = function(*arguments)
    return result, perf_counter() - begin
