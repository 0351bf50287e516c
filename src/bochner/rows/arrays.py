# SPDX-License-Identifier: BSD-3-Clause
"""Dense arrays and CSR matrices of rows, and the names of array types."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[Any]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy sparse array or matrix."""
    return bool(sparse.issparse(X))


def to_dense(X: Any) -> Floats:
    """An array or sparse matrix as a dense float64 array."""
    return np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)


def as_rows(block: Any) -> Any:
    """A block that rows can be taken of: sparse ones in CSR format."""
    return block.tocsr() if is_sparse(block) else block


def stacked(pieces: Sequence[Any]) -> Any:
    """Arrays, or CSR matrices, one below the other."""
    return sparse.vstack(pieces, format="csr") if any(map(is_sparse, pieces)) else np.concatenate(pieces)
