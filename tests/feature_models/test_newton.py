# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from bochner.feature_models import newton
from bochner.feature_models.newton import NewtonSolver
from bochner.losses import LogLoss
from bochner.rows import Batch


@pytest.fixture
def batch(rng):
    features = rng.normal(size=(3000, 12)).astype(np.float32)
    labels = rng.integers(3, size=3000)
    return Batch(features, labels, np.ones(3000), np.full(3000, -1), np.ones(3000))


def solver_at(batch, weights):
    """Return a solver, and the blocks of the Hessian at some weights."""
    solver = NewtonSolver(batch, LogLoss(), weights.shape[2])
    return solver, solver._hessian(np.array([-2]), weights)


def dense_hessian(batch, weights):
    """Return the Hessian of the losses, of shape (width + 1, n_columns, width + 1, n_columns)."""
    rows = np.column_stack([batch.X, np.ones(len(batch.y))]).astype(np.float64)
    scores = rows @ weights[:, 0]
    if scores.shape[1] == 1:
        p = 1 / (1 + np.exp(-scores))
        middle = (p * (1 - p))[:, :, None]
    else:
        p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        middle = p[:, :, None] * np.eye(scores.shape[1]) - p[:, :, None] * p[:, None, :]
    return np.einsum("ia,ikl,ib->akbl", rows, middle, rows)


@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize("size", [0.1, 3.0])  # with large coefficients, most rows are certain and left out
def test_products_equal_those_of_the_dense_hessian(batch, rng, n_columns, size, monkeypatch):
    monkeypatch.setattr(newton, "CACHED_NUMBERS", 13 * 100)
    weights, vectors = rng.normal(size=(2, 13, 1, n_columns))
    weights *= size
    solver, blocks = solver_at(batch, weights)
    expected = 2.0 * np.einsum("akbl,bl->ak", dense_hessian(batch, weights), vectors[:, 0])
    expected[:-1] += vectors[:-1, 0]
    found = solver._multiply(2.0, blocks, vectors.astype(np.float32))[:, 0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-3 * np.abs(expected).max())


def test_preconditioner_of_two_classes_is_close_to_the_inverse(batch, rng, monkeypatch):
    """With equal uncertainties, the moments are those of the Hessian itself, but for sampling."""
    weights = np.zeros((13, 1, 1))
    matrix = 5.0 * dense_hessian(batch, weights)[:, 0, :, 0] + np.eye(13)
    for n_rows, low, high in ((4, 0.2, 6.0), (1000, 0.9, 1.1)):  # per column: (1 +- n**-0.5)**-2 in the limit
        monkeypatch.setattr(newton, "PRECONDITIONER_ROWS", n_rows)
        solver, blocks = solver_at(batch, weights)
        factor = solver._make_factor(5.0, blocks).astype(np.float64)
        half = np.linalg.solve(factor, matrix)
        values = np.linalg.eigvals(half @ np.linalg.inv(matrix) @ half.T)  # of the preconditioned matrix
        assert low < values.real.min() < 1.0 < values.real.max() < high


def test_adding_a_number_to_all_classes_is_not_preconditioned(batch, rng):
    weights = rng.normal(size=(13, 1, 3)) * 0.1
    vectors = np.repeat(rng.normal(size=(13, 1, 1)), 3, axis=2).astype(np.float32)
    solver, blocks = solver_at(batch, weights)
    solver.factor = solver._make_factor(1.0, blocks)
    np.testing.assert_allclose(solver._precondition(vectors), vectors, rtol=1e-5)


def test_no_uncertain_row(batch):
    """Rows whose classes are certain to rounding leave the penalty alone."""
    weights = np.zeros((13, 1, 1))
    weights[-1] = 1e4
    solver, blocks = solver_at(batch, weights)
    solver.factor = solver._make_factor(1.0, blocks)
    np.testing.assert_allclose(solver._precondition(np.ones((13, 1, 1), dtype=np.float32)), 1.0, rtol=1e-5)
