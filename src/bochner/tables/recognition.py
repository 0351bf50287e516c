# SPDX-License-Identifier: BSD-3-Clause
"""What a column is taken for: one pass counts its cells in bounded memory, and the counts and a sample decide."""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bochner.rows import Array
from bochner.scaling.robust_standardizer import robust_moments
from bochner.tables import columns as cells
from bochner.tables.columns import KINDS, TIME_FORMATS, Column, Kind, NumberStyle, Reading, Storage
from bochner.tables.text import fit_text

MAX_COUNTED = 10_000  # distinct values that are counted exactly; of more, the most frequent half is kept
MAX_SPELLINGS = 50  # of true and false
MAX_CATEGORIES = 100
FEWEST_CATEGORY_ROWS = 10  # of a column with more categories, those in fewer rows are merged into "other"
SMALLEST_CATEGORY_SHARE = 0.9  # of the rows have frequent categories; a column with fewer of them is text
FEWEST_TEXT_ROWS = 20  # the categories of fewer rows may all be different by chance
FEWEST_MISSING_ROWS, SMALLEST_MISSING_SHARE = 5, 0.01  # fewer missing cells get no indicator


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
    first : Scalar or None
        The first typed cell.
    is_constant : bool
        Whether all typed cells are equal to the first one.
    n_numbers : int
        Number of text cells that are numbers.
    is_code : bool
        Whether some numbers have leading zeros, as codes have.
    first_text : tuple of (int, str) or None
        Row and value of the first cell that is not a number, where the column is text.
    infinite : tuple of (int, str) or None
        Row and value of the first infinite cell.
    formats : list of str
        The formats that all text cells so far have as dates or times.
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
    first: Any = None
    is_constant: bool = True
    n_numbers: int = 0
    is_code: bool = False
    first_text: tuple[int, str] | None = None
    infinite: tuple[int, str] | None = None
    formats: list[str] = field(default_factory=lambda: [*cells.DATE_FORMATS, *TIME_FORMATS])
    is_boolean: bool = True
    counts: Counter[Any] | None = field(default_factory=Counter)
    is_complete: bool = True

    def __post_init__(self) -> None:
        self.kind, _, self.format = self.given.partition(":")
        self.formats = [self.format] if self.format else self.formats

    @property
    def n_values(self) -> int:
        """Number of cells that are not missing."""
        return self.n_cells - self.n_missing

    @property
    def is_text(self) -> bool:
        """Whether the cells are stored as text, or are numbers that are to be read as dates."""
        is_date = self.kind in ("date", "time")
        return self.storage in ("text", "untyped", "dictionary") or (self.storage == "integer" and is_date)

    @property
    def has_few_values(self) -> bool:
        """Whether all distinct values can be categories."""
        return self.counts is not None and self.is_complete and len(self.counts) <= MAX_CATEGORIES

    @property
    def is_number_text(self) -> bool:
        """Whether most text is numbers; leading zeros, and few distinct numbers in a typed table, make codes."""
        if self.storage == "dictionary" or not self.n_numbers or self.is_code:
            return False
        if self.storage == "text" and self.has_few_values and self.style == NumberStyle():
            return False
        return self.first_text is None or 2 * self.n_numbers > self.n_values

    def add(self, values: pa.Array, first_row: int, reading: Reading) -> None:
        """Add the cells of a batch, whose first row has an index in the table."""
        self.n_cells += len(values)
        self.n_missing += values.null_count
        if values.null_count == len(values):
            return
        if self.is_text:
            self._add_text(cells.cell_text(values), first_row, reading)
            return
        self.first = values[0] if self.first is None else self.first
        self.is_constant = self.is_constant and pc.all(pc.equal(values, self.first)).as_py()
        self._find_infinite(values, first_row)
        if self.kind == "category":
            self._count(cells.cell_text(values))

    def _find_infinite(self, values: pa.Array, first_row: int) -> None:
        """Find the first infinite number, and count those that are not a number as missing."""
        if pa.types.is_floating(values.type):
            self.n_missing += pc.sum(pc.is_nan(values)).as_py() or 0
            is_infinite = pc.is_inf(values)
            if self.infinite is None and pc.any(is_infinite).as_py():
                row = pc.index(is_infinite, True).as_py()
                self.infinite = first_row + row, str(values[row].as_py())

    def _add_text(self, texts: pa.Array, first_row: int, reading: Reading) -> None:
        """Add cells of text, which may be numbers, dates or booleans."""
        style = self.style = self.style or reading.guess_style(texts)
        is_label = self.storage == "dictionary" and not self.kind
        numbers = None if is_label else cells.parse_numbers(texts, style)
        if numbers is None and self.first_text is None and not is_label:
            row = cells.first_failure(texts, partial(cells.parse_numbers, style=style))
            self.first_text = first_row + row, str(texts[row].as_py())
        if numbers is None and self.counts is None:  # numbers that were not counted are followed by text
            self.counts, self.is_complete = Counter(), False
        distinct, counts = (texts, np.empty(0)) if self.counts is None else self._count(texts)
        if numbers is None:
            is_number = np.asarray(pc.match_substring_regex(cells.plain_typography(distinct), style.pattern))
            self.n_numbers += int(counts[is_number].sum())
            self.n_marks += int(counts[np.asarray(cells.are_marks(distinct))].sum())
        else:
            self.n_numbers += len(numbers) - numbers.null_count
            self.n_marks += numbers.null_count - texts.null_count
            if numbers.null_count == len(numbers):
                return  # nothing but marks of missing values
            self.is_code = self.is_code or pc.any(pc.match_substring_regex(texts, r"^\s*0\d+\s*$")).as_py()
            self._find_infinite(numbers, first_row)
            self.formats = self.formats if self.kind in ("date", "time") else []
        is_boolean = self.is_boolean and len(distinct) <= MAX_SPELLINGS
        self.is_boolean = is_boolean and cells.parse_booleans(distinct) is not None
        for part in (distinct[: cells.FIRST_LOOK], distinct):  # the first ones rule out most formats
            self.formats = [form for form in self.formats if cells.parse_dates(part, form) is not None]

    def _count(self, values: pa.Array) -> tuple[pa.Array, Array]:
        """Count the distinct values of a batch; return them and their counts."""
        found = values.drop_null().value_counts()
        distinct, counts = found.field("values"), found.field("counts").to_numpy()
        if self.counts is None:
            return distinct, counts
        self.counts.update(dict(zip(distinct.to_pylist(), counts.tolist(), strict=True)))
        if len(self.counts) > MAX_COUNTED:
            self.is_complete = False
            is_category = self.kind == "category" or self.storage == "dictionary" or self.first_text is not None
            # The values of numbers are not needed.
            self.counts = Counter(dict(_ranked(self.counts)[: MAX_COUNTED // 2])) if is_category else None
        return distinct, counts


def recognize(name: str, tally: ColumnTally, sampled: pa.Array) -> Column:
    """Return what a column to predict from is taken for, complete with what its encoding needs."""
    kind, reason = _kind(tally, sampled)
    style = tally.style if kind in ("number", "duration") else None
    column = Column(name, kind, _format(tally, kind), style or NumberStyle(), reason=reason)
    has_gaps = tally.n_missing > 0
    if kind == "text":
        return replace(column, components=fit_text(cells.cell_text(sampled)), missing=has_gaps, gaps=has_gaps)
    if kind == "category":
        counts: dict[Any, int] = tally.counts or {}
        categories = tuple(sorted(counts if tally.has_few_values else _frequent(counts)))
        has_gaps = has_gaps or ("" in counts and "" not in categories)  # rare empty text is encoded as a missing cell
        other = not tally.has_few_values
        return replace(column, categories=categories, other=other, missing=has_gaps, gaps=has_gaps)
    if kind not in KINDS or cell_problem(name, tally)[1]:
        return column
    n_missing = tally.n_missing + tally.n_marks
    is_informative = n_missing >= max(FEWEST_MISSING_ROWS, SMALLEST_MISSING_SHARE * tally.n_cells)
    cycles = _cycles(cells.moments_in_time(sampled, column), kind) if kind in ("date", "time") else ()
    column = replace(column, missing=is_informative, gaps=n_missing > 0, cycles=cycles)
    numbers = cells.cell_numbers(sampled, column) if column.has_number else np.empty(0)
    valid = numbers[~np.isnan(numbers)]
    if not len(valid):  # in the sampled rows, or in those that have a target
        return column
    center, scale = robust_moments(valid[:, None])
    return replace(column, fill=float(center[0]), scale=float(scale[0]))


def _kind(tally: ColumnTally, sampled: pa.Array) -> tuple[Kind, str]:
    """Return the kind of a column, and why it is left out."""
    if not tally.n_values or (tally.n_marks == tally.n_values and tally.kind not in ("category", "text")):
        return "empty", "all cells are missing"
    if tally.kind:
        return cast(Kind, tally.kind), ""
    is_constant = tally.has_few_values and len(tally.counts or {}) == 1 if tally.is_text else tally.is_constant
    if is_constant and not tally.n_missing + tally.n_marks:
        found = sampled.drop_null()[:1].to_pylist()  # nothing where only rows without a target have values
        shown = [repr(value) if isinstance(value, str) else str(value) for value in found] or ["equal"]
        return "constant", f"all cells are {shown[0]:.40}"
    if tally.storage in ("boolean", "date", "time", "duration"):
        return cast(Kind, tally.storage), ""
    if tally.storage in ("integer", "float") or tally.is_number_text:
        return "number", ""
    if tally.formats:
        return "time" if tally.formats[0] in TIME_FORMATS else "date", ""
    if tally.is_boolean and tally.storage != "dictionary":
        return "boolean", ""
    return "category" if tally.storage == "dictionary" or _has_categories(tally) else "text", ""


def _has_categories(tally: ColumnTally) -> bool:
    """Return whether a column has few distinct texts, or frequent ones in most rows."""
    counts: dict[Any, int] = tally.counts or {}
    if tally.has_few_values:
        return len(counts) < FEWEST_TEXT_ROWS or max(counts.values()) > 1
    return sum(_frequent(counts).values()) >= SMALLEST_CATEGORY_SHARE * tally.n_values


def _frequent(counts: dict[Any, int]) -> dict[Any, int]:
    """Return the most frequent values that have enough rows."""
    return {value: n_rows for value, n_rows in _ranked(counts)[: MAX_CATEGORIES - 1] if n_rows >= FEWEST_CATEGORY_ROWS}


def _ranked(counts: dict[Any, int]) -> list[tuple[Any, int]]:
    """Return values with their counts, the most frequent ones first, and equally frequent ones in their order."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _format(tally: ColumnTally, kind: Kind) -> str:
    """Return the format of dates or times in text: the given one, or the first one that all cells have."""
    if tally.format or not tally.is_text or kind not in ("date", "time"):
        return tally.format
    possible = [form for form in tally.formats if (form in TIME_FORMATS) == (kind == "time")]
    return next(iter(possible), cells.ISO if kind == "date" else "")


def _cycles(moments: Array, kind: Kind) -> tuple[str, ...]:
    """Return the cycles that dates or times of the day go through."""
    if kind == "time":
        return ("day",)
    moments = moments[~np.isnat(moments)]
    days = moments.astype("M8[D]")
    months = moments.astype("M8[M]")
    varies = {
        "year": len(np.unique(months)) > 1,
        # Dates that are always the same day of the month stand for months, whose days of the week mean nothing.
        "week": len(np.unique(days - months.astype("M8[D]"))) > 1 and len(np.unique(days.astype(np.int64) % 7)) > 1,
        "day": len(np.unique(moments - days)) > 1,
    }
    return tuple(cycle for cycle, is_varying in varies.items() if is_varying)


def recognize_target(name: str, tally: ColumnTally) -> Column:
    """Return what the target is: numbers, booleans, or categories, whose text is the label of a class."""
    kind: Any = tally.kind
    if not kind and not tally.is_text:
        kind = {"integer": "number", "float": "number", "null": "empty"}.get(tally.storage, tally.storage)
    elif not kind:
        labels = {str(value).strip().lower() for value in tally.counts or {}}
        has_numbers = 2 * tally.n_numbers > tally.n_values - tally.n_marks and tally.storage != "dictionary"
        # In a typed table, texts that are numbers are labels unless there are many.
        is_number = has_numbers and not (tally.storage == "text" and tally.has_few_values)
        kind = "boolean" if labels and labels <= {"true", "false"} else "number" if is_number else "category"
    return Column(name, kind, style=tally.style or NumberStyle())


def cell_problem(name: str, tally: ColumnTally, *, is_target: bool = False) -> tuple[int | None, str]:
    """Return the row, if known, and the problem of the first cell that does not have its column's kind, or nothing."""
    kind = tally.kind
    if is_target and (kind in ("date", "time") or (not kind and tally.storage in ("date", "time", "duration"))):
        return None, f"a column of {kind or tally.storage}s cannot be a target; convert it to numbers or text"
    if tally.infinite is not None and kind != "category":
        return tally.infinite[0], f"the value is {tally.infinite[1]}; correct it, or drop the row or the column"
    if not tally.is_text or tally.first_text is None:
        return None, ""
    is_number = kind in ("number", "duration") or (not kind and tally.is_number_text)
    if is_number or (is_target and not kind and recognize_target(name, tally).kind == "number"):
        row, value = tally.first_text
        found = f"{tally.n_numbers:,} of {tally.n_values:,} cells are numbers{style_words(tally.style)}"
        is_mark = f"give missing=[{value!r}] if it means that there is no value"
        remedy = is_mark if tally.n_numbers else "give another kind"
        other = "" if kind or is_target else f", or kinds={{{name!r}: 'category'}}"
        return row, f"invalid value {value!r:.60}, expected a number ({found}); correct it, {remedy}{other}"
    return None, ""


def style_words(style: NumberStyle | None) -> str:
    """Return how numbers are written, unless that is plain."""
    if style is None or style == NumberStyle():
        return ""
    words = [f"a decimal {style.decimal!r}"] if style.decimal != "." else []
    words += [f"thousands separated by {style.thousands!r}"] if style.thousands else []
    words += [f"the unit {style.unit!r}"] if style.unit else []
    return f" with {' and '.join(words)}"
