# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from bochner.learning.poles import Poles

PENALTIES = np.logspace(-8, 4, 25)


def gram_matrix(rng, eigenvalues):
    rotation = np.linalg.qr(rng.normal(size=(len(eigenvalues), len(eigenvalues))))[0]
    return (rotation * eigenvalues) @ rotation.T


def condition(poles, gram, number):
    """Return the condition number of the preconditioned matrix at a penalty."""
    rows = np.zeros((len(PENALTIES), len(gram), len(gram)))
    rows[number] = gram + PENALTIES[number] * np.eye(len(gram))
    values = np.linalg.eigvals(poles.divide(rows)[number]).real
    return values.max() / values.min()


def test_matrix_is_well_conditioned_at_every_penalty(rng):
    """Poles are at most 2.2 decades apart, so that a penalty differs from the nearest one by 1.1 decades."""
    gram = gram_matrix(rng, np.logspace(-10, 1, 40))
    poles = Poles.of(gram, PENALTIES)
    assert (poles.factors[0].dtype, poles.factors[-1].dtype) == (np.float64, np.float32)
    conditions = [condition(poles, gram, number) for number in range(len(PENALTIES))]
    assert max(conditions) < 10.0**1.2
    assert conditions[-1] < 1.01  # no eigenvalue matters


def test_rows_that_are_zero_stay_zero(rng):
    poles = Poles.of(gram_matrix(rng, np.logspace(-3, 1, 10)), PENALTIES)
    rows = rng.normal(size=(len(PENALTIES), 3, 10))
    rows[:, 1] = 0.0
    quotients = poles.divide(rows)
    assert not quotients[:, 1].any()
    assert quotients[:, [0, 2]].all()


def test_gram_matrix_is_not_changed(rng):
    gram = gram_matrix(rng, np.logspace(-8, 1, 30))
    before = gram.copy()
    Poles.of(gram, PENALTIES)
    np.testing.assert_array_equal(gram, before)


@pytest.mark.parametrize("gram", [np.zeros((3, 3)), np.ones((3, 3)), np.diag([1e-8, 1.0, -1e-6])])
def test_shift_is_raised_until_there_is_a_factor(gram):
    poles = Poles.of(gram, np.array([1e-9, 1e-3]))
    assert np.isfinite(poles.divide(np.ones((2, 1, 3)))).all()
