# SPDX-License-Identifier: BSD-3-Clause
"""Exported models of tables with columns of every kind against the table models."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    FourierFeatures,
    LandmarkFeatures,
    TableClassifier,
    TableEncoder,
    TableRegressor,
)
from bochner.export import to_onnx
from tests.export.sessions import open_session

TYPES = {"tensor(double)": np.float64, "tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(string)": object}
SMALL = FourierFeatures(n_frequencies=24, random_state=0)


def make_table(n_rows=600):
    """Return a table with columns of every kind, missing cells and names that are no identifiers."""
    rng = np.random.default_rng(0)
    seconds = rng.integers(0, 20000 * 86400, size=n_rows)
    table = pd.DataFrame(
        {
            "size, cm": np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(50.0, 10.0, size=n_rows)),
            "variable": rng.standard_cauchy(size=n_rows),
            "value_": rng.normal(size=n_rows),
            "color": rng.choice(["red", "green", "blü e", None], size=n_rows, p=[0.4, 0.3, 0.2, 0.1]),
            "ok": rng.random(n_rows) < 0.3,
            "day": pd.Timestamp("1999-12-20") + pd.to_timedelta(seconds, unit="s"),
            "time": pd.Series((pd.Timestamp(0) + pd.to_timedelta(seconds % 86400, unit="s")).time, dtype=object),
            "wait": pd.to_timedelta(rng.integers(0, 9999, size=n_rows), unit="s"),
            "key": rng.integers(0, 1000, size=n_rows),
        }
    )
    table.loc[rng.random(n_rows) < 0.05, "day"] = pd.NaT
    table["y"] = np.sin(2.0 * table["value_"]) + (table["color"] == "red") + 0.1 * rng.normal(size=n_rows)
    table["kind"] = np.where(table["y"] > 0.8, "high", np.where(table["y"] < 0.0, "low", "middle"))
    return table


TABLE = make_table()
NEW = TABLE[500:].reset_index(drop=True)
NEW.loc[len(NEW) - 1, "color"] = "violet"
COLUMNS = TABLE.columns[:-2].tolist()


def cells_of(values, kind):
    """Return a column of a data frame as the input of an exported model."""
    if kind == "tensor(string)":
        values = values.astype(object).where(values.notna(), "")
    elif values.dtype.kind == "M":
        values = (values - pd.Timestamp(0)) / pd.Timedelta(days=1)
    elif values.dtype.kind == "m":
        values = values.dt.total_seconds()
    elif values.dtype == object:
        values = [(time.hour * 3600 + time.minute * 60 + time.second) / 86400 for time in values]
    return np.asarray(values, dtype=TYPES[kind]).reshape(-1, 1)


def run_table(exported, frame):
    session = open_session(exported)
    return session.run(None, {value.name: cells_of(frame[value.name], value.type) for value in session.get_inputs()})


@pytest.mark.filterwarnings("ignore:Column 'color' has categories")
@pytest.mark.parametrize("standardize", ["robust", "none"])
def test_regression(standardize):
    model = TableRegressor(FeatureRegressor(SMALL), encoder=TableEncoder(drop=["kind"], standardize=standardize)).fit(
        TABLE[:500], "y"
    )
    exported = to_onnx(model)
    assert [value.name for value in exported.graph.input] == COLUMNS
    for frame in (NEW, NEW[-1:]):
        (found,) = run_table(exported, frame)
        np.testing.assert_allclose(found[:, 0], model.predict(frame), atol=1e-10)


@pytest.mark.filterwarnings("ignore:Column 'color' has categories")
@pytest.mark.parametrize(
    "estimator",
    [
        FeatureClassifier(SMALL, loss="squared_error"),
        FeatureClassifier(SMALL, Cs=[1.0], loss="log_loss"),
        FeatureClassifier(LandmarkFeatures("matern", n_landmarks=24, random_state=0), Cs=[1.0]),
    ],
    ids=["ridge", "logistic", "svm"],
)
def test_classification(estimator):
    model = TableClassifier(estimator, encoder=TableEncoder(drop=["y"])).fit(TABLE[:500], "kind")
    exported = to_onnx(model)
    has_probabilities = hasattr(model, "predict_proba")
    score = model.predict_proba if has_probabilities else model.decision_function
    second = "kind_probabilities" if has_probabilities else "kind_scores"
    assert [value.name for value in exported.graph.output] == ["kind", second]
    for frame in (NEW, NEW[-1:]):
        labels, scores = run_table(exported, frame)
        np.testing.assert_array_equal(labels, model.predict(frame))
        np.testing.assert_allclose(scores, score(frame), atol=1e-10)


def test_single_precision():
    frame = TABLE[["variable", "value_", "y"]].astype(np.float32)
    model = TableRegressor(FeatureRegressor(SMALL), random_state=0).fit(frame[:500], "y")
    exported = to_onnx(model)
    (found,) = run_table(exported, frame[500:])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, 0], model.predict(frame[500:]), atol=1e-4)


def test_metadata_describe_the_inputs():
    model = TableRegressor(FeatureRegressor(SMALL), encoder=TableEncoder(drop=["kind"])).fit(TABLE[:500], "y")
    facts = {entry.key: entry.value for entry in to_onnx(model).metadata_props}
    assert facts["target"] == "y"
    columns = json.loads(facts["columns"])
    assert list(columns) == COLUMNS
    assert columns["day"].startswith("days since 1970-01-01")
    assert columns["key"] == "number, NaN if missing"


def test_second_output_has_another_name_than_a_column():
    frame = TABLE[["variable", "kind"]].assign(kind_scores=TABLE["value_"])
    exported = to_onnx(TableClassifier(FeatureClassifier(SMALL, loss="squared_error")).fit(frame, "kind"))
    assert [value.name for value in exported.graph.output] == ["kind", "kind_scores_"]


def fit_with_gaps(gaps):
    """Fit a model on a table whose category is red, blue or one of the gaps, each with targets of its own."""
    color = np.resize(["red", "blue", *gaps], 120)
    effects = {"red": 5.0, "blue": 0.0, "": -10.0, None: 10.0}
    frame = pd.DataFrame({"value": np.linspace(-1.0, 1.0, 120), "color": pd.Series(color, dtype=object)})
    return TableRegressor(FeatureRegressor(SMALL)).fit(
        frame.assign(y=frame["value"] + [effects[name] for name in color]), "y"
    )


@pytest.mark.filterwarnings("ignore:Column 'color' has no value in 2 rows")
@pytest.mark.parametrize(("gaps", "effect"), [([None], 10.0), ([""], -10.0), ([], None)])
def test_empty_text_and_missing_cells_are_the_same(gaps, effect):
    model = fit_with_gaps(gaps)
    new = pd.DataFrame({"value": np.zeros(3), "color": pd.Series([None, "", "red"], dtype=object)})
    expected = model.predict(new)
    assert expected[0] == expected[1] == pytest.approx(expected[0] if effect is None else effect, abs=0.5)
    (found,) = run_table(to_onnx(model), new)
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-10)


def test_model_that_distinguishes_empty_text_and_missing_cells_is_refused():
    model = fit_with_gaps(["", None])
    new = pd.DataFrame({"value": np.zeros(2), "color": pd.Series([None, ""], dtype=object)})
    np.testing.assert_allclose(model.predict(new), [10.0, -10.0], atol=0.5)
    with pytest.raises(
        ValueError, match=r"Column 'color' has missing cells and cells of empty text, which ONNX cannot"
    ):
        to_onnx(model)


def test_rare_empty_text_is_missing():
    names = [*np.resize([f"color {i}" for i in range(95)], 2400), *[f"color {i}" for i in range(95, 120)]]
    color = pd.Series([*names, *["", ""]], dtype=object)
    frame = pd.DataFrame({"value": np.linspace(-1.0, 1.0, len(color)), "color": color})
    model = TableRegressor(FeatureRegressor(SMALL)).fit(frame.assign(y=frame["value"] + 10.0 * (color == "")), "y")
    new = pd.DataFrame({"value": np.zeros(3), "color": pd.Series([None, "", "color 119"], dtype=object)})
    expected = model.predict(new)
    assert expected[0] == expected[1] != expected[2]
    (found,) = run_table(to_onnx(model), new)
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-10)


def test_models_without_an_onnx_form_are_refused():
    frame = TABLE[["value_", "y"]]
    with pytest.raises(ValueError, match="Ridge has no ONNX form; fit the model with `FeatureRegressor`"):
        to_onnx(TableRegressor(Ridge()).fit(frame, "y"))
    text = frame.assign(note=[f"note {i}" for i in range(600)])
    with pytest.raises(ValueError, match=r"Column 'note' is text, whose hashed n-grams have no ONNX form; give drop="):
        to_onnx(TableRegressor(FeatureRegressor(SMALL)).fit(text, "y"))
