# SPDX-License-Identifier: BSD-3-Clause
"""Load a running service with single rows, malformed and oversized requests, and report latencies and its memory.

``python load.py row.json --pid PID`` sends 10,000 requests to 127.0.0.1:8000 from four threads.
"""

import argparse
import http.client
import json
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BAD = {
    "not JSON": (b"{", 422),
    "too deep": (b"[" * 100_000, 422),
    "no column": (b"[{}]", 422),
    "too large": (b"x" * (2 << 20), 413),
}


def main() -> None:
    """Send the requests and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", type=Path, help="a JSON file with one row")
    parser.add_argument("--pid", type=int, help="the process of the service, to report its memory")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    content = options.row.read_bytes()
    send_many(options.port, content, 200)  # warm up
    before = status(options.pid)
    start = time.perf_counter()
    with ThreadPoolExecutor(options.threads) as pool:
        share = options.requests // options.threads
        results = list(pool.map(lambda _: send_many(options.port, content, share), range(options.threads)))
    seconds = time.perf_counter() - start
    times = sorted(value for times, _ in results for value in times)
    codes = sum((counts for _, counts in results), Counter())
    print(f"{len(times) / seconds:.0f} requests per second, of which every 100th is bad; codes {dict(codes)}")
    print(f"p50 {1e3 * times[len(times) // 2]:.2f} ms, p99 {1e3 * times[int(0.99 * len(times))]:.2f} ms")
    print(f"memory, threads and files of the service: before {before}, after {status(options.pid)}")


def send_many(port: int, content: bytes, n_requests: int) -> tuple[list[float], Counter[int]]:
    """Send requests over one connection; every 100th is bad and must be refused with one message."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    times, codes, bad = [], Counter[int](), list(BAD.values())
    for number in range(n_requests):
        body, expected = bad[number // 100 % len(bad)] if number % 100 == 99 else (content, 200)
        start = time.perf_counter()
        try:
            connection.request("POST", "/predict", body)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except (ConnectionError, http.client.HTTPException):  # the service closes the connection of a large request
            connection.close()
            codes[413] += 1
            continue
        times.append(time.perf_counter() - start)
        codes[response.status] += 1
        if response.status != expected or ("error" in answer) != (expected != 200):
            raise SystemExit(f"Expected {expected}, got {response.status}: {answer}")
        if expected == 413:
            connection.close()
    connection.close()
    return times, codes


def status(pid: int | None) -> str:
    """Return the memory, threads and open files of a process."""
    if pid is None:
        return "unknown"
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return f"{int(lines['VmRSS'].split()[0]) / 1024:.1f} MB, {int(lines['Threads'])} threads, {files} files"


if __name__ == "__main__":
    main()
