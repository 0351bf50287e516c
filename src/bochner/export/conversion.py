# SPDX-License-Identifier: BSD-3-Clause
"""The export of an estimator or a pipeline to ONNX and to torch."""

from collections.abc import Sequence
from typing import Any

from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from bochner.export.graph import import_skl2onnx
from bochner.export.registration import register
from bochner.export.table_models import table_model_to_onnx
from bochner.tables.table_models import TableModel

__all__ = ["to_onnx", "to_torch"]


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


def to_torch(estimator: Any, trainable: Sequence[str] = ()) -> Any:
    """Return a fitted estimator as a torch module that computes the same features or predictions.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Fitted `FourierFeatures` or `LandmarkFeatures`, a `FeatureRegressor` or `FeatureClassifier` on such features, or
        a pipeline of `StandardScaler` and these.
    trainable : sequence of str, default=()
        Names of the arrays that become parameters; all others are buffers. `FourierFeatures` have "frequencies",
        "weights", "length_scales" and, if compressed, "matrix"; `LandmarkFeatures` have "landmarks", "whitening" and
        "length_scales", or "metric" if it was learned; models have "coef" and "intercept"; scalers "mean" and "scale".

    Returns
    -------
    torch.nn.Module
        `forward` is `transform` of features, `predict` of a regression and `decision_function` of a classifier. That of
        a `FeatureClassifier` with the log loss has `predict_proba` and `predict_log_proba` too. The module is on the
        CPU and has the dtype that the estimator was fitted with.

    Notes
    -----
    "weights" are stored as their square roots, in the array `amplitudes`, so that training keeps them non-negative.
    `frequencies` are those at unit length scale: they are divided by `length_scales`, unless a learned metric has been
    absorbed by them. Rows are not checked for NaN, infinity and values that are too large for the length scale.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FeatureRegressor
    >>> from bochner.export import to_torch
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = FeatureRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> import torch  # doctest: +SKIP
    >>> module = to_torch(model, trainable=("frequencies", "coef"))  # doctest: +SKIP
    >>> bool(np.allclose(module(torch.tensor(X)).detach().numpy(), model.predict(X)))  # doctest: +SKIP
    True
    """
    try:
        from bochner.export.torch_modules import make_module
    except ModuleNotFoundError as error:
        raise ImportError("`to_torch` needs torch: pip install 'bochner[torch]'.") from error
    return make_module(estimator, trainable)
