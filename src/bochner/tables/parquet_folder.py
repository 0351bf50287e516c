# SPDX-License-Identifier: BSD-3-Clause
"""Parquet files that form one table, read by Dask: footers on the client, rows on the workers.

Workers survey and encode the rows one batch at a time. They must find the files under the same names.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bochner.rows import DaskPartitions, PartitionedRows, Partitions, row_spans
from bochner.tables.encoding import Encoding
from bochner.tables.reader import Chunk, Table, plain_schema
from bochner.tables.survey import Survey

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EncodedPartitions", "ParquetFolder"]

Result = TypeVar("Result")
PARTITION_BYTES = 1 << 26  # bytes of files that a worker reads at a time; a larger row group is read whole


class ParquetFolder(Table):
    """Parquet files with the same columns: the rows of the first file, then those of the next.

    Files are in the natural order of their names: ``part-2`` before ``part-10``.

    Parameters
    ----------
    path : path
        A Parquet file, a folder of Parquet files, or a pattern such as ``data/*.parquet``.
    target : str
        The column to predict.
    drop : sequence of str, default=()
        Columns to leave out.

    Attributes
    ----------
    files : list of Path
        The files that have rows; one file without rows if none has any.
    """

    def __init__(self, path: Path, target: str, drop: Sequence[str] = ()) -> None:
        tables = [Table(file, target, drop) for file in _parquet_files(path)]
        # The column types of a file without rows may be unknown.
        tables = [table for table in tables if table.n_rows] or tables[:1]
        for table in tables[1:]:
            _check_same_columns(tables[0], table)
        self.files = [table.path for table in tables]
        self._ends = np.cumsum([table.n_rows for table in tables])
        self._opened = _common_schema(tables), [count for table in tables for count in table._row_counts or []]
        self._lazy_partitions: DaskPartitions | None = None
        super().__init__(path, target, drop)

    def survey(self, survey: Survey, *_: Any) -> Survey:
        """Survey all rows on the workers; the result is that of one file with the same rows.

        Parameters
        ----------
        survey : Survey
            An empty survey, which has the seed of the sample.
        *_ : object
            How to resume a survey; a cluster's is not stored in between.
        """
        partitions = self.partitions()
        try:
            if not partitions.first_rows:
                return survey
            look, merge = partial(_survey_partition, self, survey.sample.seed), partial(_merge_surveys, self)
            found: Survey = partitions.reduce(look, merge, ["cells"], partitions.first_rows, "reading")
        except FileNotFoundError as error:
            raise ValueError(
                f"{self.path}: a worker does not find a file ({error}); put the files where all workers see them under "
                f"the same names."
            ) from error
        return found

    def rows(self, encoding: Encoding, n_rows: int, **_: Any) -> PartitionedRows:
        """Return the encoded rows as a source.

        Parameters
        ----------
        encoding : Encoding
            How rows become numbers.
        n_rows : int
            Number of rows.
        **_ : object
            How to resume a pass; a cluster's is not stored in between.
        """
        del n_rows
        partitions = EncodedPartitions(self.partitions(), self, encoding)
        return PartitionedRows(partitions, partitions.templates["X"].dtype, has_targets=True)

    def partitions(self) -> DaskPartitions:
        """Return the rows as data frames under the name "cells"; they are read on the workers."""
        if self._lazy_partitions is None:
            import dask.dataframe as dd

            frame = dd.read_parquet(
                [os.path.abspath(file) for file in self.files],
                columns=self.columns,
                index=False,
                dtype_backend="pyarrow",  # keeps the types, and distinguishes missing cells from NaN
                ignore_metadata_file=True,
                split_row_groups="adaptive",
                blocksize=PARTITION_BYTES,
            )
            self._lazy_partitions = DaskPartitions.from_frame("cells", frame)
        return self._lazy_partitions

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that workers need, without the graph of the partitions."""
        return self.__dict__ | {"_lazy_partitions": None}

    def cells(self, frame: Any) -> "pa.RecordBatch":
        """Return some rows of a partition, at least one, with the types that are common to all files."""
        import pyarrow as pa

        cells = pa.Table.from_pandas(frame, preserve_index=False).combine_chunks().to_batches()[0]
        return cells.cast(plain_schema(pa.schema([self.schema.field(name) for name in cells.schema.names])))

    def _paths(self) -> list[Path]:
        return self.files

    def _open(self) -> tuple["pa.Schema", list[int] | None]:
        return self._opened

    def _place(self, row: int) -> str:
        """Return the place of a row in the file that has it."""
        file = int(np.searchsorted(self._ends, row, side="right"))
        before = int(self._ends[file - 1]) if file else 0
        return f"{self.files[file]}: row {row - before + 1}"


class EncodedPartitions(Partitions):
    """The rows and targets of a table in partitions, encoded on the workers.

    Partitions are divided into batches as a file is, because text columns can become many columns.

    Parameters
    ----------
    partitions : Partitions
        Data frames under the name "cells".
    table : ParquetFolder
        The table that they belong to.
    encoding : Encoding
        How rows become numbers.
    """

    def __init__(self, partitions: Partitions, table: ParquetFolder, encoding: Encoding) -> None:
        self._partitions = partitions
        self._table = table
        self._encoding = encoding
        self._batches = [
            (number, rows)
            for number, n_rows in enumerate(partitions.lengths.tolist())
            for rows in row_spans(n_rows, table.batch_rows)
        ]
        self.n_partitions = len(self._batches)
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
    ) -> Result:
        batches: dict[int, list[tuple[slice, Any]]] = defaultdict(list)
        for number, argument in arguments.items():
            partition, rows = self._batches[number]
            batches[partition].append((rows, argument))
        encode = partial(_encode, self._table, self._encoding, tuple(names))
        of_partition = partial(_reduce_partition, part, combine, encode)
        return self._partitions.reduce(of_partition, combine, ["cells"], batches, description)


def _reduce_partition(
    part: Callable[..., Result],
    combine: Callable[[Result, Result], Result],
    encode: Callable[[Any], Iterator[Any]],
    batches: list[tuple[slice, Any]],
    frame: Any,
) -> Result:
    return reduce(combine, (part(argument, *encode(frame.iloc[rows])) for rows, argument in batches))


def _encode(table: ParquetFolder, encoding: Encoding, names: tuple[str, ...], frame: Any) -> Iterator[Any]:
    """Yield the blocks of the given names."""
    cells = table.cells(frame)
    for name in names:
        yield encoding.encode(cells) if name == "X" else table.target_values(Chunk(0, 0, cells))


def _survey_partition(table: ParquetFolder, seed: int, first_row: int, frame: Any) -> Survey:
    survey = Survey.of(table, seed, first_row)
    for rows in row_spans(len(frame), table.batch_rows):
        survey.add(table, table.checked(Chunk(0, first_row + rows.start, table.cells(frame.iloc[rows]))))
    return survey


def _merge_surveys(table: ParquetFolder, left: Survey, right: Survey) -> Survey:
    return left.merge(table, right)


def _parquet_files(path: Path) -> list[Path]:
    """Return the files of a name, a folder or a pattern, in the order that Dask reads them in."""
    from dask.utils import natural_sort_key

    pattern = str(path / "*.parquet") if path.is_dir() else str(path)
    files = [path] if path.is_file() else [Path(name) for name in glob(pattern, recursive=True)]
    if not files:
        raise ValueError(
            f"{pattern} matches no file; give a .parquet file, a folder of them, or a quoted pattern such as "
            f"'data/*.parquet'."
        )
    for file in files:
        if file.suffix.lower() != ".parquet":
            raise ValueError(f"--dask reads .parquet files only, not {file}; convert it, or omit --dask.")
    return sorted(files, key=lambda file: natural_sort_key(os.path.abspath(file)))


def _check_same_columns(first: Table, other: Table) -> None:
    """Refuse a file with other columns than the first one, or with columns of another kind."""
    kinds, other_kinds = _kinds(first), _kinds(other)
    for name in sorted(kinds.keys() ^ other_kinds.keys()):
        has, lacks = (first, other) if name in kinds else (other, first)
        raise ValueError(
            f"{has.path} has a column {name!r} and {lacks.path} has none; give files with the same columns."
        )
    for name, kind in kinds.items():
        if other_kinds[name] != kind:
            raise ValueError(
                f"{other.path}: column {name!r} contains {other_kinds[name]}, and in {first.path} it contains {kind}; "
                f"convert one of them, or drop the column."
            )


def _kinds(table: Table) -> dict[str, str]:
    kinds = dict.fromkeys(table.numeric, "numbers") | dict.fromkeys(table.text, "text")
    return kinds | {str(table.target): "text" if table.target_is_text else "numbers"}


def _common_schema(tables: list[Table]) -> "pa.Schema":
    """Return the first file's columns; numbers of different types become floats, text of different types strings."""
    import pyarrow as pa

    schema = tables[0].schema
    for name, kind in _kinds(tables[0]).items():
        if any(table.schema.field(name).type != schema.field(name).type for table in tables[1:]):
            common = pa.float64() if kind == "numbers" else pa.string()
            schema = schema.set(schema.get_field_index(name), pa.field(name, common))
    return schema
