# SPDX-License-Identifier: BSD-3-Clause
"""The objective is compared with the dense kernel error, and its gradient with finite differences."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from bochner.features.landmark_refinement import nystroem_error, refine_landmarks
from bochner.kernels import KERNELS, Gaussian, IsotropicKernel


def clustered(rng, n=1200, d=6):
    return rng.normal(size=(40, d))[rng.integers(40, size=n)] + 0.3 * rng.normal(size=(n, d))


def plain_error(kernel, landmarks, X):
    columns = kernel(X, landmarks)
    return np.linalg.norm(kernel(X) - columns @ np.linalg.solve(kernel(landmarks), columns.T)) / np.linalg.norm(kernel(X))


@pytest.mark.parametrize("kernel", KERNELS)
def test_value_and_gradient_equal_dense_error_and_differences(rng, kernel):
    kernel = KERNELS[kernel]()
    X, landmarks, counts = rng.normal(size=(30, 3)), rng.normal(size=(5, 3)), rng.integers(1, 4, size=30)
    value, gradient = nystroem_error(landmarks, X, np.sqrt(counts), kernel)
    repeated = np.repeat(X, counts, axis=0)
    columns, inner = kernel(repeated, landmarks), kernel(landmarks) + 1e-6 * np.eye(5)
    dense = kernel(repeated) - columns @ np.linalg.solve(inner, columns.T)
    assert value == pytest.approx(np.square(dense).sum(), rel=1e-8)
    for _ in range(5):
        step = 1e-5 * rng.normal(size=landmarks.shape)
        ahead, behind = (nystroem_error(landmarks + s, X, np.sqrt(counts), kernel)[0] for s in (step, -step))
        assert 2 * np.vdot(gradient, step) == pytest.approx(ahead - behind, rel=1e-5, abs=1e-8)


def test_weight_of_the_diagonal(rng):
    X, landmarks = rng.normal(size=(30, 3)), rng.normal(size=(5, 3))
    none, half, full = (nystroem_error(landmarks, X, np.ones(30), Gaussian(), share) for share in (0.0, 0.5, 1.0))
    assert half[0] == pytest.approx((none[0] + full[0]) / 2)
    np.testing.assert_allclose(half[1], (none[1] + full[1]) / 2)


@pytest.mark.parametrize("kernel", KERNELS)
def test_lower_error_on_new_rows(rng, kernel):
    kernel, X = KERNELS[kernel](), clustered(rng) / 3
    refined = refine_landmarks(X[:16], X[:800], np.ones(800), kernel, 60)
    assert plain_error(kernel, refined, X[800:]) < 0.95 * plain_error(kernel, X[:16], X[800:])


def test_optimum_stays(rng):
    X = rng.normal(size=(400, 2))
    assert refine_landmarks(X[:300], X, np.ones(400), Gaussian(), 5) is not None
    exact = np.repeat(X[:4], 100, axis=0)  # four landmarks leave no error
    np.testing.assert_array_equal(refine_landmarks(X[:4], exact, np.ones(400), Gaussian(), 20), X[:4])


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_too_few_rows_change_nothing(rng, n_rows):
    X = rng.normal(size=(n_rows, 2))
    assert refine_landmarks(X, X, np.ones(n_rows), Gaussian(), 20) is X


class Bump(IsotropicKernel):
    """A kernel without gradients."""

    def profile(self, squared_distances):
        return np.exp(-squared_distances)

    def mixing(self, uniforms):
        return np.ones(len(uniforms))


def test_kernel_without_gradients_changes_nothing(rng):
    X = rng.normal(size=(300, 2))
    assert refine_landmarks(X[:9].copy(), X, np.ones(300), Bump(), 20).tolist() == X[:9].tolist()


def test_dtype_offset_and_sparse_rows(rng):
    X = clustered(rng)
    expected = refine_landmarks(X[:16], X, np.ones(1200), Gaussian(), 20)
    single = refine_landmarks(X[:16].astype(np.float32), X.astype(np.float32), np.ones(1200), Gaussian(), 20)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=1e-4)
    moved = refine_landmarks(X[:16] + 1e4, X + 1e4, np.ones(1200), Gaussian(), 20)
    np.testing.assert_allclose(moved - 1e4, expected, atol=1e-6)
    np.testing.assert_allclose(refine_landmarks(X[:16], sparse.csr_array(X), np.ones(1200), Gaussian(), 20), expected)


def test_weights_attract_landmarks(rng):
    X = np.concatenate([rng.normal(size=(400, 2)), rng.normal(size=(400, 2)) + 6])[rng.permutation(800)]
    is_far = X.sum(axis=1) > 6
    weights = np.where(is_far, 50.0, 1.0)
    refined = refine_landmarks(X[:12], X, weights, Gaussian(), 60)
    assert plain_error(Gaussian(), refined, X[is_far]) < plain_error(Gaussian(), X[:12], X[is_far])


def test_same_landmarks_for_any_number_of_threads(rng):
    X = clustered(rng)
    results = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            results.append(refine_landmarks(X[:16], X, np.ones(1200), Gaussian(), 10))
    np.testing.assert_array_equal(*results)
