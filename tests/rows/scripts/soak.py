# SPDX-License-Identifier: BSD-3-Clause
"""Call transform, predict and fit in eight threads for some seconds; print what is left behind."""

import gc
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from bochner import FourierFeatures, FourierRidge

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 10))
y = np.sin(X[:, 0])
features = FourierFeatures(n_frequencies=64, weighting="uniform", random_state=0).fit(X)
model = FourierRidge(features).fit(X, y)
expected = features.transform(X).tobytes(), model.predict(X[:1]).tobytes(), model.coef_.tobytes()


def usage():
    """Return the numbers of threads and of open files, and the memory in use in bytes."""
    gc.collect()
    own = Path("/proc/self")
    pages = int((own / "statm").read_text().split()[1])
    return len(list((own / "task").iterdir())), len(list((own / "fd").iterdir())), pages * os.sysconf("SC_PAGE_SIZE")


def call(number):
    if number % 50 == 0:
        return FourierRidge(features).fit(X, y).coef_.tobytes() == expected[2]
    if number % 2:
        return model.predict(X[:1]).tobytes() == expected[1]
    return features.transform(X).tobytes() == expected[0]


def run(seconds):
    end, n_calls, n_errors = time.monotonic() + seconds, 0, 0
    with ThreadPoolExecutor(8) as pool:
        while time.monotonic() < end:
            results = list(pool.map(call, range(n_calls, n_calls + 200)))
            n_calls, n_errors = n_calls + 200, n_errors + results.count(False)
    return n_calls, n_errors


run(float(sys.argv[1]) / 4)  # so that threads and buffers exist
before = usage()
n_calls, n_errors = run(float(sys.argv[1]) * 3 / 4)
after = usage()
blas = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
threads, handles, memory = (b - a for a, b in zip(before, after, strict=True))
print(
    f"calls={n_calls} errors={n_errors} blas={max(blas)} new_threads={threads} new_handles={handles} "
    f"new_megabytes={memory >> 20}"
)
