# SPDX-License-Identifier: BSD-3-Clause
"""Fork while another thread transforms; print the status of each child: 0 if it computes the same features."""

import os
import sys
import threading
import time

import numpy as np
from threadpoolctl import threadpool_info

from bochner import FourierFeatures

X = np.random.default_rng(0).normal(size=(4000, 20))
features = FourierFeatures(weighting="uniform", random_state=0).fit(X)
expected = features.transform(X).tobytes()
stopped = threading.Event()


def transform():
    while not stopped.is_set():
        features.transform(X)


def status_of_child(pid):
    """Wait at most five seconds for a child."""
    for _ in range(500):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hung"


thread = threading.Thread(target=transform, daemon=True)
thread.start()
statuses = []
for number in range(int(sys.argv[1])):
    time.sleep(0.003 * (number % 4 + 1))
    child = os.fork()
    if not child:
        is_equal = features.transform(X).tobytes() == expected
        libraries = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
        os._exit(0 if is_equal and set(libraries) == {2} else 1)
    statuses.append(status_of_child(child))
stopped.set()
thread.join(10)
print(*statuses)
