# SPDX-License-Identifier: BSD-3-Clause
r"""Objectives for learning length scales: functions of the features' second moments, with their derivatives.

A row has the vector :math:`a = [z, 1, y]` of its features, a one and its targets. Each fold of rows has the second
moments :math:`H_f = \sum_i w_i a_i a_i^T`. An objective is a function of the :math:`H_f` and of the ridge penalty, so
that it does not depend on the number of rows. Its derivative with respect to a row follows from two thin matrices per
fold.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator

from bochner.rows import Floats, in_threads

__all__ = [
    *("OBJECTIVES", "MarginalLikelihood", "Objective", "ObjectiveGradient", "ValidationLoss"),
    *("held_out_error", "ridge_residuals"),
]

SMALLEST_ERROR = 1e-14  # relative to the variance of the targets; smaller errors are rounding errors


@dataclass(frozen=True)
class ObjectiveGradient:
    r"""Value of an objective and its derivatives.

    Parameters
    ----------
    value : float
        The value.
    log_alpha_derivative : float
        Derivative with respect to the logarithm of the penalty.
    left, right : ndarray of shape (n_folds, size, rank)
        Factors L and R of the derivative with respect to rows. If a row a of fold f with weight w changes by
        :math:`\delta a`, the value changes by :math:`w \, (a^T L_f) (R_f^T \delta a)` to first order.
    """

    value: float
    log_alpha_derivative: float
    left: Floats
    right: Floats


class Objective(BaseEstimator, ABC):
    r"""Base class of objectives.

    Notes
    -----
    **Subclassing**

    Write `value_and_gradient`. It receives the second moments of [z, 1, y] per fold; the targets are standardized. The
    moments have full rank only with the penalty, which applies to z and not to the one. If the value changes by
    :math:`\sum_f \mathrm{tr}(P_f R_f^T \, \delta H_f)` to first order, with symmetric :math:`P_f R_f^T`, then
    :math:`L_f = 2 P_f` and :math:`R_f` are the factors to return.

    Examples
    --------
    The penalized squared error :math:`v^T (H + \lambda) v` on the training rows, with :math:`v = [c, b, -1]`. The
    solution minimizes it, so that the derivative with respect to H is :math:`v v^T`.

    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.scaling import LearnedLengthScales
    >>> from bochner.scaling.objectives import Objective, ObjectiveGradient
    >>> class TrainingLoss(Objective):
    ...     def value_and_gradient(self, fold_moments, n_targets, alpha):
    ...         total = fold_moments.sum(axis=0)
    ...         width = len(total) - n_targets
    ...         n_rows = total[width - 1, width - 1]
    ...         penalties = alpha * n_rows * (np.arange(width) < width - 1)
    ...         coef = np.linalg.solve(total[:width, :width] + np.diag(penalties), total[:width, width:])
    ...         v = np.vstack([coef, -np.eye(n_targets)])
    ...         shrinkage = np.sum(penalties @ coef**2) / n_rows
    ...         factors = np.broadcast_to(v, (len(fold_moments), *v.shape))
    ...         value = np.sum(v * (total @ v)) / n_rows + shrinkage
    ...         return ObjectiveGradient(value, shrinkage, 2 * factors / n_rows, factors)
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> part = LearnedLengthScales(objective=TrainingLoss(), n_iterations=20)
    >>> features = FourierFeatures(length_scale=part, n_frequencies=32, random_state=0).fit(X, np.sin(2 * X[:, 1]))
    >>> int(features.relevance_.argmax())
    1
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @abstractmethod
    def value_and_gradient(self, fold_moments: Floats, n_targets: int, alpha: float) -> ObjectiveGradient:
        """Return the value of the objective and its derivatives.

        Parameters
        ----------
        fold_moments : ndarray of shape (n_folds, size, size)
            Second moments of [z, 1, y] for each fold.
        n_targets : int
            Number of targets. They have unit variance, so that they have equal influence.
        alpha : float
            The ridge penalty, relative to the number of rows.

        Returns
        -------
        ObjectiveGradient
            The value and its derivatives.
        """


class ValidationLoss(Objective):
    r"""Logarithm of the mean squared error of ridge regression on each fold, trained on the other folds.

    With :math:`v_f = [c_f, b_f, -1]` the solution on the other folds, the error is :math:`J = \sum_f v_f^T H_f v_f`.
    The solution depends on the moments :math:`T_f = \sum_{g \ne f} H_g` of its training rows. One more solve with the
    same matrix, :math:`u_f = (T_f + \lambda)^{-1} 2 H_f v_f`, gives the derivative
    :math:`\delta J = \sum_f v_f^T \delta H_f v_f - u_f^T \delta T_f v_f`.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.scaling.objectives import ValidationLoss
    >>> fold = np.array([[2.0, 0.0, 2.0], [0.0, 2.0, 0.0], [2.0, 0.0, 2.0]])  # z = 1 and -1, y = z
    >>> loss = ValidationLoss().value_and_gradient(np.stack([fold, fold]), 1, alpha=1.0)
    >>> round(loss.value, 4)  # the solution c = 1/2 leaves an error of 1/4
    -1.3863
    """

    def value_and_gradient(self, fold_moments: Floats, n_targets: int, alpha: float) -> ObjectiveGradient:
        total = fold_moments.sum(axis=0)

        def fold(held_out: Floats) -> tuple[float, float, Floats, Floats]:
            training = total - held_out
            factor, penalties = _factor(training, n_targets, alpha)
            width = len(penalties)
            v = _residual_vectors(factor, training, n_targets)
            product = held_out @ v
            u = np.zeros_like(v)
            u[:width] = linalg.cho_solve(factor, 2.0 * product[:width], check_finite=False)
            return float((v * product).sum()), -float((penalties[:, None] * u[:width] * v[:width]).sum()), v, u

        errors, log_alpha_derivatives, v, u = zip(*in_threads(fold, list(fold_moments)), strict=True)
        size, n_folds = n_targets * _weight(total, n_targets), len(fold_moments)
        error = max(sum(errors), SMALLEST_ERROR * size)
        left, right = [], []
        for f in range(n_folds):
            others = [g for g in range(n_folds) if g != f]
            left.append(np.hstack([2.0 * v[f], *(-v[g] for g in others), *(-u[g] for g in others)]))
            right.append(np.hstack([v[f], *(u[g] for g in others), *(v[g] for g in others)]))
        return ObjectiveGradient(
            value=float(np.log(error / size)),
            log_alpha_derivative=sum(log_alpha_derivatives) / error,
            left=np.stack(left) / error,
            right=np.stack(right),
        )


class MarginalLikelihood(Objective):
    r"""Minus twice the log evidence per row of Bayesian linear regression, up to a constant.

    The noise variance has its best value. With A the penalized second moments of [z, 1] and
    :math:`S = v^T (H + \lambda) v` the penalized sum of squares of the solution v, the objective is
    :math:`\log (S / n) + (\log \det A - M \log \lambda) / n`, averaged over targets. It uses all rows and no folds.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.scaling.objectives import MarginalLikelihood
    >>> fold = np.array([[2.0, 0.0, 2.0], [0.0, 2.0, 0.0], [2.0, 0.0, 2.0]])  # z = 1 and -1, y = z
    >>> evidence = MarginalLikelihood().value_and_gradient(fold[None], 1, alpha=1.0)
    >>> round(evidence.value, 4)  # S / n = 1/2, A = diag(4, 2), the penalty is 2
    0.0
    """

    def value_and_gradient(self, fold_moments: Floats, n_targets: int, alpha: float) -> ObjectiveGradient:
        def evaluate(total: Floats) -> ObjectiveGradient:
            weight = _weight(total, n_targets)
            factor, penalties = _factor(total, n_targets, alpha)
            width, penalty = len(penalties), penalties[0]
            v = _residual_vectors(factor, total, n_targets)
            shrinkage = penalty * np.square(v[: width - 1]).sum(axis=0)
            squares = (v * (total @ v)).sum(axis=0) + shrinkage
            inverse = linalg.cho_solve(factor, np.eye(width), check_finite=False)
            log_volume = 2.0 * np.log(np.diag(factor[0])).sum() - (width - 1) * np.log(penalty)
            value = float(np.log(squares / weight).mean() + log_volume / weight)
            log_alpha_derivative = float((shrinkage / squares).mean())
            log_alpha_derivative += float((penalty * np.trace(inverse[:-1, :-1]) - (width - 1)) / weight)
            padding = np.zeros((n_targets, width))
            left = np.hstack([2.0 * v / (squares * n_targets), np.vstack([2.0 * inverse / weight, padding])])
            right = np.hstack([v, np.vstack([np.eye(width), padding])])
            return ObjectiveGradient(value, log_alpha_derivative, left, right)

        (result,) = in_threads(evaluate, [fold_moments.sum(axis=0)])
        shape = (len(fold_moments), *result.left.shape)
        left, right = np.broadcast_to(result.left, shape), np.broadcast_to(result.right, shape)
        return ObjectiveGradient(result.value, result.log_alpha_derivative, left, right)


def held_out_error(training_moments: Floats, held_out_moments: Floats, n_targets: int, alpha: float) -> float:
    """Return the mean squared error of ridge regression on held-out rows.

    Parameters
    ----------
    training_moments : ndarray of shape (size, size)
        Second moments of [z, 1, y] over the training rows.
    held_out_moments : ndarray of shape (size, size)
        Second moments of [z, 1, y] over the held-out rows.
    n_targets : int
        Number of targets.
    alpha : float
        The ridge penalty, relative to the number of training rows.

    Returns
    -------
    float
        The mean over rows and targets.
    """
    v = ridge_residuals(training_moments, n_targets, alpha)
    return float((v * (held_out_moments @ v)).sum()) / (n_targets * _weight(held_out_moments, n_targets))


def ridge_residuals(moments: Floats, n_targets: int, alpha: float) -> Floats:
    """Return v = [c, b, -1] with the coefficients c and the intercept b of ridge regression, one column per target.

    The product of a row [z, 1, y] with v is prediction minus target.

    Parameters
    ----------
    moments : ndarray of shape (size, size)
        Second moments of [z, 1, y].
    n_targets : int
        Number of targets.
    alpha : float
        The ridge penalty, relative to the number of rows.

    Returns
    -------
    ndarray of shape (size, n_targets)
        The vectors v.
    """
    return _residual_vectors(_factor(moments, n_targets, alpha)[0], moments, n_targets)


def _weight(moments: Floats, n_targets: int) -> float:
    """Return the sum of the sample weights."""
    return float(moments[-1 - n_targets, -1 - n_targets])


def _factor(moments: Floats, n_targets: int, alpha: float) -> tuple[tuple[Floats, bool], Floats]:
    """Return the Cholesky factor of the penalized second moments of [z, 1], and the penalties; the one has none."""
    width = len(moments) - n_targets
    penalties = np.full(width, alpha * _weight(moments, n_targets))
    penalties[-1] = 0.0
    gram = moments[:width, :width] + np.diag(penalties)
    return linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False), penalties


def _residual_vectors(factor: tuple[Floats, bool], moments: Floats, n_targets: int) -> Floats:
    """Return v = [c, b, -1] of the ridge solution; the product of a row [z, 1, y] with v is prediction minus target."""
    width = len(moments) - n_targets
    coef = linalg.cho_solve(factor, moments[:width, width:], check_finite=False)
    return np.concatenate([coef, -np.eye(n_targets)])


OBJECTIVES: dict[str, type[Objective]] = {"validation": ValidationLoss, "likelihood": MarginalLikelihood}
