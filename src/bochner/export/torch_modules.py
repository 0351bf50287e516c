# SPDX-License-Identifier: BSD-3-Clause
"""Fitted estimators as torch modules, whose arrays can be trained; the only module that imports torch."""

from collections.abc import Sequence
from copy import copy
from typing import Any

from bochner.feature_maps.formulas import Formula, LinearFormula, LogisticFormula, formulas_of

try:
    import torch
    from torch.nn import Module
except ModuleNotFoundError:  # `to_torch` says what to install
    torch, Module = None, object

__all__ = ["FormulaModule", "LinearModule", "LogisticModule", "to_torch"]

ALIASES = {"weights": "amplitudes"}  # training square roots keeps the weights non-negative


def to_torch(estimator: Any, trainable: Sequence[str] = ()) -> Any:
    """Return a fitted estimator as a torch module that computes the same features or predictions.

    Parameters
    ----------
    estimator : estimator
        Fitted `FourierFeatures` or `LandmarkFeatures`, a linear model of bochner on such features, or a pipeline of
        `StandardScaler` and these.
    trainable : sequence of str, default=()
        Names of the arrays that become parameters; all others are buffers. `FourierFeatures` have "frequencies",
        "weights", "length_scales" and, if compressed, "matrix"; `LandmarkFeatures` have "landmarks", "length_scales"
        and "whitening", and a learned metric has "directions" and "diagonal"; linear models have "coef" and
        "intercept"; scalers "mean" and "scale".

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
    >>> from bochner.export.torch_modules import to_torch
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = FeatureRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> import torch  # doctest: +SKIP
    >>> module = to_torch(model, trainable=("frequencies", "coef"))  # doctest: +SKIP
    >>> bool(np.allclose(module(torch.tensor(X)).detach().numpy(), model.predict(X)))  # doctest: +SKIP
    True
    """
    formulas = formulas_of(estimator)
    if torch is None:
        raise ImportError("`to_torch` needs torch: pip install 'bochner[torch]'.")
    names = _trained_names(trainable, {name for formula in formulas for name in formula.arrays})
    dtype = min((values.dtype for formula in formulas for values in formula.arrays.values()), key=lambda d: d.itemsize)
    linear = formulas[-1] if isinstance(formulas[-1], LinearFormula) else None
    modules = [FormulaModule(formula, names, dtype) for formula in formulas[: -1 if linear else None]]
    features = modules[0] if len(modules) == 1 else torch.nn.Sequential(*modules)
    if linear is None:
        return features
    kind = LogisticModule if isinstance(linear, LogisticFormula) else LinearModule
    return kind(features, linear, names, dtype)


class FormulaModule(Module):
    """The formula of a fitted estimator as a torch module.

    Parameters
    ----------
    formula : Formula
        The formula; its arrays become attributes of the same names.
    trainable : collection of str
        Names of the arrays that become parameters; the others become buffers.
    dtype : numpy dtype
        The dtype of the arrays.
    """

    def __init__(self, formula: Formula, trainable: Any, dtype: Any) -> None:
        super().__init__()
        self.names = tuple(formula.arrays)
        self.formula = copy(formula)
        self.formula.arrays = {}  # the module has them
        for name, values in formula.arrays.items():
            tensor = torch.tensor(values.astype(dtype))
            if name in trainable:
                self.register_parameter(name, torch.nn.Parameter(tensor))
            else:
                self.register_buffer(name, tensor)

    def forward(self, X: Any) -> Any:
        """Return the map of rows.

        Parameters
        ----------
        X : tensor of shape (n_rows, n_features)
            Rows, of the dtype and on the device of the module.

        Returns
        -------
        tensor of shape (n_rows, n_columns)
            Features.
        """
        return self.formula(X, {name: getattr(self, name) for name in self.names}, torch)

    def extra_repr(self) -> str:
        """Return the shapes of the arrays, for the representation of the module.

        Returns
        -------
        str
            The names and shapes.
        """
        return ", ".join(f"{name}={tuple(getattr(self, name).shape)}" for name in self.names)


class LinearModule(FormulaModule):
    """A fitted linear model as a torch module, on the module of its features.

    Parameters
    ----------
    features : torch.nn.Module
        The module of the features.
    formula : LinearFormula
        The formula of the scores.
    trainable : collection of str
        Names of the arrays that become parameters; the others become buffers.
    dtype : numpy dtype
        The dtype of the arrays.
    """

    formula: LinearFormula

    def __init__(self, features: Any, formula: LinearFormula, trainable: Any, dtype: Any) -> None:
        super().__init__(formula, trainable, dtype)
        self.features = features

    def forward(self, X: Any) -> Any:
        """Return the predictions of a regression, or the scores of a classifier.

        Parameters
        ----------
        X : tensor of shape (n_rows, n_features)
            Rows, of the dtype and on the device of the module.

        Returns
        -------
        tensor of shape (n_rows,) or (n_rows, n_columns)
            As `predict` of a regression, and `decision_function` of a classifier.
        """
        scores = self._scores(X)
        predictions = torch.exp(scores) if self.formula.link == "log" else scores
        return predictions[:, 0] if self.formula.is_flat else predictions

    def _scores(self, X: Any) -> Any:
        return super().forward(self.features(X))


class LogisticModule(LinearModule):
    """A fitted logistic regression as a torch module, on the module of its features.

    Parameters
    ----------
    features : torch.nn.Module
        The module of the features.
    formula : LogisticFormula
        The formula of the scores.
    trainable : collection of str
        Names of the arrays that become parameters; the others become buffers.
    dtype : numpy dtype
        The dtype of the arrays.
    """

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : tensor of shape (n_rows, n_features)
            Rows, of the dtype and on the device of the module.

        Returns
        -------
        tensor of shape (n_rows, n_classes)
            Probabilities.
        """
        return torch.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : tensor of shape (n_rows, n_features)
            Rows, of the dtype and on the device of the module.

        Returns
        -------
        tensor of shape (n_rows, n_classes)
            Logarithms of probabilities.
        """
        scores = self._scores(X)
        if scores.shape[1] == 1:  # those of the second of two classes
            scores = torch.cat((torch.zeros_like(scores), scores), dim=1)
        return torch.log_softmax(scores, dim=1)


def _trained_names(trainable: Sequence[str], known: set[str]) -> set[str]:
    """Return the names of the arrays to train, checked."""
    names = {trainable} if isinstance(trainable, str) else set(trainable)
    trained = {ALIASES.get(name, name) for name in names}
    unknown = sorted(trained - known)
    if unknown:
        raise ValueError(
            f"`trainable` contains {unknown[0]!r}, which this estimator does not have; use names among "
            f"{', '.join(map(repr, sorted(known)))}."
        )
    return trained
