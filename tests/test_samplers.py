# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from scipy import sparse, stats

from bochner.kernels import KERNELS, Gaussian, Laplacian
from bochner.samplers import SAMPLERS, Halton, Lattice, MonteCarlo, Orthogonal, QuasiMonteCarlo, Sobol
from tests.conftest import KERNEL_SAMPLER_PAIRS

QMC = [Halton, Sobol, Lattice]
DELTAS = np.array([[0.5, 0.0, 0.0], [0.4, -0.8, 0.3], [1.0, 1.0, 1.0], [0.0, 1.5, -0.5], [2.0, -1.0, 0.5]])


def deviations(kernel, sampler, length_scale=1.0, n_draws=300, n_frequencies=32):
    """How many standard errors the mean cosine is from the exact kernel, at each of DELTAS."""
    X = np.zeros((1, 3))
    means = [
        np.cos(sampler.sample(kernel, n_frequencies, X, np.random.default_rng(seed)) @ DELTAS.T).mean(axis=0)
        for seed in range(n_draws)
    ]
    standard_errors = np.std(means, axis=0, ddof=1) / np.sqrt(n_draws)
    return np.abs(np.mean(means, axis=0) - kernel.at(DELTAS / length_scale)) / standard_errors


@pytest.mark.parametrize(("kernel", "sampler"), KERNEL_SAMPLER_PAIRS)
def test_bochner(kernel, sampler):
    """The mean of cos(w . delta) is k(delta); with a length scale off by sqrt(2) it is not."""
    kernel, sampler = KERNELS[kernel](), SAMPLERS[sampler]()
    assert deviations(kernel, sampler).max() < 4.0
    assert deviations(kernel, sampler, length_scale=np.sqrt(2)).max() > 4.0


@pytest.mark.parametrize("sampler", QMC)
def test_bochner_after_rotation(sampler, rng):
    X = rng.normal(size=(50, 3)) * [1.0, 5.0, 0.1]

    class Fixed(sampler):
        def sample(self, kernel, n_frequencies, _, rng):
            return super().sample(kernel, n_frequencies, X, rng)

    assert deviations(Gaussian(), Fixed(rotate=True)).max() < 4.0


@pytest.mark.parametrize(("kernel", "sampler"), KERNEL_SAMPLER_PAIRS)
@pytest.mark.parametrize(("n_frequencies", "n_features"), [(1, 1), (1, 5), (5, 1), (7, 3), (20, 40)])
def test_shape_determinism_and_finiteness(kernel, sampler, n_frequencies, n_features):
    kernel, sampler, X = KERNELS[kernel](), SAMPLERS[sampler](), np.zeros((1, n_features))
    once, again = (sampler.sample(kernel, n_frequencies, X, np.random.default_rng(3)) for _ in range(2))
    other = sampler.sample(kernel, n_frequencies, X, np.random.default_rng(4))
    assert once.shape == (n_frequencies, n_features)
    assert np.isfinite(once).all()
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)


@pytest.mark.parametrize("sampler", QMC)
@pytest.mark.parametrize("n_points", [1, 2, 3, 16, 100])
def test_qmc_points_are_stratified_in_every_coordinate(sampler, n_points, rng):
    points = sampler().points(n_points, 4, rng)
    assert points.shape == (n_points, 4)
    assert (points >= 0).all()
    assert (points < 1).all()
    if n_points == 16 and sampler is not Halton:
        strata = np.sort(np.floor(points * 16 + 1e-9).astype(int) % 16, axis=0)
        np.testing.assert_array_equal(strata, np.arange(16)[:, None].repeat(4, axis=1))


@pytest.mark.parametrize("sampler", QMC)
def test_each_qmc_point_is_uniform(sampler):
    points = np.array([sampler().points(8, 3, np.random.default_rng(seed))[5] for seed in range(500)])
    assert stats.kstest(points.ravel(), "uniform").pvalue > 1e-3


def test_lattice_differences_are_multiples_of_the_generating_vector(rng):
    points = Lattice().points(31, 3, rng)
    steps = (points[1:] - points[0]) * 31 % 31
    np.testing.assert_allclose(np.abs(steps - np.rint(steps)), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.rint(steps) % 31, np.arange(1, 31)[:, None] * np.rint(steps[:1]) % 31)


@pytest.mark.parametrize("sampler", [Halton, Sobol, Lattice, Orthogonal])
def test_better_than_independent_draws_in_few_dimensions(sampler, rng):
    X = rng.normal(size=(200, 4)) / 3
    exact = Gaussian()(X)

    def error(part, seed):
        phases = X @ part.sample(Gaussian(), 64, X, np.random.default_rng(seed)).T
        features = np.hstack([np.cos(phases), np.sin(phases)]) / 8.0
        return np.linalg.norm(exact - features @ features.T)

    ours, plain = (np.mean([error(part, seed) for seed in range(10)]) for part in (sampler(), MonteCarlo()))
    assert ours < 0.8 * plain


def test_orthogonal_groups_are_orthogonal_with_stratified_radii(rng):
    kernel, n_features = Gaussian(), 6
    W = Orthogonal().sample(kernel, 20, np.zeros((1, n_features)), rng)
    for start in range(0, 20, n_features):
        gram = W[start : start + n_features] @ W[start : start + n_features].T
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    strata = np.floor(20 * stats.chi(n_features).cdf(np.linalg.norm(W, axis=1))).astype(int)
    np.testing.assert_array_equal(np.sort(strata), np.arange(20))


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_orthogonal_frequencies_have_no_preferred_side(n_features):
    W = np.vstack(
        [Orthogonal().sample(Gaussian(), 10, np.zeros((1, n_features)), np.random.default_rng(s)) for s in range(400)]
    )
    assert np.abs(W.mean(axis=0)).max() < 4.5 / np.sqrt(len(W))


def test_rotation_puts_the_first_coordinate_on_the_widest_axis(rng):
    axis = np.array([3.0, 4.0]) / 5
    X = rng.normal(size=(500, 1)) * 10 * axis + 0.01 * rng.normal(size=(500, 2))
    plain = Sobol().sample(Gaussian(), 16, X, np.random.default_rng(0))
    turned = Sobol(rotate=True).sample(Gaussian(), 16, X, np.random.default_rng(0))
    np.testing.assert_allclose(np.abs(turned @ axis), np.abs(plain[:, 0]), atol=0.05)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(plain, axis=1))
    sparse_turned = Sobol(rotate=True).sample(Gaussian(), 16, sparse.csr_array(X), np.random.default_rng(0))
    np.testing.assert_allclose(np.abs(sparse_turned), np.abs(turned), atol=1e-8)


def test_a_kernel_without_radii_is_refused_by_name(rng):
    with pytest.raises(ValueError, match=r"Laplacian is not compatible with sampler Orthogonal.*`radii`.*'gaussian'"):
        Orthogonal().sample(Laplacian(), 4, np.zeros((1, 2)), rng)


@pytest.mark.parametrize("sampler", QMC)
def test_rotation_of_a_product_kernel_is_refused(sampler, rng):
    with pytest.raises(ValueError, match="Laplacian is not isotropic"):
        sampler(rotate=True).sample(Laplacian(), 4, np.zeros((1, 2)), rng)


def test_sobols_limit_is_said_before_any_work(rng):
    with pytest.raises(ValueError, match=r"up to 21201 dimensions and this kernel needs 21202.*orthogonal"):
        Sobol().sample(Gaussian(), 4, np.zeros((1, 21202)), rng)
    assert Sobol().sample(Gaussian(), 4, np.zeros((1, 21201)), rng).shape == (4, 21201)


def test_a_subclass_only_writes_points(rng):
    class Corner(QuasiMonteCarlo):
        def points(self, n_points, dim, rng):
            return np.zeros((n_points, dim))

    assert np.isfinite(Corner().sample(Gaussian(), 3, np.zeros((1, 2)), rng)).all()
