# SPDX-License-Identifier: BSD-3-Clause
"""Converters of the linear models: a regression writes its targets, a classifier labels and probabilities or scores."""

from typing import Any

import numpy as np

from bochner.export.features import feature_columns
from bochner.export.graph import Graph, set_output
from bochner.features.kernel_features import KernelFeatures
from bochner.losses import Quantile
from bochner.rows import Array

__all__ = [
    *("CLASSIFIER_OPTIONS", "convert_classifier", "parse_classifier", "set_classifier_types"),
    *("convert_regressor", "set_regressor_types"),
]

# What skl2onnx offers for classifiers: dictionaries of probabilities, positions instead of labels, and so on.
CLASSIFIER_OPTIONS: dict[str, list[Any]] = {
    "zipmap": [True, False, "columns"],
    "nocl": [True, False],
    "output_class_labels": [False, True],
    "raw_scores": [True, False],
}


def convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    """Write the predictions, one column per target."""
    graph, model = Graph(scope, operator, container), operator.raw_operator
    scores = _scores(graph, model)
    n_outputs = np.size(model.intercept_)
    if isinstance(model.loss_, Quantile) and n_outputs > 1:
        raise ValueError(f"ONNX has no model of {n_outputs} quantiles at once; export one model per level.")
    graph.write(graph.node("Exp", scores) if model.loss_.link == "log" else scores)


def set_regressor_types(operator: Any) -> None:
    """Declare one output with one column per target."""
    model = operator.raw_operator
    set_output(operator, model._dtype, np.size(model.intercept_))


def convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    """Write the labels, and the probabilities or, if there are none, the scores of all classes."""
    graph, model = Graph(scope, operator, container), operator.raw_operator
    options = container.get_options(model, {"raw_scores": False, "nocl": False})
    scores = _scores(graph, model)
    if len(model.classes_) == 2:
        positions = graph.cast(graph.node("Greater", scores, np.float64(0.0)), np.int64)
        scores = graph.node("Concat", graph.node("Neg", scores), scores, axis=1)
    else:
        positions = graph.node("ArgMax", scores, axis=1)
    positions = graph.node("Reshape", positions, np.array([-1]))
    labels = np.arange(len(model.classes_)) if options["nocl"] else class_labels(model.classes_)
    graph.node("Gather", labels, positions, output=operator.outputs[0].full_name)
    if hasattr(model, "predict_proba") and not options["raw_scores"]:
        # For two classes, 1 / (1 + e^-s) of the scores -s and s.
        scores = graph.node("Sigmoid", scores) if len(labels) == 2 else graph.node("Softmax", scores, axis=1)
    graph.write(scores, 1)


def parse_classifier(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs of a classifier; float64 probabilities stay a matrix, because ZipMap accepts float32 only."""
    from skl2onnx._parse import _parse_sklearn_classifier
    from skl2onnx.common.data_types import DoubleTensorType

    if any(isinstance(variable.type, DoubleTensorType) for variable in inputs):
        given = scope.get_options(model, {"zipmap": True})
        scope.add_options(id(model), {"zipmap": False if given["zipmap"] is True else given["zipmap"]})
    return _parse_sklearn_classifier(scope, model, inputs, custom_parsers)


def set_classifier_types(operator: Any) -> None:
    """Declare labels, and a matrix with one column per class."""
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    model = operator.raw_operator
    options = operator.scope_inst.get_options(model, {"nocl": False})
    is_text = not options["nocl"] and class_labels(model.classes_).dtype.kind == "U"
    kind = StringTensorType if is_text else Int64TensorType
    operator.outputs[0].set_type(kind([operator.inputs[0].get_first_dimension()]))
    set_output(operator, model._dtype, len(model.classes_), 1)


def class_labels(classes: Array) -> Array:
    """Return classes as text or as int64, the two types of labels."""
    if all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(np.str_)
    try:
        labels = classes.astype(np.int64)
    except (TypeError, ValueError):
        labels = None
    if labels is None or not (labels == classes).all():
        raise ValueError(
            f"The classes {classes.tolist()!r:.100} cannot be labels in ONNX, which are text or integers; encode them "
            f"before the fit, for instance with LabelEncoder."
        )
    return np.asarray(labels)


def _scores(graph: Graph, model: Any) -> str:
    """Add the scores z(x) . c + b, in float64."""
    coef, intercept = np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)
    features, dtype = model.features_, np.dtype(model._dtype)
    if isinstance(features, KernelFeatures):
        columns = feature_columns(graph, features, graph.rows(dtype))
        name, coef = columns.name, columns.product(coef)
    else:
        name = _transformed(graph, features, dtype, model.n_features_in_)
    return graph.product(graph.cast(name, np.float64), np.ascontiguousarray(coef), intercept)


def _transformed(graph: Graph, features: Any, dtype: Any, n_features: int) -> str:
    """Add the features of another library's transformer, by its own converter."""
    from skl2onnx.algebra.onnx_operator import OnnxSubEstimator
    from skl2onnx.algebra.onnx_ops import OnnxIdentity
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    kind = DoubleTensorType if dtype == np.float64 else FloatTensorType
    version = graph.container.target_opset
    rows = graph.scope.declare_local_variable("rows", kind([None, n_features]))
    inputs = [graph.cast(variable.full_name, dtype) for variable in graph.operator.inputs]
    graph.node("Concat", *inputs, output=rows.full_name, axis=1)
    name: str = graph.scope.get_unique_variable_name("features")
    inner = OnnxSubEstimator(features, rows, op_version=version)
    OnnxIdentity(inner, op_version=version, output_names=[name]).add_to(graph.scope, graph.container)
    return name
