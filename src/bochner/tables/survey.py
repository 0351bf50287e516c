# SPDX-License-Identifier: BSD-3-Clause
"""One pass over a table for what a model needs beforehand: column moments, categories, a sample of rows."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.preprocessing._data import _handle_zeros_in_scale, _is_constant_feature

from bochner.rows import Array

if TYPE_CHECKING:
    import pyarrow as pa
from bochner.tables.encoding import Encoding
from bochner.tables.reader import Chunk, Table, arrow, listed

__all__ = ["Sample", "Survey", "survey"]

SAMPLE_ROWS = 20_000  # for the features: ten times what weights are learned from
SAMPLE_BYTES = 1 << 26
MOST_CATEGORIES = 100
MOST_CLASSES = 1000


@dataclass
class Sample:
    """A uniform sample of the rows of a table, however they are cut into chunks; `add` takes the next rows.

    One that begins within the table has the number of rows before it as `n_rows`; `merged` puts neighbours together.
    """

    seed: int
    size: int
    numeric: list[str]
    text: list[str]
    n_rows: int = 0
    keys: Array = field(default_factory=lambda: np.empty(0))
    columns: dict[str, Any] = field(default_factory=dict)
    targets: Array = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, table: Table, seed: int, first_row: int = 0) -> "Sample":
        """No rows yet; the seed decides which ones it will be."""
        # Enough for the features, and not more than some megabytes.
        width = len(table.numeric) + 8 * len(table.text)
        size = max(1000, min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * width)))
        return cls(seed, size, table.numeric, table.text, first_row)

    def add(self, cells: "pa.RecordBatch", targets: Array | None = None) -> None:
        """Keep the rows with the smallest of random keys, and their targets."""
        # The key of a row depends on the seed and the row's number alone.
        rng = np.random.Generator(np.random.Philox(key=self.seed).advance(self.n_rows // 4))
        skipped = self.n_rows % 4  # Philox makes four numbers at a time
        n_old = len(self.keys)
        keys = np.concatenate([self.keys, rng.random(skipped + cells.num_rows)[skipped:]])
        kept = _smallest(keys, self.size)
        self.keys = keys[kept]
        old, taken = kept[kept < n_old], cells.take(arrow().array(kept[kept >= n_old] - n_old))
        for name in [*self.numeric, *self.text]:
            values = taken.column(name).to_numpy(False)
            self.columns[name] = np.concatenate([self.columns[name][old], values]) if n_old else values
        if targets is not None:
            chosen = targets[kept[kept >= n_old] - n_old]
            self.targets = np.concatenate([self.targets[old], chosen]) if n_old else chosen
        self.n_rows += cells.num_rows

    def merged(self, following: "Sample") -> "Sample":
        """One sample of two: `following` has begun at the row after the last one of this."""
        keys = np.concatenate([self.keys, following.keys])
        kept = _smallest(keys, self.size)
        columns = {name: np.concatenate([self.columns[name], following.columns[name]])[kept] for name in self.columns}
        targets = np.concatenate([self.targets, following.targets])
        targets = targets[kept] if len(targets) else targets
        return replace(self, n_rows=following.n_rows, keys=keys[kept], columns=columns, targets=targets)

    def cells(self) -> "pa.RecordBatch":
        """The sampled rows, in their order."""
        return arrow().RecordBatch.from_pydict(self.columns)


@dataclass
class Survey:
    """What one look at every row of a table has found so far; `add` takes the next rows."""

    sample: Sample
    single: bool
    scaler: StandardScaler = field(default_factory=StandardScaler)
    categories: dict[str, list[str]] = field(default_factory=dict)
    target_values: list[Any] | None = field(default_factory=list)

    @classmethod
    def of(cls, table: Table, seed: int, first_row: int = 0) -> "Survey":
        """A survey that has not begun, of the rows from the first one on; the seed decides which are sampled."""
        single = all(str(table.schema.field(name).type) in ("float", "halffloat") for name in table.numeric)
        return cls(Sample.of(table, seed, first_row), single)

    @property
    def n_rows(self) -> int:
        """How many rows of the table there were, up to the last one seen."""
        return self.sample.n_rows

    def add(self, table: Table, chunk: Chunk) -> None:
        """Take the rows of a chunk into account."""
        cells = chunk.cells
        if table.numeric:
            self.scaler.partial_fit(_numbers(cells, table.numeric))
        for name in table.text:
            self._add_categories(table, name, cells.column(name).unique().to_pylist())
        targets = None if table.target is None else table.target_values(chunk)
        if targets is not None and self.target_values is not None:
            self._add_target_values(np.unique(targets).tolist())
        self.sample.add(cells, targets)

    def merged(self, table: Table, following: "Survey") -> "Survey":
        """One survey of two: `following` has begun at the row after the last one of this."""
        scaler = _merged_scaler(self.scaler, following.scaler) if table.numeric else self.scaler
        both = replace(
            self, sample=self.sample.merged(following.sample), scaler=scaler, categories=dict(self.categories)
        )
        for name in table.text:
            both._add_categories(table, name, following.categories[name])
        both._add_target_values(following.target_values)
        return both

    def check_not_empty(self, table: Table) -> None:
        """Refuse a table without rows."""
        if not self.n_rows:
            raise ValueError(f"{table.path} has no rows; its columns are {listed(table.names)}.")

    def _add_target_values(self, values: list[Any] | None) -> None:
        """Take different targets into account; None stands for too many."""
        found = None if self.target_values is None or values is None else {*self.target_values, *values}
        self.target_values = None if found is None or len(found) > MOST_CLASSES else sorted(found)

    def _add_categories(self, table: Table, name: str, values: list[str]) -> None:
        found = sorted(set(self.categories.get(name, [])) | set(values))
        if len(found) > MOST_CATEGORIES:
            raise ValueError(
                f"{table.path}: column {name!r} holds text with more than {MOST_CATEGORIES} different values; drop it, "
                f"or make numbers or fewer categories of it."
            )
        self.categories[name] = found

    def classes(self, table: Table) -> list[Any]:
        """The different targets, for a classification; a quantity is refused."""
        place = f"{table.path}: column {table.target!r}"
        if self.target_values is None:
            raise ValueError(
                f"{place} has more than {MOST_CLASSES} different values, too many for classes; make it a regression."
            )
        if not isinstance(self.target_values[0], float):
            return self.target_values
        if not all(value.is_integer() for value in self.target_values):
            raise ValueError(f"{place} holds numbers that are not whole, which are no classes; make it a regression.")
        return [int(value) for value in self.target_values]  # a CSV file's whole numbers come as floats

    def encoding(self, *, standardise: bool) -> Encoding:
        """How to turn the table's rows into numbers."""
        numeric = self.sample.numeric
        scaled = standardise and bool(numeric)
        return Encoding(
            numeric=numeric,
            categories={name: self.categories[name] for name in self.sample.text},
            mean=self.scaler.mean_ if scaled else np.zeros(len(numeric)),
            scale=self.scaler.scale_ if scaled else np.ones(len(numeric)),
            single=self.single,
        )


def survey(table: Table, seed: int) -> Survey:
    """Look at every row of a table once.

    Parameters
    ----------
    table : Table
        The table.
    seed : int
        Seed of the sample of rows.
    """
    found = Survey.of(table, seed)
    for chunk in table.chunks():
        found.add(table, chunk)
    found.check_not_empty(table)
    return found


def _numbers(cells: "pa.RecordBatch", names: list[str]) -> Array:
    return np.column_stack([cells.column(name).to_numpy(False).astype(np.float64) for name in names])


def _smallest(keys: Array, size: int) -> Array:
    """Where the smallest keys are, in order; all if there are not more than `size`."""
    return np.sort(np.argpartition(keys, size)[:size]) if len(keys) > size else np.arange(len(keys))


def _merged_scaler(left: StandardScaler, right: StandardScaler) -> StandardScaler:
    """The scaler of the rows of two, by the formula of Chan, Golub and LeVeque."""
    n_rows = left.n_samples_seen_ + right.n_samples_seen_
    share = right.n_samples_seen_ / n_rows
    distance = right.mean_ - left.mean_
    both = StandardScaler()
    both.n_samples_seen_ = n_rows
    both.mean_ = left.mean_ + share * distance
    both.var_ = (1.0 - share) * left.var_ + share * right.var_ + share * (1.0 - share) * distance**2
    constant = _is_constant_feature(both.var_, both.mean_, n_rows)
    both.scale_ = _handle_zeros_in_scale(np.sqrt(both.var_), constant_mask=constant)
    return both
