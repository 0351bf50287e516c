# SPDX-License-Identifier: BSD-3-Clause
r"""Converters of features, of the models on them, and of `RobustStandardizer`.

Features are columns times a matrix: cosines and sines times amplitudes, or kernel values at landmarks times a
whitening. The two are kept apart, so that a linear model multiplies its coefficients by the matrix once, at export, and
not for every row.

Phases are computed in float64 also for float32 models, and reduced to :math:`f \in [-1/2, 1/2]` turns, which is exact.
The sine of few turns needs float32 only. The cosine is :math:`\sin(2 \pi (1/4 - |f|))`, because runtimes may have no
cosine in float64.
"""

from math import factorial
from typing import Any

import numpy as np

from bochner.export.graph import Graph, Value
from bochner.features.fourier_features import FourierFeatures
from bochner.features.kernel_features import KernelFeatures
from bochner.kernels import Exponential, Gaussian, Matern, RationalQuadratic
from bochner.losses import Quantile
from bochner.rows import Array, Metric
from bochner.scaling.robust_standardizer import LARGEST

MOST_TERMS = 20  # of a Matern kernel; beyond, its powers of the distance overflow long before it vanishes


def convert_features(graph: Graph, features: Any) -> None:
    """Write the features of rows."""
    columns, matrix = _feature_columns(graph, features, graph.rows(features.feature_map_.dtype))
    graph.write(columns * matrix if matrix.ndim == 1 else graph.product(columns, matrix))


def _feature_columns(graph: Graph, features: Any, rows: Value) -> tuple[Value, Array]:
    """Add the columns of float64 rows; return them with one factor per column in their dtype, or with a matrix.

    Columns that a matrix belongs to are float64: its entries can be large, and would amplify rounding errors.
    """
    if not isinstance(features, FourierFeatures):
        return _kernel_values(graph, features, rows), features.whitening_
    amplitudes = np.tile(np.sqrt(features.weights_), 2)
    dtype = np.dtype(np.float64) if features.matrix_ is not None else amplitudes.dtype
    turns = graph.product(rows, features.frequencies_.T) * (0.5 / np.pi)
    reduced = graph.cast(turns - graph.node("Round", turns), dtype)
    cosines = dtype.type(0.25) - graph.node("Abs", reduced)
    values = graph.node("Sin", graph.node("Concat", cosines, reduced, axis=1) * dtype.type(2.0 * np.pi))
    if features.matrix_ is None:
        return values, amplitudes
    return values, amplitudes.astype(np.float64)[:, None] * features.matrix_


def _kernel_values(graph: Graph, features: Any, rows: Value) -> Value:
    """Add the kernel values of rows at landmarks, in float64."""
    kernel, scaling = features.kernel_, features._scaling
    _check_kernel(kernel)
    landmarks = features.landmarks_.astype(np.float64)
    center = landmarks.mean(axis=0)  # relative to it, coordinates lose no digits to a common offset
    landmarks, rows = scaling.apply(landmarks - center), rows - center
    if isinstance(scaling, Metric):
        rows = graph.product(rows, scaling.directions.T)
    else:
        rows = rows / np.asarray(scaling.length_scales, dtype=np.float64)
    # A product with ones, because the reductions of ONNX have another signature in each version.
    squares = graph.product(rows * rows, np.ones((landmarks.shape[1], 1)))
    distances = graph.product(rows, -2.0 * landmarks.T) + squares + np.square(landmarks).sum(axis=1)
    return _profile(graph, kernel, graph.node("Max", distances, 0.0))


def _check_kernel(kernel: Any) -> None:
    if type(kernel) not in (Gaussian, Exponential, Matern, RationalQuadratic):
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


def _profile(graph: Graph, kernel: Any, squares: Value) -> Value:
    r"""Add the kernel at squared distances; Matern kernels of nu = p + 1/2 are a polynomial times an exponential.

    It is :math:`e^{-r} \sum_i \frac{p! (p + i)!}{(2 p)! i! (p - i)!} (2 r)^{p - i}`.
    """
    if isinstance(kernel, Gaussian):
        return graph.node("Exp", squares * -0.5)
    if isinstance(kernel, RationalQuadratic):
        return graph.node("Exp", graph.node("Log", squares * (0.5 / kernel.alpha) + 1.0) * -kernel.alpha)
    distances, p = graph.node("Sqrt", squares * (2.0 * kernel.nu)), int(kernel.nu)
    terms = [
        factorial(p) * factorial(p + i) / (factorial(2 * p) * factorial(i) * factorial(p - i)) * 2.0 ** (p - i)
        for i in range(p + 1)
    ]
    polynomial: Any = terms[0]
    for term in terms[1:]:
        polynomial = distances * polynomial + term
    return graph.node("Mul", graph.node("Exp", -distances), polynomial)


def convert_regressor(graph: Graph, model: Any) -> None:
    """Write the predictions, one column per target."""
    n_outputs = np.size(model.intercept_)
    if isinstance(model.loss_, Quantile) and n_outputs > 1:
        raise ValueError(f"ONNX has no model of {n_outputs} quantiles at once; export one model per level.")
    scores = _scores(graph, model)
    graph.write(graph.node("Exp", scores) if model.loss_.link == "log" else scores)


def convert_classifier(graph: Graph, model: Any) -> None:
    """Write the labels, and the probabilities or, if there are none, the scores of all classes."""
    scores, is_binary = _scores(graph, model), len(model.classes_) == 2
    if is_binary:
        positions = graph.cast(graph.node("Greater", scores, 0.0), np.int64)
        scores = graph.node("Concat", -scores, scores, axis=1)
    else:
        positions = graph.node("ArgMax", scores, axis=1)
    positions = graph.node("Reshape", positions, np.array([-1]))
    graph.node("Gather", class_labels(model.classes_), positions, output=graph.operator.outputs[0])
    options = graph.container.get_options(model, {"raw_scores": False})
    if hasattr(model, "predict_proba") and not options["raw_scores"]:
        # For two classes, 1 / (1 + e^-s) of the scores -s and s.
        scores = graph.node("Sigmoid", scores) if is_binary else graph.node("Softmax", scores, axis=1)
    graph.write(scores)


def class_labels(classes: Array) -> Array:
    """Return classes as text or as int64, the two types of labels; scikit-learn refuses other ones in `fit`."""
    return classes.astype(np.str_ if classes.dtype.kind in "OU" else np.int64)


def _scores(graph: Graph, model: Any) -> Value:
    """Add the scores z(x) . c + b, in float64."""
    features = model.features_
    if not isinstance(features, KernelFeatures):
        raise ValueError(
            f"A model with features={features!r:.100} cannot be exported to ONNX; put other transformers before the "
            f"model in a pipeline, and give it FourierFeatures or LandmarkFeatures."
        )
    columns, matrix = _feature_columns(graph, features, graph.rows(model._dtype))
    coef, matrix = np.atleast_2d(model.coef_).T, matrix.astype(np.float64)
    coef = matrix[:, None] * coef if matrix.ndim == 1 else matrix @ coef
    return graph.product(graph.cast(columns, np.float64), coef, np.atleast_1d(model.intercept_))


def convert_standardizer(graph: Graph, model: Any) -> None:
    """Write the standardized and clipped rows."""
    graph.write(add_standardization(graph, graph.rows(np.float64), model.center_, model.scale_, model.limit))


def add_standardization(graph: Graph, rows: Value, center: Any, scale: Any, limit: float) -> Value:
    """Add (x - center) / scale of float64 rows, softly clipped as by `soft_clip`."""
    rows = (rows - np.asarray(center, dtype=np.float64)) / np.asarray(scale, dtype=np.float64)
    if not np.isfinite(limit):
        return rows
    bounded = graph.node("Clip", rows, -LARGEST, LARGEST)
    ratios = bounded / limit
    return bounded / graph.node("Sqrt", ratios * ratios + 1.0)
