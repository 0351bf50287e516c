# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from bochner import FeatureRegressor, FourierFeatures
from bochner.tables.intervals import prediction_intervals, studentized_residuals


def test_residuals_are_those_of_models_without_the_row():
    X, y = make_friedman1(70, n_features=5, random_state=0)
    features = FourierFeatures(n_frequencies=8, length_scale=2.0, random_state=0).fit(X)
    alpha = 1e-2
    fitted = FeatureRegressor(features, alphas=[alpha], cv=None, random_state=0).fit(X, y)
    Z = fitted.features_.transform(X)

    def without(row):
        kept = np.arange(len(y)) != row
        Z_kept, y_kept = Z[kept], y[kept]
        center = Z_kept.mean(axis=0)
        gram = (Z_kept - center).T @ (Z_kept - center) + alpha * len(y) * np.eye(Z.shape[1])
        coef = np.linalg.solve(gram, (Z_kept - center).T @ (y_kept - y_kept.mean()))
        leverage = (Z[row] - center) @ np.linalg.solve(gram, Z[row] - center) + 1.0 / len(y_kept)
        residual = y[row] - y_kept.mean() - (Z[row] - center) @ coef
        return residual / np.sqrt(fitted.noise_variance_ * (1.0 + leverage))

    expected = np.sort([without(row) for row in range(len(y))])
    np.testing.assert_allclose(studentized_residuals(fitted, X, y), expected, rtol=1e-8)


@pytest.mark.parametrize(("n_train", "length_scale"), [(100, "median"), (600, "median"), (2000, "learn")])
def test_intervals_contain_the_share_of_new_targets(n_train, length_scale):
    X, y = make_friedman1(n_train + 4000, n_features=8, noise=1.0, random_state=0)
    y += np.random.default_rng(0).exponential(2.0, len(y))  # skewed noise
    features = FourierFeatures(n_frequencies=64, length_scale=length_scale)
    model = FeatureRegressor(features, random_state=0).fit(X[:n_train], y[:n_train])
    residuals = studentized_residuals(model, X[:n_train], y[:n_train])
    low, high = prediction_intervals(*model.predict(X[n_train:], return_std=True), residuals, 0.9).T
    inside = (low <= y[n_train:]) & (y[n_train:] <= high)
    assert inside.mean() == pytest.approx(0.9, abs=0.05)
    assert (y[n_train:] < low).mean() == pytest.approx(0.05, abs=0.03)


@pytest.mark.parametrize("n_train", [8, 15, 29])
def test_intervals_of_few_rows_do_not_collapse(n_train):
    """The mean over 15 tables; residuals of the training rows alone cover 48 % with 8 rows."""
    inside = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n_train + 200, 2))
        y = X[:, 0] + rng.normal(size=len(X))
        model = FeatureRegressor(FourierFeatures(n_frequencies=16), random_state=seed).fit(X[:n_train], y[:n_train])
        residuals = studentized_residuals(model, X[:n_train], y[:n_train])
        low, high = prediction_intervals(*model.predict(X[n_train:], return_std=True), residuals, 0.9).T
        inside.append(((low <= y[n_train:]) & (y[n_train:] <= high)).mean())
    assert 0.82 < np.mean(inside) < 0.99


def test_stored_residuals_are_bounded():
    X, y = make_friedman1(3000, random_state=0)
    model = FeatureRegressor(FourierFeatures(n_frequencies=8), random_state=0).fit(X, y)
    residuals = studentized_residuals(model, X, y)
    assert len(residuals) == 1000
    assert (np.diff(residuals) >= 0.0).all()
