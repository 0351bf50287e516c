# SPDX-License-Identifier: BSD-3-Clause
import pickle

import numpy as np
import pytest
import skops.io
from scipy import sparse
from scipy.linalg import hadamard

from bochner import FourierFeatures
from bochner.feature_maps import fourier_map
from bochner.feature_maps.hadamard import HadamardFrequencies
from bochner.kernels import KERNELS, Gaussian, IsotropicKernel, Laplacian, Matern
from bochner.samplers import Sorf

ISOTROPIC = [name for name, kernel in KERNELS.items() if issubclass(kernel, IsotropicKernel)]


def draw(n_frequencies, n_features, seed=0, kernel=None):
    rng = np.random.default_rng(seed)
    return Sorf().sample(kernel or Gaussian(), n_frequencies, np.zeros((1, n_features)), rng)


def test_dense_matrix_is_product_of_hadamard_matrices_and_signs():
    frequencies = draw(300, 200)
    H, p = hadamard(256), 256
    blocks = [H @ np.diag(a) @ H @ np.diag(b) @ H @ np.diag(c) / p**1.5 for a, b, c in frequencies.signs]
    expected = np.vstack(blocks)[:300, :200] * frequencies.radii[:, None]
    np.testing.assert_allclose(np.asarray(frequencies), expected, atol=1e-12)


@pytest.mark.parametrize(("n_frequencies", "n_features"), [(1, 128), (128, 128), (300, 200), (64, 1000), (513, 256)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float32, 1e-5)])
@pytest.mark.parametrize("n_rows", [1, 7, 8, 21])
def test_fast_product_equals_dense_product(n_frequencies, n_features, dtype, tolerance, n_rows, rng):
    frequencies = (draw(n_frequencies, n_features) / rng.uniform(0.5, 2, size=n_features)).astype(dtype)
    X = rng.normal(size=(n_rows, n_features)).astype(dtype)
    out = np.full((n_rows, n_frequencies), np.nan, dtype=dtype)
    frequencies.multiply(X, 0.5, out)
    expected = 0.5 * X.astype(np.float64) @ np.asarray(frequencies, dtype=np.float64).T
    np.testing.assert_allclose(out, expected, atol=tolerance * np.abs(expected).max())


def test_frequencies_are_orthogonal_without_padding():
    W = np.asarray(draw(256, 256))
    gram = W @ W.T
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)


@pytest.mark.parametrize("kernel", ISOTROPIC)
@pytest.mark.parametrize("n_features", [128, 200])
def test_mean_cosine_equals_kernel(kernel, n_features):
    """For sparse and dense differences, the mean cosine is within four standard errors of the kernel."""
    kernel = KERNELS[kernel]()
    deltas = np.zeros((4, n_features))
    deltas[0, 0] = 1.0
    deltas[1, :2] = 0.8
    deltas[2] = 1.2 / np.sqrt(n_features)
    deltas[3] = np.random.default_rng(1).normal(size=n_features) * 1.5 / np.sqrt(n_features)
    means = [np.cos(np.asarray(draw(64, n_features, seed, kernel)) @ deltas.T).mean(axis=0) for seed in range(300)]
    standard_errors = np.std(means, axis=0, ddof=1) / np.sqrt(300)
    assert (np.abs(np.mean(means, axis=0) - kernel.at(deltas)) < 4 * standard_errors).all()
    assert (np.abs(np.mean(means, axis=0) - kernel.at(deltas / np.sqrt(2))) > 4 * standard_errors).any()


def test_few_columns_have_unstructured_frequencies():
    assert isinstance(draw(10, 127), np.ndarray)
    assert isinstance(draw(10, 128), HadamardFrequencies)


def test_dense_product_is_preferred_for_few_frequencies_or_columns():
    assert not draw(8, 1000).is_fast
    assert draw(1024, 1000).is_fast
    assert draw(1024, 784).astype(np.float32).is_fast
    assert not draw(128, 128).astype(np.float32).is_fast


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_transform_equals_map_of_dense_frequencies(dtype, rng):
    X = rng.normal(size=(300, 600)).astype(dtype)
    features = FourierFeatures(Matern(), sampler="sorf", n_frequencies=700, random_state=0).fit(X)
    assert features._frequencies.is_fast
    dense = fourier_map(X, features.frequencies_, features.weights_)
    tolerance = 1e-12 if dtype == np.float64 else 2e-5
    np.testing.assert_allclose(features.transform(X), dense, atol=tolerance)
    np.testing.assert_allclose(features.transform(sparse.csr_array(X)), dense, atol=tolerance)
    assert features.transform(X).dtype == dtype


def test_stored_features_are_bit_equal(rng):
    X = rng.normal(size=(40, 300))
    features = FourierFeatures(sampler=Sorf(), n_frequencies=400, length_scale=rng.uniform(1, 2, 300)).fit(X)
    types = [
        "bochner.features.fourier_features.FourierFeatures",
        "bochner.samplers.Sorf",
        "bochner.feature_maps.hadamard.HadamardFrequencies",
    ]
    for copy in (
        pickle.loads(pickle.dumps(features)),
        skops.io.loads(
            skops.io.dumps(features), trusted=[*types, "bochner.kernels.Gaussian", "bochner.rows.scalings.LengthScales"]
        ),
    ):
        assert copy.transform(X).tobytes() == features.transform(X).tobytes()


def test_product_kernel_is_rejected(rng):
    with pytest.raises(ValueError, match=r"Laplacian is not compatible with sampler Sorf.*not isotropic"):
        Sorf().sample(Laplacian(), 4, np.zeros((1, 200)), rng)
