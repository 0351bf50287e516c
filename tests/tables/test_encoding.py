# SPDX-License-Identifier: BSD-3-Clause
from datetime import datetime, time, timedelta

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import bochner.tables.survey
from bochner import RobustStandardizer
from tests.tables.tables import survey_file, write_table


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_text_is_one_hot_encoded(table_files, columns, suffix):
    path = table_files[suffix]
    result = survey_file(path)
    encoding = result.encoding("none")
    assert encoding.names == ["height", "count", "color=blue", "color=green", "color=red"]
    rows = np.vstack([batch.X for batch in encoding.open(path).batches()])
    np.testing.assert_array_equal(rows[:, :2], np.column_stack([columns["height"], columns["count"]]))
    assert [encoding.names[2:][code].split("=")[1] for code in rows[:, 2:].argmax(axis=1)] == columns["color"]
    assert (rows[:, 2:].sum(axis=1) == 1).all()
    np.testing.assert_array_equal(encoding.encode(result.sample.cells), rows)
    assert encoding.origins == ["height", "count", "color", "color", "color"]


def test_names_of_encoded_columns_are_unique(tmp_path):
    path = write_table(tmp_path / "a.csv", {"c": ["a", "b"] * 5, "c=a": range(10), "c=b": ["x", "y"] * 5})
    assert survey_file(path, None).encoding().names == ["c=a", "c=a (2)", "c=b", "c=b=x", "c=b=y"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_numbers_are_standardized_robustly_by_default(table_files, columns, suffix):
    path = table_files[suffix]
    encoding = survey_file(path).encoding()
    rows = np.vstack([batch.X for batch in encoding.open(path).batches()])
    numbers = np.column_stack([columns["height"], columns["count"]])
    np.testing.assert_allclose(rows[:, :2], RobustStandardizer().fit_transform(numbers), rtol=0.0, atol=1e-14)
    assert (rows[:, 2:].sum(axis=1) == 1).all()


def test_robust_scales_are_those_of_the_sampled_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(bochner.tables.survey, "SAMPLE_ROWS", 1000)
    rng = np.random.default_rng(0)
    path = write_table(tmp_path / "a.parquet", {"x": rng.lognormal(size=5000), "y": np.zeros(5000)})
    survey = survey_file(path)
    sampled = RobustStandardizer().fit(survey.sample.cells.column("x").to_numpy()[:, None])
    np.testing.assert_array_equal(survey.encoding().mean, sampled.center_)
    np.testing.assert_array_equal(survey.encoding().scale, sampled.scale_)


def test_table_without_numbers_is_encoded(tmp_path, columns):
    path = write_table(tmp_path / "a.parquet", {"color": columns["color"], "y": columns["y"]})
    assert survey_file(path).encoding().encode(survey_file(path).sample.cells).shape == (500, 3)


def test_unknown_categories_are_encoded_as_zeros_and_counted(tmp_path, table_files, columns):
    encoding = survey_file(table_files[".parquet"]).encoding()
    path = write_table(tmp_path / "a.parquet", columns | {"color": ["mauve"] * 450 + ["red"] * 40 + ["pink"] * 10})
    source = encoding.open(path)
    rows = np.vstack([batch.X for batch in source.batches()])
    assert not rows[:450, 2:].any()
    assert rows[450:490, 2:].sum() == 40
    assert source.unseen.categories == {"color": {"mauve": 450, "pink": 10}}
    message = "'color' has categories that are not in the training rows, in 460 rows: 'mauve', 'pink'."
    with pytest.warns(UserWarning, match=message):
        source.unseen.warn()


def test_missing_cells_that_training_had_none_of_are_counted(tmp_path, table_files, columns):
    encoding = survey_file(table_files[".parquet"]).encoding()
    changed = columns | {"height": [None, *columns["height"][1:]], "color": [None, None, *columns["color"][2:]]}
    source = encoding.open(write_table(tmp_path / "a.parquet", changed))
    rows = np.vstack([batch.X for batch in source.batches()])
    assert source.unseen.missing == {"height": 1, "color": 2}
    assert rows[0, 0] == pytest.approx(0.0, abs=1e-3)  # the median, pulled along the principal axes
    assert not rows[:2, 2:].any()
    with pytest.warns(UserWarning, match="Column 'height' has no value in 1 rows; in the training rows it always had"):
        source.unseen.warn()


class TestMissingCells:
    @pytest.fixture
    def encoded(self, tmp_path, rng):
        """Standardized numbers with every fourth one missing, a category with gaps, and rarely missing numbers."""
        self.x = rng.lognormal(size=400)
        self.is_missing = np.arange(400) % 4 == 0
        x = [None if gap else value for gap, value in zip(self.is_missing, self.x.tolist(), strict=True)]
        color = [None if i % 5 == 0 else "red" if i % 2 else "blue" for i in range(400)]
        rare = [None if i < 3 else float(i % 17) for i in range(400)]
        same = [None if gap else 2.5 * value for gap, value in zip(self.is_missing, self.x.tolist(), strict=True)]
        columns = {"x": x, "color": color, "rare": rare, "same": same}
        path = write_table(tmp_path / "a.parquet", columns)
        self.encoding = survey_file(path, None).encoding()
        source = self.encoding.open(path)
        rows = np.vstack([batch.X for batch in source.batches()])
        source.unseen.warn()  # of nothing
        return dict(zip(self.encoding.names, rows.T, strict=True))

    def test_frequent_gaps_have_one_indicator(self, encoded):
        names = ["x", "rare", "same", "x: missing", "color=blue", "color=red", "color: missing"]
        assert list(encoded) == names  # the gaps of "same" are those of "x"
        np.testing.assert_array_equal(encoded["x: missing"], self.is_missing)
        np.testing.assert_array_equal(encoded["color: missing"], np.arange(400) % 5 == 0)

    def test_missing_numbers_are_the_median(self, encoded):
        values = self.x[~self.is_missing]
        column = self.encoding.columns[0]
        assert (column.name, column.fill) == ("x", np.median(values))
        np.testing.assert_allclose(encoded["x"][self.is_missing], 0.0, atol=1e-12)

    def test_scales_are_those_of_the_numbers_that_are_present(self, encoded):
        expected = RobustStandardizer().fit(self.x[~self.is_missing, None])
        assert self.encoding.mean[0] == pytest.approx(expected.center_[0])
        assert self.encoding.scale[0] == pytest.approx(expected.scale_[0])


def test_dates_have_a_trend_and_cycles(tmp_path):
    start = datetime(2021, 3, 1, 6)
    moments = [start + timedelta(hours=7 * i) for i in range(1000)] + [None] * 50
    path = write_table(tmp_path / "a.parquet", {"when": moments})
    encoding = survey_file(path, None).encoding("none")
    cycles = [f"when: {cycle} {part}" for cycle in ("year", "week", "day") for part in ("sine", "cosine")]
    assert encoding.names == ["when: days", *cycles, "when: missing"]
    rows = np.vstack([batch.X for batch in encoding.open(path).batches()])
    days = (start - datetime(1970, 1, 1)).total_seconds() / 86400 + 7 / 24 * np.arange(1000)
    np.testing.assert_allclose(rows[:1000, 0], days, rtol=1e-12)
    hours = 2 * np.pi * np.array([moment.hour / 24 for moment in moments[:1000]])
    np.testing.assert_allclose(rows[:1000, 5:7], np.column_stack([np.sin(hours), np.cos(hours)]), atol=1e-7)
    week = 2 * np.pi * np.array([moment.weekday() / 7 for moment in moments[:1000]])
    np.testing.assert_allclose(rows[:1000, 3:5], np.column_stack([np.sin(week), np.cos(week)]), atol=1e-12)
    np.testing.assert_array_equal(rows[:, 7], [0.0] * 1000 + [1.0] * 50)
    assert not rows[1000:, 1:7].any()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_local_time_of_a_time_zone_is_encoded(tmp_path, suffix):
    values = pa.array([3600 * hour for hour in range(400)], pa.timestamp("s", "Asia/Tokyo"))
    path = write_table(tmp_path / f"a{suffix}", {"when": values})
    encoding = survey_file(path, None).encoding("none")
    rows = next(encoding.open(path).batches()).X
    offset = 9 / 24 if suffix == ".parquet" else 0.0  # text with an offset is converted to UTC
    np.testing.assert_allclose(rows[:10, 0], np.arange(10) / 24 + offset, atol=1e-12)


def test_durations_are_seconds(tmp_path):
    values = [timedelta(minutes=i, milliseconds=500) for i in range(50)]
    path = write_table(tmp_path / "a.parquet", {"wait": values})
    encoding = survey_file(path, None).encoding("none")
    rows = next(encoding.open(path).batches()).X
    np.testing.assert_allclose(rows[:, 0], 60.0 * np.arange(50) + 0.5)


def test_times_of_the_day_are_a_cycle(tmp_path):
    path = write_table(tmp_path / "a.parquet", {"at": [time(i % 24) for i in range(50)]})
    encoding = survey_file(path, None).encoding("none")
    assert encoding.names == ["at: day sine", "at: day cosine"]
    rows = next(encoding.open(path).batches()).X
    angles = 2 * np.pi * (np.arange(50) % 24) / 24
    np.testing.assert_allclose(rows, np.column_stack([np.sin(angles), np.cos(angles)]), atol=1e-12)


def test_rare_categories_are_merged(tmp_path):
    frequent = [f"c{i:03}" for i in range(90) for _ in range(12)]
    rare = [f"r{i}" for i in range(60)]
    path = write_table(tmp_path / "a.parquet", {"code": frequent + rare})
    encoding = survey_file(path, None).encoding()
    column = encoding.columns[0]
    assert (len(column.categories), column.other) == (90, True)
    source = encoding.open(write_table(tmp_path / "b.parquet", {"code": ["c000", "r7", "new"]}))
    rows = next(source.batches()).X
    assert rows[:, 0].tolist() == [1, 0, 0]
    assert rows[:, -1].tolist() == [0, 1, 1]
    source.unseen.warn()  # of nothing


def test_text_of_many_values_is_encoded(tmp_path, rng):
    jobs = ["nurse", "engineer", "teacher", "driver"]
    job = rng.choice(jobs, size=400)
    path = write_table(tmp_path / "a.csv", {"title": [f"{name} {i}" for i, name in enumerate(job)]})
    encoding = survey_file(path, None).encoding()
    assert encoding.names[:2] == ["title: text 0", "title: text 1"]
    new = [f"assistant {name}" for name in jobs] + [None]
    rows = next(encoding.open(write_table(tmp_path / "b.parquet", {"title": new})).batches()).X
    assert not rows[4].any()
    trained = next(encoding.open(path).batches()).X
    nearest = [job[np.square(trained - row).sum(axis=1).argmin()] for row in rows[:4]]
    assert nearest == jobs


@pytest.mark.parametrize("text_type", [pa.dictionary(pa.int32(), pa.string()), pa.large_string(), pa.string()])
def test_every_text_type_is_one_hot_encoded(tmp_path, columns, text_type):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": pa.array(columns["color"]).cast(text_type), "y": columns["y"]}), path)
    encoding = survey_file(path).encoding()
    assert encoding.names == ["a=blue", "a=green", "a=red"]
    rows = next(encoding.open(path).batches()).X
    assert (rows.sum(axis=1) == 1).all()


def test_float32_columns_are_encoded_as_float32(tmp_path, columns):
    path = write_table(tmp_path / "a.parquet", {"x": columns["height"].astype(np.float32), "y": columns["y"]})
    encoding = survey_file(path).encoding()
    assert next(encoding.open(path).batches()).X.dtype == np.float32


def test_rows_without_a_target_are_counted_in_the_row_of_an_error(tmp_path):
    path = write_table(tmp_path / "a.csv", {"x": ["1.5", "2", "3", "4"], "y": ["1", None, "2", "3"]})
    encoding = survey_file(path).encoding()
    new = write_table(tmp_path / "b.csv", {"x": ["1", "2", "3", "bad"], "y": [None, None, "2", "3"]})
    with pytest.raises(ValueError, match=r"b\.csv: row 4, column 'x': invalid value 'bad'"):
        list(encoding.open(new, with_target=True).batches())
