# SPDX-License-Identifier: BSD-3-Clause
"""Rows of a table as rows of numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from bochner.rows import Array

if TYPE_CHECKING:
    import pyarrow as pa
from bochner.tables.reader import Chunk, Table, arrow

__all__ = ["EncodedTable", "Encoding"]


@dataclass(frozen=True)
class Encoding:
    """How rows of a table become rows of numbers: numeric columns standardised, text columns one column a category.

    Attributes
    ----------
    numeric : list of str
        Columns with numbers.
    categories : dict of str to list of str
        The values of each column with text. A value that is not among them makes zeros.
    mean, scale : ndarray of shape (len(numeric),)
        What is subtracted from numeric columns, and what they are divided by then.
    single : bool
        Whether the numbers are float32.
    """

    numeric: list[str]
    categories: dict[str, list[str]]
    mean: Array
    scale: Array
    single: bool

    @property
    def names(self) -> list[str]:
        """Names of the columns that `encode` makes."""
        return [*self.numeric, *(f"{name}={value}" for name, values in self.categories.items() for value in values)]

    def open(self, path: str | PathLike[str], target: str | None = None) -> "EncodedTable":
        """Another table with the same columns."""
        kinds = dict.fromkeys(self.numeric, "number") | dict.fromkeys(self.categories, "text")
        return EncodedTable(Table(path, target, kinds=kinds), self)

    def encode(self, cells: "pa.RecordBatch") -> Array:
        """The cells as an array of numbers."""
        pa = arrow()
        encoded = np.zeros((cells.num_rows, len(self.names)), dtype=np.float32 if self.single else np.float64)
        for place, name in enumerate(self.numeric):
            column = cells.column(name).to_numpy(False).astype(np.float64)
            encoded[:, place] = (column - self.mean[place]) / self.scale[place]
        first = len(self.numeric)
        for name, values in self.categories.items():
            known = pa.array(values, pa.string())
            codes = pa.compute.index_in(cells.column(name), known).fill_null(-1).to_numpy(False)
            rows = np.flatnonzero(codes >= 0)
            encoded[rows, first + codes[rows]] = 1.0
            first += len(values)
        return encoded


@dataclass(frozen=True)
class EncodedTable:
    """A table whose rows come out as numbers."""

    table: Table
    encoding: Encoding

    def batches(self, first_group: int = 0) -> Iterator[tuple[Chunk, Array]]:
        """Chunks of the table, each with its rows encoded."""
        for chunk in self.table.chunks(first_group):
            yield chunk, self.encoding.encode(chunk.cells)
