# SPDX-License-Identifier: BSD-3-Clause
"""Operations on rows in memory that are dense arrays or CSR matrices."""

import numpy as np
import pytest
from scipy import sparse

from bochner.rows import as_csr, is_sparse, stack_rows, to_dense


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_rows_are_recognized_and_converted(rng, container):
    X = np.where(rng.random((5, 3)) < 0.5, 0.0, 1.0).astype(np.float32)
    assert is_sparse(container(X))
    assert to_dense(container(X)).dtype == np.float64
    np.testing.assert_array_equal(to_dense(container(X)), X)
    np.testing.assert_array_equal(as_csr(container(X))[[2, 0]].toarray(), X[[2, 0]])


def test_dense_rows_are_returned_as_they_are(rng):
    X = rng.normal(size=(5, 3))
    assert not is_sparse(X)
    assert as_csr(X) is X
    np.testing.assert_array_equal(to_dense(X), X)


def test_blocks_are_stacked(rng):
    X = np.where(rng.random((6, 3)) < 0.5, 0.0, 1.0)
    np.testing.assert_array_equal(stack_rows([X[:2], X[2:]]), X)
    mixed = stack_rows([X[:2], sparse.csr_array(X[2:])])
    assert mixed.format == "csr"
    np.testing.assert_array_equal(mixed.toarray(), X)
