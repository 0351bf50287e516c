# SPDX-License-Identifier: BSD-3-Clause
"""Formulas as MathML, which browsers draw themselves: no script, and nothing is loaded from other sites."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def write_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line of text."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def write_block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula as a paragraph of its own, which scrolls where the page is too narrow for it."""
    writer.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer, for `html_math_renderer = "mathml"`."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
