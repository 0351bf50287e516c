# SPDX-License-Identifier: BSD-3-Clause
"""`FeatureClassifier` with the squared hinge loss against liblinear on the same features."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

import bochner.feature_models.newton
import bochner.feature_models.paths
from bochner import FeatureClassifier, FourierFeatures
from bochner.kernels import Matern

CS = np.logspace(-2, 3, 6)


def features(n_frequencies=24):
    return FourierFeatures(n_frequencies=n_frequencies, random_state=0)


def liblinear(C):
    return LinearSVC(C=C, dual=False, tol=1e-8, max_iter=10_000)


def objective(Z, signs, coef, intercept, C, weights=1.0):
    slack = np.maximum(0.0, 1.0 - signs * (Z @ coef + intercept))
    return 0.5 * (coef @ coef + intercept**2) + C * np.sum(weights * slack**2)


@pytest.fixture
def classes(rng):
    X = rng.normal(size=(400, 3))
    return X, np.array(list("abcd"))[np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=400), [0.0, 0.5, 1.0])]


@pytest.mark.parametrize("C", [1e-6, 0.1, 10.0, 1e4])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_optimum_equals_liblinear(classes, C, n_classes):
    X, y = classes
    y = y if n_classes == 4 else (y == "a").astype(int)
    weights = 0.5 + np.arange(len(y)) % 3
    model = FeatureClassifier(features(), Cs=[C], cv=None).fit(X, y, weights)
    Z = model.features_.transform(X)
    expected = liblinear(C).fit(Z, y, weights)
    assert model.coef_.shape == expected.coef_.shape
    assert model.intercept_.shape == expected.intercept_.shape
    for row, label in enumerate(model.classes_ if n_classes == 4 else [1]):
        signs = np.where(y == label, 1.0, -1.0)
        ours = objective(Z, signs, model.coef_[row], model.intercept_[row], C, weights)
        theirs = objective(Z, signs, expected.coef_[row], expected.intercept_[row], C, weights)
        assert ours <= theirs * (1 + 1e-9)
        assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_model_equals_grid_search_over_liblinear(classes, n_classes):
    X, y = classes
    y = y if n_classes == 4 else y == "a"
    model = FeatureClassifier(features(), Cs=CS).fit(X, y)
    search = GridSearchCV(liblinear(1.0), {"C": CS}, cv=5).fit(features().fit_transform(X), y)
    tried = np.isfinite(model.cv_errors_[:, 0])
    expected = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(1 - model.cv_errors_.mean(axis=1)[tried], expected[tried], rtol=1e-12)
    assert expected[tried].max() == expected.max()
    assert search.best_params_["C"] == model.C_
    assert model.best_score_ == pytest.approx(search.best_score_)
    Z = model.features_.transform(X)
    np.testing.assert_allclose(model.decision_function(X), search.decision_function(Z), rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(model.predict(X), search.predict(Z))


def test_class_weights_equal_liblinear_for_two_classes(classes):
    X, y = classes
    y = (y == "a").astype(int)
    for class_weight in ("balanced", {0: 3.0, 1: 0.5}):
        model = FeatureClassifier(features(), Cs=[1.0], cv=None, class_weight=class_weight).fit(X, y)
        expected = liblinear(1.0).set_params(class_weight=class_weight).fit(model.features_.transform(X), y)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-3, atol=1e-4)


def test_balanced_classes_equal_the_weights_that_scikit_learn_computes(classes):
    X, y = classes
    weights = 0.5 + np.arange(len(y)) % 3
    totals = {label: weights[y == label].sum() for label in "abcd"}
    # scikit-learn's n_samples / (n_classes * count), with sums of sample weights in the place of counts.
    given = {label: weights.sum() / (4 * total) for label, total in totals.items()}
    balanced, explicit = (
        FeatureClassifier(features(), Cs=[1.0], cv=None, class_weight=class_weight).fit(X, y, weights)
        for class_weight in ("balanced", given)
    )
    np.testing.assert_allclose(balanced.coef_, explicit.coef_, rtol=1e-9)
    Z, factors = balanced.features_.transform(X), weights * np.array([given[label] for label in y])
    expected = liblinear(1.0).fit(Z, y, factors)
    np.testing.assert_allclose(balanced.decision_function(X), expected.decision_function(Z), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_features_that_are_not_held_give_the_same_model(classes, monkeypatch, n_classes):
    """Features computed again for every pass, in small batches, as with little memory."""
    X, y = classes
    y = y if n_classes == 4 else y == "a"
    expected = FeatureClassifier(features(), Cs=CS[:4]).fit(X, y)
    monkeypatch.setattr(bochner.feature_models.paths, "MAX_HELD_BYTES", 0)
    monkeypatch.setattr(bochner.feature_models.paths, "MAX_FEATURE_ROWS", 70)
    monkeypatch.setattr(bochner.feature_models.newton, "MAX_SPAN_ROWS", 33)
    model = FeatureClassifier(features(), Cs=CS[:4]).fit(X, y)
    assert model.C_ == expected.C_
    tried = np.isfinite(expected.cv_errors_) & np.isfinite(model.cv_errors_)  # paths of another order end elsewhere
    np.testing.assert_allclose(model.cv_errors_[tried], expected.cv_errors_[tried], atol=0.02)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-8)


def test_order_of_Cs_and_sparse_rows_do_not_matter(classes):
    X, y = classes
    X = np.where(X > 0, X, 0.0)
    up = FeatureClassifier(features(), Cs=CS).fit(X, y)
    down = FeatureClassifier(features(), Cs=CS[::-1]).fit(sparse.csr_array(X), y)
    np.testing.assert_array_equal(up.cv_errors_, down.cv_errors_[::-1])


def test_rows_of_weight_zero_do_not_count(classes):
    X, y = classes
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    model = FeatureClassifier(features(), Cs=[1.0], cv=None).fit(X, y, weights)
    expected = FeatureClassifier(features(), Cs=[1.0], cv=None).fit(X[weights > 0], y[weights > 0])
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), rtol=1e-9, atol=1e-12)


def test_float32_stays_float32_and_close_to_float64(classes):
    X, y = classes
    model = FeatureClassifier(features(), Cs=[1.0]).fit(X.astype(np.float32), y)
    assert model.decision_function(X.astype(np.float32)).dtype == np.float32
    expected = FeatureClassifier(features(), Cs=[1.0]).fit(X, y).decision_function(X)
    np.testing.assert_allclose(model.decision_function(X.astype(np.float32)), expected, atol=1e-4)


def test_best_length_scale_is_chosen(rng):
    X = rng.normal(size=(400, 2))
    y = np.sin(6 * X[:, 0]) > 0
    model = FeatureClassifier(features(64), Cs=CS, length_scale_factors=[5.0, 0.2]).fit(X, y)
    assert model.features_.length_scale_ == pytest.approx(0.2 * features().fit(X).length_scale_)
    assert model.length_scale_scores_.argmax() == 1
    assert model.best_score_ == model.length_scale_scores_.max()


def test_choice_of_a_kernel_equals_grid_search(classes):
    """Features of a given length scale and without weights are the same in every fold of the grid search."""
    X, y = classes
    kernels = ["gaussian", "exponential", Matern(nu=2.5)]
    plain = FourierFeatures(length_scale=1.0, weighting="uniform", n_frequencies=12, random_state=0)
    model = FeatureClassifier(plain, Cs=[0.01, 1.0], cv=StratifiedKFold(3), kernels=kernels).fit(X, y)
    search = GridSearchCV(
        Pipeline([("features", plain), ("svm", LinearSVC(dual=False, tol=1e-10, max_iter=100_000))]),
        {"features__kernel": kernels, "svm__C": [0.01, 1.0]},
        cv=StratifiedKFold(3),
    ).fit(X, y)
    assert repr(model.features_.kernel) == repr(search.best_params_["features__kernel"])
    assert search.best_params_["svm__C"] == model.C_
    scores = search.cv_results_["mean_test_score"].reshape(3, 2)
    np.testing.assert_allclose(model.kernel_scores_, scores.max(axis=1), rtol=1e-12)
    tried = np.isfinite(model.cv_errors_[:, 0])
    chosen = scores[search.best_index_ // 2]
    np.testing.assert_allclose(1.0 - model.cv_errors_.mean(axis=1)[tried], chosen[tried], rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), search.predict(X))


def test_kernels_and_length_scales_equal_separate_fits(classes):
    X, y = classes
    options = {"Cs": [0.1, 1.0], "length_scale_factors": [2.0, 0.5]}
    model = FeatureClassifier(features(), kernels=["exponential", "gaussian"], **options).fit(X, y)
    single = [
        FeatureClassifier(features().set_params(kernel=kernel), **options).fit(X, y)
        for kernel in ("exponential", "gaussian")
    ]
    np.testing.assert_array_equal(model.kernel_scores_, [other.best_score_ for other in single])
    chosen = max(single, key=lambda other: other.best_score_)
    assert repr(model.features_) == repr(chosen.features_)
    for name in ("cv_errors_", "length_scale_scores_", "coef_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(chosen, name), err_msg=name)


def test_probabilities_point_to_the_log_loss(classes):
    X, y = classes
    assert not hasattr(FeatureClassifier(), "predict_proba")
    with pytest.raises(AttributeError) as caught:
        FeatureClassifier().predict_proba(X)
    assert "'squared_hinge' has no probabilities; use `loss`='log_loss'" in str(caught.value.__cause__)
    calibrated = CalibratedClassifierCV(FeatureClassifier(features(), Cs=[1.0], cv=None), cv=3, ensemble=False).fit(
        X, y
    )
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1.0)


def test_separable_rows_and_enormous_C(rng):
    X = np.repeat(rng.normal(size=(20, 2)), 3, axis=0)
    y = np.repeat(np.arange(20) % 2, 3)
    model = FeatureClassifier(features(64), Cs=[1e-12, 1.0, 1e12]).fit(X, y)
    assert np.isfinite(model.coef_).all()
    strict = FeatureClassifier(features(64), Cs=[1e12], cv=None).fit(X, y)
    assert (np.abs(strict.decision_function(X)) > 0.999).all()
    assert strict.score(X, y) == 1.0


def test_held_out_errors_do_not_count_class_weights(classes):
    X, y = classes
    y = (y == "a").astype(int)
    model = FeatureClassifier(features(), Cs=CS, class_weight={0: 1.0, 1: 20.0}).fit(X, y)
    weighted = liblinear(1.0).set_params(class_weight={0: 1.0, 1: 20.0})
    search = GridSearchCV(weighted, {"C": CS}, cv=5).fit(features().fit_transform(X), y)
    tried = np.isfinite(model.cv_errors_[:, 0])
    expected = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(1 - model.cv_errors_.mean(axis=1)[tried], expected[tried], rtol=1e-12)


def test_new_fit_resets_the_model(classes):
    X, y = classes
    model = FeatureClassifier(features(), Cs=[1.0]).fit(X, y)
    model.set_params(cv=None).fit(X, y == "a")
    assert not hasattr(model, "best_score_")


def test_large_weights_and_enormous_C_give_finite_coefficients(classes):
    X, y = classes
    model = FeatureClassifier(features(), Cs=[1.0, 1e15]).fit(X, y == "a", np.full(len(y), 1e6))
    assert np.isfinite(model.coef_).all()


class TestErrors:
    def test_negative_class_weights(self, classes):
        X, y = classes
        with pytest.raises(ValueError, match="`class_weight` must not be negative"):
            FeatureClassifier(features(), class_weight={0: -1.0, 1: 1.0}).fit(X, (y == "a").astype(int))

    def test_fold_without_weight(self, classes):
        X, y = classes
        weights = np.where(np.arange(len(y)) < 80, 0.0, 1.0)
        with pytest.raises(ValueError, match="has no rows of positive weight to train or to test on"):
            FeatureClassifier(features(), cv=KFold(5)).fit(X, y, weights)

    def test_candidates_need_folds(self, classes):
        kernels = {"kernels": ["gaussian", "exponential"]}
        for candidates in ({"Cs": [1.0, 2.0]}, {"length_scale_factors": [1.0, 2.0]}, kernels):
            with pytest.raises(ValueError, match="`cv`=None cannot choose among candidates; give a number of folds"):
                FeatureClassifier(features(), cv=None, **{"Cs": [1.0], **candidates}).fit(*classes)

    @pytest.mark.parametrize("Cs", [[], [0.0], [1.0, np.nan], "much"])
    def test_invalid_Cs(self, classes, Cs):
        with pytest.raises(ValueError, match="Cs"):
            FeatureClassifier(features(), Cs=Cs).fit(*classes)
