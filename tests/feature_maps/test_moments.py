# SPDX-License-Identifier: BSD-3-Clause
"""Second moments of features and targets, compared with products of whole matrices."""

import tracemalloc
from collections import defaultdict

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import PolynomialFeatures
from threadpoolctl import threadpool_limits

from bochner.feature_maps import FourierMap, ProductMap, TransformerMap, add_moments


def gram(X, W, weights, matrix=None, **options):
    """Return the Gram matrix of Fourier features from their second moments."""
    fourier = FourierMap(W, weights)
    feature_map = fourier if matrix is None else ProductMap(fourier, matrix)
    totals = np.zeros((1, feature_map.n_columns + 1, feature_map.n_columns + 1))
    add_moments(totals, feature_map, X, np.empty((X.shape[0], 0)), **options)
    return totals[0, :-1, :-1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["dense", "sparse", "memmap"])
def test_gram_equals_the_product_of_the_features(rng, dtype, kind, tmp_path):
    X, W = rng.normal(size=(20_000, 6)).astype(dtype), rng.normal(size=(20, 6)).astype(dtype)
    X[X < 0] = 0
    weights = rng.random(20).astype(dtype)
    features = FourierMap(W, weights).features(X).astype(np.float64)
    if kind == "sparse":
        X = sparse.csr_array(X)
    elif kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = gram(X, W, weights)
    assert found.dtype == np.float64
    # A sparse product rounds float32 phases in another order.
    tolerance = 1e-5 if kind == "sparse" and dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, features.T @ features, rtol=tolerance, atol=tolerance * 20_000 / 20)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_matrix_multiplies_the_features(rng, dtype):
    X, W = rng.normal(size=(700, 3)).astype(dtype), rng.normal(size=(40, 3)).astype(dtype)
    weights, matrix = np.full(40, 0.025, dtype=dtype), rng.normal(size=(80, 5)).astype(dtype)
    product = FourierMap(W, weights).features(X) @ matrix
    tolerance = 1e5 * np.finfo(dtype).eps
    np.testing.assert_allclose(gram(X, W, weights, matrix), product.T @ product, rtol=tolerance)


@pytest.mark.parametrize("kind", ["Fourier", "transformer"])
def test_moments_of_folds_with_targets_and_weights(rng, kind):
    """Moments are those of [features, 1, targets], for an array of folds and for a mapping."""
    n_rows = 8700
    X, Y, weights = rng.normal(size=(n_rows, 3)), rng.normal(size=(n_rows, 2)), rng.random(n_rows)
    folds = rng.integers(0, 3, size=n_rows)
    feature_map = (
        FourierMap(rng.normal(size=(4, 3)), rng.random(4))
        if kind == "Fourier"
        else TransformerMap.probe(PolynomialFeatures().fit(X), X[:1])
    )
    a = np.column_stack([feature_map.features(X), np.ones(n_rows), Y])
    totals, by_fold = np.zeros((3, a.shape[1], a.shape[1])), defaultdict(float)
    for target in (totals, by_fold):
        add_moments(target, feature_map, X, Y, weights, folds)
    for fold in range(3):
        own = folds == fold
        expected = (a[own] * weights[own, None]).T @ a[own]
        np.testing.assert_allclose(totals[fold], expected, rtol=1e-10, atol=1e-8)
        np.testing.assert_array_equal(by_fold[fold], totals[fold])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_moments_do_not_depend_on_the_number_of_threads(rng, dtype):
    X, W = rng.normal(size=(30_000, 8)).astype(dtype), rng.normal(size=(40, 8)).astype(dtype)
    weights = rng.random(40).astype(dtype)
    with threadpool_limits(1):
        single = gram(X, W, weights)
    with threadpool_limits(3):
        several = gram(X, W, weights)
    np.testing.assert_allclose(single, several, rtol=1e-12)


def test_features_of_all_rows_are_never_held(rng):
    X, W, weights = rng.normal(size=(100_000, 6)), rng.normal(size=(64, 6)), rng.random(64)
    gram(X[:10], W, weights)  # loads what is compiled
    with threadpool_limits(2):
        tracemalloc.start()
        gram(X, W, weights)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 16 * 2**20
