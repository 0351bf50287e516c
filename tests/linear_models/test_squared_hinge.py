# SPDX-License-Identifier: BSD-3-Clause
"""Newton's method for the squared hinge loss: optimality conditions, liblinear, and passes over batches."""

from functools import reduce

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import bochner.linear_models.squared_hinge
from bochner.linear_models.feature_passes import FeatureBatch
from bochner.linear_models.squared_hinge import solve_one, walk
from bochner.rows import row_spans

CS = np.array([1e-4, 0.1, 10.0, 1e3])


@pytest.fixture(params=[2, 3], ids=["two classes", "three classes"])
def batch(request):
    """Weighted rows of three folds, and rows that are always trained on."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(150, 5))
    labels = np.digitize(features[:, 0] + 0.5 * rng.normal(size=150), np.linspace(-0.4, 0.4, request.param - 1))
    weights, counts = rng.uniform(0.5, 2.0, size=(2, 150))
    return FeatureBatch(features, labels, weights, counts, np.arange(150) % 4 - 1)


def n_targets_of(batch):
    return 1 if batch.labels.max() == 1 else batch.labels.max() + 1


def signs_of(batch, target):
    positive = 1 if n_targets_of(batch) == 1 else target
    return np.where(batch.labels == positive, 1.0, -1.0)


def in_one_pass(batch):
    return lambda part: part(batch)


def in_batches(batch, n_rows):
    parts = [FeatureBatch(*(column[rows] for column in batch)) for rows in row_spans(len(batch.labels), n_rows)]
    return lambda part: reduce(lambda left, right: left + right, (part(some) for some in parts))


def gradient(batch, signs, w, C):
    """Return the gradient of the objective, relative to the size of its two terms."""
    rows = np.column_stack([batch.features, np.ones(len(signs))])
    slack = np.maximum(0.0, 1.0 - signs * (rows @ w))
    return np.abs(w - 2.0 * C * rows.T @ (batch.weights * signs * slack)).max() / np.abs(w).max()


@pytest.fixture(autouse=True)
def whole_path(monkeypatch):
    """Try every C, so that paths have no gaps."""

    def every_step(n_steps, evaluate):
        for step in range(n_steps):
            evaluate(step)

    monkeypatch.setattr(bochner.linear_models.squared_hinge, "search_path", every_step)


@pytest.mark.parametrize("C", CS)
def test_solution_has_zero_gradient_and_equals_liblinear(batch, C):
    weights = solve_one(in_one_pass(batch), n_targets_of(batch), C)
    assert weights.shape == (6, n_targets_of(batch))
    for target, w in enumerate(weights.T):
        signs = signs_of(batch, target)
        assert gradient(batch, signs, w, C) < 1e-8
        expected = LinearSVC(C=C, dual=False, tol=1e-10, max_iter=10_000).fit(batch.features, signs, batch.weights)
        np.testing.assert_allclose(w, [*expected.coef_[0], *expected.intercept_], rtol=1e-4, atol=1e-6)


def test_path_solves_every_fold(batch):
    n_targets = n_targets_of(batch)
    path = walk(in_one_pass(batch), 3, n_targets, CS)
    assert path.errors.shape == (4, 3)
    rows = np.column_stack([batch.features, np.ones(150)])
    np.testing.assert_allclose(path.gram, (rows * batch.weights[:, None]).T @ rows, rtol=1e-12, atol=1e-12)
    for position, C in enumerate(CS):
        solutions = []
        for fold in range(3):
            train, test = batch.folds != fold, batch.folds == fold
            part = FeatureBatch(*(column[train] for column in batch))
            w = solve_one(in_one_pass(part), n_targets, C)
            scores = rows[test] @ w
            guesses = scores.argmax(axis=1) if n_targets > 1 else (scores[:, 0] > 0).astype(int)
            wrong = np.average(guesses != batch.labels[test], weights=batch.counts[test])
            assert path.errors[position, fold] == pytest.approx(wrong, rel=1e-12, abs=1e-15)
            solutions.append(w)
        np.testing.assert_allclose(path.starts[position], np.mean(solutions, axis=0), rtol=1e-5, atol=1e-7)


def test_path_does_not_depend_on_the_order_of_Cs(batch):
    up, down = (walk(in_one_pass(batch), 3, n_targets_of(batch), Cs) for Cs in (CS, CS[::-1]))
    np.testing.assert_array_equal(up.errors, down.errors[::-1])
    np.testing.assert_array_equal(up.starts, down.starts[::-1])


def test_solution_from_a_path_equals_that_from_zero(batch):
    path = walk(in_one_pass(batch), 3, n_targets_of(batch), CS)
    for position, C in enumerate(CS):
        found = solve_one(in_one_pass(batch), n_targets_of(batch), C, path, position)
        expected = solve_one(in_one_pass(batch), n_targets_of(batch), C)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_batches_spans_and_groups_of_folds_change_nothing_but_rounding(batch, monkeypatch):
    expected = walk(in_one_pass(batch), 3, n_targets_of(batch), CS)
    monkeypatch.setattr(bochner.linear_models.squared_hinge, "SPAN_ROWS", 13)
    found = walk(in_batches(batch, 40), 3, n_targets_of(batch), CS, max_bytes=0)  # one fold at a time
    np.testing.assert_allclose(found.errors, expected.errors, rtol=1e-12)
    np.testing.assert_allclose(found.starts, expected.starts, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.gram, expected.gram, rtol=1e-12, atol=1e-12)


def test_hessians_are_of_few_folds_at_a_time(batch, monkeypatch):
    groups = []

    class Recording(bochner.linear_models.squared_hinge.Problems):
        def __post_init__(self):
            groups.append(self.held_out.tolist())
            super().__post_init__()

    monkeypatch.setattr(bochner.linear_models.squared_hinge, "Problems", Recording)
    bytes_per_fold = 8 * 6 * 6 * n_targets_of(batch)
    walk(in_one_pass(batch), 3, n_targets_of(batch), CS[:1], max_bytes=2 * bytes_per_fold)
    assert groups == [[0, 1], [2]]


def test_problems_that_do_not_converge_give_a_warning(batch, monkeypatch):
    monkeypatch.setattr(bochner.linear_models.squared_hinge, "MAX_STEPS", 1)
    n_targets = n_targets_of(batch)
    with pytest.warns(ConvergenceWarning, match=rf"of {n_targets} problems did not converge in 1 steps at C=1000"):
        solve_one(in_one_pass(batch), n_targets, 1e3)


def test_singular_features_and_enormous_C(batch, monkeypatch):
    """Rounding exceeds the penalty, so that a Hessian is indefinite unless its diagonal is increased."""
    singular = batch._replace(features=np.hstack([batch.features] * 3))
    C, n_targets = 1e17, n_targets_of(batch)
    weights = solve_one(in_one_pass(singular), n_targets, C)
    # Without a penalty to speak of, the scores are those of the features without their copies.
    rows, copies = (np.column_stack([Z, np.ones(150)]) for Z in (batch.features, singular.features))
    expected = solve_one(in_one_pass(batch), n_targets, C)
    np.testing.assert_allclose(copies @ weights, rows @ expected, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(bochner.linear_models.squared_hinge, "JITTERS", (0.0,))
    with pytest.raises(ValueError, match="times the sample weights is too large to solve for; give smaller `Cs`"):
        solve_one(in_one_pass(singular), n_targets, C)
