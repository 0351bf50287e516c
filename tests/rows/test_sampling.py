# SPDX-License-Identifier: BSD-3-Clause
"""Samples of rows and of pairs of rows."""

import numpy as np
import pytest
from scipy import sparse

import bochner.rows.sampling
from bochner.rows import (
    LengthScales,
    MemoryRows,
    TrainingRows,
    draw_pairs,
    pair_differences,
    sample_batch,
    sample_rows,
    shuffled_sample,
    to_dense,
)
from bochner.rows.sampling import distinct_rows


def test_sampled_rows_are_distinct_and_in_order(rng):
    X = np.arange(50)[:, None]
    sample, counts = sample_rows(X, 20, rng)
    assert len(set(sample[:, 0])) == 20
    assert (np.diff(sample[:, 0]) > 0).all()
    assert (counts == 1).all()
    assert len(sample_rows(X, 51, rng)[0]) == 50


def test_rows_are_sampled_in_proportion_to_their_weights(rng):
    weights = np.array([0.0, 1.0, 0.0, 3.0])
    X = TrainingRows(np.arange(4.0)[:, None], weights, LengthScales(1.0))
    total = np.zeros(4)
    for _ in range(2000):
        rows, counts = sample_rows(X, 3, rng)
        total[rows[:, 0].astype(int)] += counts
    assert total[[0, 2]].sum() == 0
    assert total[3] / total.sum() == pytest.approx(0.75, abs=0.03)


def test_all_rows_keep_their_weights(rng):
    weights = np.array([0.0, 1.0, 0.0, 3.0])
    rows, counts = sample_rows(TrainingRows(np.arange(4.0)[:, None], weights, LengthScales(2.0)), 4, rng)
    np.testing.assert_array_equal(rows[:, 0], [0.0, 0.5, 1.0, 1.5])
    np.testing.assert_array_equal(counts, weights)


@pytest.mark.parametrize("distinct", [False, True])
def test_shuffled_samples_have_each_distinct_row_once(rng, distinct):
    X = np.array([[1.0], [2.0], [1.0], [3.0]])
    X, weights = distinct_rows(X, None) if distinct else (X, None)
    rows, counts = shuffled_sample(TrainingRows(X, weights, LengthScales(1.0), distinct), 10, rng)
    assert dict(zip(rows[:, 0].tolist(), counts.tolist(), strict=True)) == {1.0: 2.0, 2.0: 1.0, 3.0: 1.0}


def test_rows_are_drawn_once_and_equally_often(rng):
    source = MemoryRows(np.zeros((50, 1)))
    draws = [source.draw_rows(10, rng) for _ in range(2000)]
    assert all((np.diff(rows) > 0).all() and len(rows) == 10 for rows in draws)
    counts = np.bincount(np.concatenate(draws), minlength=50)
    assert abs(counts - 400).max() < 5 * np.sqrt(400)
    assert source.draw_rows(51, rng).tolist() == list(range(50))


def test_sample_of_a_source_keeps_targets_and_weights(rng):
    X = np.arange(40_000.0)[:, None]
    sample = sample_batch(MemoryRows(X, 2.0 * X[:, 0], 3.0 * X[:, 0]), rng)
    assert sample.X.shape == (2**15, 1)
    np.testing.assert_array_equal(sample.y, 2.0 * sample.X[:, 0])
    np.testing.assert_array_equal(sample.sample_weight, 3.0 * sample.X[:, 0])


def test_samples_of_wide_rows_are_smaller(rng, monkeypatch):
    monkeypatch.setattr(bochner.rows.sampling, "MAX_SAMPLE_BYTES", 8 * 10 * 1600)
    assert sample_batch(MemoryRows(np.zeros((4000, 10))), rng).X.shape == (1600, 10)
    assert sample_batch(MemoryRows(np.zeros((4000, 1000))), rng).X.shape == (1024, 1000)


def test_all_pairs_have_the_products_of_the_weights_of_their_rows(rng):
    weights = np.array([1.0, 3.0])
    first, second, pair_weights = draw_pairs(TrainingRows(np.zeros((2, 1)), weights, LengthScales(1.0)), 4, rng)
    np.testing.assert_allclose(pair_weights, weights[first] * weights[second] / 4.0)
    first, second, pair_weights = draw_pairs(TrainingRows(np.zeros((2, 1)), weights, LengthScales(1.0)), 3, rng)
    assert len(first) == 3
    assert (pair_weights == 1).all()


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_distinct_rows_do_not_depend_on_repetition_or_order(rng, container):
    X = rng.integers(0, 3, size=(12, 2)).astype(np.float64)
    weights = rng.integers(1, 4, size=12).astype(np.float64)
    order = rng.permutation(12)
    merged, totals = distinct_rows(container(X[order]), weights[order])
    again, repeated = distinct_rows(np.repeat(X, weights.astype(int), axis=0), None)
    np.testing.assert_array_equal(to_dense(merged), again)
    np.testing.assert_array_equal(totals, repeated)
    assert totals.sum() == weights.sum()


def test_distinct_rows_without_repetition_have_no_weights(rng):
    rows, weights = distinct_rows(np.array([[0.0], [-0.0], [1.0]])[1:], None)
    assert weights is None
    assert sorted(rows[:, 0].tolist()) == [0.0, 1.0]
    assert distinct_rows(np.array([[0.0], [-0.0]]), None)[1].tolist() == [2.0]


def test_pair_differences_of_a_sparse_matrix_are_dense(rng):
    X = sparse.random_array((300, 7), density=0.3, rng=rng, format="csr")
    first, second = np.arange(299), np.arange(1, 300)
    blocks = [block for _, block in pair_differences(X, first, second, width=10_000)]
    assert len(blocks) > 1
    np.testing.assert_allclose(np.vstack(blocks), X.toarray()[:-1] - X.toarray()[1:])
