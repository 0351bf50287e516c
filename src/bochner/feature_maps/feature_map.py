# SPDX-License-Identifier: BSD-3-Clause
"""The interface between features and linear models: a prepared map that writes features block by block.

A linear model needs four things of its features: how many there are, their dtype, a check of new rows, and a way to
write the features of a block of rows. `FeatureMap` is that interface. Our own transformers have a compiled map as
`feature_map_`; every other scikit-learn transformer takes part through `TransformerMap`, which calls its `transform`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, MutableMapping
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, check_array, get_tags

from bochner.memory import check_memory
from bochner.rows import Array, Floats, Indices, for_each_span, in_threads, is_sparse, row_spans, to_dense
from bochner.rows.block_sizes import SMALL_MATRIX, SMALL_VECTOR

__all__ = [
    *("FeatureMap", "ProductMap", "TransformerMap", "accepts_nan", "add_moments", "apply_to_features"),
    *("DIFFERENCE_STEP", "central_differences", "map_rows"),
]

GRAM_ROWS = 1024  # rows per matrix product of a sum: enough for its speed, and little memory
BLOCK_BYTES = 1 << 20
DIFFERENCE_STEP = 6e-6  # the cube root of the precision of float64, where central differences are most accurate


class FeatureMap(ABC):
    """A map from validated rows to features, ready for blocks of rows.

    Subclasses set the attributes and write `write_block`. A map is read-only after its construction, so that several
    threads can use it at a time.

    Attributes
    ----------
    n_columns : int
        Number of features.
    dtype : dtype
        The dtype of rows and features.
    block_rows : int
        How many rows to write at a time.
    small_rows : int
        Number of rows at a time for which BLAS uses one thread; 0 if it is unknown.
    """

    n_columns: int
    dtype: np.dtype[Any]
    block_rows: int
    small_rows: int = 0

    @abstractmethod
    def write_block(self, block: Any, out: Array) -> None:
        """Write the features of at most `block_rows` rows into `out`, of shape (n_rows, n_columns)."""

    def write(self, X: Any, out: Array) -> None:
        """Write the features of the rows of X into `out`, of shape (n_rows, n_columns), in the calling thread."""
        for rows in row_spans(X.shape[0], self.block_rows):
            self.write_block(X[rows], out[rows])

    @property
    def row_options(self) -> dict[str, Any]:
        """Options of scikit-learn's `validate_data` for rows; `check` finds NaN and infinity too, in the same pass."""
        return {"accept_sparse": "csr", "dtype": self.dtype, "ensure_all_finite": False}

    def check(self, X: Any) -> None:  # noqa: B027
        """Raise a ValueError for rows that the map cannot represent; any rows are accepted by default."""

    def validate_block(self, block: Any, dtype: Any) -> Any:
        """Return a chunk of a collection as rows of a dtype, checked; it runs where the chunk is."""
        X = check_array(block, **self.row_options | {"dtype": dtype, "ensure_min_samples": 0})
        self.check(X)
        return X

    def gradients(self, X: Any, coef: Floats) -> Floats:
        """Return gradients of linear functions of the features with respect to the columns of X.

        A map without a formula, such as that of another library's transformer, has differences instead.

        Parameters
        ----------
        X : {ndarray, CSR matrix} of shape (n_rows, n_features)
            Rows.
        coef : ndarray of shape (n_columns, n_functions)
            Coefficients of the functions.

        Returns
        -------
        ndarray of shape (n_rows, n_features, n_functions)
            The gradients, in float64.
        """
        rows = to_dense(X)
        steps = DIFFERENCE_STEP * np.maximum(1.0, np.abs(rows).max(axis=0, initial=0.0))
        return central_differences(lambda moved: self.features(moved) @ coef, rows, steps)

    def features(self, X: Any) -> Array:
        """Return the features of the rows of X, computed in the calling thread."""
        out = np.empty((X.shape[0], self.n_columns), dtype=self.dtype)
        self.write(X, out)
        return out


def central_differences(function: Callable[[Floats], Floats], rows: Floats, steps: Floats) -> Floats:
    """Return approximate gradients of the columns of a function of rows, of shape (n_rows, n_features, n_functions)."""
    differences = [(function(rows + step) - function(rows - step)) / (2.0 * step.sum()) for step in np.diag(steps)]
    return np.stack(differences, axis=1)


class ProductMap(FeatureMap):
    """The features of another map times a matrix.

    A linear function of the features is a linear function of the columns of `inner`, which costs less.

    Parameters
    ----------
    inner : FeatureMap
        The other map.
    matrix : ndarray of shape (inner.n_columns, n_columns)
        The matrix, of the dtype of the map.
    """

    def __init__(self, inner: FeatureMap, matrix: Array) -> None:
        self.inner = inner
        self.matrix = matrix
        self.n_columns = matrix.shape[1]
        self.dtype = inner.dtype
        self.block_rows = inner.block_rows
        self.small_rows = min(inner.small_rows, max(1, SMALL_MATRIX // matrix.size))

    @property
    def row_options(self) -> dict[str, Any]:
        return self.inner.row_options

    @cached_property
    def matrix_norm(self) -> float:
        """The largest singular value of the matrix, by which rounding errors of the columns grow at most."""
        return float(np.linalg.norm(self.matrix.astype(np.float64), 2))

    def check(self, X: Any) -> None:
        self.inner.check(X)

    def gradients(self, X: Any, coef: Floats) -> Floats:
        return self.inner.gradients(X, self.matrix @ coef)

    def write_block(self, block: Any, out: Array) -> None:
        np.matmul(self.inner.features(block), self.matrix, out=out)


class TransformerMap(FeatureMap):
    """The map of a fitted scikit-learn transformer, through its `transform`; features are float64.

    Parameters
    ----------
    transformer : object
        A fitted transformer. Its `transform` is called on blocks of rows, in several threads.
    n_columns : int
        Number of columns that it returns.

    Notes
    -----
    Rows with NaN are accepted where the transformer, or the first step of a pipeline, accepts them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> from bochner.feature_maps import TransformerMap
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> TransformerMap.probe(PolynomialFeatures().fit(X), X[:1]).features(X[1:])
    array([[ 1.,  3.,  4.,  9., 12., 16.]])
    """

    def __init__(self, transformer: Any, n_columns: int) -> None:
        self.transformer = transformer
        self.n_columns = n_columns
        self.dtype = np.dtype(np.float64)
        self.block_rows = max(GRAM_ROWS, BLOCK_BYTES // (8 * max(1, n_columns)))

    @classmethod
    def probe(cls, transformer: Any, row: Any) -> "TransformerMap":
        """Return the map of a transformer whose number of columns is found by transforming one row."""
        features = _transform(transformer, row)
        if features.ndim != 2 or features.dtype.kind not in "biuf":
            raise ValueError(
                f"`features`={transformer!r} must transform rows to columns of numbers. Its output has shape "
                f"{features.shape} and dtype {features.dtype}."
            )
        return cls(transformer, features.shape[1])

    def check(self, X: Any) -> None:
        """Raise a ValueError for infinity, and for NaN unless the transformer accepts it."""
        assert_all_finite(X, allow_nan=accepts_nan(self.transformer), input_name="X")

    def write_block(self, block: Any, out: Array) -> None:
        out[...] = _transform(self.transformer, block)


def accepts_nan(transformer: Any) -> bool:
    """Return whether a transformer accepts NaN, as a pipeline does that begins with an imputer."""
    first = transformer.steps[0][1] if hasattr(transformer, "steps") else transformer
    return hasattr(first, "__sklearn_tags__") and bool(get_tags(first).input_tags.allow_nan)


def _transform(transformer: Any, X: Any) -> Array:
    features = transformer.transform(X)
    return to_dense(features) if is_sparse(features) else np.asarray(features)


def map_rows(feature_map: FeatureMap, X: Any, out: Array | None = None) -> Array:
    """Map rows to features, blocks of rows in threads; nothing of the output's size is held beside it.

    Parameters
    ----------
    feature_map : FeatureMap
        The map.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows of the map's dtype.
    out : ndarray of shape (n_samples, n_columns), default=None
        Where to write: C-contiguous, of the map's dtype. None makes a new array.

    Returns
    -------
    ndarray of shape (n_samples, n_columns)
        The features.
    """
    shape = (X.shape[0], feature_map.n_columns)
    if out is None:
        subject, remedy = f"The map of {shape[0]:,} rows", "map fewer rows at a time, or use fewer features"
        check_memory(math.prod(shape) * feature_map.dtype.itemsize, subject, f"{shape[1]:,} features per row", remedy)
        out = np.empty(shape, dtype=feature_map.dtype)
    elif out.shape != shape or out.dtype != feature_map.dtype or not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError(
            f"`out` must be a writeable C-contiguous array of shape {shape} and dtype {feature_map.dtype}. Got shape "
            f"{out.shape}, dtype {out.dtype}, C-contiguous {out.flags.c_contiguous}, writeable {out.flags.writeable}."
        )

    def work(span: slice) -> None:
        feature_map.write(X[span], out[span])

    for_each_span(work, X.shape[0], feature_map.block_rows, feature_map.small_rows)
    return out


def apply_to_features(
    feature_map: FeatureMap, X: Any, n_columns: int, function: Callable[[Floats], Floats], n_inner: int | None = None
) -> Floats:
    """Apply a function to the features of blocks of rows, in threads.

    Parameters
    ----------
    feature_map : FeatureMap
        The map.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows of the map's dtype.
    n_columns : int
        Number of columns that the function returns.
    function : callable
        Takes features of shape (n_rows, n_columns) in float64 and returns an array of shape (n_rows, n_columns).
    n_inner : int, default=None
        Number of columns of the largest matrix that it multiplies the features by; None means `n_columns`.

    Returns
    -------
    ndarray of shape (n_samples, n_columns)
        What the function returned, in float64.
    """
    out = np.empty((X.shape[0], n_columns))

    def work(span: slice) -> None:
        for rows in row_spans(span.stop - span.start, feature_map.block_rows):
            out[span][rows] = function(feature_map.features(X[span][rows]).astype(np.float64, copy=False))

    small_rows = min(feature_map.small_rows, SMALL_VECTOR // (feature_map.n_columns * (n_inner or n_columns)))
    for_each_span(work, X.shape[0], feature_map.block_rows, small_rows)
    return out


def add_moments(
    totals: MutableMapping[int, Any],
    feature_map: FeatureMap,
    X: Any,
    targets: Floats,
    row_weights: Floats | None = None,
    folds: Indices | None = None,
) -> None:
    r"""Add the second moments of the rows of each fold to `totals[fold]`, computed in threads.

    A row has the vector :math:`a = [z, 1, y]` of its features, a one and its targets. The second moments
    :math:`\sum_i w_i a_i a_i^T` are all that least squares needs.

    Parameters
    ----------
    totals : mapping of int to ndarray of shape (size, size)
        The accumulated moments, in float64; size = number of features + 1 + n_targets.
    feature_map : FeatureMap
        The map to features.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows of the map's dtype.
    targets : ndarray of shape (n_samples, n_targets)
        Targets.
    row_weights : ndarray of shape (n_samples,), default=None
        Sample weights; None means 1 for every row.
    folds : ndarray of shape (n_samples,), default=None
        The fold of each row; None means fold 0 for every row.
    """
    fold_of = np.zeros(X.shape[0], dtype=np.intp) if folds is None else folds
    tasks: list[tuple[int, Any]] = []
    for fold in np.unique(fold_of).tolist():
        own = np.flatnonzero(fold_of == fold)
        for rows in (own[block] for block in row_spans(len(own), GRAM_ROWS)):
            is_slice = rows[-1] - rows[0] == len(rows) - 1  # which copies nothing
            tasks.append((fold, slice(int(rows[0]), int(rows[-1]) + 1) if is_slice else rows))

    def moments_of(task: tuple[int, Any]) -> Floats:
        rows = task[1]
        features = feature_map.features(X[rows])
        joined = np.column_stack([features, np.ones(len(features)), targets[rows]])
        if row_weights is not None:
            joined *= np.sqrt(row_weights[rows])[:, None]
        return np.asarray(joined.T @ joined)

    for (fold, _), moments in zip(tasks, in_threads(moments_of, tasks), strict=True):
        totals[fold] = np.add(totals[fold], moments, out=totals[fold]) if fold in totals else moments
