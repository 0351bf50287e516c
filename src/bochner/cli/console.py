# SPDX-License-Identifier: BSD-3-Clause
"""What the command modules share: the application, the output, checks of options and error messages."""

import csv
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bochner.progress import show_progress
from bochner.rows import ClusterError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"bochner {version('bochner')}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Data-driven random Fourier features."""
    context.with_resource(show_progress())


def report_console(width: int = 110) -> Console:
    """Return the console for reports on standard output; a pipe gets `width` columns and UTF-8."""
    console = Console() if Console().is_terminal else Console(width=width)
    if console.encoding.startswith("utf"):
        return console
    return Console(width=width, file=io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=True))


@contextmanager
def error_messages() -> Iterator[None]:
    """Print an error of the input or of a cluster as one line and exit with code 2."""
    try:
        yield
    except (ValueError, OSError, ClusterError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None


def comma_separated(values: list[str] | None) -> list[str]:
    """Return the items of an option that takes comma-separated lists and may be repeated.

    Examples
    --------
    >>> from bochner.cli.console import comma_separated
    >>> comma_separated(["a,b", "c"])
    ['a', 'b', 'c']
    >>> comma_separated(['"price, EUR",b'])
    ['price, EUR', 'b']
    """
    return [item for value in values or [] for item in next(csv.reader([value], skipinitialspace=True))]


def check_plots() -> None:
    """Check that matplotlib is installed before any work is done."""
    if find_spec("matplotlib") is None:
        raise ValueError("The page has plots, which need matplotlib: pip install 'bochner[all]'.")


def check_output(output: Path, *inputs: Path, option: str = "--output") -> None:
    """Check that an output file can be written and is not one of the input files."""
    if output.is_dir() or not output.parent.is_dir():
        problem = "is a folder" if output.is_dir() else "is in a folder that does not exist"
        raise ValueError(f"{option} {output} {problem}; give the name of a file to write.")
    if any(output.exists() and path.exists() and output.samefile(path) for path in inputs):
        raise ValueError(f"{option} {output} would overwrite an input file; give another name.")
