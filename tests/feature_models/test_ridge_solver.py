# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bochner.feature_models.ridge import (
    _lapack,
    cross_validated_errors,
    generalized_errors,
    ridge_solution,
    target_variances,
)


def moments(Z, Y, weights=None):
    rows = np.column_stack([Z, np.ones(len(Z)), Y])
    return (rows if weights is None else rows * weights[:, None]).T @ rows


@pytest.fixture
def problem(rng):
    Z = rng.normal(size=(60, 7)) + 1.0
    Y = Z[:, :2] @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(60, 3)) + 5.0
    return Z, Y, rng.uniform(0.5, 2.0, size=60)


def test_solution_equals_scikit_learn(problem):
    Z, Y, weights = problem
    solution = ridge_solution(moments(Z, Y, weights), 3, 0.7)
    expected = Ridge(alpha=0.7).fit(Z, Y, sample_weight=weights)
    np.testing.assert_allclose(solution.coef.T, expected.coef_, rtol=1e-10)
    np.testing.assert_allclose(solution.intercept, expected.intercept_, rtol=1e-10)


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
    solution = ridge_solution(moments(Z, Y), 3, 0.7)
    centered = Z - Z.mean(axis=0)
    inverse = np.linalg.inv(centered.T @ centered + 0.7 * np.eye(7))
    left = 60 - 1 - np.trace(centered @ inverse @ centered.T)
    noise = np.square(Y - Z @ solution.coef - solution.intercept).sum(axis=0) / left
    new = rng.normal(size=(5, 7)) - Z.mean(axis=0)
    expected = (1 + 1 / 60 + np.einsum("ij,jk,ik->i", new, inverse, new))[:, None] * noise
    np.testing.assert_allclose(solution.variance(new + Z.mean(axis=0)), expected, rtol=1e-9)


def test_singular_problem_with_negligible_penalty(problem):
    Z, Y, _ = problem
    Z = np.hstack([Z, Z])
    solution = ridge_solution(moments(Z, Y), 3, 1e-300)
    residuals = Y - Z @ solution.coef - solution.intercept
    best = np.linalg.lstsq(np.column_stack([Z[:, :7], np.ones(60)]), Y)[1]
    np.testing.assert_allclose(np.square(residuals).sum(axis=0), best, rtol=1e-6)


def test_variance_of_a_constant_target_is_zero():
    Y = np.column_stack([np.full(10, 1 / 3), np.arange(10.0)])
    np.testing.assert_allclose(target_variances(moments(np.zeros((10, 2)), Y), 2), [0, np.arange(10).var()])


def test_cross_validated_errors_with_more_targets_than_features(rng):
    """The workspace of LAPACK grows with the number of penalties times the number of targets."""
    Z, Y = rng.normal(size=(60, 4)), rng.normal(size=(60, 40))
    folds = np.stack([moments(Z[::2], Y[::2]), moments(Z[1::2], Y[1::2]), np.zeros((45, 45))])
    penalties = np.logspace(-3, 1, 10)
    errors = cross_validated_errors(folds, 40, penalties)
    for i, penalty in enumerate(penalties):
        residuals = Y[::2] - Ridge(penalty).fit(Z[1::2], Y[1::2]).predict(Z[::2])
        np.testing.assert_allclose(errors[i, 0], np.square(residuals).mean(axis=0), rtol=1e-9)


def test_failure_of_lapack_is_an_error():
    with pytest.raises(np.linalg.LinAlgError, match="LAPACK routine dtrtri failed with info=1"):
        _lapack("dtrtri", np.zeros((2, 2)), lower=1)


def test_cross_validation_of_a_singular_problem_without_penalty_is_an_error():
    folds = np.stack([moments(np.zeros((5, 3)), np.arange(5.0)) for _ in range(2)] + [np.zeros((5, 5))])
    with pytest.raises(np.linalg.LinAlgError, match=r"LAPACK routine dgtsv failed .* Use a larger ridge penalty"):
        cross_validated_errors(folds, 1, np.array([0.0]))
