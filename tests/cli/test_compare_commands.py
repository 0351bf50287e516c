# SPDX-License-Identifier: BSD-3-Clause
"""`bochner demo` and `compare`."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from bochner.cli import console
from bochner.compare.methods import METHODS
from tests.cli.commands import error_message, run, run_json

pytest.importorskip("matplotlib")


@pytest.fixture
def table(tmp_path, rng, monkeypatch):
    """A table in the working directory."""
    X = rng.normal(size=(200, 3))
    frame = pd.DataFrame(X, columns=list("abc")).assign(city="x", y=X[:, 0] + X[:, 1] ** 2)
    frame["kind"] = np.where(frame["a"] > 0, "up", "down")
    frame.to_csv(tmp_path / "mine.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.csv"


@pytest.fixture
def no_work(monkeypatch):
    """Let a test fail if a command starts to fit features."""

    def work(*_):
        raise AssertionError("features were fitted")

    for method in METHODS:
        monkeypatch.setitem(METHODS, method, work)


def test_table_recommendation_and_page(table):
    result = run("compare", table, "--n-components", "8,4", "--seeds", 1)
    assert result.exit_code == 0, result.output
    assert "Categories, one-hot encoded: kind (2).\n" in result.stdout
    assert "Left out: city (constant: all cells are 'x')." in result.stdout
    assert "Errors in % on 100 held-out rows of mine.csv, one seed" in " ".join(result.stdout.split())
    assert all(method in result.stdout for method in METHODS)
    assert "\nUse " in result.stdout
    assert "test error" not in result.stdout
    assert result.stdout.endswith("The page: bochner-comparison.html\n")
    page = (table.parent / "bochner-comparison.html").read_text(encoding="utf-8")
    assert "<h1>Which features to use on mine.csv?</h1>" in page
    lines = result.stderr.splitlines()
    assert lines[0].startswith("1 of 18: plain Fourier, 4 columns, seed 0: kernel error ")
    assert lines[-1].startswith("18 of 18: SVD limit, 8 columns, seed 0: kernel error ")


def test_json_with_a_target(table):
    found = run_json("compare", table, "--target", "y", "--n-components", 4, "--seeds", 1, "--output", "page.html")
    assert found["recommended"] in METHODS
    assert found["call"] in [line["call"] for line in found["results"]]
    assert found["page"] == "page.html"
    assert [line["method"] for line in found["results"]] == [*METHODS, "SVD limit"]
    assert found["results"][-1]["test_error"] is None


def test_quick(table):
    found = run_json("compare", table, "--target", "kind", "--quick")
    assert {line["n_components"] for line in found["results"]} == {50}
    assert found["results"][0]["kernel_error_se"] == 0.0


def test_stopped_run_leaves_no_page(table, monkeypatch):
    make = METHODS["matrix"]

    def stop(n_columns, *arguments):
        if n_columns == 8:  # and not when loops are compiled
            raise KeyboardInterrupt
        return make(n_columns, *arguments)

    monkeypatch.setitem(METHODS, "matrix", stop)
    stopped = run("compare", table, "--n-components", 8, "--seeds", 1)
    assert stopped.exit_code == 130
    assert stopped.stderr.splitlines()[-1] == "Stopped."
    assert not (table.parent / "bochner-comparison.html").exists()


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{table}", "--target", "z"], "mine.csv has no column 'z'; its columns are 'a', 'b', 'c', 'city', 'y'"),
        (["{table}", "--target", "city"], "All targets are equal to x"),
        (["{table}", "--as", "a=colour"], "'a' cannot be of the kind 'colour'; give one of number, boolean"),
        (["{table}", "--drop", "a,zz"], "mine.csv has no column 'zz'"),
        (["{table}", "--n-components", "9"], "n_components is [9]; give even numbers"),
        (["{table}", "--n-components", "4,x"], "--n-components x is not a number"),
        (["{table}", "--n-components", "1000"], "n_components is [1000]; give even numbers from 2 to 100"),
        (["none.csv"], "none.csv does not exist"),
        (["{table}", "--output", "{table}"], "would overwrite an input file"),
        (["{table}", "--output", "."], "is a folder"),
    ],
)
def test_invalid_input_gives_one_error_message(table, arguments, message):
    assert message in error_message("compare", *(argument.format(table=table) for argument in arguments))


@pytest.mark.usefixtures("no_work", "table")
@pytest.mark.parametrize("arguments", [["demo"], ["compare", "mine.csv"]], ids=lambda words: words[0])
def test_missing_matplotlib_is_reported_before_any_work(monkeypatch, arguments):
    monkeypatch.setattr(console, "find_spec", lambda _: None)
    message = "Error: The page needs matplotlib: pip install 'bochner[all]'.\n"
    assert error_message(*arguments) == message


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("output", "message"),
    [("none/page.html", "--output none/page.html is in a folder that does not exist"), (".", "--output . is a fo")],
)
def test_output_that_cannot_be_written(output, message):
    assert message in error_message("demo", "--output", output)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_pipe_gets_the_table_in_utf_8(tmp_path, encoding):
    done = subprocess.run(
        [sys.executable, "-m", "bochner", "demo"],
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "", "PYTHONIOENCODING": encoding},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert "┃ method " in done.stdout
    assert "\x1b[" not in done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bochner-demo.html"]
