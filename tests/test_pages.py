# SPDX-License-Identifier: BSD-3-Clause
import re

import pytest

from bochner.pages import Table, fill_template, paragraph, picture_grid, subplots, svg, write_atomically

TABLE = Table(["a & b", "error %"], [["x", "1 ± 2"], ["y", "<3>"]], "A title", frozenset({(0, 1)}), frozenset({0}))


def test_table_in_html_escapes_text():
    text = TABLE.html()
    assert "<caption>A title</caption>" in text
    assert '<tr class="end"><th>x</th><td class="bold">1 ± 2</td></tr>' in text
    assert "<td>&lt;3&gt;</td>" in text
    assert "<th>a &amp; b</th>" in text


def test_page_escapes_text_and_links_its_sections():
    texts = {"title": "A & B", "lead": "1 < 2", "footer": "end", "answer": "Yes"}
    page = fill_template("page.html", sections={"First part": paragraph("1 < 2")}, **texts)
    assert "<title>bochner: A &amp; B</title>" in page
    assert '<a href="#first-part">First part</a>' in page
    assert '<section id="first-part">' in page
    assert "1 &lt; 2</p>\n</section>" in page
    assert '<p class="answer">Yes</p>' in page


def test_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    (tmp_path / "page.html").write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("bochner.atomic_files.os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(tmp_path / "page.html", "new")
    assert (tmp_path / "page.html").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_figures_are_not_enlarged_much():
    picture = '<svg height="10pt" width="120pt">'
    assert '<figure role="img" aria-label="a &lt; b" style="max-width: 12.5rem">' in picture_grid({"a < b": picture})
    assert '<div class="panels pairs">' in picture_grid({"one": "", "two": ""})
    assert '<div class="panels">' in picture_grid({"one": "", "two": "", "three": ""})


def test_svg_has_a_title_and_its_own_identifiers():
    pytest.importorskip("matplotlib")

    def draw(title):
        figure, axes = subplots(1, 1, (3, 3))
        axes[0, 0].plot([1, 2], label="a line")
        return svg(figure, title)

    texts = [draw(f"Figure {number}: <a>") for number in (1, 1, 2)]
    assert texts[0] == texts[1]
    assert texts[0].startswith("<svg")
    assert "<title>Figure 1: &lt;a&gt;</title>" in texts[0]
    first, second = (set(re.findall(r'\bid="([^"]*)"', text)) for text in texts[1:])
    assert first
    assert not first & second
