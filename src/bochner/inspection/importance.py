# SPDX-License-Identifier: BSD-3-Clause
r"""Importance of the columns of a model, and their contributions to single predictions, from gradients.

Gradients see every effect of a column, linear ones too. Length scales do not: a linear effect needs only a long one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bochner.rows import Array, Floats, Indices, is_sparse, row_spans, serial_blas, to_dense

__all__ = ["ColumnContributions", "ColumnImportance", "column_contributions", "column_importance", "names_out"]

BLOCK_VALUES = 1 << 22  # gradients that are held at a time


@dataclass(frozen=True)
class ColumnImportance:
    """How strongly the predictions of a model depend on each column; see `column_importance`.

    Parameters
    ----------
    names : list of str
        Names of the columns.
    importance : ndarray of shape (n_columns,)
        Mean squared gradient times the variance of each column, in squared units of the prediction.
    n_rows : int
        Number of rows that were averaged over.
    """

    names: list[str]
    importance: Floats
    n_rows: int

    @property
    def effects(self) -> Floats:
        """The square roots of `importance`: typical changes of the prediction, in its units.

        They are the root mean square change of the linearized prediction, if a column changes as it does from row to
        row and all others stay as they are.
        """
        return np.sqrt(self.importance)

    @property
    def order(self) -> Indices:
        """Positions of the columns, the most important one first."""
        return np.argsort(-self.importance, kind="stable")

    @property
    def ranking(self) -> list[str]:
        """Names of the columns, the most important one first."""
        return [self.names[position] for position in self.order]


@dataclass(frozen=True)
class ColumnContributions:
    """What each column contributes to the predictions of rows; see `column_contributions`.

    Parameters
    ----------
    names : list of str
        Names of the columns.
    contributions : ndarray of shape (n_samples, n_columns, n_outputs)
        Contributions, in units of the prediction; those of a classifier to its scores. Their sum over the columns is
        the prediction of the row minus the baseline.
    baseline : ndarray of shape (n_outputs,)
        Predictions, or scores, of the row that the contributions start from.
    """

    names: list[str]
    contributions: Floats
    baseline: Floats


def column_importance(model: Any, X: Any, *, groups: Sequence[str] | None = None) -> ColumnImportance:
    r"""Compute the importance of the columns of a model: the mean squared gradient times the variance.

    The importance of a column is

    .. math:: I = \frac{1}{n} \sum_i \sum_k \left(\frac{\partial f_k}{\partial x}(x_i)\right)^2 \mathrm{Var}(x)

    where :math:`f_k` are the predictions, or the scores of the classes. A column of a table that is encoded as several
    (categories, cycles of dates, an indicator of missing cells) has

    .. math:: I = \frac{1}{n} \sum_i \sum_k g_k(x_i)^T C \, g_k(x_i)

    with the gradients :math:`g_k` with respect to its encoded columns and their covariance matrix C. Both are the mean
    squared change of the linearized prediction between two rows that differ in this column only, divided by 2. For a
    linear effect :math:`b x` it is :math:`b^2 \mathrm{Var}(x)`.

    Parameters
    ----------
    model : TableModel, linear model or Pipeline
        A fitted model of bochner, or a pipeline that ends in one; then its importance is that of the columns that the
        last step gets.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), path or data frame
        Rows to average over: for a model of a table, a file, a data frame or encoded rows. Files are read in chunks.
    groups : sequence of str, default=None
        Name of the column that each column of the rows belongs to. None means the columns of the table, if the model
        was fitted on one, and else a group per column.

    Returns
    -------
    ColumnImportance
        The importance of each column.

    See Also
    --------
    column_contributions : What each column contributes to single predictions.
    ImportanceDisplay : Plot of the importance.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FeatureRegressor, column_importance
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> model = FeatureRegressor(random_state=0).fit(X, 2 * X[:, 0] + np.sin(X[:, 1]))  # the third column is noise
    >>> importance = column_importance(model, X)
    >>> importance.ranking
    ['column 0', 'column 1', 'column 2']
    >>> print(f"{importance.effects[0]:.1f}")
    2.0
    """
    estimator, X, names = _estimator_and_names(model, X, groups)
    columns, members = _grouped(estimator, names)
    moments, on_rows = _Moments(members), estimator.without_encoding()
    for rows in _blocks(estimator, X):
        moments.add(rows, on_rows.gradients(rows))
    if not moments.n_rows:
        raise ValueError("`X` has no rows to average gradients over; give some.")
    return ColumnImportance(columns, moments.importance(), moments.n_rows)


def column_contributions(
    model: Any, X: Any, *, baseline: ArrayLike | None = None, groups: Sequence[str] | None = None
) -> ColumnContributions:
    r"""Divide the predictions of rows among the columns, by gradients averaged along the way from a baseline.

    The contribution of a column to the prediction :math:`f(x)` is

    .. math:: (x_j - s_j) \int_0^1 \frac{\partial f}{\partial x_j}(s + t (x - s)) \, dt

    where s is the baseline row; the contributions of the encoded columns of a column of a table are added (integrated
    gradients; Sundararajan, Taly and Yan, 2017). They add up to :math:`f(x) - f(s)`: exactly for Fourier features,
    whose integral has a closed form, and up to quadrature errors for others.

    Parameters
    ----------
    model : TableModel, linear model or Pipeline
        A fitted model of bochner, or a pipeline that ends in one.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), path or data frame
        Rows: for a model of a table, a file, a data frame or encoded rows.
    baseline : array-like of shape (n_features,), default=None
        The row that the contributions start from. None means the mean of the training rows for a `TableModel`, and of
        `X` for other models.
    groups : sequence of str, default=None
        Name of the column that each column of the rows belongs to, as in `column_importance`.

    Returns
    -------
    ColumnContributions
        The contributions of each column to each row.

    See Also
    --------
    column_importance : How strongly predictions depend on each column.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FeatureRegressor, column_contributions
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> model = FeatureRegressor(random_state=0).fit(X, 2 * X[:, 0] - X[:, 1])
    >>> parts = column_contributions(model, [[1.0, 1.0]], baseline=[0.0, 0.0])
    >>> parts.contributions[0, :, 0].round(1)
    array([ 2., -1.])
    """
    fitted = getattr(model, "model_", None)
    center = None if fitted is None else fitted.baseline
    estimator, X, names = _estimator_and_names(model, X, groups)
    rows = np.concatenate([to_dense(block) for block in _blocks(estimator, X)])
    start = rows.mean(axis=0, dtype=np.float64) if center is None else np.asarray(center, dtype=np.float64)
    start = start if baseline is None else np.asarray(baseline, dtype=np.float64)
    columns, members = _grouped(estimator, names)
    estimator = estimator.without_encoding()
    parts = np.zeros((len(rows), len(columns), estimator.gradients(rows[:1]).shape[2]))
    for span in row_spans(len(rows), _block_rows(estimator, rows.shape[1])):
        steps = rows[span].astype(np.float64) - start
        shares = estimator.mean_gradients(rows[span], start) * steps[:, :, None]
        parts[span] = np.stack([shares[:, group].sum(axis=1) for group in members], axis=1)
    return ColumnContributions(columns, parts, _scores(estimator, start[None].astype(rows.dtype))[0])


class _Moments:
    """Second moments of gradients and covariances of rows, within groups of columns."""

    def __init__(self, groups: list[Indices]) -> None:
        self.n_rows = 0
        self._groups = groups
        self._origin: Floats | None = None
        self._sums: Any = 0.0
        self._squares: list[Any] = [0.0] * len(groups)
        self._products: list[Any] = [0.0] * len(groups)

    @serial_blas  # no bit depends on the number of threads
    def add(self, rows: Array, gradients: Floats) -> None:
        rows = to_dense(rows).astype(np.float64)
        if self._origin is None:
            self._origin = rows.mean(axis=0)  # squares of columns that are far from 0 keep their digits
        rows -= self._origin
        self.n_rows += len(rows)
        self._sums = self._sums + rows.sum(axis=0)
        for number, group in enumerate(self._groups):
            values, slopes = rows[:, group], np.moveaxis(gradients[:, group], 1, 2).reshape(-1, len(group))
            self._squares[number] = self._squares[number] + values.T @ values
            self._products[number] = self._products[number] + slopes.T @ slopes

    def importance(self) -> Floats:
        means = self._sums / self.n_rows
        covariances = (
            square / self.n_rows - np.outer(means[group], means[group])
            for square, group in zip(self._squares, self._groups, strict=True)
        )
        parts = zip(self._products, covariances, strict=True)
        values = [float((product * covariance).sum()) / self.n_rows for product, covariance in parts]
        return np.maximum(values, 0.0)  # rounding errors of constant columns


def _estimator_and_names(model: Any, X: Any, groups: Sequence[str] | None) -> tuple[Any, Any, list[str]]:
    """Return the linear model, its rows, and the name of the column that each column of the rows belongs to."""
    check_is_fitted(model)
    names: Any = None
    if isinstance(model, Pipeline):
        before, model = model[:-1], model.steps[-1][1]
        X = before.transform(X) if len(before.steps) else X
        names = names_out(before)
    estimator = getattr(model, "estimator_", model)
    if not hasattr(estimator, "mean_gradients"):
        raise ValueError(
            f"`model` has no gradients, but is a {type(model).__name__}; give a fitted TableModel or linear model of "
            f"bochner, or a pipeline that ends in one."
        )
    if hasattr(estimator, "encoding_"):
        names = estimator.encoding_.origins
    n_columns = estimator.n_features_in_ if not hasattr(estimator, "encoding_") else len(names)
    if names is None:
        names = getattr(estimator, "feature_names_in_", [f"column {j}" for j in range(n_columns)])
    names = [str(name) for name in (names if groups is None else groups)]
    if len(names) != n_columns:
        raise ValueError(
            f"`groups` has {len(names)} names and the rows have {n_columns} columns; give one name per column."
        )
    return estimator, X, names


def _grouped(estimator: Any, names: list[str]) -> tuple[list[str], list[Indices]]:
    """Return the distinct names, in the order of the table if there is one, and the positions of each."""
    columns = [column.name for column in estimator.encoding_.columns] if hasattr(estimator, "encoding_") else []
    positions: dict[str, list[int]] = {name: [] for name in (columns if set(columns) == set(names) else names)}
    for number, name in enumerate(names):
        positions[name].append(number)
    return list(positions), [np.array(group) for group in positions.values()]


def names_out(transformers: Pipeline) -> Any:
    """Return the names of the columns that transformers give, or None if one of them has no names."""
    try:
        return transformers.get_feature_names_out() if len(transformers.steps) else None
    except (AttributeError, ValueError):
        return None


def _blocks(estimator: Any, X: Any) -> Iterator[Array]:
    """Yield encoded rows; those of a file or data frame chunk by chunk."""
    if hasattr(estimator, "encoding_") and not is_sparse(X) and not isinstance(X, np.ndarray | list):
        chunks: Any = (rows for _, rows in estimator.encoding_.open(X).batches())
    else:
        chunks = [X if is_sparse(X) else np.asarray(X)]
    for rows in chunks:
        size = _block_rows(estimator, rows.shape[1])
        yield from (rows[span] for span in row_spans(rows.shape[0], size))


def _block_rows(estimator: Any, n_columns: int) -> int:
    n_outputs = max(1, len(np.atleast_1d(estimator.intercept_)))
    return max(16, BLOCK_VALUES // (n_columns * n_outputs))


def _scores(estimator: Any, rows: Array) -> Floats:
    """Return predictions of a regression or scores of classes, one column per output."""
    scores = estimator.decision_function(rows) if hasattr(estimator, "classes_") else estimator.predict(rows)
    return np.asarray(scores, dtype=np.float64).reshape(len(rows), -1)
