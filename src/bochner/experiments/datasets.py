# SPDX-License-Identifier: BSD-3-Clause
"""Data sets: the bundled digits, or a table of the user's, standardised and split."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from bochner.blocks import Floats

__all__ = ["Split", "digits", "read_table", "split"]


@dataclass(frozen=True)
class Split:
    """Rows to fit on and rows to measure on, in units of the training rows' standard deviations."""

    name: str
    X_train: Floats
    X_test: Floats


def digits() -> Split:
    """scikit-learn's bundled digits: 1,797 images of 64 pixels.

    Examples
    --------
    >>> from bochner.experiments.datasets import digits
    >>> digits().X_train.shape
    (899, 64)
    """
    return split("digits", np.asarray(load_digits().data))


def split(name: str, X: Floats, *, most: int = 2000) -> Split:
    """Two random halves of X, each of at most `most` rows, standardised; which rows does not depend on a seed."""
    if len(X) < 4:
        raise ValueError(f"{name} has {len(X)} rows; at least 4 are needed to fit on some and measure on others.")
    order = np.random.default_rng(0).permutation(len(X))
    train, test = np.array_split(order, 2)
    scaler = StandardScaler().fit(X[train[:most]])
    return Split(name, scaler.transform(X[train[:most]]), scaler.transform(X[test[:most]]))


def read_table(path: Path) -> tuple[Floats, list[str]]:
    """The numeric columns of a CSV, Parquet or NPZ file, and the names of the columns left out.

    Parameters
    ----------
    path : Path
        A ``.csv`` or ``.parquet`` file with a header, or a ``.npz`` file with a two-dimensional array.

    Returns
    -------
    X : ndarray of shape (n_rows, n_columns)
        The values.
    left_out : list of str
        Columns that do not hold numbers.
    """
    readers = {".csv": _read_arrow, ".parquet": _read_arrow, ".npz": _read_npz}
    if path.suffix not in readers:
        raise ValueError(f"{path} is not a table this command reads; give a {', '.join(readers)} file.")
    if not path.is_file():
        raise ValueError(f"{path} does not exist.")
    X, left_out = readers[path.suffix](path)
    if not X.size:
        raise ValueError(f"{path} has no numbers in it: {X.shape[0]} rows, {X.shape[1]} numeric columns.")
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        row, column = bad[0] + 1
        raise ValueError(
            f"{path} has {len(bad)} missing or infinite values, the first in data row {row}, numeric column {column}; "
            f"fill or drop them."
        )
    return X, left_out


def _read_arrow(path: Path) -> tuple[Floats, list[str]]:
    try:
        import pyarrow as pa
        from pyarrow import csv, parquet
    except ImportError as error:
        raise ValueError("Reading CSV and Parquet files needs pyarrow: pip install 'bochner[table]'.") from error
    try:
        table = csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error

    def numeric(field: Any) -> bool:
        kind = field.type
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))

    names = [field.name for field in table.schema if numeric(field)]
    columns = [table[name].cast(pa.float64()).to_numpy() for name in names]
    X = np.column_stack(columns) if columns else np.empty((table.num_rows, 0))
    return X, [field.name for field in table.schema if not numeric(field)]


def _read_npz(path: Path) -> tuple[Floats, list[str]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as an npz file: {error}") from error
    tables = {name: array for name, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "biuf"}
    if not tables:
        raise ValueError(f"{path} holds no two-dimensional numeric array; it holds {', '.join(arrays) or 'nothing'}.")
    # X by its usual names, else the largest table.
    name = next((name for name in ("X", "X_train") if name in tables), max(tables, key=lambda n: tables[n].size))
    return tables[name].astype(np.float64), [other for other in arrays if other != name]
