# SPDX-License-Identifier: BSD-3-Clause
"""Passes over the features of a training set, for classifiers that read their rows several times."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from bochner.feature_maps import FeatureMap, map_rows
from bochner.feature_models.candidates import feature_map_of
from bochner.feature_models.training_sets import TrainingSet
from bochner.rows import Array, Batch, Floats, Indices, RowSource, Statistic, row_spans

__all__ = ["HELD_BYTES", "Accumulate", "FeatureBatch", "FeaturePasses", "are_held", "fold_weights"]

HELD_BYTES = 1 << 32  # features of all rows are held up to this size
BATCH_ROWS = 32_768


class FeatureBatch(NamedTuple):
    """The features of some rows.

    Attributes
    ----------
    features : ndarray of shape (n_rows, width)
        Features.
    targets : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Positions of classes, or targets of a regression.
    weights : ndarray of shape (n_rows,)
        Weights in the loss.
    counts : ndarray of shape (n_rows,)
        Weights in the errors on held-out rows.
    folds : ndarray of shape (n_rows,)
        Folds.
    """

    features: Array
    targets: Array
    weights: Floats
    counts: Floats
    folds: Indices

    def select(self, rows: Indices) -> "FeatureBatch":
        """Return some of the rows."""
        features, targets, weights, counts, folds = self
        return FeatureBatch(features[rows], targets[rows], weights[rows], counts[rows], folds[rows])


def are_held(rows: RowSource, width: int, item_bytes: int) -> bool:
    """Return whether the features of rows are held: those of rows in memory, if they are not large."""
    return rows.location == "memory" and rows.shape[0] * width * item_bytes <= HELD_BYTES


# A pass over all rows: adds up the statistics that a function computes of batches.
Accumulate = Callable[[Callable[[FeatureBatch], Any]], Any]


@dataclass(frozen=True)
class FeaturePasses:
    """Passes over the features of a training set, which are held if the rows are in memory and the features not large.

    Parameters
    ----------
    training : TrainingSet
        The rows.
    feature_map : FeatureMap
        The map to features.
    encode : callable
        Returns what a loss compares with scores: positions of classes, or columns of targets.
    class_weights : ndarray of shape (n_classes,) or None
        Weights of the classes, which multiply the sample weights.
    unit : float
        What sample weights are divided by, so that float32 holds them.
    held : FeatureBatch or None
        The features of all rows.
    """

    training: TrainingSet
    feature_map: FeatureMap
    encode: Callable[[Array], Array]
    class_weights: Floats | None
    unit: float
    held: FeatureBatch | None = None

    @classmethod
    def of(
        cls,
        training: TrainingSet,
        encode: Callable[[Array], Array],
        class_weights: Floats | None,
        unit: float,
        features: Any,
    ) -> "FeaturePasses":
        feature_map = feature_map_of(features, row=training.rows.select(slice(0, 1)).X)
        passes = cls(training, feature_map, encode, class_weights, unit)
        if not are_held(training.rows, feature_map.n_columns, feature_map.dtype.itemsize):
            return passes
        rows = training.rows.select(slice(None))
        rows = rows._replace(folds=training.assignment.folds(0, rows.y)).drop_zero_weights()
        return replace(passes, held=_feature_batch(feature_map, encode, class_weights, unit, rows))

    def accumulate(self, part: Callable[[FeatureBatch], Statistic]) -> Statistic:
        """Add up the statistics that `part` computes of batches of features."""
        if self.held is not None:
            return part(self.held)
        # The part is sent to the workers of a cluster, so it holds the map, but not the rows.
        prepare = partial(_feature_batch, self.feature_map, self.encode, self.class_weights, self.unit)
        return self.training.accumulate(partial(_part_of_features, prepare, part))

    def sample(self, n_rows: int) -> FeatureBatch:
        """Return the features of up to about `n_rows` random rows; they have no folds."""
        rows = self.training.rows
        batch = rows.select(rows.draw_rows(n_rows, np.random.default_rng(0))).drop_zero_weights()
        batch = batch._replace(folds=np.full(len(batch.y), -1))
        return _feature_batch(self.feature_map, self.encode, self.class_weights, self.unit, batch)


def _part_of_features(
    prepare: Callable[[Batch], FeatureBatch], part: Callable[[FeatureBatch], Statistic], rows: Batch
) -> Statistic:
    spans = row_spans(rows.X.shape[0], BATCH_ROWS)
    return reduce(operator.add, (part(prepare(rows.select(span))) for span in spans))


def _feature_batch(
    feature_map: FeatureMap, encode: Callable[[Array], Array], class_weights: Floats | None, unit: float, rows: Batch
) -> FeatureBatch:
    targets, weights = encode(rows.y), rows.counts / unit
    feature_map.check(rows.X)
    assert rows.folds is not None
    in_loss = weights if class_weights is None else weights * class_weights[targets]
    return FeatureBatch(map_rows(feature_map, rows.X), targets, in_loss, weights, rows.folds)


def fold_weights(n_folds: int, rows: Batch) -> Floats:
    """Return the total weight of the rows of each fold, and last of those that are always trained on."""
    assert rows.folds is not None
    totals = np.bincount(rows.folds % (n_folds + 1), rows.counts, n_folds + 1)  # -1 and n_folds are equivalent
    return totals.astype(np.float64)
