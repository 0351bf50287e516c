# SPDX-License-Identifier: BSD-3-Clause
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pytest

import bochner.tables.survey
from bochner.tables.reader import Table
from bochner.tables.survey import Survey
from tests.tables.tables import survey_file, write_table


@pytest.fixture(scope="module")
def numbered_file(tmp_path_factory):
    """10,000 rows in ten row groups; the column x contains the row numbers."""
    columns = {"x": np.arange(10_000.0), "y": np.zeros(10_000)}
    return write_table(tmp_path_factory.mktemp("survey") / "a.parquet", columns, row_group_size=1000)


def test_column_without_values_where_there_are_targets_is_filled(tmp_path):
    columns = {"a": [1.0, 2.0, 3.0, 4.0], "b": [None, None, None, 7.0], "y": [1.0, 2.0, 3.0, None]}
    table = Table(write_table(tmp_path / "a.parquet", columns), "y")
    encoding = Survey(table, 0).encoding()
    rows = np.concatenate([batch.X for batch in encoding.open(tmp_path / "a.parquet").batches()])
    assert np.isfinite(rows).all()
    assert (np.asarray(encoding.scale) > 0.0).all()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_survey_recognizes_columns_and_samples_rows(table_files, columns, suffix):
    result = survey_file(table_files[suffix])
    assert result.n_rows == 500
    height, count, color = result.columns
    assert (height.kind, count.kind, color.kind) == ("number", "number", "category")
    assert color.categories == ("blue", "green", "red")
    assert height.fill == np.median(columns["height"])
    # A short table is sampled completely.
    np.testing.assert_array_equal(result.encoding().targets(result.sample.cells), columns["y"])


def test_sample_is_uniform_and_does_not_depend_on_the_chunks(numbered_file, monkeypatch):
    monkeypatch.setattr(bochner.tables.survey, "SAMPLE_ROWS", 1000)
    sampled = survey_file(numbered_file, seed=3).sample.cells.column("x").to_numpy()
    table = Table(numbered_file, "y")
    table.batch_rows = 77
    np.testing.assert_array_equal(Survey(table, 3).sample.cells.column("x").to_numpy(), sampled)
    assert len(np.unique(sampled)) == 1000
    assert (np.diff(sampled) > 0).all()
    counts = np.histogram(sampled, bins=10, range=(0, 10_000))[0]
    assert np.abs(counts - 100).max() < 5 * np.sqrt(100)
    result = survey_file(numbered_file, seed=3).sample
    np.testing.assert_array_equal(result.positions, sampled)
    assert (survey_file(numbered_file, seed=4).sample.cells.column("x").to_numpy() != sampled).any()


class TestClasses:
    def survey(self, tmp_path, values):
        return survey_file(write_table(tmp_path / "a.csv", {"x": list(range(len(values))), "y": values}))

    @pytest.mark.parametrize("values", [[2, 1, 1] * 10, ["b", "a"] * 10, [True, False] * 10, ["1", "?", "2"] * 10])
    def test_classes_are_accepted(self, tmp_path, values):
        survey = self.survey(tmp_path, values)
        survey.check_target(is_classifier=True)
        assert survey.task == "classification"

    def test_fractions_are_refused(self, tmp_path):
        survey = self.survey(tmp_path, [0.5, 1.0] * 5)
        assert survey.task == "regression"
        with pytest.raises(
            ValueError, match="column 'y' contains fractional numbers, which cannot be classes; fit a reg"
        ):
            survey.check_target(is_classifier=True)

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (list(range(1001)), "has 1,001 distinct values in 1,001 rows, too many for classification"),
            ([f"{i} of 9" for i in range(40)], "has 40 distinct values in 40 rows, too many for classification"),
        ],
        ids=["numbers", "text"],
    )
    def test_one_class_per_row_is_refused(self, tmp_path, values, message):
        with pytest.raises(ValueError, match=f"column 'y' {message}"):
            self.survey(tmp_path, values).check_target(is_classifier=True)

    def test_a_single_class_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match="column 'y' has one class, 'a'; give rows of two or more"):
            self.survey(tmp_path, ["a"] * 10).check_target(is_classifier=True)

    def test_numbers_with_units_are_a_regression(self, tmp_path):
        survey = self.survey(tmp_path, [f"{i},5 EUR" for i in range(100)])
        assert survey.task == "regression"
        assert survey.encoding().targets(survey.sample.cells)[:2].tolist() == [0.5, 1.5]


def test_target_that_turns_into_text_after_the_first_block(tmp_path, monkeypatch):
    monkeypatch.setattr("bochner.tables.reader.CSV_BLOCK_BYTES", 512)
    labels = ["1", "2", "?"] * 67 + ["a", "b", "c"] * 133
    survey = survey_file(write_table(tmp_path / "a.csv", {"x": np.arange(600.0), "y": labels}))
    assert survey.target_column.kind == "category"
    assert (survey.n_rows, survey.n_without_target, survey.sample.cells.num_rows) == (600, 0, 600)
    encoded = [batch.y for batch in survey.encoding().open(survey.table.source.path, with_target=True).batches()]
    assert np.concatenate(encoded).tolist() == labels


def test_empty_table_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n")
    table = Table(tmp_path / "a.csv", "y")
    with pytest.raises(ValueError, match=r"a\.csv has no rows; its columns are 'x', 'y'"):
        Survey(table, 0).check()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_targets_may_be_missing(tmp_path, suffix):
    columns = {"x": [0.5, 1.5, 2.5, 1.0], "y": [1.0, None, 2.0, 2.0], "kind": [None, None, "a", "b"]}
    path = write_table(tmp_path / f"a{suffix}", columns)
    survey = survey_file(path, "y", drop=["kind"])
    assert (survey.n_rows, survey.n_without_target, survey.target_values) == (3, 1, [1.0, 2.0])
    survey = survey_file(path, "kind", drop=["y"])
    assert (survey.n_rows, survey.n_without_target, survey.target_values) == (2, 2, ["a", "b"])
    assert survey.encoding().targets(survey.sample.cells).tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "drop", "message"),
    [
        (
            {"a": [1, 1], "b": ["x", "x"], "id": [1, 2], "y": [1, 2]},
            ["id"],
            ": a (constant), b (constant), id (dropped).",
        ),
        ({"a": [1, 2], "y": [1, 2]}, ["a"], ": a (dropped)."),
        ({"": [None, None], "y": [1, 2]}, [], ": '' (empty)."),
        ({"y": [1, 2]}, [], "."),
    ],
)
def test_columns_that_are_left_out_are_named_with_the_reason(columns, drop, message):
    for table in (pa.table(columns), pa.table(columns)[:0] if drop == ["a"] else pa.table(columns)):
        with pytest.raises(ValueError, match="has no columns to predict from") as error:
            Survey(Table(table, "y", drop)).check()
        assert str(error.value) == f"the table has no columns to predict from{message}"
    if drop == ["a"]:
        with pytest.raises(ValueError, match=r"no columns to predict from: a \(dropped\), y \(dropped\)\."):
            Survey(Table(pa.table(columns), drop=["a", "y"])).check()


def test_the_target_cannot_be_dropped(tmp_path):
    path = write_table(tmp_path / "a.csv", {"x": [0.5, 1.5], "y": [1, 2]})
    with pytest.raises(ValueError, match=r"a\.csv: column 'y' is the target; omit it from drop=\['y'\]\."):
        survey_file(path, drop=["y"])


def test_target_without_values_is_refused(tmp_path):
    path = write_table(tmp_path / "a.csv", {"x": [0.5, 1.5], "y": [None, None]})
    with pytest.raises(ValueError, match="column 'y' has no values, so there is nothing to predict"):
        survey_file(path).check()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_booleans_are_classes(tmp_path, suffix):
    path = write_table(tmp_path / f"a{suffix}", {"x": [0.5, 1.5, 2.0], "y": [True, False, True]})
    survey = survey_file(path)
    assert survey.target_values == [False, True]
    assert survey.encoding().targets(survey.sample.cells).tolist() == [True, False, True]


def test_spelled_booleans_keep_their_labels(tmp_path):
    path = write_table(tmp_path / "a.csv", {"x": [0.5, 1.5, 2.0], "y": ["yes", "no", "yes"]})
    survey = survey_file(path)
    assert survey.target_values == ["no", "yes"]
    assert survey.encoding().targets(survey.sample.cells).tolist() == ["yes", "no", "yes"]
    survey = survey_file(path, kinds={"y": "boolean"})
    assert survey.target_values == [False, True]
    assert survey.encoding().targets(survey.sample.cells).tolist() == [True, False, True]


def test_target_that_is_not_of_the_given_kind(tmp_path):
    path = write_table(tmp_path / "a.csv", {"x": [0.5, 1.5, 2.0], "y": ["a", "b", "a"]})
    with pytest.raises(
        ValueError, match=r"a\.csv, column 'y': invalid value 'a', expected true or false; correct it, or"
    ):
        survey_file(path, kinds={"y": "boolean"}).check()


@pytest.mark.parametrize("values", [[date(2020, 1, 1), date(2020, 1, 2)], [timedelta(1), timedelta(2)]])
def test_dates_and_durations_cannot_be_targets(tmp_path, values):
    path = write_table(tmp_path / "a.parquet", {"x": [0.5, 1.5], "y": values})
    with pytest.raises(
        ValueError, match=r"column 'y': a column of .* cannot be a target; convert it to numbers or text"
    ):
        survey_file(path).check()
