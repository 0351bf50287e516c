# SPDX-License-Identifier: BSD-3-Clause
"""Files: a table of the user's, and the formats that data sets are published in, packed or not, as plain arrays."""

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Any
from warnings import catch_warnings

import numpy as np
from scipy.io import loadmat
from scipy.io.arff import loadarff
from scipy.io.matlab import MatReadError
from sklearn.datasets import load_svmlight_file

from bochner.rows import Array, Floats

__all__ = [
    "PACKINGS",
    "DamagedError",
    "read_arrays",
    "read_idx",
    "read_labelled_table",
    "read_numbers",
    "read_svmlight",
    "read_table",
]

LARGEST = 1e150  # the squares of larger values overflow
SEPARATORS = (",", ";", "\t")
# The third byte of an idx file is the type of its values, which are big-endian.
IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
# What the readers raise on a damaged file; pyarrow's and scipy's other errors are kinds of ValueError and OSError.
DAMAGE = (
    *(OSError, EOFError, ValueError, TypeError, StopIteration, NotImplementedError),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile, MatReadError),
)


class DamagedError(ValueError):
    """A file is not what its name says."""


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
    X, _, left_out = _read_table(path, None)
    return X, left_out


def read_labelled_table(path: Path, target: str) -> tuple[Floats, Array, list[str]]:
    """The same with one column, or an array of an NPZ file, apart: numbers, or text.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from bochner.experiments.formats import read_labelled_table
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.savez(Path(folder.name) / "two.npz", X=[[1.0], [3.0]], kind=["x", "y"])
    >>> X, y, left_out = read_labelled_table(Path(folder.name) / "two.npz", "kind")
    >>> X.tolist(), y.tolist(), left_out
    ([[1.0], [3.0]], ['x', 'y'], [])
    >>> folder.cleanup()
    """
    X, y, left_out = _read_table(path, target)
    y = np.asarray(y)
    if y.dtype.kind == "f":
        _check_values(f"{path}: column {target!r}", y)
    if y.shape != (len(X),):
        raise ValueError(f"{path} has {len(X)} rows and a target {target!r} of shape {y.shape}; give one value a row.")
    return X, y, left_out


def _read_table(path: Path, target: str | None) -> tuple[Floats, Array | None, list[str]]:
    readers = {".csv": _read_arrow, ".parquet": _read_arrow, ".npz": _read_npz}
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise ValueError(f"{path} is not a table this command reads; give a {', '.join(readers)} file.")
    if not path.is_file():
        raise ValueError(f"{path} {'is a folder, not a file' if path.is_dir() else 'does not exist'}.")
    X, y, left_out = readers[suffix](path, target)
    if not X.size:
        raise ValueError(f"{path} has no numbers in it: {X.shape[0]} rows, {X.shape[1]} numeric columns.")
    _check_values(str(path), X)
    return X, y, left_out


def _check_values(place: str, values: Floats) -> None:
    bad = np.argwhere(~(np.abs(values) < LARGEST))
    if len(bad):
        where = ", numeric column ".join(str(index + 1) for index in bad[0])
        raise ValueError(
            f"{place} has {len(bad)} missing, infinite or enormous values, the first in data row {where}; fill or drop "
            f"them."
        )


def _read_arrow(path: Path, target: str | None) -> tuple[Floats, Array | None, list[str]]:
    pa = _arrow()
    try:
        table = pa.csv.read_csv(path) if path.suffix.lower() == ".csv" else pa.parquet.read_table(path)
        names = table.column_names
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    y = None
    if target is not None:
        _check_name(path, target, names)
        y = _label_column(pa, path, target, table.column(target))
        table = table.drop_columns([target])
    numeric = [_is_numeric(pa, column) for column in table.columns]
    columns = [
        column.cast(pa.float64(), safe=False).to_numpy()
        for column, chosen in zip(table.columns, numeric, strict=True)
        if chosen
    ]
    X = np.column_stack(columns) if columns else np.empty((table.num_rows, 0))
    return X, y, [name for name, chosen in zip(table.column_names, numeric, strict=True) if not chosen]


def _check_name(path: Path, target: str, names: list[str]) -> None:
    if names.count(target) != 1:
        wrong = "more than one column" if target in names else "no column"
        shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        raise ValueError(f"{path} has {wrong} named {target!r} for --target; its columns are {shown}.")


def _label_column(pa: Any, path: Path, target: str, column: Any) -> Array:
    """The column's values: numbers, or text."""
    if _is_numeric(pa, column):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy())
    if column.null_count:
        raise ValueError(f"{path}: column {target!r} has {column.null_count} missing values; fill or drop them.")
    return np.array([str(value) for value in column.to_pylist()])


def _is_numeric(pa: Any, column: Any) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(column.type) for test in tests)


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ValueError("Reading CSV and Parquet files needs pyarrow: pip install 'bochner[table]'.") from error
    return pyarrow


def _read_npz(path: Path, target: str | None) -> tuple[Floats, Array | None, list[str]]:
    arrays = {}
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as archive:
            names = archive.files
            for name in names:
                with suppress(ValueError):  # an array of objects is not a table, and nothing is unpickled
                    arrays[name] = archive[name]
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as an npz file: it is damaged or something else.") from error
    y = None
    if target is not None:
        _check_name(path, target, list(arrays))
        y = arrays.pop(target)
        y = y.astype(np.float64 if y.dtype.kind in "biuf" else np.str_)
    tables = {name: array for name, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "biuf"}
    if not tables:
        raise ValueError(f"{path} holds no two-dimensional numeric array; it holds {', '.join(names) or 'nothing'}.")
    # X by its usual names, else the largest table.
    chosen = next((name for name in ("X", "X_train") if name in tables), max(tables, key=lambda n: tables[n].size))
    return tables[chosen].astype(np.float64), y, [name for name in names if name not in (chosen, target)]


def read_numbers(path: Path) -> Floats:
    """A table of numbers as text: ARFF, or separated by commas, semicolons, tabs or blanks, with a header or without.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from bochner.experiments.formats import read_numbers
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.csv"
    ...     _ = path.write_text("a;b\\n1;2.5\\n3;4\\n")
    ...     read_numbers(path)
    array([[1. , 2.5],
           [3. , 4. ]])
    """
    is_arff = _plain_name(path).lower().endswith(".arff")
    read = _numbers_in_arff if is_arff else partial(_numbers_in_text, _arrow())
    with _one_sentence(path, "a table of numbers"):
        X = read(path)
        if not X.size or np.isnan(X).any():
            raise ValueError("values are missing" if X.size else "it is empty")
        return X


def _numbers_in_arff(path: Path) -> Floats:
    with _open(path) as file, io.TextIOWrapper(file, encoding="utf-8") as lines:
        rows, _ = loadarff(lines)
    # Nominal columns hold text, which may be numbers.
    return np.column_stack([rows[name].astype(np.float64) for name in rows.dtype.names or ()])


def _numbers_in_text(pa: Any, path: Path) -> Floats:
    with _open(path) as file:
        first = file.readline().decode("utf-8-sig")
    separator = next((separator for separator in SEPARATORS if separator in first), None)
    cells = first.split(separator)
    header = int(any(map(_is_text, cells)))
    with _open(path) as file:
        if separator is None:  # any number of blanks, which pyarrow does not read
            with catch_warnings(action="ignore"):  # of no rows, which is an error here
                return np.loadtxt(file, skiprows=header, ndmin=2)
        # Names of our own: two columns of the file may share theirs.
        types = {str(column): pa.float64() for column in range(len(cells))}
        table = pa.csv.read_csv(
            file,
            pa.csv.ReadOptions(column_names=list(types), skip_rows=header),
            pa.csv.ParseOptions(delimiter=separator),
            pa.csv.ConvertOptions(column_types=types),
        )
    return np.column_stack([column.to_numpy() for column in table.columns])


def _is_text(cell: str) -> bool:
    """Whether a cell holds something other than a number; an empty one does not."""
    try:
        float(cell.strip(' "\r\n') or "nan")
    except ValueError:
        return True
    return False


def read_svmlight(path: Path, n_columns: int) -> tuple[Floats, Floats]:
    """The rows, dense, and the targets of a file in LIBSVM's format; its columns count from one."""
    with _one_sentence(path, "LIBSVM text"), _open(path) as file:
        X, y = load_svmlight_file(file, n_features=n_columns, zero_based=False)
        if not len(y):
            raise ValueError("it is empty")
        return X.toarray(), y


def read_idx(path: Path) -> Array:
    """The array in an idx file, the format of MNIST: two zeros, the type, the number of axes, their lengths, values."""
    with _one_sentence(path, "an idx file"), _open(path) as file:
        content = file.read()
        if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in IDX_TYPES:
            raise ValueError("it does not begin as one")
        shape = np.frombuffer(content, ">u4", count=content[3], offset=4).tolist()
        values = np.frombuffer(content, IDX_TYPES[content[2]], offset=4 + 4 * len(shape))
        if len(values) != prod(shape):
            raise ValueError(f"it has {len(values):,} of {prod(shape):,} values")
        return values.reshape(shape)


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a NumPy ``.npz`` or a MATLAB ``.mat`` file by their names in lower case; nothing is unpickled."""
    read = _arrays_in_mat if _plain_name(path).lower().endswith(".mat") else _arrays_in_npz
    with _one_sentence(path, "a file of arrays"), _open(path) as file:
        # Archives are read from their end, where a packed stream cannot go.
        return {name.lower(): array for name, array in read(io.BytesIO(file.read())).items()}


def _arrays_in_npz(file: io.BytesIO) -> dict[str, Array]:
    with zipfile.ZipFile(file), np.load(file, allow_pickle=False) as archive:
        return dict(archive)


def _arrays_in_mat(file: Any) -> dict[str, Array]:
    return {name: array for name, array in loadmat(file).items() if not name.startswith("__")}


def _open_member(path: Path) -> IO[bytes]:
    """The member of a zip file that is named like it, or its only one."""
    with zipfile.ZipFile(path) as archive:  # the open member keeps the file open
        names = archive.namelist()
        if path.stem not in names and len(names) != 1:
            raise ValueError(f"it holds {len(names)} files, none of them {path.stem}")
        return archive.open(path.stem if path.stem in names else names[0])


PACKINGS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": _open_member,
}


def _open(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked."""
    file: IO[bytes] = PACKINGS.get(path.suffix.lower(), partial(open, mode="rb"))(path)
    return file


def _plain_name(path: Path) -> str:
    """The name of what is packed."""
    return path.stem if path.suffix.lower() in PACKINGS else path.name


@contextmanager
def _one_sentence(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:
        cause = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        sentence = f"{path} cannot be read as {kind} ({cause}): it is damaged or something else; get it again."
        raise DamagedError(sentence) from error
