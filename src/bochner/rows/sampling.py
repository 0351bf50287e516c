# SPDX-License-Identifier: BSD-3-Clause
"""Rows and pairs of rows sampled without holding all of them."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from bochner.rows.arrays import Floats, Indices, is_sparse, to_dense
from bochner.rows.sources import PiecedRows, Rows
from bochner.rows.threads import row_blocks, row_spans

GATHERED_BYTES = 1 << 27  # rows that are fetched from a cluster at a time


def sample_rows(X: Rows, size: int, rng: np.random.Generator) -> tuple[Any, Floats]:
    """`size` rows in their order and how many times each counts; dense or CSR as `X` is.

    All rows are taken when there are no more. Rows with weights are drawn in proportion to them, with replacement.
    """
    n_rows, weights = X.shape[0], row_weights(X)
    if size >= n_rows:
        return X[slice(None)], np.ones(n_rows) if weights is None else weights
    if weights is None:
        return X[np.sort(rng.choice(n_rows, size, replace=False))], np.ones(size)
    chosen, counts = np.unique(_draw_rows(X, size, rng), return_counts=True)
    return X[chosen], counts.astype(np.float64)


def row_weights(X: Rows) -> Floats | None:
    """How many times each row of X counts; None when every row counts once."""
    return getattr(X, "weights", None)


def _draw_rows(X: Rows, size: int, rng: np.random.Generator) -> Indices:
    """Independent rows in proportion to their weights."""
    uniforms, weights = rng.random(size), row_weights(X)
    if weights is None:
        return (uniforms * X.shape[0]).astype(np.intp)
    totals = np.cumsum(weights)
    drawn = np.searchsorted(totals, uniforms * totals[-1], side="right")
    return np.asarray(np.minimum(drawn, len(totals) - 1))


def shuffled_sample(X: Rows, size: int, rng: np.random.Generator) -> tuple[Any, Floats]:
    """`size` rows as of `sample_rows`, every different one once, in random order, and how many times each counts."""
    points, counts = distinct_rows(*sample_rows(X, size, rng))
    order = rng.permutation(points.shape[0])
    return points[order], np.ones(len(order)) if counts is None else counts[order]


def draw_pairs(X: Rows, size: int, rng: np.random.Generator) -> tuple[Indices, Indices, Floats]:
    """Ordered pairs of rows, a row with itself included, and their weights, of mean 1.

    All pairs, once each, when there are no more; else pairs drawn in proportion to the product of their rows' weights.

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
    """Every different row once, with the sum of the weights of its copies; None if that is 1 for all.

    The order depends on the rows' values alone. So nothing that is computed from the result can tell a row of weight
    two from two rows, whatever their order was.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows import distinct_rows
    >>> rows, weights = distinct_rows(np.array([[2.0], [1.0], [2.0]]), None)
    >>> rows.tolist(), weights.tolist()
    ([[1.0], [2.0]], [1.0, 2.0])
    """
    if is_sparse(X):
        entries = sparse.csr_array(X, dtype=np.float64, copy=True)
        entries.sum_duplicates()
        entries.eliminate_zeros()
        places, values = entries.indices.astype(np.int64), entries.data
        spans = [slice(*bounds) for bounds in pairwise(entries.indptr.tolist())]
        keys = [places[span].tobytes() + values[span].tobytes() for span in spans]
    else:
        entries = X.astype(np.float64) + 0.0  # there is one zero only
        keys = [row.tobytes() for row in entries]
    # Along a fixed direction, the order survives a change of units or of precision, and is that of sparse rows too.
    direction = np.random.default_rng(0).standard_normal(X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        products = entries.multiply(direction) if is_sparse(X) else entries * direction
        heights = np.asarray(products.sum(axis=1)).ravel().tolist()
    first = {key: row for row, key in reversed(list(enumerate(keys)))}
    order = sorted(first, key=lambda key: (heights[first[key]], key))
    position = {key: i for i, key in enumerate(order)}
    sums = np.bincount([position[key] for key in keys], weights=weights, minlength=len(order)).astype(np.float64)
    return X[[first[key] for key in order]], None if (sums == 1.0).all() else sums


def sample_pairs(n_rows: int, size: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """`size` unordered pairs of different rows, with replacement; all of them, once each, when there are no more.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows import sample_pairs
    >>> first, second = sample_pairs(3, 10, np.random.default_rng(0))
    >>> list(zip(first.tolist(), second.tolist()))
    [(0, 1), (0, 2), (1, 2)]
    """
    if size >= n_rows * (n_rows - 1) // 2:
        return np.triu_indices(n_rows, k=1)
    first = rng.integers(n_rows, size=size)
    step = rng.integers(1, n_rows, size=size)  # never 0: the two rows differ
    return first, (first + step) % n_rows


def pair_differences(X: Rows, first: Indices, second: Indices, width: int = 1) -> Iterator[tuple[slice, Floats]]:
    """Blocks of x_i - x_j, dense, with the slice of the pairs they belong to; `width` as of `pair_blocks`."""
    for pairs, x, y in pair_blocks(X, first, second, width):
        yield pairs, to_dense(x) - to_dense(y)


def pair_blocks(
    X: Rows, first: Indices, second: Indices, width: int = 1, least: int = 16
) -> Iterator[tuple[slice, Any, Any]]:
    """Blocks of the first and of the second rows of pairs, with the slice of the pairs they belong to.

    `width` is the number of columns that the caller will make of a row, so that those fit into a block too, which has
    at least `least` rows. Rows that lie in pieces are fetched many at a time.
    """
    far = isinstance(getattr(X, "source", X), PiecedRows)
    for group in row_spans(len(first), max(1024, GATHERED_BYTES // (16 * X.shape[1])) if far else len(first)):
        rows, here, there = X, first[group], second[group]
        if far:
            wanted, places = np.unique(np.concatenate([here, there]), return_inverse=True)
            rows, (here, there) = X[wanted], np.split(places, 2)
        for pairs in row_blocks(len(here), 8 * max(X.shape[1], width), least):
            own = slice(group.start + pairs.start, group.start + pairs.stop)
            yield own, rows[here[pairs]], rows[there[pairs]]


def scattered_runs(n_rows: int, n_runs: int, run_rows: int, rng: np.random.Generator) -> Indices:
    """The numbers of rows in `n_runs` runs of consecutive ones, one in a random place of each equal part of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows import scattered_runs
    >>> scattered_runs(100, 2, 3, np.random.default_rng(0))
    array([30, 31, 32, 62, 63, 64])
    """
    bounds = np.linspace(0, n_rows, n_runs + 1).astype(np.intp)
    starts = bounds[:-1] + (rng.random(n_runs) * (np.diff(bounds) - run_rows + 1)).astype(np.intp)
    return np.concatenate([np.arange(start, start + run_rows) for start in starts])
