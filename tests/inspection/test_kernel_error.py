# SPDX-License-Identifier: BSD-3-Clause
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bochner import FourierFeatures, LandmarkFeatures
from bochner.weightings import Stein


def full_matrix_error(features, X):
    exact = features.exact_kernel(X).astype(np.float64)
    return np.linalg.norm(exact - features.approximate_kernel(X)) / np.linalg.norm(exact)


@pytest.mark.parametrize("weighting", ["uniform", "stein", "matrix"])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_error_over_all_pairs_is_exact(rng, kernel, weighting):
    X = rng.normal(size=(60, 3))
    features = FourierFeatures(kernel, sampler="mc", weighting=weighting, n_frequencies=20, random_state=0).fit(X)
    error, low, high = features.kernel_error(X)
    dense = full_matrix_error(features, X)
    assert error == pytest.approx(dense, rel=1e-10)
    assert low <= dense <= high <= low + 2e-7 * error


@pytest.mark.parametrize("features", [FourierFeatures(n_frequencies=16), LandmarkFeatures(n_landmarks=16)])
def test_error_of_a_few_thousand_rows_is_exact_by_default(rng, features):
    X = rng.standard_t(2, size=(1500, 2))
    error, low, high = features.fit(X[::2]).kernel_error(X)
    dense = full_matrix_error(features, X)
    assert error == pytest.approx(dense, rel=1e-8)
    assert low <= dense <= high <= low + 2e-7 * error
    assert str(features.kernel_error(X)).endswith(" % (exact)")


ROWS = {
    "digits": lambda digits: digits,
    "breast cancer": lambda _: StandardScaler().fit_transform(load_breast_cancer().data),
    "diabetes": lambda _: StandardScaler().fit_transform(load_diabetes().data),
    "normal, two columns": lambda _: np.random.default_rng(0).normal(size=(2000, 2)),
    "heavy tails, two columns": lambda _: np.random.default_rng(0).standard_t(2, size=(2000, 2)),
    "heavy tails, five columns": lambda _: np.random.default_rng(0).standard_t(2, size=(2000, 5)),
}
FEATURES = {
    "uniform": FourierFeatures(n_frequencies=32, weighting="uniform", random_state=0),
    "stein": FourierFeatures(n_frequencies=32, random_state=0),
    "matrix": FourierFeatures(n_frequencies=32, weighting="matrix", random_state=0),
    "landmarks": LandmarkFeatures(n_landmarks=64, random_state=0),
}
FAST_CASES = [
    ("normal, two columns", "stein"),
    ("heavy tails, two columns", "landmarks"),
    ("heavy tails, five columns", "landmarks"),
]
CASES = [
    pytest.param(name, features, marks=[] if (name, features) in FAST_CASES else pytest.mark.slow)
    for name in ROWS
    for features in FEATURES
]


@pytest.mark.parametrize(("name", "features"), CASES)
def test_interval_covers_the_full_matrix_error(name, features, digits):
    """A 95 % interval covers the error in 90 to 99.5 % of 200 draws; an interval of the wrong width does not."""
    X, fitted = ROWS[name](digits), FEATURES[features]
    truth = full_matrix_error(fitted.fit(X[::2]), X)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A few of the sampled rows")
        intervals = [fitted.kernel_error(X, n_pairs=50_000, random_state=seed) for seed in range(200)]
    covered = np.mean([low <= truth <= high for _, low, high in intervals])
    assert 0.90 <= covered <= 0.995


@pytest.mark.parametrize("features", [FourierFeatures(n_frequencies=16), LandmarkFeatures(n_landmarks=32)])
def test_interval_covers_the_error_where_the_survey_is_a_sample(features):
    """The outlying rows that dominate the error of landmarks are found among many."""
    X = np.random.default_rng(0).normal(size=(4000, 2))
    truth = features.set_params(random_state=0).fit(X[:500]).kernel_error(X, n_pairs=10**7).error
    intervals = [features.kernel_error(X, n_pairs=10_000, random_state=seed) for seed in range(100)]
    assert 0.88 <= np.mean([low <= truth <= high for _, low, high in intervals]) <= 1.0
    assert np.median([(high - low) / error for error, low, high in intervals]) < 0.5


def test_interval_of_few_dominating_rows_is_flagged():
    """Outlying rows of a Dask collection, which is not searched for them, are in the sample by chance."""
    da = pytest.importorskip("dask.array")
    X = np.random.default_rng(0).normal(size=(6000, 1))
    features = LandmarkFeatures(n_landmarks=64, random_state=0).fit(X[:500])
    with pytest.warns(UserWarning, match=r"few of the sampled rows dominate the kernel error .*larger `n_pairs`"):
        features.kernel_error(da.from_array(X, chunks=1000), n_pairs=10_000, random_state=0)
    features.kernel_error(X, n_pairs=10_000, random_state=0)  # rows in memory are


def test_result_depends_on_the_seed_alone(rng):
    X = rng.normal(size=(6000, 4))
    features = LandmarkFeatures(n_landmarks=32, random_state=0).fit(X[:500])
    with threadpool_limits(1):
        single = features.kernel_error(X, n_pairs=50_000, random_state=3)
    assert features.kernel_error(X, n_pairs=50_000, random_state=3) == single
    assert features.kernel_error(X, n_pairs=50_000, random_state=4) != single


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
@pytest.mark.parametrize("features", [FourierFeatures(n_frequencies=16), LandmarkFeatures(n_landmarks=16)])
def test_sparse_rows_have_the_error_of_dense_rows(rng, kernel, features):
    X = sparse.random_array((3000, 6), density=0.4, rng=rng, format="csr")
    features.set_params(kernel=kernel, random_state=0).fit(X[:500].toarray())
    found, expected = (features.kernel_error(rows, n_pairs=20_000, random_state=0) for rows in (X, X.toarray()))
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_rows_of_a_cluster_have_the_error_of_rows_in_memory(rng):
    da = pytest.importorskip("dask.array")
    X = rng.standard_t(3, size=(2000, 3))
    features = LandmarkFeatures(n_landmarks=32, random_state=0).fit(X[:500])
    for n_pairs in (50_000, 5_000_000):
        found, expected = (
            features.kernel_error(rows, n_pairs=n_pairs, random_state=0) for rows in (da.from_array(X, chunks=300), X)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_interval_covers_the_error_of_a_sample_of_a_cluster(rng):
    da = pytest.importorskip("dask.array")
    X = rng.normal(size=(5000, 5))
    features = FourierFeatures(n_frequencies=16, random_state=0).fit(X[:500])
    truth = features.kernel_error(X, n_pairs=10**8).error
    rows = da.from_array(X, chunks=1000)
    intervals = [features.kernel_error(rows, n_pairs=10_000, random_state=seed) for seed in range(20)]
    assert sum(low <= truth <= high for _, low, high in intervals) >= 16


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


def test_many_rows_of_any_kind():
    def same_letter(first, second):
        return 1.0 * (np.asarray(first)[:, None] == np.asarray(second)[None, :])

    letters = np.array(list("abcdefgh") * 500, dtype=object)
    features = LandmarkFeatures(same_letter, n_landmarks=4, random_state=0).fit(letters)
    error, low, high = features.kernel_error(letters, n_pairs=10_000, random_state=0)
    assert low < error < high
    assert error == pytest.approx(np.sqrt(0.5), rel=0.1)  # the share of letters that are no landmarks
