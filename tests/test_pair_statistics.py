# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from bochner.feature_maps import fourier_map
from bochner.kernels import Gaussian
from bochner.pair_statistics import PairStatistics, pair_statistics, point_statistics


def all_pairs(X, W, kernel):
    """Return cosines (n^2, M) and kernel values (n^2,) of all ordered pairs, computed pair by pair."""
    differences = (X[:, None] - X).reshape(-1, X.shape[1])
    return np.cos(differences @ W.T), kernel.at(differences)


def all_pair_statistics(X, W, kernel):
    cosines, exact = all_pairs(X, W, kernel)
    return PairStatistics.from_pairs(cosines, exact, np.ones(len(exact)))


def clustered(rng, n=200, d=6):
    """Return clusters with a decaying spectrum, for which plain ridge weights become negative."""
    centers = rng.normal(size=(4, d))
    return (centers[rng.integers(4, size=n)] + 0.2 * rng.normal(size=(n, d))) * 0.7 ** np.arange(d)


def assert_equal_statistics(statistics, expected):
    np.testing.assert_allclose(statistics.gram, expected.gram, rtol=1e-11)
    np.testing.assert_allclose(statistics.target, expected.target, rtol=1e-11)
    assert statistics.energy == pytest.approx(expected.energy, rel=1e-11)


def test_statistics_of_points_equal_explicit_pairs(rng):
    X, W, kernel = clustered(rng, n=40), rng.normal(size=(15, 6)), Gaussian()
    features, exact = fourier_map(X, W, np.ones(len(W))), kernel(X)
    forms = np.einsum("ij,ij->j", features, exact @ features)
    statistics = PairStatistics.from_points(40, [features.T @ features], np.append(forms, np.sum(exact**2)))
    assert_equal_statistics(statistics, all_pair_statistics(X, W, kernel))


@pytest.mark.parametrize("n", [2, 7, 300])
def test_statistics_of_weighted_halves_equal_explicit_pairs(rng, n):
    X, W, kernel = clustered(rng, n=n), rng.normal(size=(3, 6)), Gaussian()
    counts = rng.integers(1, 4, size=n)
    found = point_statistics(W, kernel, X, counts.astype(float))
    for statistics, rows in zip(found, (slice(None), slice(0, n // 2), slice(n // 2, n)), strict=True):
        repeated = np.repeat(X[rows], counts[rows], axis=0)
        assert_equal_statistics(statistics, all_pair_statistics(repeated, W, kernel))


def test_statistics_of_a_single_point(rng):
    X, W = rng.normal(size=(1, 6)), rng.normal(size=(3, 6))
    for statistics in point_statistics(W, Gaussian(), X, np.array([5.0])):
        assert_equal_statistics(statistics, all_pair_statistics(X, W, Gaussian()))


def test_uniform_sample_of_all_pairs_equals_explicit_pairs(rng):
    X, W = clustered(rng, n=20), rng.normal(size=(4, 6))
    statistics = pair_statistics(W, Gaussian(), X, 20**2, rng)
    assert_equal_statistics(statistics, all_pair_statistics(X, W, Gaussian()))


def test_risk_is_the_mean_squared_error(rng):
    X, W, weights = clustered(rng, n=30), rng.normal(size=(10, 6)), rng.random(10)
    cosines, exact = all_pairs(X, W, Gaussian())
    statistics, *_ = point_statistics(W, Gaussian(), X, np.ones(30))
    assert statistics.risk(weights) == pytest.approx(np.mean((exact - cosines @ weights) ** 2), rel=1e-9)


def test_row_norm_sampling_is_unbiased(rng):
    X, W, kernel = clustered(rng, n=20), 3 * rng.normal(size=(4, 6)), Gaussian()
    norms = np.linalg.norm(all_pairs(X, W, kernel)[0], axis=1)
    assert norms.std() > 0.1 * norms.mean()
    grams = np.array([pair_statistics(W, kernel, X, 400, rng, by_norm=True).gram for _ in range(300)])
    bias = np.abs(grams.mean(axis=0) - all_pair_statistics(X, W, kernel).gram)
    assert (bias / (grams.std(axis=0) / np.sqrt(300))).max() < 4.5
