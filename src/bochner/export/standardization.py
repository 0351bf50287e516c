# SPDX-License-Identifier: BSD-3-Clause
"""Converter of `RobustStandardizer`: standardization and soft clipping, in float64."""

from typing import Any

import numpy as np

from bochner.export.graph import Graph, set_output
from bochner.scaling.robust_standardizer import LARGEST

__all__ = ["add_clipping", "add_standardization", "convert_standardizer", "set_standardizer_types"]


def convert_standardizer(scope: Any, operator: Any, container: Any) -> None:
    """Write the standardized and clipped rows."""
    graph, model = Graph(scope, operator, container), operator.raw_operator
    rows = add_standardization(graph, graph.rows(np.float64), model.center_, model.scale_)
    graph.write(add_clipping(graph, rows, model.limit))


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


def add_clipping(graph: Graph, rows: str, limit: float) -> str:
    """Add what `soft_clip` does to standardized rows."""
    if not np.isfinite(limit):
        return rows
    bounded = graph.node("Clip", rows, np.float64(-LARGEST), np.float64(LARGEST))
    ratios = graph.node("Div", bounded, np.float64(limit))
    squares = graph.node("Mul", ratios, ratios)
    return graph.node("Div", bounded, graph.node("Sqrt", graph.node("Add", squares, np.float64(1.0))))
