# SPDX-License-Identifier: BSD-3-Clause
"""Names of array types, and operations on rows in memory that are dense arrays or CSR matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Array", "Floats", "Indices", "Mask", "as_csr", "is_sparse", "stack_rows", "to_dense"]

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
