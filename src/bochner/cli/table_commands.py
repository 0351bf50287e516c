# SPDX-License-Identifier: BSD-3-Clause
"""The commands `bochner describe`, `fit`, `predict`, `report`, `error` and `export`: models for tables."""

import json
from collections.abc import Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Literal

import typer
from rich.table import Table as RichTable
from rich.text import Text

from bochner.cli import console
from bochner.cli.console import Decimal, Drop, FileEncoding, Json, Kinds, Missing, Texts, app, echo
from bochner.export import to_onnx
from bochner.export.tables import describe_inputs
from bochner.pages import write_atomically
from bochner.tables.description import column_messages, describe, table_warnings
from bochner.tables.evaluation import evaluate, held_out, write_predictions
from bochner.tables.model_files import load, save
from bochner.tables.model_page import write_model_page
from bochner.tables.reader import raise_problems
from bochner.tables.table_models import TableClassifier, TableRegressor, default_estimator

Data = Annotated[Path, typer.Argument(help="A .csv, .csv.gz or .parquet file, or a folder of .parquet files.")]
Model = Annotated[Path, typer.Argument(help="A model file written by `bochner fit`.")]
PREDICTIONS = Path("predictions.csv")
Task = Literal["auto", "regression", "classification"]
Method = Literal["auto", "features"]
NewData = Annotated[Path, typer.Argument(help="A table with the columns that the model was fitted on.")]


@app.command(name="describe")
def describe_table(
    data: Data,
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
    survey = console.table_encoder(kinds, drop, decimal, missing, encoding).survey(data, target)
    problems = survey.problems() or survey.target_problems(survey.task == "classification")
    columns = describe(survey)
    messages = [] if problems else table_warnings(survey)
    if as_json:
        found = {"path": str(data), "rows": survey.n_cells, "columns": columns}
        typer.echo(json.dumps(found | {"problems": problems, "messages": messages}))
    else:
        _print_columns(f"{data}: {survey.n_cells:,} rows", columns)
        for message in messages:
            echo(message)
    raise_problems(survey.table.path, problems)


def _print_columns(title: str, columns: list[dict[str, Any]]) -> None:
    """Print what the columns of a table are taken for."""
    lines = RichTable(title=Text(title), title_justify="left")
    for head in ("column", "kind", "stored as", "missing", "distinct", "examples", "what is done"):
        lines.add_column(head, justify="right" if head in ("missing", "distinct") else "left")
    for column in columns:
        counts = ["" if column[name] is None else f"{column[name]:,}" for name in ("missing", "distinct")]
        counts[1] = counts[1] if column["distinct_is_exact"] or not counts[1] else f"≥ {counts[1]}"
        name = column["name"] if column["name"].isprintable() else repr(column["name"])
        words = [", ".join(column["examples"]), console.as_options(column["treatment"])]
        lines.add_row(*map(Text, [name, column["kind"], column["storage"], *counts, *words]))
    console.report_console(width=140).print(lines)


@app.command()
def fit(
    data: Data,
    target: Annotated[str, typer.Option(help="The column to predict.")],
    output: Annotated[Path, typer.Option(help="The model file to write.")] = Path("model.skops"),
    task: Annotated[Task, typer.Option(help="Predict a number or a class; auto decides by the targets.")] = "auto",
    model: Annotated[Method, typer.Option(help="features: landmark features, which can be exported.")] = "auto",
    fast: Annotated[bool, typer.Option("--fast", help="Fit in a second or two, with a larger error.")] = False,
    drop: Drop = None,
    kinds: Kinds = None,
    decimal: Decimal = None,
    missing: Missing = None,
    encoding: FileEncoding = "utf-8",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the model and of the sample of rows.")] = 0,
    page: Annotated[Path | None, typer.Option(help="Also write an HTML page: errors, effects of columns.")] = None,
    as_json: Json = False,
) -> None:
    """Fit a model that predicts one column of a table from the others, and write it to a file.

    Numbers are standardized, categories one-hot encoded, text becomes n-grams, dates a trend and cycles: see `bochner
    describe`. The errors that are printed are those of the same model, fitted on four fifths of at most 10,000 rows, on
    the other fifth; the model in the file is fitted on all rows.
    """
    report, start = partial(echo, err=as_json), monotonic()  # with --json, standard output has the JSON object only
    console.check_output(output, data, suffix=".skops")
    if page is not None:
        console.check_output(page, data, option="--page", suffix=".html")
    if output.exists():
        report(f"{output} exists; it is replaced when the new model is complete.")
    encoder = console.table_encoder(kinds, drop, decimal, missing, encoding, seed)
    survey = encoder.survey(data, target)
    survey.check()
    for message in [*column_messages(survey), *table_warnings(survey)]:
        report(message)
    chosen = survey.task if task == "auto" else task
    is_class, effort = chosen == "classification", "fast" if fast else "default"
    features = default_estimator(is_class, survey.n_rows, effort, seed, features=True)
    kind: Any = TableClassifier if is_class else TableRegressor
    estimator = features if model == "features" else None
    fitted = kind(estimator, encoder=encoder, effort=effort, random_state=seed).fit(survey, target)
    save(fitted, output)
    result: dict[str, Any] = {"task": chosen, "target": target, "rows": survey.n_rows}
    result |= {"encoded_columns": len(fitted.encoder_.encoding_.names), "model": type(fitted.estimator_).__name__}
    result |= {"seconds": round(monotonic() - start, 2), "output": str(output)}
    found = held_out(fitted, survey, seed)
    if found is not None:
        result |= {"held_out_rows": found[1].n_rows} | found[1].measures
    elif page is None:
        report("There are too few rows, or too few of a class, for errors on held-out rows.")
    else:
        raise ValueError("A page needs 50 rows or more, and two or more of each class; omit --page.")
    if page is not None and found is not None:
        origin = "held-out rows, predicted by the same model fitted on other rows; the model in the file was fitted"
        write_model_page(*found, page, f"{found[1].n_rows:,} {origin} on all rows", format_values(result), output)
    _print_result(result, as_json)


@app.command()
def predict(
    model: Model,
    data: NewData,
    output: Annotated[Path, typer.Option(help="A .csv or .parquet file; - for standard output.")] = PREDICTIONS,
    keep: Annotated[Texts, typer.Option(help="Columns to copy, such as an id, separated by commas.")] = None,
    interval: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Add bounds that contain this share of new targets.")
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    as_json: Json = False,
) -> None:
    """Predict the target of every row of a table and write the predictions to a file."""
    file = None if str(output) == "-" else output
    if file is not None:
        console.check_output(file, model, data)
    elif as_json:
        raise ValueError("--json and --output - both write to standard output; give a file or omit --json.")
    loaded, kept = load(model), console.comma_separated(keep)
    n_rows = write_predictions(loaded, data, file, keep=kept, interval=interval, proba=proba)
    if file is not None:
        _print_result({"rows": n_rows, "target": loaded.target_name_, "output": str(output)}, as_json)


@app.command(name="report")
def write_report(
    model: Model,
    data: NewData,
    output: Annotated[Path, typer.Option(help="The .html file to write.")] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Write an HTML page about a model and a table: errors, which columns matter, and what they do.

    The table has the target. Measures are those of all rows; plots show a sample.
    """
    console.check_output(output, model, data, suffix=".html")
    loaded = load(model)
    evaluation = evaluate(loaded, data)
    result: dict[str, Any] = {"target": loaded.target_name_, "rows": evaluation.n_rows, **evaluation.measures}
    origin = f"rows of {data.name}, which the model has not seen unless they were among its training rows"
    write_model_page(loaded, evaluation, output, origin, format_values(result), model)
    _print_result(result | {"output": str(output)}, as_json)


@app.command()
def error(model: Model, data: NewData, as_json: Json = False) -> None:
    """Evaluate the predictions of a model on a table that has the target.

    A regression has a root mean squared error, a mean absolute error and R2; a classification accuracy, the share of
    the most frequent class, log loss and the area under the ROC curve.
    """
    evaluation = evaluate(load(model), data)
    _print_result({"rows": evaluation.n_rows, **evaluation.measures}, as_json)


@app.command()
def export(
    model: Model, output: Annotated[Path, typer.Argument(help="The .onnx file to write.")], as_json: Json = False
) -> None:
    """Write a model to an ONNX file, which predicts in other languages and without bochner.

    The file has one input per column of the table, whose cells are encoded and standardized as by `bochner predict`.
    Its first output is the prediction; the second output of a classification has one column per class.
    """
    console.check_output(output, model, option="OUTPUT", suffix=".onnx")
    loaded = load(model)
    exported = to_onnx(loaded)
    content = exported.SerializeToString()
    write_atomically(output, content)
    result: dict[str, Any] = {"target": loaded.target_name_, "bytes": len(content), "output": str(output)}
    inputs, outputs = describe_inputs(loaded), [value.name for value in exported.graph.output]
    if as_json:
        result |= {"inputs": inputs, "outputs": outputs}
    else:
        for name, meaning in inputs.items():
            echo(f"input {name}: {meaning}")
        echo(f"outputs: {', '.join(outputs)}")
    _print_result(result, as_json)


def format_values(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a result as text.

    Examples
    --------
    >>> from bochner.cli.table_commands import format_values
    >>> format_values({"rows": 1600, "mean_absolute_error": 0.91234, "rmse": 10441.7})
    {'rows': '1600', 'mean absolute error': '0.9123', 'rmse': '10,442'}
    """
    texts = {}
    for name, value in result.items():
        form = ",.0f" if isinstance(value, float) and 1e4 <= abs(value) < 1e15 else ".4g"
        texts[name.replace("_", " ")] = format(value, form) if isinstance(value, float) else str(value)
    return texts


def _print_result(result: dict[str, Any], as_json: bool) -> None:
    """Print a result as JSON, where what is not finite is null, or one line per value."""
    if as_json:
        wrong = [name for name, value in result.items() if isinstance(value, float) and not isfinite(value)]
        typer.echo(json.dumps(result | dict.fromkeys(wrong)))
        return
    for name, text in format_values(result).items():
        echo(f"{name}: {text}")
