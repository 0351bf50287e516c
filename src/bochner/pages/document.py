# SPDX-License-Identifier: BSD-3-Clause
"""Pieces of HTML, tables in three formats, and the one template that makes a self-contained page of them."""

import html
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from bochner.atomic_files import replaced_file

if TYPE_CHECKING:
    from rich.table import Table as RichTable

__all__ = [
    *("Table", "bullets", "code", "paragraph", "picture_grid", "quote", "render", "versions", "write_atomically"),
]

PACKAGES = ("bochner", "numpy", "scipy", "scikit-learn")
LARGEST_SCALE = 1.25  # of figures, relative to the size that they were drawn in


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph; `kind` is its class in the style sheet."""
    return f'<p class="{kind}">{html.escape(text, quote=False)}</p>' if text else ""


def quote(text: str) -> str:
    """Return a quotation."""
    return f"<blockquote>{html.escape(text, quote=False)}</blockquote>"


def code(text: str) -> str:
    """Return lines of code."""
    return f"<pre><code>{html.escape(text, quote=False)}</code></pre>"


def bullets(items: Iterable[tuple[str, str, str]]) -> str:
    """Return a list of items: a term in bold, a badge or an empty string, and text."""
    lines = []
    for term, badge, text in items:
        mark = f' <span class="badge {_slug(badge)}">{badge}</span>' if badge else ":"
        lines.append(f"<li><b>{html.escape(term)}</b>{mark} {html.escape(text, quote=False)}</li>")
    return "<ul>\n" + "\n".join(lines) + "\n</ul>"


def picture_grid(pictures: Mapping[str, str]) -> str:
    """Return SVG elements, by their titles, in a grid that fits a screen of any width."""
    kind = "panels pairs" if len(pictures) in (1, 2, 4) else "panels"
    parts = (_figure(title, svg) for title, svg in pictures.items())
    return f'<div class="{kind}">\n' + "\n".join(parts) + "\n</div>"


def _figure(title: str, svg: str) -> str:
    """Return a figure that fills its place, but is not much larger than it was drawn."""
    drawn = re.search(r'<svg[^>]*? width="([\d.]+)pt"', svg)
    limit = f' style="max-width: {LARGEST_SCALE * float(drawn[1]) / 12.0:.1f}rem"' if drawn else ""
    return f'<figure role="img" aria-label="{html.escape(title)}"{limit}>{svg}</figure>'


@dataclass(frozen=True)
class Table:
    """A table of text for a page, a terminal and Markdown.

    Attributes
    ----------
    head : sequence of str
        Titles of the columns.
    lines : sequence of sequences of str
        Cells of each line; the first one names the line.
    title : str
        What the numbers are.
    bold : set of (int, int)
        Line and column numbers of cells in bold.
    ends : set of int
        Numbers of lines that a rule is drawn below.
    """

    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    title: str = ""
    bold: frozenset[tuple[int, int]] = frozenset()
    ends: frozenset[int] = frozenset()

    def html(self, kind: str = "") -> str:
        """Return a table in a box that scrolls where it is wider than the page; `kind` is its style."""
        titles = "".join(f"<th>{html.escape(title)}</th>" for title in self.head)
        body = "\n".join(self._html_line(number, line) for number, line in enumerate(self.lines))
        caption = f"<caption>{html.escape(self.title)}</caption>\n" if self.title else ""
        name = f"scroll {kind}".strip()
        return f'<div class="{name}" tabindex="0"><table>\n{caption}<tr>{titles}</tr>\n{body}\n</table></div>'

    def _html_line(self, number: int, line: Sequence[str]) -> str:
        first, *rest = (html.escape(cell) for cell in line)
        cells = (
            f'<td class="bold">{cell}</td>' if (number, column) in self.bold else f"<td>{cell}</td>"
            for column, cell in enumerate(rest, 1)
        )
        kind = ' class="end"' if number in self.ends else ""
        return f"<tr{kind}><th>{first}</th>{''.join(cells)}</tr>"

    def rich(self) -> "RichTable":
        """Return a table for the terminal."""
        from rich.table import Table as RichTable
        from rich.text import Text as RichText

        table = RichTable(title=self.title)
        for number, title in enumerate(self.head):
            table.add_column(title, justify="right" if number else "left", no_wrap=True)
        for number, line in enumerate(self.lines):
            cells = (
                RichText(cell, "bold" if (number, column) in self.bold else "") for column, cell in enumerate(line)
            )
            table.add_row(*cells, end_section=number in self.ends)
        return table

    def markdown(self) -> str:
        """Return a table with vertical bars."""
        return "\n".join("| " + " | ".join(line) + " |" for line in (self.head, ["---"] * len(self.head), *self.lines))


def render(title: str, lead: str, sections: Mapping[str, str], footer: str, *, answer: str = "", more: str = "") -> str:
    """Return a page as one HTML document that needs no other file.

    Parameters
    ----------
    title, lead : str
        The title, and a line about what the page shows.
    sections : mapping from str to str
        HTML of the sections, by their titles.
    footer : str
        How the page was made.
    answer, more : str
        What the page says in a sentence, in bold, and more sentences.
    """
    links = (f'<a href="#{_slug(name)}">{html.escape(name)}</a>' for name in sections)
    parts = (
        f'<section id="{_slug(name)}">\n<h2>{html.escape(name)}</h2>\n{body}\n</section>'
        for name, body in sections.items()
    )
    return Template(_read("page.html")).substitute(
        title=html.escape(title),
        style=_read("style.css"),
        lead=html.escape(lead),
        answer=paragraph(answer, "answer") + paragraph(more),
        contents=" · ".join(links),
        sections="\n".join(parts),
        footer=html.escape(footer),
    )


def _slug(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _read(name: str) -> str:
    return files("bochner.pages").joinpath(name).read_text(encoding="utf-8")


def versions() -> str:
    """Return the versions of Python and of the packages that results depend on."""
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)])


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a temporary file and rename it, so that a reader never sees part of a file."""
    with replaced_file(path) as temporary:
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
