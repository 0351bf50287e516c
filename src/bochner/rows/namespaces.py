# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of other libraries: torch tensors, and whatever follows the array API standard."""

import sys
from typing import Any

import numpy as np

from bochner.rows.arrays import Array

__all__ = ["convert_like", "is_floating", "namespace_of", "row_of_largest", "to_numpy"]


def namespace_of(X: Any) -> Any:
    """Return the array library of X, a module; None for numpy, and for rows that are not arrays of any library.

    Parameters
    ----------
    X : object
        Rows of any kind. Torch is not imported to recognize its tensors.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows.namespaces import namespace_of
    >>> namespace_of(np.zeros(3)) is None
    True
    """
    if isinstance(X, np.ndarray | np.generic):
        return None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(X, torch.Tensor):
        return torch  # has the functions of the standard, but its tensors do not say so
    return X.__array_namespace__() if hasattr(X, "__array_namespace__") else None


def to_numpy(X: Any) -> Any:
    """Return an array of another library as a numpy array, without its gradient; anything else as it is."""
    xp = namespace_of(X)
    if xp is None:
        return X
    return X.detach().cpu().numpy() if xp.__name__ == "torch" else np.from_dlpack(X)


def is_floating(X: Any) -> bool:
    """Return whether an array of another library contains real floating-point numbers."""
    return "float" in str(X.dtype)


def convert_like(values: Array, X: Any, xp: Any) -> Any:
    """Return a copy of a numpy array in another library, of the dtype and on the device of X."""
    if "float32" in str(X.dtype):
        values = values.astype(np.float32)  # here and not on the device, which may have no float64
    return xp.asarray(values, dtype=X.dtype, device=X.device, copy=True)


def row_of_largest(X: Any, xp: Any) -> Array:
    """Return a numpy row of the largest absolute value of each column, NaN included; all of X if it has no rows."""
    if X.ndim != 2 or 0 in X.shape:
        return np.asarray(to_numpy(X))
    # The maximum of torch along an axis is a pair, and that of the standard is `amax` there.
    return np.asarray(to_numpy(getattr(xp, "amax", xp.max)(xp.abs(X), axis=0)))[None]
