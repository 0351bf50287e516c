# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from scipy import stats

from bochner.kernels import KERNELS, Gaussian, Laplacian
from bochner.samplers import SAMPLERS, Halton, Lattice, MonteCarlo, Orthogonal, QuasiMonteCarlo, Sobol, Sorf
from tests.conftest import KERNEL_SAMPLER_PAIRS

QUASI_MONTE_CARLO = [Halton, Sobol, Lattice]
DELTAS = np.array([[0.5, 0.0, 0.0], [0.4, -0.8, 0.3], [1.0, 1.0, 1.0], [0.0, 1.5, -0.5], [2.0, -1.0, 0.5]])
# Every kernel with one sampler and every sampler with one kernel; the other pairs are in the slow lane.
PAIRS = [
    pytest.param(kernel, sampler, marks=[] if kernel == "gaussian" or sampler == "mc" else pytest.mark.slow)
    for kernel, sampler in KERNEL_SAMPLER_PAIRS
]


def cosine_means(kernel, sampler, n_draws=300, n_frequencies=32):
    """Return the mean cosine over many draws at each of DELTAS, and its standard error."""
    X = np.zeros((1, 3))
    means = [
        np.cos(sampler.sample(kernel, n_frequencies, X, np.random.default_rng(seed)) @ DELTAS.T).mean(axis=0)
        for seed in range(n_draws)
    ]
    return np.mean(means, axis=0), np.std(means, axis=0, ddof=1) / np.sqrt(n_draws)


@pytest.mark.parametrize(("kernel", "sampler"), PAIRS)
def test_mean_cosine_equals_kernel(kernel, sampler):
    """The mean of cos(w . delta) is k(delta) (Bochner's theorem), and the test detects a wrong length scale."""
    kernel, sampler = KERNELS[kernel](), SAMPLERS[sampler]()
    means, standard_errors = cosine_means(kernel, sampler)
    assert (np.abs(means - kernel.at(DELTAS)) < 4.0 * standard_errors).all()
    assert (np.abs(means - kernel.at(DELTAS / np.sqrt(2))) > 4.0 * standard_errors).any()


@pytest.mark.parametrize(("kernel", "sampler"), KERNEL_SAMPLER_PAIRS)
@pytest.mark.parametrize(("n_frequencies", "n_features"), [(1, 1), (1, 5), (5, 1), (7, 3), (20, 40), (9, 130)])
def test_frequencies_are_finite_and_repeatable(kernel, sampler, n_frequencies, n_features):
    kernel, sampler, X = KERNELS[kernel](), SAMPLERS[sampler](), np.zeros((1, n_features))
    once, again, other = (
        np.asarray(sampler.sample(kernel, n_frequencies, X, np.random.default_rng(seed))) for seed in (3, 3, 4)
    )
    assert once.shape == (n_frequencies, n_features)
    assert np.isfinite(once).all()
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)


@pytest.mark.parametrize("sampler", QUASI_MONTE_CARLO)
@pytest.mark.parametrize("n_points", [1, 2, 3, 16, 100])
def test_quasi_monte_carlo_points_are_stratified_in_every_coordinate(sampler, n_points, rng):
    points = sampler().points(n_points, 4, rng)
    assert points.shape == (n_points, 4)
    assert (points >= 0).all()
    assert (points < 1).all()
    if n_points == 16 and sampler is not Halton:
        strata = np.sort(np.floor(points * 16 + 1e-9).astype(int) % 16, axis=0)
        np.testing.assert_array_equal(strata, np.arange(16)[:, None].repeat(4, axis=1))


@pytest.mark.parametrize("sampler", QUASI_MONTE_CARLO)
def test_each_quasi_monte_carlo_point_is_uniform(sampler):
    points = np.array([sampler().points(8, 3, np.random.default_rng(seed))[5] for seed in range(500)])
    assert stats.kstest(points.ravel(), "uniform").pvalue > 1e-3


def test_lattice_differences_are_multiples_of_the_generating_vector(rng):
    points = Lattice().points(31, 3, rng)
    steps = (points[1:] - points[0]) * 31 % 31
    np.testing.assert_allclose(np.abs(steps - np.rint(steps)), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.rint(steps) % 31, np.arange(1, 31)[:, None] * np.rint(steps[:1]) % 31)


@pytest.mark.parametrize("sampler", [Halton, Sobol, Lattice, Orthogonal])
def test_kernel_error_is_lower_than_with_independent_frequencies(sampler, rng):
    X = rng.normal(size=(200, 4)) / 3
    exact = Gaussian()(X)

    def error(part, seed):
        phases = X @ part.sample(Gaussian(), 64, X, np.random.default_rng(seed)).T
        features = np.hstack([np.cos(phases), np.sin(phases)]) / 8.0
        return np.linalg.norm(exact - features @ features.T)

    mean, baseline = (np.mean([error(part, seed) for seed in range(10)]) for part in (sampler(), MonteCarlo()))
    assert mean < 0.8 * baseline


def test_orthogonal_frequencies_have_stratified_lengths(rng):
    kernel, n_features = Gaussian(), 6
    W = Orthogonal().sample(kernel, 20, np.zeros((1, n_features)), rng)
    for start in range(0, 20, n_features):
        gram = W[start : start + n_features] @ W[start : start + n_features].T
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    strata = np.floor(20 * stats.chi(n_features).cdf(np.linalg.norm(W, axis=1))).astype(int)
    np.testing.assert_array_equal(np.sort(strata), np.arange(20))


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_orthogonal_frequencies_have_mean_zero(n_features):
    W = np.vstack(
        [Orthogonal().sample(Gaussian(), 10, np.zeros((1, n_features)), np.random.default_rng(s)) for s in range(400)]
    )
    assert np.abs(W.mean(axis=0)).max() < 4.5 / np.sqrt(len(W))


def test_orthogonal_rejects_product_kernels(rng):
    with pytest.raises(
        ValueError, match=r"Laplacian is not compatible with sampler Orthogonal.*not isotropic.*'gaussian'"
    ):
        Orthogonal().sample(Laplacian(), 4, np.zeros((1, 2)), rng)


def test_samplers_say_which_kernels_they_support():
    for sampler in (MonteCarlo(), Halton(), Sobol(), Lattice()):
        sampler.check_kernel(Laplacian())
    for sampler in (Orthogonal(), Sorf()):
        sampler.check_kernel(Gaussian())
        with pytest.raises(ValueError, match=f"Laplacian is not .*{type(sampler).__name__}.*isotropic kernel"):
            sampler.check_kernel(Laplacian())


def test_sobol_rejects_too_many_dimensions(rng):
    with pytest.raises(ValueError, match=r"up to 21201 dimensions and this kernel needs 21202.*orthogonal"):
        Sobol().sample(Gaussian(), 4, np.zeros((1, 21202)), rng)


@pytest.mark.slow
def test_sobol_accepts_its_largest_dimension(rng):
    assert Sobol().sample(Gaussian(), 4, np.zeros((1, 21201)), rng).shape == (4, 21201)


def test_subclass_with_points_at_the_edge_of_the_cube(rng):
    class Corner(QuasiMonteCarlo):
        def points(self, n_points, dim, rng):
            return np.zeros((n_points, dim))

    assert np.isfinite(Corner().sample(Gaussian(), 3, np.zeros((1, 2)), rng)).all()
