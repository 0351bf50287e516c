# SPDX-License-Identifier: BSD-3-Clause
"""`FeatureClassifier` with the log loss against scikit-learn's `LogisticRegression` on the same features."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, PredefinedSplit, StratifiedKFold

import bochner.feature_models.newton
import bochner.feature_models.paths
from bochner import FeatureClassifier, FourierFeatures

CS = np.logspace(-2, 3, 6)


def features(n_frequencies=24):
    return FourierFeatures(n_frequencies=n_frequencies, random_state=0)


def exact(C, **options):
    return LogisticRegression(C=C, tol=1e-12, solver="newton-cholesky", max_iter=1000, **options)


@pytest.fixture(scope="module")
def classes():
    """Rows, labels of 2, 4 and 26 classes, and sample weights."""
    X, letters = make_classification(
        900, 8, n_informative=8, n_redundant=0, n_classes=26, n_clusters_per_class=1, random_state=0
    )
    labels = {2: letters < 13, 4: np.array(list("abcd"))[letters % 4], 26: letters}
    return X, labels, np.random.default_rng(0).uniform(0.5, 2.0, size=900)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("n_classes", [2, 4, 26])
def test_optimum_equals_scikit_learn(classes, n_classes, C, class_weight):
    X, labels, weights = classes
    y = labels[n_classes]
    n_frequencies = 8 if n_classes == 26 else 24  # scikit-learn factorizes the Hessian of all classes
    model = FeatureClassifier(features(n_frequencies), Cs=[C], cv=None, class_weight=class_weight, loss="log_loss")
    model.fit(X, y, weights)
    Z = model.features_.transform(X)
    expected = exact(C, class_weight=class_weight).fit(Z, y, weights)
    assert model.coef_.shape == expected.coef_.shape
    scale = np.abs(expected.coef_).max()
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0, atol=1e-6 * scale)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=0, atol=1e-6 * scale)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(Z), rtol=0, atol=1e-8)
    np.testing.assert_array_equal(model.predict(X), expected.predict(Z))
    assert model.score(X, y, weights) == pytest.approx(expected.score(Z, y, weights))


@pytest.mark.slow
def test_digits_equal_scikit_learn():
    X, y = load_digits(return_X_y=True)
    model = FeatureClassifier(features(128), Cs=[100.0], cv=None, loss="log_loss").fit(X, y)
    Z = model.features_.transform(X)
    expected = LogisticRegression(C=100.0, tol=1e-12, solver="newton-cg", max_iter=1000).fit(Z, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0, atol=1e-6 * np.abs(expected.coef_).max())
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(Z), rtol=0, atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_model_equals_grid_search(classes, n_classes):
    X, labels, _ = classes
    y = labels[n_classes]
    model = FeatureClassifier(features(), Cs=CS, loss="log_loss").fit(X, y)
    search = GridSearchCV(exact(1.0), {"C": CS}, cv=5, scoring="neg_log_loss").fit(features().fit_transform(X), y)
    tried = np.isfinite(model.cv_errors_[:, 0])
    expected = search.cv_results_["mean_test_score"]
    assert tried.sum() >= 4
    np.testing.assert_allclose(-model.cv_errors_.mean(axis=1)[tried], expected[tried], rtol=1e-3)
    assert expected.max() == expected[tried].max()
    assert search.best_params_["C"] == model.C_
    assert model.best_score_ == pytest.approx(search.best_score_, rel=1e-3)
    Z = model.features_.transform(X)
    np.testing.assert_allclose(model.predict_proba(X), search.predict_proba(Z), rtol=0, atol=1e-8)


def test_path_ends_beyond_the_minimum(classes):
    X, labels, _ = classes
    up, down = (FeatureClassifier(features(), Cs=Cs, loss="log_loss").fit(X, labels[2]) for Cs in (CS, CS[::-1]))
    np.testing.assert_array_equal(up.cv_errors_, down.cv_errors_[::-1])
    noise = np.random.default_rng(0).integers(2, size=len(X))
    model = FeatureClassifier(features(), Cs=np.logspace(-4, 6, 11), loss="log_loss").fit(X, noise)
    means = model.cv_errors_.mean(axis=1)
    n_tried = np.isfinite(means).sum()
    assert n_tried < 8
    assert np.isnan(means[n_tried:]).all()
    assert np.nanargmin(means) < n_tried - 1


def test_probabilities_and_their_logarithms(classes):
    X, labels, _ = classes
    for n_classes in (2, 4):
        model = FeatureClassifier(features(), Cs=[10.0], cv=None, loss="log_loss").fit(X, labels[n_classes])
        probabilities = model.predict_proba(X)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probabilities, rtol=1e-10)
    scores = 1e3 * model.decision_function(X)  # probabilities underflow, their logarithms do not
    assert np.isfinite(model.loss_.predict_log_proba(scores)).all()


@pytest.mark.parametrize("n_classes", [2, 4])
def test_sampled_curvature_has_the_same_optimum(classes, monkeypatch, n_classes):
    """Features computed again for every pass, in small batches, and Hessians from a part of the rows."""
    X, labels, weights = classes
    y = labels[n_classes]
    expected = FeatureClassifier(features(), Cs=[10.0], cv=None, loss="log_loss").fit(X, y, weights)
    monkeypatch.setattr(bochner.feature_models.paths, "MAX_HELD_BYTES", 0)
    monkeypatch.setattr(bochner.feature_models.paths, "MAX_FEATURE_ROWS", 70)
    monkeypatch.setattr(bochner.feature_models.paths, "MAX_PATH_ROWS", 512)
    monkeypatch.setattr(bochner.feature_models.newton, "MAX_SPAN_ROWS", 33)
    model = FeatureClassifier(features(), Cs=[10.0], cv=None, loss="log_loss").fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0, atol=1e-5 * np.abs(expected.coef_).max())


def test_single_fold_of_consecutive_rows(classes, monkeypatch):
    X, labels, _ = classes
    model = FeatureClassifier(
        features(), Cs=[0.1, 10.0], cv=PredefinedSplit(np.minimum(np.arange(len(X)) // 300, 1) - 1), loss="log_loss"
    )
    expected = model.fit(X, labels[4]).cv_errors_
    monkeypatch.setattr(bochner.feature_models.newton, "MAX_SPAN_ROWS", 64)  # no row of some spans is trained on
    np.testing.assert_allclose(model.fit(X, labels[4]).cv_errors_, expected, rtol=1e-6)


def test_sparse_rows_and_rows_of_weight_zero(classes):
    X, labels, _ = classes
    X, y = np.where(X > 0, X, 0.0), labels[4]
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    model = FeatureClassifier(features(), Cs=[1.0], cv=None, loss="log_loss").fit(sparse.csr_array(X), y, weights)
    expected = FeatureClassifier(features(), Cs=[1.0], cv=None, loss="log_loss").fit(X[weights > 0], y[weights > 0])
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=0, atol=1e-8)


def test_float32_stays_float32_and_close_to_float64(classes):
    X, labels, _ = classes
    for n_classes in (2, 4):
        model = FeatureClassifier(features(), Cs=[1.0], cv=None, loss="log_loss").fit(
            X.astype(np.float32), labels[n_classes]
        )
        found = model.predict_proba(X.astype(np.float32))
        assert found.dtype == np.float32
        expected = FeatureClassifier(features(), Cs=[1.0], cv=None, loss="log_loss").fit(X, labels[n_classes])
        np.testing.assert_allclose(found, expected.predict_proba(X), atol=1e-4)


def test_best_length_scale_is_chosen(rng):
    X = rng.normal(size=(400, 2))
    y = np.sin(6 * X[:, 0]) > 0
    model = FeatureClassifier(features(64), Cs=CS, length_scale_factors=[5.0, 0.2], loss="log_loss").fit(X, y)
    assert model.features_.length_scale_ == pytest.approx(0.2 * features().fit(X).length_scale_)
    assert model.length_scale_scores_.argmax() == 1
    assert model.best_score_ == model.length_scale_scores_.max()


def test_held_out_losses_do_not_count_class_weights(classes):
    X, labels, _ = classes
    y, class_weight = labels[2].astype(int), {0: 1.0, 1: 20.0}
    model = FeatureClassifier(features(), Cs=[1.0, 2.0], class_weight=class_weight, cv=KFold(5), loss="log_loss").fit(
        X, y
    )
    Z = features().fit_transform(X)
    for fold, (train, test) in enumerate(KFold(5).split(Z)):
        fitted = exact(1.0, class_weight=class_weight).fit(Z[train], y[train])
        assert model.cv_errors_[0, fold] == pytest.approx(log_loss(y[test], fitted.predict_proba(Z[test])), rel=1e-4)


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_class_that_is_missing_in_a_fold(classes):
    """A class without training rows gets the smallest probability, and its held-out rows the largest loss."""
    X, labels, _ = classes
    y = labels[4].copy()
    y[0] = "e"
    model = FeatureClassifier(features(), Cs=[1.0, 10.0], cv=StratifiedKFold(3), loss="log_loss").fit(X, y)
    assert np.isfinite(model.cv_errors_).all()
    fold = next(f for f, (_, test) in enumerate(StratifiedKFold(3).split(X, y)) if 0 in test)
    others = np.delete(model.cv_errors_[0], fold).mean()
    largest = -np.log(np.finfo(float).eps)
    assert model.cv_errors_[0, fold] - others == pytest.approx(largest / 300, rel=0.3)


def test_separable_rows_and_large_C(rng):
    X = np.repeat(rng.normal(size=(20, 2)), 3, axis=0)
    y = np.repeat(np.arange(20) % 3, 3)
    model = FeatureClassifier(features(64), Cs=[1e-12, 1.0, 1e7], cv=KFold(2), loss="log_loss").fit(X, y)
    assert np.isfinite(model.coef_).all()
    strict = FeatureClassifier(features(64), Cs=[1e7], cv=None, loss="log_loss").fit(X, y)
    assert strict.score(X, y) == 1.0
    assert strict.predict_proba(X).max(axis=1).min() > 0.99


class TestErrors:
    def test_negative_class_weights(self, classes):
        X, labels, _ = classes
        with pytest.raises(ValueError, match="`class_weight` must not be negative"):
            FeatureClassifier(features(), class_weight={0: -1.0, 1: 1.0}, loss="log_loss").fit(X, labels[2].astype(int))

    def test_fold_without_weight(self, classes):
        X, labels, _ = classes
        weights = np.where(np.arange(len(X)) < 180, 0.0, 1.0)
        with pytest.raises(ValueError, match="has no rows of positive weight to train or to test on"):
            FeatureClassifier(features(), cv=KFold(5), loss="log_loss").fit(X, labels[4], weights)

    def test_candidates_need_folds(self, classes):
        X, labels, _ = classes
        for candidates in ({"Cs": [1.0, 2.0]}, {"Cs": [1.0], "length_scale_factors": [1.0, 2.0]}):
            with pytest.raises(ValueError, match="`cv`=None cannot choose among candidates; give a number of folds"):
                FeatureClassifier(features(), cv=None, **candidates, loss="log_loss").fit(X, labels[4])

    @pytest.mark.parametrize("Cs", [[], [0.0], [1.0, np.nan], "much"])
    def test_invalid_Cs(self, classes, Cs):
        X, labels, _ = classes
        with pytest.raises(ValueError, match="Cs"):
            FeatureClassifier(features(), Cs=Cs, loss="log_loss").fit(X, labels[4])
