# SPDX-License-Identifier: BSD-3-Clause
"""What the linear models on Fourier features share: their features, class labels, folds, files.

None of the models holds the features of all rows of a large data set.
"""

import reprlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bochner.feature_maps import apply_to_features
from bochner.fourier_features import FourierFeatures
from bochner.linear_models.folds import ClassCounts, InTurn, StratifiedFolds, fold_numbers, n_folds_of
from bochner.linear_models.training_sets import Batch, MemorySet, PiecedSet, TrainingSet, class_counts
from bochner.rows import (
    Array,
    Floats,
    Indices,
    PiecedRows,
    Pieces,
    Sums,
    first_rows,
    in_pieces,
    is_collection,
    map_rows,
    template,
)
from bochner.tables.encoding import EncodedTable, Encoding
from bochner.tables.reader import Table
from bochner.tables.survey import survey
from bochner.validation import positive_values

__all__ = [
    "Head",
    "LabelMixin",
    "class_column",
    "class_indicators",
    "class_labels",
    "indicators",
    "is_path",
    "refuse_pieces",
]

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
    cv: Any
    features_: Any  # FourierFeatures; an attribute here, computed there
    _dtype: str

    def _fit_features(
        self, X: Any, y: Any, weights: Floats | None, encode: Callable[[Any], Floats]
    ) -> list[FourierFeatures]:
        """The features, fitted for each of the length scales; `encode` makes targets of y if they learn from them."""
        factors = positive_values("length_scales", self.length_scales)
        features = FourierFeatures() if self.features is None else clone(self.features)
        features.set_params(random_state=self._seeded(features.random_state))
        features._validate_params()
        if factors.tolist() == [1.0]:
            return [features._fit(X, y, weights, encode, self.verbose)]
        measured = features._measure(X, y, weights, encode, self.verbose)
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
        """New rows, fit for the features; of a Dask collection only what can be checked without a look."""
        check_is_fitted(self)
        features = self.features_
        options: Any = {"accept_sparse": "csr", "dtype": features.frequencies_.dtype, "reset": False}
        if isinstance(X, Pieces) or is_collection(X):
            empty = X.templates["X"] if isinstance(X, Pieces) else template(X)
            validate_data(self, empty, ensure_min_samples=0, **options)
            return X
        return features._validate(validate_data(self, X, ensure_all_finite=False, **options))

    def _map_scores(self, X: Any, finish: Callable[[Floats], Any] | None = None) -> Any:
        """`finish` of the scores z(x) . c + b, of shape (n_samples, n_columns); lazily of a Dask collection."""
        if is_path(X):
            pieces = [self._map_scores(rows, finish) for _, rows in self._encoded(X).batches()]
            if not pieces:
                raise ValueError(f"{X} has no rows to predict.")
            return np.concatenate(pieces)
        X = self._validate_rows(X)
        return map_rows(self._scoring(finish), X, self.features_._prepared)

    def _scoring(self, finish: Callable[[Floats], Any] | None = None) -> Callable[[Any], Any]:
        """What `_map_scores` does with validated rows, to be sent to where they lie."""
        return partial(_finished_scores, self.features_, *self._coefficients(), finish)

    def _pieced_rows(self, pieces: Pieces) -> PiecedRows:
        """Rows to learn from that lie in pieces; what can be checked without a look at them is."""
        if "y" not in pieces.templates:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None; give y."
            )
        options: Any = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        checked = validate_data(self, pieces.templates["X"], ensure_min_samples=0, **options)
        self._dtype = checked.dtype.name
        rows = PiecedRows(pieces, checked.dtype)
        if not rows.shape[0]:
            raise ValueError(f"Found array with 0 sample(s) (shape={rows.shape}) while a minimum of 1 is required.")
        return rows

    def _score_pieces(self, pieces: Pieces, check: Callable[[Any], Array], part: Callable[[Any, Batch], Sums]) -> Sums:
        """Sums that `part` makes of predictions and batches of rows, which stay where they lie."""
        self._validate_rows(pieces)
        rows = PiecedRows(pieces, self.features_.frequencies_.dtype)
        if "y" not in pieces.templates:
            raise ValueError("A score compares predictions with y, which is None; give y.")
        if not rows.shape[0]:
            raise ValueError(
                "Found array with 0 sample(s) while a minimum of 1 is required: there is nothing to score."
            )
        scored = PiecedSet(rows, check, InTurn(0), rows.everywhere(0))
        sums = scored.accumulate(partial(_scored, part, self._scoring(), self.features_._prepared))
        if not sums:
            raise ValueError("No row has a positive `sample_weight`; there is nothing to score.")
        return sums

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
        encoding = found.encoding(standardize=False)
        classes = found.classes(table) if is_classifier(self) else None
        sample = found.sample
        self._learn(EncodedTable(table, encoding), encoding.encode(sample.cells()), sample.targets, classes)
        self._encoding = encoding
        return self

    @abstractmethod
    def _learn(self, source: EncodedTable | Pieces, sample: Array, targets: Array, classes: list[Any] | None) -> None:
        """Learn from a table, given a sample of its rows and targets, and the classes, if it is about classes."""

    def _dealt_in_turn(self, pieces: Pieces, check: Callable[[Any], Array]) -> PiecedSet:
        """A table in pieces, its folds dealt out in turn as those of a file are."""
        rows = self._pieced_rows(pieces)
        return PiecedSet(rows, check, InTurn(n_folds_of(self.cv)), first_rows(pieces))

    def _validate_learning(
        self, X: Any, y: Any, sample_weight: Any, first: bool, **options: Any
    ) -> tuple[Any, Any, Any]:
        """Rows, targets and weights to learn from; all but the first rows have the width and dtype of those before."""
        if is_path(X):
            raise ValueError(f"Rows that come in pieces are arrays; `fit` reads a file such as {X} whole.")
        refuse_pieces(X, y, sample_weight)
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

    def predict(self, X: Any) -> Any:
        """Predict classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or path
            Rows, or a file when the model was fitted on one. What is returned of a Dask collection is a Dask array.

        Returns
        -------
        ndarray of shape (n_samples,)
            The class with the largest score.
        """
        check_is_fitted(self)
        return self._map_scores(X, partial(_best_classes, self.classes_))

    def decision_function(self, X: Any) -> Any:
        """Scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or path
            Rows, or a file when the model was fitted on one. What is returned of a Dask collection is a Dask array.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the second one's score, else one column a class.
        """
        return self._map_scores(X, _unless_single)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        float
            The accuracy.
        """
        pieces = in_pieces(X, y, sample_weight)
        if pieces is None:
            return float(super().score(X, y, sample_weight))
        check_is_fitted(self)
        sums = self._score_pieces(pieces, class_column, partial(_hits, self.classes_))
        return float(sums["hits"] / sums["weight"])

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
        return X, class_column(column_or_1d(y, warn=True)), weights

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

    def _training_set(self, X: Any, y: Any, sample_weight: Any) -> tuple[TrainingSet, Floats]:
        """Rows to learn from and the weights of the classes, which are now known."""
        self._forget()
        pieces = in_pieces(X, y, sample_weight)
        if pieces is None:
            X, y, weights = self._validate(X, y, sample_weight, first=True)
            rows = MemorySet(X, y, weights, *fold_numbers(self.cv, X, y, classifier=True))
            total = ClassCounts.of(rows.counted.y, rows.counted.weights)
            training: TrainingSet = rows
        else:
            training, total = self._pieced_set(pieces)
        order = np.argsort(total.classes)
        order = order[total.weights[order] > 0.0]
        if not len(order):
            raise ValueError("No row has a positive `sample_weight`; give some rows a weight.")
        self._set_classes(total.classes[order])
        return training, total.weights[order]

    def _pieced_set(self, pieces: Pieces) -> tuple[PiecedSet, ClassCounts]:
        n_folds = n_folds_of(self.cv)
        rows = self._pieced_rows(pieces)
        column_or_1d(pieces.templates["y"], warn=True)  # once, not for every piece
        counts = class_counts(rows, class_column)
        if not n_folds:
            return PiecedSet(rows, class_column, InTurn(0), rows.everywhere(0)), ClassCounts.total([*counts.values()])
        dealing, starts = StratifiedFolds.of(n_folds, [*counts.values()])
        training = PiecedSet(rows, class_column, dealing, dict(zip(counts, starts, strict=True)))
        return training, ClassCounts.total([*counts.values()])


def class_column(y: Any) -> Array:
    """Labels of classes, one a row."""
    labels: Array = column_or_1d(y)
    check_classification_targets(labels)
    return labels


def class_labels(classes: Array, y: Array) -> Indices:
    """Positions in `classes`, which are sorted."""
    labels = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = classes[labels] != y
    if unknown.any():
        raise ValueError(f"y has the label {y[unknown].tolist()[0]!r}, which is not among {classes.tolist()}.")
    return labels


def class_indicators(classes: Array, y: Array) -> Floats:
    """1 for a class, -1 for the rest: one column for two classes, else one a class."""
    return indicators(class_labels(classes, y), len(classes))


def indicators(labels: Indices, n_classes: int) -> Floats:
    """1 for a class, -1 for the rest: one column for two classes, the second one's, else one a class."""
    positive = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
    return np.where(labels[:, None] == positive, 1.0, -1.0)


def _finished_scores(
    features: FourierFeatures, coef: Floats, intercept: Floats, finish: Callable[[Floats], Any] | None, X: Any
) -> Any:
    scores = apply_to_features(features._block_map(), X, coef.shape[1], lambda columns: columns @ coef)
    scores += intercept
    scores = scores.astype(X.dtype, copy=False)
    return scores if finish is None else finish(scores)


def _unless_single(scores: Floats) -> Floats:
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _best_classes(classes: Array, scores: Floats) -> Array:
    labels = (scores[:, 0] > 0.0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return np.asarray(classes[labels])


def _scored(
    part: Callable[[Any, Batch], Sums], predict: Callable[[Any], Any], prepare: Callable[[Any], Any], batch: Batch
) -> Sums:
    return part(predict(prepare(batch.X)), batch)


def _hits(classes: Array, scores: Floats, batch: Batch) -> Sums:
    counts = np.ones(len(batch.y)) if batch.weights is None else batch.weights
    right = _best_classes(classes, scores) == batch.y
    return {"hits": np.array(counts @ right), "weight": np.array(counts.sum())}


def refuse_pieces(*collections: Any) -> None:
    """Refuse Dask collections where rows are added little by little."""
    if is_collection(*collections):
        raise ValueError("Rows that are added little by little are arrays; `fit` takes a Dask collection whole.")


def is_path(X: Any) -> bool:
    return isinstance(X, str | PathLike)
