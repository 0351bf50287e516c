# SPDX-License-Identifier: BSD-3-Clause
"""What the linear models on Fourier features share: their features, class labels, folds, files.

None of the models holds the features of all rows of a large data set.
"""

import reprlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bochner.blocks import Array, Floats, Indices
from bochner.features import map_features
from bochner.tables import EncodedTable, Encoding, Table, survey
from bochner.transformer import FourierFeatures
from bochner.weights import positive_values

__all__ = ["Head", "LabelMixin", "check_folds", "counted", "fold_numbers", "indicators", "is_path"]

# What a fit leaves behind, beside what scikit-learn's validation does.
FITTED = (
    *("_sums", "_prepared", "_choice", "_encoding", "_dtype", "_is_flat", "_seed", "_weights", "_calibrated"),
    *("features_", "C_", "classes_", "cv_errors_", "best_score_", "length_scale_scores_"),
)


class Head(BaseEstimator):
    """What the three estimators share: features and their length scale, validation, files."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "features": [FourierFeatures, None],
        "cv": ["cv_object"],
        "length_scales": ["array-like"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    features: FourierFeatures | None
    length_scales: Sequence[float]
    random_state: Any
    verbose: int
    features_: Any  # FourierFeatures; an attribute here, computed there
    _dtype: str

    def _fit_features(self, X: Any, targets: Callable[[], Any], weights: Floats | None) -> list[FourierFeatures]:
        """The features, fitted for each of the length scales; `targets` are asked for if they learn from them."""
        factors = positive_values("length_scales", self.length_scales)
        features = FourierFeatures() if self.features is None else clone(self.features)
        features.set_params(random_state=self._seeded(features.random_state))
        features._validate_params()
        y = targets() if features._learns() else None
        if factors.tolist() == [1.0]:
            return [features._fit(X, y, weights, self.verbose)]
        measured = features._measure(X, y, weights, self.verbose)
        if features.n_frequencies == "auto":  # all have as many as the shortest length scale needs
            shortest = clone(features).set_params(length_scale=measured * factors.min()).fit(X, sample_weight=weights)
            n_components = None if shortest.matrix_ is None else shortest.matrix_.shape[1]
            features.set_params(n_frequencies=len(shortest.weights_), n_components=n_components)
        candidates = [
            clone(features).set_params(length_scale=measured * factor).fit(X, sample_weight=weights)
            for factor in factors.tolist()
        ]
        for candidate in candidates if features._learns() else []:
            candidate.learning_gain_ = features.learning_gain_
        return candidates

    def _seeded(self, own: Any) -> int:
        """The seed of the features: the model's, else their own; one that is drawn is drawn once a fit."""
        state = own if self.random_state is None else self.random_state
        if isinstance(state, Integral):
            return int(state)
        if not hasattr(self, "_seed"):
            self._seed = int(check_random_state(state).randint(2**31 - 1))
        return self._seed

    def _forget(self) -> None:
        """Drop what an earlier fit has learned."""
        for name in FITTED:
            self.__dict__.pop(name, None)

    def _validate_rows(self, X: Any) -> Any:
        """New rows, fit for the features."""
        check_is_fitted(self)
        features = self.features_
        X = validate_data(
            self, X, accept_sparse="csr", dtype=features.frequencies_.dtype, reset=False, ensure_all_finite=False
        )
        return features._validate(X)

    def _scores(self, X: Any) -> Floats:
        """z(x) . c + b for every column of coefficients: shape (n_samples, n_columns)."""
        if is_path(X):
            pieces = [self._scores(rows) for _, rows in self._encoded(X).batches()]
            if not pieces:
                raise ValueError(f"{X} has no rows to predict.")
            return np.concatenate(pieces)
        X = self._validate_rows(X)
        coef, intercept = self._coefficients()
        scores = map_features(self.features_._block_map(), X, coef.shape[1], lambda features: features @ coef)
        scores += intercept
        return scores.astype(X.dtype, copy=False)

    def _encoded(self, path: Any) -> EncodedTable:
        encoding: Encoding | None = getattr(self, "_encoding", None)
        if encoding is None:
            raise ValueError(f"{type(self).__name__} was fitted on an array and cannot read {path}; give an array.")
        return encoding.open(path)

    def _fit_file(self, path: Any, target: Any, sample_weight: Any) -> Self:
        """Learn from a file: one look at every row for a sample and the classes, then as many as it takes."""
        if sample_weight is not None:
            raise ValueError("`sample_weight` is for arrays; the rows of a file count once each.")
        if not isinstance(target, str):
            raise ValueError(
                f"`y` must be the name of the column of {path} to predict. Got {reprlib.repr(target)} instead."
            )
        table = Table(path, target)
        if table.target_is_text and is_regressor(self):
            raise ValueError(
                f"{path}: column {target!r} holds text, which is no target for a regression; use "
                f"FourierRidgeClassifier or FourierSVC."
            )
        self._forget()
        found = survey(table, self._seeded(None if self.features is None else self.features.random_state))
        encoding = found.encoding(standardise=False)
        classes = found.classes(table) if is_classifier(self) else None
        sample = found.sample
        self._learn(EncodedTable(table, encoding), encoding.encode(sample.cells()), sample.targets, classes)
        self._encoding = encoding
        return self

    @abstractmethod
    def _learn(self, source: EncodedTable, sample: Array, targets: Array, classes: list[Any] | None) -> None:
        """Learn from a table, given a sample of its rows and targets, and the classes, if it is about classes."""

    def _validate_learning(
        self, X: Any, y: Any, sample_weight: Any, first: bool, **options: Any
    ) -> tuple[Any, Any, Any]:
        """Rows, targets and weights to learn from; all but the first rows have the width and dtype of those before."""
        if is_path(X):
            raise ValueError(f"Rows that come in pieces are arrays; `fit` reads a file such as {X} whole.")
        dtype = [np.float64, np.float32] if first else self._dtype
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=dtype, reset=first, **options)
        self._dtype = X.dtype.name
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return X, y, sample_weight

    @abstractmethod
    def _coefficients(self) -> tuple[Floats, Floats]:
        """Coefficients (width, n_columns) and intercepts (n_columns,)."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LabelMixin(ClassifierMixin):
    """Class labels for the two classifiers."""

    classes_: Array

    def predict(self, X: Any) -> Array:
        """Predict classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or path
            Rows, or a file when the model was fitted on one.

        Returns
        -------
        ndarray of shape (n_samples,)
            The class with the largest score.
        """
        scores = self.decision_function(X)
        labels = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[labels])

    def decision_function(self, X: Any) -> Floats:
        """Scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or path
            Rows, or a file when the model was fitted on one.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the second one's score, else one column a class.
        """
        scores = self._scores(X)
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores)

    @property
    def coef_(self) -> Floats:
        """Coefficients of the features, one row a class, a single row for two classes."""
        return np.asarray(self._coefficients()[0].T)

    @property
    def intercept_(self) -> Floats:
        """One constant a row of `coef_`."""
        return np.asarray(self._coefficients()[1])

    def _validate(self, X: Any, y: Any, sample_weight: Any, *, first: bool) -> tuple[Any, Array, Floats | None]:
        """Rows, labels as given, weights."""
        X, y, weights = self._validate_learning(X, y, sample_weight, first)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y, weights

    def _set_classes(self, classes: Array) -> None:
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; y has one class only, {classes.tolist()[0]!r}."
            )
        self.classes_ = classes

    @property
    def _n_targets(self) -> int:
        """Problems to solve: one for two classes, the second against the first; else one a class, against the rest."""
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _labels(self, y: Array) -> Indices:
        """Positions in `classes_`."""
        labels = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[labels] != y
        if unknown.any():
            raise ValueError(
                f"y has the label {y[unknown].tolist()[0]!r}, which is not among {self.classes_.tolist()}."
            )
        return labels

    def _indicators(self, y: Array) -> Floats:
        """1 for a class, -1 for the rest: one column for two classes, else one a class."""
        return indicators(self._labels(y), len(self.classes_))


def indicators(labels: Indices, n_classes: int) -> Floats:
    """1 for a class, -1 for the rest: one column for two classes, the second one's, else one a class."""
    positive = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
    return np.where(labels[:, None] == positive, 1.0, -1.0)


def fold_numbers(cv: Any, X: Any, y: Array, *, classifier: bool) -> tuple[Indices, int]:
    """The fold that tests each row, -1 for a row that is always trained on, and the number of folds."""
    folds, n_folds = np.full(X.shape[0], -1), 0
    if cv is None:
        return folds, n_folds
    for fold, (train, test) in enumerate(check_cv(cv, y, classifier=classifier).split(X, y)):
        trained = np.zeros(len(folds), dtype=bool)
        trained[train] = True
        if trained[test].any() or np.count_nonzero(trained) + len(test) < len(folds) or (folds[test] != -1).any():
            raise ValueError(
                f"`cv` must test every row at most once and train on all others, as KFold does. Got "
                f"{reprlib.repr(cv)} instead."
            )
        folds[test] = fold
        n_folds = fold + 1
    if not n_folds:
        raise ValueError(f"`cv` gives no folds; give a number of folds, or None. Got {reprlib.repr(cv)}.")
    return folds, n_folds


def check_folds(cv: Any, fold_weights: Floats, weight: float) -> None:
    """Refuse folds without a row that counts, or with all of them."""
    if not (fold_weights > 0.0).all() or not (fold_weights < weight).all():
        raise ValueError(
            f"A fold of `cv`={reprlib.repr(cv)} has no rows to train or to test on (of positive weight); give fewer "
            f"folds or more rows."
        )


def counted(X: Any, y: Array, weights: Floats | None, folds: Indices) -> tuple[Any, Array, Floats | None, Indices]:
    """The rows that count: those with a positive weight."""
    if weights is None or weights.all():
        return X, y, weights, folds
    chosen = weights > 0.0
    return X[chosen], y[chosen], weights[chosen], folds[chosen]


def is_path(X: Any) -> bool:
    return isinstance(X, str | PathLike)
