# SPDX-License-Identifier: BSD-3-Clause
"""What the tests share: the valid combinations of parts, data, and a web site on loopback."""

import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path

# Workers share the cores: BLAS threads on top of them only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from bochner.experiments import downloads
from bochner.kernels import KERNELS, IsotropicKernel
from bochner.samplers import SAMPLERS
from bochner.weightings import WEIGHTINGS

KERNEL_SAMPLER_PAIRS = [
    (kernel, sampler)
    for kernel, sampler in product(KERNELS, SAMPLERS)
    if sampler not in ("orthogonal", "sorf") or issubclass(KERNELS[kernel], IsotropicKernel)
]
COMBINATIONS = [(*pair, weighting) for pair, weighting in product(KERNEL_SAMPLER_PAIRS, WEIGHTINGS)]


@pytest.fixture(scope="session")
def digits():
    """Standardised digits, read-only."""
    X = StandardScaler().fit_transform(load_digits().data)
    X.flags.writeable = False
    return X


@pytest.fixture(scope="session")
def paper_data():
    """The folder with the paper's data sets as npz files; it is not part of the repository."""
    folder = Path(os.environ.get("BOCHNER_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (folder / "cpu.npz").is_file():
        pytest.skip("the paper's data sets are not here: set BOCHNER_DATA to a folder with their npz files")
    return folder


@pytest.fixture
def rng():
    return np.random.default_rng(0)


class Site:
    """A small web site on loopback: its files, how many bytes of the next bodies it sends, what it was asked for."""

    def __init__(self, server):
        self.address = f"http://127.0.0.1:{server.server_port}"
        self.files = {}
        self.cuts = []
        self.resumes = True
        self.delay = 0.0
        self.requests = []

    def url(self, name):
        return f"{self.address}/{name}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        site = self.server.site
        wanted = self.headers["Range"]
        site.requests.append((self.path.lstrip("/"), wanted))
        time.sleep(site.delay)
        body = site.files.get(self.path.lstrip("/"))
        begin = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and site.resumes else 0
        if body is None or begin >= max(len(body), 1):
            self.send_error(404 if body is None else 416)
            return
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(body) - begin))
        self.end_headers()
        self.wfile.write(body[begin:][: site.cuts.pop(0) if site.cuts else None])

    def log_message(self, *_):
        pass


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(downloads, "PAUSES_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(downloads, "CHUNK_BYTES", 1000)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.site = Site(server)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.site
        server.shutdown()
        thread.join()


@pytest.fixture
def no_server():
    """An address where nothing answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{free.getsockname()[1]}"
