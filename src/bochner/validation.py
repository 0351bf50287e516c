# SPDX-License-Identifier: BSD-3-Clause
"""Checks of parameters and inputs; the one module that uses private interfaces of scikit-learn.

Constraints on parameters (`Interval`, `StrOptions`, `HasMethods`), the context that checks them before `fit`
(`fit_context`) and the check of sample weights have no public counterpart, and give scikit-learn's own error messages.
"""

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context, clone
from sklearn.utils import _param_validation
from sklearn.utils._param_validation import HasMethods as HasMethods
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metaestimators import available_if as _available_if
from sklearn.utils.validation import _check_feature_names_in, _check_sample_weight, validate_data

Method = TypeVar("Method", bound=Callable[..., Any])
LARGEST_WEIGHT = 1e50  # squares of products of two weights stay far below the largest float64
LARGEST_CANDIDATE = 1e100  # penalty or multiple of the length scale; its products with sums of weights are finite


class StrOptions(_param_validation.StrOptions):
    """Constraint to one of several names, which the error message lists in the given order.

    Parameters
    ----------
    names : iterable of str
        The names.
    aliases : iterable of str, default=()
        Names that are accepted and not listed.

    Examples
    --------
    >>> from bochner.validation import StrOptions
    >>> print(StrOptions(["points", "pairs"]))
    a str among {'points', 'pairs'}
    """

    def __init__(self, names: Iterable[str], *, aliases: Iterable[str] = ()) -> None:
        self.names = tuple(names)
        super().__init__({*self.names, *aliases})

    def __str__(self) -> str:
        return f"a str among {{{', '.join(map(repr, self.names))}}}"


class Interval(_param_validation.Interval):
    """Constraint to an interval of integers or real numbers; True and False are not numbers.

    Parameters
    ----------
    type : {numbers.Integral, numbers.Real}
        Kind of the numbers.
    left, right : float, int or None
        Bounds; None means that there is none.
    closed : {"left", "right", "both", "neither"}
        Bounds that belong to the interval.
    note : str, default=""
        What the error message says about numbers to use.

    Examples
    --------
    >>> from numbers import Integral
    >>> from bochner.validation import Interval
    >>> Interval(Integral, 0, None, closed="left").is_satisfied_by(True)
    False
    """

    def __init__(self, type: Any, left: Any, right: Any, *, closed: str, note: str = "") -> None:
        super().__init__(type, left, right, closed=closed)
        self.note = note

    def is_satisfied_by(self, val: Any) -> bool:
        return not isinstance(val, bool) and super().is_satisfied_by(val)

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.note})" if self.note else super().__str__()


COUNT = Interval(Integral, 1, None, closed="left")  # constraint to numbers of things


def check_names(estimator: Any, input_features: Any) -> None:
    """Refuse names of columns that are not those of the fit."""
    _check_feature_names_in(estimator, input_features)


def fit_context(method: Method) -> Method:
    """Check the parameters of an estimator before a method that fits it."""
    decorated: Method = _fit_context(prefer_skip_nested_validation=True)(method)
    return decorated


def available_if(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """Decorate a method that an estimator has only where `check` returns True; else it raises AttributeError."""
    decorate: Callable[[Method], Method] = _available_if(check)
    return decorate


def returns_frames(transformer: Any) -> bool:
    """Return whether `set_output` or `transform_output` asks a transformer for data frames."""
    return bool(_get_output_config("transform", transformer)["dense"] != "default")


def validate_numbers(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Call scikit-learn's `validate_data`; an error about text or dates in X names the column and the remedy."""
    try:
        return validate_data(estimator, X, *y, **options)
    except (TypeError, ValueError) as error:
        is_conversion = isinstance(error, TypeError) or "could not convert" in str(error)
        if not is_conversion or (found := _first_unencoded(X)) is None:
            raise
        column, cell = found
    raise ValueError(
        f"Column {column!r} contains {str(cell)!r:.50}, which is not a number; encode it with `TableEncoder`, or use "
        f"`TableRegressor` or `TableClassifier`."
    )


def _first_unencoded(X: Any) -> tuple[Any, Any] | None:
    """Return the name or number of the first column with text or dates, and a cell."""
    cells = np.asarray(X, dtype=object)
    if cells.ndim != 2:
        return None
    for name, column in zip(getattr(X, "columns", range(cells.shape[1])), cells.T, strict=True):
        for cell in column:
            if isinstance(cell, date | np.datetime64) or (isinstance(cell, str | bytes) and not _is_number(cell)):
                return name, cell
    return None


def _is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_weights(sample_weight: Any, X: Any) -> NDArray[np.float64] | None:
    """Return sample weights as an array of finite, non-negative numbers, at least one of them positive."""
    if sample_weight is None:
        return None
    weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
    check_weight_range(weights)
    return weights


def check_weight_range(weights: NDArray[np.float64], *, all_rows: bool = True) -> None:
    """Refuse sample weights for which sums of products overflow, or are zero; `all_rows` if no other rows have any.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.validation import check_weight_range
    >>> check_weight_range(np.array([1e-200, 1.0, 1e13]))
    """
    largest = float(weights.max(initial=0.0))
    if largest > LARGEST_WEIGHT or (all_rows and 0.0 < largest < 1.0 / LARGEST_WEIGHT):
        raise ValueError(
            f"The largest `sample_weight` is {largest:.3g}; weights of more than {LARGEST_WEIGHT:g} overflow float64 "
            f"in sums of products, and a largest weight below {1.0 / LARGEST_WEIGHT:g} underflows. Divide all weights "
            f"by their mean."
        )


def make_part(name_or_part: Any, table: Mapping[str, type]) -> Any:
    """Return the part of that name with its defaults, or a copy of the given part; its own parameters are checked."""
    if isinstance(name_or_part, type):
        raise TypeError(f"{name_or_part.__name__} is a class; give an instance, {name_or_part.__name__}(), or a name.")
    part = table[name_or_part]() if isinstance(name_or_part, str) else clone(name_or_part)
    if hasattr(part, "_parameter_constraints"):  # a user's own part need not declare them
        part._validate_params()
    return part


def check_returned(
    name: str, values: Any, shape: tuple[int, ...], remedy: str, *, negative: bool = True
) -> NDArray[np.float64]:
    """Return what a component computed as an array; raise an error if it has another shape or invalid numbers.

    Parameters
    ----------
    name : str
        The parameter, the class and the method that the error message names.
    values : array-like
        What the method returned.
    shape : tuple of int
        The shape that it must have.
    remedy : str
        What the method must return, for the error message.
    negative : bool, default=True
        Whether numbers may be negative.

    Examples
    --------
    >>> from bochner.validation import check_returned
    >>> check_returned("`weighting` Own.weigh", [1, 2], (2,), "one number per frequency")
    array([1., 2.])
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        problem = reprlib.repr(values)
    else:
        if array.shape != shape:
            problem = f"an array of shape {array.shape}" if array.ndim else repr(values)
        elif not np.isfinite(array).all():
            problem = "NaN or infinity"
        elif not negative and array.min(initial=0.0) < 0.0:
            problem = "negative numbers"
        else:
            return array
    raise ValueError(f"{name} returned {problem}; return {remedy}, as an array of shape {shape}.")


def positive_values(
    name: str, values: Any, *, zero: bool = False, default: Sequence[float] | None = None
) -> NDArray[np.float64]:
    """Return candidates for a parameter as an array of finite, positive numbers; `zero` allows zeros.

    None stands for the default candidates, if there are any.

    Examples
    --------
    >>> from bochner.validation import positive_values
    >>> positive_values("alphas", [1, 10])
    array([ 1., 10.])
    """
    try:
        array = np.atleast_1d(np.asarray(default if values is None else values, dtype=np.float64))
    except (TypeError, ValueError):
        array = np.empty(0)
    is_valid = array.ndim == 1 and len(array) > 0 and np.isfinite(array).all() and array.min() >= 0.0
    if not is_valid or not (zero or array.all()):
        kind = "non-negative" if zero else "positive"
        raise ValueError(f"`{name}` must be a non-empty sequence of {kind} numbers. Got {values!r} instead.")
    outside = array[(array > 0.0) & ((array < 1.0 / LARGEST_CANDIDATE) | (array > LARGEST_CANDIDATE))]
    if len(outside):
        raise ValueError(
            f"`{name}` contains {outside[0]:g}, whose products overflow or underflow float64; give numbers between "
            f"{1.0 / LARGEST_CANDIDATE:g} and {LARGEST_CANDIDATE:g}."
        )
    return array
