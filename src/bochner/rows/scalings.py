# SPDX-License-Identifier: BSD-3-Clause
r"""Scalings: linear maps A of the rows, which come before everything else.

A kernel with length scales, or with a learned metric, is :math:`k(A (x - y))`: the plain kernel on the rows A x.
Samplers, weightings, landmark selections and kernels only see the mapped rows. Their results are then taken back to
the rows x: frequencies by `fold`, landmarks by `invert`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.utils import assert_all_finite

from bochner.rows.arrays import Floats, is_sparse, max_abs, norm


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
    """

    length_scales: Any

    @property
    def value(self) -> Any:
        return self.length_scales

    @property
    def is_uniform(self) -> bool:
        return np.ndim(self.length_scales) == 0

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
        X : {ndarray, CSR matrix} of shape (n_samples, n_features)
            Rows.
        estimator_name : str
            The estimator that an error message about missing values names.
        """
        limit = 0.01 / float(np.finfo(X.dtype).eps)
        bound = limit * float(np.min(self.length_scales))
        # No entry is larger than the norm, which takes one pass; squares below 1e-20 may underflow.
        if not X.shape[0] or (bound > 1e-10 and norm(X) <= bound):
            return
        assert_all_finite(X, estimator_name=estimator_name, input_name="X")
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

    def apply(self, X: Any) -> Any:
        if not is_sparse(X):
            rows = X.astype(np.float64)
            return np.divide(rows, self.length_scales, out=rows)
        rows = sparse.csr_array(X, dtype=np.float64, copy=True)
        rows.data /= self.length_scales if self.is_uniform else np.asarray(self.length_scales)[rows.indices]
        # Distances of scikit-learn accept 32-bit indices only.
        rows.indices, rows.indptr = sparse.safely_cast_index_arrays(rows, np.int32)
        return rows

    def fold(self, frequencies: Any) -> Any:
        return frequencies / self.length_scales  # structured frequencies keep their structure

    def invert(self, points: Any, dtype: Any) -> Any:
        return (points * self.length_scales).astype(dtype)

    def __mul__(self, factor: float) -> "LengthScales":
        return LengthScales(self.length_scales * factor)


@dataclass(frozen=True, eq=False)
class Metric(Scaling):
    r"""A linear map A of the columns: the distance of two rows is :math:`|A (x - y)|`.

    Parameters
    ----------
    directions : ndarray of shape (n_directions, n_features)
        Rows of A.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows import Metric
    >>> Metric(np.array([[1.0, 1.0], [2.0, 0.0]])).apply(np.array([[1.0, 2.0]]))
    array([[3., 2.]])
    """

    directions: Floats

    @property
    def value(self) -> "Metric":
        return self

    @property
    def length_scales(self) -> Floats:
        """The change of one column alone that moves a row by a distance of 1; infinite where A is zero."""
        largest = np.abs(self.directions).max(axis=0, initial=0.0)
        largest[largest == 0.0] = 1.0
        # Relative to the largest entry, squares neither overflow nor underflow.
        norms = largest * np.sqrt(np.square(self.directions / largest).sum(axis=0))
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(1.0 / norms)

    def apply(self, X: Any) -> Any:
        return X.astype(np.float64, copy=False) @ self.directions.T

    def fold(self, frequencies: Any) -> Floats:
        return np.asarray(np.asarray(frequencies) @ self.directions)

    def invert(self, points: Any, dtype: Any) -> Any:
        # Columns of equal norm: one in small units is as well determined as the others.
        units = self.length_scales
        units = np.where(np.isfinite(units), units, 0.0)
        multiples = linalg.lstsq(self.directions * units, points.T, check_finite=False)[0]
        return (multiples.T * units).astype(dtype)

    def __mul__(self, factor: float) -> "Metric":
        return Metric(self.directions / factor)

    def n_dimensions(self, n_features: int) -> int:
        return len(self.directions)


def make_scaling(given: Any, n_features: int) -> Scaling:
    """Return the map that a value of the parameter `length_scale` stands for, checked.

    Parameters
    ----------
    given : float, array-like of shape (n_features,), Metric or LengthScales
        One positive number, one per column, or a map of the columns.
    n_features : int
        Number of columns of the rows.
    """
    if isinstance(given, Metric):
        directions = np.asarray(given.directions, dtype=np.float64)
        if directions.ndim != 2 or directions.shape[1] != n_features:
            raise ValueError(
                f"`length_scale` is a metric of shape {directions.shape} and X has {n_features} columns; give a metric "
                f"with one row per direction and one column per column of X."
            )
        if not np.isfinite(directions).all() or not directions.any():
            raise ValueError(f"`length_scale` must be a metric of finite numbers, not all zero. Got {given!r} instead.")
        return Metric(directions)
    try:
        scales = np.asarray(given.length_scales if isinstance(given, LengthScales) else given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"`length_scale` must contain numbers only. Got {given!r} instead.") from None
    if scales.shape not in ((), (n_features,)):
        raise ValueError(
            f"`length_scale` has shape {scales.shape} and X has {n_features} columns; give one number, one number per "
            f"column, 'median', 'scale', 'learn' or 'learn-matrix'."
        )
    if not np.isfinite(scales).all() or scales.min() <= 0.0:
        raise ValueError(f"`length_scale` must contain positive, finite numbers only. Got {scales.tolist()} instead.")
    return LengthScales(scales if scales.ndim else float(scales))
