# SPDX-License-Identifier: BSD-3-Clause
"""The exported `TableEncoder` against `transform`."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from bochner import FeatureRegressor, TableEncoder
from bochner.export import register, to_onnx
from tests.export.sessions import open_session, skl2onnx

NUMBERS, TEXT = skl2onnx.common.data_types.DoubleTensorType, skl2onnx.common.data_types.StringTensorType

N_ROWS = 400
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "size, cm": np.where(RNG.random(N_ROWS) < 0.1, np.nan, RNG.normal(50.0, 10.0, size=N_ROWS)),
        "count": RNG.integers(0, 9, size=N_ROWS),
        "color": RNG.choice(["red", "green", "blü e"], size=N_ROWS),
        "ok": RNG.random(N_ROWS) < 0.3,
        "constant": 1.0,
    }
)
TARGET = np.sin(TABLE["count"]) + (TABLE["color"] == "red")


def run_frame(exported, frame):
    """Return the first output for a data frame, whose columns are the inputs."""
    session = open_session(exported)
    feeds = {}
    for value, name in zip(session.get_inputs(), frame.columns, strict=True):
        feeds[value.name] = frame[[name]].to_numpy(dtype=object if value.type == "tensor(string)" else None)
    return session.run(None, feeds)[0]


def convert_days(encoder, n_columns=1):
    """Export an encoder of dates, which are numbers of days."""
    register()
    types = [(f"day_{i}", NUMBERS([None, 1])) for i in range(n_columns)]
    return skl2onnx.convert_sklearn(encoder, initial_types=types)


@pytest.mark.filterwarnings("ignore:Columns are left out:UserWarning")
@pytest.mark.parametrize("standardize", ["robust", "none"])
def test_encoder_equals_transform(standardize):
    encoder = TableEncoder(standardize=standardize).fit(TABLE)
    found = run_frame(to_onnx(encoder, TABLE[:1]), TABLE)
    np.testing.assert_allclose(found, encoder.transform(TABLE), atol=1e-12)


@pytest.mark.filterwarnings("ignore:Columns are left out:UserWarning")
def test_encoder_in_a_pipeline():
    pipeline = make_pipeline(TableEncoder(), FeatureRegressor(random_state=0)).fit(TABLE, TARGET)
    exported = to_onnx(pipeline, TABLE[:1])
    np.testing.assert_allclose(run_frame(exported, TABLE)[:, 0], pipeline.predict(TABLE), atol=1e-10)
    np.testing.assert_allclose(run_frame(exported, TABLE[:1])[:, 0], pipeline.predict(TABLE[:1]), atol=1e-10)


def test_text_alone():
    frame = TABLE[["color"]]
    encoder = TableEncoder().fit(frame)
    np.testing.assert_array_equal(run_frame(to_onnx(encoder, frame[:1]), frame), encoder.transform(frame))


@pytest.mark.filterwarnings("ignore:Column 'color' has")
def test_other_missing_and_unknown_categories():
    names = [f"color {i}" for i in range(150)]
    counts = np.r_[np.full(90, 12), np.full(60, 1)]
    colors = np.repeat(names, counts).astype(object)
    gaps = colors.copy()
    gaps[::7] = None
    new = pd.DataFrame({"color": ["color 3", "color 149", "violet", None]})
    exported_cells = new.fillna("")
    for cells in (colors, gaps, colors[:600]):
        encoder = TableEncoder().fit(pd.DataFrame({"color": cells}))
        expected = encoder.transform(new)
        np.testing.assert_array_equal(run_frame(to_onnx(encoder, exported_cells[:1]), exported_cells), expected)


def test_cycles_of_every_day_of_eight_centuries():
    days = np.arange(np.datetime64("1601-01-01"), np.datetime64("2401-01-01")).astype("M8[s]")
    moments = days + np.timedelta64(3600, "s") * (np.arange(len(days)) % 24)
    frame = pd.DataFrame({"day": moments})
    frame.loc[100, "day"] = pd.NaT
    encoder = TableEncoder(standardize="none").fit(frame)
    numbers = moments.astype(np.int64)[:, None] / 86400.0
    numbers[100] = np.nan
    found = open_session(convert_days(encoder)).run(None, {"day_0": numbers})[0]
    assert encoder.encoding_.columns[0].cycles == ("year", "week", "day")
    np.testing.assert_allclose(found, encoder.transform(frame), atol=1e-9)  # 1e-16 of 150,000 days, in turns


def test_inputs_must_fit_the_columns():
    encoder = TableEncoder().fit(TABLE[["count", "color"]])
    register()
    wrong = [("a", TEXT([None, 1])), ("b", TEXT([None, 1]))]
    with pytest.raises(ValueError, match="Column 'count' is a number; its ONNX input must contain numbers"):
        skl2onnx.convert_sklearn(encoder, initial_types=wrong)
    text = TableEncoder(kinds={"color": "text"}).fit(TABLE[["count", "color"]])
    with pytest.raises(ValueError, match=r"Column 'color' is text, whose hashed n-grams have no ONNX form; give drop="):
        skl2onnx.convert_sklearn(text, initial_types=[("a", NUMBERS([None, 1])), ("b", TEXT([None, 1]))])
    with pytest.raises(ValueError, match="TableEncoder has 1 ONNX inputs, but was fitted on 2 columns"):
        skl2onnx.convert_sklearn(encoder, initial_types=[("a", NUMBERS([None, 2]))])
