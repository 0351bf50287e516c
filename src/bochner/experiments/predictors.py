# SPDX-License-Identifier: BSD-3-Clause
"""Predictors: test errors of linear models on given features, their penalty chosen on five folds.

The same two losses for every method's features, Nystroem's too: ridge regression and the L2-loss support vector
machine, as the paper has them. All methods and seeds share the folds.
"""

from typing import NamedTuple
from warnings import catch_warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bochner.learning.ridge import cross_validated_errors, ridge_solution
from bochner.linear_models.squared_hinge import Batch, solve_one, walk
from bochner.rows import Array, Floats, Indices

__all__ = ["ALPHAS", "CS", "Prediction", "classification_error", "regression_error"]

N_FOLDS = 5
# Wide kernels have tiny eigenvalues, and want tiny penalties; alphas are relative to the number of rows.
ALPHAS = np.logspace(-15.0, 0.0, 31)
CS = np.logspace(-1.0, 7.0, 9)


class Prediction(NamedTuple):
    """How well a model predicts: its cross-validated error, the error on the test rows, the chosen penalty."""

    cv_error: float
    error: float
    penalty: float


def regression_error(train: Floats, y_train: Floats, test: Floats, y_test: Floats) -> Prediction:
    r"""Ridge regression: :math:`|y - \hat y| / |y|`, alpha with the lowest mean of that over the folds."""
    folds, origin = _folds(len(y_train)), np.median(y_train)
    rows = np.column_stack([train, np.ones(len(train)), y_train - origin])
    moments = np.array([_gram(rows[folds == fold]) for fold in range(N_FOLDS)] + [np.zeros((rows.shape[1],) * 2)])
    squares = cross_validated_errors(moments, 1, ALPHAS * len(rows))[:, :, 0]
    sizes = np.array([np.mean(np.square(y_train[folds == fold])) for fold in range(N_FOLDS)])
    errors = np.sqrt(squares / sizes).mean(axis=1)
    chosen = int(errors.argmin())
    solution = ridge_solution(moments.sum(axis=0), 1, float(ALPHAS[chosen]) * len(rows))
    residuals = y_test - (test @ solution.coef + solution.intercept)[:, 0] - origin
    return Prediction(float(errors[chosen]), _relative(residuals, y_test), float(ALPHAS[chosen]))


def classification_error(train: Floats, y_train: Array, test: Floats, y_test: Array) -> Prediction:
    """L2-loss support vector machine: share of wrong labels, C with the lowest over the folds."""
    classes, labels = np.unique(y_train, return_inverse=True)
    ones = np.ones(len(labels))
    batch = Batch(train, labels, ones, ones, _folds(len(labels)))
    n_targets = 1 if len(classes) == 2 else len(classes)
    with catch_warnings(action="ignore", category=ConvergenceWarning):  # the chosen C has its own below
        path = walk(lambda part: part(batch), N_FOLDS, n_targets, CS)
    errors = path.errors.mean(axis=1)
    chosen = int(errors.argmin())
    weights = solve_one(lambda part: part(batch), n_targets, float(CS[chosen]), path, chosen)
    scores = test @ weights[:-1] + weights[-1]
    found = (scores[:, 0] > 0.0).astype(np.intp) if n_targets == 1 else scores.argmax(axis=1)
    return Prediction(float(errors[chosen]), float(np.mean(classes[found] != y_test)), float(CS[chosen]))


def _folds(n_rows: int) -> Indices:
    """The fold of every row: dealt out in a random order, since files are often sorted."""
    return np.random.default_rng(0).permutation(n_rows) % N_FOLDS


def _gram(rows: Floats) -> Floats:
    return np.asarray(rows.T @ rows)


def _relative(residuals: Floats, y: Floats) -> float:
    return float(np.linalg.norm(residuals) / np.linalg.norm(y))
