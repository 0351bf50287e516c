# SPDX-License-Identifier: BSD-3-Clause
"""Maps from rows to kernel values at landmarks: one column per landmark."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bochner.feature_maps.elementary import LOG2_E, exponential_rows
from bochner.feature_maps.feature_map import DIFFERENCE_STEP, FeatureMap, central_differences, map_rows
from bochner.kernels import Gaussian, IsotropicKernel, Kernel, PrecomputedKernel
from bochner.rows import Array, Floats, LengthScales, Scaling, Unscaled, is_sparse, row_spans, to_dense
from bochner.rows.block_sizes import SMALL_MATRIX

__all__ = ["kernel_columns", "kernel_diagonal", "kernel_function"]

BLOCK_BYTES = 1 << 19  # the columns of a block stay in the second-level cache
LARGEST_FLOAT32_ERROR = 4e-4  # of kernel values of equal rows; beyond, squared distances are computed in float64
ROUNDING = 8.0  # of squared distances: multiples of the precision of the squared norms that they are differences of


def kernel_columns(kernel: Any, landmarks: Any, scaling: Scaling, dtype: Any = np.float64) -> FeatureMap:
    """Return the fastest map to the kernel values of scaled rows at landmarks.

    Parameters
    ----------
    kernel : Kernel or callable
        A kernel at unit length scale, or any function of two sets of rows.
    landmarks : array-like of shape (n_landmarks, n_features)
        The landmarks, in the units of the rows.
    scaling : Scaling
        The map of rows and landmarks; `Unscaled` for a function of two sets of rows.
    dtype : dtype, default=float64
        The dtype of rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps import kernel_columns
    >>> from bochner.kernels import Gaussian
    >>> from bochner.rows import LengthScales
    >>> kernel_columns(Gaussian(), np.array([[0.0], [2.0]]), LengthScales(2.0)).features(np.array([[0.0]])).round(4)
    array([[1.    , 0.6065]])
    """
    if isinstance(scaling, Unscaled):
        return FunctionColumns(kernel, landmarks)
    kind = KernelColumns
    if isinstance(kernel, IsotropicKernel):
        kind = GaussianColumns if isinstance(kernel, Gaussian) else DistanceColumns
    return kind(kernel, to_dense(landmarks), scaling, np.dtype(dtype))


def kernel_function(kernel: Any) -> Callable[[Any, Any], Floats]:
    """Return a kernel at unit length scale as a function of two sets of rows that uses the fastest map, in threads.

    Parameters
    ----------
    kernel : Kernel or callable
        A kernel at unit length scale, or any function of two sets of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps.kernel_columns import kernel_function
    >>> from bochner.kernels import Gaussian
    >>> kernel_function(Gaussian())(np.array([[0.0]]), np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.6065]])
    """

    def matrix(X: Any, Y: Any) -> Floats:
        if isinstance(kernel, Kernel) and not is_sparse(X) and not is_sparse(Y):
            return map_rows(kernel_columns(kernel, Y, LengthScales(1.0)), X)
        return np.asarray(kernel(X, Y))

    return matrix


def kernel_diagonal(kernel: Any, X: Any) -> Floats:
    """Return the values of a kernel, or of any function of two sets of rows, for each row with itself."""
    if isinstance(kernel, Kernel):
        return np.repeat(kernel.at(np.zeros((1, X.shape[1]))), X.shape[0])
    blocks = [X[rows] for rows in row_spans(X.shape[0], 16)]
    return np.concatenate([np.diagonal(kernel(block, block)) for block in blocks]).astype(np.float64)


class KernelColumns(FeatureMap):
    """Kernel values at landmarks, through the kernel's own matrix of two sets of rows.

    Parameters
    ----------
    kernel : Kernel
        A kernel at unit length scale.
    landmarks : ndarray of shape (n_landmarks, n_features)
        The landmarks, in the units of the rows.
    scaling : Scaling
        The map of rows and landmarks.
    dtype : dtype
        The dtype of rows and columns.
    """

    def __init__(self, kernel: Any, landmarks: Floats, scaling: Scaling, dtype: Any) -> None:
        self.n_columns = len(landmarks)
        self.dtype = dtype
        self.block_rows = max(16, BLOCK_BYTES // (dtype.itemsize * self.n_columns))
        self._kernel = kernel
        self._scaling = scaling
        # Relative to the landmarks' mean, squared distances lose no digits to a common offset.
        self._center = landmarks.mean(axis=0)
        self._landmarks: Any = scaling.apply(landmarks - self._center)
        self.small_rows = max(1, SMALL_MATRIX // (landmarks.shape[1] * max(self._landmarks.shape)))

    def check(self, X: Any) -> None:
        """Raise a ValueError for NaN, infinity, and values too large for the length scale and the dtype."""
        self._scaling.check(X, "LandmarkFeatures")

    def write_block(self, block: Any, out: Array) -> None:
        out[...] = self._kernel(self._scaled(block), self._landmarks)

    def _scaled(self, block: Any) -> Floats:
        """Return dense rows relative to the center, scaled."""
        return np.asarray(self._scaling.apply(to_dense(block) - self._center))

    def gradients(self, X: Any, coef: Floats) -> Floats:
        slopes = self._slopes(self._scaled(X), coef)
        return np.stack([self._scaling.fold(slopes[:, :, k]) for k in range(coef.shape[1])], axis=2)

    def _slopes(self, rows: Floats, coef: Floats) -> Floats:
        """Return the gradients of linear functions of the columns with respect to scaled rows."""
        steps = np.full(rows.shape[1], DIFFERENCE_STEP)
        return central_differences(lambda moved: self._kernel(moved, self._landmarks) @ coef, rows, steps)


class DistanceColumns(KernelColumns):
    """Kernel values at landmarks, from squared distances by one matrix product."""

    def __init__(self, kernel: Any, landmarks: Floats, scaling: Scaling, dtype: Any) -> None:
        super().__init__(kernel, landmarks, scaling, dtype)
        plain, length_scales = scaling.apply(landmarks), np.broadcast_to(scaling.length_scales, landmarks.shape[1])
        centered_size, plain_size = (float(np.square(rows).sum(axis=1).max()) for rows in (self._landmarks, plain))
        in_range = length_scales.min() > 1e-15 and length_scales.max() < 1e15  # squares of float32
        # Rows around the origin are neither centered nor scaled: it saves two passes over them, and they stay sparse.
        self._is_plain = isinstance(scaling, LengthScales) and plain_size <= 4.0 * centered_size and in_range
        transposed = self._landmarks.T
        if self._is_plain:  # rows as they are times scaled landmarks, scaled again, are inner products of scaled rows
            self._landmarks, self._center, centered_size = plain, np.zeros_like(self._center), plain_size
            transposed = scaling.fold(plain).T
        # The squared distance of equal rows is a difference of numbers of this size; a kernel with a kink at zero, such
        # as the exponential one, turns its rounding error into the root of it.
        error = 1.0 - float(kernel.profile(np.array([4.0 * float(np.finfo(dtype).eps) * centered_size]))[0])
        self._work_dtype = np.dtype(np.float64) if error > LARGEST_FLOAT32_ERROR else dtype
        self._squares = np.square(self._landmarks).sum(axis=1).astype(self._work_dtype)
        self._transposed = np.ascontiguousarray(transposed, dtype=self._work_dtype)
        self._column_weights = np.square(1.0 / length_scales).astype(self._work_dtype)

    def write_block(self, block: Any, out: Array) -> None:
        products, squares = self._products(block)
        sums = squares[:, None] + self._squares
        products *= -2.0
        products += sums
        # Less than its rounding error is no distance: a row that equals a landmark has the kernel value 1.
        sums *= ROUNDING * np.finfo(self._work_dtype).eps
        products[products <= sums] = 0.0
        out[...] = self._kernel.profile(products)

    def _slopes(self, rows: Floats, coef: Floats) -> Floats:
        return np.stack([self._kernel.gradient_at(row - self._landmarks).T @ coef for row in rows])

    def _products(self, block: Any) -> tuple[Array, Array]:
        """Return inner products of scaled rows with the landmarks, and the squared norms of the rows."""
        if not self._is_plain:
            rows = self._scaled(block).astype(self._work_dtype, copy=False)
            return rows @ self._transposed, np.einsum("ij,ij->i", rows, rows)
        rows = block.astype(self._work_dtype, copy=False)
        squares = rows.multiply(rows) if is_sparse(rows) else np.square(rows)
        return rows @ self._transposed, squares @ self._column_weights


class GaussianColumns(DistanceColumns):
    """Values of the Gaussian kernel at landmarks, by one matrix product and one compiled pass."""

    def __init__(self, kernel: Any, landmarks: Floats, scaling: Scaling, dtype: Any) -> None:
        super().__init__(kernel, landmarks, scaling, dtype)
        self._log2_e = self._work_dtype.type(LOG2_E)
        self._transposed *= self._log2_e
        self._squares *= 0.5 * self._log2_e

    def write_block(self, block: Any, out: Array) -> None:
        products, squares = self._products(block)
        squares *= 0.5 * self._log2_e
        # In place, the compiled loop would be several times slower: it is vectorized for arrays that do not overlap.
        values = out if out.dtype == self._work_dtype else np.empty_like(products)
        exponential_rows(products, squares, self._squares, values)
        if values is not out:
            out[...] = values


class FunctionColumns(FeatureMap):
    """Values of any function of two sets of rows at landmarks, in float64.

    Parameters
    ----------
    function : FunctionKernel
        Returns the kernel matrix of two sets of rows. Rows of a `PrecomputedKernel` are its values at all training
        rows, of which the landmarks are the indices.
    landmarks : array-like of shape (n_landmarks, ...)
        The landmarks.
    """

    def __init__(self, function: Any, landmarks: Any) -> None:
        self.n_columns = landmarks.shape[0]
        self.dtype = np.dtype(np.float64)
        self.block_rows = max(16, BLOCK_BYTES // (8 * self.n_columns))
        self._function = function
        self._landmarks = landmarks

    @property
    def row_options(self) -> dict[str, Any]:
        if isinstance(self._function, PrecomputedKernel):
            return {"dtype": np.float64}
        return {"accept_sparse": "csr", "dtype": None, "ensure_2d": self._landmarks.ndim == 2}

    def write_block(self, block: Any, out: Array) -> None:
        is_precomputed = isinstance(self._function, PrecomputedKernel)
        out[...] = block[:, self._landmarks] if is_precomputed else self._function(block, self._landmarks)
