# SPDX-License-Identifier: BSD-3-Clause
"""Training sets of linear models: rows with targets, weights and folds, wherever the rows are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bochner.feature_models.folds import FoldAssignment
from bochner.rows import Array, Batch, Floats, RowSource, Statistic, row_spans

__all__ = ["TrainingSet"]


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
        What the assignment needs for each partition; None means the number of its first row.
    weigh : callable, default=None
        Returns a batch with other weights, such as `labels.ClassWeights`; None keeps the sample weights.
    """

    rows: RowSource
    assignment: FoldAssignment
    starts: Mapping[int, Any] | None = None
    weigh: Callable[[Batch], Batch] | None = None

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

    def sample_targets(self, n_rows: int) -> Batch:
        """Return targets, weights and folds of all rows in memory, else of up to about `n_rows` rows from everywhere.

        The folds of rows elsewhere are -1.
        """
        if self.rows.location == "memory":
            batch = self.rows.select(slice(None), with_rows=False)
            return batch._replace(folds=self.assignment.folds(0, batch.y)).drop_zero_weights()
        batch = self.rows.select(self.rows.draw_rows(n_rows, np.random.default_rng(0)), with_rows=False)
        return batch._replace(folds=np.full(len(batch.y), -1)).drop_zero_weights()

    def total_weight(self, class_weights: Floats | None, encode: Callable[[Array], Array]) -> float:
        """Return the sum of the sample weights, times the weights of classes."""
        return float(self.accumulate(partial(_weight_of, class_weights, encode), with_rows=False))

    def accumulate(
        self, part: Callable[[Batch], Statistic], description: str = "", with_rows: bool = True
    ) -> Statistic:
        """Add up the statistics that `part` computes of batches of rows of positive weight, with their folds.

        `part` can be pickled.
        """
        of_batch = partial(_part_with_folds, part, self.assignment, self.weigh)
        total: Statistic | None = self.rows.accumulate(of_batch, self.starts, description, with_rows)
        if total is None:
            raise ValueError("No row has a positive `sample_weight`; give some rows a weight.")
        return total


def _part_with_folds(
    part: Callable[[Batch], Statistic],
    assignment: FoldAssignment,
    weigh: Callable[[Batch], Batch] | None,
    start: Any,
    batch: Batch,
) -> Statistic | None:
    batch = batch._replace(folds=assignment.folds(start, batch.y))
    batch = (batch if weigh is None else weigh(batch)).drop_zero_weights()
    return part(batch) if len(batch.y) else None


def _weight_of(class_weights: Floats | None, encode: Callable[[Array], Array], batch: Batch) -> Any:
    return np.sum(batch.counts if class_weights is None else batch.counts * class_weights[encode(batch.y)])
