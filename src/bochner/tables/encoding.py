# SPDX-License-Identifier: BSD-3-Clause
"""Encoding of table cells as rows of numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from bochner.robust_standardizer import SoftClipping, standardize
from bochner.rows import Array, Floats
from bochner.tables.reader import Chunk, Table, import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EncodedTable", "Encoding", "column_numbers"]


@dataclass(frozen=True)
class Encoding:
    """Standardization of numeric columns and one-hot encoding of text columns.

    Attributes
    ----------
    numeric : list of str
        Names of the numeric columns.
    categories : dict of str to list of str
        The categories of each text column. A value that is not among them is encoded as zeros.
    mean, scale : ndarray of shape (len(numeric),)
        The value that is subtracted from each numeric column, and the value that it is then divided by.
    single : bool
        Whether the encoded rows are float32 instead of float64.
    clipping : SoftClipping or None
        How the standardized numeric columns are clipped; None leaves them as they are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from bochner.tables.encoding import Encoding
    >>> encoding = Encoding(["size"], {"color": ["blue", "red"]}, mean=[2.0], scale=[0.5], single=False)
    >>> encoding.names
    ['size', 'color=blue', 'color=red']
    >>> encoding.encode(pa.RecordBatch.from_pydict({"size": [3.0, 2.0], "color": ["red", "green"]}))
    array([[2., 0., 1.],
           [0., 0., 0.]])
    """

    numeric: list[str]
    categories: dict[str, list[str]]
    mean: Array
    scale: Array
    single: bool
    clipping: SoftClipping | None = None

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns."""
        return [*self.numeric, *(f"{name}={value}" for name, values in self.categories.items() for value in values)]

    def open(self, path: str | PathLike[str], target: str | None = None) -> "EncodedTable":
        """Open another table that has the same columns."""
        kinds = dict.fromkeys(self.numeric, "number") | dict.fromkeys(self.categories, "text")
        return EncodedTable(Table(path, target, kinds=kinds), self)

    def encode(self, cells: "pa.RecordBatch") -> Array:
        """Return the cells as an array of shape (n_rows, len(names))."""
        pa = import_pyarrow()
        encoded = np.zeros((cells.num_rows, len(self.names)), dtype=np.float32 if self.single else np.float64)
        first = len(self.numeric)
        standardized = standardize(column_numbers(cells, self.numeric), np.asarray(self.mean), np.asarray(self.scale))
        encoded[:, :first] = standardized if self.clipping is None else self.clipping.apply(standardized)
        for name, values in self.categories.items():
            codes = pa.compute.index_in(cells.column(name), pa.array(values, pa.string())).fill_null(-1).to_numpy(False)
            rows = np.flatnonzero(codes >= 0)
            encoded[rows, first + codes[rows]] = 1.0
            first += len(values)
        return encoded


def column_numbers(cells: "pa.RecordBatch", names: list[str]) -> Floats:
    """Return columns as float64 numbers."""
    numbers = np.empty((cells.num_rows, len(names)), order="F")
    for index, name in enumerate(names):
        numbers[:, index] = cells.column(name).to_numpy(False)
    return numbers


@dataclass(frozen=True)
class EncodedTable:
    """A table with the encoding of its rows."""

    table: Table
    encoding: Encoding

    def batches(self, first_group: int = 0) -> Iterator[tuple[Chunk, Array]]:
        """Yield the chunks of the table from a row group on, each with its encoded rows."""
        for chunk in self.table.chunks(first_group):
            yield chunk, self.encoding.encode(chunk.cells)
