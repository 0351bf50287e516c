# SPDX-License-Identifier: BSD-3-Clause
"""The objective is compared with the dense kernel error, and its gradient with finite differences."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from bochner.features.landmark_refinement import nystroem_error, refine_landmarks
from bochner.kernels import KERNELS, Gaussian, IsotropicKernel, Laplacian
from bochner.rows import TrainingRows, shuffled_sample


def clustered(rng, n=1200, d=6):
    return rng.normal(size=(40, d))[rng.integers(40, size=n)] + 0.3 * rng.normal(size=(n, d))


def plain_error(kernel, landmarks, X):
    columns = kernel(X, landmarks)
    return np.linalg.norm(kernel(X) - columns @ np.linalg.solve(kernel(landmarks), columns.T)) / np.linalg.norm(
        kernel(X)
    )


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


def refined(landmarks, kernel, X, n_steps=60):
    points, counts = shuffled_sample(X, 2000, np.random.default_rng(0))
    return refine_landmarks(landmarks, kernel, points, counts, n_steps)


@pytest.mark.parametrize("kernel", sorted(set(KERNELS) - {"laplacian"}))
def test_lower_error_on_new_rows(rng, kernel):
    kernel, X = KERNELS[kernel](), clustered(rng) / 3
    landmarks = refined(X[:16], kernel, X[:800])
    assert plain_error(kernel, landmarks, X[800:]) < 0.95 * plain_error(kernel, X[:16], X[800:])


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_few_rows(rng, n_rows):
    X = rng.normal(size=(n_rows, 2))
    assert np.isfinite(refined(X[:1], Gaussian(), X)).all()


class Bump(IsotropicKernel):
    """A kernel without gradients."""

    def profile(self, squared_distances):
        return np.exp(-squared_distances)

    def mixing(self, uniforms):
        return np.ones(len(uniforms))


@pytest.mark.parametrize("kernel", [Bump(), Laplacian()], ids=str)
def test_kernel_without_gradients_or_with_kinks_changes_nothing(rng, kernel):
    X = rng.normal(size=(300, 2))
    start = X[:9]
    assert refined(start, kernel, X) is start


def test_dtype_offset_and_sparse_rows(rng):
    X = clustered(rng)
    expected = refined(X[:16], Gaussian(), X)
    assert refined(X[:16].astype(np.float32), Gaussian(), X).dtype == np.float32
    np.testing.assert_allclose(refined(X[:16] + 1e4, Gaussian(), X + 1e4) - 1e4, expected, atol=1e-6)
    np.testing.assert_allclose(refined(X[:16], Gaussian(), sparse.csr_array(X)), expected)


def test_weighted_rows_equal_repeated_rows(rng):
    X, counts = clustered(rng, 300), rng.integers(1, 4, size=300)
    weighted = refined(X[:8], Gaussian(), TrainingRows(X, counts.astype(float)))
    np.testing.assert_allclose(weighted, refined(X[:8], Gaussian(), np.repeat(X, counts, axis=0)), rtol=1e-9)


def test_same_landmarks_for_any_number_of_threads(rng):
    X = clustered(rng)
    results = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            results.append(refined(X[:16], Gaussian(), X))
    np.testing.assert_array_equal(*results)
