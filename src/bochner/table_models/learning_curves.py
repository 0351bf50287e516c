# SPDX-License-Identifier: BSD-3-Clause
"""Learning curves: the error on held-out rows against the number of training rows, and of features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from bochner.features.kernel_features import KernelFeatures
from bochner.rows import Floats
from bochner.table_models.held_out import Evidence, Split, refit

__all__ = ["LearningCurve", "learning_curves"]

SHARES = (8, 4, 2)  # the divisors of smaller numbers of rows and features
LEAST_ROWS = 20
LEAST_COLUMNS = 8


@dataclass(frozen=True)
class LearningCurve:
    """Errors on held-out rows against a size.

    Attributes
    ----------
    subject : {"training rows", "features"}
        What the sizes are numbers of.
    sizes : ndarray of shape (n_sizes,)
        The sizes.
    errors : ndarray of shape (n_sizes,)
        Root mean squared errors, or error rates.
    deviations : ndarray of shape (n_sizes,)
        Their standard errors, from the held-out rows.
    """

    subject: str
    sizes: Any
    errors: Floats
    deviations: Floats


def learning_curves(split: Split) -> list[LearningCurve]:
    """Fit on an eighth, a quarter and a half of the rows, then with an eighth, a quarter and a half of the features.

    Kernel and length scales are those of the fit on all rows of the split, and the penalty is chosen again.

    Parameters
    ----------
    split : Split
        Rows to fit on, and held-out rows with the estimator that was fitted on them.
    """
    held_out = split.held_out
    whole: Any = held_out.estimator
    features = whole.features_
    if not isinstance(features, KernelFeatures):
        return []
    pinned, n_rows = features.with_fitted_length_scale(), len(split.targets)
    order = np.random.default_rng(0).permutation(n_rows)
    rows = [n_rows // share for share in SHARES if n_rows // share >= LEAST_ROWS]
    width = whole.coef_.shape[-1]
    widths = [width // share for share in SHARES if width // share >= LEAST_COLUMNS]
    points = {"training rows": [_errors(split, order[:n], pinned) for n in rows]}
    points["features"] = [_errors(split, order, _resized(pinned, n)) for n in widths]
    sizes = {"training rows": [*rows, n_rows], "features": [*widths, width]}
    return [
        LearningCurve(subject, np.array(sizes[subject]), *np.transpose([*found, held_out.evidence]))
        for subject, found in points.items()
        if found and None not in found
    ]


def _errors(split: Split, chosen: Any, features: KernelFeatures) -> Evidence | None:
    """Fit on chosen rows and evaluate on the held-out rows; None if they have too few rows of a class."""
    held_out = split.held_out
    try:
        smaller = refit(held_out.estimator, split.rows[chosen], split.targets[chosen], clone(features))
    except ValueError:
        return None
    predicted = np.asarray(smaller.predict(held_out.rows))
    return Evidence.of(held_out.model.task, held_out.targets, predicted)


def _resized(features: KernelFeatures, n_columns: int) -> KernelFeatures:
    resized: KernelFeatures = clone(features)
    return resized.set_params(**features.size_parameters(n_columns))
