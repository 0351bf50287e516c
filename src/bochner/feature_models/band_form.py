# SPDX-License-Identifier: BSD-3-Clause
r"""Solutions with a symmetric matrix plus each of many shifts, by a reduction of the matrix to a band.

:math:`A = Q B Q^T` with B block tridiagonal, and every shift of B is cheap to solve with. Unlike the reduction to
tridiagonal form of LAPACK, half of which reads the whole matrix for every column, all of it is matrix products.
"""

import numpy as np

from bochner.rows import Floats

__all__ = ["solve_shifted"]

BLOCK = 32  # width of the band: wide enough for fast products, narrow enough for cheap solutions
STRIP = 256  # the lower half of the matrix is updated in strips of as many rows


def solve_shifted(matrix: Floats, right: Floats, shifts: Floats) -> Floats:
    r"""Solve :math:`(A + \lambda) x = b` for each of the shifts, which make the matrix positive definite.

    Parameters
    ----------
    matrix : ndarray of shape (size, size)
        The symmetric matrix A.
    right : ndarray of shape (n_rows, size)
        Right-hand sides, as rows.
    shifts : ndarray of shape (n_shifts,)
        The shifts.

    Returns
    -------
    ndarray of shape (n_shifts, n_rows, size)
        Solutions.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.band_form import solve_shifted
    >>> solution = solve_shifted(np.diag(np.arange(1.0, 101.0)), np.ones((1, 100)), np.array([2.0]))
    >>> bool(np.allclose(solution, 1.0 / np.arange(3.0, 103.0)))
    True
    """
    work, rotated, below, reflectors = matrix.copy(), right.copy(), [], []
    starts = range(0, len(matrix), BLOCK)
    for start in starts[:-1]:
        rest = start + BLOCK
        vectors, triangle, corner = _reflect_panel(work[rest:, start:rest])
        _reflect_both_sides(work[rest:, rest:], vectors, triangle)
        _reflect(rotated[:, rest:], vectors, triangle)
        below.append(corner)
        reflectors.append((rest, vectors, triangle))
    blocks = [work[start : start + BLOCK, start : start + BLOCK] for start in starts]
    diagonal = [np.tril(block) + np.tril(block, -1).T for block in blocks]
    solutions = _solve_band(diagonal, below, rotated, shifts)
    flat = solutions.reshape(-1, len(matrix))
    for start, vectors, triangle in reversed(reflectors):
        _reflect(flat[:, start:], vectors, triangle.T)
    return solutions


def _reflect_panel(panel: Floats) -> tuple[Floats, Floats, Floats]:
    r"""Return V and T of the reflections :math:`I - V T V^T` that make a panel upper triangular, and its triangle.

    They are a product of Householder reflections :math:`I - \tau_i v_i v_i^T`; the inverse of T is the upper triangle
    of :math:`V^T V` with :math:`1 / \tau_i` on the diagonal.
    """
    packed, tau = np.linalg.qr(panel, mode="raw")
    packed, n_vectors = packed.T, len(tau)
    trivial = tau == 0.0  # a reflection by nothing
    vectors = np.tril(packed[:, :n_vectors], -1)
    vectors[np.diag_indices(n_vectors)] = 1.0
    vectors[:, trivial] = 0.0
    inverse = np.triu(vectors.T @ vectors, 1) + np.diag(1.0 / np.where(trivial, 1.0, tau))
    return vectors, np.linalg.inv(inverse), np.triu(packed[:n_vectors])


def _reflect(rows: Floats, vectors: Floats, triangle: Floats) -> None:
    """Multiply rows by reflections."""
    rows -= ((rows @ vectors) @ triangle) @ vectors.T


def _reflect_both_sides(matrix: Floats, vectors: Floats, triangle: Floats) -> None:
    r"""Apply reflections to both sides of a matrix, of which the lower half is stored.

    :math:`Q^T C Q = C - V Y^T - Y V^T` with :math:`X = C V T` and :math:`Y = X - V T^T V^T X / 2`.
    """
    # Strips begin at the same rows of the whole matrix in every call: what is above them is never updated.
    strips = [slice(max(0, stop - STRIP), stop) for stop in range(len(matrix), 0, -STRIP)]
    product = np.zeros_like(vectors)
    for rows in strips:
        product[rows] += matrix[rows, : rows.stop] @ vectors[: rows.stop]
        product[: rows.start] += matrix[rows, : rows.start].T @ vectors[rows]
    product = product @ triangle
    product -= 0.5 * (vectors @ (triangle.T @ (vectors.T @ product)))
    left, right = np.hstack([vectors, product]), np.hstack([product, vectors])
    for rows in strips:
        matrix[rows, : rows.stop] -= left[rows] @ right[: rows.stop].T


def _solve_band(diagonal: list[Floats], below: list[Floats], right: Floats, shifts: Floats) -> Floats:
    """Solve with a block tridiagonal matrix plus shifts, by block elimination forwards and backwards."""
    found: list[Floats] = []
    inverses: list[Floats] = []
    edges = np.cumsum([0, *map(len, diagonal)])
    for number, block in enumerate(diagonal):
        pivots = block + shifts[:, None, None] * np.eye(len(block))
        changed = right[:, edges[number] : edges[number + 1]]
        if number:
            corner = below[number - 1]
            pivots -= corner @ inverses[-1] @ corner.T
            changed = changed - found[-1] @ corner.T
        inverses.append(np.asarray(np.linalg.inv(pivots), dtype=np.float64))
        found.append(changed @ inverses[-1])
    for number in range(len(found) - 2, -1, -1):
        found[number] -= found[number + 1] @ below[number] @ inverses[number]
    return np.concatenate(found, axis=2)
