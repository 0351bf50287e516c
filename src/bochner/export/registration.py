# SPDX-License-Identifier: BSD-3-Clause
"""Registration of the converters with skl2onnx."""

from typing import Any

from bochner.export.features import convert_features, set_feature_types
from bochner.export.graph import import_skl2onnx
from bochner.export.linear_models import (
    convert_classifier,
    convert_regressor,
    set_classifier_types,
    set_regressor_types,
)
from bochner.export.standardization import convert_standardizer, set_standardizer_types
from bochner.export.tables import convert_encoder, set_encoder_types
from bochner.feature_models.classifier import FeatureClassifier
from bochner.feature_models.regressor import FeatureRegressor
from bochner.features.fourier_features import FourierFeatures
from bochner.features.landmark_features import LandmarkFeatures
from bochner.scaling.robust_standardizer import RobustStandardizer
from bochner.tables.table_encoder import TableEncoder

__all__ = ["register"]

CONVERTERS: dict[type, tuple[Any, Any]] = {
    FourierFeatures: (set_feature_types, convert_features),
    LandmarkFeatures: (set_feature_types, convert_features),
    RobustStandardizer: (set_standardizer_types, convert_standardizer),
    TableEncoder: (set_encoder_types, convert_encoder),
    FeatureRegressor: (set_regressor_types, convert_regressor),
    FeatureClassifier: (set_classifier_types, convert_classifier),
}
# What skl2onnx offers for classifiers: dictionaries of probabilities, positions instead of labels, and so on.
CLASSIFIER_OPTIONS = {
    "zipmap": [True, False, "columns"],
    "nocl": [True, False],
    "output_class_labels": [False, True],
    "raw_scores": [True, False],
}


def register() -> None:
    """Register the converters of all estimators with skl2onnx.

    Afterwards, ``skl2onnx.to_onnx`` and ``skl2onnx.convert_sklearn`` convert scikit-learn pipelines that contain
    estimators of bochner. A second call changes nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import skl2onnx
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import bochner.export
    >>> from bochner import FourierFeatures
    >>> bochner.export.register()
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> pipeline = make_pipeline(StandardScaler(), FourierFeatures(n_frequencies=8, random_state=0)).fit(X)
    >>> exported = skl2onnx.to_onnx(pipeline, X[:1])
    >>> [value.name for value in exported.graph.input]
    ['X']
    """
    skl2onnx = import_skl2onnx()
    for kind, (shapes, convert) in CONVERTERS.items():
        extra: Any = {}
        if shapes is set_classifier_types:
            extra = {"options": CLASSIFIER_OPTIONS, "parser": _parse_classifier}
        alias = f"Bochner{kind.__name__}"
        skl2onnx.update_registered_converter(kind, alias, shapes, convert, overwrite=True, **extra)


def _parse_classifier(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs of a classifier; float64 probabilities stay a matrix, because ZipMap accepts float32 only."""
    from skl2onnx._parse import _parse_sklearn_classifier
    from skl2onnx.common.data_types import DoubleTensorType

    if any(isinstance(variable.type, DoubleTensorType) for variable in inputs):
        given = scope.get_options(model, {"zipmap": True})
        scope.add_options(id(model), {"zipmap": False if given["zipmap"] is True else given["zipmap"]})
    return _parse_sklearn_classifier(scope, model, inputs, custom_parsers)
