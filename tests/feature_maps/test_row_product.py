# SPDX-License-Identifier: BSD-3-Clause
"""The compiled product of one row with a matrix."""

import numpy as np
import pytest

from bochner.feature_maps.feature_map import multiply_rows
from bochner.feature_maps.row_product import multiply_row


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 7), (4, 16), (6, 33), (101, 5)])
def test_product_equals_the_dense_one(rng, dtype, n, m):
    row, matrix = rng.normal(size=n).astype(dtype), rng.normal(size=(n, m)).astype(dtype)
    out = np.full(m, np.nan, dtype=dtype)
    multiply_row(row, matrix, out)
    bound = 2.0 * n * np.finfo(dtype).eps * (np.abs(row) @ np.abs(matrix))
    assert (np.abs(out - row.astype(np.float64) @ matrix.astype(np.float64)) <= bound).all()


@pytest.mark.parametrize("n_rows", [0, 1, 2, 5])
def test_rows_may_have_any_layout(rng, n_rows):
    rows, matrix = np.asfortranarray(rng.normal(size=(n_rows, 6)))[:, ::2], rng.normal(size=(3, 4))
    out = np.empty((n_rows, 4))
    multiply_rows(rows, matrix, out)
    np.testing.assert_allclose(out, rows @ matrix)
