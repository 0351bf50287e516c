# SPDX-License-Identifier: BSD-3-Clause
import pytest

from tests.table_models.cases import SETTINGS, TARGETS, fit_case
from tests.tables.tables import make_table, write_parts, write_table


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A Parquet file with the target of each model, in row groups of 400 rows."""
    folder = tmp_path_factory.mktemp("table-models")
    table = make_table()
    paths = {
        "y": write_table(folder / "y.parquet", table.drop_columns("kind"), row_group_size=400),
        "kind": write_table(folder / "kind.parquet", table.drop_columns("y"), row_group_size=400),
    }
    return {name: paths[target] for name, target in TARGETS.items()}


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A folder of Parquet files with the same rows, for each model."""
    parent = tmp_path_factory.mktemp("table-model-folders")
    table = make_table()
    folders = {
        "y": write_parts(parent / "y", table.drop_columns("kind")),
        "kind": write_parts(parent / "kind", table.drop_columns("y")),
    }
    return {name: folders[target] for name, target in TARGETS.items()}


@pytest.fixture(scope="session")
def models(files):
    """Models that are not changed by tests."""
    return {name: fit_case(name, files[name]) for name in SETTINGS}
