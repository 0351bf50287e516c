# SPDX-License-Identifier: BSD-3-Clause
"""Products in place and the Cholesky factor, compared with NumPy's."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from bochner.rows import add_gram, add_product, cholesky, mirror
from bochner.rows.blas import TILE

SHAPES = [(1, 1, 1), (3, 4, 5), (1, 7, 3), (7, 1, 3), (5, 6, 1), (130, 70, 90)]


def matrix(rng, shape, transposed):
    return rng.normal(size=shape[::-1]).T if transposed else rng.normal(size=shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("left_transposed", [False, True])
@pytest.mark.parametrize("right_transposed", [False, True])
def test_product_is_added_to_a_part_of_an_array(rng, shape, left_transposed, right_transposed):
    m, n, k = shape
    left, right = matrix(rng, (m, k), left_transposed), matrix(rng, (k, n), right_transposed)
    whole = rng.normal(size=(m + 3, n + 5))
    expected = whole.copy()
    expected[1 : m + 1, 2 : n + 2] -= 0.5 * left @ right
    add_product(whole[1 : m + 1, 2 : n + 2], left, right, -0.5)
    np.testing.assert_allclose(whole, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_gram_matrix_is_added_to_the_lower_half(rng, shape, transposed):
    n, _, k = shape
    rows, start = matrix(rng, (k, n), transposed), rng.normal(size=(n, n))
    found = start.copy()
    add_gram(found, rows)
    np.testing.assert_allclose(found, start + np.tril(rows.T @ rows), rtol=1e-12, atol=1e-12)
    spoiled = np.full((n, n), np.nan)
    add_gram(spoiled, rows, keep=0.0)
    np.testing.assert_allclose(np.tril(spoiled), np.tril(rows.T @ rows), rtol=1e-12, atol=1e-12)
    mirror(spoiled)
    np.testing.assert_allclose(spoiled, rows.T @ rows, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [1, TILE - 1, TILE, TILE + 1, 3 * TILE - 5])
def test_cholesky_factor(rng, size):
    rows = rng.normal(size=(size + 5, size))
    gram = rows.T @ rows
    lower = np.tril(gram) + np.triu(np.full_like(gram, np.nan), 1)  # the upper half is not read
    found = cholesky(lower)
    assert not np.triu(found, 1).any()
    np.testing.assert_allclose(found @ found.T, gram, rtol=1e-10, atol=1e-10 * size)


def test_cholesky_factor_does_not_depend_on_the_number_of_threads(rng):
    rows = rng.normal(size=(3 * TILE, 3 * TILE - 5))
    gram = rows.T @ rows + np.eye(rows.shape[1])
    with threadpool_limits(1):
        single = cholesky(gram)
    with threadpool_limits(3):
        assert cholesky(gram).tobytes() == single.tobytes()


@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_matrix_without_a_factor(value):
    matrix = np.eye(TILE + 5)
    matrix[TILE + 2, TILE + 2] = value
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(matrix)
