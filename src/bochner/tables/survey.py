# SPDX-License-Identifier: BSD-3-Clause
"""One pass over a table that collects what a model needs beforehand: kinds of columns, categories, a sample of rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bochner.rows import Array, Floats, Mask
from bochner.scaling.robust_standardizer import RobustStandardizer, SoftClipping, robust_moments, standardize
from bochner.tables.columns import (
    KINDS,
    Column,
    NumberStyle,
    cell_numbers,
    import_pyarrow,
    parse_booleans,
    parse_numbers,
)
from bochner.tables.encoding import Encoding
from bochner.tables.reader import Chunk, Table, raise_problems
from bochner.tables.recognition import cell_problem, missing_cells, recognize, recognize_target
from bochner.tables.sources import join_names
from bochner.tables.tallies import ColumnTally

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Sample", "Standardization", "Survey"]

Standardization = Literal["robust", "plain", "none"]

SAMPLE_ROWS = 20_000  # ten times the number of rows that the weights are fitted on
SAMPLE_BYTES = 1 << 26
MAX_CLASSES = 1000


@dataclass
class Sample:
    """A uniform sample of the rows of a table, which does not depend on how the rows are divided into chunks.

    Attributes
    ----------
    seed : int
        Seed of the random key of each row.
    size : int
        Maximum number of sampled rows.
    n_rows : int
        Number of rows that were added.
    keys : ndarray of shape (n_sampled,)
        The random keys of the sampled rows, which are the smallest of all keys.
    cells : RecordBatch or None
        The sampled rows in the order of the table; None before the first row.
    """

    seed: int
    size: int
    n_rows: int = 0
    keys: Array = field(default_factory=lambda: np.empty(0))
    cells: "pa.RecordBatch | None" = None

    @classmethod
    def of(cls, table: Table, seed: int) -> "Sample":
        """Create an empty sample of the rows of a table."""
        columns = [name for name in table.columns if name != table.target]
        width = len(columns) + 7 * sum(map(table.is_text, columns))
        size = max(1000, min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * max(1, width))))
        return cls(seed, size)

    def add(self, cells: "pa.RecordBatch", excluded: Mask | None = None) -> None:
        """Add the rows that follow, without the excluded ones; keep those with the smallest keys."""
        pa = import_pyarrow()
        keys = self._next_keys(cells.num_rows)
        self.n_rows += cells.num_rows
        if excluded is not None and excluded.any():
            keys, cells = keys[~excluded], cells.filter(pa.array(~excluded))
        n_old = len(self.keys)
        keys = np.concatenate([self.keys, keys])
        kept = _smallest(keys, self.size)
        old, new = kept[kept < n_old], kept[kept >= n_old] - n_old
        if self.cells is None:
            self.cells = cells.take(pa.array(new))
        elif len(new):
            both = pa.Table.from_batches([self.cells.take(pa.array(old)), cells.take(pa.array(new))])
            self.cells = both.combine_chunks().to_batches()[0]
        self.keys = keys[kept]

    def _next_keys(self, n_keys: int) -> Floats:
        """Return the keys of the next rows; a key depends only on the seed and the index of its row."""
        # Philox generates four numbers per step, so the stream is advanced to a multiple of four rows.
        rng = np.random.Generator(np.random.Philox(key=self.seed).advance(self.n_rows // 4))
        n_skipped = self.n_rows % 4
        return rng.random(n_skipped + n_keys)[n_skipped:]


@dataclass
class Survey:
    """Statistics of the rows of a table that were added so far.

    Attributes
    ----------
    sample : Sample
        A sample of the rows.
    tallies : dict of str to ColumnTally
        Counts of the cells of each column.
    target : str or None
        The column to predict.
    style : NumberStyle
        How numbers are written in text.
    lengths : list of int
        Number of rows of each chunk, without those whose target is missing.
    malformed : list of str
        Messages about malformed rows of a CSV file.
    """

    sample: Sample
    tallies: dict[str, ColumnTally]
    target: str | None
    style: NumberStyle
    lengths: list[int] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, table: Table, seed: int) -> "Survey":
        """Create an empty survey of the rows of a table; `seed` determines the sample."""
        tallies = {
            name: ColumnTally(
                table.storages[name],
                table.kinds.get(name, ""),
                keep_values=name == table.target,
                is_single=str(table.schema.field(name).type) in ("float", "halffloat"),
            )
            for name in table.columns
        }
        return cls(Sample.of(table, seed), tallies, table.target, table.style)

    @property
    def n_rows(self) -> int:
        """Number of rows that were added, without those whose target is missing."""
        return sum(self.lengths)

    @property
    def n_without_target(self) -> int:
        """Number of rows that are left out because their target is missing."""
        return 0 if self.target is None else self.tallies[self.target].n_cells - self.n_rows

    def add(self, chunk: Chunk) -> None:
        """Add the rows of a chunk."""
        cells = chunk.cells
        for name, tally in self.tallies.items():
            tally.add(cells.column(name), chunk.first_row, self.style)
        excluded = None
        if self.target is not None:
            column = recognize_target(self.target, self.tallies[self.target])
            excluded = missing_cells(cells.column(self.target), column, self.style)
        self.sample.add(cells, excluded)
        self.lengths.append(cells.num_rows - (0 if excluded is None else int(excluded.sum())))

    def check(self, table: Table) -> None:
        """Raise an error with all problems of a table that a model is to be fitted on."""
        raise_problems(table.path, self.problems(table))

    def problems(self, table: Table, columns: list[Column] | None = None) -> list[str]:
        """Return messages about all that keeps a model from being fitted on a table; `columns` are known ones."""
        problems = list(self.malformed)
        for name, tally in self.tallies.items():
            problem = cell_problem(name, tally, is_target=name == self.target)
            if problem is not None:
                row, message = problem
                place = table.path if row is None else table.source.place(row)
                problems.append(f"{place}, column {name!r}: {message}.")
        problems += [table.unsupported_problem(name) for name in table.unsupported if name not in table.drop]
        if problems:
            return problems
        n_cells = max((tally.n_cells for tally in self.tallies.values()), default=0)
        if not n_cells:
            return [f"{table.path} has no rows; its columns are {join_names(table.names)}."]
        if self.target is not None and not self.n_rows:
            return [f"{table.path}: column {self.target!r} has no values, so there is nothing to predict."]
        if not any(column.kind in KINDS for column in columns or self.columns()):
            return [
                f"{table.path} has no columns to predict from; besides the target and the columns that are left out, "
                f"at least one of {join_names(table.names)} is needed."
            ]
        return []

    def columns(self) -> list[Column]:
        """Return what the columns are taken for, without the target."""
        tallies = {name: tally for name, tally in self.tallies.items() if name != self.target}
        columns = [recognize(name, tally, self.sampled(name), self.style) for name, tally in tallies.items()]
        seen: set[bytes] = set()
        for index, column in enumerate(columns):
            if column.missing and column.kind != "category":
                # Cells that are always missing together need one indicator.
                mask = missing_cells(self.sampled(column.name), replace(column, kind="number"), self.style).tobytes()
                columns[index] = replace(column, missing=mask not in seen)
                seen.add(mask)
        return columns

    def sampled(self, name: str) -> "pa.Array":
        """Return the sampled cells of a column."""
        pa = import_pyarrow()
        return pa.array([], pa.string()) if self.sample.cells is None else self.sample.cells.column(name)

    def target_column(self) -> Column | None:
        """Return what the target is taken for."""
        return None if self.target is None else recognize_target(self.target, self.tallies[self.target])

    @property
    def target_is_text(self) -> bool:
        """Whether the targets are text."""
        column = self.target_column()
        return column is not None and column.kind == "category"

    @property
    def target_values(self) -> list[Any] | None:
        """The sorted distinct targets; None if there are more than `MAX_CLASSES`."""
        column = self.target_column()
        counts = None if column is None else self.tallies[column.name].counts
        if column is None or counts is None or not self.tallies[column.name].is_complete:
            return None
        values: Sequence[Any] = [value for value in counts if value == value]  # NaN is a missing target
        if column.kind in ("boolean", "number") and self.tallies[column.name].is_text:
            texts = import_pyarrow().array(values, import_pyarrow().string())
            parsed = parse_booleans(texts) if column.kind == "boolean" else parse_numbers(texts, self.style)
            found = [] if parsed is None else parsed.drop_null().to_pylist()
            values = found if column.kind == "boolean" else [float(value) for value in found]
        distinct = sorted(set(values))
        return None if len(distinct) > MAX_CLASSES else distinct

    def classes(self, table: Table) -> list[Any]:
        """Return the distinct targets for classification; targets that cannot be classes raise an error."""
        target = f"{table.path}: column {table.target!r}"
        values = self.target_values
        if values is None:
            raise ValueError(
                f"{target} has more than {MAX_CLASSES} distinct values, too many for classification; fit a regression."
            )
        if not isinstance(values[0], float):
            return values
        if not all(value.is_integer() for value in values):
            raise ValueError(f"{target} contains fractional numbers, which cannot be classes; fit a regression.")
        return [int(value) for value in values]  # whole numbers of a CSV file are read as floats

    def encoding(self, standardization: Standardization = "robust") -> Encoding:
        """Return the encoding of the rows.

        Parameters
        ----------
        standardization : {"robust", "plain", "none"}, default="robust"
            How numbers are standardized: as by `RobustStandardizer` on the sampled rows, by their mean and standard
            deviation, or not at all.
        """
        columns = [column for column in self.columns() if column.kind in KINDS]
        numeric = [column for column in columns if column.has_number]
        encoding = Encoding(
            columns,
            mean=np.zeros(len(numeric)),
            scale=np.ones(len(numeric)),
            single=all(self.tallies[column.name].is_single for column in columns if column.kind != "category"),
            target=self.target_column(),
            style=self.style,
        )
        if standardization == "none" or not numeric:
            return encoding
        numbers = [cell_numbers(self.sampled(column.name), column, self.style) for column in numeric]
        filled = np.column_stack(
            [np.where(np.isnan(x), column.fill, x) for x, column in zip(numbers, numeric, strict=True)]
        )
        # A column may have no values in the sampled rows, or none in the rows that have a target.
        complete = [x[~np.isnan(x)] if not np.isnan(x).all() else filled[:, j] for j, x in enumerate(numbers)]
        if standardization == "plain":
            mean, scale = np.transpose([(x.mean(), _deviation(x)) for x in complete])
            return replace(encoding, mean=mean, scale=scale)
        center, scale = np.transpose([np.ravel(robust_moments(x[:, None])) for x in complete])
        limits = RobustStandardizer()
        clipping = SoftClipping.fit(standardize(filled, center, scale), limits.limit, limits.joint_limit)
        return replace(encoding, mean=center, scale=scale, clipping=clipping)


def _deviation(x: Floats) -> float:
    """Return the standard deviation; 1 for a constant column, whose deviation may be a rounding error."""
    largest = float(np.abs(x).max())
    unit = np.ldexp(1.0, max(np.frexp(largest)[1] - 1, 0))  # of large numbers, whose squares would overflow
    deviation = float(unit * (x / unit - x[0] / unit).std())  # keeps the digits of numbers that are far from 0
    return deviation if deviation > 10.0 * np.finfo(np.float64).eps * largest else 1.0


def _smallest(keys: Floats, size: int) -> Array:
    """Return the indices of the `size` smallest keys, in increasing order."""
    return np.sort(np.argpartition(keys, size)[:size]) if len(keys) > size else np.arange(len(keys))
