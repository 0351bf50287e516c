# SPDX-License-Identifier: BSD-3-Clause
"""Operations on rows in memory that are dense arrays or CSR matrices."""

import numpy as np
import pytest
from scipy import sparse

from bochner.rows import column_ranges, is_sparse, max_abs, to_dense
from bochner.rows.arrays import norm, stack_rows


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_rows_are_recognized_and_converted(rng, container):
    X = np.where(rng.random((5, 3)) < 0.5, 0.0, 1.0).astype(np.float32)
    assert is_sparse(container(X))
    assert to_dense(container(X)).dtype == np.float64
    np.testing.assert_array_equal(to_dense(container(X)), X)


def test_dense_rows_are_returned_as_they_are(rng):
    X = rng.normal(size=(5, 3))
    assert not is_sparse(X)
    np.testing.assert_array_equal(to_dense(X), X)


def test_blocks_are_stacked(rng):
    X = np.where(rng.random((6, 3)) < 0.5, 0.0, 1.0)
    np.testing.assert_array_equal(stack_rows([X[:2], X[2:]]), X)
    mixed = stack_rows([X[:2], sparse.csr_array(X[2:])])
    assert mixed.format == "csr"
    np.testing.assert_array_equal(mixed.toarray(), X)


def test_largest_magnitudes_count_negative_values_and_implicit_zeros():
    X = np.array([[0.0, -3.0, 1.0], [0.0, 2.0, 0.0]])
    np.testing.assert_array_equal(max_abs(X), [0, 3, 1])
    np.testing.assert_array_equal(max_abs(sparse.csr_array(X)), [0, 3, 1])


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_column_ranges(rng, kind):
    X = rng.normal(size=(300, 5))
    X[np.abs(X) < 0.5] = 0.0
    low, high = column_ranges(kind(X))
    np.testing.assert_array_equal(low, X.min(axis=0))
    np.testing.assert_array_equal(high, X.max(axis=0))


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("n_rows", [0, 1, 300, 300_000])
def test_norm(rng, kind, n_rows):
    X = rng.normal(size=(n_rows, 5))
    assert norm(kind(X)) == pytest.approx(np.linalg.norm(X), rel=1e-13)
    assert norm(kind(X)[::2]) == pytest.approx(np.linalg.norm(X[::2]), rel=1e-13)


def test_norm_of_large_numbers_is_infinite():
    assert norm(np.full((2, 2), 1e200)) == np.inf
