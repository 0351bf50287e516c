# SPDX-License-Identifier: BSD-3-Clause
"""Turn user input into a row source: the only module that distinguishes arrays from Dask collections."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from bochner.rows.arrays import Array
from bochner.rows.dask_partitions import DaskPartitions, is_collection, map_blocks, template
from bochner.rows.partitions import PartitionedRows, Partitions
from bochner.rows.sources import Batch, MemoryRows, RowSource, compose
from bochner.validation import validate_numbers


def open_rows(X: Any, y: Any = None, weights: Any = None) -> RowSource:
    """Return the source of rows, targets and sample weights, not yet validated.

    Parameters
    ----------
    X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), Partitions or RowSource
        The rows. Partitions and sources have their own targets and weights.
    y : array-like or Dask collection, default=None
        Targets.
    weights : array-like or Dask collection of shape (n_samples,), default=None
        Sample weights.
    """
    if isinstance(X, RowSource):
        return X
    if is_collection(X, y, weights):
        X = DaskPartitions(X, y, weights)
    if isinstance(X, Partitions):
        return PartitionedRows(X, has_targets="y" in X.templates)
    return MemoryRows(X, y, weights)


def validate_rows(
    estimator: Any,
    X: Any,
    check: Callable[[Any], None],
    lazy_error: str | None = None,
    **options: Any,
) -> Any:
    """Validate new rows for a fitted estimator; of rows in partitions what can be checked without computing.

    Parameters
    ----------
    estimator : estimator
        Knows the number and the names of the columns.
    X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), RowSource or Partitions
        Rows.
    check : callable
        Raises an error for rows in memory that are not accepted.
    lazy_error : str, default=None
        Error message for rows that are not in memory; None accepts them.
    **options
        Options of scikit-learn's `validate_data`.

    Returns
    -------
    {ndarray, CSR matrix, Dask collection, RowSource}
        Rows in memory are converted; a Dask collection is returned as it is.
    """
    is_lazy = is_collection(X)
    if not is_lazy and not isinstance(X, RowSource | Partitions):
        X = validate_numbers(estimator, X, reset=False, **options)
        check(X)
        return X
    if lazy_error is not None:
        raise ValueError(lazy_error)
    if not is_lazy:
        return open_rows(X).with_targets(None).validate(estimator, reset=False, **options)
    validate_data(estimator, template(X), reset=False, ensure_min_samples=0, **options)
    return X


def apply_to_rows(function: Callable[[Any], Array], X: Any, prepare: Callable[[Any], Any]) -> Any:
    """Apply a function to rows in memory, to every partition, or lazily to every chunk of a Dask collection.

    Parameters
    ----------
    function : callable
        Maps rows one by one; for no rows it returns an array without rows.
    X : {ndarray, CSR matrix, Dask collection} of shape (n_samples, n_features), or RowSource
        Rows that `validate_rows` returned.
    prepare : callable
        Validates a chunk before the function sees it.

    Returns
    -------
    ndarray or dask array
        The function of the rows; that of the rows of a source is collected.
    """
    prepared = compose(prepare, function)
    if isinstance(X, RowSource):
        return np.concatenate(X.accumulate(partial(_apply_to_batch, prepared)) or [])
    if is_collection(X):
        return map_blocks(prepared, X, prepared(np.zeros((0, X.shape[1]))))
    return function(X)


def _apply_to_batch(function: Callable[[Any], Array], start: Any, batch: Batch) -> list[Array]:
    del start
    return [function(batch.X)]
