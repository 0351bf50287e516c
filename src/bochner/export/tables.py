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
from bochner.export.graph import ML_DOMAIN, Graph, import_skl2onnx, set_output
from bochner.feature_models.feature_model import FeatureModel
from bochner.tables.columns import DAYS_PER_YEAR, Column
from bochner.tables.encoding import Encoding
from bochner.tables.table_encoder import TableEncoder

__all__ = ["convert_encoder", "describe_inputs", "set_encoder_types", "table_model_to_onnx"]

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


def convert_encoder(scope: Any, operator: Any, container: Any) -> None:
    """Write the encoded rows."""
    graph, encoding = Graph(scope, operator, container), operator.raw_operator.encoding_
    inputs = _inputs(operator)
    cells = {column.name: _cells(graph, column, inputs[column.name]) for column in encoding.columns}
    parts = [*_numbers(graph, encoding, cells), *_others(graph, encoding, cells)]
    encoded = parts[0] if len(parts) == 1 else graph.node("Concat", *parts, axis=1)
    graph.write(graph.cast(encoded, encoding.dtype))


def set_encoder_types(operator: Any) -> None:
    """Declare one output with the encoded columns, in the dtype of the encoding."""
    encoding = operator.raw_operator.encoding_
    set_output(operator, encoding.dtype, len(encoding.names))


def _inputs(operator: Any) -> dict[str, Any]:
    """Return the input of each column of the table."""
    encoder = operator.raw_operator
    n_columns = encoder.n_features_in_
    if len(operator.inputs) != n_columns:
        raise ValueError(
            f"TableEncoder has {len(operator.inputs)} ONNX inputs, but was fitted on {n_columns} columns; give one "
            f"input of one column for each of them, as for a data frame."
        )
    names = getattr(encoder, "feature_names_in_", [f"x{i}" for i in range(n_columns)])
    return dict(zip(names, operator.inputs, strict=True))


def _cells(graph: Graph, column: Column, variable: Any) -> str:
    """Add the cells of a column: codes of categories as int64, or numbers as float64, NaN where they are missing."""
    from skl2onnx.common.data_types import StringTensorType

    if column.kind == "text":
        raise ValueError(
            f"Column {column.name!r} is text, whose hashed n-grams have no ONNX form; give drop=[{column.name!r}]."
        )
    is_text = isinstance(variable.type, StringTensorType)
    if is_text != (column.kind == "category"):
        expected = "text" if column.kind == "category" else "numbers"
        raise ValueError(f"Column {column.name!r} is a {column.kind}; its ONNX input must contain {expected}.")
    if column.kind == "category":
        return _codes(graph, column, variable.full_name)
    return graph.cast(variable.full_name, np.float64)


def _codes(graph: Graph, column: Column, name: str) -> str:
    """Add the position of each cell among the one-hot columns, -1 for a category that has none."""
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
        name,
        domain=ML_DOMAIN,
        op_version=2,
        keys_strings=texts,
        values_int64s=codes,
        default_int64=len(column.categories) if column.other else -1,
    )


def _numbers(graph: Graph, encoding: Encoding, cells: dict[str, str]) -> list[str]:
    """Add the standardized numbers; nothing if there are none."""
    columns = [column for column in encoding.columns if column.has_number]
    if not columns:
        return []
    numbers = graph.node("Concat", *(cells[column.name] for column in columns), axis=1)
    fills = np.array([[column.fill for column in columns]])
    filled = graph.node("Where", graph.node("IsNaN", numbers), fills, numbers)
    return [add_standardization(graph, filled, encoding.mean, encoding.scale, encoding.limit)]


def _others(graph: Graph, encoding: Encoding, cells: dict[str, str]) -> list[str]:
    """Add one-hot columns, cycles and indicators of missing cells, in the order of the encoding."""
    parts = []
    for column in encoding.columns:
        name = cells[column.name]
        if column.kind == "category":
            positions = np.arange(len(column.other_names))[None, :]
            parts.append(graph.cast(graph.node("Equal", name, positions), np.float64))
            continue
        is_missing = graph.node("IsNaN", name) if column.cycles or column.missing else ""
        for cycle in column.cycles:
            parts.append(_cycle(graph, cycle, name, is_missing))
        if column.missing:
            parts.append(graph.cast(is_missing, np.float64))
    return parts


def _cycle(graph: Graph, cycle: str, days: str, is_missing: str) -> str:
    """Add the sine and the cosine of a phase, zeros where the date is missing; see `date_cycles`."""
    if cycle == "year":
        phase = graph.node("Div", graph.node("Sub", days, _year_start(graph, days)), np.float64(DAYS_PER_YEAR))
    elif cycle == "week":
        # The first day of 1970 was a Thursday.
        weekday = _remainder(graph, graph.node("Add", graph.node("Floor", days), np.float64(3.0)), 7.0)
        phase = graph.node("Div", weekday, np.float64(7.0))
    else:
        phase = _remainder(graph, days, 1.0)
    angles = graph.node("Mul", phase, np.float64(2.0 * np.pi))
    # The cosine is the sine of a quarter turn more, because runtimes may have no cosine in float64.
    both = graph.node("Concat", angles, graph.node("Add", angles, np.float64(0.5 * np.pi)), axis=1)
    return graph.node("Where", is_missing, np.float64(0.0), graph.node("Sin", both))


def _remainder(graph: Graph, values: str, divisor: float) -> str:
    whole = graph.node("Floor", graph.node("Div", values, np.float64(divisor)))
    return graph.node("Sub", values, graph.node("Mul", whole, np.float64(divisor)))


def _year_start(graph: Graph, days: str) -> str:
    """Add the first day of the year of each date, in days since the beginning of 1970."""
    # Three days are more than the beginnings of years deviate from those of mean years: it is this year, or the next.
    shifted = graph.node("Sub", days, np.float64(3.0))
    year = graph.node("Floor", graph.node("Div", shifted, np.float64(DAYS_PER_GREGORIAN_YEAR)))
    start, following = (_first_day(graph, graph.node("Add", year, np.float64(1970.0 + shift))) for shift in (0.0, 1.0))
    return graph.node("Where", graph.node("Less", days, following), start, following)


def _first_day(graph: Graph, years: str) -> str:
    total = graph.node("Mul", graph.node("Sub", years, np.float64(1970.0)), np.float64(365.0))
    for origin, period, sign in ((1969.0, 4.0, "Add"), (1901.0, 100.0, "Sub"), (1601.0, 400.0, "Add")):
        cycles = graph.node("Div", graph.node("Sub", years, np.float64(origin)), np.float64(period))
        total = graph.node(sign, total, graph.node("Floor", cycles))
    return total


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

    _check(model)
    skl2onnx, encoding = import_skl2onnx(), model.encoder_.encoding_
    names = [column.name for column in encoding.columns]
    encoder = TableEncoder()  # of the columns that are used
    encoder.encoding_, encoder.n_features_in_ = encoding, len(names)
    encoder.feature_names_in_ = np.array(names, dtype=object)
    outputs = _output_names(model)
    exported = skl2onnx.convert_sklearn(
        Pipeline([("encoder", encoder), ("model", model.estimator_)]),
        name="bochner",
        initial_types=[(column.name, _input_type(column, encoding.single)) for column in encoding.columns],
        final_types=[(name, None) for name in outputs],
        options={id(model.estimator_): {"zipmap": False}} if is_classifier(model) else None,
    )
    _rename(exported.graph, [*names, *outputs])
    about = {
        "target": _target(model),
        "task": "classification" if is_classifier(model) else "regression",
        "columns": json.dumps(describe_inputs(model)),
        "bochner": version("bochner"),
    }
    helper.set_model_props(exported, about)
    return exported


def _check(model: Any) -> None:
    """Refuse models that have no ONNX form, with what to do."""
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


def _target(model: Any) -> str:
    return model.target_name_ or "prediction"


def _output_names(model: Any) -> list[str]:
    """Return the names of the outputs, none of which is the name of a column."""
    names = [_target(model)]
    if is_classifier(model):
        names.append(f"{_target(model)}_{'probabilities' if hasattr(model.estimator_, 'predict_proba') else 'scores'}")
    taken = {column.name for column in model.encoder_.encoding_.columns}
    return [name + "_" if name in taken else name for name in names]


def _rename(graph: Any, names: list[str]) -> None:
    """Give inputs and outputs their names; skl2onnx has replaced characters other than letters and digits."""
    variables = [*graph.input, *graph.output]
    renamed = dict(zip((variable.name for variable in variables), names, strict=True))
    for variable in variables:
        variable.name = renamed[variable.name]
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
