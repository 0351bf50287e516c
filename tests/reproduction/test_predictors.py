# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.svm import LinearSVC

from reproduction import predictors


@pytest.fixture
def task(rng):
    train, test = rng.normal(size=(200, 12)), rng.normal(size=(90, 12))
    coef = rng.normal(size=12)
    return train, train @ coef + 0.5 * rng.normal(size=200), test, test @ coef + 0.5 * rng.normal(size=90)


def test_ridge_equals_a_grid_search_by_relative_error(task):
    train, y_train, test, y_test = task
    folds = PredefinedSplit(predictors._folds(len(train)))
    # The penalty is relative to all rows, also in the training rows of a fold.
    search = GridSearchCV(
        Ridge(),
        {"alpha": np.multiply(predictors.ALPHAS, len(train))},
        cv=folds,
        scoring=make_scorer(lambda y, z: -np.linalg.norm(y - z) / np.linalg.norm(y)),
    ).fit(train, y_train)
    prediction = predictors.regression_error(*task)
    assert prediction.penalty == pytest.approx(search.best_params_["alpha"] / len(train))
    assert prediction.cv_error == pytest.approx(-search.best_score_, rel=1e-9)
    expected = np.linalg.norm(search.predict(test) - y_test) / np.linalg.norm(y_test)
    assert prediction.test_error == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_svm_equals_a_grid_search(task, n_classes, monkeypatch):
    monkeypatch.setattr(predictors, "CS", (0.01, 0.1, 1.0, 10.0))
    train, y_train, test, y_test = task
    edges = np.quantile(y_train, np.arange(1, n_classes) / n_classes)
    names = np.array([10, 20, 30])
    labels, labels_test = names[np.digitize(y_train, edges)], names[np.digitize(y_test, edges)]
    search = GridSearchCV(
        LinearSVC(dual=False, tol=1e-8), {"C": predictors.CS}, cv=PredefinedSplit(predictors._folds(len(train)))
    ).fit(train, labels)
    prediction = predictors.classification_error(train, labels, test, labels_test)
    assert prediction.penalty == search.best_params_["C"]
    assert prediction.cv_error == pytest.approx(1.0 - search.best_score_, abs=1e-12)
    assert prediction.test_error == pytest.approx(1.0 - search.score(test, labels_test), abs=1e-12)


def test_folds_have_equal_sizes_and_are_not_in_the_order_of_the_rows():
    folds = predictors._folds(1003)
    assert set(np.bincount(folds)) == {200, 201}
    assert np.abs(np.corrcoef(folds, np.arange(1003))[0, 1]) < 0.1
