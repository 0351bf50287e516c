# SPDX-License-Identifier: BSD-3-Clause
"""What the commands share: the application, output to a terminal or a pipe, checks of options, error messages."""

import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bochner.rows import ClusterError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bochner {version('bochner')}")
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Data-driven random Fourier features."""


def report_console(width: int = 110) -> Console:
    """Where reports go. A pipe has no width of its own; it gets what the tables need."""
    console = Console() if Console().is_terminal else Console(width=width)
    if console.encoding.startswith("utf"):
        return console
    return Console(width=width, file=io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=True))


def track(
    items: Iterable[Any], description: str, total: int | None = None, console: Console | None = None
) -> Iterator[Any]:
    """The items, with a progress bar in a terminal; silent in a pipe."""
    console = console or Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(items, total=total, description=description)


@contextmanager
def error_messages() -> Iterator[None]:
    """Turn what is wrong with the input, or with a cluster, into one sentence and exit code 2."""
    try:
        yield
    except (ValueError, OSError, ClusterError) as wrong:
        typer.echo(f"Error: {wrong}", err=True)
        raise typer.Exit(2) from None


def check_plots() -> None:
    """Miss what draws the page now, not after the work."""
    if find_spec("matplotlib") is None:
        raise ValueError("The page has plots, which need matplotlib: pip install 'bochner[all]'.")


def check_output(output: Path, *inputs: Path, option: str = "--output") -> None:
    if output.is_dir() or not output.parent.is_dir():
        wrong = "is a folder" if output.is_dir() else "is in a folder that does not exist"
        raise ValueError(f"{option} {output} {wrong}; give the name of a file to write.")
    if any(output.exists() and path.exists() and output.samefile(path) for path in inputs):
        raise ValueError(f"{option} {output} would overwrite what is read; give another name.")
