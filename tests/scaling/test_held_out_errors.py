# SPDX-License-Identifier: BSD-3-Clause
"""Kernel matrices, held-out errors and their gradients against direct computations and finite differences."""

import numpy as np
import pytest

from bochner.kernels import Cauchy, Exponential, Gaussian, Laplacian, Matern, PowerExponential
from bochner.scaling.held_out_errors import fold_error
from bochner.scaling.kernel_values import kernel_shape
from bochner.scaling.scale_learning import held_out_objective

KERNELS = [Gaussian(), Laplacian(), Exponential(), Matern(nu=1.5), PowerExponential(), PowerExponential(p=1.2, q=0.9)]
EUCLIDEAN = [kernel for kernel in KERNELS if kernel_shape(kernel).p == 2]


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(40, 3))
    Y = np.stack([np.sin(2 * X[:, 0]) + 0.3 * X[:, 1], rng.normal(size=40)], axis=1)
    return X, Y - Y.mean(axis=0), rng.uniform(0.5, 2.0, size=40)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [1, 3, 50])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_matrices_equal_the_kernel(kernel, n_columns, dtype, rng):
    X, Z = (rng.normal(size=(n, n_columns)).astype(dtype) for n in (70, 33))
    shape, tolerance = kernel_shape(kernel), 5e-6 if dtype == np.float32 else 1e-12
    for rows, others in ((X, None), (X, Z)):
        values = shape.matrix(rows, others)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, kernel(rows, others), rtol=20 * tolerance, atol=tolerance)


def test_a_kernel_without_compiled_matrix_is_refused():
    with pytest.raises(ValueError, match=r"Cauchy\(\) has no compiled kernel matrix; use Gaussian"):
        kernel_shape(Cauchy())


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_slopes_are_those_of_the_values_also_in_float32(kernel, rng):
    shape, sums = kernel_shape(kernel), rng.uniform(0.01, 5.0, size=(6, 7))
    slopes = shape.values_and_slopes(sums)[1]
    differences = (shape.values(sums + 1e-6) - shape.values(sums - 1e-6)) / 2e-6
    np.testing.assert_allclose(slopes, differences, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(shape.values_and_slopes(sums.astype(np.float32))[1], slopes, rtol=2e-5)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_row_gradients_equal_differences(kernel, problem, rng):
    Z, coef, _ = problem
    X, shape, step = rng.normal(size=(5, 3)), kernel_shape(kernel), 1e-6
    gradients = shape.row_gradients(X, Z, coef)
    for j, axis in enumerate(np.eye(3)):
        expected = (shape.matrix(X + step * axis, Z) - shape.matrix(X - step * axis, Z)) @ coef / (2 * step)
        np.testing.assert_allclose(gradients[:, j], expected, rtol=1e-5, atol=1e-7)


def refit_residuals(K, Y, w, penalty, held_out):
    rest = np.setdiff1d(np.arange(len(K)), held_out)
    coef = np.linalg.solve(K[np.ix_(rest, rest)] + penalty * np.diag(1 / w[rest]), Y[rest])
    return Y[held_out] - K[np.ix_(held_out, rest)] @ coef


def test_fold_residuals_equal_refits(problem):
    X, Y, w = problem
    K = kernel_shape(Laplacian()).matrix(X)
    expected = np.concatenate([refit_residuals(K, Y, w, 0.05, np.arange(i, i + 10)) for i in range(0, 40, 10)])
    result = fold_error(K, Y, w, 0.05, 4)
    np.testing.assert_allclose(result.residuals, expected, rtol=1e-8, atol=1e-8)
    assert result.error == pytest.approx(np.average((expected**2).sum(axis=1), weights=w), rel=1e-8)


def check_gradient(objective, parameters):
    gradient = objective(parameters)[1]
    for i, step in enumerate(1e-5 * np.eye(len(parameters))):
        expected = (objective(parameters + step)[0] - objective(parameters - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("n_folds", [2, 4, 40], ids=["two folds", "four folds", "leave one out"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_gradients_with_respect_to_scales_equal_differences(kernel, n_folds, problem, rng):
    objective = held_out_objective(kernel_shape(kernel), *problem, n_folds=n_folds)
    check_gradient(objective, np.append(rng.normal(scale=0.5, size=3), np.log(0.05)))


@pytest.mark.parametrize("n_folds", [2, 4, 40], ids=["two folds", "four folds", "leave one out"])
@pytest.mark.parametrize("kernel", EUCLIDEAN, ids=str)
def test_gradients_with_respect_to_a_metric_equal_differences(kernel, n_folds, problem, rng):
    objective = held_out_objective(kernel_shape(kernel), *problem, n_folds=n_folds, is_metric=True)
    check_gradient(objective, np.append(rng.normal(scale=0.5, size=9), np.log(0.05)))


def test_float32_has_the_error_and_the_gradient_of_float64(problem):
    X, Y, w = problem
    parameters = np.log([1.0, 0.5, 0.2, 0.01])
    exact, gradient = held_out_objective(kernel_shape(Matern(nu=1.5)), X, Y, w)(parameters)
    error, approximate = held_out_objective(kernel_shape(Matern(nu=1.5)), X.astype(np.float32), Y, w)(parameters)
    assert error == pytest.approx(exact, rel=1e-4)
    np.testing.assert_allclose(approximate, gradient, atol=1e-4)
