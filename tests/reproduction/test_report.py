# SPDX-License-Identifier: BSD-3-Clause
import html

import numpy as np
import pytest

from reproduction import paper
from reproduction.report import TABLES
from tests.browser import assert_stands_alone, needs_chromium, open_page
from tests.reproduction.examples import make_findings

N_PANELS = 2 + 2 + 2 + 2  # Figures 1 to 4 on one data set


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
        assert sorted(path.name for path in folder.iterdir()) == sorted([*expected, "index.html", "results.md"])

    def test_page_has_everything(self, folder, small_report):
        page = (folder / "index.html").read_text(encoding="utf-8")
        assert_stands_alone(page)
        assert "python -m reproduction &lt;all&gt;" in page
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
        for name in ("index.html", "results.md"):
            assert cell in (folder / name).read_text(encoding="utf-8")

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


@pytest.mark.slow
@needs_chromium
class TestBrowser:
    @pytest.fixture(scope="class")
    @classmethod
    def rendered(cls, small_report, tmp_path_factory):
        """The page in a browser at two widths: measurements and messages of the console."""
        return open_page(small_report.page(paper.TITLE, paper.LEAD, paper.NOTES), tmp_path_factory.mktemp("browser"))

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
