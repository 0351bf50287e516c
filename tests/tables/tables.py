# SPDX-License-Identifier: BSD-3-Clause
"""Columns and files for the tests of this folder."""

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet


def make_columns():
    rng = np.random.default_rng(0)
    return {
        "height": rng.normal(size=500),
        "count": rng.integers(0, 9, size=500),
        "color": rng.choice(["red", "green", "blue"], size=500).tolist(),
        "y": rng.normal(size=500),
    }


def write_table(path, columns, row_group_size=100):
    table = pa.table(columns)
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path, row_group_size=row_group_size)
    return path
