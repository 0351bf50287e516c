# SPDX-License-Identifier: BSD-3-Clause
"""The commands `bochner describe`, `fit`, `predict`, `report`, `error` and `export`: models for tables."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import typer
from rich.table import Table as RichTable
from rich.text import Text

from bochner.cli.console import (
    Decimal,
    Drop,
    Json,
    Kinds,
    Thousands,
    app,
    check_output,
    check_plots,
    column_kinds,
    comma_separated,
    echo,
    error_messages,
    number_style,
    report_console,
    table_path,
)
from bochner.export.table_models import describe_inputs, save_onnx, table_model_to_onnx
from bochner.features.landmark_features import LandmarkFeatures
from bochner.kernels import KERNEL_ALIASES, KERNELS
from bochner.table_models.diagnostics import diagnose_table, diagnose_training
from bochner.table_models.fitted_model import Estimator
from bochner.table_models.held_out import hold_out
from bochner.table_models.model_files import load, save
from bochner.table_models.model_page import column_lines, format_values, is_diagonal, write_model_page
from bochner.table_models.predictions import PredictionColumns, evaluate, write_predictions
from bochner.table_models.search import Budget
from bochner.table_models.settings import FREE, Settings
from bochner.table_models.training import FittedTable, fit_table
from bochner.table_models.trials import Trial, margin
from bochner.tables.columns import NumberStyle
from bochner.tables.description import TableDescription, describe
from bochner.tables.file_table import FileTable
from bochner.tables.reader import Table
from bochner.tables.survey import Survey
from bochner.validation import positive_values

AnyTable = TypeVar("AnyTable", bound=Table)
Model = Annotated[Path, typer.Argument(help="A model file written by `bochner fit`.")]


@app.command(name="describe")
def describe_table(
    data: Annotated[
        Path,
        typer.Argument(
            help="A table: a .csv or .parquet file, a folder of .parquet files or a quoted pattern such as "
            "'data/*.parquet', or - for CSV on standard input."
        ),
    ],
    target: Annotated[str | None, typer.Option(help="The column that is to be predicted.")] = None,
    kinds: Kinds = None,
    drop: Drop = None,
    decimal: Decimal = ".",
    thousands: Thousands = "",
    as_json: Json = False,
) -> None:
    """Show what each column of a table is taken for, before any fit.

    All rows are read. The kinds are number, boolean, category, date, time and duration, of which models are made, and
    id, text, constant, empty and unsupported, which are left out or refused.
    """
    with error_messages(), table_path(data) as (path, label):
        columns = _Columns(comma_separated(drop), column_kinds(kinds), number_style(decimal, thousands), label)
        table = columns.open(FileTable, path, target)
        description = describe(table, table.survey(Survey.of(table, seed=0)))
    if as_json:
        typer.echo(json.dumps(asdict(description)))
    else:
        _print_description(description)


def _print_description(description: TableDescription) -> None:
    """Print what the columns of a table are taken for, and the problems of the table."""
    console = report_console(width=140)
    lines = RichTable(title=Text(f"{description.path}: {description.rows:,} rows"), title_justify="left")
    for title in ("column", "kind", "stored as", "missing", "distinct", "examples", "what is done"):
        lines.add_column(title, justify="right" if title in ("missing", "distinct") else "left")
    for column in description.columns:
        missing = "" if column.missing is None else f"{column.missing:,}"
        distinct = "" if column.distinct is None else f"{'' if column.distinct_is_exact else '≥ '}{column.distinct:,}"
        name = column.name if column.name.isprintable() else repr(column.name)
        cells = (name, column.kind, column.storage, missing, distinct, ", ".join(column.examples), column.treatment)
        lines.add_row(*map(Text, cells))
    console.print(lines)
    if description.problems:
        console.print("`bochner fit` would refuse this table:", markup=False, highlight=False)
    for problem in description.problems:
        console.print(f"- {problem}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def fit(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="A table: a .csv or .parquet file of any size, a folder of .parquet files or a quoted pattern such as "
            "'data/*.parquet', or - for CSV on standard input.",
            metavar="DATA",
        ),
    ],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    output: Annotated[Path, typer.Option(help="The model file to write.")] = Path("model.skops"),
    head: Annotated[
        Literal["ridge", "svm", "logistic"],
        typer.Option(
            help="The linear model: ridge (two passes over the table), svm, a support vector machine, or logistic, "
            "which has probabilities (many passes, classification only)."
        ),
    ] = "ridge",
    task: Annotated[
        Literal["auto", "regression", "classification"],
        typer.Option(help="Whether to predict a number or a class; auto decides by the values of the target."),
    ] = "auto",
    features: Annotated[
        Literal["fourier", "landmarks"] | None,
        typer.Option(
            help="The features: fourier (cosines and sines of random frequencies) or landmarks (kernel values at "
            "points of the data, Nystroem's method). The default is the better one by cross-validation."
        ),
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            help=f"The kernel to approximate: {', '.join(KERNELS)}. Give several, separated by "
            "commas, to choose among them by cross-validation. The option may be repeated. The default is the better "
            "one of gaussian and matern."
        ),
    ] = None,
    n_frequencies: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of frequencies, which give two features each; half the number of landmarks. The default is "
            "256, or 512 if the error is then clearly smaller.",
        ),
    ] = None,
    length_scale: Annotated[
        list[float] | None,
        typer.Option(
            help="Length scale of the kernel, as a multiple of the median distance between rows (with --learn or "
            "--learn-matrix, of what is learned). Repeat the option to choose among several by cross-validation. "
            "Without these options, learned and median length scales are compared."
        ),
    ] = None,
    learn: Annotated[bool, typer.Option("--learn", help="Learn one length scale per column from the target.")] = False,
    learn_matrix: Annotated[
        bool,
        typer.Option(
            "--learn-matrix", help="Learn a metric, a linear map of all columns, from the target; slower than --learn."
        ),
    ] = False,
    standardize: Annotated[
        Literal["robust", "plain", "none"],
        typer.Option(
            help="How numeric columns are standardized: robust (by quartiles, and outlying rows are pulled towards the "
            "others), plain (by mean and standard deviation) or none."
        ),
    ] = "robust",
    drop: Drop = None,
    kinds: Kinds = None,
    decimal: Decimal = ".",
    thousands: Thousands = "",
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            help="Compare no settings: fit 256 frequencies of the gaussian kernel with the median length scale, or "
            "what other options say.",
        ),
    ] = False,
    minutes: Annotated[
        float | None,
        typer.Option(help="Time limit: stop comparing settings early enough to fit the best ones so far."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the frequencies, folds and the sample of rows.")] = 0,
    page: Annotated[
        Path | None,
        typer.Option(
            help="Also write an HTML page about the model: its errors on held-out rows, which columns matter and what "
            "they do, learning curves, and what was done with each column."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit a model that predicts one column of a table from the others, and write it to a file.

    The model is a linear model on random Fourier features or on kernel values at landmarks. Numbers are standardized,
    text columns are one-hot encoded, dates become a trend and cycles, free text is left out: see `bochner describe`.

    Features, kernel, length scales and their number are chosen by cross-validation on a sample of the rows, unless
    options fix them. The regularization is chosen by cross-validation on all rows.
    """
    report, budget = _reporter(as_json), Budget(minutes)
    with error_messages(), table_path(_single(data)) as (path, label):
        check_output(output, path)
        if output.suffix != ".skops":
            raise ValueError(f"--output {output} must end in .skops.")
        if page is not None:
            _check_page(page, path, option="--page")
        if output.exists():
            report(f"{output} exists; it is replaced when the new model is complete.")
        kernels = _check_kernels(comma_separated(kernel))
        columns = _Columns(comma_separated(drop), column_kinds(kinds), number_style(decimal, thousands), label)
        scales = positive_values("--length-scale", length_scale or [1.0]).tolist()
        learned = _check_learning(learn, learn_matrix)
        fixed = {"features": features, "learn": learned or length_scale, "kernels": kernel}
        free = _free_settings(fast, minutes, fixed | {"n_frequencies": n_frequencies})
        size, kind = n_frequencies or 256, features or "fourier"
        settings = Settings(head, task, kernels, size, scales, seed, learned, kind, standardize, free)
        table = columns.open(FileTable, path, target)
        fitted = fit_table(table, settings, report, budget)
        save(fitted.model, output)
        result = _result(fitted, budget.elapsed, output)
        if page is not None:
            report("Fitting on parts of the rows for the page.")
            found = diagnose_training(fitted.model, fitted.survey, seed)
            lines = [(column.name, column.kind, column.treatment) for column in describe(table, fitted.survey).columns]
            write_model_page(found, result, page, columns=lines, model_file=output.name)
    if not as_json:
        _print_trials(fitted.model.trials)
    _print_result(result, as_json)


@app.command()
def predict(
    model: Model,
    data: Annotated[Path, typer.Argument(help="A table with the columns that the model was fitted on.")],
    output: Annotated[
        Path, typer.Option(help="The .csv or .parquet file to write, or - for CSV on standard output.")
    ] = Path("predictions.csv"),
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of the table to copy beside the predictions, such as an id, separated by commas. The option "
            "may be repeated."
        ),
    ] = None,
    std: Annotated[
        bool, typer.Option("--std", help="Add the standard deviation of each prediction (regression only).")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            help="Add the bounds that contain this share of the targets of new rows, such as 0.9 (regression only).",
            metavar="SHARE",
        ),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of each class (models of --head logistic only).")
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Add what each column contributes to the prediction, or to the score of the class."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Predict the target of every row of a table and write the predictions to a file."""
    to_stdout = str(output) == "-"
    with error_messages():
        if to_stdout and as_json:
            raise ValueError("--json and --output - both write to standard output; give a file or omit --json.")
        if not to_stdout:
            check_output(output, model, data)
        loaded = load(model)
        columns = PredictionColumns(std, proba, interval, comma_separated(keep), explain)
        with table_path(data) as (path, label):
            n_rows = write_predictions(loaded, path, None if to_stdout else output, columns, label=label, report=_warn)
    if not to_stdout:
        _print_result({"rows": n_rows, "target": loaded.target, "output": str(output)}, as_json)


@app.command(name="report")
def write_report(
    model: Model,
    data: Annotated[
        Path, typer.Argument(help="A table with the columns that the model was fitted on, with or without the target.")
    ],
    output: Annotated[Path, typer.Option(help="The .html file to write.")] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Write an HTML page about a model and a table: errors, which columns matter, and what they do.

    Measures are those of all rows; plots show a sample of at most 20,000 rows. Without the target in the table, the
    page has the importance of the columns from gradients, and their effects.
    """
    with error_messages():
        _check_page(output, model, data, option="--output")
        loaded = load(model)
        with table_path(data) as (path, label):
            evaluation = evaluate(loaded, path, label=label, report=_warn)
            found = diagnose_table(loaded, evaluation, label or path.name)
        if found.held_out is None:
            _reporter(as_json)(f"The table has no column {loaded.target!r}, so that the page has no errors.")
        result: dict[str, Any] = {"task": loaded.task, "target": loaded.target, "rows": evaluation.n_rows}
        result |= {**evaluation.measures, "kernel_error": evaluation.kernel_error.error, "output": str(output)}
        columns = column_lines(loaded.encoding.columns)
        write_model_page(found, result, output, columns=columns, model_file=model.name)
    _print_result(result, as_json)


@app.command()
def error(
    model: Model,
    data: Annotated[
        Path, typer.Argument(help="A table with the columns that the model was fitted on, with or without the target.")
    ],
    as_json: Json = False,
) -> None:
    """Evaluate a model on a table: its approximate kernel and, if the table has the target, its predictions.

    The kernel error is the relative error of the approximate kernel on a sample of the rows, with a 95 % interval.
    Predictions have a root mean squared error and an R2 for a regression, and an error rate for a classification.
    """
    with error_messages(), table_path(data) as (path, label):
        evaluation = evaluate(load(model), path, label=label, report=_warn)
    low, high = evaluation.kernel_error.low, evaluation.kernel_error.high
    result = {"rows": evaluation.n_rows, **evaluation.measures, "kernel_error": evaluation.kernel_error.error}
    _print_result(result | {"kernel_error_low": low, "kernel_error_high": high}, as_json)


@app.command()
def export(
    model: Model,
    output: Annotated[Path, typer.Argument(help="The .onnx file to write.")],
    as_json: Json = False,
) -> None:
    """Write a model to an ONNX file, which predicts in other languages and without bochner.

    The file has one input per column of the table, whose cells are encoded and standardized as by `bochner predict`.
    Its first output is the prediction; the second output of a classification has one column per class.
    """
    with error_messages():
        check_output(output, model, option="OUTPUT")
        if output.suffix != ".onnx":
            raise ValueError(f"OUTPUT {output} must end in .onnx.")
        loaded = load(model)
        exported = table_model_to_onnx(loaded)
        n_bytes = save_onnx(exported, output)
    inputs, outputs = describe_inputs(loaded), [value.name for value in exported.graph.output]
    result = {"task": loaded.task, "target": loaded.target, "bytes": n_bytes, "output": str(output)}
    if as_json:
        _print_result(result | {"inputs": inputs, "outputs": outputs}, as_json)
        return
    for name, meaning in inputs.items():
        echo(f"input {name}: {meaning}")
    echo(f"outputs: {', '.join(outputs)}")
    _print_result(result, as_json)


def _check_page(page: Path, *inputs: Path, option: str) -> None:
    """Check that a page can be drawn and written."""
    check_plots()
    check_output(page, *inputs, option=option)
    if page.suffix != ".html":
        raise ValueError(f"{option} {page} must end in .html.")


def _single(data: list[Path]) -> Path:
    """Return the only path; several mean that the shell has expanded a pattern."""
    if len(data) > 1:
        raise ValueError(
            f"Expected one table but got {len(data)}, starting with {data[0]} and {data[1]}; to read several Parquet "
            f"files, quote a pattern, as in 'data/*.parquet'."
        )
    return data[0]


def _check_kernels(names: list[str]) -> list[str]:
    """Return the kernels to choose from, each once; none means the default one."""
    names = [KERNEL_ALIASES.get(name, name) for name in names]
    for name in names:
        if name not in KERNELS:
            raise ValueError(f"--kernel {name} is not one of {', '.join(KERNELS)}.")
    return list(dict.fromkeys(names)) or ["gaussian"]


def _check_learning(length_scales: bool, metric: bool) -> Literal["learn", "learn-matrix"] | None:
    """Return what is learned from the target, one of both at most."""
    if length_scales and metric:
        raise ValueError("--learn and --learn-matrix cannot be combined; a metric starts from learned length scales.")
    return "learn-matrix" if metric else "learn" if length_scales else None


def _free_settings(fast: bool, minutes: float | None, fixed: dict[str, Any]) -> tuple[str, ...]:
    """Return the settings that no option fixes, which are chosen by cross-validation."""
    if minutes is not None and fast:
        raise ValueError("--minutes limits the comparison of settings, which --fast omits; give one of them.")
    if minutes is not None and not 0.0 < minutes < float("inf"):
        raise ValueError(f"--minutes {minutes:g} must be a positive number.")
    return () if fast else tuple(name for name in FREE if not fixed[name])


class _Columns(NamedTuple):
    """The options about the columns of a table."""

    drop: list[str]
    kinds: dict[str, str]
    style: NumberStyle
    label: str | None

    def open(self, kind: type[AnyTable], path: Path, target: str | None) -> AnyTable:
        """Open a table."""
        return kind(path, target, self.drop, self.kinds, style=self.style, label=self.label)


def _learned(estimator: Estimator) -> Literal["learn", "learn-matrix"] | None:
    """Return what a fitted estimator has learned."""
    length_scale: Any = estimator.features.length_scale
    return length_scale if length_scale in ("learn", "learn-matrix") else None


def _result(fitted: FittedTable, seconds: float, output: Path) -> dict[str, Any]:
    """Return what `fit` prints."""
    model, estimator = fitted.model, fitted.model.estimator
    score = {
        "log_loss": {"log_loss": -estimator.best_score_},
        "squared_hinge": {"accuracy": estimator.best_score_},
        "squared_error": {"r2_of_class_indicators" if model.task == "classification" else "r2": estimator.best_score_},
    }[estimator.loss]
    chosen = {"C": estimator.C_} if model.task == "classification" else {"alpha": estimator.alpha_}
    learned_by = _learned(estimator)
    if learned_by is not None:
        has_metric = learned_by == "learn-matrix" and not is_diagonal(estimator.features_.metric_)
        learned, gain = "learned metric" if has_metric else "learned", estimator.features_.learning_gain_
        scale: dict[str, Any] = {"length_scale": learned, "learning_gain": gain}
    else:
        scale = {"length_scale": float(estimator.features_.length_scale_)}
    kernel_error = estimator.features_.kernel_error(fitted.sample, random_state=0)
    return {
        "task": model.task,
        "target": model.target,
        "rows": model.n_rows,
        "columns": len(model.encoding.names),
        **chosen,
        "features": "landmarks" if isinstance(estimator.features_, LandmarkFeatures) else "fourier",
        "kernel": estimator.features_.kernel,
        **scale,
        **{f"cross_validated_{measure}": value for measure, value in score.items()},
        **_held_out_accuracy(fitted),
        "kernel_error": kernel_error.error,
        "seconds": round(seconds, 2),
        "output": str(output),
        "trials": [trial.summary() for trial in model.trials],
    }


def _held_out_accuracy(fitted: FittedTable) -> dict[str, float]:
    """Return the accuracy of a ridge classifier on a fifth of the sampled rows, which its cross-validation has not."""
    if fitted.model.task == "regression" or fitted.model.estimator.loss != "squared_error":
        return {}
    split = hold_out(fitted.model, fitted.survey, relearn=False)
    return {} if split is None else {"held_out_accuracy": 1.0 - split.held_out.evidence.error}


def _print_trials(trials: Sequence[Trial]) -> None:
    """Print the settings that were compared, and how far the chosen ones are from the second best."""
    if not trials:
        return
    lines = RichTable(title=f"Settings compared by {len(trials[0].errors)}-fold cross-validation", title_justify="left")
    name = {"rmse": "RMSE", "error_rate": "error rate"}[trials[0].measure]
    for title in ("", "features", "columns", "kernel", "length scale", name, "± s.e.", "seconds"):
        lines.add_column(title, justify="right" if title in ("columns", name, "± s.e.", "seconds") else "left")
    for trial in trials:
        cells = trial.summary()
        errors = f"{trial.error:.4g}", f"{trial.standard_error:.2g}", f"{trial.seconds:.1f}"
        settings = (str(cells[key]) for key in ("features", "columns", "kernel", "length_scale"))
        lines.add_row("*" if trial.chosen else "", *settings, *errors)
    report_console().print(lines)
    typer.echo(margin(trials))


def _warn(message: str) -> None:
    echo(f"Warning: {message}", err=True)


def _reporter(as_json: bool) -> Callable[[str], None]:
    """Return a function that prints a message; with --json, standard output is left to the JSON object."""
    return lambda message: echo(message, err=as_json)


def _print_result(result: dict[str, Any], as_json: bool) -> None:
    """Print a result as JSON, or one line per value."""
    if as_json:
        finite = {
            name: None if isinstance(value, float) and not isfinite(value) else value for name, value in result.items()
        }
        typer.echo(json.dumps(finite))
        return
    for name, text in format_values(result).items():
        echo(f"{name}: {text}")
