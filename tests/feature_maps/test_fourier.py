# SPDX-License-Identifier: BSD-3-Clause
"""The compiled map to Fourier features."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from bochner.feature_maps import FourierMap, fourier_map
from bochner.rows import LengthScales


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_are_cosines_then_sines_times_root_weights(rng, dtype):
    X, W = rng.normal(size=(700, 4)).astype(dtype), rng.normal(size=(300, 4)).astype(dtype)
    weights = rng.random(300).astype(dtype)
    phases = X.astype(np.float64) @ W.T.astype(np.float64)
    expected = np.hstack([np.cos(phases), np.sin(phases)]) * np.tile(np.sqrt(weights), 2)
    features = fourier_map(X, W, weights)
    assert features.dtype == dtype
    np.testing.assert_allclose(features, expected, atol=20 * np.finfo(dtype).eps)


def test_inner_products_are_weighted_cosines_of_differences(rng):
    X, W, weights = rng.normal(size=(20, 3)), rng.normal(size=(5, 3)), rng.random(5)
    features = fourier_map(X, W, weights)
    expected = np.cos((X[:, None] - X) @ W.T) @ weights
    np.testing.assert_allclose(features @ features.T, expected, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_equals_dense(rng, dtype):
    X = sparse.random_array((300, 40), density=0.1, rng=rng, format="csr", dtype=dtype)
    W, weights = rng.normal(size=(8, 40)).astype(dtype), rng.random(8).astype(dtype)
    features = fourier_map(X, W, weights)
    assert features.dtype == dtype
    np.testing.assert_allclose(features, fourier_map(X.toarray(), W, weights), atol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("layout", ["F", "strided", "memmap"])
def test_memory_layout_does_not_matter(rng, layout, tmp_path):
    X, W, weights = rng.normal(size=(50, 4)), rng.normal(size=(6, 4)), np.full(6, 1 / 6)
    expected = fourier_map(X, W, weights)
    if layout == "F":
        other = np.asfortranarray(X)
    elif layout == "strided":
        other = np.repeat(X, 2, axis=1)[:, ::2]
    else:
        np.save(tmp_path / "X.npy", X)
        other = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_allclose(fourier_map(other, W, weights), expected, atol=1e-14)


def test_no_temporary_of_the_size_of_the_output(rng):
    X, W, weights = rng.normal(size=(20_000, 10)), rng.normal(size=(64, 10)), np.full(64, 1 / 64)
    fourier_map(X[:10], W, weights)  # the compiled loop is loaded by the first call
    tracemalloc.start()
    features = fourier_map(X, W, weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - features.nbytes < 2 * 2**20


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_features_do_not_depend_on_the_number_of_threads(rng, dtype):
    X, W = rng.normal(size=(30_000, 8)).astype(dtype), rng.normal(size=(40, 8)).astype(dtype)
    weights = rng.random(40).astype(dtype)
    with threadpool_limits(1):
        single = fourier_map(X, W, weights)
    with threadpool_limits(3):
        several = fourier_map(X, W, weights)
    assert single.tobytes() == several.tobytes()


class TestCheckResolution:
    def test_map_checks_rows_only_with_a_length_scale(self, rng):
        W, weights = rng.normal(size=(5, 3)), rng.random(5)
        X = np.array([[0.0, 1e20, 0.0]])
        FourierMap(W, weights).check(X)
        with pytest.raises(ValueError, match=r"up to 1e\+20 in column 1, which is 5e\+19 times the length scale"):
            FourierMap(W, weights, LengthScales(2.0)).check(X)

    @pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
    def test_bound_is_a_multiple_of_the_length_scale_of_each_column(self, container):
        largest = 0.01 / np.finfo(np.float64).eps
        X = container(np.diag([largest, 100.0 * largest]))
        LengthScales(np.array([1.001, 100.1])).check(X, "FourierFeatures")
        with pytest.raises(ValueError, match="give a larger `length_scale`"):
            LengthScales(np.array([1.001, 99.0])).check(X, "FourierFeatures")

    def test_no_rows_and_tiny_length_scales_are_accepted(self):
        LengthScales(1.0).check(np.empty((0, 3)), "FourierFeatures")
        LengthScales(1e-200).check(np.full((4, 3), 1e-200), "FourierFeatures")

    @pytest.mark.parametrize(("value", "message"), [(np.nan, "contains NaN"), (-np.inf, "contains infinity")])
    def test_missing_and_infinite_values_are_refused(self, value, message):
        X = np.ones((4, 3))
        X[2, 1] = value
        with pytest.raises(ValueError, match=message):
            LengthScales(1.0).check(X, "FourierFeatures")
