# SPDX-License-Identifier: BSD-3-Clause
"""Interrupt fit and transform at random moments; print how they ended, and what they left behind."""

import faulthandler
import signal
import sys
import time
from collections import Counter

import numpy as np
from threadpoolctl import threadpool_info

from bochner import FeatureRegressor, FourierFeatures


def threads_of_blas():
    return sorted({library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})


def interrupt(*_):
    raise KeyboardInterrupt


def interrupt_again(unraisable):
    """Repeat an interrupt that was raised in a destructor or a callback, where Python drops it."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 1e-3)


def main(n_interrupts):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 10))
    y = np.sin(X[:, 0])
    features = FourierFeatures(n_frequencies=64, random_state=0).fit(X)
    model = FeatureRegressor(features).fit(X, y)
    expected = features.transform(X).tobytes()
    signal.signal(signal.SIGALRM, interrupt)
    sys.unraisablehook = interrupt_again
    outcomes = Counter()
    for number in range(n_interrupts):
        faulthandler.dump_traceback_later(120, exit=True)
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, 2e-2))
            while True:
                if number % 3:
                    features.transform(X)
                else:
                    model.fit(X, y)
        except BaseException as error:
            outcomes[type(error).__name__] += 1
        while threads_of_blas() != [2]:  # for threads that the caller did not wait for
            time.sleep(0.01)
    endings = " ".join(f"{name} {count}" for name, count in outcomes.items())
    print(f"{endings}, threads of BLAS {threads_of_blas()}, same bits {features.transform(X).tobytes() == expected}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
