# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from scipy.optimize import nnls

from bochner.kernels import Gaussian
from bochner.linalg import jittered_cholesky, nonnegative_ridge


def problem(rng, n=60, n_rows=80, noise=1.0):
    """Return a least-squares problem whose solution has positive and zero coefficients."""
    A = rng.normal(size=(n_rows, n)) + 1.0
    return A, A @ np.maximum(rng.normal(size=n), 0) + noise * rng.normal(size=n_rows)


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("n_rows", [30, 80, 500])
def test_solution_satisfies_optimality_conditions(rng, ridge, n_rows):
    """Karush-Kuhn-Tucker: coefficients and gradient are non-negative, and one of the two is 0 for each coefficient."""
    A, b = problem(rng, n_rows=n_rows)
    coef = nonnegative_ridge(A.T @ A, A.T @ b, ridge)
    gradient = A.T @ (A @ coef - b) + ridge * coef
    scale = np.abs(A.T @ b).max()
    assert (coef >= 0).all()
    assert gradient.min() > -1e-7 * scale
    assert np.abs(coef * gradient).max() < 1e-7 * scale
    assert 0 < (coef > 0).sum() < 60


@pytest.mark.parametrize("ridge", [1e-3, 1.0])
def test_solution_equals_scipy_nnls(rng, ridge):
    A, b = problem(rng)
    expected = nnls(np.vstack([A, np.sqrt(ridge) * np.eye(60)]), np.append(b, np.zeros(60)))[0]
    np.testing.assert_allclose(nonnegative_ridge(A.T @ A, A.T @ b, ridge), expected, atol=1e-9)


def test_solution_does_not_depend_on_the_start(rng):
    A, b = problem(rng)
    expected = nonnegative_ridge(A.T @ A, A.T @ b, 0.1)
    for start in (np.zeros(60, dtype=bool), rng.random(60) < 0.5):
        np.testing.assert_allclose(nonnegative_ridge(A.T @ A, A.T @ b, 0.1, start), expected, atol=1e-10)


def test_solution_equals_ridge_if_no_coefficient_is_negative(rng):
    gram = np.eye(5) + 0.01
    target = rng.random(5) + 1
    np.testing.assert_allclose(nonnegative_ridge(gram, target, 0.5), np.linalg.solve(gram + np.eye(5) / 2, target))


def test_singular_and_nearly_singular_gram_matrices(rng):
    """Rank one, and a Gaussian covariance matrix whose smallest eigenvalues are rounding errors."""
    np.testing.assert_allclose(nonnegative_ridge(np.ones((4, 4)), np.ones(4), 1e-6).sum(), 1.0, rtol=1e-5)
    points = rng.normal(size=(150, 2))
    gram = Gaussian()(points / 20) + 1e-10 * np.eye(150)
    target = np.exp(Gaussian().log_embedding(points, [20.0])[0])
    coef = nonnegative_ridge(gram, target, 0.0)
    gradient = gram @ coef - target
    assert (coef >= 0).all()
    assert gradient.min() > -1e-9
    assert abs(coef @ gradient) < 1e-9


def test_negative_targets_have_solution_zero():
    np.testing.assert_array_equal(nonnegative_ridge(np.eye(3), -np.ones(3), 0.0), np.zeros(3))


def test_jittered_cholesky_adds_the_first_jitter_that_suffices(rng):
    A = rng.normal(size=(30, 10))
    factor, jitter = jittered_cholesky(A.T @ A, jitters=(0.0, 1.0))
    assert jitter == 0.0
    np.testing.assert_allclose(factor @ factor.T, A.T @ A, rtol=1e-12)
    assert not np.triu(factor, 1).any()
    singular = -1e-7 * np.eye(10) + np.ones((10, 10))
    factor, jitter = jittered_cholesky(singular, jitters=(0.0, 1e-10, 1e-6, 1e-2))
    assert jitter == 1e-6
    np.testing.assert_allclose(factor @ factor.T, singular + 1e-6 * singular[0, 0] * np.eye(10), rtol=1e-12)


@pytest.mark.parametrize("matrix", [-np.eye(3), np.full((3, 3), np.nan)])
def test_jittered_cholesky_refuses_other_matrices(matrix):
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite, or not finite"):
        jittered_cholesky(matrix, jitters=(0.0, 1e-8))
