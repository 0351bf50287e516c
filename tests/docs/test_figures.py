# SPDX-License-Identifier: BSD-3-Clause
"""Measured figures of the pages come from stored results."""

import json
import re

import pytest

import figures

NOT_MEASURED = re.compile(
    r"```.*?```|`[^`]*`|\]\([^)]*\)|Version 0.1.0|Python \d\.\d+|IJCAI\s2017|BSD-3-Clause"
    r"|up to 200,000 rows|reduced to 9,000 rows|kernel error of 2 %|the 60,000 rows of mnist|AUC",
    re.DOTALL,
)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder with one small result file."""
    rows = [{"method": "SVC", "error": 1.634, "seconds": 230}, {"method": "ours", "error": 1.57}]
    (tmp_path / "digits.json").write_text(json.dumps({"about": {}, "rows": rows, "memory": [{"MB": 3}]}))
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", figures.listed())
def test_pages_are_up_to_date(page):
    text = (figures.ROOT / page).read_text(encoding="utf-8")
    assert figures.rendered(text, figures.listed()[page]) == text, "run `make figures`"


@pytest.mark.parametrize("name", figures.PICTURES)
def test_pictures_are_up_to_date(name):
    assert figures.is_current(name), "run `make figures`"


def test_readme_has_no_typed_figure(monkeypatch):
    monkeypatch.setattr(figures, "FUNCTIONS", {name: lambda *_, **__: "" for name in figures.FUNCTIONS})
    text = figures.rendered((figures.ROOT / "README.md").read_text(encoding="utf-8"), figures.listed()["README.md"])
    assert re.findall(r"\d+", NOT_MEASURED.sub("", text)) == []


def test_readme_is_short():
    assert len((figures.ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100


def test_value_and_section(results):
    values = ['value("digits", "error", ".2f", method="SVC")', 'value("digits/memory", "MB")']
    figure = {"page": "a page", "sentence": "SVC: {} %, {} MB", "values": values}
    assert figures.rendered("Of SVC: ?\n%, 17 MB.", [figure]) == "Of SVC: 1.63\n%, 3 MB."
    with pytest.raises(ValueError, match=r"a page has 0 places with 'SVC: .*mend figures.toml"):
        figures.rendered("Of SVR: ? %, 17 MB.", [figure])


def test_table_has_empty_cells_and_bold_minima(results):
    columns = {"method": "", "error": "error, %", "seconds": "s"}
    lines = figures.table("digits", columns, {"error": ".2f"}, best=["error"]).strip().splitlines()
    assert lines == ["|  | error, % | s |", "| --- | --- | --- |", "| SVC | **1.63** | 230 |", "| ours | **1.57** |  |"]


@pytest.mark.parametrize("expression", ['value("digits", "error")', 'value("digits", "error", method="none")', "wrong"])
def test_an_expression_without_one_value_fails(results, expression):
    with pytest.raises(Exception, match=r"rows with|no row|undefined"):
        figures.rendered("error ?", [{"page": "a page", "sentence": "error {}", "values": [expression]}])


def test_summary_and_count(results):
    assert figures.summary("digits", "error", "max", ".2f") == "1.63"
    assert figures.summary("digits", "seconds", "mean", ".1f", over="error", method="SVC") == "140.8"
    assert figures.count("digits") == 2
    assert figures.count("digits", "error", ["seconds"], method="SVC") == 1
    assert figures.count("digits", "seconds", ["error"], method="SVC") == 0


def test_cells_have_standard_errors_and_rows_an_order(results):
    stored = {"rows": [{"width": 8, "error": 0.5, "error_se": 0.01}, {"width": 4, "error": 0.7}]}
    (results / "widths.json").write_text(json.dumps(stored))
    lines = figures.table(
        "widths", {"width": "width", "error": "error"}, {"error": ".2f"}, order=["width"]
    ).splitlines()
    assert lines[2:] == ["| 4 | 0.70 |", "| 8 | 0.50 ± 0.01 |"]


def test_a_list_selects_any_of_its_values(results):
    lines = (
        figures.table("digits", {"method": ""}, order=["error"], method=["SVC", "ours", "none"]).strip().splitlines()
    )
    assert lines[2:] == ["| ours |", "| SVC |"]
