# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from bochner.feature_models.ridge import (
    generalized_errors,
    held_out_errors,
    r2_scores,
    solve_ridge,
    target_variances,
)


def moments(Z, Y, weights=None):
    rows = np.column_stack([Z, np.ones(len(Z)), Y])
    return (rows if weights is None else rows * weights[:, None]).T @ rows


def cross_validated_errors(fold_moments, n_targets, penalties):
    """Return errors (n_penalties, n_folds, n_targets); the last moments are those of rows in no fold."""
    total = sum(fold_moments)
    return np.stack([held_out_errors(total, fold, n_targets, penalties) for fold in fold_moments[:-1]], axis=1)


@pytest.fixture
def problem(rng):
    Z = rng.normal(size=(60, 7)) + 1.0
    Y = Z[:, :2] @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(60, 3)) + 5.0
    return Z, Y, rng.uniform(0.5, 2.0, size=60)


def test_solution_equals_scikit_learn(problem):
    Z, Y, weights = problem
    coef, intercept, _ = solve_ridge(moments(Z, Y, weights), 3, 0.7)
    expected = Ridge(alpha=0.7).fit(Z, Y, sample_weight=weights)
    np.testing.assert_allclose(coef.T, expected.coef_, rtol=1e-10)
    np.testing.assert_allclose(intercept, expected.intercept_, rtol=1e-10)


def test_cross_validated_errors_equal_refitting(problem):
    Z, Y, weights = problem
    folds = np.arange(60) % 4  # fold 3 is always trained on
    per_fold = np.array([moments(Z[folds == f], Y[folds == f], weights[folds == f]) for f in range(4)])
    penalties = np.array([1e-6, 0.1, 10.0])
    errors = cross_validated_errors(per_fold, 3, penalties)
    assert errors.shape == (3, 3, 3)
    for place, penalty in enumerate(penalties):
        for fold in range(3):
            train, test = folds != fold, folds == fold
            model = Ridge(alpha=penalty).fit(Z[train], Y[train], sample_weight=weights[train])
            squares = np.square(Y[test] - model.predict(Z[test]))
            np.testing.assert_allclose(
                errors[place, fold], np.average(squares, axis=0, weights=weights[test]), rtol=1e-9
            )


def test_cross_validated_errors_of_a_single_feature(problem):
    Z, Y, _ = problem
    halves = np.array([moments(Z[:30, :1], Y[:30]), moments(Z[30:, :1], Y[30:]), np.zeros((5, 5))])
    model = Ridge(alpha=2.0).fit(Z[:30, :1], Y[:30])
    expected = np.square(Y[30:] - model.predict(Z[30:, :1])).mean(axis=0)
    np.testing.assert_allclose(cross_validated_errors(halves, 3, np.array([2.0]))[0, 1], expected, rtol=1e-10)


def test_generalized_errors_equal_dense_formula(problem):
    Z, Y, _ = problem
    found = generalized_errors(moments(Z, Y), 3, np.array([0.1, 5.0]))
    for penalty, errors in zip([0.1, 5.0], found, strict=True):
        centered = Z - Z.mean(axis=0)
        hat = centered @ np.linalg.solve(centered.T @ centered + penalty * np.eye(7), centered.T) + 1 / 60
        expected = np.square(Y - hat @ Y).mean(axis=0) / (1 - np.trace(hat) / 60) ** 2
        np.testing.assert_allclose(errors[0], expected, rtol=1e-9)


def test_predictive_variance_equals_dense_formula(problem, rng):
    Z, Y, _ = problem
    coef, intercept, posterior = solve_ridge(moments(Z, Y), 3, 0.7)
    centered = Z - Z.mean(axis=0)
    inverse = np.linalg.inv(centered.T @ centered + 0.7 * np.eye(7))
    left = 60 - 1 - np.trace(centered @ inverse @ centered.T)
    noise = np.square(Y - Z @ coef - intercept).sum(axis=0) / left
    new = rng.normal(size=(5, 7)) - Z.mean(axis=0)
    expected = (1 + 1 / 60 + np.einsum("ij,jk,ik->i", new, inverse, new))[:, None] * noise
    np.testing.assert_allclose(posterior.variance(new + Z.mean(axis=0)), expected, rtol=1e-9)


def test_singular_problem_with_negligible_penalty(problem):
    Z, Y, _ = problem
    Z = np.hstack([Z, Z])
    coef, intercept, _ = solve_ridge(moments(Z, Y), 3, 1e-300)
    residuals = Y - Z @ coef - intercept
    best = np.linalg.lstsq(np.column_stack([Z[:, :7], np.ones(60)]), Y)[1]
    np.testing.assert_allclose(np.square(residuals).sum(axis=0), best, rtol=1e-6)


def test_variance_of_a_constant_target_is_zero():
    Y = np.column_stack([np.full(10, 1 / 3), np.arange(10.0)])
    np.testing.assert_allclose(target_variances(moments(np.zeros((10, 2)), Y), 2), [0, np.arange(10).var()])


def test_cross_validated_errors_with_more_targets_than_features(rng):
    Z, Y = rng.normal(size=(60, 4)), rng.normal(size=(60, 40))
    folds = np.stack([moments(Z[::2], Y[::2]), moments(Z[1::2], Y[1::2]), np.zeros((45, 45))])
    penalties = np.logspace(-3, 1, 10)
    errors = cross_validated_errors(folds, 40, penalties)
    for i, penalty in enumerate(penalties):
        residuals = Y[::2] - Ridge(penalty).fit(Z[1::2], Y[1::2]).predict(Z[::2])
        np.testing.assert_allclose(errors[i, 0], np.square(residuals).mean(axis=0), rtol=1e-9)


class TestR2:
    def test_scores_equal_scikit_learn(self, rng):
        Y, predictions = rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
        errors, variances = np.square(Y - predictions).mean(axis=0), Y.var(axis=0)
        expected = r2_score(Y, predictions, multioutput="raw_values")
        np.testing.assert_allclose(r2_scores(errors[None, None], variances[None], variances)[0, 0], expected)

    def test_variance_that_is_negligible_beside_that_of_all_rows_is_none(self):
        """Errors of folds divided by such a variance overflow."""
        scores = r2_scores(np.array([[[1e15], [1e15]]]), np.array([[1e-310], [1e15]]), np.array([2e15]))
        np.testing.assert_allclose(scores.ravel(), 0.5)

    def test_constant_fold_uses_the_variance_of_all_rows(self):
        scores = r2_scores(np.array([[[1.0], [1.0]]]), np.array([[4.0], [0.0]]), np.array([2.0]))
        assert scores.ravel().tolist() == [0.5, 0.5]

    def test_constant_target_scores_one_if_predicted_and_zero_otherwise(self):
        scores = r2_scores(np.array([[[0.0], [1.0]]]), np.zeros((2, 1)), np.zeros(1))
        assert scores.ravel().tolist() == [1.0, 0.0]
