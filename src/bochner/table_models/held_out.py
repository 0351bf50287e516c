# SPDX-License-Identifier: BSD-3-Clause
"""Held-out rows of a table: a model that was not fitted on them, its predictions and its errors there."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import train_test_split

from bochner.features.fourier_features import FourierFeatures
from bochner.features.kernel_features import KernelFeatures
from bochner.rows import Array, Floats, Mask
from bochner.table_models.fitted_model import Estimator, FittedModel
from bochner.tables.columns import import_pyarrow
from bochner.tables.survey import Survey

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Evidence", "HeldOut", "Responses", "Split", "hold_out", "observed_targets", "refit", "respond"]

MOST_ROWS = 10_000  # of the sample that is divided
LEAST_ROWS = 50
HELD_OUT_SHARE = 0.2
CHANCE_DEVIATIONS = 3.0  # beyond these many standard deviations, a correlation is not chance


class Responses(NamedTuple):
    """What a model says about rows, for plots: numbers, probabilities of classes or scores of classes.

    Attributes
    ----------
    kind : {"prediction", "probability", "score"}
        What the values are.
    names : list of str
        Names of the outputs: the classes, or the target of a regression.
    values : ndarray of shape (n_rows, n_outputs)
        The values; for two classes those of the second one.
    """

    kind: str
    names: list[str]
    values: Floats


def respond(model: FittedModel, estimator: Any, rows: Array) -> Responses:
    r"""Return predictions, or probabilities of classes where the model has them, and else scores.

    The scores s of ridge regression on the indicators 1 and -1 of a class estimate :math:`2 p - 1`, so that
    :math:`(1 + s) / 2`, clipped to the range from 0 to 1, is taken for the probability p.

    Parameters
    ----------
    model : FittedModel
        The model, for the name of the target.
    estimator : FeatureRegressor or FeatureClassifier
        What predicts: the estimator of the model, or one fitted on fewer rows.
    rows : ndarray of shape (n_rows, n_encoded_columns)
        Encoded rows.
    """
    estimator = estimator.without_encoding()
    if model.task == "regression":
        return Responses("prediction", [model.target], np.asarray(estimator.predict(rows), dtype=float).reshape(-1, 1))
    classes = [str(label) for label in estimator.classes_.tolist()]
    names = classes[1:] if len(classes) == 2 else classes
    if hasattr(estimator, "predict_proba"):
        values = np.asarray(estimator.predict_proba(rows), dtype=float)
        return Responses("probability", names, values[:, 1:] if len(classes) == 2 else values)
    scores = np.asarray(estimator.decision_function(rows), dtype=float).reshape(len(rows), -1)
    if estimator.loss == "squared_error":
        return Responses("probability", names, np.clip(0.5 * (1.0 + scores), 0.0, 1.0))
    return Responses("score", names, scores)


class Evidence(NamedTuple):
    """A measure of the error of predictions, with its standard error.

    Attributes
    ----------
    error : float
        Root mean squared error of a regression, share of wrong classes of a classification.
    deviation : float
        Its standard error.
    """

    error: float
    deviation: float

    @classmethod
    def of(cls, task: str, actual: Array, predicted: Array) -> "Evidence":
        """Compare predictions with targets."""
        losses = np.square(actual - predicted) if task == "regression" else (actual != predicted).astype(float)
        mean, deviation = float(losses.mean()), float(losses.std() / np.sqrt(len(losses)))
        if task == "classification":
            return cls(mean, deviation)
        return cls(mean**0.5, deviation / (2.0 * mean**0.5) if mean > 0.0 else 0.0)


@dataclass(frozen=True)
class HeldOut:
    """Rows that an estimator was not fitted on.

    Attributes
    ----------
    model : FittedModel
        The model that is described.
    estimator : FeatureRegressor or FeatureClassifier
        What predicts: the estimator of the model, or the same one fitted on fewer rows.
    cells : RecordBatch
        The cells of the rows.
    targets : ndarray of shape (n_rows,)
        Their targets.
    """

    model: FittedModel
    estimator: Estimator
    cells: "pa.RecordBatch"
    targets: Array

    @cached_property
    def rows(self) -> Array:
        """The encoded rows."""
        return self.model.encoding.encode(self.cells)

    @cached_property
    def predicted(self) -> Array:
        """The predictions."""
        return np.asarray(self.estimator.without_encoding().predict(self.rows))

    @cached_property
    def responses(self) -> Responses:
        """The predictions of a regression, or the probabilities or scores of the classes."""
        return respond(self.model, self.estimator, self.rows)

    @property
    def evidence(self) -> Evidence:
        """The error of the predictions."""
        return Evidence.of(self.model.task, self.targets, self.predicted)

    @property
    def constant(self) -> Evidence:
        """The error of the best constant prediction: the mean, or the most frequent class."""
        if self.model.task == "regression":
            return Evidence.of("regression", self.targets, np.full(len(self.targets), self.targets.mean()))
        labels, counts = np.unique(self.targets, return_counts=True)
        return Evidence.of("classification", self.targets, np.full(len(self.targets), labels[counts.argmax()]))

    @property
    def measures(self) -> dict[str, float]:
        """Measures of the errors of the predictions."""
        if self.model.task == "classification":
            return {"error_rate": self.evidence.error}
        varies = len(self.targets) > 1 and np.ptp(self.targets) > 0.0
        return {
            "rmse": self.evidence.error,
            "mean_absolute_error": float(mean_absolute_error(self.targets, self.predicted)),
            "r2": float(r2_score(self.targets, self.predicted)) if varies else float("nan"),
        }

    def is_class(self, number: int) -> Mask:
        """Return which rows have the class of an output."""
        labels = np.asarray(self.estimator.classes_)
        return np.asarray(self.targets == (labels[1:] if len(labels) == 2 else labels)[number])

    @property
    def has_learned(self) -> bool:
        """Whether the predictions are correlated with the targets by more than chance explains.

        The correlation of unrelated columns has the standard deviation 1 / sqrt(n_rows).
        """
        is_regression = self.model.task == "regression"
        pairs = (
            (self.targets if is_regression else self.is_class(k), self.responses.values[:, k])
            for k in range(self.responses.values.shape[1])
        )
        correlations = [np.corrcoef(a, b)[0, 1] for a, b in pairs if np.ptp(a.astype(float)) > 0.0 and np.ptp(b) > 0.0]
        # The largest of K normal variables is about sqrt(2 log K).
        limit = np.sqrt(CHANCE_DEVIATIONS**2 + 2.0 * np.log(max(1, len(correlations))))
        return bool(max(correlations, default=0.0) * np.sqrt(len(self.targets)) > limit)


def observed_targets(model: FittedModel, cells: "pa.RecordBatch") -> Array:
    """Return the targets of rows as floats, or as classes of the type that the model predicts.

    Parameters
    ----------
    model : FittedModel
        The model.
    cells : RecordBatch
        Rows without missing targets.
    """
    targets = model.encoding.targets(cells)
    if model.task == "regression":
        return targets.astype(np.float64)
    classes = np.asarray(model.estimator.classes_)
    return targets.astype(classes.dtype) if classes.dtype.kind in "iu" else targets  # whole numbers of a CSV file


class Split(NamedTuple):
    """A sample of rows divided into rows to fit on and held-out rows."""

    rows: Array
    targets: Array
    held_out: HeldOut


def hold_out(model: FittedModel, survey: Survey, seed: int = 0, *, relearn: bool = True) -> Split | None:
    """Fit the choices of a model on four fifths of the sampled rows and hold out the others.

    The kernel and the multiple of the length scale are those of the model. Length scales that are learned are learned
    again, so that nothing of the held-out targets is known but these choices.

    Parameters
    ----------
    model : FittedModel
        The model.
    survey : Survey
        The survey of its table, with the sampled rows.
    seed : int, default=0
        Seed of the division.
    relearn : bool, default=True
        Whether length scales are learned again; False keeps those of the model, which is faster.

    Returns
    -------
    Split or None
        The rows and the held-out rows; None if there are too few rows, or too few of a class.
    """
    cells, encoding = survey.sample.cells, model.encoding
    if cells is None or cells.num_rows < LEAST_ROWS:
        return None
    order = np.random.default_rng(seed).permutation(cells.num_rows)[:MOST_ROWS]
    targets = observed_targets(model, cells)
    labels = targets[order] if model.task == "classification" else None
    if labels is not None and np.unique(labels, return_counts=True)[1].min() < 2:
        labels = None
    try:
        train, test = train_test_split(order, test_size=HELD_OUT_SHARE, stratify=labels, random_state=seed)
        rows = encoding.encode(_take(cells, train))
        estimator = refit(model.estimator, rows, targets[train], None if relearn else _pinned(model.estimator))
    except ValueError:  # too few rows of a class for a part, or for the folds
        return None
    return Split(rows, targets[train], HeldOut(model, estimator, _take(cells, test), targets[test]))


def refit(fitted: Any, rows: Array, targets: Array, features: KernelFeatures | None = None) -> Any:
    """Fit the choices of a fitted estimator on other rows.

    Parameters
    ----------
    fitted : FeatureRegressor or FeatureClassifier
        The fitted estimator.
    rows : ndarray of shape (n_rows, n_encoded_columns)
        Encoded rows.
    targets : ndarray of shape (n_rows,)
        Their targets.
    features : KernelFeatures, default=None
        Unfitted features; None means those of the estimator, with its kernel and multiple of the length scale.

    Returns
    -------
    FeatureRegressor or FeatureClassifier
        The estimator, fitted on these rows.
    """
    estimator = clone(fitted)
    if isinstance(fitted.features_, KernelFeatures):
        factors = fitted.length_scale_factors
        factor = factors[int(np.argmax(fitted.length_scale_scores_))] if len(factors) > 1 else factors[0]
        factor = 1.0 if features is not None else factor
        chosen = features if features is not None else _chosen_features(fitted)
        estimator.set_params(features=chosen, kernels=None, length_scale_factors=[float(factor)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of folds without one of the classes
        return estimator.fit(rows, targets)


def _pinned(fitted: Any) -> Any:
    features = fitted.features_
    return features.with_fitted_length_scale() if isinstance(features, KernelFeatures) else None


def _chosen_features(fitted: Any) -> Any:
    """Return unfitted features with the chosen kernel."""
    features = FourierFeatures() if fitted.features is None else clone(fitted.features)
    return features.set_params(kernel=fitted.features_.kernel)


def _take(cells: "pa.RecordBatch", positions: Array) -> "pa.RecordBatch":
    return cells.take(import_pyarrow().array(positions))
