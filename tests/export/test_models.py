# SPDX-License-Identifier: BSD-3-Clause
"""Exported models on features against `predict`, `predict_proba` and `decision_function`."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    FourierFeatures,
    LandmarkFeatures,
)
from bochner.export import to_onnx
from tests.export.sessions import DIGITS, DTYPES, LABELS, TEST, TRAIN, assert_equal_outputs, open_session, run

SMALL = FourierFeatures(n_frequencies=24, random_state=0)
CLASSIFIERS = {
    "ridge": FeatureClassifier(SMALL, loss="squared_error"),
    "svm": FeatureClassifier(SMALL, Cs=[1.0], cv=None),
    "logistic": FeatureClassifier(SMALL, Cs=[1.0], cv=None, loss="log_loss"),
}
TARGETS = {
    "ten classes": LABELS,
    "text": np.array(["zero", "one", "two", "three"])[LABELS % 4],
    "two classes": LABELS > 4,
}


def scores_of(model, X):
    """Return what the second output contains: probabilities or else scores, one column per class."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    scores = model.decision_function(X)
    return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores


def check_classifier(model, y, dtype):
    X = DIGITS.astype(dtype)
    model.fit(X[TRAIN], y[TRAIN])
    exported = to_onnx(model, X[:1])
    assert_equal_outputs(exported, X[TEST], scores_of(model, X[TEST]))
    for rows in (X[TEST], X[TEST][:1]):
        labels = run(exported, rows)[0]
        assert labels.dtype == (object if y.dtype.kind == "U" else np.int64)
        np.testing.assert_array_equal(labels, model.predict(rows))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_equal_ours(name, target, dtype):
    check_classifier(CLASSIFIERS[name], TARGETS[target], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_regression_with_two_targets(dtype):
    X = DIGITS.astype(dtype)
    Y = np.column_stack([LABELS, np.sin(LABELS)])
    model = FeatureRegressor(SMALL).fit(X[TRAIN], Y[TRAIN])
    assert_equal_outputs(to_onnx(model, X[:1]), X[TEST], model.predict(X[TEST]))


def test_landmark_features():
    features = LandmarkFeatures(n_landmarks=16, random_state=0)
    check_classifier(FeatureClassifier(features, Cs=[1.0], cv=None, loss="log_loss"), LABELS, np.float64)


def test_other_transformers_belong_before_the_model():
    model = FeatureRegressor(PCA(8, random_state=0)).fit(DIGITS[TRAIN], LABELS[TRAIN])
    with pytest.raises(ValueError, match=r"features=PCA.* cannot be exported .* before the model in a pipeline"):
        to_onnx(model, DIGITS[:1])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "model",
    [
        GridSearchCV(CLASSIFIERS["logistic"], {"features__n_frequencies": [8, 16]}, cv=2),
        CalibratedClassifierCV(CLASSIFIERS["svm"], cv=2),
    ],
    ids=["grid search", "calibration"],
)
def test_models_inside_estimators_of_scikit_learn(model, dtype):
    check_classifier(model, LABELS, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_options_of_skl2onnx(dtype):
    X = DIGITS[TRAIN].astype(dtype)
    model = FeatureClassifier(SMALL, Cs=[1.0], cv=None, loss="log_loss").fit(X, TARGETS["text"][TRAIN])
    scores = to_onnx(model, X[:1], options={id(model): {"raw_scores": True}})
    assert_equal_outputs(scores, X[:20], model.decision_function(X[:20]))
    columns = open_session(to_onnx(model, X[:1], options={id(model): {"zipmap": "columns"}}))
    assert len(columns.get_outputs()) == 1 + len(model.classes_)


@pytest.mark.parametrize("classes", [np.array(["b", "a"], dtype=object), np.array([3.0, 1.0])])
def test_labels_are_text_or_integers(classes):
    model = FeatureClassifier(SMALL, loss="squared_error").fit(DIGITS[TRAIN], classes[LABELS[TRAIN] % 2])
    found = run(to_onnx(model, DIGITS[:1]), DIGITS[TEST])[0]
    np.testing.assert_array_equal(found, model.predict(DIGITS[TEST]))
