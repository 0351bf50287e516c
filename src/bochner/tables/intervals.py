# SPDX-License-Identifier: BSD-3-Clause
"""Prediction intervals of a ridge regression, from its leave-one-out residuals on training rows."""

import warnings

import numpy as np
from scipy.stats import t
from sklearn.base import clone
from sklearn.model_selection import KFold

from bochner.feature_models.regressor import FeatureRegressor
from bochner.rows import Array, Floats

__all__ = ["prediction_intervals", "studentized_residuals"]

MOST_RESIDUALS = 1000  # that a model file stores
SMALLEST_SHARE = 1e-3  # of the noise that a residual of a training row can have left
ROWS_PER_FEATURE, N_FOLDS = 4, 10  # fewer rows have residuals of models that were fitted on other folds


def studentized_residuals(model: FeatureRegressor, rows: Array, targets: Floats) -> Floats:
    r"""Return the sorted residuals of rows that the model was not fitted on, relative to their standard deviations.

    Without row i, the residual is :math:`r_i / (1 - h_i)` and its predictive variance :math:`\sigma^2 / (1 - h_i)`,
    where :math:`h_i` is the leverage of the row. The ratio is the studentized residual :math:`r_i / (\sigma \sqrt{1 -
    h_i})`, so that no model is fitted again. With few rows per feature, the features depend on each row too, and models
    are fitted on other folds. Of more than `MOST_RESIDUALS`, evenly spaced ones are returned.
    """
    if rows.shape[0] < ROWS_PER_FEATURE * np.size(model.coef_):
        scaled = _held_out_residuals(model, rows, targets)
    else:
        predictions, deviations = (column.astype(np.float64) for column in model.predict(rows, return_std=True))
        noise = model.noise_variance_
        if noise == 0.0:
            return np.zeros(1)
        leverage = np.square(deviations) / noise - 1.0
        scaled = (targets - predictions) / np.sqrt(noise * np.maximum(1.0 - leverage, SMALLEST_SHARE))
    kept = np.linspace(0, len(scaled) - 1, min(len(scaled), MOST_RESIDUALS)).round().astype(np.intp)
    return np.asarray(np.sort(scaled)[kept].astype(np.float64))


def _held_out_residuals(model: FeatureRegressor, rows: Array, targets: Floats) -> Floats:
    """Return the studentized residuals of models that were fitted on the other folds."""
    scaled = np.zeros(len(targets))
    if len(targets) < 3:
        return scaled
    for train, test in KFold(min(N_FOLDS, len(targets)), shuffle=True, random_state=0).split(rows):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # those of the fit on all rows
            predictions, deviations = clone(model).fit(rows[train], targets[train]).predict(rows[test], return_std=True)
        scaled[test] = (targets[test] - predictions) / np.where(deviations > 0.0, deviations, 1.0)
    return scaled


def prediction_intervals(predictions: Floats, deviations: Floats, residuals: Floats, coverage: float) -> Floats:
    r"""Return the bounds that contain a share of the targets of new rows, of shape (n_rows, 2).

    The bounds are :math:`\hat y + q \, s`, where s is the predictive standard deviation and q the quantile of n
    studentized residuals at the ranks :math:`(n + 1) (1 \mp c) / 2`, rounded outwards. Where there are too few
    residuals for such a rank, q is at least the quantile of Student's t distribution with n - 1 degrees of freedom,
    times the root mean square of the residuals.

    Parameters
    ----------
    predictions, deviations : ndarray of shape (n_rows,)
        Predictions and their standard deviations.
    residuals : ndarray of shape (n_residuals,)
        What `studentized_residuals` has returned.
    coverage : float
        The share c, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.tables.intervals import prediction_intervals
    >>> residuals = np.linspace(-2.0, 2.0, 99)
    >>> prediction_intervals(np.array([10.0]), np.array([0.5]), residuals, 0.9).round(2)
    array([[ 9.08, 10.92]])
    """
    n = len(residuals)
    tail = 0.5 * (1.0 - coverage) * (n + 1)
    below = max(int(np.floor(tail + 1e-9)), 1)  # 5 rows of 99, although 0.5 * (1.0 - 0.9) is below 0.05
    low, high = residuals[below - 1], residuals[n - below]
    if tail < 1.0:
        spread = np.sqrt(np.square(residuals).mean()) * t.ppf(0.5 * (1.0 + coverage), max(n - 1, 1))
        low, high = min(low, -spread), max(high, spread)
    return np.column_stack([predictions + low * deviations, predictions + high * deviations])
