# SPDX-License-Identifier: BSD-3-Clause
"""What a pass over a table finds out about each of its columns, in bounded memory."""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bochner.rows import Array
from bochner.tables.columns import (
    DATE_FORMATS,
    FIRST_LOOK,
    TIME_FORMATS,
    NumberStyle,
    Reading,
    Storage,
    are_marks,
    cell_text,
    first_failure,
    parse_booleans,
    parse_dates,
    parse_numbers,
    split_kind,
)

MAX_COUNTED = 10_000  # distinct values that are counted exactly; of more, the most frequent half is kept
MAX_SPELLINGS = 50  # of true and false


@dataclass
class ColumnTally:
    """Counts of the cells of a column.

    Attributes
    ----------
    storage : str
        How the cells are stored.
    given : str
        The kind that the user has given, with its format; empty if it is to be recognized.
    style : NumberStyle or None
        How numbers are written, recognized from the first batch of text; None before it.
    n_cells, n_missing : int
        Number of cells, and of missing ones.
    n_marks : int
        Number of cells such as "?", which are missing in a column of numbers.
    low, high : int, float or None
        The smallest and the largest number; of dates and durations, of their integers.
    n_numbers : int
        Number of text cells that are numbers.
    is_code : bool
        Whether some numbers have leading zeros, as codes have.
    first_text : tuple of (int, str) or None
        Row and value of the first cell that is not a number, where the column is text.
    infinite : tuple of (int, str) or None
        Row and value of the first infinite cell.
    formats : list of str or None
        The formats that all text cells have as dates or times; None before the first cell.
    is_boolean : bool
        Whether all text cells are spellings of true and false.
    counts : Counter or None
        How often each distinct value occurs; None if they are not counted.
    is_complete : bool
        Whether `counts` has all values.
    """

    storage: Storage
    given: str = ""
    style: NumberStyle | None = None
    n_cells: int = 0
    n_missing: int = 0
    n_marks: int = 0
    low: Any = None
    high: Any = None
    n_numbers: int = 0
    is_code: bool = False
    first_text: tuple[int, str] | None = None
    infinite: tuple[int, str] | None = None
    formats: list[str] | None = None
    is_boolean: bool = True
    counts: Counter[Any] | None = field(default_factory=Counter)
    is_complete: bool = True

    @property
    def n_values(self) -> int:
        """Number of cells that are not missing."""
        return self.n_cells - self.n_missing

    @property
    def is_text(self) -> bool:
        """Whether the cells are stored as text, or are numbers that are to be read as dates."""
        is_date = split_kind(self.given)[0] in ("date", "time")
        return self.storage in ("text", "untyped", "dictionary") or (self.storage == "integer" and is_date)

    def add(self, values: pa.Array, first_row: int, reading: Reading) -> None:
        """Add the cells of a batch, whose first row has an index in the table."""
        self.n_cells += len(values)
        self.n_missing += values.null_count
        if values.null_count == len(values):
            return
        if self.is_text:
            self._add_text(cell_text(values), first_row, reading)
            return
        self._add_range(values, first_row)
        if split_kind(self.given)[0] == "category":
            self._count(cell_text(values))

    def _add_range(self, values: pa.Array, first_row: int) -> None:
        """Add typed cells or parsed numbers to the range."""
        if pa.types.is_floating(values.type):
            self.n_missing += pc.sum(pc.is_nan(values)).as_py() or 0
            is_infinite = pc.is_inf(values)
            if self.infinite is None and pc.any(is_infinite).as_py():
                row = pc.index(is_infinite, True).as_py()
                self.infinite = first_row + row, str(values[row].as_py())
            values = values.filter(pc.is_finite(values))
        elif pa.types.is_temporal(values.type):
            narrow = pa.types.is_date32(values.type) or pa.types.is_time32(values.type)
            values = values.cast(pa.int32() if narrow else pa.int64())
        low, high = pc.min_max(values).as_py().values()
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)

    def _add_text(self, texts: pa.Array, first_row: int, reading: Reading) -> None:
        """Add cells of text, which may be numbers, dates or booleans."""
        kind, form = split_kind(self.given)
        style = self.style = self.style or reading.guess_style(texts)
        numbers = None if self.storage == "dictionary" and not kind else parse_numbers(texts, style)
        if numbers is None and self.first_text is None and self.storage != "dictionary":
            row = first_failure(texts, partial(parse_numbers, style=style))
            self.first_text = first_row + row, str(texts[row].as_py())
        if numbers is not None and not self.is_code:
            is_code = pc.match_substring_regex(texts, r"^\s*0\d+\s*$")
            self.is_code = bool(pc.any(is_code).as_py())
        distinct = self._count_text(texts, numbers, style)
        if numbers is not None and numbers.null_count == len(numbers):
            return  # nothing but marks of missing values
        if numbers is not None:
            self._add_range(numbers, first_row)
        self.is_boolean = self.is_boolean and len(distinct) <= MAX_SPELLINGS and parse_booleans(distinct) is not None
        if self.formats is None:
            is_date = numbers is None or kind in ("date", "time")
            self.formats = [form] if form else [*DATE_FORMATS, *TIME_FORMATS] if is_date else []
            self.formats = _matching(self.formats, distinct[:FIRST_LOOK])
        self.formats = _matching(self.formats, distinct)

    def _count_text(self, texts: pa.Array, numbers: pa.Array | None, style: NumberStyle) -> pa.Array:
        """Count distinct texts and the numbers among them; return the distinct ones, or all if they are not counted."""
        if numbers is not None:
            self.n_marks += numbers.null_count - texts.null_count
            self.n_numbers += len(numbers) - numbers.null_count
            return texts if self.counts is None else self._count(texts)[0]
        if self.counts is None:  # numbers that were not counted are followed by text
            self.counts, self.is_complete = Counter(), False
        distinct, counts = self._count(texts)
        is_number = pc.match_substring_regex(distinct, style.pattern)
        self.n_numbers += int(counts[np.asarray(is_number)].sum())
        self.n_marks += int(counts[np.asarray(are_marks(distinct))].sum())
        return distinct

    def _count(self, values: pa.Array) -> tuple[pa.Array, Array]:
        """Count the distinct values of a batch; return them and their counts."""
        found = values.drop_null().value_counts()
        distinct, counts = found.field("values"), found.field("counts").to_numpy()
        if self.counts is None:
            return distinct, counts
        self.counts.update(dict(zip(distinct.to_pylist(), counts.tolist(), strict=True)))
        if len(self.counts) > MAX_COUNTED:
            self.is_complete = False
            is_category = split_kind(self.given)[0] == "category" or self.storage == "dictionary"
            if is_category or self.first_text is not None:
                ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
                self.counts = Counter(dict(ranked[: MAX_COUNTED // 2]))
            else:
                self.counts = None  # the values of numbers are not needed
        return distinct, counts


def _matching(formats: list[str], texts: pa.Array) -> list[str]:
    return [form for form in formats if parse_dates(texts, form) is not None]
