# SPDX-License-Identifier: BSD-3-Clause
r"""Errors on held-out folds for many penalties, without a decomposition of the moments of each fold.

The coefficients on the training rows of a fold solve :math:`(A + \lambda) c = b` for every penalty. They are sought in
one subspace for all penalties, where a Galerkin projection makes the problem as small as the subspace. It grows by the
residuals, preconditioned with Cholesky factors of the moments of all rows at a few penalties (`Poles`). This is a
rational Krylov method, except that the rows held out are missing in A and not in the factors. So the number of rounds
depends on how much a fold differs from all rows, and little on the penalties.

The squared error on the fold is a quadratic function of c. Its gradient is the residual of the solution on all rows,
and thereby within reach of the subspace. Therefore the error has twice as many correct digits as c.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from bochner.learning.poles import Poles
from bochner.rows import Floats, Mask, in_threads, row_spans, serial_blas

__all__ = ["FINE", "FoldErrors", "HeldOut", "StoredFolds"]

MOST_ROUNDS = 16  # with the factors of all rows; more cost as much as factors of the fold
ROUGH, FINE = 1e-5, 1e-9  # change of an error in a round, relative to the error, of all penalties and of the best
MARGIN = 1e-4  # of penalties that may be the best, relative to the error of the best
ROUNDING = 1e-14  # of an error, relative to the sum of squares of the target
LEAST_SHARE = 0.03  # singular value of a direction, relative to the largest of a round, that is worth a product
LEAST_REMAINDER = 1e-10  # of a direction outside of the subspace, relative to its norm; less is rounding
PRODUCT_ROWS = 32  # rows that a thread multiplies at a time


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
        """Multiply rows of shape (n_rows, n_folds, n_targets, width + 1) by the moments of [z, 1] of each fold."""
        ...


@dataclass(frozen=True)
class StoredFolds:
    """Moments of held-out folds in memory.

    Attributes
    ----------
    moments : sequence of ndarray of shape (size, size)
        Second moments of [z, 1, y] of each fold.
    n_targets : int
        Number of targets.
    """

    moments: Sequence[Floats]
    n_targets: int

    @property
    def borders(self) -> Floats:
        """The rows that belong to the one and to the targets."""
        return np.array([fold[-1 - self.n_targets :] for fold in self.moments])

    def multiply(self, rows: Floats) -> Floats:
        """Multiply rows by the moments of each fold; folds whose rows are 0 cost nothing."""
        size, products = rows.shape[-1], np.zeros_like(rows)

        def multiply_fold(number: int) -> None:
            if not rows[:, number].any():
                return
            product = rows[:, number].reshape(-1, size) @ self.moments[number][:size, :size]
            products[:, number] = product.reshape(products[:, number].shape)

        list(in_threads(multiply_fold, range(len(self.moments))))
        return products


@dataclass(frozen=True)
class FoldErrors:
    """What the folds share.

    Attributes
    ----------
    gram, cross : ndarray of shape (width, width) and (width, n_targets)
        Centered second moments of all rows.
    mean, target_mean : ndarray of shape (width,) and (n_targets,)
        Means over all rows.
    weight : float
        Sum of the sample weights.
    penalties : ndarray of shape (n_penalties,)
        Ridge penalties in ascending order.
    poles : Poles
        Approximate inverses of the Gram matrix plus a penalty.
    """

    gram: Floats
    cross: Floats
    mean: Floats
    target_mean: Floats
    weight: float
    penalties: Floats
    poles: Poles

    def squares(
        self, held_out: HeldOut, most_rounds: int = MOST_ROUNDS, tolerance: float = ROUGH
    ) -> list[Floats | None]:
        """Return the sums of squared errors on some folds, with more digits for penalties that may be the best.

        Parameters
        ----------
        held_out : HeldOut
            Second moments of [z, 1, y] of the folds, not centered.
        most_rounds : int, default=16
            Largest number of products with the moments.
        tolerance : float, default=1e-5
            Change in a round, relative to the error, at which the other penalties have converged.

        Returns
        -------
        list of ndarray of shape (n_penalties, n_targets), or None
            The sums for each fold; None where they have not converged.
        """
        folds = [_Fold(self, border) for border in held_out.borders]
        tolerances = np.full(len(self.penalties), tolerance)
        for _ in range(most_rounds):
            self._extend(folds, held_out)
            if not _any_open(folds, tolerances):
                tolerances = np.where(self._may_be_best(folds), FINE, tolerance)
                if not _any_open(folds, tolerances):
                    break
            list(in_threads(partial(_Fold.update_residuals, tolerances=tolerances), folds))
        return [None if _any_open([fold], tolerances) else fold.squares for fold in folds]

    def _extend(self, folds: "list[_Fold]", held_out: HeldOut) -> None:
        """Extend the subspace of every fold by its preconditioned residuals."""
        residuals = np.stack([fold.residuals for fold in folds], axis=1)
        flat = residuals.reshape(len(residuals), -1, residuals.shape[-1])
        quotients = self.poles.divide(flat).reshape(residuals.shape)
        numbers = range(len(folds))
        parts = list(in_threads(lambda number: folds[number].directions(quotients[:, number]), numbers))
        directions = np.zeros((max(map(len, parts)), *residuals.shape[1:]))
        for number, part in enumerate(parts):
            directions[: len(part), number] = part
        images, products = self._multiply(directions), self._multiply_held_out(held_out, directions)

        def extend(number: int) -> None:
            n_new = len(parts[number])
            folds[number].extend(parts[number], images[:n_new, number], products[:n_new, number])

        list(in_threads(extend, numbers))

    def _may_be_best(self, folds: "list[_Fold]") -> Mask:
        """Return which penalties may have the smallest error, of which more digits are needed."""
        means = np.mean([fold.squares / fold.scales for fold in folds], axis=(0, 2))
        return np.asarray(means <= (1.0 + MARGIN) * means.min())

    def _multiply(self, rows: Floats) -> Floats:
        """Multiply rows by the Gram matrix of all rows."""
        flat = rows.reshape(-1, rows.shape[-1])
        parts = in_threads(lambda part: flat[part] @ self.gram, row_spans(len(flat), PRODUCT_ROWS))
        return np.concatenate([flat[:0], *parts]).reshape(rows.shape)

    def _multiply_held_out(self, held_out: HeldOut, rows: Floats) -> Floats:
        """Multiply rows by the moments of [z, 1] of each fold about the mean of all rows."""
        offsets = serial_blas(np.matmul)(rows, -self.mean)
        products = held_out.multiply(np.concatenate([rows, offsets[..., None]], axis=-1))
        products[..., :-1] -= products[..., -1:] * self.mean
        return products


def _any_open(folds: "list[_Fold]", tolerances: Floats) -> bool:
    return any(fold.is_open(tolerances).any() for fold in folds)


class _Fold:
    """The subspace of a fold for each target, and the solutions in it.

    Parameters
    ----------
    shared : FoldErrors
        What the folds share.
    border : ndarray of shape (1 + n_targets, size)
        The rows of the fold's moments of [z, 1, y] that belong to the one and to the targets.

    Attributes
    ----------
    residuals : ndarray of shape (n_penalties, n_targets, width)
        Residuals of the equations; 0 where the error has converged.
    squares : ndarray of shape (n_penalties, n_targets)
        Sums of squared errors on the fold.
    scales : ndarray of shape (n_targets,)
        What R2 divides them by.
    changes : ndarray of shape (n_penalties, n_targets)
        By how much they changed in the last round.
    """

    def __init__(self, shared: FoldErrors, border: Floats) -> None:
        width, n_targets = shared.cross.shape
        self.penalties = shared.penalties
        # Moments of the fold about the means of all rows, which are 0 for the sums over all rows.
        self.weight = float(border[0, width])
        self.sums = border[0, :width] - self.weight * shared.mean
        self.target_sums = border[0, width + 1 :] - self.weight * shared.target_mean
        crossed = border[1:, :width] - border[1:, width : width + 1] * shared.mean
        self.cross = crossed - shared.target_mean[:, None] * self.sums
        squares = np.diagonal(border[:, width:])[1:] - shared.target_mean * border[0, width + 1 :]
        self.target_squares = squares - shared.target_mean * self.target_sums
        own_squares = self.target_squares - np.square(self.target_sums) / self.weight if self.weight else squares
        self.scales = np.where(own_squares > 0.0, own_squares, np.inf)  # of R2
        # The equations on the training rows.
        self.training_weight = shared.weight - self.weight
        self.mean, self.target_mean = -self.sums / self.training_weight, -self.target_sums / self.training_weight
        self.right = shared.cross.T - self.cross - self.training_weight * self.target_mean[:, None] * self.mean
        self.basis = self.images = np.zeros((n_targets, 0, width))
        self.matrix = self.moments = np.zeros((n_targets, 0, 0))  # of the training rows and of the fold, projected
        self.residuals = np.broadcast_to(self.right, (len(self.penalties), n_targets, width))
        self.squares = np.full((len(self.penalties), n_targets), np.inf)
        self.changes = self.squares
        self.solution = np.zeros((n_targets, len(self.penalties), 0))

    def is_open(self, tolerances: Floats) -> Mask:
        """Return where the sums of squares have not converged, of shape (n_penalties, n_targets)."""
        return np.asarray(~(self.changes <= tolerances[:, None] * self.squares + ROUNDING * self.target_squares))

    def directions(self, quotients: Floats) -> Floats:
        """Return orthonormal directions that quotients add to the subspace, of shape (n_new, n_targets, width).

        Quotients of similar penalties are similar: only the largest of their principal directions are returned.
        """
        remainders, least = quotients[self.residuals.any(axis=(1, 2))].swapaxes(0, 1), 0.0
        for _ in range(2):  # once leaves rounding errors
            norms = np.linalg.norm(remainders, axis=2, keepdims=True)
            remainders = remainders / np.where(norms > least, norms, np.inf)
            remainders = remainders - (remainders @ self.basis.swapaxes(1, 2)) @ self.basis
            least = LEAST_REMAINDER
        if not remainders.shape[1]:
            return np.empty((0, *self.right.shape))
        values, vectors = np.linalg.eigh(remainders @ remainders.swapaxes(1, 2))
        is_used = values > LEAST_SHARE**2 * np.maximum(values[:, -1:], LEAST_SHARE)
        n_new = int(is_used.sum(axis=1).max())
        scales = np.where(is_used, 1.0 / np.sqrt(np.where(is_used, values, 1.0)), 0.0)
        mixtures = (vectors * scales[:, None])[:, :, ::-1][:, :, :n_new].swapaxes(1, 2)
        directions = mixtures @ remainders
        directions -= (directions @ self.basis.swapaxes(1, 2)) @ self.basis
        return directions.swapaxes(0, 1)

    def extend(self, directions: Floats, images: Floats, products: Floats) -> None:
        """Add directions to the subspace and solve in it.

        Parameters
        ----------
        directions : ndarray of shape (n_new, n_targets, width)
            The directions.
        images, products : ndarray of shape (n_new, n_targets, width) and (n_new, n_targets, width + 1)
            Their products with the moments of all rows, and with those of the fold.
        """
        if not len(directions):
            if self.residuals.any():  # of which nothing but rounding errors is outside of the subspace
                self.changes = np.zeros_like(self.changes)
            return
        images = images - products[..., :-1] - self.training_weight * (directions @ self.mean)[..., None] * self.mean
        self.basis = np.concatenate([self.basis, directions.swapaxes(0, 1)], axis=1)
        self.images = np.concatenate([self.images, images.swapaxes(0, 1)], axis=1)
        self.matrix = _grow(self.matrix, self.basis @ images.transpose(1, 2, 0))
        self.moments = _grow(self.moments, self.basis @ products[..., :-1].transpose(1, 2, 0))
        values, vectors = np.linalg.eigh(self.matrix)
        right = (vectors.swapaxes(1, 2) @ (self.basis @ self.right[..., None]))[..., 0]
        # Coordinates of shape (n_targets, n_penalties, dimension).
        penalized = np.maximum(values, 0.0)[:, None] + self.penalties[:, None]
        solution = (right[:, None] / penalized) @ vectors.swapaxes(1, 2)
        squares = self._squares(solution)
        changes = np.abs(squares - self.squares)
        # Directions for other penalties tell nothing about those that had no residual.
        self.changes = np.where(self.residuals.any(axis=2), changes, np.maximum(changes, self.changes))
        self.squares, self.solution = squares, solution

    def update_residuals(self, tolerances: Floats) -> None:
        """Compute the residuals where the sums of squares have not converged."""
        is_open = self.is_open(tolerances)
        some = np.flatnonzero(is_open.any(axis=1))
        self.residuals = np.zeros((len(is_open), *self.right.shape))
        solution = self.solution[:, some]
        residuals = self.right[:, None] - solution @ self.images
        residuals -= self.penalties[some, None] * (solution @ self.basis)
        self.residuals[some] = np.where(is_open[some, :, None], residuals.swapaxes(0, 1), 0.0)

    def _squares(self, solution: Floats) -> Floats:
        """Return sums of squared errors of solutions in the subspace, of shape (n_penalties, n_targets)."""
        intercepts = self.target_mean - (solution @ (self.basis @ self.mean)[..., None])[..., 0].T
        means = (solution @ (self.basis @ self.sums)[..., None])[..., 0].T
        crossed = (solution @ (self.basis @ self.cross[..., None]))[..., 0].T
        squares = (solution * (solution @ self.moments)).sum(axis=2).T + self.target_squares - 2.0 * crossed
        return np.asarray(squares + intercepts * (self.weight * intercepts + 2.0 * (means - self.target_sums)))


def _grow(matrix: Floats, columns: Floats) -> Floats:
    """Return symmetric matrices with some more columns, of shape (n_targets, size, n_new), and rows."""
    old = slice(0, matrix.shape[1])
    grown = np.concatenate([np.concatenate([matrix, columns[:, old].swapaxes(1, 2)], axis=1), columns], axis=2)
    return np.asarray(0.5 * (grown + grown.swapaxes(1, 2)))
