# SPDX-License-Identifier: BSD-3-Clause
"""Model files, written atomically and read by skops, which executes nothing in them."""

import json
from importlib import import_module
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile

import numpy as np
import pyarrow as pa

try:
    import skops.io
except ImportError as error:
    raise ImportError("Model files need skops: pip install 'bochner[cli]'.") from error

from bochner.atomic_files import replaced_file
from bochner.tables.table_encoder import TableEncoder
from bochner.tables.table_models import TableModel, TableRegressor

__all__ = ["load", "save"]

LARGEST_NESTED = 1 << 30  # bytes of an archive in a model file, such as a sparse matrix
ZIP_MAGIC = b"PK\x03\x04"
ABOUT = "bochner.json"  # the entry that says which version has written the file


def save(model: TableModel, path: Path) -> None:
    """Write a model to a file, which is replaced once it is complete."""
    if path.suffix != ".skops":
        raise ValueError(f"A model file must end in .skops, and {path} does not; give another name.")
    with replaced_file(path) as temporary:
        skops.io.dump(model, temporary)
        with ZipFile(temporary, "a") as archive:
            archive.writestr(ABOUT, json.dumps({"version": version("bochner")}))


def load(path: Path) -> Any:
    """Read what `save` has written; files of other programs, damaged and crafted ones are refused.

    Nothing in the file is executed: skops creates objects of classes of bochner and of scikit-learn only. What it has
    created has to predict a row, so that a model that was loaded can be used.
    """
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise ValueError(f"{path} {problem}; give a file written by `bochner fit`.")
    here = written_by = version("bochner")
    try:
        _check_sizes(path, path.stat().st_size)
        with ZipFile(path) as archive:
            if ABOUT in archive.namelist():
                written_by = str(json.loads(archive.read(ABOUT))["version"])[:20]
        found = skops.io.get_untrusted_types(file=path)
        foreign = sorted(name for name in found if not _is_own_class(name))
        if foreign:
            raise TypeError(f"it contains the unknown type {ascii(foreign[0])[1:-1]:.200}")
        model = skops.io.load(path, trusted=found)
        _check_model(model)
    except BadZipFile:
        raise ValueError(f"{path} is not a model file; give a file written by `bochner fit`.") from None
    except Exception as error:  # a damaged or crafted file can cause any error in skops, numpy and the checks
        place = "cannot be used" if written_by == here else f"was written by bochner {written_by}, and this is {here}"
        cause = "".join(c if c.isprintable() else "?" for c in f"{type(error).__name__}: {error}")[:300]
        raise ValueError(f"{path} {place}; fit the model again ({cause}).") from error
    return model


def _is_own_class(name: str) -> bool:
    """Return whether a type is a class that bochner defines."""
    module, _, kind = name.rpartition(".")
    if not module.startswith("bochner.") or module.startswith("bochner.cli"):
        return False
    found = getattr(import_module(module), kind, None)
    return isinstance(found, type) and found.__module__ == module


def _check_model(model: Any) -> None:
    """Check that a model predicts finite numbers or classes for a row without values and for a row of ones."""
    if not isinstance(model, TableModel):
        raise TypeError(f"it contains a {type(model).__name__} and no model of a table")
    if not isinstance(model.encoder_, TableEncoder):
        if not hasattr(model.encoder_, "transform"):
            raise TypeError("it has no encoder")
        return  # what a foreign encoder accepts is not known
    encoding = model.encoder_.encoding_
    missing = encoding.encode(pa.RecordBatch.from_pydict({column.name: pa.nulls(1) for column in encoding.columns}))
    rows = np.concatenate([missing, np.ones_like(missing)])
    found = [model.predict_rows(rows)]
    if isinstance(model, TableRegressor) and hasattr(model, "predict_interval"):
        found.extend(model.interval_rows(rows, 0.5).T)
    elif hasattr(model, "predict_proba"):
        found.extend(model.estimator_.predict_proba(rows).T)
    for values in found:
        if np.shape(values) != (2,) or (values.dtype.kind == "f" and not np.isfinite(values).all()):
            raise ValueError("its predictions are not finite numbers")


def _check_sizes(file: Path | BinaryIO, limit: int) -> None:
    """Refuse an archive with more contents than a limit: a few kilobytes can stand for gigabytes of zeros.

    `save` writes no compressed contents; archives inside the file, such as sparse matrices, may be compressed.
    """
    with ZipFile(file) as archive:
        n_bytes = sum(entry.file_size for entry in archive.infolist())
        if n_bytes > limit:
            raise ValueError(f"its contents are {n_bytes:,} bytes, more than the limit of {limit:,}")
        for name in archive.namelist():
            with archive.open(name) as entry:
                is_archive = entry.read(len(ZIP_MAGIC)) == ZIP_MAGIC
            if is_archive and isinstance(file, Path):
                _check_sizes(BytesIO(archive.read(name)), LARGEST_NESTED)
