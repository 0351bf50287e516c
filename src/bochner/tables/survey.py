# SPDX-License-Identifier: BSD-3-Clause
"""One pass over a table that collects what a model needs beforehand: kinds of columns, categories, a sample of rows."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from bochner.progress import track
from bochner.rows import Array, Mask
from bochner.scaling.robust_standardizer import RobustStandardizer
from bochner.tables.columns import KINDS, CellError, Column, cell_targets, missing_targets
from bochner.tables.encoding import Encoding
from bochner.tables.reader import Table, raise_problems
from bochner.tables.recognition import cell_problem, recognize, recognize_target
from bochner.tables.sources import join_names
from bochner.tables.tallies import ColumnTally

Standardization = Literal["robust", "none"]

SAMPLE_ROWS = 20_000  # ten times the number of rows that the weights are fitted on
SAMPLE_BYTES = 1 << 26
MAX_CLASSES = 1000
MAX_NUMBER_CLASSES = 20  # a target with more distinct whole numbers is a quantity and not a class
MAX_CLASS_SHARE = 0.5  # of the rows may have classes of their own


@dataclass
class Sample:
    """A uniform sample of the rows of a table, which does not depend on how the rows are divided into chunks.

    Attributes
    ----------
    rng : Generator
        What the random keys of the rows are drawn from, one after the other.
    size : int
        Maximum number of sampled rows.
    n_kept : int
        Number of rows that were added and not excluded.
    keys : ndarray of shape (n_sampled,)
        The random keys of the sampled rows, which are the smallest of all keys.
    positions : ndarray of shape (n_sampled,)
        The indices of the sampled rows among the rows that were not excluded.
    cells : RecordBatch or None
        The sampled rows in the order of the table; None before the first row.
    """

    rng: np.random.Generator
    size: int
    keys: Array = field(default_factory=lambda: np.empty(0))
    positions: Array = field(default_factory=lambda: np.empty(0, np.intp))
    n_kept: int = 0
    cells: pa.RecordBatch | None = None

    @classmethod
    def of(cls, table: Table, seed: int) -> "Sample":
        """Create an empty sample of the rows of a table."""
        columns = [name for name in table.columns if name != table.target]
        width = len(columns) + 7 * sum(map(table.is_text, columns))
        size = max(1000, min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * max(1, width))))
        return cls(np.random.Generator(np.random.Philox(key=seed)), size)

    def add(self, cells: pa.RecordBatch, excluded: Mask | None = None) -> None:
        """Add the rows that follow, without the excluded ones; keep those with the smallest keys."""
        keys = self.rng.random(cells.num_rows)
        if excluded is not None and excluded.any():
            keys, cells = keys[~excluded], cells.filter(pa.array(~excluded))
        n_old = len(self.keys)
        positions = np.append(self.positions, self.n_kept + np.arange(len(keys)))
        self.n_kept += len(keys)
        keys = np.append(self.keys, keys)
        kept = np.sort(np.argpartition(keys, self.size)[: self.size]) if len(keys) > self.size else np.arange(len(keys))
        self.keys, self.positions = keys[kept], positions[kept]
        new = cells.take(pa.array(kept[kept >= n_old] - n_old))
        if self.cells is None:
            self.cells = new
        elif new.num_rows:
            old = self.cells.take(pa.array(kept[kept < n_old]))
            self.cells = pa.Table.from_batches([old, new]).combine_chunks().to_batches()[0]


class Survey:
    """What one pass over a table finds out about it.

    Parameters
    ----------
    table : Table
        The table.
    seed : int, default=0
        Seed of the sample.

    Attributes
    ----------
    sample : Sample
        A sample of the rows with a target.
    tallies : dict of str to ColumnTally
        Counts of the cells of each column.
    n_cells : int
        Number of rows.
    lengths : list of int
        Number of rows of each chunk, without those whose target is missing.
    """

    def __init__(self, table: Table, seed: int = 0) -> None:
        self.table = table
        self.tallies = {name: ColumnTally(table.storages[name], table.kinds.get(name, "")) for name in table.columns}
        self.sample, self.n_cells = Sample.of(table, seed), 0
        lengths = []
        for first_row, cells in track(table.chunks(), "reading", table.n_chunks()):
            self.n_cells += cells.num_rows
            for name, tally in self.tallies.items():
                tally.add(cells.column(name), first_row, table.reading)
            lengths.append(self._add_rows(cells))
        # Whether a cell such as "?" is a missing number or a class is known in the end.
        target = self.target_column
        self.lengths = [n_values if target is None or target.kind == "category" else n for n_values, n in lengths]
        if target is not None and self.sample.cells is not None:
            is_used = ~missing_targets(self.sample.cells.column(target.name), target)
            self.sample.cells = self.sample.cells.filter(pa.array(is_used))

    def _add_rows(self, cells: pa.RecordBatch) -> tuple[int, int]:
        """Sample rows with a target; return how many targets are not missing, as categories and as numbers."""
        if self.table.target is None:
            self.sample.add(cells)
            return cells.num_rows, cells.num_rows
        values = cells.column(self.table.target)
        missing = [missing_targets(values, Column(self.table.target, kind)) for kind in ("category", "number")]
        self.sample.add(cells, missing[0])
        return cells.num_rows - int(missing[0].sum()), cells.num_rows - int(missing[1].sum())

    @property
    def n_rows(self) -> int:
        """Number of rows, without those whose target is missing."""
        return sum(self.lengths)

    @property
    def n_without_target(self) -> int:
        """Number of rows that are left out because their target is missing."""
        return self.n_cells - self.n_rows

    @cached_property
    def n_equal(self) -> int:
        """Number of sampled rows, with their targets, that are equal to an earlier one."""
        cells = self.sample.cells
        if cells is None or not cells.num_columns:
            return 0
        distinct = pa.Table.from_batches([cells]).group_by(cells.schema.names).aggregate([])
        return int(cells.num_rows - distinct.num_rows)

    def check(self) -> None:
        """Raise an error with all problems of a table that a model is to be fitted on."""
        raise_problems(self.table.path, self.problems())

    def problems(self) -> list[str]:
        """Return messages about all that keeps a model from being fitted on the table."""
        table = self.table
        problems = []
        for name, tally in self.tallies.items():
            row, message = cell_problem(name, tally, is_target=name == table.target)
            if message:
                place = table.path if row is None else table.source.place(row)
                problems.append(f"{place}, column {name!r}: {message}.")
        problems += [table.unsupported_problem(name) for name in table.unsupported if name not in table.drop]
        if problems:
            return problems
        if not self.n_cells:
            return [f"{table.path} has no rows; its columns are {join_names(table.names)}."]
        if table.target is not None and not self.n_rows:
            return [f"{table.path}: column {table.target!r} has no values, so there is nothing to predict."]
        try:
            is_empty = not any(column.kind in KINDS for column in self.columns)
        except CellError as error:
            return [f"{table.path}, column {error.name!r}: {error.problem}; correct it, or give another kind."]
        if is_empty:
            return [
                f"{table.path} has no columns to predict from; besides the target and the columns that are left out, "
                f"at least one of {join_names(table.names)} is needed."
            ]
        return []

    @cached_property
    def columns(self) -> list[Column]:
        """What the columns are taken for, without the target."""
        tallies = {name: tally for name, tally in self.tallies.items() if name != self.table.target}
        columns = [recognize(name, tally, self.sampled(name)) for name, tally in tallies.items()]
        seen: set[bytes] = set()
        for index, column in enumerate(columns):
            if column.missing and column.kind not in ("category", "text"):
                # Cells that are always missing together need one indicator.
                mask = missing_targets(self.sampled(column.name), column).tobytes()
                columns[index] = replace(column, missing=mask not in seen)
                seen.add(mask)
        return columns

    def sampled(self, name: str) -> pa.Array:
        """Return the sampled cells of a column."""
        return pa.array([], pa.string()) if self.sample.cells is None else self.sample.cells.column(name)

    @property
    def target_column(self) -> Column | None:
        """What the target is taken for."""
        target = self.table.target
        return None if target is None else recognize_target(target, self.tallies[target])

    @cached_property
    def target_values(self) -> list[Any]:
        """The distinct targets of the sampled rows."""
        column, cells = self.target_column, self.sample.cells
        return [] if column is None or cells is None else np.unique(cell_targets(cells[column.name], column)).tolist()

    @property
    def task(self) -> str:
        """Whether to predict a number or a class: text, booleans and a few whole numbers are classes."""
        is_whole = all(isinstance(value, str) or float(value).is_integer() for value in self.target_values)
        is_number = self.target_column is None or self.target_column.kind == "number"
        is_few = is_whole and len(self.target_values) <= MAX_NUMBER_CLASSES
        return "classification" if is_few or not is_number else "regression"

    def check_target(self, is_classifier: bool) -> None:
        """Refuse a column that cannot be the target of a regression, or of a classification."""
        target, values = f"{self.table.path}: column {self.table.target!r}", self.target_values
        if not is_classifier and self.target_column is not None and self.target_column.kind == "category":
            raise ValueError(f"{target} contains text; use `TableClassifier` for classes, or convert it to numbers.")
        if is_classifier and len(values) > min(MAX_CLASSES, max(2, MAX_CLASS_SHARE * self.n_rows)):
            raise ValueError(
                f"{target} has {len(values):,} distinct values in {len(self.sample.keys):,} rows, too many for "
                f"classification; fit a regression if they are numbers."
            )
        if is_classifier and any(isinstance(value, float) and not value.is_integer() for value in values):
            raise ValueError(f"{target} contains fractional numbers, which cannot be classes; fit a regression.")

    def encoding(self, standardization: Standardization = "robust") -> Encoding:
        """Return the encoding of the rows; numbers are standardized as by `RobustStandardizer` on the sampled rows."""
        columns = [column for column in self.columns if column.kind in KINDS]
        numeric = [column for column in columns if column.has_number]
        is_robust = standardization == "robust"
        types = [str(self.table.schema.field(column.name).type) for column in columns if column.kind != "category"]
        return Encoding(
            columns,
            mean=np.array([column.fill if is_robust else 0.0 for column in numeric]),
            scale=np.array([column.scale if is_robust else 1.0 for column in numeric]),
            single=all(name in ("float", "halffloat") for name in types),
            limit=RobustStandardizer().limit if is_robust else np.inf,
            target=self.target_column,
            reading=self.table.reading,
        )
