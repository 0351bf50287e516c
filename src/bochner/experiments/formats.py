# SPDX-License-Identifier: BSD-3-Clause
"""Files: a table of the user, and the formats that the data sets of the paper are published in, as plain arrays."""

import gzip
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.io import loadmat, whosmat
from scipy.io.arff import loadarff
from sklearn.datasets import load_svmlight_file

from bochner.rows import Array, Floats
from bochner.tables.archives import check_archive
from bochner.tables.description import column_messages
from bochner.tables.encoding import EncodedTable
from bochner.tables.file_table import FileTable
from bochner.tables.survey import Survey

__all__ = [
    "DamagedFileError",
    "TableArrays",
    "read_arff",
    "read_arrays",
    "read_idx",
    "read_svmlight",
    "read_table",
    "read_text",
]

LARGEST = 1e150  # the squares of larger values overflow
LARGEST_CONTENTS = 1 << 32  # bytes that a compressed file may stand for


class DamagedFileError(ValueError):
    """A file does not have the format of its name."""


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Turn the errors of a reader into one error message."""
    try:
        yield
    except Exception as error:  # a damaged file can cause any error in numpy, scipy and pyarrow
        line = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        cause = "".join(character if character.isprintable() else "?" for character in line)[:300]
        raise DamagedFileError(f"{path} cannot be read as {kind} ({cause}).") from error


# Tables of the user.


class TableArrays(NamedTuple):
    """A table as numbers.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_columns)
        The rows.
    y : ndarray of shape (n_rows,) or None
        The target: numbers, or text.
    messages : list of str
        What was done with the columns.
    is_encoded : bool
        Whether the columns are standardized and encoded as by `bochner fit`; those of an NPZ file are as they are.
    """

    X: Floats
    y: Array | None
    messages: list[str]
    is_encoded: bool


def read_table(path: Path, target: str | None = None, **options: Any) -> TableArrays:
    """Read a table into memory.

    Parameters
    ----------
    path : Path
        A table that `bochner fit` reads, or an ``.npz`` file with a two-dimensional array.
    target : str, default=None
        The column, or the array in the NPZ file, to return as `y`: numbers, or text.
    **options : object
        `drop`, `kinds` and `style` of a `Table`.

    Returns
    -------
    TableArrays
        Rows, targets and what was done with the columns.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from bochner.experiments.formats import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "two.npz", X=[[1.0], [3.0]], kind=["x", "y"])
    ...     table = read_table(Path(folder) / "two.npz", "kind")
    >>> table.X.tolist(), table.y.tolist(), table.messages
    ([[1.0], [3.0]], ['x', 'y'], [])
    """
    if path.suffix.lower() != ".npz":
        return _read_encoded(path, target, **options)
    if not path.is_file():
        raise ValueError(f"{path} {'is a folder, not a file' if path.is_dir() else 'does not exist'}.")
    table = _read_npz(path, target)
    if not table.X.size:
        raise ValueError(f"{path} has {table.X.shape[0]} rows and {table.X.shape[1]} numeric columns; it needs both.")
    _check_values(str(path), table.X)
    if table.y is not None and table.y.dtype.kind == "f":
        _check_values(f"{path}: column {target!r}", table.y)
    if table.y is not None and table.y.shape != (len(table.X),):
        raise ValueError(
            f"{path} has {len(table.X)} rows and a target {target!r} of shape {table.y.shape}; the target needs one "
            f"value per row."
        )
    return table


def _read_encoded(path: Path, target: str | None, **options: Any) -> TableArrays:
    """Read all rows of a table as `bochner fit` encodes them."""
    table = FileTable(path, target, **options)
    survey = table.survey(Survey.of(table, seed=0))
    survey.check(table)
    source = EncodedTable(table, survey.encoding())
    with table.unchanged():
        batches = list(source.batches(for_training=target is not None))
    X = np.concatenate([rows for _, rows in batches]).astype(np.float64)
    messages = column_messages(table, survey)
    if target is None:
        return TableArrays(X, None, messages, is_encoded=True)
    y = np.concatenate([source.targets(chunk) for chunk, _ in batches])
    return TableArrays(X, y.astype(np.float64) if y.dtype.kind in "biuf" else y, messages, is_encoded=True)


def _check_values(place: str, values: Floats) -> None:
    invalid = np.argwhere(~(np.abs(values) < LARGEST))
    if len(invalid):
        where = ", numeric column ".join(str(index + 1) for index in invalid[0])
        raise ValueError(
            f"{place} has {len(invalid)} missing, infinite or enormous values, the first in data row {where}; impute "
            f"or drop them."
        )


def _check_name(path: Path, target: str, names: list[str]) -> None:
    if names.count(target) != 1:
        number = "more than one column" if target in names else "no column"
        shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        raise ValueError(f"{path} has {number} named {target!r} for --target; its columns are {shown}.")


def _as_floats(pa: Any, column: Any) -> Floats:
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy())


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ValueError("Tables are read with pyarrow: pip install 'bochner[table]'.") from error
    return pyarrow


def _read_npz(path: Path, target: str | None) -> TableArrays:
    arrays = read_arrays(path)
    y = None
    if target is not None:
        _check_name(path, target, list(arrays))
        y = arrays[target].astype(np.float64 if arrays[target].dtype.kind in "biuf" else np.str_)
    tables = {
        name: array
        for name, array in arrays.items()
        if name != target and array.ndim == 2 and array.dtype.kind in "biuf"
    }
    if not tables:
        names = ", ".join(arrays) or "no arrays of numbers"
        raise ValueError(f"{path} has no two-dimensional numeric array; it has {names}.")
    # X by its usual names, else the largest array.
    chosen = next((name for name in ("X", "X_train") if name in tables), max(tables, key=lambda n: tables[n].size))
    left_out = [name for name in arrays if name not in (chosen, target)]
    messages = [f"Arrays of {path.name} that are not used: {', '.join(left_out)}."] if left_out else []
    return TableArrays(tables[chosen].astype(np.float64), y, messages, is_encoded=False)


# The formats of the data sets.


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays in a NumPy ``.npz`` or a MATLAB ``.mat`` file by name; arrays of objects are left out."""
    with _reading(path, f"a {path.suffix.lower()} file"):
        if path.suffix.lower() == ".mat":
            n_bytes = sum(8 * prod(shape) for _, shape, _ in whosmat(path))
            if n_bytes > _largest_contents(path):
                raise ValueError(f"its arrays are about {n_bytes:,} bytes, more than the limit")
            return {name: array for name, array in loadmat(path).items() if not name.startswith("__")}
        check_archive(path, _largest_contents(path))
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            found = {name: _read_npy(archive, entry) for name, entry in entries.items()}
        return {name: array for name, array in found.items() if array is not None}


def _read_npy(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array | None:
    """Return an array of an NPZ file; None for an array of objects, because unpickling it could run any code."""
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        if version == (3, 0):  # names of fields that are not Latin-1, so no array of numbers
            return None
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = read_header[version](file)
    if dtype.hasobject:
        return None
    if prod(shape) * dtype.itemsize > entry.file_size:
        raise ValueError(f"{entry.filename} has {entry.file_size:,} bytes and needs {prod(shape) * dtype.itemsize:,}")
    with archive.open(entry) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _largest_contents(path: Path) -> int:
    """Return the limit of the contents of a compressed file; a large file without compression is no bomb."""
    return max(LARGEST_CONTENTS, path.stat().st_size)


def _decompressed(path: Path) -> bytes:
    """Return the content of a ``.gz`` file, up to a limit."""
    limit, content = _largest_contents(path), io.BytesIO()
    with gzip.open(path) as file:
        while part := file.read(1 << 20):  # one read of the limit would allocate all of it
            content.write(part)
            if content.tell() > limit:
                raise ValueError(f"its contents are more than the limit of {limit:,} bytes")
    return content.getvalue()


def read_text(path: Path) -> Floats:
    """Return a table of numbers separated by commas, without column names; the file may be ``.gz`` or ``.zip``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from bochner.experiments.formats import read_text
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.txt"
    ...     _ = path.write_text("1,2.5\\n3,4\\n")
    ...     read_text(path)
    array([[1. , 2.5],
           [3. , 4. ]])
    """
    pa = _pyarrow()
    options = pa.csv.ReadOptions(autogenerate_column_names=True)
    with _reading(path, "a table of numbers"):
        if path.suffix == ".zip":
            check_archive(path, _largest_contents(path))
            with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
                table = pa.csv.read_csv(file, options)
        elif path.suffix == ".gz":
            table = pa.csv.read_csv(io.BytesIO(_decompressed(path)), options)
        else:
            table = pa.csv.read_csv(path, options)
        X = np.column_stack([_as_floats(pa, column) for column in table.columns])
        return _complete(X)


def read_arff(path: Path) -> Floats:
    """Return the columns of an ARFF file, the format of OpenML; nominal columns must hold numbers."""
    with _reading(path, "an ARFF file"):
        rows, _ = loadarff(path)
        return _complete(np.column_stack([rows[name].astype(np.float64) for name in rows.dtype.names or ()]))


def _complete(X: Floats) -> Floats:
    if not X.size or np.isnan(X).any():
        raise ValueError("values are missing" if X.size else "it is empty")
    return X


def read_svmlight(path: Path, n_columns: int) -> tuple[Floats, Floats]:
    """Return the dense rows and the targets of a file in LIBSVM's format, whose columns count from one."""
    with _reading(path, "LIBSVM text"):
        X, y = load_svmlight_file(path, n_features=n_columns, zero_based=False)
        if not len(y):
            raise ValueError("it is empty")
        return X.toarray(), y


def read_idx(path: Path) -> Array:
    """Return the array of bytes in an idx file, the format of MNIST, gzipped or not.

    The format is two zeros, the type (8 for bytes), the number of axes, the length of each axis, and the values.
    """
    with _reading(path, "an idx file"):
        content = _decompressed(path) if path.suffix == ".gz" else path.read_bytes()
        if len(content) < 4 or content[:3] != b"\0\0\x08":
            raise ValueError("it does not start with 0, 0, 8")
        shape = np.frombuffer(content, ">u4", count=content[3], offset=4).tolist()
        values = np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape))
        if len(values) != prod(shape):
            raise ValueError(f"it has {len(values):,} of {prod(shape):,} values")
        return values.reshape(shape)
