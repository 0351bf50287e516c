# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of rows; threads: order, errors, and the limit of BLAS after forks, interrupts and several callers."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import get_ident

import numpy as np
import pytest
from joblib import Parallel, delayed
from threadpoolctl import threadpool_info, threadpool_limits

from bochner import FourierFeatures
from bochner.rows import for_each_span, in_threads, row_blocks, row_spans, serial_blas

SCRIPTS = Path(__file__).parent / "scripts"


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def run_script(name, *arguments, timeout):
    """Run a script in a process of its own with two threads for BLAS, and return its output."""
    command = [sys.executable, SCRIPTS / name, *map(str, arguments)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    result = subprocess.run(command, env=environment, timeout=timeout, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


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


@pytest.mark.parametrize("n_threads", [1, 3])
def test_results_are_in_the_order_of_the_items(n_threads):
    with threadpool_limits(n_threads):
        results = list(in_threads(lambda item: (item, get_ident()), range(50)))
    assert [item for item, _ in results] == list(range(50))
    assert len({thread for _, thread in results}) <= n_threads
    assert list(in_threads(str, [])) == []


def test_blas_is_limited_inside_and_restored_after():
    with threadpool_limits(2):
        assert serial_blas(blas_threads)() == {1}
        assert list(in_threads(lambda _: blas_threads(), range(5))) == [{1}] * 5
        assert blas_threads() == {2}


def test_one_thread_needs_no_other_thread():
    def ident(_):
        return get_ident()

    with threadpool_limits(1):
        assert set(in_threads(ident, range(5))) == {get_ident()}
    with threadpool_limits(2):
        assert get_ident() not in set(in_threads(ident, range(5)))


def test_nested_use_stays_in_the_same_thread():
    def nested(item):
        return get_ident(), {get_ident(), *in_threads(lambda _: get_ident(), range(3)), serial_blas(get_ident)()}

    with threadpool_limits(2):
        for thread, threads in in_threads(nested, range(8)):
            assert threads == {thread}
        assert blas_threads() == {2}


def test_limit_holds_in_every_calling_thread():
    # threadpoolctl lets only the first thread that has set the number of threads of OpenBLAS change it again.
    with threadpool_limits(2):
        serial_blas(blas_threads)()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(serial_blas(blas_threads)).result() == {1}
        assert blas_threads() == {2}


@pytest.mark.parametrize("backend", ["threads", "joblib"])
def test_eight_callers_get_the_same_bits_and_leave_blas_as_it_was(rng, backend):
    X = rng.normal(size=(3000, 5))
    features = FourierFeatures(n_frequencies=64, weighting="uniform", random_state=0).fit(X)
    expected = features.transform(X).tobytes()
    with threadpool_limits(2):
        if backend == "threads":
            with ThreadPoolExecutor(8) as pool:
                results = list(pool.map(lambda _: features.transform(X).tobytes(), range(40)))
        else:
            tasks = (delayed(features.transform)(X) for _ in range(40))
            results = [result.tobytes() for result in Parallel(8, backend="threading")(tasks)]
        assert results == [expected] * 40
        assert blas_threads() == {2}


@pytest.mark.parametrize("n_threads", [1, 3])
def test_first_error_in_order_reaches_the_caller_and_lifts_the_limit(n_threads):
    started = []

    def fail(item):
        started.append(item)
        if item >= 4:
            time.sleep(0.02 * (6 - item))  # later items fail earlier
            raise RuntimeError(f"item {item}")
        return item

    results = []
    with threadpool_limits(n_threads):
        with pytest.raises(RuntimeError, match="item 4"):
            results.extend(in_threads(fail, range(1000)))
        assert blas_threads() == {n_threads}
    assert results == [0, 1, 2, 3]
    assert len(started) < 20


def test_caller_that_stops_early_waits_for_items_in_progress():
    active = []

    def work(item):
        active.append(item)
        time.sleep(0.01)
        active.remove(item)

    with threadpool_limits(2):
        for _ in in_threads(work, range(100)):
            break
        assert not active
        assert blas_threads() == {2}


def test_settings_of_numpy_reach_the_threads():
    with threadpool_limits(2), np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        list(in_threads(lambda one: np.ones(3) / (one - 1.0), np.ones(4)))


def test_idle_threads_are_reused():
    with threadpool_limits(2):
        list(in_threads(str, range(9)))
        n_threads = len(sys._current_frames())
        for _ in range(50):
            list(in_threads(str, range(9)))
        assert len(sys._current_frames()) <= n_threads + 6  # some may not wait again when the next call needs them


def test_interrupt_in_another_thread_than_the_main_one():
    with threadpool_limits(2):
        entered, outcome = threading.Event(), []

        def work(_):
            entered.set()
            time.sleep(0.05)

        def call():
            try:
                list(in_threads(work, range(200)))
            except KeyboardInterrupt:
                outcome.append(blas_threads())

        caller = threading.Thread(target=call)
        caller.start()
        entered.wait()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(caller.ident), ctypes.py_object(KeyboardInterrupt))
        caller.join(60)
        assert outcome == [{2}]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_children_forked_during_transform_work():
    assert run_script("fork_during_transform.py", 6, timeout=600).split() == ["0"] * 6


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
@pytest.mark.parametrize("n_interrupts", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_interrupts_leave_blas_and_estimators_usable(n_interrupts):
    output = run_script("interrupts.py", n_interrupts, timeout=600)
    assert output.strip() == f"KeyboardInterrupt {n_interrupts}, threads of BLAS [2], same bits True"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads and memory are read from /proc")
def test_thousands_of_calls_in_eight_threads_leave_nothing_behind():
    output = run_script("soak.py", 2000, timeout=1200)
    numbers = {name: int(value) for name, value in re.findall(r"(\w+)=(-?\d+)", output)}
    assert numbers["n_calls"] >= 2000
    assert numbers["n_errors"] == 0
    assert numbers["blas"] == 2
    assert numbers["threads"] <= 8  # at most one more per caller than after the first calls
    assert numbers["handles"] <= 0
    assert numbers["megabytes"] < 30
