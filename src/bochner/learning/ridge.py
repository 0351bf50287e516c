# SPDX-License-Identifier: BSD-3-Clause
r"""Ridge regression from second moments: every penalty and every fold without another look at the rows.

The moments of a row :math:`a = [z, 1, y]` (features, a one, targets) are summed once for each fold. Training moments
are the total less a fold's; the error on a fold is a quadratic form in its own.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from bochner.rows import Floats, in_threads

__all__ = ["RidgeSolution", "cross_validated_errors", "generalised_errors", "ridge_solution", "spread"]


@dataclass(frozen=True)
class RidgeSolution:
    r"""The minimiser of :math:`\sum_i w_i |y_i - c^T z_i - b|^2 + \lambda |c|^2` and the posterior around it.

    Attributes
    ----------
    coef : ndarray of shape (width, n_targets)
        c.
    intercept : ndarray of shape (n_targets,)
        b.
    noise : ndarray of shape (n_targets,)
        Variance of the noise: the residual sum of squares over the degrees of freedom that are left.
    mean : ndarray of shape (width,)
        Mean of the features.
    half_precision : ndarray of shape (width, width)
        R with :math:`R R^T = (G + \lambda)^{-1}`, G the centred Gram matrix.
    weight : float
        Sum of the rows' weights.
    """

    coef: Floats
    intercept: Floats
    noise: Floats
    mean: Floats
    half_precision: Floats
    weight: float

    def variance(self, features: Floats) -> Floats:
        r"""Predictive variances (n_rows, n_targets): :math:`\sigma^2 (1 + 1/n + |R^T (z - \bar z)|^2)`."""
        leverage = np.square((features - self.mean) @ self.half_precision).sum(axis=1)
        return np.asarray((1.0 + 1.0 / self.weight + leverage)[:, None] * self.noise)


@dataclass(frozen=True)
class _Centred:
    """Second moments of [z, 1, y] about the means."""

    gram: Floats
    cross: Floats
    mean: Floats
    target_mean: Floats
    weight: float

    @classmethod
    def of(cls, moments: Floats, n_targets: int) -> "_Centred":
        width = len(moments) - 1 - n_targets
        weight = float(moments[width, width])
        mean, target_mean = moments[:width, width] / weight, moments[width + 1 :, width] / weight
        gram = moments[:width, :width] - weight * np.outer(mean, mean)
        cross = moments[:width, width + 1 :] - weight * np.outer(mean, target_mean)
        return cls(gram, cross, mean, target_mean, weight)


@dataclass(frozen=True)
class _Spectrum:
    """The eigendecomposition of a centred Gram matrix: from here the residuals of a penalty cost next to nothing."""

    values: Floats
    rotated: Floats
    target_squares: Floats
    weight: float

    @classmethod
    def of(cls, moments: Floats, n_targets: int) -> "_Spectrum":
        """From the second moments of [z, 1, y]."""
        centred = _Centred.of(moments, n_targets)
        values, vectors = linalg.eigh(centred.gram, driver="evd", check_finite=False)
        # Rounding makes the smallest eigenvalues of a singular matrix negative.
        values = np.maximum(values, 0.0)
        return cls(values, vectors.T @ centred.cross, centred.weight * spread(moments, n_targets), centred.weight)

    def residual_squares(self, penalties: Floats) -> Floats:
        """Training sums of squared residuals (n_penalties, n_targets)."""
        shrunk = 1.0 / (self.values + penalties[:, None])
        explained = np.square(self.rotated).T @ (shrunk * (2.0 - self.values * shrunk)).T
        return np.maximum(self.target_squares[:, None] - explained, 0.0).T

    def degrees_of_freedom(self, penalties: Floats) -> Floats:
        """Trace of the hat matrix (n_penalties,), the intercept included."""
        return np.asarray(1.0 + (self.values / (self.values + penalties[:, None])).sum(axis=1))


def ridge_solution(moments: Floats, n_targets: int, penalty: float) -> RidgeSolution:
    """The solution for one penalty from the second moments of [z, 1, y]."""
    centred, width = _Centred.of(moments, n_targets), len(moments) - 1 - n_targets
    penalised = centred.gram.copy()
    # A singular Gram matrix and a penalty below its rounding have no Cholesky factor.
    penalised.flat[:: width + 1] += max(penalty, width * np.finfo(float).eps * float(np.diag(centred.gram).max()))
    factor = linalg.cholesky(penalised, lower=True, overwrite_a=True, check_finite=False)
    coef = linalg.cho_solve((factor, True), centred.cross, check_finite=False)
    half_precision = np.asarray(lapack.dtrtri(factor, lower=1)[0].T)
    freedom = 1.0 + width - penalty * float(np.square(half_precision).sum())
    # Where the rows count less than the degrees of freedom, there is nothing left to tell the noise from.
    left = max(centred.weight - freedom, 1e-3 * centred.weight)
    explained = (coef * (centred.cross + penalty * coef)).sum(axis=0)
    return RidgeSolution(
        coef=coef,
        intercept=centred.target_mean - centred.mean @ coef,
        noise=np.maximum(centred.weight * spread(moments, n_targets) - explained, 0.0) / left,
        mean=centred.mean,
        half_precision=half_precision,
        weight=centred.weight,
    )


def _shrunk_solutions(gram: Floats, right: Floats, penalties: Floats) -> Floats:
    r"""Solutions (width, n_penalties, n_columns) of :math:`(G + \lambda) c = b` for every penalty.

    G is brought to tridiagonal form once, a third of the work of its eigenvectors; then a penalty is almost free.
    """
    if len(gram) < 2:
        return right[:, None, :] / (gram + penalties)[:, :, None]
    # LAPACK's room to work in: a line of 64 for the wider of its operands.
    room = 64 * max(len(gram), len(penalties) * right.shape[1])
    reflectors, diagonal, beside, tau, _ = lapack.dsytrd(gram, lower=1, lwork=room)
    below = reflectors[1:, :-1]  # the first row takes part in no reflection
    turned = np.array(right, order="F")
    turned[1:] = lapack.dormqr("L", "T", below, tau, turned[1:], room)[0]
    solved = [lapack.dgtsv(beside, diagonal + penalty, beside, turned)[3] for penalty in penalties.tolist()]
    solutions = np.stack(solved, axis=1).reshape(len(gram), -1)
    solutions[1:] = lapack.dormqr("L", "N", below, tau, solutions[1:], room)[0]
    return solutions.reshape(len(gram), len(penalties), -1)


def cross_validated_errors(fold_moments: Floats, n_targets: int, penalties: Floats) -> Floats:
    """Mean squared errors (n_penalties, n_folds, n_targets) on each fold of what the other rows teach.

    Parameters
    ----------
    fold_moments : ndarray of shape (n_folds + 1, width, width)
        Second moments of [z, 1, y] for each fold, and last for the rows that are always trained on.
    n_targets : int
        How many of the columns are targets.
    penalties : ndarray of shape (n_penalties,)
        Ridge penalties, the same for all folds.
    """
    total = fold_moments.sum(axis=0)

    def errors(held_out: Floats) -> Floats:
        trained = _Centred.of(total - held_out, n_targets)
        coef = _shrunk_solutions(trained.gram, trained.cross, penalties)
        intercept = trained.target_mean - np.tensordot(trained.mean, coef, axes=1)
        # a = [z, 1, y] times [c, b, -1] is the residual.
        own = np.broadcast_to(-np.eye(n_targets)[:, None, :], (n_targets, len(penalties), n_targets))
        combination = np.concatenate([coef, intercept[None], own]).reshape(len(total), -1)
        squares = np.einsum("ij,ij->j", combination, held_out @ combination)
        weight = held_out[-1 - n_targets, -1 - n_targets]
        return np.asarray(np.maximum(squares, 0.0).reshape(len(penalties), n_targets) / weight)

    return np.stack(list(in_threads(errors, list(fold_moments[:-1]))), axis=1)


def generalised_errors(moments: Floats, n_targets: int, penalties: Floats) -> Floats:
    r"""Generalised cross-validation (n_penalties, 1, n_targets): :math:`\mathrm{RSS} / n / (1 - \mathrm{df} / n)^2`."""
    spectrum = _Spectrum.of(moments, n_targets)
    left = 1.0 - spectrum.degrees_of_freedom(penalties) / spectrum.weight
    possible = left > 1e-12
    if not possible.any():
        raise ValueError(
            f"`cv`=None needs more rows than parameters, and there are n_samples={spectrum.weight:.3g} (counted with "
            f"their weights); give larger `alphas`, or a number of folds."
        )
    errors = spectrum.residual_squares(penalties) / spectrum.weight
    return np.where(possible[:, None], errors / np.square(np.where(possible, left, 1.0))[:, None], np.inf)[:, None, :]


def spread(moments: Floats, n_targets: int) -> Floats:
    """Variances of the targets (n_targets,), never negative; exactly 0 where they are within rounding of constant."""
    weight = moments[-1 - n_targets, -1 - n_targets]
    squares = np.diag(moments)[len(moments) - n_targets :] / weight
    variances = squares - np.square(moments[len(moments) - n_targets :, -1 - n_targets] / weight)
    return np.where(variances > 1e-14 * squares, variances, 0.0)
