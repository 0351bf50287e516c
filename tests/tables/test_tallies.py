# SPDX-License-Identifier: BSD-3-Clause
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest

import bochner.tables.tallies
from bochner.tables.columns import NumberStyle
from bochner.tables.tallies import ColumnTally

PLAIN = NumberStyle()


def tally_of(batches, storage="untyped", **options):
    """Return the counts of batches, added one after the other."""
    tally, first_row = ColumnTally(storage, **options), 0
    for batch in batches:
        tally.add(batch, first_row, PLAIN)
        first_row += len(batch)
    return tally


def merged_tally_of(batches, storage="untyped", **options):
    """Return the counts of batches that were counted separately."""
    tallies, first_row = [], 0
    for batch in batches:
        tallies.append(ColumnTally(storage, **options))
        tallies[-1].add(batch, first_row, PLAIN)
        first_row += len(batch)
    return reduce(ColumnTally.merge, tallies)


BATCHES = {
    "text": [pa.array(["a", "b", None]), pa.array(["a", "c", "1"]), pa.array([None, None], pa.string())],
    "numbers": [pa.array(["1", "2.5"]), pa.array(["?", None]), pa.array(["-3"])],
    "dates": [pa.array(["2020-01-01", None]), pa.array(["2020-01-02"])],
    "mixed": [pa.array(["1", "2"]), pa.array(["x", "3"])],
    "marks first": [pa.array(["?", "-"]), pa.array(["2020-01-02"])],
}


@pytest.mark.parametrize("name", BATCHES)
def test_merged_counts_are_those_of_all_cells(name):
    assert merged_tally_of(BATCHES[name]) == tally_of(BATCHES[name])
    if name != "mixed":  # the range of numbers among text is not needed
        assert tally_of([pa.concat_arrays(BATCHES[name])]) == tally_of(BATCHES[name])


@pytest.mark.parametrize("make", [tally_of, merged_tally_of])
class TestText:
    def test_numbers(self, make):
        tally = make(BATCHES["numbers"])
        assert (tally.n_cells, tally.n_missing, tally.n_marks, tally.n_numbers) == (5, 1, 1, 3)
        assert (tally.low, tally.high, tally.is_integer, tally.first_text) == (-3, 2.5, False, None)

    def test_text_after_numbers_is_located(self, make):
        tally = make(BATCHES["mixed"])
        assert (tally.n_numbers, tally.first_text) == (3, (2, "x"))

    def test_formats_of_dates(self, make):
        assert make(BATCHES["dates"]).formats == ["iso"]
        assert make(BATCHES["text"]).formats == []
        ambiguous = make([pa.array(["01/02/2020"]), pa.array(["03/04/2020"])])
        assert ambiguous.formats == ["%m/%d/%Y", "%d/%m/%Y"]
        assert make([pa.array(["01/02/2020"]), pa.array(["13/04/2020"])]).formats == ["%d/%m/%Y"]
        assert make(BATCHES["marks first"]).formats == ["iso"]

    def test_counts(self, make):
        tally = make(BATCHES["text"])
        assert tally.counts == {"a": 2, "b": 1, "c": 1, "1": 1}
        assert not tally.is_boolean
        assert make([pa.array(["yes"]), pa.array(["No", None])]).is_boolean

    def test_counts_are_bounded(self, make, monkeypatch):
        monkeypatch.setattr(bochner.tables.tallies, "MAX_COUNTED", 10)
        batches = [pa.array([f"value {i}" for i in range(start, start + 8)] + ["often"] * 3) for start in (0, 8, 16)]
        tally = make(batches)
        assert not tally.is_complete
        assert len(tally.counts) <= 10
        assert max(tally.counts, key=tally.counts.get) == "often"
        assert tally.counts["often"] == 9

    def test_numbers_are_not_counted_for_long(self, make, monkeypatch):
        monkeypatch.setattr(bochner.tables.tallies, "MAX_COUNTED", 10)
        batches = [pa.array([str(i) for i in range(20)]), pa.array(["1", "2"])]
        assert make(batches).counts is None
        assert make(batches, given="category").counts is not None


@pytest.mark.parametrize("make", [tally_of, merged_tally_of])
class TestTypedCells:
    def test_floats(self, make):
        tally = make([pa.array([1.0, np.nan]), pa.array([None, -2.0]), pa.array([np.inf, -np.inf])], "float")
        assert (tally.n_cells, tally.n_missing, tally.low, tally.high) == (6, 2, -2.0, 1.0)
        assert tally.infinite == (4, "inf")
        assert not tally.is_integer

    def test_large_integers_are_exact(self, make):
        tally = make([pa.array([2**64 - 1], pa.uint64()), pa.array([2**63], pa.uint64())], "integer")
        assert (tally.low, tally.high, tally.is_integer) == (2**63, 2**64 - 1, True)

    def test_dates(self, make):
        tally = make([pa.array([3, None], pa.date32()), pa.array([1], pa.date32())], "date")
        assert (tally.low, tally.high, tally.n_missing) == (1, 3, 1)

    def test_values_of_a_target_are_counted(self, make):
        tally = make([pa.array([1, 2]), pa.array([2, None])], "integer", keep_values=True)
        assert tally.counts == {1: 1, 2: 2}

    def test_values_of_many_targets_are_not_counted(self, make, monkeypatch):
        monkeypatch.setattr(bochner.tables.tallies, "MAX_COUNTED", 10)
        tally = make([pa.array(range(20)), pa.array([1])], "integer", keep_values=True)
        assert tally.counts is None

    def test_integers_as_dates(self, make):
        tally = make([pa.array([20200131]), pa.array([20200201])], "integer", given="date:%Y%m%d")
        assert tally.formats == ["%Y%m%d"]
