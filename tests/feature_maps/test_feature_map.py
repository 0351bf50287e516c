# SPDX-License-Identifier: BSD-3-Clause
"""The interface between features and linear models, and transformers of scikit-learn behind it."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, PolynomialFeatures, StandardScaler
from threadpoolctl import threadpool_limits

from bochner.feature_maps import (
    FourierMap,
    ProductMap,
    TransformerMap,
    add_moments,
    apply_to_features,
    fourier_map,
    map_rows,
)
from bochner.feature_maps.feature_map import accepts_nan
from bochner.rows import LengthScales


@pytest.fixture(params=[np.float64, np.float32])
def fourier(request):
    rng = np.random.default_rng(0)
    return FourierMap(rng.normal(size=(6, 4)).astype(request.param), rng.random(6).astype(request.param))


@pytest.fixture
def X(rng):
    return rng.normal(size=(50, 4))


def test_features_equal_the_written_block(fourier, X):
    X = X.astype(fourier.dtype)
    out = np.empty((50, fourier.n_columns), dtype=fourier.dtype)
    fourier.write(X, out)
    np.testing.assert_array_equal(fourier.features(X), out)
    np.testing.assert_array_equal(map_rows(fourier, X), out)


def test_out_is_written_and_returned(rng, X):
    W, weights = rng.normal(size=(6, 4)), rng.random(6)
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
def test_unsuitable_out_is_refused(rng, out):
    with pytest.raises(ValueError, match=r"`out` must be a writeable C-contiguous array of shape \(5, 12\)"):
        fourier_map(rng.normal(size=(5, 4)), rng.normal(size=(6, 4)), rng.random(6), out)


def test_function_is_applied_to_blocks_of_features(fourier, rng):
    X = rng.normal(size=(30_000, 4)).astype(fourier.dtype)
    coef = rng.normal(size=(12, 3))
    shapes = set()

    def product(features):
        shapes.add(features.shape)
        assert features.dtype == np.float64
        return features @ coef

    result = apply_to_features(fourier, X, 3, product)
    np.testing.assert_allclose(result, fourier.features(X).astype(np.float64) @ coef, atol=1e-14)
    assert max(n_rows for n_rows, _ in shapes) <= fourier.block_rows < len(X)
    assert apply_to_features(fourier, X[:0], 3, product).shape == (0, 3)


class TestProductMap:
    @pytest.fixture
    def product(self, fourier, rng):
        return ProductMap(fourier, rng.normal(size=(12, 5)).astype(fourier.dtype))

    @pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
    def test_matrix_multiplies_the_features_on_the_right(self, product, rng, container):
        X = rng.normal(size=(30_000, 4)).astype(product.dtype)
        assert product.block_rows < len(X)  # several blocks in one buffer
        expected = product.inner.features(X).astype(np.float64) @ product.matrix.astype(np.float64)
        found = map_rows(product, container(X))
        assert found.dtype == product.dtype
        assert found.shape == (30_000, product.n_columns) == (30_000, 5)
        np.testing.assert_allclose(found, expected, atol=20 * np.finfo(product.dtype).eps * np.abs(expected).max())

    def test_norm_is_the_largest_singular_value(self, product):
        largest = np.linalg.svd(product.matrix.astype(np.float64), compute_uv=False)[0]
        assert product.matrix_norm == pytest.approx(largest, rel=1e-12)

    def test_rows_are_checked_by_the_other_map(self, rng):
        W, weights, matrix = rng.normal(size=(6, 4)), rng.random(6), rng.normal(size=(12, 5))
        with pytest.raises(ValueError, match="X contains NaN"):
            ProductMap(FourierMap(W, weights, LengthScales(2.0)), matrix).check(np.full((2, 4), np.nan))


class TestTransformerMap:
    @pytest.mark.parametrize(
        "transformer",
        [
            Nystroem(n_components=7, random_state=0),
            make_pipeline(StandardScaler(), PolynomialFeatures()),
            PolynomialFeatures().set_output(transform="pandas"),
            RandomTreesEmbedding(n_estimators=3, random_state=0),  # returns a sparse matrix
            KBinsDiscretizer(3, encode="onehot", quantile_method="averaged_inverted_cdf"),
            FunctionTransformer(lambda X: X > 0),
        ],
        ids=["Nystroem", "pipeline", "data frame", "trees", "bins", "booleans"],
    )
    def test_features_are_those_of_the_transformer(self, transformer, X):
        expected = transformer.fit(X).transform(X)
        expected = expected.toarray() if sparse.issparse(expected) else np.asarray(expected)
        feature_map = TransformerMap.probe(transformer, X[:1])
        assert feature_map.n_columns == expected.shape[1]
        assert feature_map.dtype == np.float64
        features = map_rows(feature_map, X)
        assert features.dtype == np.float64
        np.testing.assert_allclose(features, expected, rtol=1e-12, atol=1e-15)

    def test_rows_are_transformed_block_by_block(self, rng):
        n_rows = []

        def record(X):
            n_rows.append(len(X))
            return X

        X = rng.normal(size=(5000, 200))
        feature_map = TransformerMap.probe(FunctionTransformer(record).fit(X), X[:1])
        np.testing.assert_array_equal(map_rows(feature_map, X), X)
        assert max(n_rows) <= feature_map.block_rows < len(X)

    def test_float32_rows_give_float64_features(self, X):
        scaler = StandardScaler().fit(X.astype(np.float32))
        features = TransformerMap(scaler, 4).features(X.astype(np.float32))
        assert features.dtype == np.float64
        np.testing.assert_array_equal(features, scaler.transform(X.astype(np.float32)))

    @pytest.mark.parametrize(
        ("function", "message"),
        [(lambda X: X[:, 0], r"has shape \(1,\)"), (lambda X: X.astype(str), "dtype <U")],
        ids=["a vector", "text"],
    )
    def test_output_must_be_columns_of_numbers(self, function, message, X):
        transformer = FunctionTransformer(function).fit(X)
        with pytest.raises(ValueError, match=rf"`features`=FunctionTransformer.* must transform rows to .*{message}"):
            TransformerMap.probe(transformer, X[:1])

    def test_only_some_transformers_accept_missing_values(self, X):
        X[3, 1] = np.nan
        TransformerMap(make_pipeline(SimpleImputer(), Nystroem()), 100).check(X)
        TransformerMap(SimpleImputer(), 4).check(X)
        with pytest.raises(ValueError, match="X contains NaN"):
            TransformerMap(Nystroem(), 100).check(X)
        X[3, 1] = np.inf
        with pytest.raises(ValueError, match="X contains infinity"):
            TransformerMap(SimpleImputer(), 4).check(X)

    def test_transformers_without_tags_do_not_accept_missing_values(self):
        class Plain:
            def transform(self, X):
                return pd.DataFrame(X)

        assert not accepts_nan(Plain())
        assert TransformerMap.probe(Plain(), np.zeros((1, 3))).n_columns == 3


# Second moments of features and targets, compared with products of whole matrices


def gram(X, W, weights, matrix=None, **options):
    """Return the Gram matrix of Fourier features from their second moments."""
    fourier = FourierMap(W, weights)
    feature_map = fourier if matrix is None else ProductMap(fourier, matrix)
    totals = {}
    add_moments(totals, feature_map, X, np.empty((X.shape[0], 0)), **options)
    return totals[0][:-1, :-1]


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
    """Moments are those of [features, 1, targets], and are added to earlier ones."""
    n_rows = 8700
    X, Y, weights = rng.normal(size=(n_rows, 3)), rng.normal(size=(n_rows, 2)), rng.random(n_rows)
    folds = rng.integers(0, 3, size=n_rows)
    feature_map = (
        FourierMap(rng.normal(size=(4, 3)), rng.random(4))
        if kind == "Fourier"
        else TransformerMap.probe(PolynomialFeatures().fit(X), X[:1])
    )
    a = np.column_stack([feature_map.features(X), np.ones(n_rows), Y])
    totals, twice = {}, {}
    for target in (totals, twice, twice):
        add_moments(target, feature_map, X, Y, weights, folds)
    for fold in range(3):
        own = folds == fold
        expected = (a[own] * weights[own, None]).T @ a[own]
        np.testing.assert_allclose(totals[fold], expected, rtol=1e-10, atol=1e-8)
        np.testing.assert_allclose(twice[fold], 2 * totals[fold], rtol=1e-12, atol=1e-9)


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
