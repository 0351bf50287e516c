# SPDX-License-Identifier: BSD-3-Clause
r"""Converter of `TableEncoder`, and models of tables: one input per column of the table.

Numbers, booleans and durations (in seconds) are numbers, NaN where they are missing. Categories are text, empty where
they are missing. Dates are days since the beginning of 1970 in local time, times are parts of a day.

The day of the year of a date needs the first day of its year. Year y begins
:math:`365 (y - 1970) + \lfloor (y - 1969) / 4 \rfloor - \lfloor (y - 1901) / 100 \rfloor + \lfloor (y - 1601) / 400
\rfloor` days after the beginning of 1970.
"""

import json
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from bochner.export.estimators import add_standardization
from bochner.export.graph import ML_DOMAIN, Graph, Value, import_skl2onnx
from bochner.feature_models.feature_model import FeatureModel
from bochner.tables.columns import DAYS_PER_YEAR, Column
from bochner.tables.table_encoder import TableEncoder

# What an input contains for each kind of column.
INPUTS = {
    "number": "number, NaN if missing",
    "boolean": "1 or 0, NaN if missing",
    "category": "text, empty if missing",
    "date": "days since 1970-01-01 00:00 in local time, NaN if missing",
    "time": "part of a day between 0 and 1, NaN if missing",
    "duration": "seconds, NaN if missing",
}
DAYS_PER_GREGORIAN_YEAR = 365.2425  # the mean over 400 years


def convert_encoder(graph: Graph, encoder: Any) -> None:
    """Write the encoded rows: standardized numbers, and then the other columns in the order of the encoding."""
    encoding, inputs = encoder.encoding_, graph.operator.inputs
    if len(inputs) != encoder.n_features_in_:
        raise ValueError(
            f"TableEncoder has {len(inputs)} ONNX inputs, but was fitted on {encoder.n_features_in_} columns; give one "
            f"input of one column for each of them, as for a data frame."
        )
    names = getattr(encoder, "feature_names_in_", [f"x{i}" for i in range(len(inputs))])
    variables = dict(zip(names, inputs, strict=True))
    cells = {column.name: _cells(graph, column, variables[column.name]) for column in encoding.columns}
    parts = []
    numeric = [column for column in encoding.columns if column.has_number]
    if numeric:
        numbers = graph.node("Concat", *(cells[column.name] for column in numeric), axis=1)
        fills = np.array([[column.fill for column in numeric]])
        filled = graph.node("Where", graph.node("IsNaN", numbers), fills, numbers)
        parts.append(add_standardization(graph, filled, encoding.mean, encoding.scale, encoding.limit))
    for column in encoding.columns:
        parts += _others(graph, column, cells[column.name])
    encoded = parts[0] if len(parts) == 1 else graph.node("Concat", *parts, axis=1)
    graph.write(graph.cast(encoded, encoding.dtype))


def _cells(graph: Graph, column: Column, variable: Any) -> Value:
    """Add the cells of a column: numbers as float64, NaN where they are missing, or codes of categories as int64.

    A code is the position among the one-hot columns, -1 for a category that has none.
    """
    from skl2onnx.common.data_types import StringTensorType

    if column.kind == "text":
        raise ValueError(
            f"Column {column.name!r} is text, whose hashed n-grams have no ONNX form; give drop=[{column.name!r}]."
        )
    is_text = isinstance(variable.type, StringTensorType)
    if is_text != (column.kind == "category"):
        expected = "text" if column.kind == "category" else "numbers"
        raise ValueError(f"Column {column.name!r} is a {column.kind}; its ONNX input must contain {expected}.")
    cells = Value(graph, variable.full_name)
    if not is_text:
        return graph.cast(cells, np.float64)
    if column.missing and "" in column.categories:
        raise ValueError(
            f"Column {column.name!r} has missing cells and cells of empty text, which ONNX cannot distinguish; replace "
            f"one by the other, and fit the model again."
        )
    texts = list(column.categories)
    codes = list(range(len(texts)))
    if "" not in texts:  # the text of a missing cell
        texts.append("")
        codes.append(len(column.other_names) - 1 if column.missing else -1)
    return graph.node(
        "LabelEncoder",
        cells,
        domain=ML_DOMAIN,
        op_version=2,
        keys_strings=texts,
        values_int64s=codes,
        default_int64=len(column.categories) if column.other else -1,
    )


def _others(graph: Graph, column: Column, cells: Value) -> list[Value]:
    """Add the one-hot columns of a category, or the cycles and the indicator of missing cells of another column."""
    if column.kind == "category":
        return [graph.cast(graph.node("Equal", cells, np.arange(len(column.other_names))[None, :]), np.float64)]
    if not (column.cycles or column.missing):
        return []
    is_missing = graph.node("IsNaN", cells)
    cycles = [graph.node("Where", is_missing, 0.0, _cycle(graph, cycle, cells)) for cycle in column.cycles]
    return [*cycles, graph.cast(is_missing, np.float64)] if column.missing else cycles


def _cycle(graph: Graph, cycle: str, days: Value) -> Value:
    """Add the sine and the cosine of a phase; see `date_cycles`."""

    def floor(value: Value) -> Value:
        return graph.node("Floor", value)

    def first_day(years: Value) -> Value:
        leap_days = floor((years - 1969) / 4) - floor((years - 1901) / 100) + floor((years - 1601) / 400)
        return (years - 1970) * 365 + leap_days

    if cycle == "year":
        # Three days are more than the beginnings of years deviate from those of mean years: it is this year, or the
        # next.
        year = floor((days - 3) / DAYS_PER_GREGORIAN_YEAR) + 1970
        start, following = first_day(year), first_day(year + 1)
        start = graph.node("Where", graph.node("Less", days, following), start, following)
        angles = (days - start) * (2.0 * np.pi / DAYS_PER_YEAR)
    elif cycle == "week":
        weeks = (floor(days) + 3) / 7  # the first day of 1970 was a Thursday
        angles = (weeks - floor(weeks)) * (2.0 * np.pi)
    else:
        angles = (days - floor(days)) * (2.0 * np.pi)
    # The cosine is the sine of a quarter turn more, because runtimes may have no cosine in float64.
    return graph.node("Sin", graph.node("Concat", angles, angles + 0.5 * np.pi, axis=1))


def table_model_to_onnx(model: Any) -> Any:
    """Export a model of a table, once the converters are registered.

    Inputs have the names of the columns and shape (n_rows, 1); `describe_inputs` says what they contain. The first
    output has the name of the target: predictions of shape (n_rows, 1), or classes of shape (n_rows,). A classification
    has a second output with one column per class, the probabilities or else scores.

    Parameters
    ----------
    model : TableRegressor or TableClassifier
        The model.

    Returns
    -------
    onnx.ModelProto
        The exported model. Its metadata has the target, the task, the columns, and the version of bochner.
    """
    from onnx import helper

    if not isinstance(model.encoder_, TableEncoder):
        raise ValueError("Only models with a `TableEncoder` are exported from the cells of a table; export a pipeline.")
    if not isinstance(model.estimator_, FeatureModel):
        raise ValueError(
            f"{type(model.estimator_).__name__} has no ONNX form; fit the model with `FeatureRegressor` or "
            f"`FeatureClassifier` as its estimator (`bochner fit --model features`)."
        )
    if getattr(model, "log_factor_", None) is not None:
        raise ValueError(
            "A model of the logarithms of its target has no ONNX form; give it an estimator and fit again."
        )
    encoding, is_classification = model.encoder_.encoding_, is_classifier(model)
    names = [column.name for column in encoding.columns]
    encoder = TableEncoder()  # of the columns that are used
    encoder.encoding_, encoder.n_features_in_ = encoding, len(names)
    encoder.feature_names_in_ = np.array(names, dtype=object)
    target = model.target_name_ or "prediction"
    outputs = [target]
    if is_classification:
        outputs.append(f"{target}_{'probabilities' if hasattr(model.estimator_, 'predict_proba') else 'scores'}")
    outputs = [name + "_" if name in names else name for name in outputs]
    exported = import_skl2onnx().convert_sklearn(
        Pipeline([("encoder", encoder), ("model", model.estimator_)]),
        name="bochner",
        initial_types=[(column.name, _input_type(column, encoding.single)) for column in encoding.columns],
        final_types=[(name, None) for name in outputs],
        options={id(model.estimator_): {"zipmap": False}} if is_classification else None,
    )
    _rename(exported.graph, [*names, *outputs])
    about = {
        "target": target,
        "task": "classification" if is_classification else "regression",
        "columns": json.dumps(describe_inputs(model)),
        "bochner": version("bochner"),
    }
    helper.set_model_props(exported, about)
    return exported


def describe_inputs(model: Any) -> dict[str, str]:
    """Return what the input of each column contains, by the names of the columns."""
    return {column.name: INPUTS[column.kind] for column in model.encoder_.encoding_.columns}


def _input_type(column: Column, single: bool) -> Any:
    """Return the type of the input of a column."""
    from skl2onnx.common import data_types

    if not column.name:
        raise ValueError("A column without a name cannot be an input in ONNX; name it, and fit the model again.")
    if column.kind == "category":
        return data_types.StringTensorType([None, 1])
    return (data_types.FloatTensorType if single else data_types.DoubleTensorType)([None, 1])


def _rename(graph: Any, names: list[str]) -> None:
    """Give inputs and outputs their names; skl2onnx has replaced characters other than letters and digits."""
    variables = [*graph.input, *graph.output]
    renamed = dict(zip((variable.name for variable in variables), names, strict=True))
    for variable in variables:
        variable.name = renamed[variable.name]
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
