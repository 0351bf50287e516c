# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from sklearn.preprocessing import LabelBinarizer

from bochner.feature_models.labels import (
    ClassCounts,
    check_labels,
    count_classes,
    indicators,
    label_indicators,
    label_positions,
)
from bochner.rows import MemoryRows


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_indicators_equal_scikit_learn(rng, n_classes):
    y = rng.permutation(np.arange(40) % n_classes)
    classes = np.array(list("pqrst"))[:n_classes]
    expected = LabelBinarizer(pos_label=1, neg_label=-1).fit_transform(classes[y])
    np.testing.assert_array_equal(indicators(y, n_classes), expected)
    np.testing.assert_array_equal(label_indicators(classes, classes[y]), expected)


def test_positions_are_those_of_the_sorted_classes():
    classes = np.array([-2, 3, 7])
    assert label_positions(classes, np.array([7, -2, 3, 3])).tolist() == [2, 0, 1, 1]


@pytest.mark.parametrize("label", ["a", "bb", "z"])
def test_unknown_labels_are_refused(label):
    """Before, between and after the known ones."""
    with pytest.raises(ValueError, match=rf"y has the label '{label}', which is not among \['b', 'c'\]"):
        label_positions(np.array(["b", "c"]), np.array(["b", label]))


def test_labels_are_one_column_of_classes(rng):
    assert check_labels([1, 0, 1]).tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        check_labels(rng.normal(size=10))
    with pytest.raises(ValueError, match="should be a 1d array"):
        check_labels(np.zeros((4, 2)))


def test_class_counts_are_in_order_of_appearance(rng):
    y, weights = rng.choice(list("bca"), 50), rng.random(50)
    counts = ClassCounts.of(y, weights)
    assert counts.classes.tolist() == list(dict.fromkeys(y.tolist()))
    assert counts.counts.tolist() == [np.count_nonzero(y == label) for label in counts.classes]
    np.testing.assert_allclose(counts.weights, [weights[y == label].sum() for label in counts.classes])
    np.testing.assert_array_equal(ClassCounts.of(y, None).weights, counts.counts)


def test_class_counts_of_parts_add_up_to_those_of_all_rows(rng):
    y, weights = rng.choice(list("bca"), 50), rng.random(50)
    whole = ClassCounts.of(y, weights)
    total = ClassCounts.total([ClassCounts.of(y[part], weights[part]) for part in (slice(0, 1), slice(1, 50))])
    assert total.classes.tolist() == whole.classes.tolist()
    np.testing.assert_array_equal(total.counts, whole.counts)
    np.testing.assert_allclose(total.weights, whole.weights)


def test_classes_of_a_source_are_counted_without_its_rows(rng):
    y, weights = rng.choice(list("bca"), 50), rng.random(50)
    (counts,) = MemoryRows(np.zeros((50, 1)), y, weights).accumulate(count_classes, with_rows=False)
    assert counts.classes.tolist() == ClassCounts.of(y, weights).classes.tolist()
    np.testing.assert_array_equal(counts.weights, ClassCounts.of(y, weights).weights)
