# SPDX-License-Identifier: BSD-3-Clause
"""`LandmarkFeatures`: approximation, options, sizes, kernels that are functions or matrices, and bad input."""

import pickle
import tracemalloc
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import chi2_kernel, linear_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from bochner import FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.features import landmark_features
from bochner.kernels import KERNELS, Gaussian, IsotropicKernel, Matern
from bochner.landmarks import LANDMARKS, KMeans, LandmarkSelection, Pivoted
from bochner.scaling import LearnedLengthScales
from tests.features.test_fourier_features import DEGENERATE, check_finite, held_out_error, relative_error

GAMMA = 0.5 / 8.0**2  # of the length scale 8, about the median distance of digits


def common_letters(words, others):
    """Return the number of letters that two words share, a positive semidefinite kernel."""
    return [[len(set(word) & set(other)) for other in others] for word in words]


def matching_letters(pairs, others):
    """Return the kernel of rows of two words."""
    return sum(np.array(common_letters(pairs[:, column], others[:, column])) for column in range(2))


@pytest.fixture
def halves(digits):
    return digits[::2], digits[1::2]


class Given(LandmarkSelection):
    """Given landmarks, divided by the length scale."""

    def __init__(self, rows, length_scale=1.0):
        self.rows = rows
        self.length_scale = length_scale

    def select(self, kernel, n_landmarks, X, rng):
        return self.rows / self.length_scale


class TestApproximation:
    @pytest.mark.parametrize("landmarks", LANDMARKS)
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_kernel_is_exact_with_all_rows_as_landmarks(self, rng, kernel, landmarks):
        X = rng.normal(size=(150, 5))
        features = LandmarkFeatures(kernel, landmarks=landmarks, n_landmarks=150, random_state=0).fit(X)
        assert features.transform(X).shape == (150, 150)
        np.testing.assert_allclose(features.approximate_kernel(X), features.exact_kernel(X), atol=1e-7)

    @pytest.mark.parametrize("n_landmarks", [16, 64])
    def test_not_worse_than_nystroem_on_the_same_landmarks(self, halves, n_landmarks):
        """The fitted whitening is better on held-out rows than the plain one."""
        rows, held_out = halves
        for seed in range(3):
            nystroem = Nystroem(gamma=GAMMA, n_components=n_landmarks, random_state=seed).fit(rows)
            features = LandmarkFeatures(length_scale=8.0, landmarks=Given(nystroem.components_, 8.0), refine=0)
            error = held_out_error(features.set_params(n_landmarks=n_landmarks, random_state=0), rows, held_out)
            np.testing.assert_allclose(features.landmarks_, nystroem.components_, rtol=1e-12)
            plain, exact = nystroem.transform(held_out), rbf_kernel(held_out, gamma=GAMMA)
            assert error < 0.95 * np.linalg.norm(exact - plain @ plain.T) / np.linalg.norm(exact)

    def test_plain_whitening_where_no_rows_can_be_held_out(self):
        """With a single row the kernel is that of Nystroem, k(x, l) k(l, y) / k(l, l)."""
        row, others = np.array([[1.0, 2.0]]), np.random.default_rng(0).normal(size=(6, 2))
        features = LandmarkFeatures(length_scale=2.0).fit(row)
        column = features.exact_kernel(others, row)
        np.testing.assert_allclose(features.approximate_kernel(others), column @ column.T, rtol=1e-10)

    @pytest.mark.parametrize("landmarks", LANDMARKS)
    def test_error_falls_with_the_number_of_landmarks(self, halves, landmarks):
        errors = [
            held_out_error(LandmarkFeatures(n_landmarks=n, landmarks=landmarks, random_state=0), *halves)
            for n in (8, 32, 128)
        ]
        assert errors[1] < 0.7 * errors[0]
        assert errors[2] < 0.6 * errors[1]

    def test_components_are_the_best_columns_of_many_landmarks(self, halves):
        """Few columns of many landmarks: between as few landmarks and all columns, and an error for too many."""
        build = partial(LandmarkFeatures, refine=0, random_state=0)
        few, best = build(n_landmarks=32), build(n_landmarks=128, n_components=32)
        errors = [held_out_error(features, *halves) for features in (few, best, build(n_landmarks=128))]
        assert errors[2] < errors[1] < 0.9 * errors[0]
        assert best.whitening_.shape == (128, 32)
        with pytest.raises(ValueError, match="`n_components`=9 is more than n_landmarks=8; give fewer components"):
            build(n_landmarks=8, n_components=9).fit(halves[0])

    @pytest.mark.parametrize("landmarks", LANDMARKS)
    def test_refinement_lowers_the_error(self, halves, landmarks):
        build = partial(LandmarkFeatures, landmarks=landmarks, n_landmarks=32, random_state=0)
        selected, refined = (held_out_error(build(refine=n_steps), *halves) for n_steps in (0, 100))
        assert refined < 0.85 * selected

    @pytest.mark.parametrize(
        ("kernel", "scale"),
        [
            *((kernel, "median") for kernel, kind in KERNELS.items() if issubclass(kind, IsotropicKernel)),
            *(("gaussian", scale) for scale in ("one per column", "learn", "learn-matrix")),
        ],
    )
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_refinement_of_every_isotropic_kernel_and_scaling(self, kernel, scale, dtype):
        X, y = load_digits(return_X_y=True)
        X, weights = X.astype(dtype), np.random.default_rng(0).integers(1, 4, size=400)
        length_scale = np.linspace(40.0, 60.0, 64) if scale == "one per column" else scale
        selected, refined = (
            LandmarkFeatures(kernel, length_scale=length_scale, n_landmarks=16, refine=n_steps, random_state=0).fit(
                X[:400], y[:400], sample_weight=weights
            )
            for n_steps in (0, 60)
        )
        np.testing.assert_array_equal(refined.length_scale_, selected.length_scale_)
        assert refined.landmarks_.dtype == dtype
        errors = [features.kernel_error(X[400:800], random_state=0).error for features in (selected, refined)]
        assert errors[1] < errors[0]

    @pytest.mark.parametrize("shift", [0.0, 30.0])
    def test_steps_that_do_not_pay_change_nothing(self, halves, monkeypatch, shift):
        """Where the error is zero, and where steps lead away from the rows."""
        rows, n_landmarks = (halves[0], 32) if shift else (halves[0][:32], 32)

        def lead_away(landmarks, *_):
            return landmarks + shift

        monkeypatch.setattr(landmark_features, "refine_landmarks", lead_away)
        selected, refined = (
            LandmarkFeatures(n_landmarks=n_landmarks, refine=n_steps, random_state=0).fit(rows) for n_steps in (0, 60)
        )
        np.testing.assert_array_equal(refined.landmarks_, selected.landmarks_)
        np.testing.assert_array_equal(refined.whitening_, selected.whitening_)

    def test_refinement_keeps_rare_rows(self, rng):
        """Each of 40 far clusters has one row in 200, which few batches of a step contain."""
        build = partial(LandmarkFeatures, length_scale=8.0, n_landmarks=64)
        centers = 8.0 * rng.normal(size=(40, 20))
        X = rng.normal(size=(8000, 20))
        rare = rng.random(8000) < 0.2
        X[rare] += centers[rng.integers(40, size=rare.sum())]
        selected, refined = (
            held_out_error(build(refine=n_steps, random_state=0), X[:6000], X[6000:]) for n_steps in (0, "auto")
        )
        assert refined <= 1.02 * selected

    @pytest.mark.parametrize("weights", [None, "weights"])
    def test_dask_collection_equals_memory(self, digits, weights):
        da = pytest.importorskip("dask.array")
        weights = None if weights is None else np.random.default_rng(0).integers(1, 4, size=900)
        features = LandmarkFeatures(n_landmarks=32, random_state=0)
        expected = clone(features).fit(digits[:900], sample_weight=weights)
        chunks = None if weights is None else da.from_array(weights, chunks=300)
        features.fit(da.from_array(digits[:900], chunks=(300, 64)), sample_weight=chunks)
        np.testing.assert_allclose(features.landmarks_, expected.landmarks_, rtol=1e-10)
        np.testing.assert_allclose(features.approximate_kernel(digits[:50]), expected.approximate_kernel(digits[:50]))
        assert (clone(features).set_params(refine=0).fit(digits[:900]).landmarks_ != expected.landmarks_).any()

    def test_beats_fourier_features_at_equal_width(self, halves):
        fourier = held_out_error(FourierFeatures(n_frequencies=32, random_state=0), *halves)
        assert held_out_error(LandmarkFeatures(n_landmarks=64, random_state=0), *halves) < 0.5 * fourier

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_positive_semidefinite_in_both_precisions(self, digits, dtype):
        X = digits[:300].astype(dtype)
        features = LandmarkFeatures(n_landmarks=60, random_state=0).fit(X)
        approximate = features.approximate_kernel(X)
        assert approximate.dtype == dtype
        values = np.linalg.eigvalsh(approximate.astype(float))
        assert values.min() > -10 * np.finfo(dtype).eps * values.max()

    @pytest.mark.parametrize("landmarks", LANDMARKS)
    @pytest.mark.parametrize("kernel", ["gaussian", "exponential", "laplacian"])
    def test_float32_stays_float32_and_close_to_float64(self, digits, kernel, landmarks):
        X = digits[:300]
        wide, narrow = (
            LandmarkFeatures(kernel, landmarks=landmarks, n_landmarks=40, random_state=0).fit(X.astype(dtype))
            for dtype in (np.float64, np.float32)
        )
        found = narrow.transform(X.astype(np.float32))
        assert found.dtype == narrow.landmarks_.dtype == narrow.whitening_.dtype == np.float32
        assert narrow.exact_kernel(X).dtype == np.float32
        np.testing.assert_allclose(narrow.approximate_kernel(X), wide.approximate_kernel(X), atol=2e-4)
        np.testing.assert_allclose(narrow.exact_kernel(X), wide.exact_kernel(X), atol=1e-6)

    @pytest.mark.parametrize("landmarks", LANDMARKS)
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_sparse_equals_dense(self, rng, kernel, landmarks):
        X = sparse.random_array((200, 30), density=0.1, rng=rng, format="csr")
        dense, from_csr = (
            LandmarkFeatures(kernel, landmarks=landmarks, n_landmarks=20, random_state=0).fit(data)
            for data in (X.toarray(), X)
        )
        np.testing.assert_allclose(from_csr.landmarks_, dense.landmarks_, atol=1e-10)
        np.testing.assert_allclose(from_csr.approximate_kernel(X), dense.approximate_kernel(X.toarray()), atol=1e-6)
        np.testing.assert_allclose(from_csr.exact_kernel(X), dense.exact_kernel(X.toarray()), atol=1e-6)

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_length_scale_per_column_equals_rescaled_columns(self, rng, kernel):
        X, scales = rng.normal(size=(60, 3)), np.array([0.5, 2.0, 10.0])
        build = partial(LandmarkFeatures, kernel, n_landmarks=16, random_state=0)
        ard, scaled = build(length_scale=scales).fit(X), build(length_scale=1.0).fit(X / scales)
        np.testing.assert_allclose(ard.approximate_kernel(X), scaled.approximate_kernel(X / scales), atol=1e-8)
        np.testing.assert_allclose(ard.landmarks_, scaled.landmarks_ * scales, rtol=1e-10)
        np.testing.assert_allclose(ard.relevance_, (1 / scales) / (1 / scales).sum())

    @pytest.mark.parametrize("length_scale", ["median", "scale", 2.0])
    def test_units_and_offsets_of_the_data_do_not_matter(self, rng, length_scale):
        X = rng.normal(size=(50, 3))
        other = 2.0e6 if length_scale == 2.0 else length_scale
        small = LandmarkFeatures(length_scale=length_scale, n_landmarks=16, random_state=0).fit(X)
        large = LandmarkFeatures(length_scale=other, n_landmarks=16, random_state=0).fit(1e6 * X)
        np.testing.assert_allclose(large.approximate_kernel(1e6 * X), small.approximate_kernel(X), atol=1e-8)
        shifted = clone(small).set_params(length_scale=small.length_scale_).fit(X + 1e4)
        assert relative_error(shifted, X + 1e4) == pytest.approx(relative_error(small, X), rel=0.5)


def test_columns_are_kernel_values_times_the_whitening(digits):
    features = LandmarkFeatures("matern", n_landmarks=40, random_state=0).fit(digits[:300])
    columns = features.exact_kernel(digits[300:], features.landmarks_)
    np.testing.assert_allclose(features.transform(digits[300:]), columns @ features.whitening_, atol=1e-10)
    assert features.get_feature_names_out().tolist() == [f"landmarkfeatures{i}" for i in range(40)]


def test_transform_writes_into_out(digits):
    features = LandmarkFeatures(n_landmarks=16, random_state=0).fit(digits[:300])
    out = np.empty((len(digits), 16))
    assert features.transform(digits, out=out) is out
    np.testing.assert_array_equal(out, features.transform(digits))
    with pytest.raises(ValueError, match="`out` must be"):
        features.transform(digits, out=out[:5])


def test_transform_holds_kernel_values_of_blocks_only(rng):
    X = rng.normal(size=(20_000, 4))
    features = LandmarkFeatures(n_landmarks=512, landmarks="uniform", refine=0, random_state=0).fit(X[:600])
    features.transform(X[:10])
    tracemalloc.start()
    out = features.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < out.nbytes + 16 * 2**20


@pytest.mark.parametrize("landmarks", LANDMARKS)
@pytest.mark.parametrize("length_scale", [1.0, "median", [1.0, 2.0]], ids=str)
def test_weight_is_a_number_of_copies(rng, landmarks, length_scale):
    X, counts = rng.normal(size=(60, 2)), rng.integers(0, 3, size=60)
    features = LandmarkFeatures(landmarks=landmarks, length_scale=length_scale, n_landmarks=12, random_state=0)
    weighted = clone(features).fit(X, sample_weight=counts.astype(float))
    copied = features.fit(rng.permutation(np.repeat(X, counts, axis=0)))
    np.testing.assert_allclose(weighted.landmarks_, copied.landmarks_, atol=1e-12)
    np.testing.assert_allclose(weighted.approximate_kernel(X), copied.approximate_kernel(X), atol=1e-8)


class TestKernelError:
    @pytest.mark.parametrize(
        "options", [{}, {"kernel": "laplacian"}, {"kernel": RBF()}], ids=["gaussian", "laplacian", "function"]
    )
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_error_over_all_pairs_is_that_of_the_matrices(self, rng, options, dtype):
        X = rng.normal(size=(60, 3)).astype(dtype)
        features = LandmarkFeatures(n_landmarks=12, random_state=0).set_params(**options).fit(X)
        error, low, high = features.kernel_error(X)
        assert error == pytest.approx(relative_error(features, X), rel=1e-8 if dtype == np.float64 else 1e-3)
        assert low <= error <= high <= low + 2e-7 * error + 1e-11

    def test_sparse_rows(self, rng):
        X = sparse.random_array((60, 10), density=0.3, rng=rng, format="csr")
        features = LandmarkFeatures(n_landmarks=12, random_state=0).fit(X)
        assert features.kernel_error(X).error == pytest.approx(relative_error(features, X), rel=1e-8)

    def test_interval_covers_the_error(self, digits):
        """A 95 % interval covers the error in 88 to 100 % of 100 draws; one of half the width covers two thirds."""
        X = digits[:700]
        features = LandmarkFeatures(n_landmarks=32, random_state=0).fit(X[::2])
        truth = relative_error(features, X)
        intervals = [features.kernel_error(X, n_pairs=1000, random_state=seed) for seed in range(100)]
        assert 0.88 <= np.mean([low <= truth <= high for _, low, high in intervals]) <= 1.0
        half = [(error * (low / error) ** 0.5, error * (high / error) ** 0.5) for error, low, high in intervals]
        assert np.mean([low <= truth <= high for low, high in half]) < 0.85


class TestSuggestion:
    @pytest.fixture
    def rows(self, digits):
        return digits[:200]

    def test_suggested_size_reaches_the_tolerance_and_is_not_much_larger(self, halves):
        """Each half in turn has the training rows: features of one have a lower error on the other than vice versa."""
        found, expected = [], []
        for rows, held_out in (halves, halves[::-1]):
            size, error = LandmarkFeatures(random_state=0).suggest(rows, tolerance=0.04)
            errors, smaller = (
                [
                    held_out_error(LandmarkFeatures(n_landmarks=n_landmarks, random_state=seed), rows, held_out)
                    for seed in range(1, 5)
                ]
                for n_landmarks in (size, int(size / 1.5))
            )
            assert max(errors) < 0.042
            assert np.mean(smaller) > 0.04
            found += errors
            expected.append(error)
        assert np.mean(found) == pytest.approx(np.mean(expected), rel=0.1)

    def test_auto_uses_the_suggestion(self, rows):
        features = LandmarkFeatures(n_landmarks="auto", tolerance=0.1, random_state=3)
        suggested = features.suggest(rows)
        assert len(features.fit(rows).landmarks_) == suggested.n_landmarks
        assert features.kernel_error(rows, random_state=0).error < 0.1

    def test_few_rows_are_all_used(self, rng):
        X = rng.normal(size=(12, 6))
        features = LandmarkFeatures(n_landmarks="auto", tolerance=0.001, random_state=0).fit(X)
        assert len(features.landmarks_) == 12
        with pytest.raises(
            ValueError, match=r"needs about \d+ landmarks, but at most 9 are tried on these rows; .*more"
        ):
            features.suggest(X)

    @pytest.mark.slow
    def test_function_kernel(self, rng):
        X = rng.random((300, 3))
        features = LandmarkFeatures(chi2_kernel, n_landmarks="auto", tolerance=0.05, random_state=0).fit(X)
        assert features.suggest(X).n_landmarks == len(features.landmarks_) < 100
        assert features.kernel_error(X, random_state=0).error < 0.05

    def test_suggest_leaves_the_estimator_unfitted(self, rows):
        features = LandmarkFeatures(random_state=0)
        features.suggest(rows[:100], tolerance=0.3)
        with pytest.raises(NotFittedError):
            features.transform(rows)


class TestLengthScales:
    @pytest.mark.parametrize(
        ("kernel", "sampler"),
        [
            ("gaussian", "orthogonal"),
            ("laplacian", "halton"),
            pytest.param("matern", "orthogonal", marks=pytest.mark.slow),
        ],
    )
    def test_learned_ones_are_those_of_fourier_features(self, rng, kernel, sampler):
        X = rng.normal(size=(150, 3))
        y = np.sin(3 * X[:, 0])
        options = {"length_scale": LearnedLengthScales(n_iterations=5), "random_state": 0}
        landmarks = LandmarkFeatures(kernel, n_landmarks=32, **options).fit(X, y)
        fourier = FourierFeatures(kernel, sampler=sampler, n_frequencies=256, **options).fit(X, y)
        np.testing.assert_array_equal(landmarks.length_scale_, fourier.length_scale_)
        assert landmarks.learning_gain_ == fourier.learning_gain_
        assert landmarks.length_scale_.shape == (3,)
        if kernel == "gaussian":
            assert landmarks.relevance_.argmax() == 0

    def test_multiples_of_the_length_scale(self, digits):
        features = LandmarkFeatures(n_landmarks=16, random_state=0)
        base = features.find_length_scale(digits)
        for factor, candidate in zip([0.5, 2.0], features.fit_length_scales(digits, [0.5, 2.0]), strict=True):
            assert candidate.length_scale_ == pytest.approx(factor * base, rel=1e-12)
            np.testing.assert_allclose(candidate.landmarks_.shape, (16, 64))

    @pytest.mark.slow
    def test_multiples_have_the_size_of_the_shortest(self, digits):
        features = LandmarkFeatures(n_landmarks="auto", tolerance=0.1, random_state=0)
        short, long = features.fit_length_scales(digits[:300], [0.7, 2.0])
        assert len(short.landmarks_) == len(long.landmarks_)
        alone = clone(features).set_params(length_scale=float(short.length_scale_)).fit(digits[:300])
        assert len(short.landmarks_) == len(alone.landmarks_)


class TestFunctionKernels:
    @pytest.fixture
    def shares(self, rng):
        return rng.dirichlet(np.ones(6), size=200)

    @pytest.mark.parametrize("landmarks", ["uniform", "pivoted", "kmeans"])
    def test_chi_squared_kernel(self, shares, landmarks):
        features = LandmarkFeatures(chi2_kernel, landmarks=landmarks, n_landmarks=200, random_state=0).fit(shares)
        np.testing.assert_allclose(features.approximate_kernel(shares), chi2_kernel(shares), atol=1e-6)
        np.testing.assert_array_equal(features.exact_kernel(shares), chi2_kernel(shares))
        assert features.length_scale_ is None
        few = clone(features).set_params(n_landmarks=20).fit(shares[::2])
        assert few.landmarks_.shape == (20, 6)
        assert relative_error(few, shares[1::2]) < 0.1

    def test_equals_our_kernel_of_the_same_values(self, digits):
        """A function that computes the Gaussian kernel gives the features of that kernel."""
        rows = digits[:300]
        gaussian = LandmarkFeatures(n_landmarks=40, length_scale=8.0, random_state=0).fit(rows)
        kernel, landmarks = partial(rbf_kernel, gamma=GAMMA), Given(gaussian.landmarks_)
        function = LandmarkFeatures(kernel, landmarks=landmarks, random_state=0).fit(rows)
        assert relative_error(function, digits) == pytest.approx(relative_error(gaussian, digits), rel=0.05)

    def test_kernels_of_gaussian_processes(self, rng):
        X = rng.normal(size=(50, 2))
        features = LandmarkFeatures(RBF(2.0), n_landmarks=50, random_state=0).fit(X)
        np.testing.assert_allclose(features.approximate_kernel(X), rbf_kernel(X, gamma=0.5 / 4.0), atol=1e-6)

    def test_strings(self):
        words = ["tree", "three", "ant", "bee", "tea", "note", "zoo", "xylophone", "grid", "lamp"]
        features = LandmarkFeatures(common_letters, n_landmarks=10, random_state=0).fit(words)
        exact = np.array(common_letters(words, words), dtype=float)
        np.testing.assert_allclose(features.approximate_kernel(words), exact, atol=1e-8)
        np.testing.assert_array_equal(features.exact_kernel(words, ["tea"]), exact[:, [4]])
        assert set(features.landmarks_) <= set(words)
        assert features.kernel_error(words).error < 1e-8
        new = features.transform(["neat", "alp"]) @ features.transform(words).T
        # All letters are among the landmarks', so that new words are exact too.
        np.testing.assert_allclose(new, common_letters(["neat", "alp"], words), atol=1e-8)

    def test_rows_of_objects(self):
        rows = np.array([["tree", "a"], ["ant", "bc"], ["bee", "c"], ["zoo", "ab"]], dtype=object)
        features = LandmarkFeatures(matching_letters, n_landmarks=4, random_state=0).fit(rows)
        np.testing.assert_allclose(features.approximate_kernel(rows), matching_letters(rows, rows), atol=1e-8)
        np.testing.assert_allclose(features.transform(rows.tolist()), features.transform(rows), atol=1e-12)
        with pytest.raises(ValueError, match="X has 1 features, but LandmarkFeatures is expecting 2"):
            features.transform(rows[:, :1])
        assert features.n_features_in_ == 2
        assert not hasattr(features.set_params(kernel=common_letters).fit(rows[:, 0]), "n_features_in_")

    def test_sparse_rows(self, rng):
        X = sparse.random_array((60, 8), density=0.4, rng=rng, format="csr")
        features = LandmarkFeatures(linear_kernel, n_landmarks=60, random_state=0).fit(X)
        assert features.landmarks_.shape == (8, 8)  # as many as the rank
        np.testing.assert_allclose(features.approximate_kernel(X), (X @ X.T).toarray(), atol=1e-8)

    def test_sample_weights(self, shares):
        weights = np.arange(200.0) % 3
        features = LandmarkFeatures(chi2_kernel, n_landmarks=10, random_state=0).fit(shares, sample_weight=weights)
        present = clone(features).fit(shares[weights > 0], sample_weight=weights[weights > 0])
        np.testing.assert_array_equal(features.whitening_, present.whitening_)
        copied = clone(features).fit(np.repeat(shares, weights.astype(int), axis=0))
        np.testing.assert_array_equal(features.whitening_, copied.whitening_)

        def mean_error(sample_weight):
            fits = (
                clone(features).set_params(random_state=i).fit(shares, sample_weight=sample_weight) for i in range(8)
            )
            return np.mean([relative_error(fitted, shares[:20]) for fitted in fits])

        assert mean_error(np.where(np.arange(200) < 20, 1.0, 1e-9)) < 0.9 * mean_error(weights)

    @pytest.mark.parametrize("duplicate", [deepcopy, lambda fitted: pickle.loads(pickle.dumps(fitted))])
    def test_copies(self, duplicate):
        words = ["tree", "three", "ant", "bee"]
        features = LandmarkFeatures(common_letters, n_landmarks=3, random_state=0).fit(words)
        np.testing.assert_array_equal(duplicate(features).transform(words), features.transform(words))

    def test_in_a_linear_model(self, shares):
        y = np.sin(8 * shares[:, 0])
        model = FeatureRegressor(LandmarkFeatures(chi2_kernel, n_landmarks=50), random_state=0).fit(shares, y)
        assert model.score(shares, y) > 0.95
        message = r"has no length scale, of which multiples \[0.5, 1.0\] were asked for; leave them at \[1.0\]"
        with pytest.raises(ValueError, match=message):
            model.set_params(length_scale_factors=[0.5, 1.0]).fit(shares, y)


class TestPrecomputedKernels:
    @pytest.fixture
    def kernel(self, digits):
        return rbf_kernel(digits[:200], gamma=GAMMA)

    @pytest.mark.parametrize("landmarks", ["uniform", "pivoted", "kmeans"])
    def test_equals_the_function(self, digits, kernel, landmarks):
        """Landmarks are numbers of rows; a function with the same landmarks has the same error on new rows."""
        matrix = LandmarkFeatures("precomputed", landmarks=landmarks, n_landmarks=30, random_state=0).fit(kernel)
        assert len(set(matrix.landmarks_.tolist())) == 30
        given, function = Given(digits[matrix.landmarks_]), partial(rbf_kernel, gamma=GAMMA)
        rows = LandmarkFeatures(function, landmarks=given, random_state=0).fit(digits[:200])
        values = function(digits[200:], digits[:200])
        new = matrix.transform(values)
        np.testing.assert_allclose(new, values[:, matrix.landmarks_] @ matrix.whitening_, atol=1e-12)
        exact = function(digits[200:])
        error = np.linalg.norm(exact - new @ new.T) / np.linalg.norm(exact)
        assert error == pytest.approx(relative_error(rows, digits[200:]), rel=0.1)

    def test_all_rows_are_exact(self, kernel):
        features = LandmarkFeatures("precomputed", n_landmarks=200, random_state=0).fit(kernel)
        np.testing.assert_allclose(features.approximate_kernel(kernel), kernel, atol=1e-7)

    def test_sample_weights(self, kernel):
        weights = np.arange(200.0) % 2
        features = LandmarkFeatures("precomputed", n_landmarks=10, random_state=0).fit(kernel, sample_weight=weights)
        assert (features.landmarks_ % 2 == 1).all()

    def test_matrix_is_not_stored(self, kernel):
        features = LandmarkFeatures("precomputed", n_landmarks=10, random_state=0).fit(kernel)
        assert len(pickle.dumps(features)) < 0.1 * kernel.nbytes
        np.testing.assert_array_equal(
            pickle.loads(pickle.dumps(features)).transform(kernel), features.transform(kernel)
        )

    def test_cross_validation_selects_rows_and_columns(self, digits, kernel):
        assert get_tags(LandmarkFeatures("precomputed")).input_tags.pairwise
        assert not get_tags(LandmarkFeatures()).input_tags.pairwise
        model = make_pipeline(LandmarkFeatures("precomputed", n_landmarks=20, random_state=0), Ridge(0.01))
        y, folds, expected = digits[:200, 20], KFold(4), []
        for train, test in folds.split(kernel):
            fitted = clone(model).fit(kernel[np.ix_(train, train)], y[train])
            expected.append(fitted.score(kernel[np.ix_(test, train)], y[test]))
        np.testing.assert_allclose(cross_val_score(model, kernel, y, cv=folds), expected, rtol=1e-12)
        search = GridSearchCV(model, {"landmarkfeatures__n_landmarks": [2, 20]}, cv=folds, error_score="raise")
        search.fit(kernel, y)
        assert search.best_score_ == pytest.approx(np.mean(expected))
        assert search.predict(kernel[:3]).shape == (3,)


class TestPreparedMap:
    """`feature_map_` is made once per fit and is not part of the stored state."""

    @pytest.mark.parametrize("options", [{}, {"kernel": "matern", "refine": 3}, {"landmarks": Pivoted(50)}], ids=str)
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_round_trips_are_bit_equal(self, digits, options, dtype):
        X = digits[:100].astype(dtype)
        features = LandmarkFeatures(n_landmarks=8, random_state=0).set_params(**options).fit(X)
        assert "feature_map_" not in features.__getstate__()
        parts = ["bochner.features.landmark_features.LandmarkFeatures", "bochner.landmarks.Pivoted"]
        parts += ["bochner.kernels.Matern", "bochner.kernels.Gaussian", "bochner.rows.scalings.LengthScales"]
        for other in (
            deepcopy(features),
            pickle.loads(pickle.dumps(features)),
            skops.io.loads(skops.io.dumps(features), trusted=parts),
        ):
            assert other.transform(X).tobytes() == features.transform(X).tobytes()
            assert other.exact_kernel(X).tobytes() == features.exact_kernel(X).tobytes()
        assert not hasattr(clone(features), "feature_map_")


@pytest.mark.parametrize("data", DEGENERATE)
@pytest.mark.parametrize(
    ("kernel", "landmarks"), [("gaussian", "kmeans"), ("laplacian", "uniform"), ("matern", "pivoted")]
)
@pytest.mark.parametrize("n_landmarks", [1, 50])
def test_degenerate_data_give_finite_features(kernel, landmarks, data, n_landmarks):
    check_finite(
        LandmarkFeatures(kernel, landmarks=landmarks, n_landmarks=n_landmarks, random_state=0), DEGENERATE[data]
    )


class TestBadInput:
    """Bad input raises an error message that names the parameter and the value."""

    X = np.random.default_rng(0).normal(size=(20, 3))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"refine": -1}, "'refine' parameter"),
            ({"n_landmarks": "many"}, "'n_landmarks' parameter"),
            ({"n_landmarks": 0}, "'n_landmarks' parameter"),
            ({"landmarks": "first"}, "'landmarks' parameter .*'pivoted'.* Got 'first'"),
            ({"kernel": "cubic"}, "'kernel' parameter .*'precomputed'.* Got 'cubic'"),
            ({"kernel": Matern(nu=-1)}, "'nu' parameter of Matern must"),
            ({"landmarks": KMeans(n_iterations=0)}, "'n_iterations' parameter of KMeans must"),
            ({"landmarks": Pivoted(n_points=0)}, "'n_points' parameter of Pivoted must"),
            ({"length_scale": [1.0, 2.0]}, r"`length_scale` has shape .* and X has 3 columns"),
            ({"tolerance": 0}, "'tolerance' parameter"),
            ({"length_scale": "learn"}, "`length_scale`='learn' requires y"),
            (
                {"kernel": rbf_kernel, "landmarks": KMeans()},
                r"`landmarks`=KMeans\(\) computes landmarks that are not rows of the data, as a function",
            ),
            ({"kernel": lambda x, y: np.ones((2, 3))}, r"`kernel` must return one row .* shape \(2, 3\) for 16 and"),
            ({"kernel": lambda x, y: np.full((len(x), len(y)), np.nan)}, "`kernel` must return finite numbers"),
            ({"kernel": lambda x, y: np.zeros((len(x), len(y)))}, "The kernel is zero or negative for every landmark"),
            ({"kernel": "precomputed"}, r"A precomputed kernel must be a square matrix. Got shape \(20, 3\)"),
        ],
    )
    def test_invalid_options(self, options, message):
        with pytest.raises(ValueError, match=message):
            LandmarkFeatures(**options).fit(self.X)

    def test_class_instead_of_a_part(self):
        with pytest.raises(ValueError, match=r"'landmarks' parameter .* or an instance of .* Got <class"):
            LandmarkFeatures(landmarks=KMeans).fit(self.X)

    @pytest.mark.parametrize("kernel", ["gaussian", "laplacian", rbf_kernel])
    @pytest.mark.parametrize(("value", "message"), [(np.nan, "contains NaN"), (np.inf, "contains infinity")])
    def test_missing_and_infinite_values(self, kernel, value, message):
        X = self.X.copy()
        X[3, 1] = value
        with pytest.raises(ValueError, match=message):
            LandmarkFeatures(kernel).fit(X)
        features = LandmarkFeatures(kernel, n_landmarks=2).fit(self.X)
        for method in (features.transform, features.kernel_error, features.exact_kernel):
            with pytest.raises(ValueError, match=message) as raised:
                method(X)
            assert "FourierFeatures" not in str(raised.value)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_values_too_large_for_the_length_scale(self, dtype):
        X = self.X.astype(dtype)
        X[3, 1] = 1e30
        message = r"X contains values up to 1e\+30 in column 1, which is .* times the length scale.*[Rr]escale"
        with pytest.raises(ValueError, match=message):
            LandmarkFeatures().fit(X)
        fitted = LandmarkFeatures(n_landmarks=2).fit(self.X.astype(dtype))
        for method in (fitted.transform, fitted.exact_kernel, fitted.approximate_kernel, fitted.kernel_error):
            with pytest.raises(ValueError, match=message):
                method(X)

    def test_precomputed_kernel_without_rows(self):
        features = LandmarkFeatures("precomputed", n_landmarks=4).fit(self.X @ self.X.T)
        for method in (features.exact_kernel, features.kernel_error):
            with pytest.raises(ValueError, match="values of a precomputed kernel between new rows are not known"):
                method(self.X @ self.X.T)
        with pytest.raises(ValueError, match="X has 3 features, but LandmarkFeatures is expecting 20"):
            features.transform(self.X)
        with pytest.raises(ValueError, match="landmarks of a precomputed kernel cannot be found; give `n_landmarks`"):
            features.set_params(n_landmarks="auto").fit(self.X @ self.X.T)

    @pytest.mark.parametrize("kernel", [rbf_kernel, "precomputed"])
    def test_functions_have_no_relevances(self, kernel):
        features = LandmarkFeatures(kernel, n_landmarks=4).fit(rbf_kernel(self.X))
        with pytest.raises(AttributeError, match="has no length scale, and no relevances"):
            features.relevance_  # noqa: B018
        assert not hasattr(features, "relevance_")

    @pytest.mark.parametrize("landmarks", LANDMARKS)
    def test_rows_far_away_do_not_spoil_the_others(self, rng, landmarks):
        # Distances between rows that are 1e9 length scales away have lost their digits; their features are bounded.
        X = rng.normal(size=(300, 4))
        for far in (slice(0, 1), slice(0, 40)):
            shifted = X.copy()
            shifted[far] += 1e9
            features = LandmarkFeatures(length_scale=2.0, n_landmarks=60, landmarks=landmarks, random_state=0)
            norms = np.square(features.fit_transform(shifted)).sum(axis=1)
            assert norms.max() < 3.0
            near = slice(40, None)
            exact = Gaussian()(X[near] / 2.0)
            error = np.linalg.norm(features.approximate_kernel(shifted[near]) - exact) / np.linalg.norm(exact)
            assert error < 0.1

    def test_parameters_changed_after_fit_have_no_effect(self, rng):
        X = rng.normal(size=(50, 3))
        features = LandmarkFeatures(n_landmarks=20, random_state=0).fit(X)
        error, exact = features.kernel_error(X, random_state=0), features.exact_kernel(X)
        features.set_params(kernel="precomputed")
        assert features.kernel_error(X, random_state=0) == error
        np.testing.assert_allclose(features.exact_kernel(sparse.csr_array(X)), exact, rtol=1e-12)

    def test_no_positive_weight(self):
        for kernel in ("gaussian", rbf_kernel):
            with pytest.raises(
                ValueError, match=r"positive `sample_weight`|[Ss]ample weights must contain at least one"
            ):
                LandmarkFeatures(kernel).fit(self.X, sample_weight=np.zeros(20))

    def test_dask_collections_need_a_kernel_with_a_length_scale(self):
        da = pytest.importorskip("dask.array")
        with pytest.raises(ValueError, match=r"needs rows in memory; call `X.compute\(\)` first"):
            LandmarkFeatures(rbf_kernel).fit(da.from_array(self.X, chunks=(10, 3)))


def test_length_scale_beyond_float32_suits_float32_rows():
    X = np.array([[0.0], [1e37]], dtype=np.float32)
    features = LandmarkFeatures(length_scale=3.4028235677973366e38, n_landmarks=2).fit(X)  # float32 ends just before
    np.testing.assert_allclose(features.approximate_kernel(X), 1.0, rtol=1e-3)
    assert features.transform(X).dtype == np.float32
