# SPDX-License-Identifier: BSD-3-Clause
"""Data sets: the bundled digits, or a table of the user's, standardised and split."""

import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from bochner.blocks import Floats

__all__ = ["Split", "digits", "read_table", "split"]

LARGEST = 1e150  # the squares of larger values overflow


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
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise ValueError(f"{path} is not a table this command reads; give a {', '.join(readers)} file.")
    if not path.is_file():
        raise ValueError(f"{path} {'is a folder, not a file' if path.is_dir() else 'does not exist'}.")
    X, left_out = readers[suffix](path)
    if not X.size:
        raise ValueError(f"{path} has no numbers in it: {X.shape[0]} rows, {X.shape[1]} numeric columns.")
    bad = np.argwhere(~(np.abs(X) < LARGEST))
    if len(bad):
        row, column = bad[0] + 1
        raise ValueError(
            f"{path} has {len(bad)} missing, infinite or enormous values, the first in data row {row}, numeric column "
            f"{column}; fill or drop them."
        )
    return X, left_out


def _read_arrow(path: Path) -> tuple[Floats, list[str]]:
    try:
        import pyarrow as pa
        from pyarrow import csv, parquet
    except ImportError as error:
        raise ValueError("Reading CSV and Parquet files needs pyarrow: pip install 'bochner[table]'.") from error
    try:
        table = csv.read_csv(path) if path.suffix.lower() == ".csv" else parquet.read_table(path)
        names = table.column_names
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    numeric = [any(test(column.type) for test in tests) for column in table.columns]
    columns = [
        column.cast(pa.float64(), safe=False).to_numpy()
        for column, chosen in zip(table.columns, numeric, strict=True)
        if chosen
    ]
    X = np.column_stack(columns) if columns else np.empty((table.num_rows, 0))
    return X, [name for name, chosen in zip(names, numeric, strict=True) if not chosen]


def _read_npz(path: Path) -> tuple[Floats, list[str]]:
    tables = {}
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as archive:
            names = archive.files
            for name in names:
                with suppress(ValueError):  # an array of objects is not a table, and nothing is unpickled
                    array = archive[name]
                    if array.ndim == 2 and array.dtype.kind in "biuf":
                        tables[name] = array
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as an npz file: it is damaged or something else.") from error
    if not tables:
        raise ValueError(f"{path} holds no two-dimensional numeric array; it holds {', '.join(names) or 'nothing'}.")
    # X by its usual names, else the largest table.
    chosen = next((name for name in ("X", "X_train") if name in tables), max(tables, key=lambda n: tables[n].size))
    return tables[chosen].astype(np.float64), [name for name in names if name != chosen]
