# SPDX-License-Identifier: BSD-3-Clause
"""Gradient outer products, compared with differences of the values of models."""

import numpy as np
import pytest
from scipy import sparse

from bochner import FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.feature_maps import FourierMap, ProductMap, kernel_columns
from bochner.kernels import (
    KERNELS,
    Cauchy,
    Exponential,
    Gaussian,
    IsotropicKernel,
    Kernel,
    Laplacian,
    Matern,
    RationalQuadratic,
)
from bochner.rows import LengthScales, Metric, Unscaled, make_scaling
from tests.conftest import KERNEL_SAMPLER_PAIRS

# Every kernel with one sampler and every sampler with one kernel; the other pairs are in the slow lane.
PAIRS = [
    pytest.param(kernel, sampler, marks=[] if kernel == "gaussian" or sampler == "halton" else pytest.mark.slow)
    for kernel, sampler in KERNEL_SAMPLER_PAIRS
]
ALL_KERNELS = [
    Gaussian(),
    Laplacian(),
    Cauchy(),
    Exponential(),
    *(Matern(nu=nu) for nu in (0.5, 0.7, 1.0, 1.5, 2.5, 3.2, 20.0)),
    RationalQuadratic(),
    RationalQuadratic(alpha=0.3),
]
METRICS = {
    "one length scale": 2.0,
    "one per column": np.array([0.7, 1.5, 3.0]),
    "metric": Metric(np.array([[1.0, 0.4, 0.0], [-0.3, 0.5, 0.2], [0.1, 0.0, 0.3]])),
    "metric of two directions": Metric(np.array([[0.6, -0.4, 0.2], [0.2, 0.5, 1.0]])),
}


def gradient_outer_product(feature_map, X, coef, weights=None):
    """Return the average gradient outer product of linear functions of features."""
    gradients, weights = feature_map.gradients(X, coef), np.ones(X.shape[0]) if weights is None else weights
    return np.einsum("njk,nik,n->ji", gradients, gradients, weights) / weights.sum()


def numerical_gradients(function, X, step):
    """Return sixth-order differences of functions of the rows, of shape (n_rows, n_features, n_functions)."""
    coefficients = {1: 45.0, 2: -9.0, 3: 1.0}

    def derivative(direction):
        differences = {k: function(X + k * step * direction) - function(X - k * step * direction) for k in (1, 2, 3)}
        return sum(coefficients[k] * differences[k] for k in (1, 2, 3)) / (60.0 * step)

    return np.stack([derivative(direction).reshape(len(X), -1) for direction in np.eye(X.shape[1])], axis=1)


def mean_outer_product(gradients, weights=None):
    return np.einsum("i,ijk,ilk->jl", np.ones(len(gradients)) if weights is None else weights, gradients, gradients) / (
        len(gradients) if weights is None else weights.sum()
    )


def assert_equal(found, expected, rtol=1e-8):
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


def shortest_step(frequencies):
    """Return a step over which the fastest wave changes little, and whose differences keep their digits."""
    return 0.02 / np.linalg.norm(frequencies, axis=1).max()


def regression(rng, n_rows=60):
    X = rng.normal(size=(n_rows, 3))
    Y = np.column_stack([np.sin(X[:, 0] + X[:, 1]), X[:, 1] * X[:, 2]])
    return X, Y, rng.uniform(0.5, 2.0, size=n_rows)


@pytest.mark.parametrize(("kernel", "sampler"), PAIRS)
def test_gradients_of_models_on_frequencies(rng, kernel, sampler):
    X, Y, weights = regression(rng)
    features = FourierFeatures(kernel, sampler=sampler, n_frequencies=16, random_state=0)
    model = FeatureRegressor(features, alphas=[0.01], cv=None).fit(X, Y, sample_weight=weights)
    step = shortest_step(model.features_.frequencies_)
    expected = mean_outer_product(numerical_gradients(model.predict, X, step), weights)
    assert_equal(gradient_outer_product(model.features_.feature_map_, X, model.coef_.T, weights), expected)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("units", METRICS.values(), ids=METRICS)
@pytest.mark.parametrize("kernel", ALL_KERNELS, ids=repr)
def test_gradients_at_landmarks_equal_differences(rng, kernel, units, container):
    X, landmarks, coef = rng.normal(size=(20, 3)), rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    X[::5, 1] = 0.0  # stored in no sparse matrix
    columns = kernel_columns(kernel, landmarks, make_scaling(units, X.shape[1]))
    # The Laplacian kernel has kinks where an entry of a row is one of a landmark.
    step = 2e-5 if isinstance(kernel, Laplacian) else 1e-3
    expected = numerical_gradients(lambda rows: columns.features(rows) @ coef, X, step)
    assert_equal(columns.gradients(container(X), coef), expected)
    weights = rng.uniform(0.5, 2.0, size=20)
    found = gradient_outer_product(columns, container(X), coef, weights)
    assert_equal(found, mean_outer_product(expected, weights))
    assert_equal(gradient_outer_product(columns, container(X), coef), mean_outer_product(expected))


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_of_models_on_landmarks(rng, name):
    X, Y, weights = regression(rng)
    model = FeatureRegressor(LandmarkFeatures(name, n_landmarks=12, random_state=0), alphas=[0.01], cv=None).fit(X, Y)
    rows = rng.normal(size=(20, 3))  # no landmarks
    assert isinstance(model.features_.feature_map_, ProductMap)
    found = gradient_outer_product(model.features_.feature_map_, rows, model.coef_.T, weights[:20])
    step = 2e-5 if name == "laplacian" else 1e-3
    assert_equal(found, mean_outer_product(numerical_gradients(model.predict, rows, step), weights[:20]), rtol=1e-7)


def test_product_with_a_matrix(rng):
    X, coef = rng.normal(size=(20, 3)), rng.normal(size=(5, 2))
    inner = FourierMap(rng.normal(size=(6, 3)), rng.uniform(size=6))
    product = ProductMap(inner, rng.normal(size=(12, 5)))
    expected = numerical_gradients(lambda rows: product.features(rows) @ coef, X, 1e-2)
    assert_equal(product.gradients(X, coef), expected)
    assert_equal(product.gradients(sparse.csr_array(X), coef), expected)


@pytest.mark.parametrize("n_landmarks", [5, 3000])
def test_rows_are_averaged_in_blocks(rng, n_landmarks):
    """A block of gradients may have more rows than a block of features."""
    X, landmarks = rng.normal(size=(519, 2)), rng.normal(size=(n_landmarks, 2))
    columns, coef = kernel_columns(Gaussian(), landmarks, LengthScales(1.0)), rng.normal(size=(n_landmarks, 1))
    rows = X if n_landmarks == 5 else X[:20]
    expected = mean_outer_product(np.vstack([columns.gradients(row[None], coef) for row in rows]))
    assert_equal(gradient_outer_product(columns, rows, coef), expected, rtol=1e-12)


def test_float32_maps_have_gradients_in_float64(rng):
    X, landmarks, coef = rng.normal(size=(20, 3)), rng.normal(size=(8, 3)), rng.normal(size=(8, 1))
    for units in METRICS.values():
        double, single = (
            kernel_columns(Gaussian(), landmarks, make_scaling(units, landmarks.shape[1]), dtype)
            for dtype in (np.float64, np.float32)
        )
        single.features(X.astype(np.float32))
        found = single.gradients(X.astype(np.float32), coef)
        assert found.dtype == np.float64
        assert_equal(found, double.gradients(X, coef), rtol=1e-6)


@pytest.mark.parametrize("kernel", ALL_KERNELS, ids=repr)
def test_gradients_are_finite_at_landmarks_and_far_away(kernel):
    landmarks = np.zeros((1, 2))
    X = np.array([[0.0, 0.0], [1e-200, 0.0], [1e-12, 1e-12], [700.0, 0.0], [1e5, 1e5]])
    gradients = kernel_columns(kernel, landmarks, LengthScales(1.0)).gradients(X, np.ones((1, 1)))
    assert np.isfinite(gradients).all()
    assert not gradients[0].any()
    np.testing.assert_allclose(gradients[-1], 0.0, atol=1e-4)


def test_own_kernels_have_central_differences(rng):
    """A step is a part of the length scale, also where other rows are far away."""

    class Own(Kernel):
        def at(self, differences):
            return Gaussian().at(differences)

        uniform_dim = frequencies = log_embedding = None

    X, landmarks, coef = rng.normal(size=(20, 3)), rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    X[0] = 1e5
    for units in METRICS.values():
        scaling = make_scaling(units, 3)
        expected = kernel_columns(Gaussian(), landmarks, scaling).gradients(X, coef)
        assert_equal(kernel_columns(Own(), landmarks, scaling).gradients(X, coef), expected)


def test_isotropic_kernels_without_slope_say_what_to_write():
    class Bump(IsotropicKernel):
        profile = None

    Bump.__abstractmethods__ = frozenset()
    with pytest.raises(NotImplementedError, match="Bump has no gradients; write its method `slope`"):
        Bump().gradient_at(np.ones((1, 2)))


def test_functions_of_rows_have_central_differences(rng):
    X, landmarks, coef = rng.normal(size=(20, 2)), rng.normal(size=(5, 2)), rng.normal(size=(5, 2))
    found = kernel_columns(lambda X, Y: Gaussian()(X, Y), landmarks, Unscaled()).gradients(X, coef)
    assert_equal(found, kernel_columns(Gaussian(), landmarks, LengthScales(1.0)).gradients(X, coef))
