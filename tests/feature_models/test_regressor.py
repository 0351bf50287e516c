# SPDX-License-Identifier: BSD-3-Clause
"""Models with squared errors against scikit-learn's estimators on the same features."""

import pickle
import warnings
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics import r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelBinarizer

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.feature_models.ridge import FIRST_ROWS
from bochner.kernels import Matern

ALPHAS = np.logspace(-8, 4, 25)


def features(n_frequencies=24):
    return FourierFeatures(n_frequencies=n_frequencies, random_state=0)


@pytest.fixture
def regression(rng):
    X = rng.normal(size=(300, 4))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=300) + 100.0


@pytest.mark.parametrize("cv", [5, KFold(3, shuffle=True, random_state=1), PredefinedSplit(np.arange(300) % 4 - 1)])
def test_model_equals_grid_search(regression, cv):
    X, y = regression
    model = FeatureRegressor(features(), cv=cv).fit(X, y)
    Z = features().fit_transform(X)
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS * len(X)}, cv=cv).fit(Z, y)
    assert model.alpha_ == pytest.approx(search.best_params_["alpha"] / len(X))
    np.testing.assert_allclose(model.coef_, search.best_estimator_.coef_, rtol=1e-7)
    assert model.intercept_ == pytest.approx(search.best_estimator_.intercept_, rel=1e-10)
    assert model.best_score_ == pytest.approx(search.best_score_, rel=1e-10)
    np.testing.assert_allclose(model.predict(X), search.predict(Z), rtol=1e-10)
    assert model.cv_errors_.shape == (25, search.n_splits_)


@pytest.mark.parametrize("name", ["cpu", "years_d90_1176"])
def test_model_equals_grid_search_on_the_data_of_the_paper(paper_data, name):
    with np.load(paper_data / f"{name}.npz") as data:
        X, y = (data["X_train"], data["y_train"]) if "X_train" in data else (data["X"], data["y"])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X, y = X.astype(np.float64), y.astype(np.float64).ravel()
    model = FeatureRegressor(features(64)).fit(X, y)
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS * len(X)}, cv=5).fit(features(64).fit_transform(X), y)
    assert model.alpha_ == pytest.approx(search.best_params_["alpha"] / len(X))
    difference = np.linalg.norm(model.coef_ - search.best_estimator_.coef_)
    assert difference < 1e-6 * np.linalg.norm(search.best_estimator_.coef_)


def test_several_targets_equal_scikit_learn(regression):
    X, y = regression
    Y = np.column_stack([y, X[:, 2]])
    model = FeatureRegressor(features(), alphas=[1e-3]).fit(X, Y)
    expected = Ridge(alpha=1e-3 * len(X)).fit(features().fit_transform(X), Y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-8)
    predictions, deviations = model.predict(X[:5], return_std=True)
    assert predictions.shape == deviations.shape == (5, 2)


def test_sample_weights_equal_repeated_rows(regression, rng):
    X, y = regression
    weights = rng.integers(0, 3, size=len(X))
    groups = np.arange(len(X)) % 3
    repeat = np.repeat(np.arange(len(X)), weights)
    weighted = FeatureRegressor(features(), cv=list(GroupKFold(3).split(X, y, groups))).fit(X, y, weights)
    folds = list(GroupKFold(3).split(X[repeat], y[repeat], groups[repeat]))
    repeated = FeatureRegressor(features(), cv=folds).fit(X[repeat], y[repeat])
    assert weighted.features_.length_scale_ == repeated.features_.length_scale_
    np.testing.assert_array_equal(weighted.features_.weights_, repeated.features_.weights_)
    assert weighted.alpha_ == repeated.alpha_
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-9)


def test_generalized_cross_validation_equals_dense_formula(regression):
    X, y = regression
    model = FeatureRegressor(features(), cv=None).fit(X, y)
    Z = features().fit_transform(X)
    centered, errors = Z - Z.mean(axis=0), []
    for alpha in ALPHAS:
        penalized = centered.T @ centered + alpha * 300 * np.eye(48)
        freedom = 1.0 + np.trace(np.linalg.solve(penalized, centered.T @ centered))
        residuals = y - Ridge(alpha=alpha * 300).fit(Z, y).predict(Z)
        errors.append(np.mean(residuals**2) / (1.0 - freedom / 300) ** 2)
    assert model.cv_errors_.shape == (25, 1)
    np.testing.assert_allclose(model.cv_errors_[:, 0], errors, rtol=1e-6)
    assert model.alpha_ == pytest.approx(ALPHAS[np.argmin(errors)])
    assert model.best_score_ == pytest.approx(1.0 - min(errors) / y.var(), rel=1e-8)


def test_standard_deviations_equal_dense_formula(regression):
    X, y = regression
    model = FeatureRegressor(features(), alphas=[1e-3]).fit(X[:200], y[:200])
    predictions, deviations = model.predict(X[200:], return_std=True)
    Z, new = model.features_.transform(X[:200]), model.features_.transform(X[200:])
    mean = Z.mean(axis=0)
    gram = (Z - mean).T @ (Z - mean)
    precision = np.linalg.inv(gram + 0.2 * np.eye(48))
    ridge = Ridge(alpha=0.2).fit(Z, y[:200])
    noise = np.sum((y[:200] - ridge.predict(Z)) ** 2) / (200 - 1 - np.trace(precision @ gram))
    leverage = np.einsum("ij,jk,ik->i", new - mean, precision, new - mean)
    np.testing.assert_allclose(deviations, np.sqrt(noise * (1 + 1 / 200 + leverage)), rtol=1e-8)
    np.testing.assert_allclose(predictions, ridge.predict(new), rtol=1e-10)


# With 2 calls, the second one adds several spans of rows; with 7 calls, spans begin and end within calls.
@pytest.mark.parametrize("n_calls", [2, 7, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("cv", [5, None])
def test_partial_fit_does_not_depend_on_the_division_into_calls(rng, n_calls, cv):
    n_rows = 5 * FIRST_ROWS + 1234
    X = rng.normal(size=(n_rows, 3))
    y = np.sin(2 * X[:, 0]) + rng.normal(size=n_rows)
    weights = rng.uniform(size=n_rows)
    whole = FeatureRegressor(features(16), cv=cv).partial_fit(X, y, weights)
    divided = FeatureRegressor(features(16), cv=cv)
    for rows in np.array_split(np.arange(n_rows), n_calls):
        divided.partial_fit(X[rows], y[rows], weights[rows])
    assert divided.alpha_ == whole.alpha_
    np.testing.assert_allclose(divided.coef_, whole.coef_, rtol=0, atol=1e-9 * np.abs(whole.coef_).max())
    np.testing.assert_allclose(divided.predict(X[:100]), whole.predict(X[:100]), rtol=1e-9)


def test_partial_fit_equals_fit_with_round_robin_folds(regression):
    X, y = regression
    whole = FeatureRegressor(features(), cv=PredefinedSplit(np.arange(300) % 5)).fit(X, y)
    divided = FeatureRegressor(features()).fit_features(X)
    for rows in np.array_split(np.arange(300), 9):
        divided.partial_fit(X[rows], y[rows])
    assert divided.alpha_ == whole.alpha_
    np.testing.assert_allclose(divided.coef_, whole.coef_, rtol=1e-9)
    np.testing.assert_allclose(divided.cv_errors_, whole.cv_errors_, rtol=1e-9)


def test_model_can_be_used_between_calls_of_partial_fit(regression):
    X, y = regression
    model = FeatureRegressor(features()).partial_fit(X[:100], y[:100])
    early = model.predict(X)
    late = model.partial_fit(X[100:], y[100:]).predict(X)
    assert np.abs(early - late).max() > 1e-3
    np.testing.assert_array_equal(late, FeatureRegressor(features()).partial_fit(X, y).predict(X))


def test_partial_fit_continues_a_fit(regression):
    X, y = regression
    model = FeatureRegressor(features(), alphas=[1e-3]).fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    first = features().fit(X[:200])
    expected = Ridge(alpha=0.3).fit(first.transform(X), y)
    np.testing.assert_allclose(model.predict(X), expected.predict(first.transform(X)), rtol=1e-8)


def test_sparse_and_memory_mapped_rows_give_the_dense_model(regression, tmp_path):
    X, y = regression
    X = np.where(X > 0.5, X, 0.0)
    dense = FeatureRegressor(features()).fit(X, y)
    np.testing.assert_allclose(
        FeatureRegressor(features()).fit(sparse.csr_array(X), y).predict(X), dense.predict(X), 1e-8
    )
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(FeatureRegressor(features()).fit(mapped, y).predict(mapped), dense.predict(X))
    divided = FeatureRegressor(features()).partial_fit(sparse.csr_array(X[:150]), y[:150])
    divided.partial_fit(sparse.csr_array(X[150:]), y[150:])
    np.testing.assert_allclose(divided.predict(X), FeatureRegressor(features()).partial_fit(X, y).predict(X), rtol=1e-8)


def test_float32_stays_float32_and_close_to_float64(regression):
    X, y = regression
    model = FeatureRegressor(features(), alphas=[1e-3]).fit(X.astype(np.float32), y)
    predictions, deviations = model.predict(X.astype(np.float32), return_std=True)
    assert predictions.dtype == deviations.dtype == np.float32
    expected = FeatureRegressor(features(), alphas=[1e-3]).fit(X, y)
    np.testing.assert_allclose(predictions, expected.predict(X), rtol=1e-5)


def test_best_length_scale_is_chosen(rng):
    X = rng.normal(size=(400, 2))
    y = np.sin(6 * X[:, 0]) + 0.05 * rng.normal(size=400)
    model = FeatureRegressor(features(64), length_scale_factors=[0.2, 1.0, 5.0]).fit(X, y)
    single = [FeatureRegressor(features(64), length_scale_factors=[scale]).fit(X, y) for scale in (0.2, 1.0, 5.0)]
    np.testing.assert_allclose(model.length_scale_scores_, [other.best_score_ for other in single])
    assert model.features_.length_scale_ == single[0].features_.length_scale_
    assert model.features_.length_scale_ == pytest.approx(0.2 * features().fit(X).length_scale_)
    np.testing.assert_allclose(model.coef_, single[0].coef_)


class TestKernels:
    """The choice among kernels."""

    KERNELS = ("gaussian", "exponential", Matern(nu=2.5))

    @pytest.fixture
    def jumps(self, rng):
        X = rng.uniform(-1, 1, size=(300, 1))
        return X, np.abs(X[:, 0]) + (np.abs(X[:, 0] + 0.1) < 0.4) + 0.05 * rng.normal(size=300)

    @pytest.mark.parametrize(("name", "best"), [("jumps", "Exponential"), ("regression", "Matern")])
    def test_choice_equals_grid_search(self, request, name, best):
        """Features of a given length scale and without weights are the same in every fold of the grid search."""
        X, y = request.getfixturevalue(name)
        plain = FourierFeatures(length_scale=1.0, weighting="uniform", n_frequencies=24, random_state=0)
        alphas, folds = [1e-5, 1e-3, 1e-1], KFold(4, shuffle=True, random_state=0)
        model = FeatureRegressor(plain, alphas=alphas, cv=folds, kernels=self.KERNELS).fit(X, y)
        search = GridSearchCV(
            Pipeline([("features", plain), ("ridge", Ridge())]),
            {"features__kernel": self.KERNELS, "ridge__alpha": np.multiply(alphas, len(X))},
            cv=folds,
            scoring={"r2": "r2", "error": "neg_mean_squared_error"},
            refit="r2",
        ).fit(X, y)
        assert type(model.features_.kernel_).__name__ == best
        assert repr(model.features_.kernel) == repr(search.best_params_["features__kernel"])
        assert model.alpha_ * len(X) == pytest.approx(search.best_params_["ridge__alpha"])
        results = search.cv_results_
        np.testing.assert_allclose(
            model.kernel_scores_, results["mean_test_r2"].reshape(3, 3).max(axis=1), rtol=1e-8, atol=1e-8
        )
        assert model.best_score_ == pytest.approx(search.best_score_, rel=1e-8)
        errors = -np.stack([results[f"split{fold}_test_error"] for fold in range(4)], axis=1).reshape(3, 3, 4)
        np.testing.assert_allclose(model.cv_errors_, errors[search.best_index_ // 3], rtol=1e-8)
        np.testing.assert_allclose(model.predict(X), search.predict(X), rtol=1e-7)

    @pytest.mark.parametrize(
        ("estimator", "transformer", "weighted"),
        [
            (FeatureRegressor, features(), False),
            (FeatureRegressor, LandmarkFeatures(n_landmarks=12, random_state=0), True),
            (partial(FeatureClassifier, loss="squared_error"), features(), True),
        ],
    )
    def test_choice_equals_separate_fits(self, jumps, rng, estimator, transformer, weighted):
        X, y = jumps
        y = y if estimator is FeatureRegressor else np.digitize(y, [0.6, 1.1])
        weights = rng.integers(0, 3, size=300) if weighted else None
        scales = [0.5, 2.0]
        model = estimator(transformer, length_scale_factors=scales, kernels=self.KERNELS).fit(X, y, weights)
        single = [
            estimator(clone(transformer).set_params(kernel=kernel), length_scale_factors=scales).fit(X, y, weights)
            for kernel in self.KERNELS
        ]
        np.testing.assert_allclose(model.kernel_scores_, [other.best_score_ for other in single], rtol=1e-12)
        chosen = max(single, key=lambda other: other.best_score_)
        assert repr(model.features_) == repr(chosen.features_)
        penalty = "alpha_" if estimator is FeatureRegressor else "C_"
        assert getattr(model, penalty) == getattr(chosen, penalty)
        for name in ("coef_", "intercept_", "cv_errors_", "length_scale_scores_"):
            np.testing.assert_array_equal(getattr(model, name), getattr(chosen, name), err_msg=name)
        assert model.cv_errors_.shape == (25, 5)
        assert model.length_scale_scores_.shape == (2,)

    def test_one_kernel_replaces_that_of_the_features(self, jumps):
        model = FeatureRegressor(features(), kernels=["exponential"]).fit(*jumps)
        alone = FeatureRegressor(features().set_params(kernel="exponential")).fit(*jumps)
        np.testing.assert_array_equal(model.coef_, alone.coef_)
        np.testing.assert_array_equal(model.kernel_scores_, [alone.best_score_])
        np.testing.assert_array_equal(alone.kernel_scores_, [alone.best_score_])

    def test_generalized_cross_validation(self, jumps):
        model = FeatureRegressor(features(), cv=None, kernels=self.KERNELS).fit(*jumps)
        single = [
            FeatureRegressor(features().set_params(kernel=kernel), cv=None).fit(*jumps) for kernel in self.KERNELS
        ]
        np.testing.assert_allclose(model.kernel_scores_, [other.best_score_ for other in single], rtol=1e-12)

    def test_memory_map_and_float32(self, jumps, tmp_path):
        X, y = jumps
        np.save(tmp_path / "X.npy", X.astype(np.float32))
        rows = np.load(tmp_path / "X.npy", mmap_mode="r")
        model = FeatureRegressor(features(), kernels=self.KERNELS).fit(rows, y)
        expected = FeatureRegressor(features(), kernels=self.KERNELS).fit(X.astype(np.float32), y)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert model.predict(rows).dtype == np.float32

    def test_division_into_calls_of_partial_fit_makes_no_difference(self, jumps):
        X, y = jumps
        whole = FeatureRegressor(features(), kernels=self.KERNELS).partial_fit(X, y)
        parts = FeatureRegressor(features(), kernels=self.KERNELS)
        for rows in np.array_split(np.arange(300), 4):
            parts.partial_fit(X[rows], y[rows])
            assert parts.kernel_scores_.shape == (3,)
        np.testing.assert_array_equal(parts.kernel_scores_, whole.kernel_scores_)
        np.testing.assert_array_equal(parts.coef_, whole.coef_)
        fitted = FeatureRegressor(features(), kernels=self.KERNELS).fit_features(X).partial_fit(X, y)
        np.testing.assert_array_equal(fitted.coef_, whole.coef_)

    def test_fitted_model_keeps_its_scores(self, jumps):
        model = FeatureRegressor(features(), kernels=self.KERNELS).fit(*jumps)
        scores = model.kernel_scores_
        copies = [pickle.loads(pickle.dumps(model)), model.set_params(kernels=None)]
        for copy in copies:
            np.testing.assert_array_equal(copy.kernel_scores_, scores)
        assert clone(model).fit(*jumps).kernel_scores_.shape == (1,)
        assert "kernels=('gaussian', 'exponential', Matern(nu=2.5))" in repr(copies[0])

    def test_kernels_can_be_searched(self, jumps):
        grid = {"kernels": [["gaussian"], ["gaussian", "exponential"], (Matern(nu=2.5),), None]}
        search = GridSearchCV(FeatureRegressor(features()), grid, cv=2, error_score="raise").fit(*jumps)
        assert search.best_params_["kernels"] == ["gaussian", "exponential"]


@pytest.mark.parametrize("noise", [0.1, 1.0])
@pytest.mark.parametrize("n_rows", [200, 2000])
def test_intervals_cover_new_targets(rng, noise, n_rows):
    def truth(X):
        return np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2

    X, new = rng.normal(size=(n_rows, 2)), rng.normal(size=(4000, 2))
    model = FeatureRegressor(features(128)).fit(X, truth(X) + noise * rng.normal(size=n_rows))
    predictions, deviations = model.predict(new, return_std=True)
    actual = truth(new) + noise * rng.normal(size=4000)
    assert 0.92 < np.mean(np.abs(actual - predictions) < 1.96 * deviations) < 0.98


def test_intervals_cover_targets_of_the_cpu_data(paper_data):
    with np.load(paper_data / "cpu.npz") as data:
        mean, scale = data["X_train"].mean(axis=0), data["X_train"].std(axis=0)
        model = FeatureRegressor(features(256)).fit((data["X_train"] - mean) / scale, data["y_train"].ravel())
        predictions, deviations = model.predict((data["X_test"] - mean) / scale, return_std=True)
        covered = np.abs(data["y_test"].ravel() - predictions) < 1.96 * deviations
    assert 0.92 < covered.mean() < 0.98


@pytest.mark.parametrize("n_classes", [2, 4])
def test_classifier_equals_scikit_learn(rng, n_classes):
    X = rng.normal(size=(300, 3))
    y = np.array(list("abcd"))[np.digitize(X[:, 0] * X[:, 1], [0.0, 0.5, 1.0]) % n_classes]
    model = FeatureClassifier(features(), Cs=[0.5 / (1e-4 * 300)], loss="squared_error").fit(X, y)
    expected = RidgeClassifier(alpha=1e-4 * 300).fit(features().fit_transform(X), y)
    np.testing.assert_array_equal(model.classes_, expected.classes_)
    np.testing.assert_allclose(model.coef_, np.atleast_2d(expected.coef_), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-8, atol=1e-10)
    scores = expected.decision_function(features().fit_transform(X))
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-7)
    np.testing.assert_array_equal(model.predict(X), expected.predict(features().fit_transform(X)))
    divided = FeatureClassifier(features(), Cs=[0.5 / (1e-4 * 300)], loss="squared_error").fit_features(X)
    divided.partial_fit(X[:100], y[:100], classes=np.unique(y)).partial_fit(X[100:], y[100:])
    np.testing.assert_allclose(divided.coef_, model.coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifier_has_the_penalty_with_the_best_mean_r2(rng, n_classes):
    X = rng.normal(size=(300, 3))
    y = np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=300), [0.0, 0.5][: n_classes - 1])
    model = FeatureClassifier(features(), loss="squared_error").fit(X, y)
    targets = LabelBinarizer(pos_label=1, neg_label=-1).fit_transform(y)
    folds = list(StratifiedKFold(5).split(X, y))
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS * 300}, cv=folds).fit(features().fit_transform(X), targets)
    assert pytest.approx(0.5 / search.best_params_["alpha"]) == model.C_
    assert model.best_score_ == pytest.approx(search.best_score_, rel=1e-9)


def test_finalized_models_are_small_and_predict_the_same(regression):
    X, y = regression
    model = FeatureRegressor(features()).partial_fit(X, y)
    expected, size = model.predict(X, return_std=True), len(pickle.dumps(model))
    finalized = pickle.loads(pickle.dumps(model.finalize()))
    assert len(pickle.dumps(model)) < 0.7 * size  # without the rows that wait and the moments of the folds
    np.testing.assert_array_equal(finalized.predict(X, return_std=True), expected)
    types = skops.io.get_untrusted_types(data=skops.io.dumps(finalized))
    assert all(name.startswith("bochner.") for name in types)
    loaded = skops.io.loads(skops.io.dumps(finalized), trusted=types)
    np.testing.assert_array_equal(loaded.predict(X), finalized.predict(X))


def test_pickled_models_have_no_moments_of_folds(regression):
    X, y = regression
    model = FeatureRegressor(features()).fit(X, y)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict(X, return_std=True), model.predict(X, return_std=True))
    assert len(pickle.dumps(model)) < 1.1 * len(pickle.dumps(FeatureRegressor(features()).fit(X, y).finalize()))
    with pytest.raises(ValueError, match="cannot continue a `fit` that was pickled"):
        loaded.partial_fit(X, y)
    assert model.partial_fit(X, y) is model  # this one has its moments


def test_pickled_models_of_partial_fit_continue(regression):
    X, y = regression
    begun = pickle.loads(pickle.dumps(FeatureRegressor(features()).partial_fit(X[:100], y[:100])))
    whole = FeatureRegressor(features()).partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(begun.partial_fit(X[100:], y[100:]).predict(X), whole.predict(X))


def test_partial_fit_of_a_finalized_model_starts_from_the_beginning(regression):
    X, y = regression
    model = FeatureRegressor(features()).fit(X, -y).finalize().partial_fit(X, y)
    np.testing.assert_array_equal(model.predict(X), FeatureRegressor(features()).partial_fit(X, y).predict(X))


def test_folds_of_one_row_are_scored_together(regression):
    X, y = regression
    alphas = [1e-8, 1e-3, 1e4]
    model = FeatureRegressor(features(), cv=LeaveOneOut(), alphas=alphas).fit(X[:40], y[:40])
    backwards = FeatureRegressor(features(), cv=LeaveOneOut(), alphas=alphas[::-1]).fit(X[:40], y[:40])
    assert model.alpha_ == backwards.alpha_ == alphas[model.cv_errors_.mean(axis=1).argmin()]


def test_outlier_in_the_first_row_costs_no_digits(regression):
    X, y = regression
    y = y.copy()
    y[0] = 1e9
    model = FeatureRegressor(features()).fit(X, y)
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS * len(X)}, cv=5).fit(features().fit_transform(X), y)
    assert model.alpha_ == pytest.approx(search.best_params_["alpha"] / len(X))
    assert model.best_score_ == pytest.approx(search.best_score_, rel=1e-3)


def test_new_features_reset_the_model(rng):
    X = rng.normal(size=(60, 2))
    model = FeatureClassifier(features(), loss="squared_error").fit(X, np.arange(60) % 3)
    model.fit_features(X).partial_fit(X, np.array(["a", "b"])[np.arange(60) % 2], classes=["a", "b"])
    assert model.classes_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"`classes` must be the same in every call. Got \['a', 'c'\]"):
        model.partial_fit(X, ["a"] * 60, classes=["a", "c"])


def test_prediction_between_calls_does_not_change_the_drawn_seed(regression):
    X, y = regression
    divided = FeatureRegressor(FourierFeatures(n_frequencies=8), random_state=np.random.RandomState(0))
    divided.partial_fit(X[:100], y[:100]).predict(X)
    whole = FeatureRegressor(FourierFeatures(n_frequencies=8), random_state=np.random.RandomState(0)).partial_fit(X, y)
    np.testing.assert_array_equal(divided.partial_fit(X[100:], y[100:]).predict(X), whole.predict(X))


def test_noise_variance_with_a_penalty_that_is_raised_above_rounding(rng):
    X = rng.uniform(-1, 1, size=(400, 1))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=400)
    assert FeatureRegressor(features(64), alphas=[1e-16]).fit(X, y).noise_variance_ == pytest.approx(0.01, rel=0.3)


@pytest.mark.parametrize("cv", [5, None])
def test_standard_deviations_do_not_depend_on_the_unit_of_small_weights(regression, rng, cv):
    """Weights that sum to less than the rows are not counts: only their ratios matter."""
    X, y = regression
    weights = rng.uniform(0.5, 1.0, size=300)
    expected = FeatureRegressor(features(), cv=cv).fit(X, y, weights).predict(X, return_std=True)
    found = FeatureRegressor(features(), cv=cv).fit(X, y, weights / 1000).predict(X, return_std=True)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("cv", [5, None])
def test_equal_small_weights_give_the_deviations_of_no_weights(regression, cv):
    X, y = regression
    model = FeatureRegressor(features(), cv=cv).fit(X, y)
    for weighted in (
        FeatureRegressor(features(), cv=cv).fit(X, y, np.full(300, 1 / 300)),
        FeatureRegressor(features(), cv=cv).fit_features(X).partial_fit(X, y, np.full(300, 1e-3)),
    ):
        assert weighted.noise_variance_ == pytest.approx(model.noise_variance_, rel=0.05)
    _, deviations = FeatureRegressor(features(), cv=cv).fit(X, y, np.full(300, 1e-3)).predict(X, return_std=True)
    np.testing.assert_allclose(deviations, model.predict(X, return_std=True)[1], rtol=1e-6)


def test_weights_of_two_have_the_deviations_of_two_copies(regression, rng):
    X, y = regression
    weights = rng.integers(0, 3, size=300)
    repeat = np.repeat(np.arange(300), weights)
    weighted = FeatureRegressor(features(), cv=None).fit(X, y, weights)
    repeated = FeatureRegressor(features(), cv=None).fit(X[repeat], y[repeat])
    np.testing.assert_allclose(
        weighted.predict(X, return_std=True)[1], repeated.predict(X, return_std=True)[1], rtol=1e-7
    )


class InterruptedSquares(TransformerMixin, BaseEstimator):
    """Squares of the columns; the transform of a number of rows is interrupted once."""

    interrupts: ClassVar[list[type[BaseException]]] = []

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        if len(X) > 1 and self.interrupts and (X[:, 0] > 9.0).any():
            raise self.interrupts.pop()
        return X**2


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("interrupted", [0, 1])
@pytest.mark.parametrize(
    "kind", [FeatureRegressor, partial(FeatureClassifier, loss="squared_error")], ids=["regression", "classes"]
)
def test_interrupted_partial_fit_can_be_repeated(rng, kind, interrupted, error):
    X = rng.normal(size=(5 * FIRST_ROWS, 2))
    y = (X[:, 0] ** 2 > X[:, 1]).astype(float)
    options = {} if kind is FeatureRegressor else {"classes": [0.0, 1.0]}
    parts = [slice(0, 2 * FIRST_ROWS + 100), slice(2 * FIRST_ROWS + 100, None)]
    X[parts[interrupted].start + FIRST_ROWS, 0] = 10.0  # in the second span of the interrupted call
    whole, model = kind(InterruptedSquares(), cv=2), kind(InterruptedSquares(), cv=2)
    for number, rows in enumerate(parts):
        whole.partial_fit(X[rows], y[rows], **options)
        if number == interrupted:
            InterruptedSquares.interrupts.append(error)
            with pytest.raises(error):
                model.partial_fit(X[rows], y[rows], **options)
        model.partial_fit(X[rows], y[rows], **options)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    np.testing.assert_array_equal(model.coef_, whole.coef_)


def test_dense_and_sparse_batches_can_be_mixed(regression):
    X, y = regression
    model = FeatureRegressor(features()).partial_fit(X[:150], y[:150]).partial_fit(sparse.csr_array(X[150:]), y[150:])
    np.testing.assert_allclose(model.predict(X), FeatureRegressor(features()).partial_fit(X, y).predict(X), rtol=1e-9)


@pytest.mark.parametrize("weighting", ["stein", pytest.param("matrix", marks=pytest.mark.slow)])
def test_automatic_size_is_the_same_for_all_length_scales(rng, weighting):
    X = rng.normal(size=(300, 3))
    features = FourierFeatures(n_frequencies="auto", tolerance=0.2, weighting=weighting)
    model = FeatureRegressor(features, length_scale_factors=[0.5, 1.0, 2.0], random_state=0).fit(X, np.sin(X[:, 0]))
    assert model.score(X, np.sin(X[:, 0])) > 0.9
    plain = clone(features).set_params(random_state=0).fit(X)
    assert model.features_.length_scale_ >= plain.length_scale_
    shortest = clone(plain).set_params(length_scale=0.5 * plain.length_scale_).fit(X)
    assert len(shortest.weights_) > len(plain.weights_)
    assert model.features_.weights_.shape == shortest.weights_.shape
    assert model.coef_.shape == (shortest.transform(X[:1]).shape[1],)


def test_constant_target_is_predicted_with_a_warning(rng):
    with pytest.warns(UserWarning, match="A target is constant: the model predicts that constant"):
        model = FeatureRegressor(features()).fit(rng.normal(size=(20, 2)), np.full(20, 3.0))
    np.testing.assert_allclose(model.predict(rng.normal(size=(5, 2))), 3.0)


@pytest.mark.parametrize("row", [0, 7])
def test_weight_beside_which_all_others_vanish_gets_a_warning(regression, row):
    X, y = regression[0][:30], regression[1][:30]
    weights = np.ones(30)
    weights[row] = 1e20
    with pytest.warns(UserWarning, match=r"`sample_weight` of one row.* exceeds that of all other rows"):
        model = FeatureRegressor(features(), cv=None).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.predict(X[row : row + 1]), y[row], rtol=1e-6)
    weights[row] = 1e12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FeatureRegressor(features(), cv=None).fit(X, y, sample_weight=weights)


def test_score_equals_scikit_learn(regression, rng):
    X, y = regression
    weights = rng.uniform(size=300)
    model = FeatureRegressor(features()).fit(X[:200], y[:200])
    expected = r2_score(y, model.predict(X), sample_weight=weights)
    assert model.score(X, y, weights) == pytest.approx(expected, rel=1e-10)
    both = FeatureRegressor(features()).fit(X[:200], np.column_stack([y, X[:, 2]])[:200])
    expected = r2_score(np.column_stack([y, X[:, 2]]), both.predict(X))
    assert both.score(X, np.column_stack([y, X[:, 2]])) == pytest.approx(expected, rel=1e-10)


def test_score_keeps_its_digits_far_from_the_intercept(rng):
    X = rng.normal(size=(3000, 2))
    y = X[:, 0] ** 2
    model = FeatureRegressor(FourierFeatures(length_scale=100.0, n_frequencies=16, random_state=0)).fit(X, y)
    rows = np.abs(X[:, 0]) < 0.02  # the intercept is a thousand times the targets of these rows
    assert model.score(X[rows], y[rows]) == pytest.approx(r2_score(y[rows], model.predict(X[rows])), rel=1e-10)


def test_score_of_one_row_is_not_defined(regression):
    X, y = regression
    model = FeatureRegressor(features()).fit(X, y)
    with pytest.warns(UndefinedMetricWarning, match="not defined for a single row"):
        assert np.isnan(model.score(X[:1], y[:1]))


class TestErrors:
    @pytest.mark.parametrize("cv", [[], PredefinedSplit(np.full(300, -1))])
    def test_splitter_without_splits(self, regression, cv):
        with pytest.raises(ValueError, match="`cv` has no splits; give a number of folds, or None"):
            FeatureRegressor(features(), cv=cv).fit(*regression)

    @pytest.mark.parametrize("rows", [slice(0, 60), slice(240, 300)])
    def test_fold_without_weight(self, regression, rows):
        weights = np.ones(300)
        weights[rows] = 0.0
        with pytest.raises(ValueError, match="A fold of `cv`=5 has no rows of positive weight to train or to test on"):
            FeatureRegressor(features()).fit(*regression, weights)

    @pytest.mark.parametrize("factor", [1e200, 1e-200])
    def test_targets_whose_squares_overflow_or_underflow(self, regression, factor):
        X, y = regression
        with pytest.raises(ValueError, match=r"y contains values up to .* overflow or underflow; rescale it"):
            FeatureRegressor(features()).fit(X, factor * y)

    def test_targets_that_float32_predictions_cannot_hold(self, regression):
        X, y = regression
        y = y / np.abs(y).max()
        for largest in (9e35, 1.1e36):
            assert np.isfinite(FeatureRegressor(features()).fit(X, largest * y).predict(X)).all()
        X = X.astype(np.float32)
        assert np.isfinite(FeatureRegressor(features()).fit(X, 9e35 * y).predict(X)).all()
        with pytest.raises(ValueError, match=r"y contains values up to 1\.1e\+36, .* rescale it"):
            FeatureRegressor(features()).fit(X, 1.1e36 * y)

    def test_multiples_of_the_length_scale_that_overflow(self, regression):
        X, y = regression
        with pytest.raises(ValueError, match="`length_scale` must contain positive, finite numbers only"):
            FeatureRegressor(features(), length_scale_factors=[1e99]).fit(1e250 * X, y)

    def test_generalized_cross_validation_without_degrees_of_freedom(self, regression):
        X, y = regression
        with pytest.raises(ValueError, match="`cv`=None needs more rows than degrees of freedom"):
            FeatureRegressor(features(), cv=None, alphas=[1e-16]).fit(X[:30], y[:30])

    def test_text_is_not_a_regression(self, regression):
        X, _ = regression
        with pytest.raises(ValueError, match="y must contain numbers for a regression"):
            FeatureRegressor(features()).fit(X, np.array(["a", "b"])[np.arange(300) % 2])

    def test_number_of_targets_stays_the_same(self, regression):
        X, y = regression
        both = np.column_stack([y, y])
        model = FeatureRegressor(features()).partial_fit(X, both)
        with pytest.raises(ValueError, match="y has 1 targets, and the model has 2"):
            model.partial_fit(X, y)
        with pytest.raises(ValueError, match="y has 1 targets, and the model has 2"):
            model.score(X, y)

    @pytest.mark.parametrize("model", [FeatureRegressor(), FeatureClassifier(loss="squared_error")])
    def test_nan_in_y(self, rng, model):
        y = np.where(np.arange(20) == 3, np.nan, 1.0)
        with pytest.raises(ValueError, match="y contains NaN"):
            model.fit(rng.normal(size=(20, 2)), y)

    def test_more_columns_than_in_fit(self, regression):
        X, y = regression
        model = FeatureRegressor(features()).fit(X, y)
        with pytest.raises(ValueError, match="5 features, but FeatureRegressor is expecting 4"):
            model.predict(np.zeros((2, 5)))
        with pytest.raises(ValueError, match="5 features, but FeatureRegressor is expecting 4"):
            model.partial_fit(np.zeros((2, 5)), [0, 1])

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"alphas": []}, "`alphas` must be a non-empty sequence of positive numbers"),
            ({"alphas": [0.0]}, "`alphas` must be"),
            ({"length_scale_factors": [-1.0]}, "`length_scale_factors` must be"),
            ({"kernels": "exponential"}, "The 'kernels' parameter of FeatureRegressor must be an instance of 'list'"),
            ({"cv": ShuffleSplit(3)}, "`cv` must test every row at most once"),
            ({"cv": 301}, "`cv`=301 is more folds than the 300 samples"),
        ],
    )
    def test_invalid_parameters(self, regression, parameters, message):
        with pytest.raises(ValueError, match=message):
            FeatureRegressor(features(), **parameters).fit(*regression)

    def test_partial_fit_needs_a_number_of_folds(self, regression):
        with pytest.raises(ValueError, match="`cv` must be a number of folds"):
            FeatureRegressor(features(), cv=KFold(3)).partial_fit(*regression)

    def test_partial_fit_needs_all_classes(self, rng):
        X = rng.normal(size=(6, 2))
        with pytest.raises(ValueError, match="`classes` must be given"):
            FeatureClassifier(features(), loss="squared_error").partial_fit(X, [0, 1] * 3)
        with pytest.raises(ValueError, match=r"label 2, which is not among \[0, 1\]"):
            FeatureClassifier(features(), loss="squared_error").partial_fit(X, [0, 2] * 3, classes=[0, 1])

    def test_refused_labels_add_no_rows(self, rng):
        X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
        model = FeatureClassifier(features(), loss="squared_error").partial_fit(X, y, classes=[0, 1])
        with pytest.raises(ValueError, match="label 2"):
            model.partial_fit(X, np.where(np.arange(60) == 40, 2, y))
        expected = FeatureClassifier(features(), loss="squared_error").partial_fit(X, y, classes=[0, 1])
        np.testing.assert_array_equal(model.decision_function(X), expected.decision_function(X))

    def test_too_few_rows_for_the_folds(self, rng):
        model = FeatureRegressor(features()).partial_fit(rng.normal(size=(3, 2)), [0.0, 1.0, 2.0])
        with pytest.raises(ValueError, match="no rows of positive weight to train or to test on"):
            model.predict(np.zeros((1, 2)))

    def test_unfitted_models_have_no_results(self):
        for name in ("alpha_", "coef_", "features_", "cv_errors_"):
            assert not hasattr(FeatureRegressor(), name)
        with pytest.raises(NotFittedError):
            FeatureRegressor().predict(np.zeros((1, 2)))
