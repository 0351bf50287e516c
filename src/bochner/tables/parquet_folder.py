# SPDX-License-Identifier: BSD-3-Clause
"""Parquet files that are one table together, read by Dask: their footers here, their rows where the workers are.

Workers survey and encode the rows a batch at a time, and must see the files under the same names.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bochner.rows import DaskPieces, Pieces, first_rows, row_spans
from bochner.tables.encoding import Encoding
from bochner.tables.reader import Chunk, Table, plain_schema
from bochner.tables.survey import Survey

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EncodedPieces", "ParquetFolder"]

Result = TypeVar("Result")
PIECE_BYTES = 1 << 26  # of files, that a worker reads at a time; a longer row group is read whole


class ParquetFolder(Table):
    """Parquet files with the same columns: the rows of the first one, then those of the next.

    Files come in the order of their names, in which numbers are in order too: ``part-2`` before ``part-10``.

    Parameters
    ----------
    path : path
        A Parquet file, a folder with some, or a pattern such as ``data/*.parquet``.
    target : str
        The column to predict.
    drop : sequence of str, default=()
        Columns to leave out.

    Attributes
    ----------
    files : list of Path
        The files that have rows; one without if none has.
    """

    def __init__(self, path: Path, target: str, drop: Sequence[str] = ()) -> None:
        tables = [Table(file, target, drop) for file in _parquet_files(path)]
        # A file without rows need not know what its columns hold.
        tables = [table for table in tables if table.n_rows] or tables[:1]
        for table in tables[1:]:
            _check_alike(tables[0], table)
        self.files = [table.path for table in tables]
        self._ends = np.cumsum([table.n_rows for table in tables])
        self._opened = _common_schema(tables), [count for table in tables for count in table._row_counts or []]
        super().__init__(path, target, drop)

    def pieces(self) -> DaskPieces:
        """The rows, as data frames that have the name "cells"."""
        import dask.dataframe as dd

        frame = dd.read_parquet(
            [os.path.abspath(file) for file in self.files],
            columns=self.columns,
            index=False,
            dtype_backend="pyarrow",  # keeps the types, and tells missing cells from NaN
            ignore_metadata_file=True,
            split_row_groups="adaptive",
            blocksize=PIECE_BYTES,
        )
        return DaskPieces.of_frame("cells", frame)

    def survey(self, pieces: Pieces, seed: int, verbose: int = 0) -> Survey:
        """Look at every row once, where it lies; what is found is that of one file with the same rows."""
        try:
            firsts = first_rows(pieces)
            if not firsts:
                Survey.of(self, seed).check_not_empty(self)
            look, merge = partial(_survey_of_piece, self, seed), partial(_merged, self)
            found: Survey = pieces.reduce(look, merge, ["cells"], firsts, "reading", verbose)
        except FileNotFoundError as error:
            raise ValueError(
                f"{self.path}: a worker does not find a file ({error}); put the files where all workers see them under "
                f"the same names."
            ) from error
        return found

    def cells(self, frame: Any) -> "pa.RecordBatch":
        """Some rows of a piece, at least one, with the types that all files agree on."""
        import pyarrow as pa

        cells = pa.Table.from_pandas(frame, preserve_index=False).combine_chunks().to_batches()[0]
        return cells.cast(plain_schema(pa.schema([self.schema.field(name) for name in cells.schema.names])))

    def _open(self) -> "tuple[pa.Schema, list[int]]":
        return self._opened

    def _place(self, row: int) -> str:
        """The row in the file that has it."""
        file = int(np.searchsorted(self._ends, row, side="right"))
        before = int(self._ends[file - 1]) if file else 0
        return f"{self.files[file]}: row {row - before + 1}"


class EncodedPieces(Pieces):
    """The rows and targets of a table in pieces, encoded where they lie.

    Pieces are cut into batches as those of a file are: text can make many columns.

    Parameters
    ----------
    pieces : Pieces
        Data frames with the name "cells".
    table : ParquetFolder
        The table that they are the rows of.
    encoding : Encoding
        How rows become numbers.
    """

    def __init__(self, pieces: Pieces, table: ParquetFolder, encoding: Encoding) -> None:
        self._pieces = pieces
        self._table = table
        self._encoding = encoding
        self._batches = [
            (piece, rows)
            for piece, n_rows in enumerate(pieces.lengths.tolist())
            for rows in row_spans(n_rows, table.batch_rows)
        ]
        self.n_pieces = len(self._batches)
        self.lengths = np.array([rows.stop - rows.start for _, rows in self._batches], dtype=np.intp)
        width, dtype = len(encoding.names), np.float32 if encoding.single else np.float64
        self.templates = {"X": np.empty((0, width), dtype=dtype), "y": np.empty(0)}

    def reduce(
        self,
        part: Callable[..., Result],
        combine: Callable[[Result, Result], Result],
        names: Sequence[str],
        arguments: Mapping[int, Any],
        description: str = "",
        verbose: int = 0,
    ) -> Result:
        wanted: dict[int, list[tuple[slice, Any]]] = defaultdict(list)
        for number, argument in arguments.items():
            piece, rows = self._batches[number]
            wanted[piece].append((rows, argument))
        encode = partial(_encoded, self._table, self._encoding, tuple(names))
        part_of_piece = partial(_part_of_piece, part, combine, encode)
        return self._pieces.reduce(part_of_piece, combine, ["cells"], wanted, description, verbose)


def _part_of_piece(
    part: Callable[..., Result],
    combine: Callable[[Result, Result], Result],
    encode: Callable[[Any], Iterator[Any]],
    wanted: list[tuple[slice, Any]],
    frame: Any,
) -> Result:
    return reduce(combine, (part(argument, *encode(frame.iloc[rows])) for rows, argument in wanted))


def _encoded(table: ParquetFolder, encoding: Encoding, names: tuple[str, ...], frame: Any) -> Iterator[Any]:
    """The blocks of those names."""
    cells = table.cells(frame)
    for name in names:
        yield encoding.encode(cells) if name == "X" else table.target_values(Chunk(0, 0, cells))


def _survey_of_piece(table: ParquetFolder, seed: int, first_row: int, frame: Any) -> Survey:
    found = Survey.of(table, seed, first_row)
    for rows in row_spans(len(frame), table.batch_rows):
        found.add(table, table.checked(Chunk(0, first_row + rows.start, table.cells(frame.iloc[rows]))))
    return found


def _merged(table: ParquetFolder, left: Survey, right: Survey) -> Survey:
    return left.merge(table, right)


def _parquet_files(path: Path) -> list[Path]:
    """The files that a name, a folder or a pattern stands for, in the order that Dask reads them in."""
    from dask.utils import natural_sort_key

    pattern = str(path / "*.parquet") if path.is_dir() else str(path)
    files = [path] if path.is_file() else [Path(name) for name in glob(pattern, recursive=True)]
    if not files:
        raise ValueError(
            f"{pattern} matches no file; give a .parquet file, a folder with some, or a pattern such as "
            f"'data/*.parquet', in quotes."
        )
    for file in files:
        if file.suffix.lower() != ".parquet":
            raise ValueError(f"--dask reads .parquet files, and {file} is none; convert it, or leave --dask out.")
    return sorted(files, key=lambda file: natural_sort_key(os.path.abspath(file)))


def _check_alike(first: Table, other: Table) -> None:
    """Refuse a file with other columns than the first one, or with columns of another kind."""
    kinds, others = _kinds(first), _kinds(other)
    for name in sorted(kinds.keys() ^ others.keys()):
        has, lacks = (first, other) if name in kinds else (other, first)
        raise ValueError(
            f"{has.path} has a column {name!r} and {lacks.path} has none; give files with the same columns."
        )
    for name, kind in kinds.items():
        if others[name] != kind:
            raise ValueError(
                f"{other.path}: column {name!r} holds {others[name]}, and in {first.path} it holds {kind}; make them "
                f"the same, or drop the column."
            )


def _kinds(table: Table) -> dict[str, str]:
    kinds = dict.fromkeys(table.numeric, "numbers") | dict.fromkeys(table.text, "text")
    return kinds | {str(table.target): "text" if table.target_is_text else "numbers"}


def _common_schema(tables: list[Table]) -> "pa.Schema":
    """The first file's columns; numbers, and text, of different types become floats, and strings."""
    import pyarrow as pa

    schema = tables[0].schema
    for name, kind in _kinds(tables[0]).items():
        if any(table.schema.field(name).type != schema.field(name).type for table in tables[1:]):
            common = pa.float64() if kind == "numbers" else pa.string()
            schema = schema.set(schema.get_field_index(name), pa.field(name, common))
    return schema
