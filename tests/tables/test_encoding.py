# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import bochner.tables.survey
from bochner import RobustStandardizer
from tests.tables.tables import survey_file, write_table


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_numbers_are_standardized_and_text_is_one_hot_encoded(table_files, columns, suffix):
    path = table_files[suffix]
    result = survey_file(path)
    encoding = result.encoding("plain")
    assert encoding.names == ["height", "count", "color=blue", "color=green", "color=red"]
    rows = np.vstack([rows for _, rows in encoding.open(path).batches()])
    np.testing.assert_allclose(rows[:, :2].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(rows[:, :2].std(axis=0), 1.0)
    assert [encoding.names[2:][code].split("=")[1] for code in rows[:, 2:].argmax(axis=1)] == columns["color"]
    assert (rows[:, 2:].sum(axis=1) == 1).all()
    np.testing.assert_array_equal(encoding.encode(result.sample.cells()), rows)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_numbers_are_standardized_robustly_by_default(table_files, columns, suffix):
    path = table_files[suffix]
    encoding = survey_file(path).encoding()
    rows = np.vstack([rows for _, rows in encoding.open(path).batches()])
    numbers = np.column_stack([columns["height"], columns["count"]])
    np.testing.assert_allclose(rows[:, :2], RobustStandardizer().fit_transform(numbers), rtol=0.0, atol=1e-14)
    assert (rows[:, 2:].sum(axis=1) == 1).all()


def test_columns_can_be_left_as_they_are(table_files, columns):
    encoding = survey_file(table_files[".parquet"]).encoding("none")
    rows = np.vstack([rows for _, rows in encoding.open(table_files[".parquet"]).batches()])
    np.testing.assert_array_equal(rows[:, :2], np.column_stack([columns["height"], columns["count"]]))


def test_robust_scales_are_those_of_the_sampled_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(bochner.tables.survey, "SAMPLE_ROWS", 1000)
    rng = np.random.default_rng(0)
    path = write_table(tmp_path / "a.parquet", {"x": rng.lognormal(size=5000), "y": np.zeros(5000)})
    survey = survey_file(path)
    sampled = RobustStandardizer().fit(survey.sample.columns["x"][:, None])
    np.testing.assert_array_equal(survey.encoding().mean, sampled.center_)
    np.testing.assert_array_equal(survey.encoding().scale, sampled.scale_)


def test_table_without_numbers_is_encoded(tmp_path, columns):
    path = write_table(tmp_path / "a.parquet", {"color": columns["color"], "y": columns["y"]})
    assert survey_file(path).encoding().encode(survey_file(path).sample.cells()).shape == (500, 3)


def test_unknown_category_is_encoded_as_zeros(tmp_path, table_files, columns):
    encoding = survey_file(table_files[".parquet"]).encoding()
    path = write_table(tmp_path / "a.parquet", columns | {"color": ["mauve"] * 500})
    _, rows = next(encoding.open(path).batches())
    assert not rows[:, 2:].any()


@pytest.mark.parametrize("text_type", [pa.dictionary(pa.int32(), pa.string()), pa.large_string(), pa.string()])
def test_every_text_type_is_one_hot_encoded(tmp_path, columns, text_type):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": pa.array(columns["color"]).cast(text_type), "y": columns["y"]}), path)
    encoding = survey_file(path).encoding()
    assert encoding.names == ["a=blue", "a=green", "a=red"]
    _, rows = next(encoding.open(path).batches())
    assert (rows.sum(axis=1) == 1).all()


def test_float32_columns_are_encoded_as_float32(tmp_path, columns):
    path = write_table(tmp_path / "a.parquet", {"x": columns["height"].astype(np.float32), "y": columns["y"]})
    encoding = survey_file(path).encoding()
    assert next(encoding.open(path).batches())[1].dtype == np.float32
