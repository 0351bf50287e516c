# SPDX-License-Identifier: BSD-3-Clause
"""Call transform, predict and fit in eight threads, some thousand times; print what is left behind."""

import gc
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from bochner import FeatureRegressor, FourierFeatures


def usage():
    """Return the numbers of threads and of open files, and the memory in use in bytes."""
    gc.collect()
    own = Path("/proc/self")
    pages = int((own / "statm").read_text().split()[1])
    return len(list((own / "task").iterdir())), len(list((own / "fd").iterdir())), pages * os.sysconf("SC_PAGE_SIZE")


def main(least_calls):
    X = np.random.default_rng(0).normal(size=(2000, 10))
    y = np.sin(X[:, 0])
    features = FourierFeatures(n_frequencies=64, weighting="uniform", random_state=0).fit(X)
    model = FeatureRegressor(features).fit(X, y)
    calls = [
        lambda: FeatureRegressor(features).fit(X, y).predict(X[:9]),
        *[lambda: features.transform(X).mean(axis=0), lambda: model.predict(X[:1])] * 25,
    ]
    expected = [call() for call in calls]

    def run(least_calls):
        n_calls, n_errors = 0, 0
        with ThreadPoolExecutor(8) as pool:
            while n_calls < least_calls:
                results = list(pool.map(lambda call: call(), 4 * calls))
                # Bits depend on the number of threads that a call finds free.
                n_errors += not all(map(np.allclose, results, 4 * expected))
                n_calls += len(results)
        return n_calls, n_errors

    run(least_calls / 10)  # so that threads and buffers exist
    before = usage()
    n_calls, n_errors = run(least_calls)
    threads, handles, memory = (b - a for a, b in zip(before, usage(), strict=True))
    blas = max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
    print(f"{n_calls=} {n_errors=} {blas=} {threads=} {handles=} megabytes={memory >> 20}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
