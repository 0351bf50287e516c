# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of rows, and the threads that work on them."""

from concurrent.futures import ThreadPoolExecutor
from threading import get_ident

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bochner.rows import for_each_span, in_threads, row_blocks, row_spans, serial_blas, sum_over_spans


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


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
def test_spans_cover_every_row_once_in_whole_blocks(n_rows, n_threads):
    counts, spans = np.zeros(n_rows, dtype=int), []

    def work(span):
        counts[span] += 1
        spans.append(span)

    with threadpool_limits(n_threads):
        for_each_span(work, n_rows, 16)
    assert (counts == 1).all()
    assert all(span.start % 16 == 0 for span in spans)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_results_are_in_the_order_of_the_items(n_threads):
    with threadpool_limits(n_threads):
        results = list(in_threads(lambda item: (item, get_ident()), range(50)))
    assert [item for item, _ in results] == list(range(50))
    assert len({thread for _, thread in results}) <= n_threads


def test_sums_do_not_depend_on_the_number_of_threads(rng):
    values = rng.normal(size=(1000, 3))
    totals = []
    for n_threads in (1, 3):
        with threadpool_limits(n_threads):
            totals.append(sum_over_spans(lambda span: values[span].sum(axis=0), 1000, 30))
    np.testing.assert_allclose(totals[0], values.sum(axis=0))
    assert totals[0].tobytes() == totals[1].tobytes()


def test_blas_is_limited_inside_and_restored_after(rng):
    X = rng.normal(size=(2000, 4))
    with threadpool_limits(2):
        with serial_blas() as n_threads:
            assert n_threads == 2
            assert blas_threads() == {1}
            with serial_blas() as nested:
                assert nested == 1
            assert blas_threads() == {1}
        assert blas_threads() == {2}
        with ThreadPoolExecutor(4) as pool:  # the limit is global, and the last thread to leave lifts it
            sums = pool.map(lambda _: sum_over_spans(lambda span: X[span].T @ X[span], 2000, 50), range(12))
            for total in sums:
                np.testing.assert_allclose(total, X.T @ X)
        assert blas_threads() == {2}


def test_error_in_a_thread_reaches_the_caller_and_lifts_the_limit():
    def fail(_):
        raise RuntimeError("in a thread")

    with threadpool_limits(2):
        with pytest.raises(RuntimeError, match="in a thread"):
            for_each_span(fail, 1000, 10)
        assert blas_threads() == {2}
