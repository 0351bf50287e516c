# SPDX-License-Identifier: BSD-3-Clause
"""Several Parquet files as one table, read by Dask in this thread."""

import pickle
import shutil

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import bochner.tables.parquet_folder
from bochner.tables.encoding import Encoding
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
    assert survey.categories == expected.categories
    assert survey.target_values == expected.target_values
    assert survey.single == expected.single
    for name, values in expected.sample.columns.items():
        np.testing.assert_array_equal(survey.sample.columns[name], values)
    np.testing.assert_array_equal(survey.sample.targets, expected.sample.targets)
    np.testing.assert_allclose(survey.moments.mean, expected.moments.mean, rtol=1e-13)
    np.testing.assert_allclose(survey.moments.scale, expected.moments.scale, rtol=1e-13)


def test_rows_are_encoded_in_batches_and_only_if_requested(files, monkeypatch):
    whole, folder = files
    monkeypatch.setattr(bochner.tables.parquet_folder, "PARTITION_BYTES", 1 << 20)
    table, survey = survey_folder(folder, "y")
    table.batch_rows = 400
    encoding = survey.encoding()
    encoded = EncodedPartitions(table.partitions(), table, encoding)
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
    rows = table.rows(survey.encoding(), survey.n_rows)
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
    assert survey.sample.columns["x"].tolist() == [*range(20), *(np.arange(20) / 2)]
    assert not survey.single


def test_text_of_several_types_becomes_strings(tmp_path):
    for name, kind in {"a": pa.string(), "b": pa.dictionary(pa.int32(), pa.string())}.items():
        columns = {"x": pa.array(["u", name]).cast(kind), "y": [1.0, 2.0]}
        parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    _, survey = survey_folder(tmp_path, "y")
    assert survey.categories == {"x": ["a", "b", "u"]}


@pytest.mark.parametrize(
    ("row", "value", "shown"), [(0, None, "missing"), (1, np.nan, "nan"), (800, np.inf, "inf"), (1599, None, "missing")]
)
def test_invalid_cell_is_located(tmp_path, row, value, shown):
    table = make_table()
    values = table["b"].to_pylist()
    values[row] = value
    folder = write_parts(tmp_path / "data", table.set_column(1, "b", pa.array(values, pa.float64())))
    name, start = next((name, start) for name, (start, stop) in PARTS.items() if start <= row < stop)
    with pytest.raises(ValueError, match=rf"{name}\.parquet: row {row - start + 1}, column 'b': the value is {shown};"):
        survey_folder(folder, "y")


def test_categories_of_all_files_are_counted_together(tmp_path):
    for number in range(2):
        columns = {"text": [f"{number}-{row}" for row in range(60)], "y": np.arange(60.0)}
        parquet.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    with pytest.raises(ValueError, match="text column 'text' has more than 100 distinct values"):
        survey_folder(tmp_path, "y")


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
        survey.check_not_empty(table)


def test_file_that_workers_do_not_find_is_reported(own_folder):
    table = ParquetFolder(own_folder, "y")
    table.partitions()
    shutil.rmtree(own_folder)
    with pytest.raises(ValueError, match=r"a worker does not find a file .*; put the files where all workers see them"):
        table.survey(Survey.of(table, 0))
