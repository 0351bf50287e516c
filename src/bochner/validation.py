# SPDX-License-Identifier: BSD-3-Clause
"""Checks of parameters and inputs; the one module that uses private interfaces of scikit-learn.

Constraints on parameters (`Interval`, `StrOptions`, `HasMethods`), the context that checks them before `fit`
(`fit_context`) and the check of sample weights have no public counterpart, and give scikit-learn's own error messages.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context, clone
from sklearn.utils._param_validation import HasMethods as HasMethods
from sklearn.utils._param_validation import Interval as Interval
from sklearn.utils._param_validation import StrOptions as StrOptions
from sklearn.utils.validation import _check_sample_weight

__all__ = ["HasMethods", "Interval", "StrOptions", "check_weights", "fit_context", "make_part", "positive_values"]

Method = TypeVar("Method", bound=Callable[..., Any])


def fit_context(method: Method) -> Method:
    """Check the parameters of an estimator before a method that fits it."""
    decorated: Method = _fit_context(prefer_skip_nested_validation=True)(method)
    return decorated


def check_weights(sample_weight: Any, X: Any) -> NDArray[np.float64] | None:
    """Return sample weights as an array of finite, non-negative numbers, at least one of them positive."""
    if sample_weight is None:
        return None
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


def make_part(name_or_part: Any, table: Mapping[str, type]) -> Any:
    """Return the part of that name with its defaults, or a copy of the given part; its own parameters are checked."""
    if isinstance(name_or_part, type):
        raise TypeError(f"{name_or_part.__name__} is a class; give an instance, {name_or_part.__name__}(), or a name.")
    part = table[name_or_part]() if isinstance(name_or_part, str) else clone(name_or_part)
    if hasattr(part, "_parameter_constraints"):  # a user's own part need not declare them
        part._validate_params()
    return part


def positive_values(name: str, values: Any, *, zero: bool = False) -> NDArray[np.float64]:
    """Return candidates for a parameter as an array of finite, positive numbers; `zero` allows zeros.

    Examples
    --------
    >>> from bochner.validation import positive_values
    >>> positive_values("alphas", [1, 10])
    array([ 1., 10.])
    """
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        array = np.empty(0)
    is_valid = array.ndim == 1 and len(array) > 0 and np.isfinite(array).all() and array.min() >= 0.0
    if not is_valid or not (zero or array.all()):
        kind = "non-negative" if zero else "positive"
        raise ValueError(f"`{name}` must be a non-empty sequence of {kind} numbers. Got {values!r} instead.")
    return array
