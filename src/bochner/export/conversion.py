# SPDX-License-Identifier: BSD-3-Clause
"""The export of an estimator or a pipeline to ONNX, and the registration of the converters with skl2onnx."""

from typing import Any

from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from bochner.export import estimators, tables
from bochner.export.graph import import_skl2onnx
from bochner.feature_models.classifier import FeatureClassifier
from bochner.feature_models.regressor import FeatureRegressor
from bochner.features.fourier_features import FourierFeatures
from bochner.features.landmark_features import LandmarkFeatures
from bochner.scaling.robust_standardizer import RobustStandardizer
from bochner.tables.table_encoder import TableEncoder
from bochner.tables.table_models import TableModel

__all__ = ["register", "to_onnx"]

CONVERTERS: dict[type, tuple[Any, Any]] = {
    FourierFeatures: (estimators.set_feature_types, estimators.convert_features),
    LandmarkFeatures: (estimators.set_feature_types, estimators.convert_features),
    RobustStandardizer: (estimators.set_standardizer_types, estimators.convert_standardizer),
    TableEncoder: (tables.set_encoder_types, tables.convert_encoder),
    FeatureRegressor: (estimators.set_regressor_types, estimators.convert_regressor),
    FeatureClassifier: (estimators.set_classifier_types, estimators.convert_classifier),
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
        options = estimators.CLASSIFIER_OPTIONS if kind is FeatureClassifier else None
        alias = f"Bochner{kind.__name__}"
        skl2onnx.update_registered_converter(kind, alias, shapes, convert, overwrite=True, options=options)


def to_onnx(model: Any, X: Any = None, **options: Any) -> Any:
    """Export a fitted estimator or pipeline to ONNX.

    Registers the converters and calls ``skl2onnx.to_onnx``. Unlike there, the probabilities of a classifier are a
    matrix by default and not a list of dictionaries, which would have float32 values.

    Parameters
    ----------
    model : estimator, Pipeline, TableRegressor or TableClassifier
        A fitted estimator of bochner or scikit-learn, or a pipeline of them.
    X : array-like or data frame of shape (n_samples, n_features), default=None
        Rows, of which the first one is enough: the exported model takes rows of this type, and float32 rows give
        float32 results. Models of tables do not need them.
    **options : dict
        Other arguments of ``skl2onnx.to_onnx``, such as `initial_types` or `target_opset`.

    Returns
    -------
    onnx.ModelProto
        The exported model; ``model.SerializeToString()`` is the content of a file.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FeatureRegressor
    >>> from bochner.export import to_onnx
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> exported = to_onnx(FeatureRegressor(random_state=0).fit(X, X.sum(axis=1)), X[:1])
    >>> [value.name for value in exported.graph.output]
    ['variable']
    """
    check_is_fitted(model)
    register()
    if isinstance(model, TableModel):
        return tables.table_model_to_onnx(model)
    if is_classifier(model):
        given = options.get("options") or {}
        options["options"] = given | {id(model): {"zipmap": False} | given.get(id(model), {})}
    return import_skl2onnx().to_onnx(model, X, **options)
