# SPDX-License-Identifier: BSD-3-Clause
"""Losses: what a model on features minimizes, and what it makes of its scores.

Each loss is one class. `LOSSES` and `CLASSIFICATION_LOSSES` name those of regressions and classifiers. A new loss is
one class and one line in one of these tables. One solver serves all losses without a closed form. `SquaredHinge` and
its subclasses have a faster one, which does not call `evaluate` and `curvature`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator

from bochner.rows import Array, Floats
from bochner.validation import Interval

__all__ = [
    *("CLASSIFICATION_LOSSES", "LOSSES", "Gamma", "Huber", "LogLoss", "Loss", "Poisson", "Quantile", "SquaredError"),
    *("SquaredHinge", "best_classes", "class_signs"),
]

LARGEST_LOG_LOSS = float(-np.log(np.finfo(np.float64).eps))  # of a held-out row, as in scikit-learn's log_loss
LARGEST_EXPONENT = 60.0  # of curvatures, whose sums float32 holds
NORMAL = 1.4826  # standard deviations of a normal distribution per median absolute deviation


class Loss(BaseEstimator, ABC):
    r"""Base class of losses.

    A model with the scores :math:`f(x) = c \cdot z(x) + b` minimizes the mean loss per row plus
    :math:`\alpha |c|^2`. Arrays of scores have the shape (n_rows, n_problems, n_outputs): several problems, such as
    those without a fold, are evaluated at a time.

    Attributes
    ----------
    has_closed_form : bool
        Whether second moments of features and targets determine the optimum.
    penalizes_intercept : bool
        Whether the penalty contains the square of the intercept b.
    ignores_shift : bool
        Whether the same number added to all outputs of a row changes nothing.
    link : {"identity", "log"}
        The function of predictions that the scores are.
    perfect_score : float
        What mean errors on held-out rows are subtracted from.
    positive_targets : bool
        Whether scikit-learn's tags say that targets must be positive.

    Notes
    -----
    **Subclassing**

    Write `evaluate` and `curvature`. Targets of regressions have the shape (n_rows, n_targets), those of classifiers
    are positions of classes, of shape (n_rows,).

    Examples
    --------
    The logarithm of the hyperbolic cosine, which is quadratic near zero and linear far away:

    >>> import numpy as np
    >>> from bochner.losses import Loss
    >>> class LogCosh(Loss):
    ...     def evaluate(self, y, scores):
    ...         residuals = scores - y[:, None]
    ...         values = np.logaddexp(residuals, -residuals) - np.log(2)
    ...         return values.sum(axis=2), np.tanh(residuals)
    ...     def curvature(self, y, scores):
    ...         return 1 - np.tanh(scores - y[:, None]) ** 2
    >>> LogCosh().evaluate(np.zeros((1, 1)), np.ones((1, 1, 1)))[0].round(3)
    array([[0.434]])
    """

    has_closed_form: ClassVar[bool] = False
    penalizes_intercept: ClassVar[bool] = False
    ignores_shift: ClassVar[bool] = False
    link: ClassVar[str] = "identity"
    perfect_score: ClassVar[float] = 0.0
    positive_targets: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @abstractmethod
    def evaluate(self, y: Array, scores: Floats) -> tuple[Floats, Floats]:
        """Compute the losses, of shape (n_rows, n_problems), and their derivatives by the scores."""

    @abstractmethod
    def curvature(self, y: Array, scores: Array) -> Array:
        """Compute the second derivatives by the scores, of the shape and dtype of the scores."""

    def multiply(self, curvature: Array, changes: Array) -> Array:
        """Multiply changes of the scores, which may be overwritten, by the second derivatives."""
        changes *= curvature
        return changes

    def trace(self, curvature: Array) -> Array:
        """Sum the second derivatives over the outputs."""
        return np.asarray(curvature.sum(axis=2))

    def n_outputs(self, n_targets: int) -> int:
        """Return the number of outputs for a number of targets of a regression."""
        return n_targets

    def check_targets(self, y: Array) -> None:
        """Refuse targets outside the domain of the loss."""

    def fit(self, y: Array, weights: Floats) -> Self:
        """Measure what the loss needs to know about the targets."""
        return self

    def start(self, y: Array, weights: Floats, n_outputs: int) -> Floats:
        """Return the scores, of shape (n_outputs,), of a good constant prediction."""
        return np.zeros(n_outputs)

    def errors(self, y: Array, scores: Floats) -> Floats:
        """Compute the errors on held-out rows, of shape (n_rows, n_problems), by which penalties are chosen."""
        return self.evaluate(y, scores)[0]

    def predict(self, scores: Floats) -> Floats:
        """Turn scores, of shape (..., n_outputs), into predictions."""
        return np.exp(scores) if self.link == "log" else scores


class SquaredError(Loss):
    r"""Squared error, :math:`(y - f)^2`: ridge regression, in one pass over the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.losses import SquaredError
    >>> SquaredError().evaluate(np.array([[3.0]]), np.array([[[1.0]]]))[0]
    array([[4.]])
    """

    has_closed_form = True

    def evaluate(self, y: Array, scores: Floats) -> tuple[Floats, Floats]:
        residuals = scores - y[:, None]
        return np.square(residuals).sum(axis=2), 2.0 * residuals

    def curvature(self, y: Array, scores: Array) -> Array:
        return np.full_like(scores, 2.0)

    def start(self, y: Array, weights: Floats, n_outputs: int) -> Floats:
        return np.asarray(np.average(y, axis=0, weights=weights))


class Huber(Loss):
    r"""Huber's loss: squares of small residuals, absolute values of large ones.

    :math:`r^2` for :math:`|r| \le t` and :math:`2 t |r| - t^2` beyond, where r = y - f and t is `threshold` times the
    robust standard deviation of the targets (1.4826 times their median absolute deviation).

    Parameters
    ----------
    threshold : float, default=0.5
        Where squares end, as a multiple of the robust standard deviation of the targets.

    Attributes
    ----------
    scale_ : ndarray of shape (n_targets,)
        Robust standard deviations of the targets.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.losses import Huber
    >>> loss = Huber(threshold=1.0).fit(np.array([[-1.0], [0.0], [1.0]]), np.ones(3))
    >>> loss.evaluate(np.zeros((2, 1)), np.array([[[1.0]], [[10.0]]]))[0].ravel().round(2)
    array([ 1.  , 27.45])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"threshold": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = threshold

    def fit(self, y: Array, weights: Floats) -> Self:
        self.scale_ = _robust_deviation(y, weights)
        return self

    def evaluate(self, y: Array, scores: Floats) -> tuple[Floats, Floats]:
        residuals = scores - y[:, None]
        largest = self.threshold * self.scale_
        clipped = np.clip(residuals, -largest, largest)
        return (clipped * (2.0 * residuals - clipped)).sum(axis=2), 2.0 * clipped

    def curvature(self, y: Array, scores: Array) -> Array:
        residuals = scores - y[:, None]
        return np.asarray(2.0 * (np.abs(residuals) <= self.threshold * self.scale_), dtype=scores.dtype)

    def start(self, y: Array, weights: Floats, n_outputs: int) -> Floats:
        return _quantiles(y, weights, 0.5)


class Quantile(Loss):
    r"""Pinball loss of one or several quantiles of a target, smoothed.

    The loss of a level :math:`\tau` is :math:`s \, (\tau r + \delta \log(1 + e^{-r / \delta}))`, where r = y - f, s is
    the robust standard deviation of the targets (1.4826 times their median absolute deviation) and
    :math:`\delta` is `smoothing` times s. It tends to s times the pinball loss :math:`\max(\tau r, (\tau - 1) r)`; the
    factor s makes penalties independent of the unit of the targets. Predictions of several levels are sorted, which
    never increases their pinball loss, so that they do not cross.

    Parameters
    ----------
    levels : float or sequence of float, default=0.5
        Levels between 0 and 1. `predict` has one column per level of a sequence.
    smoothing : float, default=0.01
        Width of the smoothed corner, as a multiple of the robust standard deviation of the targets.

    Attributes
    ----------
    scale_ : ndarray of shape (1,)
        Robust standard deviation of the targets.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.losses import Quantile
    >>> loss = Quantile([0.1, 0.9]).fit(np.arange(5.0)[:, None], np.ones(5))
    >>> loss.start(np.arange(5.0)[:, None], np.ones(5), 2)
    array([0., 4.])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "levels": [Interval(Real, 0, 1, closed="neither"), "array-like"],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, levels: float | Sequence[float] = 0.5, smoothing: float = 0.01) -> None:
        self.levels = levels
        self.smoothing = smoothing

    def n_outputs(self, n_targets: int) -> int:
        if n_targets != 1:
            raise ValueError(f"Quantiles need a single target, and y has {n_targets}; fit one model per target.")
        return len(self._levels())

    def fit(self, y: Array, weights: Floats) -> Self:
        self.scale_ = _robust_deviation(y, weights)
        return self

    def evaluate(self, y: Array, scores: Floats) -> tuple[Floats, Floats]:
        levels, scale = self._levels(), self.scale_[0]
        residuals, width = y[:, None] - scores, self.smoothing * scale
        values = levels * residuals - width * log_expit(residuals / width)
        return scale * values.sum(axis=2), scale * (expit(-residuals / width) - levels)

    def curvature(self, y: Array, scores: Array) -> Array:
        share = expit((y[:, None] - scores) / (self.smoothing * self.scale_[0]))
        return np.asarray(share * (1.0 - share) / self.smoothing, dtype=scores.dtype)

    def start(self, y: Array, weights: Floats, n_outputs: int) -> Floats:
        return np.concatenate([_quantiles(y, weights, level) for level in self._levels().tolist()])

    def errors(self, y: Array, scores: Floats) -> Floats:
        levels, residuals = self._levels(), y[:, None] - self.predict(scores)
        return np.asarray(np.maximum(levels * residuals, (levels - 1.0) * residuals).sum(axis=2))

    def predict(self, scores: Floats) -> Floats:
        ranks = np.argsort(np.argsort(self._levels()))
        return np.sort(scores, axis=-1)[..., ranks]

    def _levels(self) -> Floats:
        levels = np.atleast_1d(np.asarray(self.levels, dtype=np.float64))
        if levels.ndim != 1 or not len(levels) or not ((levels > 0.0) & (levels < 1.0)).all():
            raise ValueError(f"`levels` must be numbers between 0 and 1. Got {self.levels!r} instead.")
        return levels


class _LogLink(Loss):
    """Losses of positive targets, whose scores are logarithms of means."""

    link = "log"
    positive_targets = True

    def start(self, y: Array, weights: Floats, n_outputs: int) -> Floats:
        means = np.average(y, axis=0, weights=weights)
        return np.asarray(np.log(np.maximum(means, np.finfo(np.float64).tiny)))


class Poisson(_LogLink):
    r"""Half the deviance of the Poisson distribution with the mean :math:`e^f`, for counts and rates.

    :math:`e^f - y f` and terms that do not depend on f, as in scikit-learn's `PoissonRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.losses import Poisson
    >>> Poisson().evaluate(np.array([[1.0]]), np.array([[[0.0]]]))[0]
    array([[0.]])
    """

    def check_targets(self, y: Array) -> None:
        if (y < 0.0).any():
            raise ValueError(f"The loss 'poisson' needs targets of at least 0, and y contains {y.min():g}.")

    def evaluate(self, y: Array, scores: Floats) -> tuple[Floats, Floats]:
        y = y[:, None]
        logarithms = np.log(np.where(y > 0.0, y, 1.0))
        with np.errstate(over="ignore", invalid="ignore"):
            changes = scores - logarithms  # small ones keep their digits
            slopes = np.where(y > 0.0, y * np.expm1(changes), np.exp(scores))
            return (slopes - y * changes).sum(axis=2), slopes

    def curvature(self, y: Array, scores: Array) -> Array:
        return np.exp(np.minimum(scores, LARGEST_EXPONENT))


class Gamma(_LogLink):
    r"""Half the deviance of the gamma distribution with the mean :math:`e^f`, for positive, skewed targets.

    :math:`y e^{-f} + f` and terms that do not depend on f, as in scikit-learn's `GammaRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.losses import Gamma
    >>> Gamma().evaluate(np.array([[1.0]]), np.array([[[0.0]]]))[0]
    array([[0.]])
    """

    def check_targets(self, y: Array) -> None:
        if (y <= 0.0).any():
            raise ValueError(f"The loss 'gamma' needs targets above 0, and y contains {y.min():g}.")

    def evaluate(self, y: Array, scores: Floats) -> tuple[Floats, Floats]:
        changes = scores - np.log(y[:, None])  # small ones keep their digits
        with np.errstate(over="ignore"):
            slopes = -np.expm1(-changes)
            return (changes - slopes).sum(axis=2), slopes

    def curvature(self, y: Array, scores: Array) -> Array:
        return np.asarray(np.exp(np.minimum(np.log(y[:, None]) - scores, LARGEST_EXPONENT)), dtype=scores.dtype)


class SquaredHinge(Loss):
    r"""Squared hinge loss :math:`\max(0, 1 - s f)^2`, each class (s = 1) against the rest: the paper's L2-SVM.

    The intercept is penalized with the other coefficients, as in liblinear.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.losses import SquaredHinge
    >>> SquaredHinge().evaluate(np.array([1]), np.array([[[-1.0]]]))[0]
    array([[4.]])
    """

    penalizes_intercept = True
    perfect_score = 1.0

    def evaluate(self, y: Array, scores: Floats) -> tuple[Floats, Floats]:
        signs = self._signs(y, scores)
        slack = np.maximum(1.0 - signs * scores, 0.0)
        return np.square(slack).sum(axis=2), -2.0 * signs * slack

    def curvature(self, y: Array, scores: Array) -> Array:
        return np.asarray(2.0 * (self._signs(y, scores) * scores < 1.0), dtype=scores.dtype)

    def errors(self, y: Array, scores: Floats) -> Floats:
        return np.asarray(best_classes(scores) != y[:, None], dtype=np.float64)

    def _signs(self, y: Array, scores: Array) -> Array:
        return np.asarray(class_signs(y, scores.shape[2])[:, None], dtype=scores.dtype)


class LogLoss(Loss):
    r"""Log loss :math:`-\log p_y` with :math:`p \propto e^f`: logistic regression, for probabilities.

    Two classes have a single output, the score of the second class against the first.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.losses import LogLoss
    >>> LogLoss().evaluate(np.array([1]), np.zeros((1, 1, 3)))[0].round(3)
    array([[1.099]])
    """

    ignores_shift = True

    def evaluate(self, y: Array, scores: Floats) -> tuple[Floats, Floats]:
        if scores.shape[2] == 1:
            is_second = (y == 1)[:, None]
            losses = -log_expit(np.where(is_second, scores[:, :, 0], -scores[:, :, 0]))
            return losses, expit(scores) - is_second[:, :, None]
        rows = np.arange(len(y))
        own, largest = scores[rows, :, y], scores.max(axis=2)
        slopes = np.exp(scores - largest[:, :, None])
        sums = slopes.sum(axis=2)
        slopes /= sums[:, :, None]
        slopes[rows, :, y] -= 1.0
        return np.log(sums) + (largest - own), slopes

    def curvature(self, y: Array, scores: Array) -> Array:
        """Compute the probabilities, which determine the second derivatives."""
        if scores.shape[2] == 1:
            return np.asarray(expit(scores))
        probabilities = np.exp(scores - scores.max(axis=2, keepdims=True))
        probabilities /= probabilities.sum(axis=2, keepdims=True)
        return np.asarray(probabilities)

    def multiply(self, curvature: Array, changes: Array) -> Array:
        if changes.shape[2] == 1:
            changes *= curvature * (1.0 - curvature)
            return changes
        changes -= np.einsum("ijk,ijk->ij", curvature, changes)[:, :, None]
        changes *= curvature
        return changes

    def trace(self, curvature: Array) -> Array:
        return np.asarray((curvature * (1.0 - curvature)).sum(axis=2))  # 1 - sum of squares would cancel

    def start(self, y: Array, weights: Floats, n_outputs: int) -> Floats:
        shares = np.bincount(y, weights, max(2, n_outputs)) / weights.sum()
        with np.errstate(divide="ignore"):
            logarithms = np.maximum(np.log(shares), -LARGEST_LOG_LOSS)
        return np.diff(logarithms) if n_outputs == 1 else logarithms - logarithms.mean()

    def errors(self, y: Array, scores: Floats) -> Floats:
        return np.minimum(self.evaluate(y, scores)[0], LARGEST_LOG_LOSS)

    def predict_proba(self, scores: Floats) -> Floats:
        """Turn scores, of shape (n_rows, n_outputs), into probabilities of the classes."""
        return np.asarray(softmax(_of_all_classes(scores), axis=1))

    def predict_log_proba(self, scores: Floats) -> Floats:
        """Turn scores, of shape (n_rows, n_outputs), into logarithms of probabilities."""
        return np.asarray(log_softmax(_of_all_classes(scores), axis=1))


def best_classes(scores: Floats) -> Array:
    """Return the position of the class with the largest score; the second one of two if its score is positive."""
    best = scores[..., 0] > 0.0 if scores.shape[-1] == 1 else scores.argmax(axis=-1)
    return np.asarray(best, dtype=np.intp)


def _of_all_classes(scores: Floats) -> Floats:
    """Return one score per class, 0 for the first one of two."""
    return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores


def class_signs(positions: Array, n_outputs: int) -> Floats:
    """Return 1 for a row's class and -1 for the rest: one column per class, that of the second class for one output."""
    positive = np.arange(1, 2) if n_outputs == 1 else np.arange(n_outputs)
    return np.where(positions[:, None] == positive, 1.0, -1.0)


def _quantiles(y: Array, weights: Floats, level: float) -> Floats:
    """Return a weighted quantile of each target; a weight of two equals two copies of a row."""
    return np.asarray(np.quantile(y, level, axis=0, weights=weights, method="inverted_cdf"))


def _robust_deviation(y: Array, weights: Floats) -> Floats:
    """Return 1.4826 times the median absolute deviation; the standard deviation where that is zero, or one."""
    robust = NORMAL * _quantiles(np.abs(y - _quantiles(y, weights, 0.5)), weights, 0.5)
    plain = np.sqrt(np.average(np.square(y - np.average(y, axis=0, weights=weights)), axis=0, weights=weights))
    return np.where(robust > 0.0, robust, np.where(plain > 0.0, plain, 1.0))


LOSSES: dict[str, type[Loss]] = {
    "squared_error": SquaredError,
    "huber": Huber,
    "quantile": Quantile,
    "poisson": Poisson,
    "gamma": Gamma,
}
CLASSIFICATION_LOSSES: dict[str, type[Loss]] = {
    "squared_error": SquaredError,
    "squared_hinge": SquaredHinge,
    "log_loss": LogLoss,
}
