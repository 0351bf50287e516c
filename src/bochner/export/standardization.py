# SPDX-License-Identifier: BSD-3-Clause
"""Converter of `RobustStandardizer`: standardization and soft clipping, in float64."""

from typing import Any

import numpy as np

from bochner.export.graph import Graph, set_output
from bochner.scaling.robust_standardizer import LARGEST, SoftClipping

__all__ = ["add_clipping", "add_standardization", "convert_standardizer", "set_standardizer_types"]


def convert_standardizer(scope: Any, operator: Any, container: Any) -> None:
    """Write the standardized and clipped rows."""
    graph, model = Graph(scope, operator, container), operator.raw_operator
    rows = add_standardization(graph, graph.rows(np.float64), model.center_, model.scale_)
    graph.write(add_clipping(graph, rows, model.clipping_, model.n_features_in_))


def set_standardizer_types(operator: Any) -> None:
    """Declare one output with the columns of the rows."""
    set_output(operator, np.float64, operator.raw_operator.n_features_in_)


def add_standardization(graph: Graph, rows: str, center: Any, scale: Any) -> str:
    """Add (x - center) / scale.

    Parameters
    ----------
    graph : Graph
        The graph.
    rows : str
        Rows in float64.
    center, scale : array-like of shape (n_features,)
        What is subtracted, and what is then divided by.

    Returns
    -------
    str
        The standardized rows.
    """
    centered = graph.node("Sub", rows, np.asarray(center, dtype=np.float64))
    return graph.node("Div", centered, np.asarray(scale, dtype=np.float64))


def add_clipping(graph: Graph, rows: str, clipping: SoftClipping, n_columns: int) -> str:
    """Add what `SoftClipping.apply` does.

    Parameters
    ----------
    graph : Graph
        The graph.
    rows : str
        Standardized rows.
    clipping : SoftClipping
        The fitted clipping.
    n_columns : int
        Number of columns of the rows.

    Returns
    -------
    str
        The clipped rows.
    """
    bounded = graph.node("Clip", rows, np.float64(-LARGEST), np.float64(LARGEST))
    clipped = bounded
    if np.isfinite(clipping.limit):
        ratios = graph.node("Div", bounded, np.float64(clipping.limit))
        clipped = graph.node("Div", bounded, _root(graph, graph.node("Mul", ratios, ratios)))
    n_joint = len(clipping.columns)
    if not n_joint:
        return clipped
    joint = graph.node("Gather", clipped, clipping.columns.astype(np.int64), axis=1)
    coordinates = add_standardization(
        graph, graph.product(joint, np.ascontiguousarray(clipping.axes)), clipping.center, clipping.width
    )
    squares = graph.node("Mul", coordinates, coordinates)
    means = graph.column_sums(squares, n_joint, 1.0 / (n_joint * clipping.joint_limit**2))
    shrunk = graph.node("Div", coordinates, _root(graph, means))
    moved = graph.node("Add", graph.node("Mul", shrunk, clipping.width), clipping.center)
    replaced = graph.product(moved, np.ascontiguousarray(clipping.axes.T))
    positions = np.arange(n_columns)
    positions[clipping.columns] = n_columns + np.arange(n_joint)
    return graph.node("Gather", graph.node("Concat", clipped, replaced, axis=1), positions, axis=1)


def _root(graph: Graph, squares: str) -> str:
    return graph.node("Sqrt", graph.node("Add", squares, np.float64(1.0)))
