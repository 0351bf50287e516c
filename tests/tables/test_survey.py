# SPDX-License-Identifier: BSD-3-Clause
from datetime import date, timedelta

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import bochner.tables.survey
from bochner.tables.file_table import FileTable
from bochner.tables.reader import Table
from bochner.tables.survey import Survey, _deviation
from tests.tables.tables import survey_file, write_table


@pytest.fixture(scope="module")
def numbered_file(tmp_path_factory):
    """10,000 rows in ten row groups; the column x contains the row numbers."""
    columns = {"x": np.arange(10_000.0), "y": np.zeros(10_000)}
    return write_table(tmp_path_factory.mktemp("survey") / "a.parquet", columns, row_group_size=1000)


@pytest.mark.parametrize("standardization", ["robust", "plain"])
def test_column_without_values_where_there_are_targets_is_filled(tmp_path, standardization):
    columns = {"a": [1.0, 2.0, 3.0, 4.0], "b": [None, None, None, 7.0], "y": [1.0, 2.0, 3.0, None]}
    table = FileTable(write_table(tmp_path / "a.parquet", columns), "y")
    encoding = table.survey(Survey.of(table, seed=0)).encoding(standardization)
    rows = np.concatenate([rows for _, rows in encoding.open(tmp_path / "a.parquet").batches()])
    assert np.isfinite(rows).all()
    assert (np.asarray(encoding.scale) > 0.0).all()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_survey_recognizes_columns_and_samples_rows(table_files, columns, suffix):
    result = survey_file(table_files[suffix])
    assert result.n_rows == 500
    height, count, color = result.columns()
    assert (height.kind, count.kind, color.kind) == ("number", "number", "category")
    assert color.categories == ("blue", "green", "red")
    assert height.fill == np.median(columns["height"])
    # A short table is sampled completely.
    np.testing.assert_array_equal(result.encoding().targets(result.sample.cells), columns["y"])


def test_sample_is_uniform_and_does_not_depend_on_the_chunks(numbered_file, monkeypatch):
    monkeypatch.setattr(bochner.tables.survey, "SAMPLE_ROWS", 1000)
    sampled = survey_file(numbered_file, seed=3).sample.cells.column("x").to_numpy()
    table = FileTable(numbered_file, "y")
    table.batch_rows = 77
    np.testing.assert_array_equal(table.survey(Survey.of(table, seed=3)).sample.cells.column("x").to_numpy(), sampled)
    assert len(np.unique(sampled)) == 1000
    assert (np.diff(sampled) > 0).all()
    counts = np.histogram(sampled, bins=10, range=(0, 10_000))[0]
    assert np.abs(counts - 100).max() < 5 * np.sqrt(100)
    assert (survey_file(numbered_file, seed=4).sample.cells.column("x").to_numpy() != sampled).any()


def test_survey_holds_a_bounded_number_of_rows(numbered_file, monkeypatch):
    monkeypatch.setattr(bochner.tables.survey, "SAMPLE_ROWS", 1000)
    table = Table(numbered_file, "y")
    result = Survey.of(table, 0)
    for chunk in table.chunks():
        result.add(chunk)
        assert len(result.sample.cells.column("x").to_numpy()) <= 1000
    assert len(result.sample.cells.column("x").to_numpy()) == 1000


class TestClasses:
    def classes(self, tmp_path, values):
        path = write_table(tmp_path / "a.csv", {"x": list(range(len(values))), "y": values})
        return survey_file(path).classes(Table(path, "y"))

    def test_whole_numbers_of_a_csv_file_are_integers(self, tmp_path):
        classes = self.classes(tmp_path, [2, 1, 1])
        assert classes == [1, 2]
        assert all(isinstance(value, int) for value in classes)

    def test_text(self, tmp_path):
        assert self.classes(tmp_path, ["b", "a", "b"]) == ["a", "b"]

    def test_fractions_are_refused(self, tmp_path):
        with pytest.raises(
            ValueError, match="column 'y' contains fractional numbers, which cannot be classes; fit a reg"
        ):
            self.classes(tmp_path, [0.5, 1.0])

    def test_too_many_values_are_refused(self, tmp_path):
        with pytest.raises(ValueError, match="column 'y' has more than 1000 distinct values, too many for classific"):
            self.classes(tmp_path, list(range(1001)))


def test_empty_table_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n")
    table = FileTable(tmp_path / "a.csv", "y")
    with pytest.raises(ValueError, match=r"a\.csv has no rows; its columns are 'x', 'y'"):
        table.survey(Survey.of(table, 0)).check(table)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_targets_may_be_missing(tmp_path, suffix):
    columns = {"x": [0.5, 1.5, 2.5, 1.0], "y": [1.0, None, 2.0, 2.0], "kind": [None, None, "a", "b"]}
    path = write_table(tmp_path / f"a{suffix}", columns)
    survey = survey_file(path, "y", drop=["kind"])
    assert (survey.n_rows, survey.n_without_target, survey.target_values) == (3, 1, [1.0, 2.0])
    survey = survey_file(path, "kind", drop=["y"])
    assert (survey.n_rows, survey.n_without_target, survey.target_values) == (2, 2, ["a", "b"])
    assert survey.encoding().targets(survey.sample.cells).tolist() == ["a", "b"]


def test_target_without_values_is_refused(tmp_path):
    path = write_table(tmp_path / "a.csv", {"x": [0.5, 1.5], "y": [None, None]})
    with pytest.raises(ValueError, match="column 'y' has no values, so there is nothing to predict"):
        survey_file(path).check(FileTable(path, "y"))


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


@pytest.mark.parametrize("values", [[date(2020, 1, 1), date(2020, 1, 2)], [timedelta(1), timedelta(2)]])
def test_dates_and_durations_cannot_be_targets(tmp_path, values):
    path = write_table(tmp_path / "a.parquet", {"x": [0.5, 1.5], "y": values})
    with pytest.raises(
        ValueError, match=r"column 'y': a column of .* cannot be a target; convert it to numbers or text"
    ):
        survey_file(path).check(FileTable(path, "y"))


def test_table_of_free_text_is_refused(tmp_path):
    path = write_table(tmp_path / "a.csv", {"id": [f"row {i}" for i in range(101)], "y": list(range(101))})
    with pytest.raises(ValueError, match="has no columns to predict from; besides the target and the columns that are"):
        survey_file(path).check(FileTable(path, "y"))


def test_plain_standardization_is_that_of_standard_scaler(tmp_path, rng):
    columns = {"normal": rng.normal(size=300), "far": -1e12 + rng.normal(size=300), "tiny": 1e-200 * rng.random(300)}
    survey = survey_file(write_table(tmp_path / "a.parquet", columns), None)
    expected = StandardScaler().fit(np.column_stack(list(columns.values())))
    np.testing.assert_allclose(survey.encoding("plain").mean, expected.mean_, rtol=1e-12)
    np.testing.assert_allclose(survey.encoding("plain").scale, expected.scale_, rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-100, 1.0, 1e154, 1e200, 4e307])
def test_deviation_of_huge_numbers_does_not_overflow(unit):
    assert _deviation(unit * np.array([1.0, 3.0, 1.0, 3.0])) / unit == pytest.approx(1.0, rel=1e-12)
    assert _deviation(unit * np.array([-4.0, 4.0])) / unit == pytest.approx(4.0, rel=1e-12)
    assert _deviation(np.full(3, unit)) == 1.0
