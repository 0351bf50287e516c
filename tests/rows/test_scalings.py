# SPDX-License-Identifier: BSD-3-Clause
"""Metrics are compared with their dense matrix, and features with those of rows that were mapped before."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from bochner import FourierFeatures, LandmarkFeatures
from bochner.kernels import KERNELS
from bochner.landmarks import LANDMARKS
from bochner.rows import LengthScales, Metric, TrainingRows, is_sparse, to_dense
from bochner.samplers import SAMPLERS
from bochner.weightings import WEIGHTINGS

A = np.array([[1.0, 0.4, 0.0], [-0.3, 0.5, 0.2], [0.1, 0.0, 0.3]])
METRICS = {
    "square": Metric(A),
    "fewer dimensions": Metric(A[:2]),
    "more dimensions": Metric(np.vstack([A, A[::-1] ** 2])),
}
FULL_RANK = {name: metric for name, metric in METRICS.items() if name != "fewer dimensions"}
each_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)


@each_metric
class TestMetric:
    def test_map_multiplies_by_the_matrix(self, metric, rng):
        X = rng.normal(size=(20, 3))
        np.testing.assert_allclose(metric.apply(X), X @ metric.directions.T, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(metric.apply(sparse.csr_array(X)), X @ metric.directions.T, rtol=1e-12, atol=1e-14)

    def test_pulled_back_frequencies_have_the_same_phases(self, metric, rng):
        X, W = rng.normal(size=(20, 3)), rng.normal(size=(7, metric.n_dimensions(3)))
        np.testing.assert_allclose(metric.fold(W), W @ metric.directions, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(X @ metric.fold(W).T, metric.apply(X) @ W.T, rtol=1e-10, atol=1e-12)

    def test_length_scales_are_those_of_the_columns(self, metric):
        unit = metric.apply(np.diag(metric.length_scales))
        np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1.0, rtol=1e-12)

    def test_multiple_has_longer_length_scales(self, metric):
        np.testing.assert_allclose((metric * 4.0).directions, metric.directions / 4.0, rtol=1e-15)
        np.testing.assert_allclose((metric * 4.0).length_scales, 4.0 * metric.length_scales, rtol=1e-14)

    def test_rows_at_coordinates_minimize_the_distance(self, metric, rng):
        coordinates = rng.normal(size=(5, metric.n_dimensions(3)))
        found = metric.apply(metric.invert(coordinates, float))
        best = coordinates @ np.linalg.pinv(metric.directions).T @ metric.directions.T
        np.testing.assert_allclose(found, best, rtol=1e-9, atol=1e-11)

    def test_scaled_rows_are_mapped(self, metric, rng):
        X = rng.normal(size=(20, 3)).astype(np.float32)
        rows = TrainingRows(X, scaling=metric)
        assert rows.shape == (20, metric.n_dimensions(3))
        assert rows[2:5].dtype == np.float64
        np.testing.assert_allclose(rows[2:5], X[2:5] @ metric.directions.T, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(
            to_dense(TrainingRows(sparse.csr_array(X), scaling=metric)[2:5]), rows[2:5], atol=1e-12
        )

    @pytest.mark.parametrize("duplicate", [deepcopy, lambda metric: pickle.loads(pickle.dumps(metric))])
    def test_copies(self, metric, duplicate):
        np.testing.assert_array_equal(duplicate(metric).directions, metric.directions)


@pytest.mark.parametrize("lengths", [2.0, np.array([1.0, 2.0, 4.0])])
def test_length_scales_divide_dense_and_sparse_rows_alike(rng, lengths):
    X = np.maximum(rng.normal(size=(6, 3)), 0.0).astype(np.float32)
    expected, scaling = X[[1, 4]].astype(np.float64) / lengths, LengthScales(lengths)
    rows, sparse_rows = (TrainingRows(container(X), scaling=scaling) for container in (np.asarray, sparse.csr_array))
    np.testing.assert_array_equal(rows[np.array([1, 4])], expected)
    assert is_sparse(sparse_rows[:])
    np.testing.assert_allclose(sparse_rows[np.array([1, 4])].toarray(), expected, rtol=1e-15)
    assert rows.shape == (6, 3)
    np.testing.assert_allclose(scaling.invert(expected, np.float64), X[[1, 4]], rtol=1e-15)
    np.testing.assert_allclose(X @ scaling.fold(X).T, scaling.apply(X) @ X.T, rtol=1e-6)


@pytest.mark.parametrize("metric", FULL_RANK.values(), ids=FULL_RANK)
@pytest.mark.parametrize("units", [np.ones(3), np.array([1e20, 1.0, 1e-20]), np.array([1e150, 1.0, 1e-150])])
def test_rows_are_recovered_from_coordinates_whatever_the_units(metric, units, rng):
    X = rng.normal(size=(20, 3)) * units
    metric = Metric(metric.directions / units)
    np.testing.assert_allclose(metric.invert(metric.apply(X), float) / units, X / units, rtol=1e-9, atol=1e-11)


def test_length_scales_neither_overflow_nor_underflow():
    scales = np.array([3e200, 1.0, 3e-200])
    np.testing.assert_allclose(Metric(np.diag(1.0 / scales)).length_scales, scales, rtol=1e-14)


def test_length_scales_beyond_the_largest_number_are_infinite_without_warning():
    np.testing.assert_array_equal(Metric(np.diag([1e-310, 2.0])).length_scales, [np.inf, 0.5])


def test_columns_outside_the_metric_have_infinite_length_scales(rng):
    metric = Metric(np.array([[2.0, 0.0]]))
    np.testing.assert_array_equal(metric.length_scales, [0.5, np.inf])
    np.testing.assert_allclose(metric.invert(np.array([[3.0]]), float), [[1.5, 0.0]])
    features = FourierFeatures(length_scale=metric, n_frequencies=8, random_state=0)
    X = rng.normal(size=(30, 2))
    Z = features.fit(X).transform(X)
    np.testing.assert_array_equal(features.relevance_, [1.0, 0.0])
    np.testing.assert_allclose(features.transform(X * [1.0, 1e6]), Z, atol=1e-12)


# The compiled product of `sorf` takes seconds to compile.
FOURIER_OPTIONS = [
    *({"kernel": name, "sampler": "halton"} for name in KERNELS),
    *(pytest.param({"sampler": name}, marks=pytest.mark.slow if name == "sorf" else []) for name in SAMPLERS),
    *({"weighting": name} for name in WEIGHTINGS),
    {"refine": 3},
    {"weighting": "matrix", "n_components": 6},
]
# A selection sees the kernel matrix only, so that one kernel of each kind is enough for all but the default.
KERNEL_SELECTION_PAIRS = [
    (name, landmarks)
    for name in KERNELS
    for landmarks in LANDMARKS
    if landmarks == "kmeans" or name in ("gaussian", "laplacian")
]


def assert_same_kernels(features, mapped, X, mapped_X, atol):
    """Check that features of rows agree with features of rows that were mapped by their metric."""
    np.testing.assert_allclose(features.transform(X), mapped.transform(mapped_X), rtol=0, atol=atol)
    for name in ("exact_kernel", "approximate_kernel"):
        found, expected = getattr(features, name)(X, X[:7]), getattr(mapped, name)(mapped_X, mapped_X[:7])
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol, err_msg=name)
    found, expected = (f.kernel_error(rows, random_state=0) for f, rows in ((features, X), (mapped, mapped_X)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.usefixtures("structured_sorf")
@pytest.mark.parametrize("options", FOURIER_OPTIONS, ids=str)
@pytest.mark.parametrize(
    "metric",
    [pytest.param(metric, marks=[] if name == "square" else pytest.mark.slow) for name, metric in METRICS.items()],
    ids=METRICS,
)
def test_fourier_features_are_those_of_mapped_rows(metric, options, rng):
    X = rng.normal(size=(80, 3))
    mapped_X = X @ metric.directions.T
    plain = FourierFeatures(**{"length_scale": 1.0, "n_frequencies": 8, "random_state": 0} | options)
    features = clone(plain).set_params(length_scale=metric).fit(X)
    mapped = plain.fit(mapped_X)
    np.testing.assert_allclose(features.frequencies_, mapped.frequencies_ @ metric.directions, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(features.weights_, mapped.weights_, rtol=1e-5, atol=1e-7)
    assert_same_kernels(features, mapped, X, mapped_X, 1e-6)
    csr = clone(features).fit(sparse.csr_array(X))
    np.testing.assert_allclose(csr.transform(sparse.csr_array(X)), features.transform(X), rtol=0, atol=1e-5)
    np.testing.assert_allclose(csr.exact_kernel(sparse.csr_array(X)), features.exact_kernel(X), rtol=0, atol=1e-7)


@pytest.mark.parametrize(("name", "landmarks"), KERNEL_SELECTION_PAIRS)
@pytest.mark.parametrize(
    "metric",
    [pytest.param(metric, marks=[] if name == "square" else pytest.mark.slow) for name, metric in METRICS.items()],
    ids=METRICS,
)
def test_landmark_features_are_those_of_mapped_rows(metric, name, landmarks, rng):
    X = rng.normal(size=(80, 3))
    mapped_X = X @ metric.directions.T
    plain = LandmarkFeatures(name, length_scale=1.0, n_landmarks=10, landmarks=landmarks, random_state=0)
    features, mapped = clone(plain).set_params(length_scale=metric).fit(X), plain.fit(mapped_X)
    if landmarks != "kmeans" or metric.n_dimensions(3) <= 3:
        # Means of more coordinates than columns are not in the span of the map.
        np.testing.assert_allclose(metric.apply(features.landmarks_), mapped.landmarks_, rtol=1e-6, atol=1e-8)
    found, expected = features.approximate_kernel(X), mapped.approximate_kernel(mapped_X)
    np.testing.assert_allclose(features.exact_kernel(X), mapped.exact_kernel(mapped_X), rtol=0, atol=1e-7)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    errors = features.kernel_error(X, random_state=0), mapped.kernel_error(mapped_X, random_state=0)
    np.testing.assert_allclose(*errors, rtol=0, atol=1e-5)
    csr = clone(features).fit(sparse.csr_array(X))
    np.testing.assert_allclose(csr.approximate_kernel(sparse.csr_array(X)), found, rtol=0, atol=1e-5)
    assert csr.kernel_error(sparse.csr_array(X), random_state=0).error == pytest.approx(errors[0].error, rel=1e-5)


@pytest.mark.parametrize("offset", [0.0, 30.0])
@pytest.mark.parametrize("metric", FULL_RANK.values(), ids=FULL_RANK)
@pytest.mark.parametrize("features", [FourierFeatures(n_frequencies=16), LandmarkFeatures(n_landmarks=16)])
def test_float32_stays_float32_and_close_to_float64(features, metric, offset, rng):
    X = (rng.normal(size=(80, 3)) + offset).astype(np.float32)
    features = clone(features).set_params(length_scale=metric, random_state=0)
    single, double = clone(features).fit(X), features.fit(X.astype(np.float64))
    assert single.transform(X).dtype == single.exact_kernel(X).dtype == np.float32
    np.testing.assert_allclose(single.exact_kernel(X), double.exact_kernel(X), rtol=0, atol=1e-5)
    np.testing.assert_allclose(single.approximate_kernel(X), double.approximate_kernel(X), rtol=0, atol=2e-3)
    assert single.kernel_error(X, random_state=0).error == pytest.approx(
        double.kernel_error(X, random_state=0).error, abs=2e-3
    )


@pytest.mark.parametrize("features", [FourierFeatures(n_frequencies=8), LandmarkFeatures(n_landmarks=8)])
def test_given_metrics_are_checked(features, rng):
    X = rng.normal(size=(30, 3))
    with pytest.raises(
        ValueError, match=r"`length_scale` is a metric of shape \(2, 2\) and X has 3 columns; give a metric"
    ):
        clone(features).set_params(length_scale=Metric(np.eye(2))).fit(X)
    invalid = [
        Metric(np.full((3, 3), np.nan)),
        Metric(np.full((3, 3), np.inf)),
        Metric(np.zeros((3, 3))),
        Metric(np.empty((0, 3))),
    ]
    for metric in invalid:
        with pytest.raises(ValueError, match="`length_scale` must be a metric of finite numbers, not all zero"):
            clone(features).set_params(length_scale=metric).fit(X)
    with pytest.raises(ValueError, match=r"Center or rescale the columns of X, .* or give a larger `length_scale`"):
        clone(features).set_params(length_scale=Metric(1e14 * np.eye(3))).fit(X + 1e3)
