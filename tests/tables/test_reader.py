# SPDX-License-Identifier: BSD-3-Clause
import pickle

import numpy as np
import pytest

import bochner.tables.sources
from bochner.tables.reader import Table, raise_problems
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
    assert list(table.storages.values()) == stored
    assert table.is_text("color")
    assert not table.is_text("height")


def test_parquet_file_records_numbers_of_rows(table_files):
    table = Table(table_files[".parquet"], "y")
    assert (sum(table.source.row_counts), table.n_chunks()) == (500, 5)
    table.batch_rows = 60
    assert table.n_chunks() == len(list(table.chunks())) == 10


def test_csv_file_does_not_record_numbers_of_rows(table_files):
    table = Table(table_files[".csv"], "y")
    assert (table.source.row_counts, table.n_chunks()) == (None, None)


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
        monkeypatch.setattr(bochner.tables.sources, "CSV_BLOCK_BYTES", block_bytes)
        path = tmp_path / "a.csv"
        path.write_text("x,z,y\n" + "1,a,2\n" * 100 + "one,b,2\n")
        message = r"a\.csv: row 101, column 'x': invalid value 'one', expected a number \(100 of 101 .*'x': 'category'"
        with pytest.raises(ValueError, match=message):
            check_file(path)
        assert survey_file(path, kinds={"x": "category"}).columns[0].categories == ("1", "one")

    @pytest.mark.parametrize("block_bytes", [1 << 22, 64])
    def test_all_problems_are_reported_at_once(self, tmp_path, monkeypatch, block_bytes):
        monkeypatch.setattr(bochner.tables.sources, "CSV_BLOCK_BYTES", block_bytes)
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
                "cannot be read as utf-8 text; give its encoding, such as file_encoding='latin-1'",
            ),
            ("a.csv", b"x,y\n\xff,2\n", "cannot be read as utf-8 text; give its encoding"),
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
