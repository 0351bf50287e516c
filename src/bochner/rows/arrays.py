# SPDX-License-Identifier: BSD-3-Clause
"""Names of array types, and operations on rows in memory that are dense arrays or CSR matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.sparsefuncs import min_max_axis

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
    """Return the Frobenius norm of rows, in one pass and without a copy; infinity or NaN where it overflows."""
    values = X.data if is_sparse(X) else X.T if X.flags.f_contiguous else X
    n_rows = max(1, 2**20 * len(values) // max(1, values.size))
    blocks = (values[start : start + n_rows].ravel() for start in range(0, len(values), n_rows))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return float(np.sqrt(sum(float(np.dot(block, block)) for block in blocks)))
