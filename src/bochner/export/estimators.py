# SPDX-License-Identifier: BSD-3-Clause
r"""Converters of features, of the models on them, and of `RobustStandardizer`.

Features are columns times a matrix: cosines and sines times amplitudes, or kernel values at landmarks times a
whitening. `Columns` keeps the two apart, so that a linear model multiplies its coefficients by the matrix once, at
export, and not for every row.

Phases are computed in float64 also for float32 models, and reduced to :math:`f \in [-1/2, 1/2]` turns, which is exact.
The sine of few turns needs float32 only. The cosine is :math:`\sin(2 \pi (1/4 - |f|))`, because runtimes may have no
cosine in float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np

from bochner.export.graph import Graph, set_output
from bochner.features.fourier_features import FourierFeatures
from bochner.features.kernel_features import KernelFeatures
from bochner.kernels import Exponential, Gaussian, Matern, RationalQuadratic
from bochner.losses import Quantile
from bochner.rows import Array, Floats, Metric, Scaling
from bochner.scaling.robust_standardizer import LARGEST

__all__ = [
    *("CLASSIFIER_OPTIONS", "add_standardization", "convert_classifier", "convert_features", "convert_regressor"),
    *("convert_standardizer", "set_classifier_types", "set_feature_types", "set_regressor_types"),
    *("set_standardizer_types",),
]

MOST_TERMS = 20  # of a Matern kernel; beyond, its powers of the distance overflow long before it vanishes
# What skl2onnx offers for classifiers; it asks for `nocl` itself.
CLASSIFIER_OPTIONS = {"zipmap": [True, False, "columns"], "raw_scores": [True, False], "nocl": [False]}


@dataclass(frozen=True)
class Columns:
    """Columns of a graph and the factor that turns them into features.

    Attributes
    ----------
    name : str
        The columns in the graph.
    dtype : dtype
        Their dtype.
    matrix : ndarray of shape (n_columns,) or (n_columns, width)
        One factor per column, or a matrix.
    """

    name: str
    dtype: Any
    matrix: Array

    def product(self, coef: Floats) -> Floats:
        """Return the coefficients (n_columns, n_outputs) of the columns that give those of the features."""
        matrix = self.matrix.astype(np.float64)
        return np.asarray(matrix[:, None] * coef if matrix.ndim == 1 else matrix @ coef)


def convert_features(scope: Any, operator: Any, container: Any) -> None:
    """Write the features of rows."""
    graph, features = Graph(scope, operator, container), operator.raw_operator
    columns = _feature_columns(graph, features, graph.rows(features.feature_map_.dtype))
    if columns.matrix.ndim == 1:
        graph.write(graph.node("Mul", columns.name, columns.matrix.astype(columns.dtype)))
    else:
        wide = graph.cast(columns.name, np.float64)
        graph.write(graph.product(wide, graph.constant64(columns.matrix)))


def set_feature_types(operator: Any) -> None:
    """Declare one output with the columns of the features."""
    feature_map = operator.raw_operator.feature_map_
    set_output(operator, feature_map.dtype, feature_map.n_columns)


def _feature_columns(graph: Graph, features: Any, rows: str) -> Columns:
    """Add the columns that the features of float64 rows are made of."""
    if isinstance(features, FourierFeatures):
        return _fourier_columns(graph, features, rows)
    values = _kernel_values(graph, features.kernel_, features.landmarks_, features._scaling, rows)
    return Columns(values, np.dtype(np.float64), features.whitening_)


def _fourier_columns(graph: Graph, features: FourierFeatures, rows: str) -> Columns:
    amplitudes = np.sqrt(features.weights_)
    amplitudes = np.concatenate([amplitudes, amplitudes])
    # The entries of a matrix can be large, and would amplify rounding errors of float32 columns.
    dtype = features.weights_.dtype if features.matrix_ is None else np.dtype(np.float64)
    phases = graph.product(rows, graph.constant64(np.ascontiguousarray(features.frequencies_.T)))
    turns = graph.node("Mul", phases, np.float64(0.5 / np.pi))
    reduced = graph.cast(graph.node("Sub", turns, graph.node("Round", turns)), dtype)
    cosines = graph.node("Sub", dtype.type(0.25), graph.node("Abs", reduced))
    both = graph.node("Concat", cosines, reduced, axis=1)
    values = graph.node("Sin", graph.node("Mul", both, dtype.type(2.0 * np.pi)))
    if features.matrix_ is None:
        return Columns(values, dtype, amplitudes)
    return Columns(values, dtype, amplitudes.astype(np.float64)[:, None] * features.matrix_)


def _kernel_values(graph: Graph, kernel: Any, landmarks: Any, scaling: Scaling, rows: str) -> str:
    """Add the kernel values of rows at landmarks, in float64."""
    _check_kernel(kernel)
    landmarks = landmarks.astype(np.float64)
    center = landmarks.mean(axis=0)  # relative to it, coordinates lose no digits to a common offset
    rows = graph.node("Sub", rows, center)
    landmarks = scaling.apply(landmarks - center)
    mapped = _scale(graph, scaling, rows)
    # A product with ones, because the reductions of ONNX have another signature in each version.
    squares = graph.product(graph.node("Mul", mapped, mapped), np.ones((landmarks.shape[1], 1)))
    products = graph.product(mapped, np.ascontiguousarray(-2.0 * landmarks.T))
    distances = graph.node("Add", graph.node("Add", products, squares), np.square(landmarks).sum(axis=1))
    return _PROFILES[type(kernel)](graph, kernel, graph.node("Max", distances, np.float64(0.0)))


def _scale(graph: Graph, scaling: Scaling, rows: str) -> str:
    if not isinstance(scaling, Metric):
        return graph.node("Div", rows, np.asarray(scaling.length_scales, dtype=np.float64))
    return graph.product(rows, np.ascontiguousarray(scaling.directions.T))


def _check_kernel(kernel: Any) -> None:
    if type(kernel) not in _PROFILES:
        kind = "a function or a precomputed matrix" if hasattr(kernel, "function") else type(kernel).__name__
        raise ValueError(
            f"LandmarkFeatures with {kind} as `kernel` cannot be exported to ONNX; use gaussian, exponential, matern "
            f"or rational_quadratic, or FourierFeatures."
        )
    if isinstance(kernel, Matern) and (kernel.nu % 1.0 != 0.5 or kernel.nu > MOST_TERMS):
        raise ValueError(
            f"LandmarkFeatures with Matern(nu={kernel.nu:g}) cannot be exported to ONNX, which has no Bessel "
            f"functions; use nu=0.5, 1.5, 2.5, ... up to {MOST_TERMS - 0.5}, or FourierFeatures."
        )


def _gaussian(graph: Graph, kernel: Any, squares: str) -> str:
    del kernel
    return graph.node("Exp", graph.node("Mul", squares, np.float64(-0.5)))


def _matern(graph: Graph, kernel: Any, squares: str) -> str:
    r"""Add :math:`e^{-r} \sum_i \frac{p! (p + i)!}{(2 p)! i! (p - i)!} (2 r)^{p - i}` for nu = p + 1/2."""
    distances = graph.node("Sqrt", graph.node("Mul", squares, np.float64(2.0 * kernel.nu)))
    decay = graph.node("Exp", graph.node("Neg", distances))
    p = int(kernel.nu)
    terms = [
        factorial(p) * factorial(p + i) / (factorial(2 * p) * factorial(i) * factorial(p - i)) * 2.0 ** (p - i)
        for i in range(p + 1)
    ]
    polynomial: Any = np.float64(terms[0])
    for term in terms[1:]:
        polynomial = graph.node("Add", graph.node("Mul", distances, polynomial), np.float64(term))
    return graph.node("Mul", decay, polynomial)


def _rational_quadratic(graph: Graph, kernel: Any, squares: str) -> str:
    inner = graph.node("Add", graph.node("Mul", squares, np.float64(0.5 / kernel.alpha)), np.float64(1.0))
    return graph.node("Exp", graph.node("Mul", graph.node("Log", inner), np.float64(-kernel.alpha)))


_PROFILES: dict[type, Callable[[Graph, Any, str], str]] = {
    Gaussian: _gaussian,
    Matern: _matern,
    Exponential: _matern,
    RationalQuadratic: _rational_quadratic,
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
    scores = _scores(graph, model)
    if len(model.classes_) == 2:
        positions = graph.cast(graph.node("Greater", scores, np.float64(0.0)), np.int64)
        scores = graph.node("Concat", graph.node("Neg", scores), scores, axis=1)
    else:
        positions = graph.node("ArgMax", scores, axis=1)
    positions = graph.node("Reshape", positions, np.array([-1]))
    graph.node("Gather", _class_labels(model.classes_), positions, output=operator.outputs[0].full_name)
    if hasattr(model, "predict_proba") and not container.get_options(model, {"raw_scores": False})["raw_scores"]:
        # For two classes, 1 / (1 + e^-s) of the scores -s and s.
        is_binary = len(model.classes_) == 2
        scores = graph.node("Sigmoid", scores) if is_binary else graph.node("Softmax", scores, axis=1)
    graph.write(scores, 1)


def set_classifier_types(operator: Any) -> None:
    """Declare labels, and a matrix with one column per class."""
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    model = operator.raw_operator
    kind = StringTensorType if _class_labels(model.classes_).dtype.kind == "U" else Int64TensorType
    operator.outputs[0].set_type(kind([operator.inputs[0].get_first_dimension()]))
    set_output(operator, model._dtype, len(model.classes_), 1)


def _class_labels(classes: Array) -> Array:
    """Return classes as text or as int64, the two types of labels; scikit-learn refuses other ones in `fit`."""
    return classes.astype(np.str_ if classes.dtype.kind in "OU" else np.int64)


def _scores(graph: Graph, model: Any) -> str:
    """Add the scores z(x) . c + b, in float64."""
    features = model.features_
    if not isinstance(features, KernelFeatures):
        raise ValueError(
            f"A model with features={features!r:.100} cannot be exported to ONNX; put other transformers before the "
            f"model in a pipeline, and give it FourierFeatures or LandmarkFeatures."
        )
    columns = _feature_columns(graph, features, graph.rows(model._dtype))
    coef, intercept = np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)
    return graph.product(graph.cast(columns.name, np.float64), columns.product(coef), intercept)


def convert_standardizer(scope: Any, operator: Any, container: Any) -> None:
    """Write the standardized and clipped rows."""
    graph, model = Graph(scope, operator, container), operator.raw_operator
    graph.write(add_standardization(graph, graph.rows(np.float64), model.center_, model.scale_, model.limit))


def set_standardizer_types(operator: Any) -> None:
    """Declare one output with the columns of the rows."""
    set_output(operator, np.float64, operator.raw_operator.n_features_in_)


def add_standardization(graph: Graph, rows: str, center: Any, scale: Any, limit: float) -> str:
    """Add (x - center) / scale of float64 rows, softly clipped as by `soft_clip`."""
    centered = graph.node("Sub", rows, np.asarray(center, dtype=np.float64))
    rows = graph.node("Div", centered, np.asarray(scale, dtype=np.float64))
    if not np.isfinite(limit):
        return rows
    bounded = graph.node("Clip", rows, np.float64(-LARGEST), np.float64(LARGEST))
    ratios = graph.node("Div", bounded, np.float64(limit))
    squares = graph.node("Mul", ratios, ratios)
    return graph.node("Div", bounded, graph.node("Sqrt", graph.node("Add", squares, np.float64(1.0))))
