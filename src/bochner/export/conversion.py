# SPDX-License-Identifier: BSD-3-Clause
"""The export of an estimator or a pipeline to ONNX."""

from typing import Any

from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from bochner.export.graph import import_skl2onnx
from bochner.export.registration import register
from bochner.export.table_models import table_model_to_onnx
from bochner.tables.table_models import TableModel

__all__ = ["to_onnx"]


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
    if isinstance(model, TableModel):
        return table_model_to_onnx(model)
    register()
    if is_classifier(model):
        given = options.get("options") or {}
        options["options"] = given | {id(model): {"zipmap": False} | given.get(id(model), {})}
    return import_skl2onnx().to_onnx(model, X, **options)
