# SPDX-License-Identifier: BSD-3-Clause
"""Linear models on Dask collections equal those on rows in memory; clusters of processes are in the slow lane."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

import bochner.feature_models.candidates
import bochner.features.kernel_features
import bochner.rows.sampling
from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures
from bochner.rows import to_dense
from bochner.scaling import LearnedLengthScales, LearnedMetric
from tests.conftest import TargetPower
from tests.feature_models.examples import (
    CHUNKINGS,
    MODELS,
    N_ROWS,
    SMALL,
    assert_close,
    assert_same_model,
    fit_in_memory,
    make_data,
    to_dask,
)

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")


@pytest.fixture
def synchronous():
    """Compute in this thread."""
    with dask.config.set(scheduler="synchronous"):
        yield


def in_lanes(*fast):
    """Return every model with every chunking; those not in `fast` are in the slow lane."""
    return [
        pytest.param(name, chunks, id=f"{name}-{chunking}", marks=[] if (name, chunking) in fast else pytest.mark.slow)
        for name in MODELS
        for chunking, chunks in CHUNKINGS.items()
    ]


# Every model and every chunking is in the fast lane once or twice.
FAST = [
    *[("ridge", "uneven"), ("two targets", "empty"), ("length scales", "even"), ("kernels", "uneven")],
    *[("classes", "uneven"), ("classes", "single rows"), ("weighted classes", "even")],
    *[("svm", "empty"), ("svm with three classes", "uneven"), ("svm with one C", "one")],
    *[("logistic", "uneven"), ("logistic with three classes", "empty")],
]


@pytest.mark.usefixtures("synchronous")
class TestModels:
    @pytest.mark.parametrize(("name", "chunks"), in_lanes(*FAST))
    def test_model_equals_that_of_rows_in_memory(self, name, chunks):
        (X, y), expected = make_data(name), fit_in_memory(name)
        rows, targets = to_dask(X, y, chunks=chunks)
        model = clone(MODELS[name]).fit(rows, targets)
        assert_same_model(model, expected)
        predictions = model.predict(rows)
        assert predictions.chunks[0] == chunks
        assert predictions.dtype == expected.predict(X).dtype
        assert type(predictions._meta) is np.ndarray
        if y.dtype.kind == "f":
            assert_close(predictions.compute(), expected.predict(X), 1e-9)
        else:
            np.testing.assert_array_equal(predictions.compute(), expected.predict(X))
            tolerance = 1e-6 if "logistic" in name else 1e-8
            assert_close(model.decision_function(rows).compute(), expected.decision_function(X), tolerance)
        assert model.score(rows, targets) == pytest.approx(expected.score(X, y), rel=1e-10)

    @pytest.mark.parametrize(
        "name", ["ridge", "classes", "svm with one C", pytest.param("svm with three classes", marks=pytest.mark.slow)]
    )
    def test_sample_weights(self, name, rng):
        X, y = make_data(name)
        weights = rng.integers(0, 3, size=N_ROWS) * rng.random(N_ROWS)
        weights[650:1300] = 0.0  # a whole chunk
        expected = clone(MODELS[name]).fit(X, y, weights)
        rows, targets, lazy_weights = to_dask(X, y, weights, chunks=CHUNKINGS["even"])
        assert_same_model(clone(MODELS[name]).fit(rows, targets, lazy_weights), expected)
        model = clone(MODELS[name]).fit(rows, y, weights)  # targets and weights may be in memory
        assert_same_model(model, expected)
        assert model.score(rows, targets, lazy_weights) == pytest.approx(expected.score(X, y, weights), rel=1e-10)

    def test_class_of_weight_zero_is_left_out(self):
        X, y = make_data("classes")
        weights = (y != "middle").astype(float)
        expected = clone(MODELS["classes"]).fit(X, y, weights)
        model = clone(MODELS["classes"]).fit(*to_dask(X, y, weights, chunks=CHUNKINGS["even"]))
        assert model.classes_.tolist() == ["high", "low"]
        assert_same_model(model, expected)

    def test_sparse_chunks(self):
        X, y = make_data()
        X[np.abs(X) < 0.5] = 0.0
        rows, targets = to_dask(X, y, chunks=CHUNKINGS["even"])
        rows = rows.map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 4)))
        expected = FeatureRegressor(SMALL, random_state=0).fit(sparse.csr_array(X), y)
        model = FeatureRegressor(SMALL, random_state=0).fit(rows, targets)
        assert_same_model(model, expected)
        np.testing.assert_allclose(model.predict(rows).compute(), expected.predict(X))

    def test_standard_deviations(self):
        X, model = make_data()[0], fit_in_memory("ridge")
        (rows,) = to_dask(X, chunks=CHUNKINGS["even"])
        found, expected = model.predict(rows, return_std=True), model.predict(X, return_std=True)
        for lazy, values in zip(found, expected, strict=True):
            np.testing.assert_allclose(lazy.compute(), values)

    def test_probabilities(self):
        for name, n_classes in (("logistic", 2), ("logistic with three classes", 3)):
            model, (X, _) = fit_in_memory(name), make_data(name)
            (rows,) = to_dask(X, chunks=CHUNKINGS["even"])
            found = model.predict_proba(rows)
            assert found.shape == (N_ROWS, n_classes)
            np.testing.assert_allclose(found.compute(), model.predict_proba(X))

    def test_partial_fit_continues_a_fit(self):
        X, y = make_data()
        weights = np.ones(N_ROWS)
        weights[:3] = 0.0
        expected = clone(MODELS["ridge"]).fit(X, y, weights).partial_fit(X, y)
        model = clone(MODELS["ridge"]).fit(*to_dask(X, y, weights, chunks=CHUNKINGS["even"])).partial_fit(X, y)
        assert_same_model(model, expected)

    def test_columns_in_several_chunks(self):
        X, y = make_data()
        with pytest.warns(UserWarning, match=r"`X.rechunk\(\{1: -1\}\)`"):
            model = clone(MODELS["ridge"]).fit(da.from_array(X, chunks=(650, 2)), y)
        assert_same_model(model, fit_in_memory("ridge"))


@pytest.mark.usefixtures("synchronous")
class TestFeatures:
    @pytest.mark.parametrize("many", [1 << 20, pytest.param(1000, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("name", ["ridge", pytest.param("classes", marks=pytest.mark.slow)])
    def test_learned_length_scales(self, name, many, monkeypatch):
        monkeypatch.setattr("bochner.rows.sampling.MAX_WHOLE_ROWS", many)
        monkeypatch.setattr(bochner.rows.sampling, "MAX_SAMPLE_ROWS", 1024)
        X, y = make_data(name)
        features = FourierFeatures(n_frequencies=16, length_scale=LearnedLengthScales(n_iterations=5))
        model = clone(MODELS[name]).set_params(features=features, length_scale_factors=[1, 2])
        rows, targets = to_dask(X, y, chunks=CHUNKINGS["even"])
        expected, found = clone(model).fit(X, y), model.fit(rows, targets)
        np.testing.assert_allclose(found.features_.length_scale_, expected.features_.length_scale_, rtol=1e-10)
        assert found.features_.learning_gain_ == pytest.approx(expected.features_.learning_gain_)
        alone = clone(features).set_params(random_state=0).fit(rows, targets)
        np.testing.assert_allclose(alone.length_scale_, clone(alone).fit(X, y).length_scale_, rtol=1e-10)

    @pytest.mark.parametrize("many", [1 << 20, pytest.param(1000, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("name", ["ridge", pytest.param("classes", marks=pytest.mark.slow)])
    def test_learned_metric(self, name, many, monkeypatch):
        monkeypatch.setattr("bochner.rows.sampling.MAX_WHOLE_ROWS", many)
        monkeypatch.setattr(bochner.rows.sampling, "MAX_SAMPLE_ROWS", 1024)
        X, y = make_data(name)
        part = LearnedMetric(n_rows=300, n_iterations=2)
        features = FourierFeatures(n_frequencies=16, length_scale=part)
        model = clone(MODELS[name]).set_params(features=features, length_scale_factors=[1, 2])
        rows, targets = to_dask(X, y, chunks=CHUNKINGS["even"])
        expected, found = clone(model).fit(X, y), model.fit(rows, targets)
        metrics = (to_dense(fitted.features_.metric_) for fitted in (found, expected))
        np.testing.assert_allclose(*metrics, rtol=1e-8, atol=1e-10)
        assert found.features_.learning_gain_ == pytest.approx(expected.features_.learning_gain_)
        errors = (found.features_.kernel_error(data, random_state=0) for data in (rows, X))
        np.testing.assert_allclose(*errors, rtol=1e-9)
        np.testing.assert_allclose(found.features_.transform(rows).compute(), found.features_.transform(X), atol=1e-12)

    @pytest.mark.parametrize("many", [1 << 20, 1000])
    @pytest.mark.parametrize("name", ["ridge", "classes"])
    def test_weights_that_are_fitted_to_targets(self, name, many, monkeypatch):
        monkeypatch.setattr("bochner.rows.sampling.MAX_WHOLE_ROWS", many)
        monkeypatch.setattr(bochner.rows.sampling, "MAX_SAMPLE_ROWS", 1024)
        X, y = make_data(name)
        features = FourierFeatures(n_frequencies=16, weighting=TargetPower(), random_state=0)
        model = clone(MODELS[name]).set_params(features=features, length_scale_factors=[1, 2])
        rows, targets, weights = to_dask(X, y, np.arange(len(X)) % 3, chunks=CHUNKINGS["even"])
        expected, found = clone(model).fit(X, y), model.fit(rows, targets)
        np.testing.assert_allclose(found.features_.weights_, expected.features_.weights_, rtol=1e-9)
        alone, in_memory = clone(features).fit(rows, targets, weights), clone(features).fit(X, y, weights.compute())
        np.testing.assert_allclose(alone.weights_, in_memory.weights_, rtol=1e-9)

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("name", ["ridge", pytest.param("svm", marks=pytest.mark.slow)])
    def test_features_are_fitted_on_the_same_sample_of_many_rows(self, name, weighted, monkeypatch, rng):
        monkeypatch.setattr("bochner.rows.sampling.MAX_WHOLE_ROWS", 1000)
        monkeypatch.setattr(bochner.rows.sampling, "MAX_SAMPLE_ROWS", 640)
        X, y = make_data(name)
        weights = rng.integers(0, 3, size=N_ROWS).astype(float) if weighted else None
        rows, targets = to_dask(X, y, chunks=CHUNKINGS["uneven"])
        expected = clone(MODELS[name]).fit(X, y, weights)
        assert_same_model(clone(MODELS[name]).fit(rows, targets, weights), expected)
        monkeypatch.undo()
        of_all_rows = clone(MODELS[name]).fit(X, y, weights).features_.length_scale_
        assert expected.features_.length_scale_ == pytest.approx(of_all_rows, rel=0.1)
        assert expected.features_.length_scale_ != of_all_rows

    @pytest.mark.parametrize("name", ["ridge", "classes", "svm"])
    def test_transformers_of_other_libraries(self, name):
        X, y = make_data(name)
        features = make_pipeline(SimpleImputer(), Nystroem(n_components=16, random_state=0))
        X[::50, 2] = np.nan
        rows, targets = to_dask(X, y, chunks=CHUNKINGS["uneven"])
        model = clone(MODELS[name]).set_params(features=features)
        expected, model = clone(model).fit(X, y), model.fit(rows, targets)
        assert_close(model.coef_, expected.coef_, 1e-8)
        assert model.score(rows, targets) == pytest.approx(expected.score(X, y), rel=1e-10)
        found = model.predict(rows)
        assert found.chunks[0] == CHUNKINGS["uneven"]
        if name == "ridge":
            np.testing.assert_allclose(found.compute(), expected.predict(X), rtol=1e-9)
        else:
            np.testing.assert_array_equal(found.compute(), expected.predict(X))

    def test_transformers_of_other_libraries_are_fitted_on_a_sample(self, monkeypatch):
        monkeypatch.setattr(bochner.feature_models.candidates, "MAX_COLLECTED", 2000)
        monkeypatch.setattr(bochner.rows.sampling, "MAX_SAMPLE_ROWS", 400)
        X, y = make_data()
        rows, targets = to_dask(X, y, chunks=CHUNKINGS["uneven"])
        model = FeatureRegressor(Nystroem(n_components=16), random_state=0).fit(rows, targets)
        sampled = {tuple(row) for row in model.features_.components_.tolist()}
        assert sampled <= {tuple(row) for row in X.tolist()}
        Z = model.features_.transform(X)
        expected = Ridge(alpha=model.alpha_ * N_ROWS).fit(Z, y)  # on all rows
        np.testing.assert_allclose(model.predict(rows).compute(), expected.predict(Z), rtol=1e-9)


def text_labels(y):
    return pd.Series(np.where(y > 5, "high", "low"))


# Each takes the targets of a regression.
TARGETS = {
    "list": lambda y: y.tolist(),
    "series": pd.Series,
    "frame": lambda y: pd.DataFrame({"y": y}),
    "nullable": lambda y: pd.Series(y, dtype="Float64"),
}
LABELS = {
    "text": text_labels,
    "category": lambda y: text_labels(y).astype("category"),
    "nullable": lambda y: pd.Series((y > 5).astype(int), dtype="Int64"),
    "nullable boolean": lambda y: pd.Series(y > 5, dtype="boolean"),
    "boolean": lambda y: pd.Series(y > 5),
}


@pytest.mark.usefixtures("synchronous")
class TestContainers:
    @pytest.mark.parametrize(
        "name", ["ridge", "classes", pytest.param("svm with three classes", marks=pytest.mark.slow)]
    )
    def test_data_frames_of_unknown_length(self, name):
        X, y = make_data(name)
        frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
        expected = clone(MODELS[name]).fit(frame, y)
        table = dd.from_pandas(frame.assign(target=y), npartitions=5)
        table = table[table.a > -10]  # all rows, which Dask does not know
        rows = table[["a", "b", "c", "d"]]
        assert np.isnan(rows.to_dask_array().shape[0])
        model = clone(MODELS[name]).fit(rows, table["target"])
        assert_same_model(model, expected)
        assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
        found = model.predict(rows).compute()
        if name == "ridge":
            np.testing.assert_allclose(found, expected.predict(frame))
        else:
            np.testing.assert_array_equal(found, expected.predict(frame))
        assert model.score(rows, table["target"]) == pytest.approx(expected.score(frame, y))
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(rows[["d", "c", "b", "a"]])
        np.testing.assert_allclose(model.features_.transform(rows.values).compute(), expected.features_.transform(X))

    @pytest.mark.parametrize("make", TARGETS.values(), ids=TARGETS)
    def test_targets_in_memory(self, make):
        X, y = make_data(n_rows=600)
        (rows,) = to_dask(X, chunks=(250, 350))
        expected = clone(MODELS["ridge"]).fit(X, make(y), sample_weight=2.0)
        model = clone(MODELS["ridge"]).fit(rows, make(y), sample_weight=2.0)
        assert model.coef_.shape == expected.coef_.shape
        assert_same_model(model, expected)

    @pytest.mark.parametrize("make", LABELS.values(), ids=LABELS)
    def test_labels(self, make):
        X, y = make_data(n_rows=600)
        labels = make(y)
        frame = pd.DataFrame(X, columns=list("abcd")).assign(d=pd.array(np.arange(600) % 7, dtype="Int64"))
        expected = clone(MODELS["classes"]).fit(frame, labels)
        table = dd.from_pandas(frame.assign(label=labels), npartitions=3)
        model = clone(MODELS["classes"]).fit(table[list("abcd")], table["label"])
        assert model.classes_.tolist() == expected.classes_.tolist()
        assert_same_model(model, expected)
        (rows,) = to_dask(frame.to_numpy(dtype=float), chunks=(250, 350))
        assert_same_model(clone(MODELS["classes"]).fit(rows, labels), expected)


@pytest.mark.usefixtures("synchronous")
class TestErrors:
    @pytest.fixture
    def rows_and_targets(self):
        return to_dask(*make_data(n_rows=600), chunks=(250, 350))

    def test_splitters_need_rows_in_memory(self, rows_and_targets):
        with pytest.raises(ValueError, match="`cv` must be a number of folds or None for rows that are not in memory"):
            FeatureRegressor(SMALL, cv=KFold(3)).fit(*rows_and_targets)

    def test_labels_are_checked(self, rows_and_targets):
        rows, targets = rows_and_targets
        with pytest.raises(ValueError, match="needs at least two classes"):
            FeatureClassifier(SMALL).fit(rows, da.zeros(600, chunks=(250,)))
        with pytest.raises(ValueError, match="Unknown label type: continuous"):
            FeatureClassifier(SMALL).fit(rows, targets)

    @pytest.mark.parametrize("method", ["partial_fit", "fit_features"])
    def test_methods_that_need_arrays(self, rows_and_targets, method):
        with pytest.raises(ValueError, match=f"`{method}` needs in-memory arrays; use `fit` for Dask collections"):
            getattr(FeatureRegressor(SMALL), method)(*rows_and_targets)

    def test_scores(self, rows_and_targets):
        (X, y), (rows, targets) = make_data(n_rows=600), rows_and_targets
        model = FeatureRegressor(SMALL, random_state=0).fit(X, np.column_stack([y, y]))
        with pytest.raises(ValueError, match="y has 1 targets, and the model has 2"):
            model.score(rows, targets)
        with pytest.raises(NotFittedError):
            FeatureClassifier().score(rows, targets > 5)
        with pytest.raises(ValueError, match="give y"):
            model.score(rows, None)
        with pytest.raises(ValueError, match="0 sample"):
            model.score(rows[:0], da.zeros((0, 2)))

    def test_some_row_needs_a_positive_weight(self, rows_and_targets):
        rows, targets = rows_and_targets
        zeros = da.zeros(600, chunks=(250,))
        message = "No row has a positive `sample_weight`; give some rows a weight"
        with pytest.raises(ValueError, match=message):
            FeatureRegressor(SMALL).fit(rows, targets, zeros)
        with pytest.raises(ValueError, match=message):
            FeatureClassifier(SMALL).fit(rows, targets > 5, zeros)
        with pytest.raises(ValueError, match=message):
            FeatureRegressor(SMALL).fit(rows, targets).score(rows, targets, zeros)


@pytest.mark.parametrize("name", ["ridge", pytest.param("svm", marks=pytest.mark.slow)])
def test_persisted_collection(name):
    """Its blocks are futures, which a client in this process has too."""
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    (X, y), expected = make_data(name), fit_in_memory(name)
    with distributed.Client(**options):
        rows, targets = (array.persist() for array in to_dask(X, y, chunks=CHUNKINGS["even"]))
        model = clone(MODELS[name]).fit(rows, targets)
        assert_same_model(model, expected)
        doubled = clone(MODELS[name]).fit(2.0 * rows, targets)  # computed from futures
        assert doubled.features_.length_scale_ == pytest.approx(2.0 * expected.features_.length_scale_, rel=1e-12)
        assert model.score(rows, targets) == pytest.approx(expected.score(X, y), rel=1e-10)
        assert_close(model.features_.transform(rows).compute(), expected.features_.transform(X))


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


def fit_on_even_chunks(X, y):
    rows, targets = to_dask(X, y, chunks=CHUNKINGS["even"])
    return clone(MODELS["ridge"]).fit(rows, targets)


def slowly(block):
    time.sleep(0.2)
    return block


def find_for_a_minute(process):
    for _ in range(6000):
        os.kill(process, 0)
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
class TestCluster:
    def test_fit_within_a_task(self):
        client, (X, y) = distributed.get_client(), make_data()
        worker = next(iter(client.scheduler_info()["workers"]))
        model = client.submit(fit_on_even_chunks, X, y, workers=[worker]).result(timeout=300)
        assert_same_model(model, fit_in_memory("ridge"))

    @pytest.mark.parametrize("name", MODELS)
    def test_model_equals_that_of_rows_in_memory(self, name):
        (X, y), expected = make_data(name), fit_in_memory(name)
        rows, targets = to_dask(X, y, chunks=CHUNKINGS["uneven"])
        model = clone(MODELS[name]).fit(rows, targets)
        assert_same_model(model, expected)
        assert model.score(rows, targets) == pytest.approx(expected.score(X, y))

    @pytest.mark.parametrize("name", ["ridge", "svm"])
    def test_killed_worker_is_replaced(self, name):
        X, y = make_data(name)
        rows, targets = to_dask(X, y, chunks=(260,) * 10)
        rows = rows.map_blocks(slowly, dtype=float, meta=np.empty((0, 4)))
        if name == "svm":
            rows = rows.persist()
        victim = next(iter(distributed.get_client().run(os.getpid).values()))
        timer = threading.Timer(0.8, os.kill, (victim, signal.SIGKILL))
        timer.start()
        model = clone(MODELS[name]).fit(rows, targets)
        timer.join()
        with pytest.raises(ProcessLookupError):  # another process takes its place
            find_for_a_minute(victim)
        assert_same_model(model, fit_in_memory(name))


# In a process of its own, because what a lost scheduler leaves behind cannot be closed in good order.
LOST = """
import os, subprocess, sys, threading, time
import dask.array as da, numpy as np
from distributed import Client, LocalCluster
from bochner import FeatureRegressor, FourierFeatures

def large(block):
    return np.ones((20_000_000, 4))

def slowly(block):
    open("started", "w").close()
    time.sleep(0.5)
    return block

def kill_after_start(process):
    while not os.path.exists("started"):
        time.sleep(0.01)
    process.kill()

def attempt(rows):
    try:
        FeatureRegressor(FourierFeatures(n_frequencies=8)).fit(rows, rows[:, 0])
    except Exception as error:
        print(type(error).__name__, error, flush=True)

if __name__ == "__main__":
    rows = da.random.default_rng(0).normal(size=(2600, 4), chunks=(260, 4))
    if sys.argv[1] == "memory":
        cluster = LocalCluster(n_workers=1, threads_per_worker=1, memory_limit="400MB", dashboard_address=":0")
        client = Client(cluster)
        attempt(rows.map_blocks(large, dtype=float, meta=np.empty((0, 4))))
    else:
        command = [sys.executable, "-m", "dask"]
        scheduler = subprocess.Popen([*command, "scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", "s"])
        worker = subprocess.Popen([*command, "worker", "--scheduler-file", "s", "--no-dashboard", "--no-nanny"])
        client = Client(scheduler_file="s", timeout=120)
        client.wait_for_workers(1, timeout=120)
        threading.Thread(target=kill_after_start, args=[scheduler], daemon=True).start()
        attempt(rows.map_blocks(slowly, dtype=float, meta=np.empty((0, 4))))
        worker.kill()
    sys.stdout.flush()
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cause", "message"),
    [("memory", "did not fit into their memory; give smaller chunks"), ("scheduler", "is lost and nothing was fitted")],
)
def test_failure_of_a_cluster_gives_one_error_message(cause, message, tmp_path):
    (tmp_path / "lost.py").write_text(LOST)
    done = subprocess.run(
        [sys.executable, "lost.py", cause],
        cwd=tmp_path,
        env=os.environ | {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    lines = done.stdout.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("ClusterError")
    assert message in lines[0]
