# SPDX-License-Identifier: BSD-3-Clause
"""The choice of settings: what is tried, what is kept, and when a search ends."""

from dataclasses import replace

import numpy as np
import pytest

from bochner import TableModel
from bochner.feature_models.table_training import TableTraining
from bochner.table_models import search as search_module
from bochner.table_models.model_files import load, save
from bochner.table_models.search import Budget, search
from bochner.table_models.settings import FREE, Settings
from bochner.table_models.training import fit_table
from bochner.table_models.trials import Trial
from bochner.tables.file_table import FileTable
from tests.table_models.cases import fitted_arrays, ignore
from tests.tables.tables import make_table, write_table

FIRST = Settings("ridge", "auto", ["gaussian"], 8, [1.0], 3, free=FREE)
SHORT = replace(FIRST, free=("features", "kernels"))  # nothing is learned, which takes most of the time
N_ROWS = 320


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    table = make_table()[:N_ROWS].drop_columns("kind")
    return write_table(tmp_path_factory.mktemp("search") / "a.parquet", table, row_group_size=80)


@pytest.fixture(scope="module")
def fitted(path):
    return fit_table(FileTable(path, "y"), SHORT, ignore).model


class Clock:
    """A clock that moves when trials do."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def error_of(settings, kernel=0.0):
    """Return the mean error of settings: landmarks, learned length scales and a metric lower it."""
    error = 10.0 - (settings.features == "landmarks") - 2.0 * (settings.learn is not None)
    error -= 0.5 * (settings.learn == "learn-matrix")
    return error + kernel * (settings.kernels == ["matern"])


class FakeRows:
    """Trials that take a number of seconds per fold and have given errors."""

    n_training = 80

    def __init__(self, clock, errors, seconds):
        self.clock, self.errors, self.seconds = clock, errors, seconds
        self.tried = []

    def attempt(self, settings, seconds_left, advance):
        self.tried.append(settings)
        for fold in range(5):
            if seconds_left() <= (self.seconds if fold else 0.0):
                return None
            self.clock.now += self.seconds
        return Trial(settings, "rmse", self.errors(settings), 5.0 * self.seconds, 0.0, self.seconds)


@pytest.fixture
def run(path, monkeypatch):
    """A function that runs a search with fake trials."""

    def run_search(first=FIRST, errors=None, minutes=None, seconds=1.0, n_rows=N_ROWS, reading=0.0):
        clock, table = Clock(), FileTable(path, "y")
        training = TableTraining.begin(table, 3)
        training.survey_seconds = reading
        training.survey = table.survey(training.survey)
        training.survey.lengths = [n_rows]
        rows = FakeRows(clock, errors or (lambda settings: [error_of(settings)] * 5), seconds)
        monkeypatch.setattr(search_module.TrialRows, "of", lambda *arguments: rows)
        messages = []
        budget = Budget(minutes, clock)
        chosen = search(table, training, first, "regression", budget, messages.append)
        return chosen, training.trials, messages, rows.tried

    return run_search


class TestOrder:
    def test_each_step_changes_the_best_settings_so_far(self, run):
        chosen, trials, messages, tried = run()
        first = replace(FIRST, free=())
        landmarks = replace(first, features="landmarks")
        learned = replace(landmarks, learn="learn")
        metric = replace(landmarks, learn="learn-matrix")
        assert tried == [first, landmarks, learned, replace(learned, kernels=["matern"]), metric]
        assert chosen == metric
        assert [trial.chosen for trial in trials] == [False] * 4 + [True]
        assert not messages

    def test_changes_that_do_not_help_are_dropped(self, run):
        chosen, _, _, tried = run(errors=lambda settings: [float(settings != replace(FIRST, free=()))] * 5)
        assert chosen == replace(FIRST, free=())
        for settings in tried[1:]:
            assert sum(vars(settings)[name] != value for name, value in vars(chosen).items()) == 1

    def test_equal_errors_keep_the_earlier_settings(self, run):
        assert run(errors=lambda settings: [1.0] * 5)[0] == replace(FIRST, free=())

    @pytest.mark.parametrize("name", FREE)
    def test_only_free_settings_are_changed(self, run, name):
        for trial in run(replace(FIRST, free=(name,)), n_rows=10_000)[1]:
            assert replace(trial.settings, **{name: getattr(FIRST, name)}) == replace(FIRST, free=())

    @pytest.mark.parametrize(("n_rows", "widest"), [(N_ROWS, 8), (10_000, 16), (1_000_000, 8)])
    def test_more_columns_are_tried_with_more_rows(self, run, n_rows, widest):
        assert max(trial.settings.n_frequencies for trial in run(n_rows=n_rows)[1]) == widest

    @pytest.mark.parametrize(("gains", "chosen"), [([0.1, 0.2, 0.3, 0.2, 0.2], 16), ([1.0, 0.0, 0.0, 0.0, 0.0], 8)])
    def test_more_columns_need_a_gain_of_more_than_one_standard_error(self, run, gains, chosen):
        def errors(settings):
            return (3.0 - (settings.n_frequencies == 16) * np.array(gains)).tolist()

        assert run(replace(FIRST, free=("n_frequencies",)), errors, n_rows=10_000)[0].n_frequencies == chosen


class TestBudget:
    # The final fit takes four times the seconds of a fold, because a fold has a quarter of the rows.
    @pytest.mark.parametrize(("minutes", "n_trials"), [(None, 5), (1.0, 5), (0.42, 4), (0.3, 2), (0.15, 1)])
    def test_the_best_settings_so_far_are_fitted_in_time(self, run, minutes, n_trials):
        chosen, trials, messages, _ = run(minutes=minutes)
        assert len(trials) == n_trials
        assert chosen == min(trials, key=lambda trial: trial.error).settings
        stopped = [] if n_trials == 5 else [f"Stopped after {n_trials} settings, to finish within {minutes:g} minutes."]
        assert messages == stopped

    def test_without_time_for_a_trial_the_first_settings_are_fitted(self, run):
        chosen, trials, messages, _ = run(minutes=0.01)
        assert chosen == replace(FIRST, free=())
        assert trials == ()
        assert messages == ["Stopped after 0 settings, to finish within 0.01 minutes."]

    def test_time_to_read_the_rows_again_is_left(self, run):
        assert len(run(minutes=0.42, reading=0.0)[1]) == 4
        assert len(run(minutes=0.42, reading=6.0)[1]) == 3

    def test_settings_that_take_too_long_on_all_rows_are_not_chosen(self, run):
        assert run(minutes=10.0, n_rows=79_000)[0] == replace(FIRST, free=())  # 988 seconds, more than there are
        assert run(minutes=20.0, n_rows=79_000)[0] != replace(FIRST, free=())

    def test_elapsed_time(self):
        clock = Clock()
        budget = Budget(2.0, clock)
        clock.now = 30.0
        assert budget.elapsed == 30.0
        assert budget.remaining == 90.0
        assert Budget().remaining == np.inf


def assert_same(found, expected):
    """Check that two models are equal to the bit, and have compared the same settings."""
    for name, values in fitted_arrays(expected).items():
        np.testing.assert_array_equal(fitted_arrays(found)[name], values)
    assert [(trial.settings, trial.errors, trial.chosen) for trial in found.trials] == [
        (trial.settings, trial.errors, trial.chosen) for trial in expected.trials
    ]


def test_model_is_that_of_the_settings_with_the_smallest_error(path, fitted):
    best = min(fitted.trials, key=lambda trial: trial.error)
    assert best.chosen
    assert len(fitted.trials) == 3
    alone = fit_table(FileTable(path, "y"), best.settings, ignore).model
    for name, values in fitted_arrays(alone).items():
        np.testing.assert_array_equal(fitted_arrays(fitted)[name], values)
    assert alone.trials == ()


@pytest.mark.parametrize("settings", [SHORT, pytest.param(FIRST, marks=pytest.mark.slow)])
def test_search_is_deterministic(path, settings):
    one, other = (fit_table(FileTable(path, "y"), settings, ignore).model for _ in range(2))
    assert_same(one, other)
    assert len(one.trials) == (3 if settings is SHORT else 5)


def test_model_file_has_the_trials(fitted, tmp_path):
    save(fitted, tmp_path / "m.skops")
    assert load(tmp_path / "m.skops").trials == fitted.trials
    assert TableModel.load(tmp_path / "m.skops").trials_ == fitted.trials


def test_few_rows_are_fitted_without_a_comparison(tmp_path):
    messages = []
    few = write_table(tmp_path / "a.parquet", make_table()[:40].drop_columns("kind"))
    model = fit_table(FileTable(few, "y"), FIRST, messages.append).model
    assert model.trials == ()
    assert "Fewer than 50 rows: no settings were compared." in messages
