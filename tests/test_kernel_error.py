# SPDX-License-Identifier: BSD-3-Clause
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import StandardScaler

from bochner import FourierFeatures
from bochner.weightings import Stein


def full_matrix_error(features, X):
    exact = features.exact_kernel(X).astype(np.float64)
    return np.linalg.norm(exact - features.approximate_kernel(X)) / np.linalg.norm(exact)


def heavy_tailed(rng):
    """Return rows with a few outliers, whose squared errors differ by orders of magnitude."""
    return rng.standard_t(2, size=(700, 5))


@pytest.mark.parametrize("weighting", ["uniform", "stein", "matrix"])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_error_over_all_pairs_is_exact(rng, kernel, weighting):
    X = rng.normal(size=(60, 3))
    features = FourierFeatures(kernel, sampler="mc", weighting=weighting, n_frequencies=20, random_state=0).fit(X)
    error, low, high = features.kernel_error(X)
    assert error == pytest.approx(full_matrix_error(features, X), rel=1e-10)
    assert low == high == error


FAST_CASES = [("heavy tails", "stein"), ("diabetes", "matrix")]
CASES = [
    pytest.param(name, weighting, marks=[] if (name, weighting) in FAST_CASES else pytest.mark.slow)
    for name in ("digits", "breast cancer", "diabetes", "heavy tails")
    for weighting in ("uniform", "stein", "matrix")
]


@pytest.mark.parametrize(("name", "weighting"), CASES)
def test_interval_covers_the_full_matrix_error(name, weighting, digits, rng):
    """A 95 % interval covers the error in 90 to 99 % of 400 draws; an interval of the wrong width does not."""
    X = {
        "digits": lambda: digits,
        "breast cancer": lambda: StandardScaler().fit_transform(load_breast_cancer().data),
        "diabetes": lambda: StandardScaler().fit_transform(load_diabetes().data),
        "heavy tails": lambda: heavy_tailed(rng),
    }[name]()
    features = FourierFeatures(n_frequencies=32, weighting=weighting, random_state=0).fit(X[::2])
    truth = full_matrix_error(features, X)
    intervals = [features.kernel_error(X, n_pairs=2000, random_state=seed) for seed in range(400)]
    covered = np.mean([low <= truth <= high for _, low, high in intervals])
    assert 0.90 <= covered <= 0.99


def test_larger_confidence_widens_the_interval(digits):
    features = FourierFeatures(n_frequencies=16, random_state=0).fit(digits)
    narrow, wide = (features.kernel_error(digits, n_pairs=500, confidence=c, random_state=0) for c in (0.5, 0.99))
    assert narrow.error == wide.error
    assert wide.low < narrow.low < narrow.high < wide.high


def test_error_of_sparse_float32_rows_with_length_scales_per_column(rng):
    X = sparse.random_array((200, 4), density=0.5, rng=rng, format="csr", dtype=np.float32)
    features = FourierFeatures(length_scale=[1.0, 2.0, 3.0, 4.0], n_frequencies=16, random_state=0).fit(X)
    assert features.kernel_error(X).error == pytest.approx(full_matrix_error(features, X), rel=1e-4)


def test_error_of_a_single_row():
    features = FourierFeatures(n_frequencies=4, weighting=Stein(alphas=[1.0]), random_state=0).fit([[1.0, 2.0]])
    assert features.kernel_error([[0.0, 0.0]]).error == pytest.approx(1 - features.weights_.sum())


def test_memory_does_not_grow_with_the_number_of_rows(rng):
    X = rng.normal(size=(500_000, 8))
    features = FourierFeatures(n_frequencies=256, random_state=0).fit(X[:3000])
    tracemalloc.start()
    features.kernel_error(X, random_state=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


@pytest.mark.parametrize(
    "arguments", [{"n_pairs": 1}, {"n_pairs": 2.5}, {"confidence": 0.0}, {"confidence": 1.0}, {"confidence": "a"}]
)
def test_invalid_arguments_are_rejected(arguments, rng):
    features = FourierFeatures(n_frequencies=2).fit(rng.normal(size=(5, 2)))
    with pytest.raises(ValueError, match=f"`{next(iter(arguments))}` must"):
        features.kernel_error(rng.normal(size=(5, 2)), **arguments)
