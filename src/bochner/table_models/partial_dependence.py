# SPDX-License-Identifier: BSD-3-Clause
"""Partial dependence: the mean prediction if a column had one value in all rows, against that value."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.rows import Array, Floats
from bochner.table_models.fitted_model import FittedModel
from bochner.table_models.held_out import respond
from bochner.table_models.permutation import with_cells
from bochner.tables.columns import Column, cell_numbers, cell_text, import_pyarrow, moments_in_time

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PartialDependence", "partial_dependence"]

MOST_ROWS = 300
MOST_VALUES = 25
MOST_CATEGORIES = 8
TAILS = 0.02  # share of the rows on either side that the values leave out
BAND = (0.1, 0.9)
MICROSECONDS_PER_HOUR = 3_600_000_000


@dataclass(frozen=True)
class PartialDependence:
    """Mean predictions against the values of a column.

    Attributes
    ----------
    name : str
        The column.
    kind : str
        Its kind, as in `Column`.
    labels : list of str
        Texts of the values, if they are categories or booleans; else empty.
    values : ndarray of shape (n_values,)
        The values: numbers, days since 1970 of dates, hours of times, seconds of durations, positions of categories.
    outputs : list of str
        Names of the outputs: the classes, or the target of a regression.
    response : {"prediction", "probability", "score"}
        What is averaged.
    means : ndarray of shape (n_values, n_outputs)
        Means over the rows.
    low, high : ndarray of shape (n_values, n_outputs)
        Quantiles 0.1 and 0.9 over the rows, each row's curve shifted to the mean of all. Where they differ much, the
        effect of the column depends on other columns.
    deciles : ndarray of shape (n_deciles,)
        Deciles of the values in the rows; empty for categories.
    """

    name: str
    kind: str
    labels: list[str]
    values: Floats
    outputs: list[str]
    response: str
    means: Floats
    low: Floats
    high: Floats
    deciles: Floats


def partial_dependence(model: FittedModel, cells: "pa.RecordBatch", name: str) -> PartialDependence | None:
    """Predict sampled rows with each of several values of a column.

    Parameters
    ----------
    model : FittedModel
        The model.
    cells : RecordBatch
        Rows of a table in random order, whose values are used; the first 300 of them are predicted.
    name : str
        The column.

    Returns
    -------
    PartialDependence or None
        The means; None if the column has fewer than two values.
    """
    column = next(column for column in model.encoding.columns if column.name == name)
    grid, values, labels, deciles = _grid(cells.column(name), column, model)
    if len(values) < 2:
        return None
    pa = import_pyarrow()
    base = cells[:MOST_ROWS]
    n_rows, n_values = base.num_rows, len(values)
    repeated = base.take(pa.array(np.tile(np.arange(n_rows), n_values)))
    replaced = with_cells(repeated, name, grid.take(pa.array(np.repeat(np.arange(n_values), n_rows))))
    found = respond(model, model.estimator, model.encoding.encode(replaced))
    curves = found.values.reshape(n_values, n_rows, -1)
    means = curves.mean(axis=1)
    shifted = curves - curves.mean(axis=0) + means.mean(axis=0)
    low, high = np.quantile(np.clip(shifted, 0.0, 1.0) if found.kind == "probability" else shifted, BAND, axis=1)
    return PartialDependence(name, column.kind, labels, values, found.names, found.kind, means, low, high, deciles)


def _grid(cells: "pa.Array", column: Column, model: FittedModel) -> tuple[Any, Floats, list[str], Floats]:
    """Return cells with different values, these values as numbers, their texts if they have no order, and deciles.

    The cells are taken from the table, so that they are written as its cells are.
    """
    if column.kind in ("category", "boolean"):
        positions, labels = _frequent(cells)
        return cells.take(positions), np.arange(len(labels), dtype=float), labels, np.empty(0)
    numbers = _numbers(cells, column, model)
    known = np.flatnonzero(~np.isnan(numbers))
    ranked = known[np.argsort(numbers[known], kind="stable")]
    if not len(ranked):
        return cells[:0], np.empty(0), [], np.empty(0)
    shares = np.linspace(TAILS, 1.0 - TAILS, MOST_VALUES)
    ranks = (shares * (len(ranked) - 1)).round().astype(int)
    values, first = np.unique(numbers[ranked[ranks]], return_index=True)
    deciles = np.quantile(numbers[known], np.linspace(0.1, 0.9, 9))
    return cells.take(import_pyarrow().array(ranked[ranks[first]])), values, [], deciles


def _frequent(cells: "pa.Array") -> tuple[Any, list[str]]:
    """Return the positions of cells with the most frequent values, and these values as text."""
    pa = import_pyarrow()
    texts: Array = np.array(["" if text is None else text for text in cell_text(cells).to_pylist()], dtype=object)
    labels, first, counts = np.unique(texts, return_index=True, return_counts=True)
    shown = np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]
    return pa.array(first[shown]), [labels[j] or "(missing)" for j in shown]


def _numbers(cells: "pa.Array", column: Column, model: FittedModel) -> Floats:
    """Return cells as numbers for an axis, NaN where they are missing."""
    if column.kind != "time":
        return cell_numbers(cells, column, model.encoding.style)
    moments = moments_in_time(cells, column)
    hours = np.mod(moments.astype(np.int64) / MICROSECONDS_PER_HOUR, 24.0)  # parsed text has another day
    return np.where(np.isnat(moments), np.nan, hours)
