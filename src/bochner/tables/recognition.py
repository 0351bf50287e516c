# SPDX-License-Identifier: BSD-3-Clause
"""What a column is taken for, given the counts of all its cells and a sample of them."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from bochner.rows import Array
from bochner.scaling.robust_standardizer import robust_moments
from bochner.tables.columns import (
    ISO,
    TIME_FORMATS,
    Column,
    Kind,
    NumberStyle,
    cell_numbers,
    moments_in_time,
    split_kind,
)
from bochner.tables.tallies import ColumnTally
from bochner.tables.text import fit_text

MAX_CATEGORIES = 100
FEWEST_CATEGORY_ROWS = 10  # of a column with more categories, those in fewer rows are merged into "other"
SMALLEST_CATEGORY_SHARE = 0.9  # of the rows have frequent categories; a column with fewer of them is text
FEWEST_TEXT_ROWS = 20  # the categories of fewer rows may all be different by chance
FEWEST_MISSING_ROWS, SMALLEST_MISSING_SHARE = 5, 0.01  # fewer missing cells get no indicator


def recognize(name: str, tally: ColumnTally, sampled: pa.Array) -> Column:
    """Return what a column to predict from is taken for, complete with what its encoding needs."""
    column = _recognized(name, tally, sampled)
    if column.kind == "category":
        return _with_categories(column, tally)
    if column.kind == "text":
        return replace(column, components=fit_text(sampled), missing=tally.n_missing > 0, gaps=tally.n_missing > 0)
    if cell_problem(name, tally)[1] or column.kind not in ("number", "boolean", "duration", "date", "time"):
        return column
    n_missing = tally.n_missing + tally.n_marks
    is_informative = n_missing >= max(FEWEST_MISSING_ROWS, SMALLEST_MISSING_SHARE * tally.n_cells)
    column = replace(column, missing=is_informative, gaps=n_missing > 0)
    if column.kind in ("date", "time"):
        column = replace(column, cycles=_cycles(column, moments_in_time(sampled, column)))
    if not column.has_number:
        return column
    numbers = cell_numbers(sampled, column)
    valid = numbers[~np.isnan(numbers)]
    if not len(valid):  # in the sampled rows, or in those that have a target
        return column
    center, scale = robust_moments(valid[:, None])
    return replace(column, fill=float(center[0]), scale=float(scale[0]))


def _recognized(name: str, tally: ColumnTally, sampled: pa.Array) -> Column:
    """Return the name, the kind, the format and the style of a column, or why it is left out."""
    given, _ = split_kind(tally.given)
    style = tally.style or NumberStyle()
    if not tally.n_values or (tally.n_marks == tally.n_values and given not in ("category", "text")):
        return Column(name, "empty", reason="all cells are missing")
    if given:
        return Column(name, cast(Kind, given), _format(tally), style)
    if _is_constant(tally):
        value = sampled.drop_null()[:1].to_pylist()
        shown = repr(value[0]) if value and isinstance(value[0], str) else "".join(map(str, value)) or "equal"
        return Column(name, "constant", reason=f"all cells are {shown:.40}")
    if tally.storage in ("boolean", "date", "time", "duration"):
        return Column(name, cast(Kind, tally.storage))
    if tally.storage in ("integer", "float") or _is_number_text(tally):
        return Column(name, "number", style=style)
    if tally.formats:
        return Column(name, "time" if tally.formats[0] in TIME_FORMATS else "date", _format(tally))
    if tally.is_boolean and tally.storage != "dictionary":
        return Column(name, "boolean")
    return Column(name, "category" if tally.storage == "dictionary" or _has_categories(tally) else "text")


def _is_constant(tally: ColumnTally) -> bool:
    """Return whether a column has no missing cells and only one value."""
    if tally.n_missing + tally.n_marks:
        return False
    if tally.is_text:
        return tally.counts is not None and tally.is_complete and len(tally.counts) == 1
    return bool(tally.low == tally.high)


def _is_number_text(tally: ColumnTally) -> bool:
    """Return whether text is numbers; those with leading zeros, and in a typed table a few distinct ones, are codes."""
    if tally.storage == "dictionary" or not tally.n_numbers or tally.is_code:
        return False
    if tally.storage == "untyped":
        return tally.first_text is None or 2 * tally.n_numbers > tally.n_values
    is_few = tally.counts is not None and len(tally.counts) <= MAX_CATEGORIES
    return tally.first_text is None and not (is_few and (tally.style or NumberStyle()).is_plain)


def _has_categories(tally: ColumnTally) -> bool:
    """Return whether a column has few distinct texts, or frequent ones in most rows."""
    counts: dict[Any, int] = tally.counts or {}
    if len(counts) <= MAX_CATEGORIES and tally.is_complete:
        return not (len(counts) >= FEWEST_TEXT_ROWS and max(counts.values()) == 1)
    return sum(_frequent(counts).values()) >= SMALLEST_CATEGORY_SHARE * tally.n_values


def _frequent(counts: dict[Any, int]) -> dict[Any, int]:
    """Return the most frequent values that have enough rows."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: MAX_CATEGORIES - 1]
    return {value: count for value, count in ranked if count >= FEWEST_CATEGORY_ROWS}


def _with_categories(column: Column, tally: ColumnTally) -> Column:
    """Add the categories: all of them, or the most frequent ones."""
    counts: dict[Any, int] = tally.counts or {}
    missing = tally.n_missing > 0
    if len(counts) <= MAX_CATEGORIES and tally.is_complete:
        return replace(column, categories=tuple(sorted(counts)), missing=missing, gaps=missing)
    frequent = _frequent(counts)
    missing = missing or ("" in counts and "" not in frequent)  # rare empty text is encoded as a missing cell
    return replace(column, categories=tuple(sorted(frequent)), other=True, missing=missing, gaps=missing)


def _format(tally: ColumnTally) -> str:
    """Return the format of dates or times in text: the given one, or the first one that all cells have."""
    kind, form = split_kind(tally.given)
    if form or not tally.is_text:
        return form
    possible = [form for form in tally.formats or [] if not kind or (form in TIME_FORMATS) == (kind == "time")]
    return next(iter(possible), ISO if kind == "date" else "")


def _cycles(column: Column, moments: Array) -> tuple[str, ...]:
    """Return the cycles that the dates of a column or its times of the day go through."""
    moments = moments[~np.isnat(moments)]
    if column.kind == "time":
        return ("day",)
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
    given, _ = split_kind(tally.given)
    style = tally.style or NumberStyle()
    kind: Any = given or tally.storage
    if not given and tally.is_text:
        labels = {str(value).strip().lower() for value in tally.counts or {}}
        if labels and labels <= {"true", "false"}:
            kind = "boolean"
        else:
            has_numbers = tally.n_numbers > 0 and 2 * tally.n_numbers > tally.n_values - tally.n_marks
            # In a typed table, texts that are numbers are labels unless there are many.
            is_label = tally.storage != "untyped" and len(tally.counts or {}) <= MAX_CATEGORIES
            kind = "number" if has_numbers and not is_label and tally.storage != "dictionary" else "category"
    elif not given:
        kind = {"integer": "number", "float": "number", "null": "empty"}.get(tally.storage, tally.storage)
    return Column(name, kind, style=style)


def cell_problem(name: str, tally: ColumnTally, *, is_target: bool = False) -> tuple[int | None, str]:
    """Return the row, if known, and the problem of the first cell that does not have its column's kind, or nothing."""
    kind, _ = split_kind(tally.given)
    if is_target and (kind in ("date", "time") or (not kind and tally.storage in ("date", "time", "duration"))):
        return None, f"a column of {kind or tally.storage}s cannot be a target; convert it to numbers or text"
    if tally.infinite is not None and kind != "category":
        return tally.infinite[0], f"the value is {tally.infinite[1]}; correct it, or drop the row or the column"
    if not tally.is_text or not tally.n_values:
        return None, ""
    is_number = kind in ("number", "duration") or (not kind and _is_number_text(tally))
    is_number = is_number or (is_target and not kind and recognize_target(name, tally).kind == "number")
    if is_number and tally.first_text is not None:
        row, value = tally.first_text
        found = f"{tally.n_numbers:,} of {tally.n_values:,} cells are numbers{style_words(tally.style)}"
        remedy = f"give missing=[{value!r}] if it means that there is no value"
        other = "" if kind or is_target else f", or kinds={{{name!r}: 'category'}}"
        return row, f"invalid value {value!r:.60}, expected a number ({found}); correct it, {remedy}{other}"
    return None, ""


def style_words(style: NumberStyle | None) -> str:
    """Return how numbers are written, unless that is plain."""
    if style is None or style.is_plain:
        return ""
    words = [f"a decimal {style.decimal!r}"] if style.decimal != "." else []
    words += [f"thousands separated by {style.thousands!r}"] if style.thousands else []
    words += [f"the unit {style.unit!r}"] if style.unit else []
    return f" with {' and '.join(words)}"
