# SPDX-License-Identifier: BSD-3-Clause
"""How many rows or bytes are read, held or computed at a time.

A batch is what is read at a time, and a block is what a thread computes at a time. Tests replace these numbers in the
modules that use them.
"""

MAX_BATCH_ROWS = 1 << 18  # of rows in memory
MAX_FEATURE_ROWS = 1 << 15  # whose features are computed at a time, where those of all rows are not held
MAX_SPAN_ROWS = 2048  # of a matrix product in a thread
MAX_SMALL_ROWS = 256  # of blocks whose results are larger than their rows
MIN_BLOCK_ROWS = 16  # with fewer, products are slow
MAX_BLOCK_BYTES = 1 << 20  # a block and what is computed from it stay in the second-level cache
# Multiplications up to which OpenBLAS uses one thread, of a matrix or vector with a vector, and of two matrices.
SMALL_VECTOR, SMALL_MATRIX = 1 << 13, 1 << 18
MAX_FETCH_BYTES = 1 << 27  # of rows that are collected from partitions or files at a time

# Features are fitted on all rows up to these numbers, and on a sample of more. `KernelFeatures.fit` states them.
MAX_WHOLE_ROWS, MAX_WHOLE_BYTES = 1 << 20, 1 << 29
MAX_SAMPLE_ROWS = 1 << 15  # of that sample; fewer where rows are wide
MIN_SAMPLE_ROWS = 1024
MAX_SAMPLE_BYTES = 1 << 28
MAX_PATH_ROWS = 1 << 16  # of a sample that the penalty of a loss without a closed form is chosen on
MAX_PATH_BYTES = 1 << 29  # of the features of that sample
MAX_HELD_BYTES = 1 << 32  # of the features of all rows in memory, up to which no sample is needed
