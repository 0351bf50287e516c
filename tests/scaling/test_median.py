# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist

from bochner.scaling.median import LENGTH_SCALES, entry_scale, median_distance


def test_median_distance_of_few_rows_is_exact(rng):
    X = rng.normal(size=(60, 4))
    assert median_distance(X, rng) == pytest.approx(np.median(pdist(X)), rel=1e-14)


def test_median_distance_of_many_rows_is_close(rng):
    X = rng.exponential(size=(2000, 3))
    assert median_distance(X, rng) == pytest.approx(np.median(pdist(X)), rel=0.02)


def test_entry_scale_equals_scikit_learn_gamma_scale(rng):
    X = rng.normal(loc=3.0, size=(50, 7))
    assert 1 / (2 * entry_scale(X, rng) ** 2) == pytest.approx(1 / (7 * X.var()), rel=1e-12)


def test_entry_scale_of_float32_with_offset_is_accurate(rng):
    X = (1000 + rng.normal(size=(10_000, 3))).astype(np.float32)
    assert entry_scale(X, rng) == pytest.approx(np.sqrt(1.5 * X.astype(np.float64).var()), rel=1e-9)


@pytest.mark.parametrize("name", LENGTH_SCALES)
def test_sparse_equals_dense(rng, name):
    X = sparse.random_array((80, 6), density=0.2, rng=rng, format="csr")
    sparse_scale = LENGTH_SCALES[name](X, np.random.default_rng(1))
    assert sparse_scale == pytest.approx(LENGTH_SCALES[name](X.toarray(), np.random.default_rng(1)), rel=1e-12)


@pytest.mark.parametrize("name", LENGTH_SCALES)
@pytest.mark.parametrize("value", [0.0, 5.0, 1e300, 0.1])
def test_constant_data_has_length_scale_one(rng, name, value):
    assert LENGTH_SCALES[name](np.full((20, 3), value), rng) == 1.0


@pytest.mark.parametrize("name", LENGTH_SCALES)
@pytest.mark.parametrize("factor", [1e-200, 1e-30, 1e30, 1e300])
def test_length_scale_is_proportional_to_extreme_units(rng, name, factor):
    X = rng.normal(size=(50, 3))
    expected = factor * LENGTH_SCALES[name](X, np.random.default_rng(1))
    assert LENGTH_SCALES[name](factor * X, np.random.default_rng(1)) == pytest.approx(expected, rel=1e-12)


def test_median_distance_ignores_equal_rows(rng):
    X = np.zeros((50, 1))
    X[:3] = [[1.0], [1.0], [3.0]]
    assert median_distance(X, rng) == 1.0


@pytest.mark.parametrize("name", LENGTH_SCALES)
def test_single_entry_has_length_scale_one(rng, name):
    assert LENGTH_SCALES[name](np.array([[2.0]]), rng) == 1.0
