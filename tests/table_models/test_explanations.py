# SPDX-License-Identifier: BSD-3-Clause
"""Contributions of columns to predictions, in files of predictions."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bochner import TableModel
from bochner.table_models.explanations import explanation_columns
from bochner.table_models.predictions import PredictionColumns, write_predictions
from tests.table_models.cases import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_contributions_add_up_to_the_prediction(files, models, tmp_path, name):
    model, target = models[name], TARGETS[name]
    write_predictions(model, files[name], tmp_path / "out.parquet", PredictionColumns(explanation=True))
    found = pd.read_parquet(tmp_path / "out.parquet")
    parts = [f"{target}_from_{column}" for column in ("a", "b", "count", "color")]
    scored = [] if target == "y" else [f"{target}_score"]
    assert list(found.columns) == [target, *scored, f"{target}_baseline", *parts]
    total = found[f"{target}_baseline"] + found[parts].sum(axis=1)
    expected = found["y"] if target == "y" else np.max(model.estimator.decision_function(files[name]), axis=1)
    np.testing.assert_allclose(total, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_baseline_is_the_prediction_of_the_mean_row(files, models):
    model = models["regression"]
    rows = next(iter(model.open(files["regression"], with_target=False).batches()))[1]
    columns = explanation_columns(model, rows)
    assert np.ptp(columns["y_baseline"]) == 0.0
    encoded = np.concatenate([rows for _, rows in model.open(files["regression"], with_target=False).batches()])
    np.testing.assert_allclose(model.center, encoded.mean(axis=0), atol=0.05)  # of a sample of 1,000 rows
    np.testing.assert_allclose(
        columns["y_baseline"][0], model.estimator.without_encoding().predict(model.center[None])[0]
    )


def test_contributions_of_two_classes_speak_for_the_predicted_class(rng):
    frame = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400)})
    frame["kind"] = np.where(frame["a"] > 0, "yes", "no")
    model = TableModel(effort="fast", random_state=0).fit(frame, "kind")
    rows = model.encoding_.encode(pa.RecordBatch.from_pandas(frame[["a", "b"]]))
    columns = explanation_columns(model.model_, rows)
    scores = model.estimator_.without_encoding().decision_function(rows)
    np.testing.assert_allclose(columns["kind_score"], np.abs(scores), rtol=1e-9)
    clear = np.abs(frame["a"]) > 0.5
    assert (columns["kind_from_a"][clear] > 0).all()


def test_model_without_a_mean_row_starts_from_the_medians(files, models):
    model = models["regression"]
    old = type(model)(model.estimator, model.task, model.target, model.n_rows)
    assert not old.baseline.any()
