# SPDX-License-Identifier: BSD-3-Clause
"""Linear models on `LandmarkFeatures`, whose moments are those of kernel columns, whitened once."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

import bochner.feature_models.ridge
from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.feature_maps import ProductMap
from bochner.feature_models.ridge import _moment_map, _moments_of_features, moments_of_batch
from bochner.rows import Batch
from tests.feature_models.examples import CHUNKINGS, N_ROWS, assert_close, assert_same_model, make_data, to_dask

# A kernel that is not smooth keeps landmarks far from dependent; a long length scale makes them dependent to rounding.
WELL_CONDITIONED = LandmarkFeatures("matern", n_landmarks=24, random_state=0)
ILL_CONDITIONED = LandmarkFeatures(n_landmarks=24, length_scale=20.0, random_state=0)
FEATURES = {"well": WELL_CONDITIONED, "ill": ILL_CONDITIONED}
ALPHAS = np.logspace(-8, 4, 25)


@pytest.fixture
def by_row(monkeypatch):
    """Return a function that turns off the moments of kernel columns: every row is whitened."""
    return lambda: monkeypatch.setattr(bochner.feature_models.ridge, "MAX_EXTRA_COLUMNS", 0.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
class TestEqualsScikitLearn:
    """Models are the best ones on the transformed rows, to the precision of the rows."""

    def test_ridge(self, features, dtype):
        X, y = (part.astype(dtype) for part in make_data(n_rows=400))
        model = FeatureRegressor(features).fit(X[:300], y[:300])
        Z = clone(features).fit(X[:300]).transform(X).astype(np.float64)
        search = GridSearchCV(Ridge(), {"alpha": 300 * ALPHAS}, cv=5).fit(Z[:300], y[:300].astype(np.float64))
        assert model.alpha_ == pytest.approx(search.best_params_["alpha"] / 300)
        tolerance = 1e-6 if dtype == np.float64 else 1e-3
        np.testing.assert_allclose(model.predict(X), search.predict(Z), rtol=tolerance)
        assert model.best_score_ == pytest.approx(search.best_score_, rel=tolerance)
        if dtype == np.float64:
            assert_close(model.coef_, search.best_estimator_.coef_, 1e-6)

    def test_ridge_classifier(self, features, dtype):
        X, y = make_data("classes", 400)
        X = X.astype(dtype)
        model = FeatureClassifier(features, Cs=[0.5 / 0.3], loss="squared_error").fit(X[:300], y[:300])
        Z = model.features_.transform(X).astype(np.float64)
        expected = RidgeClassifier(alpha=0.3).fit(Z[:300], y[:300])
        tolerance = 1e-6 if dtype == np.float64 else 1e-3
        np.testing.assert_allclose(model.decision_function(X), expected.decision_function(Z), atol=tolerance)

    def test_support_vector_machine(self, features, dtype):
        X, y = make_data("svm", 400)
        X = X.astype(dtype)
        model = FeatureClassifier(features, Cs=[1.0], cv=None).fit(X[:300], y[:300])
        Z = model.features_.transform(X).astype(np.float64)
        expected = LinearSVC(C=1.0, dual=False, tol=1e-10, max_iter=10_000).fit(Z[:300], y[:300])
        tolerance = 1e-6 if dtype == np.float64 else 2e-3
        np.testing.assert_allclose(model.decision_function(X), expected.decision_function(Z), atol=tolerance)


def test_standard_deviations_are_those_of_transformed_rows():
    X, y = make_data(n_rows=300)
    model = FeatureRegressor(WELL_CONDITIONED, alphas=[1e-3]).fit(X, y)
    _, found = model.predict(X, return_std=True)
    transformed = FunctionTransformer(model.features_.transform)  # which is applied row by row
    expected = FeatureRegressor(transformed, alphas=[1e-3]).fit(X, y).predict(X, return_std=True)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


class TestMoments:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_moments_of_columns_whitened_once_are_those_of_whitened_rows(self, rng, by_row, dtype):
        X = rng.normal(size=(500, 4)).astype(dtype)
        batch = Batch(X, rng.normal(size=(500, 2)), rng.uniform(0.5, 2.0, size=500), np.arange(500) % 4 - 1)
        features = clone(WELL_CONDITIONED).fit(X)
        assert _moment_map(features.feature_map_)[0] is features.feature_map_.inner
        found = self.moments(features, batch)
        by_row()
        assert _moment_map(features.feature_map_) == (features.feature_map_, None)
        expected = self.moments(features, batch)
        assert np.shape(found) == np.shape(expected) == (4, 27, 27)
        np.testing.assert_array_equal(found, found.transpose(0, 2, 1))
        assert_close(found, expected, 1e-10 if dtype == np.float64 else 1e-5)
        Z = features.transform(X).astype(np.float64)
        rows = np.column_stack([Z, np.ones(500), batch.y])[batch.fold_of == 1]
        dense = (rows * batch.sample_weight[batch.fold_of == 1, None]).T @ rows
        assert_close(found[1], dense, 1e-10 if dtype == np.float64 else 1e-5)

    def moments(self, features, batch):
        moments = moments_of_batch([features.feature_map_], np.asarray, np.zeros(2), batch)
        return np.array([_moments_of_features(features, part) for part in moments.by_fold(0, 3)])

    @pytest.mark.parametrize("cv", [5, None])
    def test_models_are_the_same(self, by_row, cv):
        X, y = make_data(n_rows=600)
        model = FeatureRegressor(WELL_CONDITIONED, cv=cv).fit(X, y)
        by_row()
        assert_same_model(model, clone(model).fit(X, y), 1e-7)

    def test_columns_are_used_where_they_cost_less_and_lose_no_digits(self):
        X, _ = make_data(n_rows=300)
        for features, uses_columns in ((WELL_CONDITIONED, True), (ILL_CONDITIONED, False)):
            prepared = clone(features).fit(X).feature_map_
            assert (_moment_map(prepared)[1] is not None) == uses_columns
        fourier = FourierFeatures(n_frequencies=8, random_state=0).fit(X).feature_map_
        assert _moment_map(fourier) == (fourier, None)

    @pytest.mark.parametrize("scale", [1.0, 100.0, 200.0, 1000.0])
    def test_rounding_errors_stay_below_the_smallest_penalty(self, rng, scale):
        """A whitening of any size: moments of rows of norm 1 are those of whitened rows to a tenth of 1e-8."""
        X = rng.normal(size=(2000, 3))
        inner = clone(WELL_CONDITIONED).fit(X).feature_map_.inner
        matrix = scale * np.linalg.qr(rng.normal(size=(24, 24)))[0]
        product = ProductMap(inner, matrix)
        used, factor = _moment_map(product)
        assert (factor is not None) == (scale < 300.0)
        if factor is not None:
            columns = used.features(X)
            whitened = product.features(X)
            error = factor.T @ (columns.T @ columns) @ factor - whitened.T @ whitened
            assert np.linalg.norm(error, 2) / len(X) < 1e-9


class TestPartialFit:
    def test_division_into_calls_changes_only_rounding(self, rng):
        n_rows = 8192 + 700
        X = rng.normal(size=(n_rows, 3))
        y = np.sin(2 * X[:, 0])
        models = []
        for n_calls in (1, 5):
            model = FeatureRegressor(WELL_CONDITIONED)
            for rows in np.array_split(np.arange(n_rows), n_calls):
                model.partial_fit(X[rows], y[rows])
            models.append(model)
        np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=0, atol=1e-9 * np.abs(models[0].coef_).max())
        assert models[0].score(X, y) > 0.8

    def test_equals_fit_on_the_same_features(self):
        X, y = make_data(n_rows=600)
        features = clone(WELL_CONDITIONED).set_params(length_scale=2.0)
        expected = FeatureRegressor(features, alphas=[1e-4]).fit(X, y)
        model = FeatureRegressor(features, alphas=[1e-4]).fit_features(X, y)
        for rows in (slice(0, 250), slice(250, None)):
            model.partial_fit(X[rows], y[rows])
        assert_close(model.coef_, expected.coef_, 1e-8)
        resumed = pickle.loads(pickle.dumps(model)).partial_fit(X, y)
        assert_close(resumed.predict(X), model.partial_fit(X, y).predict(X), 1e-12)


def test_sparse_rows_equal_dense_rows(rng):
    X = sparse.random_array((400, 12), density=0.3, rng=rng, format="csr")
    y = X.toarray()[:, 0] + X.toarray()[:, 1] ** 2
    dense, from_csr = (FeatureRegressor(WELL_CONDITIONED).fit(rows, y) for rows in (X.toarray(), X))
    np.testing.assert_allclose(from_csr.predict(X), dense.predict(X.toarray()), atol=1e-6)


MODELS = {
    "ridge": FeatureRegressor(WELL_CONDITIONED, random_state=0, length_scale_factors=[0.7, 1.5]),
    "classes": FeatureClassifier(WELL_CONDITIONED, random_state=0, loss="squared_error"),
    "svm": FeatureClassifier(WELL_CONDITIONED, random_state=0, Cs=[1, 100]),
}


@pytest.mark.parametrize("name", MODELS)
def test_dask_collections_equal_rows_in_memory(name):
    dask = pytest.importorskip("dask")
    pytest.importorskip("dask.array")
    X, y = make_data(name.partition(",")[0])
    expected = clone(MODELS[name]).fit(X, y)
    rows, targets = to_dask(X, y, chunks=CHUNKINGS["uneven"])
    with dask.config.set(scheduler="synchronous"):
        model = clone(MODELS[name]).fit(rows, targets)
        np.testing.assert_allclose(model.features_.landmarks_, expected.features_.landmarks_, rtol=1e-12)
        assert_same_model(model, expected)
        assert model.score(rows, targets) == pytest.approx(expected.score(X, y), rel=1e-8)
        features = model.features_.transform(rows)
        assert features.shape == (N_ROWS, expected.features_.feature_map_.n_columns)
        assert_close(features.compute(), expected.features_.transform(X), 1e-8)
        if y.dtype.kind == "f":
            assert_close(model.predict(rows).compute(), expected.predict(X), 1e-8)
        found, known = (fitted.features_.kernel_error(X, random_state=0) for fitted in (model, expected))
        assert found.error == pytest.approx(known.error, rel=1e-6)
