# SPDX-License-Identifier: BSD-3-Clause
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from bochner.features import fourier_map


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
def test_any_memory_layout(rng, layout, tmp_path):
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


def test_no_temporary_of_the_outputs_size(rng):
    X, W, weights = rng.normal(size=(20_000, 10)), rng.normal(size=(64, 10)), np.full(64, 1 / 64)
    tracemalloc.start()
    features = fourier_map(X, W, weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - features.nbytes < 2 * 2**20
