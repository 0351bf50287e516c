# SPDX-License-Identifier: BSD-3-Clause
"""Parameters as users of scikit-learn type them.

`Parametrized` is the base class of estimators and components. An unknown parameter gets an error message that says what
to write instead, and the parameters of components are reachable by nested names also where a component is a name or
None: ``FeatureRegressor().set_params(features__n_frequencies=64)``.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar, Self, TypeVar

from sklearn.base import BaseEstimator

Init = TypeVar("Init", bound=Callable[..., None])
LENGTH_SCALE = "1 / sqrt(2 gamma) for the Gaussian kernel, 1 / gamma for the Laplacian kernel, 'scale' for 'scale'"
# What to write instead of parameters that users of scikit-learn type, with their value as {value}.
FEATURE_EXPLANATIONS = {"gamma": f"use length_scale: {LENGTH_SCALE}"}
LINEAR_EXPLANATIONS = {
    "gamma": f"use features=FourierFeatures(length_scale=...): {LENGTH_SCALE}",
    "kernel": "use features=FourierFeatures(kernel={value}), LandmarkFeatures for a kernel that does not depend on the "
    "differences of rows, or kernels=[...] to choose among several",
}
RIDGE_EXPLANATIONS = {
    **LINEAR_EXPLANATIONS,
    "alpha": "use alphas=[{value}], relative to the number of rows, or alphas=[{value} / n_samples] for the penalty of "
    "Ridge(alpha={value})",
    "C": "use alphas, of which small ones regularize less",
}
CLASSIFIER_EXPLANATIONS = {
    **LINEAR_EXPLANATIONS,
    "C": "use Cs=[{value}]",
    "alpha": "use Cs, of which large ones regularize less",
}


class Parametrized(BaseEstimator):
    """Base class of estimators and components.

    Subclasses name what their parameters stand for (`_default_parts`: the classes behind names of components, or behind
    None) and what to write instead of parameters that they are often passed by mistake (`_explanations`).
    """

    _default_parts: ClassVar[Mapping[str, Mapping[Any, type]]] = {}
    _explanations: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", _explaining(vars(cls)["__init__"]))  # noqa: B010, mypy refuses an assignment

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of components, also of those behind names and None.

        Returns
        -------
        dict of str to object
            Names of parameters and their values.
        """
        parameters: dict[str, Any] = super().get_params(deep)
        for name in self._default_parts if deep else ():
            component = self._component(name) if name in parameters else None
            if component is not None:
                parameters |= {f"{name}__{key}": value for key, value in component.get_params().items()}
        return parameters

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Parameters
        ----------
        **params : dict
            Values of parameters; ``component__parameter=value`` sets one of a component. If the component is a name or
            None, it is replaced by an instance.

        Returns
        -------
        self
            The estimator.
        """
        names = _init_names(type(self).__init__)
        for key, value in params.items():
            if key.partition("__")[0] not in names:
                remedy = _remedy(type(self), names, key, value)
                raise ValueError(f"Invalid parameter {key!r} for estimator {type(self).__name__}; {remedy}.")
        nested = {key: value for key, value in params.items() if "__" in key}
        super().set_params(**{key: value for key, value in params.items() if key not in nested})
        for key in nested:  # after the names, whose components they belong to
            name, _, parameter = key.partition("__")
            component = self._component(name)
            if component is None:
                raise ValueError(
                    f"`{name}`={getattr(self, name)!r} of {type(self).__name__} has no parameter {parameter!r}; set "
                    f"`{name}` to an object with that parameter first."
                )
            setattr(self, name, component)
        return super().set_params(**nested)  # type: ignore[no-any-return]

    def _component(self, name: str) -> Any:
        """Return the component that is the value of a parameter, or for which it stands; None if there is none."""
        value = getattr(self, name)
        if hasattr(value, "get_params") and not isinstance(value, type):
            return value
        stands_for_one = value is None or isinstance(value, str)
        kind = self._default_parts.get(name, {}).get(value) if stands_for_one else None
        return None if kind is None else kind()


def _explaining(init: Init) -> Init:
    """Decorate an `__init__` so that arguments that it does not take raise an error that says what to write instead."""
    names = _init_names(init)
    if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(init).parameters.values()):
        return init  # a user's own class

    @wraps(init)
    def explained(self: Any, *args: Any, **kwargs: Any) -> None:
        kind = type(self)
        unknown = {name: value for name, value in kwargs.items() if name not in names}
        remedies = {name: _remedy(kind, names, name, value) for name, value in unknown.items()}
        if remedies:
            raise TypeError(" ".join(f"{kind.__name__} has no parameter {n!r}; {r}." for n, r in remedies.items()))
        init(self, *args, **kwargs)

    return explained  # type: ignore[return-value]


def _init_names(init: Callable[..., None]) -> list[str]:
    """Return the names of the parameters of an `__init__`, in the order of its signature."""
    parameters = list(inspect.signature(init).parameters.values())[1:]
    return [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _remedy(kind: type[Parametrized], names: list[str], name: str, value: Any) -> str:
    """Return what to write instead of an unknown parameter."""
    if name in kind._explanations:
        return kind._explanations[name].format(value=repr(value))
    return f"its parameters are {', '.join(names)}" if names else "it has no parameters"


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
    from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

    if isinstance(kernel, str) and kernel in PAIRWISE_KERNEL_FUNCTIONS and kernel not in ("rbf", "laplacian"):
        raise ValueError(
            f"{parameter} must be the name of a shift-invariant kernel. Got {kernel!r} instead; use "
            f"LandmarkFeatures(kernel=sklearn.metrics.pairwise.{PAIRWISE_KERNEL_FUNCTIONS[kernel].__name__})."
        )
