# SPDX-License-Identifier: BSD-3-Clause
"""The directive `commands`: the help of every command, from the commands themselves."""

import click
import typer
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from bochner.cli import app as commands


class Commands(Directive):
    """One section per command, those of tables first, with its arguments and options."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        group = typer.main.get_command(commands)
        context = click.Context(group, info_name="bochner")
        modules = {name: group.get_command(context, name).callback.__module__ for name in group.list_commands(context)}
        return [self._section(context, name) for name in sorted(modules, key=modules.__getitem__, reverse=True)]

    def _section(self, parent: click.Context, name: str) -> nodes.section:
        command = parent.command.get_command(parent, name)
        context = click.Context(command, info_name=name, parent=parent)
        section = nodes.section(ids=[f"bochner-{name}"], names=[name])
        section += nodes.title("", f"bochner {name}")
        for text in (command.help or "").split("\n\n"):
            section += _paragraph(" ".join(text.split()))
        rows = [record for parameter in command.params if (record := parameter.get_help_record(context))]
        usage = command.get_usage(context).removeprefix("Usage: ")
        section += nodes.literal_block(usage, usage, language="text")
        items = nodes.definition_list()
        for option, text in rows:
            term = nodes.term("", "", nodes.literal("", option))
            items += nodes.definition_list_item("", term, nodes.definition("", _paragraph(text)))
        section += items
        return section


def _paragraph(text: str) -> nodes.paragraph:
    """Return a paragraph in which words between backticks are code."""
    pieces = enumerate(text.split("`"))
    return nodes.paragraph("", "", *(nodes.literal("", piece) if n % 2 else nodes.Text(piece) for n, piece in pieces))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
