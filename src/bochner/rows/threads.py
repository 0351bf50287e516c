# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of rows, and the threads that work on them.

Work is spread over as many threads as BLAS may use, while BLAS itself is limited to one thread. So
`threadpoolctl.threadpool_limits`, `OPENBLAS_NUM_THREADS` and joblib's workers control the number of threads.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from bochner.rows.arrays import Array

__all__ = ["for_each_span", "in_threads", "row_blocks", "row_spans", "serial_blas", "sum_over_spans"]

Item = TypeVar("Item")
Result = TypeVar("Result")
BLOCK_BYTES = 1 << 20  # one block and its phases stay in the second-level cache

_serial_lock = Lock()
_serial_depth = 0
_serial_limit: Any = None


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield the function of every item, in order, computed in threads while BLAS uses one thread."""
    with serial_blas() as n_threads:
        if n_threads == 1 or len(items) == 1:
            yield from map(function, items)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                yield from pool.map(function, items)


def for_each_span(work: Callable[[slice], None], n_rows: int, block_rows: int) -> None:
    """Call `work` in threads on slices that cover the rows; each but the last is a whole number of blocks.

    There are a few slices per thread, so that a slow core does not delay the others.
    """
    n_blocks = -(-n_rows // block_rows)
    list(in_threads(work, row_spans(n_rows, block_rows * max(1, n_blocks // (4 * _blas_threads())))))


def sum_over_spans(part: Callable[[slice], Array], n_rows: int, span_rows: int) -> Array:
    """Sum `part` over slices of `span_rows` rows, computed in threads.

    The slices and the order of summation do not depend on the number of threads, so the result does not either. Parts
    are added as they arrive: about one per thread is held.
    """
    parts = in_threads(part, row_spans(n_rows, span_rows))
    total = next(parts)
    for addend in parts:
        np.add(total, addend, out=total)
    return total


def row_spans(n_rows: int, span_rows: int) -> list[slice]:
    """Return slices of `span_rows` rows, the last one shorter, that cover all rows."""
    return [slice(start, min(start + span_rows, n_rows)) for start in range(0, n_rows, span_rows)]


def row_blocks(n_rows: int, row_bytes: int, least: int = 16) -> Iterator[slice]:
    """Yield slices that cover `n_rows` rows, each of about one mebibyte and of at least `least` rows.

    Examples
    --------
    >>> from bochner.rows import row_blocks
    >>> list(row_blocks(40, row_bytes=2**16))
    [slice(0, 16, None), slice(16, 32, None), slice(32, 40, None)]
    """
    yield from row_spans(n_rows, max(least, BLOCK_BYTES // max(1, row_bytes)))


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _blas_threads() -> int:
    return max((library.num_threads for library in _blas().lib_controllers), default=1)


@contextmanager
def serial_blas() -> Iterator[int]:
    """Limit BLAS to one thread, and give the number of threads that it had for the caller to use.

    The limit is global to the process. When several Python threads enter, the first one sets the limit and the last one
    lifts it; the others find BLAS at one thread and use one thread themselves.
    """
    global _serial_depth, _serial_limit
    with _serial_lock:
        n_threads = _blas_threads()
        if _serial_depth == 0:
            _serial_limit = _blas().limit(limits=1)
        _serial_depth += 1
    try:
        yield n_threads
    finally:
        with _serial_lock:
            _serial_depth -= 1
            if _serial_depth == 0:
                _serial_limit.restore_original_limits()
