# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from scipy import integrate, sparse, stats
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise

from bochner import FourierFeatures, LandmarkFeatures
from bochner.kernels import (
    KERNELS,
    Cauchy,
    Exponential,
    Gaussian,
    IsotropicKernel,
    Laplacian,
    Matern,
    PowerExponential,
    RationalQuadratic,
)
from bochner.samplers import SAMPLERS, Orthogonal

ALL = [
    *(kernel() for kernel in KERNELS.values()),
    Matern(nu=0.8),
    Matern(nu=4.0),
    Matern(nu=100.0),
    RationalQuadratic(alpha=0.3),
    PowerExponential(),
    PowerExponential(p=2.0, q=0.7),
]
ISOTROPIC = [kernel for kernel in ALL if isinstance(kernel, IsotropicKernel)]

SCIKIT_LEARN = [
    (Gaussian(), lambda X, Y: pairwise.rbf_kernel(X, Y, gamma=0.5)),
    (Laplacian(), lambda X, Y: pairwise.laplacian_kernel(X, Y, gamma=1.0)),
    (Exponential(), gp.Matern(nu=0.5)),
    (Matern(nu=1.5), gp.Matern(nu=1.5)),
    (Matern(nu=2.5), gp.Matern(nu=2.5)),
    (Matern(nu=3.3), gp.Matern(nu=3.3)),
    (RationalQuadratic(alpha=0.7), gp.RationalQuadratic(alpha=0.7)),
    (PowerExponential(p=1.0, q=1.0), Laplacian()),
    (PowerExponential(p=2.0, q=1.0), Exponential()),
    (PowerExponential(p=2.0, q=2.0), lambda X, Y: pairwise.rbf_kernel(X, Y, gamma=1.0)),
    (Cauchy(), lambda X, Y: np.prod(1 / (1 + (X[:, None] - Y) ** 2), axis=2)),
]


@pytest.mark.parametrize(("kernel", "reference"), SCIKIT_LEARN, ids=[str(kernel) for kernel, _ in SCIKIT_LEARN])
def test_kernel_matrix_equals_reference(rng, kernel, reference):
    X, Y = rng.normal(size=(30, 4)), rng.normal(size=(20, 4))
    np.testing.assert_allclose(kernel(X, Y), reference(X, Y), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("kernel", ALL, ids=str)
class TestKernel:
    def test_values_are_one_at_zero_and_at_most_one(self, kernel, rng):
        assert kernel.at(np.zeros((1, 5))) == pytest.approx([1.0])
        assert (kernel.at(rng.normal(size=(100, 5))) <= 1).all()

    def test_kernel_matrix_equals_values_at_differences(self, kernel, rng):
        X, Y = 100 + rng.normal(size=(12, 3)), 100 + rng.normal(size=(9, 3))
        expected = kernel.at((X[:, None] - Y).reshape(-1, 3)).reshape(12, 9)
        np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-9)
        np.testing.assert_allclose(kernel(X), kernel(X, X.copy()), rtol=1e-5)

    def test_sparse_equals_dense(self, kernel, rng):
        X = sparse.random_array((15, 6), density=0.4, rng=rng, format="csr")
        np.testing.assert_allclose(kernel(X), kernel(X.toarray()), rtol=1e-6)
        np.testing.assert_allclose(kernel(X[:4], X), kernel(X.toarray()[:4], X.toarray()), rtol=1e-6)

    def test_float32_rows_give_float64_values(self, kernel, rng):
        assert kernel(rng.normal(size=(5, 2)).astype(np.float32)).dtype == np.float64

    def test_input_is_not_changed(self, kernel, rng):
        X = rng.normal(size=(10, 3))
        X.flags.writeable = False
        kernel(X)
        kernel.at(X)

    def test_distant_rows_have_kernel_zero_without_warning(self, kernel):
        assert kernel.at(np.full((1, 3), 1e100)) == pytest.approx([0.0], abs=1e-25)

    def test_frequencies_are_finite_at_extreme_uniforms(self, kernel):
        edges = np.array([2.0**-53, 0.5, 1 - 2.0**-53])
        uniforms = np.repeat(edges[:, None], kernel.uniform_dim(3), axis=1)
        frequencies = kernel.frequencies(uniforms)
        assert frequencies.shape == (3, 3)
        assert np.isfinite(frequencies).all()
        np.testing.assert_allclose(frequencies[1], 0.0, atol=1e-12)

    def test_embedding_in_one_dimension_equals_integral_over_uniforms(self, kernel):
        """The integral over the spectral distribution is an integral over the uniforms that determine w."""
        if isinstance(kernel, PowerExponential):
            with pytest.raises(ValueError, match="has no integrals for weighting='quadrature'; use another weighting"):
                kernel.log_embedding(np.zeros((1, 1)), [1.0])
            return
        points, bandwidths = np.array([[0.0], [0.7], [-2.5]]), [0.3, 1.0, 4.0]
        dim = kernel.uniform_dim(1)
        n_nodes = 700 if dim == 2 else 200_000
        midpoints = (np.arange(n_nodes) + 0.5) / n_nodes
        grid = np.stack(np.meshgrid(*[midpoints] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
        w = kernel.frequencies(grid)[:, 0]
        expected = [[np.mean(np.exp(-((w - p) ** 2) / (2 * s**2))) for p in points[:, 0]] for s in bandwidths]
        np.testing.assert_allclose(np.exp(kernel.log_embedding(points, bandwidths)), expected, rtol=2e-3)


@pytest.mark.parametrize("kernel", ISOTROPIC, ids=str)
def test_gradient_equals_differences(kernel, rng):
    differences, step = rng.normal(size=(20, 3)), 1e-5
    gradient = kernel.gradient_at(differences)
    for axis, found in zip(np.eye(3), gradient.T, strict=True):
        expected = (kernel.at(differences + step * axis) - kernel.at(differences - step * axis)) / (2 * step)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)
    assert not kernel.gradient_at(np.zeros((1, 3))).any()


@pytest.mark.parametrize("bandwidth", [0.5, 2.0])
def test_gaussian_embedding_in_two_dimensions_equals_double_integral(bandwidth):
    point = np.array([0.8, -0.4])

    def integrand(y, x):
        prior = np.exp(-(x**2 + y**2) / 2) / (2 * np.pi)
        return prior * np.exp(-((x - point[0]) ** 2 + (y - point[1]) ** 2) / (2 * bandwidth**2))

    expected = integrate.dblquad(integrand, -9, 9, -9, 9)[0]
    assert np.exp(Gaussian().log_embedding(point[None], [bandwidth])[0]) == pytest.approx([expected], rel=1e-7)


def test_embedding_in_many_dimensions_does_not_underflow():
    frequencies = np.random.default_rng(0).normal(size=(4, 5000))
    logs = Gaussian().log_embedding(frequencies, [0.1])
    assert np.isfinite(logs).all()
    assert (logs < -1000).all()


@pytest.mark.parametrize("kernel", ISOTROPIC, ids=str)
@pytest.mark.parametrize("n_features", [1, 2, 17])
def test_radii_have_the_distribution_of_frequency_norms(kernel, n_features, rng):
    radii = kernel.radii(rng.random((4000, 1 + kernel.mixing_dim)), n_features)
    norms = np.linalg.norm(kernel.frequencies(rng.random((4000, kernel.uniform_dim(n_features)))), axis=1)
    assert stats.ks_2samp(radii, norms).pvalue > 1e-3
    assert stats.ks_2samp(radii * np.sqrt(2), norms).pvalue < 1e-6


@pytest.mark.parametrize(
    ("kernel", "distribution"),
    [(Gaussian(), stats.norm()), (Laplacian(), stats.cauchy()), (Cauchy(), stats.laplace())],
    ids=lambda part: type(part).__name__,
)
def test_coordinates_are_quantiles_of_the_spectral_distribution(kernel, distribution):
    uniforms = np.array([[1e-12], [0.01], [0.3], [0.5], [0.9], [1 - 1e-9]])
    np.testing.assert_allclose(kernel.frequencies(uniforms), distribution.ppf(uniforms), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("nu", [1e-3, 0.02])
def test_matern_frequencies_are_finite_for_small_nu(nu):
    frequencies = Matern(nu=nu).frequencies(np.full((1, 3), 1e-9))
    assert np.isfinite(frequencies).all()


@pytest.mark.parametrize("nu", [0.3, 3.3, 9.9, 10.1, 40.0, 100.0])
def test_matern_is_continuous_and_decreasing(nu):
    """There is no jump between the series near 0 and the Bessel function, and no overflow."""
    values = Matern(nu=nu).at(np.geomspace(1e-12, 30, 4000)[:, None])
    assert np.isfinite(values).all()
    assert (np.diff(values) <= 1e-12).all()
    assert np.abs(np.diff(values)).max() < 0.01
    if nu == 100.0:
        np.testing.assert_allclose(values, Gaussian().at(np.geomspace(1e-12, 30, 4000)[:, None]), atol=0.01)


@pytest.mark.parametrize("nu", [0.3, 0.8, 4.0, 30.0, 59.0, 100.0])
def test_matern_profile_of_float32(nu):
    """K_nu itself overflows float32 at distances of order 1."""
    squares = np.concatenate([[0.0], np.geomspace(1e-8, 100.0, 60)])
    single = Matern(nu=nu).profile(squares.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, Matern(nu=nu).profile(squares), rtol=0, atol=1e-6)


@pytest.mark.parametrize("nu", [2.0, 10.1, 100.0])
def test_matern_of_huge_distances_is_zero_without_warning(nu):
    np.testing.assert_array_equal(Matern(nu=nu).at(np.array([[0.0], [1e150]])), [1.0, 0.0])


@pytest.mark.parametrize(("kind", "name"), [(Matern, "nu"), (RationalQuadratic, "alpha")])
def test_shapes_near_zero(kind, name, rng):
    """The smallest shape has finite frequencies and a kernel; smaller ones are refused."""
    kernel, X = kind(**{name: 1e-6}), rng.normal(size=(20, 2))
    assert np.isfinite(kernel(X)).all()
    assert np.isfinite(FourierFeatures(kernel, n_frequencies=8, random_state=0).fit_transform(X)).all()
    with pytest.raises(
        ValueError, match=rf"'{name}' parameter of {kind.__name__} must be a float in the range \[1e-06"
    ):
        FourierFeatures(kind(**{name: 0.9e-6})).fit(X)


def test_largest_alpha_is_the_gaussian_kernel_also_for_float32_rows():
    X = np.linspace(0.0, 3.0, 5, dtype=np.float32)[:, None]
    features = LandmarkFeatures(RationalQuadratic(alpha=1e10), n_landmarks=5, length_scale=1.0).fit(X)
    np.testing.assert_allclose(features.approximate_kernel(X), Gaussian()(X), atol=1e-4)
    with pytest.raises(ValueError, match="'alpha' parameter"):
        FourierFeatures(RationalQuadratic(alpha=1e11)).fit(X)


@pytest.mark.parametrize("kernel", [Exponential(), Matern(nu=1.5), RationalQuadratic(alpha=0.5)], ids=str)
@pytest.mark.parametrize("n_features", [8, 784])
def test_embedding_in_many_dimensions_equals_integral_over_scales(kernel, n_features, rng):
    """The reference is a fine numerical integral over the logarithm of the scale."""
    frequencies = kernel.frequencies(rng.random((50, kernel.uniform_dim(n_features))))
    bandwidth = np.sqrt(n_features)
    x = np.linspace(-36, 36, 400_001)
    u = 1 / (1 + np.exp(-x))
    c2 = kernel.mixing(u[:, None]) ** 2
    for w in frequencies[:5]:
        logs = n_features / 2 * np.log(bandwidth**2 / (bandwidth**2 + c2)) - w @ w / (2 * (bandwidth**2 + c2))
        expected = np.logaddexp.reduce(logs + np.log(u * (1 - u))) + np.log(x[1] - x[0])
        np.testing.assert_allclose(kernel.log_embedding(w[None], [bandwidth]), [[expected]], atol=1e-3)


def test_embedding_at_several_bandwidths_equals_single_bandwidths(rng):
    kernel, frequencies, bandwidths = Matern(), rng.normal(size=(7, 3)), [0.1, 1.0, 5.0]
    expected = [kernel.log_embedding(frequencies, [bandwidth])[0] for bandwidth in bandwidths]
    np.testing.assert_array_equal(kernel.log_embedding(frequencies, bandwidths), expected)


@pytest.mark.parametrize("kernel", ISOTROPIC, ids=str)
def test_sparse_rows_far_from_the_origin_keep_their_distances(kernel, rng):
    X = 1e7 + rng.normal(size=(20, 3))
    np.testing.assert_allclose(kernel(sparse.csr_array(X)), kernel(X), atol=1e-8)


POWERS = [(1, 1), (1, 0.5), (1.5, 1), (1.5, 1.5), (1.2, 0.9), (0.5, 0.5), (1.9, 0.4), (2, 1), (2, 0.7), (2, 2)]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(("p", "q"), POWERS)
def test_mean_cosine_of_power_exponential_frequencies_is_the_kernel(p, q, sampler):
    """Mean cosines over independent sets of frequencies are within four standard errors of the kernel."""
    kernel, sampler = PowerExponential(p=p, q=q), SAMPLERS[sampler]()
    if p < 2 and isinstance(sampler, Orthogonal):
        with pytest.raises(ValueError, match="is not isotropic; use sampler='mc'"):
            sampler.check_kernel(kernel)
        return
    rng = np.random.default_rng(0)
    differences = rng.normal(size=(6, 3)) * np.array([0.1, 0.3, 0.5, 1.0, 1.5, 2.0])[:, None]
    rows = np.zeros((1, 3))
    means = np.stack(
        [np.cos(np.asarray(sampler.sample(kernel, 256, rows, rng)) @ differences.T).mean(axis=0) for _ in range(100)]
    )
    errors = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    assert (np.abs(means.mean(axis=0) - kernel.at(differences)) < 4 * errors).all()


@pytest.mark.parametrize(("p", "q"), POWERS)
def test_power_exponential_is_positive_semidefinite(p, q, rng):
    assert np.linalg.eigvalsh(PowerExponential(p=p, q=q)(rng.normal(size=(60, 3)))).min() > -1e-12


def test_power_exponential_in_features(rng):
    X = rng.normal(size=(200, 3))
    for features in (FourierFeatures, LandmarkFeatures):
        error = features(PowerExponential(p=1.5, q=1.0), length_scale=3.0, random_state=0).fit(X).kernel_error(X).error
        assert error < 0.1
    with pytest.raises(ValueError, match=r"`q`=1.5 of PowerExponential exceeds `p`=1; use `q` of at most `p`"):
        FourierFeatures(PowerExponential(p=1.0, q=1.5)).fit(X)
