# SPDX-License-Identifier: BSD-3-Clause
"""Export of fitted estimators to ONNX.

After `register`, ``skl2onnx.to_onnx`` converts scikit-learn pipelines with estimators of bochner; `to_onnx` does both.
`estimators` and `tables` are the converters, which add nodes through `graph`. The packages of the extra `onnx` are
imported when one of these functions is called.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from bochner.export import estimators, tables
from bochner.export.graph import Graph, import_skl2onnx
from bochner.feature_models.classifier import FeatureClassifier
from bochner.feature_models.regressor import FeatureRegressor
from bochner.features.fourier_features import FourierFeatures
from bochner.features.kernel_features import KernelFeatures
from bochner.features.landmark_features import LandmarkFeatures
from bochner.scaling.robust_standardizer import RobustStandardizer
from bochner.tables.table_encoder import TableEncoder
from bochner.tables.table_models import TableModel

__all__ = ["register", "to_onnx"]

CONVERTERS: dict[type, Callable[[Graph, Any], None]] = {
    FourierFeatures: estimators.convert_features,
    LandmarkFeatures: estimators.convert_features,
    RobustStandardizer: estimators.convert_standardizer,
    TableEncoder: tables.convert_encoder,
    FeatureRegressor: estimators.convert_regressor,
    FeatureClassifier: estimators.convert_classifier,
}
# What skl2onnx offers for classifiers; it asks for `nocl` itself.
CLASSIFIER_OPTIONS = {"zipmap": [True, False, "columns"], "raw_scores": [True, False], "nocl": [False]}


def register() -> None:
    """Register the converters of features, of models on them, and of `TableEncoder` with skl2onnx.

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
    for kind in CONVERTERS:
        options = CLASSIFIER_OPTIONS if kind is FeatureClassifier else None
        names = kind, f"Bochner{kind.__name__}"
        skl2onnx.update_registered_converter(*names, _declare_outputs, _convert, overwrite=True, options=options)


def _declare_outputs(operator: Any) -> None:
    """Declare the labels of a classifier, and a matrix: float64 or float32 like the rows, else as fitted."""
    from skl2onnx.common import data_types

    model, n_rows = operator.raw_operator, operator.inputs[0].get_first_dimension()
    dtype: Any
    if isinstance(model, KernelFeatures):
        dtype, width = model.feature_map_.dtype, model.feature_map_.n_columns
    elif isinstance(model, RobustStandardizer):
        dtype, width = np.float64, model.n_features_in_
    elif isinstance(model, TableEncoder):
        dtype, width = model.encoding_.dtype, len(model.encoding_.names)
    elif isinstance(model, FeatureClassifier):
        dtype, width = model._dtype, len(model.classes_)
        is_text = estimators.class_labels(model.classes_).dtype.kind == "U"
        kind = data_types.StringTensorType if is_text else data_types.Int64TensorType
        operator.outputs[0].set_type(kind([n_rows]))
    else:
        dtype, width = model._dtype, np.size(model.intercept_)
    given = [type(variable.type) for variable in operator.inputs]
    single, double = data_types.FloatTensorType, data_types.DoubleTensorType
    is_single = double not in given and (single in given or dtype == np.float32)
    operator.outputs[-1].set_type((single if is_single else double)([n_rows, width]))


def _convert(scope: Any, operator: Any, container: Any) -> None:
    model = operator.raw_operator
    CONVERTERS[type(model)](Graph(scope, operator, container), model)


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
