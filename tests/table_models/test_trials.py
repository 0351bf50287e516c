# SPDX-License-Identifier: BSD-3-Clause
"""Trials of settings on a sample of a table."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, LandmarkFeatures, TableModel
from bochner.scaling import LearnedLengthScales, LearnedMetric
from bochner.table_models import trials
from bochner.table_models.settings import Settings
from bochner.table_models.trials import Trial, TrialRows, margin
from bochner.tables.file_table import FileTable
from tests.table_models.cases import ignore
from tests.tables.tables import make_table, survey_file, write_table

SETTINGS = Settings("ridge", "auto", ["gaussian"], 8, [1.0], 3)
N_ROWS = 300


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("trials") / "a.parquet", make_table()[:N_ROWS])


def trial_rows(path, target, task, seed=3):
    other = {"y": "kind", "kind": "y"}[target]
    return TrialRows.of(FileTable(path, target, [other]), survey_file(path, target, seed, drop=[other]), task, seed)


def attempt(path, target, task, settings):
    return trial_rows(path, target, task).attempt(settings, lambda: np.inf, ignore)


def make_trial(errors, **settings):
    return Trial(replace(SETTINGS, **settings), "rmse", errors, 1.0, 0.1, 0.1)


SHARED = {
    None: "median",
    "learn": LearnedLengthScales(n_rows=trials.MOST_ROWS),
    "learn-matrix": LearnedMetric(length_scales=LearnedLengthScales(n_rows=trials.MOST_ROWS)),
}


class TestErrors:
    @pytest.mark.parametrize("learn", SHARED)
    def test_regression_errors_are_those_of_models_without_the_fold(self, path, learn):
        found = attempt(path, "y", "regression", replace(SETTINGS, learn=learn))
        frame = pd.read_parquet(path).drop(columns="kind")
        features = FourierFeatures(length_scale=SHARED[learn], n_frequencies=8)
        expected = []
        for training, validation in KFold(5, shuffle=True, random_state=3).split(frame):
            model = TableModel(FeatureRegressor(features, random_state=3)).fit(frame.iloc[training], "y")
            residuals = frame["y"].iloc[validation] - model.predict(frame.iloc[validation])
            expected.append(np.sqrt(np.mean(residuals**2)))
        np.testing.assert_allclose(found.errors, expected, rtol=1e-8)
        assert found.measure == "rmse"
        assert found.error == pytest.approx(np.mean(expected))
        assert found.standard_error == pytest.approx(np.std(expected, ddof=1) / np.sqrt(5))

    def test_classification_errors_are_those_of_models_without_the_fold(self, path):
        found = attempt(path, "kind", "classification", replace(SETTINGS, features="landmarks"))
        frame = pd.read_parquet(path).drop(columns="y")
        model = TableModel(FeatureClassifier(LandmarkFeatures(n_landmarks=16), random_state=3, loss="squared_error"))
        folds = StratifiedKFold(5, shuffle=True, random_state=3).split(frame, frame["kind"])
        expected = [1.0 - model.fit(frame.iloc[a], "kind").score(frame.iloc[b]) for a, b in folds]
        np.testing.assert_allclose(found.errors, expected, rtol=1e-12)
        assert found.measure == "error_rate"

    def test_a_class_with_fewer_rows_than_folds(self, tmp_path):
        frame = make_table()[:N_ROWS].to_pandas()
        frame.loc[:2, "kind"] = "rare"
        rare = write_table(tmp_path / "a.parquet", frame.to_dict("list"))
        assert 0.0 < attempt(rare, "kind", "classification", SETTINGS).error < 1.0

    def test_a_sample_of_many_rows(self, path, monkeypatch):
        monkeypatch.setattr(trials, "MOST_ROWS", 100)
        rows = trial_rows(path, "y", "regression")
        assert rows.n_training == 80
        keys = np.concatenate([fold.survey.sample.keys for fold in rows.folds])
        assert len(np.unique(keys)) == 100
        assert np.unique(keys).max() == np.sort(survey_file(path, "y", 3).sample.keys)[99]

    def test_few_rows_are_not_divided(self, tmp_path):
        few = write_table(tmp_path / "a.parquet", make_table()[: trials.FEWEST_ROWS - 1])
        assert trial_rows(few, "y", "regression") is None


def test_length_scales_are_learned_once_per_fold(path, monkeypatch):
    calls, learn_from = [], LearnedLengthScales.learn_from

    def count(self, *arguments):
        calls.append(1)
        return learn_from(self, *arguments)

    monkeypatch.setattr(LearnedLengthScales, "learn_from", count)
    rows = trial_rows(path, "y", "regression")
    learned = replace(SETTINGS, learn="learn")
    first = rows.attempt(learned, lambda: np.inf, ignore)
    assert len(calls) == 5
    rows.attempt(replace(learned, kernels=["matern"], features="landmarks"), lambda: np.inf, ignore)
    assert rows.attempt(learned, lambda: np.inf, ignore).errors == first.errors
    rows.attempt(replace(SETTINGS, learn="learn-matrix"), lambda: np.inf, ignore)
    assert len(calls) == 5
    assert rows.folds[0].length_scales.saved_seconds > 0.0


def test_trial_stops_when_the_time_is_over(path):
    left = iter([100.0, 100.0, 0.0])
    advances = []
    assert trial_rows(path, "y", "regression").attempt(SETTINGS, lambda: next(left), advances.append) is None
    assert advances == [1, 1]


class TestMargin:
    def test_of_the_smallest_error(self):
        best = replace(make_trial([1.0, 2.0, 3.0]), chosen=True)
        text = margin([make_trial([3.0, 3.0, 3.0]), best, make_trial([1.1, 2.2, 3.3], learn="learn")])
        assert text.endswith("is smaller than the second smallest one by 0.2 (10 %), with a standard error of 0.058.")

    def test_of_a_model_with_fewer_columns(self):
        chosen = replace(make_trial([1.0, 2.0, 3.0]), chosen=True)
        text = margin([chosen, make_trial([0.9, 1.8, 3.0], n_frequencies=16)])
        assert text.startswith(
            "The smallest error is below that of the chosen settings (*) by 0.1 (5 %), with a standard"
        )

    def test_without_other_settings(self):
        assert margin([replace(make_trial([1.0, 2.0]), chosen=True)]) == "No other settings were compared."


def test_summary_has_plain_values():
    summary = make_trial([1.0, 2.0], learn="learn", features="landmarks").summary()
    assert summary == {
        "features": "landmarks",
        "kernel": "gaussian",
        "length_scale": "learn",
        "columns": 16,
        "head": "ridge",
        "rmse": 1.5,
        "standard_error": pytest.approx(0.5),
        "seconds": 1.0,
        "chosen": False,
    }
