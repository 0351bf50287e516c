# SPDX-License-Identifier: BSD-3-Clause
"""Labels, and the sample weights and values of C that the classifiers can solve for."""

from functools import partial

import numpy as np
import pytest
from sklearn.preprocessing import LabelBinarizer

from bochner import FeatureClassifier, FourierFeatures
from bochner.feature_models.classifier import check_labels, label_indicators, label_positions

MODELS = pytest.mark.parametrize("kind", [FeatureClassifier, partial(FeatureClassifier, loss="log_loss")])
FEW = FourierFeatures(length_scale=1.0, n_frequencies=4, random_state=0)


@MODELS
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of folds
def test_weights_that_differ_by_a_factor_of_1e13(kind, rng):
    X = rng.normal(size=(40, 2))
    y, weights = X[:, 0] > 0.0, np.r_[1e13, np.ones(39)]
    model = kind(FEW, Cs=[1e-3, 1.0], cv=2)
    with np.errstate(all="raise", under="ignore"):
        model.fit(X, y, sample_weight=weights)
    assert np.isfinite(model.coef_).all()
    assert model.predict(X[:1]) == y[:1]


@MODELS
def test_weights_and_penalties_that_leave_nothing_to_solve(kind, rng):
    X = rng.normal(size=(40, 2))
    with pytest.raises(ValueError, match=r"C=1e\+29 times the sample weights, which sum to 40, .* at most 2.5e\+28"):
        kind(FEW, Cs=[1.0, 1e29]).fit(X, X[:, 0] > 0.0)
    with pytest.raises(ValueError, match=r"which sum to 4e\+21, is too large .* or divide the weights by their mean"):
        kind(FEW).fit(X, X[:, 0] > 0.0, sample_weight=np.full(40, 1e20))


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_indicators_equal_scikit_learn(rng, n_classes):
    y = rng.permutation(np.arange(40) % n_classes)
    classes = np.array(list("pqrst"))[:n_classes]
    expected = LabelBinarizer(pos_label=1, neg_label=-1).fit_transform(classes[y])
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
