# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of public tables: reading of files written here, columns of the other methods, measures, statistics."""

import json
from argparse import Namespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

import bench_tabular
from bench_tabular import coverages, errors, limited, run
from tabular.data import TABLES, Fold, Source, folds, load
from tabular.methods import METHODS, Method, TypedColumns
from tabular.results import _coverage, _filled, _ranks, _ratios, summarize

TABLE = """name,size,empty,shade,day,price
a,1.0,,red,2024-03-01,1.0
b,2.0,,,2023-12-31,10.0
b,2.0,,,2023-12-31,10.0
c,?,,red,2024-01-01,100.0
d,4.0,5.0,blue,2024-01-01,1000.0
e,4.0,6.0,blue,2024-01-01,
"""


@pytest.fixture
def installed(tmp_path, monkeypatch) -> None:
    """Install a package with two small tables, and name a table of a package that is not installed."""
    folder = tmp_path / "some_tables"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('tables are read without importing their package')\n")
    (folder / "prices.csv").write_text(TABLE)
    lines = "".join(f"{number / 10}, {'pn'[number % 2]}\n" for number in range(12))
    header = "@relation r\n@attribute first real [0, 1]\n@attribute kind {p, n}\n@data\n"
    (folder / "classes.dat").write_text(header + lines)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(TABLES, "prices", Source("some_tables/prices.csv", "price", ("name",), log=True))
    monkeypatch.setitem(TABLES, "kinds", Source("some_tables/classes.dat", "kind", has_classes=True))
    monkeypatch.setitem(TABLES, "absent", Source("absent_tables/classes.dat", "kind"))


@pytest.mark.usefixtures("installed")
def test_copies_and_rows_without_a_target_are_dropped() -> None:
    table = load("prices")
    np.testing.assert_array_equal(table.X["size"], [1.0, 2.0, np.nan, 4.0])
    np.testing.assert_allclose(table.y, np.log([1.0, 10.0, 100.0, 1000.0]))
    assert list(table.X) == ["size", "shade", "day"]  # the other column is constant
    assert len(load("prices", max_rows=2).X) == 2


@pytest.mark.usefixtures("installed")
def test_classes_have_the_same_shares_in_all_folds() -> None:
    table = load("kinds")
    assert table.kind == "binary"
    parts = list(folds(table, 2))
    assert len(parts) == 6
    assert all(part.y_test.mean() == 0.5 for part in parts)
    assert sorted(value for part in parts[:3] for value in part.X_test["first"]) == sorted(table.X["first"])


@pytest.mark.usefixtures("installed")
def test_a_missing_package_has_a_remedy() -> None:
    with pytest.raises(ModuleNotFoundError, match="run `make bench-tabular`"):
        load("absent")


@pytest.mark.usefixtures("installed")
def test_other_methods_get_numbers_and_categories() -> None:
    X = load("prices").X
    typed = TypedColumns().fit(X).transform(X.assign(shade="green"))
    assert typed["shade"].isna().all()  # unknown
    np.testing.assert_array_equal(typed["day month"], [3, 12, 1, 1])
    assert set(TypedColumns().fit_transform(X)["shade"].cat.categories) == {"red", "blue"}


def test_measures_are_those_of_tabarena() -> None:
    y, p = np.array([0, 0, 1, 1]), np.array([0.1, 0.6, 0.4, 0.9])
    measured = errors("binary", np.column_stack([1 - p, p]), y)
    assert measured["error"] == pytest.approx(1 - roc_auc_score(y, p))
    assert measured["error_rate"] == 0.5
    assert measured["brier"] == pytest.approx(2 * brier_score_loss(y, p))  # both classes are counted
    probabilities = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1]])
    assert errors("multiclass", probabilities, np.array([0, 2, 1]))["error"] == pytest.approx(
        log_loss([0, 2, 1], probabilities)
    )
    assert errors("regression", np.array([1.0, 2.0]), np.array([0.0, 4.0]))["error"] == pytest.approx(np.sqrt(2.5))


class Constant(LinearRegression):
    """A model whose intervals end at 1 - coverage and at coverage."""

    def predict_interval(self, X: pd.DataFrame, coverage: float) -> np.ndarray:
        """Return the same interval for every row."""
        return np.tile([1 - coverage, coverage], (len(X), 1))


def test_coverage_is_the_share_of_targets_in_the_intervals() -> None:
    X = pd.DataFrame({"x": np.zeros(100)})
    rows = Fold(X, X, np.zeros(100), (np.arange(100) + 0.5) / 100)
    assert coverages(Constant(), rows) == pytest.approx({"coverage_80": 0.6, "coverage_90": 0.8})
    assert coverages(LinearRegression(), rows) == {}
    results = [{"method": "tables", "table": "a", "coverage_80": share} for share in (0.75, 0.85)]
    assert _coverage(pd.DataFrame(results))[0]["median"] == pytest.approx(0.8)


def spin() -> None:
    """Never end."""
    while True:
        pass


def test_fits_have_a_limit_of_seconds() -> None:
    with pytest.raises(TimeoutError, match=r"over 0.05 processor seconds"), limited(0.05):
        spin()


@pytest.mark.usefixtures("installed")
def test_failures_are_results_and_finished_fits_are_not_repeated(monkeypatch) -> None:
    def linear(is_regression: bool, seed: int) -> LinearRegression | LogisticRegression:
        return LinearRegression() if is_regression else LogisticRegression()

    def broken(is_regression: bool, seed: int) -> None:
        raise ValueError("too few rows")

    methods = {"forest": Method(linear, "forest"), "hgb": Method(broken, "hgb")}
    monkeypatch.setattr(bench_tabular, "METHODS", methods)
    options = Namespace(methods=list(methods), tables=["kinds"], repeats=1, rows=0, seconds=10.0)
    results = list(run(options, {("kinds", "hgb", 0)}))
    assert [(result["method"], result["fold"]) for result in results[3:]] == [("hgb", 1), ("hgb", 2)]
    assert results[3]["failure"] == "ValueError: too few rows"
    assert 0 <= results[0]["error"] <= 1


def example() -> list[dict[str, object]]:
    """Return results in which the errors of "tables" are half of those of the others; one fit failed."""
    names = list(TABLES)[:8]
    factors = {"forest": 1.0, "hgb": 0.9, "tables": 0.45}
    results: list[dict[str, object]] = [
        {"table": name, "method": method, "fold": fold, "kind": "regression", "n_train": 10, "n_columns": 2}
        | {"error": factor * (1 + number), "fit_seconds": 1.0, "seconds_of_10000_predictions": 0.1}
        | {"limit_of_rows": 0, "versions": "none"}
        for number, name in enumerate(names)
        for method, factor in factors.items()
        for fold in range(3)
    ]
    results[3] |= {"error": None, "failure": "TimeoutError"}
    return results


def test_ratios_and_ranks() -> None:
    frame = pd.DataFrame(example()).assign(error=lambda frame: frame["error"].astype(float))
    filled = _filled(frame, "error", ["forest", "hgb", "tables"])
    assert filled.loc[(next(iter(TABLES)), 0), "hgb"] == 1.0  # that of the forest
    ratio = next(row for row in _ratios(filled, "error") if row["method"] == "tables" and row["tables"] == "all")
    assert ratio["median"] == pytest.approx(0.5)
    assert (ratio["n_tables"], ratio["above"], ratio["lower"]) == (8, 0, 8)
    np.testing.assert_array_equal(_ranks(filled).loc["tables"].astype(float), [1.0, 1.0, 1.0])


def test_summary_and_page(tmp_path) -> None:
    pytest.importorskip("bencheval", reason="`make bench-tabular` installs it")
    from tabular.page import write_page

    summary = json.loads(json.dumps(summarize(example())))
    assert [row["method"] for row in summary["rows"]] == ["tables", "hgb", "forest"]
    assert summary["rows"][-1]["elo"] == 1000
    write_page(tmp_path / "index.html", summary)
    assert METHODS["tables"].label in (tmp_path / "index.html").read_text()
