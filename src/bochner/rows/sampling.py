# SPDX-License-Identifier: BSD-3-Clause
"""The rows that features are fitted on, and samples of rows and of pairs of rows.

`collect_rows` collects the training rows of a source. Samplers, weightings and landmark selections sample them again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from bochner.rows.arrays import Floats, Indices, is_sparse, to_dense
from bochner.rows.block_sizes import (
    MAX_SAMPLE_BYTES,
    MAX_SAMPLE_ROWS,
    MAX_WHOLE_BYTES,
    MAX_WHOLE_ROWS,
    MIN_SAMPLE_ROWS,
)
from bochner.rows.scalings import Scaling, Unscaled
from bochner.rows.sources import Batch, Rows, RowSource
from bochner.rows.threads import row_blocks
from bochner.validation import check_weight_range

MAX_MERGED_ROWS = 2000  # as many as the weightings sample by default
SMALLEST_SHARE = 1e-30  # of the largest sample weight


def sample_rows(X: Rows, size: int, rng: np.random.Generator) -> tuple[Any, Floats]:
    """Sample `size` rows, in their order, and return them with their weights; dense or CSR as `X` is.

    All rows are returned when there are no more. Rows with weights are drawn in proportion to them, with replacement.
    """
    n_rows, weights = X.shape[0], row_weights(X)
    if size >= n_rows:
        return X[slice(None)], np.ones(n_rows) if weights is None else weights
    if weights is None:
        return X[np.sort(rng.choice(n_rows, size, replace=False))], np.ones(size)
    chosen, counts = np.unique(_draw_rows(X, size, rng), return_counts=True)
    return X[chosen], counts.astype(np.float64)


def row_weights(X: Rows) -> Floats | None:
    """Return the sample weights of rows; None means 1 for every row."""
    return getattr(X, "weights", None)


def _draw_rows(X: Rows, size: int, rng: np.random.Generator) -> Indices:
    """Draw independent rows in proportion to their weights."""
    uniforms, weights = rng.random(size), row_weights(X)
    if weights is None:
        return (uniforms * X.shape[0]).astype(np.intp)
    totals = np.cumsum(weights)
    drawn = np.searchsorted(totals, uniforms * totals[-1], side="right")
    return np.asarray(np.minimum(drawn, len(totals) - 1))


def shuffled_sample(X: Rows, size: int, rng: np.random.Generator) -> tuple[Any, Floats]:
    """Sample rows as `sample_rows` does; return each distinct row once, in random order, with its weight."""
    counts: Floats | None
    points, counts = sample_rows(X, size, rng)
    if not getattr(X, "distinct", False):
        points, counts = distinct_rows(points, counts)
    order = rng.permutation(points.shape[0])
    return points[order], np.ones(len(order)) if counts is None else counts[order]


def draw_pairs(X: Rows, size: int, rng: np.random.Generator) -> tuple[Indices, Indices, Floats]:
    """Draw ordered pairs of rows, a row with itself included, and return them with their weights, of mean 1.

    All pairs are returned, once each, when there are no more than `size`; else pairs are drawn in proportion to the
    product of the weights of their rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows import draw_pairs
    >>> first, second, weights = draw_pairs(np.zeros((2, 1)), 10, np.random.default_rng(0))
    >>> list(zip(first.tolist(), second.tolist(), weights.tolist()))
    [(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 1.0)]
    """
    n_rows, weights = X.shape[0], row_weights(X)
    if size < n_rows**2:
        return _draw_rows(X, size, rng), _draw_rows(X, size, rng), np.ones(size)
    first, second = np.divmod(np.arange(n_rows**2), n_rows)
    if weights is None:
        return first, second, np.ones(n_rows**2)
    weights = weights / weights.mean()
    return first, second, weights[first] * weights[second]


def distinct_rows(X: Any, weights: Floats | None) -> tuple[Any, Floats | None]:
    """Return each distinct row once, with the sum of the weights of its copies; None if that is 1 for all rows.

    The order depends on the values of the rows alone. So results computed from them are the same for a row of weight
    two and for two equal rows, in whatever order the rows were.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows.sampling import distinct_rows
    >>> rows, weights = distinct_rows(np.array([[2.0], [1.0], [2.0]]), None)
    >>> rows.tolist(), weights.tolist()
    ([[1.0], [2.0]], [1.0, 2.0])
    """
    if is_sparse(X):
        entries = sparse.csr_array(X, dtype=np.float64, copy=True)
        entries.sum_duplicates()
        entries.eliminate_zeros()
        columns, values = entries.indices.astype(np.int64), entries.data
        spans = [slice(*bounds) for bounds in pairwise(entries.indptr.tolist())]
        keys = [columns[span].tobytes() + values[span].tobytes() for span in spans]
    else:
        entries = X.astype(np.float64) + 0.0  # turns -0 into 0, whose bytes differ
        keys = [row.tobytes() for row in entries]
    # The order along a fixed direction survives a change of units or of precision, and is the same for sparse rows.
    direction = np.random.default_rng(0).standard_normal(X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        heights = np.asarray(entries @ direction)
    _, first, inverse = np.unique(np.array(keys, dtype=object), return_index=True, return_inverse=True)
    order = np.argsort(heights[first], kind="stable")
    totals = np.bincount(inverse, weights=weights, minlength=len(order)).astype(np.float64)[order]
    return X[first[order]], None if (totals == 1.0).all() else totals


def pair_differences(X: Rows, first: Indices, second: Indices, width: int = 1) -> Iterator[tuple[slice, Floats]]:
    """Yield dense blocks of x_i - x_j with the slice of the pairs that they belong to; `width` as in `pair_blocks`."""
    for pairs, x, y in pair_blocks(X, first, second, width):
        yield pairs, to_dense(x) - to_dense(y)


def pair_blocks(
    X: Rows, first: Indices, second: Indices, width: int = 1, least: int = 16
) -> Iterator[tuple[slice, Any, Any]]:
    """Yield blocks of the first and of the second rows of pairs, with the slice of the pairs that they belong to.

    `width` is the number of columns that the caller computes from a row; they must fit into a block too. A block has at
    least `least` rows.
    """
    for pairs in row_blocks(len(first), 8 * max(X.shape[1], width), least):
        yield pairs, X[first[pairs]], X[second[pairs]]


@dataclass(frozen=True)
class TrainingRows:
    """Rows in memory with weights; indexing returns them as a scaling maps them.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        The rows.
    weights : ndarray of shape (n_samples,), default=None
        Sample weights; None means 1 for every row.
    scaling : Scaling, default=Unscaled()
        The map of the rows.
    distinct : bool, default=False
        Whether the rows are known to be distinct and in the order of `distinct_rows`.
    targets : ndarray of shape (n_samples, n_targets), default=None
        Targets, for learners and for weightings that need them.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows import LengthScales, TrainingRows
    >>> TrainingRows(np.array([[1.0], [2.0]])).scaled(LengthScales(2.0))[1:]
    array([[1.]])
    """

    X: Any
    weights: Floats | None = None
    scaling: Scaling = Unscaled()  # noqa: RUF009
    distinct: bool = False
    targets: Floats | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns after the map; rows of any kind count as one column."""
        n_features = self.X.shape[1] if self.X.ndim == 2 else 1
        return self.X.shape[0], self.scaling.n_dimensions(n_features)

    def __getitem__(self, rows: slice | Indices) -> Any:
        return self.scaling.apply(self.X[rows])

    def scaled(self, scaling: Scaling) -> "TrainingRows":
        """Return the rows with another map."""
        return replace(self, scaling=scaling, distinct=self.distinct and scaling.is_uniform)

    def merged(self) -> "TrainingRows":
        """Return up to 2,000 rows with equal ones merged, so that no draw depends on copies or weights; targets go."""
        if self.X.ndim != 2 or self.X.dtype.kind not in "biuf":  # other rows cannot be compared
            return replace(self, distinct=True, targets=None)
        if self.X.shape[0] > MAX_MERGED_ROWS:  # equal rows are merged in samples
            return replace(self, targets=None)
        return TrainingRows(*distinct_rows(self.X, self.weights), distinct=True)


def sample_batch(source: RowSource, rng: np.random.Generator) -> Batch:
    """Collect a sample of many rows: up to 2**15 random rows, fewer where rows are wide; see `RowSource.draw_rows`."""
    row_bytes = source.shape[1] * source.dtype.itemsize
    size = int(np.clip(MAX_SAMPLE_BYTES // row_bytes, MIN_SAMPLE_ROWS, MAX_SAMPLE_ROWS))
    return source.select(source.draw_rows(size, rng))


def collect_rows(source: RowSource, rng: np.random.Generator) -> tuple[TrainingRows, Any]:
    """Return the rows with a positive weight, a sample of them if there are many, and their targets.

    Parameters
    ----------
    source : RowSource
        Validated rows.
    rng : numpy.random.Generator
        Random numbers that select the sample, which is the same for rows in memory, in files and in few partitions.
    """
    n_rows, n_features = source.shape
    is_sampled = n_rows > MAX_WHOLE_ROWS or n_rows * n_features * source.dtype.itemsize > MAX_WHOLE_BYTES
    batch = sample_batch(source, rng) if is_sampled else source.select(slice(None))
    X, y, weights = batch.drop_zero_weights()[:3]
    if weights is None:
        return TrainingRows(X), y
    if not len(weights):
        raise ValueError(
            "All sampled rows have a `sample_weight` of zero; leave out the rows without weight."
            if is_sampled
            else "No row has a positive `sample_weight`; give some rows a weight."
        )
    check_weight_range(weights)
    # Smaller shares change no digit of a sum, but squares of sums over such rows alone would underflow.
    return TrainingRows(X, np.maximum(weights, SMALLEST_SHARE * weights.max())), y
