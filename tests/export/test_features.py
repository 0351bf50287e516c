# SPDX-License-Identifier: BSD-3-Clause
"""Exported features against `transform`."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.export import to_onnx
from bochner.kernels import Gaussian, Matern
from bochner.rows import Metric
from tests.export.sessions import DIGITS, DTYPES, LABELS, TEST, TRAIN, assert_equal_outputs, run

KERNELS = ["gaussian", "exponential", "matern", "rational_quadratic"]
ARD = np.linspace(20.0, 60.0, 64)
METRIC = Metric(np.random.default_rng(0).normal(scale=0.02, size=(20, 64)))
FEATURES = {
    "stein": FourierFeatures(n_frequencies=24),
    "landmarks": LandmarkFeatures(n_landmarks=24),
}
MORE_FEATURES = {
    **{name: FourierFeatures(weighting=name, n_frequencies=24) for name in ("uniform", "shrinkage", "quadrature")},
    "matrix": FourierFeatures(weighting="matrix", n_frequencies=72, n_components=24),
    "components": FourierFeatures(n_frequencies=24, n_components=12),
    "refined": FourierFeatures(n_frequencies=24, refine=3),
    "fourier, one length scale per column": FourierFeatures(n_frequencies=24, length_scale=ARD),
    "fourier, metric": FourierFeatures(n_frequencies=24, length_scale=METRIC),
    "landmarks, one length scale per column": LandmarkFeatures(n_landmarks=24, length_scale=ARD),
    "landmarks, metric": LandmarkFeatures(n_landmarks=24, length_scale=METRIC),
    "landmarks, pivoted": LandmarkFeatures(n_landmarks=48, landmarks="pivoted"),
}


def check_features(features, dtype, with_model=False):
    X = DIGITS.astype(dtype)
    features.set_params(random_state=0).fit(X[TRAIN], LABELS[TRAIN])
    assert_equal_outputs(to_onnx(features, X[:1]), X[TEST], features.transform(X[TEST]))
    if with_model:
        model = FeatureRegressor(features).fit(X[TRAIN], LABELS[TRAIN] / 10.0)
        assert_equal_outputs(to_onnx(model, X[:1]), X[TEST], model.predict(X[TEST]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", FEATURES)
def test_features_equal_transform(name, kernel, dtype):
    check_features(FEATURES[name].set_params(kernel=kernel), dtype)


@pytest.mark.parametrize("name", ["matrix", "landmarks, metric"])
def test_features_with_matrices_equal_transform(name):
    check_features(MORE_FEATURES[name].set_params(kernel="gaussian"), np.float64, with_model=True)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MORE_FEATURES)
def test_all_features_and_models_equal_ours(name, kernel, dtype):
    check_features(MORE_FEATURES[name].set_params(kernel=kernel), dtype, with_model=True)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("learned", ["learn", "learn-matrix"])
@pytest.mark.parametrize("name", FEATURES)
def test_learned_length_scales_and_metrics(name, learned, dtype):
    features = FEATURES[name].set_params(kernel="gaussian", length_scale=learned)
    try:
        check_features(features, dtype, with_model=True)
    finally:
        features.set_params(length_scale="median")


@pytest.mark.parametrize("kernel", ["laplacian", "cauchy"])
def test_fourier_features_of_other_kernels(kernel):
    check_features(FourierFeatures(kernel, n_frequencies=24), np.float64)


def test_structured_frequencies_equal_transform():
    check_features(FourierFeatures(sampler="sorf", n_frequencies=256), np.float64)


@pytest.mark.parametrize("nu", [0.5, 2.5, 3.5, 19.5])
def test_matern_kernels_with_a_closed_form(nu):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) * 3.0
    features = LandmarkFeatures(Matern(nu=nu), n_landmarks=12, length_scale=1.0, random_state=0).fit(X)
    assert_equal_outputs(to_onnx(features, X[:1]), X, features.transform(X), tolerance=1e-9)


def test_float32_phases_of_many_turns_keep_their_digits():
    rng = np.random.default_rng(0)
    X = (1e4 * rng.normal(size=(200, 3))).astype(np.float32)
    features = FourierFeatures(n_frequencies=16, length_scale=1.0, weighting="uniform", random_state=0).fit(X)
    phases = X.astype(np.float64) @ features.frequencies_.astype(np.float64).T
    exact = np.hstack([np.cos(phases), np.sin(phases)]) / 4.0
    assert np.abs(features.transform(X) - exact).max() > 1e-4  # phases in float32 have lost digits
    assert_equal_outputs(to_onnx(features, X[:1]), X, exact, tolerance=1e-6)


def test_rows_of_another_type_give_results_of_that_type():
    X = DIGITS[TRAIN]
    features = FourierFeatures(n_frequencies=8, random_state=0).fit(X)
    single = X[:5].astype(np.float32)
    assert_equal_outputs(to_onnx(features, single), single, features.transform(single), tolerance=1e-7)
    integers = X[:5].astype(np.int64)
    found = run(to_onnx(features, integers), integers)[0]
    np.testing.assert_allclose(found, features.transform(X[:5]), atol=1e-14)


def test_graph_needs_no_cosine():
    exported = to_onnx(FourierFeatures(n_frequencies=8).fit(DIGITS[TRAIN]), DIGITS[:1])
    assert "Cos" not in {node.op_type for node in exported.graph.node}


def test_scale_of_a_single_column_keeps_its_digits():
    # onnxruntime merges MatMul with a multiplication by one number, and rounds that number to float32.
    X = 1e3 + np.random.default_rng(0).normal(size=(100, 1)) * np.pi
    pipeline = make_pipeline(StandardScaler(), FourierFeatures(n_frequencies=8, random_state=0)).fit(X)
    assert_equal_outputs(to_onnx(pipeline, X[:1]), X, pipeline.transform(X), tolerance=1e-12)


def test_several_inputs_are_columns_of_one_matrix():
    import pandas as pd

    frame = pd.DataFrame(DIGITS[TRAIN][:, 18:21], columns=["a", "b", "c"])
    features = FourierFeatures(n_frequencies=8, random_state=0).fit(frame)
    found = run(to_onnx(features, frame[:1]), *(frame[[name]].to_numpy() for name in frame))[0]
    np.testing.assert_allclose(found, features.transform(frame), atol=1e-12)


def common(X, Y):
    return np.asarray(X) @ np.asarray(Y).T


class Steeper(Gaussian):
    """A kernel with a formula of its own."""

    def profile(self, squared_distances):
        return super().profile(2.0 * squared_distances)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            LandmarkFeatures("laplacian", n_landmarks=8),
            "Laplacian as `kernel` cannot be exported .* or FourierFeatures",
        ),
        (LandmarkFeatures(common, n_landmarks=8), "with a function or a precomputed matrix as `kernel`"),
        (LandmarkFeatures(Steeper(), n_landmarks=8), "with Steeper as `kernel` cannot be exported"),
        (LandmarkFeatures(Matern(nu=1.2), n_landmarks=8), r"Matern\(nu=1.2\) .* use nu=0.5, 1.5, 2.5"),
    ],
)
def test_kernels_without_a_formula_are_refused(features, message):
    features.fit(DIGITS[TRAIN])
    with pytest.raises(ValueError, match=message):
        to_onnx(features, DIGITS[:1])


def test_precomputed_kernel_is_refused():
    X = DIGITS[:50]
    features = LandmarkFeatures("precomputed", n_landmarks=8).fit(X @ X.T)
    with pytest.raises(ValueError, match="precomputed matrix as `kernel` cannot be exported to ONNX"):
        to_onnx(features, X[:1])
