# SPDX-License-Identifier: BSD-3-Clause
"""What must not change a result: how rows are stored, their order, copies against weights, units, a second fit."""

import copy
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyarrow import parquet
from scipy import sparse
from sklearn.base import clone

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    FourierFeatures,
    LandmarkFeatures,
    RobustStandardizer,
    TableClassifier,
    TableEncoder,
    TableRegressor,
)
from tests.properties import strategies
from tests.properties.running import LANES, assert_near, for_examples, one_message

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::scipy.linalg.LinAlgWarning")
MODELS = {
    "ridge": (FeatureRegressor, "squared_error"),
    "huber": (FeatureRegressor, "huber"),
    "ridge classifier": (FeatureClassifier, "squared_error"),
    "squared hinge": (FeatureClassifier, "squared_hinge"),
    "log loss": (FeatureClassifier, "log_loss"),
}
ESTIMATORS = {"fourier": (FourierFeatures,), "landmark": (LandmarkFeatures,), **MODELS}
FEATURES = {"fourier": FourierFeatures, "landmark": LandmarkFeatures}
all_features = pytest.mark.parametrize("kind", FEATURES.values(), ids=FEATURES)


def drawn_estimators(kind, *loss):
    return strategies.models(kind, *loss) if loss else drawn_features(kind)


def drawn_features(kind, **own):
    return strategies.instances(kind, **own).map(strategies.small)


def drawn_targets(kind, n_rows):
    """Return targets of ordinary size for a model."""
    return strategies.targets(n_rows, extreme=False) if kind is FeatureRegressor else strategies.labels(n_rows)


def outputs(estimator, X):
    """Return what an estimator computes of rows, as arrays."""
    if hasattr(estimator, "predict"):
        scores = estimator.decision_function(X) if hasattr(estimator, "decision_function") else estimator.predict(X)
        return [scores, estimator.coef_, estimator.intercept_]
    return [estimator.transform(X)]


def assert_same(found, expected, X, tolerance=0.0):
    for one, other in zip(outputs(found, X), outputs(expected, X), strict=True):
        assert_near(one, other, tolerance)


def shortest_scale(estimator):
    """Return the product of the shortest length scale and the smallest factor of it, where they are numbers below 1."""
    given = [estimator.get_params().get(name) for name in ("length_scale", "features__length_scale")]
    given.append(estimator.get_params().get("length_scale_factors"))
    shortest = [np.min(value) for value in given if isinstance(value, float | list | np.ndarray)]
    return np.prod(np.minimum(shortest, 1.0))


def fit_or_refuse(estimator, *arguments):
    """Return the fitted estimator; None if validation refuses its parameters or data."""
    with one_message():
        return estimator.fit(*arguments)


@LANES
@pytest.mark.parametrize("kind", [*ESTIMATORS.values(), (RobustStandardizer,)], ids=[*ESTIMATORS, "standardizer"])
def test_second_fit_and_copies_are_equal_to_the_bit(kind, n_examples):
    @for_examples(n_examples, drawn_estimators(*kind), strategies.rows(min_rows=6), st.data())
    def check(estimator, X, data):
        y = data.draw(drawn_targets(kind[0], len(X)))
        estimator.set_params(**{name: 0 for name in estimator.get_params() if name.endswith("random_state")})
        if fit_or_refuse(estimator, X, y) is None:
            return
        expected = [np.array(array) for array in outputs(estimator, X)]
        copies = [pickle.loads(pickle.dumps(estimator)), copy.deepcopy(estimator), clone(estimator).fit(X, y)]
        for found in [*copies, estimator.fit(X, y)]:
            for one, other in zip(outputs(found, X), expected, strict=True):
                np.testing.assert_array_equal(one, other)


@LANES
@pytest.mark.parametrize("kind", ESTIMATORS.values(), ids=ESTIMATORS)
def test_rows_in_other_containers(kind, n_examples, tmp_path):
    da = pytest.importorskip("dask.array")
    dask = pytest.importorskip("dask")

    @for_examples(n_examples, drawn_estimators(*kind), strategies.rows(min_rows=6), st.data())
    def check(estimator, X, data):
        y = data.draw(drawn_targets(kind[0], len(X)))
        estimator.set_params(**{name: 0 for name in estimator.get_params() if name.endswith("random_state")})
        expected = fit_or_refuse(estimator, X, y)
        if expected is None:
            return
        np.save(tmp_path / "X.npy", X)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        assert_same(clone(estimator).fit(mapped, y), expected, X)
        assert_near(outputs(expected, mapped)[0], outputs(expected, X)[0], 0.0)
        rows = sparse.csr_array(X)
        # Products are summed in another order; their rounding errors grow with one over the length scale.
        assert_near(outputs(expected, rows)[0], outputs(expected, X)[0], max(1e-9, 1e-15 / shortest_scale(estimator)))
        first = data.draw(st.integers(1, len(X) - 1))
        chunks = (first, len(X) - first)
        with dask.config.set(scheduler="synchronous"):
            lazy = da.from_array(X, chunks=(chunks, X.shape[1]))
            assert_near(outputs(expected, lazy)[0].compute(), outputs(expected, X)[0], 1e-9)


@LANES
@all_features
def test_transform_of_blocks_is_that_of_all_rows(kind, n_examples):
    @for_examples(n_examples, drawn_features(kind), strategies.rows(min_rows=4), st.data())
    def check(features, X, data):
        y = data.draw(drawn_targets(FeatureRegressor, len(X)))
        if fit_or_refuse(features, X, y) is None:
            return
        whole = features.transform(X)
        bound = data.draw(st.integers(1, len(X) - 1))
        assert_near(np.vstack([features.transform(X[:bound]), features.transform(X[bound:])]), whole, 1e-9)
        order = data.draw(st.permutations(range(len(X))))
        assert_near(features.transform(X[order]), whole[order], 1e-9)


@LANES
@all_features
def test_order_of_rows_and_copies_against_weights(kind, n_examples):
    """Length scales that are learned from targets use folds, which depend on the order of rows."""
    own = {"length_scale": st.sampled_from(["median", "scale", 2.0])}

    @for_examples(n_examples, drawn_features(kind, **own), strategies.rows(min_rows=4), st.data())
    def check(features, X, data):
        counts = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(X), max_size=len(X))))
        features.set_params(random_state=0)
        if fit_or_refuse(features, X, None, counts) is None:
            return
        expected = features.transform(X)
        order = data.draw(st.permutations(range(len(X))))
        assert_near(clone(features).fit(X[order], None, counts[order]).transform(X), expected, 1e-9)
        assert_near(clone(features).fit(np.repeat(X, counts, axis=0)).transform(X), expected, 1e-9)


@LANES
def test_ridge_with_weights_is_ridge_with_copies(n_examples):
    penalties = st.floats(1e-6, 1e3).map(lambda alpha: [alpha])

    @for_examples(n_examples, penalties, strategies.rows(min_rows=4), st.data())
    def check(alphas, X, data):
        y = data.draw(drawn_targets(FeatureRegressor, len(X)))
        counts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X))))
        model = FeatureRegressor(strategies.FEW, alphas=alphas, cv=None, random_state=0)
        if not counts.any() or fit_or_refuse(model, X, y, counts) is None:
            return
        repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts, axis=0))
        scale = np.abs(y).max(initial=1.0)
        np.testing.assert_allclose(repeated.predict(X), model.predict(X), rtol=0, atol=1e-7 * scale)


@LANES
@all_features
def test_units_of_columns_together_with_length_scales(kind, n_examples):
    """Units are powers of two, so that nothing is rounded; one for all columns, which keeps the order of samples."""
    lengths = st.floats(0.5, 5.0) | st.lists(st.floats(0.5, 5.0), min_size=4, max_size=4).map(np.array)

    @for_examples(n_examples, drawn_features(kind), strategies.rows(), lengths, st.integers(-30, 30))
    def check(features, X, lengths, power):
        lengths = lengths[: X.shape[1]] if np.ndim(lengths) else lengths
        y, factor = np.arange(len(X)) % 2, 2.0**power
        features.set_params(random_state=0, length_scale=lengths)
        if fit_or_refuse(features, X, y) is None:
            return
        other = clone(features).set_params(length_scale=lengths * factor).fit(X * factor, y)
        assert_near(other.transform(X * factor), features.transform(X), 1e-9)


@LANES
def test_units_of_each_column(n_examples):
    factors = st.lists(st.integers(-30, 30).map(lambda power: 2.0**power), min_size=4, max_size=4).map(np.array)

    @for_examples(n_examples, strategies.parts(strategies.KERNELS), strategies.rows(), factors)
    def check(kernel, X, factors):
        factors, lengths = factors[: X.shape[1]], np.linspace(0.5, 2.0, X.shape[1])
        features = FourierFeatures(kernel, length_scale=lengths, n_frequencies=8, weighting="shrinkage", random_state=0)
        if fit_or_refuse(features, X) is None:
            return
        other = clone(features).set_params(length_scale=lengths * factors).fit(X * factors)
        assert_near(other.transform(X * factors), features.transform(X), 1e-9)


@LANES
@all_features
def test_float32_is_near_float64(kind, n_examples):
    own = {"length_scale": st.floats(0.5, 5.0), "n_components": st.none()}
    if kind is FourierFeatures:
        own |= {
            "weighting": st.sampled_from(["uniform", "shrinkage"]),
            "refine": st.just(0),
            "n_frequencies": st.just(8),
        }
    else:
        own |= {"landmarks": st.just("uniform"), "n_landmarks": st.just(4)}

    @for_examples(n_examples, drawn_features(kind, **own), strategies.rows())
    def check(features, X):
        features.set_params(random_state=0)
        if fit_or_refuse(features, X) is None:
            return
        double, single = features.approximate_kernel(X), clone(features).fit(X.astype(np.float32)).approximate_kernel(X)
        assert single.dtype == np.float32
        # The penalty of the matrix of landmarks, one of a grid, can be another one, which moves a few values further.
        differences = np.abs(single - double)
        assert (differences.max() if kind is FourierFeatures else differences.mean()) < 2e-3


@LANES
def test_tables_in_memory_and_in_files(n_examples, tmp_path):
    @for_examples(n_examples, strategies.tables())
    def check(table):
        parquet.write_table(table, tmp_path / "t.parquet")
        encoder = TableEncoder(random_state=0)
        if fit_or_refuse(encoder, table) is not None:
            from_file = clone(encoder).fit(tmp_path / "t.parquet")
            np.testing.assert_array_equal(from_file.transform(table), encoder.transform(tmp_path / "t.parquet"))
            np.testing.assert_array_equal(
                pickle.loads(pickle.dumps(encoder)).transform(table), encoder.transform(table)
            )
            parts = [encoder.transform(part) for part in (table[:2], table[2:])]
            np.testing.assert_array_equal(np.concatenate(parts), encoder.transform(table))
        model = TableClassifier(FeatureClassifier(strategies.FEW, random_state=0, loss="squared_error"))
        if pa.types.is_floating(table["y"].type):
            model = TableRegressor(FeatureRegressor(strategies.FEW, random_state=0))
        model.set_params(random_state=0)
        if fit_or_refuse(model, table, "y") is not None:
            from_file = clone(model).fit(tmp_path / "t.parquet", "y")
            np.testing.assert_array_equal(from_file.predict(table), model.predict(tmp_path / "t.parquet"))
            np.testing.assert_array_equal(copy.deepcopy(model).predict(table), model.predict(table))
