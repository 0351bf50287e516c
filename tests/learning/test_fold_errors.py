# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import bochner.learning.ridge as ridge
from bochner.learning.fold_errors import FINE, ROUGH, FoldErrors, StoredFolds
from bochner.learning.poles import Poles
from bochner.learning.ridge import cross_validated_errors, target_variances

PENALTIES = np.logspace(-6, 6, 13)


def fold_moments(Z, Y, folds, n_folds):
    rows = np.column_stack([Z, np.ones(len(Z)), Y])
    return np.array([rows[folds == fold].T @ rows[folds == fold] for fold in [*range(n_folds), -1]])


@pytest.fixture
def wide(rng):
    Z = rng.normal(size=(900, 90)) * np.logspace(0, -3, 90) + rng.normal(size=90)
    Y = np.column_stack([np.sin(Z[:, 0]), Z[:, 1] ** 2 + 3.0]) + 0.1 * rng.normal(size=(900, 2))
    return Z, Y


@pytest.fixture
def calls(monkeypatch):
    """Use the shared factors at any width, and count the folds that are reduced on their own."""
    counted = []
    direct = ridge._held_out_squares
    monkeypatch.setattr(ridge, "LEAST_WIDTH", -1000)
    monkeypatch.setattr(ridge, "_held_out_squares", lambda *args: counted.append(1) or direct(*args))
    return counted


def direct_errors(moments, n_targets, penalties):
    """Return the errors of a reduction per fold."""
    return np.stack(
        [
            ridge._held_out_squares(
                ridge._CenteredMoments.of(moments.sum(axis=0) - held_out, n_targets), held_out, penalties
            )
            / held_out[-1 - n_targets, -1 - n_targets]
            for held_out in moments[:-1]
        ],
        axis=1,
    )


def assert_accurate(found, expected, moments):
    """Check that all errors have the digits of the rough tolerance, and those with the best R2 of the fine tolerance.

    A change in a round is an estimate of what is left, not a bound.
    """
    np.testing.assert_allclose(found, expected, rtol=10.0 * ROUGH)
    variances = np.array([target_variances(held_out, found.shape[2]) for held_out in moments[:-1]])
    best = (expected / variances).mean(axis=(1, 2)).argmin()
    assert (found / variances).mean(axis=(1, 2)).argmin() == best
    np.testing.assert_allclose(found[best], expected[best], rtol=10.0 * FINE)


@pytest.mark.parametrize("n_folds", [2, 5])
@pytest.mark.parametrize("always_trained", [False, True])
def test_errors_equal_those_of_a_reduction_per_fold(wide, calls, n_folds, always_trained):
    folds = np.arange(900) % (n_folds + always_trained) - always_trained
    moments = fold_moments(*wide, folds, n_folds)
    shuffled = PENALTIES[np.argsort(np.sin(np.arange(13)))]
    expected = direct_errors(moments, 2, shuffled)
    calls.clear()
    assert_accurate(cross_validated_errors(moments, 2, shuffled), expected, moments)
    assert not calls


def test_folds_unlike_the_other_rows_have_factors_of_their_own(wide, calls, monkeypatch):
    Z, Y = wide
    order = np.argsort(Z[:, 0])
    Z, Y, folds = Z[order[:120]], Y[order[:120]], np.arange(120) // 24
    moments = fold_moments(Z, Y, folds, 5)
    expected = direct_errors(moments, 2, PENALTIES)
    calls.clear()
    factored, factor = [], Poles.of
    monkeypatch.setattr(Poles, "of", lambda *args: factored.append(1) or factor(*args))
    assert_accurate(cross_validated_errors(moments, 2, PENALTIES), expected, moments)
    assert len(factored) > 1
    assert not calls


def test_folds_without_convergence_are_reduced_on_their_own(wide, calls, monkeypatch):
    moments = fold_moments(*wide, np.arange(900) % 3, 3)
    expected = direct_errors(moments, 2, PENALTIES)
    calls.clear()
    monkeypatch.setattr(FoldErrors, "squares", lambda _, held_out, *__: [None] * len(held_out.moments))
    np.testing.assert_allclose(cross_validated_errors(moments, 2, PENALTIES), expected, rtol=1e-9)
    assert len(calls) == 3


def test_errors_do_not_depend_on_the_number_of_threads(wide, calls):
    moments = fold_moments(*wide, np.arange(900) % 4, 4)
    with threadpool_limits(1):
        single = cross_validated_errors(moments, 2, PENALTIES)
    with threadpool_limits(3):
        assert cross_validated_errors(moments, 2, PENALTIES).tobytes() == single.tobytes()


def test_singular_moments(rng, calls):
    """Equal columns, and more columns than rows."""
    Z = rng.normal(size=(60, 45))
    Z, Y = np.hstack([Z, Z]), np.sin(Z[:, :1])
    moments = fold_moments(Z, Y, np.arange(60) % 4, 4)
    expected = direct_errors(moments, 1, PENALTIES)
    np.testing.assert_allclose(cross_validated_errors(moments, 1, PENALTIES), expected, rtol=10.0 * ROUGH)


def test_many_penalties_that_may_be_the_best(wide, calls):
    """Penalties that hardly matter all have the digits of the fine tolerance."""
    moments, penalties = fold_moments(*wide, np.arange(900) % 3, 3), np.logspace(-9, -7, 5)
    expected = direct_errors(moments, 2, penalties)
    np.testing.assert_allclose(cross_validated_errors(moments, 2, penalties), expected, rtol=10.0 * FINE)


def test_perfect_fit_and_constant_target(wide, calls):
    Z, _ = wide
    Y = np.column_stack([Z[:, 0] + 2.0, np.full(900, 5.0)])
    errors = cross_validated_errors(fold_moments(Z, Y, np.arange(900) % 5, 5), 2, PENALTIES)
    assert np.isfinite(errors).all()
    assert errors[0].max() < 1e-6
    assert (errors[:, :, 1] < 1e-12).all()


def test_fold_without_rows(wide):
    """Its sum of squares is 0."""
    centered = ridge._CenteredMoments.of(fold_moments(*wide, np.zeros(900), 1)[0], 2)
    shared = FoldErrors(**vars(centered), penalties=PENALTIES, poles=Poles.of(centered.gram, PENALTIES))
    (squares,) = shared.squares(StoredFolds([np.zeros((93, 93))], 2))
    np.testing.assert_array_equal(squares, np.zeros((13, 2)))
