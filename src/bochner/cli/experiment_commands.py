# SPDX-License-Identifier: BSD-3-Clause
"""`bochner demo`, `compare` and `reproduce`: experiments on kernel approximations."""

import shlex
import sys
from collections.abc import Iterable
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from typer.core import TyperCommand

from bochner.cli.console import app, check_output, check_plots, error_messages, report_console
from bochner.experiments import datasets, formats
from bochner.experiments.comparison import Comparison, check, measure
from bochner.experiments.comparison_page import terminal_tables, write_comparison
from bochner.experiments.report import Summary, terminal_table, write_page
from bochner.experiments.reproduction import PAGE, Reproduction
from bochner.experiments.run import KernelRow, Plan, run_kernel_study
from bochner.experiments.store import Store
from bochner.experiments.studies import ALL, BANDWIDTH, COMPARISON, DEMO, STUDIES, KernelStudy, Study, quick
from bochner.progress import track

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", help="A folder with the data sets; without, they are downloaded.", envvar="BOCHNER_DATA"),
]


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="The page to write.")] = Path("bochner-demo.html"),
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions of every fit.")] = len(DEMO.seeds),
    data: Annotated[
        Path | None, typer.Option(help="A table of yours (.csv, .parquet, .npz) instead of the bundled digits.")
    ] = None,
) -> None:
    """Compare samplers and weightings with Nystroem at equal width: a table here, and one page with the plots."""
    console = report_console()
    with error_messages():
        check_plots()
        check_output(output)
        chosen = datasets.digits() if data is None else _own_table(data, console)
        study = replace(DEMO, seeds=tuple(range(seeds)))
        summary = Summary(study, chosen, _run(study, chosen, console))
        write_page(summary, output)
    console.print(terminal_table(summary))
    console.print(summary.verdict())
    console.print(f"Plots, seeds and versions: {output}", soft_wrap=True)


class _ManyValues(TyperCommand):
    """A command with options that take several values: ``--datasets cpu adult``."""

    options = ("--datasets", "--widths")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        spread: list[str] = []
        many = ""
        prefixes = tuple(f"{option}=" for option in self.options)
        args = [part for word in args for part in (word.split("=", 1) if word.startswith(prefixes) else [word])]
        for word, following in zip(args, [*args, "--"][1:], strict=True):
            if word in self.options and not following.startswith("-"):
                many = word
            elif many and not word.startswith("-") and (many == "--datasets" or word.isdecimal()):
                spread += [many, word]
            else:
                many = ""
                spread.append(word)
        return list(super().parse_args(ctx, spread))


@app.command(cls=_ManyValues)
def compare(
    data: Annotated[
        str, typer.Argument(help=f"A table (.csv, .parquet, .npz), or one of {', '.join(datasets.NAMES)}.")
    ],
    target: Annotated[str | None, typer.Option(help="A column of the table to predict, too.")] = None,
    folder: DataFolder = None,
    widths: Annotated[
        list[int] | None, typer.Option(help="Numbers of columns to compare at; without, 64 and 256.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions of every fit.")] = len(COMPARISON.seeds),
    output: Annotated[Path, typer.Option(help="The page to write.")] = Path("bochner-comparison.html"),
) -> None:
    """Find what to use on your data: Fourier features and Nystroem at equal width, their errors, times and a sentence.

    Fits run one after the other, because their times are shown: minutes, or many where there are many columns.
    """
    console = report_console(width=120)
    with error_messages():
        check_plots()
        check_output(output, Path(data))
        chosen = _named_or_own(data, target, folder, console)
        study = replace(COMPARISON, widths=tuple(sorted(set(widths or COMPARISON.widths))), seeds=tuple(range(seeds)))
        check(study, chosen)
        rows = list(track(measure(study, chosen), "fitting", study.n_measurements))
        comparison = Comparison(study, chosen, rows)
        write_comparison(comparison, output)
    for table in terminal_tables(comparison):
        console.print(table)
    console.print(" ".join(comparison.recommendation()), markup=False, highlight=False)
    console.print(f"Plots, seeds and versions: {output}", soft_wrap=True)


@app.command(cls=_ManyValues)
def reproduce(
    targets: Annotated[
        list[str] | None,
        typer.Argument(help=f"Any of {', '.join(STUDIES)}, or all (the default).", metavar="TARGET"),
    ] = None,
    chosen: Annotated[
        list[str] | None,
        typer.Option("--datasets", help=f"One or more of {', '.join(datasets.NAMES)}; without, the paper's."),
    ] = None,
    data: DataFolder = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Repetitions of every fit; without, 5 (of figure4 20; quick 3).")
    ] = None,
    fast: Annotated[
        bool, typer.Option("--quick", help="The bundled digits (or --datasets), few repetitions: a minute or two.")
    ] = False,
    output: Annotated[Path, typer.Option(help="The folder for the rows, the page and the figures.")] = Path(
        "bochner-results"
    ),
) -> None:
    """Run the experiments of the paper: Table 2 and Figures 1 to 4, ours beside theirs, as one page.

    Every finished fit is stored; a run that was stopped goes on where it was when the same command is given again. The
    page shows what was asked for; fits are shared by all pages made in a folder.
    """
    console = report_console(width=150)
    with error_messages():
        check_plots()
        studies = _studies(targets or ["all"], fast, seeds)
        if output.exists() and not output.is_dir():
            raise ValueError(f"--output {output} is a file; give the name of a folder.")
        needed = [name for name in datasets.NAMES if any(name in study.datasets for study in studies)]
        splits = _splits(chosen or needed, data, console, asked_for=chosen is not None)
        output.mkdir(parents=True, exist_ok=True)
        plan = Plan(studies, splits, quick(BANDWIDTH, BANDWIDTH.seeds) if fast else BANDWIDTH)
        unused = set(splits) - {name for study in studies for name in plan.datasets(study)}
        if unused:
            console.print(f"Not used: what was asked for does not need {', '.join(sorted(unused))}.", highlight=False)
        with Store.open(output / "rows.csv") as store:
            n_stored, n_all = plan.progress(store)
            console.print(
                f"{n_all:,} fits, {n_stored:,} of them stored in {store.path}.", soft_wrap=True, highlight=False
            )
            _run_plan(plan, store, console)
            reproduction = Reproduction(plan, store.rows, shlex.join(["bochner", *sys.argv[1:]]))
            reproduction.write(output)
    reproduction.show(console)
    console.print(f"The page: {output / PAGE}", soft_wrap=True, highlight=False)


def _own_table(path: Path, console: Console, target: str | None = None, *, most: int = 2000) -> datasets.Split:
    y = None
    if target is None:
        X, left_out = formats.read_table(path)
    else:
        X, y, left_out = formats.read_labelled_table(path, target)
    if left_out:
        console.print(f"Left out of {path.name}, not numbers: {', '.join(left_out)}", markup=False)
    return datasets.split(path.name, X, y, most=most)


def _named_or_own(data: str, target: str | None, folder: Path | None, console: Console) -> datasets.Split:
    """The data set of that name, or all rows of the table in that file."""
    if data in datasets.NAMES:
        if target is not None:
            raise ValueError(f"--target {target} is for a table of yours; {data} has its own target, so leave it out.")
        return _splits([data], folder, console, asked_for=True)[data]
    if not Path(data).suffix:
        raise ValueError(f"{data} is neither a table (.csv, .parquet, .npz) nor one of {', '.join(datasets.NAMES)}.")
    return _own_table(Path(data), console, target, most=ALL)


def _run(study: KernelStudy, data: datasets.Split, console: Console) -> list[KernelRow]:
    return list(track(run_kernel_study(study, data), "fitting", study.n_fits))


def _studies(targets: list[str], fast: bool, seeds: int | None) -> list[Study]:
    """The studies of the given names, in the paper's order."""
    unknown = [name for name in targets if name not in STUDIES and name != "all"]
    if unknown:
        raise ValueError(f"{unknown[0]} is not one of {', '.join(STUDIES)} or all.")
    wanted = [study for study in STUDIES.values() if "all" in targets or study.name in targets]
    if fast:
        wanted = [quick(study) for study in wanted]
    return wanted if seeds is None else [replace(study, seeds=tuple(range(seeds))) for study in wanted]


def _splits(
    names: Iterable[str], folder: Path | None, console: Console, *, asked_for: bool
) -> dict[str, datasets.Split]:
    """The data sets; those that are not to be had are named and left out, unless they were asked for."""
    names, splits = list(dict.fromkeys(names)), {}
    unknown = [name for name in names if name not in datasets.NAMES]
    if unknown:
        raise ValueError(f"--datasets {unknown[0]} is not one of {', '.join(datasets.NAMES)}.")
    for name in names:
        try:
            splits[name] = datasets.load(name, folder, track)
        except (ValueError, OSError) as wrong:
            if asked_for:
                raise
            console.print(f"Left out: {wrong}", markup=False, highlight=False)
        else:
            if splits[name].reduced:
                console.print(
                    f"Reduced: {name} has only {splits[name].reduced}; it cannot stand for the paper's.",
                    markup=False,
                    highlight=False,
                )
    if not splits:
        raise ValueError("None of the data sets is here; give a folder that has them with --data, or try --quick.")
    return splits


def _run_plan(plan: Plan, store: Store, console: Console) -> None:
    """Run what is not stored yet, with a bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("fitting", total=plan.total_cost())
        try:
            for cost in plan.run(store):
                progress.advance(task, cost)
        except (KeyboardInterrupt, BrokenProcessPool) as wrong:
            progress.stop()
            broken = isinstance(wrong, BrokenProcessPool)
            why = "A worker was killed, perhaps for want of memory" if broken else "Stopped"
            typer.echo(f"\n{why}. {len(store.rows):,} fits are stored; the same command goes on with them.", err=True)
            raise typer.Exit(1 if broken else 130) from None
