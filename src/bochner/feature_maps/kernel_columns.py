# SPDX-License-Identifier: BSD-3-Clause
"""Maps from rows to kernel values at landmarks: one column per landmark."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bochner.feature_maps.feature_map import FeatureMap, map_rows, multiply_rows
from bochner.feature_maps.fourier import check_resolution
from bochner.kernels import Gaussian, IsotropicKernel, Kernel
from bochner.rows import Array, Floats, Metric, is_sparse, row_spans, to_dense

__all__ = [
    "DistanceColumns",
    "FunctionColumns",
    "GaussianColumns",
    "KernelColumns",
    "MetricColumns",
    "kernel_columns",
    "kernel_function",
]

BLOCK_BYTES = 1 << 19  # the columns of a block stay in the second-level cache
LARGEST_FLOAT32_ERROR = 4e-4  # of kernel values of equal rows; beyond, squared distances are computed in float64
ROUNDING = 8.0  # of squared distances: multiples of the precision of the squared norms that they are differences of
# Sparse rows become dense blocks if their center is this many length scales from the origin, and if the inverse of a
# length scale overflows.
LARGEST_OFFSET, SMALLEST_LENGTH = 1e3, 1e-300


def kernel_columns(
    kernel: Any, landmarks: Any, length_scale: float | Floats | Metric | None = None, dtype: Any = np.float64
) -> FeatureMap:
    """Return the fastest map to the kernel values k((x - l) / length_scale).

    Parameters
    ----------
    kernel : Kernel or callable
        A kernel at unit length scale, or any function of two sets of rows.
    landmarks : array-like of shape (n_landmarks, n_features)
        The landmarks l.
    length_scale : float, ndarray of shape (n_features,) or Metric, default=None
        The length scale, or a map of the columns; None for a function of two sets of rows.
    dtype : dtype, default=float64
        The dtype of rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps import kernel_columns
    >>> from bochner.kernels import Gaussian
    >>> kernel_columns(Gaussian(), np.array([[0.0], [2.0]]), 2.0).features(np.array([[0.0]])).round(4)
    array([[1.    , 0.6065]])
    """
    if length_scale is None:
        return FunctionColumns(kernel, landmarks)
    if isinstance(length_scale, Metric):
        return MetricColumns(kernel, to_dense(landmarks), length_scale, np.dtype(dtype))
    kind = KernelColumns
    if isinstance(kernel, IsotropicKernel):
        kind = GaussianColumns if isinstance(kernel, Gaussian) else DistanceColumns
    return kind(kernel, to_dense(landmarks), length_scale, np.dtype(dtype))


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
            return map_rows(kernel_columns(kernel, Y, 1.0), X)
        return np.asarray(kernel(X, Y))

    return matrix


class KernelColumns(FeatureMap):
    """Kernel values at landmarks, through the kernel's own matrix of two sets of rows.

    Parameters
    ----------
    kernel : Kernel
        A kernel at unit length scale.
    landmarks : ndarray of shape (n_landmarks, n_features)
        The landmarks.
    length_scale : float or ndarray of shape (n_features,)
        The length scale.
    dtype : dtype
        The dtype of rows and columns.
    """

    def __init__(self, kernel: Any, landmarks: Floats, length_scale: float | Floats, dtype: Any) -> None:
        super().__init__()
        self.width = len(landmarks)
        self.dtype = dtype
        self.block_rows = max(16, BLOCK_BYTES // (dtype.itemsize * self.width))
        self.row_products = landmarks.size
        self._kernel = kernel
        self._length_scale = length_scale
        self._center = landmarks.mean(axis=0)
        self._landmarks: Any = (landmarks - self._center) / length_scale

    def check(self, X: Any) -> None:
        """Raise a ValueError for NaN, infinity, and values too large for the length scale and the dtype."""
        check_resolution(X, self._length_scale, "LandmarkFeatures")

    def write(self, X: Any, out: Array) -> None:
        for rows in row_spans(X.shape[0], self.block_rows):
            self._write_block(X[rows], out[rows])

    def _write_block(self, block: Any, out: Array) -> None:
        out[...] = self._kernel(self._scaled(block), self._landmarks)

    def _scaled(self, block: Any, dtype: Any = np.float64) -> Array:
        """Return dense rows relative to the center, as multiples of the length scale."""
        block = block.toarray() if is_sparse(block) else block
        scaled = self._buffer("scaled", block.shape[1], dtype=dtype)[: len(block)]
        np.subtract(block, self._center, out=scaled, casting="same_kind")
        # Length scales of float32 rows may exceed float32.
        precision = np.float64 if np.max(self._length_scale) >= np.finfo(scaled.dtype).max else scaled.dtype
        np.divide(scaled, self._length_scale, out=scaled, dtype=precision, casting="same_kind")
        return scaled

    def gradients(self, X: Any, coef: Floats) -> Floats:
        scaled = (to_dense(X).astype(np.float64) - self._center) / self._length_scale  # any number of rows
        values = np.empty((len(scaled), self.n_features_in, coef.shape[1]))
        for row, value in zip(scaled, values, strict=True):
            value[...] = self._kernel.gradient_at(row - self._landmarks).T @ coef
        return np.asarray(values / np.broadcast_to(self._length_scale, self.n_features_in)[:, None])

    @property
    def n_features_in(self) -> int:
        """Number of columns of the rows."""
        return len(self._center)


class DistanceColumns(KernelColumns):
    """Kernel values at landmarks, from squared distances by one matrix product."""

    def __init__(self, kernel: Any, landmarks: Floats, length_scale: float | Floats, dtype: Any) -> None:
        super().__init__(kernel, landmarks, length_scale, dtype)
        centered, plain = (
            float(np.square(rows).sum(axis=1).max()) for rows in (self._landmarks, landmarks / length_scale)
        )
        # Rows around the origin are not centered, which saves two passes over them.
        if np.ndim(length_scale) == 0 and plain <= 4.0 * centered and 1e-15 < float(length_scale) < 1e15:
            self._divisor: float | None = float(length_scale)
            self._center, self._landmarks = np.zeros_like(self._center), landmarks / length_scale
            centered = plain
        else:
            self._divisor = None
        # The squared distance of equal rows is a difference of numbers of this size; a kernel with a kink at zero, such
        # as the exponential one, turns its rounding error into the root of it.
        error = 1.0 - float(kernel.profile(np.array([4.0 * float(np.finfo(dtype).eps) * centered]))[0])
        self._work_dtype = np.dtype(np.float64) if error > LARGEST_FLOAT32_ERROR else dtype
        has_inverse = bool(np.min(length_scale) > SMALLEST_LENGTH)
        self._keeps_sparse = has_inverse and bool(np.linalg.norm(self._center / length_scale) <= LARGEST_OFFSET)
        self._squares = np.square(self._landmarks).sum(axis=1).astype(self._work_dtype)
        transposed = self._landmarks.T if self._divisor is None else self._landmarks.T / self._divisor
        self._transposed = np.ascontiguousarray(transposed, dtype=self._work_dtype)

    def _write_block(self, block: Any, out: Array) -> None:
        products, squares = self._products(block)
        sums = self._buffer("sums", self.width, dtype=self._work_dtype)[: len(products)]
        np.add(squares[:, None], self._squares, out=sums)
        products *= -2.0
        products += sums
        # Less than its rounding error is no distance: a row that equals a landmark has the kernel value 1.
        sums *= ROUNDING * np.finfo(self._work_dtype).eps
        products[products <= sums] = 0.0
        out[...] = self._kernel.profile(products)

    def _products(self, block: Any) -> tuple[Array, Array]:
        """Return inner products of scaled rows with the landmarks, and the squared norms of the rows."""
        products = self._buffer("products", self.width, dtype=self._work_dtype)[: block.shape[0]]
        if self._divisor is not None:
            block = block.astype(self._work_dtype, copy=False)
            if is_sparse(block):
                products[...] = block @ self._transposed
                squares = np.asarray(block.multiply(block).sum(axis=1)).ravel()
            else:
                multiply_rows(block, self._transposed, products)
                squares = np.einsum("ij,ij->i", block, block)
            return products, squares / self._work_dtype.type(self._divisor**2)
        if is_sparse(block) and self._keeps_sparse:
            # (x - c) . l = x . l - c . l, so that sparse rows stay sparse.
            rows = block.multiply(1.0 / np.asarray(self._length_scale)).tocsr()
            center = self._center / self._length_scale
            products[...] = rows @ self._transposed - center @ self._transposed
            squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel() - 2.0 * (rows @ center) + center @ center
            return products, squares.astype(self._work_dtype)
        scaled = self._scaled(block, self._work_dtype)
        multiply_rows(scaled, self._transposed, products)
        return products, np.einsum("ij,ij->i", scaled, scaled)


class GaussianColumns(DistanceColumns):
    """Values of the Gaussian kernel at landmarks, by one matrix product and one compiled pass."""

    def __init__(self, kernel: Any, landmarks: Floats, length_scale: float | Floats, dtype: Any) -> None:
        super().__init__(kernel, landmarks, length_scale, dtype)
        from bochner.feature_maps import exponential  # imports numba, which takes longer than all of bochner

        self._exponential_rows = exponential.exponential_rows
        self._log2_e = self._work_dtype.type(exponential.LOG2_E)
        self._transposed *= self._log2_e
        self._squares *= 0.5 * self._log2_e

    def _write_block(self, block: Any, out: Array) -> None:
        products, squares = self._products(block)
        squares *= 0.5 * self._log2_e
        values = out if out.dtype == self._work_dtype else products
        self._exponential_rows(products, squares, self._squares, values)
        if values is not out:
            out[...] = values


class MetricColumns(FeatureMap):
    """Kernel values at landmarks, of rows that a metric maps first.

    Parameters
    ----------
    kernel : Kernel
        A kernel at unit length scale.
    landmarks : ndarray of shape (n_landmarks, n_features)
        The landmarks.
    metric : Metric
        The map of the columns.
    dtype : dtype
        The dtype of rows and columns.
    """

    def __init__(self, kernel: Any, landmarks: Floats, metric: Metric, dtype: Any) -> None:
        super().__init__()
        self._metric = metric
        # Relative to the landmarks' mean, coordinates lose no digits to a common offset. Sparse rows have none.
        self._center = landmarks.mean(axis=0) if metric.diagonal is None else np.zeros(landmarks.shape[1])
        self._inner = kernel_columns(kernel, metric.map(landmarks - self._center), 1.0, dtype)
        self.width = self._inner.width
        self.dtype = dtype
        self.block_rows = self._inner.block_rows

    def check(self, X: Any) -> None:
        """Raise a ValueError for NaN, infinity, and values too large for the length scale and the dtype."""
        check_resolution(X, self._metric.length_scales, "LandmarkFeatures")

    def write(self, X: Any, out: Array) -> None:
        for rows in row_spans(X.shape[0], self.block_rows):
            self._inner.write(self._mapped(X[rows]).astype(self.dtype, copy=False), out[rows])

    def gradients(self, X: Any, coef: Floats) -> Floats:
        inner = self._inner.gradients(self._mapped(X), coef)
        return np.stack([self._metric.pull_back(inner[:, :, k]) for k in range(coef.shape[1])], axis=2)

    def _mapped(self, block: Any) -> Any:
        if self._metric.diagonal is not None:
            return self._metric.map(block.astype(np.float64))
        return self._metric.map(to_dense(block).astype(np.float64) - self._center)


class FunctionColumns(FeatureMap):
    """Values of any function of two sets of rows at landmarks, in float64.

    Parameters
    ----------
    function : callable
        Returns the kernel matrix of two sets of rows.
    landmarks : array-like of shape (n_landmarks, ...)
        The landmarks.
    """

    def __init__(self, function: Any, landmarks: Any) -> None:
        super().__init__()
        self.width = landmarks.shape[0]
        self.dtype = np.dtype(np.float64)
        self.block_rows = max(16, BLOCK_BYTES // (8 * self.width))
        self._function = function
        self._landmarks = landmarks

    def write(self, X: Any, out: Array) -> None:
        for rows in row_spans(X.shape[0], self.block_rows):
            out[rows] = self._function(X[rows], self._landmarks)
