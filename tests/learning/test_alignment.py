# SPDX-License-Identifier: BSD-3-Clause
"""Alignments against sums over pairs, and their maximizer against scipy and the conditions of optimality."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from bochner.learning.alignment import alignments, maximize_alignment
from bochner.learning.length_scales import LabeledRows


def divergence(weights):
    return np.mean(np.square(len(weights) * weights - 1.0))


def maximize_with_scipy(values, rho):
    """Return the maximum by sequential quadratic programming, from a point inside the ball."""
    n = len(values)
    constraints = [
        {"type": "eq", "fun": lambda x: x.sum() - 1.0, "jac": np.ones_like},
        {"type": "ineq", "fun": lambda x: rho - divergence(x), "jac": lambda x: 2.0 - 2.0 * n * x},
    ]
    return -minimize(
        lambda x: -values @ x,
        np.full(n, 1.0 / n),
        jac=lambda x: -values,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * n,
        constraints=constraints,
        options={"ftol": 1e-12, "maxiter": 500},
    ).fun


VALUES = {
    "distinct": np.array([0.1, 2.0, 0.7, 1.4, 0.9, 3.1, 0.0]),
    "one large": np.array([0.0, 0.1, 0.2, 9.0, 0.1]),
    "ties at the top": np.array([3.0, 1.0, 3.0, 2.0, 3.0, 0.0]),
    "ties at the bottom": np.array([0.0, 0.0, 4.0, 0.0, 1.0, 0.0]),
    "ties in the middle": np.array([1.0, 2.0, 2.0, 2.0, 5.0, 4.0]),
    "two": np.array([1.0, 2.0]),
}


@pytest.mark.parametrize("rho", [1e-4, 0.05, 0.3, 0.9, 1.5, 2.5, 20.0])
@pytest.mark.parametrize("name", VALUES)
def test_maximum_equals_that_of_scipy(name, rho):
    values = VALUES[name]
    weights = maximize_alignment(values, rho)
    assert (weights >= 0.0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert divergence(weights) <= rho * (1.0 + 1e-12) + 1e-14
    assert values @ weights == pytest.approx(maximize_with_scipy(values, rho), abs=1e-7)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rho", [0.01, 0.3, 1.0, 10.0, 200.0])
def test_many_values_satisfy_the_conditions_of_optimality(rho, seed):
    """Positive weights are linear in the values, zero weights are below the line, and the bound is active."""
    values = np.random.default_rng(seed).exponential(size=300) ** 2
    weights = maximize_alignment(values, rho)
    positive = weights > 0.0
    slope, intercept = np.polyfit(values[positive], weights[positive], 1)
    assert slope > 0.0
    np.testing.assert_allclose(weights, np.maximum(intercept + slope * values, 0.0), atol=1e-12)
    assert divergence(weights) == pytest.approx(rho, rel=1e-9)
    assert weights.sum() == pytest.approx(1.0, abs=1e-13)


def test_zero_divergence_gives_uniform_weights(rng):
    np.testing.assert_array_equal(maximize_alignment(rng.random(7), 0.0), np.full(7, 1 / 7))


@pytest.mark.parametrize("rho", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("value", [0.0, 2.5])
def test_equal_values_give_uniform_weights(value, rho):
    np.testing.assert_array_equal(maximize_alignment(np.full(6, value), rho), np.full(6, 1 / 6))


@pytest.mark.parametrize("rho", [6.0, 1e6, np.inf])
def test_large_divergence_gives_a_vertex(rho):
    np.testing.assert_array_equal(maximize_alignment(VALUES["distinct"], rho), [0, 0, 0, 0, 0, 1, 0])


def test_large_divergence_shares_the_weight_between_ties():
    np.testing.assert_array_equal(maximize_alignment(VALUES["ties at the top"], 5.0), [1 / 3, 0, 1 / 3, 0, 1 / 3, 0])


def test_single_frequency():
    np.testing.assert_array_equal(maximize_alignment(np.array([3.0]), 0.3), [1.0])


@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_units_of_the_values_do_not_matter(scale, shift):
    """A constant added to the values changes the alignment of all weights alike, up to the rounding of the values."""
    values = VALUES["distinct"]
    found = maximize_alignment(scale * (values + shift), 0.8)
    np.testing.assert_allclose(found, maximize_alignment(values, 0.8), atol=1e-14 + 1e-15 * shift)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_alignments_equal_sums_over_pairs(kind, rng):
    X, W, Y, counts = rng.normal(size=(60, 3)), rng.normal(size=(8, 3)), rng.normal(size=(60, 2)), rng.random(60)
    differences = X[:, None] - X
    pairs = np.outer(counts, counts) * (Y @ Y.T)
    expected = [np.sum(pairs * np.cos(differences @ w)) for w in W]
    np.testing.assert_allclose(alignments(W, LabeledRows(kind(X), Y, counts)), expected, rtol=1e-10)


def test_alignments_of_many_rows_equal_those_of_one_block(rng):
    X, W, Y = rng.normal(size=(1300, 3)), rng.normal(size=(8, 3)), rng.normal(size=(1300, 2))
    sums = np.exp(1j * X @ W.T).T @ Y
    np.testing.assert_allclose(alignments(W, LabeledRows(X, Y)), np.square(np.abs(sums)).sum(axis=1), rtol=1e-10)


def test_no_targets_have_no_alignment(rng):
    rows = LabeledRows(rng.normal(size=(5, 2)), np.empty((5, 0)))
    np.testing.assert_array_equal(alignments(rng.normal(size=(3, 2)), rows), np.zeros(3))
