# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pyarrow as pa
import pytest

import bochner.tables.tallies
from bochner.tables.columns import Reading
from bochner.tables.tallies import ColumnTally


def tally_of(batches, storage="untyped", **options):
    """Return the counts of batches, added one after the other."""
    tally, first_row = ColumnTally(storage, **options), 0
    for batch in batches:
        tally.add(batch, first_row, Reading())
        first_row += len(batch)
    return tally


BATCHES = {
    "text": [pa.array(["a", "b", None]), pa.array(["a", "c", "1"]), pa.array([None, None], pa.string())],
    "numbers": [pa.array(["1", "2.5"]), pa.array(["?", None]), pa.array(["-3"])],
    "dates": [pa.array(["2020-01-01", None]), pa.array(["2020-01-02"])],
    "mixed": [pa.array(["1", "2"]), pa.array(["x", "3"])],
    "marks first": [pa.array(["?", "-"]), pa.array(["2020-01-02"])],
}


@pytest.mark.parametrize("name", BATCHES)
def test_counts_do_not_depend_on_the_batches(name):
    if name != "mixed":  # the range of numbers among text is not needed
        assert tally_of([pa.concat_arrays(BATCHES[name])]) == tally_of(BATCHES[name])


class TestText:
    def test_numbers(self):
        tally = tally_of(BATCHES["numbers"])
        assert (tally.n_cells, tally.n_missing, tally.n_marks, tally.n_numbers) == (5, 1, 1, 3)
        assert (tally.low, tally.high, tally.first_text) == (-3, 2.5, None)

    def test_text_after_numbers_is_located(self):
        tally = tally_of(BATCHES["mixed"])
        assert (tally.n_numbers, tally.first_text) == (3, (2, "x"))

    def test_formats_of_dates(self):
        assert tally_of(BATCHES["dates"]).formats == ["iso"]
        assert tally_of(BATCHES["text"]).formats == []
        ambiguous = tally_of([pa.array(["01/02/2020"]), pa.array(["03/04/2020"])])
        assert ambiguous.formats == ["%m/%d/%Y", "%d/%m/%Y"]
        assert tally_of([pa.array(["01/02/2020"]), pa.array(["13/04/2020"])]).formats == ["%d/%m/%Y"]
        assert tally_of(BATCHES["marks first"]).formats == ["iso"]

    def test_counts(self):
        tally = tally_of(BATCHES["text"])
        assert tally.counts == {"a": 2, "b": 1, "c": 1, "1": 1}
        assert not tally.is_boolean
        assert tally_of([pa.array(["yes"]), pa.array(["No", None])]).is_boolean

    def test_counts_are_bounded(self, monkeypatch):
        monkeypatch.setattr(bochner.tables.tallies, "MAX_COUNTED", 10)
        batches = [pa.array([f"value {i}" for i in range(start, start + 8)] + ["often"] * 3) for start in (0, 8, 16)]
        tally = tally_of(batches)
        assert not tally.is_complete
        assert len(tally.counts) <= 10
        assert max(tally.counts, key=tally.counts.get) == "often"
        assert tally.counts["often"] == 9

    def test_numbers_are_not_counted_for_long(self, monkeypatch):
        monkeypatch.setattr(bochner.tables.tallies, "MAX_COUNTED", 10)
        batches = [pa.array([str(i) for i in range(20)]), pa.array(["1", "2"])]
        assert tally_of(batches).counts is None
        assert tally_of(batches, given="category").counts is not None


class TestTypedCells:
    def test_floats(self):
        tally = tally_of([pa.array([1.0, np.nan]), pa.array([None, -2.0]), pa.array([np.inf, -np.inf])], "float")
        assert (tally.n_cells, tally.n_missing, tally.low, tally.high) == (6, 2, -2.0, 1.0)
        assert tally.infinite == (4, "inf")

    def test_large_integers_are_exact(self):
        tally = tally_of([pa.array([2**64 - 1], pa.uint64()), pa.array([2**63], pa.uint64())], "integer")
        assert (tally.low, tally.high) == (2**63, 2**64 - 1)

    def test_dates(self):
        tally = tally_of([pa.array([3, None], pa.date32()), pa.array([1], pa.date32())], "date")
        assert (tally.low, tally.high, tally.n_missing) == (1, 3, 1)

    def test_integers_as_dates(self):
        tally = tally_of([pa.array([20200131]), pa.array([20200201])], "integer", given="date:%Y%m%d")
        assert tally.formats == ["%Y%m%d"]
