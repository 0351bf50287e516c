# SPDX-License-Identifier: BSD-3-Clause
from functools import reduce

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import bochner.tables.survey
from bochner.tables.file_table import FileTable
from bochner.tables.reader import Table
from bochner.tables.survey import ColumnMoments, Survey
from tests.tables.tables import survey_file, write_table

COLUMNS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "skewed": lambda rng, n: rng.lognormal(sigma=3.0, size=n),
    "constant": lambda rng, n: np.full(n, 0.1),
    "large constant": lambda rng, n: np.full(n, -1e15 / 3),
    "zero": lambda rng, n: np.zeros(n),
    "large offset": lambda rng, n: 1e8 + rng.normal(size=n),
    "huge offset": lambda rng, n: -1e12 + rng.normal(size=n),
    "first row is an outlier": lambda rng, n: np.concatenate([[1e9], rng.normal(size=n - 1)]),
    "tiny": lambda rng, n: 1e-200 * rng.normal(size=n),
    "sorted": lambda rng, n: np.arange(n) - 0.5 * n,
}


@pytest.fixture(scope="module")
def numbered_file(tmp_path_factory):
    """10,000 rows in ten row groups; the column x contains the row numbers."""
    columns = {"x": np.arange(10_000.0), "y": np.zeros(10_000)}
    return write_table(tmp_path_factory.mktemp("survey") / "a.parquet", columns, row_group_size=1000)


class TestColumnMoments:
    def check(self, moments, rows):
        expected = StandardScaler().fit(rows)
        assert moments.n_rows == len(rows)
        tolerance = 1e-12 * np.maximum(np.abs(expected.mean_), expected.scale_)
        assert (np.abs(moments.mean - expected.mean_) <= tolerance).all()
        np.testing.assert_allclose(moments.scale, expected.scale_, rtol=1e-12)

    @pytest.mark.parametrize("n_rows", [1, 2, 3, 1000, 20_000])
    @pytest.mark.parametrize("name", COLUMNS)
    def test_equal_those_of_standard_scaler(self, rng, name, n_rows):
        rows = COLUMNS[name](rng, n_rows)[:, None]
        self.check(ColumnMoments.of(rows), rows)

    @pytest.mark.parametrize("name", COLUMNS)
    @pytest.mark.parametrize("n_batches", [2, 3, 64])
    def test_merging_does_not_depend_on_the_order(self, rng, name, n_batches):
        rows = COLUMNS[name](rng, 10_000)[:, None]
        cuts = np.sort(rng.integers(0, len(rows), size=n_batches - 1))
        batches = [ColumnMoments.of(batch) for batch in np.split(rows, cuts)]
        self.check(reduce(ColumnMoments.merge, batches), rows)
        self.check(reduce(ColumnMoments.merge, batches[::-1]), rows)
        while len(batches) > 1:  # neighbors pairwise, as on a cluster
            batches = [reduce(ColumnMoments.merge, batches[i : i + 2]) for i in range(0, len(batches), 2)]
        self.check(batches[0], rows)

    def test_one_row_at_a_time(self, rng):
        rows = np.column_stack([column(rng, 300) for column in COLUMNS.values()])
        self.check(reduce(ColumnMoments.merge, (ColumnMoments.of(row[None]) for row in rows)), rows)

    def test_constant_column_has_scale_one(self):
        assert ColumnMoments.of(np.full((50, 1), 0.1)).scale == 1.0

    def test_empty_moments_do_not_change_others(self, rng):
        moments, empty = ColumnMoments.of(rng.normal(size=(5, 2))), ColumnMoments.of(np.empty((0, 2)))
        for merged in (moments.merge(empty), empty.merge(moments)):
            assert merged.n_rows == 5
            np.testing.assert_array_equal(merged.mean, moments.mean)
            np.testing.assert_array_equal(merged.variance, moments.variance)
        assert empty.merge(empty).n_rows == 0


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_survey_collects_moments_and_categories(table_files, columns, suffix):
    result = survey_file(table_files[suffix])
    assert result.n_rows == 500
    assert result.categories == {"color": ["blue", "green", "red"]}
    np.testing.assert_allclose(result.moments.mean, [columns["height"].mean(), columns["count"].mean()])
    np.testing.assert_allclose(result.moments.scale, [columns["height"].std(), columns["count"].std()])
    np.testing.assert_array_equal(result.sample.targets, columns["y"])  # a short table is sampled completely


def test_merged_surveys_equal_the_survey_of_all_rows(table_files):
    table = Table(table_files[".parquet"], "color", drop=["count"])
    whole = survey_file(table_files[".parquet"], "color", seed=5, drop=["count"])
    parts = []
    for chunk in table.chunks():
        parts.append(Survey.of(table, 5, chunk.first_row))
        parts[-1].add(table, chunk)
    merged = reduce(lambda left, right: left.merge(table, right), parts)
    assert (merged.n_rows, merged.categories, merged.target_values) == (500, whole.categories, whole.target_values)
    np.testing.assert_allclose(merged.moments.scale, whole.moments.scale, rtol=1e-12)
    for name, values in whole.sample.columns.items():
        np.testing.assert_array_equal(merged.sample.columns[name], values)
    np.testing.assert_array_equal(merged.sample.targets, whole.sample.targets)


def test_sample_is_uniform_and_does_not_depend_on_the_chunks(numbered_file, monkeypatch):
    monkeypatch.setattr(bochner.tables.survey, "SAMPLE_ROWS", 1000)
    sampled = survey_file(numbered_file, seed=3).sample.columns["x"]
    table = FileTable(numbered_file, "y")
    table.batch_rows = 77
    np.testing.assert_array_equal(table.survey(Survey.of(table, seed=3)).sample.columns["x"], sampled)
    assert len(np.unique(sampled)) == 1000
    assert (np.diff(sampled) > 0).all()
    counts = np.histogram(sampled, bins=10, range=(0, 10_000))[0]
    assert np.abs(counts - 100).max() < 5 * np.sqrt(100)
    assert (survey_file(numbered_file, seed=4).sample.columns["x"] != sampled).any()


def test_survey_holds_a_bounded_number_of_rows(numbered_file, monkeypatch):
    monkeypatch.setattr(bochner.tables.survey, "SAMPLE_ROWS", 1000)
    table = Table(numbered_file, "y")
    result = Survey.of(table, 0)
    for chunk in table.chunks():
        result.add(table, chunk)
        assert len(result.sample.columns["x"]) <= 1000
    assert len(result.sample.columns["x"]) == 1000


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
        table.survey(Survey.of(table, 0)).check_not_empty(table)


def test_too_many_categories_are_refused(tmp_path):
    path = write_table(tmp_path / "a.csv", {"id": [f"row {i}" for i in range(101)], "y": list(range(101))})
    with pytest.raises(ValueError, match="text column 'id' has more than 100 distinct values; drop it"):
        survey_file(path)
