# SPDX-License-Identifier: BSD-3-Clause
"""Contributions of the columns of a table to single predictions, as columns beside them."""

import numpy as np

from bochner.inspection.importance import column_contributions
from bochner.rows import Array, Floats
from bochner.table_models.fitted_model import FittedModel

__all__ = ["explanation_columns"]


def explanation_columns(model: FittedModel, rows: Array) -> dict[str, Array]:
    """Return what each column of a table contributes to the predictions of rows, one column per column of the table.

    A prediction is the baseline, which is the prediction of the mean training row, plus the contributions. For classes,
    these are contributions to the score of the predicted class, which is added: positive ones speak for the class.

    Parameters
    ----------
    model : FittedModel
        The model.
    rows : ndarray of shape (n_rows, n_encoded_columns)
        Encoded rows.

    Returns
    -------
    dict of str to ndarray of shape (n_rows,)
        The columns "<target>_baseline" and "<target>_from_<column>", and "<target>_score" for classes.
    """
    estimator, groups = model.estimator.without_encoding(), model.encoding.origins
    found = column_contributions(estimator, rows, baseline=model.baseline, groups=groups)
    outputs, signs = _predicted_outputs(model, rows)
    numbers = np.arange(len(rows))
    parts = found.contributions[numbers, :, outputs] * signs[:, None]
    baseline = found.baseline[outputs] * signs
    columns = {} if model.task == "regression" else {f"{model.target}_score": baseline + parts.sum(axis=1)}
    columns[f"{model.target}_baseline"] = baseline
    return columns | {f"{model.target}_from_{name}": parts[:, j] for j, name in enumerate(found.names)}


def _predicted_outputs(model: FittedModel, rows: Array) -> tuple[Array, Floats]:
    """Return the number of the output that predicts each row, and the sign of its score for the predicted class."""
    if model.task == "regression":
        return np.zeros(len(rows), dtype=np.intp), np.ones(len(rows))
    scores = np.asarray(model.estimator.without_encoding().decision_function(rows))
    if scores.ndim == 1:  # the score of the second of two classes
        return np.zeros(len(rows), dtype=np.intp), np.where(scores > 0.0, 1.0, -1.0)
    return scores.argmax(axis=1), np.ones(len(rows))
