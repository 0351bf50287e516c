# SPDX-License-Identifier: BSD-3-Clause
"""Partial dependence, compared with predictions of tables in which a column has one value."""

import numpy as np
import pandas as pd
import pytest

from bochner.table_models.partial_dependence import partial_dependence
from bochner.table_models.training import Settings, fit_table
from bochner.tables.file_table import FileTable
from tests.table_models.cases import ignore


@pytest.fixture(scope="module", params=["parquet", "csv"])
def fitted(request, tmp_path_factory):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=250), "color": rng.choice(["red", "green"], size=250)})
    frame["day"] = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, size=250), unit="D")
    frame["open"] = rng.choice([True, False], size=250)
    frame["at"] = [f"{hour:02}:{minute:02}" for hour, minute in rng.integers(0, 24, size=(250, 2))]
    frame["y"] = np.sin(frame["x"]) + 2.0 * (frame["color"] == "red") * frame["open"]
    frame.loc[::25, ["x", "color"]] = None
    path = tmp_path_factory.mktemp("dependence") / f"a.{request.param}"
    frame.to_parquet(path) if request.param == "parquet" else frame.to_csv(path, index=False)
    settings = Settings("ridge", "regression", ["gaussian"], 32, [1.0], 0)
    found = fit_table(FileTable(path, "y", kinds={"at": "time"}), settings, ignore)
    return found.model, found.survey.sample.cells, frame


def mean_prediction(model, frame, name, value):
    return model.estimator.predict(frame.drop(columns="y").assign(**{name: value})).mean()


def test_numbers(fitted):
    model, cells, frame = fitted
    found = partial_dependence(model, cells, "x")
    assert (found.kind, found.labels, found.response, found.outputs) == ("number", [], "prediction", ["y"])
    assert (np.diff(found.values) > 0).all()
    known = np.sort(frame["x"].dropna())
    assert found.values[0] == known[5]  # two percent of 240 rows
    np.testing.assert_allclose(found.deciles, np.quantile(known, np.linspace(0.1, 0.9, 9)))
    for position in (0, 12, -1):
        expected = mean_prediction(model, frame, "x", found.values[position])
        assert found.means[position, 0] == pytest.approx(expected, rel=1e-6)
    assert (found.low <= found.high).all()


def test_categories_and_their_interaction(fitted):
    model, cells, frame = fitted
    found = partial_dependence(model, cells, "color")
    assert set(found.labels) == {"red", "green", "(missing)"}
    red, green = found.labels.index("red"), found.labels.index("green")
    assert found.means[red, 0] == pytest.approx(mean_prediction(model, frame, "color", "red"), rel=1e-6)
    assert found.means[red, 0] - found.means[green, 0] == pytest.approx(2.0 * frame["open"].mean(), abs=0.3)
    # The effect is 2 in half of the rows and 0 in the others, so that the band is wide.
    assert found.high[red, 0] - found.low[red, 0] > 0.5


def test_dates_are_days_and_times_are_hours(fitted):
    model, cells, _ = fitted
    days = partial_dependence(model, cells, "day").values
    assert pd.Timestamp("2022-01-01") <= pd.Timestamp(days[0], unit="D") < pd.Timestamp(days[-1], unit="D")
    assert pd.Timestamp(days[-1], unit="D") < pd.Timestamp("2023-12-31")
    hours = partial_dependence(model, cells, "at")
    assert hours.kind == "time"
    assert hours.values[0] >= 0.0
    assert 20 < hours.values[-1] < 24
    assert partial_dependence(model, cells, "open").kind == "boolean"


def test_probabilities_of_classes(rng):
    frame = pd.DataFrame({"x": rng.normal(size=300), "z": rng.normal(size=300)})
    frame["kind"] = np.digitize(frame["x"], [-0.5, 0.5])
    settings = Settings("ridge", "classification", ["gaussian"], 16, [1.0], 0)
    found = fit_table(FileTable(frame, "kind"), settings, ignore)
    part = partial_dependence(found.model, found.survey.sample.cells, "x")
    assert (part.response, part.outputs) == ("probability", ["0", "1", "2"])
    assert part.means[0].argmax() == 0
    assert part.means[-1].argmax() == 2
    assert part.low.min() >= 0.0
    assert part.high.max() <= 1.0


def test_single_value_has_no_dependence(rng):
    frame = pd.DataFrame({"x": rng.normal(size=60), "z": np.repeat([1.0, 2.0], 30), "y": rng.normal(size=60)})
    found = fit_table(FileTable(frame, "y"), Settings("ridge", "regression", ["gaussian"], 4, [1.0], 0), ignore)
    assert partial_dependence(found.model, found.survey.sample.cells[:20], "z") is None
