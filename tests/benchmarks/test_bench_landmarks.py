# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of landmarks, on the digits in the place of its data sets."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

import bench_landmarks
from bench_landmarks import errors, main, times


@pytest.fixture
def folder(tmp_path, monkeypatch):
    np.savez(tmp_path / "cpu.npz", X=load_digits().data[:900])
    monkeypatch.setattr(bench_landmarks, "N_HELD_OUT", 300)
    monkeypatch.setattr(bench_landmarks, "WIDTHS", (16, 32))
    return tmp_path


def test_errors_lie_between_those_of_nystroem_and_the_limit(folder):
    for row in errors(folder, "cpu", 1.0, seed=0):
        assert row["svd"] < row["kernel_pca"] < row["landmarks"] < row["kmeans"] < row["nystroem"]
        assert row["landmarks_seconds"] > row["kmeans_seconds"] > 0.0


def test_fewer_landmarks_reach_the_error(folder, monkeypatch):
    monkeypatch.setattr(bench_landmarks, "TIMED_ROWS", 1000)
    monkeypatch.setattr(bench_landmarks, "TARGET", 0.05)
    thousand, ten_thousand = times(folder, "cpu")
    assert (thousand["rows"], ten_thousand["rows"]) == (1000, 10_000)
    assert thousand["landmarks_columns"] < thousand["nystroem_columns"]


def test_run_is_resumed_and_summarized(folder, monkeypatch):
    monkeypatch.setattr(bench_landmarks, "FILES", {"cpu": "cpu"})
    for seeds in (1, 2):
        main(folder, folder, only="errors", seeds=seeds)
        assert len((folder / "landmarks.jsonl").read_text().splitlines()) == 6 * seeds
    stored = json.loads((folder / "kernel-error-landmarks.json").read_text())
    assert [row["seeds"] for row in stored["rows"]] == [2] * 6
    assert {row["columns"] for row in stored["summary"]} == {16, 32}
    assert all(row["landmarks_over_nystroem"] < 1.0 for row in stored["summary"])
