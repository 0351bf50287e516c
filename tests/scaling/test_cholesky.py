"""Solutions of float32 factors are refined; where rounding errors exceed the penalty, float64 takes over."""

import numpy as np
import pytest

from bochner.kernels import Exponential, Matern
from bochner.scaling.cholesky import factorize, solve_precisely
from bochner.scaling.kernel_values import kernel_shape


@pytest.mark.parametrize("kernel", [Exponential(), Matern()], ids=str)
def test_refined_solutions_are_those_of_float64(kernel, rng):
    K = kernel_shape(kernel).matrix((0.3 * rng.normal(size=(600, 4))).astype(np.float32))
    right, penalties = rng.normal(size=(600, 2)), np.full(600, 1e-4)
    factor = factorize(K, penalties)
    assert factor.is_single
    expected = np.linalg.solve(K.astype(np.float64) + np.diag(penalties), right)
    errors = [
        np.abs(K @ (found - expected)).max()
        for found in (factor.solve(right), solve_precisely(factor, K, penalties, right))
    ]
    assert errors[1] < 1e-5 * np.abs(right).max()
    assert errors[1] < 0.01 * errors[0]


def test_a_factor_that_rounding_errors_made_useless_is_replaced(rng):
    K = kernel_shape(Matern()).matrix((0.1 * rng.normal(size=(600, 4))).astype(np.float32))
    right, penalties = rng.normal(size=(600, 1)), np.full(600, 1e-6)
    useless = factorize(K, np.full(600, 1e-3))
    expected = np.linalg.solve(K.astype(np.float64) + np.diag(penalties), right)
    np.testing.assert_allclose(solve_precisely(useless, K, penalties, right), expected, rtol=1e-6)
