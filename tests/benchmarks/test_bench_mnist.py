# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark on mnist, with small images of digits in its place."""

import json

import numpy as np
import pytest
import typer
from sklearn.base import is_classifier
from sklearn.datasets import load_digits

import bench_mnist
from bench_mnist import SERIES, build, main, measure


@pytest.fixture
def folder(tmp_path):
    X, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "mnist.npz", X_train=X[:600], y_train=y[:600], X_test=X[600:800], y_test=y[600:800])
    return tmp_path


@pytest.mark.parametrize("series", SERIES)
def test_every_series_is_a_classifier(series) -> None:
    assert is_classifier(build(series, 8))


@pytest.mark.parametrize("series", ["landmarks, SVC(C=10)", "exact kernel, SVC(C=10)"])
def test_measurement(folder, series) -> None:
    row = measure(folder, series, 64)
    assert row["error"] < 0.15
    assert row["fit"] > 0.0
    assert (row["series"], row["width"]) == (series, 64)


def test_results_are_kept(folder, monkeypatch, capsys) -> None:
    rows = [dict.fromkeys(("error", "fit", "predict", "gigabytes", "penalty"), 1.0) for _ in range(2)]
    stored = folder / "bench-mnist.jsonl"
    monkeypatch.setattr(bench_mnist, "SERIES", {"exact kernel, SVC(C=10)": (0, 1)})
    lines = [json.dumps({"series": "exact kernel, SVC(C=10)", "width": i, **row}) for i, row in enumerate(rows)]
    stored.write_text("\n".join(lines) + "\n", "utf-8")
    main(folder, folder)
    assert capsys.readouterr().out.count("exact kernel") == 2
    assert (folder / "bench-mnist.png").exists()
    with pytest.raises(typer.BadParameter, match="'x' is not a series; use one of exact kernel"):
        main(folder, folder, only="x")
