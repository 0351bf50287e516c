# SPDX-License-Identifier: BSD-3-Clause
"""A small engine for partitions, as a user would write one."""

from functools import reduce

import numpy as np

from bochner.rows import Partitions


def one_by_one(part, calls):
    """Compute in this process."""
    return [part(*call) for call in calls]


class ArrayPartitions(Partitions):
    """Arrays divided into partitions, and a function that computes on them.

    Parameters
    ----------
    chunks : sequence of int
        Number of rows of each partition.
    run : callable
        Returns the results of a function for a list of arguments.
    **columns : ndarray
        X, and y and sample_weight where there are any.
    """

    def __init__(self, chunks, run=one_by_one, **columns):
        self.run = run
        bounds = np.cumsum(chunks)[:-1]
        self.blocks = {name: np.split(column, bounds) for name, column in columns.items()}
        self.templates = {name: column[:0] for name, column in columns.items()}
        self.n_partitions = len(chunks)

    def reduce(self, part, combine, names, arguments, description=""):
        calls = [(argument, *(self.blocks[name][i] for name in names)) for i, argument in arguments.items()]
        return reduce(combine, self.run(part, calls))
