# SPDX-License-Identifier: BSD-3-Clause
"""Parameters as users of scikit-learn type them.

`Parametrized` is the base class of estimators and parts. An unknown parameter gets an error message that says what to
write instead, and the parameters of parts are reachable by nested names also where a part is a name or None:
``FeatureRegressor().set_params(features__n_frequencies=64)``. The tables in this module translate the parameters of
`RBFSampler`, `Nystroem`, `Ridge`, `SVC` and their relatives.
"""

import inspect
import math
import reprlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import wraps
from numbers import Real
from typing import Any, ClassVar, Self, TypeVar

from sklearn.base import BaseEstimator

__all__ = [
    *("FOURIER_EXPLANATIONS", "LANDMARK_EXPLANATIONS", "LINEAR_EXPLANATIONS", "CLASSIFIER_EXPLANATIONS"),
    *("RIDGE_EXPLANATIONS", "Explanation", "Parametrized", "refuse_foreign_kernel"),
]

# What to write instead of a parameter: a text with the value as {value}, or a function of all arguments and the name.
Explanation = str | Callable[[Mapping[str, Any], str], str]
Init = TypeVar("Init", bound=Callable[..., None])


class Parametrized(BaseEstimator):
    """Base class of estimators and parts.

    Subclasses name what their parameters stand for (`_default_parts`: the classes behind names of parts, or behind
    None) and the parameters that they are often given in vain (`_explanations`).
    """

    _default_parts: ClassVar[Mapping[str, Mapping[Any, type]]] = {}
    _explanations: ClassVar[Mapping[str, Explanation]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", _explaining(vars(cls)["__init__"]))  # noqa: B010, mypy refuses an assignment

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of parts, also of the default parts behind names and None.

        Returns
        -------
        dict of str to object
            Names of parameters and their values.
        """
        parameters: dict[str, Any] = super().get_params(deep)
        for name in self._default_parts if deep else ():
            part = self._part(name) if name in parameters else None
            if part is not None:
                parameters |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return parameters

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Parameters
        ----------
        **params : dict
            Values of parameters; ``part__parameter=value`` sets one of a part. If the part is a name or None, it is
            replaced by an instance.

        Returns
        -------
        self
            The estimator.
        """
        names = _init_names(type(self).__init__)
        nested: dict[str, dict[str, Any]] = defaultdict(dict)
        for key in params:
            if key.partition("__")[0] not in names:
                remedy = _remedy(type(self), names, params, key)
                raise ValueError(f"Invalid parameter {key!r} for estimator {type(self).__name__}; {remedy}.")
        for key, value in params.items():
            name, is_nested, parameter = key.partition("__")
            if is_nested:
                nested[name][parameter] = value
            else:
                setattr(self, key, value)
        for name, values in nested.items():
            part = self._part(name)
            if part is None:
                parameter = next(iter(values))
                kinds = self._default_parts.get(name, {}).items()
                options = [repr(key) for key, kind in kinds if parameter in inspect.signature(kind).parameters]
                raise ValueError(
                    f"`{name}`={_text(getattr(self, name))} of {type(self).__name__} has no parameter {parameter!r}; "
                    f"set `{name}` to {' or '.join(options) or 'an object with that parameter'} first."
                )
            setattr(self, name, part.set_params(**values))
        return self

    def _part(self, name: str) -> Any:
        """Return the part that is the value of a parameter, or for which it stands; None if there is none."""
        value = getattr(self, name)
        if hasattr(value, "get_params") and not isinstance(value, type):
            return value
        if value is not None and not isinstance(value, str):
            return None
        kind = self._default_parts.get(name, {}).get(value)
        return None if kind is None else kind()


def _explaining(init: Init) -> Init:
    """Decorate an `__init__` so that arguments that it does not take raise an error that says what to write instead."""
    names = _init_names(init)
    kinds = [parameter.kind for parameter in inspect.signature(init).parameters.values()]
    if inspect.Parameter.VAR_KEYWORD in kinds or inspect.Parameter.VAR_POSITIONAL in kinds:
        return init  # a user's own class
    n_positional = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) - 1  # without self

    @wraps(init)
    def explained(self: Any, *args: Any, **kwargs: Any) -> None:
        kind = type(self)
        if len(args) > n_positional:
            raise TypeError(
                f"{kind.__name__}() takes {n_positional} positional argument{'s'[: n_positional != 1]} but {len(args)} "
                f"were given; give the others by name: {', '.join(names[n_positional:])}."
            )
        unknown = [name for name in kwargs if name not in names]
        if unknown:
            given = dict(zip(names, args, strict=False)) | kwargs
            sentences = (
                f"{kind.__name__} has no parameter {name!r}; {_remedy(kind, names, given, name)}." for name in unknown
            )
            raise TypeError(" ".join(sentences))
        init(self, *args, **kwargs)

    return explained  # type: ignore[return-value]


def _init_names(init: Callable[..., None]) -> list[str]:
    """Return the names of the parameters of an `__init__`, in the order of its signature."""
    parameters = list(inspect.signature(init).parameters.values())[1:]
    return [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _remedy(kind: type[Parametrized], names: list[str], given: Mapping[str, Any], name: str) -> str:
    """Return what to write instead of an unknown parameter."""
    explanation = kind._explanations.get(name)
    if explanation is None:
        return f"its parameters are {', '.join(names)}" if names else "it has no parameters"
    return explanation.format(value=_text(given[name])) if isinstance(explanation, str) else explanation(given, name)


def _text(value: Any) -> str:
    """Return a short text for a value, without numpy's names of types."""
    return reprlib.repr(value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value)


# Functions of scikit-learn behind its names of kernels that do not depend on differences of rows.
FOREIGN_KERNELS = {
    "linear": "linear_kernel",
    "poly": "polynomial_kernel",
    "polynomial": "polynomial_kernel",
    "sigmoid": "sigmoid_kernel",
    "cosine": "cosine_similarity",
    "chi2": "chi2_kernel",
    "additive_chi2": "additive_chi2_kernel",
}


def refuse_foreign_kernel(kernel: Any, parameter: str) -> None:
    """Raise an error for a name that scikit-learn has for a kernel that is not shift-invariant.

    Parameters
    ----------
    kernel : object
        The value of a parameter.
    parameter : str
        The parameter, as the error message calls it.

    Examples
    --------
    >>> from bochner.parameters import refuse_foreign_kernel
    >>> refuse_foreign_kernel("laplacian", "`kernel`")
    """
    function = FOREIGN_KERNELS.get(kernel) if isinstance(kernel, str) else None
    if function is not None:
        raise ValueError(
            f"{parameter} must be the name of a shift-invariant kernel. Got {kernel!r} instead; use "
            f"LandmarkFeatures(kernel=sklearn.metrics.pairwise.{function})."
        )


def _equivalent_length_scale(given: Mapping[str, Any]) -> str:
    """Return the length scale that is equivalent to a `gamma`."""
    gamma, kernel = given["gamma"], given.get("kernel", "gaussian")
    if isinstance(gamma, str):
        names = {"scale": "length_scale='scale'", "auto": "length_scale=(n_features / 2) ** 0.5"}
        return names.get(gamma, "length_scale")
    number = float(gamma) if isinstance(gamma, Real) and not isinstance(gamma, bool) else math.nan
    if kernel == "laplacian":
        return f"length_scale={1.0 / number:.6g}, which is 1 / gamma" if number > 0.0 else "length_scale=1 / gamma"
    if not isinstance(kernel, str) or kernel not in ("gaussian", "rbf"):
        return "length_scale"
    if number > 0.0:
        return f"length_scale={math.sqrt(0.5 / number):.6g}, which is sqrt(1 / (2 gamma))"
    return "length_scale=(1 / (2 * gamma)) ** 0.5"


def _is_function(kernel: Any) -> bool:
    return callable(kernel) and not hasattr(kernel, "uniform_dim")


def _gamma_of_features(given: Mapping[str, Any], name: str) -> str:
    if _is_function(given.get("kernel")):
        return f"use kernel=functools.partial(function, gamma={_text(given[name])})"
    return f"use {_equivalent_length_scale(given)}"


def _gamma_of_model(given: Mapping[str, Any], name: str) -> str:
    kernel = given.get("kernel")
    if _is_function(kernel) or (isinstance(kernel, str) and kernel in FOREIGN_KERNELS):
        return _of_function(given, name)
    length_scale, comma, origin = _equivalent_length_scale(given).partition(",")
    length_scale = length_scale if "=" in length_scale else f"{length_scale}=..."
    return f"use features=FourierFeatures({length_scale}){comma}{origin}"


def _kernel_of_model(given: Mapping[str, Any], name: str) -> str:
    kernel = given[name]
    if _is_function(kernel):
        return "use features=LandmarkFeatures(kernel=function)"
    if isinstance(kernel, str) and kernel in FOREIGN_KERNELS:
        return f"use features=LandmarkFeatures(kernel=sklearn.metrics.pairwise.{FOREIGN_KERNELS[kernel]})"
    return f"use features=FourierFeatures(kernel={_text(kernel)}), or kernels=[...] to choose among several"


def _of_function(given: Mapping[str, Any], name: str) -> str:
    """Explain a parameter of a kernel that is a function."""
    return (
        f"use LandmarkFeatures(kernel=functools.partial(function, {name}={_text(given[name])})), with a function such "
        f"as sklearn.metrics.pairwise.polynomial_kernel"
    )


def _of_fourier_features(given: Mapping[str, Any], name: str) -> str:
    return f"use features=FourierFeatures({name}={_text(given[name])})"


def _of_landmark_features(given: Mapping[str, Any], name: str) -> str:
    return f"use features=LandmarkFeatures({name}={_text(given[name])})"


_COMMON: dict[str, Explanation] = {
    **dict.fromkeys(("degree", "coef0"), _of_function),
    "n_jobs": "leave it out, or change the threads of BLAS, which it uses too, by threadpoolctl.threadpool_limits",
    "seed": "use random_state={value}",
}
_FEATURES: dict[str, Explanation] = {
    **_COMMON,
    "gamma": _gamma_of_features,
    **dict.fromkeys(("sigma", "bandwidth", "lengthscale"), "use length_scale={value}"),
    "nu": "use kernel=bochner.kernels.Matern(nu={value})",
}
FOURIER_EXPLANATIONS: dict[str, Explanation] = {
    **_FEATURES,
    "kernel_params": "use an instance as kernel, such as bochner.kernels.Matern(nu=2.5)",
    "n_landmarks": "use n_frequencies, which gives two columns per frequency, or LandmarkFeatures(n_landmarks={value})",
    "landmarks": "use LandmarkFeatures(landmarks={value})",
}
LANDMARK_EXPLANATIONS: dict[str, Explanation] = {
    **_FEATURES,
    "kernel_params": "use kernel=functools.partial(function, **{value}), or an instance such as "
    "bochner.kernels.Matern(nu=2.5)",
    "n_frequencies": "use n_landmarks, which gives one column per landmark, or FourierFeatures(n_frequencies={value})",
    **dict.fromkeys(("sampler", "weighting", "refine"), "leave it out, or use FourierFeatures"),
}

_INTERCEPT = "leave it out, because an intercept is always fitted"
_SOLVER = "leave it out, because the solver stops at the optimum and has no options"
_PENALTY = "leave it out, because the penalty is always the squared L2 norm of the coefficients"
_PROBABILITY = "use FeatureClassifier(loss='log_loss'), which has predict_proba"
_CLASSES = "leave it out, because a classifier always has one score per class"
LINEAR_EXPLANATIONS: dict[str, Explanation] = {
    **_COMMON,
    "gamma": _gamma_of_model,
    "kernel": _kernel_of_model,
    "kernel_params": "use features=LandmarkFeatures(kernel=functools.partial(function, **{value}))",
    "nu": "use features=FourierFeatures(kernel=bochner.kernels.Matern(nu={value}))",
    **dict.fromkeys(
        ("length_scale", "n_frequencies", "sampler", "weighting", "n_components", "refine", "tolerance"),
        _of_fourier_features,
    ),
    **dict.fromkeys(("n_landmarks", "landmarks"), _of_landmark_features),
    **dict.fromkeys(("fit_intercept", "intercept_scaling"), _INTERCEPT),
    **dict.fromkeys(
        ("max_iter", "tol", "solver", "dual", "warm_start", "shrinking", "cache_size", "solver_options"), _SOLVER
    ),
    **dict.fromkeys(("penalty", "l1_ratio", "l1_ratios"), _PENALTY),
    **dict.fromkeys(("multi_class", "decision_function_shape", "break_ties"), _CLASSES),
    **dict.fromkeys(("copy_X", "positive", "normalize"), "leave it out"),
    "probability": _PROBABILITY,
    **dict.fromkeys(("gcv_mode", "store_cv_results", "store_cv_values"), "leave it out; `cv_errors_` has all errors"),
}
RIDGE_EXPLANATIONS: dict[str, Explanation] = {
    **LINEAR_EXPLANATIONS,
    "alpha": "use alphas=[{value}], relative to the number of rows, or alphas=[{value} / n_samples] for the penalty of "
    "Ridge(alpha={value})",
    **dict.fromkeys(("C", "Cs"), "use alphas, of which small ones regularize less"),
    "epsilon": "use loss=Huber(threshold) of bochner.losses",
    "quantile": "use loss=Quantile({value}) of bochner.losses",
    "scoring": "leave it out, because candidates are compared by their loss, or by R2 for squared errors",
}
CLASSIFIER_EXPLANATIONS: dict[str, Explanation] = {
    **LINEAR_EXPLANATIONS,
    "C": "use Cs=[{value}]",
    **dict.fromkeys(("alpha", "alphas"), "use Cs, of which large ones regularize less"),
    "scoring": "leave it out, because candidates are compared by the accuracy or the loss over the folds",
    **dict.fromkeys(("refit", "use_legacy_attributes"), "leave it out, because a model is always fitted on all rows"),
}
