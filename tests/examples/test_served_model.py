# SPDX-License-Identifier: BSD-3-Clause
"""The model of the service in `examples/serve`."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bochner import FeatureRegressor, FourierFeatures, TableRegressor

pytest.importorskip("onnxruntime", reason="the service needs onnxruntime")
pytest.importorskip("skl2onnx", reason="models are exported by skl2onnx")

PATH = Path(__file__).parents[2] / "examples" / "serve" / "served_model.py"


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("served_model", PATH)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(size=200), "color": rng.choice(["red", "blue"], size=200)})
    table["price"] = table["size"] + (table["color"] == "red")
    table.loc[::10, "size"] = np.nan
    return table


@pytest.fixture(scope="module")
def fitted(frame):
    return TableRegressor(FeatureRegressor(FourierFeatures(n_frequencies=16), random_state=0)).fit(frame, "price")


@pytest.fixture(scope="module")
def served(module, fitted, tmp_path_factory):
    from bochner.export import to_onnx

    path = tmp_path_factory.mktemp("serve") / "model.onnx"
    path.write_bytes(to_onnx(fitted).SerializeToString())
    return module.ServedModel(path)


def test_predictions_are_those_of_the_model(frame, fitted, served):
    some = frame.drop(columns="price")[:20]
    rows = json.loads(some.to_json(orient="records", double_precision=15))  # missing values are null
    found = served.predict(json.dumps(rows).encode())["price"]
    np.testing.assert_allclose(found, fitted.predict(frame[:20]), rtol=1e-9)
    assert served.predict(json.dumps(rows[0]).encode())["price"] == pytest.approx(found[:1])
    assert served.columns == ["size", "color"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"3", "is not a list of rows"),
        (b"[]", "is not a list of rows"),
        (b"[{}]", "Row 1 has no column 'size'; the columns are size, color"),
        (b'[{"size": 1, "color": "red"}, {"size": "x", "color": "red"}]', "Row 2, column 'size': 'x' is not a number"),
        (b'[{"size": Infinity, "color": "red"}]', "Row 1, column 'size': inf is not a number"),
        (b'[{"size": 1, "color": ["red"]}]', r"Row 1, column 'color': \['red'\] is not text"),
        (b"[" + b",".join([b"{}"] * 1001) + b"]", "has 1001 rows; send at most 1000"),
    ],
)
def test_bad_requests_are_refused_with_one_message(module, served, content, message):
    with pytest.raises(module.RefusedRows, match=message):
        served.predict(content)
