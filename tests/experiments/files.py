# SPDX-License-Identifier: BSD-3-Clause
"""The contents of files in the formats that data sets are published in."""

import io
import zipfile

import numpy as np
from scipy.io import savemat
from sklearn.datasets import dump_svmlight_file


def zip_bytes(content, name="numbers.txt"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def text_bytes(table):
    return "".join(",".join(map(repr, row)) + "\n" for row in np.asarray(table).tolist()).encode()


def arff_bytes(table):
    """Return an ARFF file whose first column is nominal and holds numbers; the others are real."""
    levels = ",".join(sorted({f"{value:g}" for value in table[:, 0]}))
    header = f"% a comment\n@relation r\n@attribute c0 {{{levels}}}\n"
    header += "".join(f"@attribute c{column} real\n" for column in range(1, table.shape[1]))
    rows = "".join(",".join([f"{row[0]:g}", *map(repr, row[1:])]) + "\n" for row in table.tolist())
    return (header + "@data\n" + rows).encode()


def idx_bytes(array):
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


def svmlight_bytes(X, y):
    buffer = io.BytesIO()
    dump_svmlight_file(X, y, buffer, zero_based=False)
    return buffer.getvalue()


def npz_bytes(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def mat_bytes(**arrays):
    buffer = io.BytesIO()
    savemat(buffer, arrays)
    return buffer.getvalue()
