# SPDX-License-Identifier: BSD-3-Clause
"""What a head learns from: rows with targets, weights and folds, in memory, in a file, or in pieces on a cluster.

All are read in one way: `accumulate` adds up a function of batches of rows, which is all that learning needs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

from bochner.feature_maps.moments import SPAN_ROWS
from bochner.linear_models.folds import ClassCounts, Dealing, InTurn
from bochner.progress import tracked
from bochner.rows import (
    Array,
    Floats,
    Indices,
    Mask,
    PiecedRows,
    Sums,
    added,
    as_rows,
    checked_weights,
    joined,
    row_spans,
)
from bochner.tables.encoding import EncodedTable

__all__ = ["Batch", "FileSet", "MemorySet", "PiecedSet", "TrainingSet", "class_counts"]

BATCH_ROWS = 32 * SPAN_ROWS


class Batch(NamedTuple):
    """Some of the rows, their targets or classes, how many times each counts (None: once), and their folds."""

    X: Any
    y: Array
    weights: Floats | None
    folds: Indices

    def at(self, rows: slice | Mask) -> "Batch":
        """Some of them."""
        weights = None if self.weights is None else self.weights[rows]
        return Batch(self.X[rows], self.y[rows], weights, self.folds[rows])


class TrainingSet(Protocol):
    """Rows to learn from."""

    @property
    def n_folds(self) -> int:
        """Number of folds."""

    @property
    def for_features(self) -> tuple[Any, Any, Floats | None]:
        """Rows, targets and weights to fit features on; rows in pieces know their targets and weights themselves."""

    def first_targets(self, n_rows: int) -> Array:
        """Targets or classes of the first rows."""

    def accumulate(self, part: Callable[[Batch], Sums], description: str = "", verbose: int = 0) -> Sums:
        """The sums that `part` makes of batches of rows, added up key by key.

        `part` can be pickled, and looks at rows before it trusts them.
        """


@dataclass(frozen=True)
class MemorySet:
    """Rows in memory; folds are -1 for rows that are always trained on."""

    X: Any
    y: Array
    weights: Floats | None
    folds: Indices
    n_folds: int

    @cached_property
    def counted(self) -> Batch:
        """The rows that count: those with a positive weight."""
        everything = Batch(self.X, self.y, self.weights, self.folds)
        return everything if self.weights is None or self.weights.all() else everything.at(self.weights > 0.0)

    @property
    def n_rows(self) -> int:
        return int(self.counted.X.shape[0])

    @property
    def for_features(self) -> tuple[Any, Any, Floats | None]:
        return self.X, self.y, self.weights

    def first_targets(self, n_rows: int) -> Array:
        return self.counted.y[:n_rows]

    def accumulate(self, part: Callable[[Batch], Sums], description: str = "", verbose: int = 0) -> Sums:
        rows = self.counted
        sums: Sums = {}
        for span in tracked(row_spans(rows.X.shape[0], BATCH_ROWS), description, verbose):
            sums = added(sums, part(rows.at(span)))
        return sums


@dataclass(frozen=True)
class FileSet:
    """Rows of a file, read again for every pass; their folds are dealt out in turn."""

    source: EncodedTable
    n_folds: int

    def accumulate(self, part: Callable[[Batch], Sums], description: str = "", verbose: int = 0) -> Sums:
        dealing = InTurn(self.n_folds)
        sums: Sums = {}
        chunks = tracked(self.source.batches(), description, verbose, self.source.table.n_chunks())
        for chunk, X in chunks:
            y = self.source.table.target_values(chunk)
            sums = added(sums, part(Batch(X, y, None, dealing.folds(chunk.first_row, y))))
        return sums


@dataclass(frozen=True)
class PiecedSet:
    """Rows in pieces that lie elsewhere.

    Parameters
    ----------
    rows : PiecedRows
        The rows, with targets.
    check : callable
        Makes targets or classes, checked, of a block of y.
    dealing : Dealing
        How folds are dealt out to the pieces.
    starts : dict of int to object
        For each piece that has rows, what the dealing must know of those before.
    """

    rows: PiecedRows
    check: Callable[[Any], Array]
    dealing: Dealing
    starts: dict[int, Any]

    @property
    def n_folds(self) -> int:
        return self.dealing.n_folds

    @property
    def for_features(self) -> tuple[Any, Any, Floats | None]:
        return self.rows, None, None

    def first_targets(self, n_rows: int) -> Array:
        """Targets or classes of the first rows that count, or of some of them where many do not."""
        names = [name for name in ("y", "weights") if name in self.rows.pieces.templates]
        for rows in row_spans(self.rows.shape[0], n_rows):
            found = self.rows.take(rows, *names)
            y = found["y"] if "weights" not in found else found["y"][found["weights"] > 0.0]
            if len(y):
                return self.check(y)
        raise ValueError("No row has a positive `sample_weight`.")

    def accumulate(self, part: Callable[[Batch], Sums], description: str = "", verbose: int = 0) -> Sums:
        pieces = self.rows.pieces
        names = [name for name in ("X", "y", "weights") if name in pieces.templates]
        sums_of_piece = partial(_sums_of_piece, part, self.check, self.dealing)
        return pieces.reduce(sums_of_piece, added, names, self.starts, description, verbose)


def class_counts(rows: PiecedRows, check: Callable[[Any], Array]) -> dict[int, ClassCounts]:
    """The classes of each piece that has rows."""
    names = [name for name in ("y", "weights") if name in rows.pieces.templates]
    arguments = rows.everywhere(None)
    found = rows.pieces.reduce(partial(_classes_of_piece, check), joined, names, arguments)
    return dict(zip(arguments, found, strict=True))


def _classes_of_piece(check: Callable[[Any], Array], argument: None, y: Any, weights: Any = None) -> list[ClassCounts]:
    del argument
    labels = check(y)
    return [ClassCounts.of(labels, checked_weights(weights, labels))]


def _sums_of_piece(
    part: Callable[[Batch], Sums],
    check: Callable[[Any], Array],
    dealing: Dealing,
    start: Any,
    X: Any,
    y: Any,
    weights: Any = None,
) -> Sums:
    """What a piece adds, computed where it lies."""
    y = check(y)
    if X.shape[0] != len(y):
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: a chunk of X has {X.shape[0]} rows and that "
            f"of y has {len(y)}."
        )
    folds = dealing.folds(start, y)
    rows = MemorySet(as_rows(X), y, checked_weights(weights, X), folds, dealing.n_folds).counted
    return part(rows) if rows.X.shape[0] else {}
