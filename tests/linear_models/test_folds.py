# SPDX-License-Identifier: BSD-3-Clause
"""Folds: those of pieces are the ones that scikit-learn deals out to all rows at once."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from bochner.linear_models.folds import ClassCounts, InTurn, KFolds, StratifiedFolds, n_folds_of


def folds_of(splitter, y):
    folds = np.full(len(y), -1)
    for fold, (_, test) in enumerate(splitter.split(y, y)):
        folds[test] = fold
    return folds


def cut(rng, n_rows):
    """All rows in a random number of consecutive pieces."""
    places = np.sort(rng.integers(0, n_rows + 1, size=rng.integers(0, 8)))
    return [piece for piece in np.split(np.arange(n_rows), places) if len(piece)]


@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize("seed", range(20))
def test_stratified_folds_of_pieces_are_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    n_rows, n_folds = int(rng.integers(40, 200)), int(rng.integers(2, 7))
    y = rng.choice(["c", "a", "b", "zz"], n_rows, p=[0.5, 0.3, 0.15, 0.05])
    pieces = cut(rng, n_rows)
    dealing, starts = StratifiedFolds.of(n_folds, [ClassCounts.of(y[piece], None) for piece in pieces])
    found = np.concatenate([dealing.folds(start, y[piece]) for start, piece in zip(starts, pieces, strict=True)])
    np.testing.assert_array_equal(found, folds_of(StratifiedKFold(n_folds), y))


@pytest.mark.parametrize("seed", range(10))
def test_consecutive_folds_of_pieces_are_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    n_rows, n_folds = int(rng.integers(10, 100)), int(rng.integers(2, 7))
    y = np.zeros(n_rows)
    found = [KFolds(n_folds, n_rows).folds(piece[0], y[piece]) for piece in cut(rng, n_rows)]
    np.testing.assert_array_equal(np.concatenate(found), folds_of(KFold(n_folds), y))


def test_folds_in_turn():
    assert InTurn(3).folds(4, np.zeros(4)).tolist() == [1, 2, 0, 1]
    assert InTurn(0).folds(4, np.zeros(2)).tolist() == [-1, -1]


def test_counts_of_classes_add_up(rng):
    y, weights = rng.choice(list("bca"), 50), rng.random(50)
    whole = ClassCounts.of(y, weights)
    total = ClassCounts.total([ClassCounts.of(y[piece], weights[piece]) for piece in (slice(0, 7), slice(7, 50))])
    assert total.classes.tolist() == whole.classes.tolist() == list(dict.fromkeys(y.tolist()))
    np.testing.assert_array_equal(total.counts, whole.counts)
    np.testing.assert_allclose(total.weights, whole.weights)


@pytest.mark.parametrize("cv", [KFold(3), [([0], [1])], "five"])
def test_pieces_need_a_number_of_folds(cv):
    with pytest.raises(ValueError, match="`cv` must be a number of folds or None"):
        n_folds_of(cv)


def test_too_many_folds():
    assert n_folds_of(None) == 0
    with pytest.raises(ValueError, match="k-fold cross-validation requires at least one"):
        n_folds_of(1)
    with pytest.raises(ValueError, match="more folds than the 3 rows"):
        KFolds(5, 3)
    with pytest.raises(ValueError, match="more folds than any class"):
        StratifiedFolds.of(5, [ClassCounts.of(np.array([0, 0, 1, 1]), None)])
