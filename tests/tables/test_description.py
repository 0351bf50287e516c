# SPDX-License-Identifier: BSD-3-Clause
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from bochner.tables.description import column_messages, describe
from bochner.tables.file_table import FileTable
from bochner.tables.survey import Survey

N_ROWS = 200
COLUMNS = {
    "size": [None if i % 10 == 0 else i % 17 / 2 for i in range(N_ROWS)],
    "color": [None if i < 5 else "red" if i % 3 else "blue" for i in range(N_ROWS)],
    "code": [f"c{i % 130}" for i in range(N_ROWS)],
    "when": [datetime(2020, 1, 1) + timedelta(hours=5 * i) for i in range(N_ROWS)],
    "wait": [timedelta(seconds=i % 13) for i in range(N_ROWS)],
    "ok": [i % 2 == 0 for i in range(N_ROWS)],
    "big": [2**60 + 7 * i * i for i in range(N_ROWS)],
    "id": list(range(N_ROWS)),
    "pairs": [[1, 2]] * N_ROWS,
    "unused": [0.5] * N_ROWS,
    "y": [None if i < 3 else i / 7 for i in range(N_ROWS)],
}


@pytest.fixture(scope="module")
def surveyed():
    table = FileTable(pa.table(COLUMNS), "y", drop=["unused"], kinds={"id": "id"})
    return table, table.survey(Survey.of(table, 0))


def test_every_column_is_described(surveyed):
    described = {column.name: column for column in describe(*surveyed).columns}
    assert list(described) == list(COLUMNS)
    treatments = {
        "size": "standardized, missing: the median and an indicator",
        "color": "one-hot encoded: 2 categories, missing is a category",
        "code": "left out: no value occurs in 10 rows or more",
        "when": "linear trend in days, sine and cosine of the year, sine and cosine of the week, "
        "sine and cosine of the day",
        "wait": "seconds, standardized",
        "ok": "standardized",
        "big": "standardized",
        "id": "left out: as given",
        "unused": "left out: as requested",
        "y": "target; 3 rows without it are left out",
    }
    assert {name: described[name].treatment for name in treatments} == treatments
    assert described["pairs"].treatment.startswith("refused: it contains cells of type list")
    kinds = ["number", "category", "text", "date", "duration", "boolean", "number", "id", "unsupported", "dropped"]
    assert [column.kind for column in described.values()] == [*kinds, "number"]


def test_counts_and_examples(surveyed):
    size, color, code, *_ = describe(*surveyed).columns
    assert (size.missing, size.distinct, size.distinct_is_exact) == (20, 17, True)
    assert (color.missing, color.distinct, color.examples) == (5, 2, ["red", "blue"])
    assert (code.distinct, code.examples) == (130, ["c3", "c4", "c5"])  # of rows with a target
    assert size.examples[0] == "1.5"


def test_problems_are_those_of_a_fit(surveyed):
    table, survey = surveyed
    problems = describe(table, survey).problems
    assert len(problems) == 1
    assert problems[0].startswith("the table: column 'pairs' contains cells of type list")
    with pytest.raises(ValueError, match="column 'pairs' contains cells of type list"):
        survey.check(table)


def test_messages_before_a_fit(surveyed):
    assert column_messages(*surveyed) == [
        "Text columns, one-hot encoded: color (3 categories).",
        "Dates and times: when, wait.",
        "Columns with missing cells: size (20), color (5).",
        "Left out: code (text: no value occurs in 10 rows or more), id (id: as given). Use --as to keep one.",
        "3 rows have no y and are left out.",
    ]


def test_merged_categories_are_counted():
    values = [f"c{i % 150}" for i in range(3000)]
    table = FileTable(pa.table({"code": values}))
    survey = table.survey(Survey.of(table, 0))
    column = describe(table, survey).columns[0]
    assert column.treatment == "one-hot encoded: the 99 most frequent of 150 categories, and other"
    assert "Rare categories are merged into one: code." in column_messages(table, survey)


def test_other_reading_of_ambiguous_dates_is_named():
    table = FileTable(pa.table({"day": [f"{1 + i % 12}/{1 + i % 11}/2021" for i in range(100)]}))
    treatment = describe(table, table.survey(Survey.of(table, 0))).columns[0].treatment
    assert treatment.startswith("read as %m/%d/%Y (use --as 'day=date:%d/%m/%Y' for the other reading), linear trend")


def test_distinct_values_of_many_rows_are_those_of_the_sample(monkeypatch):
    monkeypatch.setattr("bochner.tables.survey.SAMPLE_ROWS", 1000)
    table = FileTable(pa.table({"x": [i / 7 for i in range(3000)], "color": ["red", "blue"] * 1500}))
    x, color = describe(table, table.survey(Survey.of(table, 0))).columns
    assert (x.distinct, x.distinct_is_exact) == (1000, False)
    assert (color.distinct, color.distinct_is_exact) == (2, True)


def test_cells_are_shortened_and_printable():
    table = FileTable(pa.table({"x": ["a" * 100, "line\nbreak", "\x1b[31mred"] * 10}))
    examples = describe(table, table.survey(Survey.of(table, 0))).columns[0].examples
    assert examples == ["a" * 29 + "…", r"line\nbreak", r"\x1b[31mred"]
