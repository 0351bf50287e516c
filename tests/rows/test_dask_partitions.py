# SPDX-License-Identifier: BSD-3-Clause
"""Rows in pieces: Dask collections and other engines make the models that rows in memory make."""

import operator
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial, reduce

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

import bochner.fourier_features
import bochner.rows.engines
from bochner import FourierFeatures, FourierRidge, FourierRidgeClassifier, FourierSVC
from bochner.rows import PiecedRows, Pieces

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

SMALL = FourierFeatures(n_frequencies=24)
N_ROWS = 2600  # more than are merged, and not a multiple of anything
CHUNKINGS = {
    "one": (N_ROWS,),
    "even": (650,) * 4,
    "ragged": (1, 1299, 7, 993, 300),
    "empty": (0, 1300, 0, 0, 1300, 0),
    "single rows": (1,) * 20 + (N_ROWS - 20,),
}
MODELS = {
    "ridge": FourierRidge(SMALL, random_state=0),
    "two targets": FourierRidge(SMALL, random_state=0, cv=None),
    "length scales": FourierRidge(SMALL, random_state=0, length_scales=[0.5, 1, 2]),
    "classes": FourierRidgeClassifier(SMALL, random_state=0),
    "svm": FourierSVC(SMALL, random_state=0, Cs=[0.1, 10, 1000]),
    "svm of three": FourierSVC(SMALL, random_state=0, Cs=[1, 100], class_weight="balanced"),
    "svm of one C": FourierSVC(SMALL, random_state=0, Cs=[10], cv=None),
}


@pytest.fixture
def in_process():
    """Dask computes in this thread."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def cluster():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


def data(name="ridge", n_rows=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=n_rows) + 5
    if name == "two targets":
        return X, np.column_stack([y, X[:, 2] ** 2])
    if name in ("classes", "svm of three"):
        return X, np.where(y > 5.5, "high", np.where(y < 4.6, "low", "middle"))
    return X, (y > 5).astype(int) if "svm" in name else y


def chunked(*arrays, chunks):
    return [da.from_array(array, chunks=(chunks, *array.shape[1:])) for array in arrays]


def assert_same_model(found, expected, tolerance=1e-8):
    for name in ("alpha_", "C_"):
        assert getattr(found, name, None) == getattr(expected, name, None)
    assert found.features_.length_scale_ == pytest.approx(expected.features_.length_scale_, rel=1e-14)
    for name in ("coef_", "intercept_", "cv_errors_"):
        if hasattr(expected, name):
            a, b = np.asarray(getattr(found, name)), np.asarray(getattr(expected, name))
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


class Counter:
    """Passes blocks on and counts them."""

    def __init__(self):
        self.n = 0

    def __call__(self, block):
        self.n += block.shape[0] > 0
        return block

    def around(self, array):
        return array.map_blocks(self, dtype=array.dtype, meta=array._meta)


@pytest.mark.parametrize("chunks", CHUNKINGS.values(), ids=CHUNKINGS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.usefixtures("in_process")
def test_models_equal_those_of_rows_in_memory(name, chunks):
    X, y = data(name)
    expected = clone(MODELS[name]).fit(X, y)
    rows, targets = chunked(X, y, chunks=chunks)
    model = clone(MODELS[name]).fit(rows, targets)
    assert_same_model(model, expected)
    predictions = model.predict(rows)
    assert predictions.chunks[0] == chunks
    assert predictions.dtype == expected.predict(X).dtype
    assert type(predictions._meta) is np.ndarray
    if y.dtype.kind == "f":
        np.testing.assert_allclose(predictions.compute(), expected.predict(X), rtol=1e-8)
    else:
        np.testing.assert_array_equal(predictions.compute(), expected.predict(X))
        scores = model.decision_function(rows)
        np.testing.assert_allclose(scores.compute(), expected.decision_function(X), atol=1e-8)
    assert model.score(rows, targets) == pytest.approx(expected.score(X, y), rel=1e-10)


@pytest.mark.parametrize("name", ["ridge", "classes", "svm of three"])
@pytest.mark.usefixtures("in_process")
def test_weights(name, rng):
    X, y = data(name)
    weights = rng.integers(0, 3, size=N_ROWS) * rng.random(N_ROWS)
    weights[650:1300] = 0.0  # a chunk that does not count at all
    expected = clone(MODELS[name]).fit(X, y, weights)
    rows, targets, of_rows = chunked(X, y, weights, chunks=CHUNKINGS["even"])
    assert_same_model(clone(MODELS[name]).fit(rows, targets, of_rows), expected)
    model = clone(MODELS[name]).fit(rows, y, weights)  # which may be in memory
    assert_same_model(model, expected)
    assert model.score(rows, targets, of_rows) == pytest.approx(expected.score(X, y, weights), rel=1e-10)


@pytest.mark.parametrize("name", ["ridge", "classes", "svm of three"])
@pytest.mark.usefixtures("in_process")
def test_data_frames_of_unknown_lengths(name):
    X, y = data(name)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    expected = clone(MODELS[name]).fit(frame, y)
    table = dd.from_pandas(frame.assign(target=y), npartitions=5)
    table = table[table.a > -10]  # all, which Dask does not know
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


@pytest.mark.parametrize("weighting", ["uniform", "shrinkage", "quadrature", "stein", "matrix"])
@pytest.mark.parametrize("n_rows", [300, N_ROWS])
@pytest.mark.usefixtures("in_process")
def test_features(weighting, n_rows):
    X, _ = data(n_rows=n_rows)
    X = X.astype(np.float32)
    features = FourierFeatures(n_frequencies=16, weighting=weighting, sampler="halton", refine=3, random_state=0)
    expected = clone(features).fit(X)
    (rows,) = chunked(X, chunks=(100, n_rows - 100))
    features.fit(rows)
    np.testing.assert_array_equal(features.weights_, expected.weights_)
    found = features.transform(rows)
    assert found.dtype == found._meta.dtype == np.float32
    assert found.chunks == ((100, n_rows - 100), (32,))
    np.testing.assert_allclose(found.compute(), expected.transform(X), atol=1e-6)
    assert features.kernel_error(rows, random_state=0) == pytest.approx(expected.kernel_error(X, random_state=0))


@pytest.mark.parametrize(
    "settings", [{"length_scale": "scale"}, {"n_frequencies": "auto", "tolerance": 0.3}, {"n_components": 8}], ids=str
)
@pytest.mark.usefixtures("in_process")
def test_settings_of_features(settings):
    X, _ = data()
    (rows,) = chunked(X, chunks=CHUNKINGS["ragged"])
    features = FourierFeatures(**{"n_frequencies": 16, "random_state": 0} | settings)
    expected, found = clone(features).fit(X), clone(features).fit(rows)
    assert found.length_scale_ == pytest.approx(expected.length_scale_, rel=1e-12)
    np.testing.assert_allclose(found.weights_, expected.weights_, rtol=1e-8)


@pytest.mark.parametrize("many", [1 << 20, 1000])
@pytest.mark.parametrize("name", ["ridge", "classes"])
@pytest.mark.usefixtures("in_process")
def test_learned_length_scales(name, many, monkeypatch):
    monkeypatch.setattr(bochner.fourier_features, "MANY_ROWS", many)
    monkeypatch.setattr(bochner.fourier_features, "RUN_ROWS", 20)
    X, y = data(name)
    features = FourierFeatures(n_frequencies=16, length_scale="learn")
    model = clone(MODELS[name]).set_params(features=features, length_scales=[1, 2])
    rows, targets = chunked(X, y, chunks=CHUNKINGS["even"])
    expected, found = clone(model).fit(X, y), model.fit(rows, targets)
    np.testing.assert_allclose(found.features_.length_scale_, expected.features_.length_scale_, rtol=1e-10)
    assert found.features_.learning_gain_ == pytest.approx(expected.features_.learning_gain_)
    alone = clone(features).set_params(random_state=0).fit(rows, targets)
    np.testing.assert_allclose(alone.length_scale_, clone(alone).fit(X, y).length_scale_, rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["ridge", "svm"])
@pytest.mark.usefixtures("in_process")
def test_of_many_rows_the_same_sample_chooses_the_features(name, weighted, monkeypatch, rng):
    monkeypatch.setattr(bochner.fourier_features, "MANY_ROWS", 1000)
    monkeypatch.setattr(bochner.fourier_features, "RUN_ROWS", 50)
    X, y = data(name)
    weights = rng.integers(0, 3, size=N_ROWS).astype(float) if weighted else None
    rows, targets = chunked(X, y, chunks=CHUNKINGS["ragged"])
    expected = clone(MODELS[name]).fit(X, y, weights)
    assert_same_model(clone(MODELS[name]).fit(rows, targets, weights), expected)
    monkeypatch.undo()
    of_all = clone(MODELS[name]).fit(X, y, weights).features_.length_scale_
    assert expected.features_.length_scale_ == pytest.approx(of_all, rel=0.1)
    assert expected.features_.length_scale_ != of_all


@pytest.mark.usefixtures("in_process")
def test_no_block_is_computed_more_often_than_it_must(monkeypatch):
    monkeypatch.setattr(bochner.fourier_features, "MANY_ROWS", 1000)
    monkeypatch.setattr(bochner.fourier_features, "SAMPLE_RUNS", 3)
    monkeypatch.setattr(bochner.fourier_features, "RUN_ROWS", 10)
    X, y = data()
    rows, targets = chunked(X, y, chunks=(100,) * 26)
    counter = Counter()
    rows = counter.around(rows)

    features = FourierFeatures(n_frequencies=16, random_state=0).fit(rows)
    assert 3 <= counter.n <= 6, "the chunks of three runs"
    counter.n = 0
    model = FourierRidge(SMALL, random_state=0).fit(rows, targets)
    assert 26 <= counter.n <= 26 + 6, "one pass, and the sample"
    counter.n = 0
    lazy = [features.transform(rows), model.predict(rows), *model.predict(rows, return_std=True)]
    classifier = FourierRidgeClassifier(SMALL, random_state=0).fit(rows, targets > 5)
    assert 26 <= counter.n <= 26 + 6
    counter.n = 0
    lazy += [classifier.predict(rows), classifier.decision_function(rows)]
    assert counter.n == 0, "nothing is computed before it is asked for"
    assert [array.shape for array in lazy] == [(2600, 32), (2600,), (2600,), (2600,), (2600,), (2600,)]
    model.score(rows, targets)
    assert counter.n == 26, "one pass"


@pytest.mark.usefixtures("in_process")
def test_targets_made_of_the_rows_do_not_compute_them_twice():
    X, _ = data()
    counter = Counter()
    rows = counter.around(chunked(X, chunks=CHUNKINGS["even"])[0])
    features = FourierFeatures(length_scale=2.0, n_frequencies=8, weighting="uniform")
    FourierRidge(features, random_state=0).fit(rows, da.sin(rows[:, 0]))
    # One pass for the check of magnitudes, the first targets, one pass for the sums.
    assert counter.n <= 4 + 4 + 4


@pytest.mark.usefixtures("in_process")
def test_results_are_of_the_fit_they_were_asked_of():
    X, y = data()
    rows, targets = chunked(X, y, chunks=CHUNKINGS["even"])
    model, features = FourierRidge(SMALL, random_state=0).fit(rows, targets), clone(SMALL).fit(rows)
    expected, mapped = model.predict(X), features.transform(X)
    predictions, columns = model.predict(rows), features.transform(rows)
    model.fit(rows[:, :2], -targets)
    features.set_params(n_frequencies=3).fit(rows[:, :2])
    np.testing.assert_allclose(predictions.compute(), expected)
    np.testing.assert_allclose(columns.compute(), mapped)


@pytest.mark.usefixtures("in_process")
def test_sparse_chunks():
    X, y = data()
    X[np.abs(X) < 0.5] = 0.0
    rows, targets = chunked(X, y, chunks=CHUNKINGS["even"])
    rows = rows.map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 4)))
    expected = FourierRidge(SMALL, random_state=0).fit(sparse.csr_array(X), y)
    model = FourierRidge(SMALL, random_state=0).fit(rows, targets)
    assert_same_model(model, expected)
    np.testing.assert_allclose(model.predict(rows).compute(), expected.predict(X))


@pytest.mark.usefixtures("in_process")
def test_standard_deviations_and_probabilities():
    X, y = data()
    (rows,) = chunked(X, chunks=CHUNKINGS["even"])
    model = FourierRidge(SMALL, random_state=0).fit(X, y)
    for found, expected in zip(model.predict(rows, return_std=True), model.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(found.compute(), expected)
    svm = FourierSVC(SMALL, Cs=[1], probability=True, random_state=0).fit(X, y > 5)
    found = svm.predict_proba(rows)
    assert found.shape == (N_ROWS, 2)
    np.testing.assert_allclose(found.compute(), svm.predict_proba(X))
    with pytest.raises(ValueError, match="`probability`=True needs rows in memory"):
        svm.fit(rows, da.from_array(y > 5, chunks=650))


@pytest.mark.usefixtures("in_process")
def test_chunks_of_columns_are_joined_with_a_word_about_it():
    X, y = data()
    with pytest.warns(UserWarning, match=r"`X.rechunk\(\{1: -1\}\)`"):
        model = FourierRidge(SMALL, random_state=0).fit(da.from_array(X, chunks=(650, 2)), y)
    assert_same_model(model, FourierRidge(SMALL, random_state=0).fit(X, y))


def rows_with(value):
    X, _ = data()
    X[2000, 1] = value
    return da.from_array(X, chunks=(650, 4))


X_AND_Y = [da.from_array(array, chunks=(650, *array.shape[1:])) for array in data()]
MISTAKES = {
    "NaN": (lambda: (rows_with(np.nan), X_AND_Y[1]), "X contains NaN"),
    "infinity": (lambda: (rows_with(np.inf), X_AND_Y[1]), "X contains infinity"),
    "far": (lambda: (rows_with(1e20), X_AND_Y[1]), "Centre or rescale the columns"),
    "NaN in y": (lambda: (X_AND_Y[0], da.where(X_AND_Y[1] > 5, np.nan, 1.0)), "y contains NaN"),
    "text in y": (lambda: (X_AND_Y[0], da.from_array(data("classes")[1], chunks=650)), "y must hold numbers for a"),
    "rows in memory": (lambda: (data()[0], X_AND_Y[1]), "X is not; give X as one too"),
    "no y": (lambda: (X_AND_Y[0], None), "requires y to be passed"),
    "a vector": (lambda: (X_AND_Y[1], X_AND_Y[1]), "two axes, rows and columns"),
    "fewer targets": (lambda: (X_AND_Y[0], X_AND_Y[1][:-1]), "inconsistent numbers of samples"),
    "unknown lengths": (lambda: (X_AND_Y[0][X_AND_Y[0][:, 0] > 0], data()[1]), "`X.compute_chunk_sizes\\(\\)`"),
    "other lengths": (
        lambda: (X_AND_Y[0][X_AND_Y[0][:, 0] > 0], X_AND_Y[1][X_AND_Y[1] > 5]),
        "inconsistent numbers of samples",
    ),
    "other chunks": (
        lambda: (X_AND_Y[0][X_AND_Y[0][:, 0] > 0], X_AND_Y[1].rechunk(2600)[da.from_array(data()[0][:, 0] > 0)]),
        "make both from the same data frame",
    ),
    "no rows": (lambda: (X_AND_Y[0][:0], X_AND_Y[1][:0]), "0 sample"),
    "a delayed object": (lambda: (dask.delayed(3), X_AND_Y[1]), "give a dask.array or a dask.dataframe"),
}


@pytest.mark.parametrize(("make", "sentence"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.usefixtures("in_process")
def test_mistakes(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        FourierRidge(SMALL, random_state=0).fit(*make())


@pytest.mark.usefixtures("in_process")
def test_more_mistakes():
    rows, targets = X_AND_Y
    with pytest.raises(ValueError, match="`cv` must be a number of folds or None"):
        FourierRidge(SMALL, cv=KFold(3)).fit(rows, targets)
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        FourierRidge(SMALL).fit(rows, targets, sample_weight=-targets)
    with pytest.raises(ValueError, match="needs at least two classes"):
        FourierSVC(SMALL).fit(rows, da.zeros(N_ROWS, chunks=650))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        FourierSVC(SMALL).fit(rows, targets)
    for method in ("partial_fit", "fit_features"):
        with pytest.raises(ValueError, match="`fit` takes a Dask collection whole"):
            getattr(FourierRidge(SMALL), method)(rows, targets)
    features = clone(SMALL).fit(rows)
    with pytest.raises(ValueError, match="give rows in memory"):
        features.exact_kernel(rows)
    with pytest.raises(ValueError, match="give rows in memory"):
        features.approximate_kernel(np.zeros((1, 4)), rows)
    with pytest.raises(ValueError, match="4 features as input"):
        features.transform(rows[:, :3])
    with pytest.raises(ValueError, match="`out`"):
        features.transform(rows, out=np.empty((N_ROWS, 48)))
    with pytest.raises(ValueError, match=r"set_output\(transform='default'\)"):
        features.set_output(transform="pandas").transform(rows)


Y_OF_ALL_KINDS = {
    "list": lambda y: y.tolist(),
    "series": pd.Series,
    "frame": lambda y: pd.DataFrame({"y": y}),
    "nullable": lambda y: pd.Series(y, dtype="Float64"),
}


@pytest.mark.parametrize("make", Y_OF_ALL_KINDS.values(), ids=Y_OF_ALL_KINDS)
@pytest.mark.usefixtures("in_process")
def test_targets_in_memory_of_all_kinds(make):
    X, y = data()
    (rows,) = chunked(X, chunks=CHUNKINGS["even"])
    expected = clone(MODELS["ridge"]).fit(X, make(y), sample_weight=2.0)
    model = clone(MODELS["ridge"]).fit(rows, make(y), sample_weight=2.0)
    assert model.coef_.shape == expected.coef_.shape
    assert_same_model(model, expected)


LABELS = {
    "text": lambda y: pd.Series(np.where(y > 5, "high", "low")),
    "category": lambda y: pd.Series(np.where(y > 5, "high", "low")).astype("category"),
    "nullable": lambda y: pd.Series((y > 5).astype(int), dtype="Int64"),
    "nullable truth": lambda y: pd.Series(y > 5, dtype="boolean"),
    "truth": lambda y: pd.Series(y > 5),
}


@pytest.mark.parametrize("make", LABELS.values(), ids=LABELS)
@pytest.mark.usefixtures("in_process")
def test_labels_of_all_kinds(make):
    X, y = data()
    labels = make(y)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(d=pd.array(np.arange(N_ROWS) % 7, dtype="Int64"))
    expected = clone(MODELS["classes"]).fit(frame, labels)
    table = dd.from_pandas(frame.assign(label=labels), npartitions=3)
    model = clone(MODELS["classes"]).fit(table[list("abcd")], table["label"])
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert_same_model(model, expected)
    (rows,) = chunked(frame.to_numpy(dtype=float), chunks=CHUNKINGS["even"])
    assert_same_model(clone(MODELS["classes"]).fit(rows, labels), expected)


@pytest.mark.usefixtures("in_process")
def test_a_class_that_never_counts_is_none():
    X, y = data("classes")
    weights = (y != "middle").astype(float)
    expected = clone(MODELS["classes"]).fit(X, y, weights)
    model = clone(MODELS["classes"]).fit(*chunked(X, y, weights, chunks=CHUNKINGS["even"]))
    assert model.classes_.tolist() == ["high", "low"]
    assert_same_model(model, expected)


@pytest.mark.usefixtures("in_process")
def test_a_fit_is_continued_like_one_in_memory():
    X, y = data()
    weights = np.ones(N_ROWS)
    weights[:3] = 0.0
    expected = clone(MODELS["ridge"]).fit(X, y, weights).partial_fit(X, y)
    model = clone(MODELS["ridge"]).fit(*chunked(X, y, weights, chunks=CHUNKINGS["even"])).partial_fit(X, y)
    assert_same_model(model, expected)


@pytest.mark.usefixtures("in_process")
def test_mistakes_in_scores():
    (X, y), (rows, targets) = data(), X_AND_Y
    model = FourierRidge(SMALL, random_state=0).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="the model has 2 targets"):
        model.score(rows, targets)
    with pytest.raises(NotFittedError):
        FourierSVC().score(rows, targets > 5)
    with pytest.raises(ValueError, match="give y"):
        model.score(rows, None)
    with pytest.raises(ValueError, match="0 sample"):
        model.score(rows[:0], da.zeros((0, 2)))
    with pytest.raises(ValueError, match="nothing to score"):
        model.score(rows, da.ones((N_ROWS, 2), chunks=(650, 2)), da.zeros(N_ROWS, chunks=650))
    with pytest.raises(ValueError, match="No row has a positive `sample_weight`"):
        FourierSVC(SMALL).fit(rows, targets > 5, da.zeros(N_ROWS, chunks=650))


@pytest.mark.usefixtures("in_process")
def test_mistakes_in_frames():
    table = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0] * 5, "b": list("pq") * 5, "y": range(10)}), npartitions=2)
    with pytest.raises(ValueError, match="Column 'b' holds"):
        FourierRidge(SMALL).fit(table[["a", "b"]], table["y"])
    with pytest.raises(ValueError, match=r"as by `table\['y'\]`"):
        FourierRidge(SMALL).fit(table[["a"]], "y")
    missing = dd.from_pandas(pd.DataFrame({"a": pd.array([1, None] * 5, dtype="Int64"), "y": range(10)}), npartitions=2)
    with pytest.raises(ValueError, match="X contains NaN"):
        FourierRidge(SMALL).fit(missing[["a"]], missing["y"])
    rows = X_AND_Y[0]
    with pytest.raises(ValueError, match="number of columns is not known"):
        FourierRidge(SMALL).fit(rows[:, rows.sum(axis=0) > 0], X_AND_Y[1])


def test_the_graph_of_a_pass_is_flat(monkeypatch):
    """A layer a task would be walked again and again: quadratic in the number of chunks."""
    graphs = []
    monkeypatch.setattr(bochner.rows.engines, "_computed", lambda result, *_: graphs.append(result.dask) or [1])
    pieces = bochner.rows.sources.in_pieces(da.zeros((400, 2), chunks=(2, 2)))
    pieces.reduce(len, operator.add, ["X"], dict.fromkeys(range(200)))
    assert len(graphs[0]) >= 200 + 199
    assert len(getattr(graphs[0], "layers", [0])) <= 2


def fit_within_a_task(X, y):
    rows, targets = chunked(X, y, chunks=CHUNKINGS["even"])
    return clone(MODELS["ridge"]).fit(rows, targets)


@pytest.mark.usefixtures("cluster")
def test_a_fit_within_a_task():
    client, (X, y) = distributed.get_client(), data()
    only = next(iter(client.scheduler_info()["workers"]))
    model = client.submit(fit_within_a_task, X, y, workers=[only]).result(timeout=60)
    assert_same_model(model, clone(MODELS["ridge"]).fit(X, y))


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("name", MODELS)
def test_models_of_a_cluster(name):
    X, y = data(name)
    expected = clone(MODELS[name]).fit(X, y)
    rows, targets = chunked(X, y, chunks=CHUNKINGS["ragged"])
    model = clone(MODELS[name]).fit(rows, targets)
    assert_same_model(model, expected)
    assert model.score(rows, targets) == pytest.approx(expected.score(X, y))


def slowly(block):
    time.sleep(0.2)
    return block


@pytest.mark.parametrize("name", ["ridge", "svm"])
def test_a_worker_is_killed_in_the_middle(name, cluster):
    X, y = data(name)
    expected = clone(MODELS[name]).fit(X, y)
    rows, targets = chunked(X, y, chunks=(260,) * 10)
    rows = rows.map_blocks(slowly, dtype=float, meta=np.empty((0, 4)))
    if name == "svm":
        rows = rows.persist()
    victim = next(iter(distributed.get_client().run(os.getpid).values()))
    timer = threading.Timer(0.8, os.kill, (victim, signal.SIGKILL))
    timer.start()
    model = clone(MODELS[name]).fit(rows, targets)
    timer.join()
    with pytest.raises(ProcessLookupError):  # the nanny has started another one
        os.kill(victim, 0)
    assert_same_model(model, expected)


# In a process of its own: what a lost scheduler leaves behind cannot be closed in good order.
LOST = """
import os, subprocess, sys, threading, time
import dask.array as da, numpy as np
from distributed import Client, LocalCluster
from bochner import FourierFeatures, FourierRidge

def greedy(block):
    return np.ones((20_000_000, 4))

def slowly(block):
    time.sleep(0.5)
    return block

def attempt(rows):
    try:
        FourierRidge(FourierFeatures(n_frequencies=8)).fit(rows, rows[:, 0])
    except Exception as error:
        print(type(error).__name__, error, flush=True)

if __name__ == "__main__":
    rows = da.random.default_rng(0).normal(size=(2600, 4), chunks=(260, 4))
    if sys.argv[1] == "memory":
        cluster = LocalCluster(n_workers=1, threads_per_worker=1, memory_limit="400MB", dashboard_address=":0")
        client = Client(cluster)
        attempt(rows.map_blocks(greedy, dtype=float, meta=np.empty((0, 4))))
    else:
        command = [sys.executable, "-m", "dask"]
        scheduler = subprocess.Popen([*command, "scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", "s"])
        worker = subprocess.Popen([*command, "worker", "--scheduler-file", "s", "--no-dashboard", "--no-nanny"])
        client = Client(scheduler_file="s", timeout=30)
        client.wait_for_workers(1, timeout=30)
        threading.Timer(1.0, scheduler.kill).start()
        attempt(rows.map_blocks(slowly, dtype=float, meta=np.empty((0, 4))))
        worker.kill()
    sys.stdout.flush()
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("cause", "sentence"),
    [("memory", "want of memory; give smaller chunks"), ("scheduler", "is lost and nothing was fitted")],
)
def test_a_cluster_fails_with_one_sentence(cause, sentence, tmp_path):
    (tmp_path / "lost.py").write_text(LOST)
    command = [sys.executable, "lost.py", cause]
    patience = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | patience, capture_output=True, text=True, timeout=120, check=True
    )
    said = done.stdout.strip().splitlines()
    assert len(said) == 1, done.stderr
    assert said[0].startswith("ClusterError")
    assert sentence in said[0]


class ProcessPieces(Pieces):
    """Arrays in pieces, and processes that compute on them: an engine in a dozen lines."""

    def __init__(self, run, chunks, **columns):
        self.run = run
        places = np.cumsum(chunks)[:-1]
        self.blocks = {name: np.split(column, places) for name, column in columns.items()}
        self.templates = {name: column[:0] for name, column in columns.items()}
        self.n_pieces = len(chunks)

    def reduce(self, part, combine, names, arguments, description="", verbose=0):
        pieces = [(argument, *(self.blocks[name][i] for name in names)) for i, argument in arguments.items()]
        return reduce(combine, self.run(part, pieces))


def in_turn(part, pieces):
    return [part(*piece) for piece in pieces]


def in_joblib(part, pieces):
    from joblib import Parallel, delayed

    return Parallel(n_jobs=2)(delayed(part)(*piece) for piece in pieces)


def in_futures(pool, part, pieces):
    return list(pool.map(part, *zip(*pieces, strict=True)))


@pytest.mark.parametrize("engine", ["joblib", "concurrent.futures", "this process"])
def test_another_engine(engine):
    with ProcessPoolExecutor(2) as pool:
        run = {"joblib": in_joblib, "concurrent.futures": partial(in_futures, pool), "this process": in_turn}[engine]
        for name in ("ridge", "classes", "svm"):
            X, y = data(name)
            model = clone(MODELS[name]).fit(ProcessPieces(run, CHUNKINGS["ragged"], X=X, y=y), None)
            assert_same_model(model, clone(MODELS[name]).fit(X, y))


def test_rows_are_gathered_by_number():
    X, y = data(n_rows=100)
    pieces = ProcessPieces(in_turn, (30, 0, 70), X=X, y=y)
    rows = PiecedRows(pieces, X.dtype)
    assert rows.shape == (100, 4)
    wanted = np.array([99, 3, 3, 50])
    np.testing.assert_array_equal(rows[wanted], X[wanted])
    np.testing.assert_array_equal(rows[20:60:3], X[20:60:3])
    np.testing.assert_array_equal(rows.take(wanted, "X", "y")["y"], y[wanted])
    chosen = X[:, 0] > 0
    np.testing.assert_array_equal(rows.restricted(chosen)[:5], X[chosen][:5])
    assert rows[np.empty(0, dtype=int)].shape == (0, 4)


def test_pieces_are_combined_pairwise():
    depths = []

    def deeper(left, right):
        depths.append(max(left, right) + 1)
        return depths[-1]

    X, y = chunked(*data(), chunks=(100,) * 26)
    pieces = bochner.rows.sources.in_pieces(X, y)
    with dask.config.set(scheduler="synchronous"):
        assert pieces.reduce(lambda argument, block: 0, deeper, ["y"], dict.fromkeys(range(26))) == 5
        order = pieces.reduce(lambda argument, block: [argument], operator.add, ["X"], {i: i for i in range(26)})
    assert len(depths) == 25
    assert order == list(range(26))
