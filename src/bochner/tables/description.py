# SPDX-License-Identifier: BSD-3-Clause
"""What the columns of a table are taken for and what will be done with them, in words."""

from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from bochner.tables.columns import KINDS, Column, cell_numbers
from bochner.tables.recognition import ColumnTally, style_words
from bochner.tables.survey import Survey

N_EXAMPLES = 3
FEWEST_ROWS, LEAK_ROWS, LEAK_R2, LEAK_ACCURACY = 50, 2_000, 0.99, 0.999


def describe(survey: Survey) -> list[dict[str, Any]]:
    """Describe the columns of a table in their order.

    The number of distinct values is that of the sampled rows, unless `distinct_is_exact`.
    """
    table, target = survey.table, survey.target_column
    columns = {column.name: column for column in [*survey.columns, *([] if target is None else [target])]}
    described: list[dict[str, Any]] = []
    for name in table.names:
        found: dict[str, Any] = {"missing": None, "distinct": None, "distinct_is_exact": False, "examples": []}
        if name in columns:
            found = _described(columns[name], survey)
        elif name in table.drop:
            found |= {"kind": "dropped", "treatment": "left out: as requested"}
        elif name in survey.misfits:
            found |= {"kind": table.kinds[name], "treatment": f"refused: {survey.misfits[name]}"}
        else:
            reason = f"refused: it contains {table.unsupported[name]}; drop it"
            found |= {"kind": "unsupported", "treatment": reason}
        described.append({"name": name, "kind": "", "storage": str(table.schema.field(name).type)} | found)
    return described


def _described(column: Column, survey: Survey) -> dict[str, Any]:
    """Describe a column that is read."""
    tally, is_target = survey.tallies[column.name], column.name == survey.table.target
    row, problem = survey.cell_problem(column.name)
    treatment = _treatment(column, tally, is_target)
    if problem:
        treatment = f"refused: {problem}" if row is None else f"refused: row {row + 1}: {problem}"
    sampled = survey.sampled(column.name).drop_null()
    is_counted = bool(tally.counts and tally.is_complete and tally.is_text)
    return {
        "kind": column.kind,
        "storage": "text" if tally.storage == "untyped" else tally.storage,
        "missing": _n_missing(column, tally),
        "distinct": len(tally.counts or {}) if is_counted else len(sampled.unique()),
        "distinct_is_exact": is_counted or survey.n_cells <= len(survey.sample.keys) + survey.n_without_target,
        "examples": [_printable(value.as_py()) for value in sampled[:1000].unique()[:N_EXAMPLES]],
        "treatment": treatment,
    }


def _n_missing(column: Column, tally: ColumnTally) -> int:
    return tally.n_missing + (tally.n_marks if column.kind not in ("category", "text") else 0)


def _printable(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= 30 else f"{text[:29]}…"


def _treatment(column: Column, tally: ColumnTally, is_target: bool) -> str:
    """Return what is done with a column."""
    if is_target:
        classes = {"category": "the classes are its values", "boolean": "two classes"}
        words = f"target: {classes.get(column.kind, f'numbers{style_words(column.style)}')}"
        n_missing = _n_missing(column, tally)
        return f"{words}; {n_missing:,} rows without it are left out" if n_missing else words
    if column.kind not in KINDS:
        return f"left out: {column.reason}"
    words = treatment_words(column)
    if column.other:
        count = f"{len(tally.counts or {}):,}" if tally.is_complete else f"more than {len(tally.counts or {}):,}"
        words = words.replace("categories and other", f"most frequent of {count} categories, and other")
    if tally.is_code and column.kind == "text":
        return f"codes with leading zeros, {words}"
    if column.format and not column.format.startswith("iso"):
        other = column.format.replace("%m/%d/%Y", "%d/%m/%Y")
        is_ambiguous = other != column.format and not tally.format and other in tally.formats
        remedy = f" (give kinds={{{column.name!r}: 'date:{other}'}} for the other reading)" if is_ambiguous else ""
        return f"read as {column.format}{remedy}, {words}"
    return words


def treatment_words(column: Column) -> str:
    """Return what is done with a column, as far as its encoding knows."""
    if column.kind == "category":
        words = [f"one-hot encoded: {len(column.categories)} categories{' and other' * column.other}"]
        return ", ".join(words + ["missing is a category"] * column.missing)
    if column.kind == "text":
        words = [f"{column.components.shape[1]} numbers from its character n-grams"]
        return ", ".join(words + ["an indicator of missing cells"] * column.missing)
    number = {"date": "linear trend in days", "duration": "seconds, standardized"}
    words = [number.get(column.kind, f"standardized{style_words(column.style)}")] * column.has_number
    words += [f"sine and cosine of the {cycle}" for cycle in column.cycles]
    words += ["missing: the median" + " and an indicator" * column.missing] * column.gaps
    return ", ".join(words)


def column_messages(survey: Survey) -> list[str]:
    """Return what a user should know about the columns before a fit, one line per subject."""
    used = [column for column in survey.columns if column.kind in KINDS]
    categories = [column for column in used if column.kind == "category"]
    gaps = {column.shown: _n_missing(column, survey.tallies[column.name]) for column in used}
    subjects = {
        "Categories, one-hot encoded": [f"{c.shown} ({len(c.categories) + c.other + c.missing})" for c in categories],
        "Rare categories are merged into one": [column.shown for column in categories if column.other],
        "Text, encoded by its character n-grams": [column.shown for column in used if column.kind == "text"],
        "Dates and times": [column.shown for column in used if column.kind in ("date", "time", "duration")],
        "Columns with missing cells": [f"{name} ({count:,})" for name, count in gaps.items() if count],
        "Left out": [f"{c.shown} ({c.kind}: {c.reason})" for c in survey.columns if c.kind not in KINDS],
    }
    messages = [f"{subject}: {', '.join(names)}." for subject, names in subjects.items() if names]
    if survey.n_without_target:
        messages.append(f"{survey.n_without_target:,} rows have no {survey.table.target} and are left out.")
    return messages


def table_warnings(survey: Survey) -> list[str]:
    """Return what may be wrong with a table: identifiers, equal rows, and columns that predict the target alone."""
    messages = []
    n_sampled, leaks = len(survey.sample.keys), possible_leaks(survey)
    identifiers = ", ".join(column.shown for column in survey.columns if _is_identifier(column, survey))
    if identifiers:
        messages.append(f"No value occurs twice: {identifiers}. Drop such a column if it is an identifier.")
    if survey.n_equal:
        share = f"{survey.n_equal:,} of {n_sampled:,} sampled rows ({100 * survey.n_equal / n_sampled:.2g} %)"
        remark = "errors on held-out rows are too small if these are copies"
        messages.append(f"{share} are equal to an earlier one; {remark}.")
    if leaks:
        remark = "Drop it if it is not known when predictions are made"
        messages.append(f"Nearly all targets follow from a single column: {', '.join(leaks)}. {remark}.")
    return messages


def _is_identifier(column: Column, survey: Survey) -> bool:
    """Return whether the cells of a column are different texts, or different whole numbers in a range without gaps."""
    cells = survey.sampled(column.name).drop_null()
    if len(cells) < FEWEST_ROWS or column.kind not in ("text", "number") or len(cells.unique()) < len(cells):
        return False
    if column.kind == "text":
        return True
    numbers = cell_numbers(cells, column)
    return bool((numbers % 1.0 == 0.0).all() and np.ptp(numbers) < 2 * survey.tallies[column.name].n_values)


def possible_leaks(survey: Survey) -> list[str]:
    """Return the columns from which a small tree predicts the targets of held-out rows nearly without errors."""
    cells, is_class = survey.sample.cells, survey.task == "classification"
    if survey.target_column is None or cells.num_rows < FEWEST_ROWS:
        return []
    encoding, cells = survey.encoding(), cells[:LEAK_ROWS]
    X, y = encoding.encode(cells), encoding.targets(cells)
    if is_class and np.unique(y, return_counts=True)[1].min() < 3:
        return []
    tree = (DecisionTreeClassifier if is_class else DecisionTreeRegressor)(min_samples_leaf=2, random_state=0)
    origins, smallest = np.array(encoding.origins), LEAK_ACCURACY if is_class else LEAK_R2
    scores = {c.shown: cross_val_score(tree, X[:, origins == c.name], y, cv=3).mean() for c in encoding.columns}
    return [name for name, score in scores.items() if score > smallest]
