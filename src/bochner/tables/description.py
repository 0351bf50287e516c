# SPDX-License-Identifier: BSD-3-Clause
"""What the columns of a table are taken for and what will be done with them, in words."""

from dataclasses import dataclass
from typing import Any

from bochner.tables.columns import KINDS, Column, split_kind
from bochner.tables.recognition import cell_problem, style_words
from bochner.tables.survey import Survey
from bochner.tables.tallies import ColumnTally

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


def describe(survey: Survey) -> list[ColumnDescription]:
    """Describe the columns of a table in their order."""
    table, target = survey.table, survey.target_column
    columns = {column.name: column for column in [*survey.columns, *([] if target is None else [target])]}
    described = []
    for name in table.names:
        if name in columns:
            described.append(_described(columns[name], survey, is_target=name == table.target))
            continue
        is_dropped = name in table.drop
        reason = "left out: as requested" if is_dropped else f"refused: it contains {table.unsupported[name]}; drop it"
        storage = str(table.schema.field(name).type)
        kind = "dropped" if is_dropped else "unsupported"
        described.append(ColumnDescription(name, kind, storage, None, None, False, [], reason))
    return described


def _described(column: Column, survey: Survey, *, is_target: bool) -> ColumnDescription:
    tally = survey.tallies[column.name]
    n_missing = _n_missing(column, tally)
    problem = cell_problem(column.name, tally, is_target=is_target)
    if problem is not None:
        treatment = f"refused: {problem[1]}" if problem[0] is None else f"refused: row {problem[0] + 1}: {problem[1]}"
    else:
        treatment = _target_treatment(column, n_missing) if is_target else _treatment(column, tally)
    sampled = survey.sampled(column.name).drop_null()
    is_exact = bool(tally.counts and tally.is_complete and tally.is_text)
    distinct = len(tally.counts or {}) if is_exact else len(sampled.unique())
    is_exact = is_exact or survey.n_cells <= len(survey.sample.keys) + survey.n_without_target
    storage = "text" if tally.storage == "untyped" else tally.storage
    examples = [_printable(value.as_py()) for value in sampled[:1000].unique()[:N_EXAMPLES]]
    return ColumnDescription(column.name, column.kind, storage, n_missing, distinct, is_exact, examples, treatment)


def _n_missing(column: Column, tally: ColumnTally) -> int:
    return tally.n_missing + (tally.n_marks if column.kind not in ("category", "text") else 0)


def _printable(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= 30 else f"{text[:29]}…"


def _target_treatment(column: Column, n_missing: int) -> str:
    text = {"category": "target: the classes are its values", "boolean": "target: two classes"}.get(
        column.kind, f"target: numbers{style_words(column.style)}"
    )
    return f"{text}; {n_missing:,} rows without it are left out" if n_missing else text


def _treatment(column: Column, tally: ColumnTally) -> str:
    """Return what is done with a column to predict from."""
    if column.kind not in KINDS:
        return f"left out: {column.reason}"
    words = treatment_words(column)
    if column.other:
        count = f"{len(tally.counts or {}):,}" if tally.is_complete else f"more than {len(tally.counts or {}):,}"
        words = words.replace("categories and other", f"most frequent of {count} categories, and other")
    return f"{_format_words(column, tally)}{words}"


def treatment_words(column: Column) -> str:
    """Return what is done with a column, as far as its encoding knows."""
    if column.kind == "category":
        words = [f"one-hot encoded: {len(column.categories)} categories{' and other' * column.other}"]
        return ", ".join(words + ["missing is a category"] * column.missing)
    words = []
    if column.kind == "text":
        words = [f"{column.components.shape[1]} numbers from its character n-grams"]
        return ", ".join(words + ["an indicator of missing cells"] * column.missing)
    if column.kind == "date":
        words = ["linear trend in days"]
    elif column.kind == "duration":
        words = ["seconds, standardized"]
    elif column.has_number:
        words = [f"standardized{style_words(column.style)}"]
    words += [f"sine and cosine of the {cycle}" for cycle in column.cycles]
    words += ["missing: the median" + " and an indicator" * column.missing] * column.gaps
    return ", ".join(words)


def _format_words(column: Column, tally: ColumnTally) -> str:
    """Return how dates in text are read, and that there is another reading."""
    if not column.format or column.format.startswith("iso"):
        return ""
    other = next((new for old, new in AMBIGUOUS.items() if old in column.format), None)
    changed = column.format.replace("%m/%d/%Y", other) if other else ""
    if not split_kind(tally.given)[1] and changed in (tally.formats or []):
        return f"read as {column.format} (give kinds={{{column.name!r}: 'date:{changed}'}} for the other reading), "
    return f"read as {column.format}, "


def column_messages(survey: Survey) -> list[str]:
    """Return what a user should know about the columns before a fit, one line per subject."""
    messages = []
    named = {kind: [column.name for column in survey.columns if column.kind == kind] for kind in KINDS}
    categories = [column for column in survey.columns if column.kind == "category"]
    if categories:
        counts = (f"{c.name} ({len(c.categories) + c.other + c.missing})" for c in categories)
        messages.append(f"Categories, one-hot encoded: {', '.join(counts)}.")
    merged = [column.name for column in categories if column.other]
    messages += [f"Rare categories are merged into one: {', '.join(merged)}."] if merged else []
    messages += [f"Text, encoded by its character n-grams: {', '.join(named['text'])}."] if named["text"] else []
    dates = [*named["date"], *named["time"], *named["duration"]]
    messages += [f"Dates and times: {', '.join(dates)}."] if dates else []
    gaps = {c.name: _n_missing(c, survey.tallies[c.name]) for c in survey.columns if c.kind in KINDS}
    shown = ", ".join(f"{name} ({count:,})" for name, count in gaps.items() if count)
    messages += [f"Columns with missing cells: {shown}."] if shown else []
    left_out = [f"{c.name} ({c.kind}: {c.reason})" for c in survey.columns if c.kind not in KINDS]
    messages += [f"Left out: {', '.join(left_out)}."] if left_out else []
    if survey.n_without_target:
        messages.append(f"{survey.n_without_target:,} rows have no {survey.table.target} and are left out.")
    if survey.n_equal:
        share = survey.n_equal / max(1, len(survey.sample.keys))
        messages.append(
            f"{survey.n_equal:,} of {len(survey.sample.keys):,} sampled rows ({100 * share:.2g} %) are equal to an "
            f"earlier one; errors on held-out rows are too small if these are copies."
        )
    return messages
