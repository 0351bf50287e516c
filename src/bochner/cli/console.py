# SPDX-License-Identifier: BSD-3-Clause
"""What the command modules share: the application, common options, checks of outputs, and how a command ends."""

import csv
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
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from typer.core import TyperGroup

from bochner.atomic_files import check_writable
from bochner.progress import show_progress
from bochner.tables.columns import KINDS
from bochner.tables.reader import is_part_of_table
from bochner.tables.table_encoder import TableEncoder

Texts = list[str] | None
Kinds = Annotated[
    Texts,
    typer.Option(
        "--as",
        metavar="COLUMN=KIND,...",
        help=f"What columns are to be taken for: {', '.join(KINDS)}, or a date with its format: day=date:%d/%m/%Y.",
    ),
]
Drop = Annotated[Texts, typer.Option(help="Columns to ignore, separated by commas. The option may be repeated.")]
Decimal = Annotated[
    Literal[".", ","] | None, typer.Option(help="Decimal separator of numbers in text; by default that of each column.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines of text.")]
Missing = Annotated[Texts, typer.Option(metavar="TEXT,...", help="Texts that stand for no value, such as k.A.")]
FileEncoding = Annotated[str, typer.Option("--encoding", help="Character encoding of a CSV file, such as cp1252.")]
OPTIONS = {"kinds": "as", "file_encoding": "encoding"}  # parameters whose options have other names
SHORTEST_TASK = 2.0  # seconds; the progress of shorter tasks is not worth a line in a log


class Commands(TyperGroup):
    """The commands of the application, which end with one line after an error or an interrupt."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the options, which imports more modules."""
        with _one_line_endings():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _one_line_endings():
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


@contextmanager
def _one_line_endings() -> Iterator[None]:
    """Print warnings, errors and interrupts as one line each; exit with 2, or the code that shells give to a signal."""
    # SIGTERM raises an exception as SIGINT does, so that temporary files are deleted.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = lambda message, *details, **options: echo(f"Warning: {message}", err=True)
            yield
    except KeyboardInterrupt as interrupt:
        start = "\n" if sys.stderr.isatty() else ""  # the terminal has written ^C
        typer.echo(f"{start}Stopped.", err=True)
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        raise typer.Exit(128 + number) from None
    except BrokenPipeError:
        _discard_output()
        with suppress(OSError):
            typer.echo("Stopped: the program that reads the output has ended.", err=True)
        raise typer.Exit(128 + signal.SIGPIPE) from None
    except MemoryError as error:
        details = f" ({error})" if str(error) else ""
        echo(f"Error: There is not enough memory{details}; close other programs, or drop columns.", err=True)
        raise typer.Exit(2) from None
    except (ValueError, OSError, ImportError) as error:
        echo(f"Error: {as_options(str(error))}", err=True)
        raise typer.Exit(2) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt(number)


def _discard_output() -> None:
    """Send what is left of standard output nowhere; Python would fail to write it at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report_console(width: int) -> Console:
    """Return the console for reports on standard output; a pipe gets `width` columns and UTF-8."""
    console = Console() if Console().is_terminal else Console(width=width)
    if not console.encoding.startswith("utf"):
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    return console


def echo(text: str, *, err: bool = False) -> None:
    """Print text; control characters in names and cells of a table cannot command the terminal."""
    shown = "".join(character if character.isprintable() or character == "\n" else "?" for character in text)
    typer.echo(shown, err=err)


def comma_separated(values: Texts) -> list[str]:
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


def table_encoder(
    kinds: Texts, drop: Texts, decimal: str | None, missing: Texts, encoding: str, seed: int = 0
) -> TableEncoder:
    """Return the encoder that the options about columns describe.

    Examples
    --------
    >>> from bochner.cli.console import table_encoder
    >>> table_encoder(["zip=category,day=date:%d/%m/%Y"], None, None, None, "utf-8").kinds
    {'zip': 'category', 'day': 'date:%d/%m/%Y'}
    """
    given = {}
    for item in comma_separated(kinds):
        name, equals, kind = item.rpartition("=")
        if not equals:
            raise ValueError(f"--as {item} is not of the form column=kind; write for example --as zip=category.")
        given[name] = kind
    dropped, marks = comma_separated(drop), comma_separated(missing)
    return TableEncoder(
        kinds=given, drop=dropped, decimal=decimal, missing=marks, file_encoding=encoding, random_state=seed
    )


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
        return f"--{OPTIONS.get(found[1], found[1])} {shlex.quote(text)}"

    message = message.replace("use `TableClassifier`", "give --task classification")
    message = message.replace("give fewer folds, or `cv`=None", "omit --model features")
    message = re.sub(r"\b(kinds|missing|drop|file_encoding)=(\{[^{}]*\}|\[[^\[\]]*\]|'[^']*')", option, message)
    return re.sub(r"`(interval|proba|keep|output)`", r"--\1", message)


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
