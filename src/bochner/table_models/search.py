# SPDX-License-Identifier: BSD-3-Clause
"""The choice of settings by cross-validation, within a time budget.

A search changes one setting at a time, in order of promise, and keeps every change that lowers the error on validation
rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic
from typing import Any

from bochner.feature_models.table_training import TableTraining
from bochner.progress import progress_bar
from bochner.table_models.settings import Settings
from bochner.table_models.trials import FEWEST_ROWS, N_FOLDS, Trial, TrialRows
from bochner.tables.file_table import FileTable

__all__ = ["Budget", "search"]

LEARNING_ROWS = 8_000  # the time to fit features hardly grows with more rows
ROWS_TO_WIDEN = range(8_000, 200_000)  # fewer rows do not need more columns; more rows would take too long by default

# Changes of the best settings so far, in order of promise; `n_frequencies` is multiplied.
STEPS: tuple[tuple[str, Any], ...] = (
    ("features", "landmarks"),
    ("learn", "learn"),
    ("kernels", ["matern"]),
    ("learn", "learn-matrix"),
    ("n_frequencies", 2),
)


class Budget:
    """The time that a fit may take, from now on.

    Parameters
    ----------
    minutes : float, default=None
        Minutes; None means no limit.
    clock : callable, default=time.monotonic
        Returns the time in seconds.

    Examples
    --------
    >>> from bochner.table_models.search import Budget
    >>> Budget(0.5, clock=lambda: 7.0).remaining
    30.0
    """

    def __init__(self, minutes: float | None = None, clock: Callable[[], float] = monotonic) -> None:
        self.minutes = minutes
        self._clock = clock
        self._start = clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._start

    @property
    def remaining(self) -> float:
        """Seconds that are left; infinite without a limit."""
        return float("inf") if self.minutes is None else 60.0 * self.minutes - self.elapsed


def search(
    table: FileTable,
    training: TableTraining,
    settings: Settings,
    task: str,
    budget: Budget,
    report: Callable[[str], None],
) -> Settings:
    """Choose the free settings by cross-validation, and keep the trials in the training.

    Parameters
    ----------
    table : FileTable
        The table.
    training : TableTraining
        A training with a complete survey.
    settings : Settings
        The first settings to try, and which of them are free.
    task : {"regression", "classification"}
        What is predicted.
    budget : Budget
        The time for the trials and for the fit on all rows.
    report : callable
        Called with a message if not all settings were tried.

    Returns
    -------
    Settings
        The chosen settings, none of them free.
    """
    rows = TrialRows.of(table, training.survey, task, settings.seed)
    if rows is None:
        report(f"Fewer than {FEWEST_ROWS} rows: no settings were compared.")
        return replace(settings, free=())
    run = _Search(settings, training.survey.n_rows, rows.n_training, training.survey_seconds, budget)
    with progress_bar("comparing settings", N_FOLDS * run.n_steps) as advance:
        for candidate in run.candidates():
            trial = rows.attempt(candidate, run.seconds_left, advance)
            if trial is None:
                report(f"Stopped after {len(run.trials)} settings, to finish within {budget.minutes:g} minutes.")
                break
            run.add(trial)
    training.trials = tuple(replace(trial, chosen=trial is run.best) for trial in run.trials)
    return replace(settings, free=()) if run.best is None else run.best.settings


class _Search:
    """The state of a search.

    Attributes
    ----------
    trials : list of Trial
        What was tried.
    best : Trial or None
        The best trial so far.
    n_steps : int
        Number of settings to try at most.
    """

    def __init__(self, settings: Settings, n_rows: int, n_training: int, reading: float, budget: Budget) -> None:
        self._first = replace(settings, free=())
        self._steps = [step for step in STEPS if step[0] in settings.free]
        if n_rows not in ROWS_TO_WIDEN:
            self._steps = [step for step in self._steps if step[0] != "n_frequencies"]
        self._n_rows = n_rows
        self._n_training = n_training
        self._reading = reading
        self._budget = budget
        self.n_steps = 1 + len(self._steps)
        self.trials: list[Trial] = []
        self.best: Trial | None = None

    def candidates(self) -> Iterator[Settings]:
        """Yield the settings to try next, each of which depends on the best ones of the trials before."""
        yield self._first
        for name, value in self._steps:
            if self.best is None:
                return
            settings = self.best.settings
            changed = value * self._first.n_frequencies if name == "n_frequencies" else value
            candidate = replace(settings, **{name: changed})
            if candidate != settings:
                yield candidate

    def add(self, trial: Trial) -> None:
        """Add a trial; it is the best one if its error is smaller and the time suffices to fit it on all rows.

        More columns need an error that is smaller by more than one standard error.
        """
        self.trials.append(trial)
        if self.best is not None:
            excess, deviation = trial.excess(self.best)
            is_wider = trial.settings.n_frequencies > self.best.settings.n_frequencies
            if excess >= (-deviation if is_wider else 0.0) or self._fit_seconds(trial) > self._budget.remaining:
                return
        self.best = trial

    def seconds_left(self) -> float:
        """Return the seconds that are left for trials if the best settings so far are then fitted on all rows."""
        return self._budget.remaining - (0.0 if self.best is None else self._fit_seconds(self.best))

    def _fit_seconds(self, trial: Trial) -> float:
        """Estimate the seconds of a fit on all rows from those of a trial."""
        features = trial.feature_seconds * max(1.0, min(self._n_rows, LEARNING_ROWS) / self._n_training)
        return self._reading + features + trial.solve_seconds * self._n_rows / self._n_training
