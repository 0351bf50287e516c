# SPDX-License-Identifier: BSD-3-Clause
"""Pieces of the page and of its text in Markdown."""

from bochner.pages import Table
from reproduction.pieces import bullets, markdown, quote


def test_table_in_markdown():
    table = Table(["a & b", "error %"], [["x", "1 ± 2"], ["y", "<3>"]])
    assert markdown(table) == "| a & b | error % |\n| --- | --- |\n| x | 1 ± 2 |\n| y | <3> |"


def test_lists_have_badges_and_escaped_text():
    items = bullets([("term", "not reproduced", "1 < 2"), ("other", "", "text")])
    assert '<b>term</b> <span class="badge not-reproduced">not reproduced</span> 1 &lt; 2' in items
    assert "<b>other</b>: text" in items


def test_quotations_are_escaped():
    assert quote("a < b") == "<blockquote>a &lt; b</blockquote>"
