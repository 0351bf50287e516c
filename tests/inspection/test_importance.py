# SPDX-License-Identifier: BSD-3-Clause
"""Importance of columns, compared with differences of predictions."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_friedman1
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    FourierFeatures,
    LandmarkFeatures,
    RobustStandardizer,
    TableEncoder,
    column_importance,
)
from bochner.inspection.importance import BLOCK_VALUES
from bochner.kernels import Matern

MODELS = {
    "ridge": FeatureRegressor(FourierFeatures(n_frequencies=32), random_state=0),
    "laplacian": FeatureRegressor(FourierFeatures("laplacian", n_frequencies=32), random_state=0),
    "learned": FeatureRegressor(FourierFeatures(length_scale="learn-matrix", n_frequencies=16), random_state=0),
    "matrix": FeatureRegressor(FourierFeatures(weighting="matrix", n_frequencies=32, n_components=16), random_state=0),
    "hadamard": FeatureRegressor(FourierFeatures(sampler="sorf", n_frequencies=32), random_state=0),
    "landmarks": FeatureRegressor(LandmarkFeatures(Matern(nu=2.5), n_landmarks=32), random_state=0),
    "transformer": FeatureRegressor(RBFSampler(gamma=0.2, random_state=0)),
    "ridge classes": FeatureClassifier(FourierFeatures(n_frequencies=32), random_state=0, loss="squared_error"),
    "svm": FeatureClassifier(FourierFeatures(n_frequencies=16), random_state=0),
    "logistic": FeatureClassifier(FourierFeatures(n_frequencies=16), random_state=0, loss="log_loss"),
}


def fitted(name, rng, n_rows=200):
    X = rng.normal(size=(n_rows, 3)) * [1.0, 2.0, 0.5] + [0.0, 3.0, 0.0]
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1]
    if name not in ("ridge", "laplacian", "learned", "matrix", "hadamard", "landmarks", "transformer"):
        y = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    return MODELS[name].fit(X, y), X


def scores(model, X):
    values = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    return np.asarray(values).reshape(len(X), -1)


def numerical_gradients(model, X, step=1e-5):
    directions = step * np.eye(X.shape[1])
    slopes = [(scores(model, X + e) - scores(model, X - e)) / (2.0 * step) for e in directions]
    return np.stack(slopes, axis=1)


@pytest.mark.parametrize("name", MODELS)
def test_importance_is_the_mean_squared_gradient_times_the_variance(name, rng):
    model, X = fitted(name, rng)
    expected = np.square(numerical_gradients(model, X)).sum(axis=2).mean(axis=0) * X.var(axis=0)
    found = column_importance(model, X)
    assert found.names == ["column 0", "column 1", "column 2"]
    assert found.n_rows == len(X)
    np.testing.assert_allclose(found.importance, expected, rtol=1e-6)
    np.testing.assert_allclose(found.effects, np.sqrt(expected), rtol=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_informative_columns_of_friedmans_function_come_first(seed):
    X, y = make_friedman1(1000, n_features=10, noise=1.0, random_state=seed)
    features = LandmarkFeatures(n_landmarks=128, refine=0)
    model = make_pipeline(RobustStandardizer(), FeatureRegressor(features, random_state=seed)).fit(X, y)
    found = column_importance(model, X)
    # The last two informative columns are linear: 10 x4 + 5 x5. The gradients of both are nearly constant.
    assert set(found.ranking[:5]) == {f"x{j}" for j in range(5)}
    assert found.importance[:5].min() > 2.0 * found.importance[5:].max()


@pytest.mark.parametrize("seed", range(2))
def test_prices_depend_on_age_income_and_city(seed):
    rng = np.random.default_rng(seed)
    n_rows = 800
    table = pd.DataFrame(
        {
            "noise": rng.normal(size=n_rows),
            "age": rng.uniform(18, 90, size=n_rows).round(),
            "income": np.exp(rng.normal(10, 0.7, size=n_rows)),
            "city": rng.choice(["Paris", "Lyon", "Nice"], size=n_rows),
            "more noise": rng.uniform(size=n_rows),
        }
    )
    table["price"] = 3 * table["age"] + 20 * np.log(table["income"]) + 30 * (table["city"] == "Paris")
    table["price"] += rng.normal(0, 10, size=n_rows)
    cells = table.drop(columns="price")
    model = make_pipeline(TableEncoder(), FeatureRegressor(random_state=seed)).fit(cells, table["price"])
    encoded = model[0].get_feature_names_out()
    found = column_importance(model, cells, groups=[name.partition("=")[0] for name in encoded])
    assert set(found.names) == set(cells.columns)
    assert found.ranking[:3] == ["age", "income", "city"]
    effects = dict(zip(found.names, found.effects, strict=True))
    assert effects["age"] == pytest.approx(3 * table["age"].std(), rel=0.1)
    assert effects["city"] == pytest.approx(30 * (table["city"] == "Paris").std(), rel=0.4)
    assert 14 < effects["income"] < 25  # the deviation of 20 log(income) is 14; steep slopes count more
    assert max(effects["noise"], effects["more noise"]) < 0.4 * effects["city"]


def test_groups_use_the_covariance_of_their_columns(rng):
    model, X = fitted("ridge", rng)
    gradients = numerical_gradients(model, X)[:, :, 0]
    covariance = np.cov(X[:, :2].T, ddof=0)
    found = column_importance(model, X, groups=["a", "a", "b"])
    assert found.names == ["a", "b"]
    expected = np.einsum("ij,jk,ik->i", gradients[:, :2], covariance, gradients[:, :2]).mean()
    np.testing.assert_allclose(found.importance[0], expected, rtol=1e-6)
    # Half of the mean squared difference of the linearized prediction between two rows.
    differences = X[:, None, :2] - X[None, :, :2]
    squares = np.einsum("ij,klj->ikl", gradients[:40, :2], differences) ** 2
    expected = np.einsum("ij,jk,ik->i", gradients[:40, :2], covariance, gradients[:40, :2]).mean()
    np.testing.assert_allclose(0.5 * squares.mean(), expected, rtol=1e-9)


def test_blocks_and_sparse_rows_do_not_matter(rng, monkeypatch):
    model, X = fitted("ridge", rng)
    expected = column_importance(model, X)
    np.testing.assert_allclose(column_importance(model, sparse.csr_matrix(X)).importance, expected.importance)
    monkeypatch.setattr("bochner.inspection.importance.BLOCK_VALUES", 60)
    assert X.size < BLOCK_VALUES
    np.testing.assert_allclose(column_importance(model, X).importance, expected.importance, rtol=1e-12)


def test_float32_rows(rng):
    X = rng.normal(size=(300, 3)).astype(np.float32)
    model = FeatureRegressor(FourierFeatures(n_frequencies=32), random_state=0).fit(
        X, np.sin(X[:, 0]).astype(np.float32)
    )
    double = FeatureRegressor(FourierFeatures(n_frequencies=32), random_state=0).fit(
        X.astype(np.float64), np.sin(X[:, 0])
    )
    found = column_importance(model, X).importance
    np.testing.assert_allclose(found[0], column_importance(double, X.astype(np.float64)).importance[0], rtol=1e-3)


def test_constant_columns_have_no_importance(rng):
    X = np.column_stack([rng.normal(size=100), np.full(100, 1e6)])
    model = FeatureRegressor(FourierFeatures(length_scale=np.array([1.0, 1e6]), n_frequencies=16), random_state=0)
    assert column_importance(model.fit(X, X[:, 0]), X).importance[1] == 0.0


def test_names_of_pipelines_and_frames(rng):
    frame = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    model = FeatureRegressor(FourierFeatures(n_frequencies=8), random_state=0)
    assert column_importance(model.fit(frame.to_numpy(), frame["a"]), frame.to_numpy()).names == [
        "column 0",
        "column 1",
    ]
    pipeline = make_pipeline(RobustStandardizer(), model).fit(frame, frame["a"])
    assert column_importance(pipeline, frame).ranking == ["a", "b"]


class TestErrors:
    def test_model_without_gradients(self, rng):
        features = FourierFeatures(n_frequencies=4).fit(rng.normal(size=(20, 2)))
        with pytest.raises(ValueError, match="`model` has no gradients, but is a FourierFeatures; give"):
            column_importance(features, rng.normal(size=(20, 2)))

    def test_wrong_number_of_groups(self, rng):
        model, X = fitted("ridge", rng)
        with pytest.raises(ValueError, match="`groups` has 2 names and the rows have 3 columns"):
            column_importance(model, X, groups=["a", "b"])

    def test_dask_collections_are_refused(self, rng):
        da = pytest.importorskip("dask.array")
        model, X = fitted("ridge", rng)
        with pytest.raises(ValueError, match="Gradients need rows in memory"):
            model.gradients(da.from_array(X, chunks=(50, 3)))
