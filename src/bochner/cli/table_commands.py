# SPDX-License-Identifier: BSD-3-Clause
"""`bochner fit`, `predict` and `error`: models of tables."""

import json
import re
from collections.abc import Callable, Sequence
from glob import has_magic
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from bochner.cli.cluster import LOCAL, open_cluster
from bochner.cli.console import app, check_output, check_plots, error_messages, track
from bochner.experiments.model_page import figures, relevances, write_model_page
from bochner.kernels import KERNELS
from bochner.linear_models.svm import FourierSVC
from bochner.table_models import models
from bochner.tables.parquet_folder import ParquetFolder
from bochner.tables.reader import Table
from bochner.validation import positive_values

CHECKPOINT_SECONDS = 5.0
MOST_LISTED = 8  # columns with their relevances in a report
Model = Annotated[Path, typer.Argument(help="A model file of `bochner fit`.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")]


class _OptionalAddress(TyperCommand):
    """A command whose ``--dask`` may go without a value: it is then followed by another option, or by nothing."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        followed = zip(args, [*args, "--"][1:], strict=True)
        args = [f"--dask={LOCAL}" if word == "--dask" and next_.startswith("-") else word for word, next_ in followed]
        return list(super().parse_args(ctx, args))


def _check_address(address: str | None) -> str | None:
    """Notice a table that was taken for an address, before the table is missed."""
    with error_messages():
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
    with error_messages():
        path = _only(data)
        check_output(output, path)
        if output.suffix != ".skops":
            raise ValueError(f"--output {output} must end in .skops.")
        if page is not None:
            check_plots()
            check_output(page, path, option="--page")
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
    with error_messages():
        check_output(output, model, data)
        loaded = _model(model)
        n_rows = models.write_predictions(loaded, data, output, track, deviations=std)
    _answer({"rows": n_rows, "target": loaded.target, "output": str(output)}, as_json)


@app.command()
def error(
    model: Model,
    data: Annotated[Path, typer.Argument(help="A table, with the target for the prediction error.")],
    as_json: Json = False,
) -> None:
    """Measure a model on a table: the error of its kernel, and of its predictions if the table has the target."""
    with error_messages():
        scores = models.score(_model(model), data, track)
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
    for sentence in training.run(table, track, _checkpoint(partial)):
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
