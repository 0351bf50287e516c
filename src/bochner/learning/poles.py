# SPDX-License-Identifier: BSD-3-Clause
"""Approximate inverses of a Gram matrix plus any penalty, from Cholesky factors at a few penalties."""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bochner.rows import Array, Floats, Indices, cholesky, in_threads, row_spans, serial_blas, solve_rows

__all__ = ["Poles"]

DECADES = 2.2  # largest distance of two poles
PRECISION = 1e-6  # of the largest eigenvalue: down to here float32 is enough for an approximate inverse
RAISE = 10.0  # factor of a pole at which the matrix has no Cholesky factor
SOLVED_ROWS = 64  # rows that a thread solves for at a time


@dataclass(frozen=True)
class Poles:
    r"""Approximations of :math:`(G + \lambda)^{-1}` that are good enough to precondition iterations.

    Every penalty has the Cholesky factor of the nearest pole, in float32 where that is enough. Penalties above all
    eigenvalues of G need none.

    Attributes
    ----------
    penalties : ndarray of shape (n_penalties,)
        The penalties in ascending order.
    factors : list of ndarray of shape (width, width)
        Cholesky factors.
    owners : ndarray of shape (n_penalties,)
        The number of the factor of each penalty; `len(factors)` for none.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.learning.poles import Poles
    >>> poles = Poles.of(np.diag([1.0, 3.0]), np.array([1.0]))
    >>> poles.divide(np.array([[[2.0, 4.0]]])).round(2)
    array([[[1., 1.]]])
    """

    penalties: Floats
    factors: list[Array]
    owners: Indices

    @classmethod
    def of(cls, gram: Floats, penalties: Floats) -> "Poles":
        """Factor a matrix at geometrically spaced poles between the smallest penalty and its largest eigenvalues.

        Parameters
        ----------
        gram : ndarray of shape (width, width)
            A positive semidefinite matrix; only its lower half is read.
        penalties : ndarray of shape (n_penalties,)
            Positive penalties in ascending order.
        """
        # The mean of the eigenvalues, weighted by themselves.
        squares, trace = float(serial_blas(np.vdot)(gram, gram)), float(np.trace(gram))
        largest = max(squares / max(trace, np.finfo(float).tiny), float(penalties[0]))
        n_poles = max(1, int(np.ceil(np.log10(largest / penalties[0]) / DECADES)))
        step = (largest / penalties[0]) ** (1.0 / n_poles)
        shifts = penalties[0] * step ** (np.arange(n_poles) + 0.5)
        coarse = gram.astype(np.float32)
        factors = [_factor(coarse if shift > PRECISION * largest else gram, gram, float(shift)) for shift in shifts]
        distances = np.abs(np.log(penalties[:, None]) - np.log(np.append(shifts, largest * np.sqrt(step))))
        return cls(penalties, factors, distances.argmin(axis=1))

    def divide(self, rows: Floats) -> Floats:
        """Divide rows by the matrix plus the penalty of each, approximately.

        Parameters
        ----------
        rows : ndarray of shape (n_penalties, n_rows, width)
            The rows; those that are zero are not computed.

        Returns
        -------
        ndarray of the same shape
            The approximate solutions.
        """
        quotients = rows / self.penalties[:, None, None]
        tasks = []
        for number in range(len(self.factors)):
            penalty, row = np.nonzero((self.owners == number)[:, None] & rows.any(axis=2))
            tasks += [(number, penalty[part], row[part]) for part in row_spans(len(row), SOLVED_ROWS)]

        def solve(task: tuple[int, Indices, Indices]) -> Array:
            number, penalty, row = task
            solution: Array = rows[penalty, row].astype(self.factors[number].dtype)
            solve_rows(self.factors[number], solution)
            return solution

        for (_, penalty, row), solution in zip(tasks, in_threads(solve, tasks), strict=True):
            quotients[penalty, row] = solution
        return quotients


def _factor(matrix: Array, gram: Floats, shift: float) -> Array:
    """Return the Cholesky factor of a Gram matrix with a shift, which is raised until there is one.

    `matrix` is the Gram matrix in the dtype of the factor; its diagonal is set and restored.
    """
    diagonal = np.diag(gram).copy()
    while True:
        np.fill_diagonal(matrix, diagonal + shift)
        try:
            return cholesky(matrix)
        except linalg.LinAlgError:
            if not np.isfinite(shift):
                raise
            shift *= RAISE
        finally:
            np.fill_diagonal(matrix, diagonal)
