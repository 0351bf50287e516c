# SPDX-License-Identifier: BSD-3-Clause
"""Folds of rows in memory and in partitions are those that scikit-learn assigns to all rows at once."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, PredefinedSplit, ShuffleSplit, StratifiedKFold

import bochner.rows.sources
from bochner import FeatureClassifier, FeatureRegressor
from bochner.feature_models.folds import (
    ClassCounts,
    GivenFolds,
    KFolds,
    RoundRobin,
    StratifiedFolds,
    TrainingSet,
    assign_folds,
    check_fold_weights,
    count_classes,
    count_folds,
)
from bochner.rows import MemoryRows
from bochner.rows.partitions import PartitionedRows
from tests.rows.array_partitions import ArrayPartitions


def scikit_learn_folds(splitter, y):
    """Return the fold that tests each row; -1 for rows that are never tested."""
    folds = np.full(len(y), -1)
    for fold, (_, test) in enumerate(splitter.split(y[:, None], y)):
        folds[test] = fold
    return folds


def random_partitions(rng, n_rows):
    """Return the numbers of all rows, in a random number of consecutive partitions."""
    bounds = np.sort(rng.integers(0, n_rows + 1, size=rng.integers(0, 8)))
    return [rows for rows in np.split(np.arange(n_rows), bounds) if len(rows)]


class TestGivenFolds:
    @pytest.mark.parametrize(
        "cv", [KFold(3, shuffle=True, random_state=1), LeaveOneOut(), PredefinedSplit(np.arange(30) % 4 - 1)]
    )
    def test_splitters_and_lists_of_splits(self, rng, cv):
        X, y = rng.normal(size=(30, 2)), np.arange(30) % 3
        expected = scikit_learn_folds(cv, y)
        for given in (cv, list(cv.split(X, y))):
            folds = GivenFolds.split(given, X, y, classifier=False)
            assert folds.n_folds == expected.max() + 1
            np.testing.assert_array_equal(folds.fold_of(0, y), expected)
            np.testing.assert_array_equal(folds.fold_of(7, y[7:12]), expected[7:12])

    @pytest.mark.parametrize(("classifier", "splitter"), [(True, StratifiedKFold(3)), (False, KFold(3))])
    def test_numbers_are_stratified_for_classifiers_only(self, classifier, splitter):
        y = np.repeat([0, 1, 2], [9, 12, 6])
        folds = GivenFolds.split(3, np.zeros((27, 1)), y, classifier=classifier)
        np.testing.assert_array_equal(folds.fold_of(0, y), scikit_learn_folds(splitter, y))

    def test_none_makes_no_folds(self):
        folds = GivenFolds.split(None, np.zeros((4, 1)), np.arange(4), classifier=False)
        assert folds.n_folds == 0
        assert folds.fold_of(0, np.arange(4)).tolist() == [-1] * 4

    @pytest.mark.parametrize(
        "cv",
        [
            ShuffleSplit(3, random_state=0),
            [(np.arange(10), np.arange(5))],
            [(np.arange(4), np.arange(5, 10))],
            [(np.arange(5, 10), np.arange(5))] * 2,
        ],
        ids=["shuffle", "trained and tested", "neither", "tested twice"],
    )
    def test_rows_are_tested_at_most_once_and_trained_on_otherwise(self, cv):
        with pytest.raises(ValueError, match="`cv` must test every row at most once and train on all others"):
            GivenFolds.split(cv, np.zeros((10, 1)), np.arange(10), classifier=False)

    @pytest.mark.parametrize("cv", [[], PredefinedSplit(np.full(10, -1))])
    def test_splitters_without_splits_are_refused(self, cv):
        with pytest.raises(ValueError, match="`cv` has no splits; give a number of folds, or None"):
            GivenFolds.split(cv, np.zeros((10, 1)), np.arange(10), classifier=False)


@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize("seed", range(20))
def test_stratified_folds_of_partitions_equal_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    n_rows, n_folds = int(rng.integers(40, 200)), int(rng.integers(2, 7))
    y = rng.choice(["c", "a", "b", "zz"], n_rows, p=[0.5, 0.3, 0.15, 0.05])
    partitions = random_partitions(rng, n_rows)
    assignment, starts = StratifiedFolds.from_counts(
        n_folds, [ClassCounts.from_labels(y[rows], None) for rows in partitions]
    )
    found = [assignment.fold_of(start, y[rows]) for start, rows in zip(starts, partitions, strict=True)]
    np.testing.assert_array_equal(np.concatenate(found), scikit_learn_folds(StratifiedKFold(n_folds), y))


@pytest.mark.parametrize("seed", range(10))
def test_consecutive_folds_of_partitions_equal_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    n_rows, n_folds = int(rng.integers(10, 100)), int(rng.integers(2, 7))
    y = np.zeros(n_rows)
    found = [KFolds(n_folds, n_rows).fold_of(rows[0], y[rows]) for rows in random_partitions(rng, n_rows)]
    np.testing.assert_array_equal(np.concatenate(found), scikit_learn_folds(KFold(n_folds), y))


def test_round_robin_continues_from_the_first_row_of_a_batch():
    assert RoundRobin(3).fold_of(4, np.zeros(4)).tolist() == [1, 2, 0, 1]
    assert RoundRobin(0).fold_of(4, np.zeros(2)).tolist() == [-1, -1]


class TestAssignment:
    """`assign_folds` for rows in memory and for the same rows in partitions, one of which is empty."""

    CHUNKS = (7, 0, 13, 10)

    def sources(self, y):
        X = np.zeros((30, 1))
        partitions = ArrayPartitions(self.CHUNKS, X=X, y=y)
        return MemoryRows(X, y), PartitionedRows(partitions, X.dtype, has_targets=True)

    def assigned(self, assignment, starts, source, y):
        """Return the folds of all rows, assigned partition by partition as by `TrainingSet.accumulate`."""
        starts = source.partitions.first_rows if starts is None else starts
        blocks = np.split(y, np.cumsum(self.CHUNKS)[:-1])
        return np.concatenate(
            [assignment.fold_of(starts[number], blocks[number]) for number in source.partition_numbers]
        )

    def test_regression_has_consecutive_folds(self):
        y = np.arange(30.0)
        memory, partitioned = self.sources(y)
        in_memory, starts = assign_folds(4, memory)
        assert starts is None
        expected = scikit_learn_folds(KFold(4), y)
        np.testing.assert_array_equal(in_memory.fold_of(0, y), expected)
        np.testing.assert_array_equal(self.assigned(*assign_folds(4, partitioned), partitioned, y), expected)

    def test_classification_has_stratified_folds(self, rng):
        y = rng.permutation(np.repeat(["b", "c", "a"], [12, 10, 8]))
        memory, partitioned = self.sources(y)
        in_memory, starts = assign_folds(4, memory, [ClassCounts.from_labels(y, None)])
        assert starts is None
        expected = scikit_learn_folds(StratifiedKFold(4), y)
        np.testing.assert_array_equal(in_memory.fold_of(0, y), expected)
        counts = [ClassCounts.from_labels(y[rows], None) for rows in (slice(0, 7), slice(7, 20), slice(20, 30))]
        np.testing.assert_array_equal(self.assigned(*assign_folds(4, partitioned, counts), partitioned, y), expected)

    def test_none_makes_no_folds(self):
        y = np.arange(30.0)
        memory, partitioned = self.sources(y)
        assert assign_folds(None, memory)[0].n_folds == 0
        assignment, starts = assign_folds(None, partitioned)
        assert assignment.n_folds == 0
        assert self.assigned(assignment, starts, partitioned, y).tolist() == [-1] * 30

    def test_partitions_need_a_count_folds(self, rng):
        memory, partitioned = self.sources(rng.normal(size=30))
        groups = list(GroupKFold(3).split(np.zeros((30, 1)), groups=np.arange(30) % 3))
        assert assign_folds(groups, memory)[0].n_folds == 3
        with pytest.raises(ValueError, match="`cv` must be a number of folds or None for rows that are not in memory"):
            assign_folds(groups, partitioned)


class TestErrors:
    @pytest.mark.parametrize("cv", [KFold(3), [([0], [1])], "five"])
    def test_count_folds_refuses_splitters(self, cv):
        with pytest.raises(ValueError, match="`cv` must be a number of folds or None"):
            count_folds(cv)

    def test_one_fold_is_refused(self):
        assert count_folds(None) == 0
        assert count_folds(2) == 2
        with pytest.raises(ValueError, match="k-fold cross-validation requires at least one"):
            count_folds(1)

    def test_more_folds_than_rows_are_refused(self):
        with pytest.raises(ValueError, match="`cv`=5 is more folds than the 3 samples; give fewer folds"):
            KFolds(5, 3)
        with pytest.raises(ValueError, match="`cv`=5 is more folds than the 2 samples of any class; give fewer folds"):
            StratifiedFolds.from_counts(5, [ClassCounts.from_labels(np.array([0, 0, 1, 1]), None)])
        for model, found in (
            (FeatureRegressor(), "the 4 samples"),
            (FeatureClassifier(), "the 2 samples of any class"),
        ):
            with pytest.raises(ValueError, match=f"`cv`=5 is more folds than {found}; give fewer folds, or `cv`=None"):
                model.fit(np.eye(4), [0, 0, 1, 1])

    def test_rare_class_gives_a_warning(self):
        with pytest.warns(UserWarning, match="The least populated class in y has 2 rows, fewer than the 3 folds"):
            StratifiedFolds.from_counts(3, [ClassCounts.from_labels(np.array([0, 0, 0, 1, 1]), None)])

    def test_folds_need_rows_of_positive_weight(self):
        check_fold_weights(2, np.array([1.0, 2.0, 0.0]))
        message = "A fold of `cv`=2 has no rows of positive weight to train or to test on"
        with pytest.raises(ValueError, match=message):
            check_fold_weights(2, np.array([0.0, 3.0, 1.0]))
        with pytest.raises(ValueError, match=message):
            check_fold_weights(2, np.array([3.0, 0.0]))


def test_class_counts_are_in_order_of_appearance(rng):
    y, weights = rng.choice(list("bca"), 50), rng.random(50)
    counts = ClassCounts.from_labels(y, weights)
    assert counts.classes.tolist() == list(dict.fromkeys(y.tolist()))
    assert counts.counts.tolist() == [np.count_nonzero(y == label) for label in counts.classes]
    np.testing.assert_allclose(counts.weights, [weights[y == label].sum() for label in counts.classes])
    np.testing.assert_array_equal(ClassCounts.from_labels(y, None).weights, counts.counts)


def test_class_counts_of_parts_add_up_to_those_of_all_rows(rng):
    y, weights = rng.choice(list("bca"), 50), rng.random(50)
    whole = ClassCounts.from_labels(y, weights)
    total = ClassCounts.total([ClassCounts.from_labels(y[part], weights[part]) for part in (slice(0, 1), slice(1, 50))])
    assert total.classes.tolist() == whole.classes.tolist()
    np.testing.assert_array_equal(total.counts, whole.counts)
    np.testing.assert_allclose(total.weights, whole.weights)


def test_classes_of_a_source_are_counted_without_its_rows(rng):
    y, weights = rng.choice(list("bca"), 50), rng.random(50)
    (counts,) = MemoryRows(np.zeros((50, 1)), y, weights).accumulate(count_classes, with_rows=False)
    assert counts.classes.tolist() == ClassCounts.from_labels(y, weights).classes.tolist()
    np.testing.assert_array_equal(counts.weights, ClassCounts.from_labels(y, weights).weights)


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
