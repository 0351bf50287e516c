# SPDX-License-Identifier: BSD-3-Clause
"""The objectives are compared with the dense kernel error, and their gradients with finite differences."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from bochner.feature_maps import fourier_map
from bochner.features import refinement
from bochner.features.refinement import KernelObjective, nystroem_error, refine, refine_landmarks
from bochner.kernels import KERNELS, Gaussian, IsotropicKernel
from bochner.rows import TrainingRows, shuffled_sample

ISOTROPIC = [name for name, kernel in KERNELS.items() if issubclass(kernel, IsotropicKernel)]


def clustered(rng, n=400, d=6):
    return rng.normal(size=(5, d))[rng.integers(5, size=n)] + 0.3 * rng.normal(size=(n, d))


def relative_error(X, frequencies, weights, kernel):
    exact, features = kernel(X), fourier_map(X, frequencies, weights)
    return np.linalg.norm(exact - features @ features.T) / np.linalg.norm(exact)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_value_and_gradient_equal_dense_error_and_differences(rng, kernel, kind):
    X, counts = rng.normal(size=(30, 3)), rng.integers(1, 4, size=30).astype(float)
    points = sparse.csr_array(X) if kind == "sparse" else X
    kernel = KERNELS[kernel]()
    frequencies, amplitudes = rng.normal(size=(5, 3)), rng.uniform(0.2, 0.8, size=5)
    objective = KernelObjective(kernel, points, counts)
    value, frequency_gradient, amplitude_gradient = objective.with_gradient(frequencies, amplitudes)
    assert value == pytest.approx(objective.value(frequencies, amplitudes), rel=1e-12)

    rows = np.repeat(X, counts.astype(int), axis=0)
    features = fourier_map(rows, frequencies, amplitudes**2)
    assert value == pytest.approx(np.square(kernel(rows) - features @ features.T).sum(), rel=1e-9)

    def difference(frequency_step, amplitude_step, step=1e-6):
        ahead = objective.value(frequencies + step * frequency_step, amplitudes + step * amplitude_step)
        behind = objective.value(frequencies - step * frequency_step, amplitudes - step * amplitude_step)
        return (ahead - behind) / (2 * step)

    for _ in range(5):
        frequency_step, amplitude_step = rng.normal(size=frequencies.shape), rng.normal(size=5)
        slope = np.vdot(frequency_gradient, frequency_step) + amplitude_gradient @ amplitude_step
        assert slope == pytest.approx(difference(frequency_step, amplitude_step), rel=1e-6, abs=1e-5)


def test_frequency_gradient_is_zero_for_amplitude_zero(rng):
    objective = KernelObjective(Gaussian(), rng.normal(size=(20, 2)), np.ones(20))
    _, frequency_gradient, _ = objective.with_gradient(rng.normal(size=(3, 2)), np.array([0.5, 0.0, 0.5]))
    assert not frequency_gradient[1].any()
    assert frequency_gradient[0].any()


@pytest.mark.parametrize("kernel", KERNELS)
def test_refinement_lowers_the_error_on_new_rows(rng, kernel):
    X = clustered(rng, 800)
    kernel = KERNELS[kernel]()
    start = kernel.frequencies(rng.uniform(size=(16, kernel.uniform_dim(6))))
    weights = np.full(16, 1 / 16)
    frequencies, moved = refine(start, weights, kernel, X[:400], 60, rng)
    assert moved.min() >= 0.0
    before, after = (relative_error(X[400:], *pair, kernel) for pair in ((start, weights), (frequencies, moved)))
    assert after < 0.8 * before


def test_frequencies_of_weight_zero_get_positive_weights(rng):
    X = clustered(rng)
    start = rng.normal(size=(8, 6))
    _, weights = refine(start, np.r_[np.ones(4) / 4, np.zeros(4)], Gaussian(), X, 40, rng)
    assert (weights > 0.0).all()


def test_start_is_kept_without_gain_on_held_out_rows(rng):
    """With many frequencies and few rows, the training error falls and the held-out error does not."""
    X = rng.normal(size=(12, 30))
    start, weights = rng.normal(size=(400, 30)), np.full(400, 1 / 400)
    frequencies, moved = refine(start, weights, Gaussian(), X, 20, np.random.default_rng(1))
    held_out = X[np.random.default_rng(1).permutation(12)[:3]]
    if frequencies is start:
        assert moved is weights
    else:
        assert relative_error(held_out, frequencies, moved, Gaussian()) < relative_error(
            held_out, start, weights, Gaussian()
        )


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_start_is_kept_with_too_few_rows_to_hold_out(rng, n_rows):
    start, weights = rng.normal(size=(4, 2)), np.full(4, 0.25)
    frequencies, moved = refine(start, weights, Gaussian(), rng.normal(size=(n_rows, 2)), 10, rng)
    assert frequencies is start
    assert moved is weights


@pytest.mark.parametrize("step", [1e5, 1e160, 1e300])
def test_steps_that_go_too_far_are_not_kept(rng, monkeypatch, step):
    """L-BFGS tries steps at which the objective overflows."""

    def one_step(loss, start, callback, **options):
        del options
        loss(start + step)
        callback(start + step)

    monkeypatch.setattr(refinement, "minimize", one_step)
    start, weights = rng.normal(size=(4, 2)), np.full(4, 0.25)
    frequencies, moved = refine(start, weights, Gaussian(), rng.normal(size=(40, 2)), 10, rng)
    assert frequencies is start
    assert moved is weights


def test_more_iterations_lower_the_error(rng):
    X = clustered(rng)
    start, weights = rng.normal(size=(16, 6)), np.full(16, 1 / 16)
    errors = [
        relative_error(X, *refine(start, weights, Gaussian(), X, n, np.random.default_rng(0)), Gaussian())
        for n in (1, 10, 60)
    ]
    assert errors[0] > errors[1] > errors[2]


def far_clusters(rng, n=1200, d=6):
    return rng.normal(size=(40, d))[rng.integers(40, size=n)] + 0.3 * rng.normal(size=(n, d))


def plain_error(kernel, landmarks, X):
    columns = kernel(X, landmarks)
    return np.linalg.norm(kernel(X) - columns @ np.linalg.solve(kernel(landmarks), columns.T)) / np.linalg.norm(
        kernel(X)
    )


def refined(landmarks, kernel, X, n_steps=60):
    points, counts = shuffled_sample(X, 2000, np.random.default_rng(0))
    return refine_landmarks(landmarks, kernel, points, counts, n_steps)


class Bump(IsotropicKernel):
    """A kernel without gradients."""

    def profile(self, squared_distances):
        return np.exp(-squared_distances)

    def mixing(self, uniforms):
        return np.ones(len(uniforms))


class TestLandmarks:
    """Gradient steps of landmarks."""

    @pytest.mark.parametrize("kernel", ISOTROPIC)
    def test_value_and_gradient_equal_dense_error_and_differences(self, rng, kernel):
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

    def test_weight_of_the_diagonal(self, rng):
        X, landmarks = rng.normal(size=(30, 3)), rng.normal(size=(5, 3))
        none, half, full = (nystroem_error(landmarks, X, np.ones(30), Gaussian(), share) for share in (0.0, 0.5, 1.0))
        assert half[0] == pytest.approx((none[0] + full[0]) / 2)
        np.testing.assert_allclose(half[1], (none[1] + full[1]) / 2)

    @pytest.mark.parametrize("kernel", ISOTROPIC)
    def test_lower_error_on_new_rows(self, rng, kernel):
        kernel, X = KERNELS[kernel](), far_clusters(rng) / 3
        landmarks = refined(X[:16], kernel, X[:800])
        assert plain_error(kernel, landmarks, X[800:]) < 0.95 * plain_error(kernel, X[:16], X[800:])

    @pytest.mark.parametrize("n_rows", [1, 2, 3])
    def test_few_rows(self, rng, n_rows):
        X = rng.normal(size=(n_rows, 2))
        assert np.isfinite(refined(X[:1], Gaussian(), X)).all()

    def test_kernel_without_gradients_changes_nothing(self, rng):
        X = rng.normal(size=(300, 2))
        start = X[:9]
        assert refined(start, Bump(), X) is start

    def test_dtype_offset_and_sparse_rows(self, rng):
        X = far_clusters(rng)
        expected = refined(X[:16], Gaussian(), X)
        assert refined(X[:16].astype(np.float32), Gaussian(), X).dtype == np.float32
        np.testing.assert_allclose(refined(X[:16] + 1e4, Gaussian(), X + 1e4) - 1e4, expected, atol=1e-6)
        np.testing.assert_allclose(refined(X[:16], Gaussian(), sparse.csr_array(X)), expected)

    def test_weighted_rows_equal_repeated_rows(self, rng):
        X, counts = far_clusters(rng, 300), rng.integers(1, 4, size=300)
        weighted = refined(X[:8], Gaussian(), TrainingRows(X, counts.astype(float)))
        np.testing.assert_allclose(weighted, refined(X[:8], Gaussian(), np.repeat(X, counts, axis=0)), rtol=1e-9)

    def test_same_landmarks_for_any_number_of_threads(self, rng):
        X = far_clusters(rng)
        results = []
        for n_threads in (1, 2):
            with threadpool_limits(n_threads):
                results.append(refined(X[:16], Gaussian(), X))
        np.testing.assert_array_equal(*results)
