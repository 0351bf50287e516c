# SPDX-License-Identifier: BSD-3-Clause
"""`bochner describe`, `fit`, `predict` and `error`."""

import io
import json
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bochner.tables.sources
from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures
from bochner.cli import app
from bochner.features.kernel_features import LEARNERS
from bochner.scaling import LearnedMetric
from bochner.table_models.model_files import load
from tests.cli.commands import error_message, run, run_json
from tests.cli.odd_files import PARQUET_FILES, TEXT_FILES, write_odd_file
from tests.tables.tables import make_table, write_table

TABLE = make_table()


def arrays_of(path):
    """Return the arrays in a model file."""
    with zipfile.ZipFile(path) as archive:
        return sorted(archive.read(name) for name in archive.namelist() if name.endswith(".npy"))


@pytest.mark.parametrize(
    ("estimator", "target", "dropped", "options"),
    [
        (FeatureRegressor, "y", "kind", ["--length-scale", "0.7", "--length-scale", "1.5"]),
        (partial(FeatureClassifier, loss="squared_error"), "kind", "y", []),
        (FeatureClassifier, "kind", "y", ["--head", "svm"]),
        (partial(FeatureClassifier, loss="log_loss"), "kind", "y", ["--head", "logistic"]),
    ],
)
def test_fit_equals_fit_on_a_path_in_python(tmp_path, estimator, target, dropped, options):
    path = write_table(tmp_path / "a.parquet", TABLE.drop_columns(dropped), row_group_size=400)
    report = run_json(
        *("fit", path, "--target", target, "--n-frequencies", "8", "--seed", "5", *options),
        *("--output", tmp_path / "m.skops"),
    )
    factors = [0.7, 1.5] if target == "y" else [1.0]
    model = estimator(FourierFeatures(n_frequencies=8), length_scale_factors=factors, random_state=5).fit(path, target)
    saved = load(tmp_path / "m.skops").estimator
    np.testing.assert_allclose(saved.coef_, model.coef_, rtol=1e-12)
    np.testing.assert_allclose(saved.intercept_, model.intercept_, rtol=1e-12)
    penalty = {"C": model.C_} if hasattr(model, "C_") else {"alpha": model.alpha_}
    assert report.items() >= penalty.items()
    run_json("predict", tmp_path / "m.skops", path, "--output", tmp_path / "out.parquet")
    predictions = pd.read_parquet(tmp_path / "out.parquet")[target].to_numpy()
    np.testing.assert_array_equal(predictions, model.predict(path))


def test_reports_of_a_regression(table_file, tmp_path):
    model, output = tmp_path / "m.skops", tmp_path / "out.csv"
    result = run("fit", table_file, "--target", "y", "--drop", "kind", "--n-frequencies", "16", "--output", model)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "Task: regression (column 'y' contains numbers with more than 1000 distinct values)."
    assert lines[1] == "Text columns, one-hot encoded: color (3 categories)."
    labels = ["task", "target", "rows", "columns", "alpha", "features", "kernel", "length scale"]
    labels += ["cross validated r2", "kernel error", "seconds", "output"]
    assert [line.partition(":")[0] for line in lines[2:]] == labels
    assert lines[8] == "kernel: gaussian"
    result = run("predict", model, table_file, "--output", output, "--std")
    assert result.stdout.splitlines() == ["rows: 1600", "target: y", f"output: {output}"]
    assert list(pd.read_csv(output).columns) == ["y", "y_std"]
    result = run("error", model, table_file)
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == ["rows", "rmse", "r2", "kernel error"]
    assert " % of the exact kernel matrix" in result.stdout


def test_reports_of_a_classification(table_file, tmp_path):
    options = ("--target", "kind", "--drop", "y", "--head", "svm", "--n-frequencies", "8")
    report = run_json("fit", table_file, *options, "--output", tmp_path / "m.skops")
    assert report["task"] == "classification"
    assert 0.5 < report["cross_validated_accuracy"] < 1.0
    run_json("predict", tmp_path / "m.skops", table_file, "--output", tmp_path / "out.csv")
    wrong = pd.read_csv(tmp_path / "out.csv")["kind"].to_numpy() != TABLE["kind"].to_numpy()
    assert run_json("error", tmp_path / "m.skops", table_file)["error_rate"] == pytest.approx(wrong.mean())


def test_probabilities_of_a_classification(table_file, tmp_path):
    options = ("--target", "kind", "--drop", "y", "--head", "logistic", "--n-frequencies", "8")
    report = run_json("fit", table_file, *options, "--output", tmp_path / "m.skops")
    assert 0.0 < report["cross_validated_log_loss"] < np.log(3)
    run_json("predict", tmp_path / "m.skops", table_file, "--proba", "--output", tmp_path / "out.csv")
    predictions = pd.read_csv(tmp_path / "out.csv")
    probabilities = predictions.filter(like="kind_probability_").to_numpy()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    labels = load(tmp_path / "m.skops").estimator.classes_
    np.testing.assert_array_equal(predictions["kind"], labels[probabilities.argmax(axis=1)])


def test_predictions_on_standard_output(model_file, table_file):
    result = run("predict", model_file, table_file, "--output", "-", "--keep", "color,b", "--interval", "0.5")
    assert result.exit_code == 0, result.output
    predictions = pd.read_csv(io.StringIO(result.stdout))
    assert list(predictions.columns) == ["color", "b", "y", "y_low", "y_high"]
    np.testing.assert_array_equal(predictions["color"], TABLE["color"])
    assert TABLE["y"].to_pandas().between(predictions["y_low"], predictions["y_high"]).mean() == pytest.approx(
        0.5, abs=0.05
    )
    message = error_message("predict", model_file, table_file, "--output", "-", "--json")
    assert "--json and --output - both write to standard output" in message


def test_replaced_model_is_reported(table_file, tmp_path):
    model = tmp_path / "m.skops"
    model.write_bytes(b"an earlier model")
    result = run("fit", table_file, "--target", "y", "--drop", "kind", "--n-frequencies", "4", "--output", model)
    assert result.stdout.splitlines()[0] == f"{model} exists; it is replaced when the new model is complete."


def test_json_has_no_nan(model_file, tmp_path):
    path = write_table(tmp_path / "one.csv", TABLE[:1])
    report = run_json("error", model_file, path)
    assert report["r2"] is None
    assert set(report) == {"rows", "rmse", "r2", "kernel_error", "kernel_error_low", "kernel_error_high"}


def test_messages_go_to_standard_error_with_json(table_file, tmp_path):
    options = ("--target", "y", "--drop", "kind", "--n-frequencies", "4", "--output", tmp_path / "m.skops")
    result = run("fit", table_file, *options, "--json")
    assert result.stderr.startswith("Task: regression")
    assert result.stdout.count("\n") == 1


def test_options_reach_the_model(table_file, tmp_path):
    options = ["--length-scale", "0.5", "--length-scale", "4", "--kernel", "laplacian", "--n-frequencies", "12"]
    columns = ["--target", "y", "--drop", "kind,color", "--drop", "count"]
    report = run_json("fit", table_file, *columns, "--seed", "3", *options, "--output", tmp_path / "m.skops")
    assert report["columns"] == 2
    estimator = load(tmp_path / "m.skops").estimator
    assert estimator.get_params()["features__kernel"] == "laplacian"
    assert estimator.features_.weights_.shape == (12,)
    assert estimator.length_scale_scores_.shape == (2,)
    assert estimator.random_state == 3


@pytest.mark.parametrize(("features", "best"), [("fourier", "exponential"), ("landmarks", "matern")])
def test_best_kernel_is_chosen_and_reported(tmp_path, features, best, rng):
    x = rng.uniform(-1, 1, size=400)
    y = np.abs(x) + (np.abs(x + 0.1) < 0.4) + 0.05 * rng.normal(size=400)
    path = write_table(tmp_path / "a.parquet", {"x": x, "y": y})
    options = ("--target", "y", "--features", features, "--n-frequencies", "32", "--output", tmp_path / "m.skops")
    several = ("--kernel", "rbf,exponential", "--kernel", "matern", "--kernel", "gaussian")
    report = run_json("fit", path, *options, *several)
    assert report["kernel"] == best
    estimator = load(tmp_path / "m.skops").estimator
    assert estimator.kernels == ["gaussian", "exponential", "matern"]
    assert estimator.kernels[estimator.kernel_scores_.argmax()] == best
    alone = run_json("fit", path, *options, "--kernel", best)
    for name in ("alpha", "kernel", "length_scale", "cross_validated_r2", "kernel_error"):
        assert report[name] == alone[name]


class TestInvalidInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--target", "cost"], "has no column 'cost'; its columns are 'a', 'b'"),
            (["--target", "y", "--drop", "nix"], "has no column 'nix'"),
            (["--target", "y", "--kernel", "wavelet"], "--kernel wavelet is not one of gaussian"),
            (["--target", "y", "--kernel", "gaussian,cubic"], "--kernel cubic is not one of gaussian"),
            (["--target", "y", "--length-scale", "-1"], "`--length-scale` must be"),
            (["--target", "y", "--head", "svm"], "A support vector machine cannot do regression; use --head ridge."),
            (["--target", "kind", "--task", "regression"], "column 'kind' contains text; use --task classification."),
            (["--target", "y", "--output", "none/m.skops"], "is in a folder that does not exist; give the name of a f"),
            (["--target", "y", "--output", "m.csv"], "--output m.csv must end in .skops."),
            (["--target", "y", "--page", "m.htm"], "--page m.htm must end in .html."),
            (["--target", "y", "--page", "none/m.html"], "--page none/m.html is in a folder that does not exist"),
        ],
    )
    def test_options_of_fit(self, table_file, tmp_path, monkeypatch, options, message):
        monkeypatch.chdir(tmp_path)
        assert message in error_message("fit", table_file, *options)
        assert not list(tmp_path.iterdir())

    def test_invalid_cell_is_located(self, tmp_path):
        heights = TABLE["b"].to_pylist()
        heights[1234] = np.inf
        path = write_table(tmp_path / "a.parquet", TABLE.set_column(1, "b", [heights]))
        message = error_message("fit", path, "--target", "y", "--output", tmp_path / "m.skops")
        assert "a.parquet: row 1235, column 'b': the value is inf; correct it, or drop the row" in message

    def test_all_problems_are_reported_at_once(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x,z,y\n" + "1,2,3\n" * 10 + "one,2,3\n1,two,3\n")
        result = run("fit", path, "--target", "y", "--output", tmp_path / "m.skops")
        assert result.exit_code == 2
        lines = result.stderr.splitlines()
        assert lines[0] == f"Error: {path} has 2 problems:"
        assert [line.partition(";")[0] for line in lines[1:]] == [
            f"  1. {path}: row 11, column 'x': invalid value 'one', expected a number",
            f"  2. {path}: row 12, column 'z': invalid value 'two', expected a number",
        ]

    def test_input_is_not_overwritten(self, tmp_path, model_file):
        data = write_table(tmp_path / "a.csv", TABLE[:50])
        before = data.read_bytes()
        assert "would overwrite an input file" in error_message("fit", data, "--target", "y", "--output", data)
        assert "would overwrite an input file" in error_message("predict", model_file, data, "--output", data)
        assert data.read_bytes() == before

    @pytest.mark.parametrize("data", ["data", "data/*.parquet", "**/part-*.parquet"])
    @pytest.mark.parametrize("output", ["data/part-1.parquet", "link.parquet", "hard.parquet", "other/part-1.parquet"])
    def test_part_of_the_input_is_not_overwritten(self, tmp_path, model_file, data, output):
        (tmp_path / "data").mkdir()
        part = write_table(tmp_path / "data" / "part-1.parquet", TABLE[:50])
        (tmp_path / "link.parquet").symlink_to(part)
        (tmp_path / "hard.parquet").hardlink_to(part)
        (tmp_path / "other").symlink_to(tmp_path / "data")
        before = part.read_bytes()
        message = error_message("predict", model_file, tmp_path / data, "--output", tmp_path / output)
        assert f"--output {tmp_path / output} would overwrite an input file; give another name." in message
        assert part.read_bytes() == before

    @pytest.mark.parametrize("data", ["data", "data/*.parquet", "**/p*.parquet"])
    def test_output_does_not_become_a_part_of_the_input(self, tmp_path, model_file, data):
        (tmp_path / "data").mkdir()
        (tmp_path / "other").symlink_to(tmp_path / "data")
        write_table(tmp_path / "data" / "part-1.parquet", TABLE[:50])
        predict = "predict", model_file, tmp_path / data, "--output"
        for output in ("data/predictions.parquet", "other/predictions.parquet"):
            message = error_message(*predict, tmp_path / output)
            assert f"would become a part of {tmp_path / data}; give another name." in message
        assert run(*predict, tmp_path / "data" / "predictions.csv").exit_code == 0
        assert [file.name for file in sorted((tmp_path / "data").iterdir())] == ["part-1.parquet", "predictions.csv"]

    def test_models_and_pages_do_not_become_a_part_of_the_input(self, tmp_path, model_file):
        write_table(tmp_path / "part-1.parquet", TABLE[:50])
        data, message = tmp_path / "*", "would become a part of"
        fit = "fit", data, "--target", "y", "--output"
        assert message in error_message(*fit, tmp_path / "m.skops")
        assert message in error_message(*fit, model_file.with_name("n.skops"), "--page", tmp_path / "page.html")
        assert message in error_message("report", model_file, data, "--output", tmp_path / "page.html")
        assert message in error_message("compare", data, "--output", tmp_path / "page.html")
        assert "would overwrite an input file" in error_message("export", model_file, model_file)

    def test_read_only_output_is_refused(self, table_file, model_file, tmp_path):
        output = tmp_path / "out.csv"
        output.write_text("keep")
        output.chmod(0o444)
        assert "out.csv is read-only" in error_message("predict", model_file, table_file, "--output", output)
        assert output.read_text() == "keep"

    def test_model_file_that_cannot_be_read(self, table_file, tmp_path):
        (tmp_path / "m.skops").write_text("something else")
        for arguments in (("error",), ("predict", "--output", tmp_path / "out.csv")):
            message = error_message(*arguments, tmp_path / "m.skops", table_file)
            assert "is damaged or not a file written by `bochner fit`" in message
        assert not (tmp_path / "out.csv").exists()

    def test_table_that_does_not_match_the_model(self, model_file, tmp_path):
        path = write_table(tmp_path / "a.csv", TABLE.drop_columns("b"))
        assert "has no column 'b'" in error_message("predict", model_file, path, "--output", tmp_path / "out.csv")
        assert "has no column 'b'" in error_message("error", model_file, path)
        assert not (tmp_path / "out.csv").exists()


class TestPage:
    @pytest.fixture(autouse=True)
    def needs_matplotlib(self):
        pytest.importorskip("matplotlib")

    @pytest.fixture
    def harvests(self, tmp_path, rng):
        """A table with one relevant column, whose name is special in HTML."""
        frame = pd.DataFrame(rng.normal(size=(400, 4)), columns=["sun & rain", "b_$x^$", "c", "d"])
        frame["harvest"] = np.where(np.sin(2 * frame["sun & rain"]) > 0, "good", "bad")
        frame.to_parquet(tmp_path / "train.parquet")
        return tmp_path / "train.parquet"

    @pytest.mark.parametrize("head", ["ridge", pytest.param("svm", marks=pytest.mark.slow)])
    def test_important_columns_are_reported(self, harvests, tmp_path, head):
        fit = ["fit", harvests, "--target", "harvest", "--head", head, "--learn", "--n-frequencies", 32]
        files = ["--output", tmp_path / "m.skops", "--page", tmp_path / "m.html"]
        report = run_json(*fit, *files)
        assert report["length_scale"] == "learned"
        assert 0 < report["learning_gain"] < 1
        assert "relevance" not in report
        page = (tmp_path / "m.html").read_text()
        assert "The columns that matter most are sun &amp; rain, " in page
        assert 'aria-label="Confusion matrix"' in page
        assert 'aria-label="Inverse length scales of the columns"' in page
        assert run_json("error", tmp_path / "m.skops", harvests)["error_rate"] < 0.15

    def test_accuracy_of_a_ridge_classifier_is_printed(self, harvests, tmp_path):
        fit = ["fit", harvests, "--target", "harvest", "--n-frequencies", 32, "--output", tmp_path / "m.skops"]
        lines = dict(line.split(": ", 1) for line in run(*fit).stdout.splitlines()[1:])
        assert "cross validated r2" not in lines
        assert "cross validated r2 of class indicators" in lines
        assert 0.6 < float(lines["held out accuracy"]) < 1.0
        assert lines["kernel error"].endswith(" % of the exact kernel matrix")

    def test_metric_is_reported(self, tmp_path, rng):
        frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"]).assign(
            y=lambda table: np.sin(2 * table["a"] - 2 * table["b"])
        )
        frame.to_parquet(tmp_path / "oblique.parquet")
        fit = ["fit", tmp_path / "oblique.parquet", "--target", "y", "--learn-matrix", "--n-frequencies", 32]
        report = run_json(*fit, "--output", tmp_path / "m.skops", "--page", tmp_path / "m.html")
        assert report["length_scale"] == "learned metric"
        assert 0 < report["learning_gain"] < 1
        page = " ".join((tmp_path / "m.html").read_text().split())
        assert "The model has a metric, learned from the target" in page
        assert 'aria-label="Inverse length scales of the columns"' in page
        assert run_json("error", tmp_path / "m.skops", tmp_path / "oblique.parquet")["r2"] > 0.9

    @pytest.mark.slow
    def test_metric_that_is_not_better_than_length_scales(self, tmp_path, harvests, monkeypatch):
        monkeypatch.setitem(LEARNERS, "learn-matrix", partial(LearnedMetric, n_rounds=0))
        options = ["--target", "harvest", "--learn-matrix", "--n-frequencies", 8]
        report = run_json("fit", harvests, *options, "--output", tmp_path / "m.skops", "--page", tmp_path / "m.html")
        assert report["length_scale"] == "learned"
        page = " ".join((tmp_path / "m.html").read_text().split())
        assert "so that the model has learned length scales" in page

    def test_only_one_of_length_scales_and_metric_is_learned(self, harvests):
        message = error_message("fit", harvests, "--target", "harvest", "--learn", "--learn-matrix")
        assert "--learn and --learn-matrix cannot be combined" in message

    @pytest.mark.slow
    def test_page_of_a_csv_file_with_odd_cells(self, tmp_path, rng):
        frame = pd.DataFrame({"size": rng.normal(size=200), "when": pd.date_range("2024-01-01", periods=200)})
        frame["y"] = 3.0 * frame["size"] + rng.normal(size=200)
        frame["size"] = ["?", *(f"{size:.3f}".replace(".", ",") for size in frame["size"][1:])]
        frame.to_csv(tmp_path / "a.csv", index=False, sep=";", decimal=",")
        options = ("--decimal", ",", "--n-frequencies", "8", "--page", tmp_path / "m.html", "--standardize", "plain")
        run_json("fit", tmp_path / "a.csv", "--target", "y", *options, "--output", tmp_path / "m.skops")
        page = (tmp_path / "m.html").read_text()
        assert 'aria-label="1. size"' in page
        assert "What was learned" not in page

    def test_report_on_another_table(self, model_file, table_file, tmp_path):
        report = run_json("report", model_file, table_file, "--output", tmp_path / "r.html")
        expected = run_json("error", model_file, table_file)
        assert {name: report[name] for name in ("rows", "rmse", "r2")} == pytest.approx(
            {name: expected[name] for name in ("rows", "rmse", "r2")}
        )
        page = (tmp_path / "r.html").read_text()
        assert "the 1,600 rows of train.parquet" in page
        assert "number of training rows" not in page

    def test_report_without_the_target(self, model_file, tmp_path):
        path = write_table(tmp_path / "a.parquet", TABLE.drop_columns(["y", "kind"]))
        result = run("report", model_file, path, "--output", tmp_path / "r.html")
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("The table has no column 'y', so that the page has no errors.")
        assert "Importance from gradients" in (tmp_path / "r.html").read_text()

    def test_report_must_be_a_page(self, model_file, table_file):
        assert "--output r.txt must end in .html." in error_message(
            "report", model_file, table_file, "--output", "r.txt"
        )


def test_contributions_are_written(model_file, table_file, tmp_path):
    run_json("predict", model_file, table_file, "--explain", "--output", tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")
    parts = [f"y_from_{name}" for name in ("a", "b", "count", "color")]
    assert list(found.columns) == ["y", "y_baseline", *parts]
    np.testing.assert_allclose(found["y_baseline"] + found[parts].sum(axis=1), found["y"], rtol=1e-9)


class TestDescribe:
    @pytest.mark.parametrize("name", [*TEXT_FILES, *PARQUET_FILES])
    def test_odd_file_ends_in_a_table_or_in_one_message(self, tmp_path, monkeypatch, name):
        if name != "long-cell.csv":
            monkeypatch.setattr(bochner.tables.sources, "CSV_BLOCK_BYTES", 1 << 16)
        path, expected = write_odd_file(tmp_path, name)
        result = run("describe", path, "--json")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        if result.exit_code:
            assert result.exit_code == 2
            assert result.stderr.startswith(f"Error: {path}{expected}")
            assert not result.stdout
        else:
            kinds = [column["kind"] for column in json.loads(result.stdout)["columns"]]
            assert not expected or kinds == expected.split()

    def test_columns_are_shown_as_a_table(self, tmp_path):
        path, _ = write_odd_file(tmp_path, "marks.csv")
        result = run("describe", path)
        assert result.exit_code == 0
        assert "marks.csv: 3 rows" in result.stdout
        lines = [line for line in result.stdout.splitlines() if line.startswith("│")]
        assert [cell.strip() for cell in lines[0].split("│")[1:7]] == ["a", "number", "text", "1", "3", "1, ?, 3"]

    @pytest.mark.parametrize("name", ["markup.csv", "nul.csv", "ragged.csv", "nested.parquet", "no-rows.parquet"])
    def test_names_and_cells_are_shown_as_they_are(self, tmp_path, name):
        path, _ = write_odd_file(tmp_path, name)
        result = run("describe", path)
        assert result.exit_code == 0, result.output
        assert "\x1b" not in result.stdout
        if name == "markup.csv":
            assert "[bold]a[/bold]" in result.stdout

    def test_problems_are_listed(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x,z,y\n" + "1,2,3\n" * 10 + "1,2\nmany,2,3\n1,2,inf\n")
        result = run("describe", path, "--target", "y")
        assert result.exit_code == 0
        shown = result.stdout
        assert "`bochner fit` would refuse this table:" in shown
        assert "row 11 is malformed: it has 2 cells and the header has 3" in shown
        assert "row 12, column 'x': invalid value 'many', expected a number" in shown
        assert "row 13, column 'y': the value is inf" in shown
        assert run_json("describe", path, "--target", "y")["problems"]

    def test_kinds_can_be_given(self, tmp_path):
        path = tmp_path / "a.csv"
        lines = [f"{1000 + i % 7},{i % 28 + 1}/{i % 12 + 1}/2020,{i}" for i in range(50)]
        path.write_text("\n".join(["zip,day,n", *lines, ""]))
        options = ("--as", "zip=category,day=date:%d/%m/%Y", "--as", "n=number")
        described = run_json("describe", path, *options)["columns"]
        assert [column["kind"] for column in described] == ["category", "date", "number"]
        assert described[0]["treatment"] == "one-hot encoded: 7 categories"
        assert "read as %d/%m/%Y" in described[1]["treatment"]
        kinds = [column["kind"] for column in run_json("describe", path, "--drop", "zip,day")["columns"]]
        assert kinds == ["dropped", "dropped", "number"]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--as", "x"], "--as x is not of the form column=kind; write for example --as zip=category."),
            (["--as", "color=words"], "cannot be of the kind 'words'; give one of number, boolean, category, date"),
            (["--as", "color=number"], "has no column 'color'"),
            (["--decimal", ",", "--thousands", ","], "--decimal ',' and --thousands ',' must be two different char"),
            (["--decimal", "00"], "--decimal '00' cannot separate digits; give one character"),
        ],
    )
    def test_invalid_options(self, tmp_path, options, message):
        (tmp_path / "a.csv").write_text("a,b\n1,2\n3,5\n")
        result = run("describe", tmp_path / "a.csv", *options)
        assert result.exit_code == 2
        assert message in result.stderr

    def test_folder_of_parquet_files(self, table_folder):
        description = run_json("describe", table_folder, "--target", "y")
        assert description["rows"] == TABLE.num_rows
        kinds = ["number", "number", "number", "category", "number", "category"]
        assert [column["kind"] for column in description["columns"]] == kinds
        assert description["columns"][4]["treatment"] == "target"

    def test_standard_input(self):
        result = CliRunner().invoke(app, ["describe", "-"], input="a,b\n1,x\n2,y\n")
        assert result.exit_code == 0, result.output
        assert "standard input: 2 rows" in result.stdout
        result = CliRunner().invoke(app, ["describe", "-"], input="a,a\n1,x\n")
        assert result.stderr == "Error: standard input has more than one column named 'a'; rename one of them.\n"
