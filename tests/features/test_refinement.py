# SPDX-License-Identifier: BSD-3-Clause
"""The objective is compared with the dense kernel error, and its gradient with finite differences."""

import numpy as np
import pytest
from scipy import sparse

from bochner.feature_maps import fourier_map
from bochner.features import refinement
from bochner.features.refinement import KernelObjective, refine
from bochner.kernels import KERNELS, Gaussian


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
