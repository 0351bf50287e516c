# SPDX-License-Identifier: BSD-3-Clause
"""Checks of what a file contains, so that a damaged or crafted one is refused when it is loaded and not later."""

from dataclasses import fields, is_dataclass
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import clone, is_classifier

from bochner.features.fourier_features import FourierFeatures
from bochner.features.landmark_features import LandmarkFeatures
from bochner.table_models.fitted_model import FittedModel
from bochner.table_models.trials import Trial
from bochner.tables.columns import KINDS, import_pyarrow
from bochner.tables.encoding import Encoding

__all__ = ["check_fields", "check_model"]

NUMBERS: dict[Any, tuple[type, ...]] = {
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
}


def check_model(model: FittedModel) -> None:
    """Check the fields of a model, that its parts belong together, and that it predicts finite numbers or classes."""
    check_fields(model)
    encoding = model.estimator.encoding_
    _check_encoding(encoding)
    _require(encoding.target is not None and encoding.target.name == model.target, "the target")
    _require(model.task == ("classification" if is_classifier(model.estimator) else "regression"), "the task")
    _require(model.estimator.n_features_in_ == len(encoding.names), "the number of columns")
    clone(model.estimator)
    _check_predictions(model.estimator, encoding)


def check_fields(record: Any) -> None:
    """Check that the fields of a dataclass have the types of their annotations, and that their numbers are finite.

    Parameters
    ----------
    record : dataclass instance
        The record; dataclasses in it are checked too.

    Examples
    --------
    >>> from bochner.table_models.file_checks import check_fields
    >>> from bochner.tables.columns import Column
    >>> check_fields(Column("size", "number", fill=2.0))
    >>> check_fields(Column("size", "number", fill="two"))
    Traceback (most recent call last):
    ...
    TypeError: Column.fill
    """
    hints = get_type_hints(type(record), localns={"pa": import_pyarrow(), "Trial": Trial})
    for field in fields(record):
        if not _matches(getattr(record, field.name), hints[field.name]):
            raise TypeError(f"{type(record).__name__}.{field.name}")


def _matches(value: Any, hint: Any) -> bool:
    """Return whether a value has the type of an annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_matches(value, argument) for argument in arguments)
    if origin is Literal:
        return isinstance(value, str | NoneType) and value in arguments
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and (value.dtype.kind != "f" or bool(np.isfinite(value).all()))
    if origin in (list, tuple):
        return isinstance(value, origin) and all(_matches_item(item, arguments, i) for i, item in enumerate(value))
    if origin is dict:
        return isinstance(value, dict) and all(
            _matches(key, arguments[0]) and _matches(item, arguments[1]) for key, item in value.items()
        )
    if not isinstance(value, NUMBERS.get(hint, hint)):
        return False
    if is_dataclass(value):
        check_fields(value)
    return not isinstance(value, float | np.floating) or isfinite(value)


def _matches_item(item: Any, hints: tuple[Any, ...], index: int) -> bool:
    """Return whether an item of a list or a tuple has the type of its annotation."""
    if len(hints) == 1 or hints[1] is Ellipsis:
        return _matches(item, hints[0])
    return index < len(hints) and _matches(item, hints[index])


def _check_encoding(encoding: Encoding) -> None:
    """Check that the columns of an encoding can be used and that they have the numbers that standardize them."""
    _require(isinstance(encoding, Encoding), "the encoding")
    check_fields(encoding)
    n_numbers = sum(column.has_number for column in encoding.columns)
    _require(all(column.kind in KINDS for column in encoding.columns), "the kinds of columns")
    _require(len({column.name for column in encoding.columns}) == len(encoding.columns), "the names of columns")
    _require(np.shape(encoding.mean) == np.shape(encoding.scale) == (n_numbers,), "the numbers that standardize")
    _require(bool((np.asarray(encoding.scale) > 0.0).all()), "the scales")
    encoding.encode(_missing_cells(encoding))


def _missing_cells(encoding: Encoding) -> Any:
    """Return one row of a table without any values."""
    pa = import_pyarrow()
    return pa.RecordBatch.from_pydict({column.name: pa.nulls(1) for column in encoding.columns})


def _check_predictions(estimator: Any, encoding: Encoding) -> None:
    """Check what an estimator predicts for a row without values and for a row of ones."""
    missing = encoding.encode(_missing_cells(encoding))
    rows = np.concatenate([missing, np.ones_like(missing)])
    estimator = estimator.without_encoding()
    found = [estimator.predict(rows)]
    if isinstance(estimator.features_, FourierFeatures | LandmarkFeatures):
        found.extend(estimator.features_.exact_kernel(rows))
    if estimator.loss == "squared_error" and not hasattr(estimator, "classes_"):
        found.append(estimator.predict(rows, return_std=True)[1])
    elif hasattr(estimator, "predict_proba"):
        found.extend(estimator.predict_proba(rows).T)
    for values in found:
        _require(np.shape(values) == (2,), "the shapes of predictions")
        _require(values.dtype.kind != "f" or bool(np.isfinite(values).all()), "the predictions")


def _require(is_valid: bool, part: str) -> None:
    if not is_valid:
        raise ValueError(part)
