# SPDX-License-Identifier: BSD-3-Clause
"""Trials of settings: the training on a table, cross-validated on a bounded sample of its rows.

The encoding, the features and the learned length scales of a fold are fitted without its validation rows, unlike the
folds within one fit, which choose only the penalty.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from bochner.progress import hide_progress
from bochner.rows import Array, Floats, Indices, MemoryRows, Scaling
from bochner.scaling import LearnedLengthScales, LearnedMetric
from bochner.scaling.learned_scales import LabeledRows, LearningResult
from bochner.table_models.intervals import order_statistics
from bochner.table_models.settings import Settings
from bochner.tables.columns import import_pyarrow
from bochner.tables.reader import Table
from bochner.tables.survey import Sample, Survey

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FEWEST_ROWS", "MOST_ROWS", "N_FOLDS", "Trial", "TrialRows", "margin"]

N_FOLDS = 5
MOST_ROWS = 4_000  # rows that settings are compared on
FEWEST_ROWS = 50  # with fewer rows, the errors of folds differ too much to choose by them


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and their cross-validated errors.

    Attributes
    ----------
    settings : Settings
        The settings, none of them free.
    measure : {"rmse", "error_rate"}
        What the errors are: root mean squared errors of a regression, or shares of misclassified rows.
    errors : list of float
        The error on each fold of a model that was fitted on the other folds.
    seconds : float
        Seconds that the trial took.
    feature_seconds, solve_seconds : float
        Seconds per fold to fit the features, including those of learned length scales that another trial had learned,
        and to solve.
    chosen : bool
        Whether these settings were chosen.
    residuals : ndarray of shape (n_residuals,) or None
        For a regression, the sorted residuals of the validation rows, relative to their standard deviations.
    """

    settings: Settings
    measure: str
    errors: list[float]
    seconds: float
    feature_seconds: float
    solve_seconds: float
    chosen: bool = False
    residuals: Floats | None = field(default=None, compare=False, repr=False)

    @property
    def error(self) -> float:
        """The mean error over the folds."""
        return float(np.mean(self.errors))

    @property
    def standard_error(self) -> float:
        """The standard error of `error`, from the differences between the folds."""
        return _standard_error(self.errors)

    def excess(self, other: "Trial") -> tuple[float, float]:
        """Return how much larger the error is than that of another trial on the same folds, with a standard error."""
        differences = np.subtract(self.errors, other.errors)
        return float(differences.mean()), _standard_error(differences)

    def summary(self) -> dict[str, Any]:
        """Return what was tried and its error as plain values."""
        settings = self.settings
        return {
            "features": settings.features,
            "kernel": ", ".join(settings.kernels),
            "length_scale": settings.learn or "median",
            "columns": 2 * settings.n_frequencies,
            "head": settings.head,
            self.measure: self.error,
            "standard_error": self.standard_error,
            "seconds": round(self.seconds, 2),
            "chosen": self.chosen,
        }


def _standard_error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def margin(trials: Sequence[Trial]) -> str:
    """Return how far the chosen settings are from the best of the others, as a sentence; one trial has no others."""
    chosen = next(trial for trial in trials if trial.chosen)
    others = [trial for trial in trials if trial is not chosen]
    if not others:
        return "No other settings were compared."
    excess, deviation = min(others, key=lambda trial: trial.error).excess(chosen)
    share = f" ({100.0 * abs(excess) / chosen.error:.2g} %)" if chosen.error > 0.0 else ""
    distance = f"{abs(excess):.2g}{share}, with a standard error of {deviation:.2g}"
    if excess >= 0.0:
        return f"The error of the chosen settings (*) is smaller than the second smallest one by {distance}."
    return f"The smallest error is below that of the chosen settings (*) by {distance}, too little for its cost."


class SharedLengthScales(LearnedLengthScales):
    """Length scales that are learned once from the training rows of a fold, by the first trial that needs them.

    Later trials with other kernels or features use the same ones, because learning takes most of the time of a trial.
    They are learned from a single division of the rows.

    Attributes
    ----------
    learned : (LengthScales, float, float) or None
        The length scales, their gain and the seconds of learning; None before the first trial.
    saved_seconds : float
        Seconds of learning that later trials did not need.
    """

    def __init__(self) -> None:
        super().__init__(n_rows=MOST_ROWS)
        self.learned: tuple[Scaling, float, float] | None = None
        self.saved_seconds = 0.0

    def learn_from(
        self, sample: LabeledRows, rows: LabeledRows, frequencies: Floats, rng: np.random.Generator
    ) -> LearningResult:
        """Return the length scales, which the first call learns."""
        if self.learned is None:
            start = monotonic()
            self.learned = *super().learn_from(sample, rows, frequencies, rng), monotonic() - start
        else:
            self.saved_seconds += self.learned[2]
        return LearningResult(*self.learned[:2])

    def __sklearn_clone__(self) -> Self:
        """Return this object, so that copies of features share what was learned."""
        return self


@dataclass(frozen=True)
class Fold:
    """The rows of a table without those of one fold, and the rows of the fold.

    Attributes
    ----------
    survey : Survey
        The survey of the table, with the training rows as its sample.
    validation : RecordBatch
        The other rows.
    length_scales : SharedLengthScales
        What was learned from the training rows.
    """

    survey: Survey
    validation: "pa.RecordBatch"
    length_scales: SharedLengthScales = field(default_factory=SharedLengthScales)

    def attempt(self, table: Table, settings: Settings, task: str) -> "_Outcome":
        """Fit on the training rows and predict the validation rows."""
        model: Any = settings.new_estimator(task)
        if settings.learn is not None:
            shared = self.length_scales
            model.features.length_scale = shared if settings.learn == "learn" else LearnedMetric(length_scales=shared)
        start, saved = monotonic(), self.length_scales.saved_seconds
        candidates = model.fit_table_features(table, self.survey, settings.standardize)
        middle = monotonic()
        encoding, cells = model.encoding_, self.survey.sample.cells
        model.fit_table(MemoryRows(encoding.encode(cells), encoding.targets(cells)), candidates)
        solve_seconds = monotonic() - middle
        feature_seconds = middle - start + self.length_scales.saved_seconds - saved
        rows, actual = encoding.encode(self.validation), encoding.targets(self.validation)
        model = model.without_encoding()
        if task == "classification":
            return _Outcome(_error(task, actual, model.predict(rows)), feature_seconds, solve_seconds, np.empty(0))
        predicted, deviations = model.predict(rows, return_std=True)
        error = _error(task, actual, predicted)
        residuals = (actual - predicted) / np.maximum(deviations, np.finfo(deviations.dtype).tiny)
        return _Outcome(error, feature_seconds, solve_seconds, residuals)


class _Outcome(NamedTuple):
    """The error on the validation rows of a fold, the seconds to fit features and to solve, and relative residuals."""

    error: float
    feature_seconds: float
    solve_seconds: float
    residuals: Floats


def _error(task: str, actual: Array, predicted: Array) -> float:
    """Return the root mean squared error, or the share of misclassified rows."""
    if task == "classification":
        return float((actual != predicted).mean())
    return float(np.sqrt(np.square(actual.astype(np.float64) - predicted).mean()))


@dataclass(frozen=True)
class TrialRows:
    """A sample of the rows of a table, divided into folds.

    Attributes
    ----------
    table : Table
        The table.
    task : {"regression", "classification"}
        What is predicted.
    folds : list of Fold
        The folds.
    n_training : int
        Number of training rows of the first fold.
    """

    table: Table
    task: str
    folds: list[Fold]
    n_training: int

    @classmethod
    def of(cls, table: Table, survey: Survey, task: str, seed: int) -> "TrialRows | None":
        """Divide the sampled rows of a survey, or fewer of them; None if there are too few.

        The folds are those of scikit-learn's `StratifiedKFold` for a classification whose classes all have enough rows,
        else of `KFold`, shuffled with the seed.
        """
        pa, sample, cells = import_pyarrow(), survey.sample, survey.sample.cells
        if cells is None or len(sample.keys) < FEWEST_ROWS:
            return None
        kept = np.sort(np.argsort(sample.keys, kind="stable")[:MOST_ROWS])
        y = survey.encoding("none").targets(cells.take(pa.array(kept)))

        def part(rows: Indices) -> Sample:
            return replace(sample, keys=sample.keys[kept[rows]], cells=cells.take(pa.array(kept[rows])))

        folds = [
            Fold(replace(survey, sample=part(training)), part(validation).cells)
            for training, validation in _split(y, task, seed)
        ]
        return cls(table, task, folds, len(folds[0].survey.sample.keys))

    def attempt(
        self, settings: Settings, seconds_left: Callable[[], float], advance: Callable[[float], None]
    ) -> Trial | None:
        """Cross-validate settings.

        Parameters
        ----------
        settings : Settings
            The settings.
        seconds_left : callable
            Returns the seconds that trials may still take.
        advance : callable
            Called with 1 after each fold.

        Returns
        -------
        Trial or None
            The errors; None if the time is not sufficient for all folds.
        """
        outcomes: list[_Outcome] = []
        start = monotonic()
        for fold in self.folds:
            last = outcomes[-1].feature_seconds + outcomes[-1].solve_seconds if outcomes else 0.0
            if seconds_left() <= last:
                return None
            with hide_progress(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about rows of a fold; the fit on all rows warns about all rows
                outcomes.append(fold.attempt(self.table, settings, self.task))
            advance(1)
        errors, feature_seconds, solve_seconds, parts = zip(*outcomes, strict=True)
        residuals = order_statistics(np.concatenate(parts)) if self.task == "regression" else None
        measure = "error_rate" if self.task == "classification" else "rmse"
        means = float(np.mean(feature_seconds)), float(np.mean(solve_seconds))
        return Trial(settings, measure, list(errors), monotonic() - start, *means, residuals=residuals)


def _split(y: Array, task: str, seed: int) -> Any:
    """Yield the training and the validation rows of each fold."""
    from sklearn.model_selection import KFold, StratifiedKFold  # a slow import, which `import bochner` does without

    is_stratified = task == "classification" and np.unique(y, return_counts=True)[1].min() >= N_FOLDS
    kind = StratifiedKFold if is_stratified else KFold
    return kind(N_FOLDS, shuffle=True, random_state=seed).split(np.zeros(len(y)), y)
