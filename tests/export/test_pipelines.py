# SPDX-License-Identifier: BSD-3-Clause
"""Pipelines of scikit-learn with estimators of bochner, converted by skl2onnx itself."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    FourierFeatures,
    LandmarkFeatures,
    RobustStandardizer,
)
from bochner.export import register
from tests.export.sessions import DIGITS, DTYPES, LABELS, TEST, TOLERANCES, TRAIN, assert_equal_outputs, run, skl2onnx

FOURIER = FourierFeatures(n_frequencies=24, random_state=0)
LANDMARKS = LandmarkFeatures(n_landmarks=24, random_state=0)
COLUMNS = ColumnTransformer(
    [("left", StandardScaler(), list(range(30))), ("right", MinMaxScaler(), list(range(30, 64)))]
)
INNER = ColumnTransformer([("left", FOURIER, list(range(30))), ("right", LANDMARKS, list(range(30, 64)))])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "pipeline",
    [
        make_pipeline(StandardScaler(), FOURIER, Ridge()),
        make_pipeline(COLUMNS, LANDMARKS, FeatureRegressor(FOURIER)),
        make_pipeline(RobustStandardizer(), make_union(FOURIER, LANDMARKS), Ridge()),
        make_pipeline(INNER, Ridge()),
    ],
    ids=["scaler", "column transformer", "union", "inside a column transformer"],
)
def test_pipelines_of_regressions(pipeline, dtype):
    register()
    X = DIGITS.astype(dtype)
    pipeline.fit(X[TRAIN], LABELS[TRAIN] / 10.0)
    assert_equal_outputs(skl2onnx.to_onnx(pipeline, X[:1]), X[TEST], pipeline.predict(X[TEST]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_pipeline_with_a_classifier_of_scikit_learn(dtype):
    register()
    X = DIGITS.astype(dtype)
    pipeline = make_pipeline(StandardScaler(), FOURIER, LogisticRegression()).fit(X[TRAIN], LABELS[TRAIN])
    exported = skl2onnx.to_onnx(pipeline, X[:1], options={"zipmap": False})
    assert_equal_outputs(exported, X[TEST], pipeline.predict_proba(X[TEST]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_pipeline_of_a_data_frame_with_text(dtype):
    register()
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 2)).astype(dtype), columns=["a", "b"])
    frame["color"] = rng.choice(["red", "green"], size=200)
    y = np.where(frame["a"] + (frame["color"] == "red") > 0.0, "yes", "no")
    encode = [("numbers", StandardScaler(), ["a", "b"]), ("text", OneHotEncoder(dtype=dtype), ["color"])]
    model = FeatureClassifier(FOURIER, Cs=[1.0], cv=None, loss="log_loss")
    pipeline = make_pipeline(ColumnTransformer(encode), model).fit(frame, y)
    exported = skl2onnx.to_onnx(pipeline, frame[:1], options={"zipmap": False})
    columns = [frame[["a"]].to_numpy(), frame[["b"]].to_numpy(), frame[["color"]].to_numpy(dtype=object)]
    labels, probabilities = run(exported, *columns)
    np.testing.assert_array_equal(labels, pipeline.predict(frame))
    np.testing.assert_allclose(probabilities, pipeline.predict_proba(frame), atol=TOLERANCES[np.dtype(dtype).name])


def test_probabilities_are_dictionaries_in_float32_only():
    register()
    model = make_pipeline(StandardScaler(), FeatureClassifier(FOURIER, Cs=[1.0], cv=None, loss="log_loss"))
    model.fit(DIGITS[TRAIN], LABELS[TRAIN])
    matrix = skl2onnx.to_onnx(model, DIGITS[:1], options={"zipmap": False})
    assert_equal_outputs(matrix, DIGITS[TEST], model.predict_proba(DIGITS[TEST]))
    single = DIGITS[TEST].astype(np.float32)
    labels, dictionaries = run(skl2onnx.to_onnx(model, single[:1]), single)
    np.testing.assert_array_equal(labels, model.predict(single))
    found = np.array([[row[label] for label in model.classes_.tolist()] for row in dictionaries])
    np.testing.assert_allclose(found, model.predict_proba(single), atol=1e-5)


def test_scores_of_a_support_vector_machine():
    register()
    model = FeatureClassifier(LANDMARKS, Cs=[1.0], cv=None).fit(DIGITS[TRAIN], LABELS[TRAIN])
    exported = skl2onnx.to_onnx(model, DIGITS[:1], options={"zipmap": False})
    assert_equal_outputs(exported, DIGITS[TEST], model.decision_function(DIGITS[TEST]))


@pytest.mark.slow
def test_module_imports_nothing_of_onnx():
    code = "import sys, bochner.export; print([name for name in ('onnx', 'skl2onnx') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ValueError, match=r"needs skl2onnx: pip install 'bochner\[onnx\]'"):
        register()
