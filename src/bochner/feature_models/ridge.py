# SPDX-License-Identifier: BSD-3-Clause
r"""Ridge regression from second moments, for every penalty and every fold, without reading the rows again.

A row has the vector :math:`a = [z, 1, y]` of its features, a one and its targets. The second moments of a are
accumulated once per fold. The moments of the training rows are the total minus those of the held-out fold, and the
squared error on a fold is a quadratic form in its moments.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from bochner.feature_models.band_form import BandForm
from bochner.feature_models.fold_errors import FoldErrors, HeldOut, StoredFolds
from bochner.rows import Floats, cholesky, in_threads, row_spans, serial_blas

__all__ = [
    "RidgeSolution",
    "cross_validated_errors",
    "generalized_errors",
    "ridge_solution",
    "streamed_errors",
    "target_variances",
]

JITTERS = (1.0, 1e2, 1e4, 1e6)  # multiples of the rounding errors that a penalty is raised to
BAND_WIDTH = 1024  # columns from which matrix products reduce a Gram matrix faster than LAPACK
SPAN_ROWS = 16  # of a matrix, that a thread changes at a time, in the cache
MOST_PASSES = 200  # over the rows, where the moments of the folds are not stored
STEP_COST = 45  # columns per penalty and target, from which steps cost less than a reduction per fold


@dataclass(frozen=True)
class RidgeSolution:
    r"""Minimizer of :math:`\sum_i w_i |y_i - c^T z_i - b|^2 + \lambda |c|^2`, with its posterior covariance.

    Parameters
    ----------
    coef : ndarray of shape (width, n_targets)
        The coefficients c.
    intercept : ndarray of shape (n_targets,)
        The intercept b.
    residual_squares : ndarray of shape (n_targets,)
        Residual sums of squares.
    mean : ndarray of shape (width,)
        Mean of the features.
    factor : ndarray of shape (width, width)
        The lower Cholesky factor of :math:`G + \lambda`, where G is the centered Gram matrix.
    penalty : float
        The penalty :math:`\lambda` of the factor, which may have been raised above rounding errors.
    weight : float
        Sum of the sample weights.
    """

    coef: Floats
    intercept: Floats
    residual_squares: Floats
    mean: Floats
    factor: Floats
    penalty: float
    weight: float

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what can be computed from it, which would double the size of a model file."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def half_precision(self) -> Floats:
        r"""R with :math:`R R^T = (G + \lambda)^{-1}`; it is computed when variances are first needed."""
        return np.asarray(serial_blas(_lapack)("dtrtri", self.factor, lower=1)[0].T)

    @cached_property
    def noise(self) -> Floats:
        """Variance of the noise: the residual sum of squares divided by the residual degrees of freedom."""
        degrees_of_freedom = 1.0 + len(self.mean) - self.penalty * float(np.square(self.half_precision).sum())
        # With fewer rows than degrees of freedom, no residual degrees of freedom are left to estimate the noise.
        return self.residual_squares / max(self.weight - degrees_of_freedom, 1e-3 * self.weight)

    def variance(self, features: Floats) -> Floats:
        r"""Return predictive variances :math:`\sigma^2 (1 + 1/n + |R^T (z - \bar z)|^2)`.

        Parameters
        ----------
        features : ndarray of shape (n_rows, width)
            Features z.

        Returns
        -------
        ndarray of shape (n_rows, n_targets)
            The variances.
        """
        leverage = np.square((features - self.mean) @ self.half_precision).sum(axis=1)
        return np.asarray((1.0 + 1.0 / self.weight + leverage)[:, None] * self.noise)


@dataclass(frozen=True)
class _CenteredMoments:
    """Second moments of [z, 1, y] about the means."""

    gram: Floats
    cross: Floats
    mean: Floats
    target_mean: Floats
    weight: float

    @classmethod
    def of(cls, moments: Floats, n_targets: int) -> "_CenteredMoments":
        width = len(moments) - 1 - n_targets
        weight = float(moments[width, width])
        mean, target_mean = moments[:width, width] / weight, moments[width + 1 :, width] / weight
        gram = np.empty((width, width))

        def center(rows: slice) -> None:
            np.multiply.outer(-weight * mean[rows], mean, out=gram[rows])
            gram[rows] += moments[rows, :width]

        list(in_threads(center, row_spans(width, SPAN_ROWS), is_small=width < BAND_WIDTH))
        cross = moments[:width, width + 1 :] - weight * np.outer(mean, target_mean)
        return cls(gram, cross, mean, target_mean, weight)

    @property
    def least_penalty(self) -> float:
        """The rounding errors of the Gram matrix: with a smaller penalty, a singular one has no Cholesky factor.

        They are those of the moments before their centers were subtracted: a row whose weight exceeds all others is
        close to the mean, and its moments cancel.
        """
        largest = (np.diag(self.gram) + self.weight * np.square(self.mean)).max(initial=0.0)
        return len(self.mean) * float(np.finfo(float).eps) * float(largest)


@dataclass(frozen=True)
class _Spectrum:
    """Eigendecomposition of a centered Gram matrix, from which the residuals of any penalty are cheap to compute."""

    values: Floats
    rotated: Floats
    target_squares: Floats
    weight: float

    @classmethod
    def of(cls, moments: Floats, n_targets: int) -> "_Spectrum":
        centered = _CenteredMoments.of(moments, n_targets)
        values, vectors = linalg.eigh(centered.gram, driver="evd", check_finite=False)
        # Rounding makes the smallest eigenvalues of a singular matrix negative.
        values = np.maximum(values, 0.0)
        squares = centered.weight * target_variances(moments, n_targets)
        return cls(values, vectors.T @ centered.cross, squares, centered.weight)

    def residual_squares(self, penalties: Floats) -> Floats:
        """Return residual sums of squares on the training rows, of shape (n_penalties, n_targets)."""
        inverse = 1.0 / (self.values + penalties[:, None])
        explained = np.square(self.rotated).T @ (inverse * (2.0 - self.values * inverse)).T
        return np.maximum(self.target_squares[:, None] - explained, 0.0).T

    def degrees_of_freedom(self, penalties: Floats) -> Floats:
        """Return traces of the hat matrix including the intercept, of shape (n_penalties,)."""
        return np.asarray(1.0 + (self.values / (self.values + penalties[:, None])).sum(axis=1))


def ridge_solution(moments: Floats, n_targets: int, penalty: float) -> RidgeSolution:
    """Solve the ridge regression for one penalty.

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
    RidgeSolution
        The solution.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_models.ridge import ridge_solution
    >>> rows = np.array([[-1.0, 1.0, 3.0], [1.0, 1.0, 7.0]])  # y = 5 + 2 z
    >>> solution = ridge_solution(rows.T @ rows, 1, 0.0)
    >>> solution.coef.round(6), solution.intercept.round(6)
    (array([[2.]]), array([5.]))
    """
    centered = _CenteredMoments.of(moments, n_targets)
    factor, penalty = _cholesky(centered, penalty)
    coef, intercept = _solve(centered, factor)
    explained = (coef * (centered.cross + penalty * coef)).sum(axis=0)
    return RidgeSolution(
        coef=coef,
        intercept=intercept,
        residual_squares=np.maximum(centered.weight * target_variances(moments, n_targets) - explained, 0.0),
        mean=centered.mean,
        factor=factor,
        penalty=penalty,
        weight=centered.weight,
    )


@serial_blas  # no bit depends on the number of threads
def _solve(centered: _CenteredMoments, factor: Floats) -> tuple[Floats, Floats]:
    """Return coefficients and intercepts."""
    # The transpose of the factor is a view in the order of LAPACK, which would copy the factor itself.
    coef = linalg.cho_solve((factor.T, False), centered.cross, check_finite=False)
    return coef, centered.target_mean - centered.mean @ coef


def _cholesky(centered: _CenteredMoments, penalty: float) -> tuple[Floats, float]:
    """Return the lower Cholesky factor of the Gram matrix with a penalty above rounding errors, and that penalty."""
    penalized, floor = centered.gram, max(penalty, centered.least_penalty)  # its own array
    diagonal = np.diag(penalized).copy()
    for raised in (floor * jitter for jitter in JITTERS):
        np.fill_diagonal(penalized, diagonal + raised)
        try:
            factor = cholesky(penalized)
        except linalg.LinAlgError:
            continue
        if raised > floor:
            warnings.warn(
                f"The Gram matrix of the features is singular to rounding. The penalty was raised from {penalty:.3g} "
                f"to {raised:.3g}, and predictions lose digits; give `alphas` of at least "
                f"{raised / centered.weight:.1g}, or weights that differ less.",
                linalg.LinAlgWarning,
                stacklevel=3,
            )
        return factor, raised
    raise ValueError(
        f"The Gram matrix of the features is not finite, or not positive definite with a penalty of {raised:.3g}; give "
        f"larger `alphas`, or weights that differ less."
    )


def total_moments(moments: Sequence[Floats] | Floats) -> Floats:
    """Return the sum of some moments.

    Parameters
    ----------
    moments : sequence of ndarray of shape (size, size)
        Second moments, which are not changed.

    Returns
    -------
    ndarray of shape (size, size)
        Their sum.
    """
    total = np.empty(moments[0].shape)

    def add(rows: slice) -> None:
        np.add.reduce([part[rows] for part in moments], axis=0, out=total[rows])

    list(in_threads(add, row_spans(len(total), SPAN_ROWS), is_small=len(total) < BAND_WIDTH))
    return total


def cross_validated_errors(
    fold_moments: Sequence[Floats] | Floats, n_targets: int, penalties: Floats, total: Floats | None = None
) -> Floats:
    """Return the mean squared error on each fold of the ridge regression on all other rows.

    Parameters
    ----------
    fold_moments : sequence of n_folds + 1 ndarray of shape (size, size)
        Second moments of [z, 1, y] for each fold, and last for the rows that are always trained on.
    n_targets : int
        Number of targets.
    penalties : ndarray of shape (n_penalties,)
        Ridge penalties, the same for all folds.
    total : ndarray of shape (size, size), default=None
        The sum of the moments, if it is known.

    Returns
    -------
    ndarray of shape (n_penalties, n_folds, n_targets)
        Mean squared errors.
    """
    total = total_moments(fold_moments) if total is None else total
    order = np.argsort(penalties)
    centered = _CenteredMoments.of(total, n_targets)
    floored = np.maximum(penalties[order], centered.least_penalty)
    width, n_folds = len(centered.mean), len(fold_moments) - 1
    is_wide = width * (n_folds - 1) > STEP_COST * len(penalties) * n_targets * n_folds
    shared = FoldErrors.of(**vars(centered), penalties=floored) if is_wide else None

    folds = list(fold_moments[:n_folds])
    found = [None] * n_folds if shared is None else shared.squares(StoredFolds(folds, n_targets))

    def errors(number: int) -> Floats:
        held_out, squares = folds[number], found[number]
        if squares is None:
            squares = _held_out_squares(_CenteredMoments.of(total - held_out, n_targets), held_out, floored)
        return np.asarray(squares / held_out[width, width])

    sorted_errors = np.stack(list(in_threads(errors, range(n_folds))), axis=1)
    return np.asarray(np.maximum(sorted_errors, 0.0)[np.argsort(order)])


def streamed_errors(moments: Floats, held_out: HeldOut, n_targets: int, penalties: Floats) -> Floats:
    """Return the mean squared error on each fold, as `cross_validated_errors`, without the moments of the folds.

    Parameters
    ----------
    moments : ndarray of shape (size, size)
        Second moments of [z, 1, y] of all rows.
    held_out : HeldOut
        Products with the moments of the folds.
    n_targets : int
        Number of targets.
    penalties : ndarray of shape (n_penalties,)
        Ridge penalties, the same for all folds.

    Returns
    -------
    ndarray of shape (n_penalties, n_folds, n_targets)
        Mean squared errors.
    """
    order = np.argsort(penalties)
    centered = _CenteredMoments.of(moments, n_targets)
    shared = FoldErrors.of(**vars(centered), penalties=np.maximum(penalties[order], centered.least_penalty))
    del centered
    found = shared.squares(held_out, MOST_PASSES)
    if any(squares is None for squares in found):
        raise ValueError(
            f"The errors on the folds have not converged in {MOST_PASSES} passes over the rows; use shuffled folds, "
            f"larger `alphas` or fewer columns."
        )
    errors = np.stack([np.asarray(squares) for squares in found], axis=1)
    weights = held_out.borders[:, 0, len(moments) - 1 - n_targets]
    return np.asarray(np.maximum(errors / weights[:, None], 0.0)[np.argsort(order)])


def _held_out_squares(training: "_CenteredMoments", held_out: Floats, penalties: Floats) -> Floats:
    """Return sums of squared errors on a fold, of shape (n_penalties, n_targets), from solutions on the other rows."""
    n_targets = len(training.target_mean)
    coef = _coefficients(training.gram, training.cross, penalties)
    intercept = training.target_mean - np.tensordot(training.mean, coef, axes=1)
    # The product of a = [z, 1, y] with [c, b, -1] is the residual.
    minus_targets = np.broadcast_to(-np.eye(n_targets)[:, None, :], (n_targets, len(penalties), n_targets))
    combination = np.concatenate([coef, intercept[None], minus_targets]).reshape(len(held_out), -1)
    squares = np.einsum("ij,ij->j", combination, held_out @ combination)
    return np.asarray(squares.reshape(len(penalties), n_targets))


def _coefficients(gram: Floats, right: Floats, penalties: Floats) -> Floats:
    r"""Solve :math:`(G + \lambda) c = b` for every penalty; the shape is (width, n_penalties, n_columns).

    G is reduced once: to tridiagonal form, at a third of the cost of its eigenvectors, or to a band if it exceeds the
    cache. Each penalty is then cheap.
    """
    if len(gram) < 2:
        return right[:, None, :] / (gram + penalties)[:, :, None]
    if len(gram) >= BAND_WIDTH:
        form = BandForm.of(gram)
        rotated = form.rotate(right.T)
        solved = form.shifted(penalties).solve(np.broadcast_to(rotated, (len(penalties), *rotated.shape)))
        return form.unrotate(solved.reshape(-1, len(gram))).reshape(solved.shape).transpose(2, 0, 1)
    # The workspace that LAPACK recommends: 64 numbers per column of the wider operand.
    workspace = 64 * max(len(gram), len(penalties) * right.shape[1])
    reflectors, diagonal, off_diagonal, tau = _lapack("dsytrd", gram, lower=1, lwork=workspace)
    below = reflectors[1:, :-1]  # the reflections leave the first row unchanged
    rotated = np.array(right, order="F")
    rotated[1:] = _lapack("dormqr", "L", "T", below, tau, rotated[1:], workspace)[0]
    columns = [
        _lapack("dgtsv", off_diagonal, diagonal + penalty, off_diagonal, rotated)[3] for penalty in penalties.tolist()
    ]
    solutions = np.stack(columns, axis=1).reshape(len(gram), -1)
    solutions[1:] = _lapack("dormqr", "L", "N", below, tau, solutions[1:], workspace)[0]
    return solutions.reshape(len(gram), len(penalties), -1)


def _lapack(routine: str, *arguments: Any, **options: Any) -> list[Any]:
    """Call a LAPACK routine and return its results without `info`, which must be 0."""
    results: list[Any]
    *results, info = getattr(lapack, routine)(*arguments, **options)
    if info != 0:
        raise np.linalg.LinAlgError(
            f"LAPACK routine {routine} failed with info={info}; the Gram matrix of the features is singular or not "
            f"finite. Use a larger ridge penalty."
        )
    return results


@serial_blas  # no bit depends on the number of threads
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
    spectrum = _Spectrum.of(moments, n_targets)
    residual_share = 1.0 - spectrum.degrees_of_freedom(penalties) / spectrum.weight
    possible = residual_share > 1e-12
    if not possible.any():
        raise ValueError(
            f"`cv`=None needs more rows than degrees of freedom, and by their weights there are "
            f"n_samples={spectrum.weight:.3g}; use larger `alphas` or a number of folds."
        )
    errors = spectrum.residual_squares(penalties) / spectrum.weight
    squares = np.square(np.where(possible, residual_share, 1.0))
    return np.where(possible[:, None], errors / squares[:, None], np.inf)[:, None, :]


def target_variances(moments: Floats, n_targets: int) -> Floats:
    """Return the variances of the targets.

    Parameters
    ----------
    moments : ndarray of shape (size, size)
        Second moments of [z, 1, y].
    n_targets : int
        Number of targets.

    Returns
    -------
    ndarray of shape (n_targets,)
        Variances; exactly 0 for targets that are constant up to rounding.

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
