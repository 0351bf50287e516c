# SPDX-License-Identifier: BSD-3-Clause
"""Pages: blocks of text, tables and figures, rendered as one self-contained HTML file or as Markdown."""

import html
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Protocol

__all__ = ["Bullet", "Bullets", "Figures", "Page", "Quote", "Section", "Table", "Text", "write_atomically"]


class Block(Protocol):
    """A part of a section."""

    def html(self) -> str:
        """Return the block as HTML."""

    def markdown(self) -> str:
        """Return the block as Markdown."""


@dataclass(frozen=True)
class Text:
    """A paragraph; `kind` is its class in the style sheet."""

    text: str
    kind: str = ""

    def html(self) -> str:
        """Return a paragraph."""
        kind = f' class="{self.kind}"' if self.kind else ""
        return f"<p{kind}>{html.escape(self.text, quote=False)}</p>"

    def markdown(self) -> str:
        """Return the text."""
        return self.text


@dataclass(frozen=True)
class Quote:
    """A quotation."""

    text: str

    def html(self) -> str:
        """Return a block quotation."""
        return f"<blockquote>{html.escape(self.text, quote=False)}</blockquote>"

    def markdown(self) -> str:
        """Return a quoted line."""
        return f"> {self.text}"


@dataclass(frozen=True)
class Bullet:
    """An item of a list: a term in bold, a badge, and text."""

    term: str
    text: str
    badge: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list of items."""

    items: Sequence[Bullet]

    def html(self) -> str:
        """Return an unordered list."""
        lines = [
            f"<li><b>{html.escape(item.term)}</b>{self._badge(item)} {html.escape(item.text, quote=False)}</li>"
            for item in self.items
        ]
        return "<ul>\n" + "\n".join(lines) + "\n</ul>"

    def markdown(self) -> str:
        """Return one line per item."""
        return "\n".join(
            f"- **{item.term}**: {f'{item.badge}. ' if item.badge else ''}{item.text}" for item in self.items
        )

    @staticmethod
    def _badge(item: Bullet) -> str:
        return f' <span class="badge {slug(item.badge)}">{item.badge}</span>' if item.badge else ":"


@dataclass(frozen=True)
class Table:
    """A table of text.

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

    def html(self) -> str:
        """Return a table in a box that scrolls where it is wider than the page."""
        titles = "".join(f"<th>{html.escape(title)}</th>" for title in self.head)
        body = "\n".join(self._line(number, line) for number, line in enumerate(self.lines))
        caption = f"<caption>{html.escape(self.title)}</caption>\n" if self.title else ""
        return f'<div class="scroll" tabindex="0"><table>\n{caption}<tr>{titles}</tr>\n{body}\n</table></div>'

    def _line(self, number: int, line: Sequence[str]) -> str:
        first, *rest = (html.escape(cell) for cell in line)
        cells = (
            f'<td class="bold">{cell}</td>' if (number, column) in self.bold else f"<td>{cell}</td>"
            for column, cell in enumerate(rest, 1)
        )
        kind = ' class="end"' if number in self.ends else ""
        return f"<tr{kind}><th>{first}</th>{''.join(cells)}</tr>"

    def markdown(self) -> str:
        """Return a table with vertical bars."""
        lines = ["| " + " | ".join(line) + " |" for line in (self.head, ["---"] * len(self.head), *self.lines)]
        return "\n".join([self.title, ""] * bool(self.title) + lines)

    def latex(self) -> str:
        """Return a tabular environment for the package booktabs."""
        escape = str.maketrans({"%": r"\%", "&": r"\&", "_": r"\_", "±": r"$\pm$"})
        lines = []
        for number, line in enumerate(self.lines):
            lines.append(" & ".join(cell.translate(escape) for cell in line) + r" \\")
            if number in self.ends and number < len(self.lines) - 1:
                lines.append(r"\midrule")
        titles = " & ".join(title.translate(escape) for title in self.head) + r" \\"
        start = rf"\begin{{tabular}}{{l{'r' * (len(self.head) - 1)}}}"
        return "\n".join([start, r"\toprule", titles, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}", ""])


@dataclass(frozen=True)
class Figures:
    """Pictures: SVG elements by their titles, and the names of the files that hold them."""

    pictures: Sequence[tuple[str, str]]
    files: Sequence[str] = ()

    def html(self) -> str:
        """Return the pictures in a grid that fits a screen of any width."""
        pictures = [
            f'<figure role="img" aria-label="{html.escape(title)}">{picture}</figure>'
            for title, picture in self.pictures
        ]
        kind = "panels" if len(pictures) % 3 == 0 else "panels pairs"
        return f'<div class="{kind}">\n' + "\n".join(pictures) + "\n</div>"

    def markdown(self) -> str:
        """Return links to the files."""
        return "\n\n".join(f"![{name}]({name}.svg)" for name in self.files)


@dataclass(frozen=True)
class Section:
    """A section of a page."""

    title: str
    blocks: Sequence[Block]

    def html(self) -> str:
        """Return a section with a heading."""
        blocks = "\n".join(block.html() for block in self.blocks)
        return f'<section id="{slug(self.title)}">\n<h2>{html.escape(self.title)}</h2>\n{blocks}\n</section>'

    def markdown(self) -> str:
        """Return a heading and the blocks."""
        return "\n\n".join([f"## {self.title}", *(text for block in self.blocks if (text := block.markdown()))])


@dataclass(frozen=True)
class Page:
    """A page: a title, a line about what it shows, the answer in bold, more sentences, sections and a footer."""

    title: str
    lead: str
    sections: Sequence[Section]
    footer: str
    answer: str = ""
    more: str = ""
    contents: bool = field(default=False)

    def html(self) -> str:
        """Return the page as one HTML document that needs no other file."""
        links = (f'<a href="#{slug(section.title)}">{html.escape(section.title)}</a>' for section in self.sections)
        texts = [Text(self.answer, "answer")] * bool(self.answer) + [Text(self.more)] * bool(self.more)
        return Template(_read("page.html")).substitute(
            title=html.escape(self.title),
            style=_read("style.css"),
            lead=html.escape(self.lead, quote=False),
            answer="\n".join(text.html() for text in texts),
            contents=f"<nav>{' · '.join(links)}</nav>" if self.contents else "",
            sections="\n".join(section.html() for section in self.sections),
            footer=html.escape(self.footer, quote=False),
        )

    def markdown(self) -> str:
        """Return the page as Markdown."""
        parts = [f"# {self.title}", self.lead, self.answer, self.more]
        parts += [section.markdown() for section in self.sections]
        return "\n\n".join(part for part in (*parts, self.footer) if part) + "\n"


def slug(title: str) -> str:
    """Return a title as a name in HTML."""
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _read(name: str) -> str:
    return files("bochner.experiments").joinpath(name).read_text(encoding="utf-8")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a temporary file and rename it, so that a reader never sees part of a file."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
