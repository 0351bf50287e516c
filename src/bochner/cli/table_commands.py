# SPDX-License-Identifier: BSD-3-Clause
"""The commands `bochner describe`, `fit`, `predict`, `report`, `error` and `export`: models for tables."""

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Literal

import typer
from rich.table import Table as RichTable
from rich.text import Text

from bochner.cli.console import (
    Decimal,
    Drop,
    FileEncoding,
    Json,
    Kinds,
    Missing,
    app,
    as_options,
    check_output,
    check_plots,
    column_kinds,
    comma_separated,
    echo,
    error_messages,
    report_console,
    table_path,
)
from bochner.export import to_onnx
from bochner.export.tables import describe_inputs
from bochner.pages import write_atomically
from bochner.tables.description import ColumnDescription, column_messages, describe, treatment_words
from bochner.tables.evaluation import evaluate, held_out, possible_leaks, write_predictions
from bochner.tables.model_files import load, save
from bochner.tables.model_page import write_model_page
from bochner.tables.survey import Survey
from bochner.tables.table_encoder import TableEncoder
from bochner.tables.table_models import TableClassifier, TableRegressor, default_estimator

DATA = (
    "A table: a .csv, .csv.gz or .parquet file of any size, a folder of .parquet files or a quoted pattern such as "
    "'data/*.parquet', or - for CSV on standard input."
)
Model = Annotated[Path, typer.Argument(help="A model file written by `bochner fit`.")]
NewData = Annotated[
    Path, typer.Argument(help="A table with the columns that the model was fitted on, with or without the target.")
]


def _encoder(
    kinds: list[str] | None,
    drop: list[str] | None,
    decimal: str | None,
    missing: list[str] | None,
    encoding: str,
    seed: int = 0,
) -> TableEncoder:
    """Return the encoder that the options about columns describe."""
    return TableEncoder(
        kinds=column_kinds(kinds),
        drop=comma_separated(drop),
        decimal=decimal,
        missing=comma_separated(missing),
        file_encoding=encoding,
        random_state=seed,
    )


@app.command(name="describe")
def describe_table(
    data: Annotated[Path, typer.Argument(help=DATA)],
    target: Annotated[str | None, typer.Option(help="The column that is to be predicted.")] = None,
    kinds: Kinds = None,
    drop: Drop = None,
    decimal: Decimal = None,
    missing: Missing = None,
    encoding: FileEncoding = "utf-8",
    as_json: Json = False,
) -> None:
    """Show what each column of a table is taken for, before any fit; exit with an error where `fit` would.

    All rows are read. The kinds are number, boolean, category, text, date, time and duration, of which models are made,
    and constant, empty and unsupported, which are left out or refused.
    """
    with error_messages(), table_path(data) as path:
        survey = _encoder(kinds, drop, decimal, missing, encoding).survey(path, target)
        problems, columns = survey.problems(), describe(survey)
        messages = [] if problems else _warnings(survey)
        if as_json:
            found = {"path": str(data), "rows": survey.n_cells, "columns": list(map(asdict, columns))}
            typer.echo(json.dumps(found | {"problems": problems, "messages": messages}))
        else:
            _print_description(data, survey, columns, messages)
        survey.check()


def _print_description(path: Path, survey: Survey, columns: list[ColumnDescription], messages: list[str]) -> None:
    """Print what the columns of a table are taken for."""
    console = report_console(width=140)
    lines = RichTable(title=Text(f"{path}: {survey.n_cells:,} rows"), title_justify="left")
    for title in ("column", "kind", "stored as", "missing", "distinct", "examples", "what is done"):
        lines.add_column(title, justify="right" if title in ("missing", "distinct") else "left")
    for column in columns:
        missing = "" if column.missing is None else f"{column.missing:,}"
        distinct = "" if column.distinct is None else f"{'' if column.distinct_is_exact else '≥ '}{column.distinct:,}"
        name = column.name if column.name.isprintable() else repr(column.name)
        words = as_options(column.treatment)
        cells = (name, column.kind, column.storage, missing, distinct, ", ".join(column.examples), words)
        lines.add_row(*map(Text, cells))
    console.print(lines)
    for message in messages:
        echo(message)


def _warnings(survey: Survey) -> list[str]:
    """Return what a user should know before a fit about equal rows and columns that predict the target alone."""
    messages = [message for message in column_messages(survey) if "equal to an earlier one" in message]
    leaks = possible_leaks(survey, survey.encoding())
    if leaks:
        messages.append(
            f"Nearly all targets follow from a single column: {', '.join(leaks)}. Drop it if it is not known when "
            f"predictions are made."
        )
    return messages


@app.command()
def fit(
    data: Annotated[list[Path], typer.Argument(help=DATA, metavar="DATA")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    output: Annotated[Path, typer.Option(help="The model file to write.")] = Path("model.skops"),
    task: Annotated[
        Literal["auto", "regression", "classification"],
        typer.Option(help="Whether to predict a number or a class; auto decides by the values of the target."),
    ] = "auto",
    model: Annotated[
        Literal["auto", "features"],
        typer.Option(help="The model: features fits landmark features, which can be exported, to tables of any size."),
    ] = "auto",
    fast: Annotated[bool, typer.Option("--fast", help="Fit in a second or two, with a larger error.")] = False,
    drop: Drop = None,
    kinds: Kinds = None,
    decimal: Decimal = None,
    missing: Missing = None,
    encoding: FileEncoding = "utf-8",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the model and of the sample of rows.")] = 0,
    page: Annotated[
        Path | None,
        typer.Option(help="Also write an HTML page about the model: its errors, which columns matter, what they do."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit a model that predicts one column of a table from the others, and write it to a file.

    Numbers are standardized, categories one-hot encoded, text becomes n-grams, dates a trend and cycles: see `bochner
    describe`. The errors that are printed are those of the same model, fitted on four fifths of at most 10,000 rows, on
    the other fifth; the model in the file is fitted on all rows.
    """
    report, start = _reporter(as_json), monotonic()
    with error_messages(), table_path(_single(data)) as path, warnings.catch_warnings():
        warnings.showwarning = lambda message, *details, **options: report(f"Warning: {message}")
        check_output(output, path)
        if output.suffix != ".skops":
            raise ValueError(f"--output {output} must end in .skops.")
        if page is not None:
            _check_page(page, path, option="--page")
        if output.exists():
            report(f"{output} exists; it is replaced when the new model is complete.")
        encoder = _encoder(kinds, drop, decimal, missing, encoding, seed)
        survey = encoder.survey(path, target)
        survey.check()
        for message in dict.fromkeys([*column_messages(survey), *_warnings(survey)]):
            report(message)
        chosen = survey.task if task == "auto" else task
        effort = "fast" if fast else "default"
        estimator = None
        if model == "features":
            estimator = default_estimator(chosen == "classification", survey.n_rows, effort, seed, features=True)
        kind: Any = TableClassifier if chosen == "classification" else TableRegressor
        fitted = kind(estimator, encoder=encoder, effort=effort, random_state=seed).fit_survey(encoder, survey, target)
        save(fitted, output)
        seconds = round(monotonic() - start, 2)
        result: dict[str, Any] = {
            "task": chosen,
            "target": target,
            "rows": survey.n_rows,
            "encoded_columns": len(encoder.encoding_.names),
        }
        result |= {"model": type(fitted.estimator_).__name__, "seconds": seconds, "output": str(output)}
        found = held_out(fitted, survey, seed)
        if found is not None:
            result |= {"held_out_rows": found[1].n_rows} | found[1].measures
        else:
            report("There are too few rows, or too few of a class, for errors on held-out rows.")
        if page is not None:
            _fitted_page(fitted, found, survey, page, result, output.name)
    _print_result(result, as_json)


def _fitted_page(fitted: Any, found: Any, survey: Survey, page: Path, result: dict[str, Any], name: str) -> None:
    """Write the page of a model whose errors on held-out rows were measured."""
    if found is None:
        raise ValueError("A page needs 50 rows or more, and two or more of each class; omit --page.")
    lines = [(column.name, column.kind, column.treatment) for column in describe(survey)]
    origin = (
        f"{found[1].n_rows:,} held-out rows, predicted by the same model fitted on other rows; the model in the file "
        f"was fitted on all rows"
    )
    write_model_page(
        found[0], found[1], page, origin=origin, columns=lines, numbers=format_values(result), model_file=name
    )


@app.command()
def predict(
    model: Model,
    data: NewData,
    output: Annotated[
        Path, typer.Option(help="The .csv or .parquet file to write, or - for CSV on standard output.")
    ] = Path("predictions.csv"),
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Columns of the table to copy beside the predictions, such as an id, separated by commas."),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            help="Add the bounds that contain this share of the targets of new rows, such as 0.9 (regression only).",
            metavar="SHARE",
        ),
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
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
        with table_path(data) as path:
            n_rows = write_predictions(
                loaded,
                path,
                None if to_stdout else output,
                keep=comma_separated(keep),
                interval=interval,
                proba=proba,
                report=_warn,
            )
    if not to_stdout:
        _print_result({"rows": n_rows, "target": loaded.target_name_, "output": str(output)}, as_json)


@app.command(name="report")
def write_report(
    model: Model,
    data: NewData,
    output: Annotated[Path, typer.Option(help="The .html file to write.")] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Write an HTML page about a model and a table: errors, which columns matter, and what they do.

    Measures are those of all rows; plots show a sample. Without the target in the table, the page has the effects of
    columns only.
    """
    with error_messages():
        _check_page(output, model, data, option="--output")
        loaded = load(model)
        with table_path(data) as path:
            evaluation = evaluate(loaded, path, _warn)
        if not evaluation.measures:
            _reporter(as_json)(f"The table has no column {loaded.target_name_!r}, so that the page has no errors.")
        result: dict[str, Any] = {"target": loaded.target_name_, "rows": evaluation.n_rows, **evaluation.measures}
        columns = [(c.name, c.kind, treatment_words(c)) for c in loaded.encoder_.encoding_.columns]
        origin = f"rows of {path.name}, which the model has not seen unless they were among its training rows"
        numbers = format_values(result)
        write_model_page(
            loaded, evaluation, output, origin=origin, columns=columns, numbers=numbers, model_file=model.name
        )
    _print_result(result | {"output": str(output)}, as_json)


@app.command()
def error(model: Model, data: NewData, as_json: Json = False) -> None:
    """Evaluate the predictions of a model on a table that has the target.

    A regression has a root mean squared error, a mean absolute error and R2; a classification accuracy, the share of
    the most frequent class, log loss and the area under the ROC curve.
    """
    with error_messages(), table_path(data) as path:
        loaded = load(model)
        evaluation = evaluate(loaded, path, _warn)
        if not evaluation.measures:
            raise ValueError(f"{path} has no column {loaded.target_name_!r}; give a table with the target.")
    _print_result({"rows": evaluation.n_rows, **evaluation.measures}, as_json)


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
        exported = to_onnx(loaded)
        content = exported.SerializeToString()
        write_atomically(output, content)
    inputs, outputs = describe_inputs(loaded), [value.name for value in exported.graph.output]
    result = {"target": loaded.target_name_, "bytes": len(content), "output": str(output)}
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


def _warn(message: str) -> None:
    echo(f"Warning: {message}", err=True)


def _reporter(as_json: bool) -> Callable[[str], None]:
    """Return a function that prints a message; with --json, standard output is left to the JSON object."""
    return lambda message: echo(message, err=as_json)


def format_values(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a result as text.

    Examples
    --------
    >>> from bochner.cli.table_commands import format_values
    >>> format_values({"rows": 1600, "mean_absolute_error": 0.91234})
    {'rows': '1600', 'mean absolute error': '0.9123'}
    """
    return {
        name.replace("_", " "): f"{value:.4g}" if isinstance(value, float) else str(value)
        for name, value in result.items()
    }


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
