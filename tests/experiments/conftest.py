# SPDX-License-Identifier: BSD-3-Clause
"""A web server on the loopback interface, for tests of downloads."""

import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bochner.experiments import downloads


class Site:
    """A small web site: its files, the number of bytes that it sends of the next bodies, and the requests it got."""

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
        requested_range = self.headers["Range"]
        site.requests.append((self.path.lstrip("/"), requested_range))
        time.sleep(site.delay)
        body = site.files.get(self.path.lstrip("/"))
        resuming = requested_range and site.resumes
        begin = int(requested_range.removeprefix("bytes=").removesuffix("-")) if resuming else 0
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
    """An address at which no server listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{free.getsockname()[1]}"
