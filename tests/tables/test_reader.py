# SPDX-License-Identifier: BSD-3-Clause
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from sklearn.base import clone
from sklearn.model_selection import PredefinedSplit

import bochner.tables.reader
from bochner import FourierFeatures, FourierRidge, FourierRidgeClassifier, FourierSVC
from bochner.tables.reader import Table
from bochner.tables.survey import Survey, survey


@pytest.fixture
def columns(rng):
    return {
        "height": rng.normal(size=500),
        "count": rng.integers(0, 9, size=500),
        "colour": rng.choice(["red", "green", "blue"], size=500).tolist(),
        "y": rng.normal(size=500),
    }


def write(path, columns, row_group_size=100):
    table = pa.table(columns)
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path, row_group_size=row_group_size)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rows_come_out_as_numbers(tmp_path, columns, suffix):
    path = write(tmp_path / f"table{suffix}", columns)
    table = Table(path, "y")
    assert (table.numeric, table.text) == (["height", "count"], ["colour"])
    found = survey(table, seed=0)
    assert found.n_rows == 500
    encoding = found.encoding(standardise=True)
    assert encoding.names == ["height", "count", "colour=blue", "colour=green", "colour=red"]
    rows = np.vstack([encoding.encode(chunk.cells) for chunk in table.chunks()])
    np.testing.assert_allclose(rows[:, :2].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(rows[:, :2].std(axis=0), 1.0)
    assert [encoding.names[2:][code].split("=")[1] for code in rows[:, 2:].argmax(axis=1)] == columns["colour"]
    assert (rows[:, 2:].sum(axis=1) == 1).all()
    np.testing.assert_array_equal(np.vstack([encoding.encode(found.sample.cells())]), rows)  # few rows are all sampled


def test_an_unknown_category_makes_zeros(tmp_path, columns):
    encoding = survey(Table(write(tmp_path / "a.parquet", columns), "y"), 0).encoding(standardise=False)
    other = columns | {"colour": ["mauve"] * 500}
    cells = next(Table(write(tmp_path / "b.parquet", other), "y").chunks()).cells
    assert not encoding.encode(cells)[:, 2:].any()


@pytest.mark.parametrize("kind", [pa.dictionary(pa.int32(), pa.string()), pa.large_string(), pa.string()])
def test_all_kinds_of_text_are_categories(tmp_path, columns, kind):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": pa.array(columns["colour"]).cast(kind), "y": columns["y"]}), path)
    encoding = survey(Table(path, "y"), 0).encoding(standardise=True)
    assert encoding.names == ["a=blue", "a=green", "a=red"]


def test_the_sample_is_uniform_and_does_not_depend_on_the_chunks(tmp_path, monkeypatch, rng):
    path = write(tmp_path / "a.parquet", {"x": np.arange(10_000.0), "y": np.zeros(10_000)}, row_group_size=1000)
    monkeypatch.setattr(bochner.tables.reader, "SAMPLE_ROWS", 1000)
    whole = survey(Table(path, "y"), seed=3)
    monkeypatch.setattr(bochner.tables.reader, "BATCH_BYTES", 0)
    pieces = survey(Table(path, "y"), seed=3)
    np.testing.assert_array_equal(whole.sample.columns["x"], pieces.sample.columns["x"])
    assert len(np.unique(whole.sample.columns["x"])) == 1000
    assert (np.diff(whole.sample.columns["x"]) > 0).all()
    counts = np.histogram(whole.sample.columns["x"], bins=10)[0]
    assert np.abs(counts - 100).max() < 5 * np.sqrt(100)
    assert (survey(Table(path, "y"), seed=4).sample.columns["x"] != whole.sample.columns["x"]).any()


def test_single_precision_stays(tmp_path, columns):
    path = write(tmp_path / "a.parquet", {"x": columns["height"].astype(np.float32), "y": columns["y"]})
    assert survey(Table(path, "y"), 0).encoding(standardise=True).encode(next(Table(path).chunks()).cells).dtype == "f4"


def test_whole_numbers_may_be_followed_by_fractions(tmp_path, monkeypatch):
    monkeypatch.setattr(bochner.tables.reader, "CSV_BLOCK_BYTES", 64)
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1,2\n" * 100 + "0.5,2\n")
    assert survey(Table(path, "y"), 0).sample.columns["x"][-1] == 0.5


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "head",
    [
        FourierRidge(FourierFeatures(n_frequencies=8), random_state=0),
        FourierRidgeClassifier(FourierFeatures(n_frequencies=8), random_state=0),
        FourierSVC(FourierFeatures(n_frequencies=8), random_state=0, Cs=[0.1, 1.0]),
    ],
)
def test_heads_learn_from_files_as_from_arrays(tmp_path, rng, suffix, head):
    X, y = rng.normal(size=(300, 3)), (np.arange(300) % 3).astype(float)
    path = write(tmp_path / f"a{suffix}", {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
    folds = PredefinedSplit(np.arange(300) % 5)
    expected = clone(head).set_params(cv=folds)
    expected.fit(X, y)
    head.fit(path, "y")
    np.testing.assert_allclose(head.coef_, expected.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(head.predict(path), expected.predict(X), rtol=1e-6)
    np.testing.assert_allclose(head.predict(X), expected.predict(X), rtol=1e-6)


class TestBadInput:
    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    def test_a_missing_cell_has_a_place(self, tmp_path, columns, suffix):
        heights = columns["height"].tolist()
        heights[123] = None
        path = write(tmp_path / f"a{suffix}", columns | {"height": heights})
        with pytest.raises(ValueError, match=f"a{suffix}: row 124, column 'height' is missing"):
            survey(Table(path, "y"), 0)

    def test_an_infinite_cell_has_a_place(self, tmp_path, columns):
        columns["height"][499] = np.inf
        with pytest.raises(ValueError, match="row 500, column 'height' is inf"):
            survey(Table(write(tmp_path / "a.parquet", columns), "y"), 0)

    @pytest.mark.parametrize("block", [1 << 22, 64])
    def test_a_malformed_cell_has_a_place(self, tmp_path, monkeypatch, block):
        monkeypatch.setattr(bochner.tables.reader, "CSV_BLOCK_BYTES", block)
        path = tmp_path / "a.csv"
        path.write_text("x,y\n" + "1,2\n" * 100 + "one,2\n")
        with pytest.raises(ValueError, match=r"a\.csv: row 101, column 'x' has the invalid value 'one' among numbers"):
            survey(Table(path, "y"), 0)

    def test_a_row_of_the_wrong_length_has_a_place(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x,y\n1,2\n1,2,3\n")
        with pytest.raises(ValueError, match="row 2 is malformed: Expected 2 columns, got 3"):
            survey(Table(path, "y"), 0)

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("a.csv", b"", "cannot be read as csv: Empty CSV file"),
            ("a.csv", b"x,y\n", "has no rows; its columns are 'x', 'y'"),
            ("a.csv", b"x,x,y\n1,2,3\n", "more than one column named 'x'"),
            ("a.csv", b"y\n1\n", "nothing to predict from"),
            ("a.parquet", b"PAR1", "cannot be read as parquet"),
            ("a.txt", b"x", "give a .parquet or .csv file"),
        ],
    )
    def test_odd_files(self, tmp_path, name, content, message):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            survey(Table(tmp_path / name, "y"), 0)

    def test_no_such_file_or_column(self, tmp_path, columns):
        with pytest.raises(ValueError, match="does not exist"):
            Table(tmp_path / "a.csv", "y")
        path = write(tmp_path / "a.csv", columns)
        with pytest.raises(ValueError, match="no column 'z'; its columns are 'height', 'count', 'colour', 'y'"):
            Table(path, "z")

    def test_dates_are_refused(self, tmp_path):
        parquet.write_table(pa.table({"when": [date(2020, 1, 1)], "y": [1.0]}), tmp_path / "a.parquet")
        with pytest.raises(ValueError, match="column 'when' holds date32"):
            Table(tmp_path / "a.parquet", "y")

    def test_too_many_categories(self, tmp_path):
        path = write(tmp_path / "a.csv", {"id": [f"row {i}" for i in range(101)], "y": list(range(101))})
        with pytest.raises(ValueError, match="column 'id' holds text with more than 100 different values; drop it"):
            survey(Table(path, "y"), 0)

    def test_text_is_no_target_for_a_regression(self, tmp_path, columns):
        path = write(tmp_path / "a.csv", columns)
        with pytest.raises(ValueError, match="column 'colour' holds text"):
            FourierRidge().fit(path, "colour")
        with pytest.raises(ValueError, match="`y` must be the name of the column"):
            FourierRidge().fit(path, columns["y"])

    def test_a_model_of_an_array_reads_no_files(self, tmp_path, columns):
        model = FourierRidge(FourierFeatures(n_frequencies=4)).fit(columns["height"][:, None], columns["y"])
        with pytest.raises(ValueError, match="fitted on an array"):
            model.predict(write(tmp_path / "a.csv", columns))


def test_memory_of_a_survey_does_not_grow(tmp_path, monkeypatch):
    monkeypatch.setattr(bochner.tables.reader, "SAMPLE_ROWS", 1000)
    path = write(tmp_path / "a.parquet", {"x": np.arange(50_000.0), "y": np.zeros(50_000)}, row_group_size=5000)
    found = Survey.of(Table(path, "y"), 0)
    for chunk in Table(path, "y").chunks():
        found.add(Table(path, "y"), chunk)
        assert len(found.sample.columns["x"]) <= 5000
    assert len(found.sample.columns["x"]) == 1000
