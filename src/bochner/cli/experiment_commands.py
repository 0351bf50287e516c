# SPDX-License-Identifier: BSD-3-Clause
"""`bochner demo`, `compare` and `reproduce`: experiments on kernel approximations."""

import shlex
import sys
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bochner.cli.console import (
    Decimal,
    Drop,
    Kinds,
    Thousands,
    app,
    check_output,
    check_plots,
    column_kinds,
    comma_separated,
    error_messages,
    number_style,
    report_console,
)
from bochner.experiments import datasets, formats, paper
from bochner.experiments.pages import write_atomically
from bochner.experiments.report import PAGE, Report
from bochner.experiments.run import Plan, check_comparison
from bochner.experiments.store import Store
from bochner.experiments.studies import COMPARISON, DEMO, Study
from bochner.progress import progress_bar

N_DEMO_SEEDS, N_SEEDS = len(DEMO.seeds), len(COMPARISON.seeds)
DataFolder = Annotated[
    Path | None,
    typer.Option(help="A folder with the data sets; missing ones are downloaded.", envvar="BOCHNER_DATA"),
]
Page = Annotated[Path, typer.Option("--output", help="The page to write.")]
Seeds = Annotated[int, typer.Option(min=1, help="Repetitions of each fit.")]


@app.command()
def demo(output: Page = Path("bochner-demo.html"), seeds: Seeds = N_DEMO_SEEDS) -> None:
    """Compare Fourier features, landmark features and Nystroem on the bundled digits: a table and a page with plots."""
    console = report_console(width=120)
    with error_messages():
        check_plots()
        check_output(output)
        # Without targets: training linear models would take most of the time.
        digits = replace(datasets.load("digits"), y_train=None, y_test=None, task=None)
        report = _compare(replace(DEMO, seeds=tuple(range(seeds))), digits, output)
    report.show(console)
    console.print(f"The page: {output}", soft_wrap=True, highlight=False)


@app.command()
def compare(
    data: Annotated[
        str,
        typer.Argument(help=f"A table (.csv, .parquet, .npz), or one of {', '.join(datasets.NAMES)}."),
    ],
    target: Annotated[
        str | None, typer.Option(help="A column of the table to predict; prediction errors are then compared too.")
    ] = None,
    data_folder: DataFolder = None,
    widths: Annotated[
        list[str] | None,
        typer.Option(help="Numbers of columns to compare at, separated by commas; 64,256 by default.", metavar="N,..."),
    ] = None,
    kinds: Kinds = None,
    drop: Drop = None,
    decimal: Decimal = ".",
    thousands: Thousands = "",
    seeds: Seeds = N_SEEDS,
    output: Page = Path("bochner-comparison.html"),
) -> None:
    """Recommend features for your data: Fourier features, landmark features and Nystroem, their errors and times.

    Fits run one at a time because their times are reported. It takes minutes, or longer for large widths.
    """
    console = report_console(width=120)
    with error_messages():
        check_plots()
        check_output(output, Path(data))
        sizes = _sizes(widths) or COMPARISON.n_frequencies
        options: dict[str, Any] = {"drop": comma_separated(drop), "kinds": column_kinds(kinds)}
        options["style"] = number_style(decimal, thousands)
        split = _named_or_own(data, target, data_folder, console, options)
        report = _compare(replace(COMPARISON, n_frequencies=sizes, seeds=tuple(range(seeds))), split, output)
    report.show(console)
    console.print(f"The page: {output}", soft_wrap=True, highlight=False)


@app.command()
def reproduce(
    targets: Annotated[
        list[str] | None,
        typer.Argument(help=f"Any of {', '.join(paper.STUDIES)}, or all (the default).", metavar="TARGET"),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--datasets",
            help=f"Data sets, separated by commas: {', '.join(datasets.NAMES)}; those of the paper by default.",
            metavar="NAME,...",
        ),
    ] = None,
    data_folder: DataFolder = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Repetitions of each fit; 5 by default (20 for figure4, 3 with --quick).")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The bundled digits (or --datasets) and few repetitions: a minute or two.")
    ] = False,
    output: Annotated[Path, typer.Option(help="The folder for the rows, the page and the figures.")] = Path(
        "bochner-results"
    ),
) -> None:
    """Run the experiments of the paper: Table 2 and Figures 1 to 4, our results beside the paper's, as one page.

    Each finished fit is stored. Run the same command again to resume a stopped run. The page shows the requested
    studies; all runs with the same output folder share their fits.
    """
    console = report_console(width=150)
    with error_messages():
        check_plots()
        studies = _studies(targets or ["all"], quick, seeds)
        if output.exists() and not output.is_dir():
            raise ValueError(f"--output {output} is a file; give the name of a folder.")
        needed = [name for name in datasets.NAMES if any(name in study.datasets for study in studies)]
        chosen = comma_separated(names)
        splits = _load(chosen or (["digits"] if quick else needed), data_folder, console, required=bool(chosen))
        tuning = paper.quick(paper.BANDWIDTH, paper.BANDWIDTH.seeds) if quick else paper.BANDWIDTH
        plan = Plan(studies, splits, tuning)
        unused = set(splits) - {name for study in studies for name in plan.datasets(study)}
        if unused:
            console.print(f"Not used by these studies: {', '.join(sorted(unused))}.", highlight=False)
        output.mkdir(parents=True, exist_ok=True)
        with Store.open(output / "rows.csv") as store:
            n_stored, n_fits = plan.progress(store)
            message = f"{n_fits:,} fits, of which {n_stored:,} are stored in {store.path}."
            console.print(message, soft_wrap=True, highlight=False)
            _run_stored(plan, store)
            report = Report(plan, store.rows, _command())
            report.write(output, paper.TITLE, paper.LEAD, paper.NOTES)
    report.show(console)
    console.print(f"The page: {output / PAGE}", soft_wrap=True, highlight=False)


def _compare(study: Study, split: datasets.Split, output: Path) -> Report:
    """Run a comparison on a data set and write its page."""
    check_comparison(study, split)
    plan, store = Plan([study], {split.name: split}), Store()
    _run(plan, store)
    report = Report(plan, store.rows, _command())
    lead = "Features that approximate the Gaussian kernel, compared at equal numbers of columns."
    write_atomically(output, report.page(f"Which features to use on {split.name}?", lead))
    return report


def _sizes(widths: list[str] | None) -> tuple[int, ...]:
    """Return the values of M for the option --widths."""
    values = comma_separated(widths)
    for value in values:
        if not value.isdecimal() or int(value) < 2 or int(value) % 2:
            raise ValueError(f"--widths {value} is not an even number of at least 2; each frequency makes two columns.")
    return tuple(sorted({int(value) // 2 for value in values}))


def _named_or_own(
    data: str, target: str | None, folder: Path | None, console: Console, options: dict[str, Any]
) -> datasets.Split:
    """Return the data set of that name, or the table in that file."""
    if data in datasets.NAMES:
        if target is not None:
            raise ValueError(f"--target {target} is only for a table; the data set {data} has its own target.")
        return _load([data], folder, console, required=True)[data]
    path = Path(data)
    if not path.suffix and not path.is_dir():
        raise ValueError(
            f"{data} is neither a table (.csv, .parquet, .npz, ...) nor one of {', '.join(datasets.NAMES)}."
        )
    table = formats.read_table(path, target, **options)
    for message in table.messages:
        console.print(message, markup=False, highlight=False, soft_wrap=True)
    return datasets.split(path.name, table.X, table.y, standardize=not table.is_encoded)


def _studies(targets: list[str], quick: bool, seeds: int | None) -> list[Study]:
    """Return the studies of the given names in the order of the paper."""
    unknown = [name for name in targets if name not in paper.STUDIES and name != "all"]
    if unknown:
        raise ValueError(f"{unknown[0]} is not one of {', '.join(paper.STUDIES)} or all.")
    studies = [study for study in paper.STUDIES.values() if "all" in targets or study.name in targets]
    if quick:
        studies = [paper.quick(study) for study in studies]
    return studies if seeds is None else [replace(study, seeds=tuple(range(seeds))) for study in studies]


def _load(names: Sequence[str], folder: Path | None, console: Console, *, required: bool) -> dict[str, datasets.Split]:
    """Load data sets; those that are not available are reported and left out, unless they are required."""
    unknown = [name for name in names if name not in datasets.NAMES]
    if unknown:
        raise ValueError(f"--datasets {unknown[0]} is not one of {', '.join(datasets.NAMES)}.")
    splits = {}
    for name in dict.fromkeys(names):
        try:
            splits[name] = datasets.load(name, folder)
        except (ValueError, OSError) as error:
            if required:
                raise
            console.print(f"Left out: {error}", markup=False, highlight=False)
            continue
        if splits[name].reduced:
            message = f"Reduced: {name} has only {splits[name].reduced}; its results are not comparable with the paper."
            console.print(message, markup=False, highlight=False)
    if not splits:
        raise ValueError(
            "None of the data sets is available; give a folder that has them with --data-folder, or use --quick."
        )
    return splits


def _run(plan: Plan, store: Store) -> None:
    """Run the trials that are not stored, with a progress bar in a terminal."""
    n_stored, n_fits = plan.progress(store)
    with progress_bar("fitting", n_fits) as advance:
        advance(n_stored)
        for n_finished in plan.run(store):
            advance(n_finished)


def _run_stored(plan: Plan, store: Store) -> None:
    """Run the trials; when they are interrupted, report how to resume."""
    stored = "{:,} fits are stored; run the same command to resume."
    try:
        _run(plan, store)
    except (KeyboardInterrupt, OSError, MemoryError) as error:
        error.add_note(stored.format(len(store.rows)))
        raise
    except BrokenProcessPool:
        reason = "A worker process was killed, perhaps for lack of memory"
        typer.echo(f"{reason}. {stored.format(len(store.rows))}", err=True)
        raise typer.Exit(1) from None


def _command() -> str:
    return shlex.join(["bochner", *sys.argv[1:]])
