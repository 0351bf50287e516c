# SPDX-License-Identifier: BSD-3-Clause
"""Numbers in tables that are not broken into lines, and code blocks without empty lines at their ends."""

import re

from docutils import nodes
from sphinx.application import Sphinx

SPACES = re.compile(r" (?=±|%)|(?<=±) |(?<=\d) (?=\+ \d)|(?<=\d \+) (?=\d)")  # as in 1.63 ± 0.02 % and in 6 + 4


def improve(app: Sphinx, document: nodes.document) -> None:
    """Change the text of a page after it was read."""
    for entry in document.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            text.parent.replace(text, nodes.Text(SPACES.sub("\N{NO-BREAK SPACE}", text)))
    for block in document.findall(nodes.literal_block):
        if block.rawsource == block.astext():  # doctest needs an empty line before the end of a Markdown block
            block.rawsource = block.rawsource.rstrip()
            block[:] = [nodes.Text(block.rawsource)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the event."""
    app.connect("doctree-read", improve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
