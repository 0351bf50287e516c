# SPDX-License-Identifier: BSD-3-Clause
"""The engines in `examples/engines` fit, predict and score like rows in memory."""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures

FOLDER = Path(__file__).parents[2] / "examples" / "engines"
FEATURES = FourierFeatures(n_frequencies=16, random_state=0)


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def on_ray():
    """Return a function that divides arrays into partitions on a Ray cluster of this machine."""
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    module = load("ray_partitions")

    def divide(**columns):
        templates = {name: column[:0] for name, column in columns.items()}
        return module.RayPartitions(
            templates, **{name: module.put_blocks(column, 5) for name, column in columns.items()}
        )

    yield divide
    ray.shutdown()


@pytest.fixture(scope="module")
def on_spark():
    """Return a function that divides arrays into partitions of a Spark data frame on this machine."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    except Exception as error:  # of many kinds
        pytest.skip(f"Spark needs a Java runtime: {error!r:.80}")
    module = load("spark_partitions")

    def divide(**columns):
        return module.SparkPartitions.from_arrays(session, 5, **columns)

    yield divide
    session.stop()


@pytest.mark.filterwarnings("ignore")  # of the engines
@pytest.mark.parametrize("engine", ["on_ray", "on_spark"])
@pytest.mark.parametrize(
    "model", [FeatureRegressor(FEATURES), FeatureClassifier(FEATURES, loss="squared_error")], ids=["numbers", "classes"]
)
def test_models_fit_predict_and_score(engine, model, request, rng):
    divide = request.getfixturevalue(engine)
    X = rng.normal(size=(303, 3))
    y = np.sin(X[:, 0]) if isinstance(model, FeatureRegressor) else (X[:, 0] > 0.0).astype(float)
    memory, rows = clone(model).fit(X, y), divide(X=X, y=y)
    found = clone(model).fit(rows)
    np.testing.assert_allclose(found.coef_, memory.coef_, rtol=0, atol=1e-12 * np.abs(memory.coef_).max())
    np.testing.assert_allclose(found.predict(rows), memory.predict(X), rtol=0, atol=1e-10)
    assert found.score(rows) == pytest.approx(memory.score(X, y), rel=1e-10)
