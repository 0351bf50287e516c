# SPDX-License-Identifier: BSD-3-Clause
"""Permutation importance of the columns of a table: how much the error grows if the cells of a column are shuffled."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bochner.rows import Array, Floats
from bochner.table_models.held_out import Evidence, HeldOut
from bochner.tables.columns import import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PermutationImportance", "permutation_importance", "with_cells"]

MOST_ROWS = 2_000


@dataclass(frozen=True)
class PermutationImportance:
    """How much the error on held-out rows grows if a column is shuffled.

    Attributes
    ----------
    names : list of str
        The columns.
    increases : ndarray of shape (n_columns,)
        Mean increases of the root mean squared error, or of the error rate.
    deviations : ndarray of shape (n_columns,)
        Standard deviations over the repetitions.
    n_rows : int
        Number of held-out rows.
    """

    names: list[str]
    increases: Floats
    deviations: Floats
    n_rows: int


def permutation_importance(
    held_out: HeldOut, names: Sequence[str], *, n_repeats: int = 5, seed: int = 0
) -> PermutationImportance:
    """Shuffle the cells of each column and compare the errors with those of the cells as they are.

    Parameters
    ----------
    held_out : HeldOut
        Rows that the estimator was not fitted on; of many, the first 2,000 are used.
    names : sequence of str
        The columns to shuffle.
    n_repeats : int, default=5
        How often each column is shuffled.
    seed : int, default=0
        Seed of the permutations, which are the same for all columns.
    """
    rng = np.random.default_rng(seed)
    cells, targets = held_out.cells[:MOST_ROWS], held_out.targets[:MOST_ROWS]
    task, encoding = held_out.model.task, held_out.model.encoding
    estimator = held_out.estimator.without_encoding()
    orders = [rng.permutation(cells.num_rows) for _ in range(n_repeats)]

    def error(shuffled: "pa.RecordBatch") -> float:
        predicted = np.asarray(estimator.predict(encoding.encode(shuffled)))
        return Evidence.of(task, targets, predicted).error

    plain = error(cells)
    increases = np.array([[error(_shuffled(cells, name, order)) - plain for order in orders] for name in names])
    increases = increases.reshape(len(names), n_repeats)
    return PermutationImportance(list(names), increases.mean(axis=1), increases.std(axis=1), cells.num_rows)


def _shuffled(cells: "pa.RecordBatch", name: str, order: Array) -> "pa.RecordBatch":
    return with_cells(cells, name, cells.column(name).take(import_pyarrow().array(order)))


def with_cells(cells: "pa.RecordBatch", name: str, values: "pa.Array") -> "pa.RecordBatch":
    """Return rows with other cells in one column.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from bochner.table_models.permutation import with_cells
    >>> with_cells(pa.RecordBatch.from_pydict({"a": [1, 2], "b": [3, 4]}), "b", pa.array([5, 6])).to_pydict()
    {'a': [1, 2], 'b': [5, 6]}
    """
    columns = [values if field.name == name else cells.column(field.name) for field in cells.schema]
    return import_pyarrow().RecordBatch.from_arrays(columns, schema=cells.schema)
