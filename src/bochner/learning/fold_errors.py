# SPDX-License-Identifier: BSD-3-Clause
r"""Errors on held-out folds from one reduction of the moments of all rows, instead of one reduction per fold.

Let P be the penalized moments of all rows, and H those of a fold with features Z. The residuals r of the fold under the
solution on all rows give the residuals under the solution on the other rows: :math:`(I - S)^{-1} r` with
:math:`S = Z P^{-1} Z^T`. Their sum of squares is

.. math:: r^T (I - S)^{-2} r = r^T r + g^T x + x^T P x, \quad (P - H) x = g, \quad g = -Z^T r.

The conjugate gradient method for x, preconditioned with P, computes it with twice as many digits as x, because it is a
Gauss quadrature. The number of steps depends on how much a fold differs from all rows, and little on the penalty.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bochner.learning.band_form import BandForm, ShiftedBand
from bochner.rows import Floats

__all__ = ["FoldErrors"]

MOST_STEPS = 24  # more cost as much as a reduction of the fold's own moments
TOLERANCE = 1e-10  # relative to the error


@dataclass(frozen=True)
class FoldErrors:
    """What the folds share: the reduced moments of all rows, and the solutions on all rows.

    Attributes
    ----------
    mean : ndarray of shape (width,)
        Mean of the features over all rows.
    target_mean : ndarray of shape (n_targets,)
        Mean of the targets.
    weight : float
        Sum of the sample weights.
    form : BandForm
        The centered Gram matrix of all rows.
    shifted : ShiftedBand
        Its solver for every penalty, in ascending order.
    coef : ndarray of shape (n_penalties, n_targets, width)
        Solutions on all rows, rotated.
    """

    mean: Floats
    target_mean: Floats
    weight: float
    form: BandForm
    shifted: ShiftedBand
    coef: Floats

    @classmethod
    def of(
        cls, gram: Floats, cross: Floats, mean: Floats, target_mean: Floats, weight: float, penalties: Floats
    ) -> "FoldErrors":
        """Reduce the moments of all rows and solve for every penalty.

        Parameters
        ----------
        gram, cross : ndarray of shape (width, width) and (width, n_targets)
            Centered second moments of all rows.
        mean, target_mean, weight : ndarray, ndarray, float
            As the attributes.
        penalties : ndarray of shape (n_penalties,)
            Ridge penalties in ascending order.
        """
        form = BandForm.of(gram)
        shifted = form.shifted(penalties)
        right = form.rotate(cross.T)
        coef = shifted.solve(np.broadcast_to(right, (len(penalties), *right.shape)))
        return cls(mean, target_mean, weight, form, shifted, coef)

    def squares(self, held_out: Floats) -> Floats | None:
        """Return the sums of squared errors on a fold.

        Parameters
        ----------
        held_out : ndarray of shape (size, size)
            Second moments of [z, 1, y] of the fold, not centered.

        Returns
        -------
        ndarray of shape (n_penalties, n_targets), or None
            The sums; None if they have not converged.
        """
        width = self.coef.shape[2]
        features, one = held_out[: width + 1, : width + 1], held_out[width]
        targets = held_out[width + 1 :, : width + 1] - np.outer(self.target_mean, one[: width + 1])
        cross = self._rotate(targets)
        squares = np.diag(held_out)[width + 1 :] - self.target_mean * (
            2.0 * one[width + 1 :] - self.target_mean * one[width]
        )

        def multiply(rotated: Floats) -> Floats:
            flat = rotated.reshape(-1, width + 1)
            rows = np.empty_like(flat)
            rows[:, :width] = self.form.unrotate(flat[:, :width])
            rows[:, width] = flat[:, width] - rows[:, :width] @ self.mean
            return self._rotate(rows @ features).reshape(rotated.shape)

        coef = np.pad(self.coef, ((0, 0), (0, 0), (0, 1)))  # the intercept is 0, because the moments are centered
        gradient = multiply(coef) - cross
        return self._quadrature(multiply, gradient, (coef * (gradient - cross)).sum(axis=2) + squares)

    def _quadrature(
        self, multiply: Callable[[Floats], Floats], gradient: Floats, squares: Floats
    ) -> Floats | None:
        """Add what follows from leaving the fold out to the sums of squares under the solution on all rows.

        Penalties whose sums have converged are dropped from the end, where few steps are enough.
        """
        state = _ConjugateGradients(gradient)
        result, on = squares.copy(), slice(0, len(gradient))
        for _ in range(MOST_STEPS):
            excess = state.precondition(self._solve, on)
            unfinished = ~(excess <= TOLERANCE * result[on]).all(axis=1)
            if not unfinished.any():
                return result
            on = slice(0, int(np.flatnonzero(unfinished)[-1]) + 1)
            result[on] = squares[on] + state.step(multiply, on)
        return None

    def _solve(self, rows: Floats) -> Floats:
        """Divide rotated rows by P, in which the intercept is decoupled."""
        solution = np.empty_like(rows)
        solution[:, :, :-1] = self.shifted.solve(rows[:, :, :-1])
        solution[:, :, -1] = rows[:, :, -1] / self.weight
        return solution

    def _rotate(self, rows: Floats) -> Floats:
        """Center and rotate rows of moments with [z, 1]."""
        rotated = rows.copy()
        rotated[:, :-1] = self.form.rotate(rows[:, :-1] - np.outer(rows[:, -1], self.mean))
        return rotated


class _ConjugateGradients:
    """The conjugate gradient method for all penalties and targets at a time, with the images of its vectors under P."""

    def __init__(self, right: Floats) -> None:
        self.residual = right.copy()
        self.solution, self.image, self.direction, self.direction_image = np.zeros((4, *right.shape))
        self.squares, self.gain = np.ones(right.shape[:2]), np.full(right.shape[:2], np.inf)
        self.value = np.zeros(right.shape[:2])
        self.energy = np.zeros(right.shape[:2])
        self.is_first = True

    def precondition(self, solve: Callable[[Floats], Floats], on: slice) -> Floats:
        """Find the next directions, and return estimates of what all further steps add to the value.

        The steps shrink like the residual: by the factor s of the last step, so that s / (1 - s) times the last gain is
        left.
        """
        residual = self.residual[on]
        divided = solve(residual)
        squares = (residual * divided).sum(axis=2)
        factor = squares / self.squares[on]
        if self.is_first:
            self.direction[on], self.direction_image[on] = divided, residual
        else:
            for vectors, addend in ((self.direction, divided), (self.direction_image, residual)):
                vectors[on] *= factor[:, :, None]
                vectors[on] += addend
        self.squares[on] = squares
        left = np.where(squares > 0.0, np.inf, 0.0)
        np.divide(self.gain[on] * factor, 1.0 - factor, out=left, where=(factor < 1.0) & (squares > 0.0))
        return left

    def step(self, multiply: Callable[[Floats], Floats], on: slice) -> Floats:
        """Take a step, and return the value of the quadrature."""
        direction, image = self.direction[on], self.direction_image[on]
        product = image - multiply(direction)
        curvature = (direction * product).sum(axis=2)
        size = np.divide(self.squares[on], curvature, out=np.zeros_like(curvature), where=curvature > 0.0)
        self.solution[on] += size[:, :, None] * direction
        self.image[on] += size[:, :, None] * image
        self.residual[on] -= size[:, :, None] * product
        self.energy[on] += size * self.squares[on]
        value = self.energy[on] + (self.solution[on] * self.image[on]).sum(axis=2)
        self.gain[on], self.value[on] = np.abs(value - self.value[on]), value
        self.is_first = False
        return value
