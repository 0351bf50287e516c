# SPDX-License-Identifier: BSD-3-Clause
"""Predictors: test errors of linear models on given features, with the penalty selected on five folds.

The features of all methods, including Nystroem, get the two models of the paper: ridge regression and the L2-loss
support vector machine. All methods and seeds share the folds.
"""

from typing import NamedTuple
from warnings import catch_warnings, filterwarnings, simplefilter

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import PredefinedSplit
from sklearn.preprocessing import FunctionTransformer

from bochner import FeatureClassifier, FeatureRegressor
from bochner.rows import Array, Floats, Indices

__all__ = ["ALPHAS", "CS", "Prediction", "classification_error", "regression_error"]

N_FOLDS = 5
# Wide kernels have tiny eigenvalues and need tiny penalties; alphas are relative to the number of rows.
ALPHAS: tuple[float, ...] = tuple(np.logspace(-15.0, 0.0, 31).tolist())
CS: tuple[float, ...] = tuple(np.logspace(-1.0, 7.0, 9).tolist())


class Prediction(NamedTuple):
    """The cross-validated error of a model, its error on the test rows, and the selected penalty."""

    cv_error: float
    test_error: float
    penalty: float


def regression_error(train: Floats, y_train: Floats, test: Floats, y_test: Floats) -> Prediction:
    r"""Return the error :math:`|y - \hat y| / |y|` of ridge regression; alpha minimizes its mean over the folds."""
    folds = _folds(len(y_train))
    model = FeatureRegressor(FunctionTransformer(), alphas=ALPHAS, cv=PredefinedSplit(folds))
    _fit_quietly(model, train, y_train)
    squares = np.array([np.mean(np.square(y_train[folds == fold])) for fold in range(N_FOLDS)])
    errors = np.sqrt(model.cv_errors_ / squares).mean(axis=1)
    alpha = ALPHAS[errors.argmin()]
    if alpha != model.alpha_:  # the model minimizes the squared error, not the relative one
        model = FeatureRegressor(FunctionTransformer(), alphas=[alpha], cv=PredefinedSplit(folds)).fit(train, y_train)
    residuals = y_test - model.predict(test)
    return Prediction(float(errors.min()), float(np.linalg.norm(residuals) / np.linalg.norm(y_test)), alpha)


def classification_error(train: Floats, y_train: Array, test: Floats, y_test: Array) -> Prediction:
    """Return the share of misclassified rows of an L2-loss support vector machine; C minimizes it over the folds."""
    model = FeatureClassifier(FunctionTransformer(), Cs=CS, cv=PredefinedSplit(_folds(len(y_train))))
    _fit_quietly(model, train, y_train)
    wrong = model.predict(test) != y_test
    return Prediction(1.0 - model.best_score_, float(np.mean(wrong)), model.C_)


def _fit_quietly(model: FeatureRegressor | FeatureClassifier, train: Floats, y_train: Array) -> None:
    """Fit without warnings of large values of C, which are seldom selected, and of the edges of the grids."""
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)
        filterwarnings("ignore", "The best one of", UserWarning)
        model.fit(train, y_train)


def _folds(n_rows: int) -> Indices:
    """Return the fold of each row, assigned in a random order because files are often sorted."""
    return np.random.default_rng(0).permutation(n_rows) % N_FOLDS
