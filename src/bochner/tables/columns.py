# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of table columns, and the conversion of their cells to numbers and text.

A cell of a CSV file is text until the kind of its column is known. All parsing is done by pyarrow's compute functions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bochner.rows import Array, Floats

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    *("FIRST_LOOK", "ISO", "KINDS", "LEFT_OUT", "TIME_FORMATS", "DATE_FORMATS"),
    *("CellError", "Column", "Kind", "NumberStyle", "Storage"),
    *(
        "are_marks",
        "cell_numbers",
        "cell_targets",
        "cell_text",
        "date_cycles",
        "first_failure",
        "import_pyarrow",
        "moments_in_time",
    ),
    *("parse_booleans", "parse_dates", "parse_numbers", "plain_type", "split_kind", "storage_of"),
]

UsedKind = Literal["number", "boolean", "category", "date", "time", "duration"]
LeftOutKind = Literal["id", "text", "constant", "empty", "unsupported", "dropped"]
Kind = UsedKind | LeftOutKind
Storage = Literal["integer", "float", "boolean", "text", "untyped", "dictionary", "date", "time", "duration", "null"]

KINDS: tuple[Kind, ...] = ("number", "boolean", "category", "date", "time", "duration")  # columns to predict from
LEFT_OUT: tuple[Kind, ...] = ("id", "text", "constant", "empty", "unsupported", "dropped")
TRUE, FALSE = ("true", "t", "yes", "y", "on", "1"), ("false", "f", "no", "n", "off", "0")
# What people write into a column of numbers or dates where there is no value; pyarrow knows "NA", "NaN" and the like.
MISSING_MARKS = ("", "?", "-", "--", ".", "*", "none", "unknown", "missing")
ISO, ISO_ZONE = "iso", "iso-zone"  # ISO 8601 without and with an offset from UTC
DAYS = ("%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%d %b %Y", "%b %d, %Y", "%d-%b-%Y")
DATE_FORMATS = (ISO, ISO_ZONE, *DAYS, *(f"{day} {time}" for day in DAYS for time in ("%H:%M:%S", "%H:%M")))
TIME_FORMATS = ("%H:%M:%S", "%H:%M")
FIRST_YEAR = np.datetime64("1000-01-01", "us")  # "%Y" accepts years of two digits, which do not mean antiquity
FIRST_LOOK = 50  # cells that rule out most types and formats
MICROSECONDS_PER_DAY = 86_400_000_000
DAYS_PER_YEAR = 365.25


class CellError(ValueError):
    """A cell that does not have the kind of its column.

    Parameters
    ----------
    row : int
        Index of the row in its batch.
    name : str
        The column.
    problem : str
        What is wrong.
    """

    def __init__(self, row: int, name: str, problem: str) -> None:
        super().__init__(problem)
        self.row, self.name, self.problem = row, name, problem


@dataclass(frozen=True)
class NumberStyle:
    """How numbers are written in text.

    Attributes
    ----------
    decimal : str
        The decimal separator.
    thousands : str
        The separator between groups of three digits; empty if there is none.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from bochner.tables.columns import NumberStyle, parse_numbers
    >>> parse_numbers(pa.array(["1.234,5", None]), NumberStyle(",", ".")).to_pylist()
    [1234.5, None]
    """

    decimal: str = "."
    thousands: str = ""

    @property
    def pattern(self) -> str:
        """A regular expression for one number."""
        decimal, separator = rf"[{self.decimal}]", rf"[{self.thousands}]"
        whole = rf"(\d+|\d{{1,3}}({separator}\d{{3}})+)" if self.thousands else r"\d+"
        return rf"^\s*[-+]?({whole}({decimal}\d*)?|{decimal}\d+)([eE][-+]?\d+)?\s*$"

    @property
    def is_plain(self) -> bool:
        """Whether numbers have a decimal point and no other separators."""
        return self.decimal == "." and not self.thousands


@dataclass(frozen=True)
class Column:
    """What a column of a table is taken for.

    Attributes
    ----------
    name : str
        The name of the column.
    kind : str
        One of `KINDS` for a column to predict from, one of `LEFT_OUT` for one that is not used.
    format : str
        The format of dates and times that are text, as for `strptime`, "iso" or "iso-zone".
    categories : tuple of str
        The categories of a category, without those that are merged into "other".
    other : bool
        Whether rare categories are merged into another one.
    missing : bool
        Whether missing cells have an indicator, or a category of their own.
    gaps : bool
        Whether the column has missing cells at all.
    cycles : tuple of str
        The cycles of a date or time that are encoded: "year", "week", "day".
    fill : float
        The number that replaces missing cells.
    reason : str
        Why the column is left out.
    """

    name: str
    kind: Kind
    format: str = ""
    categories: tuple[str, ...] = ()
    other: bool = False
    missing: bool = False
    gaps: bool = False
    cycles: tuple[str, ...] = ()
    fill: float = 0.0
    reason: str = ""

    @property
    def has_number(self) -> bool:
        """Whether the column has a number that is standardized; that of a date is its linear trend."""
        return self.kind in ("number", "boolean", "duration", "date")

    @property
    def number_name(self) -> str:
        """Name of the number."""
        return f"{self.name}: days" if self.kind == "date" else self.name

    @property
    def other_names(self) -> list[str]:
        """Names of the encoded columns that are not standardized: cycles, indicators and categories."""
        names = [f"{self.name}: {cycle} {function}" for cycle in self.cycles for function in ("sine", "cosine")]
        names += [f"{self.name}={category}" for category in self.categories]
        return names + [f"{self.name}: other"] * self.other + [f"{self.name}: missing"] * self.missing

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes that differ from the defaults, because model files spell out every attribute."""
        return {name: value for name, value in self.__dict__.items() if value != getattr(type(self), name, None)}


def import_pyarrow() -> Any:
    """Return the module pyarrow, which is an optional dependency."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise ValueError("Reading tables needs pyarrow: pip install 'bochner[table]'.") from error
    return pyarrow


def split_kind(text: str) -> tuple[str, str]:
    """Return the kind and the format of "date:%d/%m/%Y".

    Examples
    --------
    >>> from bochner.tables.columns import split_kind
    >>> split_kind("date:%d/%m/%Y"), split_kind("number")
    (('date', '%d/%m/%Y'), ('number', ''))
    """
    kind, _, form = text.partition(":")
    return kind, form


def storage_of(column_type: "pa.DataType") -> Storage | None:
    """Return how the cells of a type are stored; None for a type that is not supported."""
    types = import_pyarrow().types
    tests: dict[Storage, Iterable[Any]] = {
        "integer": (types.is_integer,),
        "float": (types.is_floating, types.is_decimal),
        "boolean": (types.is_boolean,),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "date": (types.is_date, types.is_timestamp),
        "time": (types.is_time,),
        "duration": (types.is_duration,),
        "null": (types.is_null,),
    }
    if types.is_dictionary(column_type):
        return None if storage_of(column_type.value_type) is None else "dictionary"
    return next((storage for storage, matches in tests.items() if any(test(column_type) for test in matches)), None)


def plain_type(column_type: "pa.DataType") -> "pa.DataType":
    """Replace decimals by float64, float16 by float32, and dictionary, large and view types of text by string."""
    pa = import_pyarrow()
    if pa.types.is_dictionary(column_type) or storage_of(column_type) == "text":
        return pa.string()
    if pa.types.is_float16(column_type):
        return pa.float32()
    return pa.float64() if pa.types.is_decimal(column_type) else column_type


def parse_numbers(values: "pa.Array", style: NumberStyle) -> "pa.Array | None":
    """Return text as integers or floats; None if a cell is neither a number nor a mark of a missing value."""
    pa = import_pyarrow()
    if style.is_plain:
        found = _first_cast(values, (pa.int64(), pa.uint64(), pa.float64()))
        if found is not None:
            return found
    values = _without_marks(pa.compute.utf8_trim_whitespace(values))
    for part in (values[:FIRST_LOOK], values):
        if pa.compute.all(pa.compute.match_substring_regex(part, style.pattern)).as_py() is False:
            return None
    if style.thousands:
        values = pa.compute.replace_substring(values, style.thousands, "")
    if style.decimal != ".":
        values = pa.compute.replace_substring(values, style.decimal, ".")
    values = pa.compute.replace_substring_regex(values, r"^\+", "")
    return _first_cast(values, (pa.int64(), pa.uint64(), pa.float64()))


def _first_cast(values: "pa.Array", column_types: Iterable["pa.DataType"]) -> "pa.Array | None":
    """Return values as the first of several types that they can be converted to."""
    for column_type in column_types:
        try:
            values[:FIRST_LOOK].cast(column_type)  # a failure takes long, and most columns fail at once
            return values.cast(column_type)
        except import_pyarrow().ArrowInvalid:
            continue
    return None


def are_marks(values: "pa.Array") -> "pa.Array":
    """Return which texts mean that there is no value."""
    pa = import_pyarrow()
    lower = pa.compute.utf8_lower(pa.compute.utf8_trim_whitespace(values))
    return pa.compute.is_in(lower, pa.array(MISSING_MARKS))


def _without_marks(values: "pa.Array") -> "pa.Array":
    """Return text whose marks of missing values are null."""
    pa = import_pyarrow()
    return pa.compute.if_else(are_marks(values), pa.scalar(None, values.type), values)


def parse_booleans(values: "pa.Array") -> "pa.Array | None":
    """Return text such as "yes" or "F" as booleans; None if a cell is neither that nor a mark of a missing value."""
    pa = import_pyarrow()
    lower = _without_marks(pa.compute.utf8_lower(pa.compute.utf8_trim_whitespace(values)))
    codes = pa.compute.index_in(lower, pa.array([*TRUE, *FALSE]))
    return pa.compute.less(codes, len(TRUE)) if codes.null_count == lower.null_count else None


def parse_dates(values: "pa.Array", form: str) -> "pa.Array | None":
    """Return text as timestamps in microseconds; None if a cell does not have the format.

    Parameters
    ----------
    values : Array of string
        The cells.
    form : str
        "iso", "iso-zone" (then the timestamps are in UTC), or a format of `strptime`.
    """
    pa = import_pyarrow()
    values = _without_marks(pa.compute.utf8_trim_whitespace(values))
    if form in (ISO, ISO_ZONE):
        parsed = _first_cast(values, [pa.timestamp("us", "UTC" if form == ISO_ZONE else None)])
        parsed = parsed if parsed is None else parsed.cast(pa.timestamp("us"))
    else:
        try:
            parsed = pa.compute.strptime(values, format=form, unit="us", error_is_null=True)
        except pa.ArrowInvalid:  # a format that is not one
            return None
    if parsed is None or parsed.null_count > values.null_count or _has_impossible_days(values, parsed, form):
        return None
    is_time = "%Y" not in form and "%y" not in form and form not in (ISO, ISO_ZONE)
    earliest = None if is_time else pa.compute.min(parsed).as_py()
    return None if earliest is not None and np.datetime64(earliest) < FIRST_YEAR else parsed


def _has_impossible_days(values: "pa.Array", parsed: "pa.Array", form: str) -> bool:
    """Return whether text has days such as 31 February, which `strptime` takes for one of the next three days."""
    if "%d" not in form:
        return False
    pa = import_pyarrow()
    is_early = pa.compute.less_equal(pa.compute.day(parsed), 3)
    found = parsed.filter(is_early).cast(pa.timestamp("s"))  # without the decimals of seconds
    written, expected = (
        pa.compute.replace_substring_regex(pa.compute.utf8_lower(text), r"\b0+(\d)", r"\1")
        for text in (values.filter(is_early), pa.compute.strftime(found, format=form))
    )
    return not pa.compute.all(pa.compute.equal(written, expected)).as_py() if len(found) else False


def cell_text(values: "pa.Array") -> "pa.Array":
    """Return cells as text, as categories are compared."""
    pa = import_pyarrow()
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def cell_numbers(values: "pa.Array", column: Column, style: NumberStyle) -> Floats:
    """Return the cells of a column as float64 numbers, NaN where they are missing; a date is a number of days.

    Parameters
    ----------
    values : Array
        The cells, of any type that `storage_of` knows.
    column : Column
        The column, of a kind that has a number.
    style : NumberStyle
        How numbers are written in text.
    """
    if column.kind == "date":
        return _days(moments_in_time(values, column))
    is_text = storage_of(values.type) == "text"
    if column.kind == "boolean" and is_text:
        values = _parsed(values, column, parse_booleans, "true or false")
    elif is_text:
        values = _parsed(values, column, partial(parse_numbers, style=style), "a number")
    elif storage_of(values.type) in ("date", "time"):
        raise CellError(0, column.name, "the cells are dates or times and not numbers")
    numbers = _floats(values)
    infinite = np.isinf(numbers)
    if infinite.any():
        row = int(infinite.argmax())
        raise CellError(row, column.name, f"the value is {numbers[row]}")
    return numbers


def cell_targets(values: "pa.Array", column: Column, style: NumberStyle) -> Array:
    """Return the cells of a target, none of them missing: text, booleans, or numbers of the type of the table."""
    if column.kind == "category":
        return np.asarray(cell_text(values).to_pylist(), dtype=np.str_)
    if storage_of(values.type) == "text":
        if column.kind == "boolean":
            values = _parsed(values, column, parse_booleans, "true or false")
        else:
            parsed = _parsed(values, column, partial(parse_numbers, style=style), "a number")
            values = parsed.cast(import_pyarrow().float64(), safe=False)
    return np.asarray(values.to_numpy(False))


def _floats(values: "pa.Array") -> Floats:
    """Return typed cells as float64 numbers; durations in seconds."""
    pa = import_pyarrow()
    if pa.types.is_duration(values.type):
        units = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
        return _floats(values.cast(pa.int64())) * units[values.type.unit]
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(False), dtype=np.float64)


def _parsed(values: "pa.Array", column: Column, parse: Any, expected: str) -> "pa.Array":
    """Return parsed text; the first cell that cannot be parsed raises an error."""
    parsed = parse(values)
    if parsed is not None:
        return parsed
    row = first_failure(values, parse)
    raise CellError(row, column.name, f"invalid value {values[row].as_py()!r:.60}, expected {expected}")


def first_failure(values: "pa.Array", parse: Any) -> int:
    """Return the index of the first cell that cannot be parsed, by bisection; there is one."""
    start, stop = 0, len(values)
    while stop - start > 1:
        middle = (start + stop) // 2
        start, stop = (start, middle) if parse(values[start:middle]) is None else (middle, stop)
    return start


def moments_in_time(values: "pa.Array", column: Column) -> Array:
    """Return dates, or times of the day in 1970, as local time in microseconds, NaT where they are missing."""
    pa = import_pyarrow()
    storage = storage_of(values.type)
    if storage not in ("text", "date", "time", "null"):
        values, storage = cell_text(values), "text"
    if storage == "text":
        values = _parsed_dates(values, column)
    elif storage == "time":
        values = values.cast(pa.time64("us"), safe=False).cast(pa.int64()).cast(pa.timestamp("us"))
    elif pa.types.is_timestamp(values.type) and values.type.tz is not None:
        values = pa.compute.local_timestamp(values)
    if not pa.types.is_null(values.type) and not pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("s"))
    return np.asarray(values.cast(pa.timestamp("us"), safe=False).to_numpy(False), dtype="M8[us]")


def _parsed_dates(values: "pa.Array", column: Column) -> "pa.Array":
    """Return text as timestamps, in the format of the column or in one without ambiguity."""
    known = TIME_FORMATS if column.kind == "time" else (ISO, ISO_ZONE)
    for form in dict.fromkeys([column.format or known[0], *known]):
        parsed = parse_dates(values, form)
        if parsed is not None:
            return parsed
    parse = partial(parse_dates, form=column.format or known[0])
    return _parsed(values, column, parse, f"a {column.kind} of the format {column.format or known[0]}")


def _days(moments: Array) -> Floats:
    days = moments.astype(np.int64) / MICROSECONDS_PER_DAY
    days[np.isnat(moments)] = np.nan
    return np.asarray(days)


def date_cycles(moments: Array, cycle: str) -> Floats:
    r"""Return the sine and the cosine of the phase of a cycle, 0 and 0 where the moment is missing.

    Parameters
    ----------
    moments : ndarray of datetime64
        Moments in local time.
    cycle : {"year", "week", "day"}
        The cycle: the phase is :math:`2 \pi` times the elapsed part of the year, of the week in whole days, or of the
        day.

    Returns
    -------
    ndarray of shape (n_moments, 2)
        Sines and cosines.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.tables.columns import date_cycles
    >>> date_cycles(np.array(["2024-01-01T03:00", "NaT"], dtype="M8[us]"), "day").round(3)
    array([[0.707, 0.707],
           [0.   , 0.   ]])
    """
    days = _days(moments)
    if cycle == "year":
        phase = (days - _days(moments.astype("M8[Y]").astype("M8[us]"))) / DAYS_PER_YEAR
    elif cycle == "week":
        phase = np.mod(np.floor(days) + 3.0, 7.0) / 7.0  # the first day of 1970 was a Thursday
    else:
        phase = np.mod(days, 1.0)
    angles = 2.0 * np.pi * phase
    cycles: Floats = np.nan_to_num(np.column_stack([np.sin(angles), np.cos(angles)]))
    return cycles
