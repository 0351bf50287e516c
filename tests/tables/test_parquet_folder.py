# SPDX-License-Identifier: BSD-3-Clause
"""Several Parquet files as one table, read by Dask in this thread."""

import pickle
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

import bochner.tables.parquet_folder
from bochner.tables.encoding import Encoding
from bochner.tables.file_table import FileTable
from bochner.tables.parquet_folder import EncodedPartitions, ParquetFolder
from bochner.tables.survey import Survey
from tests.tables.tables import N_ROWS, PARTS, compute_in_process, make_table, survey_file, write_parts, write_table

pytest.importorskip("dask")
pytestmark = [
    pytest.mark.usefixtures("in_process"),
    pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning"),  # raised by Dask with pandas 3.1
]


@pytest.fixture
def in_process(monkeypatch):
    with compute_in_process(monkeypatch):
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One file, and a folder with the same rows in files of several sizes."""
    parent = tmp_path_factory.mktemp("folder")
    whole = write_table(parent / "all.parquet", make_table(), row_group_size=500)
    return whole, write_parts(parent / "data", make_table())


@pytest.fixture
def own_folder(files, tmp_path):
    """A copy of the folder for tests that change it."""
    return shutil.copytree(files[1], tmp_path / "data")


def survey_folder(folder, target, seed=0):
    table = ParquetFolder(folder, target)
    return table, table.survey(Survey.of(table, seed))


def test_files_are_in_natural_order(files):
    _, folder = files
    for path in (folder, folder / "part-*.parquet"):
        table = ParquetFolder(path, "y")
        assert [file.stem for file in table.files] == ["part-1", "part-2", "part-10"]  # part-3 has no rows
        assert table.n_rows == N_ROWS


def test_survey_equals_that_of_one_file(files):
    whole, folder = files
    expected = survey_file(whole, "kind", seed=5)
    table, survey = survey_folder(folder, "kind", seed=5)
    assert table.partitions().n_partitions == 7  # row groups
    assert survey.n_rows == expected.n_rows == N_ROWS
    assert survey.tallies == expected.tallies
    assert survey.target_values == expected.target_values
    assert survey.columns() == expected.columns()
    assert survey.sample.cells == expected.sample.cells


def test_rows_are_encoded_in_batches_and_only_if_requested(files, monkeypatch):
    whole, folder = files
    monkeypatch.setattr(bochner.tables.parquet_folder, "PARTITION_BYTES", 1 << 20)
    table = ParquetFolder(folder, "y")
    table.batch_rows = 400
    survey = table.survey(Survey.of(table, 0))
    encoding, lengths = survey.encoding(), survey.lengths
    encoded = EncodedPartitions(table.partitions(), table, encoding, lengths)
    assert encoded.lengths.tolist() == [1, 400, 299, 400, 400, 100]
    every = dict.fromkeys(range(encoded.n_partitions))
    X = np.vstack(encoded.reduce(lambda _, X: [X], list.__add__, ["X"], every))
    expected = np.vstack([rows for _, rows in encoding.open(whole).batches()])
    np.testing.assert_allclose(X, expected, rtol=0.0, atol=1e-14)  # products of matrices depend on the size of batches
    y = np.concatenate(encoded.reduce(lambda _, y: [y], list.__add__, ["y"], {2: None, 4: None}))
    np.testing.assert_array_equal(y, parquet.read_table(whole)["y"].to_numpy()[[*range(401, 700), *range(1100, 1500)]])
    monkeypatch.delattr(Encoding, "encode")
    assert encoded.reduce(lambda _, y: len(y), int.__add__, ["y"], every) == N_ROWS


def test_rows_are_a_source_with_targets(files):
    whole, folder = files
    table, survey = survey_folder(folder, "y")
    rows = table.rows(survey.encoding(), survey.lengths)
    assert rows.shape == (N_ROWS, 9)
    assert rows.has_targets
    batch = rows.select([1599, 0, 700])
    np.testing.assert_array_equal(batch.y, parquet.read_table(whole)["y"].to_numpy()[[1599, 0, 700]])


def test_table_can_be_pickled_without_its_graph(files):
    table, _ = survey_folder(files[1], "y")
    copy = pickle.loads(pickle.dumps(table))
    assert copy.files == table.files
    assert copy.partitions().n_partitions == 7


def test_fingerprint_identifies_all_files(own_folder):
    pattern = own_folder / "*.parquet"
    fingerprint = ParquetFolder(pattern, "y").fingerprint()
    assert ParquetFolder(own_folder, "y").fingerprint() == fingerprint
    parquet.write_table(make_table()[:100], own_folder / "part-10.parquet")
    assert ParquetFolder(pattern, "y").fingerprint() != fingerprint


def test_numbers_of_several_types_become_floats(tmp_path):
    for name, values in {"a": pa.array(range(20)), "b": pa.array(np.arange(20) / 2, pa.float32())}.items():
        parquet.write_table(pa.table({"x": values, "y": np.arange(20.0)}), tmp_path / f"{name}.parquet")
    _, survey = survey_folder(tmp_path, "y")
    assert survey.sample.cells.column("x").to_pylist() == [*range(20), *(np.arange(20) / 2)]
    assert not survey.encoding().single


def test_text_of_several_types_becomes_strings(tmp_path):
    for name, kind in {"a": pa.string(), "b": pa.dictionary(pa.int32(), pa.string())}.items():
        columns = {"x": pa.array(["u", name]).cast(kind), "y": [1.0, 2.0]}
        parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    _, survey = survey_folder(tmp_path, "y")
    assert survey.columns()[0].categories == ("a", "b", "u")


@pytest.mark.parametrize("row", [0, 800, 1599])
def test_infinite_cell_is_located(tmp_path, row):
    table = make_table()
    values = table["b"].to_pylist()
    values[row] = np.inf
    folder = write_parts(tmp_path / "data", table.set_column(1, "b", pa.array(values, pa.float64())))
    name, start = next((name, start) for name, (start, stop) in PARTS.items() if start <= row < stop)
    table, survey = survey_folder(folder, "y")
    with pytest.raises(ValueError, match=rf"{name}\.parquet: row {row - start + 1}, column 'b': the value is inf;"):
        survey.check(table)


def test_missing_cells_are_counted_as_in_one_file(tmp_path):
    table = make_table()
    for position, name in ((1, "b"), (3, "color"), (4, "y")):
        gaps = pa.array([None if (row + position) % 7 == 0 else row for row in range(N_ROWS)]).is_null()
        table = table.set_column(position, name, pc.if_else(gaps, None, table[name]))
    whole = write_table(tmp_path / "all.parquet", table, row_group_size=500)
    expected = survey_file(whole, "y")
    folder, survey = survey_folder(write_parts(tmp_path / "data", table), "y")
    assert survey.columns() == expected.columns()
    assert survey.n_without_target == expected.n_without_target == 229
    rows = folder.rows(survey.encoding(), survey.lengths)
    assert rows.shape == (N_ROWS - 229, 11)
    alone = FileTable(whole, "y").rows(expected.encoding(), expected.lengths)
    for chosen in ([5, 700, 1370], slice(0, 3)):
        np.testing.assert_array_equal(rows.select(chosen).y, alone.select(chosen).y)
        np.testing.assert_allclose(rows.select(chosen).X, alone.select(chosen).X, atol=1e-13)


def test_categories_of_all_files_are_counted_together(tmp_path):
    for number in range(2):
        columns = {"text": [f"{number}-{row % 60}" for row in range(600)], "y": np.arange(600.0)}
        parquet.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    _, survey = survey_folder(tmp_path, "y")
    column = survey.columns()[0]
    assert (len(column.categories), column.other) == (99, True)
    assert len(survey.tallies["text"].counts) == 120


def test_files_with_different_columns_are_refused(own_folder):
    table, last = make_table(), own_folder / "part-10.parquet"
    parquet.write_table(table.drop_columns("b"), last)
    with pytest.raises(ValueError, match=r"part-1.parquet has a column 'b' and .*part-10.parquet has none; give files"):
        ParquetFolder(own_folder, "y")
    parquet.write_table(table.append_column("z", table["b"]), last)
    with pytest.raises(ValueError, match=r"part-10.parquet has a column 'z' and .*part-1.parquet has none"):
        ParquetFolder(own_folder, "y")
    parquet.write_table(table.set_column(1, "b", table["color"]), last)
    with pytest.raises(ValueError, match=r"column 'b' contains text, and in .* it contains numbers; convert one of"):
        ParquetFolder(own_folder, "y")


def test_files_without_rows_make_an_empty_survey(tmp_path):
    folder = write_parts(tmp_path / "data", make_table()[:0])
    table, survey = survey_folder(folder, "y")
    assert len(table.files) == 1
    with pytest.raises(ValueError, match="data has no rows; its columns are 'a', 'b'"):
        survey.check(table)


def test_file_that_workers_do_not_find_is_reported(own_folder):
    table = ParquetFolder(own_folder, "y")
    table.partitions()
    shutil.rmtree(own_folder)
    with pytest.raises(ValueError, match=r"a worker does not find a file .*; put the files where all workers see them"):
        table.survey(Survey.of(table, 0))


def test_columns_of_all_kinds_are_encoded_as_in_one_file(tmp_path):
    n_rows = 400
    table = pa.table(
        {
            "when": pa.array([3600 * 7 * row for row in range(n_rows)], pa.timestamp("s", "Asia/Tokyo")),
            "day": pa.array([row % 90 for row in range(n_rows)], pa.date32()),
            "wait": pa.array([row % 13 for row in range(n_rows)], pa.duration("ms")),
            "at": pa.array([60 * (row % 24) for row in range(n_rows)], pa.time32("s")),
            "color": pa.array([None if row % 9 == 0 else f"c{row % 4}" for row in range(n_rows)]).dictionary_encode(),
            "ok": pa.array([None if row % 7 == 0 else row % 2 == 0 for row in range(n_rows)]),
            "big": pa.array([2**63 + row * row for row in range(n_rows)], pa.uint64()),
            "written": [f"{1 + row % 28}.{1 + row % 12}.2020" for row in range(n_rows)],
            "id": [f"row {row}" for row in range(n_rows)],
            "y": np.arange(n_rows) / 7.0,
        }
    )
    whole = write_table(tmp_path / "all.parquet", table, row_group_size=150)
    (tmp_path / "data").mkdir()
    for start in (0, 250):
        parquet.write_table(table[start : start + 250], tmp_path / "data" / f"{start}.parquet", row_group_size=90)
    expected = survey_file(whole, "y")
    folder, survey = survey_folder(tmp_path / "data", "y")
    assert survey.columns() == expected.columns()
    kinds = ["date", "date", "duration", "time", "category", "boolean", "number", "date", "id"]
    assert [column.kind for column in survey.columns()] == kinds
    rows = folder.rows(survey.encoding(), survey.lengths).select(slice(None)).X
    alone = np.vstack([rows for _, rows in expected.encoding().open(whole).batches()])
    np.testing.assert_allclose(rows, alone, atol=1e-13)
