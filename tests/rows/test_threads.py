# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of rows, and the threads that work on them."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from bochner.rows import for_each_span, row_blocks, row_spans, sum_over_spans


@pytest.mark.parametrize("n_rows", [0, 1, 15, 16, 17, 1000])
@pytest.mark.parametrize("row_bytes", [1, 1000, 2**17, 2**30])
def test_row_blocks_cover_every_row_once(n_rows, row_bytes):
    rows = [i for block in row_blocks(n_rows, row_bytes) for i in range(n_rows)[block]]
    assert rows == list(range(n_rows))


def test_row_blocks_are_bounded():
    assert max(block.stop - block.start for block in row_blocks(10**6, 2**10)) == 2**10


def test_row_spans():
    assert row_spans(7, 3) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert row_spans(0, 3) == []


@pytest.mark.parametrize("n_rows", [0, 1, 64, 1000])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("small_rows", [0, 1, 16, 40])
def test_spans_cover_every_row_once_in_whole_blocks(n_rows, n_threads, small_rows):
    counts, spans = np.zeros(n_rows, dtype=int), []

    def work(span):
        counts[span] += 1
        spans.append(span)

    with threadpool_limits(n_threads):
        for_each_span(work, n_rows, 64, small_rows)
    assert (counts == 1).all()
    is_single = n_rows <= 64 and small_rows >= min(n_rows, 16)
    assert all(span.start % (max(1, small_rows) if is_single else 64) == 0 for span in spans)


def test_sums_do_not_depend_on_the_number_of_threads(rng):
    values = rng.normal(size=(1000, 3))
    totals = []
    for n_threads in (1, 3):
        with threadpool_limits(n_threads):
            totals.append(sum_over_spans(lambda span: values[span].sum(axis=0), 1000, 30))
    np.testing.assert_allclose(totals[0], values.sum(axis=0))
    assert totals[0].tobytes() == totals[1].tobytes()
