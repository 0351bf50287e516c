# SPDX-License-Identifier: BSD-3-Clause
"""Fits on files that change between two passes."""

import os

import numpy as np
import pytest
import typer
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_regressor

from bochner import FeatureClassifier, FeatureRegressor, TableModel
from tests.cli.commands import error_message
from tests.tables.tables import write_table

RNG = np.random.default_rng(0)
COLUMNS = {"x": RNG.normal(size=600), "y": RNG.normal(size=600), "kind": RNG.choice(["a", "b"], size=600)}
CHANGED = "changed while it was read; try again when nothing writes to it."


class Features(TransformerMixin, BaseEstimator):
    """The columns themselves; something is done when they are fitted, between the passes over the rows."""

    def __init__(self, action=None):
        self.action = action

    def fit(self, X, y=None):
        self.action()
        return self

    def transform(self, X):
        return X


def some_rows(n_rows):
    return {name: values[:n_rows] for name, values in COLUMNS.items()}


def append(path):
    with path.open("a") as file:
        file.write(path.read_text().partition("\n")[2])


def truncate(path):
    os.truncate(path, path.stat().st_size // 3)


def replace_by_other_columns(path):
    write_table(path, {"z": np.arange(9.0)})


def replace_by_text(path):
    write_table(path, COLUMNS | {"x": COLUMNS["kind"]})


CHANGES = [append, truncate, replace_by_other_columns, replace_by_text, os.remove]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "model",
    [
        FeatureRegressor(),
        FeatureRegressor(loss="huber"),
        *(FeatureClassifier(loss=loss) for loss in ("squared_error", "squared_hinge", "log_loss")),
    ],
)
def test_changed_csv_file_is_not_fitted(tmp_path, model, change):
    path = write_table(tmp_path / "train.csv", COLUMNS)
    model = clone(model).set_params(features=Features(lambda: change(path)))
    with pytest.raises(ValueError, match=rf"train\.csv {CHANGED}"):
        model.fit(path, "y" if is_regressor(model) else "kind")


@pytest.mark.parametrize("change", [replace_by_other_columns, replace_by_text, truncate, os.remove])
def test_changed_parquet_file_is_not_fitted(tmp_path, change):
    path = write_table(tmp_path / "train.parquet", COLUMNS, row_group_size=200)
    with pytest.raises(ValueError, match=rf"train\.parquet {CHANGED}"):
        TableModel(FeatureRegressor(Features(lambda: change(path)))).fit(path, "y")


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: write_table(folder / "part-3.parquet", COLUMNS),
        lambda folder: (folder / "part-1.parquet").unlink(),
        lambda folder: write_table(folder / "part-2.parquet", some_rows(300)),
    ],
    ids=["added", "deleted", "replaced"],
)
@pytest.mark.parametrize("pattern", ["", "*.parquet"])
def test_changed_folder_is_not_fitted(tmp_path, pattern, change):
    for name in ("part-1.parquet", "part-2.parquet"):
        write_table(tmp_path / name, COLUMNS)
    with pytest.raises(ValueError, match=CHANGED):
        FeatureRegressor(Features(lambda: change(tmp_path))).fit(tmp_path / pattern, "y")


def test_numbers_of_rows_are_compared_too(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("x,y\n" + "1,2\n3,5\n" * 300)
    before = path.stat()

    def change():
        path.write_text("x,y\n" + "1.00,22\n" * 300)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(ValueError, match=r"while it was read \(600 rows in the first pass, 300 in a later one\); try"):
        FeatureRegressor(Features(change)).fit(path, "y")


def test_change_in_the_last_pass_is_found_at_its_end(tmp_path):
    path = write_table(tmp_path / "train.csv", COLUMNS)

    class Late(Features):
        def fit(self, X, y=None):
            return self

        def transform(self, X):
            os.utime(path)
            return X

    with pytest.raises(ValueError, match=CHANGED):
        FeatureRegressor(Late()).fit(path, "y")


def test_command_ends_with_one_line(tmp_path, monkeypatch):
    path, echo = write_table(tmp_path / "train.csv", COLUMNS), typer.echo

    def print_and_change(message, **options):
        if message.startswith("Task: "):
            truncate(path)
        echo(message, **options)

    monkeypatch.setattr(typer, "echo", print_and_change)
    message = error_message("fit", path, "--target", "y", "--output", tmp_path / "m.skops")
    assert message == f"Error: {path} {CHANGED}\n"
    assert [file.name for file in tmp_path.iterdir()] == ["train.csv"]
