# SPDX-License-Identifier: BSD-3-Clause
"""Training sets give every batch its folds and leave out rows of weight zero, wherever the rows are."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

import bochner.rows.sources
from bochner.feature_models.folds import GivenFolds, RoundRobin, TrainingSet, assign_folds, count_classes
from bochner.rows import MemoryRows
from bochner.rows.partitions import PartitionedRows
from tests.rows.array_partitions import ArrayPartitions

N_ROWS = 50
CHUNKS = (7, 0, 13, 30)


@pytest.fixture(params=["memory", "memory in batches", "partitions"])
def make_source(request, monkeypatch):
    """Return a function that makes a source of rows whose only column is their number."""
    if request.param == "memory in batches":
        monkeypatch.setattr(bochner.rows.sources, "MAX_BATCH_ROWS", 8)

    def make(y, weights):
        X = np.arange(float(N_ROWS))[:, None]
        if request.param != "partitions":
            return MemoryRows(X, y, weights)
        columns = {"X": X, "y": y} | ({} if weights is None else {"sample_weight": weights})
        return PartitionedRows(ArrayPartitions(CHUNKS, **columns), X.dtype, has_targets=True)

    return make


def list_rows(batch):
    numbers = np.full(len(batch.y), -1) if batch.X is None else batch.X[:, 0].astype(int)
    columns = (numbers, batch.y, batch.fold_of, batch.row_weights)
    return [*zip(*(column.tolist() for column in columns), strict=True)]


@pytest.mark.parametrize("weighted", [False, True])
def test_batches_have_the_folds_of_their_rows(make_source, weighted, rng):
    y = rng.normal(size=N_ROWS)
    weights = rng.integers(0, 3, size=N_ROWS).astype(float) if weighted else None
    source = make_source(y, weights)
    training = TrainingSet(source, *assign_folds(4, source))
    assert training.n_folds == 4
    folds = np.zeros(N_ROWS, dtype=int)
    for fold, (_, test) in enumerate(KFold(4).split(y)):
        folds[test] = fold
    counts = np.ones(N_ROWS) if weights is None else weights
    expected = [(i, y[i], folds[i], counts[i]) for i in range(N_ROWS) if counts[i] > 0]
    assert training.accumulate(list_rows) == expected
    without_rows = training.accumulate(list_rows, with_rows=False)
    assert [row[1:] for row in without_rows] == [row[1:] for row in expected]


@pytest.mark.parametrize("zero_weights", [False, True])
def test_rows_of_weight_zero_count_in_stratified_folds(make_source, zero_weights, rng):
    """So that folds do not depend on sample weights."""
    y = rng.permutation(np.repeat(["b", "a"], [30, 20]))
    weights = np.where(np.arange(N_ROWS) % 3 == 0, 0.0, 1.0) if zero_weights else np.ones(N_ROWS)
    source = make_source(y, weights)
    training = TrainingSet(source, *assign_folds(5, source, source.accumulate(count_classes)))
    folds = np.zeros(N_ROWS, dtype=int)
    for fold, (_, test) in enumerate(StratifiedKFold(5).split(y, y)):
        folds[test] = fold
    expected = [(i, folds[i]) for i in range(N_ROWS) if weights[i] > 0]
    assert [(row, fold) for row, _, fold, _ in training.accumulate(list_rows)] == expected


def test_first_targets_skip_rows_of_weight_zero(make_source):
    y, weights = np.arange(100.0, 100.0 + N_ROWS), np.ones(N_ROWS)
    assert TrainingSet(make_source(y, None), RoundRobin(0)).first_targets(3).tolist() == [100.0, 101.0, 102.0]
    weights[:4] = 0.0
    assert TrainingSet(make_source(y, weights), RoundRobin(0)).first_targets(3).tolist() == [104.0, 105.0]


def test_training_needs_a_row_of_positive_weight(make_source):
    training = TrainingSet(make_source(np.zeros(N_ROWS), np.zeros(N_ROWS)), RoundRobin(2))
    with pytest.raises(ValueError, match="No row has a positive `sample_weight`; give some rows a weight"):
        training.accumulate(list_rows)
    with pytest.raises(ValueError, match="No row has a positive `sample_weight`; give some rows a weight"):
        training.first_targets(3)


def test_given_folds_are_read_batch_by_batch(monkeypatch, rng):
    monkeypatch.setattr(bochner.rows.sources, "MAX_BATCH_ROWS", 8)
    folds = rng.integers(-1, 3, size=N_ROWS)
    source = MemoryRows(np.arange(float(N_ROWS))[:, None], np.zeros(N_ROWS))
    found = TrainingSet(source, GivenFolds(folds, 3)).accumulate(list_rows)
    assert [fold for _, _, fold, _ in found] == folds.tolist()
