# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of rows, and the threads that work on them while BLAS uses one thread.

Work is spread over as many threads as BLAS may use. So `threadpoolctl.threadpool_limits`, `OPENBLAS_NUM_THREADS` and
joblib's workers control the number of threads.

OpenBLAS has one number of threads for the whole process; even its `openblas_set_num_threads_local` sets that of all
threads. So the limit needs a counter and a lock. Only our own threads touch them: Python raises KeyboardInterrupt in
the main thread, and no other code knows our threads, so that nothing interrupts them between two steps. Callers only
wait for messages. Threads whose caller was interrupted end their work by themselves. A forked process has none of its
parent's threads, and starts with a new lock and new threads.

Threads are kept, because the memory of a new one is not yet mapped: transforming 3,000 rows would take 1.4 times the
processor time. `concurrent.futures` refuses work once the main thread has ended, also that of other threads.
"""

import os
import sys
import threading
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from ctypes import PyDLL
from functools import cache, partial, wraps
from itertools import product
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

from bochner.rows.block_sizes import MAX_BLOCK_BYTES, MIN_BLOCK_ROWS

Item = TypeVar("Item")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")
MAX_IDLE = 16  # threads that wait for work


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


def row_spans(n_rows: int, span_rows: int) -> list[slice]:
    """Return slices of `span_rows` rows, the last one shorter, that cover all rows."""
    return [slice(start, min(start + span_rows, n_rows)) for start in range(0, n_rows, span_rows)]


def row_blocks(n_rows: int, row_bytes: int, least: int = MIN_BLOCK_ROWS) -> list[slice]:
    """Return slices that cover `n_rows` rows, each of about one mebibyte and of at least `least` rows.

    Examples
    --------
    >>> from bochner.rows import row_blocks
    >>> row_blocks(40, row_bytes=2**16)
    [slice(0, 16, None), slice(16, 32, None), slice(32, 40, None)]
    """
    return row_spans(n_rows, max(least, MAX_BLOCK_BYTES // max(1, row_bytes)))


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield the function of every item, in order, computed in threads while BLAS uses one thread.

    There are as many threads as BLAS may use, or one while BLAS is limited for other callers. The calling thread
    computes if BLAS has one thread anyway, and if it is one of these threads itself. The first error, in the order of
    the items, is raised, and later items are not started.
    """
    if getattr(_this_thread, "is_worker", False) or _limit.is_redundant():
        yield from map(function, items)
        return
    task = _Task(function, items)
    n_started, arrived, n_yielded = 0, {}, 0
    try:
        for _ in range(min(blas_threads(), len(items))):
            _crew.run(partial(copy_context().run, task.work))  # with the caller's np.errstate
            n_started += 1
        while len(task.ended) < n_started or not task.outcomes.empty():
            number, value, error = task.outcomes.get()
            arrived[number] = value, error
            while n_yielded in arrived:
                value, error = arrived.pop(n_yielded)
                if error is not None:
                    raise error
                yield value
                del value  # the caller may have dropped a large one
                n_yielded += 1
    finally:
        error = None  # the frames in its traceback would keep it, and themselves, alive
        task.pending.clear()
        while len(task.ended) < n_started:  # for items in progress; a second interrupt does not wait for them
            task.outcomes.get()


def serial_blas(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a function to run while BLAS uses one thread, so that no bit depends on the number of threads."""

    @wraps(function)
    def serial(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        (result,) = in_threads(lambda _: function(*args, **kwargs), (None,))
        return result

    return serial


class _Task(Generic[Item, Result]):
    """A function of several items, which some threads divide among themselves."""

    def __init__(self, function: Callable[[Item], Result], items: Sequence[Item]) -> None:
        self.function = function
        self.items = items
        self.pending = deque(range(len(items)))
        self.outcomes: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()  # numbers, results, errors
        self.ended: deque[None] = deque()  # one entry per thread; counting messages, an interrupt would lose one

    def work(self) -> None:
        """Compute items until none is left."""
        try:
            with _limit:
                while self.pending:
                    try:
                        number = self.pending.popleft()
                    except IndexError:  # another thread has taken the last one
                        break
                    try:
                        self.outcomes.put((number, self.function(self.items[number]), None))
                    except BaseException as error:
                        self.pending.clear()
                        self.outcomes.put((number, None, error))
        finally:
            self.ended.append(None)
            self.outcomes.put((-1, None, None))  # wakes up the caller


class _Crew:
    """Threads that wait for work. A call that finds none waiting starts another one."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self.waiting: deque[None] = deque()  # one entry per thread; an interrupt may lose one, which is found again

    def run(self, call: Callable[[], object]) -> None:
        """Run a call in a thread."""
        try:
            self.waiting.pop()
        except IndexError:
            start_new_thread(self._work, ())  # unlike `Thread.start`, it has no lock that an interrupt leaves locked
        self.calls.put(call)

    def _work(self) -> None:
        _this_thread.is_worker = True
        for library in filter(_is_local, _libraries()):
            _set_threads(library)(1)
        sys.settrace(threading.gettrace())  # debuggers and coverage follow
        while True:
            self.calls.get()()
            if len(self.waiting) >= MAX_IDLE:
                return
            self.waiting.append(None)


class _Limit:
    """The limit of one thread for BLAS, from the first thread that enters to the last one that leaves."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.before: list[int] = []
        self.n_changes = 0  # odd while the limit is set

    def __enter__(self) -> None:
        with self.lock:
            if self.depth == 0:
                self.before = [library.num_threads for library in _libraries()]
                self.n_changes += 1
                self.set([1] * len(self.before))
            self.depth += 1

    def __exit__(self, *_: object) -> None:
        if self is not _limit:  # in a child that one of our threads has forked
            return
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                self.lift()

    def lift(self) -> None:
        """Give every library as many threads as it had."""
        if self.n_changes % 2:
            self.set(self.before)
            self.n_changes += 1

    def set(self, numbers: list[int]) -> None:
        for library, number in zip(_libraries(), numbers, strict=True):
            if not _is_local(library):
                _set_threads(library)(number)

    def is_redundant(self) -> bool:
        """Return whether BLAS has one thread without this limit, and no thread has changed the limit meanwhile."""
        n_changes = self.n_changes
        return blas_threads() == 1 and n_changes % 2 == 0 and n_changes == self.n_changes


def blas_threads() -> int:
    """Return the number of threads of BLAS."""
    return max((library.num_threads for library in _libraries()), default=1)


@cache
def _libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _is_local(library: Any) -> bool:
    """Return whether a library has a number of threads for each thread that calls it."""
    if library.internal_api == "openblas":
        return bool(library.threading_layer == "openmp")
    return bool(library.internal_api == "mkl")


@cache
def _set_threads(library: Any) -> Callable[[int], object]:
    """Return the function of a library that sets its number of threads.

    The method of threadpoolctl does nothing for OpenBLAS in all threads but the first one that has called it. Also,
    the function of OpenBLAS holds a lock. It is called with the GIL, so that no thread forks meanwhile: the child would
    wait for the lock forever.
    """
    function: Callable[[int], object] = library.set_num_threads
    if library.internal_api == "openblas":
        names = ["omp_set_num_threads"] if _is_local(library) else []
        names += [f"{a}openblas_set_num_threads{b}" for a, b in product(("", "scipy_"), ("", "64_", "_64"))]
        with_gil = PyDLL(library.filepath, handle=library.dynlib._handle)
        function = next(getattr(with_gil, name) for name in names if hasattr(with_gil, name))
    return function


def _after_fork() -> None:
    """Replace what belongs to threads that the child does not have."""
    global _crew, _limit
    interrupted, _crew, _limit = _limit, _Crew(), _Limit()
    interrupted.lift()


_this_thread = threading.local()
_crew = _Crew()
_limit = _Limit()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
