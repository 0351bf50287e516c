# SPDX-License-Identifier: BSD-3-Clause
"""What the command modules share: the application, the output, checks of options and error messages."""

import csv
import io
import os
import re
import shlex
import signal
import sys
import warnings
from ast import literal_eval
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import current_thread, main_thread
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from bochner.atomic_files import check_writable
from bochner.progress import show_progress
from bochner.tables.columns import KINDS
from bochner.tables.sources import is_part_of_table

Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--as",
        help=f"What a column is to be taken for: {', '.join(KINDS)}, or id to leave it out. A date can have a format: "
        "--as day=date:%d/%m/%Y. Separate several by commas, or repeat the option.",
        metavar="COLUMN=KIND",
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option(help="Columns to ignore, separated by commas. The option may be repeated.")
]
Decimal = Annotated[
    str | None, typer.Option(help="Decimal separator of numbers in text, . or , and by default that of each column.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines of text.")]
Missing = Annotated[
    list[str] | None,
    typer.Option(help="Texts that mean that there is no value, such as k.A., separated by commas.", metavar="TEXT,..."),
]
FileEncoding = Annotated[str, typer.Option("--encoding", help="Character encoding of a CSV file, such as latin-1.")]
OPTIONS = {
    "kinds": "--as",
    "missing": "--missing",
    "drop": "--drop",
    "file_encoding": "--encoding",
    "decimal": "--decimal",
}
SHORTEST_TASK = 2.0  # seconds; the progress of shorter tasks is not worth a line in a log


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM."""


class Commands(TyperGroup):
    """The commands of the application; one that is interrupted ends with one line."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the options, which imports more modules."""
        with stop_messages():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with stop_messages():
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    """Models of tables by kernel methods, and kernel features beside Nystroem."""
    context.with_resource(show_progress(shortest=SHORTEST_TASK))


def report_console(width: int = 110) -> Console:
    """Return the console for reports on standard output; a pipe gets `width` columns and UTF-8."""
    console = _Console() if Console().is_terminal else _Console(width=width)
    if console.encoding.startswith("utf"):
        return console
    return _Console(width=width, file=io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=True))


def echo(text: str, *, err: bool = False) -> None:
    """Print text; control characters in names and cells of a table cannot command the terminal.

    Parameters
    ----------
    text : str
        The text, of one or more lines.
    err : bool, default=False
        Whether to print to standard error.
    """
    typer.echo(
        "".join(character if character.isprintable() or character == "\n" else "?" for character in text), err=err
    )


class _Console(Console):
    """A console that leaves a closed pipe to `stop_messages`."""

    def on_broken_pipe(self) -> None:
        raise  # the error that is being handled


@contextmanager
def error_messages() -> Iterator[None]:
    """Print warnings, and an error of the input or of the machine as one line, and exit with code 2 after an error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = lambda message, *details, **options: echo(f"Warning: {message}", err=True)
            yield
    except BrokenPipeError:
        raise
    except MemoryError as error:
        details = f" ({error})" if str(error) else ""
        message = f"There is not enough memory{details}; close other programs, or drop columns."
        echo(" ".join([f"Error: {message}", *_notes(error)]), err=True)
        raise typer.Exit(2) from None
    except (ValueError, OSError, ImportError) as error:
        echo(" ".join([f"Error: {as_options(str(error))}", *_notes(error)]), err=True)
        raise typer.Exit(2) from None


@contextmanager
def stop_messages() -> Iterator[None]:
    """Print one line when a command is interrupted, and exit with the code that shells give to its signal."""
    try:
        with _sigterm_as_interrupt():
            yield
    except KeyboardInterrupt as error:
        number = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
        start = "\n" if sys.stderr.isatty() else ""  # the terminal has written ^C
        typer.echo(" ".join([f"{start}Stopped.", *_notes(error)]), err=True)
        raise typer.Exit(128 + number) from None
    except BrokenPipeError as error:
        _discard_output()
        with suppress(OSError):
            typer.echo(" ".join(["Stopped: the program that reads the output has ended.", *_notes(error)]), err=True)
        raise typer.Exit(141) from None  # that of SIGPIPE


def _notes(error: BaseException) -> list[str]:
    """Return how to go on, as noted by the command."""
    return getattr(error, "__notes__", [])


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM, so that temporary files are deleted."""
    if current_thread() is not main_thread():
        yield
        return

    def terminate(number: int, frame: Any) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _discard_output() -> None:
    """Send what is left of standard output nowhere; Python would fail to write it at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


def column_kinds(values: list[str] | None) -> dict[str, str]:
    """Return the kinds of columns that the option --as gives.

    Examples
    --------
    >>> from bochner.cli.console import column_kinds
    >>> column_kinds(["zip=category,day=date:%d/%m/%Y"])
    {'zip': 'category', 'day': 'date:%d/%m/%Y'}
    """
    kinds = {}
    for item in comma_separated(values):
        name, equals, kind = item.rpartition("=")
        if not equals:
            raise ValueError(f"--as {item} is not of the form column=kind; write for example --as zip=category.")
        kinds[name] = kind
    return kinds


def as_options(message: str) -> str:
    """Return an error message of the library with options instead of parameters, quoted for the shell.

    Examples
    --------
    >>> from bochner.cli.console import as_options
    >>> as_options("give missing=['k.A.'], or kinds={'zip code': 'category'}")
    "give --missing k.A., or --as 'zip code=category'"
    """

    def option(found: re.Match[str]) -> str:
        try:
            value = literal_eval(found[2])
        except (SyntaxError, ValueError):
            return found[0]
        items = [f"{key}={item}" for key, item in value.items()] if isinstance(value, dict) else value
        text = items if isinstance(items, str) else ",".join(items)
        return f"{OPTIONS[found[1]]} {shlex.quote(text)}"

    message = re.sub(rf"\b({'|'.join(OPTIONS)})=(\{{[^{{}}]*\}}|\[[^\[\]]*\]|'[^']*')", option, message)
    return re.sub(r"`(interval|proba|keep|output|decimal)`", r"--\1", message)


def check_plots() -> None:
    """Check that matplotlib is installed before any work is done."""
    for name in ("matplotlib", "jinja2", "pandas"):
        if find_spec(name) is None:
            raise ValueError(f"The page needs {name}: pip install 'bochner[all]'.")


def check_output(output: Path, *inputs: Path, option: str = "--output", suffix: str = "") -> None:
    """Check that an output file can be written and that no input, now or the next time, is read from it."""
    if output.is_dir() or not output.parent.is_dir():
        problem = "is a folder" if output.is_dir() else "is in a folder that does not exist"
        raise ValueError(f"{option} {output} {problem}; give the name of a file to write.")
    for path in inputs:
        if is_part_of_table(output, path):
            problem = "would overwrite an input file" if output.exists() else f"would become a part of {path}"
            raise ValueError(f"{option} {output} {problem}; give another name.")
    if suffix and output.suffix != suffix:
        raise ValueError(f"{option} {output} must end in {suffix}.")
    if suffix == ".html":
        check_plots()
    check_writable(output)
