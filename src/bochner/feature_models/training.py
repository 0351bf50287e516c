# SPDX-License-Identifier: BSD-3-Clause
"""Training sets, which are rows with targets, weights and folds wherever the rows are, and what is chosen on them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bochner.feature_models.folds import FoldAssignment
from bochner.rows import Array, Batch, Floats, RowSource, Statistic, row_spans

__all__ = ["Choice", "TrainingSet", "weights_of_folds"]


@dataclass(frozen=True)
class Choice:
    """The chosen features and penalty, and the solution on all rows.

    Attributes
    ----------
    features : transformer
        The chosen features.
    position : int
        The position of the chosen penalty among the candidates.
    alpha : float
        The chosen penalty, relative to the sum of the weights.
    weight : float
        The sum of the weights.
    coef : ndarray of shape (n_columns, n_outputs)
        Coefficients.
    intercept : ndarray of shape (n_outputs,)
        Intercepts.
    errors : ndarray of shape (n_penalties, n_folds)
        Mean errors of the chosen features on the folds; NaN for penalties that were not tried.
    scores : ndarray of shape (n_candidates,)
        The best mean score of each candidate.
    posterior : Posterior or None
        The posterior covariance of the coefficients of a ridge regression.
    penalty : float
        The chosen one of the user's candidates: alpha, or C.
    """

    features: Any
    position: int
    alpha: float
    weight: float
    coef: Floats
    intercept: Floats
    errors: Floats
    scores: Floats
    posterior: Any = None
    penalty: float = float("nan")


@dataclass(frozen=True)
class TrainingSet:
    """Rows to train on.

    Parameters
    ----------
    rows : RowSource
        The rows, with checked targets or class labels.
    assignment : FoldAssignment
        Their folds.
    starts : mapping of int to object, default=None
        What the assignment needs for each partition; None means the index of its first row.
    weigh : callable, default=None
        Returns factors of the sample weights for some targets, such as the weights of classes.
    """

    rows: RowSource
    assignment: FoldAssignment
    starts: Mapping[int, Any] | None = None
    weigh: Callable[[Array], Floats] | None = None

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return self.assignment.n_folds

    def first_targets(self, n_rows: int) -> Array:
        """Return the targets of the first rows of positive weight."""
        for rows in row_spans(self.rows.shape[0], n_rows):
            y: Array = self.rows.select(rows, with_rows=False).drop_zero_weights().y
            if len(y):
                return y
        raise ValueError("No row has a positive `sample_weight`; give some rows a weight.")

    def fold_weights(self) -> Floats:
        """Return the total weight of the rows of each fold, and last of those that are always trained on."""
        return self.accumulate(partial(weights_of_folds, self.n_folds), with_rows=False)

    def accumulate(
        self, statistic: Callable[[Batch], Statistic], description: str = "", with_rows: bool = True
    ) -> Statistic:
        """Add up a statistic, which can be pickled, of batches of rows of positive weight, with their folds."""
        of_batch = partial(_statistic_with_folds, statistic, self.assignment, self.weigh)
        total: Statistic | None = self.rows.accumulate(of_batch, self.starts, description, with_rows)
        if total is None:
            raise ValueError("No row has a positive `sample_weight`; give some rows a weight.")
        return total


def _statistic_with_folds(
    statistic: Callable[[Batch], Statistic],
    assignment: FoldAssignment,
    weigh: Callable[[Array], Floats] | None,
    start: Any,
    batch: Batch,
) -> Statistic | None:
    batch = batch._replace(fold_of=assignment.fold_of(start, batch.y))
    if weigh is not None:
        batch = batch._replace(sample_weight=batch.row_weights * weigh(batch.y))
    batch = batch.drop_zero_weights()
    return statistic(batch) if len(batch.y) else None


def weights_of_folds(n_folds: int, batch: Batch) -> Floats:
    """Return the weight of the rows of each fold, and last of those that are always trained on."""
    assert batch.fold_of is not None
    totals = np.bincount(batch.fold_of % (n_folds + 1), batch.row_weights, n_folds + 1)  # -1 is equivalent to n_folds
    return totals.astype(np.float64)
