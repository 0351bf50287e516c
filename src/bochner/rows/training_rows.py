# SPDX-License-Identifier: BSD-3-Clause
"""The rows that features are fitted on, as samplers, weightings and landmark selections read them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bochner.rows.arrays import Floats, Indices
from bochner.rows.sampling import distinct_rows, sample_batch
from bochner.rows.scalings import Scaling, Unscaled
from bochner.rows.sources import RowSource
from bochner.validation import check_weight_range

__all__ = ["TrainingRows", "collect_rows"]

FEW_ROWS = 2000  # as many as the weightings sample by default
SMALLEST_SHARE = 1e-30  # of the largest sample weight
MOST_ROWS, MOST_BYTES = 1 << 20, 1 << 29  # beyond, the features are fitted on a sample


@dataclass(frozen=True)
class TrainingRows:
    """Rows in memory with weights; indexing returns them as a scaling maps them.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        The rows.
    weights : ndarray of shape (n_samples,), default=None
        Sample weights; None means 1 for every row.
    scaling : Scaling, default=Unscaled()
        The map of the rows.
    distinct : bool, default=False
        Whether the rows are known to be distinct and in the order of `distinct_rows`.
    targets : ndarray of shape (n_samples, n_targets), default=None
        Targets, for learners and for weightings that need them.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows import LengthScales, TrainingRows
    >>> TrainingRows(np.array([[1.0], [2.0]])).scaled(LengthScales(2.0))[1:]
    array([[1.]])
    """

    X: Any
    weights: Floats | None = None
    scaling: Scaling = Unscaled()  # noqa: RUF009
    distinct: bool = False
    targets: Floats | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns after the map; rows of any kind count as one column."""
        n_features = self.X.shape[1] if self.X.ndim == 2 else 1
        return self.X.shape[0], self.scaling.n_dimensions(n_features)

    def __getitem__(self, rows: slice | Indices) -> Any:
        return self.scaling.apply(self.X[rows])

    def scaled(self, scaling: Scaling) -> "TrainingRows":
        """Return the rows with another map."""
        return replace(self, scaling=scaling, distinct=self.distinct and scaling.is_uniform)

    def merged(self) -> "TrainingRows":
        """Return up to 2,000 rows with equal ones merged, so that no draw depends on copies or weights; targets go."""
        if self.X.ndim != 2 or self.X.dtype.kind not in "biuf":  # other rows cannot be compared
            return replace(self, distinct=True, targets=None)
        if self.X.shape[0] > FEW_ROWS:  # equal rows are merged in samples
            return replace(self, targets=None)
        return TrainingRows(*distinct_rows(self.X, self.weights), distinct=True)


def collect_rows(source: RowSource, rng: np.random.Generator) -> tuple[TrainingRows, Any]:
    """Return the rows with a positive weight, a sample of them if there are many, and their targets.

    Parameters
    ----------
    source : RowSource
        Validated rows.
    rng : numpy.random.Generator
        Random numbers that select the sample, which is the same for rows in memory, in files and in few partitions.
    """
    n_rows, n_features = source.shape
    is_sampled = n_rows > MOST_ROWS or n_rows * n_features * source.dtype.itemsize > MOST_BYTES
    batch = sample_batch(source, rng) if is_sampled else source.select(slice(None))
    X, y, weights = batch.drop_zero_weights()[:3]
    if weights is None:
        return TrainingRows(X), y
    if not len(weights):
        raise ValueError(
            "All sampled rows have a `sample_weight` of zero; leave out the rows without weight."
            if is_sampled
            else "No row has a positive `sample_weight`; give some rows a weight."
        )
    check_weight_range(weights)
    # Smaller shares change no digit of a sum, but squares of sums over such rows alone would underflow.
    return TrainingRows(X, np.maximum(weights, SMALLEST_SHARE * weights.max())), y
