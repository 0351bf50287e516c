# SPDX-License-Identifier: BSD-3-Clause
"""Models of tables in ONNX: one input per column of the table, whose cells are encoded in the graph."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from bochner.atomic_files import replaced_file
from bochner.export.graph import import_skl2onnx
from bochner.export.registration import register
from bochner.table_models.fitted_model import FittedModel
from bochner.tables.columns import Column
from bochner.tables.encoding import Encoding
from bochner.tables.table_encoder import TableEncoder

__all__ = ["INPUTS", "describe_inputs", "save_onnx", "table_model_to_onnx"]

# What an input contains for each kind of column.
INPUTS = {
    "number": "number, NaN if missing",
    "boolean": "1 or 0, NaN if missing",
    "category": "text, empty if missing",
    "date": "days since 1970-01-01 00:00 in local time, NaN if missing",
    "time": "part of a day between 0 and 1, NaN if missing",
    "duration": "seconds, NaN if missing",
}


def table_model_to_onnx(model: FittedModel) -> Any:
    """Export a model of a table.

    Inputs have the names of the columns and shape (n_rows, 1); `describe_inputs` says what they contain. The first
    output has the name of the target: predictions of shape (n_rows, 1), or classes of shape (n_rows,). A classification
    has a second output with one column per class, the probabilities of a logistic regression or else scores.

    Parameters
    ----------
    model : FittedModel
        The model.

    Returns
    -------
    onnx.ModelProto
        The exported model. Its metadata has the target, the task, the columns, and the version of bochner.
    """
    from onnx import helper

    skl2onnx, encoding = import_skl2onnx(), model.encoding
    register()
    safe = {f"column_{i}": column for i, column in enumerate(encoding.columns)}
    pipeline = Pipeline([("encoder", _encoder(encoding)), ("model", model.estimator)])
    exported = skl2onnx.convert_sklearn(
        pipeline,
        name="bochner",
        initial_types=[(name, _input_type(column, encoding.single)) for name, column in safe.items()],
        options={id(model.estimator): {"zipmap": False}} if model.task == "classification" else None,
    )
    names = {name: column.name for name, column in safe.items()}
    names |= dict(zip((value.name for value in exported.graph.output), _output_names(model), strict=False))
    _rename(exported.graph, names)
    columns = json.dumps(describe_inputs(model))
    helper.set_model_props(
        exported, {"target": model.target, "task": model.task, "columns": columns, "bochner": model.version}
    )
    return exported


def describe_inputs(model: FittedModel) -> dict[str, str]:
    """Return what the input of each column contains.

    Parameters
    ----------
    model : FittedModel
        The model.

    Returns
    -------
    dict of str to str
        Descriptions by the names of the columns.
    """
    return {column.name: INPUTS[column.kind] for column in model.encoding.columns}


def save_onnx(exported: Any, path: Path) -> int:
    """Write an exported model to a file, which is replaced once it is complete, and return the number of bytes.

    Parameters
    ----------
    exported : onnx.ModelProto
        The exported model.
    path : Path
        The file.

    Returns
    -------
    int
        Size of the file.
    """
    content: bytes = exported.SerializeToString()
    with replaced_file(path) as temporary:
        temporary.write_bytes(content)
    return len(content)


def _encoder(encoding: Encoding) -> TableEncoder:
    """Return a fitted encoder of the columns that the model uses."""
    encoder = TableEncoder()
    encoder.encoding_, encoder.n_features_in_ = encoding, len(encoding.columns)
    encoder.feature_names_in_ = np.array([column.name for column in encoding.columns], dtype=object)
    return encoder


def _input_type(column: Column, single: bool) -> Any:
    """Return the type of the input of a column."""
    from skl2onnx.common import data_types

    if not column.name:
        raise ValueError("A column without a name cannot be an input in ONNX; name it, and fit the model again.")
    if column.kind == "category":
        return data_types.StringTensorType([None, 1])
    return (data_types.FloatTensorType if single else data_types.DoubleTensorType)([None, 1])


def _output_names(model: FittedModel) -> list[str]:
    """Return the names of the outputs, none of which is the name of a column."""
    kind = "probabilities" if hasattr(model.estimator, "predict_proba") else "scores"
    second = f"{model.target}_{kind}"
    while any(column.name == second for column in model.encoding.columns):
        second += "_"
    return [model.target, second]


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    """Rename inputs and outputs of a graph, and all other values such that no two have the same name."""
    prefix = "value_"
    while any(name.startswith(prefix) for name in names.values()):
        prefix += "_"

    def renamed(name: str) -> str:
        return names.get(name, prefix + name) if name else name

    for node in graph.node:
        node.input[:] = [renamed(name) for name in node.input]
        node.output[:] = [renamed(name) for name in node.output]
    for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        value.name = renamed(value.name)
