# SPDX-License-Identifier: BSD-3-Clause
"""The scikit-learn contract, for every valid combination of kernel, sampler and weighting."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import skops.io
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import FourierFeatures, FourierRidge, FourierRidgeClassifier, FourierSVC
from bochner.kernels import KERNELS, Gaussian, Matern
from bochner.learning import LearnedLengthScales
from bochner.samplers import Halton, Sobol
from bochner.weightings import Matrix, Stein
from tests.conftest import COMBINATIONS

# scikit-learn runs these on its own estimators and leaves them out of check_estimator.
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


HEADS = [
    FourierRidge(small_features()),
    FourierRidge(small_features(), cv=None, length_scales=[0.5, 2.0]),
    FourierRidgeClassifier(small_features()),
    FourierRidgeClassifier(small_features(), cv=None),
    FourierSVC(small_features()),
    FourierRidge(FourierFeatures(weighting="matrix", n_frequencies=24, n_components=24)),
    FourierSVC(FourierFeatures(weighting="matrix", n_frequencies=12, n_components=12, refine=3)),
    FourierSVC(FourierFeatures("laplacian", sampler="sobol", weighting="shrinkage", n_frequencies=6), Cs=[0.1, 10.0]),
    FourierRidge(FourierFeatures(length_scale="learn", n_frequencies=6)),
    FourierRidgeClassifier(FourierFeatures(length_scale="learn", n_frequencies=6), length_scales=[0.5, 1.0]),
    FourierSVC(FourierFeatures("matern", length_scale="learn", n_frequencies=6), Cs=[1.0, 10.0]),
]

SHORT = LearnedLengthScales(n_iterations=3)

ESTIMATORS = [build(*parts) for parts in COMBINATIONS] + [
    FourierFeatures(Matern(nu=2.2), sampler=Halton(rotate=True), weighting=Stein(sketch="pairs"), n_frequencies=6),
    FourierFeatures(length_scale="scale", weighting=Stein(sketch="pairs", sampling="row-norm"), n_frequencies=6),
    FourierFeatures(n_frequencies=6, refine=5),
    FourierFeatures("cauchy", sampler="sobol", weighting="uniform", n_frequencies=6, refine=5),
    FourierFeatures(weighting=Matrix(n_points=20), n_frequencies=6, n_components=3),
    FourierFeatures("matern", weighting="matrix", n_frequencies=6, n_components=5, refine=5),
    FourierFeatures(n_frequencies="auto", tolerance=0.5),
    FourierFeatures(n_frequencies="auto", tolerance=0.5, weighting="matrix"),
    FourierFeatures(length_scale="learn", n_frequencies=6),
    *(
        FourierFeatures(kernel, length_scale=SHORT, sampler="sobol", weighting="uniform", n_frequencies=6)
        for kernel in KERNELS
    ),
    FourierFeatures(length_scale=LearnedLengthScales(objective="likelihood"), weighting="matrix", n_frequencies=6),
]


@parametrize_with_checks(ESTIMATORS)
def test_estimator_checks(estimator, check):
    check(estimator)


# scikit-learn's data have constant targets and rare classes here and there.
@pytest.mark.filterwarnings("ignore:A target is constant:UserWarning")
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@parametrize_with_checks(HEADS)
def test_estimator_checks_of_heads(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", ["check_param_validation", "check_dataframe_column_names_consistency"])
@pytest.mark.parametrize("estimator", HEADS, ids=[f"{type(head).__name__}-{i}" for i, head in enumerate(HEADS)])
def test_scikit_learns_own_checks_of_heads(estimator, name):
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


# The pandas and polars checks mix input with and without names, which scikit-learn warns about.
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names:UserWarning")
@pytest.mark.parametrize("name", OWN_CHECKS)
@pytest.mark.parametrize(
    "estimator",
    ESTIMATORS,
    ids=lambda e: (
        f"{e.kernel}-{e.length_scale}-{e.sampler}-{e.weighting}-{e.n_frequencies}-{e.refine}-{e.n_components}"
    ),
)
def test_scikit_learns_own_checks(estimator, name):
    getattr(estimator_checks, name)("FourierFeatures", clone(estimator))


def test_array_api_check_in_a_process_that_asks_for_it():
    """scipy reads SCIPY_ARRAY_API at import: without it the check skips itself above."""
    code = (
        "from sklearn.utils.estimator_checks import check_array_api_input\n"
        "from bochner import FourierFeatures\n"
        "check_array_api_input('FourierFeatures', FourierFeatures(n_frequencies=6, random_state=0), 'numpy')\n"
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("head", [FourierRidge(), FourierRidgeClassifier(), FourierSVC()])
def test_every_parameter_of_a_head_can_be_searched(rng, head):
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    grids = {
        "features": [None, FourierFeatures(n_frequencies=3)],
        "features__n_frequencies": [2, 4],
        "alphas": [(1.0,), (0.1, 1.0)],
        "Cs": [(1.0,), (0.1, 1.0)],
        "cv": [2, 3, KFold(2)],
        "length_scales": [(1.0,), (1.0, 2.0)],
        "class_weight": [None, "balanced"],
        "probability": [False, True],
        "random_state": [0, 1],
        "verbose": [0],
    }
    head = clone(head).set_params(features=FourierFeatures(n_frequencies=4, random_state=0))
    assert {name for name in head.get_params() if not name.startswith("features__")} <= set(grids)
    for name, values in grids.items():
        if name in head.get_params():
            search = GridSearchCV(head, {name: values}, cv=2, error_score="raise").fit(X, y)
            assert len(search.cv_results_["params"]) == len(values)


def test_every_parameter_can_be_searched(rng):
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    features = FourierFeatures(Matern(), sampler=Sobol(), weighting=Stein(), n_frequencies=4, random_state=0)
    grids = {
        "kernel": ["gaussian", Matern(nu=0.5)],
        "kernel__nu": [0.5, 2.5],
        "length_scale": [1.0, [1.0, 2.0, 3.0], "median", "scale", "learn", LearnedLengthScales(n_iterations=2)],
        "n_frequencies": [2, 4, "auto"],
        "tolerance": [0.1, 0.2],
        "refine": [0, 3],
        "n_components": [None, 3],
        "sampler": ["mc", "orthogonal"],
        "sampler__rotate": [False, True],
        "weighting": ["uniform", "shrinkage", "quadrature"],
        "weighting__sketch": ["points", "pairs"],
        "weighting__n_points": [10, 20],
        "weighting__alphas": [(1.0,), (0.1, 1.0)],
        "random_state": [0, 1],
    }
    nested = {name for name in features.get_params() if not name.startswith("weighting__")}
    assert nested <= set(grids)
    for name, values in grids.items():
        search = GridSearchCV(
            make_pipeline(features, Ridge()), {f"fourierfeatures__{name}": values}, cv=2, error_score="raise"
        )
        search.fit(X, y)
        assert len(search.cv_results_["params"]) == len(values)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighting", [Stein(n_points=20), Matrix(n_points=20)])
def test_round_trips_are_bit_equal(rng, dtype, weighting):
    X = rng.normal(size=(30, 3)).astype(dtype)
    features = FourierFeatures(Matern(nu=2.5), sampler=Sobol(), weighting=weighting, random_state=0).fit(X)
    for copy in (
        pickle.loads(pickle.dumps(features)),
        skops.io.loads(skops.io.dumps(features), trusted=["bochner.fourier_features.FourierFeatures", *PARTS]),
    ):
        assert copy.transform(X).tobytes() == features.transform(X).tobytes()
        assert copy.exact_kernel(X).tobytes() == features.exact_kernel(X).tobytes()


PARTS = ["bochner.kernels.Matern", "bochner.samplers.Sobol", "bochner.weightings.Stein", "bochner.weightings.Matrix"]


def test_every_parameter_of_a_matrix_can_be_searched(rng):
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    model = make_pipeline(FourierFeatures(weighting=Matrix(), n_frequencies=6, random_state=0), Ridge())
    grids = {"n_components": [2, None], "weighting__n_points": [10, 20], "weighting__alphas": [(1.0,), (0.1, 1.0)]}
    for name, values in grids.items():
        search = GridSearchCV(model, {f"fourierfeatures__{name}": values}, cv=2, error_score="raise").fit(X, y)
        assert len(search.cv_results_["params"]) == len(values)


def test_fit_leaves_the_given_parts_alone(rng):
    kernel = Gaussian()
    features = FourierFeatures(kernel, n_frequencies=4).fit(rng.normal(size=(10, 2)))
    assert features.kernel is kernel
    assert features.kernel_ is not kernel
