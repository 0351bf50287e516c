# SPDX-License-Identifier: BSD-3-Clause
"""Dask collections as partitions of rows: alignment, errors, passes over the chunks."""

import operator
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, clone

import bochner.features.kernel_features
import bochner.rows.dask_partitions
import bochner.rows.sampling
from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures
from bochner.rows import ClusterError, open_rows
from bochner.rows.dask_partitions import DaskPartitions
from tests.feature_models.examples import CHUNKINGS, N_ROWS, SMALL, make_data, to_dask

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")


@pytest.fixture(autouse=True)
def synchronous():
    """Compute in this thread."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def rows_and_targets():
    return to_dask(*make_data(), chunks=CHUNKINGS["even"])


class CountingBlocks:
    """Returns blocks as they are and counts them."""

    def __init__(self):
        self.n = 0

    def __call__(self, block):
        self.n += block.shape[0] > 0
        return block

    def around(self, array):
        return array.map_blocks(self, dtype=array.dtype, meta=array._meta)


class TestPasses:
    def test_results_are_combined_pairwise_and_in_order(self):
        depths = []

        def deeper(left, right):
            depths.append(max(left, right) + 1)
            return depths[-1]

        partitions = DaskPartitions(*to_dask(*make_data(), chunks=(100,) * 26))
        assert partitions.reduce(lambda argument, block: 0, deeper, ["y"], dict.fromkeys(range(26))) == 5
        assert len(depths) == 25
        order = partitions.reduce(lambda argument, block: [argument], operator.add, ["X"], {i: i for i in range(26)})
        assert order == list(range(26))

    def test_graph_of_a_pass_is_flat(self, monkeypatch):
        """One layer per task would make a pass quadratic in the number of chunks."""
        graphs = []
        monkeypatch.setattr(bochner.rows.dask_partitions, "_compute", lambda graph, *_: graphs.append(graph))
        partitions = DaskPartitions(da.zeros((400, 2), chunks=(2, 2)))
        partitions.reduce(len, operator.add, ["X"], dict.fromkeys(range(200)))
        assert len(graphs[0]) >= 200 + 199
        assert type(graphs[0]) is dict

    def test_few_blocks_are_computed_for_a_sample_and_one_pass_for_a_fit(self, monkeypatch):
        monkeypatch.setattr("bochner.rows.sampling.MAX_WHOLE_ROWS", 1000)
        monkeypatch.setattr(bochner.rows.sampling, "MAX_SAMPLE_ROWS", 30)
        monkeypatch.setattr(bochner.rows.partitions, "SAMPLED_PARTITIONS", 3)
        rows, targets = to_dask(*make_data(), chunks=(100,) * 26)
        blocks = CountingBlocks()
        rows = blocks.around(rows)

        features = FourierFeatures(n_frequencies=16, random_state=0).fit(rows)
        assert 1 <= blocks.n <= 3
        blocks.n = 0
        model = FeatureRegressor(SMALL, random_state=0).fit(rows, targets)
        assert 26 <= blocks.n <= 26 + 4, "one pass, the sample and the first row"
        blocks.n = 0
        lazy = [features.transform(rows), model.predict(rows), *model.predict(rows, return_std=True)]
        assert blocks.n == 0
        classifier = FeatureClassifier(SMALL, random_state=0, loss="squared_error").fit(rows, targets > 5)
        assert 26 <= blocks.n <= 26 + 7
        blocks.n = 0
        lazy += [classifier.predict(rows), classifier.decision_function(rows)]
        assert blocks.n == 0, "predictions are computed when they are asked for"
        assert [array.shape for array in lazy] == [(2600, 32), (2600,), (2600,), (2600,), (2600,), (2600,)]
        model.score(rows, targets)
        assert blocks.n == 26, "one pass"

    def test_targets_computed_from_the_rows_do_not_compute_them_twice(self, rows_and_targets):
        blocks = CountingBlocks()
        rows = blocks.around(rows_and_targets[0])
        features = FourierFeatures(length_scale=2.0, n_frequencies=8, weighting="uniform")
        FeatureRegressor(features, random_state=0).fit(rows, da.sin(rows[:, 0]))
        # A pass that checks magnitudes, the first targets, the first row and a pass that accumulates moments.
        assert blocks.n <= 4 + 4 + 1 + 4

    def test_lazy_results_belong_to_the_fit_that_made_them(self, rows_and_targets):
        rows, targets = rows_and_targets
        X, _ = make_data()
        model, features = FeatureRegressor(SMALL, random_state=0).fit(rows, targets), clone(SMALL).fit(rows)
        expected, mapped = model.predict(X), features.transform(X)
        predictions, columns = model.predict(rows), features.transform(rows)
        model.fit(rows[:, :2], -targets)
        features.set_params(n_frequencies=3).fit(rows[:, :2])
        np.testing.assert_allclose(predictions.compute(), expected)
        np.testing.assert_allclose(columns.compute(), mapped)


class TestFeatures:
    @pytest.mark.parametrize(
        ("weighting", "n_rows"),
        [
            ("stein", 300),
            ("matrix", N_ROWS),
            *(
                pytest.param(weighting, n_rows, marks=pytest.mark.slow)
                for weighting in ("uniform", "shrinkage", "quadrature", "stein", "matrix")
                for n_rows in (300, N_ROWS)
                if (weighting, n_rows) not in (("stein", 300), ("matrix", N_ROWS))
            ),
        ],
    )
    def test_fit_equals_the_fit_in_memory(self, weighting, n_rows):
        X, _ = make_data(n_rows=n_rows)
        X = X.astype(np.float32)
        features = FourierFeatures(n_frequencies=16, weighting=weighting, sampler="halton", refine=3, random_state=0)
        expected = clone(features).fit(X)
        (rows,) = to_dask(X, chunks=(100, n_rows - 100))
        features.fit(rows)
        np.testing.assert_array_equal(features.weights_, expected.weights_)
        found = features.transform(rows)
        assert found.dtype == found._meta.dtype == np.float32
        assert found.chunks == ((100, n_rows - 100), (32,))
        np.testing.assert_allclose(found.compute(), expected.transform(X), atol=1e-6)
        assert features.kernel_error(rows, random_state=0) == pytest.approx(expected.kernel_error(X, random_state=0))

    @pytest.mark.parametrize(
        ("n_rows", "settings"),
        [
            (N_ROWS, {"length_scale": "scale"}),
            (N_ROWS, {"n_components": 8}),
            (600, {"n_frequencies": "auto", "tolerance": 0.3}),
            pytest.param(N_ROWS, {"n_frequencies": "auto", "tolerance": 0.3}, marks=pytest.mark.slow),
        ],
        ids=str,
    )
    def test_settings_have_the_meaning_that_they_have_in_memory(self, n_rows, settings):
        X, _ = make_data(n_rows=n_rows)
        (rows,) = to_dask(X, chunks=(1, 499, 7, n_rows - 507))
        features = FourierFeatures(**{"n_frequencies": 16, "random_state": 0} | settings)
        expected, found = clone(features).fit(X), clone(features).fit(rows)
        assert found.length_scale_ == pytest.approx(expected.length_scale_, rel=1e-12)
        np.testing.assert_allclose(found.weights_, expected.weights_, rtol=1e-8)

    def test_methods_that_need_rows_in_memory_refuse_collections(self, rows_and_targets):
        rows, _ = rows_and_targets
        features = clone(SMALL).fit(rows)
        with pytest.raises(ValueError, match="give rows in memory"):
            features.exact_kernel(rows)
        with pytest.raises(ValueError, match="give rows in memory"):
            features.approximate_kernel(np.zeros((1, 4)), rows)
        with pytest.raises(ValueError, match="4 features as input"):
            features.transform(rows[:, :3])
        with pytest.raises(ValueError, match="`out` needs rows in memory; leave it out for a Dask collection"):
            features.transform(rows, out=np.empty((N_ROWS, 48)))
        with pytest.raises(ValueError, match=r"set_output\(transform='default'\)"):
            features.set_output(transform="pandas").transform(rows)


def with_value(rows, value):
    """Return the rows with one entry replaced."""
    return da.where((np.arange(N_ROWS) == 2000)[:, None] & (np.arange(4) == 1), value, rows)


# Each takes valid Dask arrays X and y and returns what is passed to `fit`.
MISTAKES = {
    "NaN": (lambda X, y: (with_value(X, np.nan), y), "X contains NaN"),
    "infinity": (lambda X, y: (with_value(X, np.inf), y), "X contains infinity"),
    "large values": (lambda X, y: (with_value(X, 1e20), y), "Center or rescale the columns"),
    "NaN in y": (lambda X, y: (X, da.where(y > 5, np.nan, 1.0)), "y contains NaN"),
    "text in y": (lambda X, y: (X, da.where(y > 5, "high", "low")), "y must contain numbers for a regression"),
    "X in memory": (lambda X, y: (X.compute(), y), "y or `sample_weight` is a Dask collection and X is not; give X"),
    "no y": (lambda X, y: (X, None), "requires y to be passed"),
    "a vector": (lambda X, y: (y, y), "Expected a Dask array with two axes, rows and columns. Got 1 instead"),
    "fewer targets": (lambda X, y: (X, y[:-1]), "X has 2600 rows and y has 2599"),
    "unknown lengths": (lambda X, y: (X[X[:, 0] > 0], y.compute()), "`X.compute_chunk_sizes\\(\\)`"),
    "other lengths": (lambda X, y: (X[X[:, 0] > 0], y[y > 5]), "a partition of 330 rows has 327 rows of X; give"),
    "other chunks": (
        lambda X, y: (X[X[:, 0] > 0], y.rechunk(N_ROWS)[X[:, 0].rechunk(N_ROWS) > 0]),
        "make both from the same data frame",
    ),
    "no rows": (lambda X, y: (X[:0], y[:0]), "0 sample"),
    "a delayed object": (lambda X, y: (dask.delayed(3), y), "give a dask.array or a dask.dataframe"),
    "unknown columns": (lambda X, y: (X[:, X.sum(axis=0) > 0], y), "The number of columns is unknown"),
    "negative weights": (lambda X, y: (X, y, -y), "Negative values in data passed to `sample_weight`"),
    "weights in memory": (lambda X, y: (X, y, np.ones(3)), "X has 2600 rows and sample_weight has 3"),
}


class TestErrors:
    @pytest.mark.parametrize(("make", "message"), MISTAKES.values(), ids=MISTAKES)
    def test_mistakes_are_named(self, make, message, rows_and_targets):
        with pytest.raises(ValueError, match=message):
            FeatureRegressor(SMALL, random_state=0).fit(*make(*rows_and_targets))

    def test_mistakes_in_data_frames_are_named(self):
        table = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0] * 5, "b": list("pq") * 5, "y": range(10)}), npartitions=2)
        with pytest.raises(ValueError, match=r"Column 'b' has type .*; encode it as numbers, or drop it"):
            FeatureRegressor(SMALL).fit(table[["a", "b"]], table["y"])
        with pytest.raises(ValueError, match=r"y is text, 'y'; give the column of that name, as by `table\['y'\]`"):
            FeatureRegressor(SMALL).fit(table[["a"]], "y")
        frame = pd.DataFrame({"a": pd.array([1, None] * 5, dtype="Int64"), "y": range(10)})
        missing = dd.from_pandas(frame, npartitions=2)
        with pytest.raises(ValueError, match="X contains NaN"):
            FeatureRegressor(SMALL).fit(missing[["a"]], missing["y"])

    def test_columns_in_several_chunks_are_merged_with_a_warning(self, rows_and_targets):
        X, y = make_data()
        with pytest.warns(UserWarning, match=r"The columns are in 2 chunks .* `X.rechunk\(\{1: -1\}\)`"):
            source = open_rows(da.from_array(X, chunks=(650, 2)), y)
        np.testing.assert_array_equal(source.validate(BaseEstimator(), dtype=np.float64)[::100], X[::100])


class TestCollections:
    def read(self, X, y=None):
        source = open_rows(X, y).validate(BaseEstimator(), accept_sparse="csr", dtype=[np.float64, np.float32])
        return source.select(slice(None))

    def test_sparse_chunks_stay_sparse(self, rows_and_targets):
        X = np.where(np.abs(make_data()[0]) < 0.5, 0.0, make_data()[0])
        (rows,) = to_dask(X, chunks=CHUNKINGS["even"])
        batch = self.read(rows.map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 4))))
        assert sparse.issparse(batch.X)
        np.testing.assert_array_equal(batch.X.toarray(), X)

    def test_data_frames_with_nullable_numbers_become_floats(self):
        frame = pd.DataFrame({"a": pd.array([1, 2, 3], dtype="Int64"), "b": [0.5, 1.5, 2.5]})
        batch = self.read(dd.from_pandas(frame, npartitions=2))
        np.testing.assert_array_equal(batch.X, [[1.0, 0.5], [2.0, 1.5], [3.0, 2.5]])

    def test_targets_of_other_chunks_are_aligned(self, rows_and_targets):
        X, y = make_data()
        batch = self.read(rows_and_targets[0], da.from_array(y, chunks=1000))
        np.testing.assert_array_equal(batch.X, X)
        np.testing.assert_array_equal(batch.y, y)

    @pytest.mark.filterwarnings("ignore:The inplace keyword")  # in Dask's reading of Parquet files
    def test_columns_of_a_table_in_files_are_read_in_equal_partitions(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(1000, 9))
        table = pd.DataFrame(X, columns=[f"x{i}" for i in range(9)])
        for i in range(4):
            table[250 * i : 250 * (i + 1)].to_parquet(tmp_path / f"{i}.parquet", index=False)
        lazy = dd.read_parquet(tmp_path)
        rows, targets, weights = lazy.drop(columns=["x7", "x8"]), lazy["x7"], lazy["x8"] ** 2
        assert targets.optimize().npartitions < rows.optimize().npartitions  # the case in question
        partitions = DaskPartitions(rows, targets, weights)
        blocks = [partitions.reduce(lambda _, *b: b, None, ["X", "y", "sample_weight"], {i: None}) for i in range(4)]
        np.testing.assert_array_equal(np.vstack([np.column_stack(block) for block in blocks])[:, :8], X[:, :8])
        np.testing.assert_allclose(np.concatenate([block[2] for block in blocks]), X[:, 8] ** 2)


class TestClients:
    """Computations with a client of Dask in this process; clusters of processes are in the slow lane."""

    @pytest.fixture
    def client(self):
        options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
        with dask.config.set(scheduler=None), distributed.Client(**options) as client:
            yield client

    def count_rows(self):
        partitions = DaskPartitions(da.zeros((40, 2), chunks=(10, 2)))
        return partitions.reduce(count, operator.add, ["X"], dict.fromkeys(range(4)), "counting")

    def test_client_computes(self, client):
        assert self.count_rows() == 40

    def test_failures_of_a_cluster_are_explained(self, client, monkeypatch):
        from distributed import CancelledError, KilledWorker
        from distributed.comm.core import CommClosedError

        memory, lost = (
            "most likely because it did not fit into their memory; give smaller chunks",
            "is lost and nothing",
        )
        failures = [(KilledWorker("task", None, 3), memory), (CommClosedError(), lost), (CancelledError(), lost)]
        for error, message in failures:

            def fail(*_, error=error):
                raise error

            monkeypatch.setattr(distributed.Client, "compute", fail)
            with pytest.raises(ClusterError, match=message):
                self.count_rows()

    def test_worker_with_another_version_is_named(self, client, monkeypatch):
        monkeypatch.setattr(distributed.Client, "run", lambda *_, **__: {"tcp://a": "0.0"})
        with pytest.raises(ClusterError, match=r"worker at tcp://a has bochner 0\.0, .*; install the same version"):
            self.count_rows()

    def test_pass_without_workers_ends(self, client, monkeypatch):
        monkeypatch.setattr(bochner.rows.dask_partitions, "POLL_SECONDS", 0.05)
        monkeypatch.setattr(bochner.rows.dask_partitions, "NO_WORKERS_SECONDS", 0.2)
        client.cluster.scale(0)
        while client.nthreads():
            time.sleep(0.01)
        with pytest.raises(ClusterError, match="no workers for 0 seconds, and nothing was fitted; start workers"):
            self.count_rows()

    def test_pass_inside_a_task_yields_its_slot(self, client):
        assert client.submit(self.count_rows, pure=False).result(timeout=300) == 40

    def test_asynchronous_clients_are_refused(self, monkeypatch):
        class Asynchronous:
            asynchronous = True

        monkeypatch.setattr(distributed, "get_client", Asynchronous)
        with dask.config.set(scheduler=None), pytest.raises(RuntimeError, match="asynchronous Client"):
            self.count_rows()


def count(argument, block):
    del argument
    return len(block)


WITHOUT_BOCHNER = """
import importlib.metadata

def version(name, original=importlib.metadata.version):
    if name == "bochner":
        raise importlib.metadata.PackageNotFoundError(name)
    return original(name)

importlib.metadata.version = version
"""


def nap(argument, block):
    time.sleep(600)
    return len(block)


@pytest.mark.slow
class TestProcesses:
    """Clusters of processes that cannot compute a pass: it ends with one message instead of waiting forever."""

    OPTIONS = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def use_clients(self):
        with dask.config.set(scheduler=None):
            yield

    def reduce(self, part):
        partitions = DaskPartitions(da.zeros((40, 2), chunks=(10, 2)))
        return partitions.reduce(part, operator.add, ["X"], dict.fromkeys(range(4)))

    def test_workers_without_bochner_are_named_within_seconds(self, tmp_path, monkeypatch):
        (tmp_path / "sitecustomize.py").write_text(WITHOUT_BOCHNER)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        with distributed.Client(n_workers=2, **self.OPTIONS) as client:
            client.wait_for_workers(2)
            X, y = to_dask(*make_data(), chunks=CHUNKINGS["even"])
            start = time.monotonic()
            message = r"worker at tcp://\S+ has bochner No package metadata was found for bochner, and this process has"
            with pytest.raises(ClusterError, match=message):
                FeatureRegressor(SMALL, random_state=0).fit(X, y)
            assert time.monotonic() - start < 60
            assert len(client.nthreads()) == 2, "no task has reached a worker"

    def test_pass_ends_when_all_workers_are_killed(self, monkeypatch):
        monkeypatch.setattr(bochner.rows.dask_partitions, "NO_WORKERS_SECONDS", 3.0)
        with distributed.LocalCluster(n_workers=0, **self.OPTIONS) as cluster, distributed.Client(cluster) as client:
            command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--no-nanny"]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            worker = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
            try:
                client.wait_for_workers(1, timeout=300)
                assert self.reduce(count) == 40
                threading.Timer(2.0, worker.kill).start()
                start = time.monotonic()
                with pytest.raises(ClusterError, match="no workers for 3 seconds, and nothing was fitted"):
                    self.reduce(nap)
                assert time.monotonic() - start < 300
            finally:
                worker.kill()
                worker.wait()
