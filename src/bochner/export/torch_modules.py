# SPDX-License-Identifier: BSD-3-Clause
"""Torch modules of fitted estimators, whose arrays can be trained; the only module that imports torch."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from bochner.feature_models.classifier import FeatureClassifier
from bochner.feature_models.regressor import FeatureRegressor
from bochner.features.fourier_features import FourierFeatures
from bochner.features.landmark_features import LandmarkFeatures
from bochner.kernels import Cauchy, Gaussian, Laplacian, Matern, RationalQuadratic
from bochner.losses import Quantile
from bochner.rows import Array, to_dense

__all__ = ["FourierModule", "LandmarkModule", "LinearModule", "LogisticModule", "ScalerModule", "make_module"]

ALIASES = {"weights": "amplitudes"}  # training square roots keeps the weights non-negative
LARGEST_NU = 19.5  # of a Matern kernel; the powers of larger ones leave the range of float32
Recipe = tuple[type, dict[str, Array], dict[str, Any]]  # a module, its arrays, its other arguments


class ArrayModule(torch.nn.Module):
    """Named arrays of a fitted estimator: parameters if they are trained, and buffers if not."""

    def __init__(self, arrays: Mapping[str, Array], trainable: Collection[str], dtype: Any) -> None:
        super().__init__()
        self.names = tuple(arrays)
        for name, values in arrays.items():
            tensor = torch.tensor(np.asarray(values, dtype=dtype))
            if name in trainable:
                self.register_parameter(name, torch.nn.Parameter(tensor))
            else:
                self.register_buffer(name, tensor)

    def extra_repr(self) -> str:
        """Return the names and shapes of the arrays."""
        return ", ".join(f"{name}={tuple(getattr(self, name).shape)}" for name in self.names)


class ScalerModule(ArrayModule):
    """The columns minus `mean`, divided by `scale`, as far as there are any."""

    def forward(self, X: Any) -> Any:
        """Return scaled rows."""
        X = X - self.mean if "mean" in self.names else X
        return X / self.scale if "scale" in self.names else X


class FourierModule(ArrayModule):
    r"""The columns :math:`a_m \cos(w_m \cdot x / \ell)`, then :math:`a_m \sin(w_m \cdot x / \ell)`, times a matrix."""

    def forward(self, X: Any) -> Any:
        """Return the features of rows."""
        rows = X / self.length_scales if "length_scales" in self.names else X
        phases = rows @ self.frequencies.T
        columns = torch.cat((self.amplitudes * torch.cos(phases), self.amplitudes * torch.sin(phases)), dim=1)
        return columns @ self.matrix if "matrix" in self.names else columns


class LandmarkModule(ArrayModule):
    """Kernel values at landmarks, times the whitening matrix."""

    def __init__(self, *arguments: Any, kernel: Any) -> None:
        super().__init__(*arguments)
        self.kernel = kernel

    def forward(self, X: Any) -> Any:
        """Return the features of rows."""
        center = self.landmarks.mean(dim=0)  # relative to it, squared distances lose no digits to a common offset
        rows, landmarks = (self._scaled(points - center) for points in (X, self.landmarks))
        return _kernel_values(self.kernel, rows, landmarks) @ self.whitening

    def _scaled(self, rows: Any) -> Any:
        return rows @ self.metric.T if "metric" in self.names else rows / self.length_scales


class LinearModule(ArrayModule):
    """Predictions of a regression or scores of a classifier, on the module of its features."""

    def __init__(self, *arguments: Any, features: Any, is_flat: bool, link: str) -> None:
        super().__init__(*arguments)
        self.features, self.is_flat, self.link = features, is_flat, link

    def forward(self, X: Any) -> Any:
        """Return what `predict` of a regression, or `decision_function` of a classifier, returns."""
        scores = self._scores(X)
        predictions = torch.exp(scores) if self.link == "log" else scores
        return predictions[:, 0] if self.is_flat else predictions

    def _scores(self, X: Any) -> Any:
        return self.features(X) @ self.coef + self.intercept


class LogisticModule(LinearModule):
    """Scores of a classifier that has probabilities too, on the module of its features."""

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes."""
        return torch.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the probabilities of the classes."""
        scores = self._scores(X)
        if scores.shape[1] == 1:  # those of the second of two classes
            scores = torch.cat((torch.zeros_like(scores), scores), dim=1)
        return torch.log_softmax(scores, dim=1)


def make_module(estimator: Any, trainable: Sequence[str]) -> Any:
    """Return the module of an estimator; see `bochner.export.to_torch`."""
    recipes = _recipes(estimator)
    known = {name for _, arrays, _ in recipes for name in arrays}
    names = {trainable} if isinstance(trainable, str) else set(trainable)
    trained = {ALIASES.get(name, name) for name in names}
    unknown = sorted(trained - known)
    if unknown:
        raise ValueError(
            f"`trainable` contains {unknown[0]!r}, which this estimator does not have; use names among "
            f"{', '.join(map(repr, sorted(known)))}."
        )
    dtype = min((values.dtype for _, arrays, _ in recipes for values in arrays.values()), key=lambda d: d.itemsize)
    modules: list[Any] = []
    for kind, arrays, options in recipes:
        if issubclass(kind, LinearModule):  # on all modules before it
            options["features"] = modules[0] if len(modules) == 1 else torch.nn.Sequential(*modules)
            modules = []
        modules.append(kind(arrays, trained, dtype, **options))
    return modules[0] if len(modules) == 1 else torch.nn.Sequential(*modules)


def _recipes(estimator: Any) -> list[Recipe]:
    """Return what the modules of an estimator are made from, in the order in which they are applied."""
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps if step not in (None, "passthrough")]
        return [recipe for step in steps for recipe in _recipes(step)]
    if not isinstance(
        estimator, StandardScaler | FourierFeatures | LandmarkFeatures | FeatureRegressor | FeatureClassifier
    ):
        raise ValueError(
            f"{type(estimator).__name__} has no torch module; give FourierFeatures, LandmarkFeatures, a "
            f"FeatureRegressor or FeatureClassifier on them, or a pipeline of StandardScaler and these."
        )
    check_is_fitted(estimator)
    if isinstance(estimator, StandardScaler):
        scaling = {"mean": estimator.mean_ if estimator.with_mean else None, "scale": estimator.scale_}
        return [(ScalerModule, {name: values for name, values in scaling.items() if values is not None}, {})]
    if isinstance(estimator, FourierFeatures):
        return [(FourierModule, _fourier_arrays(estimator), {})]
    if isinstance(estimator, LandmarkFeatures):
        _check_kernel(estimator.kernel_)
        arrays = {"landmarks": estimator.landmarks_, "whitening": estimator.whitening_, **_scaling(estimator)}
        return [(LandmarkModule, arrays, {"kernel": estimator.kernel_})]
    return [*_recipes(estimator.features_), _linear_recipe(estimator)]


def _linear_recipe(model: Any) -> Recipe:
    coef, intercept = np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)
    if isinstance(model.loss_, Quantile) and len(intercept) > 1:
        raise ValueError(f"`to_torch` has no model of {len(intercept)} quantiles at once; fit one model per level.")
    is_flat = len(model.classes_) == 2 if is_classifier(model) else np.ndim(model.coef_) == 1
    kind = LogisticModule if hasattr(model, "predict_proba") else LinearModule
    return kind, {"coef": coef, "intercept": intercept}, {"is_flat": is_flat, "link": model.loss_.link}


def _fourier_arrays(features: Any) -> dict[str, Array]:
    """Return the arrays of Fourier features; their frequencies contain a metric, but not a length scale."""
    arrays = {"frequencies": features.frequencies_, "amplitudes": np.sqrt(features.weights_)}
    scaling = _scaling(features)
    if "length_scales" in scaling:
        arrays |= {"frequencies": features.frequencies_ * scaling["length_scales"], **scaling}
    return arrays if features.matrix_ is None else arrays | {"matrix": features.matrix_}


def _scaling(features: Any) -> dict[str, Array]:
    """Return the metric, or the length scales if there is none, in the dtype of the features."""
    metric, dtype = getattr(features, "metric_", None), features.feature_map_.dtype
    if metric is not None:
        return {"metric": to_dense(metric).astype(dtype)}
    return {"length_scales": np.asarray(features.length_scale_, dtype=dtype)}


def _check_kernel(kernel: Any) -> None:
    """Refuse kernels that torch cannot compute: functions of a user, and Matern kernels with Bessel functions."""
    is_half_integer = isinstance(kernel, Matern) and kernel.nu % 1.0 == 0.5 and kernel.nu <= LARGEST_NU
    if not is_half_integer and type(kernel) not in (Gaussian, RationalQuadratic, Laplacian, Cauchy):
        raise ValueError(
            f"The kernel {kernel!r} has no formula in torch; use FourierFeatures, or one of gaussian, laplacian, "
            f"cauchy, exponential, rational_quadratic and Matern with nu=0.5, 1.5, ... up to {LARGEST_NU}."
        )


def _kernel_values(kernel: Any, X: Any, Y: Any) -> Any:
    """Return the kernel of two sets of scaled rows; see the classes in `bochner.kernels`."""
    # One column at a time needs as much memory as the kernel values.
    differences = (X[:, j][:, None] - Y[:, j][None, :] for j in range(X.shape[1]))
    if isinstance(kernel, Laplacian):
        return torch.exp(-sum(torch.abs(difference) for difference in differences))
    if isinstance(kernel, Cauchy):
        return 1.0 / math.prod(1.0 + difference * difference for difference in differences)
    if isinstance(kernel, Matern) and kernel.nu == 0.5:
        # A kink at zero would turn the rounding error of a matrix product into the root of it.
        squares: Any = sum(difference * difference for difference in differences)
    else:
        squares = torch.sum(X * X, dim=1)[:, None] + torch.sum(Y * Y, dim=1)[None, :] - 2.0 * (X @ Y.T)
        squares = torch.clamp(squares, min=0.0)
    if isinstance(kernel, Gaussian):
        return torch.exp(-0.5 * squares)
    if isinstance(kernel, RationalQuadratic):
        return torch.exp(-kernel.alpha * torch.log1p(squares / (2.0 * kernel.alpha)))
    # The root has no derivative at 0, where gradients shall be 0, as those of `Kernel.gradient_at`.
    apart = squares > 0.0
    positive = torch.where(apart, 2.0 * kernel.nu * squares, torch.ones_like(squares))
    r = torch.where(apart, torch.sqrt(positive), torch.zeros_like(squares))
    p = round(kernel.nu - 0.5)
    factors = [math.comb(p, j) / math.perm(2 * p, j) * 2.0**j for j in range(p + 1)]
    polynomial: Any = factors[-1]  # by Horner's rule
    for factor in reversed(factors[:-1]):
        polynomial = polynomial * r + factor
    return polynomial * torch.exp(-r)
