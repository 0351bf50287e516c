# SPDX-License-Identifier: BSD-3-Clause
"""Prediction intervals of a ridge regression, from its leave-one-out residuals on sampled training rows."""

import numpy as np

from bochner.feature_models.regressor import FeatureRegressor
from bochner.rows import Array, Floats

__all__ = ["order_statistics", "prediction_intervals", "studentized_residuals"]

MOST_RESIDUALS = 1000  # that a model file stores
SMALLEST_SHARE = 1e-3  # of the noise that a residual of a training row can have left


def studentized_residuals(model: FeatureRegressor, rows: Array, targets: Floats) -> Floats:
    r"""Return the sorted leave-one-out residuals of training rows, relative to their standard deviations.

    Without row i, the residual is :math:`r_i / (1 - h_i)` and its predictive variance :math:`\sigma^2 / (1 - h_i)`,
    where :math:`h_i` is the leverage of the row. The ratio is the studentized residual :math:`r_i / (\sigma \sqrt{1 -
    h_i})`, so that no model is fitted again.

    Parameters
    ----------
    model : FeatureRegressor
        A model that was fitted on these rows, among others.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows.
    targets : ndarray of shape (n_rows,)
        Their targets.

    Returns
    -------
    ndarray of shape (n_residuals,)
        Order statistics, at most `MOST_RESIDUALS` of them, evenly spaced.
    """
    predictions, deviations = (
        column.astype(np.float64) for column in model.without_encoding().predict(rows, return_std=True)
    )
    noise = model.noise_variance_
    if noise == 0.0:
        return np.zeros(1)
    leverage = np.square(deviations) / noise - 1.0
    scaled = (targets - predictions) / np.sqrt(noise * np.maximum(1.0 - leverage, SMALLEST_SHARE))
    return order_statistics(scaled)


def order_statistics(residuals: Floats) -> Floats:
    """Return sorted residuals, or `MOST_RESIDUALS` evenly spaced ones of them."""
    kept = np.linspace(0, len(residuals) - 1, min(len(residuals), MOST_RESIDUALS)).round().astype(np.intp)
    return np.asarray(np.sort(residuals)[kept].astype(np.float64))


def prediction_intervals(
    predictions: Floats, deviations: Floats, residuals: Floats, coverage: float
) -> tuple[Floats, Floats]:
    r"""Return the bounds that contain a share of the targets of new rows.

    The bounds are :math:`\hat y + q \, s`, where s is the predictive standard deviation and q the quantile of n
    studentized residuals at the ranks :math:`(n + 1) (1 \mp c) / 2`, rounded outwards.

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
    >>> from bochner.table_models.intervals import prediction_intervals
    >>> residuals = np.linspace(-2.0, 2.0, 99)
    >>> low, high = prediction_intervals(np.array([10.0]), np.array([0.5]), residuals, 0.9)
    >>> print(low.round(2), high.round(2))
    [9.08] [10.92]
    """
    n = len(residuals)
    tail = 0.5 * (1.0 - coverage) * (n + 1)
    # With too few residuals for the share, the outermost ones are all there is.
    below = max(int(np.floor(tail + 1e-9)), 1)  # 5 rows of 99, although 0.5 * (1.0 - 0.9) is below 0.05
    above = min(n + 1 - below, n)
    return predictions + residuals[below - 1] * deviations, predictions + residuals[above - 1] * deviations
