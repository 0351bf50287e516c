# SPDX-License-Identifier: BSD-3-Clause
"""Candidate features: seeds, kernels, length scales, and rows to fit transformers of other libraries on."""

import re

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.kernel_approximation import Nystroem, PolynomialCountSketch
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bochner.feature_models.candidates
import bochner.rows.sampling
from bochner import FourierFeatures, LandmarkFeatures
from bochner.feature_maps import TransformerMap
from bochner.feature_models.candidates import (
    feature_map_of,
    features_of_kernels,
    fit_candidates,
    seed_of,
)
from bochner.kernels import Gaussian, Matern
from bochner.landmarks import KMeans
from bochner.rows import MemoryRows
from bochner.rows.partitions import PartitionedRows
from bochner.samplers import Sampler
from bochner.scaling import LearnedLengthScales
from tests.rows.array_partitions import ArrayPartitions


class Recorder(TransformerMixin, BaseEstimator):
    """A transformer that keeps what it was fitted on."""

    def fit(self, X, y=None):
        self.X_, self.y_ = X, y
        return self

    def transform(self, X):
        return X


class WeightedRecorder(Recorder):
    """One that accepts sample weights too."""

    def fit(self, X, y=None, sample_weight=None):
        self.weights_ = sample_weight
        return super().fit(X, y)


def columns(y):
    return y if y.ndim == 2 else y[:, None]


def fit_one(features, rows, seed=None):
    (fitted,) = fit_candidates(features, rows, columns, (1.0,), seed)
    return fitted


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 3))
    return X, np.sin(X[:, 0]), rng.integers(0, 3, size=60).astype(float)


def in_memory(X, y, weights=None):
    return MemoryRows(X, y, weights)


def in_partitions(X, y, weights=None):
    arrays = {"X": X, "y": y} | ({} if weights is None else {"sample_weight": weights})
    return PartitionedRows(ArrayPartitions((20, 0, len(X) - 20), **arrays), X.dtype, has_targets=True)


class TestSeed:
    def test_seed_of_the_model_comes_before_that_of_the_features(self):
        assert seed_of(FourierFeatures(random_state=3), 5) == 5
        assert seed_of(FourierFeatures(random_state=3), None) == 3
        assert seed_of(Nystroem(random_state=3), 5) == 5

    def test_missing_seed_is_drawn(self):
        expected = np.random.RandomState(0).randint(2**31 - 1)
        assert seed_of(None, np.random.RandomState(0)) == expected
        assert seed_of(FourierFeatures(random_state=np.random.RandomState(0)), None) == expected
        assert seed_of(None, None) != seed_of(None, None)

    def test_transformers_of_another_library_keep_their_random_states(self):
        assert seed_of(Nystroem(random_state=3), None) is None
        assert seed_of(make_pipeline(StandardScaler(), Nystroem()), None) is None

    def test_seed_reaches_every_step_of_a_pipeline(self, data):
        X, y, _ = data
        features = make_pipeline(PolynomialCountSketch(n_components=8), Nystroem(n_components=4))
        fitted = fit_one(features, in_memory(X, y), 7)
        assert [step.random_state for _, step in fitted.steps] == [7, 7]
        expected = features.set_params(polynomialcountsketch__random_state=7, nystroem__random_state=7).fit(X)
        np.testing.assert_array_equal(fitted.transform(X), expected.transform(X))

    def test_without_a_seed_random_states_are_kept(self, data):
        X, y, _ = data
        fitted = fit_one(Nystroem(n_components=4, random_state=3), in_memory(X, y))
        np.testing.assert_array_equal(fitted.transform(X), Nystroem(n_components=4, random_state=3).fit_transform(X))


class TestFourierFeatures:
    def test_none_means_default_features(self, data):
        X, y, _ = data
        fitted = fit_one(None, in_memory(X, y), 0)
        expected = LandmarkFeatures(n_landmarks=512, random_state=0).fit(X)
        np.testing.assert_array_equal(fitted.transform(X), expected.transform(X))

    def test_every_length_scale_has_a_candidate(self, data):
        X, y, weights = data
        features = FourierFeatures(n_frequencies=6)
        candidates = fit_candidates(features, in_memory(X, y, weights), columns, (0.5, 3.0), 2)
        plain = FourierFeatures(n_frequencies=6, random_state=2).fit(X, sample_weight=weights)
        for candidate, factor in zip(candidates, (0.5, 3.0), strict=True):
            assert candidate.length_scale_ == pytest.approx(factor * plain.length_scale_, rel=1e-12)
        assert not hasattr(features, "length_scale_")

    def test_targets_are_encoded_for_learned_length_scales(self, data):
        X, y, _ = data
        features = FourierFeatures(n_frequencies=6, length_scale="learn")
        (found,) = fit_candidates(features, in_memory(X, y > 0), lambda y: np.where(y, 1.0, -1.0)[:, None], (1.0,), 0)
        expected = FourierFeatures(n_frequencies=6, length_scale="learn", random_state=0)
        expected.fit(X, np.where(y > 0, 1.0, -1.0)[:, None])
        np.testing.assert_allclose(found.length_scale_, expected.length_scale_, rtol=1e-12)


class TestKernels:
    def test_none_keeps_the_kernel_of_the_features(self):
        features = FourierFeatures("cauchy", sampler="mc")
        (found,) = features_of_kernels(features, None)
        assert found is not features
        assert found.kernel == "cauchy"

    @pytest.mark.parametrize("features", [FourierFeatures(n_frequencies=6), LandmarkFeatures(n_landmarks=6)])
    def test_every_kernel_is_combined_with_every_length_scale(self, data, features):
        X, y, weights = data
        kernels, factors = ["exponential", Matern(nu=2.5)], (0.5, 3.0)
        candidates = fit_candidates(features, in_memory(X, y, weights), columns, factors, 2, kernels)
        alone = [
            candidate
            for kernel in kernels
            for candidate in clone(features)
            .set_params(kernel=kernel, random_state=2)
            .fit_length_scales(X, factors, sample_weight=weights)
        ]
        assert len(candidates) == 4
        for candidate, expected in zip(candidates, alone, strict=True):
            assert repr(candidate.kernel_) == repr(expected.kernel_)
            np.testing.assert_array_equal(candidate.transform(X), expected.transform(X))
        assert features.kernel == "gaussian"

    def test_kernels_share_the_directions_of_their_frequencies(self, data):
        X, y, _ = data
        candidates = fit_candidates(FourierFeatures(), in_memory(X, y), columns, (1.0,), 0, ["gaussian", "exponential"])
        first, second = (
            features.frequencies_ / np.linalg.norm(features.frequencies_, axis=1)[:, None] for features in candidates
        )
        np.testing.assert_allclose(np.abs(np.einsum("ij,ij->i", first, second)), 1.0, rtol=1e-12)

    def test_length_scales_are_learned_for_each_kernel(self, data):
        X, y, _ = data
        features = FourierFeatures(n_frequencies=6, length_scale=LearnedLengthScales(n_iterations=3))
        kernels = ["gaussian", "exponential"]
        candidates = fit_candidates(features, in_memory(X, y), columns, (1.0, 2.0), 0, kernels)
        for kernel, (candidate, twice) in zip(kernels, (candidates[:2], candidates[2:]), strict=True):
            alone = clone(features).set_params(kernel=kernel, random_state=0).fit(X, y)
            np.testing.assert_allclose(candidate.length_scale_, alone.length_scale_, rtol=1e-12)
            np.testing.assert_allclose(twice.length_scale_, 2 * alone.length_scale_, rtol=1e-12)

    def test_landmark_features_accept_functions(self):
        found = features_of_kernels(LandmarkFeatures(), ["gaussian", chi2_kernel])
        assert [features.kernel for features in found] == ["gaussian", chi2_kernel]

    def test_own_samplers_need_no_check(self):
        class Own(Sampler):
            def sample(self, kernel, n_frequencies, X, rng):
                """Never called."""

        assert len(features_of_kernels(FourierFeatures(sampler=Own()), ["gaussian", "laplacian"])) == 2

    @pytest.mark.parametrize(
        ("features", "kernels", "message"),
        [
            (None, [], "`kernels` must contain at least one kernel. Got [] instead."),
            (None, ["gaussian", "gausian"], "`kernels` contains 'gausian'; use names among 'gaussian', 'laplacian', "),
            (LandmarkFeatures(), ["precomputed"], "`kernels` contains 'precomputed'; use names among"),
            (FourierFeatures(), [1.0], "The 'kernel' parameter of FourierFeatures must be"),
            (FourierFeatures(), [chi2_kernel], "The 'kernel' parameter of FourierFeatures must be"),
            (None, [Matern(nu=-1.0)], "The 'nu' parameter of Matern must be"),
            (LandmarkFeatures(), [Matern(nu=-1.0)], "The 'nu' parameter of Matern must be"),
            (LandmarkFeatures(landmarks=KMeans()), [chi2_kernel], "use 'uniform' or 'pivoted'"),
            (
                FourierFeatures(sampler="orthogonal"),
                ["gaussian", "laplacian"],
                "Laplacian is not compatible with sampler Orthogonal, because it is not isotropic; use sampler='mc'",
            ),
            (FourierFeatures(sampler="sorf"), ["cauchy"], "Cauchy is not compatible with sampler Sorf"),
            (Nystroem(), ["gaussian"], "needs FourierFeatures or LandmarkFeatures, and `features` is a Nystroem; use "),
            (
                make_pipeline(StandardScaler(), FourierFeatures()),
                ["gaussian"],
                "and `features` is a Pipeline; use None",
            ),
        ],
    )
    def test_unsupported_kernels_are_refused(self, features, kernels, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            features_of_kernels(features, kernels)

    def test_each_kernel_has_the_sampler_that_suits_it(self, data):
        X, y, _ = data
        candidates = fit_candidates(FourierFeatures(), in_memory(X, y), columns, (1.0,), 0, ["gaussian", "laplacian"])
        for candidate, sampler in zip(candidates, ("orthogonal", "halton"), strict=True):
            alone = FourierFeatures(candidate.kernel, sampler=sampler, random_state=0).fit(X)
            np.testing.assert_array_equal(candidate.frequencies_, alone.frequencies_)

    def test_classes_are_refused(self):
        with pytest.raises(TypeError, match="Gaussian is a class; give an instance"):
            features_of_kernels(None, [Gaussian])


class TestOtherTransformers:
    @pytest.mark.parametrize("make", [in_memory, in_partitions])
    def test_few_rows_are_all_used(self, make, data):
        X, y, _ = data
        fitted = fit_one(Recorder(), make(X, y))
        np.testing.assert_array_equal(fitted.X_, X)
        np.testing.assert_array_equal(fitted.y_, y)

    @pytest.mark.parametrize("make", [in_memory, in_partitions])
    @pytest.mark.parametrize("n_targets", [1, 2])
    def test_single_column_of_targets_is_a_vector(self, make, data, n_targets):
        X, y, _ = data
        Y = np.column_stack([y, -y])[:, :n_targets]
        np.testing.assert_array_equal(fit_one(Recorder(), make(X, Y)).y_, y if n_targets == 1 else Y)

    @pytest.mark.parametrize("make", [in_memory, in_partitions])
    def test_rows_of_weight_zero_are_left_out(self, make, data):
        X, y, weights = data
        kept = weights > 0
        plain, weighted = (fit_one(features, make(X, y, weights)) for features in (Recorder(), WeightedRecorder()))
        for fitted in (plain, weighted):
            np.testing.assert_array_equal(fitted.X_, X[kept])
            np.testing.assert_array_equal(fitted.y_, y[kept])
        np.testing.assert_array_equal(weighted.weights_, weights[kept])

    def test_many_rows_in_partitions_are_sampled(self, rng, monkeypatch):
        monkeypatch.setattr(bochner.feature_models.candidates, "MAX_COLLECTED", 2000)
        monkeypatch.setattr(bochner.rows.sampling, "MAX_SAMPLE_ROWS", 192)
        X = np.arange(2001.0)[:, None]
        partitioned = fit_one(Recorder(), in_partitions(X, -X), 0)
        assert partitioned.X_.shape == (192, 1)
        np.testing.assert_array_equal(partitioned.y_, -partitioned.X_[:, 0])
        assert len(np.unique(partitioned.X_)) == 192
        np.testing.assert_array_equal(partitioned.X_, fit_one(Recorder(), in_partitions(X, -X), 0).X_)
        assert fit_one(Recorder(), in_partitions(X[:2000], X[:2000]), 0).X_.shape == (2000, 1)
        assert fit_one(Recorder(), in_memory(X, X)).X_.shape == (2001, 1)

    def test_given_transformer_is_not_fitted(self, data):
        X, y, _ = data
        features = Recorder()
        assert fit_one(features, in_memory(X, y)) is not features
        assert not hasattr(features, "X_")

    @pytest.mark.parametrize("length_scales", [(2.0,), (1.0, 2.0)])
    def test_length_scales_are_refused(self, data, length_scales):
        X, y, _ = data
        message = r"needs features with a length scale, and Nystroem has none; use \(1\.0,\), or search"
        with pytest.raises(ValueError, match=message):
            fit_candidates(Nystroem(), in_memory(X, y), columns, length_scales, None)


class TestFeatureMap:
    def test_prepared_maps_are_used(self, data):
        X, _, _ = data
        features = FourierFeatures(n_frequencies=4).fit(X)
        assert feature_map_of(features) is features.feature_map_

    def test_other_transformers_are_wrapped(self, data):
        X, _, _ = data
        features = Nystroem(n_components=5, random_state=0).fit(X)
        for found in (feature_map_of(features, width=5), feature_map_of(features, row=X[:1])):
            assert isinstance(found, TransformerMap)
            assert found.n_columns == 5
            np.testing.assert_allclose(found.features(X), features.transform(X), rtol=1e-12)
