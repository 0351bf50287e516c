# SPDX-License-Identifier: BSD-3-Clause
"""Results of the benchmark on tables: the file, means over divisions, ranks and ratios."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor

from tabular.data import Division
from tabular.results import Result, Store, Summary, measure_error

ORDER = ["a", "b", "c", "d"]
ERRORS = {"one": {"a": 0.1, "b": 0.2, "c": 0.2, "d": 0.15}, "two": {"a": 0.4, "b": 0.1, "c": 0.8}}


def result(table: str, method: str, error: float, division: int = 0, seconds: float = 1.0) -> Result:
    return Result(table, method, division, "regression", 75, 25, 3, error, seconds, "Python 3")


@pytest.fixture
def summary() -> Summary:
    return Summary([result(t, m, error) for t, errors in ERRORS.items() for m, error in errors.items()], ORDER)


def test_ranks_share_ties_and_skip_incomplete_methods(summary: Summary) -> None:
    # Table one: a 1, b and c share 2 and 3; table two: b 1, a 2, c 3. d is behind a only, and not counted for others.
    np.testing.assert_allclose(summary.mean_ranks(), [1.5, 1.75, 2.75, 2.0])


def test_ratios_use_the_geometric_mean_and_common_tables(summary: Summary) -> None:
    ratios = summary.ratios("a", "b")
    assert ratios is not None
    assert ratios.mean == pytest.approx(np.sqrt(0.5 * 4.0))
    assert ratios.median == pytest.approx(2.25)
    assert (ratios.best_table, ratios.worst_table, ratios.n_tables) == ("one", "two", 2)
    assert (ratios.best, ratios.worst) == pytest.approx((0.5, 4.0))
    alone = summary.ratios("d", "a")
    assert alone is not None
    assert (alone.mean, alone.n_tables) == (pytest.approx(1.5), 1)
    assert summary.ratios("a", "absent") is None


def test_means_are_over_the_divisions_that_all_methods_have() -> None:
    rows = [result("one", "a", 0.1, 0, 1.0), result("one", "a", 0.3, 1, 16.0), result("one", "a", 9.0, 2)]
    rows += [result("one", "b", 0.2, 0), result("one", "b", 0.6, 1), result("two", "a", 0.5, 0, 34.0)]
    summary = Summary(
        [*rows, result("two", "b", 0.5, 0), result("three", "a", 1.0, 0), result("three", "b", 1.0, 1)], ORDER
    )
    assert summary.tables == ["one", "two"]
    assert summary.n_divisions == {"one": 2, "two": 1}
    np.testing.assert_allclose(summary.errors, [[0.2, 0.4], [0.5, 0.5]])
    np.testing.assert_allclose(summary.typical_seconds(), [np.sqrt(8.5 * 34.0), 1.0])


def test_errors_are_relative_to_the_spread_of_the_test_targets() -> None:
    X = np.zeros((4, 1))
    rows = Division(X, X, np.full(4, 2.0), np.array([0.0, 0.0, 4.0, 4.0]))
    assert measure_error("regression", rows, DummyRegressor().fit(X, rows.y_train)) == pytest.approx(1.0)
    labels = Division(X, X, np.ones(4, dtype=int), np.array([1, 1, 1, 0]))
    assert measure_error("classes", labels, DummyClassifier().fit(X, labels.y_train)) == 0.25


def test_store_resumes_after_a_killed_run(tmp_path) -> None:
    path = tmp_path / "results.jsonl"
    first, second = result("one", "a", 0.1), result("one", "b", 0.2)
    store = Store(path)
    store.append(first)
    with path.open("a") as file:
        file.write('{"table": "on')
    store = Store(path)
    assert list(store.results.values()) == [first]
    store.append(second)
    store.append(replace(first, error=0.3))
    assert [r.error for r in Store(path).results.values()] == [0.3, 0.2]


def test_store_names_the_damaged_line(tmp_path) -> None:
    path = tmp_path / "results.jsonl"
    Store(path).append(result("one", "a", 0.1))
    with path.open("a") as file:
        file.write("nonsense\n")
    with pytest.raises(ValueError, match=r"damaged in line 2; delete that line"):
        Store(path)
