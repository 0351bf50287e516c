# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_friedman1

from bochner import FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.kernels import KERNELS, Gaussian
from bochner.rows import LengthScales, Metric, TrainingRows
from bochner.scaling import LearnedLengthScales, LearnedMetric
from bochner.scaling.learned import regression_targets

LEARNERS = [LearnedLengthScales, LearnedMetric]


@pytest.fixture(scope="module")
def friedman():
    """Rows of ten columns, of which the last five do not matter, and targets."""
    X, y = make_friedman1(800, n_features=10, noise=0.5, random_state=0)
    return X, y[:, None]


def learn(learner, X, targets, weights=None, kernel=None, seed=0):
    return learner.learn(
        TrainingRows(X, weights, targets=targets), Gaussian() if kernel is None else kernel, np.random.default_rng(seed)
    )


@pytest.mark.parametrize("kernel", [*KERNELS.values()])
def test_columns_that_do_not_matter_get_long_length_scales(friedman, kernel):
    scaling, gain = learn(LearnedLengthScales(), *friedman, kernel=kernel())
    assert 2 * np.sort(scaling.length_scales[:5])[3] < np.median(scaling.length_scales[5:])
    assert gain > 0.3


def test_learned_direction_is_that_of_the_targets(rng):
    X, signs = rng.normal(size=(900, 6)), np.array([1.0, -1.0, 1.0, -1.0, 1.0, 0.0])
    metric, gain = learn(LearnedMetric(), X, np.sin(X @ signs)[:, None] + 0.1 * rng.normal(size=(900, 1)))
    assert isinstance(metric, Metric)
    direction = np.linalg.svd(metric.directions)[2][0]
    assert abs(direction @ signs) > 0.98 * np.sqrt(5.0)
    assert gain > 0.8


@pytest.mark.parametrize("learner", LEARNERS)
def test_predictions_improve(friedman, learner):
    X, y = friedman
    features = LandmarkFeatures(n_landmarks=100, random_state=0)
    errors = {}
    for length_scale in ("median", learner()):
        model = FeatureRegressor(features.set_params(length_scale=length_scale)).fit(X[:600], y[:600, 0])
        errors[length_scale == "median"] = np.square(model.predict(X[600:]) - y[600:, 0]).mean()
    assert errors[False] < 0.6 * errors[True]


@pytest.mark.parametrize("learner", LEARNERS)
def test_noise_teaches_nothing(learner, rng):
    scaling, gain = learn(learner(), rng.normal(size=(400, 3)), rng.normal(size=(400, 1)))
    lengths = scaling.length_scales
    assert gain < 0.1
    assert lengths.max() < 20 * lengths.min()


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("factor", [1e-100, 1e100])
def test_units_of_a_column_do_not_matter(friedman, learner, factor):
    X, y = friedman
    units = np.where(np.arange(10) == 2, factor, 1.0)
    plain, gain = learn(learner(), X * np.linspace(1.0, 5.0, 10), y)  # learned from equal spreads
    other, other_gain = learn(learner(), X * units, y)
    assert isinstance(other, type(plain))
    assert other_gain == pytest.approx(gain, abs=0.1)
    assert np.isfinite(other.length_scales).all()


@pytest.mark.parametrize("learner", LEARNERS)
def test_weight_of_two_equals_two_copies(friedman, learner):
    X, y = friedman[0][:100], friedman[1][:100]
    weights = np.where(np.arange(100) < 30, 2.0, 1.0)
    weighted = learn(learner(), X, y, weights).scaling
    copied = learn(learner(), np.vstack([X, X[:30]]), np.vstack([y, y[:30]])).scaling
    np.testing.assert_array_equal(weighted.length_scales, copied.length_scales)


@pytest.mark.parametrize("learner", LEARNERS)
def test_sparse_rows_equal_dense_rows(friedman, learner):
    X = np.where(friedman[0] > 0.5, friedman[0], 0.0)[:300]
    dense = learn(learner(), X, friedman[1][:300]).scaling
    from_sparse = learn(learner(), sparse.csr_array(X), friedman[1][:300]).scaling
    np.testing.assert_array_equal(dense.length_scales, from_sparse.length_scales)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.arange(10.0)[:, None], np.arange(10.0)[:, None]),
        (np.arange(60.0).reshape(30, 2), np.ones((30, 1))),
        (np.ones((30, 2)), np.arange(30.0)[:, None]),
    ],
    ids=["few rows", "constant targets", "constant rows"],
)
def test_nothing_to_learn_from(learner, X, y):
    scaling, gain = learn(learner(), X, y)
    assert isinstance(scaling, LengthScales)
    assert np.ptp(scaling.length_scales) == 0.0
    assert gain == 0.0


def test_constant_columns_hardly_matter(friedman):
    X = np.column_stack([friedman[0], np.full(800, 3.0)])
    lengths = learn(LearnedLengthScales(), X, friedman[1]).scaling.length_scales
    assert lengths[-1] >= 1e3 * lengths[:-1].max()


def test_many_columns_have_length_scales_instead_of_a_metric(rng):
    X = rng.normal(size=(60, 300))
    with pytest.warns(UserWarning, match="300 columns has too many entries"):
        scaling, _ = learn(LearnedMetric(n_iterations=2), X, X[:, :1])
    assert isinstance(scaling, LengthScales)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (["no", "yes", "no"], [[-1.0], [1.0], [-1.0]]),
        ([0, 1, 2], [[1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]),
        ([True, False], [[1.0], [-1.0]]),
        ([0.5, 1.5], [[0.5], [1.5]]),
        ([[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
    ],
)
def test_targets(y, expected):
    np.testing.assert_array_equal(regression_targets(y), expected)


def test_objects_are_refused_as_targets():
    with pytest.raises(ValueError, match="y must contain numbers"):
        regression_targets([{}, {}])


@pytest.mark.parametrize("length_scale", ["learn", "learn-matrix"])
def test_features_learn_the_same_from_float32(friedman, length_scale):
    X, y = friedman[0][:300], friedman[1][:300, 0]
    features = FourierFeatures(length_scale=length_scale, n_frequencies=8, random_state=0)
    wide, narrow = features.fit(X, y).length_scale_, features.fit(X.astype(np.float32), y).length_scale_
    np.testing.assert_allclose(wide, narrow, rtol=0.2)
