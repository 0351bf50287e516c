# SPDX-License-Identifier: BSD-3-Clause
"""Parameters as users of scikit-learn type them.

`Parametrized` is the base class of estimators and parts. An unknown parameter gets an error message that says what to
write instead, and the parameters of parts are reachable by nested names also where a part is a name or None:
``FeatureRegressor().set_params(features__n_frequencies=64)``. The tables in this module translate `gamma`, `C`, `alpha`
and the names of kernels.
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
    *("CLASSIFIER_EXPLANATIONS", "FEATURE_EXPLANATIONS", "LINEAR_EXPLANATIONS", "RIDGE_EXPLANATIONS"),
    *("Explanation", "Parametrized", "refuse_foreign_kernel"),
]

# What to write instead of a parameter: a text with the value as {value}, or a function of all arguments.
Explanation = str | Callable[[Mapping[str, Any]], str]
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
    return explanation.format(value=_text(given[name])) if isinstance(explanation, str) else explanation(given)


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


def _length_scale(given: Mapping[str, Any]) -> tuple[str, str]:
    """Return the length scale that is equivalent to a `gamma`, and why."""
    gamma, kernel = given["gamma"], given.get("kernel", "gaussian")
    if isinstance(gamma, str):
        return ("length_scale='scale'" if gamma == "scale" else "length_scale"), ""
    number = float(gamma) if isinstance(gamma, Real) else math.nan
    if kernel == "laplacian" and number > 0.0:
        return f"length_scale={1.0 / number:.6g}", ", which is 1 / gamma"
    if kernel in ("gaussian", "rbf") and number > 0.0:
        return f"length_scale={math.sqrt(0.5 / number):.6g}", ", which is sqrt(1 / (2 gamma))"
    return "length_scale", ""


def _gamma_of_features(given: Mapping[str, Any]) -> str:
    length_scale, reason = _length_scale(given)
    return f"use {length_scale}{reason}"


def _gamma_of_model(given: Mapping[str, Any]) -> str:
    length_scale, reason = _length_scale(given)
    length_scale = length_scale if "=" in length_scale else f"{length_scale}=..."
    return f"use features=FourierFeatures({length_scale}){reason}"


def _kernel_of_model(given: Mapping[str, Any]) -> str:
    kernel = given["kernel"]
    if isinstance(kernel, str) and kernel in FOREIGN_KERNELS:
        return f"use features=LandmarkFeatures(kernel=sklearn.metrics.pairwise.{FOREIGN_KERNELS[kernel]})"
    return f"use features=FourierFeatures(kernel={_text(kernel)}), or kernels=[...] to choose among several"


FEATURE_EXPLANATIONS: dict[str, Explanation] = {"gamma": _gamma_of_features}
LINEAR_EXPLANATIONS: dict[str, Explanation] = {"gamma": _gamma_of_model, "kernel": _kernel_of_model}
RIDGE_EXPLANATIONS: dict[str, Explanation] = {
    **LINEAR_EXPLANATIONS,
    "alpha": "use alphas=[{value}], relative to the number of rows, or alphas=[{value} / n_samples] for the penalty of "
    "Ridge(alpha={value})",
    "C": "use alphas, of which small ones regularize less",
}
CLASSIFIER_EXPLANATIONS: dict[str, Explanation] = {
    **LINEAR_EXPLANATIONS,
    "C": "use Cs=[{value}]",
    "alpha": "use Cs, of which large ones regularize less",
}
