# SPDX-License-Identifier: BSD-3-Clause
"""Maps to kernel values at landmarks, compared with the kernel of every difference."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import chi2_kernel
from threadpoolctl import threadpool_limits

from bochner.feature_maps import kernel_columns, map_rows
from bochner.feature_maps.kernel_columns import (
    kernel_function,
)
from bochner.kernels import KERNELS, FunctionKernel, Gaussian, IsotropicKernel, Kernel
from bochner.rows import LengthScales, Metric, Unscaled

SCALES = {"one length scale": 2.0, "one per column": np.array([0.5, 2.0, 30.0])}
DTYPES = [np.float64, np.float32]


def exact_columns(kernel, X, landmarks, length_scale):
    """Return kernel values from differences, in float64."""
    X, landmarks = X.astype(np.float64), landmarks.astype(np.float64)
    return np.stack([kernel.at((x - landmarks) / length_scale) for x in X])


def make_rows(rng, length_scale, offset=0.0, dtype=np.float64, spread=1.0):
    """Return rows, and landmarks some of which are rows."""
    rows, others = rng.normal(size=(300, 3)), rng.normal(size=(20, 3))
    rows, others = ((spread * values * length_scale + offset).astype(dtype) for values in (rows, others))
    rows[::7, 1] = 0.0  # stored in no sparse matrix
    return rows, np.vstack([rows[:20], others])


def tolerance_of(name, dtype):
    """Return an absolute tolerance; the exponential kernel has a kink, where rounding errors grow to their root."""
    if name == "exponential":
        return 2e-7
    return 2e-14 if dtype == np.float64 else 3e-6


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length_scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("name", KERNELS)
def test_values_are_those_of_the_kernel(rng, name, length_scale, dtype, container):
    kernel = KERNELS[name]()
    X, landmarks = make_rows(rng, length_scale, dtype=dtype)
    columns = kernel_columns(kernel, landmarks, LengthScales(length_scale), dtype)
    found = columns.features(container(X))
    assert found.dtype == columns.dtype == dtype
    assert columns.n_columns == 40
    expected = exact_columns(kernel, X, landmarks, length_scale)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance_of(name, dtype))
    scaled = kernel(X.astype(np.float64) / length_scale, landmarks.astype(np.float64) / length_scale)
    np.testing.assert_allclose(found, scaled, rtol=0, atol=tolerance_of(name, dtype))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_values_of_rows_that_a_metric_maps(rng, name, dtype, container):
    kernel, metric = KERNELS[name](), Metric(rng.normal(size=(2, 3)))
    X, landmarks = make_rows(rng, 1.0, offset=3.0, dtype=dtype)
    columns = kernel_columns(kernel, landmarks, metric, dtype)
    found = columns.features(container(X))
    assert found.dtype == columns.dtype == dtype
    mapped = [rows.astype(np.float64) @ metric.directions.T for rows in (X, landmarks)]
    expected = exact_columns(kernel, *mapped, 1.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=20 * tolerance_of(name, dtype))
    copy = pickle.loads(pickle.dumps(columns))
    assert copy.features(container(X)).tobytes() == found.tobytes()


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [10.0, 1e4])
@pytest.mark.parametrize("name", KERNELS)
def test_offset_of_the_data_costs_no_digits(rng, name, offset, dtype, container):
    kernel = KERNELS[name]()
    X, landmarks = rng.normal(size=(300, 3)) + offset, rng.normal(size=(20, 3)) + offset
    X, landmarks = X.astype(dtype), np.vstack([X[:20], landmarks]).astype(dtype)
    found = kernel_columns(kernel, landmarks, LengthScales(1.0), dtype).features(container(X))
    tolerance = 50 * tolerance_of(name, dtype) if container is sparse.csr_array else tolerance_of(name, dtype)
    np.testing.assert_allclose(found, exact_columns(kernel, X, landmarks, 1.0), rtol=0, atol=tolerance)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if issubclass(kernel, IsotropicKernel)])
def test_float32_landmarks_over_many_length_scales_use_float64(rng, name, container):
    """Squared distances of rows that are 300 length scales from the center have no digits left in float32."""
    kernel = KERNELS[name]()
    X, landmarks = make_rows(rng, 1.0, dtype=np.float32, spread=300.0)
    columns = kernel_columns(kernel, landmarks, LengthScales(1.0), np.float32)
    found = columns.features(container(X))
    assert found.dtype == np.float32
    # Sparse rows are divided by the length scale in float64 too.
    atol = 2e-5 if name == "exponential" else 1e-7
    np.testing.assert_allclose(found, exact_columns(kernel, X, landmarks, 1.0), rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_far_rows_have_small_values(name, dtype):
    """Rows up to the largest accepted distance give finite values that fall with the distance."""
    kernel = KERNELS[name]()
    X = np.array([[0.0], [1.0], [30.0], [1e3], [1e5]], dtype=dtype)
    found = kernel_columns(kernel, np.zeros((2, 1)), LengthScales(1.0), dtype).features(X)
    expected = exact_columns(kernel, X, np.zeros((2, 1)), 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype == np.float32 else 1e-10, atol=1e-37)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["gaussian", "matern", "laplacian"])
def test_blocks_and_threads_change_no_bit(rng, name, dtype):
    X, landmarks = rng.normal(size=(20_000, 3)).astype(dtype), rng.normal(size=(100, 3)).astype(dtype)
    columns = kernel_columns(KERNELS[name](), landmarks, LengthScales(1.0), dtype)
    assert columns.block_rows < 2000
    with threadpool_limits(1):
        single = map_rows(columns, X)
    with threadpool_limits(3):
        several = map_rows(columns, X)
    assert single.tobytes() == several.tobytes()
    np.testing.assert_array_equal(columns.features(X[: columns.block_rows]), single[: columns.block_rows])


def test_no_temporary_of_the_size_of_the_output(rng):
    X, landmarks = rng.normal(size=(20_000, 4)), rng.normal(size=(128, 4))
    columns = kernel_columns(Gaussian(), landmarks, LengthScales(1.0))
    columns.features(X[:10])
    tracemalloc.start()
    out = map_rows(columns, X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - out.nbytes < 4 * 2**20


def test_wide_sparse_rows_stay_sparse(rng):
    X = sparse.random_array((1000, 50_000), density=1e-3, rng=rng, format="csr")
    columns = kernel_columns(Gaussian(), X[:8].toarray(), LengthScales(7.0))
    tracemalloc.start()
    found = columns.features(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.05 * X.shape[0] * X.shape[1] * 8
    np.testing.assert_allclose(found[:30], Gaussian()(X[:30].toarray() / 7.0, X[:8].toarray() / 7.0), atol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "matern", "cauchy"])
def test_copies_give_the_same_values(rng, name):
    X, landmarks = make_rows(rng, 2.0)
    columns = kernel_columns(KERNELS[name](), landmarks, LengthScales(2.0))
    expected = columns.features(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(columns)).features(X), expected)


def test_rows_are_checked(rng):
    columns = kernel_columns(Gaussian(), rng.normal(size=(5, 3)), LengthScales(2.0))
    with pytest.raises(ValueError, match="X contains NaN"):
        columns.check(np.full((2, 3), np.nan))
    with pytest.raises(ValueError, match=r"up to 1e\+20 in column 1, which is 5e\+19 times the length scale"):
        columns.check(np.array([[0.0, 1e20, 0.0]]))


class Wave(Kernel):
    """A kernel that is neither isotropic nor a product."""

    def at(self, differences):
        return Gaussian().at(differences) * np.cos(differences.sum(axis=1))

    def uniform_dim(self, n_features):
        raise NotImplementedError

    def frequencies(self, uniforms):
        raise NotImplementedError

    def log_embedding(self, frequencies, bandwidths):
        raise NotImplementedError


def test_kernel_of_another_kind(rng):
    X, landmarks = make_rows(rng, 2.0)
    found = kernel_columns(Wave(), landmarks, LengthScales(2.0)).features(X)
    np.testing.assert_allclose(found, exact_columns(Wave(), X, landmarks, 2.0), atol=1e-14)


class TestFunctions:
    def test_function_is_called_on_blocks(self, rng):
        n_rows = []

        def record(X, Y):
            n_rows.append(len(X))
            return chi2_kernel(X, Y)

        X, landmarks = rng.random((3000, 4)), rng.random((200, 4))
        columns = kernel_columns(record, landmarks, Unscaled())
        found = map_rows(columns, X)
        np.testing.assert_array_equal(found, chi2_kernel(X, landmarks))
        assert max(n_rows) <= columns.block_rows < len(X)
        assert sum(n_rows) == len(X)

    def test_rows_of_any_kind(self):
        def common_letters(words, others):
            return [[len(set(word) & set(other)) for other in others] for word in words]

        columns = kernel_columns(FunctionKernel(common_letters), np.array(["ab", "xyz"]), Unscaled())
        assert columns.features(np.array(["a", "bay", "c"])).tolist() == [[1.0, 0.0], [2.0, 1.0], [0.0, 0.0]]

    @pytest.mark.parametrize("name", KERNELS)
    def test_kernel_function_equals_the_kernel(self, rng, name):
        X, Y = rng.normal(size=(300, 3)), rng.normal(size=(40, 3))
        kernel = KERNELS[name]()
        expected = exact_columns(kernel, X, Y, 1.0)
        for first in (X, sparse.csr_array(X)):
            for second in (Y, sparse.csr_array(Y)):
                np.testing.assert_allclose(kernel_function(kernel)(first, second), expected, atol=2e-7)
        np.testing.assert_array_equal(kernel_function(chi2_kernel)(X**2, Y**2), chi2_kernel(X**2, Y**2))
