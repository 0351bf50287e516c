# SPDX-License-Identifier: BSD-3-Clause
"""Models of tables, and the commands that make and use them."""

import json
import signal
import subprocess
import sys
import time
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skops.io
from pyarrow import parquet
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

import bochner.cli.table_commands
from bochner.cli import app
from bochner.table_models import models


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def answer(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def regression(tmp_path, rng):
    frame = pd.DataFrame(rng.normal(size=(600, 3)), columns=["a", "b", "c"])
    frame["side"] = np.where(rng.random(600) < 0.5, "left", "right")
    frame["price"] = 1e3 + 10 * frame.a + np.where(frame.side == "left", 20.0, 0.0) + rng.normal(size=600)
    frame["a"] = frame.a * 1e4 + 1e5  # standardisation is the model's business
    frame[:400].to_csv(tmp_path / "train.csv", index=False)
    frame[400:].to_parquet(tmp_path / "test.parquet")
    return tmp_path / "train.csv", tmp_path / "test.parquet", frame[400:]


@pytest.fixture
def iris(tmp_path):
    frame = load_iris(as_frame=True).frame.sample(frac=1, random_state=0)
    frame["kind"] = frame.target.map({0: "setosa", 1: "versicolor", 2: "virginica"})
    frame.to_csv(tmp_path / "iris.csv", index=False)
    return tmp_path / "iris.csv", frame


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_fit_predict_error_of_a_regression(regression, tmp_path, suffix):
    train, test, frame = regression
    model, output = tmp_path / "model.skops", tmp_path / f"out{suffix}"
    result = run("fit", train, "--target", "price", "--output", model)
    assert result.exit_code == 0, result.output
    assert "Task: regression (column 'price' holds numbers, 400 different values)." in result.stdout
    assert "Columns with text, one column a category: side (2)." in result.stdout
    assert answer("predict", model, test, "--output", output, "--std")["rows"] == 200
    read = pd.read_csv if suffix == ".csv" else pd.read_parquet
    predictions = read(output)
    assert list(predictions.columns) == ["price", "price_std"]
    errors = frame.price.to_numpy() - predictions.price
    assert np.mean(np.abs(errors) < 1.96 * predictions.price_std) > 0.85
    scores = answer("error", model, test)
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert scores["r2"] == pytest.approx(1 - np.mean(errors**2) / frame.price.var(ddof=0))
    assert scores["r2"] > 0.95
    assert scores["kernel_error_low"] <= scores["kernel_error"] <= scores["kernel_error_high"] < 0.05


@pytest.mark.parametrize("head", ["ridge", "svm"])
@pytest.mark.parametrize("target", ["kind", "target"])
def test_fit_predict_error_of_a_classification(iris, tmp_path, head, target):
    path, frame = iris
    other = "kind" if target == "target" else "target"
    model, output = tmp_path / "model.skops", tmp_path / "out.csv"
    report = answer("fit", path, "--target", target, "--drop", other, "--head", head, "--output", model)
    assert report["task"] == "classification"
    assert report["columns"] == 4
    answer("predict", model, path, "--output", output)
    predictions = pd.read_csv(output)[target]
    assert predictions.dtype == frame[target].dtype
    error = np.mean(predictions.to_numpy() != frame[target].to_numpy())
    assert answer("error", model, path)["error"] == pytest.approx(error)
    assert error < 0.05


def test_without_the_target_the_kernel_error_remains(regression, tmp_path):
    train, _, frame = regression
    frame.drop(columns="price").to_csv(tmp_path / "new.csv", index=False)
    answer("fit", train, "--target", "price", "--output", tmp_path / "m.skops")
    assert set(answer("error", tmp_path / "m.skops", tmp_path / "new.csv")) == {
        "rows",
        "kernel_error",
        "kernel_error_low",
        "kernel_error_high",
    }


def test_columns_that_the_model_does_not_use_do_not_matter(regression, tmp_path):
    train, _, frame = regression
    pd.read_csv(train).assign(when="2020-01-01").to_parquet(tmp_path / "train.parquet")
    answer("fit", tmp_path / "train.parquet", "--target", "price", "--drop", "when", "--output", tmp_path / "m.skops")
    frame["when"] = pd.to_datetime("2020-01-01")
    frame["side"] = [f"side {i}" for i in range(200)]  # unknown categories are zeros
    frame.to_parquet(tmp_path / "new.parquet")
    assert answer("error", tmp_path / "m.skops", tmp_path / "new.parquet")["rows"] == 200


def test_categories_may_look_like_numbers_later(tmp_path):
    frame = pd.DataFrame({"code": ["1", "x"] * 20, "y": np.arange(40.0)})
    frame.to_csv(tmp_path / "train.csv", index=False)
    answer("fit", tmp_path / "train.csv", "--target", "y", "--n-frequencies", "4", "--output", tmp_path / "m.skops")
    frame[frame.code == "1"].to_csv(tmp_path / "ones.csv", index=False)
    assert answer("predict", tmp_path / "m.skops", tmp_path / "ones.csv", "--output", tmp_path / "p.csv")["rows"] == 20


def test_decimals_are_numbers(tmp_path):
    table = pa.table(
        {"x": pa.array([Decimal(i) for i in range(40)]), "y": pa.array([Decimal(i) / 2 for i in range(40)])}
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    answer("fit", tmp_path / "a.parquet", "--target", "y", "--output", tmp_path / "m.skops")
    assert answer("error", tmp_path / "m.skops", tmp_path / "a.parquet")["r2"] > 0.99


def test_json_has_no_nan(tmp_path):
    pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40.0)}).to_csv(tmp_path / "a.csv", index=False)
    answer("fit", tmp_path / "a.csv", "--target", "y", "--output", tmp_path / "m.skops")
    pd.DataFrame({"x": [1.0], "y": [1.0]}).to_csv(tmp_path / "one.csv", index=False)
    assert answer("error", tmp_path / "m.skops", tmp_path / "one.csv")["r2"] is None


def test_options_reach_the_model(regression, tmp_path):
    train, _, _ = regression
    scales = ["--length-scale", "0.5", "--length-scale", "4", "--kernel", "laplacian", "--n-frequencies", "32"]
    answer("fit", train, "--target", "price", "--seed", "3", *scales, "--output", tmp_path / "m.skops")
    head = models.load(tmp_path / "m.skops").head
    assert head.get_params()["features__kernel"] == "laplacian"
    assert head.features_.weights_.shape == (32,)
    assert head.length_scale_scores_.shape == (2,)
    assert head.random_state == 3


@pytest.mark.parametrize(
    ("values", "task"),
    [
        ([0, 1] * 20, "classification"),
        ([0.0, 1.0] * 20, "classification"),
        ([True, False] * 20, "classification"),
        (["1a", "2b"] * 20, "classification"),
        (list(range(40)), "regression"),
        ([0.5, 1.5] * 20, "regression"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_task_is_detected(tmp_path, values, task, suffix):
    frame = pd.DataFrame({"x": np.arange(40.0), "y": values})
    path = tmp_path / f"a{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    report = answer("fit", path, "--target", "y", "--n-frequencies", "4", "--output", tmp_path / "m.skops")
    assert report["task"] == task


def many_groups(path, n_groups=12, n_rows=3000):
    rng = np.random.default_rng(0)
    schema = pa.schema([(name, pa.float32()) for name in "abcy"])
    with parquet.ParquetWriter(path, schema) as writer:
        for _ in range(n_groups):
            columns = rng.normal(size=(4, n_rows)).astype(np.float32)
            columns[3] += np.sin(columns[0])
            writer.write_table(pa.table(dict(zip("abcy", columns, strict=True))))
    return path


def contents(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".npy")}


@pytest.mark.parametrize("stop", [2, 9, 16, 21])
def test_an_interrupted_training_goes_on_at_its_last_group(tmp_path, monkeypatch, stop):
    data = many_groups(tmp_path / "a.parquet")
    monkeypatch.setattr(bochner.cli.table_commands, "CHECKPOINT_SECONDS", 0.0)
    fit = ("fit", data, "--target", "y", "--n-frequencies", "16", "--output")
    answer(*fit, tmp_path / "whole.skops")
    save, n_saved = models.save, 0

    def save_and_die(model, path):
        nonlocal n_saved
        save(model, path)
        n_saved += 1
        if n_saved == stop:
            raise KeyboardInterrupt

    monkeypatch.setattr(models, "save", save_and_die)
    assert run(*fit, tmp_path / "m.skops").exit_code != 0
    assert not (tmp_path / "m.skops").exists()
    monkeypatch.setattr(models, "save", save)
    result = run(*fit, tmp_path / "m.skops", "--resume")
    assert result.exit_code == 0, result.output
    phase, group = ("reading", stop + 1) if stop < 12 else ("training", stop - 11 + 1)
    assert f"Resuming the {phase} at row group {group} of 12." in result.stdout
    assert not (tmp_path / "m.skops.partial").exists()
    assert sorted(contents(tmp_path / "m.skops").values()) == sorted(contents(tmp_path / "whole.skops").values())


def test_a_killed_process_is_resumed(tmp_path):
    data = many_groups(tmp_path / "a.parquet", n_groups=40, n_rows=20_000)
    code = "import bochner.cli as cli; cli.table_commands.CHECKPOINT_SECONDS = 0.0; cli.app()"
    command = [sys.executable, "-c", code, "fit", str(data), "--target", "y", "--n-frequencies", "64", "--output"]
    whole, partial = tmp_path / "m.skops", tmp_path / "m.skops.partial"
    process = subprocess.Popen([*command, str(whole)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not partial.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert partial.exists()
    assert not whole.exists()
    done = subprocess.run([*command, str(whole), "--resume"], capture_output=True, text=True, check=True)
    assert "Resuming the" in done.stdout
    subprocess.run([*command, str(tmp_path / "once.skops")], capture_output=True, check=True)
    assert sorted(contents(whole).values()) == sorted(contents(tmp_path / "once.skops").values())


class TestBadInput:
    def refused(self, *arguments):
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
        return result.stderr

    def test_target(self, regression, tmp_path):
        train, _, frame = regression
        output = ("--output", tmp_path / "m.skops")
        assert "no column 'cost'; its columns are 'a', 'b'" in self.refused("fit", train, "--target", "cost", *output)
        frame.assign(price=1.0).to_csv(tmp_path / "constant.csv", index=False)
        said = self.refused("fit", tmp_path / "constant.csv", "--target", "price", *output)
        assert "column 'price' has one value only, 1.0, in all 200 rows" in said
        said = self.refused("fit", train, "--target", "side", "--task", "regression", *output)
        assert "column 'side' holds text; give --task classification" in said
        assert "for regression give --head ridge" in self.refused(
            "fit", train, "--target", "price", "--head", "svm", *output
        )
        assert not (tmp_path / "m.skops").exists()

    def test_options(self, regression, tmp_path):
        train, _, _ = regression
        assert "--kernel wavelet is not one of gaussian" in self.refused(
            "fit", train, "--target", "price", "--kernel", "wavelet"
        )
        assert "is in a folder that does not exist" in self.refused(
            "fit", train, "--target", "price", "--output", tmp_path / "no" / "m.skops"
        )
        assert "`--length-scale` must be" in self.refused(
            "fit", train, "--target", "price", "--length-scale", "-1", "--output", tmp_path / "m.skops"
        )

    def test_nothing_that_is_read_is_overwritten(self, regression, tmp_path):
        train, _, _ = regression
        before = train.read_bytes()
        assert "would overwrite an input file" in self.refused("fit", train, "--target", "price", "--output", train)
        assert "must end in .skops" in self.refused("fit", train, "--target", "price", "--output", tmp_path / "m.csv")
        answer("fit", train, "--target", "price", "--n-frequencies", "4", "--output", tmp_path / "m.skops")
        assert "would overwrite" in self.refused("predict", tmp_path / "m.skops", train, "--output", train)
        assert train.read_bytes() == before

    def test_few_rows_and_quantities_as_classes(self, regression, tmp_path):
        train, _, frame = regression
        output = ("--output", tmp_path / "m.skops")
        frame[:4].to_csv(tmp_path / "few.csv", index=False)
        said = self.refused("fit", tmp_path / "few.csv", "--target", "price", *output)
        assert "few.csv has 4 rows; at least 5 are needed" in said
        said = self.refused("fit", train, "--target", "price", "--task", "classification", *output)
        assert "column 'price' contains fractional numbers, which cannot be classes; use regression" in said

    def test_resuming_something_else(self, regression, tmp_path, monkeypatch):
        monkeypatch.setattr(bochner.cli.table_commands, "CHECKPOINT_SECONDS", 0.0)
        data = many_groups(tmp_path / "a.parquet", n_groups=3)
        model = tmp_path / "m.skops"
        fit = ("fit", data, "--target", "y", "--output", model, "--resume")
        assert "There is no" in run(*fit).stdout
        training = models.Training.of(
            models.Table(data, "y"), models.Settings("ridge", "auto", "gaussian", 5, [1.0], 0)
        )
        models.save(training, tmp_path / "m.skops.partial")
        assert "was made with other options" in self.refused(*fit)
        assert "is the checkpoint of an interrupted run" in self.refused("error", tmp_path / "m.skops.partial", data)
        other_target = ("fit", data, "--target", "a", "--n-frequencies", "5", "--output", model, "--resume")
        assert "was made from other data" in self.refused(*other_target)
        many_groups(data, n_groups=4)
        assert "was made from other data" in self.refused(*fit)
        (tmp_path / "m.skops.partial").write_text("something else")
        assert "is damaged; start without --resume" in self.refused(*fit)

    def test_model_files(self, regression, tmp_path):
        train, test, _ = regression
        model = tmp_path / "m.skops"
        answer("fit", train, "--target", "price", "--n-frequencies", "4", "--output", model)
        whole = model.read_bytes()
        broken, output = tmp_path / "broken.skops", ("--output", tmp_path / "out.csv")
        for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
            broken.write_bytes(whole[:length])
            assert "is damaged, or not a file of `bochner fit`" in self.refused("predict", broken, test, *output)
        skops.io.dump(Ridge().fit([[0.0], [1.0]], [0.0, 1.0]), broken)
        assert "was not made by bochner: it holds Ridge" in self.refused("error", broken, test)
        with zipfile.ZipFile(broken, "w") as archive:
            archive.writestr("schema.json", '{"__class__": "system", "__module__": "os", "__loader__": "TypeNode"}')
        assert "bochner" in self.refused("error", broken, test)
        assert "does not exist" in self.refused("predict", tmp_path / "none.skops", test, *output)
        assert not (tmp_path / "out.csv").exists()

    def test_tables_that_do_not_fit_the_model(self, regression, tmp_path):
        train, _, frame = regression
        model, other, output = tmp_path / "m.skops", tmp_path / "other.csv", ("--output", tmp_path / "out.csv")
        answer("fit", train, "--target", "price", "--n-frequencies", "4", "--output", model)
        frame.drop(columns="b").to_csv(other, index=False)
        assert "has no column 'b'" in self.refused("predict", model, other, *output)
        frame.assign(b="x").to_csv(other, index=False)
        said = self.refused("predict", model, other, *output)
        assert "row 1, column 'b': invalid value 'x', expected a number" in said
        frame.assign(b="x").to_parquet(tmp_path / "other.parquet")
        said = self.refused("predict", model, tmp_path / "other.parquet", *output)
        assert "column 'b' contains text, but the model was trained on numbers" in said
        frame.assign(price="dear").to_csv(other, index=False)
        said = self.refused("error", model, other)
        assert "column 'price' holds text, and the model was trained on numbers" in said
        assert run("predict", model, other, *output).exit_code == 0
        said = self.refused("predict", model, train, "--output", tmp_path / "out.txt")
        assert "must end in .csv or .parquet" in said

    def test_predictions_appear_whole_or_not_at_all(self, regression, tmp_path):
        train, _, frame = regression
        model, output = tmp_path / "m.skops", tmp_path / "out.csv"
        answer("fit", train, "--target", "price", "--n-frequencies", "4", "--output", model)
        frame.assign(b=np.where(np.arange(200) == 150, np.nan, 1.0)).to_csv(tmp_path / "new.csv", index=False)
        assert "row 151, column 'b': the value is missing" in self.refused(
            "predict", model, tmp_path / "new.csv", "--output", output
        )
        assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("head", ["ridge", "svm"])
def test_learned_length_scales_tell_which_columns_matter(tmp_path, rng, head):
    frame = pd.DataFrame(rng.normal(size=(400, 4)), columns=["sun & rain", "b_$x^$", "c", "d"])
    frame["harvest"] = np.where(np.sin(2 * frame["sun & rain"]) > 0, "good", "bad")
    frame.to_parquet(tmp_path / "train.parquet")
    fit = ["fit", tmp_path / "train.parquet", "--target", "harvest", "--head", head, "--learn", "--n-frequencies", 32]
    files = ["--output", tmp_path / "m.skops", "--page", tmp_path / "m.html"]
    report = answer(*fit, *files)
    assert report["length_scale"] == "learned"
    assert 0 < report["learning_gain"] < 1
    assert next(iter(report["relevance"])) == "sun & rain"
    assert sum(report["relevance"].values()) == pytest.approx(1.0)
    page = (tmp_path / "m.html").read_text()
    assert "The most relevant columns are sun &amp; rain, " in page
    assert "<svg" in page
    assert answer("error", tmp_path / "m.skops", tmp_path / "train.parquet")["error"] < 0.15
    result = run(*fit, *files)
    assert "relevance of columns: sun & rain " in result.stdout


def test_the_page_of_a_model_without_learned_length_scales(regression, tmp_path):
    train, *_ = regression
    assert "relevance" not in answer(
        "fit", train, "--target", "price", "--output", tmp_path / "m.skops", "--page", tmp_path / "m.html"
    )
    page = (tmp_path / "m.html").read_text()
    assert "bochner fit --learn" in page
    assert "<svg" not in page


def test_the_page_says_when_learning_did_not_help(tmp_path, rng):
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "y"])
    frame.to_csv(tmp_path / "noise.csv", index=False)
    answer(
        *("fit", tmp_path / "noise.csv", "--target", "y", "--learn", "--n-frequencies", 16),
        *("--output", tmp_path / "m.skops", "--page", tmp_path / "m.html"),
    )
    assert "nothing was better than what learning starts from" in (tmp_path / "m.html").read_text()


@pytest.mark.parametrize(
    ("page", "sentence"),
    [("m.htm", "--page m.htm must end in .html."), ("none/m.html", "--page none/m.html is in a folder that does not")],
)
def test_a_page_that_cannot_be_written_is_refused_before_the_work(regression, tmp_path, monkeypatch, page, sentence):
    train, *_ = regression
    monkeypatch.chdir(tmp_path)
    result = run("fit", train, "--target", "price", "--page", page)
    assert result.exit_code == 2
    assert sentence in result.output
    assert not (tmp_path / "model.skops").exists()


def test_an_estimator_learns_length_scales_from_a_file(regression):
    train, test, _ = regression
    model = bochner.FourierRidge(bochner.FourierFeatures(length_scale="learn", n_frequencies=32), random_state=0)
    model.fit(str(train), "price")
    assert model.features_.length_scale_.shape == (5,)
    assert model.predict(str(test)).shape == (200,)
