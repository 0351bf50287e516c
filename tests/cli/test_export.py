# SPDX-License-Identifier: BSD-3-Clause
"""`bochner export` against `bochner predict`, on a CSV file with text and missing cells."""

import sys

import numpy as np
import pandas as pd
import pytest

from tests.cli.commands import error_message, run, run_json

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime")
pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install 'bochner[onnx]'")


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "size": np.where(rng.random(500) < 0.1, np.nan, rng.normal(50.0, 10.0, size=500)),
            "color": rng.choice(["red", "green", "blue", None], size=500),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, size=500), unit="D"),
        }
    )
    table["price"] = table["size"].fillna(50.0) + 10.0 * (table["color"] == "red") + rng.normal(size=500)
    table["kind"] = np.where(table["price"] > 50.0, "dear", "cheap")
    path = tmp_path_factory.mktemp("export") / "table.csv"
    table.to_csv(path, index=False)
    return path


def feeds_of(csv_file):
    table = pd.read_csv(csv_file, keep_default_na=False, na_values={"size": [""]}, parse_dates=["day"])
    days = (table["day"] - pd.Timestamp(0)) / pd.Timedelta(days=1)
    columns = {"size": table["size"], "color": table["color"].astype(object), "day": days}
    return {name: values.to_numpy().reshape(-1, 1) for name, values in columns.items()}


@pytest.mark.parametrize(("target", "other"), [("price", "kind"), ("kind", "price")])
def test_export_predicts_what_predict_writes(target, other, csv_file, tmp_path):
    model, exported, written = (tmp_path / name for name in ("model.skops", "model.onnx", "predictions.csv"))
    options = ["--target", target, "--drop", other, "--model", "features", "--fast", "--output", model]
    assert run("fit", csv_file, *options).exit_code == 0
    proba = ["--proba"] if target == "kind" else []
    assert run("predict", model, csv_file, "--output", written, *proba).exit_code == 0
    result = run_json("export", model, exported)
    assert result["bytes"] == exported.stat().st_size
    assert list(result["inputs"]) == ["size", "color", "day"]
    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    assert result["outputs"] == [value.name for value in session.get_outputs()]
    outputs = session.run(None, feeds_of(csv_file))
    predictions = pd.read_csv(written)
    if target == "price":
        np.testing.assert_allclose(outputs[0][:, 0], predictions["price"], atol=1e-10)
    else:
        assert outputs[0].tolist() == predictions["kind"].tolist()
        np.testing.assert_allclose(outputs[1][:, 0], predictions["kind_probability_cheap"], atol=1e-10)


def test_export_prints_what_the_inputs_contain(model_file, tmp_path):
    result = run("export", model_file, tmp_path / "model.onnx")
    assert result.exit_code == 0
    assert "input color: text, empty if missing\n" in result.stdout
    assert "outputs: y\n" in result.stdout


def test_export_checks_its_files(model_file, tmp_path):
    assert "must end in .onnx" in error_message("export", model_file, tmp_path / "model.txt")
    assert "is in a folder that does not exist" in error_message("export", model_file, tmp_path / "no" / "model.onnx")
    assert "does not exist" in error_message("export", tmp_path / "none.skops", tmp_path / "model.onnx")


def test_kernel_machines_are_refused_with_the_remedy(csv_file, tmp_path):
    assert run("fit", csv_file, "--target", "price", "--fast", "--output", tmp_path / "m.skops").exit_code == 0
    message = error_message("export", tmp_path / "m.skops", tmp_path / "m.onnx")
    assert "KernelRegressor has no ONNX form; fit the model with" in message
    assert "`bochner fit --model features`" in message


def test_export_names_the_missing_package(model_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    assert "pip install 'bochner[onnx]'" in error_message("export", model_file, tmp_path / "model.onnx")
