# SPDX-License-Identifier: BSD-3-Clause
"""The command line: `bochner demo`."""

import io
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bochner.experiments import datasets
from bochner.experiments.report import Summary, terminal_table, write_page
from bochner.experiments.run import Row, run_kernel_study
from bochner.experiments.studies import DEMO, KernelStudy

__all__ = ["app"]

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


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="The page to write.")] = Path("bochner-demo.html"),
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions of every fit.")] = len(DEMO.seeds),
    data: Annotated[
        Path | None, typer.Option(help="A table of yours (.csv, .parquet, .npz) instead of the bundled digits.")
    ] = None,
) -> None:
    """Compare samplers and weightings with Nystroem at equal width: a table here, and one page with the plots."""
    # A pipe has no width of its own; the table needs about a hundred columns.
    console = Console() if Console().is_terminal else Console(width=110)
    if not console.encoding.startswith("utf"):
        console = Console(width=110, file=io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=True))
    try:
        if output.is_dir() or not output.parent.is_dir():
            wrong = "is a folder" if output.is_dir() else "is in a folder that does not exist"
            raise ValueError(f"--output {output} {wrong}; give the name of a file to write.")
        chosen = datasets.digits() if data is None else _own_table(data, console)
        study = replace(DEMO, seeds=tuple(range(seeds)))
        summary = Summary(study, chosen, _run(study, chosen, console))
        write_page(summary, output)
    except (ValueError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    console.print(terminal_table(summary))
    console.print(summary.verdict())
    console.print(f"Plots, seeds and versions: {output}", soft_wrap=True)


def _own_table(path: Path, console: Console) -> datasets.Split:
    X, left_out = datasets.read_table(path)
    if left_out:
        console.print(f"Left out of {path.name}, not numbers: {', '.join(left_out)}", markup=False)
    return datasets.split(path.name, X)


def _run(study: KernelStudy, data: datasets.Split, console: Console) -> list[Row]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        return list(progress.track(run_kernel_study(study, data), total=study.n_fits, description="fitting"))
