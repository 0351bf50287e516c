# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of rows, and the threads that work on them.

Work is spread over as many threads as BLAS may use, while BLAS itself is limited to one thread (see `workers`). So
`threadpoolctl.threadpool_limits`, `OPENBLAS_NUM_THREADS` and joblib's workers control the number of threads.
"""

from collections.abc import Callable, Iterator
from functools import reduce

import numpy as np

from bochner.rows.arrays import Array
from bochner.rows.block_sizes import MAX_BLOCK_BYTES, MIN_BLOCK_ROWS
from bochner.rows.workers import blas_threads, in_threads

__all__ = ["for_each_span", "row_blocks", "row_spans", "sum_over_spans"]

# Multiplications up to which OpenBLAS uses one thread, of a matrix or vector with a vector, and of two matrices.
SMALL_VECTOR, SMALL_MATRIX = 1 << 13, 1 << 18


def for_each_span(work: Callable[[slice], None], n_rows: int, block_rows: int, small_rows: int = 0) -> None:
    """Call `work` in threads on slices that cover the rows; each but the last is a whole number of blocks.

    There are a few slices per thread, so that a slow core does not delay the others. A single block takes less time
    than to wake up a thread: the calling thread does its work, in slices of `small_rows` rows, for which BLAS uses one
    thread. With fewer than 16 of them, products would be slow.
    """
    if n_rows <= block_rows and small_rows >= min(n_rows, MIN_BLOCK_ROWS):
        for span in row_spans(n_rows, max(1, small_rows)):
            work(span)
        return
    n_blocks = -(-n_rows // block_rows)
    list(in_threads(work, row_spans(n_rows, block_rows * max(1, n_blocks // (4 * blas_threads())))))


def sum_over_spans(part: Callable[[slice], Array], n_rows: int, span_rows: int, is_small: bool = False) -> Array:
    """Sum `part` over slices of `span_rows` rows, computed in threads.

    The slices and the order of summation do not depend on the number of threads, so the result does not either. Parts
    are added as they arrive: about one per thread is held. `is_small` is as in `in_threads`.
    """

    def add(total: Array, addend: Array) -> Array:
        return np.asarray(np.add(total, addend, out=total))

    return reduce(add, in_threads(part, row_spans(n_rows, span_rows), is_small))


def row_spans(n_rows: int, span_rows: int) -> list[slice]:
    """Return slices of `span_rows` rows, the last one shorter, that cover all rows."""
    return [slice(start, min(start + span_rows, n_rows)) for start in range(0, n_rows, span_rows)]


def row_blocks(n_rows: int, row_bytes: int, least: int = MIN_BLOCK_ROWS) -> Iterator[slice]:
    """Yield slices that cover `n_rows` rows, each of about one mebibyte and of at least `least` rows.

    Examples
    --------
    >>> from bochner.rows import row_blocks
    >>> list(row_blocks(40, row_bytes=2**16))
    [slice(0, 16, None), slice(16, 32, None), slice(32, 40, None)]
    """
    yield from row_spans(n_rows, max(least, MAX_BLOCK_BYTES // max(1, row_bytes)))
