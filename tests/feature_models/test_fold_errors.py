# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

import bochner.feature_models.ridge as ridge
from bochner.feature_models.fold_errors import FoldErrors, StoredFolds
from bochner.feature_models.ridge import cross_validated_errors

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
    """Use the shared reduction at any width, and count the folds that are reduced on their own."""
    counted = []
    direct = ridge._held_out_squares
    monkeypatch.setattr(ridge, "STEP_COST", 0)
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


@pytest.mark.parametrize("n_folds", [2, 5])
@pytest.mark.parametrize("always_trained", [False, True])
def test_errors_equal_those_of_a_reduction_per_fold(wide, calls, n_folds, always_trained):
    folds = np.arange(900) % (n_folds + always_trained) - always_trained
    moments = fold_moments(*wide, folds, n_folds)
    shuffled = PENALTIES[np.argsort(np.sin(np.arange(13)))]
    expected = direct_errors(moments, 2, shuffled)
    calls.clear()
    found = cross_validated_errors(moments, 2, shuffled)
    assert not calls
    near = (expected <= 1.01 * expected.min(axis=0)).any(axis=(1, 2))
    np.testing.assert_allclose(found[near], expected[near], rtol=1e-9)
    np.testing.assert_allclose(found, expected, rtol=3e-6)


def test_folds_unlike_the_other_rows_are_reduced_on_their_own(wide, calls):
    Z, Y = wide
    order = np.argsort(Z[:, 0])
    Z, Y, folds = Z[order[:120]], Y[order[:120]], np.arange(120) // 24
    moments = fold_moments(Z, Y, folds, 5)
    expected = direct_errors(moments, 2, PENALTIES)
    calls.clear()
    np.testing.assert_allclose(cross_validated_errors(moments, 2, PENALTIES), expected, rtol=1e-8)
    assert calls


def test_band_form_of_folds_equals_tridiagonal_form(wide, monkeypatch):
    moments = fold_moments(*wide, np.arange(900) % 3, 3)
    expected = direct_errors(moments, 2, PENALTIES)
    monkeypatch.setattr(ridge, "BAND_WIDTH", 64)
    np.testing.assert_allclose(direct_errors(moments, 2, PENALTIES), expected, rtol=1e-9)


def test_perfect_fit_and_constant_target(wide, calls):
    Z, _ = wide
    Y = np.column_stack([Z[:, 0] + 2.0, np.full(900, 5.0)])
    errors = cross_validated_errors(fold_moments(Z, Y, np.arange(900) % 5, 5), 2, PENALTIES)
    assert np.isfinite(errors).all()
    assert errors[0].max() < 1e-6
    assert (errors[:, :, 1] < 1e-12).all()


def test_squares_under_the_solution_on_all_rows_without_a_fold(wide):
    """A fold without rows changes nothing, and its sum of squares is 0."""
    centered = ridge._CenteredMoments.of(fold_moments(*wide, np.zeros(900), 1)[0], 2)
    shared = FoldErrors.of(**vars(centered), penalties=PENALTIES)
    (squares,) = shared.squares(StoredFolds([np.zeros((93, 93))], 2))
    np.testing.assert_array_equal(squares, np.zeros((13, 2)))
