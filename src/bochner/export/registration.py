# SPDX-License-Identifier: BSD-3-Clause
"""Registration of the converters with skl2onnx."""

from typing import Any

from bochner.export import linear_models
from bochner.export.features import convert_features, set_feature_types
from bochner.export.graph import import_skl2onnx
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
    FeatureRegressor: (linear_models.set_regressor_types, linear_models.convert_regressor),
    FeatureClassifier: (linear_models.set_classifier_types, linear_models.convert_classifier),
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
        if kind is FeatureClassifier:
            extra = {"options": linear_models.CLASSIFIER_OPTIONS, "parser": linear_models.parse_classifier}
        alias = f"Bochner{kind.__name__}"
        skl2onnx.update_registered_converter(kind, alias, shapes, convert, overwrite=True, **extra)
