# SPDX-License-Identifier: BSD-3-Clause
"""Where rows are: in memory, or in partitions elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.sparsefuncs import min_max_axis
from sklearn.utils.validation import check_non_negative

from bochner.rows.arrays import Array, Floats, Indices, Mask, as_rows, is_sparse, stacked
from bochner.rows.engines import DaskPieces, Pieces, given_name, is_collection, joined, map_lazily
from bochner.rows.threads import sum_over_spans

Sums = dict[Any, Array]


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
    >>> from bochner.rows import added
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


def checked_weights(weights: Any, rows: Any) -> Floats | None:
    """Weights of some of the rows, finite and not negative; other than those of all rows they may all be zero."""
    if weights is None:
        return None
    checked = check_array(weights, ensure_2d=False, dtype=np.float64, ensure_min_samples=0, input_name="sample_weight")
    if checked.shape != rows.shape[:1]:
        raise ValueError(f"`sample_weight` has shape {checked.shape} where there are {rows.shape[0]} rows.")
    check_non_negative(checked, "`sample_weight`")
    return np.asarray(checked)


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
