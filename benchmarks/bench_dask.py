# SPDX-License-Identifier: BSD-3-Clause
"""Measure fits on a Dask cluster of this machine's cores: `make bench-dask`.

The script prints the time against the numbers of rows and workers, the overhead of Dask on rows in memory, and the
throughput on rows that are generated on the workers and not stored. It writes `bench-dask.json`.
"""

import json
import os
import resource
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Annotated, Any

import dask.array as da
import numpy as np
import psutil
import typer
from distributed import Client, LocalCluster, wait
from rich.console import Console
from rich.table import Table

from bochner import FeatureRegressor, FourierFeatures

N_COLUMNS = 54
CHUNK_ROWS = 250_000
SIZES = (2_500_000, 5_000_000, 10_000_000)
WORKERS = (1, 2)
MEMORY_ROWS = 4_000_000
console = Console() if Console().is_terminal else Console(width=120)


def new_model(n_frequencies: int) -> FeatureRegressor:
    """Return an unfitted model."""
    return FeatureRegressor(FourierFeatures(n_frequencies=n_frequencies), random_state=0)


def rows_on_workers(n_rows: int) -> tuple[Any, Any]:
    """Return lazily generated normal rows, and a target that depends on two of their columns."""
    X = da.random.default_rng(0).standard_normal((n_rows, N_COLUMNS), chunks=(CHUNK_ROWS, N_COLUMNS), dtype=np.float32)
    return X, da.sin(X[:, 0]) + 0.1 * X[:, 1]


def rows_in_memory(n_rows: int) -> tuple[Any, Any]:
    """Return rows and targets of the same distribution as arrays."""
    rng, X = np.random.default_rng(0), np.empty((n_rows, N_COLUMNS), dtype=np.float32)
    for start in range(0, n_rows, CHUNK_ROWS):
        rng.standard_normal(out=X[start : start + CHUNK_ROWS], dtype=np.float32)
    return X, np.sin(X[:, 0]) + 0.1 * X[:, 1]


def seconds_of(model: FeatureRegressor, X: Any, y: Any) -> float:
    """Return the seconds of one fit."""
    start = perf_counter()
    model.fit(X, y)
    return perf_counter() - start


@contextmanager
def cluster(n_workers: int, memory: str = "auto") -> Any:
    """Start a cluster of single-threaded workers and run one fit, so that all loops are compiled."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, memory_limit=memory, dashboard_address=":0", silence_logs=40
        ) as workers,
        Client(workers) as client,
    ):
        X, y = rows_on_workers(4 * n_workers * CHUNK_ROWS // 50)
        new_model(16).fit(X.rechunk({0: CHUNK_ROWS // 50}), y.rechunk(CHUNK_ROWS // 50))
        yield client


def growth(n_frequencies: int) -> list[dict[str, Any]]:
    """Measure fits for several numbers of rows and workers; the rows are in the memory of the workers."""
    measurements = []
    for n_workers in WORKERS:
        with cluster(n_workers):
            for n_rows in SIZES:
                X, y = (column.persist() for column in rows_on_workers(n_rows))
                wait([X, y])
                seconds = seconds_of(new_model(n_frequencies), X, y)
                measurements.append({"workers": n_workers, "rows": n_rows, "seconds": seconds})
    return measurements


def show_growth(measurements: list[dict[str, Any]]) -> dict[str, Any]:
    """Print the measurements and return the slopes and the speedup."""
    table = Table(
        "workers", "rows", "seconds", "rows/s", title="Time of a fit against rows and workers", title_justify="left"
    )
    for row in measurements:
        rate = row["rows"] / row["seconds"]
        table.add_row(str(row["workers"]), f"{row['rows']:,}", f"{row['seconds']:.1f}", f"{rate:,.0f}")
    console.print(table)
    slopes = {}
    for n_workers in WORKERS:
        own = [row for row in measurements if row["workers"] == n_workers]
        slope, intercept = np.polyfit([row["rows"] for row in own], [row["seconds"] for row in own], 1)
        slopes[n_workers] = float(slope)
        console.print(f"{n_workers} workers: {1e6 * slope:.2f} s per million rows plus {intercept:.1f} s.")
    ratio = slopes[WORKERS[0]] / slopes[WORKERS[-1]]
    console.print(f"Speedup of {WORKERS[-1]} workers over {WORKERS[0]}: {ratio:.2f}.\n")
    return {"slopes": slopes, "speedup": ratio}


def overhead(n_frequencies: int, repeats: int) -> dict[str, float]:
    """Compare interleaved fits of rows in the memory of this process and in the memory of the workers."""
    n_rows = SIZES[-1]
    arrays = rows_in_memory(n_rows)
    times: dict[str, list[float]] = {"memory": [], "dask": []}
    with cluster(WORKERS[-1]):
        X, y = (column.persist() for column in rows_on_workers(n_rows))
        wait([X, y])
        for _ in range(repeats):
            times["memory"].append(seconds_of(new_model(n_frequencies), *arrays))
            sleep(0.2)
            times["dask"].append(seconds_of(new_model(n_frequencies), X, y))
    memory, dask = median(times["memory"]), median(times["dask"])
    console.print(
        f"{n_rows:,} rows: {memory:.1f} s in the memory of this process, {dask:.1f} s in the memory of {WORKERS[-1]} "
        f"workers. Dask adds {100 * (dask / memory - 1):.0f} %.\n"
    )
    return {"rows": n_rows, "memory": memory, "dask": dask, "overhead": dask / memory - 1}


def generated(n_frequencies: int, n_rows: int) -> dict[str, float]:
    """Measure time and memory of a fit of rows that are generated on two workers with 2 GB each and not stored."""
    before = memory_rate(n_frequencies)
    with cluster(WORKERS[-1], "2GB") as client:
        peaks: dict[int, int] = {}
        done = threading.Event()

        def watch() -> None:
            workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
            while not done.wait(0.5):
                peaks.update(
                    {worker.pid: max(peaks.get(worker.pid, 0), worker.memory_info().rss) for worker in workers}
                )

        watcher = threading.Thread(target=watch)
        watcher.start()
        seconds = seconds_of(new_model(n_frequencies), *rows_on_workers(n_rows))
        done.set()
        watcher.join()
    client_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    after = memory_rate(n_frequencies)
    rate, in_memory = n_rows / seconds, (before + after) / 2
    console.print(
        f"{n_rows:,} rows generated on {WORKERS[-1]} workers with 2 GB each: {seconds:.0f} s, {rate:,.0f} rows/s "
        f"including the generation. This is {100 * rate / in_memory:.0f} % of the {in_memory:,.0f} rows/s in memory "
        f"({before:,.0f} before, {after:,.0f} after). Peak memory: client {client_bytes / 1e6:.0f} MB, workers "
        f"{', '.join(f'{peak / 1e6:.0f} MB' for peak in peaks.values())}.\n"
    )
    return {
        "rows": n_rows,
        "seconds": seconds,
        "share": rate / in_memory,
        "client_bytes": client_bytes,
        "worker_bytes": max(peaks.values()),
    }


def memory_rate(n_frequencies: int) -> float:
    """Return the rows per second of fits in memory, measured in another process to keep this one small."""
    command = [sys.executable, __file__, "--n-frequencies", str(n_frequencies), "--memory-only"]
    # A cluster leaves environment variables of its workers behind, such as one thread for BLAS.
    environment = {name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name}
    environment.pop("MALLOC_TRIM_THRESHOLD_", None)
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def main(
    n_frequencies: Annotated[int, typer.Option(help="Number of frequencies.")] = 128,
    rows: Annotated[int, typer.Option(help="Number of rows to generate on the workers.")] = 50_000_000,
    repeats: Annotated[int, typer.Option(help="Number of repetitions of the comparison with rows in memory.")] = 3,
    output: Annotated[Path, typer.Option(help="File to write the measurements to.")] = Path("bench-dask.json"),
    memory_only: Annotated[bool, typer.Option("--memory-only", hidden=True)] = False,
) -> None:
    """Measure ridge regression on a Dask cluster of this machine's cores."""
    if memory_only:
        X, y = rows_in_memory(MEMORY_ROWS)
        new_model(n_frequencies).fit(X[:20_000], y[:20_000])
        print(MEMORY_ROWS / median(seconds_of(new_model(n_frequencies), X, y) for _ in range(3)))
        return
    console.print(
        f"FeatureRegressor, {N_COLUMNS} columns of float32, {n_frequencies} frequencies, chunks of {CHUNK_ROWS:,} "
        f"rows, {os.cpu_count()} cores.\n"
    )
    results: dict[str, Any] = {"generated": generated(n_frequencies, rows)}
    results["growth"] = growth(n_frequencies)
    results |= show_growth(results["growth"])
    results["overhead"] = overhead(n_frequencies, repeats)
    output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    typer.run(main)
