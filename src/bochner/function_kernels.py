# SPDX-License-Identifier: BSD-3-Clause
"""Kernels without a length scale: any function of two sets of rows, or a precomputed matrix, for `LandmarkFeatures`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bochner.rows import Floats, to_dense

__all__ = ["FunctionKernel", "PrecomputedKernel"]


class FunctionKernel:
    """A kernel that is any function of two sets of rows; it has no length scale and no frequencies.

    Parameters
    ----------
    function : callable
        Returns the kernel matrix of two sets of rows. The matrix of a set with itself must be positive semidefinite.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.function_kernels import FunctionKernel
    >>> def common_letters(words, others):
    ...     return [[len(set(word) & set(other)) for other in others] for word in words]
    >>> FunctionKernel(common_letters)(np.array(["ab", "abc"]))
    array([[2., 2.],
           [2., 3.]])
    """

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        """Return the kernel matrix of two sets of rows; None means `X`.

        Parameters
        ----------
        X : array-like of shape (n_x, ...)
            Rows.
        Y : array-like of shape (n_y, ...), default=None
            Other rows.

        Returns
        -------
        ndarray of shape (n_x, n_y)
            Kernel values.
        """
        Y = X if Y is None else Y
        values = to_dense(self.function(X, Y))
        if values.shape != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"`kernel` must return one row and one column per given row. It returned shape {values.shape} for "
                f"{X.shape[0]} and {Y.shape[0]} rows."
            )
        if not np.isfinite(values).all():
            raise ValueError("`kernel` must return finite numbers. It returned NaN or infinity for some pairs of rows.")
        return values


class PrecomputedKernel(FunctionKernel):
    """A kernel matrix; rows are given by their indices.

    Parameters
    ----------
    matrix : ndarray of shape (n_samples, n_samples), default=None
        The kernel matrix of the training rows; None after the fit, which does not need it any more.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.function_kernels import PrecomputedKernel
    >>> PrecomputedKernel(np.eye(3))(np.array([0, 2]), np.array([2]))
    array([[0.],
           [1.]])
    """

    def __init__(self, matrix: Floats | None = None) -> None:
        self.matrix = matrix

    def function(self, X: Any, Y: Any) -> Floats:
        """Return the entries of the matrix for two sets of row indices.

        Parameters
        ----------
        X, Y : ndarray of int
            Row indices.

        Returns
        -------
        ndarray of shape (len(X), len(Y))
            Entries of the matrix.
        """
        if self.matrix is None:
            raise ValueError(
                "The values of a precomputed kernel between new rows are not known; compute them yourself."
            )
        return np.asarray(self.matrix[np.ix_(X, Y)])
