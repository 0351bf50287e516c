# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from scipy import sparse

from bochner.rows import (
    ScaledRows,
    distinct_rows,
    draw_pairs,
    max_abs,
    pair_differences,
    row_blocks,
    sample_pairs,
    sample_rows,
    to_dense,
)


@pytest.mark.parametrize("n_rows", [0, 1, 15, 16, 17, 1000])
@pytest.mark.parametrize("row_bytes", [1, 1000, 2**17, 2**30])
def test_row_blocks_cover_every_row_once(n_rows, row_bytes):
    rows = [i for block in row_blocks(n_rows, row_bytes) for i in range(n_rows)[block]]
    assert rows == list(range(n_rows))


def test_row_blocks_are_bounded():
    assert max(block.stop - block.start for block in row_blocks(10**6, 2**10)) == 2**10


@pytest.mark.parametrize("scale", [2.0, np.array([1.0, 2.0, 4.0])])
def test_scaled_rows_divide_dense_and_sparse_rows_alike(rng, scale):
    X = rng.normal(size=(6, 3)).astype(np.float32)
    X[X < 0] = 0
    expected = X[[1, 4]].astype(np.float64) / scale
    np.testing.assert_array_equal(ScaledRows(X, scale)[np.array([1, 4])], expected)
    scaled = ScaledRows(sparse.csr_array(X), scale)[np.array([1, 4])]
    assert sparse.issparse(scaled)
    np.testing.assert_allclose(scaled.toarray(), expected, rtol=1e-15)


def test_sample_rows_are_distinct_and_in_order(rng):
    X = np.arange(50)[:, None]
    sample, counts = sample_rows(X, 20, rng)
    assert len(set(sample[:, 0])) == 20
    assert (np.diff(sample[:, 0]) > 0).all()
    assert (counts == 1).all()
    assert len(sample_rows(X, 51, rng)[0]) == 50


def test_rows_with_weights_are_sampled_in_proportion(rng):
    weights = np.array([0.0, 1.0, 0.0, 3.0])
    X = ScaledRows(np.arange(4.0)[:, None], 1.0, weights)
    total = np.zeros(4)
    for _ in range(2000):
        rows, counts = sample_rows(X, 3, rng)
        total[rows[:, 0].astype(int)] += counts
    assert total[[0, 2]].sum() == 0
    assert total[3] / total.sum() == pytest.approx(0.75, abs=0.03)


def test_all_pairs_carry_the_products_of_the_rows_weights(rng):
    weights = np.array([1.0, 3.0])
    first, second, pair_weights = draw_pairs(ScaledRows(np.zeros((2, 1)), 1.0, weights), 4, rng)
    np.testing.assert_allclose(pair_weights, weights[first] * weights[second] / 4.0)
    first, second, pair_weights = draw_pairs(ScaledRows(np.zeros((2, 1)), 1.0, weights), 3, rng)
    assert len(first) == 3
    assert (pair_weights == 1).all()


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_distinct_rows_cannot_tell_weights_from_repetitions_and_order(rng, container):
    X = rng.integers(0, 3, size=(12, 2)).astype(np.float64)
    weights = rng.integers(1, 4, size=12).astype(np.float64)
    order = rng.permutation(12)
    merged, sums = distinct_rows(container(X[order]), weights[order])
    again, repeated = distinct_rows(np.repeat(X, weights.astype(int), axis=0), None)
    np.testing.assert_array_equal(to_dense(merged), again)
    np.testing.assert_array_equal(sums, repeated)
    assert sums.sum() == weights.sum()


def test_sample_pairs_never_pair_a_row_with_itself_and_are_uniform(rng):
    first, second = sample_pairs(5, 9, rng)
    assert (first != second).all()
    first, second = sample_pairs(200, 15_000, rng)
    assert (first != second).all()
    for side in (first, second):
        counts = np.bincount(side, minlength=200)
        assert abs(counts - 75).max() < 6 * np.sqrt(75)


def test_pair_differences_of_a_sparse_matrix_are_dense(rng):
    X = sparse.random_array((300, 7), density=0.3, rng=rng, format="csr")
    first, second = np.arange(299), np.arange(1, 300)
    blocks = [block for _, block in pair_differences(X, first, second, width=10_000)]
    assert len(blocks) > 1
    np.testing.assert_allclose(np.vstack(blocks), X.toarray()[:-1] - X.toarray()[1:])


def test_max_abs_counts_negative_values_and_implicit_zeros():
    X = np.array([[0.0, -3.0, 1.0], [0.0, 2.0, 0.0]])
    np.testing.assert_array_equal(max_abs(X), [0, 3, 1])
    np.testing.assert_array_equal(max_abs(sparse.csr_array(X)), [0, 3, 1])


def test_to_dense_makes_float64():
    assert to_dense(sparse.eye_array(2, dtype=np.float32).tocsr()).dtype == np.float64
