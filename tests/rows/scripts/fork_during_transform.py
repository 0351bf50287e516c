# SPDX-License-Identifier: BSD-3-Clause
"""Fork while another thread transforms; print the status of each child: 0 if it computes the same features."""

import os
import sys
import threading
import time

import numpy as np
from threadpoolctl import threadpool_info

from bochner import FourierFeatures


def status_of(child):
    """Wait for a child, at most a minute."""
    for _ in range(6000):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "hung"


def main(n_children):
    X = np.random.default_rng(0).normal(size=(4000, 20))
    features = FourierFeatures(weighting="uniform", random_state=0).fit(X)
    expected = features.transform(X).tobytes()
    stopped = threading.Event()

    def transform():
        while not stopped.is_set():
            features.transform(X)

    threading.Thread(target=transform, daemon=True).start()
    for number in range(n_children):
        time.sleep(0.003 * (number % 4 + 1))
        child = os.fork()
        if not child:
            is_equal = features.transform(X).tobytes() == expected
            libraries = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
            os._exit(0 if is_equal and libraries == {2} else 1)
        print(status_of(child), flush=True)
    stopped.set()


if __name__ == "__main__":
    main(int(sys.argv[1]))
