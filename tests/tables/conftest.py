# SPDX-License-Identifier: BSD-3-Clause
import pytest

from tests.tables.tables import make_columns, write_table


@pytest.fixture
def columns():
    return make_columns()


@pytest.fixture(scope="session")
def table_files(tmp_path_factory):
    """The same table as a CSV file and as a Parquet file, by suffix."""
    folder = tmp_path_factory.mktemp("tables")
    return {suffix: write_table(folder / f"table{suffix}", make_columns()) for suffix in (".csv", ".parquet")}
