# SPDX-License-Identifier: BSD-3-Clause
r"""Scalings: linear maps A of the rows, which come before everything else.

A kernel with length scales, or with a learned metric, is :math:`k(A (x - y))`: the plain kernel on the rows A x.
Samplers, weightings, landmark selections and kernels only see the mapped rows. Their results are then taken back to
the rows x: frequencies by `fold`, landmarks by `invert`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import linalg, sparse

from bochner.rows.arrays import Floats, is_sparse
from bochner.rows.sources import check_finite, max_abs, norm

__all__ = ["LengthScales", "Metric", "Scaling", "Unscaled", "make_scaling"]

SMALLEST_LENGTH = 1e-300  # the inverse of a smaller one overflows


class Scaling(ABC):
    """A linear map A of the rows.

    Attributes
    ----------
    length_scales : float, ndarray of shape (n_features,) or None
        The change of one column alone that moves a row by a distance of 1; None where rows are not scaled.
    value : object
        The value of the parameter `length_scale` that stands for this map.
    is_uniform : bool
        Whether all columns are divided by the same number, which keeps the order of `distinct_rows`.
    keeps_sparse : bool
        Whether sparse rows stay sparse.
    row_products : int
        Multiplications per row of a matrix product.
    """

    length_scales: Any

    @property
    def value(self) -> Any:
        return self

    @property
    def is_uniform(self) -> bool:
        return np.ndim(self.length_scales) == 0

    @property
    def keeps_sparse(self) -> bool:
        return bool(np.min(self.length_scales) > SMALLEST_LENGTH)

    @property
    def row_products(self) -> int:
        return 0

    @abstractmethod
    def apply(self, X: Any) -> Any:
        """Return the rows A x in float64, dense or CSR."""

    @abstractmethod
    def fold(self, frequencies: Any) -> Any:
        """Return the frequencies A'w of the rows x, which have the phases of frequencies w of the rows A x."""

    @abstractmethod
    def invert(self, points: Any, dtype: Any) -> Any:
        """Return rows x with A x closest to the given points, in a dtype; if there are several, the shortest ones."""

    @abstractmethod
    def __mul__(self, factor: float) -> "Scaling":
        """Return the map with length scales that are longer by a factor."""

    def n_dimensions(self, n_features: int) -> int:
        """Return the number of columns of the rows A x."""
        return n_features

    def check(self, X: Any, estimator_name: str) -> None:
        """Refuse NaN, infinity, and values so large that rounding moves a row by a noticeable part of a length scale.

        Parameters
        ----------
        X : {ndarray, CSR matrix, RowSource} of shape (n_samples, n_features)
            Rows.
        estimator_name : str
            The estimator that an error message about missing values names.
        """
        limit = 0.01 / float(np.finfo(X.dtype).eps)
        bound = limit * float(np.min(self.length_scales))
        # No entry is larger than the norm, which takes one pass; squares below 1e-20 may underflow.
        if not X.shape[0] or (bound > 1e-10 and norm(X) <= bound):
            return
        check_finite(X, estimator_name)
        magnitudes = max_abs(X)
        with np.errstate(over="ignore"):
            multiples = magnitudes / self.length_scales
        column, reach = int(multiples.argmax()), float(multiples.max())
        if reach > limit:
            raise ValueError(
                f"X contains values up to {magnitudes[column]:.3g} in column {column}, which is {reach:.2g} times the "
                f"length scale; beyond {limit:.2g} {X.dtype} cannot resolve the distances between rows. Center or "
                f"rescale the columns of X, remove outlying values, or give a larger `length_scale`."
            )


class Unscaled(Scaling):
    """The rows as they are, of any kind, for functions of two sets of rows and precomputed kernels."""

    length_scales = None

    @property
    def value(self) -> None:
        return None

    def apply(self, X: Any) -> Any:
        return X

    def fold(self, frequencies: Any) -> Any:
        return frequencies

    def invert(self, points: Any, dtype: Any) -> Any:
        return points

    def __mul__(self, factor: float) -> "Unscaled":
        return self

    def check(self, X: Any, estimator_name: str) -> None:
        """Accept any rows."""


@dataclass(frozen=True, eq=False)
class LengthScales(Scaling):
    r"""The diagonal map :math:`x_j / \ell_j`.

    Parameters
    ----------
    length_scales : float or ndarray of shape (n_features,)
        One positive length scale for all columns, or one per column.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows import LengthScales
    >>> LengthScales(np.array([2.0, 4.0])).apply(np.array([[1.0, 1.0]]))
    array([[0.5 , 0.25]])
    """

    length_scales: float | Floats

    @property
    def value(self) -> float | Floats:
        return self.length_scales

    def apply(self, X: Any) -> Any:
        if is_sparse(X):
            return _short_indices(sparse.csr_array(X.astype(np.float64).multiply(1.0 / np.asarray(self.length_scales))))
        rows = X.astype(np.float64)
        return np.divide(rows, self.length_scales, out=rows)

    def fold(self, frequencies: Any) -> Any:
        return frequencies / self.length_scales  # structured frequencies keep their structure

    def invert(self, points: Any, dtype: Any) -> Any:
        return (points * self.length_scales).astype(dtype)

    def __mul__(self, factor: float) -> "LengthScales":
        return LengthScales(self.length_scales * factor)


@dataclass(frozen=True, eq=False)
class Metric(Scaling):
    r"""A linear map A of the columns: the distance of two rows is :math:`|A (x - y)|`.

    Many columns need a map that is not as large as the square of their number: a diagonal one, and below it a few more
    directions.

    Parameters
    ----------
    directions : ndarray of shape (n_directions, n_features)
        Rows of A.
    diagonal : ndarray of shape (n_features,), default=None
        Diagonal of the block above the directions, with positive entries; None means that A is `directions` alone.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows import Metric
    >>> metric = Metric(np.array([[1.0, 1.0]]), diagonal=np.array([2.0, 0.5]))
    >>> metric.apply(np.array([[1.0, 2.0]]))
    array([[2., 1., 3.]])
    """

    directions: Floats
    diagonal: Floats | None = None

    @property
    def keeps_sparse(self) -> bool:
        return self.diagonal is not None

    @property
    def row_products(self) -> int:
        return int(self.directions.size)

    @property
    def matrix(self) -> Any:
        """The map A: an ndarray, or a CSR matrix if it has a diagonal block."""
        if self.diagonal is None:
            return self.directions
        return sparse.vstack([sparse.diags_array(self.diagonal), sparse.csr_array(self.directions)], format="csr")

    @property
    def length_scales(self) -> Floats:
        """The change of one column alone that moves a row by a distance of 1; infinite where A is zero."""
        rows = self.directions if self.diagonal is None else np.vstack([self.diagonal, self.directions])
        largest = np.abs(rows).max(axis=0, initial=0.0)
        largest[largest == 0.0] = 1.0
        # Relative to the largest entry, squares neither overflow nor underflow.
        norms = largest * np.sqrt(np.square(rows / largest).sum(axis=0))
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(1.0 / norms)

    def apply(self, X: Any) -> Any:
        X = X.astype(np.float64, copy=False)
        along = X @ self.directions.T
        if self.diagonal is None:
            return along
        if is_sparse(X):
            return _short_indices(sparse.hstack([X.multiply(self.diagonal), sparse.csr_array(along)], format="csr"))
        return np.hstack([X * self.diagonal, along])

    def fold(self, frequencies: Any) -> Floats:
        frequencies = np.asarray(frequencies)
        if self.diagonal is None:
            return np.asarray(frequencies @ self.directions)
        n_features = len(self.diagonal)
        return np.asarray(frequencies[:, :n_features] * self.diagonal + frequencies[:, n_features:] @ self.directions)

    def invert(self, points: Any, dtype: Any) -> Any:
        if self.diagonal is None:
            # Columns of equal norm: one in small units is as well determined as the others.
            units = self.length_scales
            units = np.where(np.isfinite(units), units, 0.0)
            multiples = linalg.lstsq(self.directions * units, points.T, check_finite=False)[0]
            return (multiples.T * units).astype(dtype)
        # (D^2 + V'V) x = D u + V'v by the Woodbury identity, in the columns D x.
        scaled, n_features = self.directions / self.diagonal, len(self.diagonal)
        along = points[:, :n_features] + points[:, n_features:] @ scaled
        inner = np.eye(len(scaled)) + scaled @ scaled.T
        correction = linalg.solve(inner, scaled @ along.T, assume_a="pos", check_finite=False)
        return ((along - correction.T @ scaled) / self.diagonal).astype(dtype)

    def __mul__(self, factor: float) -> "Metric":
        return Metric(self.directions / factor, None if self.diagonal is None else self.diagonal / factor)

    def n_dimensions(self, n_features: int) -> int:
        return len(self.directions) + (0 if self.diagonal is None else n_features)


def _short_indices(X: Any) -> Any:
    """Return a CSR matrix with 32-bit indices, the only ones that scikit-learn's distances accept."""
    X.indices, X.indptr = sparse.safely_cast_index_arrays(X, np.int32)
    return X


def make_scaling(given: Any, n_features: int) -> Scaling:
    """Return the map that a value of the parameter `length_scale` stands for, checked.

    Parameters
    ----------
    given : float, array-like of shape (n_features,), Metric or LengthScales
        One positive number, one per column, or a map of the columns.
    n_features : int
        Number of columns of the rows.
    """
    if isinstance(given, Real):
        return LengthScales(float(given))
    if isinstance(given, Metric):
        return _checked_metric(given, n_features)
    try:
        scales = np.asarray(given.length_scales if isinstance(given, LengthScales) else given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"`length_scale` must contain numbers only. Got {given!r} instead.") from None
    if scales.shape != (n_features,):
        raise ValueError(
            f"`length_scale` has shape {scales.shape} and X has {n_features} columns; give one number, one number per "
            f"column, 'median', 'scale', 'learn' or 'learn-matrix'."
        )
    if not np.isfinite(scales).all() or scales.min() <= 0.0:
        raise ValueError(f"`length_scale` must contain positive numbers only. Got {scales.tolist()} instead.")
    return LengthScales(scales)


def _checked_metric(metric: Metric, n_features: int) -> Metric:
    """Return a metric of that many columns, with finite entries of which some are not zero."""
    directions, diagonal = metric.directions, metric.diagonal
    if np.ndim(directions) == 2 and np.shape(directions)[1] != n_features:
        raise ValueError(
            f"`length_scale` is a metric of {np.shape(directions)[1]} columns and X has {n_features} columns; give a "
            f"metric of X."
        )
    is_valid = (
        isinstance(directions, np.ndarray)  # type: ignore[redundant-expr]  # users write components without types
        and directions.ndim == 2
        and bool(np.isfinite(directions).all())
    )
    if diagonal is None:
        is_valid = is_valid and bool(directions.any())
    else:
        is_positive = np.shape(diagonal) == (n_features,) and 0.0 < np.min(diagonal) <= np.max(diagonal) < np.inf
        is_valid = is_valid and bool(is_positive)
    if not is_valid:
        raise ValueError(
            f"`length_scale` must be a metric with an array of finite `directions`, not all zero, or with one positive "
            f"number per column as `diagonal`. Got {metric!r} instead."
        )
    return metric
