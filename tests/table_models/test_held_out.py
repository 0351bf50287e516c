# SPDX-License-Identifier: BSD-3-Clause
"""Held-out rows: fits on four fifths of a sample, errors on the rest, compared with scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_squared_error, r2_score

from bochner.table_models.held_out import Evidence, hold_out, refit, respond
from bochner.table_models.training import Settings, fit_table
from bochner.tables.file_table import FileTable
from tests.table_models.cases import ignore


def make_frame(n_rows=600, seed=0):
    """Return a table whose target depends on a number and a category, and not on another number."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 2)), columns=["x", "noise"])
    frame["color"] = rng.choice(["red", "green", "blue"], size=n_rows)
    frame["y"] = 5.0 * frame["x"] + 8.0 * (frame["color"] == "red") + rng.normal(size=n_rows)
    frame["kind"] = np.where(frame["y"] > 4, "high", np.where(frame["y"] < -2, "low", "middle"))
    return frame


def fit_frame(frame, target, **options):
    settings = Settings("ridge", "auto", ["gaussian"], 32, [1.0], 0)
    columns = ["x", "noise", "color", target]
    return fit_table(FileTable(frame[columns], target), Settings(**vars(settings) | options), ignore)


@pytest.fixture(scope="module")
def regression():
    return fit_frame(make_frame(), "y")


@pytest.fixture(scope="module")
def classification():
    return fit_frame(make_frame(), "kind")


def test_held_out_rows_are_a_fifth_and_not_fitted_on(regression):
    split = hold_out(regression.model, regression.survey, seed=1)
    assert len(split.targets) == 480
    assert split.held_out.cells.num_rows == len(split.held_out.targets) == 120
    assert not set(split.targets.tolist()) & set(split.held_out.targets.tolist())
    np.testing.assert_array_equal(split.held_out.cells.column("y").to_numpy(), split.held_out.targets)
    expected = refit(regression.model.estimator, split.rows, split.targets).predict(split.held_out.rows)
    np.testing.assert_array_equal(split.held_out.predicted, expected)
    again = hold_out(regression.model, regression.survey, seed=1)
    np.testing.assert_array_equal(again.held_out.predicted, split.held_out.predicted)


def test_measures_are_those_of_scikit_learn(regression):
    held_out = hold_out(regression.model, regression.survey).held_out
    measures = held_out.measures
    assert measures["r2"] == pytest.approx(r2_score(held_out.targets, held_out.predicted))
    assert measures["rmse"] ** 2 == pytest.approx(mean_squared_error(held_out.targets, held_out.predicted))
    assert measures["r2"] > 0.9
    assert held_out.constant.error == pytest.approx(held_out.targets.std())
    assert held_out.has_learned


def test_classes_are_divided_evenly(classification):
    held_out = hold_out(classification.model, classification.survey).held_out
    shares = {label: np.mean(held_out.targets == label) for label in ("high", "low", "middle")}
    assert shares["high"] == pytest.approx(np.mean(make_frame()["kind"] == "high"), abs=0.01)
    assert held_out.measures["error_rate"] == np.mean(held_out.predicted != held_out.targets)
    assert held_out.measures["error_rate"] < 0.25
    assert held_out.constant.error == pytest.approx(1 - max(shares.values()))
    assert held_out.has_learned


def test_choices_of_the_model_are_kept():
    options = {"kernels": ["gaussian", "exponential"], "length_scales": [0.5, 4.0], "learn": "learn"}
    fitted = fit_frame(make_frame(300), "y", **options)
    estimator = fitted.model.estimator
    held_out = hold_out(fitted.model, fitted.survey).held_out
    assert held_out.estimator.features_.kernel == estimator.features_.kernel
    assert held_out.estimator.kernels is None
    best = int(estimator.length_scale_scores_.argmax())
    assert held_out.estimator.length_scale_factors == [estimator.length_scale_factors[best]]
    assert not np.array_equal(held_out.estimator.features_.length_scale_, estimator.features_.length_scale_)
    pinned = hold_out(fitted.model, fitted.survey, relearn=False).held_out
    np.testing.assert_array_equal(pinned.estimator.features_.length_scale_, estimator.features_.length_scale_)


def test_noise_is_not_learned(rng):
    frame = make_frame(400)
    frame["y"], frame["kind"] = rng.normal(size=400), rng.choice(["a", "b"], size=400)
    for target in ("y", "kind"):
        fitted = fit_frame(frame, target)
        assert not hold_out(fitted.model, fitted.survey).held_out.has_learned


def test_whole_numbers_of_a_csv_file_are_classes(tmp_path):
    frame = make_frame(200)
    frame["kind"] = np.where(frame["y"] > 2, "1", "0")
    frame[["x", "kind"]].to_csv(tmp_path / "a.csv", index=False)
    settings = Settings("ridge", "classification", ["gaussian"], 8, [1.0], 0)
    fitted = fit_table(FileTable(tmp_path / "a.csv", "kind", kinds={"kind": "number"}), settings, ignore)
    held_out = hold_out(fitted.model, fitted.survey).held_out
    assert held_out.targets.dtype == held_out.predicted.dtype == np.int64


def test_booleans_can_be_numbers():
    frame = make_frame(200)
    frame["y"] = frame["y"] > 2
    fitted = fit_frame(frame, "y", task="regression")
    assert 0.2 < hold_out(fitted.model, fitted.survey).held_out.measures["r2"] < 1.0


def test_too_few_rows_are_not_divided():
    fitted = fit_frame(make_frame(40), "y")
    assert hold_out(fitted.model, fitted.survey) is None


def test_single_row_of_a_class():
    frame = make_frame(100)
    frame["kind"] = ["one", *["other"] * 49, *["third"] * 50]
    fitted = fit_frame(frame, "kind")
    split = hold_out(fitted.model, fitted.survey)
    assert split is None or len(split.held_out.targets) == 20


@pytest.mark.parametrize("target", ["y", "kind"])
def test_standard_errors_are_those_of_many_samples(rng, target):
    task = "regression" if target == "y" else "classification"
    actual = rng.normal(size=(2000, 400)) if target == "y" else rng.random((2000, 400)) < 0.2
    found = [Evidence.of(task, sample, np.zeros(400)) for sample in actual]
    assert np.mean([evidence.error for evidence in found]) == pytest.approx(1.0 if target == "y" else 0.2, rel=0.01)
    deviations = np.mean([evidence.deviation for evidence in found])
    assert deviations == pytest.approx(np.std([evidence.error for evidence in found]), rel=0.1)


class TestResponses:
    def test_predictions(self, regression):
        found = respond(regression.model, regression.model.estimator, regression.sample)
        assert (found.kind, found.names) == ("prediction", ["y"])
        expected = regression.model.estimator.without_encoding().predict(regression.sample)
        np.testing.assert_array_equal(found.values[:, 0], expected)

    def test_scores_of_ridge_regression_become_probabilities(self, classification):
        found = respond(classification.model, classification.model.estimator, classification.sample)
        assert (found.kind, found.names) == ("probability", ["high", "low", "middle"])
        assert found.values.min() >= 0.0
        assert found.values.max() <= 1.0
        shares = [np.mean(make_frame()["kind"] == name) for name in found.names]
        np.testing.assert_allclose(found.values.mean(axis=0), shares, atol=0.04)  # clipping shifts them

    @pytest.mark.parametrize(("head", "kind"), [("svm", "score"), ("logistic", "probability")])
    def test_two_classes_have_the_output_of_the_second_one(self, head, kind):
        frame = make_frame(200)
        frame["kind"] = np.where(frame["y"] > 2, "yes", "no")
        fitted = fit_frame(frame, "kind", head=head, n_frequencies=8)
        found = respond(fitted.model, fitted.model.estimator, fitted.sample)
        assert (found.kind, found.names, found.values.shape) == (kind, ["yes"], (200, 1))
        assert np.corrcoef(found.values[:, 0], frame["kind"] == "yes")[0, 1] > 0.7
