# SPDX-License-Identifier: BSD-3-Clause
"""The squared hinge loss of many classes on their active rows, against liblinear and the conditions of an optimum."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

import bochner.feature_models.active_sets
import bochner.feature_models.paths
from bochner.feature_models.active_sets import ActiveSetSolver
from bochner.feature_models.newton import ALL_ROWS, TOLERANCE
from bochner.feature_models.paths import _follow
from bochner.losses import SquaredHinge
from bochner.rows import Batch

CS = np.array([1e-4, 0.1, 10.0, 1e3])


@pytest.fixture
def batch():
    """Weighted rows of three folds and five classes, and rows that are always trained on."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 12))
    labels = np.digitize(features[:, 0] + 0.3 * rng.normal(size=300), [-1.0, -0.3, 0.3, 1.0])
    in_loss, weights = rng.uniform(0.5, 2.0, size=(2, 300))
    return Batch(features, labels, weights, np.arange(300) % 4 - 1, in_loss)


@pytest.fixture(params=["active rows", "conjugate gradients", "float64"])
def problems(request, batch, monkeypatch):
    """The problems of the batch, with systems of active rows or of columns, in float32 and without."""
    few, penalty = {
        "active rows": (np.inf, np.inf),
        "conjugate gradients": (0.0, np.inf),
        "float64": (0.0, 0.0),
    }[request.param]
    monkeypatch.setattr(bochner.feature_models.active_sets, "FEW_EQUATIONS", few)
    monkeypatch.setattr(bochner.feature_models.active_sets, "FLOAT32_PENALTY", penalty)
    monkeypatch.setattr(bochner.feature_models.active_sets, "MAX_SPAN_ROWS", 70)
    monkeypatch.setattr(bochner.feature_models.active_sets, "MIN_NEAR", 4)
    monkeypatch.setattr(bochner.feature_models.active_sets, "SCORE_BYTES", 1 << 14)
    monkeypatch.setattr(bochner.feature_models.paths, "PATH_TOLERANCE", 1e-8)
    return ActiveSetSolver(batch, 5)


def finish(problems, C, start=None):
    """Return the weights (width + 1, n_classes) on all rows, from a point of a path or from 0."""
    weights = problems.start(C, ALL_ROWS) if start is None else start[:, None]
    return problems.solve(C, weights, ALL_ROWS, TOLERANCE)[:, 0]


def follow(problems, Cs):
    return _follow(problems, SquaredHinge(), 3, Cs)


def every_step(n_steps, evaluate):
    for step in [*range(n_steps // 2, n_steps), *range(n_steps // 2)[::-1]]:
        evaluate(step)


def objectives(batch, weights, C):
    """Return the objective of each class, and its gradient relative to the weights."""
    rows = np.column_stack([batch.X, np.ones(300)])
    signs = np.where(batch.y[:, None] == np.arange(5), 1.0, -1.0)
    slack = np.maximum(0.0, 1.0 - signs * (rows @ weights))
    gradients = weights - 2.0 * C * rows.T @ (batch.loss_weight[:, None] * signs * slack)
    values = 0.5 * np.square(weights).sum(axis=0) + C * batch.loss_weight @ np.square(slack)
    return values, np.abs(gradients).max() / np.abs(weights).max()


def liblinear(batch, C):
    """Return the weights of every class against the rest."""
    weights = []
    for label in range(5):
        signs = np.where(batch.y == label, 1.0, -1.0)
        model = LinearSVC(C=C, dual=False, tol=1e-12, max_iter=100_000).fit(batch.X, signs, batch.loss_weight)
        weights.append([*model.coef_[0], *model.intercept_])
    return np.transpose(weights)


@pytest.mark.parametrize("C", CS)
def test_solution_has_zero_gradient_and_equals_liblinear(batch, problems, C):
    weights, expected = finish(problems, C), liblinear(batch, C)
    values, gradient = objectives(batch, weights, C)
    assert gradient < 1e-6 * max(1.0, C)
    np.testing.assert_allclose(values, objectives(batch, expected, C)[0], rtol=1e-9)
    np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_errors_of_a_path_are_those_without_each_fold(batch, problems, monkeypatch):
    monkeypatch.setattr(bochner.feature_models.paths, "search_path", every_step)
    expected = np.zeros((len(CS), 3))
    for position, fold in np.ndindex(*expected.shape):
        weights = liblinear(batch.select(np.flatnonzero(batch.fold_of != fold)), CS[position])
        test = batch.select(np.flatnonzero(batch.fold_of == fold))
        guesses = (test.X @ weights[:-1] + weights[-1]).argmax(axis=1)
        expected[position, fold] = np.average(guesses != test.y, weights=test.sample_weight)
    for order in (slice(None), slice(None, None, -1)):
        path = follow(problems, CS[order])
        np.testing.assert_allclose(path.errors[order], expected, rtol=1e-12)


def test_solution_from_a_path_equals_that_from_zero(problems):
    path = follow(problems, CS)
    (tried,) = np.nonzero(np.isfinite(path.errors[:, 0]))
    for position in tried.tolist():
        found = finish(problems, CS[position], path.weights[position])
        expected = finish(problems, CS[position])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_singular_features_and_enormous_C(batch):
    singular = batch._replace(X=np.hstack([batch.X] * 3))
    weights = finish(ActiveSetSolver(singular, 5), 1e9)
    alone = finish(ActiveSetSolver(batch, 5), 1e9)
    divided = np.vstack([alone[:-1] / 3.0] * 3 + [alone[-1:]])  # coefficients divided among the copies
    values, best = objectives(singular, weights, 1e9)[0], objectives(singular, divided, 1e9)[0]
    assert (values <= best * (1.0 + 1e-6)).all()


def test_class_without_rows_and_classes_that_are_easy_to_tell(batch):
    features = 100.0 * np.eye(5)[batch.y % 4]
    problems = ActiveSetSolver(batch._replace(X=features, y=batch.y % 4), 5)
    weights = finish(problems, 1e3)
    assert np.abs(weights[:, 4]).max() < 1.0 + 1e-9  # of the intercept, which alone tells all rows from no row
    np.testing.assert_array_equal((features @ weights[:-1] + weights[-1]).argmax(axis=1), batch.y % 4)
    assert np.nanmax(follow(problems, CS).errors) == 0.0
