# SPDX-License-Identifier: BSD-3-Clause
"""The command line: `bochner demo`, `compare`, `reproduce`, `fit`, `predict` and `error`."""

import io
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from glob import has_magic
from importlib.metadata import version
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from typer.core import TyperCommand

from bochner import models
from bochner.clusters import LOCAL, open_cluster
from bochner.engines import ClusterError
from bochner.experiments import datasets, formats
from bochner.experiments.comparison import Comparison, check, measure
from bochner.experiments.comparison_page import terminal_tables, write_comparison
from bochner.experiments.model_page import figures, relevances, write_model_page
from bochner.experiments.report import Summary, terminal_table, write_page
from bochner.experiments.reproduction import PAGE, Reproduction
from bochner.experiments.run import KernelRow, Plan, run_kernel_study
from bochner.experiments.store import Store
from bochner.experiments.studies import ALL, BANDWIDTH, COMPARISON, DEMO, STUDIES, KernelStudy, Study, quick
from bochner.kernels import KERNELS
from bochner.parquet_folders import ParquetFolder
from bochner.svm_head import FourierSVC
from bochner.tables import Table
from bochner.weights import positive_values

__all__ = ["app"]

CHECKPOINT_SECONDS = 5.0
MOST_LISTED = 8  # columns with their relevances in a report
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
Model = Annotated[Path, typer.Argument(help="A model file of `bochner fit`.")]
DataFolder = Annotated[
    Path | None,
    typer.Option("--data", help="A folder with the data sets; without, they are downloaded.", envvar="BOCHNER_DATA"),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")]


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
    console = _console()
    with _sentences():
        _check_plots()
        _check_output(output)
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
    console = _console(width=120)
    with _sentences():
        _check_plots()
        _check_output(output, Path(data))
        chosen = _named_or_own(data, target, folder, console)
        study = replace(COMPARISON, widths=tuple(sorted(set(widths or COMPARISON.widths))), seeds=tuple(range(seeds)))
        check(study, chosen)
        rows = list(_track(measure(study, chosen), "fitting", study.n_measurements, console))
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
    console = _console(width=150)
    with _sentences():
        _check_plots()
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


class _OptionalAddress(TyperCommand):
    """A command whose ``--dask`` may go without a value: it is then followed by another option, or by nothing."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        followed = zip(args, [*args, "--"][1:], strict=True)
        args = [f"--dask={LOCAL}" if word == "--dask" and next_.startswith("-") else word for word, next_ in followed]
        return list(super().parse_args(ctx, args))


def _check_address(address: str | None) -> str | None:
    """Notice a table that was taken for an address, before the table is missed."""
    with _sentences():
        if address not in (None, LOCAL) and not re.fullmatch(r"(\w+://)?[^/\s]+:\d+", str(address)):
            raise ValueError(
                f"--dask {address} is not the address of a scheduler such as tcp://host:8786; put the table before "
                f"--dask."
            )
    return address


@app.command(cls=_OptionalAddress)
def fit(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="A table: a .parquet or .csv file of any size; with --dask a folder or a quoted pattern of .parquet "
            "files, too.",
            metavar="DATA",
        ),
    ],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    output: Annotated[Path, typer.Option(help="The model file to write.")] = Path("model.skops"),
    head: Annotated[
        Literal["ridge", "svm"], typer.Option(help="One pass over the table, or the paper's SVM: several passes.")
    ] = "ridge",
    task: Annotated[
        Literal["auto", "regression", "classification"], typer.Option(help="What the target is; auto looks at it.")
    ] = "auto",
    kernel: Annotated[str, typer.Option(help=f"One of {', '.join(KERNELS)}.")] = "gaussian",
    n_frequencies: Annotated[int, typer.Option(min=1, help="Frequencies; each makes two features.")] = 256,
    length_scale: Annotated[
        list[float] | None,
        typer.Option(
            help="In units of the median distance, or of the learned ones; several are chosen from. [default: 1]"
        ),
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Learn a length scale for each column from the target: which ones matter.")
    ] = False,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the frequencies and of the sample of rows.")] = 0,
    page: Annotated[
        Path | None, typer.Option(help="An HTML page to write about the model, with --learn's plot.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Train on the cluster of that scheduler, or without an address on all cores of this computer.",
            metavar="[ADDRESS]",
            callback=_check_address,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train on a table and write a model file: columns standardised, text one column a category, penalty chosen."""
    say = _voice(as_json)
    with _sentences():
        path = _only(data)
        _check_output(output, path)
        if output.suffix != ".skops":
            raise ValueError(f"--output {output} must end in .skops.")
        if page is not None:
            _check_plots()
            _check_output(page, path, option="--page")
            if page.suffix != ".html":
                raise ValueError(f"--page {page} must end in .html.")
        if kernel not in KERNELS:
            raise ValueError(f"--kernel {kernel} is not one of {', '.join(KERNELS)}.")
        scales = positive_values("--length-scale", length_scale or [1.0]).tolist()
        settings = models.Settings(head, task, kernel, n_frequencies, scales, seed, learn)
        if dask is None:
            fitted = _fit_file(_file(path, target, drop or ()), settings, output, resume, say)
        else:
            fitted = _fit_on_cluster(_files(path, target, drop or (), resume), settings, output, dask, say)
        report = _report(*fitted, output)
        if page is not None:
            write_model_page(fitted[0], report, page, learned=learn)
    _answer(report, as_json)


@app.command()
def predict(
    model: Model,
    data: Annotated[Path, typer.Argument(help="A table with the columns that the model was trained on.")],
    output: Annotated[Path, typer.Option(help="The .csv or .parquet file to write.")] = Path("predictions.csv"),
    std: Annotated[
        bool, typer.Option("--std", help="Add the standard deviation of a regression's predictions.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Predict the target for every row of a table."""
    with _sentences():
        _check_output(output, model, data)
        loaded = _model(model)
        n_rows = models.write_predictions(loaded, data, output, _track, deviations=std)
    _answer({"rows": n_rows, "target": loaded.target, "output": str(output)}, as_json)


@app.command()
def error(
    model: Model,
    data: Annotated[Path, typer.Argument(help="A table, with the target for the prediction error.")],
    as_json: Json = False,
) -> None:
    """Measure a model on a table: the error of its kernel, and of its predictions if the table has the target."""
    with _sentences():
        scores = models.score(_model(model), data, _track)
    low, high = scores.kernel_error.low, scores.kernel_error.high
    report = {"rows": scores.n_rows, **scores.measures, "kernel_error": scores.kernel_error.error}
    _answer(report | {"kernel_error_low": low, "kernel_error_high": high}, as_json)


def _only(data: list[Path]) -> Path:
    """The table, if it is one."""
    if len(data) > 1:
        raise ValueError(
            f"{data[0]} and {data[1]} are more than one table; give a pattern of Parquet files in quotes, as "
            f"'data/*.parquet', together with --dask."
        )
    return data[0]


def _file(path: Path, target: str, drop: Sequence[str]) -> Table:
    """A table in one file."""
    is_pattern = not path.exists() and has_magic(str(path))
    if path.is_dir() or is_pattern:
        raise ValueError(
            f"{path} is a {'pattern' if is_pattern else 'folder'}; give one file, or --dask to read Parquet files "
            f"together."
        )
    return Table(path, target, drop)


def _files(path: Path, target: str, drop: Sequence[str], resume: bool) -> ParquetFolder:
    """A table in one or many files, for Dask."""
    if find_spec("dask") is None or find_spec("distributed") is None:
        raise ValueError("--dask needs Dask: pip install 'bochner[dask]'.")
    if resume:
        raise ValueError("--resume is for one file: a cluster's training is not stored in between; leave it out.")
    return ParquetFolder(path, target, drop)


def _fit_file(
    table: Table, settings: models.Settings, output: Path, resume: bool, say: Callable[[str], None]
) -> tuple[models.TableModel, models.TableTraining, float]:
    """Train on one file and store the model; also what it was made by, and the seconds that it took."""
    partial = output.with_name(output.name + ".partial")
    training = _resumed(partial, table, settings, say) if resume else models.Training.of(table, settings)
    begin = monotonic()
    for sentence in training.run(table, _track, _checkpoint(partial)):
        say(sentence)
    model = training.model(table)
    models.save(model, output)
    partial.unlink(missing_ok=True)
    return model, training, monotonic() - begin


def _fit_on_cluster(
    table: ParquetFolder, settings: models.Settings, output: Path, address: str, say: Callable[[str], None]
) -> tuple[models.TableModel, models.TableTraining, float]:
    """Train by Dask and store the model; also what it was made by, and the seconds that it took."""
    training = models.ClusterTraining.of(table, settings)
    begin = monotonic()
    with open_cluster(address, say):
        for sentence in training.run(table):
            say(sentence)
    model = training.model(table)
    models.save(model, output)
    return model, training, monotonic() - begin


def _report(model: models.TableModel, training: models.TableTraining, seconds: float, output: Path) -> dict[str, Any]:
    """What `fit` has to tell."""
    head = model.head
    chosen = {"C": head.C_} if isinstance(head, FourierSVC) else {"alpha": head.alpha_}
    measure = "accuracy" if isinstance(head, FourierSVC) else "r2"
    if training.settings.learn:
        gain = head.features_.learning_gain_
        scale = {"length_scale": "learned", "learning_gain": gain, "relevance": relevances(model)}
    else:
        scale = {"length_scale": float(head.features_.length_scale_)}
    kernel_error = head.features_.kernel_error(training.sample, random_state=0)
    return {
        "task": model.task,
        "target": model.target,
        "rows": model.n_rows,
        "columns": len(model.encoding.names),
        **chosen,
        **scale,
        f"cross_validated_{measure}": head.best_score_,
        "kernel_error": kernel_error.error,
        "seconds": round(seconds, 2),
        "output": str(output),
    }


def _resumed(partial: Path, table: Table, settings: models.Settings, say: Callable[[str], None]) -> models.Training:
    """The training that was interrupted, if it is the same one."""
    if not partial.is_file():
        say(f"There is no {partial} to resume from: starting at the beginning.")
        return models.Training.of(table, settings)
    try:
        training = models.load(partial)
    except ValueError:
        raise ValueError(f"{partial} is damaged; start without --resume.") from None
    if not isinstance(training, models.Training) or training.fingerprint != table.fingerprint():
        raise ValueError(f"{partial} belongs to other data than {table.path} as it is now; start without --resume.")
    if training.settings != settings:
        raise ValueError(f"{partial} was begun with other options; give the same ones, or start without --resume.")
    of = "" if table.n_groups is None else f" of {table.n_groups}"
    phase = "reading" if training.head is None else "training"
    say(f"Resuming the {phase} at row group {training.next_group + 1}{of}.")
    return training


def _checkpoint(partial: Path) -> Callable[[models.Training], None]:
    """Stores a training, but not more often than every few seconds."""
    due = monotonic() + CHECKPOINT_SECONDS

    def store(training: models.Training) -> None:
        nonlocal due
        begin = monotonic()
        if begin >= due:
            models.save(training, partial)
            end = monotonic()
            due = end + CHECKPOINT_SECONDS * (1.0 + 4.0 * (end - begin))  # a twentieth of the time at most

    return store


def _model(path: Path) -> models.TableModel:
    loaded = models.load(path)
    if not isinstance(loaded, models.TableModel):
        raise ValueError(f"{path} is an interrupted training; finish it with `bochner fit --resume`.")
    return loaded


def _voice(as_json: bool) -> Callable[[str], None]:
    """Says a sentence; with --json on the error stream, so that standard output holds the object alone."""
    return lambda sentence: typer.echo(sentence, err=as_json)


def _answer(report: dict[str, Any], as_json: bool) -> None:
    """Print a report as JSON, or a line a figure."""
    if as_json:
        finite = {
            name: None if isinstance(value, float) and not isfinite(value) else value for name, value in report.items()
        }
        typer.echo(json.dumps(finite))
        return
    for name, value in figures(report).items():
        typer.echo(f"{name}: {value}")
    if "relevance" in report:
        listed = [f"{name} {100 * share:.3g} %" for name, share in list(report["relevance"].items())[:MOST_LISTED]]
        more = f", {len(report['relevance']) - len(listed)} more" if len(listed) < len(report["relevance"]) else ""
        typer.echo(f"relevance of columns: {', '.join(listed)}{more}")


def _check_plots() -> None:
    """Miss what draws the page now, not after the work."""
    if find_spec("matplotlib") is None:
        raise ValueError("The page has plots, which need matplotlib: pip install 'bochner[all]'.")


def _check_output(output: Path, *inputs: Path, option: str = "--output") -> None:
    if output.is_dir() or not output.parent.is_dir():
        wrong = "is a folder" if output.is_dir() else "is in a folder that does not exist"
        raise ValueError(f"{option} {output} {wrong}; give the name of a file to write.")
    if any(output.exists() and path.exists() and output.samefile(path) for path in inputs):
        raise ValueError(f"{option} {output} would overwrite what is read; give another name.")


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn what is wrong with the input, or with a cluster, into one sentence and exit code 2."""
    try:
        yield
    except (ValueError, OSError, ClusterError) as wrong:
        typer.echo(f"Error: {wrong}", err=True)
        raise typer.Exit(2) from None


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
    return list(_track(run_kernel_study(study, data), "fitting", study.n_fits, console))


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
            splits[name] = datasets.load(name, folder, _track)
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


def _console(width: int = 110) -> Console:
    """Where reports go. A pipe has no width of its own; it gets what the tables need."""
    console = Console() if Console().is_terminal else Console(width=width)
    if console.encoding.startswith("utf"):
        return console
    return Console(width=width, file=io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=True))


def _track(
    items: Iterable[Any], description: str, total: int | None = None, console: Console | None = None
) -> Iterator[Any]:
    """The items, with a progress bar in a terminal; silent in a pipe."""
    console = console or Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(items, total=total, description=description)
