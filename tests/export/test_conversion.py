# SPDX-License-Identifier: BSD-3-Clause
"""`to_onnx` of fitted and unfitted estimators."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from bochner import FeatureRegressor, TableRegressor
from bochner.export import to_onnx
from tests.export.sessions import DIGITS, LABELS, TEST, TRAIN, assert_equal_outputs, open_session


@pytest.mark.parametrize("model", [FeatureRegressor(), TableRegressor()])
def test_unfitted_models_are_refused(model):
    with pytest.raises(NotFittedError):
        to_onnx(model, DIGITS[:1])


def test_probabilities_of_scikit_learn_are_a_matrix():
    model = LogisticRegression(max_iter=1000).fit(DIGITS[TRAIN] / 16.0, LABELS[TRAIN])
    assert_equal_outputs(to_onnx(model, DIGITS[:1]), DIGITS[TEST], model.predict_proba(DIGITS[TEST]))


def test_table_model_needs_no_rows():
    import pandas as pd

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=100), "b": rng.normal(size=100)})
    table["y"] = table["a"] * 2.0
    session = open_session(to_onnx(TableRegressor(FeatureRegressor(random_state=0)).fit(table, "y")))
    assert [value.name for value in session.get_inputs()] == ["a", "b"]
