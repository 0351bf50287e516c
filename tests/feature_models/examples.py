# SPDX-License-Identifier: BSD-3-Clause
"""Data, models and comparisons for tests of linear models on partitioned rows."""

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures

SMALL = FourierFeatures(n_frequencies=24)
N_ROWS = 2600  # more than the 2,000 rows up to which equal rows are merged, and no multiple of the chunks
CHUNKINGS = {
    "one": (N_ROWS,),
    "even": (650,) * 4,
    "uneven": (1, 1299, 7, 993, 300),
    "empty": (0, 1300, 0, 0, 1300, 0),
    "single rows": (1,) * 20 + (N_ROWS - 20,),
}
MODELS = {
    "ridge": FeatureRegressor(SMALL, random_state=0),
    "two targets": FeatureRegressor(SMALL, random_state=0, cv=None),
    "length scales": FeatureRegressor(SMALL, random_state=0, length_scale_factors=[0.5, 1, 2]),
    "kernels": FeatureRegressor(
        SMALL, random_state=0, length_scale_factors=[1, 2], kernels=["exponential", "gaussian"]
    ),
    "classes": FeatureClassifier(SMALL, random_state=0, loss="squared_error"),
    "weighted classes": FeatureClassifier(SMALL, random_state=0, class_weight="balanced", loss="squared_error"),
    "svm": FeatureClassifier(SMALL, random_state=0, Cs=[0.1, 10, 1000]),
    "svm with three classes": FeatureClassifier(SMALL, random_state=0, Cs=[1, 100], class_weight="balanced"),
    "logistic": FeatureClassifier(SMALL, random_state=0, Cs=[0.1, 10, 1000], loss="log_loss"),
    "logistic with three classes": FeatureClassifier(
        SMALL, random_state=0, Cs=[1, 100], class_weight="balanced", loss="log_loss"
    ),
    "svm with one C": FeatureClassifier(SMALL, random_state=0, Cs=[10], cv=None),
}


def make_data(name="ridge", n_rows=N_ROWS):
    """Return rows, and targets that suit the model of that name."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=n_rows) + 5
    if name == "two targets":
        return X, np.column_stack([y, X[:, 2] ** 2])
    if "classes" in name:
        return X, np.where(y > 5.5, "high", np.where(y < 4.6, "low", "middle"))
    return X, (y > 5).astype(int) if "svm" in name or "logistic" in name else y


@cache
def fit_in_memory(name):
    """Return the model of that name fitted on arrays; it is shared, so tests must not change it."""
    return clone(MODELS[name]).fit(*make_data(name))


def to_dask(*arrays, chunks):
    """Return Dask arrays with these chunks of rows."""
    import dask.array as da

    return [da.from_array(array, chunks=(chunks, *array.shape[1:])) for array in arrays]


def assert_close(found, expected, tolerance=1e-9):
    """Compare up to a share of the largest value, because values close to zero have no digits of their own."""
    found, expected = np.asarray(found), np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=10 * tolerance, atol=tolerance * np.abs(expected).max())


def assert_same_model(found, expected, tolerance=1e-8):
    """Compare penalties, features, coefficients and errors of two fitted models."""
    penalty = "alpha_" if hasattr(expected, "alpha_") else "C_"
    assert getattr(found, penalty) == pytest.approx(getattr(expected, penalty), rel=1e-12)
    assert found.features_.length_scale_ == pytest.approx(expected.features_.length_scale_, rel=1e-14)
    assert getattr(found.features_, "kernel", None) == getattr(expected.features_, "kernel", None)
    # The directions of a logistic regression are computed from a sample of remote rows, and paths end early.
    is_logistic = expected.loss == "log_loss"
    loose = {"cv_errors_": 1e-4, "kernel_scores_": 1e-4, "coef_": 1e-6, "intercept_": 1e-6} if is_logistic else {}
    for name in ("coef_", "intercept_", "cv_errors_", "kernel_scores_"):
        if hasattr(expected, name):
            tolerance = loose.get(name, tolerance)
            a, b = np.asarray(getattr(found, name)), np.asarray(getattr(expected, name))
            if name == "cv_errors_":  # the squared hinge loss of remote rows tries values of C in another order
                a, b = (errors[np.isfinite(a) & np.isfinite(b)] for errors in (a, b))
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.nanmax(np.abs(b)))
