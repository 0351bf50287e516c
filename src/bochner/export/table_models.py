# SPDX-License-Identifier: BSD-3-Clause
"""Models of tables in ONNX: one input per column of the table, whose cells are encoded in the graph."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from bochner.atomic_files import replaced_file
from bochner.export.graph import import_skl2onnx
from bochner.feature_models.feature_model import FeatureModel
from bochner.tables.columns import Column
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
    safe = {f"column_{i}": column for i, column in enumerate(encoding.columns)}
    encoder = TableEncoder()
    encoder.encoding_, encoder.n_features_in_ = encoding, len(encoding.columns)
    encoder.feature_names_in_ = np.array([column.name for column in encoding.columns], dtype=object)
    exported = skl2onnx.convert_sklearn(
        Pipeline([("encoder", encoder), ("model", model.estimator_)]),
        name="bochner",
        initial_types=[(name, _input_type(column, encoding.single)) for name, column in safe.items()],
        options={id(model.estimator_): {"zipmap": False}} if is_classifier(model) else None,
    )
    names = {name: column.name for name, column in safe.items()}
    names |= dict(zip((value.name for value in exported.graph.output), _output_names(model), strict=False))
    _rename(exported.graph, names)
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
    texts = [column.name for column in model.encoder_.encoding_.columns if column.kind == "text"]
    if texts:
        raise ValueError(
            f"Text has no ONNX form, because its n-grams are hashed; give drop={texts!r}, or the kind category, and "
            f"fit the model again."
        )


def describe_inputs(model: Any) -> dict[str, str]:
    """Return what the input of each column contains, by the names of the columns."""
    return {column.name: INPUTS[column.kind] for column in model.encoder_.encoding_.columns}


def save_onnx(exported: Any, path: Path) -> int:
    """Write an exported model to a file, which is replaced once it is complete, and return the number of bytes."""
    content: bytes = exported.SerializeToString()
    with replaced_file(path) as temporary:
        temporary.write_bytes(content)
    return len(content)


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
    kind = "probabilities" if hasattr(model.estimator_, "predict_proba") else "scores"
    names = []
    for name in (_target(model), f"{_target(model)}_{kind}"):
        while any(column.name == name for column in model.encoder_.encoding_.columns):
            name += "_"
        names.append(name)
    return names


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
