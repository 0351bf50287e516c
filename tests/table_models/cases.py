# SPDX-License-Identifier: BSD-3-Clause
"""Models to fit on the table of `tests.tables.tables`, by name."""

from bochner.table_models.training import Settings, fit_table
from bochner.tables.file_table import FileTable

TARGETS = {"regression": "y", "classification": "kind", "svm": "kind", "logistic": "kind", "landmarks": "y"}
SETTINGS = {
    "regression": Settings("ridge", "auto", ["gaussian"], 16, [0.7, 1.5], 3),
    "classification": Settings("ridge", "auto", ["gaussian", "exponential"], 16, [1.0], 3),
    "svm": Settings("svm", "auto", ["gaussian"], 8, [1.0], 3),
    "logistic": Settings("logistic", "auto", ["gaussian"], 8, [1.0], 3),
    "landmarks": Settings("ridge", "auto", ["matern"], 8, [0.7, 1.5], 3, features="landmarks"),
}


def ignore(message):
    """Report a message to nobody."""


def fit_case(name, path, **options):
    """Fit a model on a file; `options` are those of `fit_table`."""
    return fit_table(FileTable(path, TARGETS[name]), SETTINGS[name], ignore, **options).model


def fitted_arrays(model):
    """Return the arrays that determine the predictions of a `FittedModel`."""
    estimator, features = model.estimator, model.estimator.features_
    penalty = estimator.C_ if hasattr(estimator, "C_") else estimator.alpha_
    names = ("landmarks_", "whitening_") if hasattr(features, "landmarks_") else ("frequencies_", "weights_")
    return {
        "coef": estimator.coef_,
        "intercept": estimator.intercept_,
        "penalty": penalty,
        "scores": estimator.length_scale_scores_,
        "kernel scores": estimator.kernel_scores_,
        **{name: getattr(features, name) for name in names},
        "mean": model.encoding.mean,
        "scale": model.encoding.scale,
    }
