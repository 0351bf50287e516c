# SPDX-License-Identifier: BSD-3-Clause
"""Dask clusters for the command line: a local one, or a running one."""

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bochner.rows import ClusterError

__all__ = ["open_cluster"]

CONNECT_TIMEOUT_SECONDS = 5
DASK_SETTINGS = {
    "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical",  # the workers write no log
    "distributed.scheduler.no-workers-timeout": "30s",  # tasks fail when all workers have died, instead of waiting
}
SILENCED_LOGGERS = ("distributed", "distributed.client", "distributed.gc", "tornado.application")


@contextmanager
def open_cluster(address: str | None, report: Callable[[str], None]) -> Iterator[None]:
    """Connect to a cluster that computes what is inside the context.

    Parameters
    ----------
    address : str or None
        Address of a running scheduler; None starts a cluster of this machine's cores.
    report : callable
        Function that prints a message.
    """
    from dask import config
    from distributed import KilledWorker
    from distributed.scheduler import NoValidWorkerError, NoWorkerError

    cluster = _start_local() if address is None else _connect(address)
    with config.set(DASK_SETTINGS), _silence_logs(), cluster as client:
        report(f"Dashboard of the cluster: {client.dashboard_link}")
        if not client.scheduler_info()["workers"]:
            report("The cluster has no workers yet; waiting for one.")
        try:
            yield
        except ClusterError as error:
            if not isinstance(error.__cause__, KilledWorker):
                raise
            raise ClusterError(
                "One partition ended several workers, most likely because it did not fit into their memory; write "
                "files with smaller row groups, or use workers with more memory (--scheduler)."
            ) from error
        except (NoValidWorkerError, NoWorkerError) as error:
            raise ClusterError(
                "All workers have died, most likely because they ran out of memory; close other programs, or use a "
                "larger cluster (--scheduler)."
            ) from error


@contextmanager
def _start_local() -> Iterator[Any]:
    """Start a cluster with one worker per core of this machine."""
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    with LocalCluster(processes=True, threads_per_worker=1, **options) as local, Client(local) as client:
        client.run(_ignore_interrupts)
        yield client


@contextmanager
def _connect(address: str) -> Iterator[Any]:
    """Connect to a running scheduler."""
    import dask
    from distributed import Client

    with dask.config.set(scheduler=None):  # a client that cannot connect leaves itself behind as the scheduler
        try:
            client = Client(address, timeout=CONNECT_TIMEOUT_SECONDS)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"--scheduler {address} cannot be reached: {error}; give the address of a running scheduler, such as "
                f"tcp://host:8786, or --dask for a cluster of this machine's cores."
            ) from error
        with client:
            yield client


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C in a worker; a terminal sends it to all processes, and the client stops the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _silence_logs() -> Iterator[None]:
    """Silence the logs of Dask, which would hide the error message of a failed command."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # reports the tasks of an interrupted fit at the very end
    loggers = [logging.getLogger(name) for name in SILENCED_LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
