# SPDX-License-Identifier: BSD-3-Clause
import pytest

from bench_kernel_machine import CONFIRMING, DESIGNING, measure, summarize
from tabular.data import TABLES, Table


def test_halves_are_a_partition():
    assert sorted((*DESIGNING, *CONFIRMING)) == sorted(TABLES)
    assert len(DESIGNING) == len(CONFIRMING)


@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_errors_are_measured_and_summarized(kind, rng):
    X = rng.normal(size=(200, 3))
    y = X[:, 0] ** 2 if kind == "regression" else (X[:, 0] > 0).astype(int)
    table = Table("concrete", kind, ["a", "b", "c"], X, y)
    results = [measure(table, method, 0) for method in ("boosting", "machine-fast")]
    assert all(0 <= result["error"] < 1 for result in results)
    assert 0.6 < results[1].get("coverage_0.8", 0.8) <= 1
    assert ("log_loss" in results[0]) == (kind == "classes")
    ratio = max(results[1]["error"], 1e-6) / max(results[0]["error"], 1e-6)
    assert f"machine-fast / boosting, designing half: median {ratio:.3f}" in summarize(results)
