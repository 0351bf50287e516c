# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from scipy import integrate, sparse
from scipy.optimize import nnls

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures
from bochner.feature_maps import fourier_map
from bochner.kernels import KERNELS, Gaussian
from bochner.rows import LengthScales, TrainingRows
from bochner.samplers import SAMPLERS
from bochner.scaling import LearnedLengthScales
from bochner.weightings import (
    PAPER_GRID,
    WEIGHTINGS,
    PairStatistics,
    Quadrature,
    Shrinkage,
    Stein,
    Uniform,
    pair_statistics,
    point_statistics,
)
from tests.conftest import COMBINATIONS, TargetPower


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


@pytest.mark.parametrize(("kernel", "sampler", "weighting"), COMBINATIONS)
def test_weights_are_finite_nonnegative_and_repeatable(kernel, sampler, weighting, rng):
    X, kernel = (
        TrainingRows(clustered(rng), None, LengthScales(1.0), targets=rng.normal(size=(200, 2))),
        KERNELS[kernel](),
    )
    W = SAMPLERS[sampler]().sample(kernel, 40, X, rng)
    once, again = (WEIGHTINGS[weighting]().weigh(W, kernel, X, np.random.default_rng(1)) for _ in range(2))
    assert once.shape == (40,)
    assert np.isfinite(once).all()
    assert (once >= 0).all()
    np.testing.assert_array_equal(once, again)


class TestShrinkage:
    def test_equals_simulated_optimum(self, rng):
        """The reference is the best (1 - alpha) for independent frequencies, by regression over many draws."""
        X, kernel, n_frequencies = clustered(rng, n=30) * 3, Gaussian(), 4
        exact = kernel(X)
        products = squares = 0.0
        for seed in range(4000):
            W = SAMPLERS["mc"]().sample(kernel, n_frequencies, X, np.random.default_rng(seed))
            features = fourier_map(X, W, np.full(n_frequencies, 1 / n_frequencies))
            approximate = features @ features.T
            products += np.sum(exact * approximate)
            squares += np.sum(approximate**2)
        weights = Shrinkage().weigh(np.zeros((n_frequencies, 6)), kernel, X, rng)
        assert n_frequencies * weights[0] == pytest.approx(products / squares, rel=0.01)
        assert n_frequencies * weights[0] < 0.9
        assert np.ptp(weights) == 0.0

    @pytest.mark.parametrize("name", KERNELS)
    def test_variance_of_the_cosine_equals_closed_form(self, name, rng):
        kernel, delta = KERNELS[name](), np.array([[0.7, -0.3]])
        W = SAMPLERS["mc"]().sample(kernel, 200_000, np.zeros((1, 2)), rng)
        closed_form = (1 + kernel.at(2 * delta)) / 2 - kernel.at(delta) ** 2
        assert np.var(np.cos(W @ delta[0])) == pytest.approx(closed_form[0], rel=0.02)

    def test_many_frequencies_give_uniform_weights(self, rng):
        weights = Shrinkage().weigh(np.zeros((10_000, 6)), Gaussian(), clustered(rng), rng)
        assert 10_000 * weights[0] == pytest.approx(1.0, rel=1e-3)


class TestQuadrature:
    @pytest.mark.parametrize("n_features", [1, 2])
    def test_equals_weights_of_integrated_embedding(self, n_features, rng):
        """The reference is K^-1 gamma with gamma integrated numerically, in a case without negative weights."""
        W, bandwidth = np.linspace(-2, 2, 5)[:, None].repeat(n_features, axis=1), 1.1
        if n_features == 2:
            W[:, 1] = [0.9, -1.1, 0.1, 1.2, -0.8]

        def embedding(w):
            def integrand(*x):
                x = np.array(x)
                prior = np.exp(-x @ x / 2) / (2 * np.pi) ** (n_features / 2)
                return prior * np.exp(-np.sum((x - w) ** 2) / (2 * bandwidth**2))

            return integrate.nquad(integrand, [(-9, 9)] * n_features)[0]

        squared = np.sum((W[:, None] - W) ** 2, axis=-1)
        expected = np.linalg.solve(np.exp(-squared / (2 * bandwidth**2)), [embedding(w) for w in W])
        assert (expected > 0).all()
        unit = np.sqrt(np.median(squared[squared > 0]))
        weights = Quadrature(bandwidths=[bandwidth / unit]).weigh(W, Gaussian(), rng.normal(size=(9, n_features)), rng)
        np.testing.assert_allclose(weights, expected, rtol=1e-6)

    def test_minimizes_posterior_variance_over_nonnegative_weights(self, rng):
        W, kernel = rng.normal(size=(60, 3)), Gaussian()
        squared = np.sum((W[:, None] - W) ** 2, axis=-1)
        unit = np.sqrt(np.median(squared[squared > 0]))
        covariance, embedding = np.exp(-squared / (2 * unit**2)), np.exp(kernel.log_embedding(W, [unit])[0])
        assert (np.linalg.solve(covariance, embedding) < 0).any()
        weights = Quadrature(bandwidths=[1.0]).weigh(W, kernel, rng.normal(size=(20, 3)), rng)
        gradient = covariance @ weights - embedding
        assert (weights >= 0).all()
        assert gradient.min() > -1e-7
        assert np.abs(weights * gradient).max() < 1e-8

    def test_integrates_smooth_functions_better_than_uniform_weights(self, rng):
        W = rng.normal(size=(40, 2))
        weights = Quadrature(bandwidths=[1.0]).weigh(W, Gaussian(), rng.normal(size=(50, 2)), rng)
        delta = np.array([0.6, -0.4])
        exact = Gaussian().at(delta[None])[0]
        assert abs(weights @ np.cos(W @ delta) - exact) < 0.1 * abs(np.cos(W @ delta).mean() - exact)

    def test_selection_by_pairs_minimizes_the_error_on_pairs(self, rng):
        X, W, kernel = clustered(rng), rng.normal(size=(30, 6)), Gaussian()
        statistics = all_pair_statistics(X, W, kernel)
        risks = [statistics.risk(Quadrature([b]).weigh(W, kernel, X, rng)) for b in PAPER_GRID]
        chosen = Quadrature(n_pairs=200**2).weigh(W, kernel, X, rng)
        assert statistics.risk(chosen) == pytest.approx(min(risks), rel=1e-9)

    def test_duplicate_frequencies_have_finite_weights(self, rng):
        W = rng.normal(size=(5, 3)).repeat(8, axis=0)
        weights = Quadrature().weigh(W, Gaussian(), clustered(rng, d=3), rng)
        assert np.isfinite(weights).all()
        assert weights.sum() > 0.5

    @pytest.mark.parametrize("bandwidths", [[], [0.0], [-1.0], [np.nan], [[1.0]]])
    def test_invalid_bandwidths_are_rejected(self, bandwidths, rng):
        with pytest.raises(ValueError, match="`bandwidths` must be a non-empty sequence of positive numbers"):
            Quadrature(bandwidths).weigh(np.ones((2, 2)), Gaussian(), np.ones((3, 2)), rng)


class TestStein:
    def test_single_alpha_solves_the_ridge_problem_over_all_pairs(self, rng):
        X, W, kernel, alpha = clustered(rng, n=50), rng.normal(size=(20, 6)), Gaussian(), 3.0
        cosines, exact = all_pairs(X, W, kernel)
        rows = np.vstack([cosines / 50, np.sqrt(alpha / (4 * 20)) * np.eye(20)])
        expected = nnls(rows, np.append(exact / 50, np.zeros(20)))[0]
        np.testing.assert_allclose(Stein(alphas=[alpha]).weigh(W, kernel, X, rng), expected, atol=1e-8)

    @pytest.mark.parametrize("sampler", ["mc", "orthogonal"])
    def test_sketch_of_all_pairs_equals_sketch_of_points(self, sampler, rng):
        X, kernel = clustered(rng, n=60), Gaussian()
        W = SAMPLERS[sampler]().sample(kernel, 30, X, rng)
        points = Stein(alphas=[0.5]).weigh(W, kernel, X, rng)
        pairs = Stein(sketch="pairs", n_pairs=60**2, alphas=[0.5]).weigh(W, kernel, X, rng)
        np.testing.assert_allclose(pairs, points, rtol=1e-6, atol=1e-10)

    @pytest.mark.parametrize("sampling", ["uniform", "row-norm"])
    def test_sketch_of_many_pairs_approaches_sketch_of_points(self, sampling, rng):
        X, W, kernel = clustered(rng, n=150), rng.normal(size=(8, 6)), Gaussian()
        points = Stein(alphas=[0.1]).weigh(W, kernel, X, rng)

        def distance(n_pairs):
            part = Stein(sketch="pairs", n_pairs=n_pairs, sampling=sampling, alphas=[0.1])
            return np.mean([np.linalg.norm(part.weigh(W, kernel, X, rng) - points) for _ in range(10)])

        few, many = distance(200), distance(20_000)
        assert many < 0.25 * few
        assert many < 0.05 * np.linalg.norm(points)

    def test_weights_are_nonnegative_where_ridge_weights_are_negative(self, rng):
        X, kernel = clustered(rng, n=300), Gaussian()
        W = SAMPLERS["mc"]().sample(kernel, 128, X, rng)
        cosines, exact = all_pairs(X[:80], W, kernel)
        plain = np.linalg.solve(cosines.T @ cosines + 1e-3 * np.eye(128), cosines.T @ exact)
        assert (plain < 0).mean() > 0.04
        for sketch in ("points", "pairs"):
            assert (Stein(sketch=sketch).weigh(W, kernel, X, rng) >= 0).all()

    @pytest.mark.parametrize("sketch", ["points", "pairs"])
    @pytest.mark.parametrize("n", [4, 10, 50, 300])
    def test_error_on_new_rows_is_below_uniform_weights(self, sketch, n):
        """The error is averaged over draws. With few rows, the shrinkage factor keeps the weights near uniform."""
        ratios = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            X, kernel = clustered(rng, n=n + 300), Gaussian()
            train, test = X[:n], X[n:]
            W = SAMPLERS["orthogonal"]().sample(kernel, 48, X, rng)
            validation, *_ = point_statistics(W, kernel, test, np.ones(300))
            weights = Stein(sketch=sketch).weigh(W, kernel, train, rng)
            ratios.append(np.sqrt(validation.risk(weights) / validation.risk(np.full(48, 1 / 48))))
        assert np.mean(ratios) < (1.1 if n < 10 else 0.95)

    def test_more_rows_move_the_weights_further_from_uniform(self, rng):
        kernel, W = Gaussian(), SAMPLERS["mc"]().sample(Gaussian(), 64, np.zeros((1, 6)), rng)
        spreads = [np.std(64 * Stein().weigh(W, kernel, clustered(rng, n=n), rng)) for n in (6, 2000)]
        assert spreads[1] > 2 * spreads[0]

    def test_sparse_equals_dense(self, rng):
        X = sparse.random_array((100, 6), density=0.5, rng=rng, format="csr")
        W = rng.normal(size=(10, 6))
        for part in (Stein(), Stein(sketch="pairs"), Stein(sketch="pairs", sampling="row-norm"), Quadrature()):
            dense, from_csr = (part.weigh(W, Gaussian(), data, np.random.default_rng(0)) for data in (X.toarray(), X))
            np.testing.assert_allclose(from_csr, dense, rtol=1e-5, atol=1e-9)

    @pytest.mark.parametrize("part", [Stein(), Stein(sketch="pairs"), Shrinkage(), Quadrature(), Uniform()], ids=str)
    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_few_equal_rows(self, part, n, rng):
        weights = part.weigh(rng.normal(size=(9, 2)), Gaussian(), np.ones((n, 2)), rng)
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()

    @pytest.mark.parametrize("alphas", [[], [-1.0], [np.inf]])
    def test_invalid_alphas_are_rejected(self, alphas, rng):
        with pytest.raises(ValueError, match="`alphas` must be a non-empty sequence of non-negative numbers"):
            Stein(alphas=alphas).weigh(np.ones((2, 2)), Gaussian(), np.ones((3, 2)), rng)


def fitted_to_targets(**parameters):
    return FourierFeatures(weighting=TargetPower(), n_frequencies=20, random_state=0, **parameters)


class TestWeightingsThatNeedTargets:
    """What a user's own weighting with `needs_targets = True` gets."""

    def test_class_labels_are_coded_as_for_learned_length_scales(self, rng):
        X = rng.normal(size=(90, 3))
        labels = np.digitize(X[:, 0], [-0.5, 0.5])
        expected = fitted_to_targets().fit(X, 2.0 * np.eye(3)[labels] - 1.0).weights_
        for y in (labels, np.array(["a", "b", "c"])[labels]):
            np.testing.assert_allclose(fitted_to_targets().fit(X, y).weights_, expected, rtol=1e-9)

    @pytest.mark.parametrize("per_column", [False, True])
    def test_sample_weights_equal_repeated_rows(self, per_column, rng):
        X, y, counts = rng.normal(size=(80, 3)), rng.normal(size=80), rng.integers(0, 3, size=80)
        X[:20] = X[20:40]  # equal rows with different targets
        features = fitted_to_targets(length_scale=[1.0, 2.0, 3.0] if per_column else "median")
        weighted = features.fit(X, y, sample_weight=counts).weights_
        repeated = features.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)).weights_
        np.testing.assert_allclose(weighted, repeated, rtol=1e-9, atol=1e-15)

    def test_sparse_equals_dense(self, rng):
        X, y = sparse.random_array((300, 6), density=0.5, rng=rng, format="csr"), rng.normal(size=300)
        found, expected = (fitted_to_targets().fit(rows, y).weights_ for rows in (X, X.toarray()))
        np.testing.assert_allclose(found, expected, rtol=1e-9)

    def test_learned_length_scales_and_weights_use_the_same_targets(self, rng):
        X = rng.normal(size=(200, 3))
        y = np.sin(2 * X[:, 0])
        learned = fitted_to_targets(length_scale=LearnedLengthScales(n_iterations=5)).fit(X, y)
        assert learned.learning_gain_ > 0.0
        given = fitted_to_targets(length_scale=learned.length_scale_).fit(X, y)
        np.testing.assert_array_equal(learned.weights_, given.weights_)

    @pytest.mark.parametrize(
        "model", [FeatureRegressor(), FeatureClassifier(loss="squared_error"), FeatureClassifier()]
    )
    def test_linear_models_give_their_targets_to_every_candidate(self, model, rng):
        X = rng.normal(size=(90, 3))
        y = np.digitize(X[:, 0], [-0.5, 0.5])
        coded = y[:, None] if isinstance(model, FeatureRegressor) else 2.0 * np.eye(3)[y] - 1.0
        model = model.set_params(features=fitted_to_targets(), length_scale_factors=[0.5, 2.0], random_state=0)
        features = model.fit(X, y).features_
        expected = fitted_to_targets(length_scale=features.length_scale_).fit(X, coded)
        np.testing.assert_allclose(features.weights_, expected.weights_, rtol=1e-9)

    def test_missing_y_is_rejected(self, rng):
        X = rng.normal(size=(30, 2))
        with pytest.raises(ValueError, match=r"`weighting`=TargetPower\(\) requires y .*; give y, or a weighting"):
            fitted_to_targets().fit(X)
        with pytest.raises(ValueError, match=r"`weighting`=TargetPower\(\) requires y"):
            FeatureRegressor(fitted_to_targets()).fit_features(X)
        with pytest.raises(ValueError, match=r"`length_scale`='learn' requires y"):
            fitted_to_targets(length_scale="learn").fit(X)

    @pytest.mark.parametrize("options", [{"refine": 3}, {"n_frequencies": "auto"}])
    def test_options_that_fit_the_kernel_are_rejected(self, options, rng):
        X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
        with pytest.raises(ValueError, match=r"needs weights that approximate the kernel.*; use refine=0 and a number"):
            fitted_to_targets().set_params(**options).fit(X, y)

    def test_suggestions_are_rejected(self, rng):
        with pytest.raises(ValueError, match="needs weights that approximate the kernel"):
            fitted_to_targets().suggest(rng.normal(size=(30, 2)), y=rng.normal(size=30))


def test_equal_rows_are_merged():
    features = FourierFeatures(n_frequencies=16, random_state=0).fit(np.ones((200, 2)))
    assert features.weights_.sum() == pytest.approx(1.0, rel=1e-2)
    assert features.kernel_error(np.ones((200, 2)), random_state=0).error < 0.01


@pytest.mark.parametrize("weighting", ["stein", TargetPower()])
def test_rows_of_vanishing_sample_weights_change_nothing(weighting, rng):
    """Squares of sums over such rows alone would underflow."""
    X = rng.normal(size=(60, 2))
    features = FourierFeatures(weighting=weighting, length_scale=1.0, n_frequencies=8, random_state=0)
    weights = [np.r_[np.ones(30), np.full(30, share)] for share in (1e-300, 1e-40)]
    one, other = (features.fit(X, X[:, 0], sample_weight=sample_weight).weights_ for sample_weight in weights)
    assert np.isfinite(one).all()
    np.testing.assert_allclose(one, other, rtol=1e-9)


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
