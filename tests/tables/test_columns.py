# SPDX-License-Identifier: BSD-3-Clause
from datetime import date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from bochner.tables.columns import (
    CellError,
    Column,
    NumberStyle,
    Reading,
    cell_numbers,
    cell_targets,
    date_cycles,
    first_failure,
    moments_in_time,
    parse_booleans,
    parse_dates,
    parse_numbers,
    plain_type,
    storage_of,
)

PLAIN = NumberStyle()


def texts(*values):
    return pa.array(values, pa.string())


@pytest.mark.parametrize(
    ("column_type", "storage", "plain"),
    [
        (pa.int8(), "integer", pa.int8()),
        (pa.uint64(), "integer", pa.uint64()),
        (pa.float32(), "float", pa.float32()),
        (pa.float16(), "float", pa.float32()),
        (pa.decimal128(10, 2), "float", pa.float64()),
        (pa.bool_(), "boolean", pa.bool_()),
        (pa.large_string(), "text", pa.string()),
        (pa.dictionary(pa.int32(), pa.string()), "dictionary", pa.string()),
        (pa.dictionary(pa.int8(), pa.int64()), "dictionary", pa.string()),
        (pa.date32(), "date", pa.date32()),
        (pa.timestamp("ns", "UTC"), "date", pa.timestamp("ns", "UTC")),
        (pa.time64("us"), "time", pa.time64("us")),
        (pa.duration("ms"), "duration", pa.duration("ms")),
        (pa.null(), "null", pa.null()),
        (pa.list_(pa.int64()), None, None),
        (pa.struct([("a", pa.int64())]), None, None),
        (pa.map_(pa.string(), pa.int64()), None, None),
        (pa.binary(), None, None),
        (pa.dictionary(pa.int32(), pa.binary()), None, None),
    ],
    ids=str,
)
def test_storage_of_types(column_type, storage, plain):
    assert storage_of(column_type) == storage
    if storage is not None:
        assert plain_type(column_type) == plain


class TestNumbers:
    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            (["1", "-2", None], [1, -2, None]),
            (["1", "2.5"], [1.0, 2.5]),
            ([" 1 ", "+2", "1e3", ".5", "5."], [1.0, 2.0, 1000.0, 0.5, 5.0]),
            (["1", "?", "-", "", "None", "unknown"], [1, None, None, None, None, None]),
            ([str(2**53 + 1)], [2**53 + 1]),
            ([str(2**64 - 1), "1"], [2**64 - 1, 1]),
            ([None, None], [None, None]),
        ],
    )
    def test_text_that_is_numbers(self, values, expected):
        assert parse_numbers(texts(*values), PLAIN).to_pylist() == expected

    @pytest.mark.parametrize("value", ["one", "1,5", "1.2.3", "--1", "1 2", "12%", "$3", "2020-01-01"])
    def test_text_that_is_not_a_number(self, value):
        assert parse_numbers(texts("1", value), PLAIN) is None

    @pytest.mark.parametrize(
        ("style", "values", "expected"),
        [
            (NumberStyle(","), ["1,5", "-2", ",5"], [1.5, -2.0, 0.5]),
            (NumberStyle(",", "."), ["1.234.567,5", "12"], [1234567.5, 12.0]),
            (NumberStyle(".", ","), ["1,234", "12,345,678"], [1234, 12345678]),
            (NumberStyle(",", " "), ["1 234,5", "7"], [1234.5, 7.0]),
            (NumberStyle(".", "'"), ["1'234.5", "1\u2019234", "\u22127"], [1234.5, 1234.0, -7.0]),
        ],
    )
    def test_separators(self, style, values, expected):
        assert parse_numbers(texts(*values), style).to_pylist() == expected

    @pytest.mark.parametrize(
        ("style", "value"),
        [(NumberStyle(","), "1.5"), (NumberStyle(",", "."), "1.5"), (NumberStyle(".", ","), "12,34")],
    )
    def test_separators_in_wrong_places(self, style, value):
        assert parse_numbers(texts(value), style) is None

    def test_invalid_cell_is_located(self):
        with pytest.raises(CellError, match="invalid value 'x', expected a number") as error:
            cell_numbers(texts(*"123x5y"), Column("n", "number"))
        assert (error.value.row, error.value.name) == (3, "n")
        with pytest.raises(CellError, match="the value is -inf") as error:
            cell_numbers(pa.array([1.0, None, -np.inf]), Column("n", "number"))
        assert error.value.row == 2
        with pytest.raises(CellError, match="dates or times and not numbers"):
            cell_numbers(pa.array([date(2020, 1, 1)]), Column("n", "number"))

    def test_missing_cells_are_nan(self):
        for values in (pa.array([None, 1]), pa.array([np.nan, 1.0]), texts("?", "1"), pa.array([None, True])):
            numbers = cell_numbers(values, Column("x", "number"))
            assert np.isnan(numbers[0])
            assert numbers[1] == 1.0
        assert np.isnan(cell_numbers(pa.nulls(2), Column("x", "number"))).all()

    @pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
    def test_durations_are_seconds(self, unit):
        values = pa.array([timedelta(days=1, seconds=2), None], pa.duration(unit))
        assert cell_numbers(values, Column("x", "duration"))[0] == pytest.approx(86402.0, rel=1e-15)


@pytest.mark.parametrize("pair", ["yes no", "true FALSE", "T f", "Y n", "on off", "1 0"])
def test_booleans_in_every_spelling(pair):
    true, false = pair.split()
    assert parse_booleans(texts(true, f" {false} ", None, "?")).to_pylist() == [True, False, None, None]
    assert parse_booleans(texts(true, "maybe")) is None
    assert cell_numbers(texts(true, false), Column("x", "boolean")).tolist() == [1.0, 0.0]


class TestDates:
    @pytest.mark.parametrize(
        ("form", "value", "expected"),
        [
            ("iso", "2020-02-29", datetime(2020, 2, 29)),
            ("iso", "2020-02-29 12:30", datetime(2020, 2, 29, 12, 30)),
            ("iso", "2020-02-29T12:30:15.5", datetime(2020, 2, 29, 12, 30, 15, 500_000)),
            ("iso-zone", "2020-02-29T12:30:00+02:00", datetime(2020, 2, 29, 10, 30)),
            ("iso-zone", "2020-02-29T12:30:00Z", datetime(2020, 2, 29, 12, 30)),
            ("%d/%m/%Y", "29/2/2020", datetime(2020, 2, 29)),
            ("%m/%d/%Y %H:%M", "02/29/2020 12:30", datetime(2020, 2, 29, 12, 30)),
            ("%d.%m.%Y", "29.02.2020", datetime(2020, 2, 29)),
            ("%b %d, %Y", "Feb 29, 2020", datetime(2020, 2, 29)),
            ("%Y%m%d", "20200229", datetime(2020, 2, 29)),
        ],
    )
    def test_formats(self, form, value, expected):
        assert parse_dates(texts(value, None, "?"), form).to_pylist() == [expected, None, None]
        assert parse_dates(texts(value, "soon"), form) is None

    def test_years_of_two_digits_are_not_antiquity(self):
        assert parse_dates(texts("29/2/20"), "%d/%m/%Y") is None
        assert parse_dates(texts("29/2/20"), "%d/%m/%y").to_pylist() == [datetime(2020, 2, 29)]

    @pytest.mark.parametrize(
        ("form", "value", "other"),
        [
            ("%d/%m/%Y", "31/02/2021", "1/3/2021"),
            ("%d %b %Y", "30 Feb 2020", "3 mar 2020"),
            ("%m/%d/%Y %H:%M:%S", "4/31/2021 07:08:09", "05/01/2021 7:08:09"),
        ],
    )
    def test_impossible_days_are_refused(self, form, value, other):
        assert parse_dates(texts(value, other), form) is None
        assert parse_dates(texts(other, None), form) is not None

    def test_days_are_the_number_of_a_date(self):
        column = Column("x", "date")
        for values in (
            pa.array([date(1970, 1, 3), None]),
            pa.array([datetime(1970, 1, 3), None], pa.timestamp("ns")),
            pa.array([datetime(1970, 1, 3), None], pa.date64()),
            texts("1970-01-03", None),
            texts("1970-01-03T00:00:00Z", "-"),
        ):
            numbers = cell_numbers(values, column)
            assert numbers[0] == 2.0
            assert np.isnan(numbers[1])

    def test_time_zones_become_local_time(self):
        values = pa.array([0, 3600], pa.timestamp("s", "America/New_York"))
        numbers = cell_numbers(values, Column("x", "date"))
        np.testing.assert_allclose(numbers, [-5 / 24, -4 / 24])

    def test_new_dates_may_be_in_iso_format(self):
        column = Column("x", "date", format="%d.%m.%Y")
        for value in ("03.01.1970", "1970-01-03", "1970-01-03T00:00:00Z"):
            assert cell_numbers(texts(value), column).tolist() == [2.0]
        with pytest.raises(CellError, match=r"invalid value '1/3/70', expected a date of the format %d\.%m\.%Y"):
            cell_numbers(texts("03.01.1970", "1/3/70"), column)

    def test_integers_may_be_dates(self):
        column = Column("x", "date", format="%Y%m%d")
        assert cell_numbers(pa.array([19700103]), column).tolist() == [2.0]

    @pytest.mark.parametrize("values", [texts("06:00", "18:30"), texts("06:00:00", "18:30:00")])
    def test_times_of_the_day(self, values):
        moments = moments_in_time(values, Column("x", "time"))
        np.testing.assert_allclose(date_cycles(moments, "day")[0], [1.0, 0.0], atol=1e-12)

    @pytest.mark.parametrize(("cycle", "steps"), [("day", 24), ("week", 7)])
    def test_cycles_are_points_on_a_circle(self, cycle, steps):
        unit = "h" if cycle == "day" else "D"
        moments = np.datetime64("2024-01-01") + np.arange(3 * steps).astype(f"m8[{unit}]")
        points = date_cycles(moments.astype("M8[us]"), cycle)
        angles = 2 * np.pi * np.arange(3 * steps) / steps
        np.testing.assert_allclose(points, np.column_stack([np.sin(angles), np.cos(angles)]), atol=1e-12)

    def test_years_begin_at_the_same_point(self):
        moments = np.array(["2019-01-01", "2024-01-01", "2023-07-02T15:00"], dtype="M8[us]")
        points = date_cycles(moments, "year")
        np.testing.assert_allclose(points[:2], [[0.0, 1.0]] * 2, atol=1e-12)
        np.testing.assert_allclose(points[2], [0.0, -1.0], atol=1e-9)


class TestTargets:
    @pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float32, np.float64, bool])
    def test_typed_numbers_keep_their_type(self, dtype):
        values = np.array([1, 0, 1], dtype=dtype)
        found = cell_targets(pa.array(values), Column("y", "boolean" if dtype is bool else "number"))
        np.testing.assert_array_equal(found, values)
        assert found.dtype == values.dtype

    def test_numbers_in_text(self):
        assert cell_targets(texts("1", "2"), Column("y", "number")).dtype == np.int64
        assert cell_targets(texts("1,5"), Column("y", "number", style=NumberStyle(","))).tolist() == [1.5]

    def test_categories_are_text(self):
        assert cell_targets(pa.array([1, 2]), Column("y", "category")).tolist() == ["1", "2"]

    def test_text_instead_of_numbers_is_located(self):
        with pytest.raises(CellError, match="invalid value 'low', expected a number") as error:
            cell_targets(texts("1", "low"), Column("y", "number"))
        assert error.value.row == 1


@pytest.mark.parametrize("row", [0, 1, 5, 9])
def test_first_failure_is_found_by_bisection(row):
    values = ["1"] * row + ["x"] * (10 - row)
    assert first_failure(texts(*values), lambda part: parse_numbers(part, PLAIN)) == row


@pytest.mark.parametrize(
    ("cells", "style"),
    [
        (["1", "2.5", "1e3"], NumberStyle()),
        (["1,5", "2", "k.A."], NumberStyle(",")),
        (["1.234,5", "12"], NumberStyle(",", ".")),
        (["1,234", "12,345,678", "7"], NumberStyle(".", ",")),
        (["1 234,5 €", "7,25 €", "-"], NumberStyle(",", " ", "€")),
        (["1\u202f234,5", "2\u202f000,0"], NumberStyle(",", " ")),
        (["$1,200.50", "$7"], NumberStyle(".", ",", "$")),
        (["12 %", "7.5%"], NumberStyle(unit="%")),
        (["0,125", "0,250"], NumberStyle(",")),
        (["12 kg", "7.5 kg", "3"], NumberStyle(unit="kg")),
        (["A12", "B7", "red"], NumberStyle()),
        (["31.12.2020", "01.02.2021"], NumberStyle()),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_style_of_numbers_is_recognized(cells, style):
    assert Reading().guess_style(texts(*cells)) == style


def test_numbers_with_units_are_read():
    values = texts("1 234,5 €", "€ 7", None, "-", "-2,5€")
    assert parse_numbers(values, NumberStyle(",", " ", "€")).to_pylist() == [1234.5, 7.0, None, None, -2.5]


def test_given_separators_are_used():
    assert Reading(decimal=",").guess_style(texts("1,234", "12,345")) == NumberStyle(",")
    assert Reading(decimal=",").guess_style(texts("1.234", "12.345")) == NumberStyle(",", ".")


@pytest.mark.parametrize("value", [3, 0.5])
def test_booleans_are_0_or_1(value):
    with pytest.raises(CellError, match=f"the value is {value}, expected true or false") as error:
        cell_numbers(pa.array([1, 0, value]), Column("x", "boolean"))
    assert error.value.row == 2
