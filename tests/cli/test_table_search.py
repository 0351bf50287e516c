# SPDX-License-Identifier: BSD-3-Clause
"""`bochner fit` without --fast: settings that are compared, fixed, reported and resumed."""

import numpy as np
import pytest

from bochner import TableModel
from bochner.cli import table_commands
from bochner.table_models import table_model
from bochner.table_models.model_files import load
from bochner.table_models.settings import FREE
from tests.cli.commands import error_message, run, run_json
from tests.table_models.cases import fitted_arrays
from tests.tables.tables import make_table, write_table

OPTIONS = ("--target", "y", "--length-scale", "1", "--n-frequencies", "8", "--seed", "3", "--output")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("search") / "a.parquet", make_table()[:300].drop_columns("kind"))


def test_trials_are_reported_as_json_and_stored(path, tmp_path):
    report = run_json("fit", path, *OPTIONS, tmp_path / "m.skops", search=True)
    stored = load(tmp_path / "m.skops").trials
    assert report["trials"] == [trial.summary() for trial in stored]
    assert [(trial["features"], trial["kernel"]) for trial in report["trials"]][:2] == [
        ("fourier", "gaussian"),
        ("landmarks", "gaussian"),
    ]
    (chosen,) = [trial for trial in report["trials"] if trial["chosen"]]
    assert chosen["rmse"] == min(trial["rmse"] for trial in report["trials"])
    assert report["kernel"] == chosen["kernel"]
    assert report["features"] == chosen["features"]


def test_trials_are_printed_as_one_table(path, tmp_path):
    result = run("fit", path, *OPTIONS, tmp_path / "m.skops", search=True)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert sum(line.startswith("│") for line in lines) == 3
    assert sum(line.startswith("│ *") for line in lines) == 1
    assert "Settings compared by 5-fold cross-validation" in result.stdout
    assert "The error of the chosen settings (*) is smaller than the second smallest one by" in result.stdout
    assert "trials:" not in result.stdout


@pytest.mark.parametrize(
    ("options", "fixed"),
    [
        ([], []),
        (["--features", "landmarks"], ["features"]),
        (["--kernel", "laplacian"], ["kernels"]),
        (["--n-frequencies", "8"], ["n_frequencies"]),
        (["--length-scale", "2"], ["learn"]),
        (["--learn"], ["learn"]),
        (["--learn-matrix", "--kernel", "matern"], ["learn", "kernels"]),
        (["--fast"], list(FREE)),
    ],
)
def test_options_fix_what_they_name(path, tmp_path, monkeypatch, options, fixed):
    seen = []

    def fit_table(table, settings, *arguments):
        seen.append(settings)
        raise ValueError("stopped")

    monkeypatch.setattr(table_commands, "fit_table", fit_table)
    error_message("fit", path, "--target", "y", *options, "--output", tmp_path / "m.skops", search=True)
    assert seen[0].free == tuple(name for name in FREE if name not in fixed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "1", "--fast"], "--minutes limits the comparison of settings, which --fast omits; give one"),
        (["--minutes", "0"], "--minutes 0 must be a positive number."),
        (["--minutes", "nan"], "--minutes nan must be a positive number."),
    ],
)
def test_invalid_options(path, options, message):
    assert message in error_message("fit", path, "--target", "y", *options, search=True)


def test_time_limit(path, tmp_path):
    report = run_json("fit", path, *OPTIONS, tmp_path / "m.skops", "--minutes", "0.0000001", search=True)
    assert report["trials"] == []
    assert run_json("fit", path, *OPTIONS, tmp_path / "fast.skops")["alpha"] == report["alpha"]


def test_table_model_is_that_of_the_command(path, tmp_path, monkeypatch):
    free = ("kernels",)  # other changes take most of the time
    monkeypatch.setattr(table_model, "FREE", free)
    monkeypatch.setattr(table_commands, "FREE", free)
    report = run_json("fit", path, "--target", "y", "--seed", "5", "--output", tmp_path / "m.skops", search=True)
    model = TableModel(random_state=5).fit(path, "y")
    saved = load(tmp_path / "m.skops")
    for name, values in fitted_arrays(saved).items():
        np.testing.assert_array_equal(fitted_arrays(model.model_)[name], values)
    assert [trial.errors for trial in model.trials_] == [trial.errors for trial in saved.trials]
    assert len(report["trials"]) == 2
