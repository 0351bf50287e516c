# SPDX-License-Identifier: BSD-3-Clause
"""Errors on tables and on held-out rows, and files of predictions."""

import numpy as np
import pandas as pd
import pytest
from pyarrow import csv, parquet
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

from bochner import TableEncoder, TableRegressor
from bochner.tables.evaluation import error_measures, evaluate, held_out, write_predictions
from tests.tables.models import make_frame, make_targets, quick_classifier, quick_regressor

FRAME = make_frame()
Y, LABELS = make_targets(FRAME)
NEW = make_frame(150, seed=5)
NEW_Y, NEW_LABELS = make_targets(NEW)


@pytest.fixture(scope="module")
def regressor():
    return quick_regressor().fit(FRAME.assign(y=Y), "y")


@pytest.fixture(scope="module")
def classifier():
    return quick_classifier().fit(FRAME.assign(y=LABELS), "y")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_measures_are_those_of_all_rows(regressor, classifier, tmp_path, suffix, monkeypatch):
    monkeypatch.setattr("bochner.tables.reader.CSV_BLOCK_BYTES", 4096)
    path = tmp_path / f"new.{suffix}"
    for model, y in ((regressor, NEW_Y), (classifier, NEW_LABELS)):
        table = NEW.assign(y=y)
        table.loc[7, "y"] = None  # left out
        table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path, index=False)
        found = evaluate(model, path)
        kept = np.arange(150) != 7
        predicted = model.predict(NEW[kept])
        np.testing.assert_array_equal(found.observed, y[kept])
        assert found.n_rows == 149
        if model is regressor:
            np.testing.assert_allclose(found.predicted, predicted, rtol=1e-10)
            assert found.measures["rmse"] == pytest.approx(np.sqrt(np.mean((y[kept] - predicted) ** 2)))
            assert found.measures["r2"] == pytest.approx(model.score(NEW[kept], y[kept]))
        else:
            proba = model.predict_proba(NEW[kept])
            share = np.unique(y[kept], return_counts=True)[1].max() / 149
            expected = {"accuracy": (predicted == y[kept]).mean(), "majority_share": share}
            expected |= {"log_loss": log_loss(y[kept], proba), "auc": roc_auc_score(y[kept] == "low", proba[:, 1])}
            assert found.measures == pytest.approx(expected)


def test_unseen_categories_are_reported_beside_the_target(regressor):
    message = "Column 'color' has categories that are not in the training rows, in 150 rows: 'mauve'"
    with pytest.warns(UserWarning, match=message):
        evaluate(regressor, NEW.assign(y=NEW_Y, color="mauve"))


def test_models_that_read_no_tables_are_refused(tmp_path):
    foreign = TableRegressor(Ridge(), encoder=make_column_transformer((OneHotEncoder(), ["ok"]))).fit(FRAME, Y)
    with pytest.raises(ValueError, match=r"The model has a ColumnTransformer; use Python"):
        write_predictions(foreign, NEW, tmp_path / "a.csv")
    with pytest.raises(ValueError, match="The model does not know its target; fit it with the name of a column"):
        evaluate(quick_regressor().fit(FRAME, Y), NEW.assign(y=NEW_Y))
    with pytest.raises(ValueError, match="has no column 'y'"):
        evaluate(quick_regressor().fit(FRAME.assign(y=Y), "y"), NEW)


def test_classes_that_are_not_in_the_table(classifier):
    measures = error_measures(classifier, np.array(["low", "new"]), np.array(["low", "low"]), np.full((2, 2), 0.5))
    assert measures == {"accuracy": 0.5, "majority_share": 0.5}


def test_decimal_comma_targets_are_evaluated(tmp_path):
    table = FRAME.assign(y=[f"{value:.3f}".replace(".", ",") for value in Y])
    table.to_csv(tmp_path / "a.csv", index=False)
    model = quick_regressor().fit(tmp_path / "a.csv", "y")
    assert evaluate(model, tmp_path / "a.csv").measures["r2"] > 0.8


def test_held_out_rows_are_those_of_no_fit():
    encoder = TableEncoder(drop=["day"], kinds={"ok": "category", "day": "date"}, random_state=0)
    survey = encoder.survey(FRAME.assign(y=Y), "y")
    other, found = held_out(quick_regressor(encoder=encoder).fit(survey, "y"), survey)
    train, test = train_test_split(np.random.default_rng(0).permutation(300), test_size=0.2, random_state=0)
    np.testing.assert_array_equal(found.observed, Y[test])
    expected = quick_regressor(encoder=TableEncoder(drop=["day"], kinds={"ok": "category"}, random_state=0))
    expected.fit(FRAME.iloc[train], Y[train])
    np.testing.assert_allclose(found.predicted, expected.predict(FRAME.iloc[test]), rtol=1e-8)
    assert other.n_rows_ == 240


def test_errors_of_the_fit_on_other_rows_are_not_hidden():
    class Failing(Ridge):
        def fit(self, X, y):
            if len(X) < 300:
                raise ValueError("no such fit")
            return super().fit(X, y)

    encoder = TableEncoder(random_state=0)
    survey = encoder.survey(FRAME.assign(y=Y), "y")
    with pytest.raises(ValueError, match="no such fit"):
        held_out(TableRegressor(Failing(), encoder=encoder).fit(survey, "y"), survey)


@pytest.mark.parametrize("labels", [["a", "b"] * 20, ["a"] * 99 + ["b"]])
def test_too_few_rows_are_not_held_out(labels):
    encoder = TableEncoder()
    survey = encoder.survey(pd.DataFrame({"x": np.arange(len(labels)) / 7, "y": labels}), "y")
    encoder.fit_survey(survey)
    model = quick_classifier()
    model.encoder_ = encoder
    assert held_out(model, survey) is None


class TestPredictions:
    def test_columns(self, regressor, classifier, tmp_path):
        table = NEW.assign(id=range(150), y=NEW_Y)
        n_rows = write_predictions(regressor, table, tmp_path / "a.parquet", keep=["id", "y"], interval=0.8)
        found = parquet.read_table(tmp_path / "a.parquet")
        assert n_rows == 150
        assert found.schema.names == ["id", "y_observed", "y", "y_low", "y_high"]
        np.testing.assert_array_equal(found["y"], regressor.predict(NEW))
        np.testing.assert_array_equal(found["y_low"], regressor.predict_interval(NEW, 0.8)[:, 0])
        write_predictions(classifier, NEW, tmp_path / "a.csv", proba=True)
        found = csv.read_csv(tmp_path / "a.csv")
        assert found.schema.names == ["y", "y_probability_high", "y_probability_low"]
        np.testing.assert_allclose(found["y_probability_low"], classifier.predict_proba(NEW)[:, 1], rtol=1e-12)

    def test_cells_are_copied_as_they_are(self, regressor, tmp_path):
        write_predictions(regressor, NEW.assign(note="@name"), tmp_path / "a.csv", keep=["note"])
        assert csv.read_csv(tmp_path / "a.csv")["note"][0].as_py() == "@name"

    def test_no_column_is_overwritten(self, regressor, tmp_path):
        with pytest.raises(ValueError, match="`keep` has the column 'y_low', which is also one of the predictions"):
            write_predictions(regressor, NEW.assign(y_low=1.0), tmp_path / "a.csv", keep=["y_low"], interval=0.9)
        assert not list(tmp_path.iterdir())

    def test_options_that_a_model_does_not_have(self, regressor, classifier, tmp_path):
        with pytest.raises(ValueError, match="Only regressions have prediction intervals; omit `interval`"):
            write_predictions(classifier, NEW, tmp_path / "a.csv", interval=0.9)
        with pytest.raises(ValueError, match=r"`interval` must be a share between 0 and 1, such as 0.9. Got 90"):
            write_predictions(regressor, NEW, tmp_path / "a.csv", interval=90.0)
        with pytest.raises(ValueError, match="This model has no probabilities; omit `proba`"):
            write_predictions(regressor, NEW, tmp_path / "a.csv", proba=True)
        with pytest.raises(ValueError, match="the table has no rows to predict"):
            write_predictions(regressor, NEW[:0], tmp_path / "a.csv")
        with pytest.raises(ValueError, match=r"`output` must end in .csv or .parquet. Got .*a\.txt"):
            write_predictions(regressor, NEW, tmp_path / "a.txt")
