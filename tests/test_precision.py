# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons with 50-digit arithmetic: kernels and slopes, spectral distributions, weights, ridge regression."""

import warnings

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.linalg import LinAlgWarning

from bochner import FeatureRegressor, FourierFeatures
from bochner.feature_models.ridge import solve_ridge
from bochner.kernels import Cauchy, Exponential, Gaussian, Laplacian, Matern, RationalQuadratic
from bochner.linalg import nonnegative_ridge
from bochner.weightings import Shrinkage

NUS = [0.05, 0.3, 0.5, 1.01, 1.5, 2.5, 3.7, 9.9, 10.5, 11.2, 40.3, 99.9]  # mpmath is slow at whole numbers
ISOTROPIC = [Gaussian(), Exponential(), *map(RationalQuadratic, [0.1, 1.0, 7.5]), *map(Matern, NUS)]
SQUARED_DISTANCES = [1e-18, 1e-9, 1e-6, 1e-4, 3e-4, 1e-3, 0.01, 0.3, 1.0, 2.7, 9.0, 60.0, 400.0]
UNIFORMS = [1e-12, 1e-6, 0.01, 0.3, 0.5, 0.77, 0.999, 1.0 - 1e-6]


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def exact_profile(kernel, t):
    """Return the kernel as a function of the squared distance."""
    if isinstance(kernel, Gaussian):
        return mp.exp(-t / 2)
    if isinstance(kernel, RationalQuadratic):
        alpha = mpf(kernel.alpha)
        return (1 + t / (2 * alpha)) ** -alpha
    nu = mpf(kernel.nu if type(kernel) is Matern else 0.5)
    r = mp.sqrt(2 * nu * t)
    return 2 ** (1 - nu) / mp.gamma(nu) * r**nu * mp.besselk(nu, r)


@pytest.mark.parametrize("kernel", ISOTROPIC, ids=str)
def test_isotropic_kernels_and_their_slopes(kernel):
    found = kernel.profile(np.array(SQUARED_DISTANCES))
    slopes = kernel.slope(np.array(SQUARED_DISTANCES))
    for t, value, slope in zip(map(mpf, SQUARED_DISTANCES), found, slopes, strict=True):
        exact = exact_profile(kernel, t)
        assert abs(value - exact) < 1e-12 * max(exact, mpf("1e-30")), (float(t), value, float(exact))
        exact_slope = mp.diff(lambda t: exact_profile(kernel, t), t, h=t * mpf("1e-15"), direction=1)
        assert abs(slope - exact_slope) < 1e-9 * max(abs(exact_slope), mpf("1e-30")), (float(t), slope)


@pytest.mark.parametrize("nu", [0.3, 1.0, 1.5, 11.0])
def test_mixing_of_matern_and_rational_quadratic_kernels(nu):
    uniforms = np.array(UNIFORMS)
    scales = {kernel: kernel.mixing(uniforms[:, None]) for kernel in (Matern(nu), RationalQuadratic(nu))}
    for kernel, found in scales.items():
        for u, scale in zip(UNIFORMS, found, strict=True):
            # The squared scale is nu over a gamma variable, or a gamma variable over alpha.
            gamma = mpf(nu) / mpf(scale) ** 2 if isinstance(kernel, Matern) else mpf(nu) * mpf(scale) ** 2
            probability = mp.gammainc(mpf(nu), 0, gamma, regularized=True)
            assert abs(probability - mpf(u)) < 1e-9 * u, (kernel, u)


def test_quantiles_of_spectral_distributions():
    uniforms = np.array(UNIFORMS)
    distributions = {
        Gaussian: lambda w: mp.ncdf(w),
        Laplacian: lambda w: mp.atan2(1, -w) / mp.pi,  # Cauchy, without cancellation in the lower tail
        Cauchy: lambda w: mp.exp(w) / 2 if w < 0 else 1 - mp.exp(-w) / 2,  # Laplace
    }
    for kind, distribution in distributions.items():
        for u, frequency in zip(UNIFORMS, kind().frequencies(uniforms[:, None])[:, 0], strict=True):
            probability = distribution(mpf(float(frequency)))
            assert abs(probability - mpf(u)) < 1e-12 * min(u, 1.0 - u) + 1e-15 * u, (kind, u)


@pytest.mark.parametrize(
    ("kernel", "density"),
    [
        (Gaussian(), lambda w: mp.npdf(w)),
        (Laplacian(), lambda w: 1 / (mp.pi * (1 + w * w))),
        (Cauchy(), lambda w: mp.exp(-abs(w)) / 2),
    ],
    ids=["gaussian", "laplacian", "cauchy"],
)
@pytest.mark.parametrize("bandwidth", [0.05, 1.0, 4.0])
def test_embeddings_of_bayesian_quadrature_equal_integrals(kernel, density, bandwidth):
    frequencies = np.array([[0.0], [-0.7], [5.0]])
    with mp.workdps(20):
        found = kernel.log_embedding(frequencies, [bandwidth])[0]
        for w, value in zip(frequencies[:, 0].tolist(), found.tolist(), strict=True):
            breaks = sorted({w + bandwidth * step for step in (-30, -6, -2, 0, 2, 6, 30)} | {0.0})
            integral = mp.quad(lambda v, w=w: mp.exp(-((v - w) ** 2) / (2 * mpf(bandwidth) ** 2)) * density(v), breaks)
            assert abs(value - mp.log(integral)) < 1e-10


def test_shrinkage_equals_the_closed_form(rng):
    X = rng.normal(size=(12, 2))
    found = Shrinkage().weigh(rng.normal(size=(5, 2)), Gaussian(), X, rng)
    squares = [[sum((mpf(a) - mpf(b)) ** 2 for a, b in zip(x, y, strict=True)) for y in X.tolist()] for x in X.tolist()]
    pairs = [t for row in squares for t in row]
    energy = sum(mp.exp(-t) for t in pairs) / len(pairs)
    variance = (sum((1 + mp.exp(-2 * t)) / 2 for t in pairs) / len(pairs) - energy) / 5
    np.testing.assert_allclose(found, float(energy / (variance + energy) / 5), rtol=1e-13)


@pytest.mark.parametrize("decay", [1.0, 3.0])  # condition numbers 1e5 and 1e15
def test_nonnegative_ridge_satisfies_the_optimality_conditions(rng, decay):
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    gram = (basis * 10.0 ** (-decay * np.arange(6))) @ basis.T
    gram, target, ridge = (gram + gram.T) / 2, rng.normal(size=6), 1e-9
    found = nonnegative_ridge(gram, target, ridge)
    assert found.min() >= 0.0
    positive = found > 0.0
    system = mp.matrix(gram[np.ix_(positive, positive)].tolist()) + mpf(ridge) * mp.eye(int(positive.sum()))
    exact = mp.lu_solve(system, mp.matrix(target[positive].tolist()))
    np.testing.assert_allclose(found[positive], [float(value) for value in exact], rtol=1e-5)
    gradient = gram @ found + ridge * found - target
    assert gradient[~positive].min(initial=0.0) > -1e-6


def exact_ridge(Z, y, weights, penalty):
    """Return predictions of ridge regression on the rows themselves, with 50 digits."""
    Z, y, weights = (mp.matrix(array.tolist()) for array in (Z, y, weights))
    total = sum(weights)
    mean = [sum(weights[i] * Z[i, j] for i in range(Z.rows)) / total for j in range(Z.cols)]
    y_mean = sum(weights[i] * y[i] for i in range(Z.rows)) / total
    centered = mp.matrix(Z.rows, Z.cols)
    for i in range(Z.rows):
        for j in range(Z.cols):
            centered[i, j] = Z[i, j] - mean[j]
    weighted = mp.diag(list(weights)) * centered
    gram = centered.T * weighted + mpf(penalty) * mp.eye(Z.cols)
    coef = mp.lu_solve(gram, weighted.T * (y - y_mean * mp.ones(Z.rows, 1)))
    return np.array([float(value) for value in centered * coef + y_mean * mp.ones(Z.rows, 1)])


@pytest.mark.parametrize("largest_weight", [1.0, 1e6, 1e13])
@pytest.mark.parametrize("alpha", [1e-8, 1e-3])
def test_ridge_on_dependent_features_and_with_a_weight_above_all_others(rng, alpha, largest_weight):
    """A long length scale gives features whose Gram matrix is singular to rounding."""
    X = rng.normal(size=(20, 2))
    y, weights = np.sin(X[:, 0]), np.ones(20)
    weights[3] = largest_weight
    model = FeatureRegressor(
        FourierFeatures(length_scale=20.0, n_frequencies=4, random_state=0), alphas=[alpha], cv=None
    )
    model.fit(X, y, sample_weight=weights)
    expected = exact_ridge(model.features_.transform(X), y, weights, alpha * weights.sum())
    np.testing.assert_allclose(model.predict(X), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("largest_weight", [1e12, 1e13, 1e14])
@pytest.mark.parametrize(("length_scale", "cv"), [(2.0, 5), (2.0, None), (50.0, 5), (50.0, None)])
def test_weight_above_all_others_with_a_negligible_penalty(rng, length_scale, cv, largest_weight):
    """The penalty is raised to the rounding errors of the moments, and the dominating row is still predicted."""
    X = rng.normal(size=(100, 3))
    y, weights = np.sin(X[:, 0]), np.ones(100)
    weights[3] = largest_weight
    features = FourierFeatures(length_scale=length_scale, n_frequencies=64, random_state=0)
    model = FeatureRegressor(features, alphas=[1e-20], cv=cv)
    with warnings.catch_warnings():
        # Only where digits are lost: with a long length scale.
        warnings.simplefilter("ignore" if length_scale == 50.0 else "error", LinAlgWarning)
        model.fit(X, y, sample_weight=weights)
    assert np.isfinite(model.coef_).all()
    assert model.predict(X[3:4]) == pytest.approx(y[3], abs=1e-5)


def test_penalty_below_rounding_errors_gets_a_warning_that_names_the_remedy():
    rows = np.ones((3, 4)) * [1.0, 1.0, 1.0, 2.0]  # two equal features, the one and a target
    moments = rows.T @ rows
    moments[0, 0] -= 1e-13  # rounding that makes the matrix indefinite
    with pytest.warns(
        LinAlgWarning, match=r"penalty was raised from 0 to \S+, and predictions lose digits; give `alphas`"
    ):
        coef, _, _ = solve_ridge(moments, 1, 0.0)
    assert np.isfinite(coef).all()
    with pytest.raises(ValueError, match=r"not finite, or not positive definite .* give larger `alphas`"):
        solve_ridge(np.full((4, 4), np.nan), 1, 1.0)


def test_ridge_solution_of_a_hilbert_matrix():
    """Rows whose features have a condition number of 1e10, against 50 digits."""
    Z = np.array([[1.0 / (i + j + 1) for j in range(6)] for i in range(12)])
    y = np.linspace(-1.0, 2.0, 12) ** 2
    rows = np.column_stack([Z, np.ones(12), y])
    coef, intercept, _ = solve_ridge(rows.T @ rows, 1, 1e-7)
    expected = exact_ridge(Z, y, np.ones(12), 1e-7)
    np.testing.assert_allclose((Z @ coef + intercept)[:, 0], expected, rtol=0, atol=1e-6)
