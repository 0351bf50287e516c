# SPDX-License-Identifier: BSD-3-Clause
"""Names of array types, and operations on rows in memory that are dense arrays or CSR matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.sparsefuncs import min_max_axis

__all__ = [
    *("Array", "Floats", "Indices", "Mask", "as_csr", "column_ranges", "is_sparse", "max_abs", "norm", "stack_rows"),
    *("to_dense",),
]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


def is_sparse(X: Any) -> bool:
    """Return whether X is a scipy sparse array or matrix."""
    return bool(sparse.issparse(X))


def to_dense(X: Any) -> Floats:
    """Return an array or sparse matrix as a dense float64 array."""
    return np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)


def as_csr(X: Any) -> Any:
    """Return a sparse matrix in CSR format, whose rows can be indexed; other blocks as they are."""
    return X.tocsr() if is_sparse(X) else X


def stack_rows(blocks: Sequence[Any]) -> Any:
    """Concatenate arrays, or CSR matrices, along the first axis."""
    return sparse.vstack(blocks, format="csr") if any(map(is_sparse, blocks)) else np.concatenate(blocks)


def column_ranges(X: Any) -> tuple[Array, Array]:
    """Return the smallest and the largest value of each column."""
    if is_sparse(X):
        low, high = min_max_axis(X, axis=0)
        return low, high
    return X.min(axis=0), X.max(axis=0)


def max_abs(X: Any) -> Floats:
    """Return the largest magnitude of each column, without a temporary of the size of the rows."""
    low, high = column_ranges(X)
    return np.asarray(np.maximum(high, -low), dtype=np.float64)


def norm(X: Any) -> float:
    """Return the Frobenius norm of rows, in one pass; infinity or NaN where it overflows."""
    values = X.data if is_sparse(X) else X.T if X.flags.f_contiguous else X
    n_rows, total = max(1, 2**20 * len(values) // max(1, values.size)), 0.0
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for start in range(0, len(values), n_rows):
            flat = values[start : start + n_rows].ravel()
            total += float(np.dot(flat, flat))
    return float(np.sqrt(total))
