# SPDX-License-Identifier: BSD-3-Clause
"""Importance of the columns of a model, from gradients.

Gradients see every effect of a column, linear ones too. Length scales do not: a linear effect needs only a long one.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bochner.rows import Floats, is_sparse, row_spans, to_dense

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
    def ranking(self) -> list[str]:
        """Names of the columns, the most important one first."""
        return [self.names[position] for position in np.argsort(-self.importance, kind="stable")]


def column_importance(model: Any, X: Any, *, groups: Sequence[str] | None = None) -> ColumnImportance:
    r"""Compute the importance of the columns of a model: the mean squared gradient times the variance.

    The importance of a column is

    .. math:: I = \frac{1}{n} \sum_i \sum_k \left(\frac{\partial f_k}{\partial x}(x_i)\right)^2 \mathrm{Var}(x)

    where :math:`f_k` are the predictions, or the scores of the classes. A group of columns, such as those that
    one column of a table is encoded as, has

    .. math:: I = \frac{1}{n} \sum_i \sum_k g_k(x_i)^T C \, g_k(x_i)

    with the gradients :math:`g_k` with respect to its columns and their covariance matrix C. Both are the mean squared
    change of the linearized prediction between two rows that differ in these columns only, divided by 2. For a linear
    effect :math:`b x` it is :math:`b^2 \mathrm{Var}(x)`.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted model with `gradients`, or a pipeline that ends in one; then its importance is that of the columns that
        the last step gets.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to average over.
    groups : sequence of str, default=None
        Name of the group that each column of the rows belongs to; None means one group per column.

    Returns
    -------
    ColumnImportance
        The importance of each column.

    See Also
    --------
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
    check_is_fitted(model)
    before, estimator = last_step(model)
    if not hasattr(estimator, "gradients"):
        raise ValueError(
            f"`model` has no gradients, but is a {type(estimator).__name__}; give a fitted regressor or classifier of "
            f"bochner, or a pipeline that ends in one."
        )
    rows: Any = X if before is None else before.transform(X)
    rows = rows if is_sparse(rows) else np.asarray(rows)
    columns: dict[str, list[int]] = {}
    for number, name in enumerate(column_names(before, estimator, rows.shape[1], groups, "groups")):
        columns.setdefault(name, []).append(number)
    n_rows, members = rows.shape[0], list(columns.values())
    if not n_rows:
        raise ValueError("`X` has no rows to average gradients over; give some.")
    by_column = rows.tocsc() if is_sparse(rows) else rows
    covariances = [np.atleast_2d(np.cov(to_dense(by_column[:, group]).T, ddof=0)) for group in members]
    importance = np.zeros(len(members))
    n_outputs = estimator.gradients(rows[:1]).shape[2]
    for span in row_spans(n_rows, max(16, BLOCK_VALUES // (rows.shape[1] * n_outputs))):
        gradients = estimator.gradients(rows[span])
        for number, (group, covariance) in enumerate(zip(members, covariances, strict=True)):
            slopes = np.moveaxis(gradients[:, group], 1, 2).reshape(-1, len(group))
            importance[number] += np.sum((slopes @ covariance) * slopes) / n_rows
    return ColumnImportance(list(columns), np.maximum(importance, 0.0), n_rows)  # no negative rounding errors


def last_step(model: Any) -> tuple[Pipeline | None, Any]:
    """Return the steps of a pipeline before the last one, None if there are none, and the last one."""
    if not isinstance(model, Pipeline):
        return None, model
    return (model[:-1] if len(model.steps) > 1 else None), model.steps[-1][1]


def column_names(before: Any, estimator: Any, n_columns: int, given: Sequence[str] | None, parameter: str) -> list[str]:
    """Return the given names of columns, or those of the steps before an estimator, those of its fit, or numbers."""
    names = given
    if names is None and before is not None:
        with suppress(AttributeError, ValueError):  # a step without names
            names = before.get_feature_names_out()
    if names is None:
        names = getattr(estimator, "feature_names_in_", [f"column {j}" for j in range(n_columns)])
    if len(names) != n_columns:
        raise ValueError(
            f"`{parameter}` has {len(names)} names and the rows have {n_columns} columns; give one name per column."
        )
    return [str(name) for name in names]
