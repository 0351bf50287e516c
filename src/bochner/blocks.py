# SPDX-License-Identifier: BSD-3-Clause
"""Rows in pieces: walk and sample the rows of a table without holding all of them.

Work on rows is spread over as many threads as BLAS may use, with BLAS itself held at one thread meanwhile; so
`threadpoolctl.threadpool_limits`, `OPENBLAS_NUM_THREADS` and joblib's workers control it.

A *row source* is anything with a `shape` that gives rows for an index or a slice: an array, a memory map, a CSR
matrix, `PiecedRows` that lie on a cluster, or `ScaledRows` around one of them. Every other module reads data through
the functions of this one, and no other tells arrays from collections.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from threading import Lock
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.sparsefuncs import min_max_axis
from sklearn.utils.validation import check_non_negative
from threadpoolctl import ThreadpoolController

from bochner.engines import DaskPieces, Pieces, given_name, is_collection, joined, map_lazily, template

__all__ = [
    "PiecedRows",
    "Rows",
    "ScaledRows",
    "Sums",
    "added",
    "as_rows",
    "checked_weights",
    "column_ranges",
    "distinct_rows",
    "draw_pairs",
    "for_each_span",
    "in_pieces",
    "in_threads",
    "is_collection",
    "is_sparse",
    "map_rows",
    "max_abs",
    "norm",
    "pair_blocks",
    "pair_differences",
    "row_blocks",
    "row_spans",
    "row_weights",
    "sample_pairs",
    "sample_rows",
    "scattered_runs",
    "serial_blas",
    "shuffled_sample",
    "stacked",
    "sum_over_rows",
    "sum_over_spans",
    "template",
    "to_dense",
]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
Sums = dict[Any, Array]
Item = TypeVar("Item")
Result = TypeVar("Result")

BLOCK_BYTES = 1 << 20  # one block and its phases stay in the second-level cache
GATHERED_BYTES = 1 << 27  # rows that are fetched from a cluster at a time


class Rows(Protocol):
    """What the library reads data through: `shape`, and rows by slice or by index."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


@dataclass(frozen=True)
class ScaledRows:
    """The rows of `source` divided by `scale` (a number, or one a column) as they are read, in float64.

    `weights` say how many times each row counts; None means once.
    """

    source: Rows
    scale: float | Floats
    weights: Floats | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    def __getitem__(self, rows: slice | Indices) -> Any:
        block = self.source[rows].astype(np.float64)
        if is_sparse(block):
            scaled = sparse.csr_array(block.multiply(1.0 / np.asarray(self.scale)))
            # scikit-learn's distances take 32-bit indices only, and a block has no need of longer ones.
            scaled.indices, scaled.indptr = sparse.safely_cast_index_arrays(scaled, np.int32)
            return scaled
        return np.divide(block, self.scale, out=block)


@dataclass(frozen=True)
class PiecedRows:
    """Rows in pieces that lie elsewhere; those that are asked for by number are gathered, all others stay there.

    Parameters
    ----------
    pieces : Pieces
        Where the rows lie.
    dtype : dtype
        What they are converted to.
    places : ndarray of int, default=None
        The numbers of the rows that there are; None means all.
    """

    pieces: Pieces
    dtype: Any
    places: Indices | None = None
    _last: dict[bytes, dict[str, Any]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def shape(self) -> tuple[int, ...]:
        n_rows = int(self.pieces.lengths.sum()) if self.places is None else len(self.places)
        return (n_rows, self.pieces.templates["X"].shape[1])

    def __getitem__(self, rows: Any) -> Any:
        return self.take(rows, "X")["X"]

    def restricted(self, chosen: Mask) -> "PiecedRows":
        """The chosen ones of the rows, still where they lie."""
        places = np.flatnonzero(chosen) if self.places is None else self.places[chosen]
        return replace(self, places=places, _last={})

    def take(self, rows: Any, *names: str) -> dict[str, Any]:
        """Rows, and what else there is of them, by slice or index; one pass over the pieces that have any of them."""
        in_slice = isinstance(rows, slice)
        numbers = np.arange(*rows.indices(self.shape[0])) if in_slice else np.asarray(rows, dtype=np.intp)
        numbers = numbers if self.places is None else self.places[numbers]
        key = "".join(names).encode() + numbers.tobytes()
        if key not in self._last:  # the next candidate for a parameter asks for the rows of the one before
            self._last.clear()
            self._last[key] = self._gathered(numbers, names)
        return self._last[key]

    def _gathered(self, numbers: Indices, names: Sequence[str]) -> dict[str, Any]:
        wanted, back = np.unique(numbers, return_inverse=True)
        if not len(wanted):
            return {name: _plain(name, self.pieces.templates[name], self.dtype)[:0] for name in names}
        ends = np.cumsum(self.pieces.lengths)
        owners = np.searchsorted(ends, wanted, side="right")
        local = wanted - (ends - self.pieces.lengths)[owners]
        arguments = {int(i): (int(self.pieces.lengths[i]), local[owners == i]) for i in np.unique(owners)}
        parts = self.pieces.reduce(partial(_taken, tuple(names), self.dtype), joined, names, arguments)
        columns = zip(*parts, strict=True)
        return {name: stacked(column)[back] for name, column in zip(names, columns, strict=True)}

    @cached_property
    def extent(self) -> Sums:
        """The ends of each column's range and the sum of all squares, of rows that count; all rows are checked."""
        names = [name for name in ("X", "weights") if name in self.pieces.templates]
        return self.pieces.reduce(partial(_extent, self.dtype), _wider, names, self.everywhere(None))

    def everywhere(self, argument: Any) -> dict[int, Any]:
        """The argument for every piece that has rows."""
        return dict.fromkeys(np.flatnonzero(self.pieces.lengths).tolist(), argument)


def _taken(names: tuple[str, ...], dtype: Any, wanted: tuple[int, Indices], *blocks: Any) -> list[tuple[Any, ...]]:
    length, rows = wanted
    for name, block in zip(names, blocks, strict=True):
        if block.shape[0] != length:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: a chunk of {given_name(name)} has "
                f"{block.shape[0]} rows, and another column's has {length}."
            )
    return [tuple(_plain(name, as_rows(block)[rows], dtype) for name, block in zip(names, blocks, strict=True))]


def _plain(name: str, block: Any, dtype: Any) -> Any:
    """Rows of a block as an array or CSR matrix of finite numbers; targets as they are."""
    if name == "X":
        return check_array(block, accept_sparse="csr", dtype=dtype, ensure_min_samples=0, input_name="X")
    return np.asarray(block, dtype=np.float64 if name == "weights" else None)


def _extent(dtype: Any, argument: None, block: Any, weights: Any = None) -> Sums:
    del argument
    X = _plain("X", block, dtype)
    X = X if weights is None else X[np.asarray(weights) > 0.0]
    if not X.shape[0]:
        return {"low": np.full(X.shape[1], np.inf), "high": np.full(X.shape[1], -np.inf), "squares": np.zeros(())}
    low, high = column_ranges(X)
    return {"low": low, "high": high, "squares": np.array(norm(X) ** 2)}


def _wider(left: Sums, right: Sums) -> Sums:
    return {
        "low": np.minimum(left["low"], right["low"]),
        "high": np.maximum(left["high"], right["high"]),
        "squares": left["squares"] + right["squares"],
    }


def in_pieces(X: Any, y: Any = None, weights: Any = None) -> Any:
    """The `Pieces` of rows, targets and weights that lie elsewhere; None when all of them are in memory."""
    if isinstance(X, Pieces):
        return X
    return DaskPieces.of_rows(X, y, weights) if is_collection(X, y, weights) else None


def map_rows(function: Callable[[Any], Array], X: Any, prepare: Callable[[Any], Any]) -> Any:
    """The function of rows in memory; of a Dask collection a lazy array, `prepare` being applied to its chunks first.

    The function maps rows one by one: of none it makes an array without rows.
    """
    if not is_collection(X):
        return function(X)
    nothing = function(prepare(np.zeros((0, X.shape[1]))))
    return map_lazily(partial(_applied, function, prepare), X, nothing)


def _applied(function: Callable[[Any], Array], prepare: Callable[[Any], Any], block: Any) -> Array:
    return function(prepare(block))


def added(left: Sums, right: Sums) -> Sums:
    """Sums of both, key by key.

    Examples
    --------
    >>> from bochner.blocks import added
    >>> added({"a": 1, "b": 2}, {"b": 3})
    {'a': 1, 'b': 5}
    """
    return left | {key: left[key] + value if key in left else value for key, value in right.items()}


def sum_over_rows(part: Callable[[Any, Floats | None], float], X: Any, weights: Floats | None) -> float:
    """`part` of rows and weights, summed over the pieces that the rows lie in, if they do."""
    if not isinstance(X, PiecedRows):
        return part(X, weights)
    names = [name for name in ("X", "weights") if name in X.pieces.templates]
    sums = X.pieces.reduce(partial(_part_of_rows, part, X.dtype), added, names, X.everywhere(None))
    return float(sums["total"])


def _part_of_rows(
    part: Callable[[Any, Floats | None], float], dtype: Any, argument: None, block: Any, weights: Any = None
) -> Sums:
    del argument
    return {"total": np.array(part(_plain("X", block, dtype), None if weights is None else np.asarray(weights)))}


def as_rows(block: Any) -> Any:
    """A block that rows can be taken of: sparse ones in CSR format."""
    return block.tocsr() if is_sparse(block) else block


def checked_weights(weights: Any, rows: Any) -> Floats | None:
    """Weights of some of the rows, finite and not negative; other than those of all rows they may all be zero."""
    if weights is None:
        return None
    checked = check_array(weights, ensure_2d=False, dtype=np.float64, ensure_min_samples=0, input_name="sample_weight")
    if checked.shape != rows.shape[:1]:
        raise ValueError(f"`sample_weight` has shape {checked.shape} where there are {rows.shape[0]} rows.")
    check_non_negative(checked, "`sample_weight`")
    return np.asarray(checked)


def stacked(pieces: Sequence[Any]) -> Any:
    """Arrays, or CSR matrices, one below the other."""
    return sparse.vstack(pieces, format="csr") if any(map(is_sparse, pieces)) else np.concatenate(pieces)


def scattered_runs(n_rows: int, n_runs: int, run_rows: int, rng: np.random.Generator) -> Indices:
    """The numbers of rows in `n_runs` runs of consecutive ones, one in a random place of each equal part of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.blocks import scattered_runs
    >>> scattered_runs(100, 2, 3, np.random.default_rng(0))
    array([30, 31, 32, 62, 63, 64])
    """
    bounds = np.linspace(0, n_rows, n_runs + 1).astype(np.intp)
    starts = bounds[:-1] + (rng.random(n_runs) * (np.diff(bounds) - run_rows + 1)).astype(np.intp)
    return np.concatenate([np.arange(start, start + run_rows) for start in starts])


def row_blocks(n_rows: int, row_bytes: int, least: int = 16) -> Iterator[slice]:
    """Slices that cover `n_rows` rows, each of about a mebibyte and of at least `least` rows.

    Examples
    --------
    >>> from bochner.blocks import row_blocks
    >>> list(row_blocks(40, row_bytes=2**16))
    [slice(0, 16, None), slice(16, 32, None), slice(32, 40, None)]
    """
    yield from row_spans(n_rows, max(least, BLOCK_BYTES // max(1, row_bytes)))


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """The function of every item, in order, computed in as many threads as BLAS may use, BLAS itself in one."""
    with serial_blas() as n_threads:
        if n_threads == 1 or len(items) == 1:
            yield from map(function, items)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                yield from pool.map(function, items)


def for_each_span(work: Callable[[slice], None], n_rows: int, block_rows: int) -> None:
    """Call `work` in threads on slices that cover the rows; each but the last is a whole number of blocks.

    There are a few slices a thread, so that a slow core does not hold up the others.
    """
    n_blocks = -(-n_rows // block_rows)
    list(in_threads(work, row_spans(n_rows, block_rows * max(1, n_blocks // (4 * _blas_threads())))))


def sum_over_spans(part: Callable[[slice], Array], n_rows: int, span_rows: int) -> Array:
    """Sum `part` over slices of `span_rows` rows, computed in threads.

    The slices and the order of summation do not depend on the number of threads, so neither does a bit of the sum.
    Parts are summed as they come: about one a thread is held.
    """
    parts = in_threads(part, row_spans(n_rows, span_rows))
    total = next(parts)
    for addend in parts:
        np.add(total, addend, out=total)
    return total


def row_spans(n_rows: int, span_rows: int) -> list[slice]:
    """Slices of `span_rows` rows, the last one shorter, that cover all rows."""
    return [slice(start, min(start + span_rows, n_rows)) for start in range(0, n_rows, span_rows)]


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _blas_threads() -> int:
    return max((library.num_threads for library in _blas().lib_controllers), default=1)


_serial_lock = Lock()
_serial_depth = 0
_serial_limit: Any = None


@contextmanager
def serial_blas() -> Iterator[int]:
    """Hold BLAS at one thread and give the number of threads that it had, for the caller to use.

    The limit is global to the process. Of callers in several Python threads the first one sets it and the last one
    lifts it; those in between find BLAS at one thread and use one themselves.
    """
    global _serial_depth, _serial_limit
    with _serial_lock:
        n_threads = _blas_threads()
        if _serial_depth == 0:
            _serial_limit = _blas().limit(limits=1)
        _serial_depth += 1
    try:
        yield n_threads
    finally:
        with _serial_lock:
            _serial_depth -= 1
            if _serial_depth == 0:
                _serial_limit.restore_original_limits()


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy sparse array or matrix."""
    return bool(sparse.issparse(X))


def to_dense(X: Any) -> Floats:
    """An array or sparse matrix as a dense float64 array."""
    return np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)


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
    >>> from bochner.blocks import draw_pairs
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
    >>> from bochner.blocks import distinct_rows
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
    >>> from bochner.blocks import sample_pairs
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


def column_ranges(X: Any) -> tuple[Array, Array]:
    """The smallest and the largest value in each column."""
    if isinstance(X, PiecedRows):
        return X.extent["low"], X.extent["high"]
    if is_sparse(X):
        low, high = min_max_axis(X, axis=0)
        return low, high
    return X.min(axis=0), X.max(axis=0)


def max_abs(X: Any) -> Floats:
    """The largest magnitude in each column, without a temporary of the rows' size."""
    low, high = column_ranges(X)
    return np.asarray(np.maximum(high, -low), dtype=np.float64)


def norm(X: Any) -> float:
    """The Frobenius norm of the rows, in one pass and in threads; infinity or NaN where it overflows."""
    if isinstance(X, PiecedRows):
        return float(np.sqrt(X.extent["squares"]))
    values = X.data if is_sparse(X) else X
    if not values.size:
        return 0.0
    values = values.T if values.flags.f_contiguous else values

    def square(span: slice) -> Array:
        flat = values[span].ravel()
        return np.array(np.dot(flat, flat), dtype=np.float64)

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # A million entries are a matter of less than a millisecond: not worth a thread.
        span_rows = max(1, 2**20 * len(values) // values.size)
        return float(np.sqrt(sum_over_spans(square, len(values), span_rows)))
