# SPDX-License-Identifier: BSD-3-Clause
"""Figures without a window, as SVG elements of a page."""

import re
import warnings
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["subplots", "svg"]


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
