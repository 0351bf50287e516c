# SPDX-License-Identifier: BSD-3-Clause
"""The scikit-learn contract.

The fast lane checks every kernel, sampler and weighting at least once, the slow lane every valid pair of them.
"""

import pickle
from itertools import cycle

import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    FourierFeatures,
    LandmarkFeatures,
    RobustStandardizer,
    TableEncoder,
)
from bochner.feature_maps.hadamard import HadamardFrequencies
from bochner.kernels import KERNELS, Gaussian, IsotropicKernel, Matern
from bochner.landmarks import LANDMARKS, KMeans, Pivoted
from bochner.losses import Huber, LogLoss, Quantile, SquaredError
from bochner.samplers import Halton, Sobol
from bochner.scaling import LearnedLengthScales, LearnedMetric
from bochner.weightings import WEIGHTINGS, Matrix, Stein
from tests.conftest import COVERING_COMBINATIONS, FEW_COMBINATIONS, TargetPower

pytestmark = pytest.mark.usefixtures("structured_sorf")

# scikit-learn runs these checks on its own estimators, and `check_estimator` leaves them out.
OWN_CHECKS = [
    "check_param_validation",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_get_feature_names_out_error",
    "check_dataframe_column_names_consistency",
]


def build(kernel, sampler, weighting):
    return FourierFeatures(kernel, sampler=sampler, weighting=weighting, n_frequencies=6, random_state=0)


def small_features():
    return FourierFeatures(n_frequencies=6)


SHORT = LearnedLengthScales(n_iterations=3)
SHORT_METRIC = LearnedMetric(n_rows=50, n_iterations=2)

LINEAR_MODELS = [
    FeatureRegressor(small_features()),
    FeatureRegressor(small_features(), cv=None, length_scale_factors=[0.5, 2.0], kernels=["gaussian", "exponential"]),
    *(FeatureRegressor(LandmarkFeatures(n_landmarks=24), loss=loss, cv=3) for loss in ("quantile", "poisson")),
    *(FeatureClassifier(small_features(), loss=loss) for loss in ("squared_hinge", "log_loss")),
]
SLOW_LINEAR_MODELS = [
    FeatureRegressor(LandmarkFeatures(n_landmarks=24)),
    FeatureRegressor(FourierFeatures(weighting=TargetPower(), n_frequencies=6)),
    *(FeatureRegressor(LandmarkFeatures(n_landmarks=24), loss=loss, cv=3) for loss in ("huber", "gamma")),
    FeatureClassifier(small_features(), loss="squared_error"),
    FeatureRegressor(FourierFeatures(weighting="matrix", n_frequencies=24, n_components=24)),
    FeatureRegressor(FourierFeatures(length_scale=SHORT, n_frequencies=6)),
    FeatureRegressor(FourierFeatures(length_scale=SHORT_METRIC, n_frequencies=6)),
    FeatureClassifier(small_features(), cv=None, loss="squared_error"),
    FeatureClassifier(FourierFeatures(weighting="matrix", n_frequencies=12, n_components=12, refine=3)),
    FeatureClassifier(FourierFeatures(length_scale=SHORT, weighting=TargetPower(), n_frequencies=6)),
    FeatureClassifier(
        FourierFeatures(length_scale=SHORT_METRIC, n_frequencies=6),
        length_scale_factors=[0.5, 1.0],
        loss="squared_error",
    ),
    FeatureClassifier(FourierFeatures("matern", length_scale=SHORT, n_frequencies=6), Cs=[1.0, 10.0], loss="log_loss"),
    FeatureClassifier(LandmarkFeatures("laplacian", n_landmarks=24), loss="squared_error"),
    FeatureClassifier(LandmarkFeatures(n_landmarks=8), Cs=[1.0, 10.0], kernels=("gaussian", Matern(nu=2.5))),
    FeatureClassifier(
        LandmarkFeatures(n_landmarks=8), length_scale_factors=[0.5, 1.0], class_weight="balanced", loss="log_loss"
    ),
]


def expected_failures(model):
    """Return the checks of scikit-learn that cannot hold for a loss, with the reasons."""
    if model.loss == "quantile":
        return {"check_regressor_multioutput": "quantiles need a single target"}
    if model.loss in ("poisson", "gamma"):
        return {"check_regressor_multioutput": "its targets are negative"}
    return {}


def with_learned_scales(kernel):
    return FourierFeatures(kernel, length_scale=SHORT, sampler="sobol", weighting="uniform", n_frequencies=6)


class Similarity(BaseEstimator):
    """A kernel that is a function of two sets of rows, with a name in the ids of tests."""

    def __call__(self, X, Y):
        return rbf_kernel(X, Y)


ESTIMATORS = [
    *(build(*parts) for parts in FEW_COMBINATIONS),
    FourierFeatures(Matern(nu=2.2), sampler=Halton(), weighting=Stein(sketch="pairs"), n_frequencies=6),
    FourierFeatures(length_scale="scale", weighting=Stein(sketch="pairs", sampling="row-norm"), n_frequencies=6),
    FourierFeatures(n_frequencies=6, refine=5),
    FourierFeatures("cauchy", sampler="sobol", weighting="uniform", n_frequencies=6, refine=5),
    FourierFeatures(weighting=Matrix(n_points=20), n_frequencies=6, n_components=3),
    FourierFeatures("matern", weighting="matrix", n_frequencies=6, n_components=5, refine=5),
    FourierFeatures("matern", weighting=TargetPower(), n_frequencies=6, n_components=5),
    *(with_learned_scales(kernel) for kernel in ("gaussian", "laplacian")),
    FourierFeatures(length_scale=SHORT_METRIC, n_frequencies=6),
    LandmarkFeatures(n_landmarks=6, random_state=0),
    LandmarkFeatures("cauchy", n_landmarks=6, refine=5, random_state=0),
    LandmarkFeatures("laplacian", landmarks="uniform", n_landmarks=6, refine=0, random_state=0),
    LandmarkFeatures("matern", landmarks=Pivoted(n_points=20), n_landmarks=6),
    LandmarkFeatures(Similarity(), n_landmarks=6, random_state=0),
    LandmarkFeatures("precomputed", n_landmarks=6, random_state=0),
    RobustStandardizer(),
    TableEncoder(),
    TableEncoder(standardize="none"),
]
SLOW_ESTIMATORS = [
    *(build(*parts) for parts in COVERING_COMBINATIONS if parts not in FEW_COMBINATIONS),
    FourierFeatures(n_frequencies="auto", tolerance=0.5, weighting="uniform"),
    FourierFeatures(n_frequencies="auto", tolerance=0.5),
    FourierFeatures(n_frequencies="auto", tolerance=0.5, weighting="matrix"),
    FourierFeatures(length_scale="learn", n_frequencies=6),
    FourierFeatures(length_scale="learn-matrix", n_frequencies=6),
    FourierFeatures("laplacian", length_scale=SHORT_METRIC, sampler="sobol", n_frequencies=6),
    LandmarkFeatures(n_landmarks="auto", tolerance=0.5),
    LandmarkFeatures("cauchy", n_landmarks="auto", tolerance=0.5, landmarks="pivoted"),
    *(LandmarkFeatures(kernel, landmarks=name, n_landmarks=6) for kernel, name in zip(KERNELS, cycle(LANDMARKS))),
    LandmarkFeatures(length_scale=SHORT, n_landmarks=6, landmarks="uniform"),
    LandmarkFeatures(length_scale="learn", n_landmarks=6, landmarks="uniform"),
    LandmarkFeatures(length_scale=SHORT_METRIC, n_landmarks=6),
    LandmarkFeatures("cauchy", length_scale=SHORT_METRIC, n_landmarks=6),
]


@parametrize_with_checks(ESTIMATORS)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(SLOW_ESTIMATORS)
def test_estimator_checks_of_all_other_configurations(estimator, check):
    check(estimator)


# The targets of some checks are constant, and some of their classes are rare.
@pytest.mark.filterwarnings("ignore:A target is constant:UserWarning")
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@parametrize_with_checks(LINEAR_MODELS, expected_failed_checks=expected_failures)
def test_estimator_checks_of_linear_models(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:A target is constant:UserWarning")
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@parametrize_with_checks(SLOW_LINEAR_MODELS, expected_failed_checks=expected_failures)
def test_estimator_checks_of_linear_models_with_learned_length_scales(estimator, check):
    check(estimator)


def in_lanes(fast, slow):
    """Return estimators as the values of a parametrized test, with their parameters as ids."""
    return [
        pytest.param(
            estimator, id=" ".join(repr(estimator).split()), marks=[] if estimator in fast else pytest.mark.slow
        )
        for estimator in (*fast, *slow)
    ]


@pytest.mark.parametrize("name", ["check_param_validation", "check_dataframe_column_names_consistency"])
@pytest.mark.parametrize("estimator", in_lanes(LINEAR_MODELS, SLOW_LINEAR_MODELS))
def test_own_checks_of_scikit_learn_on_linear_models(estimator, name):
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


# The pandas and polars checks mix input with and without column names, and scikit-learn warns about it.
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names:UserWarning")
@pytest.mark.parametrize("name", OWN_CHECKS)
@pytest.mark.parametrize("estimator", in_lanes(ESTIMATORS, SLOW_ESTIMATORS))
def test_own_checks_of_scikit_learn(estimator, name):
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


def test_sorf_is_structured_in_these_tests(rng, monkeypatch):
    products = []
    multiply = HadamardFrequencies.multiply

    def count(frequencies, X, factor, out):
        products.append(X.shape)
        multiply(frequencies, X, factor, out)

    monkeypatch.setattr(HadamardFrequencies, "multiply", count)
    build("gaussian", "sorf", "uniform").fit(rng.normal(size=(10, 2))).transform(rng.normal(size=(7, 2)))
    assert (7, 2) in products


@pytest.mark.parametrize(
    ("kernel", "weighting"),
    list(zip((name for name, kernel in KERNELS.items() if issubclass(kernel, IsotropicKernel)), cycle(WEIGHTINGS))),
)
def test_sorf_with_many_columns(kernel, weighting, rng):
    """The contract where `Sorf` is structured without the fixture: scikit-learn's checks have at most 10 columns."""
    X = sparse.random_array((40, 200), density=0.2, rng=rng, format="csr")
    y = rng.normal(size=40)
    features = build(kernel, "sorf", weighting).fit(X.toarray(), y)
    Z = features.transform(X.toarray())
    assert features.frequencies_.shape == (6, 200)
    assert np.isfinite(Z).all()
    np.testing.assert_array_equal(clone(features).fit_transform(X.toarray(), y), Z)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(features)).transform(X.toarray()), Z)
    np.testing.assert_allclose(np.vstack([features.transform(X.toarray()[i : i + 7]) for i in range(0, 40, 7)]), Z)
    np.testing.assert_allclose(clone(features).fit(X, y).transform(X), Z, atol=1e-6)
    single = clone(features).fit(X.toarray().astype(np.float32), y).transform(X.toarray().astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, Z, atol=1e-4)


@pytest.mark.parametrize(
    "model",
    [FeatureRegressor(FourierFeatures(), loss="huber"), FeatureClassifier(FourierFeatures())],
)
def test_every_parameter_of_a_linear_model_can_be_searched(rng, model):
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    others = [LogLoss()] if is_classifier(model) else ["poisson", Quantile(0.3), Huber(threshold=1.0)]
    grids = {
        "features": [None, FourierFeatures(n_frequencies=3)],
        "features__n_frequencies": [2, 4],
        "features__weighting__n_points": [10, 20],
        "alphas": [(1.0,), (0.1, 1.0)],
        "Cs": [(1.0,), (0.1, 1.0)],
        "cv": [2, 3, KFold(2)],
        "length_scale_factors": [(1.0,), (1.0, 2.0)],
        "kernels": [None, ["gaussian", Matern(nu=2.5)]],
        "loss": ["squared_error", SquaredError(), *others],
        "loss__threshold": [0.5, 2.0],
        "class_weight": [None, "balanced"],
        "random_state": [0, 1],
        "verbose": [0],
    }
    model = clone(model).set_params(features__n_frequencies=4, random_state=0)
    assert {name for name in model.get_params() if not name.startswith("features__")} <= set(grids)
    for name, values in grids.items():
        if name in model.get_params():
            search = GridSearchCV(model, {name: values}, cv=2, error_score="raise").fit(X, y)
            assert len(search.cv_results_["params"]) == len(values)


def test_every_parameter_can_be_searched(rng):
    features = FourierFeatures("matern", sampler=Sobol(), weighting="stein", n_frequencies=4, random_state=0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    grids = {
        "kernel": ["gaussian", "rbf", Matern(nu=0.5)],
        "kernel__nu": [0.5, 2.5],
        "length_scale": [1.0, [1.0, 2.0, 3.0], "median", "scale", SHORT_METRIC, SHORT],
        "n_frequencies": [2, 4, "auto"],
        "tolerance": [0.1, 0.2],
        "refine": [0, 3],
        "n_components": [None, 3],
        "sampler": ["auto", "mc", "orthogonal"],
        "weighting": ["uniform", "shrinkage", "quadrature"],
        "weighting__sketch": ["points", "pairs"],
        "weighting__n_points": [10, 20],
        "weighting__n_pairs": [None, 10],
        "weighting__sampling": ["uniform", "row-norm"],
        "weighting__alphas": [(1.0,), (0.1, 1.0)],
        "random_state": [0, 1],
    }
    assert set(features.get_params()) == set(grids)
    for name, values in grids.items():
        search = GridSearchCV(
            make_pipeline(features, Ridge()), {f"fourierfeatures__{name}": values}, cv=2, error_score="raise"
        )
        search.fit(X, y)
        assert len(search.cv_results_["params"]) == len(values)


def test_every_parameter_of_landmark_features_can_be_searched(rng):
    features = LandmarkFeatures("matern", landmarks=KMeans(), n_landmarks=4, random_state=0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    grids = {
        "kernel": ["laplacian", Matern(nu=0.5)],
        "kernel__nu": [0.5, 2.5],
        "length_scale": [1.0, [1.0, 2.0, 3.0], "median", "scale", LearnedLengthScales(n_iterations=2)],
        "n_landmarks": [2, 4, "auto"],
        "landmarks": ["uniform", "pivoted", "kmeans", Pivoted(n_points=10)],
        "landmarks__n_points": [None, 10],
        "landmarks__n_iterations": [1, 3],
        "n_components": [None, 2],
        "refine": [0, 3],
        "tolerance": [0.1, 0.2],
        "random_state": [0, 1],
    }
    assert set(features.get_params()) == set(grids)
    model = make_pipeline(features, Ridge())
    for name, values in grids.items():
        search = GridSearchCV(model, {f"landmarkfeatures__{name}": values}, cv=2, error_score="raise").fit(X, y)
        assert len(search.cv_results_["params"]) == len(values)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighting", [Stein(n_points=20), Matrix(n_points=20)])
def test_round_trips_are_bit_equal(rng, dtype, weighting):
    X = rng.normal(size=(30, 3)).astype(dtype)
    features = FourierFeatures(Matern(nu=2.5), sampler=Sobol(), weighting=weighting, random_state=0).fit(X)
    for copy in (
        pickle.loads(pickle.dumps(features)),
        skops.io.loads(skops.io.dumps(features), trusted=["bochner.features.fourier_features.FourierFeatures", *PARTS]),
    ):
        assert copy.transform(X).tobytes() == features.transform(X).tobytes()
        assert copy.exact_kernel(X).tobytes() == features.exact_kernel(X).tobytes()


PARTS = [
    "bochner.rows.scalings.LengthScales",
    "bochner.kernels.Matern",
    "bochner.samplers.Sobol",
    "bochner.weightings.Stein",
    "bochner.weightings.Matrix",
]


@pytest.mark.parametrize("name", ["learn", "learn-matrix"])
def test_every_parameter_of_learned_length_scales_can_be_searched(rng, name):
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    model = FeatureRegressor(FourierFeatures(length_scale=name, n_frequencies=4), cv=2, random_state=0)
    grids = {"n_rows": [20], "n_iterations": [1, 2]}
    prefix = "features__length_scale__"
    assert {key for key in model.get_params() if key.startswith(prefix)} == {prefix + key for key in grids}
    for key, values in grids.items():
        search = GridSearchCV(model, {prefix + key: values}, cv=2, error_score="raise").fit(X, y)
        assert len(search.cv_results_["params"]) == len(values)


def test_every_parameter_of_a_matrix_can_be_searched(rng):
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    model = make_pipeline(FourierFeatures(weighting=Matrix(), n_frequencies=6, random_state=0), Ridge())
    grids = {"n_components": [2, None], "weighting__n_points": [10, 20], "weighting__alphas": [(1.0,), (0.1, 1.0)]}
    for name, values in grids.items():
        search = GridSearchCV(model, {f"fourierfeatures__{name}": values}, cv=2, error_score="raise").fit(X, y)
        assert len(search.cv_results_["params"]) == len(values)


def test_fit_does_not_change_the_given_parts(rng):
    kernel = Gaussian()
    features = FourierFeatures(kernel, n_frequencies=4).fit(rng.normal(size=(10, 2)))
    assert features.kernel is kernel
    assert features.kernel_ is not kernel
