# SPDX-License-Identifier: BSD-3-Clause
"""Learned metrics are compared with what is known of the data, and with learned length scales."""

import pickle
import tracemalloc
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.rows import is_sparse, to_dense
from bochner.scaling import LearnedLengthScales, LearnedMetric
from bochner.scaling.learned_metric import _DirectionScales, _Round

DIRECTION = np.array([1.5, 1.5, 0.0, 0.0])


SHORT_START = LearnedLengthScales(n_rows=300, n_iterations=3)


def ridge_function(n_rows=400, seed=0):
    """Return rows, and targets that depend on the sum of the first two columns only."""
    X = np.random.default_rng(seed).normal(size=(n_rows, 4))
    return X, np.sin(X @ DIRECTION)


def short(**parameters):
    """Return a part that learns a metric fast, in one trial if there are 100 rows or more."""
    return LearnedMetric(**{"n_rounds": 2, "length_scales": SHORT_START} | parameters)


def learned(**parameters):
    part = {name: parameters.pop(name) for name in ("n_rounds", "power", "rank") if name in parameters}
    return FourierFeatures(**{"length_scale": short(**part), "n_frequencies": 32, "random_state": 0} | parameters)


def per_column(features):
    """Return the same features with length scales that are learned per column."""
    return clone(features).set_params(length_scale=SHORT_START)


def leading_direction(features):
    A = to_dense(features.metric_)
    return np.linalg.eigh(A.T @ A)[1][:, -1]


def test_direction_of_the_targets_is_found_and_the_error_falls():
    (X, y), (X_test, y_test) = ridge_function(200), ridge_function(500, 1)
    features = FourierFeatures(length_scale="learn-matrix", n_frequencies=32)
    metric = FeatureRegressor(features, random_state=0).fit(X, y)
    scales = FeatureRegressor(clone(features).set_params(length_scale="learn"), random_state=0).fit(X, y)
    cosine = abs(leading_direction(metric.features_) @ DIRECTION) / np.linalg.norm(DIRECTION)
    assert cosine > 0.99
    assert 1 - metric.score(X_test, y_test) < 0.2 * (1 - scales.score(X_test, y_test))
    assert metric.features_.metric_.shape == (4, 4)
    assert scales.features_.learning_gain_ < metric.features_.learning_gain_ < 1.0
    relevance = metric.features_.relevance_
    assert relevance.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(
        relevance * metric.features_.length_scale_, 1.0 / (1.0 / metric.features_.length_scale_).sum()
    )
    assert relevance[:2].min() > 2 * relevance[2:].max()


@pytest.mark.slow
def test_landmarks_learn_the_direction():
    (X, y), (X_test, y_test) = ridge_function(200), ridge_function(300, 1)
    features = LandmarkFeatures(length_scale=short(), n_landmarks=64, random_state=0)
    metric, scales = FeatureRegressor(features).fit(X, y), FeatureRegressor(per_column(features)).fit(X, y)
    assert abs(leading_direction(metric.features_) @ DIRECTION) / np.linalg.norm(DIRECTION) > 0.98
    assert 1 - metric.score(X_test, y_test) < 0.5 * (1 - scales.score(X_test, y_test))


@pytest.mark.parametrize("rank", [1, None])
def test_round_zero_is_kept_if_no_round_is_better(rank, monkeypatch):
    monkeypatch.setattr(_Round, "error_over", lambda current, start: 1.0)
    X, y = ridge_function(300)
    features = learned(rank=rank).fit(X, y)
    assert is_sparse(features.metric_) == (rank is not None)
    np.testing.assert_allclose(to_dense(features.metric_), np.diag(1.0 / features.length_scale_))
    if rank is None:  # with fewer directions, the frequencies to learn with have more dimensions
        expected = per_column(features).fit(X, y)
        np.testing.assert_allclose(features.length_scale_, expected.length_scale_, rtol=1e-12)
        assert features.learning_gain_ == expected.learning_gain_
        predictions = [FeatureRegressor(part).fit(X, y).predict(X) for part in (features, expected)]
        np.testing.assert_allclose(*predictions, rtol=0, atol=1e-8)


def test_noise_has_no_leading_direction():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.normal(size=300)
    features = learned().fit(X, y)
    assert np.linalg.cond(features.metric_) < 2
    assert features.learning_gain_ < 0.1


def test_no_rounds_give_length_scales():
    X, y = ridge_function(100)
    features = learned(n_rounds=0).fit(X, y)
    expected = per_column(features).fit(X, y)
    np.testing.assert_allclose(features.metric_, np.diag(1.0 / expected.length_scale_), rtol=1e-14)
    np.testing.assert_allclose(features.frequencies_, expected.frequencies_, rtol=1e-10)
    assert features.learning_gain_ == expected.learning_gain_


@pytest.mark.parametrize("rank", [1, *(pytest.param(rank, marks=pytest.mark.slow) for rank in (2, 3))])
def test_few_directions_are_found_beside_length_scales(rank):
    (X, y), (X_test, y_test) = ridge_function(), ridge_function(500, 1)
    metric = FeatureRegressor(learned(rank=rank, n_frequencies=64)).fit(X, y)
    A = metric.features_.metric_
    assert is_sparse(A)
    assert A.shape == (4 + rank, 4)
    assert abs(leading_direction(metric.features_) @ DIRECTION) / np.linalg.norm(DIRECTION) > 0.95
    scales = FeatureRegressor(per_column(metric.features)).fit(X, y)
    assert 1 - metric.score(X_test, y_test) < 0.8 * (1 - scales.score(X_test, y_test))


@pytest.mark.parametrize(
    "classifier",
    [partial(FeatureClassifier, loss="squared_error"), pytest.param(FeatureClassifier, marks=pytest.mark.slow)],
)
def test_classes(classifier):
    X, y = ridge_function(700)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    metric, scales = (
        classifier(features).fit(X[:500], labels[:500]) for features in (learned(), per_column(learned()))
    )
    assert abs(leading_direction(metric.features_) @ DIRECTION) / np.linalg.norm(DIRECTION) > 0.95
    assert metric.score(X[500:], labels[500:]) > scales.score(X[500:], labels[500:])


def test_several_targets_have_a_metric_in_common():
    X, y = ridge_function(500)
    other = np.sin(1.5 * X[:, 2] - 1.5 * X[:, 3])
    features = learned(n_frequencies=128).fit(X, np.column_stack([y, other, np.ones(500)]))
    directions = np.linalg.eigh(features.metric_.T @ features.metric_)[1][:, -2:]
    plane = np.column_stack([[1, 1, 0, 0], [0, 0, 1, -1]]) / np.sqrt(2)
    assert np.linalg.svd(directions.T @ plane, compute_uv=False).min() > 0.95


def test_many_classes():
    X, _ = ridge_function(600)
    y = np.digitize(X[:, 0] + X[:, 1], np.linspace(-2.5, 2.5, 39)).astype(str)
    assert abs(leading_direction(learned().fit(X, y)) @ [1, 1, 0, 0]) > 0.95 * np.sqrt(2)


@pytest.mark.parametrize("n_rows", [60, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rank", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_sample_weights_equal_repeated_rows(n_rows, rank, rng):
    X, y = ridge_function(n_rows)
    counts = rng.integers(0, 3, size=n_rows)
    order = rng.permutation(counts.sum())
    features = learned(rank=rank)
    weighted = clone(features).fit(X, y, sample_weight=counts)
    repeated = clone(features).fit(np.repeat(X, counts, axis=0)[order], np.repeat(y, counts)[order])
    if n_rows == 60:
        np.testing.assert_array_equal(to_dense(weighted.metric_), to_dense(repeated.metric_))
    else:
        assert abs(leading_direction(weighted) @ leading_direction(repeated)) > 0.99


def test_factor_of_all_weights_does_not_matter():
    X, y = ridge_function(100)
    expected = learned().fit(X, y).metric_
    for factor in (1e-40, 1e40):
        np.testing.assert_allclose(learned().fit(X, y, np.full(100, factor)).metric_, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rank", [None, 2])
def test_sparse_equals_dense(rank, rng):
    X, _ = ridge_function(300)
    X = np.column_stack([X * (rng.random(size=X.shape) < 0.7), np.zeros(300)])  # and a column without entries
    y = np.sin(2 * X[:, 0] + 2 * X[:, 1])
    dense, csr = (learned(rank=rank).fit(rows, y) for rows in (X, sparse.csr_array(X)))
    assert dense.learning_gain_ > 0
    assert csr.learning_gain_ == pytest.approx(dense.learning_gain_, rel=1e-6)
    np.testing.assert_allclose(to_dense(csr.metric_), to_dense(dense.metric_), rtol=0, atol=1e-4)


@pytest.mark.parametrize("n_features", [90, 200])
def test_more_columns_than_frequencies(n_features, rng):
    """Half as many directions as frequencies beside a diagonal, or the diagonal alone."""
    X = rng.normal(size=(150, n_features))
    y = np.sin(X[:, 0] + X[:, 1]) + X[:, 0]
    features = learned(sampler="mc", weighting="uniform", n_rounds=1).fit(X, y)
    assert is_sparse(features.metric_)
    assert features.metric_.shape in ((n_features, n_features), (n_features + 16, n_features))
    assert np.isfinite(features.transform(X)).all()


@pytest.mark.slow
@pytest.mark.parametrize("features", [FourierFeatures(n_frequencies=256), LandmarkFeatures(n_landmarks=50)])
def test_two_hundred_columns(features, rng):
    X = rng.normal(size=(1200, 200)) * np.append(np.ones(4), np.full(196, 0.05))
    y = np.sin(2 * X[:, 0] + 2 * X[:, 1])
    features = clone(features).set_params(length_scale="learn-matrix", random_state=1).fit(X[:1000], y[:1000])
    assert features.metric_.shape == (264, 200)
    assert abs(leading_direction(features)[:2].sum()) > 0.95 * np.sqrt(2)
    other = clone(features).set_params(length_scale="learn")
    metric, scales = (FeatureRegressor(part).fit(X[:1000], y[:1000]) for part in (features, other))
    assert metric.score(X[1000:], y[1000:]) > scales.score(X[1000:], y[1000:])


@pytest.mark.slow
@pytest.mark.parametrize("features", [FourierFeatures(n_frequencies=16), LandmarkFeatures(n_landmarks=16)])
def test_wide_sparse_rows_need_no_square_matrix(features, rng):
    n_features = 20_000
    others = sparse.random_array((300, n_features - 2), density=1e-3, format="csr", rng=rng)
    informative = rng.normal(size=(300, 2))
    X = sparse.hstack([sparse.csr_array(3.0 * informative), others], format="csr")
    y = np.sin(2.0 * informative.sum(axis=1))
    part = short(n_rounds=1, length_scales=LearnedLengthScales(n_rows=100, n_iterations=1))
    features = clone(features).set_params(length_scale=part, random_state=0)
    tracemalloc.start()
    features.fit(X, y)
    Z = features.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.15 * 8 * n_features**2
    assert np.isfinite(Z).all()
    assert features.metric_.shape[1] == n_features
    assert is_sparse(features.metric_)


@pytest.mark.parametrize("rank", [None, 2])
def test_constant_columns_are_uninformative(rank):
    X, y = ridge_function()
    features = learned(rank=rank).fit(np.column_stack([X, np.full(len(X), 7.0), np.zeros(len(X))]), y)
    assert features.learning_gain_ > 0.1
    assert features.relevance_[-2:].max() < 2e-3 * features.relevance_.max()


@pytest.mark.parametrize("y", [np.ones(50), np.full(50, "a"), np.arange(50) == 60])
@pytest.mark.parametrize("rank", [None, 1])
def test_constant_target_gives_the_median_distance(rng, y, rank):
    X = rng.normal(size=(50, 3))
    features = learned(rank=rank).fit(X, y)
    expected = FourierFeatures(random_state=0).fit(X).length_scale_
    np.testing.assert_allclose(to_dense(features.metric_), np.eye(3) / expected, rtol=1e-12)
    assert features.learning_gain_ == 0.0


@pytest.mark.parametrize("n_rows", [1, 2, 19, 20])
@pytest.mark.parametrize("rank", [None, 1])
def test_few_rows_give_finite_features(rng, n_rows, rank):
    X, y = rng.normal(size=(n_rows, 2)), rng.normal(size=n_rows)
    features = learned(rank=rank).fit(X, y)
    assert np.isfinite(features.transform(X)).all()
    if n_rows < 20:
        np.testing.assert_array_equal(features.length_scale_, per_column(features).fit(X, y).length_scale_)


@pytest.mark.parametrize(
    "X",
    [np.ones((60, 3)), np.zeros((60, 3)), np.repeat(np.eye(3), 20, axis=0), np.arange(60.0)[:, None]],
    ids=["equal rows", "zeros", "three distinct rows", "one column"],
)
@pytest.mark.parametrize(
    "features", [learned(), pytest.param(LandmarkFeatures(length_scale=short(), n_landmarks=8), marks=pytest.mark.slow)]
)
def test_degenerate_rows(features, X, rng):
    features = clone(features).fit(X, rng.normal(size=60))
    assert np.isfinite(features.transform(X)).all()
    assert np.isfinite(features.relevance_).all()


@pytest.mark.parametrize(
    "units",
    [np.full(4, 1e-150), np.full(4, 1e150), np.array([1e150, 1e-150, 1.0, 1e3])],
    ids=["small", "large", "both"],
)
@pytest.mark.parametrize(
    "kind",
    [
        FeatureRegressor(learned()),
        pytest.param(FeatureRegressor(LandmarkFeatures(length_scale=short(), n_landmarks=32)), marks=pytest.mark.slow),
    ],
)
def test_units_of_columns_hardly_change_the_score(kind, units):
    (X, y), (X_test, y_test) = ridge_function(150), ridge_function(300, 1)
    expected = clone(kind).set_params(random_state=0).fit(X, y).score(X_test, y_test)
    model = clone(kind).set_params(random_state=0).fit(X * units, y)
    assert model.score(X_test * units, y_test) > expected - 0.05
    assert np.isfinite(model.features_.relevance_).all()


@pytest.mark.parametrize("rank", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_seed_determines_every_bit_whatever_the_number_of_threads(rank):
    X, y = ridge_function(1100)
    found = set()
    for n_threads in (1, 2, 2):
        with threadpool_limits(n_threads):
            features = learned(rank=rank, n_rounds=1).fit(X, y)
            found.add((to_dense(features.metric_).tobytes(), features.frequencies_.tobytes()))
    assert len(found) == 1


def test_float32_stays_float32():
    X, y = ridge_function()
    double = learned().fit(X, y)
    single = learned().fit(X.astype(np.float32), y)
    assert single.transform(X.astype(np.float32)).dtype == single.frequencies_.dtype == np.float32
    assert single.metric_.dtype == single.length_scale_.dtype == np.float64
    np.testing.assert_allclose(single.metric_, double.metric_, rtol=0, atol=0.05 * np.abs(double.metric_).max())


@pytest.mark.parametrize("duplicate", [deepcopy, lambda features: pickle.loads(pickle.dumps(features))])
@pytest.mark.parametrize(
    "features", [learned(), learned(rank=1), LandmarkFeatures(length_scale=short(), n_landmarks=8)]
)
def test_copies_are_bit_equal(features, duplicate):
    X, y = ridge_function(60)
    features = clone(features).fit(X, y)
    copy = duplicate(features)
    assert copy.transform(X).tobytes() == features.transform(X).tobytes()
    assert copy.exact_kernel(X).tobytes() == features.exact_kernel(X).tobytes()
    np.testing.assert_array_equal(to_dense(copy.metric_), to_dense(features.metric_))
    assert not hasattr(clone(features), "length_scale_")


def test_metric_of_an_earlier_fit_is_forgotten():
    X, y = ridge_function(100)
    features = learned().fit(X, y)
    refitted = deepcopy(features).set_params(length_scale=SHORT_START).fit(X, y)
    with pytest.raises(AttributeError, match=r"Only `length_scale='learn-matrix'` learns a metric"):
        _ = refitted.metric_
    plain = clone(refitted).fit(X, y)
    np.testing.assert_array_equal(refitted.transform(X), plain.transform(X))


@pytest.mark.slow
def test_parameters_work_in_a_grid_search():
    X, y = ridge_function(60)
    grids = {
        "n_rounds": [0, 1],
        "power": [0.25, 0.5],
        "rank": [None, 1],
        "length_scales": [None, LearnedLengthScales(n_iterations=1)],
        "length_scales__n_iterations": [0, 1],
    }
    assert set(LearnedMetric().get_params(deep=False)) <= set(grids)
    features = learned(n_frequencies=4, n_rounds=1)
    for name, values in grids.items():
        pipeline, model = make_pipeline(features, Ridge()), FeatureRegressor(features)
        for estimator, prefix in ((pipeline, "fourierfeatures"), (model, "features")):
            search = GridSearchCV(estimator, {f"{prefix}__length_scale__{name}": values}, cv=2, error_score="raise")
            assert len(search.fit(X, y).cv_results_["params"]) == 2


@pytest.mark.parametrize("rank", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_length_scale_candidates_multiply_the_metric(rank):
    X, y = ridge_function(200)
    one = FeatureRegressor(learned(rank=rank)).fit(X, y)
    several = FeatureRegressor(learned(rank=rank), length_scale_factors=[1.0, 3.0]).fit(X, y)
    ratio = to_dense(one.features_.metric_).max() / to_dense(several.features_.metric_).max()
    assert ratio == pytest.approx(1.0) or ratio == pytest.approx(3.0)
    np.testing.assert_allclose(
        to_dense(several.features_.metric_) * ratio, to_dense(one.features_.metric_), rtol=1e-9, atol=1e-12
    )
    assert several.length_scale_scores_[0] == pytest.approx(one.best_score_, rel=1e-9)
    assert several.features_.learning_gain_ == one.features_.learning_gain_


@pytest.mark.slow
def test_kernel_candidates_learn_a_metric_each():
    X, y = ridge_function(100)
    model = FeatureRegressor(learned(), kernels=["gaussian", "exponential"]).fit(X, y)
    alone = FeatureRegressor(learned(kernel=model.features_.kernel)).fit(X, y)
    assert model.best_score_ == pytest.approx(alone.best_score_, rel=1e-9)


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({"n_frequencies": "auto", "tolerance": 0.4}, marks=pytest.mark.slow),
        {"weighting": "matrix", "n_frequencies": 48, "n_components": 16},
        {"kernel": "laplacian", "sampler": "sobol"},
        {"kernel": "laplacian", "sampler": "sobol", "rank": 1},
        {"refine": 3, "rank": 1},
        pytest.param({"sampler": "sorf", "weighting": "quadrature"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_other_parameters_work_with_a_learned_metric(parameters):
    X, y = ridge_function(150)
    features = learned(**parameters).fit(X, y)
    Z = features.transform(X)
    np.testing.assert_allclose(features.approximate_kernel(X), Z @ Z.T, atol=1e-12)
    A = to_dense(features.metric_)
    np.testing.assert_allclose(features.exact_kernel(X), features.kernel_(X @ A.T), atol=1e-9)
    assert features.kernel_error(X, random_state=0).error == pytest.approx(
        np.linalg.norm(Z @ Z.T - features.exact_kernel(X)) / np.linalg.norm(features.exact_kernel(X)), rel=1e-6
    )


@pytest.mark.slow
def test_suggest_and_find_length_scale_use_the_metric():
    X, y = ridge_function(150)
    for features in (learned(), LandmarkFeatures(length_scale=short(), n_landmarks="auto", random_state=0)):
        metric = features.find_length_scale(X, y)
        given = clone(features).set_params(length_scale=metric)
        assert features.suggest(X, 0.3, y=y) == given.suggest(X, 0.3)
        np.testing.assert_array_equal(metric.matrix, clone(features).fit(X, y).metric_)
        np.testing.assert_array_equal(given.fit(X).transform(X), clone(features).fit(X, y).transform(X))


def test_partial_fit_learns_from_the_first_rows():
    X, y = ridge_function(300)
    features = learned(length_scale=short(n_rounds=1), n_frequencies=16)  # samples no rows: all 300 are used
    whole = FeatureRegressor(features).fit_features(X, y).partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    batches = FeatureRegressor(features).partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(whole.features_.metric_, batches.features_.metric_)
    np.testing.assert_array_equal(whole.features_.metric_, features.fit(X, y).metric_)


@pytest.mark.slow
def test_cross_validation_learns_inside_the_folds():
    """A metric that was learned on the test rows would find structure in pure noise."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 30)), rng.normal(size=120)
    assert cross_val_score(FeatureRegressor(learned()), X, y, cv=5).mean() < 0.05


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_rounds": -1}, "'n_rounds' parameter of LearnedMetric"),
        ({"power": 0.0}, "'power' parameter of LearnedMetric"),
        ({"power": 1.5}, "'power' parameter of LearnedMetric"),
        ({"rank": 0}, "'rank' parameter of LearnedMetric"),
        ({"length_scales": "learn"}, "'length_scales' parameter of LearnedMetric"),
        ({"length_scales": LearnedLengthScales(n_rows=3)}, "'n_rows' parameter of LearnedLengthScales"),
        ({"length_scales": LearnedMetric()}, "'length_scales' parameter of LearnedMetric"),
    ],
)
def test_invalid_parameters_are_rejected(parameters, message):
    X, y = ridge_function(30)
    for estimator in (
        FourierFeatures(length_scale=LearnedMetric(**parameters)),
        LandmarkFeatures(length_scale=LearnedMetric(**parameters)),
    ):
        with pytest.raises(ValueError, match=message):
            estimator.fit(X, y)


def test_class_instead_of_a_part():
    X, y = ridge_function(30)
    with pytest.raises(TypeError, match=r"LearnedMetric is a class; give an instance, LearnedMetric\(\)"):
        FourierFeatures(length_scale=LearnedMetric).fit(X, y)
    with pytest.raises(TypeError, match=r"LearnedLengthScales is a class; give an instance"):
        FourierFeatures(length_scale=LearnedMetric(length_scales=LearnedLengthScales)).fit(X, y)


def test_missing_y_is_rejected():
    X, _ = ridge_function(30)
    for features in (FourierFeatures(length_scale="learn-matrix"), LandmarkFeatures(length_scale="learn-matrix")):
        for call in (features.fit, features.suggest, features.find_length_scale):
            with pytest.raises(ValueError, match=r"`length_scale`='learn-matrix' requires y .*; give y, or a length"):
                call(X)


def test_progress_bar_is_drawn_if_verbose(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    X, y = ridge_function(100)
    FeatureRegressor(learned(), verbose=1).fit(X, y)
    assert "learning the metric" in capsys.readouterr().err


class TestDirectionScales:
    """The map B with scales along directions, compared with its dense matrix."""

    @staticmethod
    def make(rng, rank, n_features=6):
        U = np.linalg.qr(rng.normal(size=(n_features, rank)))[0]
        return _DirectionScales(
            rng.uniform(0.5, 2.0, size=n_features), U, np.sort(rng.uniform(1.0, 3.0, size=rank))[::-1], 0.7
        )

    @staticmethod
    def dense(scales):
        """Return B."""
        U = scales.directions
        return scales.floor * (np.eye(len(U)) - U @ U.T) + U * scales.factors @ U.T

    @pytest.mark.parametrize("rank", [1, 3, 6])
    def test_metric_has_the_distances_of_the_map(self, rng, rank):
        scales = self.make(rng, rank)
        B = self.dense(scales) * scales.column_scales
        A = to_dense(scales.metric(2.0).matrix)
        np.testing.assert_allclose(A.T @ A, B.T @ B / 4.0, rtol=1e-12, atol=1e-14)

    @pytest.mark.parametrize("rank", [1, 3, 6])
    def test_powers(self, rng, rank):
        scales, rows = self.make(rng, rank), rng.normal(size=(4, 6))
        np.testing.assert_allclose(scales._times_power(rows, 1.0), rows @ self.dense(scales), rtol=1e-12)
        np.testing.assert_allclose(scales._times_power(rows, -1.0) @ self.dense(scales), rows, rtol=1e-10)

    @pytest.mark.parametrize("power", [0.25, 0.5, 1.0])
    def test_step_multiplies_by_a_power_of_the_gradients(self, rng, power):
        """With L'L = G in raw columns, the squared distances become those of B G_B^(2 power) B, up to a factor."""
        scales, L, differences = self.make(rng, 6), rng.normal(size=(20, 6)), rng.normal(size=(50, 6))
        found = self.dense(scales.step(L, power, differences))
        B = self.dense(scales)
        in_coordinates = L / scales.column_scales @ np.linalg.inv(B)
        values, vectors = np.linalg.eigh(in_coordinates.T @ in_coordinates)
        expected = B @ (vectors * values ** (2 * power)) @ vectors.T @ B
        np.testing.assert_allclose(found @ found / np.trace(found @ found), expected / np.trace(expected), atol=1e-9)
        size, old = (np.square(differences @ matrix).sum() for matrix in (found, B))
        assert size == pytest.approx(old, rel=1e-9)

    @pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("rank", [2, 6])
    def test_step_keeps_the_mean_square_of_differences(self, rng, rank, container):
        scales, differences = self.make(rng, rank), rng.normal(size=(50, 6))
        found = scales.step(rng.normal(size=(4 if rank == 2 else 8, 6)), 0.25, container(differences))
        assert len(found.factors) == rank
        new, old = (np.square(differences @ self.dense(part)).sum() for part in (found, scales))
        assert new == pytest.approx(old, rel=1e-9)

    def test_constant_model_keeps_the_scales(self, rng):
        scales = self.make(rng, 6)
        assert scales.step(np.zeros((4, 6)), 0.25, rng.normal(size=(9, 6))) is scales


def test_columns_whose_inverse_length_scales_overflow():
    with pytest.raises(ValueError, match=r"The length scale \S+ is too short; rescale the columns of X"):
        FourierFeatures(length_scale="learn-matrix", n_frequencies=8).fit(np.array([[0.0], [5e-324]]), np.zeros(2))
