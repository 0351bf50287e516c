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
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bochner.feature_models.band_form import BandForm, ShiftedBand
from bochner.rows import Floats, in_threads, row_spans, serial_blas

__all__ = ["FoldErrors", "HeldOut", "StoredFolds"]

COLUMN_PARTS = 2  # of moments, which threads multiply by
MOST_STEPS = 24  # more cost as much as a reduction of the fold's own moments
TOLERANCE = 1e-10  # relative to the error, of penalties whose error on some fold is near the smallest one
FAR_TOLERANCE = 1e-6  # of the other penalties, which are not chosen
NEAR = 1.02  # times the smallest error of a fold


class HeldOut(Protocol):
    """Moments of held-out folds.

    Attributes
    ----------
    borders : ndarray of shape (n_folds, 1 + n_targets, size)
        The rows of the moments of [z, 1, y] that belong to the one and to the targets.
    """

    @property
    def borders(self) -> Floats: ...

    def multiply(self, rows: Floats) -> Floats:
        """Multiply rows of shape (n_penalties, n_folds, n_targets, width + 1) by the moments of [z, 1] of each fold."""
        ...


@dataclass(frozen=True)
class StoredFolds:
    """Moments of held-out folds in memory.

    Attributes
    ----------
    moments : list of ndarray of shape (size, size)
        Second moments of [z, 1, y] of each fold.
    n_targets : int
        Number of targets.
    """

    moments: list[Floats]
    n_targets: int

    @property
    def borders(self) -> Floats:
        """The rows that belong to the one and to the targets."""
        return np.array([fold[-1 - self.n_targets :] for fold in self.moments])

    def multiply(self, rows: Floats) -> Floats:
        """Multiply rows by the moments of each fold."""
        size, products = rows.shape[-1], np.empty(rows.shape)
        by_fold = [np.ascontiguousarray(rows[:, number]).reshape(-1, size) for number in range(len(self.moments))]

        def fill(task: tuple[int, slice]) -> None:
            number, columns = task
            product = by_fold[number] @ self.moments[number][:size, columns]
            products[:, number, :, columns] = product.reshape(*rows[:, number].shape[:2], -1)

        spans = row_spans(size, -(-size // COLUMN_PARTS))
        list(in_threads(fill, [(number, span) for number in range(len(self.moments)) for span in spans]))
        return products


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
        shifted, coef = _solve_on_all_rows(form, cross, penalties)
        return cls(mean, target_mean, weight, form, shifted, coef)

    def squares(self, held_out: HeldOut, most_steps: int = MOST_STEPS) -> list[Floats | None]:
        """Return the sums of squared errors on some folds.

        Parameters
        ----------
        held_out : HeldOut
            Second moments of [z, 1, y] of the folds, not centered.
        most_steps : int, default=24
            Largest number of products with the moments.

        Returns
        -------
        list of ndarray of shape (n_penalties, n_targets), or None
            The sums for each fold; None where they have not converged.
        """
        n_penalties, n_targets, width = self.coef.shape
        borders = held_out.borders
        cross = self._rotate(borders[:, 1:, : width + 1] - self.target_mean[:, None] * borders[:, :1, : width + 1])

        def multiply(rotated: Floats) -> Floats:
            return self._rotate(held_out.multiply(self._unrotate(rotated)))

        coef = np.zeros((n_penalties, 1, n_targets, width + 1))  # intercepts of centered moments are 0
        coef[..., 0, :, :width] = self.coef
        coef_by_fold = np.broadcast_to(self._unrotate(coef), (n_penalties, len(borders), n_targets, width + 1))
        gradient = self._rotate(held_out.multiply(coef_by_fold)) - cross
        squares = (coef * (gradient - cross)).sum(axis=3) + self._target_squares(borders)
        found, is_final = self._quadrature(multiply, gradient, squares, most_steps)
        return [found[:, number] if final else None for number, final in enumerate(is_final)]

    def _target_squares(self, borders: Floats) -> Floats:
        """Return the sums of squares of the targets of each fold about the mean of all rows."""
        corner = borders[:, :, -len(self.target_mean) - 1 :]
        squares, sums, weights = np.diagonal(corner, axis1=1, axis2=2)[:, 1:], corner[:, 0, 1:], corner[:, 0, :1]
        return np.asarray(squares - self.target_mean * (2.0 * sums - self.target_mean * weights))

    def _quadrature(
        self, multiply: Callable[[Floats], Floats], gradient: Floats, squares: Floats, most_steps: int
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Add what follows from leaving the folds out to the sums of squares under the solution on all rows.

        Penalties whose sums have converged are dropped from both ends. Return the sums, and whether those of each fold
        have converged.
        """
        state = _ConjugateGradients(gradient)
        result, on = squares.copy(), slice(0, len(gradient))
        for _ in range(most_steps):
            state.precondition(self._solve, on)
            is_near = (result <= NEAR * result.min(axis=0)).any(axis=(1, 2), keepdims=True)
            unfinished = ~(state.left <= np.where(is_near, TOLERANCE, FAR_TOLERANCE) * result)
            if not unfinished.any():
                break
            penalties = np.flatnonzero(unfinished.any(axis=(1, 2)))
            on = slice(int(penalties[0]), int(penalties[-1]) + 1)
            result[on] = squares[on] + state.step(multiply, on)
        return result, np.asarray(~unfinished.any(axis=(0, 2)))

    def _solve(self, rows: Floats, on: slice) -> Floats:
        """Divide rotated rows by P at some penalties; the intercept is decoupled in it."""
        solution = np.empty_like(rows)
        features = rows[..., :-1]
        solution[..., :-1] = self.shifted.solve(features.reshape(len(rows), -1, features.shape[-1]), on).reshape(
            features.shape
        )
        solution[..., -1] = rows[..., -1] / self.weight
        return solution

    def _rotate(self, rows: Floats) -> Floats:
        """Center and rotate rows of moments with [z, 1]."""
        rotated = rows.copy()
        rotated[..., :-1] = self.form.rotate(rows[..., :-1] - rows[..., -1:] * self.mean)
        return rotated

    def _unrotate(self, rotated: Floats) -> Floats:
        """Return the rows that the transpose of `_rotate` gives."""
        rows = np.empty_like(rotated)
        rows[..., :-1] = self.form.unrotate(rotated[..., :-1])
        rows[..., -1] = rotated[..., -1] - serial_blas(np.matmul)(rows[..., :-1], self.mean)
        return rows


def _solve_on_all_rows(form: BandForm, cross: Floats, penalties: Floats) -> tuple[ShiftedBand, Floats]:
    """Return the solver for every penalty, and its rotated solutions."""
    shifted, right = form.shifted(penalties), form.rotate(cross.T)
    return shifted, shifted.solve(np.broadcast_to(right, (len(penalties), *right.shape)))


class _ConjugateGradients:
    """The conjugate gradient method for all penalties, folds and targets, with the images of its vectors under P.

    Parameters
    ----------
    right : ndarray of shape (n_penalties, n_folds, n_targets, size)
        Right-hand sides.
    """

    def __init__(self, right: Floats) -> None:
        self.residual = right.copy()
        self.solution, self.image, self.direction, self.direction_image = np.zeros((4, *right.shape))
        self.energy, self.value = np.zeros((2, *right.shape[:-1]))
        # Squares of residuals, the last change of the value, and estimates of what all further steps add to it.
        self.squares, self.gain, self.left = np.full((3, *right.shape[:-1]), np.inf)

    def precondition(self, solve: Callable[[Floats, slice], Floats], on: slice) -> None:
        """Find the next directions of some penalties, and estimate what all further steps add to the value.

        The gains shrink like the residual, by the factor s of the last step: s / (1 - s) times the last gain is left.
        """
        residual = self.residual[on]
        divided = solve(residual, on)
        squares = (residual * divided).sum(axis=-1)
        factor = squares / self.squares[on]  # 0 before the first step
        for vectors, addend in ((self.direction, divided), (self.direction_image, residual)):
            vectors[on] *= factor[..., None]
            vectors[on] += addend
        left = np.where(squares > 0.0, np.inf, 0.0)
        known = (factor > 0.0) & (factor < 1.0)
        left[known] = self.gain[on][known] * factor[known] / (1.0 - factor[known])
        self.squares[on], self.left[on] = squares, left

    def step(self, multiply: Callable[[Floats], Floats], on: slice) -> Floats:
        """Take a step at some penalties, and return the values of the quadrature."""
        direction, image, squares = self.direction[on], self.direction_image[on], self.squares[on]
        product = image - multiply(direction)
        curvature = (direction * product).sum(axis=-1)
        size = np.divide(squares, curvature, out=np.zeros_like(curvature), where=curvature > 0.0)
        for vectors, change in ((self.solution, direction), (self.image, image), (self.residual, -product)):
            vectors[on] += size[..., None] * change
        self.energy[on] += size * squares
        value = self.energy[on] + (self.solution[on] * self.image[on]).sum(axis=-1)
        self.gain[on], self.value[on] = np.abs(value - self.value[on]), value
        return np.asarray(value)
