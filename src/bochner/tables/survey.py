# SPDX-License-Identifier: BSD-3-Clause
"""One pass over a table that collects what a model needs beforehand: kinds of columns, categories, a sample of rows."""

import warnings
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from bochner.rows import Mask
from bochner.scaling.robust_standardizer import RobustStandardizer
from bochner.tables.columns import KINDS, CellError, Column, cell_targets, missing_targets
from bochner.tables.encoding import Encoding
from bochner.tables.reader import Table, join_names, join_words, raise_problems
from bochner.tables.recognition import ColumnTally, cell_problem, recognize, recognize_target

Standardization = Literal["robust", "none"]

SAMPLE_ROWS = 20_000  # ten times the number of rows that the weights are fitted on
SAMPLE_BYTES = 1 << 26
MAX_CLASSES = 1000
MAX_NUMBER_CLASSES = 20  # a target with more distinct whole numbers is a quantity and not a class
MAX_CLASS_SHARE = 0.5  # of the rows may have classes of their own


class Sample:
    """A uniform sample of the rows of a table, which does not depend on how the rows are divided into chunks.

    Parameters
    ----------
    table : Table
        The table whose rows are added.
    seed : int
        Seed of the random keys of the rows, which are drawn one after the other.

    Attributes
    ----------
    positions : ndarray of shape (n_sampled,)
        The indices of the sampled rows, those with the smallest keys, among the rows that were not excluded.
    cells : RecordBatch
        The sampled rows in the order of the table.
    """

    def __init__(self, table: Table, seed: int) -> None:
        width = max(1, len(table.columns) - (table.target is not None) + 7 * len(table.text_columns))
        self.size = max(1000, min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * width)))
        self.rng = np.random.Generator(np.random.Philox(key=seed))
        self.keys, self.positions, self.n_kept = np.empty(0), np.empty(0, np.intp), 0
        fields = [table.schema.field(name) for name in table.columns]
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in fields], schema=pa.schema(fields))
        self.cells = table.plain(empty)

    def add(self, cells: pa.RecordBatch, excluded: Mask | None = None) -> None:
        """Add the rows that follow, without the excluded ones; keep those with the smallest keys."""
        keys = self.rng.random(cells.num_rows)
        if excluded is not None and excluded.any():
            keys, cells = keys[~excluded], cells.filter(pa.array(~excluded))
        positions = np.append(self.positions, self.n_kept + np.arange(len(keys)))
        self.n_kept += len(keys)
        keys = np.append(self.keys, keys)
        kept = np.sort(np.argsort(keys)[: self.size])
        self.keys, self.positions = keys[kept], positions[kept]
        pairs = zip(self.cells.columns, cells.columns, strict=True)
        columns = [pa.concat_arrays(pair).take(pa.array(kept)) for pair in pairs]
        self.cells = pa.RecordBatch.from_arrays(columns, schema=cells.schema)


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
    n_rows, n_without_target : int
        Number of rows that have a target, and of those that are left out because it is missing.
    """

    def __init__(self, table: Table, seed: int = 0) -> None:
        self.table = table
        self.misfits: dict[str, str] = {}  # sampled cells that cannot be what their column is given as
        self.tallies = {name: ColumnTally(table.storages[name], table.kinds.get(name, "")) for name in table.columns}
        self.sample, self.n_cells = Sample(table, seed), 0
        lengths: dict[str, list[int]] = {"category": [], "number": []}
        for first_row, cells in table.chunks("reading"):
            self.n_cells += cells.num_rows
            for name, tally in self.tallies.items():
                tally.add(cells.column(name), first_row, table.reading)
            self.sample.add(cells, self._without_target(cells, "category"))
            for kind, found in lengths.items():
                found.append(cells.num_rows - int(self._without_target(cells, kind).sum()))
        # Whether a target such as "?" is a missing number or a class is known in the end.
        target = self.target_column
        self.lengths = lengths["category" if target is None or target.kind == "category" else "number"]
        self.n_rows = sum(self.lengths)
        self.n_without_target = self.n_cells - self.n_rows
        if target is not None:
            is_missing = self._without_target(self.sample.cells, target.kind)
            self.sample.cells = self.sample.cells.filter(pa.array(~is_missing))

    def _without_target(self, cells: pa.RecordBatch, kind: Any) -> Mask:
        """Return which rows have no target, if it is of a kind."""
        if self.table.target is None:
            return np.zeros(cells.num_rows, dtype=bool)
        return missing_targets(cells.column(self.table.target), Column(self.table.target, kind))

    @cached_property
    def n_equal(self) -> int:
        """Number of sampled rows, with their targets, that are equal to an earlier one."""
        cells = self.sample.cells
        if not cells.num_columns:
            return 0
        distinct = pa.Table.from_batches([cells]).group_by(cells.schema.names).aggregate([])
        return int(cells.num_rows - distinct.num_rows)

    def check(self) -> None:
        """Raise an error with all problems of a table that a model is to be fitted on."""
        raise_problems(self.table.path, self.problems())

    def problems(self) -> list[str]:
        """Return messages about all that keeps a model from being fitted on the table."""
        table, path, columns = self.table, self.table.path, self.columns  # which finds the misfits
        problems = []
        for name in self.tallies:
            row, message = self.cell_problem(name)
            if message:
                place = path if row is None else table.source.place(row)
                problems.append(f"{place}, column {name!r}: {message}.")
        problems += [table.unsupported_problem(name) for name in table.unsupported if name not in table.drop]
        if problems:
            return problems
        if columns and not self.n_cells:
            return [f"{path} has no rows; its columns are {join_names(table.names)}."]
        if columns and self.n_cells == 1:
            return [f"{path} has 1 sample, in which every column is constant; give more rows."]
        if self.n_cells and not self.n_rows:
            return [f"{path}: column {table.target!r} has no values, so there is nothing to predict."]
        if any(column.kind in KINDS for column in columns):
            return []
        found = self.left_out + [f"{name} (dropped)" for name in table.drop]
        return [f"{path} has no columns to predict from{': ' * bool(found)}{join_words(found)}."]

    def cell_problem(self, name: str) -> tuple[int | None, str]:
        """Return the row, if known, and the problem of the first cell that does not have its column's kind."""
        row, message = cell_problem(name, self.tallies[name], is_target=name == self.table.target)
        return row, message or self.misfits.get(name, "")

    def warn(self, stacklevel: int) -> None:
        """Warn of rows without a target, and of columns that are left out."""
        n_rows, target, found = self.n_without_target, self.table.target, join_words(self.left_out)
        if n_rows:
            warnings.warn(f"{n_rows:,} rows have no {target!r} and are left out.", stacklevel=stacklevel)
        if found:
            remedy = "give constant ones a kind in `kinds` to keep them, or name all in `drop` to omit this warning"
            warnings.warn(f"Columns are left out: {found}; {remedy}.", stacklevel=stacklevel)

    @property
    def left_out(self) -> list[str]:
        """The columns that are not encoded, with the reason."""
        return [f"{column.shown} ({column.kind})" for column in self.columns if column.kind not in KINDS]

    @cached_property
    def columns(self) -> list[Column]:
        """What the columns are taken for, without the target."""
        columns: list[Column] = []
        seen: set[bytes] = set()
        for name, tally in self.tallies.items():
            try:
                if name == self.table.target:
                    cell_targets(self.sampled(name), recognize_target(name, tally))
                else:
                    columns.append(recognize(name, tally, self.sampled(name)))
            except CellError as error:
                self.misfits[name] = f"{error}; correct it, or give another kind"
        for index, column in enumerate(columns):
            if column.missing and column.kind not in ("category", "text"):
                # Cells that are always missing together need one indicator.
                mask = missing_targets(self.sampled(column.name), column).tobytes()
                columns[index] = replace(column, missing=mask not in seen)
                seen.add(mask)
        return columns

    def sampled(self, name: str) -> pa.Array:
        """Return the sampled cells of a column."""
        return self.sample.cells.column(name)

    @property
    def target_column(self) -> Column | None:
        """What the target is taken for."""
        target = self.table.target
        return None if target is None else recognize_target(target, self.tallies[target])

    @cached_property
    def target_values(self) -> list[Any]:
        """The distinct targets of the sampled rows."""
        column = self.target_column
        return [] if column is None else np.unique(cell_targets(self.sampled(column.name), column)).tolist()

    @property
    def task(self) -> str:
        """Whether to predict a number or a class: text, booleans and a few whole numbers are classes."""
        is_whole = all(isinstance(value, str) or float(value).is_integer() for value in self.target_values)
        is_number = self.target_column is None or self.target_column.kind == "number"
        is_few = is_whole and len(self.target_values) <= MAX_NUMBER_CLASSES
        return "classification" if is_few or not is_number else "regression"

    def check_target(self, is_classifier: bool) -> None:
        """Refuse a column that cannot be the target of a regression, or of a classification."""
        raise_problems(self.table.path, self.target_problems(is_classifier))

    def target_problems(self, is_classifier: bool) -> list[str]:
        """Return what keeps the target from being that of a regression, or of a classification."""
        target, values = f"{self.table.path}: column {self.table.target!r}", self.target_values
        if not is_classifier:
            if self.target_column is not None and self.target_column.kind == "category":
                remedy = "use `TableClassifier` for classes, or convert it to numbers"
                return [f"{target} contains text; {remedy}."]
        elif len(values) > min(MAX_CLASSES, max(2, MAX_CLASS_SHARE * self.n_rows)):
            found = f"{len(values):,} distinct values in {len(self.sample.keys):,} rows, too many for classification"
            return [f"{target} has {found}; fit a regression if they are numbers."]
        elif len(values) == 1 and self.sample.cells.num_rows == self.n_rows:
            return [f"{target} has one class, {values[0]!r}; give rows of two or more."]
        elif any(isinstance(value, float) and not value.is_integer() for value in values):
            return [f"{target} contains fractional numbers, which cannot be classes; fit a regression."]
        return []

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
