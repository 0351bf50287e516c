# SPDX-License-Identifier: BSD-3-Clause
"""The page of the benchmark on tables, from results written here."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from tabular.methods import METHODS
from tabular.page import STYLE, _place_labels, best_of_ours, error_tables, markdown, page, ratio_table
from tabular.results import Result, Summary

ERRORS = {
    "casp": {"boosting": 0.6, "svm": 0.62, "isotropic-256": 0.9, "learn-256": 0.7},
    "grid": {"boosting": 0.5, "isotropic-256": 0.6, "learn-256": 0.25},
    "letter": {"boosting": 0.1, "isotropic-256": 0.2, "learn-256": 0.101},
}


@pytest.fixture
def summary() -> Summary:
    results = [
        Result(table, method, 0, "classes" if table == "letter" else "regression", 75, 25, 3, error, 12.0, "Python 3")
        for table, errors in ERRORS.items()
        for method, error in errors.items()
    ]
    return Summary(results, list(METHODS))


def test_errors_have_the_lowest_in_bold(summary: Summary) -> None:
    regression, classes = error_tables(summary, with_seconds=False)
    assert regression.lines == [
        ["casp", "0.600", "0.620", "0.900", "0.700"],
        ["grid", "0.500", "not run", "0.600", "0.250"],
    ]
    assert regression.bold == {(0, 1), (1, 4)}
    assert classes.lines == [["letter", "10.0 %", "not run", "20.0 %", "10.1 %"]]
    assert "| **0.600** | 0.620 | 0.900 | 0.700 |" in markdown(summary)


def test_page_says_where_boosting_is_ahead(summary: Summary) -> None:
    assert best_of_ours(summary) == "learn-256"
    text = page(summary)
    assert "is more accurate than boosting on 1 of 3 tables, equal within 2 % on 1, and less accurate on 1." in text
    assert "<b>casp</b>: boosting 0.600, learn-256 0.700, 17 % higher." in text
    assert "<b>grid</b>: boosting 0.500, learn-256 0.250, 50 % lower." in text
    assert "svm (1 of 3 tables)" in text
    assert "12 s</small>" in text


def test_ratios_leave_out_methods_that_were_not_run(summary: Summary) -> None:
    names = [line[0] for line in ratio_table(summary).lines]
    assert names == ["learn-256 / isotropic-256", "learn-256 / boosting"]


def test_every_method_has_its_own_marker() -> None:
    assert list(STYLE) == list(METHODS)
    assert len({marker for _, marker in STYLE.values()}) == len(METHODS)


def test_labels_of_close_points_do_not_overlap() -> None:
    ax = Figure(figsize=(9, 5)).subplots()
    points = np.column_stack([np.geomspace(1.0, 1.5, 6), np.linspace(4.0, 4.3, 6)])
    ax.set(xscale="log", xlim=(0.1, 100.0), ylim=(10.0, 0.0))
    _place_labels(ax, [f"method-{number}" for number in range(6)], points)
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    pixels = ax.transData.transform(points)
    assert not any(box.contains(*pixel) for box in boxes for pixel in pixels)
