# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from bochner.feature_models.band_form import BLOCK, TILE, BandForm


def gram(rng, size):
    rows = rng.normal(size=(size + 10, size)) * np.logspace(0, -3, size)
    return rows.T @ rows


@pytest.mark.parametrize("size", [1, 5, BLOCK, BLOCK + 1, 2 * BLOCK + 7, TILE + BLOCK + 9, 2 * TILE + 100])
def test_band_form_is_an_orthogonal_similarity(rng, size):
    matrix = gram(rng, size)
    form = BandForm.from_matrix(matrix)
    rotation = form.rotate(np.eye(size))
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(size), atol=1e-12)
    np.testing.assert_allclose(form.unrotate(np.eye(size)), rotation.T, atol=1e-12)
    band = rotation.T @ matrix @ rotation
    edges = np.arange(size) // BLOCK
    outside = np.abs(edges[:, None] - edges) > 1
    assert np.abs(band[outside]).max(initial=0.0) < 1e-12 * np.abs(matrix).max()
    for number, block in enumerate(form.diagonal):
        own = slice(number * BLOCK, number * BLOCK + len(block))
        np.testing.assert_allclose(block, band[own, own], atol=1e-12 * np.abs(matrix).max())


def test_only_the_lower_half_is_read(rng):
    matrix = gram(rng, 2 * TILE)
    spoiled = matrix.copy()
    spoiled[np.triu_indices(len(matrix), TILE)] = np.nan
    np.testing.assert_array_equal(BandForm.from_matrix(spoiled).diagonal[-1], BandForm.from_matrix(matrix).diagonal[-1])


@pytest.mark.parametrize("size", [1, 3, BLOCK, 3 * BLOCK + 5])
def test_solutions_equal_dense_ones(rng, size):
    matrix, shifts, right = gram(rng, size), np.logspace(-6, 2, 7), rng.normal(size=(2, size))
    found = BandForm.from_matrix(matrix).solve(right, shifts)
    for shift, solution in zip(shifts, found, strict=True):
        expected = np.linalg.solve(matrix + shift * np.eye(size), right.T).T
        np.testing.assert_allclose(solution, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())


def test_matrix_with_a_block_of_zeros():
    matrix = np.zeros((BLOCK + 10, BLOCK + 10))
    matrix[0, 0] = 2.0
    solution = BandForm.from_matrix(matrix).solve(np.ones((1, len(matrix))), np.array([1.0]))
    np.testing.assert_allclose(solution[0, 0], 1.0 / (np.diag(matrix) + 1.0), rtol=1e-12)
