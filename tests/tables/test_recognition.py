# SPDX-License-Identifier: BSD-3-Clause
from datetime import date, datetime, time, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import bochner.tables.recognition
from bochner.tables.columns import Reading
from bochner.tables.reader import Table
from bochner.tables.recognition import ColumnTally
from bochner.tables.survey import Survey


def table_of(data, columns):
    """Return the path of a CSV file in a folder, or a table in memory."""
    if data is None:
        return pa.table(columns)
    pd.DataFrame(columns).to_csv(data / "a.csv", index=False)
    return data / "a.csv"


def columns_of(data, kinds=None, **columns):
    """Return what columns are taken for, by name; `data` is a folder for a CSV file, or None for rows in memory."""
    survey = Survey(Table(table_of(data, columns), kinds=kinds))
    return {column.name: column for column in survey.columns}


def checked_columns(data, **columns):
    """Return what columns are taken for, or raise the problems of the table."""
    survey = Survey(Table(table_of(data, columns)))
    survey.check()
    return survey.columns


@pytest.fixture(params=["csv", "memory"])
def source(request, tmp_path):
    return tmp_path if request.param == "csv" else None


OTHER = {"other": [0.5, 1.5] * 50}


class TestIds:
    @pytest.mark.parametrize("name", ["year", "id", "customer_id", "population"])
    @pytest.mark.parametrize("values", [range(1950, 2050), range(100, 0, -1), [i * i for i in range(100)]], ids=str)
    def test_different_integers_are_numbers(self, source, name, values):
        assert columns_of(source, **{name: list(values)}, **OTHER)[name].kind == "number"

    def test_different_texts_are_text(self, source):
        assert columns_of(source, name=[f"name {i}" for i in range(100)], **OTHER)["name"].kind == "text"

    def test_few_rows_may_be_different_by_chance(self, source):
        found = columns_of(source, color=[f"c{i}" for i in range(19)], x=[0.5] * 18 + [1.0])
        assert [column.kind for column in found.values()] == ["category", "number"]

    def test_rare_texts_are_text(self, source):
        found = columns_of(source, note=[f"note {i // 2}" for i in range(300)], x=[0.5, 1.5] * 150)
        assert found["note"].kind == "text"

    def test_given_kind_is_kept(self, source):
        kinds = {"n": "number", "x": "category"}
        found = columns_of(source, kinds, n=list(range(100)), x=[0.5, 1.5] * 50, **OTHER)
        assert (found["n"].kind, found["x"].kind) == ("number", "category")


class TestKinds:
    def test_constant_and_empty_columns(self, source):
        found = columns_of(source, a=[1.5] * 100, b=["x"] * 100, c=[None] * 100, d=[1.5, None] * 50, **OTHER)
        assert [column.kind for column in found.values()] == ["constant", "constant", "empty", "number", "number"]

    def test_reason_has_the_only_value(self):
        found = columns_of(None, day=[date(2020, 1, 1)] * 30, **{"x": [0.5, 1.5] * 15})["day"]
        assert found.reason == "all cells are 2020-01-01"

    @pytest.mark.parametrize("mark", ["?", "none", "-"])
    def test_columns_of_nothing_but_marks_are_empty(self, source, mark):
        assert columns_of(source, a=[mark] * 100, **OTHER)["a"].kind == "empty"
        assert columns_of(source, a=[mark, "x"] * 50, **OTHER)["a"].categories == (mark, "x")

    def test_booleans(self, source):
        found = columns_of(source, a=[True, False] * 50, b=["yes", "no"] * 50, c=["T", None] * 50, d=["on", "x"] * 50)
        assert [column.kind for column in found.values()] == ["boolean", "boolean", "boolean", "category"]

    def test_dates(self, source):
        days = [date(2020, 1, 1 + i % 28) for i in range(100)]
        moments = [datetime(2020, 1 + i % 12, 5, i % 24) for i in range(100)]
        written = [f"{1 + i % 28}.{1 + i % 12}.2021" for i in range(100)]
        found = columns_of(source, day=days, at=moments, written=written)
        assert [column.kind for column in found.values()] == ["date", "date", "date"]
        cycles = [column.cycles for column in found.values()]
        assert cycles == [("week",), ("year", "day"), ("year", "week")]
        assert found["written"].format == "%d.%m.%Y"
        assert found["day"].format == ("iso" if source else "")

    def test_ambiguous_dates_have_the_month_first(self, source):
        found = columns_of(source, day=[f"{1 + i % 12}/{1 + i % 11}/2021" for i in range(100)])["day"]
        assert found.format == "%m/%d/%Y"
        kinds = {"day": "date:%d/%m/%Y"}
        assert columns_of(source, kinds, day=["1/2/2021", "3/4/2021"] * 50)["day"].format == "%d/%m/%Y"

    def test_codes_with_leading_zeros_are_categories(self, source):
        assert columns_of(source, plz=["01067", "10115", "80331", "20095"] * 25)["plz"].kind == "category"
        assert columns_of(source, plz=[f"{i:05}" for i in range(300)])["plz"].kind == "text"

    def test_numbers_with_decimal_commas_and_units(self, source):
        found = columns_of(source, a=["1,5", "2"] * 50, b=["1.234,50 €", "7,00 €"] * 50, c=["12 %", "3 %"] * 50)
        assert [column.kind for column in found.values()] == ["number"] * 3
        assert [column.fill for column in found.values()] == [1.75, 620.75, 7.5]

    def test_typographic_separators_and_signs(self, source):
        found = columns_of(source, a=["1\u2019234.5", "2\u2019000.0"] * 50, b=["\u22121,5 €", "2 €"] * 50)
        assert [(column.kind, column.fill) for column in found.values()] == [("number", 1617.25), ("number", 0.25)]

    def test_any_column_can_be_text(self, source):
        values = {"rooms": list(range(30)), "ok": [True, False] * 15, "day": [date(2020, 1, 1 + i) for i in range(30)]}
        found = columns_of(source, dict.fromkeys(values, "text"), **values)
        assert [column.kind for column in found.values()] == ["text"] * 3

    def test_text_among_numbers_is_refused(self, source):
        with pytest.raises(ValueError, match=r"'k\.A\.', expected a number \(257 of 300 .* give missing=\['k\.A\.'\]"):
            checked_columns(source, x=[f"{7 * i}.5" if i % 7 else "k.A." for i in range(300)])

    def test_codes_of_a_typed_table_are_categories(self):
        found = columns_of(None, code=["01", "02", "03", "04"] * 25)
        assert found["code"].kind == "category"
        many = columns_of(None, x=[str(i % 150 / 7) for i in range(300)])
        assert many["x"].kind == "number"

    def test_categoricals_of_numbers_are_categories(self):
        found = columns_of(None, a=pa.array([1, 2, 3, 4] * 25).dictionary_encode())["a"]
        assert (found.kind, found.categories) == ("category", ("1", "2", "3", "4"))

    def test_numbers_with_marks_of_missing_values(self, tmp_path):
        found = columns_of(tmp_path, x=["1", "?", "2.5", "-"] * 25)["x"]
        assert (found.kind, found.fill, found.missing, found.gaps) == ("number", 1.75, True, True)

    def test_integers_can_be_dates(self, source):
        values = [20200101 + i % 28 for i in range(100)]
        found = columns_of(source, {"day": "date:%Y%m%d"}, day=values)["day"]
        assert (found.kind, found.format, found.cycles) == ("date", "%Y%m%d", ("week",))


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (
            ["1", "2", "x"],
            "number",
            "row 3, column 'a': invalid value 'x', expected a number (2 of 3 cells are numbers); correct it, give "
            "missing=['x'] if it means",
        ),
        (["red", "x"], "duration", "expected a number (0 of 2 cells are numbers); correct it, give another kind."),
        (["yes", "maybe"], "boolean", "column 'a': invalid value 'maybe', expected true or false; correct it, or give"),
        (["2020-01-01", "soon"], "date", "invalid value 'soon', expected a date of the format iso; correct it"),
        (["1/2/2020", "2020-2-1"], "date:%d/%m/%Y", "invalid value '2020-2-1', expected a date of the format %d/%m/%Y"),
        ([date(2020, 1, 1), date(2020, 1, 2)], "number", "the cells are dates or times and not numbers; correct it"),
        ([1.5, 2.5], "date", "column 'a': invalid value '1.5', expected a date of the format iso"),
    ],
)
def test_given_kind_that_does_not_fit(values, kind, message):
    table = Table(pa.table({"a": values, "b": [0.5] * (len(values) - 1) + [1.0]}), kinds={"a": kind})
    survey = Survey(table)
    with pytest.raises(ValueError) as error:  # noqa: PT011
        survey.check()
    assert message in str(error.value)


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


class TestCountsOfText:
    def test_numbers(self):
        tally = tally_of(BATCHES["numbers"])
        assert (tally.n_cells, tally.n_missing, tally.n_marks, tally.n_numbers) == (5, 1, 1, 3)
        assert tally.first_text is None

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
        monkeypatch.setattr(bochner.tables.recognition, "MAX_COUNTED", 10)
        batches = [pa.array([f"value {i}" for i in range(start, start + 8)] + ["often"] * 3) for start in (0, 8, 16)]
        tally = tally_of(batches)
        assert not tally.is_complete
        assert len(tally.counts) <= 10
        assert max(tally.counts, key=tally.counts.get) == "often"
        assert tally.counts["often"] == 9

    def test_numbers_are_not_counted_for_long(self, monkeypatch):
        monkeypatch.setattr(bochner.tables.recognition, "MAX_COUNTED", 10)
        batches = [pa.array([str(i) for i in range(20)]), pa.array(["1", "2"])]
        assert tally_of(batches).counts is None
        assert tally_of(batches, given="category").counts is not None


class TestCountsOfTypedCells:
    def test_floats(self):
        tally = tally_of([pa.array([1.0, np.nan]), pa.array([None, -2.0]), pa.array([np.inf, -np.inf])], "float")
        assert (tally.n_cells, tally.n_missing, tally.is_constant) == (6, 2, False)
        assert tally.infinite == (4, "inf")

    @pytest.mark.parametrize(
        ("storage", "value", "other"),
        [
            ("integer", 2**64 - 1, 2**64 - 2),
            ("float", 0.1, 0.2),
            ("boolean", True, False),
            ("date", datetime(1, 1, 1), datetime(9999, 1, 1)),
            ("time", time(1), time(2)),
            ("duration", timedelta(1), timedelta(2)),
        ],
    )
    def test_constants(self, storage, value, other):
        first, last = (
            pa.array(values, pa.uint64() if storage == "integer" else None) for values in ([value] * 2, [other])
        )
        assert tally_of([first, first], storage).is_constant
        assert not tally_of([first, last], storage).is_constant

    def test_integers_as_dates(self):
        tally = tally_of([pa.array([20200131]), pa.array([20200201])], "integer", given="date:%Y%m%d")
        assert tally.formats == ["%Y%m%d"]
