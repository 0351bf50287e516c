# SPDX-License-Identifier: BSD-3-Clause
"""Where the cells of a table are; `test_reader` has the messages."""

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bochner.tables.columns import Reading
from bochner.tables.reader import Table
from bochner.tables.sources import is_frame, open_source
from tests.tables.tables import survey_file, write_table

FRAME = pd.DataFrame(
    {
        "x": [1.5, None, 3.0],
        "n": [1, 2, 3],
        "color": pd.Categorical(["red", "blue", None]),
        "when": pd.to_datetime(["2020-01-01", "2020-01-02", None]),
        "wait": pd.to_timedelta([1, 2, 3], unit="s"),
        "ok": [True, False, True],
    }
)


def cells_of(data, **options):
    return [row for _, cells in Table(data, **options).chunks() for row in cells.to_pylist()]


@pytest.mark.parametrize(
    "convert",
    [pl.from_pandas, lambda frame: pl.from_pandas(frame).lazy(), pa.Table.from_pandas, pa.RecordBatch.from_pandas],
    ids=["polars", "lazy polars", "Arrow table", "record batch"],
)
def test_frames_of_all_libraries_are_alike(convert):
    assert is_frame(FRAME)
    assert is_frame(convert(FRAME))
    expected = cells_of(FRAME)
    assert [row["color"] for row in expected] == ["red", "blue", None]
    assert expected[1]["x"] is None
    assert cells_of(convert(FRAME)) == expected
    storages = ["float", "integer", "dictionary", "date", "duration", "boolean"]
    assert list(Table(FRAME).storages.values()) == storages
    assert list(Table(convert(FRAME)).storages.values()) == storages


def test_other_objects_are_not_frames():
    assert not any(map(is_frame, [np.ones((2, 2)), [[1]], "a.csv", FRAME["x"], pl.Series([1]), pa.array([1])]))
    with pytest.raises(ValueError, match=r"Expected a path, a pandas or polars data frame or an Arrow table. Got list"):
        open_source([[1]])


def test_mixed_objects_become_text():
    table = Table(pd.DataFrame({"x": ["1", 2, None, 3.5], "y": [1, 2, 3, 4]}))
    assert table.storages == {"x": "untyped", "y": "integer"}
    assert [row["x"] for row in cells_of(pd.DataFrame({"x": ["1", 2, None, 3.5]}))] == ["1", "2", None, "3.5"]


def test_names_of_pandas_columns_may_be_numbers():
    assert Table(pd.DataFrame(np.ones((2, 2)))).names == ["0", "1"]


class TestParquetFiles:
    def write(self, folder, **tables):
        for name, columns in tables.items():
            write_table(folder / f"{name}.parquet", columns, row_group_size=3)
        return folder

    def test_rows_of_several_files_are_one_table(self, tmp_path):
        first, second = ({"x": np.arange(start, start + 5.0)} for start in (0, 5))
        folder = self.write(tmp_path, **{"part-10": second, "part-2": first, "part-3": {"x": pa.array([], "double")}})
        table = Table(folder)
        assert sum(table.source.row_counts) == 10
        assert [row["x"] for row in cells_of(folder)] == list(range(10))
        assert [first_row for first_row, _ in table.chunks()] == [0, 3, 5, 8]
        assert table.source.place(4).endswith("part-2.parquet: row 5")
        assert table.source.place(5).endswith("part-10.parquet: row 1")

    def test_types_may_differ(self, tmp_path):
        first = {"x": pa.array([1], pa.int32()), "t": pa.array(["a"]), "n": pa.nulls(1)}
        second = {"x": pa.array([1.5]), "t": pa.array(["a"]).dictionary_encode(), "n": pa.array([2.0])}
        folder = self.write(tmp_path, a=first, b=second)
        assert cells_of(folder) == [{"x": 1.0, "t": "a", "n": None}, {"x": 1.5, "t": "a", "n": 2.0}]

    def test_kinds_must_not_differ(self, tmp_path):
        folder = self.write(tmp_path, a={"x": ["1"]}, b={"x": [1]})
        with pytest.raises(
            ValueError, match=r"b\.parquet and .*a\.parquet differ: .*x.* string vs int64; convert one of them"
        ):
            Table(folder)

    def test_nothing_is_found(self, tmp_path):
        (tmp_path / "a.csv").write_text("x\n1\n")
        with pytest.raises(ValueError, match=r"has no .parquet files; give a .parquet file or a folder of them"):
            Table(tmp_path)


class TestCsvFile:
    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"], ids=["comma", "semicolon", "tab", "bar"])
    def test_separator_is_that_of_the_header(self, tmp_path, separator):
        (tmp_path / "a.csv").write_text(f"x{separator}color\n1{separator}red\n")
        assert cells_of(tmp_path / "a.csv") == [{"x": "1", "color": "red"}]

    @pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
    def test_latin_1_and_gzip(self, tmp_path, name):
        content = "größe;x\nweiß;1\n".encode("latin-1")
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        assert cells_of(tmp_path / name, reading=Reading(encoding="latin-1")) == [{"größe": "weiß", "x": "1"}]
        with pytest.raises(ValueError, match="give its encoding, such as file_encoding='latin-1'"):
            cells_of(tmp_path / name)
        with pytest.raises(ValueError, match="unknown encoding: no-such; give its encoding"):
            cells_of(tmp_path / name, reading=Reading(encoding="no-such"))

    @pytest.mark.parametrize("block_bytes", [1 << 22, 4096])
    def test_latin_1_with_an_ascii_header(self, tmp_path, monkeypatch, block_bytes):
        monkeypatch.setattr("bochner.tables.sources.CSV_BLOCK_BYTES", block_bytes)
        (tmp_path / "a.csv").write_bytes(b"x,word\n" + b"1,plain\n" * 2000 + "2,weiß\n".encode("latin-1"))
        with pytest.raises(ValueError, match=r"column 'word'.* give its encoding, such as file_encoding='latin-1'"):
            survey_file(tmp_path / "a.csv", None).check()

    def test_marks_of_missing_values(self, tmp_path):
        (tmp_path / "a.csv").write_text("x,color\n1,k.A.\n k.A.,red\n")
        assert cells_of(tmp_path / "a.csv", reading=Reading(missing=("k.A.",)))[1] == {"x": None, "color": "red"}

    def test_missing_cells(self, tmp_path):
        (tmp_path / "a.csv").write_text('x,color\n,NA\n1,""\nnan,red\n')
        cells = cells_of(tmp_path / "a.csv")
        assert [row["x"] for row in cells] == [None, "1", None]
        assert [row["color"] for row in cells] == [None, "", "red"]
