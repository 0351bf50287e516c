# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark on tables: names on the command line, methods, and runs that are resumed."""

import numpy as np
import pytest
import typer
from sklearn.base import is_classifier, is_regressor
from sklearn.dummy import DummyRegressor

import bench_tabular
from bench_tabular import chosen, run
from tabular.data import Table
from tabular.methods import METHODS, Method, NystroemRidge
from tabular.results import Store


def test_unknown_names_are_refused() -> None:
    assert chosen("--tables", "b, a", ["c"], ["a", "b", "c"]) == ["a", "b"]
    assert chosen("--tables", None, ["c"], ["a", "b", "c"]) == ["c"]
    with pytest.raises(typer.BadParameter, match="'x' is unknown; use names from a, b"):
        chosen("--tables", "a,x", ["a"], ["a", "b"])


@pytest.mark.parametrize("method", METHODS)
def test_methods_build_an_estimator_for_each_kind(method: str) -> None:
    assert METHODS[method].description
    regressor, classifier = (METHODS[method].build(kind, 3, 0) for kind in ("regression", "classes"))
    if method != "nystroem":
        assert is_regressor(regressor)
        assert is_classifier(classifier)


@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_nystroem_picks_a_length_scale_that_fits(kind) -> None:
    X = np.random.default_rng(0).standard_normal((300, 2))
    y = np.sin(3 * X[:, 0])
    y = y if kind == "regression" else (y > 0).astype(int)
    model = NystroemRidge(kind, n_components=100).fit(X[:200], y[:200])
    errors = model.predict(X[200:]) - y[200:]
    assert np.mean(np.square(errors)) < 0.1 * np.var(y[200:]) if kind == "regression" else np.mean(errors != 0) < 0.15


def test_runs_resume_and_skip_what_is_refused(tmp_path, monkeypatch, capsys) -> None:
    def refuse(*_):
        raise ValueError("no such length scale")

    calls = []

    def build(kind, n_columns, seed):
        calls.append(seed)
        return DummyRegressor()

    methods = {"mean": Method(build, ""), "refused": Method(refuse, ""), "small": Method(build, "", max_rows=10)}
    monkeypatch.setattr(bench_tabular, "METHODS", methods)
    table = Table("t", "regression", ["x"], np.arange(40.0)[:, None], np.arange(40.0))
    store = Store(tmp_path / "results.jsonl")
    run(store, [table], list(methods), 2)
    assert list(store.results) == [("t", "mean", 0), ("t", "mean", 1)]
    assert capsys.readouterr().out.count("Skipped refused, which cannot be fitted to t: no such length scale") == 1
    run(Store(tmp_path / "results.jsonl"), [table], ["mean"], 3)
    assert calls == [0, 1, 2]
