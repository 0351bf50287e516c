# SPDX-License-Identifier: BSD-3-Clause
"""One pass over a table that collects what a model needs beforehand: column moments, categories, a sample of rows."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bochner.robust_standardizer import RobustStandardizer
from bochner.rows import Array, Floats
from bochner.tables.encoding import Encoding, column_numbers
from bochner.tables.reader import Chunk, Table, import_pyarrow, join_names

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ColumnMoments", "Sample", "Standardization", "Survey"]

Standardization = Literal["robust", "plain", "none"]

SAMPLE_ROWS = 20_000  # ten times the number of rows that the weights are fitted on
SAMPLE_BYTES = 1 << 26
MAX_CATEGORIES = 100
MAX_CLASSES = 1000


@dataclass(frozen=True)
class ColumnMoments:
    """Mean and variance of each column, accumulated over batches of rows.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    origin : ndarray of shape (n_columns,)
        The first row.
    offset : ndarray of shape (n_columns,)
        The mean minus the origin.
    variance : ndarray of shape (n_columns,)
        The mean squared deviation from the mean.

    Notes
    -----
    Moments are merged by the formula of Chan, Golub and LeVeque [1]_. The difference of two means enters it squared;
    means relative to a row keep its digits in columns whose mean is large compared with their standard deviation.

    References
    ----------
    .. [1] T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the sample variance: analysis and
       recommendations", The American Statistician 37 (1983).

    Examples
    --------
    >>> from bochner.tables.survey import ColumnMoments
    >>> moments = ColumnMoments.of([[1.0, 7.0]]).merge(ColumnMoments.of([[2.0, 7.0], [3.0, 7.0]]))
    >>> moments.mean, moments.variance
    (array([2., 7.]), array([0.66666667, 0.        ]))
    """

    n_rows: int
    origin: Floats
    offset: Floats
    variance: Floats

    @classmethod
    def of(cls, numbers: Any) -> "ColumnMoments":
        """Compute the moments of rows of numbers; without rows, all of them are 0."""
        numbers = np.asarray(numbers, dtype=np.float64)
        if not len(numbers):
            return cls(0, *np.zeros((3, numbers.shape[1])))
        origin = numbers[0].copy()
        centered = numbers - origin
        return cls(len(numbers), origin, centered.mean(axis=0), centered.var(axis=0))

    def merge(self, other: "ColumnMoments") -> "ColumnMoments":
        """Return the moments of the rows of both."""
        if not self.n_rows:
            return other
        n_rows = self.n_rows + other.n_rows
        share = other.n_rows / n_rows
        distance = (other.origin - self.origin) + (other.offset - self.offset)
        variance = (1.0 - share) * self.variance + share * other.variance + share * (1.0 - share) * distance**2
        return replace(self, n_rows=n_rows, offset=self.offset + share * distance, variance=variance)

    @property
    def mean(self) -> Floats:
        """Mean of each column."""
        return self.origin + self.offset

    @property
    def scale(self) -> Floats:
        """Standard deviation of each column; 1 for a constant column, by the rule of scikit-learn's StandardScaler."""
        eps = np.finfo(np.float64).eps
        # The variance of a constant column may be a rounding error instead of 0.
        is_constant = self.variance <= self.n_rows * eps * self.variance + (self.n_rows * self.mean * eps) ** 2
        return np.where(is_constant, 1.0, np.sqrt(self.variance))


@dataclass
class Sample:
    """A uniform sample of the rows of a table, which does not depend on how the rows are divided into chunks.

    A sample may start within the table; `merge` appends the sample of the rows that follow.

    Attributes
    ----------
    seed : int
        Seed of the random key of each row.
    size : int
        Maximum number of sampled rows.
    numeric, text : list of str
        Names of the columns to sample.
    n_rows : int
        Number of rows of the table up to the last one that was added; at first, the index of the first row.
    keys : ndarray of shape (n_sampled,)
        The random keys of the sampled rows, which are the smallest of all keys.
    columns : dict of str to ndarray of shape (n_sampled,)
        The sampled cells.
    targets : ndarray of shape (n_sampled,)
        The targets of the sampled rows; empty without targets.
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
        """Create an empty sample of the rows from `first_row` on."""
        width = len(table.numeric) + 8 * len(table.text)
        size = max(1000, min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * width)))
        return cls(seed, size, table.numeric, table.text, first_row)

    def add(self, cells: "pa.RecordBatch", targets: Array | None = None) -> None:
        """Add the rows that follow, with their targets if there are any."""
        n_old = len(self.keys)
        keys = np.concatenate([self.keys, self._next_keys(cells.num_rows)])
        kept = _smallest(keys, self.size)
        self.keys = keys[kept]
        old, new = kept[kept < n_old], kept[kept >= n_old] - n_old
        new_cells = cells.take(import_pyarrow().array(new))
        for name in [*self.numeric, *self.text]:
            values = new_cells.column(name).to_numpy(False)
            self.columns[name] = np.concatenate([self.columns[name][old], values]) if n_old else values
        if targets is not None:
            self.targets = np.concatenate([self.targets[old], targets[new]]) if n_old else targets[new]
        self.n_rows += cells.num_rows

    def merge(self, following: "Sample") -> "Sample":
        """Return the sample of the rows of both; `following` starts at the row after the last row of this sample."""
        keys = np.concatenate([self.keys, following.keys])
        kept = _smallest(keys, self.size)
        columns = {name: np.concatenate([self.columns[name], following.columns[name]])[kept] for name in self.columns}
        targets = np.concatenate([self.targets, following.targets])
        targets = targets[kept] if len(targets) else targets
        return replace(self, n_rows=following.n_rows, keys=keys[kept], columns=columns, targets=targets)

    def cells(self) -> "pa.RecordBatch":
        """Return the sampled rows in the order of the table."""
        return import_pyarrow().RecordBatch.from_pydict(self.columns)

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
    moments : ColumnMoments
        Means and variances of the numeric columns.
    single : bool
        Whether all numeric columns are float32 or float16, so that the encoded rows are float32.
    categories : dict of str to list of str
        The sorted distinct values of each text column.
    target_values : list or None
        The sorted distinct targets; None if there are more than `MAX_CLASSES`.
    """

    sample: Sample
    moments: ColumnMoments
    single: bool
    categories: dict[str, list[str]] = field(default_factory=dict)
    target_values: list[Any] | None = field(default_factory=list)

    @classmethod
    def of(cls, table: Table, seed: int, first_row: int = 0) -> "Survey":
        """Create an empty survey of the rows from `first_row` on; `seed` determines the sample."""
        single = all(str(table.schema.field(name).type) in ("float", "halffloat") for name in table.numeric)
        return cls(Sample.of(table, seed, first_row), ColumnMoments.of(np.empty((0, len(table.numeric)))), single)

    @property
    def n_rows(self) -> int:
        """Number of rows of the table up to the last one that was added."""
        return self.sample.n_rows

    def add(self, table: Table, chunk: Chunk) -> None:
        """Add the rows of a chunk."""
        cells = chunk.cells
        self.moments = self.moments.merge(ColumnMoments.of(column_numbers(cells, table.numeric)))
        for name in table.text:
            self._add_categories(table, name, cells.column(name).unique().to_pylist())
        targets = None if table.target is None else table.target_values(chunk)
        if targets is not None and self.target_values is not None:
            self._add_target_values(np.unique(targets).tolist())
        self.sample.add(cells, targets)

    def merge(self, table: Table, following: "Survey") -> "Survey":
        """Return the survey of the rows of both; `following` starts at the row after the last row of this survey."""
        merged = replace(
            self,
            sample=self.sample.merge(following.sample),
            moments=self.moments.merge(following.moments),
            categories=dict(self.categories),
        )
        for name in table.text:
            merged._add_categories(table, name, following.categories[name])
        merged._add_target_values(following.target_values)
        return merged

    def check_not_empty(self, table: Table) -> None:
        """Raise an error if the table has no rows."""
        if not self.n_rows:
            raise ValueError(f"{table.path} has no rows; its columns are {join_names(table.names)}.")

    def classes(self, table: Table) -> list[Any]:
        """Return the distinct targets for classification; targets that cannot be classes raise an error."""
        target = f"{table.path}: column {table.target!r}"
        if self.target_values is None:
            raise ValueError(
                f"{target} has more than {MAX_CLASSES} distinct values, too many for classification; fit a regression."
            )
        if not isinstance(self.target_values[0], float):
            return self.target_values
        if not all(value.is_integer() for value in self.target_values):
            raise ValueError(f"{target} contains fractional numbers, which cannot be classes; fit a regression.")
        return [int(value) for value in self.target_values]  # whole numbers of a CSV file are read as floats

    def encoding(self, standardize: Standardization = "robust") -> Encoding:
        """Return the encoding of the rows.

        Parameters
        ----------
        standardize : {"robust", "plain", "none"}, default="robust"
            How numeric columns are standardized: as by `RobustStandardizer` on the sampled rows, by the mean and the
            standard deviation of all rows, or not at all.
        """
        encoding = Encoding(
            numeric=self.sample.numeric,
            categories={name: self.categories[name] for name in self.sample.text},
            mean=self.moments.mean,
            scale=self.moments.scale,
            single=self.single,
        )
        if standardize == "none":
            return replace(encoding, mean=np.zeros_like(encoding.mean), scale=np.ones_like(encoding.scale))
        if standardize == "plain" or not encoding.numeric:
            return encoding
        robust = RobustStandardizer().fit(column_numbers(self.sample.cells(), encoding.numeric))
        return replace(encoding, mean=robust.center_, scale=robust.scale_, clipping=robust.clipping_)

    def _add_target_values(self, values: list[Any] | None) -> None:
        """Add distinct targets; None stands for more than `MAX_CLASSES`."""
        distinct = None if self.target_values is None or values is None else {*self.target_values, *values}
        self.target_values = None if distinct is None or len(distinct) > MAX_CLASSES else sorted(distinct)

    def _add_categories(self, table: Table, name: str, values: list[str]) -> None:
        categories = sorted({*self.categories.get(name, []), *values})
        if len(categories) > MAX_CATEGORIES:
            raise ValueError(
                f"{table.path}: text column {name!r} has more than {MAX_CATEGORIES} distinct values; drop it, or "
                f"convert it to numbers or fewer categories."
            )
        self.categories[name] = categories


def _smallest(keys: Floats, size: int) -> Array:
    """Return the indices of the `size` smallest keys, in increasing order."""
    return np.sort(np.argpartition(keys, size)[:size]) if len(keys) > size else np.arange(len(keys))
