# SPDX-License-Identifier: BSD-3-Clause
"""Pages: templates filled in, tables, and files that a reader never sees half of."""

import html
import os
import tempfile
from collections.abc import Collection, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

__all__ = ["fill", "html_table", "write_atomically"]


def fill(template: str, title: str, **values: str) -> str:
    """A template of this package with its values, in the frame and the style that all pages share."""
    body = Template(_text(template)).substitute(values)
    return Template(_text("frame.html")).substitute(title=html.escape(title), style=_text("style.css"), body=body)


def _text(name: str) -> str:
    return files("bochner.experiments").joinpath(name).read_text(encoding="utf-8")


def html_table(
    head: Sequence[str], lines: Sequence[Sequence[str]], bold: Collection[tuple[int, int]] = frozenset()
) -> str:
    """A table of text, in a box that scrolls by itself where it is too wide for the page.

    `bold` has the numbers of the line and of the column of cells that stand out.
    """

    def cell(line: int, column: int, text: str) -> str:
        kind = ' class="bold"' if (line, column) in bold else ""
        return f"<td{kind}>{html.escape(text)}</td>"

    titles = "".join(f"<th>{html.escape(title)}</th>" for title in head)
    body = "\n".join(
        f"<tr><th>{html.escape(first)}</th>{''.join(cell(i, j, text) for j, text in enumerate(rest, 1))}</tr>"
        for i, (first, *rest) in enumerate(lines)
    )
    return f'<div class="scroll" tabindex="0"><table class="names">\n<tr>{titles}</tr>\n{body}\n</table></div>'


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside the target and rename, so that a reader never sees half a file."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
