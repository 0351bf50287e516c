# SPDX-License-Identifier: BSD-3-Clause
"""`TableModel`, and the linear models on tables, with data frames and files."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, TableModel

FEATURES = FourierFeatures(n_frequencies=64)


@pytest.fixture(scope="module")
def frame():
    """Columns of all kinds; prices of the issue that asked for them."""
    rng = np.random.default_rng(0)
    n_rows = 1500
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, size=n_rows).astype(float),
            "income": rng.lognormal(10.0, 1.0, size=n_rows),
            "city": rng.choice(["Paris", "Rome", "Oslo"], size=n_rows),
            "day": pd.to_datetime("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, size=n_rows), unit="D"),
            "member": rng.choice(["yes", "no"], size=n_rows),
            "id": np.arange(n_rows),
        }
    )
    table["price"] = 3 * table["age"] + 20 * np.log(table["income"]) + 30 * (table["city"] == "Paris")
    table["price"] += rng.normal(size=n_rows)
    table["level"] = np.where(table["price"] > table["price"].median(), "high", "low")
    table.loc[::20, "age"] = np.nan
    return table


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("table-model")
    frame.to_csv(folder / "a.csv", index=False)
    frame.to_parquet(folder / "a.parquet", index=False)
    return folder


@pytest.fixture(scope="module")
def fitted(frame):
    model = TableModel(FeatureRegressor(FEATURES, random_state=0), drop=["level"], kinds={"id": "id"})
    return model.fit(frame[:1000], "price")


def test_intervals_contain_a_share_of_new_targets(frame, fitted):
    new = frame[1000:]
    low, high = fitted.predict_interval(new).T
    assert new["price"].between(low, high).mean() == pytest.approx(0.9, abs=0.04)
    narrow = fitted.predict_interval(new, coverage=0.5)
    assert ((low < narrow[:, 0]) & (narrow[:, 1] < high)).all()


def test_score_is_that_of_the_predictions(frame, fitted):
    new = frame[1000:]
    predictions = fitted.predict(new)
    assert fitted.score(new) == pytest.approx(r2_score(new["price"], predictions))
    assert fitted.score(new, "price") == fitted.score(new)
    assert fitted.score(new.drop(columns="price"), new["price"]) == pytest.approx(fitted.score(new))
    assert fitted.score(new) > 0.85


def test_fitted_attributes(fitted):
    assert fitted.task_ == "regression"
    assert fitted.feature_names_in_.tolist() == ["age", "income", "city", "day", "member"]
    assert fitted.n_features_in_ == 5
    assert not hasattr(fitted, "predict_proba")
    assert is_regressor(fitted)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "polars", "Arrow", "Arrow batch"])
def test_all_sources_give_the_same_model(frame, files, name):
    sources = {"polars": pl.from_pandas, "Arrow": pa.Table.from_pandas, "Arrow batch": pa.RecordBatch.from_pandas}
    data = files / name if "." in name else sources[name](frame)
    model = TableModel(FeatureRegressor(FEATURES, random_state=0), drop=["level"])
    expected = clone(model).fit(frame, "price")
    found = model.fit(data, "price")
    np.testing.assert_array_equal(found.estimator_.coef_, expected.estimator_.coef_)
    np.testing.assert_array_equal(found.predict(frame), expected.predict(data))
    assert found.score(data) == pytest.approx(expected.score(frame), rel=1e-12)


def test_linear_model_alone_does_the_same(frame, files, fitted):
    """`FeatureRegressor().fit(path, target)` standardizes, and accepts frames and paths afterwards."""
    model = FeatureRegressor(FEATURES, random_state=0).fit(frame[:1000].drop(columns=["level", "id"]), "price")
    np.testing.assert_array_equal(model.coef_, fitted.estimator_.coef_)
    np.testing.assert_array_equal(model.predict(frame), fitted.predict(frame))
    assert model.score(files / "a.csv", "price") == pytest.approx(model.score(frame, "price"))
    assert model.score(frame, frame["price"]) == pytest.approx(model.score(frame, "price"))
    mean, deviation = model.predict(frame, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(frame))
    assert (deviation > 0).all()
    with pytest.raises(ValueError, match="The model predicts the column 'price', not 'age'; give its name"):
        model.score(frame, "age")
    with pytest.raises(ValueError, match="`sample_weight` needs arrays; the rows of a table have weight 1"):
        model.score(frame, "price", np.ones(len(frame)))


def test_classification(frame, files):
    model = TableModel(FeatureClassifier(FEATURES, Cs=[1.0], random_state=0, loss="log_loss"), drop=["price"])
    assert is_classifier(model)
    model.fit(frame[:1000], "level")
    assert (model.task_, model.classes_.tolist()) == ("classification", ["high", "low"])
    probabilities = model.predict_proba(frame[1000:])
    assert probabilities.shape == (500, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    labels = model.predict(frame[1000:])
    np.testing.assert_array_equal(labels, model.classes_[probabilities.argmax(axis=1)])
    assert model.score(frame[1000:]) == pytest.approx((labels == frame["level"][1000:]).mean())
    assert model.score(frame[1000:]) > 0.9
    np.testing.assert_array_equal(model.predict_proba(files / "a.csv")[1000:], probabilities)


@pytest.mark.parametrize(("target", "task"), [("price", "regression"), ("level", "classification")])
def test_default_estimator_has_the_task_of_the_target(frame, target, task):
    model = TableModel(effort="fast", random_state=0, drop=[{"price": "level", "level": "price"}[target]]).fit(
        frame[:300], target
    )
    assert model.task_ == task
    assert is_classifier(model) == (task == "classification")


def test_missing_targets_are_left_out(frame):
    gaps = frame[:300].copy()
    gaps.loc[::3, "price"] = np.nan
    model = TableModel(FeatureRegressor(FEATURES, random_state=0), drop=["level"]).fit(gaps, "price")
    alone = TableModel(FeatureRegressor(FEATURES, random_state=0), drop=["level"]).fit(
        gaps.dropna(subset="price"), "price"
    )
    assert model.model_.n_rows == 200
    assert model.score(gaps) == pytest.approx(
        r2_score(gaps["price"].dropna(), model.predict(gaps.dropna(subset="price")))
    )
    assert model.score(frame[300:]) == pytest.approx(alone.score(frame[300:]), abs=0.05)


def test_options_of_columns(frame):
    model = TableModel(FeatureRegressor(FEATURES, random_state=0), drop=["level", "id"], kinds={"member": "category"})
    names = model.fit(frame[:300], "price").encoding_.names
    assert "member=yes" in names
    german = frame[:300].assign(income=[f"{value:,.2f}".translate({44: 46, 46: 44}) for value in frame["income"][:300]])
    model = TableModel(FeatureRegressor(FEATURES, random_state=0), drop=["level"], decimal=",", thousands=".")
    assert "income" in model.fit(german, "price").encoding_.names


def test_copies_predict_identically(frame, fitted, tmp_path):
    fitted.save(tmp_path / "m.skops")
    for copy in (pickle.loads(pickle.dumps(fitted)), TableModel.load(tmp_path / "m.skops")):
        np.testing.assert_array_equal(copy.predict(frame), fitted.predict(frame))
        assert copy.task_ == "regression"
    assert clone(fitted).get_params()["drop"] == ["level"]


def test_unseen_categories_are_reported(frame, fitted):
    with pytest.warns(UserWarning, match="Column 'city' has categories that are not in the training rows, in 1500 row"):
        fitted.predict(frame.assign(city="Bonn"))


class TestInvalidInput:
    def test_target_must_be_a_name(self, frame):
        with pytest.raises(ValueError, match=r"`target` must be the name of a column. Got 0 "):
            TableModel().fit(frame, frame["price"])

    def test_rows_must_be_a_table(self, frame):
        with pytest.raises(ValueError, match="Expected a path, a pandas or polars data frame or an Arrow table"):
            TableModel().fit(frame[["age"]].to_numpy(), "price")

    def test_unfitted_model(self, frame, tmp_path):
        for method in (TableModel().predict, TableModel().score):
            with pytest.raises(NotFittedError):
                method(frame)
        with pytest.raises(NotFittedError):
            TableModel().save(tmp_path / "m.skops")

    def test_task_that_the_target_does_not_have(self, frame):
        with pytest.raises(ValueError, match="column 'level' contains text"):
            TableModel(FeatureRegressor()).fit(frame[:100], "level")
        with pytest.raises(ValueError, match=r"too many for classification|fractional numbers"):
            TableModel(FeatureClassifier()).fit(frame[:100], "price")

    def test_model_of_an_array_has_no_table(self, frame):
        model = FeatureRegressor(FEATURES).fit(frame[["income"]].to_numpy(), frame["price"])
        with pytest.raises(ValueError, match=r"was fitted on an array and cannot read a\.csv; give an array"):
            model.score("a.csv", "price")


class TestArraysForModelsOfTables:
    """An array has no columns that the encoding could find."""

    MESSAGE = r"was fitted on a table with the columns \['a', 'b'\], and X is a ndarray; give a data frame or a file"

    @pytest.fixture(scope="class")
    @staticmethod
    def numbers():
        table = pd.DataFrame(np.random.default_rng(0).normal(5.0, 3.0, size=(200, 2)), columns=["a", "b"])
        return table.assign(y=table["a"] + table["b"], level=np.where(table["a"] > 5.0, "high", "low"))

    @pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba", "predict_log_proba"])
    def test_classifier_refuses_them(self, numbers, method):
        model = FeatureClassifier(FEATURES, loss="log_loss", random_state=0).fit(numbers[["a", "b", "level"]], "level")
        with pytest.raises(ValueError, match=self.MESSAGE):
            getattr(model, method)(numbers[["a", "b"]].to_numpy())
        with pytest.raises(ValueError, match=self.MESSAGE):
            model.score(numbers[["a", "b"]].to_numpy(), numbers["level"])

    def test_regression_refuses_them(self, numbers):
        table, X, y = numbers[["a", "b", "y"]], numbers[["a", "b"]].to_numpy(), numbers["y"]
        model = FeatureRegressor(FEATURES, random_state=0).fit(table, "y")
        assert model.score(table, "y") > 0.99
        for call in (
            lambda: model.predict(X),
            lambda: model.predict(X, return_std=True),
            lambda: model.score(X, y),
            lambda: model.gradients(X),
        ):
            with pytest.raises(ValueError, match=self.MESSAGE):
                call()
        with pytest.raises(ValueError, match="`partial_fit` cannot continue a model that was fitted on a table"):
            model.partial_fit(X, y)
        np.testing.assert_array_equal(
            model.without_encoding().predict(model.encoding_.encode(pa.RecordBatch.from_pandas(table))),
            model.predict(table),
        )

    def test_table_model_refuses_them(self, numbers):
        X = numbers[["a", "b"]].to_numpy()
        model = TableModel(FeatureRegressor(FEATURES, random_state=0)).fit(numbers[["a", "b", "y"]], "y")
        with pytest.raises(ValueError, match=self.MESSAGE):
            model.predict(X)
        with pytest.raises(ValueError, match=self.MESSAGE):
            model.score(X, numbers["y"])
        with pytest.raises(ValueError, match="Expected a path, a pandas or polars data frame or an Arrow table"):
            model.predict_interval(X)
