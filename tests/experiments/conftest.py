# SPDX-License-Identifier: BSD-3-Clause
"""Runs of all studies on small data, and a web server on the loopback interface."""

import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import joblib
import pytest

from bochner.experiments import datasets
from bochner.experiments.findings import Findings
from bochner.experiments.paper import STUDIES
from bochner.experiments.report import Report
from bochner.experiments.run import Plan
from bochner.experiments.store import Store
from bochner.experiments.studies import COMPARISON, MEDIAN, LengthScale
from tests.experiments.examples import TUNING, make_split

SMALL_STUDIES = [
    replace(
        study,
        n_frequencies=(4, 32) if isinstance(study.n_frequencies, tuple) else {"digits": 8},
        ratios=study.ratios and (0.5, 4, 16),
        seeds=(0, 1, 2),
    )
    for study in STUDIES.values()
]
SMALL_COMPARISON = replace(
    COMPARISON, n_frequencies=(4, 8), length_scales=(LengthScale("median", 0.5), MEDIAN), seeds=(0, 1)
)


@pytest.fixture(scope="session")
def small_run(tmp_path_factory):
    """The plan and the store of all studies of the paper, run once on small data, without more processes."""
    plan = Plan(SMALL_STUDIES, {"digits": make_split()}, replace(TUNING, n_frequencies={"digits": 8}))
    with (
        joblib.parallel_config(backend="sequential"),
        Store.open(tmp_path_factory.mktemp("run") / "rows.csv") as store,
    ):
        n_finished = sum(plan.run(store))
    assert n_finished == len(store.rows)
    return plan, store


@pytest.fixture(scope="session")
def small_report(small_run):
    plan, store = small_run
    return Report(plan, store.rows, "bochner reproduce <all>")


@pytest.fixture(scope="session")
def small_comparison():
    """The findings and the report of a comparison, run once on small data with a regression target."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bochner.experiments.run.SECONDS_PER_TIMING", 0.0)
        patch.setattr("bochner.experiments.run.TIMED_ROWS", 100)
        data = make_split("noise", task="regression")
        plan, store = Plan([SMALL_COMPARISON], {"noise": data}), Store()
        assert list(plan.run(store)) == [1] * len(store.rows)
    return Findings(SMALL_COMPARISON, {"noise": data}, store.rows.values()), Report(plan, store.rows, "bochner compare")


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.lstrip("/")
        self.server.requests.append(name)
        body = self.server.files.get(name)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    """A web server: `files` by name, the `requests` it got, and its `address`."""
    monkeypatch.setattr(datasets, "RETRY_SECONDS", 0)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.files, server.requests = {}, []
        server.address = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
