# SPDX-License-Identifier: BSD-3-Clause
r"""What length scales are learned by: functions of the features' second moments, with their derivatives.

A row of data makes :math:`a = [z, 1, y]` (features, a one, targets), and each fold of rows has the second moments
:math:`H_f = \sum_i w_i a_i a_i^T`. An objective is a function of the :math:`H_f` and of the ridge penalty, so that a
new one needs no other look at the rows; two thin matrices a fold say how a row moves it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator

from bochner.rows import Floats, in_threads, serial_blas

__all__ = ["OBJECTIVES", "MarginalLikelihood", "Objective", "Slope", "ValidationLoss", "held_out_error"]

SMALLEST_ERROR = 1e-14  # of the variance: below is rounding


@dataclass(frozen=True)
class Slope:
    r"""The value of an objective and its derivatives.

    Attributes
    ----------
    value : float
        The objective.
    in_log_alpha : float
        Its derivative in the logarithm of the penalty.
    left, right : ndarray of shape (n_folds, width, rank)
        Moving a row a of fold f, of weight w, by :math:`\delta a` adds :math:`w \, (a^T L_f) (R_f^T \delta a)`.
    """

    value: float
    in_log_alpha: float
    left: Floats
    right: Floats


class Objective(BaseEstimator, ABC):
    """A function of second moments that is to be small; subclasses write `slope`."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @abstractmethod
    def slope(self, fold_moments: Floats, n_targets: int, alpha: float) -> Slope:
        """The objective and its derivatives.

        Parameters
        ----------
        fold_moments : ndarray of shape (n_folds, width, width)
            Second moments of [z, 1, y] for each fold.
        n_targets : int
            How many of the columns are targets. They have unit variance, so that they count alike.
        alpha : float
            The ridge penalty, relative to the number of rows.
        """


class ValidationLoss(Objective):
    r"""The logarithm of the mean squared error of ridge regression on each fold, trained on the others.

    With :math:`v_f = [c_f, b_f, -1]` the solution that the other folds teach, the error is :math:`J = \sum_f v_f^T H_f
    v_f`. The solution moves with the moments :math:`T_f = \sum_{g \ne f} H_g` of its training rows, and one more solve
    with the same matrix, :math:`u_f = (T_f + \lambda)^{-1} 2 H_f v_f`, says how: :math:`\delta J = \sum_f v_f^T \delta
    H_f v_f - u_f^T \delta T_f v_f`.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.learning.objectives import ValidationLoss
    >>> fold = np.array([[2.0, 0.0, 2.0], [0.0, 2.0, 0.0], [2.0, 0.0, 2.0]])  # z = 1 and -1, y = z
    >>> round(ValidationLoss().slope(np.stack([fold, fold]), 1, alpha=1.0).value, 4)  # c = 1/2 leaves a quarter
    -1.3863
    """

    def slope(self, fold_moments: Floats, n_targets: int, alpha: float) -> Slope:
        total = fold_moments.sum(axis=0)

        def fold(held_out: Floats) -> tuple[float, float, Floats, Floats]:
            trained = total - held_out
            factor, penalties = _factor(trained, n_targets, alpha)
            width = len(penalties)
            v = _residuals(factor, trained, n_targets)
            towards = held_out @ v
            u = np.zeros_like(v)
            u[:width] = linalg.cho_solve(factor, 2.0 * towards[:width], check_finite=False)
            return float((v * towards).sum()), -float((penalties[:, None] * u[:width] * v[:width]).sum()), v, u

        errors, in_log_alpha, v, u = zip(*in_threads(fold, list(fold_moments)), strict=True)
        size, n_folds = n_targets * _weight(total, n_targets), len(fold_moments)
        error = max(sum(errors), SMALLEST_ERROR * size)
        left, right = [], []
        for f in range(n_folds):
            others = [g for g in range(n_folds) if g != f]
            left.append(np.hstack([2.0 * v[f], *(-v[g] for g in others), *(-u[g] for g in others)]))
            right.append(np.hstack([v[f], *(u[g] for g in others), *(v[g] for g in others)]))
        return Slope(float(np.log(error / size)), sum(in_log_alpha) / error, np.stack(left) / error, np.stack(right))


class MarginalLikelihood(Objective):
    r"""Minus the evidence of Bayesian linear regression a row, its noise at the best value.

    With A the penalised second moments of [z, 1] and :math:`S = v^T (H + \lambda) v` the penalised sum of squares of
    the solution v, it is :math:`\log (S / n) + (\log \det A - M \log \lambda) / n`, the mean over targets. All rows
    take part in it: there are no folds.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.learning.objectives import MarginalLikelihood
    >>> fold = np.array([[2.0, 0.0, 2.0], [0.0, 2.0, 0.0], [2.0, 0.0, 2.0]])  # z = 1 and -1, y = z
    >>> round(MarginalLikelihood().slope(fold[None], 1, alpha=1.0).value, 4)  # S / n = 1/2, A = diag(4, 2), penalty 2
    0.0
    """

    def slope(self, fold_moments: Floats, n_targets: int, alpha: float) -> Slope:
        def whole(total: Floats) -> Slope:
            weight = _weight(total, n_targets)
            factor, penalties = _factor(total, n_targets, alpha)
            width, penalty = len(penalties), penalties[0]
            v = _residuals(factor, total, n_targets)
            shrunk = penalty * np.square(v[: width - 1]).sum(axis=0)
            squares = (v * (total @ v)).sum(axis=0) + shrunk
            inverse = linalg.cho_solve(factor, np.eye(width), check_finite=False)
            log_volume = 2.0 * np.log(np.diag(factor[0])).sum() - (width - 1) * np.log(penalty)
            value = float(np.log(squares / weight).mean() + log_volume / weight)
            in_log_alpha = float((shrunk / squares).mean())
            in_log_alpha += float((penalty * np.trace(inverse[:-1, :-1]) - (width - 1)) / weight)
            padding = np.zeros((n_targets, width))
            left = np.hstack([2.0 * v / (squares * n_targets), np.vstack([2.0 * inverse / weight, padding])])
            right = np.hstack([v, np.vstack([np.eye(width), padding])])
            return Slope(value, in_log_alpha, left, right)

        (found,) = in_threads(whole, [fold_moments.sum(axis=0)])
        shape = (len(fold_moments), *found.left.shape)
        left, right = np.broadcast_to(found.left, shape), np.broadcast_to(found.right, shape)
        return Slope(found.value, found.in_log_alpha, left, right)


@serial_blas()  # no bit depends on the number of threads
def held_out_error(moments: Floats, held_out: Floats, n_targets: int, alpha: float) -> float:
    """Mean squared error on rows that ridge regression has not seen.

    `moments` and `held_out` are the second moments of [z, 1, y] over the rows to train and to test on.
    """
    v = _residuals(_factor(moments, n_targets, alpha)[0], moments, n_targets)
    return float((v * (held_out @ v)).sum()) / (n_targets * _weight(held_out, n_targets))


def _weight(moments: Floats, n_targets: int) -> float:
    return float(moments[-1 - n_targets, -1 - n_targets])


def _factor(moments: Floats, n_targets: int, alpha: float) -> tuple[tuple[Floats, bool], Floats]:
    """The Cholesky factor of the penalised second moments of [z, 1], and the penalties; the one has none."""
    width = len(moments) - n_targets
    penalties = np.full(width, alpha * _weight(moments, n_targets))
    penalties[-1] = 0.0
    gram = moments[:width, :width] + np.diag(penalties)
    return linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False), penalties


def _residuals(factor: tuple[Floats, bool], moments: Floats, n_targets: int) -> Floats:
    """v = [c, b, -1] of the ridge solution: a row [z, 1, y] times v is what its prediction is too large by."""
    width = len(moments) - n_targets
    coef = linalg.cho_solve(factor, moments[:width, width:], check_finite=False)
    return np.concatenate([coef, -np.eye(n_targets)])


OBJECTIVES: dict[str, type[Objective]] = {"validation": ValidationLoss, "likelihood": MarginalLikelihood}
