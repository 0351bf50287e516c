# SPDX-License-Identifier: BSD-3-Clause
"""Objectives are compared with scikit-learn and dense formulas, and their gradients with finite differences."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.linear_model import Ridge

from bochner.scaling.objectives import OBJECTIVES, MarginalLikelihood, ValidationLoss, held_out_error


class Problem:
    """Random features and targets in three folds, with weights."""

    def __init__(self, rng, n_rows=60, n_features=5, n_targets=2):
        self.Z = rng.normal(size=(n_rows, n_features))
        self.Y = self.Z @ rng.normal(size=(n_features, n_targets)) + rng.normal(size=(n_rows, n_targets))
        self.weights = rng.uniform(0.5, 2.0, size=n_rows)
        self.folds = np.arange(n_rows) % 3

    def moments(self, Z=None):
        rows = np.column_stack([self.Z if Z is None else Z, np.ones(len(self.Y)), self.Y])
        return np.stack([(rows[own].T * self.weights[own]) @ rows[own] for own in self.fold_masks()])

    def fold_masks(self):
        return [self.folds == fold for fold in range(3)]


@pytest.fixture
def problem(rng):
    return Problem(rng)


def test_validation_loss_equals_scikit_learn(problem):
    squares = 0.0
    for own in problem.fold_masks():
        ridge = Ridge(0.1 * problem.weights[~own].sum())
        ridge.fit(problem.Z[~own], problem.Y[~own], sample_weight=problem.weights[~own])
        residuals = problem.Y[own] - ridge.predict(problem.Z[own])
        squares += (problem.weights[own] * np.square(residuals).T).sum()
    value = ValidationLoss().value_and_gradient(problem.moments(), 2, alpha=0.1).value
    assert value == pytest.approx(np.log(squares / (2 * problem.weights.sum())), rel=1e-10)


def test_held_out_error_equals_scikit_learn(problem):
    own = problem.fold_masks()[2]
    ridge = Ridge(0.1 * problem.weights[~own].sum())
    ridge.fit(problem.Z[~own], problem.Y[~own], sample_weight=problem.weights[~own])
    residuals = np.square(problem.Y[own] - ridge.predict(problem.Z[own])).mean(axis=1)
    moments = problem.moments()
    error = held_out_error(moments[:2].sum(axis=0), moments[2], 2, 0.1)
    assert error == pytest.approx(np.average(residuals, weights=problem.weights[own]), rel=1e-10)


def test_marginal_likelihood_equals_gaussian_process(rng):
    """The noise variance has its best value, and the prior of the intercept is very wide instead of flat."""
    problem = Problem(rng, n_targets=1)
    problem.weights[:] = 1.0
    n_rows, intercept_variance = 60, 1e6

    def evidence(alpha):
        penalty = alpha * n_rows
        shape = np.eye(n_rows) + problem.Z @ problem.Z.T / penalty + intercept_variance
        noise = problem.Y[:, 0] @ np.linalg.solve(shape, problem.Y[:, 0]) / n_rows
        return multivariate_normal.logpdf(problem.Y[:, 0], cov=noise * shape)

    def objective(alpha):
        return MarginalLikelihood().value_and_gradient(problem.moments(), 1, alpha).value

    # The objective is defined up to a constant, so that differences of two penalties are compared.
    expected = -2.0 * (evidence(0.3) - evidence(0.01)) / n_rows
    assert objective(0.3) - objective(0.01) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("alpha", [1e-6, 0.1, 10.0])
def test_gradient_equals_finite_differences(rng, problem, name, alpha):
    objective, step = OBJECTIVES[name](), 1e-5
    gradient = objective.value_and_gradient(problem.moments(), 2, alpha)
    rows = np.column_stack([problem.Z, np.ones(60), problem.Y])
    for _ in range(5):
        move = rng.normal(size=problem.Z.shape)
        ahead = objective.value_and_gradient(problem.moments(problem.Z + step * move), 2, alpha).value
        behind = objective.value_and_gradient(problem.moments(problem.Z - step * move), 2, alpha).value
        moved = np.column_stack([move, np.zeros((60, 3))])
        parts = [
            weight * (row @ gradient.left[fold]) @ (gradient.right[fold].T @ change)
            for weight, row, fold, change in zip(problem.weights, rows, problem.folds, moved, strict=True)
        ]
        assert sum(parts) == pytest.approx((ahead - behind) / (2 * step), rel=1e-6, abs=1e-9)
    ahead, behind = (objective.value_and_gradient(problem.moments(), 2, alpha * np.exp(d)).value for d in (step, -step))
    assert gradient.log_alpha_derivative == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-9)


def test_loss_is_finite_if_targets_are_fitted_exactly():
    fold = np.zeros((3, 3))
    fold[1, 1] = 4.0  # features and targets are zero
    gradient = ValidationLoss().value_and_gradient(np.stack([fold, fold]), 1, alpha=1.0)
    assert np.isfinite(gradient.value)
    assert np.isfinite(gradient.left).all()
