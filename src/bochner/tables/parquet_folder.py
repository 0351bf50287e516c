# SPDX-License-Identifier: BSD-3-Clause
"""Parquet files that form one table, read by Dask: footers on the client, rows on the workers.

Workers survey and encode the rows one batch at a time. They must find the files under the same names.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bochner.rows import DaskPartitions, PartitionedRows, Partitions, row_spans
from bochner.tables.encoding import Encoding
from bochner.tables.reader import Chunk, Table
from bochner.tables.sources import ParquetFiles
from bochner.tables.survey import Survey

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EncodedPartitions", "ParquetFolder"]

Result = TypeVar("Result")
PARTITION_BYTES = 1 << 26  # bytes of files that a worker reads at a time; a larger row group is read whole


class ParquetFolder(Table):
    """Parquet files with the same columns that Dask reads: the rows of the first file, then those of the next.

    Files are in the natural order of their names: ``part-2`` before ``part-10``. The parameters are those of `Table`.

    Attributes
    ----------
    files : list of Path
        The files that have rows; one file without rows if none has any.
    """

    def __init__(self, data: Any, *arguments: Any, **options: Any) -> None:
        if Path(data).is_file() and Path(data).suffix.lower() != ".parquet":
            raise ValueError(f"--dask reads .parquet files only, not {data}; convert it, or omit --dask.")
        super().__init__(data, *arguments, **options)
        assert isinstance(self.source, ParquetFiles)
        self.files = self.source.files
        self._lazy_partitions: DaskPartitions | None = None

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
            look = partial(_survey_partition, self, survey.sample.seed)
            found: Survey = partitions.reduce(look, Survey.merge, ["cells"], partitions.first_rows, "reading")
        except FileNotFoundError as error:
            raise ValueError(
                f"{self.path}: a worker does not find a file ({error}); put the files where all workers see them under "
                f"the same names."
            ) from error
        return found

    def rows(self, encoding: Encoding, lengths: Sequence[int], **_: Any) -> PartitionedRows:
        """Return the encoded rows with a target as a source.

        Parameters
        ----------
        encoding : Encoding
            How rows become numbers.
        lengths : sequence of int
            Number of rows with a target in each batch, as counted by a survey.
        **_ : object
            How to resume a pass; a cluster's is not stored in between.
        """
        partitions = EncodedPartitions(self.partitions(), self, encoding, lengths)
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

        return self.plain(pa.Table.from_pandas(frame, preserve_index=False).combine_chunks().to_batches()[0])


class EncodedPartitions(Partitions):
    """The rows and targets of a table in partitions, encoded on the workers; rows without a target are left out.

    Partitions are divided into batches as a file is, because text columns can become many columns.

    Parameters
    ----------
    partitions : Partitions
        Data frames under the name "cells".
    table : ParquetFolder
        The table that they belong to.
    encoding : Encoding
        How rows become numbers.
    lengths : sequence of int
        Number of rows with a target in each batch.
    """

    def __init__(
        self, partitions: Partitions, table: ParquetFolder, encoding: Encoding, lengths: Sequence[int]
    ) -> None:
        self._partitions = partitions
        self._table = table
        self._encoding = encoding
        self._batches = [
            (number, rows)
            for number, n_rows in enumerate(partitions.lengths.tolist())
            for rows in row_spans(n_rows, table.batch_rows)
        ]
        self.n_partitions = len(self._batches)
        self.lengths = np.array(lengths, dtype=np.intp)
        self.templates = {"X": np.empty((0, len(encoding.names)), encoding.dtype), "y": np.empty(0)}

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


def _encode(folder: ParquetFolder, encoding: Encoding, names: tuple[str, ...], frame: Any) -> Iterator[Any]:
    """Yield the blocks of the given names."""
    cells = encoding.without_missing_targets(folder.cells(frame))
    for name in names:
        yield encoding.encode(cells) if name == "X" else encoding.targets(cells)


def _survey_partition(table: ParquetFolder, seed: int, first_row: int, frame: Any) -> Survey:
    survey = Survey.of(table, seed, first_row)
    for rows in row_spans(len(frame), table.batch_rows):
        survey.add(Chunk(0, first_row + rows.start, table.cells(frame.iloc[rows])))
    return survey
