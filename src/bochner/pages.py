# SPDX-License-Identifier: BSD-3-Clause
"""Self-contained pages: pieces of HTML, tables, figures as SVG elements, and templates."""

import platform
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from bochner.atomic_files import replaced_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table as RichTable

__all__ = [
    *("Table", "fill_template", "paragraph", "picture_grid", "slug", "subplots", "svg"),
    *("versions", "write_atomically"),
]

PACKAGES = ("bochner", "numpy", "scipy", "scikit-learn")
LARGEST_SCALE = 1.25  # of figures, relative to the size that they were drawn in


def paragraph(text: str, kind: str = "") -> Markup:
    """Return a paragraph; `kind` is its class in the style sheet."""
    return Markup('<p class="{}">{}</p>').format(kind, text) if text else Markup()


def picture_grid(pictures: Mapping[str, str]) -> Markup:
    """Return SVG elements, by their titles, in a grid that fits a screen of any width."""
    kind = "panels pairs" if len(pictures) in (1, 2, 4) else "panels"
    parts = []
    for title, drawing in pictures.items():
        # A figure fills its place, but is not much larger than it was drawn.
        drawn = re.search(r'<svg[^>]*? width="([\d.]+)pt"', drawing)
        limit = f"max-width: {LARGEST_SCALE * float(drawn[1]) / 12.0:.1f}rem" if drawn else ""
        figure = Markup('<figure role="img" aria-label="{}" style="{}">{}</figure>')
        parts.append(figure.format(title, limit, Markup(drawing)))  # matplotlib escapes the text of a figure
    return Markup('<div class="{}">\n{}\n</div>').format(kind, Markup("\n").join(parts))


@dataclass(frozen=True)
class Table:
    """A table of text for a page and a terminal.

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

    def html(self, kind: str = "") -> Markup:
        """Return a table in a box that scrolls where it is wider than the page; `kind` is its style."""
        return Markup(fill_template("table.html", table=self, kind=kind))

    def rich(self) -> "RichTable":
        """Return a table for the terminal."""
        from rich.table import Table as RichTable
        from rich.text import Text as RichText

        table = RichTable(title=self.title)
        for number, title in enumerate(self.head):
            table.add_column(title, justify="right" if number else "left", no_wrap=True)
        for number, line in enumerate(self.lines):
            styles = ["bold" if (number, column) in self.bold else "" for column in range(len(line))]
            table.add_row(*map(RichText, line, styles), end_section=number in self.ends)
        return table


def fill_template(template: str, /, **values: object) -> str:
    """Return a template with values, which are escaped unless they are `Markup`.

    "page.html" is an HTML document that needs no other file. Its values are a `title`, a `lead` (what the page shows),
    `sections` by their titles, a `footer` (how it was made), and possibly an `answer` in bold and `more` sentences.
    """
    environment = Environment(loader=PackageLoader("bochner", "templates"), autoescape=True, trim_blocks=True)
    environment.filters["slug"] = slug
    style = Markup(files("bochner").joinpath("templates", "style.css").read_text(encoding="utf-8"))
    return environment.get_template(template).render(style=style, versions=versions(), **values)


def slug(title: str) -> str:
    """Return a title as an identifier of HTML."""
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def versions() -> str:
    """Return the versions of Python and of the packages that results depend on."""
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)])


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a temporary file and rename it, so that a reader never sees part of a file."""
    with replaced_file(path) as temporary:
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def svg(figure: "Figure", title: str, *, transparent: bool = True) -> str:
    """Return the figure as an SVG element with a title for screen readers; a page shows through a transparent one."""
    import matplotlib as mpl

    buffer = StringIO()
    # Text stays text, which is smaller and can be read aloud, and browsers have fonts for the characters that
    # matplotlib's font lacks; the salt makes the identifiers reproducible.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Title": title}, transparent=transparent)
    text = buffer.getvalue()
    # A page has several figures, so that each needs its own identifiers.
    prefix = re.sub(r"\W+", "-", title)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", text)
    return text[text.index("<svg") :]


def subplots(n_rows: int, n_columns: int, size: tuple[float, float]) -> tuple["Figure", Any]:
    """Return a figure with a grid of axes."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained", figsize=size)  # without pyplot there is no global state and no window
    return figure, figure.subplots(n_rows, n_columns, squeeze=False)
