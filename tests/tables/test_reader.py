# SPDX-License-Identifier: BSD-3-Clause
import pickle
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import bochner.tables.reader
from bochner.tables.reader import Table
from tests.tables.tables import survey_file, write_table


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_are_numeric_or_text(table_files, suffix):
    table = Table(table_files[suffix], "y")
    assert (table.numeric, table.text, table.columns) == (
        ["height", "count"],
        ["color"],
        ["height", "count", "color", "y"],
    )
    assert not table.target_is_text
    assert Table(table_files[suffix], "color", drop=["y"]).target_is_text


def test_parquet_file_records_numbers_of_rows(table_files):
    table = Table(table_files[".parquet"], "y")
    assert (table.n_rows, table.n_groups, table.n_chunks(), table.n_chunks(3)) == (500, 5, 5, 2)
    table.batch_rows = 60
    assert table.n_chunks() == len(list(table.chunks())) == 10


def test_csv_file_does_not_record_numbers_of_rows(table_files):
    table = Table(table_files[".csv"], "y")
    assert (table.n_rows, table.n_groups, table.n_chunks()) == (None, None, None)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_chunks_start_at_a_group(table_files, columns, monkeypatch, suffix):
    monkeypatch.setattr(bochner.tables.reader, "CSV_BLOCK_BYTES", 4096)
    table = Table(table_files[suffix], "y")
    chunks = [chunk for chunk in table.chunks() if chunk.group >= 2]
    resumed = list(table.chunks(2))
    assert len(resumed) == len(chunks) >= 3
    assert [chunk.first_row for chunk in resumed] == [chunk.first_row for chunk in chunks]
    heights = np.concatenate([chunk.cells.column("height").to_numpy() for chunk in resumed])
    np.testing.assert_array_equal(heights, columns["height"][resumed[0].first_row :])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_table_can_be_pickled(table_files, suffix):
    table = pickle.loads(pickle.dumps(Table(table_files[suffix], "y")))
    assert sum(chunk.cells.num_rows for chunk in table.chunks()) == 500


def test_whole_numbers_of_csv_file_may_be_followed_by_fractions(tmp_path, monkeypatch):
    monkeypatch.setattr(bochner.tables.reader, "CSV_BLOCK_BYTES", 64)
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1,2\n" * 100 + "0.5,2\n")
    assert [*Table(path, "y").chunks()][-1].cells.column("x").to_pylist()[-1] == 0.5


def test_booleans_of_csv_file_are_read_as_booleans(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\ntrue,1\nfalse,2\n")
    table = Table(path, "y")
    assert table.numeric == ["x"]
    assert next(table.chunks()).cells.column("x").to_pylist() == [True, False]


class TestInvalidInput:
    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    def test_missing_cell_is_located(self, tmp_path, columns, suffix):
        heights = columns["height"].tolist()
        heights[123] = None
        path = write_table(tmp_path / f"a{suffix}", columns | {"height": heights})
        with pytest.raises(ValueError, match=f"a{suffix}: row 124, column 'height': the value is missing; correct it"):
            survey_file(path)

    def test_infinite_cell_is_located(self, tmp_path, columns):
        columns["height"][499] = np.inf
        with pytest.raises(ValueError, match="row 500, column 'height': the value is inf"):
            survey_file(write_table(tmp_path / "a.parquet", columns))

    @pytest.mark.parametrize("block_bytes", [1 << 22, 64])
    @pytest.mark.parametrize(("value", "expected"), [("1", "a number"), ("true", "true or false")])
    def test_invalid_cell_is_located(self, tmp_path, monkeypatch, block_bytes, value, expected):
        monkeypatch.setattr(bochner.tables.reader, "CSV_BLOCK_BYTES", block_bytes)
        path = tmp_path / "a.csv"
        path.write_text("x,y\n" + f"{value},2\n" * 100 + "one,2\n")
        if value == "true" and block_bytes > 64:
            assert Table(path, "y").text == ["x"]
            return
        with pytest.raises(
            ValueError, match=rf"a\.csv: row 101, column 'x': invalid value 'one', expected {expected};"
        ):
            survey_file(path)

    def test_row_of_wrong_length_is_located(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x,y\n1,2\n1,2,3\n")
        with pytest.raises(ValueError, match="row 2 is malformed: Expected 2 columns, got 3"):
            survey_file(path)

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("a.csv", b"", "cannot be read as csv: Empty CSV file"),
            ("a.csv", b"x,x,y\n1,2,3\n", "more than one column named 'x'; rename"),
            ("a.csv", b"x;y\n1;2\n", "has a single column, 'x;y'; separate the columns with commas"),
            ("a.csv", b"y\n1\n", "has no columns to predict from"),
            ("a.csv", b"\xff,y\n1,2\n", "is not UTF-8 text; convert"),
            ("a.csv", b"x,y\n\xff,2\n", "column 'x' contains bytes that are not UTF-8 text"),
            ("a.parquet", b"PAR1", "cannot be read as parquet"),
            ("a.txt", b"x", "has an unsupported file type; give a .parquet or .csv file"),
        ],
    )
    def test_unreadable_file(self, tmp_path, name, content, message):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            survey_file(tmp_path / name)

    def test_unknown_file_or_column(self, tmp_path, table_files):
        with pytest.raises(ValueError, match="does not exist"):
            Table(tmp_path / "a.csv", "y")
        with pytest.raises(ValueError, match="no column 'z'; its columns are 'height', 'count', 'color', 'y'"):
            Table(table_files[".csv"], "z")

    def test_long_list_of_columns_is_shortened(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text(",".join(f"x{i}" for i in range(23)) + "\n")
        with pytest.raises(ValueError, match="'x18', 'x19' and 3 more"):
            Table(path, "y")

    def test_date_column(self, tmp_path):
        parquet.write_table(pa.table({"when": [date(2020, 1, 1)], "y": [1.0]}), tmp_path / "a.parquet")
        with pytest.raises(
            ValueError, match=r"column 'when' has type date32.*; convert it to numbers or text, or drop it"
        ):
            Table(tmp_path / "a.parquet", "y")
        assert Table(tmp_path / "a.parquet", kinds={"y": "number"}).numeric == ["y"]

    def test_column_of_another_kind_than_in_training(self, table_files):
        message = "column 'color' contains text, but the model was fitted on numbers; convert it"
        with pytest.raises(ValueError, match=message):
            Table(table_files[".parquet"], kinds={"height": "number", "color": "number"})
