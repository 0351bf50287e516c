# SPDX-License-Identifier: BSD-3-Clause
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

from bochner.feature_maps import FourierMap, add_moments, fourier_map
from bochner.rows import for_each_span


def fourier_gram(X, W, weights, matrix=None):
    """The Gram matrix of the features from their second moments."""
    feature_map = FourierMap(W, weights, matrix)
    totals = np.zeros((1, feature_map.width + 1, feature_map.width + 1))
    add_moments(totals, feature_map, X, np.empty((X.shape[0], 0)))
    return totals[0, :-1, :-1]


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
    fourier_map(X[:10], W, weights)  # the compiled loop is loaded by the first call
    tracemalloc.start()
    features = fourier_map(X, W, weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - features.nbytes < 2 * 2**20


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_bit_depends_on_the_number_of_threads(rng, dtype):
    X, W = rng.normal(size=(30_000, 8)).astype(dtype), rng.normal(size=(40, 8)).astype(dtype)
    weights = rng.random(40).astype(dtype)
    with threadpool_limits(1):
        single = fourier_map(X, W, weights), fourier_gram(X, W, weights)
    with threadpool_limits(3):
        several = fourier_map(X, W, weights), fourier_gram(X, W, weights)
    for one, many in zip(single, several, strict=True):
        assert one.tobytes() == many.tobytes()


def test_out_is_written_and_returned(rng):
    X, W, weights = rng.normal(size=(50, 4)), rng.normal(size=(6, 4)), rng.random(6)
    out = np.full((50, 12), np.nan)
    assert fourier_map(X, W, weights, out) is out
    np.testing.assert_array_equal(out, fourier_map(X, W, weights))


@pytest.mark.parametrize(
    "out",
    [
        np.empty((5, 11)),
        np.empty((5, 12), dtype=np.float32),
        np.empty((12, 5)).T,
        np.empty((5, 24))[:, ::2],
        np.broadcast_to(0.0, (5, 12)),
    ],
    ids=["shape", "dtype", "fortran", "strided", "read-only"],
)
def test_an_unfit_out_is_refused(rng, out):
    with pytest.raises(ValueError, match=r"`out` must be a writeable C-contiguous array of shape \(5, 12\)"):
        fourier_map(rng.normal(size=(5, 4)), rng.normal(size=(6, 4)), rng.random(6), out)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["dense", "sparse", "memmap"])
def test_gram_equals_the_product_of_the_features(rng, dtype, kind, tmp_path):
    X, W = rng.normal(size=(20_000, 6)).astype(dtype), rng.normal(size=(20, 6)).astype(dtype)
    X[X < 0] = 0
    weights = rng.random(20).astype(dtype)
    features = fourier_map(X, W, weights).astype(np.float64)
    if kind == "sparse":
        X = sparse.csr_array(X)
    elif kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    gram = fourier_gram(X, W, weights)
    assert gram.dtype == np.float64
    # A sparse product rounds float32 phases in another order.
    tolerance = 1e-5 if kind == "sparse" and dtype == np.float32 else 1e-12
    np.testing.assert_allclose(gram, features.T @ features, rtol=tolerance, atol=tolerance * 20_000 / 20)


def test_gram_does_not_depend_on_the_size_of_the_pieces(rng, monkeypatch):
    X, W, weights = rng.normal(size=(9000, 6)), rng.normal(size=(20, 6)), rng.random(20)
    whole = fourier_gram(X, W, weights)
    for rows in (600, 1000, 20_000):
        monkeypatch.setattr("bochner.feature_maps.fourier.SPAN_ROWS", rows)
        np.testing.assert_allclose(fourier_gram(X, W, weights), whole, rtol=1e-12, atol=1e-12 * whole.max())


def test_gram_never_holds_the_features(rng):
    X, W, weights = rng.normal(size=(100_000, 6)), rng.normal(size=(64, 6)), rng.random(64)
    fourier_gram(X[:10], W, weights)  # loads what is compiled
    with threadpool_limits(2):
        tracemalloc.start()
        fourier_gram(X, W, weights)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 8 * 2**20


def test_blas_has_its_threads_back_afterwards(rng):
    """Also when several Python threads map at once: the limit is global, and the last one out lifts it."""
    X, W, weights = rng.normal(size=(20_000, 4)), rng.normal(size=(32, 4)), rng.random(32)
    expected = fourier_map(X, W, weights)
    with threadpool_limits(2):
        with ThreadPoolExecutor(4) as pool:
            for result in pool.map(lambda _: fourier_map(X, W, weights), range(12)):
                np.testing.assert_array_equal(result, expected)
        assert {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"} == {2}


def test_an_error_in_a_thread_reaches_the_caller_and_lifts_the_limit():
    def fail(_):
        raise RuntimeError("in a thread")

    with threadpool_limits(2):
        with pytest.raises(RuntimeError, match="in a thread"):
            for_each_span(fail, 1000, 10)
        assert {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"} == {2}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_matrix_is_a_product_on_the_right(rng, dtype):
    X, W = rng.normal(size=(700, 3)).astype(dtype), rng.normal(size=(40, 3)).astype(dtype)
    weights, matrix = np.full(40, 0.025, dtype=dtype), rng.normal(size=(80, 5)).astype(dtype)
    product = fourier_map(X, W, weights) @ matrix
    mapped = fourier_map(X, W, weights, matrix=matrix)
    assert mapped.dtype == dtype
    tolerance = 50 * np.finfo(dtype).eps
    np.testing.assert_allclose(mapped, product, atol=tolerance * np.abs(product).max())
    np.testing.assert_allclose(fourier_gram(X, W, weights, matrix), product.T @ product, rtol=2000 * tolerance)
