# SPDX-License-Identifier: BSD-3-Clause
"""Rows of array API libraries: results are in the library and on the device of the rows, and equal those of numpy."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.losses import Quantile
from bochner.rows.namespaces import namespace_of, to_numpy

X = np.random.default_rng(0).normal(size=(150, 3))
Y = np.random.default_rng(1).normal(size=(50, 3))
TARGETS = np.sin(X[:, 0]) + X[:, 2]


@pytest.fixture(scope="module")
def xp():
    return pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")


@pytest.fixture(scope="module")
def features():
    return FourierFeatures(n_frequencies=32, random_state=0).fit(X)


@pytest.fixture(scope="module")
def ridge():
    return FeatureRegressor(LandmarkFeatures(n_landmarks=32), random_state=0).fit(X, TARGETS)


@pytest.mark.parametrize(
    "rows",
    [X, X[0, 0], X.tolist(), pd.DataFrame(X), pl.DataFrame(X), sparse.csr_array(X), None, "rows.csv"],
    ids=["ndarray", "scalar", "list", "pandas", "polars", "sparse", "None", "path"],
)
def test_what_numpy_and_scikit_learn_read_has_no_namespace(rows):
    assert namespace_of(rows) is None


@pytest.mark.parametrize("device", ["CPU_DEVICE", "device1"])
def test_results_are_on_the_device_of_the_rows(xp, features, ridge, device):
    rows = xp.asarray(Y, device=xp.Device(device))
    for estimator, method in ((features, "transform"), (ridge, "predict")):
        result = getattr(estimator, method)(rows)
        assert (type(result), result.device, result.dtype) == (type(rows), rows.device, xp.float64)
        np.testing.assert_allclose(np.from_dlpack(result), getattr(estimator, method)(Y), rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss", ["poisson", Quantile(0.3), Quantile([0.9, 0.1, 0.5])], ids=repr)
def test_losses_of_regressions(xp, loss):
    model = FeatureRegressor(FourierFeatures(n_frequencies=16), loss=loss, cv=3, random_state=0)
    model.fit(X, TARGETS - TARGETS.min())
    result = model.predict(xp.asarray(Y))
    assert isinstance(result, type(xp.asarray(Y)))
    np.testing.assert_allclose(np.from_dlpack(result), model.predict(Y), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("names", [None, ["a", "b", "c"]], ids=["numbers", "text"])
def test_classifiers(xp, n_classes, names):
    labels = np.digitize(TARGETS, [0.0, 0.8][: n_classes - 1])
    labels = labels if names is None else np.array(names)[labels]
    model = FeatureClassifier(FourierFeatures(n_frequencies=16), cv=3, random_state=0, loss="log_loss").fit(X, labels)
    rows = xp.asarray(Y)
    for method in ("decision_function", "predict_proba", "predict_log_proba"):
        result, expected = getattr(model, method)(rows), getattr(model, method)(Y)
        np.testing.assert_allclose(np.from_dlpack(result), expected, rtol=1e-12, atol=1e-12)
    predicted = model.predict(rows)
    assert isinstance(predicted, type(rows)) == (names is None)  # other libraries have no text
    np.testing.assert_array_equal(to_numpy(predicted), model.predict(Y))


def test_dtypes(xp, features):
    narrow = features.transform(xp.asarray(Y, dtype=xp.float32))
    assert narrow.dtype == xp.float32
    np.testing.assert_allclose(np.from_dlpack(narrow), features.transform(Y), rtol=0, atol=1e-6)
    whole = features.transform(xp.asarray([[1, 0, 2]]))
    assert whole.dtype == xp.float64
    np.testing.assert_allclose(np.from_dlpack(whole), features.transform([[1, 0, 2]]), rtol=0, atol=1e-14)


def test_fits_and_scores_are_those_of_numpy_arrays(xp, ridge):
    own = FeatureRegressor(LandmarkFeatures(n_landmarks=32), random_state=0).fit(xp.asarray(X), xp.asarray(TARGETS))
    np.testing.assert_array_equal(own.coef_, ridge.coef_)
    assert own.score(xp.asarray(X), xp.asarray(TARGETS)) == ridge.score(X, TARGETS)
    np.testing.assert_array_equal(ridge.predict(xp.asarray(Y), return_std=True), ridge.predict(Y, return_std=True))
    np.testing.assert_array_equal(ridge.features_.exact_kernel(xp.asarray(Y)), ridge.features_.exact_kernel(Y))


class TestRefusals:
    """Bad rows get the messages that numpy arrays get."""

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            (Y[:, :2], "X has 2 features, but FourierFeatures is expecting 3"),
            (Y[0], "Expected 2D array, got 1D array"),
            (Y[:0], r"Found array with 0 sample\(s\)"),
            (np.full((2, 3), np.nan), "Input X contains NaN"),
            (np.full((2, 3), -np.inf), "Input X contains infinity"),
            (np.full((2, 3), 1e15), "cannot resolve the distances between rows"),
        ],
    )
    def test_rows(self, xp, features, rows, message):
        for X in (rows, xp.asarray(rows)):
            with pytest.raises(ValueError, match=message):
                features.transform(X)

    def test_out(self, xp, features):
        with pytest.raises(ValueError, match="`out` needs numpy arrays, and X is a Array; leave it out"):
            features.transform(xp.asarray(Y), out=np.empty((50, 64)))
