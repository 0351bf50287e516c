# SPDX-License-Identifier: BSD-3-Clause
"""Metrics: linear maps of the columns, in which distances between rows are measured."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from bochner.rows.arrays import Floats, is_sparse
from bochner.rows.workers import serial_blas

__all__ = ["Metric"]


@dataclass(frozen=True, eq=False)
class Metric:
    r"""A linear map A of the columns: the distance of two rows is :math:`|A (x - y)|`.

    A metric takes the place of length scales, which are the diagonal map :math:`x_j / \ell_j`. Many columns need a map
    that is not as large as the square of their number: a diagonal one, and below it a few more directions.

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
    >>> metric.map(np.array([[1.0, 2.0]]))
    array([[2., 1., 3.]])
    """

    directions: Floats
    diagonal: Floats | None = None

    def __mul__(self, factor: float) -> "Metric":
        """Return the metric whose length scales are longer by a factor."""
        return Metric(self.directions / factor, None if self.diagonal is None else self.diagonal / factor)

    @property
    def n_features(self) -> int:
        """Number of columns that the map takes."""
        return int(self.directions.shape[1])

    @property
    def n_dimensions(self) -> int:
        """Number of coordinates that the map gives."""
        return int(self.directions.shape[0]) + (0 if self.diagonal is None else len(self.diagonal))

    @property
    def matrix(self) -> Any:
        """The map A: an ndarray, or a CSR matrix if it has a diagonal block."""
        if self.diagonal is None:
            return self.directions
        return sparse.vstack([sparse.diags_array(self.diagonal), sparse.csr_array(self.directions)], format="csr")

    @property
    def length_scales(self) -> Floats:
        """Distance of two values of a column that rows must have to be at distance 1; infinite where A is zero."""
        rows = self.directions if self.diagonal is None else np.vstack([self.diagonal, self.directions])
        largest = np.abs(rows).max(axis=0, initial=0.0)
        largest[largest == 0.0] = 1.0
        # Relative to the largest entry, squares neither overflow nor underflow.
        norms = largest * np.sqrt(np.square(rows / largest).sum(axis=0))
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(1.0 / norms)

    @serial_blas  # no bit depends on the number of threads
    def map(self, X: Any) -> Any:
        """Return the coordinates A x of rows.

        Parameters
        ----------
        X : {ndarray, CSR matrix} of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        {ndarray, CSR matrix} of shape (n_rows, n_dimensions)
            Coordinates; sparse if the rows are and the map has a diagonal block.
        """
        along = X @ self.directions.T
        if self.diagonal is None:
            return along
        if is_sparse(X):
            return sparse.hstack([X.multiply(self.diagonal), sparse.csr_array(along)], format="csr")
        return np.hstack([X * self.diagonal, along])

    @serial_blas  # no bit depends on the number of threads
    def rows_at(self, coordinates: Floats) -> Floats:
        """Return rows with the given coordinates, by least squares; if there are several, the shortest ones.

        Their length is measured in multiples of the length scales.

        Parameters
        ----------
        coordinates : ndarray of shape (n_rows, n_dimensions)
            Coordinates.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            The rows.
        """
        if self.diagonal is None:
            # Columns of equal norm: one in small units is as well determined as the others.
            units = self.length_scales
            units = np.where(np.isfinite(units), units, 0.0)
            multiples = linalg.lstsq(self.directions * units, coordinates.T, check_finite=False)[0]
            return np.asarray(multiples.T * units)
        # (D^2 + V'V) x = D u + V'v by the Woodbury identity, in the columns D x.
        scaled = self.directions / self.diagonal
        along = coordinates[:, : self.n_features] + coordinates[:, self.n_features :] @ scaled
        inner = np.eye(len(scaled)) + scaled @ scaled.T
        correction = linalg.solve(inner, scaled @ along.T, assume_a="pos", check_finite=False)
        return np.asarray((along - correction.T @ scaled) / self.diagonal)

    @serial_blas  # no bit depends on the number of threads
    def pull_back(self, frequencies: Floats) -> Floats:
        """Return frequencies of rows that have the phases of given frequencies of their coordinates.

        Parameters
        ----------
        frequencies : ndarray of shape (n_frequencies, n_dimensions)
            Frequencies w of the coordinates A x.

        Returns
        -------
        ndarray of shape (n_frequencies, n_features)
            Frequencies A'w of the rows x.
        """
        if self.diagonal is None:
            return frequencies @ self.directions
        n_features = self.n_features
        return frequencies[:, :n_features] * self.diagonal + frequencies[:, n_features:] @ self.directions
