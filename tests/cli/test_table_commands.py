# SPDX-License-Identifier: BSD-3-Clause
"""`bochner describe`, `fit`, `predict` and `error`."""

import io
import json

import numpy as np
import pandas as pd
import pytest

import bochner.tables.reader
from bochner import TableClassifier, TableEncoder, TableRegressor
from bochner.tables.table_models import default_estimator
from tests.cli.commands import error_message, run, run_json
from tests.cli.odd_files import PARQUET_FILES, TEXT_FILES, write_odd_file
from tests.tables.tables import make_table, write_table

TABLE = make_table()[:500]


@pytest.mark.parametrize(
    ("options", "target", "dropped", "model"),
    [
        (["--fast"], "y", "kind", TableRegressor(effort="fast", random_state=5)),
        (["--fast"], "kind", "y", TableClassifier(effort="fast", random_state=5)),
        (["--fast", "--model", "features"], "y", "kind", None),
    ],
)
def test_fit_equals_fit_on_a_path_in_python(tmp_path, options, target, dropped, model):
    path = write_table(tmp_path / "a.parquet", TABLE[:400], row_group_size=150)
    columns = ("--target", target, "--drop", dropped, "--seed", "5")
    report = run_json("fit", path, *columns, *options, "--output", tmp_path / "m.skops")
    if model is None:
        model = TableRegressor(default_estimator(False, 400, "fast", 5, features=True), random_state=5)
    model.set_params(encoder=TableEncoder(drop=[dropped], random_state=5)).fit(path, target)
    run_json("predict", tmp_path / "m.skops", path, "--output", tmp_path / "out.parquet")
    predictions = pd.read_parquet(tmp_path / "out.parquet")[target].to_numpy()
    np.testing.assert_array_equal(predictions, model.predict(path))
    assert report["model"] == type(model.estimator_).__name__
    assert report["held_out_rows"] == 80


def test_reports_of_a_regression(table_file, tmp_path):
    model, output = tmp_path / "m.skops", tmp_path / "out.csv"
    result = run("fit", table_file, "--target", "y", "--drop", "kind", "--fast", "--output", model)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "Categories, one-hot encoded: color (3)."
    labels = ["task", "target", "rows", "encoded columns", "model", "seconds", "output", "held out rows"]
    measures = ["rmse", "mean absolute error", "r2"]
    assert [line.partition(":")[0] for line in lines[1:]] == labels + measures
    result = run("predict", model, table_file, "--output", output, "--interval", "0.8")
    assert result.stdout.splitlines() == ["rows: 500", "target: y", f"output: {output}"]
    assert list(pd.read_csv(output).columns) == ["y", "y_low", "y_high"]
    result = run("error", model, table_file)
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == ["rows", *measures]


def test_reports_of_a_classification(table_file, tmp_path):
    options = ("--target", "kind", "--drop", "y", "--fast")
    report = run_json("fit", table_file, *options, "--output", tmp_path / "m.skops")
    assert report["task"] == "classification"
    assert report["encoded_columns"] == 6
    assert "columns" not in report  # in the JSON object of `describe`, these are the columns of the table
    assert report["majority_share"] < report["accuracy"] < 1.0
    assert 0.5 < report["auc"] < 1.0
    assert 0.0 < report["log_loss"] < np.log(3)
    run_json("predict", tmp_path / "m.skops", table_file, "--proba", "--output", tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv")
    probabilities = found.filter(like="kind_probability_").to_numpy()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    right = found["kind"].to_numpy() == TABLE["kind"].to_numpy()
    assert run_json("error", tmp_path / "m.skops", table_file)["accuracy"] == pytest.approx(right.mean())


def test_predictions_on_standard_output(model_file, table_file):
    result = run("predict", model_file, table_file, "--output", "-", "--keep", "color,b", "--interval", "0.5")
    assert result.exit_code == 0, result.output
    predictions = pd.read_csv(io.StringIO(result.stdout))
    assert list(predictions.columns) == ["color", "b", "y", "y_low", "y_high"]
    np.testing.assert_array_equal(predictions["color"], TABLE["color"])
    message = error_message("predict", model_file, table_file, "--output", "-", "--json")
    assert "--json and --output - both write to standard output" in message
    message = error_message("predict", model_file, table_file, "--output", "-", "--interval", "90")
    assert message == "Error: --interval must be a share between 0 and 1, such as 0.9. Got 90.\n"


def test_replaced_model_is_reported(table_file, tmp_path):
    model = tmp_path / "m.skops"
    model.write_bytes(b"an earlier model")
    result = run("fit", table_file, "--target", "y", "--drop", "kind", "--fast", "--output", model)
    assert result.stdout.splitlines()[0] == f"{model} exists; it is replaced when the new model is complete."


def test_json_has_no_nan(model_file, tmp_path):
    report = run_json("error", model_file, write_table(tmp_path / "one.csv", TABLE[:1]))
    assert report["r2"] is None
    assert set(report) == {"rows", "rmse", "mean_absolute_error", "r2"}


def test_messages_go_to_standard_error_with_json(table_file, tmp_path):
    options = ("--target", "y", "--drop", "kind", "--fast", "--output", tmp_path / "m.skops")
    result = run("fit", table_file, *options, "--json")
    assert result.stderr.startswith("Categories, one-hot encoded")
    assert result.stdout.count("\n") == 1


def test_error_needs_the_target(model_file, tmp_path):
    path = write_table(tmp_path / "a.parquet", TABLE.drop_columns(["y", "kind"]))
    for command in ("error", "report"):
        assert "has no column 'y'" in error_message(command, model_file, path)


def test_unseen_categories_are_reported_where_the_table_has_the_target(model_file, tmp_path):
    colors = ["mauve"] * 5 + TABLE["color"].to_pylist()[5:50]
    path = write_table(tmp_path / "a.parquet", TABLE[:50].set_column(3, "color", [colors]))
    for command, output in {
        "error": (),
        "predict": ("--output", tmp_path / "p.csv"),
        "report": ("--output", tmp_path / "r.html"),
    }.items():
        result = run(command, model_file, path, *output)
        assert result.exit_code == 0, result.output
        assert "Warning: Column 'color' has categories that are not in the training rows, in 5 rows" in result.stderr


def test_a_european_table_with_rare_classes(tmp_path, rng):
    """From `describe` to `report`: decimal commas, marks of missing values, Latin-1, ids, dates, text and a leak."""
    jobs, size = rng.choice(["Koch", "Lehrerin", "Fahrer"], size=400), rng.normal(170, 10, size=400)
    rare = (jobs == "Koch") & (rng.random(400) < 0.12)
    lines = ["id;größe;umsatz;plz;datum;beruf;leck;kauf"]
    for i, (job, number, is_rare) in enumerate(zip(jobs, size, rare, strict=True)):
        shown = f"{number:.1f}".replace(".", ",") if i % 20 else "k.A."
        word = "ja" if is_rare else "nein"
        date = f"{i % 28 + 1:02}.{i % 12 + 1:02}.2020"
        lines.append(f"{i};{shown};1.{i % 900 + 100},50 EUR;0{1000 + i % 7};{date};{job} {i};{word};{word}")
    path = tmp_path / "a.csv"
    path.write_bytes("\n".join([*lines, ""]).encode("latin-1"))
    assert "give its encoding, such as --encoding cp1252" in error_message("describe", path)
    message = error_message("fit", path, "--target", "kauf", "--encoding", "latin-1", "--output", tmp_path / "m.skops")
    assert "(380 of 400 cells are numbers with a decimal ','); correct it, give --missing k.A. if it" in message
    options = ("--encoding", "latin-1", "--missing", "k.A.", "--target", "kauf")
    described = {column["name"]: column["kind"] for column in run_json("describe", path, *options)["columns"]}
    assert list(described.values()) == [
        "number",
        "number",
        "number",
        "category",
        "date",
        "text",
        "category",
        "category",
    ]
    fit = ("fit", path, *options, "--fast", "--output", tmp_path / "m.skops")
    assert "Nearly all targets follow from a single column: leck." in run(*fit).stdout
    report = run_json(*fit, "--drop", "leck,id")
    assert report["majority_share"] > 0.9
    assert report["auc"] > 0.6
    assert run_json("report", tmp_path / "m.skops", path, "--output", tmp_path / "r.html")["rows"] == 400


class TestInvalidInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--target", "cost"], "has no column 'cost'; its columns are 'a', 'b'"),
            (["--target", "y", "--drop", "nix"], "has no column 'nix'"),
            (
                ["--target", "kind", "--task", "regression"],
                "column 'kind' contains text; give --task classification for classes",
            ),
            (
                ["--target", "y", "--task", "classification"],
                "column 'y' has 500 distinct values in 500 rows, too many",
            ),
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

    def test_more_folds_than_rows_name_an_option(self, tmp_path):
        path = write_table(tmp_path / "a.csv", {"x": [1, 2], "y": [2.5, 3.5]})
        message = error_message("fit", path, "--target", "y", "--model", "features", "--output", tmp_path / "m.skops")
        assert message == "Error: `cv`=5 is more folds than the 2 samples; omit --model features.\n"

    def test_invalid_cell_is_located(self, tmp_path):
        heights = TABLE["b"].to_pylist()
        heights[234] = np.inf
        path = write_table(tmp_path / "a.parquet", TABLE.set_column(1, "b", [heights]))
        message = error_message("fit", path, "--target", "y", "--output", tmp_path / "m.skops")
        assert "a.parquet: row 235, column 'b': the value is inf; correct it, or drop the row" in message

    def test_all_problems_are_reported_at_once(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x,z,y\n" + "1,2,3\n" * 10 + "one,2,3\n1,two,3\n")
        result = run("fit", path, "--target", "y", "--output", tmp_path / "m.skops")
        assert result.exit_code == 2
        lines = result.stderr.splitlines()
        assert lines[0] == f"Error: {path} has 2 problems:"
        assert [line.partition(" (")[0] for line in lines[1:]] == [
            f"  1. {path}: row 11, column 'x': invalid value 'one', expected a number",
            f"  2. {path}: row 12, column 'z': invalid value 'two', expected a number",
        ]

    def test_input_is_not_overwritten(self, tmp_path, model_file):
        data = write_table(tmp_path / "a.csv", TABLE[:50])
        before = data.read_bytes()
        assert "would overwrite an input file" in error_message("fit", data, "--target", "y", "--output", data)
        assert "would overwrite an input file" in error_message("predict", model_file, data, "--output", data)
        assert data.read_bytes() == before

    @pytest.mark.parametrize("output", ["data/part-1.parquet", "link.parquet", "hard.parquet", "other/part-1.parquet"])
    def test_part_of_the_input_is_not_overwritten(self, tmp_path, model_file, output):
        (tmp_path / "data").mkdir()
        part = write_table(tmp_path / "data" / "part-1.parquet", TABLE[:50])
        (tmp_path / "link.parquet").symlink_to(part)
        (tmp_path / "hard.parquet").hardlink_to(part)
        (tmp_path / "other").symlink_to(tmp_path / "data")
        before = part.read_bytes()
        message = error_message("predict", model_file, tmp_path / "data", "--output", tmp_path / output)
        assert f"--output {tmp_path / output} would overwrite an input file; give another name." in message
        assert part.read_bytes() == before

    def test_output_does_not_become_a_part_of_the_input(self, tmp_path, model_file):
        (tmp_path / "data").mkdir()
        (tmp_path / "other").symlink_to(tmp_path / "data")
        write_table(tmp_path / "data" / "part-1.parquet", TABLE[:50])
        predict = "predict", model_file, tmp_path / "data", "--output"
        for output in ("data/predictions.parquet", "other/predictions.parquet"):
            message = error_message(*predict, tmp_path / output)
            assert f"would become a part of {tmp_path / 'data'}; give another name." in message
        assert run(*predict, tmp_path / "data" / "predictions.csv").exit_code == 0
        assert [file.name for file in sorted((tmp_path / "data").iterdir())] == ["part-1.parquet", "predictions.csv"]

    def test_a_model_is_not_overwritten_by_its_export(self, model_file):
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
            assert "is not a model file; give a file written by `bochner fit`" in message
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

    def test_important_columns_are_reported(self, harvests, tmp_path):
        fit = ["fit", harvests, "--target", "harvest", "--fast", "--output", tmp_path / "m.skops"]
        result = run(*fit, "--page", tmp_path / "m.html")
        assert result.exit_code == 0, result.output
        page = (tmp_path / "m.html").read_text()
        for title in ("Confusion of classes", "Calibration", "Importance", "sun &amp; rain", "b_$x^$"):
            assert f'aria-label="{title}"' in page
        assert "80 held-out rows, predicted by the same model fitted on other rows" in page

    def test_a_page_needs_held_out_rows(self, tmp_path):
        path = write_table(tmp_path / "a.parquet", TABLE[:40].drop_columns("kind"))
        fit = ["fit", path, "--target", "y", "--fast", "--output", tmp_path / "m.skops"]
        result = run(*fit, "--page", tmp_path / "m.html")
        assert result.exit_code == 2
        assert "A page needs 50 rows or more" in result.stderr
        assert "There are too few rows" in run(*fit).stdout

    def test_report_on_another_table(self, model_file, table_file, tmp_path):
        report = run_json("report", model_file, table_file, "--output", tmp_path / "r.html")
        expected = run_json("error", model_file, table_file)
        assert {name: report[name] for name in ("rows", "rmse", "r2")} == pytest.approx(
            {name: expected[name] for name in ("rows", "rmse", "r2")}
        )
        page = (tmp_path / "r.html").read_text()
        assert "The plots show rows of train.parquet, which the model has not seen unless" in page

    def test_report_must_be_a_page(self, model_file, table_file):
        assert "--output r.txt must end in .html." in error_message(
            "report", model_file, table_file, "--output", "r.txt"
        )


class TestDescribe:
    @pytest.mark.parametrize("name", [*TEXT_FILES, *PARQUET_FILES])
    def test_odd_file_ends_in_a_table_or_in_one_message(self, tmp_path, monkeypatch, name):
        if name != "long-cell.csv":
            monkeypatch.setattr(bochner.tables.reader, "CSV_BLOCK_BYTES", 1 << 16)
        path, expected = write_odd_file(tmp_path, name)
        result = run("describe", path, "--json")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code in (0, 2)
        if not result.stdout:
            assert result.stderr.startswith(f"Error: {path}{expected}")
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

    @pytest.mark.parametrize("name", ["markup.csv", "nul.csv", "nested.parquet", "no-rows.parquet"])
    def test_names_and_cells_are_shown_as_they_are(self, tmp_path, name):
        path, _ = write_odd_file(tmp_path, name)
        result = run("describe", path)
        assert result.exit_code == (0 if name in ("markup.csv", "nul.csv") else 2), result.output
        assert "\x1b" not in result.stdout
        if name == "markup.csv":
            assert "[bold]a[/bold]" in result.stdout

    def test_problems_are_listed(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x,z,y\n" + "1,2,3\n" * 10 + "many,2,3\n1,2,inf\n")
        result = run("describe", path, "--target", "y", "--json")
        assert result.exit_code == run("fit", path, "--target", "y").exit_code == 2
        problems = json.loads(result.stdout)["problems"]
        assert "row 11, column 'x': invalid value 'many', expected a number" in problems[0]
        assert "row 12, column 'y': the value is inf" in problems[1]

    @pytest.mark.parametrize(
        ("cells", "options", "message"),
        [
            ([f"{i} of 9" for i in range(60)], [], "column 'y' has 60 distinct values in 60 rows, too many for classi"),
            (["a"] * 60, [], "column 'y' has one class, 'a'; give rows of two or more"),
            (
                ["a", "b"] * 30,
                ["--as", "ch=date"],
                "column 'ch': invalid value 'p', expected a date of the format iso;",
            ),
            (["a", "b"] * 30, ["--as", "y=boolean"], "column 'y': invalid value 'a', expected true or false; correct"),
            (["a", "b"] * 30, ["--drop", "y"], "column 'y' is the target; omit it from --drop y."),
        ],
    )
    def test_what_fit_refuses_is_refused(self, tmp_path, cells, options, message):
        path = write_table(tmp_path / "a.csv", {"x": np.arange(60.0) ** 2, "ch": ["p", "q", "r"] * 20, "y": cells})
        options = (path, "--target", "y", *options)
        assert message in error_message("fit", *options, "--output", tmp_path / "m.skops")
        for json_option in ([], ["--json"]):
            result = run("describe", *options, *json_option)
            assert result.exit_code == 2
            assert message in result.stderr
        if result.stdout:
            assert message in json.loads(result.stdout)["problems"][0]

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
            (
                ["--as", "color=words"],
                "cannot be of the kind 'words'; give one of number, boolean, category, text, date",
            ),
            (["--as", "a=id"], "time, duration, or --drop a to leave it out."),
            (["--as", "color=number"], "has no column 'color'"),
            (["--decimal", "^"], "'^' is not one of '.', ','."),
        ],
    )
    def test_invalid_options(self, tmp_path, options, message):
        (tmp_path / "a.csv").write_text("a,b\n1,2\n3,5\n")
        result = run("describe", tmp_path / "a.csv", *options)
        assert result.exit_code == 2
        assert message in result.stderr

    def test_folder_of_parquet_files(self, table_folder):
        description = run_json("describe", table_folder, "--target", "y")
        assert description["rows"] == 1600
        kinds = ["number", "number", "number", "category", "number", "category"]
        assert [column["kind"] for column in description["columns"]] == kinds
        assert description["columns"][4]["treatment"] == "target: numbers"
