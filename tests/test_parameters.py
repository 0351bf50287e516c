# SPDX-License-Identifier: BSD-3-Clause
"""What users of scikit-learn type: explained names, aliases, nested names of defaults, short signatures."""

import copy
import inspect
import pickle
import re
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    FourierFeatures,
    LandmarkFeatures,
)
from bochner.kernels import Laplacian, Matern
from bochner.landmarks import KMeans
from bochner.losses import Huber, Quantile
from bochner.scaling import LearnedLengthScales, LearnedMetric
from bochner.weightings import Stein

ESTIMATORS = (*(FourierFeatures, LandmarkFeatures, FeatureRegressor, FeatureClassifier),)


@pytest.fixture
def data(rng):
    X = rng.normal(size=(40, 3))
    return X, np.sin(X[:, 0])


class TestUnknownParameters:
    @pytest.mark.parametrize(
        ("create", "remedy"),
        [
            (partial(FourierFeatures, gamma=0.1), "use length_scale: 1 / sqrt(2 gamma) for the Gaussian kernel, "),
            (partial(LandmarkFeatures, gamma="scale"), "'scale' for 'scale'."),
            (partial(FeatureClassifier, C=10), "use Cs=[10]."),
            (partial(FeatureClassifier, gamma=0.1), "use features=FourierFeatures(length_scale=...): 1 / sqrt(2 gam"),
            (partial(FeatureClassifier, kernel="rbf"), "use features=FourierFeatures(kernel='rbf'), LandmarkFeatures "),
            (partial(FeatureClassifier, alpha=1.0), "use Cs, of which large ones regularize less."),
            (
                partial(FeatureRegressor, alpha=1),
                "use alphas=[1], relative to the number of rows, or alphas=[1 / n_samples]",
            ),
            (partial(FeatureRegressor, C=1.0), "use alphas, of which small ones regularize less."),
        ],
    )
    def test_remedy(self, create, remedy):
        name = list(create.keywords)[-1]
        with pytest.raises(TypeError, match=f"^{create.func.__name__} has no parameter '{name}'; ") as error:
            create()
        assert remedy in str(error.value)

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    def test_names_are_listed_in_the_order_of_the_signature(self, estimator):
        names = ", ".join(inspect.signature(estimator).parameters)
        with pytest.raises(TypeError, match=f"'wavelets'; its parameters are {names}.$"):
            estimator(wavelets=3)
        with pytest.raises(ValueError, match=f"'wavelets' for estimator {estimator.__name__}; its parameters are"):
            estimator().set_params(wavelets=3)

    def test_every_unknown_parameter_has_a_sentence(self):
        with pytest.raises(TypeError, match=r"'C'; use Cs=\[10\]\. FeatureClassifier has no parameter 'gamma'; use"):
            FeatureClassifier(C=10, gamma=0.1)

    def test_equivalent_length_scales(self, data):
        X, _ = data
        for kernel, exact, length_scale in (("rbf", rbf_kernel, 2.2360680), ("laplacian", laplacian_kernel, 10.0)):
            features = FourierFeatures(kernel, length_scale=length_scale, n_frequencies=2).fit(X)
            np.testing.assert_allclose(features.exact_kernel(X), exact(X, gamma=0.1), rtol=1e-6)

    def test_equivalent_penalty(self, data):
        X, y = data
        model = FeatureRegressor(alphas=[2.0 / len(X)], random_state=0).fit(X, y)
        expected = Ridge(alpha=2.0).fit(model.features_.transform(X), y)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-8, atol=1e-12)

    def test_search_over_an_unknown_parameter(self, data):
        search = GridSearchCV(FeatureRegressor(), {"features__gamma": [0.1]}, cv=2, error_score="raise")
        with pytest.raises(
            ValueError, match="Invalid parameter 'gamma' for estimator LandmarkFeatures; use length_scale"
        ):
            search.fit(*data)

    def test_signatures_stay_those_of_the_classes(self):
        parameters = inspect.signature(FourierFeatures).parameters
        assert parameters["kernel"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        assert parameters["sampler"].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters["sampler"].default == "auto"
        assert FourierFeatures._get_param_names() == sorted(parameters)

    @pytest.mark.parametrize("estimator", ESTIMATORS[2:])
    def test_signatures_in_help_are_short(self, estimator):
        for parameter in inspect.signature(estimator).parameters.values():
            assert len(repr(parameter.default)) < 20

    def test_subclasses(self, data):
        class Narrow(FourierFeatures):
            def __init__(self, n_frequencies=4, *, note=None):
                super().__init__(n_frequencies=n_frequencies)
                self.note = note

        class Free(FourierFeatures):
            def __init__(self, **parameters):
                super().__init__(**parameters)

        narrow = Narrow(8, note="a").fit(data[0])
        assert clone(narrow).get_params() == {"n_frequencies": 8, "note": "a"}
        assert narrow.frequencies_.shape == (8, 3)
        with pytest.raises(TypeError, match="Narrow has no parameter 'gamma'; use length_scale"):
            Narrow(gamma=0.5)
        with pytest.raises(TypeError, match="Free has no parameter 'gamma'; use length_scale"):
            Free(gamma=0.5)
        assert Free(n_frequencies=3).n_frequencies == 3

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, clone, lambda x: pickle.loads(pickle.dumps(x))])
    def test_copies(self, duplicate):
        features = FourierFeatures(Matern(nu=2.5), length_scale=[1.0, 2.0])
        for estimator in (FeatureRegressor(cv=3), features, Matern(nu=0.5), Quantile([0.1, 0.9])):
            assert repr(duplicate(estimator)) == repr(estimator)
        assert duplicate(FeatureRegressor()).features is None


class TestKernelNames:
    @pytest.mark.parametrize("estimator", [FourierFeatures, LandmarkFeatures])
    def test_rbf_is_the_gaussian_kernel(self, data, estimator):
        X, y = data
        options = {"length_scale": LearnedLengthScales(n_iterations=2), "random_state": 0}
        found = estimator("rbf", **options).fit(X, y)
        np.testing.assert_array_equal(found.transform(X), estimator("gaussian", **options).fit(X, y).transform(X))
        assert found.kernel == "rbf"

    def test_rbf_among_kernels_of_a_model(self, data):
        X, y = data
        model = FeatureRegressor(kernels=["rbf", "laplacian"], random_state=0).fit(X, y)
        expected = FeatureRegressor(kernels=["gaussian", "laplacian"], random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.kernel_scores_, expected.kernel_scores_)

    @pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid", "cosine", "chi2"])
    def test_other_kernels_of_scikit_learn_are_explained(self, data, kernel):
        X, y = data
        remedy = rf"Got '{kernel}' instead; use LandmarkFeatures\(kernel=sklearn\.metrics\.pairwise\.\w+\)\.$"
        for estimator in (FourierFeatures(kernel), LandmarkFeatures(kernel), FeatureRegressor(kernels=[kernel])):
            with pytest.raises(ValueError, match=remedy):
                estimator.fit(X, y)


class TestDefaultParts:
    def test_features_of_none(self):
        model = FeatureRegressor()
        assert {f"features__{name}" for name in LandmarkFeatures().get_params()} <= set(model.get_params())
        assert model.get_params(deep=False)["features"] is None
        assert clone(model).features is None
        model.set_params(features__n_landmarks=64, cv=3)
        assert isinstance(model.features, LandmarkFeatures)
        assert model.features.n_landmarks == 64
        assert model.cv == 3
        features = model.features
        assert model.set_params(features__n_landmarks=32).features is features

    def test_reading_parameters_changes_nothing(self):
        model = FeatureClassifier()
        before = dict(vars(model))
        model.get_params()
        assert vars(model) == before

    @pytest.mark.parametrize(
        ("estimator", "name", "value", "kind"),
        [
            (FourierFeatures("matern"), "kernel__nu", 2.5, Matern),
            (FourierFeatures(), "weighting__n_points", 10, Stein),
            (FourierFeatures(length_scale="learn"), "length_scale__n_rows", 50, LearnedLengthScales),
            (FourierFeatures(length_scale="learn-matrix"), "length_scale__n_iterations", 1, LearnedMetric),
            (LandmarkFeatures(), "landmarks__n_iterations", 2, KMeans),
            (FeatureRegressor(loss="huber"), "loss__threshold", 2.0, Huber),
        ],
    )
    def test_names_of_parts(self, estimator, name, value, kind):
        part, _, parameter = name.partition("__")
        assert estimator.get_params()[name] == kind().get_params()[parameter]
        assert isinstance(getattr(clone(estimator), part), str)
        found = getattr(clone(estimator).set_params(**{name: value}), part)
        assert type(found) is kind
        assert found.get_params()[parameter] == value

    def test_parts_of_parts(self):
        features = FeatureRegressor().set_params(
            features__length_scale="learn-matrix", features__length_scale__n_rows=30
        )
        assert features.get_params()["features__length_scale__n_rows"] == 30
        assert features.features.length_scale.n_iterations == LearnedMetric().n_iterations

    def test_names_are_set_before_their_parameters(self):
        features = FourierFeatures().set_params(kernel__nu=0.5, kernel="matern")
        assert features.kernel.nu == 0.5

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            (
                {"sampler__x": True},
                "`sampler`='auto' of FourierFeatures has no parameter 'x'; set `sampler` to an object with ",
            ),
            ({"tolerance__x": 1.0}, "has no parameter 'x'; set `tolerance` to an object with that parameter first."),
            ({"kernel__nu": 1.0}, "Invalid parameter 'nu' for estimator Gaussian; it has no parameters."),
        ],
    )
    def test_parts_without_the_parameter(self, parameters, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            FourierFeatures().set_params(**parameters)

    def test_instances_are_equivalent_to_names(self, data):
        X, y = data
        plain = FeatureRegressor(FourierFeatures(), random_state=0).fit(X, y)
        nested = FeatureRegressor(FourierFeatures(), random_state=0).set_params(features__weighting__n_points=2000)
        nested.fit(X, y)
        np.testing.assert_array_equal(plain.coef_, nested.coef_)

    def test_search(self, data):
        X, y = data
        grid = {"features__n_landmarks": [2, 10], "features__landmarks__n_iterations": [5, 20]}
        search = GridSearchCV(FeatureRegressor(random_state=0), grid, cv=2, error_score="raise").fit(X, y)
        assert search.estimator.features is None
        assert search.best_estimator_.features.n_landmarks == search.best_params_["features__n_landmarks"]
        features = LandmarkFeatures(n_landmarks=2, landmarks=KMeans(n_iterations=5))
        expected = FeatureRegressor(features, random_state=0).fit(X[:20], y[:20]).score(X[20:], y[20:])
        assert search.cv_results_["split1_test_score"][0] == pytest.approx(expected)

    def test_search_over_learned_length_scales(self, data):
        model = FeatureRegressor(FourierFeatures(length_scale="learn", n_frequencies=4), random_state=0)
        grid = {"features__length_scale__n_rows": [20, 30], "features__length_scale__n_iterations": [2]}
        search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(*data)
        assert isinstance(search.best_estimator_.features.length_scale, LearnedLengthScales)
        assert model.features.length_scale == "learn"

    def test_ensembles_set_nested_seeds(self, data):
        ensemble = BaggingRegressor(FeatureRegressor(cv=2), n_estimators=2, random_state=0).fit(*data)
        seeds = [model.random_state for model in ensemble.estimators_]
        assert len(set(seeds)) == 2

    def test_diagram(self):
        assert "n_landmarks" in FeatureRegressor()._repr_html_()


def test_laplacian_kernel_with_the_default_sampler(data):
    X, _ = data
    for kernel, sampler in (
        ("gaussian", "orthogonal"),
        ("matern", "orthogonal"),
        (Laplacian(), "halton"),
        ("cauchy", "halton"),
    ):
        found = FourierFeatures(kernel, random_state=0).fit(X)
        expected = FourierFeatures(kernel, sampler=sampler, random_state=0).fit(X)
        np.testing.assert_array_equal(found.frequencies_, expected.frequencies_)
        np.testing.assert_array_equal(found.transform(X), expected.transform(X))
        assert found.sampler == "auto"


@pytest.mark.parametrize(
    ("model", "parameter", "candidates"),
    [
        (FeatureRegressor(random_state=0), "alphas", np.logspace(-8, 4, 25)),
        (FeatureClassifier(FourierFeatures(n_frequencies=8), random_state=0), "Cs", np.logspace(-3, 5, 9)),
        (
            FeatureClassifier(FourierFeatures(n_frequencies=8), loss="log_loss", random_state=0),
            "Cs",
            np.logspace(-3, 5, 9),
        ),
        (FeatureRegressor(loss="huber", random_state=0), "alphas", np.logspace(-8, 4, 25)[::2]),
    ],
)
def test_default_candidates(data, model, parameter, candidates):
    X, y = data
    y = y > 0 if parameter == "Cs" else y
    assert clone(model).get_params()[parameter] is None
    given = clone(model).set_params(**{parameter: candidates}).fit(X, y)
    np.testing.assert_array_equal(clone(model).fit(X, y).cv_errors_, given.cv_errors_)
    assert given.cv_errors_.shape == (len(candidates), 5)
