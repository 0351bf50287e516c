# SPDX-License-Identifier: BSD-3-Clause
"""The interface between features and linear models, and transformers of scikit-learn behind it."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, PolynomialFeatures, StandardScaler

from bochner.feature_maps import (
    FourierMap,
    ProductMap,
    TransformerMap,
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

    def test_factors_are_the_map_and_the_matrix(self, fourier, product):
        assert product.factors() == (fourier, product.matrix)
        assert fourier.factors() == (fourier, None)

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
