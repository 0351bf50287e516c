# SPDX-License-Identifier: BSD-3-Clause
"""Columns and files for tests of tables, of their models and of the commands."""

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from bochner.tables.reader import Table
from bochner.tables.survey import Survey

N_ROWS = 1600  # more than the smallest sample
# The second file begins within a row group of the whole table, and the third one has no rows.
PARTS = {"part-1": (0, 1), "part-2": (1, 700), "part-3": (700, 700), "part-10": (700, N_ROWS)}


def make_columns():
    """Return columns of each kind with a target that does not depend on them."""
    rng = np.random.default_rng(0)
    return {
        "height": rng.normal(size=500),
        "count": rng.integers(0, 9, size=500),
        "color": rng.choice(["red", "green", "blue"], size=500).tolist(),
        "y": rng.normal(size=500),
    }


def make_table():
    """Return a table with a numeric target `y` and its classes `kind`."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, N_ROWS))
    color = rng.choice(["red", "green", "blue"], size=N_ROWS)
    count = rng.integers(0, 9, size=N_ROWS)
    y = np.sin(2 * a) + b * (color == "red") + 0.3 * rng.normal(size=N_ROWS)
    kind = np.where(y > 0.5, "high", np.where(y < -0.5, "low", "middle"))
    return pa.table({"a": 1e3 * a + 1e5, "b": b, "count": count, "color": color, "y": y, "kind": kind})


def write_table(path, columns, row_group_size=100):
    table = pa.table(columns)
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path, row_group_size=row_group_size)
    return path


def write_parts(folder, table):
    """Write the rows of a table to several Parquet files."""
    folder.mkdir(exist_ok=True)
    for name, (start, stop) in PARTS.items():
        parquet.write_table(table[start:stop], folder / f"{name}.parquet", row_group_size=300)
    return folder


def survey_file(path, target="y", seed=0, **options):
    """Return the survey of all rows of a file."""
    return Survey(Table(path, target, **options), seed)
