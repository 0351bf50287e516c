# SPDX-License-Identifier: BSD-3-Clause
r"""Reduction of a symmetric matrix to a band by matrix products, after which every shift of it is cheap to solve.

:math:`A = Q B Q^T` with B block tridiagonal. Unlike the reduction to tridiagonal form of LAPACK, half of which reads
the whole matrix for every column, all of it is matrix products, and NumPy releases the GIL in them.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bochner.rows import Floats, in_threads, row_spans

__all__ = ["BandForm"]

BLOCK = 32  # width of the band: wide enough for fast products, narrow enough for cheap solutions
SHIFTS = 5  # that a thread solves for at a time
ROWS = 64  # that a thread rotates at a time
TILE = 128  # the lower half of the matrix is updated in tiles of this width


class _Reflectors(NamedTuple):
    """A product of Householder reflections :math:`I - V T V^T` that leaves the first `start` coordinates unchanged."""

    start: int
    vectors: Floats
    triangle: Floats


@dataclass(frozen=True)
class BandForm:
    r"""A symmetric matrix as :math:`Q B Q^T`, B block tridiagonal.

    Vectors are rows: `rotate` computes :math:`x Q` and `unrotate` :math:`x Q^T`.

    Attributes
    ----------
    diagonal : list of ndarray of shape (block, block)
        Diagonal blocks of B; the last one may be smaller.
    below : list of ndarray
        Blocks below the diagonal.
    reflectors : list of _Reflectors
        Factors of Q.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.band_form import BandForm
    >>> matrix = np.diag(np.arange(1.0, 101.0))
    >>> solution = BandForm.from_matrix(matrix).solve(np.ones((1, 100)), np.array([2.0]))
    >>> bool(np.allclose(solution, 1.0 / np.arange(3.0, 103.0)))
    True
    """

    diagonal: list[Floats]
    below: list[Floats]
    reflectors: list[_Reflectors]

    @classmethod
    def from_matrix(cls, matrix: Floats) -> "BandForm":
        """Reduce a symmetric matrix, which is copied.

        Parameters
        ----------
        matrix : ndarray of shape (size, size)
            The matrix; only its lower half is read.
        """
        work, reflectors, below = matrix.copy(), [], []
        starts = range(0, len(matrix), BLOCK)
        for start in starts[:-1]:
            rest = start + BLOCK
            reflector, corner = _reflect_panel(work[rest:, start:rest], rest)
            _update(work, reflector)
            reflectors.append(reflector)
            below.append(corner)
        blocks = [work[start : start + BLOCK, start : start + BLOCK] for start in starts]
        diagonal = [np.tril(block) + np.tril(block, -1).T for block in blocks]
        return cls(diagonal, below, reflectors)

    def rotate(self, rows: Floats) -> Floats:
        """Return rows of shape (..., size) times Q, computed in threads."""
        return _reflect(rows, self.reflectors)

    def unrotate(self, rows: Floats) -> Floats:
        """Return rows of shape (..., size) times the transpose of Q, computed in threads."""
        return _reflect(
            rows, [reflector._replace(triangle=reflector.triangle.T) for reflector in self.reflectors[::-1]]
        )

    def solve(self, right: Floats, shifts: Floats) -> Floats:
        r"""Solve :math:`(A + \lambda) x = b` for each of the shifts, which make the matrix positive definite.

        Parameters
        ----------
        right : ndarray of shape (n_rows, size)
            Right-hand sides, as rows.
        shifts : ndarray of shape (n_shifts,)
            The shifts.

        Returns
        -------
        ndarray of shape (n_shifts, n_rows, size)
            Solutions.
        """
        rotated = self.rotate(right)
        parts = in_threads(lambda some: self._solve_band(rotated, shifts[some]), row_spans(len(shifts), SHIFTS))
        return self.unrotate(np.concatenate(list(parts)))

    def _solve_band(self, rotated: Floats, shifts: Floats) -> Floats:
        """Solve with B plus shifts, by block elimination forwards and backwards."""
        found: list[Floats] = []
        inverses: list[Floats] = []
        edges = np.cumsum([0, *map(len, self.diagonal)])
        for number, block in enumerate(self.diagonal):
            pivots = block + shifts[:, None, None] * np.eye(len(block))
            changed = rotated[:, edges[number] : edges[number + 1]]
            if number:
                corner = self.below[number - 1]
                pivots -= corner @ inverses[-1] @ corner.T
                changed = changed - found[-1] @ corner.T
            inverses.append(np.asarray(np.linalg.inv(pivots), dtype=np.float64))
            found.append(changed @ inverses[-1])
        for number in range(len(found) - 2, -1, -1):
            found[number] -= found[number + 1] @ self.below[number] @ inverses[number]
        return np.concatenate(found, axis=2)


def _reflect(rows: Floats, reflectors: list[_Reflectors]) -> Floats:
    """Multiply rows by reflections, in threads."""
    rotated = rows.reshape(-1, rows.shape[-1]).copy()

    def apply(some: slice) -> None:
        for start, vectors, triangle in reflectors:
            tail = rotated[some, start:]
            tail -= ((tail @ vectors) @ triangle) @ vectors.T

    list(in_threads(apply, row_spans(len(rotated), ROWS)))
    return rotated.reshape(rows.shape)


def _reflect_panel(panel: Floats, start: int) -> tuple[_Reflectors, Floats]:
    r"""Return the reflections that make a panel upper triangular, and its triangle.

    The product of reflections :math:`I - \tau_i v_i v_i^T` is :math:`I - V T V^T`, where the inverse of T is the upper
    triangle of :math:`V^T V` with :math:`1 / \tau_i` on the diagonal.
    """
    packed, tau = np.linalg.qr(panel, mode="raw")
    packed, n_vectors = packed.T, len(tau)
    trivial = tau == 0.0  # a reflection by nothing
    vectors = np.tril(packed[:, :n_vectors], -1)
    vectors[np.diag_indices(n_vectors)] = 1.0
    vectors[:, trivial] = 0.0
    inverse = np.triu(vectors.T @ vectors, 1) + np.diag(1.0 / np.where(trivial, 1.0, tau))
    return _Reflectors(start, vectors, np.linalg.inv(inverse)), np.triu(packed[:n_vectors])


def _update(work: Floats, reflector: _Reflectors) -> None:
    r"""Apply reflections to both sides of the rest of a matrix, in tiles of its lower half.

    :math:`Q^T C Q = C - V Y^T - Y V^T` with :math:`X = C V T` and :math:`Y = X - V T^T V^T X / 2`.
    """
    start, vectors, triangle = reflector
    # Tiles are aligned with the whole matrix: what is above them is never updated.
    tiles = list(pairwise([start, *range((start // TILE + 1) * TILE, len(work), TILE), len(work)]))

    def products(tile: tuple[int, int]) -> tuple[Floats, Floats]:
        first, last = tile
        own = vectors[first - start : last - start]
        return work[first:last, start:last] @ vectors[: last - start], work[first:last, start:first].T @ own

    product = np.zeros_like(vectors)
    tiles.reverse()  # the longest strips first, so that threads end together
    for (first, last), (below, above) in zip(tiles, in_threads(products, tiles), strict=True):
        product[first - start : last - start] += below
        product[: first - start] += above
    product = product @ triangle
    product -= 0.5 * (vectors @ (triangle.T @ (vectors.T @ product)))
    left, right = np.hstack([vectors, product]), np.hstack([product, vectors])

    def subtract(tile: tuple[int, int]) -> None:
        first, last = tile
        work[first:last, start:last] -= left[first - start : last - start] @ right[: last - start].T

    list(in_threads(subtract, tiles))
