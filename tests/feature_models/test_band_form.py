# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from bochner.feature_models.band_form import BLOCK, STRIP, solve_shifted


def gram(rng, size):
    rows = rng.normal(size=(size + 10, size)) * np.logspace(0, -3, size)
    return rows.T @ rows


@pytest.mark.parametrize("size", [1, 3, BLOCK, BLOCK + 1, 3 * BLOCK + 5, STRIP + BLOCK + 9, 2 * STRIP + 100])
def test_solutions_equal_dense_ones(rng, size):
    matrix, shifts, right = gram(rng, size), np.logspace(-6, 2, 7), rng.normal(size=(2, size))
    found = solve_shifted(matrix, right, shifts)
    for shift, solution in zip(shifts, found, strict=True):
        expected = np.linalg.solve(matrix + shift * np.eye(size), right.T).T
        np.testing.assert_allclose(solution, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())


def test_inputs_are_not_changed(rng):
    matrix, right = gram(rng, 2 * BLOCK), rng.normal(size=(2, 2 * BLOCK))
    copies = matrix.copy(), right.copy()
    solve_shifted(matrix, right, np.ones(1))
    np.testing.assert_array_equal(matrix, copies[0])
    np.testing.assert_array_equal(right, copies[1])


def test_matrix_with_a_block_of_zeros():
    matrix = np.zeros((BLOCK + 10, BLOCK + 10))
    matrix[0, 0] = 2.0
    solution = solve_shifted(matrix, np.ones((1, len(matrix))), np.array([1.0]))
    np.testing.assert_allclose(solution[0, 0], 1.0 / (np.diag(matrix) + 1.0), rtol=1e-12)
