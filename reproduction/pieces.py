# SPDX-License-Identifier: BSD-3-Clause
"""Pieces of the page and of its text in Markdown: quotations, lists with badges, tables."""

from collections.abc import Iterable

from markupsafe import Markup

from bochner.pages import Table, slug

__all__ = ["bullets", "markdown", "quote"]


def quote(text: str) -> Markup:
    """Return a quotation."""
    return Markup("<blockquote>{}</blockquote>").format(text)


def bullets(items: Iterable[tuple[str, str, str]]) -> Markup:
    """Return a list of items: a term in bold, a badge or an empty string, and text."""
    lines = []
    for term, badge, text in items:
        mark = Markup(' <span class="badge {}">{}</span>').format(slug(badge), badge) if badge else ":"
        lines.append(Markup("<li><b>{}</b>{} {}</li>").format(term, mark, text))
    return Markup("<ul>\n{}\n</ul>").format(Markup("\n").join(lines))


def markdown(table: Table) -> str:
    """Return a table with vertical bars."""
    lines = (table.head, ["---"] * len(table.head), *table.lines)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
