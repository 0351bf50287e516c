# SPDX-License-Identifier: BSD-3-Clause
r"""Ridge regression from second moments, for every penalty and every fold, without reading the rows again.

A row has the vector :math:`a = [z, 1, y]` of its features, a one and its targets. The moments of the training rows are
the total minus those of the held-out fold, and the squared error on a fold is a quadratic form in its moments.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from bochner.feature_models.band_form import solve_shifted
from bochner.linalg import jittered_cholesky
from bochner.rows import Floats, row_spans
from bochner.rows.block_sizes import MAX_SMALL_ROWS

__all__ = [
    *("Posterior", "generalized_errors", "held_out_errors", "r2_scores", "solve_ridge", "target_variances"),
]

MIN_VARIANCE = 1e-100  # of the targets of a fold, relative to all rows: errors divided by smaller ones overflow
JITTERS = (1.0, 1e2, 1e4, 1e6)  # multiples of the rounding errors that a penalty is raised to


class _Centered(NamedTuple):
    """Second moments of [z, 1, y] about the means."""

    gram: Floats
    cross: Floats
    mean: Floats
    target_mean: Floats
    weight: float

    @classmethod
    def from_moments(cls, moments: Floats, n_targets: int) -> "_Centered":
        """Center moments, which are overwritten."""
        width = len(moments) - 1 - n_targets
        weight = float(moments[width, width])
        mean, target_mean = moments[:width, width] / weight, moments[width + 1 :, width] / weight
        gram = moments[:width, :width]
        for rows in row_spans(width, MAX_SMALL_ROWS):
            gram[rows] -= np.multiply.outer(weight * mean[rows], mean)
        return cls(gram, moments[:width, width + 1 :] - weight * np.outer(mean, target_mean), mean, target_mean, weight)


def _least_penalty(moments: Floats, n_targets: int) -> float:
    """Return the rounding errors of a Gram matrix: with a smaller penalty, a singular one has no Cholesky factor."""
    width = len(moments) - 1 - n_targets
    return width * float(np.finfo(float).eps) * float(np.diag(moments)[:width].max(initial=0.0))


@dataclass(frozen=True)
class Posterior:
    r"""The posterior covariance of ridge coefficients, for the variances of predictions.

    Parameters
    ----------
    mean : ndarray of shape (width,)
        Mean of the features.
    factor : ndarray of shape (width, width)
        The lower Cholesky factor of :math:`G + \lambda`, where G is the centered Gram matrix.
    residual_squares : ndarray of shape (n_targets,)
        Residual sums of squares.
    penalty : float
        The penalty :math:`\lambda` of the factor, which may have been raised above rounding errors.
    weight : float
        Sum of the sample weights.
    """

    mean: Floats
    factor: Floats
    residual_squares: Floats
    penalty: float
    weight: float

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what can be computed from it, which would double the size of a model file."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def inverse_factor(self) -> Floats:
        r"""R with :math:`R R^T = (G + \lambda)^{-1}`; it is computed when variances are first needed."""
        return np.asarray(linalg.lapack.dtrtri(self.factor, lower=1)[0].T)

    @cached_property
    def noise(self) -> Floats:
        """Variance of the noise: the residual sum of squares divided by the residual degrees of freedom."""
        degrees_of_freedom = 1.0 + len(self.mean) - self.penalty * float(np.square(self.inverse_factor).sum())
        # With fewer rows than degrees of freedom, no residual degrees of freedom are left to estimate the noise.
        return self.residual_squares / max(self.weight - degrees_of_freedom, 1e-3 * self.weight)

    def variance(self, features: Floats) -> Floats:
        r"""Return predictive variances :math:`\sigma^2 (1 + 1/n + |R^T (z - \bar z)|^2)` of rows and targets."""
        leverage = np.square((features - self.mean) @ self.inverse_factor).sum(axis=1)
        return np.asarray((1.0 + 1.0 / self.weight + leverage)[:, None] * self.noise)


def solve_ridge(moments: Floats, n_targets: int, penalty: float) -> tuple[Floats, Floats, Posterior]:
    r"""Minimize :math:`\sum_i w_i |y_i - c^T z_i - b|^2 + \lambda |c|^2`.

    Parameters
    ----------
    moments : ndarray of shape (size, size)
        Second moments of [z, 1, y].
    n_targets : int
        Number of targets.
    penalty : float
        The ridge penalty.

    Returns
    -------
    coef : ndarray of shape (width, n_targets)
        The coefficients c.
    intercept : ndarray of shape (n_targets,)
        The intercept b.
    posterior : Posterior
        Their covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.ridge import solve_ridge
    >>> rows = np.array([[-1.0, 1.0, 3.0], [1.0, 1.0, 7.0]])  # y = 5 + 2 z
    >>> coef, intercept, _ = solve_ridge(rows.T @ rows, 1, 0.0)
    >>> coef.round(6), intercept.round(6)
    (array([[2.]]), array([5.]))
    """
    floor = max(penalty, _least_penalty(moments, n_targets))
    squares = target_variances(moments, n_targets)
    gram, cross, mean, target_mean, weight = _Centered.from_moments(moments.copy(), n_targets)
    gram.flat[:: len(gram) + 1] += floor
    largest = float(np.diag(gram).max(initial=0.0)) or 1.0
    try:
        factor, jitter = jittered_cholesky(gram, [(jitter - 1.0) * floor / largest for jitter in JITTERS])
    except np.linalg.LinAlgError:
        raise ValueError(
            f"The Gram matrix of the features is not finite, or not positive definite with a penalty of "
            f"{floor * JITTERS[-1]:.3g}; give larger `alphas`, or weights that differ less."
        ) from None
    raised = floor + jitter * largest
    if jitter:
        warnings.warn(
            f"The Gram matrix of the features is singular to rounding. The penalty was raised from {penalty:.3g} to "
            f"{raised:.3g}, and predictions lose digits; give `alphas` of at least {raised / weight:.1g}, or weights "
            f"that differ less.",
            linalg.LinAlgWarning,
            stacklevel=2,
        )
    # The transpose of the factor is a view in the order of LAPACK, which would copy the factor itself.
    coef = linalg.cho_solve((factor.T, False), cross, check_finite=False)
    residual_squares = np.maximum(weight * squares - (coef * (cross + raised * coef)).sum(axis=0), 0.0)
    return coef, target_mean - mean @ coef, Posterior(mean, factor, residual_squares, raised, weight)


def held_out_errors(total: Floats, held_out: Floats, n_targets: int, penalties: Floats) -> Floats:
    """Return mean squared errors on a fold, of shape (n_penalties, n_targets), from solutions on the other rows."""
    penalties = np.maximum(penalties, _least_penalty(total, n_targets))
    gram, cross, mean, target_mean, _ = _Centered.from_moments(total - held_out, n_targets)
    coef = solve_shifted(gram, cross.T, penalties)  # (n_penalties, n_targets, width)
    # The product of a = [z, 1, y] with [c, b, -1] is the residual.
    minus_targets = np.broadcast_to(-np.eye(n_targets), (len(penalties), n_targets, n_targets))
    combination = np.concatenate([coef, (target_mean - coef @ mean)[:, :, None], minus_targets], axis=2)
    combination = combination.reshape(-1, len(total))
    squares = np.einsum("ij,ij->i", combination, combination @ held_out).reshape(len(penalties), n_targets)
    return np.asarray(np.maximum(squares / held_out[-1 - n_targets, -1 - n_targets], 0.0))


def generalized_errors(moments: Floats, n_targets: int, penalties: Floats) -> Floats:
    r"""Return generalized cross-validation errors :math:`\mathrm{RSS} / n / (1 - \mathrm{df} / n)^2`.

    Parameters
    ----------
    moments : ndarray of shape (size, size)
        Second moments of [z, 1, y].
    n_targets : int
        Number of targets.
    penalties : ndarray of shape (n_penalties,)
        Ridge penalties.

    Returns
    -------
    ndarray of shape (n_penalties, 1, n_targets)
        The errors; infinite where no residual degrees of freedom are left.
    """
    squares = target_variances(moments, n_targets)
    gram, cross, _, _, weight = _Centered.from_moments(moments.copy(), n_targets)
    coef = solve_shifted(gram, cross.T, penalties)
    explained = (coef * (cross.T + penalties[:, None, None] * coef)).sum(axis=2)
    values = np.maximum(np.linalg.eigvalsh(gram), 0.0)  # rounding makes the smallest ones of a singular matrix negative
    residual_share = 1.0 - (1.0 + (values / (values + penalties[:, None])).sum(axis=1)) / weight
    possible = residual_share > 1e-12
    if not possible.any():
        raise ValueError(
            f"`cv`=None needs more rows than degrees of freedom, and by their weights there are "
            f"n_samples={weight:.3g}; use larger `alphas` or a number of folds."
        )
    errors = np.maximum(squares - explained / weight, 0.0) / np.square(np.where(possible, residual_share, 1.0))[:, None]
    return np.where(possible[:, None], errors, np.inf)[:, None, :]


def target_variances(moments: Floats, n_targets: int) -> Floats:
    """Return the variances of the targets, exactly 0 for targets that are constant up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.ridge import target_variances
    >>> rows = np.array([[1.0, 3.0], [1.0, 7.0]])  # no features, a one, one target
    >>> target_variances(rows.T @ rows, 1)
    array([4.])
    """
    weight = moments[-1 - n_targets, -1 - n_targets]
    squares = np.diag(moments)[len(moments) - n_targets :] / weight
    variances = squares - np.square(moments[len(moments) - n_targets :, -1 - n_targets] / weight)
    return np.where(variances > 1e-14 * squares, variances, 0.0)


def r2_scores(errors: Floats, variances: Floats, overall: Floats) -> Floats:
    """Compute R2 = 1 - error / variance, of shape (n_penalties, n_folds, n_targets).

    Where a target is constant in one of the folds, as in a fold of a single row, or varies by less than 1e-100 of its
    variance over all rows, the latter replaces that of every fold. Where it is constant in all rows, R2 is 1 if it is
    predicted exactly and 0 otherwise.
    """
    variances = np.where((variances > MIN_VARIANCE * overall).all(axis=0), variances, overall)
    ratios = np.divide(errors, variances, out=np.ones_like(errors), where=variances > 0.0)
    return 1.0 - np.where((variances == 0.0) & (errors == 0.0), 0.0, ratios)
