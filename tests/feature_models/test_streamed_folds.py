# SPDX-License-Identifier: BSD-3-Clause
"""Ridge models whose moments per fold are not stored equal those whose moments are."""

import numpy as np
import pytest

import bochner.feature_models.feature_model
from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures
from bochner.feature_models.streamed_folds import stored_bytes, streamed_bytes
from tests.feature_models.examples import to_dask


@pytest.fixture
def data(rng):
    X = rng.normal(size=(1500, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=1500) + 20.0


@pytest.fixture
def streamed(monkeypatch):
    """Make every fit stream."""

    def switch():
        monkeypatch.setattr(bochner.feature_models.feature_model, "MOST_MOMENT_BYTES", 0)

    return switch


def model(**options):
    options = {"features": FourierFeatures(n_frequencies=24, random_state=0), "random_state": 0} | options
    return FeatureRegressor(**options)


def assert_equal_models(found, expected):
    penalty = "alpha_" if hasattr(expected, "alpha_") else "C_"
    assert getattr(found, penalty) == pytest.approx(getattr(expected, penalty), rel=1e-12)
    errors = expected.cv_errors_
    near = (errors <= 1.01 * errors.min(axis=0)).any(axis=1)
    np.testing.assert_allclose(found.cv_errors_[near], errors[near], rtol=1e-8)
    np.testing.assert_allclose(found.cv_errors_, errors, rtol=3e-6)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-8, atol=1e-9 * np.abs(expected.coef_).max())
    np.testing.assert_allclose(found.best_score_, expected.best_score_, rtol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_streamed_fit_equals_stored_one(data, streamed, rng, weighted, n_targets):
    X, y = data
    weights = rng.integers(0, 3, size=len(X)).astype(float) if weighted else None
    y = y if n_targets == 1 else np.column_stack([y, X[:, 2]])
    expected = model(length_scale_factors=[1.0, 2.0]).fit(X, y, sample_weight=weights)
    streamed()
    found = model(length_scale_factors=[1.0, 2.0]).fit(X, y, sample_weight=weights)
    assert not hasattr(found, "_accumulator")
    assert_equal_models(found, expected)
    np.testing.assert_allclose(found.length_scale_scores_, expected.length_scale_scores_, rtol=1e-8)
    np.testing.assert_allclose(
        found.predict(X[:9], return_std=True), expected.predict(X[:9], return_std=True), rtol=1e-8
    )


def test_classes_components_and_rows_that_are_always_trained_on(data, streamed):
    X, _ = data
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    features = FourierFeatures(n_frequencies=40, weighting="matrix", n_components=30, random_state=0)
    folds = [(np.flatnonzero(np.arange(1500) % 4 != i), np.flatnonzero(np.arange(1500) % 4 == i)) for i in range(3)]
    expected = FeatureClassifier(features, cv=folds, loss="squared_error").fit(X, y)
    streamed()
    assert_equal_models(FeatureClassifier(features, cv=folds, loss="squared_error").fit(X, y), expected)


def test_partitioned_rows(data, streamed):
    X, y = data
    streamed()
    expected, dask = model().fit(X, y), pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"):
        assert_equal_models(model().fit(*to_dask(X, y, chunks=400)), expected)


def test_bytes():
    assert stored_bytes(1000, 5, 2) == 8 * 1000**2 * (2 * 6 + 6)
    assert streamed_bytes(1000, 2) == 8 * 1000**2 * 7
