# SPDX-License-Identifier: BSD-3-Clause
"""Where the cells of a table are, which of them are read, and messages about those that cannot be."""

import gzip
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bochner.tables.reader
from bochner.tables.columns import Reading
from bochner.tables.reader import Table, is_frame, open_source, raise_problems
from bochner.tables.survey import Survey
from tests.tables.tables import survey_file, write_table


def check_file(path):
    """Raise what keeps a model from being fitted on a file."""
    Survey(Table(path, "y")).check()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_all_columns_are_read_and_the_target_is_the_last(table_files, suffix):
    table = Table(table_files[suffix], "count", drop=["y"])
    assert table.names == ["height", "count", "color", "y"]
    assert table.columns == ["height", "color", "count"]
    stored = ["untyped"] * 3 if suffix == ".csv" else ["float", "text", "integer"]
    assert [table.storages[name] for name in table.columns] == stored
    assert table.text_columns == {"color"}


@pytest.mark.parametrize(("suffix", "n_rows"), [(".csv", None), (".parquet", 500)])
def test_parquet_file_records_the_number_of_rows(table_files, suffix, n_rows):
    assert Table(table_files[suffix], "y").source.n_rows == n_rows


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_table_can_be_pickled(table_files, suffix):
    table = pickle.loads(pickle.dumps(Table(table_files[suffix], "y")))
    assert sum(cells.num_rows for _, cells in table.chunks()) == 500


class TestInvalidInput:
    def test_infinite_cell_is_located(self, tmp_path, columns):
        columns["height"][499] = np.inf
        with pytest.raises(ValueError, match="row 500, column 'height': the value is inf; correct it, or drop"):
            check_file(write_table(tmp_path / "a.parquet", columns))

    @pytest.mark.parametrize("block_bytes", [1 << 22, 64])
    def test_text_among_numbers_is_located(self, tmp_path, monkeypatch, block_bytes):
        monkeypatch.setattr(bochner.tables.reader, "CSV_BLOCK_BYTES", block_bytes)
        path = tmp_path / "a.csv"
        path.write_text("x,z,y\n" + "1,a,2\n" * 100 + "one,b,2\n")
        message = r"a\.csv: row 101, column 'x': invalid value 'one', expected a number \(100 of 101 .*'x': 'category'"
        with pytest.raises(ValueError, match=message):
            check_file(path)
        assert survey_file(path, kinds={"x": "category"}).columns[0].categories == ("1", "one")

    @pytest.mark.parametrize("block_bytes", [1 << 22, 64])
    def test_all_problems_are_reported_at_once(self, tmp_path, monkeypatch, block_bytes):
        monkeypatch.setattr(bochner.tables.reader, "CSV_BLOCK_BYTES", block_bytes)
        path = tmp_path / "a.csv"
        lines = [f"{i},{i + 0.5},{i}" for i in range(100)]
        lines[60] = "many,1.5,3"
        lines[70] = "4,few,3"
        lines[80] = "4,1.5,inf"
        path.write_text("\n".join(["x,z,y", *lines, ""]))
        with pytest.raises(ValueError, match=r"a\.csv has 3 problems:") as error:
            check_file(path)
        message = str(error.value)
        assert "row 61, column 'x': invalid value 'many'" in message
        assert "row 71, column 'z': invalid value 'few'" in message
        assert "row 81, column 'y': the value is inf" in message

    def test_many_problems_are_shortened(self):
        with pytest.raises(ValueError, match=r"a\.csv has 30 problems:") as error:
            raise_problems("a.csv", [f"problem {i}" for i in range(30)])
        assert str(error.value).endswith("  20. problem 19\n  and 10 more.")

    def test_row_of_wrong_length_is_located(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x,y\n1,2\n1,2,3\n")
        with pytest.raises(ValueError, match="row 2 is malformed: it has 3 cells and the header has 2"):
            check_file(path)

    def test_table_that_changes_between_two_passes(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x,y\n" + "1,2\n" * 10)
        table = Table(path, "y")
        list(table.chunks())
        path.write_text("x,y\n" + "1,2\n" * 20)
        with pytest.raises(
            ValueError, match=r"a\.csv changed while it was read \(10 rows in the first pass, 20 in a later"
        ):
            list(table.chunks())

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("a.csv", b"", "cannot be read: Empty CSV file"),
            ("a.csv", b"x,x,y\n1,2,3\n", "more than one column named 'x'; rename"),
            ("a.csv", b"y\n1\n", "has no columns to predict from"),
            (
                "a.csv",
                b"\xff,y\n1,2\n",
                "cannot be read as utf-8 text; give its encoding, such as file_encoding='cp1252'",
            ),
            ("a.csv", b"x,y\n\xff,2\n", "cannot be read as utf-8 text; give its encoding"),
            ("a.csv", "x,y\n1,2\n".encode("utf-16"), "give its encoding, such as file_encoding='utf-16'"),
            ("a.parquet", b"PAR1", "cannot be read as parquet"),
            ("a.txt", b"x", "has an unsupported file type; give a .parquet, .csv or .csv.gz file"),
        ],
    )
    def test_unreadable_file(self, tmp_path, name, content, message):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            check_file(tmp_path / name)

    def test_unknown_file_or_column(self, tmp_path, table_files):
        with pytest.raises(ValueError, match="does not exist"):
            Table(tmp_path / "a.csv", "y")
        with pytest.raises(ValueError, match="no column 'z'; its columns are 'height', 'count', 'color', 'y'"):
            Table(table_files[".csv"], "z")
        with pytest.raises(ValueError, match=r"has 3 problems:\n.*'z'.*\n.*no column 'w'.*\n.*no column 'v'"):
            Table(table_files[".csv"], "z", drop=["w"], kinds={"v": "number"})

    def test_unknown_kind(self, table_files):
        with pytest.raises(ValueError, match="'count' cannot be of the kind 'prose'; give one of number, boolean"):
            Table(table_files[".csv"], "y", kinds={"count": "prose"})

    def test_long_list_of_columns_is_shortened(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text(",".join(f"x{i}" for i in range(23)) + "\n")
        with pytest.raises(ValueError, match="'x18', 'x19' and 3 more"):
            Table(path, "y")

    def test_nested_columns_are_refused_by_name(self, tmp_path, columns):
        nested = {"pairs": [[1, 2]] * 500, "record": [{"a": 1}] * 500}
        path = write_table(tmp_path / "a.parquet", columns | nested)
        with pytest.raises(
            ValueError, match=r"column 'pairs' contains cells of type list<.*\n.*'record' contains cells"
        ):
            check_file(path)
        assert "pairs" not in Table(path, "y", drop=["pairs", "record"]).columns
        with pytest.raises(ValueError, match="column 'pairs' contains cells of type list"):
            Table(path, columns=["pairs"])


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


def test_surrogates_outside_of_pairs_are_replaced():
    frame = pd.DataFrame({"x": pd.Series(["a", "\ud800", None], dtype=object)})
    assert [row["x"] for row in cells_of(frame)] == ["a", "?", None]


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
        assert table.source.n_rows == 10
        assert [row["x"] for row in cells_of(folder)] == list(range(10))
        assert [first_row for first_row, _ in table.chunks()] == [0, 5]
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
        with pytest.raises(ValueError, match="give its encoding, such as file_encoding='cp1252'"):
            cells_of(tmp_path / name)
        with pytest.raises(ValueError, match="unknown encoding: no-such; give its encoding"):
            cells_of(tmp_path / name, reading=Reading(encoding="no-such"))

    @pytest.mark.parametrize("block_bytes", [1 << 22, 4096])
    def test_latin_1_with_an_ascii_header(self, tmp_path, monkeypatch, block_bytes):
        monkeypatch.setattr("bochner.tables.reader.CSV_BLOCK_BYTES", block_bytes)
        (tmp_path / "a.csv").write_bytes(b"x,word\n" + b"1,plain\n" * 2000 + "2,weiß\n".encode("latin-1"))
        with pytest.raises(ValueError, match=r"column 'word'.* give its encoding, such as file_encoding='cp1252'"):
            survey_file(tmp_path / "a.csv", None).check()

    def test_marks_of_missing_values(self, tmp_path):
        (tmp_path / "a.csv").write_text("x,color\n1,k.A.\n k.A.,red\n")
        assert cells_of(tmp_path / "a.csv", reading=Reading(missing=("k.A.",)))[1] == {"x": None, "color": "red"}

    def test_missing_cells(self, tmp_path):
        (tmp_path / "a.csv").write_text('x,color\n,NA\n1,""\nnan,red\n')
        cells = cells_of(tmp_path / "a.csv")
        assert [row["x"] for row in cells] == [None, "1", None]
        assert [row["color"] for row in cells] == [None, "", "red"]
