# SPDX-License-Identifier: BSD-3-Clause
"""`FeatureRegressor`: regression on features, with any loss."""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted

from bochner.feature_maps import FeatureMap, apply_to_features
from bochner.feature_models.feature_model import ALPHAS, FeatureModel, has_closed_form
from bochner.feature_models.folds import Choice, RoundRobin, TrainingSet
from bochner.kernels import Kernel
from bochner.losses import LOSSES, Loss
from bochner.parameters import RIDGE_EXPLANATIONS
from bochner.rows import Array, Batch, Floats, RowSource
from bochner.validation import StrOptions, available_if, fit_context, positive_values

__all__ = ["FeatureRegressor"]

MAX_TARGET = 1e120  # squares of larger targets, times weights, overflow float64; those of 1 / MAX_TARGET underflow
MAX_SINGLE_TARGET = 1e36  # predictions for float32 rows are float32
MIN_ALPHA = 1e-30  # Hessians in float32 overflow soon after
STRIDE = 2  # of so many default penalties, one is tried with a loss that needs several passes


class FeatureRegressor(MultiOutputMixin, RegressorMixin, FeatureModel):
    r"""Regression on features with any loss; the penalty is chosen by cross-validation.

    Minimizes the mean loss per row plus a penalty,
    :math:`\frac1n \sum_i w_i \, \ell(y_i, c \cdot z(x_i) + b) + \alpha |c|^2`, where n is the sum of the weights.
    Squared errors are ridge regression: one pass over the rows for all penalties and folds, and the result equals
    scikit-learn's ``Ridge(alpha * n)`` on the features in a grid search with the same folds. Other losses are minimized
    by Newton's method, for all folds at a time.

    Parameters
    ----------
    features : transformer, default=None
        The features: `LandmarkFeatures`, `FourierFeatures`, or any scikit-learn transformer, such as ``Nystroem(256)``
        or a pipeline, which is applied block by block. None means ``LandmarkFeatures(n_landmarks=512)``: of as many
        columns, landmarks had the lower test error on four of the five data sets of the benchmarks, and no higher one
        on the fifth. Fourier features are faster, and contain no rows of the data.
    loss : {"squared_error", "huber", "quantile", "poisson", "gamma"} or Loss, default="squared_error"
        The loss, by name or as a component of `bochner.losses`, such as ``Quantile([0.1, 0.5, 0.9])``. Poisson and
        gamma losses have a log link.
    alphas : sequence of float, default=None
        Candidate penalties, relative to the number of rows; None means ``numpy.logspace(-8, 4, 25)`` for squared errors
        and every second of these for other losses. Other losses try them from the middle downwards, and then upwards,
        until the mean error over the folds is above its minimum by more than two standard errors. A warning says if the
        best one is at an edge of three or more given ones, and the error still falls there.
    cv : int, splitter, iterable or None, default=5
        Cross-validation folds, as in scikit-learn. Each row must be in at most one test set, and in the training set of
        every other fold. None means generalized cross-validation for squared errors; other losses need a single
        candidate then.
    length_scale_factors : sequence of float, default=(1.0,)
        Candidate length scales, as multiples of the length scale of the features.
    kernels : sequence of str or Kernel, default=None
        Candidate kernels, as for `FourierFeatures`, each combined with every length scale; None means the kernel of the
        features.
    random_state : int, RandomState instance or None, default=None
        Seed of the features; None keeps the `random_state` of `features`.
    verbose : int, default=0
        Show progress on standard error when `verbose` > 0: a bar in a terminal (with rich), else a few lines per task.

    Attributes
    ----------
    coef_ : ndarray of shape (n_columns,) or (n_outputs, n_columns)
        Coefficients of the features.
    intercept_ : float or ndarray of shape (n_outputs,)
        The intercept.
    alpha_ : float
        The chosen penalty, relative to the number of rows.
    loss_ : Loss
        The loss, with what it has measured of the targets.
    noise_variance_ : float or ndarray of shape (n_targets,)
        Variance of the noise: the residual sum of squares divided by the residual degrees of freedom; only for squared
        errors. Sample weights count rows: a weight of two equals two copies. Weights w with
        :math:`\sum w > \sum w^2`, such as shares that sum to 1, cannot be counts and are first multiplied by
        :math:`\sum w / \sum w^2`, so that the number of rows is their effective sample size.
    features_ : transformer
        The fitted features; ``features_.kernel_`` and ``features_.length_scale_`` are the chosen ones.
    cv_errors_ : ndarray of shape (n_alphas, n_folds)
        Mean losses with the chosen features: for squared errors the mean over targets, for quantiles the pinball loss.
        With more than about a thousand columns, squared errors of penalties far from the best one have six digits.
        NaN for penalties that were not tried.
    best_score_ : float
        Mean R2 over the folds with the chosen penalty; for other losses, minus the mean error.
    length_scale_scores_ : ndarray of shape (n_length_scale_factors,)
        The best score of each length scale with the chosen kernel.
    kernel_scores_ : ndarray of shape (n_kernels,)
        The best score of each kernel; a single one if `kernels` is None.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns seen during `fit`, if they were all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import FeatureRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = FeatureRegressor(random_state=0, length_scale_factors=[1, 4]).fit(X[:300], y[:300])
    >>> round(model.score(X[300:], y[300:]), 2)
    0.51

    Quantiles, one column per level, which never cross:

    >>> from bochner import FourierFeatures
    >>> from bochner.losses import Quantile
    >>> features = FourierFeatures(n_frequencies=32)
    >>> model = FeatureRegressor(features, loss=Quantile([0.1, 0.5, 0.9]), random_state=0).fit(X[:300], y[:300])
    >>> low, middle, high = model.predict(X[300:]).T
    >>> bool((low <= middle).all() and (middle <= high).all())
    True
    """

    _default_parts: ClassVar[Mapping[str, Mapping[Any, type]]] = {**FeatureModel._default_parts, "loss": LOSSES}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FeatureModel._parameter_constraints,
        "loss": [StrOptions(LOSSES), *FeatureModel._parameter_constraints["loss"]],
        "alphas": ["array-like", None],
    }
    _explanations: ClassVar[Mapping[str, str]] = RIDGE_EXPLANATIONS
    _penalty_name = "alphas"
    _target_options: ClassVar[dict[str, bool]] = {"multi_output": True}
    _is_flat: bool
    _n_targets: int

    def __init__(
        self,
        features: Any = None,
        *,
        loss: Any = "squared_error",
        alphas: Sequence[float] | None = None,
        cv: Any = 5,
        length_scale_factors: Sequence[float] = (1.0,),
        kernels: Sequence[str | Kernel] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.loss = loss
        self.alphas = alphas
        self.cv = cv
        self.length_scale_factors = length_scale_factors
        self.kernels = kernels
        self.random_state = random_state
        self.verbose = verbose

    @available_if(has_closed_form)
    @fit_context
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from more rows; how the rows are divided into calls makes no difference.

        Row i (of all calls) is in fold i modulo `cv`. The features are those of `fit_features`, or are fitted on the
        first 8,192 rows: shuffle rows that are ordered. A call that fails or is interrupted adds no rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        FeatureRegressor
            The model, which is solved when it is used next.
        """
        return self._add_rows(X, y, sample_weight, self._learn_targets)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or Partitions
            Rows.
        return_std : bool, default=False
            Whether to return standard deviations of the predictive distribution too, for squared errors: that of a
            Bayesian linear model whose prior corresponds to the penalty, noise included.

        Returns
        -------
        y : ndarray of shape (n_samples,), (n_samples, n_targets) or (n_samples, n_levels)
            Predictions, one column per level for several quantiles; for a Dask collection a Dask array.
        std : ndarray of the same shape
            Standard deviations, if `return_std` is True.
        """
        check_is_fitted(self)
        if not return_std:
            return self._map_scores(X, partial(_predictions, self.loss_, self._scores_are_flat))
        chosen = self._ridge_choice("`return_std`")
        columns = self._apply(partial(_predict_with_std, self._feature_map, chosen), X)
        predictions, deviations = columns[:, : len(chosen.intercept)], columns[:, len(chosen.intercept) :]
        return (predictions[:, 0], deviations[:, 0]) if self._is_flat else (predictions, deviations)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Compute the share of the loss of a constant prediction that the predictions save: R2 for squared errors.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            The coefficient of determination, the mean over targets; D2 for losses other than squared errors.
        """
        rows = self._rows_to_score(X, y, sample_weight)
        columns: list[Any] = TrainingSet(rows, RoundRobin(0)).accumulate(_targets_and_weights, with_rows=False)
        targets, weights = (np.concatenate(column) for column in zip(*columns, strict=True))
        if self.loss_.has_closed_form and len(targets) < 2:
            warnings.warn("R2 is not defined for a single row.", UndefinedMetricWarning, stacklevel=2)
            return float("nan")
        constant = self.loss_.start(targets, weights, len(self._chosen().intercept))
        own, other = self._accumulate_scores(rows, partial(_losses, self.loss_, constant))
        shares = np.divide(own, other, out=(own != 0.0).astype(np.float64), where=other > 0.0)
        return float(np.mean(1.0 - shares))

    @property
    def alpha_(self) -> float:
        """The chosen penalty, relative to the number of rows."""
        return self._chosen().penalty

    @property
    def coef_(self) -> Floats:
        """Coefficients of the features."""
        coef = self._chosen().coef
        return coef[:, 0] if self._scores_are_flat else coef.T

    @property
    def intercept_(self) -> Any:
        """The intercept."""
        intercept = self._chosen().intercept
        return float(intercept[0]) if self._scores_are_flat else intercept

    @property
    def noise_variance_(self) -> Any:
        """Variance of the noise."""
        noise = self._ridge_choice("`noise_variance_`").posterior.noise
        return float(noise[0]) if self._is_flat else noise

    def _ridge_choice(self, name: str) -> Choice:
        chosen = self._chosen()
        if chosen.posterior is None:
            raise AttributeError(f"{name} needs `loss`='squared_error'. Got {self.loss!r} instead; fit quantiles.")
        return chosen

    @property
    def _scores_are_flat(self) -> bool:
        return self._is_flat and len(self._chosen().intercept) == 1

    @property
    def _n_outputs(self) -> int:
        return self._made_loss().n_outputs(self._n_targets)

    def _penalties(self, weight: float) -> Floats:
        loss = self._made_loss()
        default = ALPHAS if loss.has_closed_form else ALPHAS[::STRIDE]
        alphas = positive_values("alphas", self.alphas, default=default)
        if not loss.has_closed_form and alphas.min() < MIN_ALPHA:
            raise ValueError(
                f"`alphas` contains {alphas.min():.3g}, which is too small to solve for with `loss`={self.loss!r}; "
                f"give penalties of at least {MIN_ALPHA:g}."
            )
        return alphas

    def _columns_of_sample(self, y: Any) -> Floats:
        return target_columns(y)

    def _check_targets(self, rows: RowSource) -> RowSource:
        n_targets = target_columns(rows.target_template).shape[1]
        if getattr(self, "_n_targets", n_targets) != n_targets:
            raise ValueError(f"y has {n_targets} targets, and the model has {self._n_targets}.")
        largest = MAX_TARGET if rows.dtype == np.float64 else MAX_SINGLE_TARGET
        return rows.with_targets(partial(target_columns, largest=largest, loss=self._made_loss()))

    def _learn_targets(self, rows: RowSource) -> None:
        if not hasattr(self, "_is_flat"):  # later calls of `partial_fit` have as many targets
            self._is_flat = rows.target_template.ndim == 1
            self._n_targets = target_columns(rows.target_template).shape[1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self._made_loss().positive_targets
        return tags


def target_columns(y: Any, largest: float = MAX_TARGET, loss: Loss | None = None) -> Floats:
    """Return the targets of a regression as columns of finite numbers in the domain of the loss."""
    given = np.asarray(y)
    is_text = given.dtype.kind in "US" or (
        given.dtype.kind == "O" and any(isinstance(target, str | bytes) for target in given.ravel())
    )
    try:
        if is_text or given.dtype.kind in "mM":  # numpy would convert numeric text, dates and durations
            raise TypeError
        targets = given.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        example = f", such as {given.ravel()[0]!r:.100}" if given.size else ""
        raise ValueError(
            f"y must contain numbers for a regression. Got values of dtype {given.dtype}{example}; convert them to "
            f"numbers, or use a classifier for class labels."
        ) from None
    assert_all_finite(targets, input_name="y")
    found = float(np.abs(targets).max(initial=0.0))
    if found > largest or 0.0 < found < 1.0 / MAX_TARGET:
        raise ValueError(f"y contains values up to {found:.3g}, whose squares overflow or underflow; rescale it.")
    if loss is not None:
        loss.check_targets(targets)
    return targets if targets.ndim == 2 else targets[:, None]


def _predictions(loss: Loss, is_flat: bool, scores: Any) -> Any:
    predictions = loss.predict(scores)
    return predictions[:, 0] if is_flat else predictions


def _targets_and_weights(batch: Batch) -> list[Any]:
    return [(batch.y, batch.row_weights)]


def _losses(loss: Loss, constant: Floats, scores: Floats, batch: Batch) -> Floats:
    """Return the sums of the losses of predictions and of a constant prediction, by target for squared errors."""
    both = np.stack([scores, np.broadcast_to(constant, scores.shape)], axis=1).astype(np.float64)
    errors = np.square(both - batch.y[:, None]) if loss.has_closed_form else loss.errors(batch.y, both)[:, :, None]
    return np.tensordot(batch.row_weights, errors, 1)


def _predict_with_std(feature_map: FeatureMap, chosen: Choice, X: Any) -> Array:
    """Return predictions, then standard deviations, one column per target each."""

    def both(features: Floats) -> Floats:
        deviations = np.sqrt(chosen.posterior.variance(features))
        return np.hstack([features @ chosen.coef + chosen.intercept, deviations])

    columns = apply_to_features(feature_map, X, 2 * len(chosen.intercept), both, feature_map.n_columns)
    return columns.astype(X.dtype, copy=False)
