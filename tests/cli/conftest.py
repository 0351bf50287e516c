# SPDX-License-Identifier: BSD-3-Clause
import pytest

from tests.cli.commands import run_json
from tests.tables.tables import make_table, write_parts, write_table


@pytest.fixture(scope="session")
def table_file(tmp_path_factory):
    """A table with the targets `y` and `kind`, in row groups of 400 rows."""
    return write_table(tmp_path_factory.mktemp("cli") / "train.parquet", make_table()[:500], row_group_size=200)


@pytest.fixture(scope="session")
def table_folder(tmp_path_factory):
    """The same table in several files."""
    return write_parts(tmp_path_factory.mktemp("cli") / "data", make_table())


@pytest.fixture(scope="session")
def model_file(table_file, tmp_path_factory):
    """A regression of `y`."""
    path = tmp_path_factory.mktemp("cli") / "m.skops"
    run_json("fit", table_file, "--target", "y", "--drop", "kind", "--fast", "--model", "features", "--output", path)
    return path
