# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of table columns, and the conversion of their cells to numbers and text.

A cell of a CSV file is text until the kind of its column is known. All parsing is done by pyarrow's compute functions.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bochner.rows import Array, Floats, Mask

Kind = Literal["number", "boolean", "category", "text", "date", "time", "duration", "constant", "empty"]
Storage = Literal["integer", "float", "boolean", "text", "untyped", "dictionary", "date", "time", "duration", "null"]

KINDS: tuple[Kind, ...] = ("number", "boolean", "category", "text", "date", "time", "duration")  # to predict from
TRUE, FALSE = ("true", "t", "yes", "y", "on", "1"), ("false", "f", "no", "n", "off", "0")
# What people write into a column of numbers or dates where there is no value; pyarrow knows "NA", "NaN" and the like.
MISSING_MARKS = ("", "?", "-", "--", ".", "*", "none", "unknown", "missing")
ISO, ISO_ZONE = "iso", "iso-zone"  # ISO 8601 without and with an offset from UTC
DAYS = ("%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%d %b %Y", "%b %d, %Y", "%d-%b-%Y")
DATE_FORMATS = (ISO, ISO_ZONE, *DAYS, *(f"{day} {time}" for day in DAYS for time in ("%H:%M:%S", "%H:%M")))
TIME_FORMATS = ("%H:%M:%S", "%H:%M")
FIRST_YEAR = np.datetime64("1000-01-01", "us")  # "%Y" accepts years of two digits, which do not mean antiquity
FIRST_LOOK = 50  # cells that rule out most types and formats
STYLE_CELLS = 1000  # cells that the style of numbers is recognized from
MICROSECONDS_PER_DAY = 86_400_000_000
DAYS_PER_YEAR = 365.25
# Decimal and thousands separators in the order in which ambiguous numbers are read: 1,234 has thousands.
SEPARATORS = ((".", ""), (".", ","), (",", ""), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"))
# Spaces that separate thousands without a line break, and typographic apostrophes and minus signs.
TYPOGRAPHY = {"[\u00a0\u2009\u202f]": " ", "\u2019": "'", "\u2212": "-"}
CURRENCY = r"[$€£¥₹]|(?:EUR|USD|GBP|CHF|JPY|SEK|NOK|DKK|PLN|CZK)\b"
UNIT = rf"{CURRENCY}|%|°?[A-Za-zµ°²³/]{{1,8}}"
WITH_UNIT = re.compile(rf"\s*({CURRENCY})?\s*[-+]?[\d.,'\s]*\d[.,]?(?:[eE][-+]?\d+)?\s*({UNIT})?\s*")


class CellError(ValueError):
    """A cell that does not have the kind of its column: the index of its row in a batch, the column, the problem."""

    def __init__(self, row: int, name: str, problem: str) -> None:
        super().__init__(problem)
        self.row, self.name = row, name


@dataclass(frozen=True)
class NumberStyle:
    """How numbers are written in text: separators, and a unit or currency before or after each number.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from bochner.tables.columns import NumberStyle, parse_numbers
    >>> parse_numbers(pa.array(["1.234,5 €", None]), NumberStyle(",", ".", "€")).to_pylist()
    [1234.5, None]
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""

    @property
    def pattern(self) -> str:
        """A regular expression for one number."""
        decimal, separator, unit = (re.escape(text) for text in (self.decimal, self.thousands, self.unit))
        whole = rf"(\d+|[1-9]\d{{0,2}}({separator}\d{{3}})+)" if separator else r"\d+"
        number = rf"[-+]?({whole}({decimal}\d*)?|{decimal}\d+)([eE][-+]?\d+)?"
        return rf"^\s*({unit}\s*)?{number}(\s*{unit})?\s*$" if unit else rf"^\s*{number}\s*$"


@dataclass(frozen=True)
class Reading:
    """How cells are read.

    Attributes
    ----------
    decimal : str or None
        Decimal separator of numbers that are text; None means that it is recognized column by column.
    missing : tuple of str
        Texts that mean that there is no value, in all columns.
    encoding : str
        The character encoding of CSV files.
    """

    decimal: str | None = None
    missing: tuple[str, ...] = ()
    encoding: str = "utf-8"

    def guess_style(self, texts: pa.Array) -> NumberStyle:
        """Return the style that most of the cells of a column have as numbers; the first one if none has."""
        cells = without_marks(plain_typography(texts[:STYLE_CELLS])).drop_null().to_pylist()
        matches = [WITH_UNIT.fullmatch(cell) for cell in cells]
        units = Counter(match[1] or match[2] or "" for match in matches if match is not None)
        unit = max(units, key=units.__getitem__, default="")
        styles = [NumberStyle(*style, unit) for style in SEPARATORS if self.decimal in (None, style[0])]
        counts = [sum(re.search(style.pattern, cell) is not None for cell in cells) for style in styles]
        return styles[int(np.argmax(counts))] if 2 * max(counts) > len(cells) else replace(styles[0], unit="")


@dataclass(frozen=True)
class Column:
    """What a column of a table is taken for.

    Attributes
    ----------
    name : str
        The name of the column.
    kind : str
        One of `KINDS` for a column to predict from; another one for a column that is not used.
    format : str
        The format of dates and times that are text, as for `strptime`, "iso" or "iso-zone".
    style : NumberStyle
        How numbers are written, where they are text.
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
        The number that replaces missing cells: the median.
    scale : float
        What differences from the median are divided by.
    components : ndarray of shape (n_hashed, n_components) or None
        What the hashed n-grams of text are multiplied by.
    reason : str
        Why the column is left out.
    """

    name: str
    kind: Kind
    format: str = ""
    style: NumberStyle = NumberStyle()
    categories: tuple[str, ...] = ()
    other: bool = False
    missing: bool = False
    gaps: bool = False
    cycles: tuple[str, ...] = ()
    fill: float = 0.0
    scale: float = 1.0
    components: Any = field(default=None, compare=False)
    reason: str = ""

    @property
    def shown(self) -> str:
        """The name in a line of text, in quotes if it would not be seen."""
        return self.name if self.name.strip() and self.name.isprintable() else repr(self.name)

    @property
    def has_number(self) -> bool:
        """Whether the column has a number that is standardized; that of a date is its linear trend."""
        return self.kind in ("number", "boolean", "duration", "date")

    @property
    def other_names(self) -> list[str]:
        """Names of the encoded columns that are not standardized: cycles, categories, text and indicators."""
        names = [f"{self.name}: {cycle} {function}" for cycle in self.cycles for function in ("sine", "cosine")]
        names += [f"{self.name}={category}" for category in self.categories]
        names += [f"{self.name}: text {i}" for i in range(0 if self.components is None else self.components.shape[1])]
        return names + [f"{self.name}: other"] * self.other + [f"{self.name}: missing"] * self.missing


def storage_of(column_type: pa.DataType) -> Storage | None:
    """Return how the cells of a type are stored; None for a type that is not supported."""
    types = pa.types
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


def plain_type(column_type: pa.DataType) -> pa.DataType:
    """Replace decimals by float64, float16 by float32, and dictionary, large and view types of text by string."""
    if pa.types.is_dictionary(column_type) or storage_of(column_type) == "text":
        return pa.string()
    if pa.types.is_float16(column_type):
        return pa.float32()
    return pa.float64() if pa.types.is_decimal(column_type) else column_type


def parse_numbers(values: pa.Array, style: NumberStyle) -> pa.Array | None:
    """Return text as integers or floats; None if a cell is neither a number nor a mark of a missing value."""
    if style == NumberStyle():
        found = _first_cast(values, (pa.int64(), pa.uint64(), pa.float64()))
        if found is not None:
            return found
    for part in (values[:FIRST_LOOK], values):
        plain = without_marks(pc.utf8_trim_whitespace(plain_typography(part)))
        if pc.all(pc.match_substring_regex(plain, style.pattern)).as_py() is False:
            return None
    values = plain
    for separator, replacement in ((style.unit, ""), (style.thousands, ""), (style.decimal, ".")):
        values = pc.replace_substring(values, separator, replacement) if separator else values
    values = pc.replace_substring_regex(pc.utf8_trim_whitespace(values), r"^\+", "")
    return _first_cast(values, (pa.int64(), pa.uint64(), pa.float64()))


def plain_typography(texts: pa.Array) -> pa.Array:
    """Return text in which the separators and signs of numbers are those of a keyboard."""
    for pattern, plain in TYPOGRAPHY.items():
        texts = pc.replace_substring_regex(texts, pattern, plain)
    return texts


def _first_cast(values: pa.Array, column_types: Iterable[pa.DataType]) -> pa.Array | None:
    """Return values as the first of several types that they can be converted to."""
    for column_type in column_types:
        try:
            values[:FIRST_LOOK].cast(column_type)  # a failure takes long, and most columns fail at once
            return values.cast(column_type)
        except pa.ArrowInvalid:
            continue
    return None


def are_marks(values: pa.Array) -> pa.Array:
    """Return which texts mean that there is no value."""
    lower = pc.utf8_lower(pc.utf8_trim_whitespace(values))
    return pc.is_in(lower, pa.array(MISSING_MARKS))


def without_marks(values: pa.Array, marks: Sequence[str] = ()) -> pa.Array:
    """Return cells of which those texts are null that mean "no value": the given ones, or `MISSING_MARKS`."""
    if not pa.types.is_string(values.type):
        return values
    is_mark = pc.is_in(pc.utf8_trim_whitespace(values), pa.array(marks)) if marks else are_marks(values)
    return pc.if_else(is_mark, pa.scalar(None, values.type), values)


def parse_booleans(values: pa.Array) -> pa.Array | None:
    """Return text such as "yes" or "F" as booleans; None if a cell is neither that nor a mark of a missing value."""
    lower = without_marks(pc.utf8_lower(pc.utf8_trim_whitespace(values)))
    codes = pc.index_in(lower, pa.array([*TRUE, *FALSE]))
    return pc.less(codes, len(TRUE)) if codes.null_count == lower.null_count else None


def parse_dates(values: pa.Array, form: str) -> pa.Array | None:
    """Return text as timestamps in microseconds (UTC for "iso-zone"); None if a cell does not have the format."""
    values = without_marks(pc.utf8_trim_whitespace(values))
    if form in (ISO, ISO_ZONE):
        parsed = _first_cast(values, [pa.timestamp("us", "UTC" if form == ISO_ZONE else None)])
        parsed = parsed if parsed is None else parsed.cast(pa.timestamp("us"))
    else:
        try:
            parsed = pc.strptime(values, format=form, unit="us", error_is_null=True)
        except pa.ArrowInvalid:  # a format that is not one
            return None
    if parsed is None or parsed.null_count > values.null_count or _has_impossible_days(values, parsed, form):
        return None
    is_time = "%Y" not in form and "%y" not in form and form not in (ISO, ISO_ZONE)
    earliest = None if is_time else pc.min(parsed).as_py()
    return None if earliest is not None and np.datetime64(earliest) < FIRST_YEAR else parsed


def _has_impossible_days(values: pa.Array, parsed: pa.Array, form: str) -> bool:
    """Return whether text has days such as 31 February, which `strptime` takes for one of the next three days."""
    if "%d" not in form:
        return False
    is_early = pc.less_equal(pc.day(parsed), 3)
    found = parsed.filter(is_early).cast(pa.timestamp("s"))  # without the decimals of seconds
    written, expected = (
        pc.replace_substring_regex(pc.utf8_lower(text), r"\b0+(\d)", r"\1")
        for text in (values.filter(is_early), pc.strftime(found, format=form))
    )
    return not pc.all(pc.equal(written, expected)).as_py() if len(found) else False


def cell_text(values: pa.Array) -> pa.Array:
    """Return cells as text, as categories are compared."""
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def cell_numbers(values: pa.Array, column: Column) -> Floats:
    """Return cells as float64 numbers, NaN where they are missing; dates are days, durations seconds."""
    if column.kind == "date":
        return _days(moments_in_time(values, column))
    storage, is_boolean, seconds = storage_of(values.type), column.kind == "boolean", 1.0
    if storage == "text" and is_boolean:
        values = _parsed(values, column, parse_booleans, "true or false")
    elif storage == "text":
        values = _parsed(values, column, partial(parse_numbers, style=column.style), "a number")
    elif storage == "duration":
        seconds = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[values.type.unit]
        values = values.cast(pa.int64())
    elif storage in ("date", "time"):
        raise CellError(0, column.name, "the cells are dates or times and not numbers")
    numbers = seconds * np.asarray(values.cast(pa.float64(), safe=False).to_numpy(False), dtype=np.float64)
    wrong = np.isinf(numbers)
    if is_boolean:
        wrong |= ~np.isnan(numbers) & (numbers != 0.0) & (numbers != 1.0)
    if wrong.any():
        row = int(wrong.argmax())
        expected = ", expected true or false" if is_boolean else ""
        raise CellError(row, column.name, f"the value is {numbers[row]:g}{expected}")
    return np.asarray(numbers)


def cell_targets(values: pa.Array, column: Column) -> Array:
    """Return the cells of a target, none of them missing: text, booleans, or numbers of the type of the table."""
    if column.kind == "category":
        return np.asarray(cell_text(values).to_pylist(), dtype=np.str_)
    if column.kind == "boolean":
        return cell_numbers(values, column).astype(bool)
    if storage_of(values.type) == "text":
        values = _parsed(values, column, partial(parse_numbers, style=column.style), "a number")
    return np.asarray(values.to_numpy(False))


def missing_targets(values: pa.Array, column: Column) -> Mask:
    """Return which cells of a target are missing; marks such as "?" only where the target is no category."""
    values = values if column.kind == "category" else without_marks(values)
    return np.asarray(values.is_null(nan_is_null=True).to_numpy(False))


def _parsed(values: pa.Array, column: Column, parse: Any, expected: str) -> pa.Array:
    """Return parsed text; the first cell that cannot be parsed raises an error."""
    parsed = parse(values)
    if parsed is not None:
        return parsed
    row = first_failure(values, parse)
    raise CellError(row, column.name, f"invalid value {values[row].as_py()!r:.60}, expected {expected}")


def first_failure(values: pa.Array, parse: Any) -> int:
    """Return the index of the first cell that cannot be parsed, by bisection; there is one."""
    start, stop = 0, len(values)
    while stop - start > 1:
        middle = (start + stop) // 2
        start, stop = (start, middle) if parse(values[start:middle]) is None else (middle, stop)
    return start


def moments_in_time(values: pa.Array, column: Column) -> Array:
    """Return dates, or times of the day in 1970, as local time in microseconds, NaT where they are missing."""
    storage = storage_of(values.type)
    if storage not in ("text", "date", "time", "null"):
        values, storage = cell_text(values), "text"
    if storage == "text":
        values = _parsed_dates(values, column)
    elif storage == "time":
        values = values.cast(pa.time64("us"), safe=False).cast(pa.int64()).cast(pa.timestamp("us"))
    elif pa.types.is_timestamp(values.type) and values.type.tz is not None:
        values = pc.local_timestamp(values)
    if not pa.types.is_null(values.type) and not pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("s"))
    return np.asarray(values.cast(pa.timestamp("us"), safe=False).to_numpy(False), dtype="M8[us]")


def _parsed_dates(values: pa.Array, column: Column) -> pa.Array:
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

    The phase is :math:`2 \pi` times the elapsed part of the year, of the week in whole days, or of the day.

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
