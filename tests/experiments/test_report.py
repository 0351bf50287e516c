# SPDX-License-Identifier: BSD-3-Clause
import html
import re
from dataclasses import replace

import numpy as np
import pytest

from bochner.experiments import paper
from bochner.experiments.methods import LIMIT, NYSTROEM
from bochner.experiments.report import TABLES, Report
from bochner.experiments.run import Plan
from bochner.experiments.studies import COMPARISON
from tests.experiments.browser import needs_chromium, open_page
from tests.experiments.conftest import SMALL_COMPARISON
from tests.experiments.examples import make_findings, make_row, make_split

N_PANELS = 2 + 2 + 2 + 2  # Figures 1 to 4 on one data set


def assert_stands_alone(page):
    assert not re.search(r"(src|href)=.(https?:|//|file:)", page)
    names = re.findall(r'\bid="([^"]*)"', page)
    assert len(names) == len(set(names))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', page)) <= set(names)


@pytest.fixture(scope="module")
def folder(small_report, tmp_path_factory):
    """The files of a reproduction of all studies on small data."""
    folder = tmp_path_factory.mktemp("page")
    small_report.write(folder, paper.TITLE, paper.LEAD, paper.NOTES)
    return folder


class TestReproduction:
    def test_files(self, folder):
        figures = ["figure1", "figure1-tuned", "figure2", "figure3", "figure4"]
        expected = [f"{name}.{kind}" for name in figures for kind in ("png", "svg")]
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            [*expected, "index.html", "results.md", "table2.tex"]
        )

    def test_page_has_everything(self, folder, small_report):
        page = (folder / "index.html").read_text(encoding="utf-8")
        assert_stands_alone(page)
        assert "bochner reproduce &lt;all&gt;" in page
        assert f"numpy {np.__version__}" in page
        assert page.count("<svg") == page.count("<figure") == N_PANELS
        for found in small_report.findings:
            assert html.escape(found.study.claim, quote=False) in page
            for statement in small_report.statements[found.study.name]:
                assert html.escape(statement.sentence, quote=False) in page
        assert "Errors in the paper" in page

    def test_tables_have_the_mean_errors(self, folder, small_run):
        _, store = small_run
        errors = [row.test_error for row in store.rows.values() if (row.study, row.method) == ("table2", "SES")]
        cell = f"{100 * np.mean(errors):.2f}"
        for name in ("index.html", "results.md", "table2.tex"):
            assert cell in (folder / name).read_text(encoding="utf-8")
        latex = (folder / "table2.tex").read_text(encoding="utf-8")
        assert r"\toprule" in latex
        assert "%" not in latex.replace(r"\%", "")

    @pytest.mark.parametrize("name", ["index.html", "results.md"])
    def test_protocol_is_described(self, folder, name):
        text = (folder / name).read_text(encoding="utf-8")
        assert text.count("Seeds 0 to 2. ") == len(paper.STUDIES)
        assert "All training and test rows are used. The model is ridge regression" in text
        assert "The kernel error is the relative Frobenius error on at most 2,000 test rows." in text
        assert "The tuned length scale is the smallest of the powers of four from 0.25 to 4 at which" in text

    @pytest.mark.slow  # draws all figures again
    def test_same_rows_make_the_same_files(self, folder, small_report, tmp_path):
        small_report.write(tmp_path, paper.TITLE, paper.LEAD, paper.NOTES)
        for path in folder.iterdir():
            assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name

    def test_table_2_has_a_line_of_the_paper_and_one_of_ours(self):
        found = make_findings(paper.STUDIES["table2"], lambda _: {"test_error": 0.0333}, name="cpu")
        (table,) = TABLES["table2"](found)
        assert [line[3] for line in table.lines] == ["paper", "ours"]
        assert table.lines[0][4:] == ["3.35", "3.29", "3.29", "3.27", "", ""]
        assert table.lines[1][:3] == ["cpu", "512", "16"]
        assert table.lines[1][4] == "3.33 ± 0.00"


class TestComparison:
    def test_page_has_everything(self, small_comparison):
        _, report = small_comparison
        page = report.page("Which features?", "About features.")
        assert_stands_alone(page)
        assert page.count("<svg") == len(SMALL_COMPARISON.length_scales) + 1
        assert page.count('class="bold"') == 2 * (len(SMALL_COMPARISON.length_scales) + 1)
        assert "(from the time per row)" in page
        assert "Seeds 0 to 1." in page
        assert "ridge regression" in page
        assert f"numpy {np.__version__}" in page
        for method in SMALL_COMPARISON.methods:
            assert page.count(f"<th>{method}</th>") == 2
        assert html.escape(report.summary()[0], quote=False) in page

    def test_lowest_errors_are_bold_and_the_limit_is_not(self):
        errors, test_errors = {"matrix": 0.01, LIMIT: 0.001}, {NYSTROEM: 0.1}

        def outcome(trial):
            return {
                "kernel_error": errors.get(trial.method, 0.9),
                "test_error": test_errors.get(trial.method, 0.9),
                "row_seconds": 1e-6,
            }

        study = replace(COMPARISON, n_frequencies=(8,), seeds=(0, 1))
        (table,) = TABLES["comparison"](make_findings(study, outcome, "noise", task="regression"))
        assert [line[0] for line in table.lines] == list(COMPARISON.methods)
        assert {(table.lines[line][0], table.head[column]) for line, column in table.bold} == {
            ("matrix", "0.5 x median"),
            ("matrix", "1 x median"),
            ("matrix", "2 x median"),
            (NYSTROEM, "test error"),
        }
        assert list(table.lines[-1][4:]) == ["", "", ""]

    def test_one_length_scale_has_one_table(self):
        study = replace(COMPARISON, n_frequencies=(8, 16), length_scales=COMPARISON.length_scales[1:2], seeds=(0,))
        found = make_findings(study, lambda _: {"kernel_error": 0.1, "row_seconds": 1e-6}, "noise", task=None)
        (table,) = TABLES["comparison"](found)
        assert list(table.head) == ["method", "16 columns", "32 columns", "fit, s", "µs per row"]
        assert table.title == "Kernel error in % on 60 held-out rows of noise, one seed"

    def test_errors_of_zero_can_be_drawn(self):
        study = replace(COMPARISON, n_frequencies=(8,), seeds=(0,))
        plan = Plan([study], {"noise": make_split("noise", task=None)})
        outcome = {"kernel_error": 0.0, "fit_seconds": 0.1, "row_seconds": 1e-6}
        rows = {trial: make_row(**vars(trial), **outcome) for trial in plan.trials(study, {})}
        assert "0 % error at 16 columns" in Report(plan, rows, "").page("", "")


@pytest.mark.slow
@needs_chromium
class TestBrowser:
    @pytest.fixture(scope="class", params=["reproduction", "comparison"])
    @classmethod
    def rendered(cls, request, small_report, small_comparison, tmp_path_factory):
        """The page in a browser at two widths: measurements and messages of the console."""
        page = small_report.page(paper.TITLE, paper.LEAD, paper.NOTES)
        if request.param == "comparison":
            page = small_comparison[1].page("Which features to use on noise?", "Features.")
        return open_page(page, tmp_path_factory.mktemp("browser"))

    @pytest.mark.parametrize("width", [1280, 400])
    def test_nothing_overflows(self, rendered, width):
        rendered.check_width(width)

    @pytest.mark.parametrize("width", [1280, 400])
    def test_figures_are_large_enough(self, rendered, width):
        rendered.check_figures(width)
        assert rendered.found[width]["text"] > 2000

    def test_console_is_silent(self, rendered):
        assert rendered.messages == []

    def test_dark_page_is_readable(self, rendered):
        rendered.check_contrast()
