# SPDX-License-Identifier: BSD-3-Clause
"""The compression matrix is compared with the dense least-squares problem that it solves."""

import numpy as np
import pytest

from bochner.compression import best_matrix, inverse_root, principal_components
from bochner.feature_maps import fourier_map
from bochner.kernels import Gaussian

ALPHAS = 10.0 ** np.arange(-7, 1)


def problem(rng, n_rows, n_frequencies, d=3):
    """Return features of rows and of new rows, and the exact kernel matrices of both."""
    W, X, Y = rng.normal(size=(n_frequencies, d)), rng.normal(size=(n_rows, d)), rng.normal(size=(40, d))
    weights = np.full(n_frequencies, 1.0 / n_frequencies)
    return fourier_map(X, W, weights), Gaussian()(X), fourier_map(Y, W, weights), Gaussian()(Y)


def dense_matrix(features, exact, alpha, size=None):
    """Return A = I + (F'F + a n)^-1 F' (K - FF') F (F'F + a n)^-1."""
    n, width = features.shape
    inverse = np.linalg.inv(features.T @ features + alpha * (size or n) * np.eye(width))
    step = features.T @ (exact - features @ features.T) @ features
    return np.eye(width) + inverse @ step @ inverse


@pytest.mark.parametrize(("n_rows", "n_frequencies"), [(60, 10), (12, 20)], ids=["tall", "wide"])
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
def test_matrix_equals_dense_ridge_solution(rng, n_rows, n_frequencies, alpha):
    features, exact, others, _ = problem(rng, n_rows, n_frequencies)
    matrix = best_matrix(features, exact, np.ones(n_rows), 2 * n_frequencies, np.array([alpha]))
    dense = dense_matrix(features, exact, alpha)
    assert np.linalg.eigvalsh(dense).min() > 0.0
    np.testing.assert_allclose(features @ matrix @ matrix.T @ features.T, features @ dense @ features.T, atol=1e-9)
    np.testing.assert_allclose(others @ matrix @ matrix.T @ others.T, others @ dense @ others.T, atol=1e-8)


def test_matrix_without_ridge_equals_least_squares_solution(rng):
    features, exact, *_ = problem(rng, 80, 6)
    matrix = best_matrix(features, exact, np.ones(80), 12, np.array([0.0]))
    inverse = np.linalg.pinv(features)
    np.testing.assert_allclose(matrix @ matrix.T, inverse @ exact @ inverse.T, atol=1e-8)


def test_few_columns_are_the_best_approximation_of_their_rank(rng):
    """The error equals the lower bound of Eckart and Young."""
    features, exact, *_ = problem(rng, 80, 20)
    n_columns = 5
    matrix = best_matrix(features, exact, np.ones(80), n_columns, np.array([0.0]))
    basis = np.linalg.qr(features)[0]
    projected = basis @ basis.T @ exact @ basis @ basis.T
    values = np.linalg.eigvalsh(projected)[::-1]
    error = np.linalg.norm(projected - features @ matrix @ matrix.T @ features.T)
    assert error == pytest.approx(np.linalg.norm(values[n_columns:]), rel=1e-8)


def test_large_ridge_gives_the_plain_kernel(rng):
    features, exact, others, _ = problem(rng, 30, 10)
    matrix = best_matrix(features, exact, np.ones(30), 20, np.array([1e12]))
    np.testing.assert_allclose(others @ matrix @ matrix.T @ others.T, others @ others.T, atol=1e-9)


def test_ridge_has_the_smallest_held_out_error(rng):
    features, exact, *_ = problem(rng, 80, 15, d=6)
    halves = slice(0, 40), slice(40, 80)
    risks = []
    for alpha in ALPHAS:
        risks.append(0.0)
        for training, held_out in (halves, halves[::-1]):
            dense = dense_matrix(features[training], exact[training, training], alpha)
            approximate = features[held_out] @ dense @ features[held_out].T
            risks[-1] += np.square(exact[held_out, held_out] - approximate).sum()
    expected = best_matrix(features, exact, np.ones(80), 7, ALPHAS[[int(np.argmin(risks))]])
    selected = best_matrix(features, exact, np.ones(80), 7, ALPHAS)
    assert 0 < np.argmin(risks) < len(ALPHAS) - 1
    np.testing.assert_allclose(selected @ selected.T, expected @ expected.T, rtol=1e-6, atol=1e-8)


def test_sample_weights_equal_repeated_rows(rng):
    features, exact, *_ = problem(rng, 20, 6)
    twice = np.r_[np.arange(20), np.arange(5)]
    counted = best_matrix(features, exact, np.r_[np.full(5, 2.0), np.ones(15)], 8, np.array([0.01]))
    repeated = best_matrix(features[twice], exact[np.ix_(twice, twice)], np.ones(25), 8, np.array([0.01]))
    np.testing.assert_allclose(counted @ counted.T, repeated @ repeated.T, atol=1e-10)


@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("n_columns", [1, 8])
def test_few_rows_give_finite_matrix(rng, n_rows, n_columns):
    features, exact, *_ = problem(rng, n_rows, 4)
    matrix = best_matrix(features, exact, np.ones(n_rows), n_columns, ALPHAS)
    assert matrix.shape == (8, n_columns)
    assert np.isfinite(matrix).all()


def test_equal_rows_have_exact_kernel(rng):
    features, exact, *_ = problem(rng, 1, 4)
    matrix = best_matrix(np.repeat(features, 6, axis=0), np.ones((6, 6)), np.ones(6), 8, ALPHAS)
    np.testing.assert_allclose(features @ matrix @ matrix.T @ features.T, exact, atol=1e-6)


def test_columns_beyond_the_rank(rng):
    features, exact, others, _ = problem(rng, 5, 20)
    few = best_matrix(features, exact, np.ones(5), 9, ALPHAS)
    assert not few[:, 5:].any()
    full = best_matrix(features, exact, np.ones(5), 40, np.array([1e12]))
    np.testing.assert_allclose(others @ full @ full.T @ others.T, others @ others.T, atol=1e-9)


def test_principal_components_of_weighted_rows(rng):
    features, *_ = problem(rng, 30, 5)
    counts = rng.integers(1, 4, size=30).astype(float)
    repeated = np.repeat(features, counts.astype(int), axis=0)
    columns = repeated @ principal_components(features, counts, 3)
    values = np.linalg.svd(repeated, compute_uv=False)
    error = np.linalg.norm(repeated @ repeated.T - columns @ columns.T)
    assert error == pytest.approx(np.linalg.norm(values[3:] ** 2))


class TestInverseRoot:
    def test_product_is_the_inverse(self, rng):
        matrix = Gaussian()(rng.normal(size=(12, 3)))
        values, root = inverse_root(matrix)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix), rtol=1e-8)
        assert root.shape == (12, 12)
        np.testing.assert_allclose(root @ root.T, np.linalg.inv(matrix), rtol=1e-8)
        np.testing.assert_allclose(root.T @ matrix @ root, np.eye(12), atol=1e-8)

    def test_pseudo_inverse_of_a_singular_matrix(self, rng):
        factor = rng.normal(size=(9, 4))
        root = inverse_root(factor @ factor.T)[1]
        assert root.shape == (9, 4)
        np.testing.assert_allclose(root @ root.T, np.linalg.pinv(factor @ factor.T, rcond=1e-10), atol=1e-10)

    def test_small_eigenvalues_are_dropped(self):
        matrix = np.diag([1e-3, 4.0, 1e-12, -1e-3, 1.0])
        values, root = inverse_root(matrix)
        assert values == pytest.approx([1e-3, 1.0, 4.0])
        assert np.abs(root).max(axis=0) == pytest.approx([1e-3**-0.5, 1.0, 0.5])
        assert inverse_root(matrix, 1e-2)[1].shape == (5, 2)
        assert inverse_root(matrix, 1e-13)[1].shape == (5, 4)
