# SPDX-License-Identifier: BSD-3-Clause
"""Partitions of a Spark data frame: `mapInArrow` computes on each partition where it is.

Run it with `pip install pyspark pyarrow`, a Java runtime, and ``python examples/engines/spark_partitions.py``.
"""

import pickle
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from bochner import FeatureRegressor, FourierFeatures
from bochner.rows import Partitions


class SparkPartitions(Partitions):
    """The partitions of a data frame with one row per block: its number, and the arrays as bytes."""

    def __init__(self, frame, templates, n_partitions):
        self.frame, self.templates, self.n_partitions = frame.cache(), templates, n_partitions

    @classmethod
    def from_arrays(cls, session, n_partitions, **columns):
        """Divide arrays into blocks; real data would be read and converted on the workers."""
        blocks = zip(*(np.array_split(column, n_partitions) for column in columns.values()), strict=True)
        rows = [(i, pickle.dumps(dict(zip(columns, block, strict=True)))) for i, block in enumerate(blocks)]
        frame = session.createDataFrame(rows, "number int, content binary").repartition(n_partitions, "number")
        return cls(frame, {name: column[:0] for name, column in columns.items()}, n_partitions)

    def reduce(self, part, combine, names, arguments, description=""):
        task = cloudpickle.dumps((part, list(names), dict(arguments)))

        def of_batches(batches):
            compute, wanted, given = pickle.loads(task)
            for batch in batches:
                for row in batch.to_pylist():
                    if row["number"] in given:
                        blocks = pickle.loads(row["content"])
                        result = compute(given[row["number"]], *(blocks[name] for name in wanted))
                        yield pa.RecordBatch.from_pydict(
                            {"number": [row["number"]], "result": [pickle.dumps(result)]}, SCHEMA
                        )

        rows = self.frame.mapInArrow(of_batches, "number int, result binary").collect()
        return reduce(combine, (pickle.loads(row.result) for row in sorted(rows)))


SCHEMA = pa.schema([("number", pa.int32()), ("result", pa.binary())])

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 5))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=20_000)
    rows = SparkPartitions.from_arrays(SparkSession.builder.master("local[2]").getOrCreate(), 8, X=X, y=y)
    model = FeatureRegressor(FourierFeatures(n_frequencies=64), random_state=0).fit(rows)
    print(f"R2 {model.score(rows):.3f}, the first predictions {model.predict(rows)[:3].round(2)}")
