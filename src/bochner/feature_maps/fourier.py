# SPDX-License-Identifier: BSD-3-Clause
"""The map from rows to weighted Fourier features: nothing random, nothing fitted."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.rows import Array, Floats, Indices, for_each_span, in_threads, is_sparse, row_spans

if TYPE_CHECKING:
    from bochner.feature_maps.hadamard import HadamardFrequencies

__all__ = ["SPAN_ROWS", "BlockMap", "add_moments", "fourier_gram", "fourier_map", "map_features"]

PHASE_BYTES = 1 << 19  # the phases of a block stay in the second-level cache
GRAM_ROWS = 1024  # rows that one product sums: enough for the product, and little memory
SPAN_ROWS = 8192  # rows that one thread sums before its part joins the total


def fourier_map(
    X: Any,
    frequencies: "Array | HadamardFrequencies",
    weights: Array,
    out: Array | None = None,
    matrix: Array | None = None,
) -> Array:
    r"""Columns :math:`\sqrt{\beta_m} \cos(w_m \cdot x)`, then :math:`\sqrt{\beta_m} \sin(w_m \cdot x)`.

    The inner product of two mapped rows is :math:`\sum_m \beta_m \cos(w_m \cdot (x - y))`. Blocks of rows are spread
    over threads: one matrix product makes a block's phases, one compiled pass its sines and cosines, written where
    they belong. Nothing of the output's size is held beside it.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows, of the frequencies' dtype.
    frequencies : ndarray of shape (n_frequencies, n_features) or HadamardFrequencies
        One frequency a row.
    weights : ndarray of shape (n_frequencies,)
        Non-negative weights.
    out : ndarray of shape (n_samples, width), default=None
        Where to write: C-contiguous, of the frequencies' dtype. None makes a new array.
    matrix : ndarray of shape (2 * n_frequencies, width), default=None
        What the columns are multiplied by, a block at a time; None leaves the 2 * n_frequencies columns as they are.

    Returns
    -------
    ndarray of shape (n_samples, width)
        The features, in the frequencies' dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps.fourier import fourier_map
    >>> fourier_map(np.array([[np.pi]]), np.array([[1.0]]), np.array([4.0])).round(6) + 0.0
    array([[-2.,  0.]])
    """
    block_map = BlockMap(frequencies, weights, matrix)
    shape = (X.shape[0], block_map.width)
    if out is None:
        out = np.empty(shape, dtype=frequencies.dtype)
    elif out.shape != shape or out.dtype != frequencies.dtype or not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError(
            f"`out` must be a writeable C-contiguous array of shape {shape} and dtype {frequencies.dtype}. Got shape "
            f"{out.shape} and dtype {out.dtype} instead."
        )
    for_each_span(lambda span: block_map.write(X[span], out[span]), X.shape[0], block_map.block_rows)
    return out


def fourier_gram(
    X: Any, frequencies: "Array | HadamardFrequencies", weights: Array, matrix: Array | None = None
) -> Floats:
    """The Gram matrix of the features, summed over blocks of rows in float64; the features are never held whole.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows, of the frequencies' dtype; a memory map is read once.
    frequencies : ndarray of shape (n_frequencies, n_features) or HadamardFrequencies
        One frequency a row.
    weights : ndarray of shape (n_frequencies,)
        Non-negative weights.
    matrix : ndarray of shape (2 * n_frequencies, width), default=None
        What the columns are multiplied by; None leaves the 2 * n_frequencies columns as they are.

    Returns
    -------
    ndarray of shape (width, width)
        Sum over rows of the outer products of their features.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps.fourier import fourier_gram
    >>> fourier_gram(np.array([[np.pi], [0.0]]), np.array([[1.0]]), np.array([4.0])).round(6) + 0.0
    array([[8., 0.],
           [0., 0.]])
    """
    block_map = BlockMap(frequencies, weights, matrix)
    width = block_map.width
    totals = np.zeros((1, width + 1, width + 1))
    add_moments(totals, block_map, X, np.empty((X.shape[0], 0)))
    return totals[0, :width, :width]


def map_features(block_map: "BlockMap", X: Any, n_columns: int, function: Callable[[Floats], Floats]) -> Floats:
    """`function` of the features (n, width) of blocks of rows, in threads: shape (n_samples, n_columns), float64."""
    out = np.empty((X.shape[0], n_columns))

    def work(span: slice) -> None:
        for rows in row_spans(span.stop - span.start, block_map.block_rows):
            out[span][rows] = function(block_map.new(X[span][rows]).astype(np.float64, copy=False))

    for_each_span(work, X.shape[0], block_map.block_rows)
    return out


def add_moments(
    totals: Any,
    block_map: "BlockMap",
    X: Any,
    targets: Floats,
    row_weights: Floats | None = None,
    folds: Indices | None = None,
    span_rows: int = SPAN_ROWS,
) -> None:
    r"""Add to `totals[fold]` the second moments :math:`\sum_i w_i a_i a_i^T` of the rows of that fold.

    :math:`a = [z, 1, y]` holds a row's features, a one and its targets. Everything that least squares needs is in
    these sums. Rows are summed in spans of `span_rows`, in threads, the spans in order: a sum that is continued after
    a whole number of spans has the bits of one that was never interrupted.

    Parameters
    ----------
    totals : ndarray of shape (n_folds, width, width) or mapping of int to ndarray of shape (width, width)
        The sums, in float64; width = that of the features + 1 + n_targets.
    block_map : BlockMap
        The map to features.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows, of the map's dtype; a memory map is read once.
    targets : ndarray of shape (n_samples, n_targets)
        Targets.
    row_weights : ndarray of shape (n_samples,), default=None
        How many times each row counts; None means once.
    folds : ndarray of shape (n_samples,), default=None
        The fold of each row; None means that all are in the first.
    span_rows : int, default=8192
        Rows that one thread sums before its part joins the total; few rows need shorter spans to occupy all threads.
    """

    fold_of = np.zeros(X.shape[0], dtype=np.intp) if folds is None else folds

    def part(span: slice) -> list[tuple[int, Floats]]:
        own: list[Any]
        own_folds = fold_of[span]
        if own_folds.min() == own_folds.max():
            present, own = [int(own_folds[0])], [span]  # a slice copies nothing
        else:
            present = np.unique(own_folds).tolist()
            own = [span.start + np.flatnonzero(own_folds == fold) for fold in present]
        return [
            (fold, _moments(block_map, X[rows], targets[rows], None if row_weights is None else row_weights[rows]))
            for fold, rows in zip(present, own, strict=True)
        ]

    for parts in in_threads(part, row_spans(X.shape[0], span_rows)):
        for fold, moments in parts:
            totals[fold] += moments


def _moments(block_map: "BlockMap", X: Any, targets: Floats, row_weights: Floats | None) -> Floats:
    """The second moments of [z, 1, y] over the rows of X, in this thread."""
    width = block_map.width
    gram, product = np.zeros((width, width)), np.empty((width, width))
    moments = np.zeros((width + 1 + targets.shape[1],) * 2)
    for rows in row_spans(X.shape[0], GRAM_ROWS):
        features = block_map.wide(X[rows])
        rest = np.column_stack([np.ones(len(features)), targets[rows]])
        if row_weights is not None:
            roots = np.sqrt(row_weights[rows])[:, None]
            features *= roots
            rest *= roots
        # numpy's product of a matrix with itself does half the work, and lets other threads run; scipy's does not.
        gram += np.matmul(features.T, features, out=product)
        moments[:width, width:] += features.T @ rest
        moments[width:, width:] += rest.T @ rest
    moments[:width, :width] = gram
    moments[width:, :width] = moments[:width, width:].T
    return moments


class BlockMap:
    """The map of one fit, ready for blocks: frequencies in quarter turns, amplitudes, and how many rows to take.

    With a `matrix` the cosines and sines of a block are multiplied by it, and leave as fewer columns.
    """

    def __init__(self, frequencies: "Array | HadamardFrequencies", weights: Array, matrix: Array | None = None) -> None:
        from bochner.feature_maps import trigonometry  # numba's import: only who maps pays for it

        self.quarter_turns = trigonometry.QUARTER_TURNS
        self.sincos_rows = trigonometry.sincos_rows
        self.structured = None if isinstance(frequencies, np.ndarray) or not frequencies.is_fast else frequencies
        turns = np.asarray(frequencies, dtype=np.float64) * self.quarter_turns
        self.turns = np.ascontiguousarray(turns.T, dtype=frequencies.dtype)
        self.amplitudes = np.sqrt(weights)
        self.matrix = matrix
        self.width = 2 * self.turns.shape[1] if matrix is None else matrix.shape[1]
        self.block_rows = max(16, PHASE_BYTES // self.turns[:1].nbytes)
        self.local = threading.local()  # each thread has its own buffers: new ones cost page faults

    def new(self, X: Any) -> Array:
        """The features of the rows of X."""
        features = np.empty((X.shape[0], self.width), dtype=self.turns.dtype)
        self.write(X, features)
        return features

    def wide(self, X: Any) -> Floats:
        """The features of up to GRAM_ROWS rows of X in float64, in an array that the next call in this thread takes."""
        wide = self._buffer("wide", self.width, GRAM_ROWS, np.float64)[: X.shape[0]]
        if self.turns.dtype == np.float64:
            self.write(X, wide)
        else:
            narrow = self._buffer("narrow", self.width, GRAM_ROWS)[: X.shape[0]]
            self.write(X, narrow)
            wide[...] = narrow
        return wide

    def write(self, X: Any, out: Array) -> None:
        """Write the features of the rows of X into `out`, a block at a time in this thread."""
        for start in range(0, X.shape[0], self.block_rows):
            block, target = X[start : start + self.block_rows], out[start : start + self.block_rows]
            if self.matrix is None:
                self._write_pool(block, target)
            else:
                pool = self._buffer("pool", 2 * self.turns.shape[1])[: block.shape[0]]
                self._write_pool(block, pool)
                np.matmul(pool, self.matrix, out=target)

    def _write_pool(self, block: Any, out: Array) -> None:
        """Write the cosines and sines of a block of rows."""
        turns = self._buffer("phases", self.turns.shape[1])[: block.shape[0]]
        if is_sparse(block):
            turns[...] = block @ self.turns
        elif self.structured is not None:
            self.structured.multiply(block, self.quarter_turns, turns)
        else:
            np.matmul(block, self.turns, out=turns)
        self.sincos_rows(turns, self.amplitudes, out)

    def _buffer(self, name: str, width: int, n_rows: int | None = None, dtype: Any = None) -> Array:
        """This thread's array of a block's rows, or of as many as given."""
        if not hasattr(self.local, name):
            setattr(self.local, name, np.empty((n_rows or self.block_rows, width), dtype=dtype or self.turns.dtype))
        buffer: Array = getattr(self.local, name)
        return buffer
