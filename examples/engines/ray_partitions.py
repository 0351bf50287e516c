# SPDX-License-Identifier: BSD-3-Clause
"""Partitions on a Ray cluster: fit, predict and score on blocks of rows that stay where they are.

Run it with `pip install ray` and ``python examples/engines/ray_partitions.py``.
"""

import numpy as np
import ray

from bochner import FeatureRegressor, FourierFeatures
from bochner.rows import Partitions


class RayPartitions(Partitions):
    """Blocks of rows in Ray's object store.

    Parameters
    ----------
    X, y, sample_weight : list of ObjectRef
        References to blocks of rows, and to their targets and sample weights where there are any.
    templates : dict of str to ndarray
        A block without rows for each of these names.
    """

    def __init__(self, templates, **columns):
        self.templates = templates
        self.blocks = columns
        self.n_partitions = len(columns["X"])

    def reduce(self, part, combine, names, arguments, description=""):
        compute, merge = ray.remote(lambda part, *blocks: part(*blocks)), ray.remote(combine)
        part = ray.put(part)  # sent to each worker once
        level = [
            compute.remote(part, argument, *(self.blocks[name][i] for name in names))
            for i, argument in arguments.items()
        ]
        while len(level) > 1:  # neighbors pairwise
            pairs = [merge.remote(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
            level = pairs + level[2 * len(pairs) :]
        return ray.get(level[0])


def put_blocks(column, n_partitions):
    """Return references to the blocks of an array."""
    return [ray.put(block) for block in np.array_split(column, n_partitions)]


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 5))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=20_000)
    templates = {"X": X[:0], "y": y[:0]}
    rows = RayPartitions(templates, X=put_blocks(X, 8), y=put_blocks(y, 8))
    model = FeatureRegressor(FourierFeatures(n_frequencies=64), random_state=0).fit(rows)
    print(f"R2 {model.score(rows):.3f}, the first predictions {model.predict(rows)[:3].round(2)}")
