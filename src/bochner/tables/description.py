# SPDX-License-Identifier: BSD-3-Clause
"""What the columns of a table are taken for and what will be done with them, in words."""

from dataclasses import dataclass
from typing import Any

from bochner.tables.columns import KINDS, Column, split_kind
from bochner.tables.reader import Table
from bochner.tables.recognition import cell_problem
from bochner.tables.survey import Survey
from bochner.tables.tallies import ColumnTally

__all__ = ["ColumnDescription", "TableDescription", "column_messages", "describe"]

N_EXAMPLES = 3
AMBIGUOUS = {"%m/%d/%Y": "%d/%m/%Y"}


@dataclass(frozen=True)
class ColumnDescription:
    """What a column is taken for.

    Attributes
    ----------
    name : str
        The column.
    kind : str
        Its kind, as in `Column`; that of the target too.
    storage : str
        How the cells are stored.
    missing : int or None
        Number of missing cells; None for a column that is not read.
    distinct : int or None
        Number of distinct values, in the sampled rows if there are more rows; None for a column that is not read.
    distinct_is_exact : bool
        Whether the distinct values of all rows were counted.
    examples : list of str
        Some values.
    treatment : str
        What will be done with the column.
    """

    name: str
    kind: str
    storage: str
    missing: int | None
    distinct: int | None
    distinct_is_exact: bool
    examples: list[str]
    treatment: str


@dataclass(frozen=True)
class TableDescription:
    """What the columns of a table are taken for.

    Attributes
    ----------
    path : str
        The table.
    rows : int
        Number of rows.
    columns : list of ColumnDescription
        The columns in the order of the table.
    problems : list of str
        What keeps a model from being fitted.
    """

    path: str
    rows: int
    columns: list[ColumnDescription]
    problems: list[str]


def describe(table: Table, survey: Survey) -> TableDescription:
    """Describe a table whose rows were surveyed.

    Parameters
    ----------
    table : Table
        The table.
    survey : Survey
        The complete survey.
    """
    recognized = survey.columns()
    columns = {column.name: column for column in recognized}
    target = survey.target_column()
    if target is not None:
        columns[target.name] = target
    described = []
    for name in table.names:
        if name in columns:
            described.append(_described(columns[name], survey, is_target=name == survey.target))
            continue
        is_dropped = name in table.drop
        reason = "left out: as requested" if is_dropped else f"refused: it contains {table.unsupported[name]}; drop it"
        storage = str(table.schema.field(name).type)
        kind = "dropped" if is_dropped else "unsupported"
        described.append(ColumnDescription(name, kind, storage, None, None, False, [], reason))
    n_rows = max((tally.n_cells for tally in survey.tallies.values()), default=table.n_rows or 0)
    return TableDescription(table.path, n_rows, described, survey.problems(table, recognized))


def _described(column: Column, survey: Survey, *, is_target: bool) -> ColumnDescription:
    tally = survey.tallies[column.name]
    n_missing = tally.n_missing + (tally.n_marks if column.kind not in ("category", "text") else 0)
    distinct, is_exact = _distinct(column, tally, survey)
    problem = cell_problem(column.name, tally, is_target=is_target)
    if problem is not None:
        treatment = f"refused: {problem[1]}" if problem[0] is None else f"refused: row {problem[0] + 1}: {problem[1]}"
    else:
        treatment = _target_treatment(column, n_missing) if is_target else _treatment(column, tally)
    storage = "text" if tally.storage == "untyped" else tally.storage
    return ColumnDescription(
        column.name, column.kind, storage, n_missing, distinct, is_exact, _examples(column, survey), treatment
    )


def _distinct(column: Column, tally: ColumnTally, survey: Survey) -> tuple[int, bool]:
    """Return the number of distinct values, and whether it is that of all rows."""
    if tally.counts and tally.is_complete and tally.is_text:
        return len(tally.counts), True
    sampled = survey.sampled(column.name).drop_null()
    return len(sampled.unique()), tally.n_cells <= len(survey.sample.keys) + survey.n_without_target


def _examples(column: Column, survey: Survey) -> list[str]:
    values = survey.sampled(column.name)[:1000].drop_null().unique()
    return [_printable(value.as_py()) for value in values[:N_EXAMPLES]]


def _printable(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= 30 else f"{text[:29]}…"


def _target_treatment(column: Column, n_missing: int) -> str:
    text = {"category": "target: the classes are its values", "boolean": "target: two classes"}.get(
        column.kind, "target"
    )
    return f"{text}; {n_missing:,} rows without it are left out" if n_missing else text


def _treatment(column: Column, tally: ColumnTally) -> str:
    """Return what is done with a column to predict from."""
    if column.kind not in KINDS:
        return f"left out: {column.reason}"
    if column.kind == "category":
        parts = [f"one-hot encoded: {len(column.categories)} categories"]
        if column.other:
            count = f"{len(tally.counts or {}):,}" if tally.is_complete else f"more than {len(tally.counts or {}):,}"
            parts = [f"one-hot encoded: the {len(column.categories)} most frequent of {count} categories, and other"]
        return ", ".join(parts + ["missing is a category"] * column.missing)
    parts = [f"{_format_words(column, tally)}linear trend in days"] if column.kind == "date" else []
    parts += ["standardized"] if column.kind in ("number", "boolean") else []
    parts += ["seconds, standardized"] if column.kind == "duration" else []
    parts += [f"sine and cosine of the {cycle}" for cycle in column.cycles]
    if tally.n_missing + tally.n_marks:
        parts.append("missing: the median" + (" and an indicator" if column.missing else ""))
    return ", ".join(parts)


def _format_words(column: Column, tally: ColumnTally) -> str:
    """Return how dates in text are read, and that there is another reading."""
    if not column.format or column.format.startswith("iso"):
        return ""
    other = next((new for old, new in AMBIGUOUS.items() if old in column.format), None)
    changed = column.format.replace("%m/%d/%Y", other) if other else ""
    if not split_kind(tally.given)[1] and changed in (tally.formats or []):
        return f"read as {column.format} (use --as '{column.name}=date:{changed}' for the other reading), "
    return f"read as {column.format}, "


def column_messages(table: Table, survey: Survey) -> list[str]:
    """Return what a user should know about the columns before a fit, one line per subject.

    Parameters
    ----------
    table : Table
        The table.
    survey : Survey
        The complete survey.
    """
    columns = survey.columns()
    messages = []
    categories = [column for column in columns if column.kind == "category"]
    if categories:
        counts = (f"{c.name} ({len(c.categories) + c.other + c.missing} categories)" for c in categories)
        messages.append(f"Text columns, one-hot encoded: {', '.join(counts)}.")
    merged = [column for column in categories if column.other]
    if merged:
        messages.append(f"Rare categories are merged into one: {', '.join(column.name for column in merged)}.")
    dates = [column.name for column in columns if column.kind in ("date", "time", "duration")]
    messages += [f"Dates and times: {', '.join(dates)}."] if dates else []
    gaps = [column for column in columns if column.kind in KINDS and _n_missing(column, survey)]
    if gaps:
        shown = ", ".join(f"{column.name} ({_n_missing(column, survey):,})" for column in gaps)
        messages.append(f"Columns with missing cells: {shown}.")
    left_out = [column for column in columns if column.kind not in KINDS]
    if left_out:
        shown = ", ".join(f"{column.name} ({column.kind}: {column.reason})" for column in left_out)
        messages.append(f"Left out: {shown}. Use --as to keep one.")
    if survey.n_without_target:
        messages.append(f"{survey.n_without_target:,} rows have no {table.target} and are left out.")
    return messages


def _n_missing(column: Column, survey: Survey) -> int:
    tally = survey.tallies[column.name]
    return tally.n_missing + (tally.n_marks if column.kind != "category" else 0)
