# SPDX-License-Identifier: BSD-3-Clause
"""Tables of the benchmark: reading and encoding of files written here, and the tables themselves if installed."""

import numpy as np
import pandas as pd
import pytest

from tabular import data
from tabular.data import TABLES, Source, Table, divide, load, missing_packages, n_train

TABLE = """name,size,empty,shade,day,price
a,1.0,,red,2024-03-01,1.0
b,2.0,,,2023-12-31,10.0
b,2.0,,,2023-12-31,10.0
c,?,,red,2024-01-01,100.0
d,4.0,5.0,blue,2024-01-01,1000.0
"""


@pytest.fixture
def installed(tmp_path, monkeypatch) -> None:
    """Install a package with two small tables, and name a table of a package that is not installed."""
    folder = tmp_path / "some_tables"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('tables are read without importing their package')\n")
    (folder / "prices.csv").write_text(TABLE)
    (folder / "classes.dat").write_text(
        "@relation r\n@attribute first real [0, 1]\n@attribute kind {p, n}\n@data\n0.5, p\n0.25, n\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(data, "RARE", 0.3)
    prices = Source("regression", "some_tables/prices.csv", "price", ("name",), log=True, dates=("day",))
    monkeypatch.setitem(TABLES, "prices", prices)
    monkeypatch.setitem(TABLES, "kinds", Source("classes", "some_tables/classes.dat", "kind"))
    monkeypatch.setitem(TABLES, "absent", Source("classes", "absent_tables/classes.dat", "kind"))


@pytest.mark.usefixtures("installed")
def test_rows_and_columns_follow_the_rules() -> None:
    table = load("prices")
    frame = pd.DataFrame(table.X, columns=table.columns)
    # The copy, the row without a size and the empty column are dropped.
    np.testing.assert_array_equal(frame["size"], [1.0, 2.0, 4.0])
    np.testing.assert_allclose(table.y, np.log([1.0, 10.0, 1000.0]))
    assert "empty" not in frame
    np.testing.assert_array_equal(frame["day year"], [2024, 2023, 2024])
    np.testing.assert_array_equal(frame["day day"], [61, 365, 1])
    np.testing.assert_array_equal(frame["shade_missing"], [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(frame["day weekday_Sunday"], [0.0, 1.0, 0.0])


@pytest.mark.usefixtures("installed")
def test_rare_categories_share_a_column(monkeypatch) -> None:
    monkeypatch.setattr(data, "RARE", 0.4)
    assert not [column for column in load("prices").columns if column.startswith("shade")]  # all are rare, so constant


@pytest.mark.usefixtures("installed")
def test_classes_are_integers_from_zero() -> None:
    table = load("kinds")
    assert (table.kind, table.columns) == ("classes", ["first"])
    np.testing.assert_array_equal(table.y, [1, 0])


@pytest.mark.usefixtures("installed")
def test_missing_packages_are_named() -> None:
    assert missing_packages(["prices", "absent"]) == ["absent_tables"]
    with pytest.raises(ModuleNotFoundError, match="run `make bench-tabular`"):
        load("absent")


def test_divisions_have_no_row_in_common_and_keep_shares_of_classes() -> None:
    table = Table("t", "classes", ["x"], np.arange(200.0)[:, None], np.repeat([0, 1], [160, 40]))
    rows = divide(table, seed=1)
    assert (len(rows.X_train), len(rows.X_test)) == (n_train(table), 50)
    assert not set(rows.X_train[:, 0]) & set(rows.X_test[:, 0])
    assert (rows.y_train.mean(), rows.y_test.mean()) == (0.2, 0.2)
    np.testing.assert_array_equal(rows.X_test, divide(table, seed=1).X_test)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_tables_are_complete(name: str) -> None:
    if missing_packages([name]):
        pytest.skip("the packages of tables.lock are not installed; `make bench-tabular` installs them")
    table = load(name)
    assert 700 <= len(table.X) == len(table.y)
    assert table.X.shape[1] == len(table.columns) == len(set(table.columns))
    assert np.isfinite(table.X).all()
    assert np.isfinite(table.y).all()
    assert np.ptp(table.X, axis=0).min() > 0.0
    if table.kind == "regression":
        # No column alone determines the target, so that none repeats it.
        correlations = np.corrcoef(table.X, table.y, rowvar=False)[-1, :-1]
        assert np.abs(correlations).max() < 0.999
    else:
        assert np.bincount(table.y).min() >= 10
