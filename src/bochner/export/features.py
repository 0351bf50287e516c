# SPDX-License-Identifier: BSD-3-Clause
r"""Converters of `FourierFeatures` and `LandmarkFeatures`.

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
from bochner.features.landmark_features import LandmarkFeatures
from bochner.kernels import Cauchy, Exponential, Gaussian, Laplacian, Matern, RationalQuadratic
from bochner.rows import Array, Floats, Metric, Scaling

__all__ = ["Columns", "convert_features", "feature_columns", "set_feature_types"]

MOST_TERMS = 20  # of a Matern kernel; beyond, its powers of the distance overflow long before it vanishes


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
    columns = feature_columns(graph, features, graph.rows(features.feature_map_.dtype))
    if columns.matrix.ndim == 1:
        graph.write(graph.node("Mul", columns.name, columns.matrix.astype(columns.dtype)))
    else:
        wide = graph.cast(columns.name, np.float64)
        graph.write(graph.product(wide, graph.constant64(columns.matrix)))


def set_feature_types(operator: Any) -> None:
    """Declare one output with the columns of the features."""
    feature_map = operator.raw_operator.feature_map_
    set_output(operator, feature_map.dtype, feature_map.n_columns)


def feature_columns(graph: Graph, features: KernelFeatures, rows: str) -> Columns:
    """Add the columns that the features are made of.

    Parameters
    ----------
    graph : Graph
        The graph.
    features : FourierFeatures or LandmarkFeatures
        Fitted features.
    rows : str
        The rows, in float64.

    Returns
    -------
    Columns
        The columns.
    """
    if isinstance(features, FourierFeatures):
        return _fourier_columns(graph, features, rows)
    assert isinstance(features, LandmarkFeatures)
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
    if type(kernel) in _EXPONENTS:
        return _product_values(graph, _EXPONENTS[type(kernel)], landmarks, mapped)
    squares = graph.column_sums(graph.node("Mul", mapped, mapped), landmarks.shape[1])
    products = graph.product(mapped, np.ascontiguousarray(-2.0 * landmarks.T))
    distances = graph.node("Add", graph.node("Add", products, squares), np.square(landmarks).sum(axis=1))
    return _PROFILES[type(kernel)](graph, kernel, graph.node("Max", distances, np.float64(0.0)))


def _scale(graph: Graph, scaling: Scaling, rows: str) -> str:
    if not isinstance(scaling, Metric):
        return graph.node("Div", rows, np.asarray(scaling.length_scales, dtype=np.float64))
    return graph.product(rows, np.ascontiguousarray(scaling.directions.T))


def _check_kernel(kernel: Any) -> None:
    if type(kernel) not in _PROFILES and type(kernel) not in _EXPONENTS:
        kind = "a function or a precomputed matrix" if hasattr(kernel, "function") else type(kernel).__name__
        raise ValueError(
            f"LandmarkFeatures with {kind} as `kernel` cannot be exported to ONNX; use one of gaussian, laplacian, "
            f"cauchy, exponential, matern and rational_quadratic."
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


def _absolute(node: Callable[..., str], differences: str) -> str:
    return node("Abs", differences)


def _log_quadratic(node: Callable[..., str], differences: str) -> str:
    return node("Log", node("Add", node("Mul", differences, differences), "one"))


# Product kernels are e^(-sum_j f(x_j - y_j)).
_EXPONENTS: dict[type, Callable[[Callable[..., str], str], str]] = {Laplacian: _absolute, Cauchy: _log_quadratic}


def _product_values(graph: Graph, exponent: Callable[..., str], landmarks: Floats, rows: str) -> str:
    """Add the values of a product kernel, one row at a time, so that no array has three dimensions."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []

    def node(op_type: str, *inputs: str) -> str:
        nodes.append(helper.make_node(op_type, inputs, [f"value_{len(nodes)}"]))
        return str(nodes[-1].output[0])

    total = node("MatMul", exponent(node, node("Sub", "row", "landmarks")), "ones")
    values = node("Exp", node("Neg", total))
    constants = {"landmarks": landmarks, "ones": np.ones(landmarks.shape[1]), "one": np.float64(1.0)}
    used = {name for one in nodes for name in one.input}  # onnxruntime warns of others
    body = helper.make_graph(
        nodes,
        "kernel_values_of_a_row",
        [helper.make_tensor_value_info("row", TensorProto.DOUBLE, [landmarks.shape[1]])],
        [helper.make_tensor_value_info(values, TensorProto.DOUBLE, [len(landmarks)])],
        [numpy_helper.from_array(np.asarray(constants[name]), name) for name in sorted(used & set(constants))],
    )
    return graph.node("Scan", rows, body=body, num_scan_inputs=1)
