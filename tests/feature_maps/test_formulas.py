# SPDX-License-Identifier: BSD-3-Clause
"""Formulas compared with the compiled maps, with numpy as the library; torch modules have tests of their own."""

from functools import partial

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    FourierFeatures,
    LandmarkFeatures,
)
from bochner.feature_maps.formulas import formulas_of
from bochner.kernels import KERNELS, Gaussian, Matern
from bochner.rows import Metric

X = np.random.default_rng(0).normal(size=(150, 3)) * [1.0, 5.0, 0.2] + 3.0
Y = np.random.default_rng(1).normal(size=(50, 3)) * [1.0, 5.0, 0.2] + 3.0
TARGETS = np.sin(X[:, 0]) + X[:, 2]
METRICS = {
    "directions": Metric(np.array([[0.5, 0.1, 1.0], [0.0, 0.2, -2.0]])),
    "diagonal": Metric(np.array([[0.5, 0.1, 1.0]]), diagonal=np.array([1.0, 0.2, 3.0])),
}


def by_formulas(estimator, rows):
    for formula in formulas_of(estimator):
        rows = formula(rows, formula.arrays, np)
    return rows


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", [FourierFeatures, LandmarkFeatures])
@pytest.mark.parametrize("length_scale", ["median", [1.0, 3.0, 0.5]], ids=["one length scale", "one per column"])
def test_kernels(kind, kernel, length_scale):
    size = {"n_frequencies": 20} if kind is FourierFeatures else {"n_landmarks": 20}
    features = kind(kernel, length_scale=length_scale, random_state=0, **size).fit(X)
    np.testing.assert_allclose(by_formulas(features, Y), features.transform(Y), rtol=0, atol=1e-12)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 3.5, 9.5, 19.5])
def test_matern_kernels(nu):
    features = LandmarkFeatures(Matern(nu), n_landmarks=10, random_state=0).fit(X)
    np.testing.assert_allclose(by_formulas(features, Y), features.transform(Y), rtol=0, atol=1e-12)


def test_exponential_kernel_is_one_at_a_landmark():
    # The compiled map has the root of a rounding error there.
    features = LandmarkFeatures("exponential", n_landmarks=10, landmarks="uniform", random_state=0).fit(X)
    columns = by_formulas(features, features.landmarks_) @ np.linalg.pinv(features.whitening_)
    np.testing.assert_allclose(np.diag(columns), 1.0, rtol=0, atol=1e-13)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())
@pytest.mark.parametrize("kind", [FourierFeatures, LandmarkFeatures])
def test_metrics(kind, metric):
    size = {"n_frequencies": 20} if kind is FourierFeatures else {"n_landmarks": 20}
    features = kind(length_scale=metric, random_state=0, **size).fit(X)
    assert "length_scales" not in formulas_of(features)[0].arrays
    np.testing.assert_allclose(by_formulas(features, Y), features.transform(Y), rtol=0, atol=1e-12)


def test_compressed_features():
    features = FourierFeatures(n_frequencies=32, weighting="matrix", n_components=10, random_state=0).fit(X)
    np.testing.assert_allclose(by_formulas(features, Y), features.transform(Y), rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"with_mean": False}, {"with_std": False}])
def test_pipelines(options):
    features = make_pipeline(StandardScaler(**options), "passthrough", FourierFeatures(random_state=0)).fit(X)
    np.testing.assert_allclose(by_formulas(features, Y), features.transform(Y), rtol=0, atol=1e-12)


@pytest.mark.parametrize("features", [FourierFeatures(n_frequencies=32), LandmarkFeatures(n_landmarks=16)], ids=repr)
def test_linear_models(features):
    # A whitening matrix and coefficients multiply rounding errors by their norms.
    ridge = FeatureRegressor(make_pipeline(StandardScaler(), features), random_state=0).fit(X, TARGETS)
    np.testing.assert_allclose(by_formulas(ridge, Y)[:, 0], ridge.predict(Y), rtol=0, atol=1e-11)
    for kind in (
        partial(FeatureClassifier, loss="squared_error"),
        FeatureClassifier,
        partial(FeatureClassifier, loss="log_loss"),
    ):
        model = kind(features, cv=3, random_state=0).fit(X, np.digitize(TARGETS, [2.5, 3.5]))
        np.testing.assert_allclose(by_formulas(model, Y), model.decision_function(Y), rtol=1e-11, atol=1e-11)


class TestRefusals:
    """What has no formula is refused with the remedy."""

    def test_function_as_kernel(self):
        features = LandmarkFeatures(chi2_kernel, n_landmarks=5, random_state=0).fit(np.abs(X))
        with pytest.raises(ValueError, match="is a function of numpy arrays"):
            formulas_of(features)

    def test_kernel_of_a_user(self):
        class Own(Gaussian):
            pass

        with pytest.raises(ValueError, match=r"The kernel Own\(\) is a function of numpy arrays"):
            formulas_of(LandmarkFeatures(Own(), n_landmarks=5, random_state=0).fit(X))

    def test_bessel_functions(self):
        features = LandmarkFeatures(Matern(0.7), n_landmarks=5, random_state=0).fit(X)
        with pytest.raises(ValueError, match=r"Matern\(nu=0.7\) needs Bessel functions"):
            formulas_of(features)

    def test_other_transformers(self):
        model = FeatureRegressor(Nystroem(n_components=5), random_state=0).fit(X, TARGETS)
        with pytest.raises(ValueError, match="Nystroem has no formula for torch"):
            formulas_of(model)
