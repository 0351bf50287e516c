# SPDX-License-Identifier: BSD-3-Clause
"""Rows of data: all data are read through this package.

A `RowSource` (`sources`) is rows with targets and sample weights: in memory, in a memory map, in partitions on a
cluster (`partitions`, and `dask_partitions` for Dask collections) or in a file (`bochner.tables`). `open_rows`
(`opening`) turns user input into one; no other package distinguishes arrays from collections. `sampling` collects the
rows that features are fitted on, and draws rows and pairs of rows, `scalings` has the linear maps of rows that come
before everything else, `threads` runs work on blocks of rows in threads, `arrays` names the array types.
"""

from bochner.rows.arrays import Array as Array
from bochner.rows.arrays import Floats as Floats
from bochner.rows.arrays import Indices as Indices
from bochner.rows.arrays import Mask as Mask
from bochner.rows.arrays import column_ranges as column_ranges
from bochner.rows.arrays import is_sparse as is_sparse
from bochner.rows.arrays import max_abs as max_abs
from bochner.rows.arrays import to_dense as to_dense
from bochner.rows.dask_partitions import ClusterError as ClusterError
from bochner.rows.opening import apply_to_rows as apply_to_rows
from bochner.rows.opening import open_rows as open_rows
from bochner.rows.opening import validate_rows as validate_rows
from bochner.rows.partitions import Partitions as Partitions
from bochner.rows.sampling import TrainingRows as TrainingRows
from bochner.rows.sampling import collect_rows as collect_rows
from bochner.rows.sampling import draw_pairs as draw_pairs
from bochner.rows.sampling import pair_blocks as pair_blocks
from bochner.rows.sampling import pair_differences as pair_differences
from bochner.rows.sampling import sample_batch as sample_batch
from bochner.rows.sampling import sample_rows as sample_rows
from bochner.rows.sampling import shuffled_sample as shuffled_sample
from bochner.rows.scalings import LengthScales as LengthScales
from bochner.rows.scalings import Metric as Metric
from bochner.rows.scalings import Scaling as Scaling
from bochner.rows.scalings import Unscaled as Unscaled
from bochner.rows.scalings import make_scaling as make_scaling
from bochner.rows.sources import Batch as Batch
from bochner.rows.sources import MemoryRows as MemoryRows
from bochner.rows.sources import Rows as Rows
from bochner.rows.sources import RowSource as RowSource
from bochner.rows.sources import Statistic as Statistic
from bochner.rows.sources import compose as compose
from bochner.rows.sources import stack_batches as stack_batches
from bochner.rows.threads import for_each_span as for_each_span
from bochner.rows.threads import in_threads as in_threads
from bochner.rows.threads import row_blocks as row_blocks
from bochner.rows.threads import row_spans as row_spans
from bochner.rows.threads import serial_blas as serial_blas
