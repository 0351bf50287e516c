# SPDX-License-Identifier: BSD-3-Clause
"""Encoded rows of a table as a row source, which feature models read batch by batch."""

import numpy as np
import pytest

import bochner.tables.reader
from bochner.tables.encoding import EncodedTable, TableRows
from tests.tables.tables import survey_file, write_table


@pytest.fixture(params=[".csv", ".parquet"])
def path(request, table_files, monkeypatch):
    """A file with several groups of rows."""
    monkeypatch.setattr(bochner.tables.reader, "CSV_BLOCK_BYTES", 4096)
    return table_files[request.param]


@pytest.fixture
def rows(path):
    survey = survey_file(path)
    return TableRows(EncodedTable(survey.table, survey.encoding()), survey.lengths)


@pytest.fixture
def expected(path):
    """The encoded rows as one array."""
    encoding = survey_file(path).encoding()
    return np.vstack([batch.X for batch in encoding.open(path).batches()])


def total_of(start, batch):
    """Return column sums weighted by row numbers, which depend on the position of the batch."""
    return (start + np.arange(len(batch.y))) @ np.column_stack([batch.X, batch.y])


def test_rows_are_described_without_reading_them(rows):
    assert rows.shape == (500, 5)
    assert rows.dtype == np.float64
    assert rows.has_targets
    assert rows.location == "file"


@pytest.mark.parametrize("chosen", [slice(0, 1), slice(90, 310), slice(None), [499, 3, 3, 250, 0]])
def test_selected_rows_are_those_of_the_file(rows, expected, columns, chosen):
    batch = rows.select(chosen)
    np.testing.assert_array_equal(batch.X, expected[chosen])
    np.testing.assert_array_equal(batch.y, columns["y"][chosen])
    only_targets = rows.select(chosen, with_rows=False)
    assert only_targets.X is None
    np.testing.assert_array_equal(only_targets.y, columns["y"][chosen])


def test_targets_are_encoded_or_left_out(rows, columns):
    doubled = rows.with_targets(lambda y: 2 * y)
    np.testing.assert_array_equal(doubled.select(slice(5)).y, 2 * columns["y"][:5])
    np.testing.assert_array_equal(doubled.select(slice(None)).y, 2 * columns["y"])
    without = rows.with_targets(None)
    assert not without.has_targets
    assert without.select(slice(5)).y is None


def test_accumulated_statistic_is_that_of_all_rows(rows, expected, columns):
    all_columns = np.column_stack([expected, columns["y"]])
    np.testing.assert_allclose(rows.accumulate(total_of), np.arange(500) @ all_columns, rtol=1e-10, atol=1e-8)


@pytest.fixture
def gaps(path, tmp_path, columns):
    """A file in which every third target is missing, and one whole group of targets."""
    missing = np.arange(500) % 3 == 0
    missing[100:200] = True
    y = [None if gap else value for gap, value in zip(missing, columns["y"].tolist(), strict=True)]
    return write_table(tmp_path / f"gaps{path.suffix}", columns | {"y": y}), ~missing


def test_rows_without_a_target_are_left_out(gaps, columns):
    path, kept = gaps
    survey = survey_file(path)
    assert (survey.n_rows, survey.n_without_target) == (kept.sum(), (~kept).sum())
    np.testing.assert_array_equal(survey.encoding().targets(survey.sample.cells), columns["y"][kept])
    rows = TableRows(EncodedTable(survey.table, survey.encoding()), survey.lengths)
    assert rows.shape == (kept.sum(), 5)
    np.testing.assert_array_equal(rows.select([50, 3, 200]).y, columns["y"][kept][[50, 3, 200]])
    complete = np.vstack([batch.X for batch in survey.encoding().open(path).batches()])
    np.testing.assert_array_equal(rows.select(slice(None)).X, complete[kept])
