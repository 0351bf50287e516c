# SPDX-License-Identifier: BSD-3-Clause
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bochner.tables.description import column_messages, describe, possible_leaks, table_warnings
from bochner.tables.reader import Table
from bochner.tables.survey import Survey
from tests.tables.models import make_frame, make_targets

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
    return Survey(Table(pa.table(COLUMNS), "y", drop=["unused", "id"]))


def test_every_column_is_described(surveyed):
    described = {column["name"]: column for column in describe(surveyed)}
    assert list(described) == list(COLUMNS)
    treatments = {
        "size": "standardized, missing: the median and an indicator",
        "color": "one-hot encoded: 2 categories, missing is a category",
        "code": "30 numbers from its character n-grams",
        "when": "linear trend in days, sine and cosine of the year, sine and cosine of the week, "
        "sine and cosine of the day",
        "wait": "seconds, standardized",
        "ok": "standardized",
        "big": "standardized",
        "id": "left out: as requested",
        "unused": "left out: as requested",
        "y": "target: numbers; 3 rows without it are left out",
    }
    assert {name: described[name]["treatment"] for name in treatments} == treatments
    assert described["pairs"]["treatment"].startswith("refused: it contains cells of type list")
    kinds = ["number", "category", "text", "date", "duration", "boolean", "number", "dropped", "unsupported", "dropped"]
    assert [column["kind"] for column in described.values()] == [*kinds, "number"]


def test_counts_and_examples(surveyed):
    size, color, code, *_ = describe(surveyed)
    assert (size["missing"], size["distinct"], size["distinct_is_exact"]) == (20, 17, True)
    assert (color["missing"], color["distinct"], color["examples"]) == (5, 2, ["red", "blue"])
    assert (code["distinct"], code["examples"]) == (130, ["c3", "c4", "c5"])  # of rows with a target
    assert size["examples"][0] == "1.5"


def test_problems_are_those_of_a_fit(surveyed):
    with pytest.raises(ValueError, match="the table: column 'pairs' contains cells of type list"):
        surveyed.check()


def test_messages_before_a_fit(surveyed):
    assert column_messages(surveyed) == [
        "Categories, one-hot encoded: color (3).",
        "Text, encoded by its character n-grams: code.",
        "Dates and times: when, wait.",
        "Columns with missing cells: size (20), color (5).",
        "3 rows have no y and are left out.",
    ]


def test_equal_rows_are_counted():
    survey = Survey(Table(pa.table({"x": [1.0, 2.0, 1.0, None, None], "y": [0, 1, 0, 1, 1]}), "y"))
    assert survey.n_equal == 2
    assert "2 of 5 sampled rows (40 %) are equal to an earlier one" in table_warnings(survey)[-1]


def test_leaks_are_named():
    frame = make_frame()
    y, labels = make_targets(frame)
    assert possible_leaks(Survey(Table(frame.assign(y=y, double=2 * y + 1), "y"))) == ["double"]
    copied = frame.assign(label=labels, copy=np.where(labels == "high", "H", "L"))
    assert possible_leaks(Survey(Table(copied, "label"))) == ["copy"]


def test_empty_names_are_quoted():
    survey = Survey(
        Table(pa.table({"": range(60), "x": [i % 7 for i in range(60)], "y": [i % 7 for i in range(60)]}), "y")
    )
    assert table_warnings(survey)[0] == "No value occurs twice: ''. Drop such a column if it is an identifier."


def test_identifiers_are_named():
    columns = {"id": range(500, 600), "key": [f"K{i}" for i in range(100)], "size": [i * i for i in range(100)]}
    survey = Survey(Table(pd.DataFrame(columns | {"color": ["red", "blue"] * 50})))
    assert table_warnings(survey) == [
        "No value occurs twice: id, key. Drop such a column if it is an identifier.",
    ]


def test_merged_categories_are_counted():
    survey = Survey(Table(pa.table({"code": [f"c{i % 50}" for i in range(3000)] + [f"d{i}" for i in range(100)]})))
    assert describe(survey)[0]["treatment"] == "one-hot encoded: 50 most frequent of 150 categories, and other"
    assert "Rare categories are merged into one: code." in column_messages(survey)


def test_many_codes_are_named_as_codes():
    """They are encoded by their n-grams, which predict better than the most frequent codes."""
    codes = pa.table({"zip": [f"{(37 * i) % 701:05}" for i in range(1400)]})
    assert describe(Survey(Table(codes)))[0]["treatment"] == (
        "codes with leading zeros, 30 numbers from its character n-grams"
    )


def test_other_reading_of_ambiguous_dates_is_named():
    table = Table(pa.table({"day": [f"{1 + i % 12}/{1 + i % 11}/2021" for i in range(100)]}))
    treatment = describe(Survey(table))[0]["treatment"]
    assert treatment.startswith("read as %m/%d/%Y (give kinds={'day': 'date:%d/%m/%Y'} for the other reading), linear")


def test_distinct_values_of_many_rows_are_those_of_the_sample(monkeypatch):
    monkeypatch.setattr("bochner.tables.survey.SAMPLE_ROWS", 1000)
    table = Table(pa.table({"x": [i / 7 for i in range(3000)], "color": ["red", "blue"] * 1500}))
    x, color = describe(Survey(table))
    assert (x["distinct"], x["distinct_is_exact"]) == (1000, False)
    assert (color["distinct"], color["distinct_is_exact"]) == (2, True)


def test_cells_are_shortened_and_printable():
    table = Table(pa.table({"x": ["a" * 100, "line\nbreak", "\x1b[31mred"] * 10}))
    examples = describe(Survey(table))[0]["examples"]
    assert examples == ["a" * 29 + "…", r"line\nbreak", r"\x1b[31mred"]
