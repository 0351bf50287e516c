# SPDX-License-Identifier: BSD-3-Clause
"""Clusters of Dask for the command line: one of this computer's cores, or one that runs somewhere."""

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bochner.rows import ClusterError

__all__ = ["LOCAL", "open_cluster"]

CONNECTING_SECONDS = 5
LOCAL = "local"  # what --dask means without an address
ON_CLUSTERS = {  # settings of Dask: workers write no log, and one that has lost all of them does not wait forever
    "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical",
    "distributed.scheduler.no-workers-timeout": "30s",
}


@contextmanager
def open_cluster(address: str, say: Callable[[str], None]) -> Iterator[None]:
    """A cluster for what is computed meanwhile."""
    from dask import config

    with config.set(ON_CLUSTERS), _quiet_log(), _local() if address == LOCAL else _connected(address) as client:
        from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

        say(f"Dashboard of the cluster: {client.dashboard_link}")
        if not client.scheduler_info()["workers"]:
            say("The cluster has no workers yet: waiting for one.")
        try:
            yield
        except ClusterError as error:
            if not isinstance(error.__cause__, KilledWorker):
                raise
            raise ClusterError(
                "Some rows have brought down one worker after the other, most likely for want of memory; write files "
                "with smaller row groups, or give --dask the address of a cluster whose workers have more memory."
            ) from error
        except (NoValidWorkerError, NoWorkerError) as error:
            raise ClusterError(
                "All workers have died, most likely for want of memory; close other programs, or give --dask the "
                "address of a larger cluster."
            ) from error


@contextmanager
def _local() -> Iterator[Any]:
    """A client of one worker a core of this computer."""
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    with LocalCluster(processes=True, threads_per_worker=1, **options) as local, Client(local) as client:
        client.run(_ignore_interrupts)
        yield client


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """A client of a scheduler that runs somewhere."""
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECTING_SECONDS)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"--dask {address} cannot be reached: {error}; start a scheduler there, or leave the address out."
        ) from error
    with client:
        yield client


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which all processes of a terminal get, to the one that ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Keep Dask's own account of a failure from drowning the sentence about it."""
    from distributed.utils import silence_logging_cmgr

    with ExitStack() as stack:
        for name in ("distributed", "distributed.client", "tornado.application"):
            stack.enter_context(silence_logging_cmgr(logging.CRITICAL, name))
        yield
