# SPDX-License-Identifier: BSD-3-Clause
"""Pages: templates filled in, tables, and files that a reader never sees half of."""

import html
import os
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

__all__ = ["fill", "html_table", "write_atomically"]


def fill(template: str, **values: str) -> str:
    """A template of this package with its values; what they share is the style sheet."""
    folder = files("bochner.experiments")
    style = folder.joinpath("style.css").read_text(encoding="utf-8")
    return Template(folder.joinpath(template).read_text(encoding="utf-8")).substitute(values, style=style)


def html_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of text, in a box that scrolls by itself where it is too wide for the page."""
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "\n".join(
        f"<tr><th>{html.escape(first)}</th>{''.join(f'<td>{html.escape(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in lines
    )
    return f'<div class="scroll" tabindex="0"><table class="names">\n<tr>{cells}</tr>\n{body}\n</table></div>'


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
