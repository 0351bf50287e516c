# SPDX-License-Identifier: BSD-3-Clause
"""`FourierRidge` and `FourierRidgeClassifier`: one pass over the rows for all penalties and folds.

What is learned are sums over rows, so that a model can be continued with more rows.
"""

import reprlib
import warnings
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, validate_data

from bochner.feature_maps import add_moments, apply_to_features
from bochner.feature_maps.moments import SPAN_ROWS
from bochner.fourier_features import FourierFeatures
from bochner.learning.ridge import RidgeSolution, cross_validated_errors, generalised_errors, ridge_solution, spread
from bochner.linear_models.folds import InTurn, KFolds, check_folds, fold_numbers, n_folds_of
from bochner.linear_models.linear_model import Head, LabelMixin, class_column, class_indicators, is_path, refuse_pieces
from bochner.linear_models.training_sets import Batch, MemorySet, PiecedSet, TrainingSet
from bochner.progress import tracked
from bochner.rows import Array, Floats, Pieces, Sums, first_rows, in_pieces, map_rows, row_spans, stacked
from bochner.tables.encoding import EncodedTable
from bochner.validation import positive_values

__all__ = ["FourierRidge", "FourierRidgeClassifier"]

LARGEST = 1e150  # the squares of larger targets overflow, those of all smaller ones vanish
ALPHAS = tuple(float(alpha) for alpha in np.logspace(-8, 4, 25))


@dataclass
class _Sums:
    """Second moments of the rows seen so far, for each candidate and fold, and the rows that wait for a full span.

    `totals[c][f]` belongs to candidate c and fold f; the last fold has the rows that are always trained on.
    """

    n_folds: int
    n_targets: int
    candidates: list[FourierFeatures] = field(default_factory=list)
    totals: list[Floats] = field(default_factory=list)
    # Subtracted from targets, so that their squares keep their digits; empty before the first row.
    origin: Floats = field(default_factory=lambda: np.empty(0))
    n_rows: int = 0
    waiting: list[tuple[Any, Floats, Floats]] = field(default_factory=list)
    n_waiting: int = 0

    def begin(self, candidates: list[FourierFeatures]) -> None:
        """Sum for these features."""
        width = candidates[0]._n_features_out + 1 + self.n_targets
        self.candidates = candidates
        self.totals = [np.zeros((self.n_folds + 1, width, width)) for _ in candidates]

    def add(self, X: Any, targets: Floats, weights: Floats) -> None:
        """Add rows; their folds are dealt out in turn."""
        if not len(self.origin):
            self.origin = np.median(targets[:SPAN_ROWS], axis=0)
        folds = InTurn(self.n_folds).folds(self.n_rows, targets)
        for features, totals in zip(self.candidates, self.totals, strict=True):
            add_moments(totals, features._block_map(), X, targets - self.origin, weights, folds)
        self.n_rows += X.shape[0]

    def take(self, sums: Sums) -> None:
        """Add sums of `_moments`."""
        self.n_rows += int(sums.pop("n_rows"))
        for (candidate, fold), moments in sums.items():
            self.totals[candidate][fold] += moments


def _moments(candidates: list[FourierFeatures], encode: Callable[[Any], Floats], origin: Floats, batch: Batch) -> Sums:
    """Second moments of a batch of rows, by the numbers of the candidate and of the fold."""
    shortest = min(candidates, key=lambda features: float(np.min(features.length_scale_)))
    X, targets = shortest._prepared(batch.X), encode(batch.y) - origin
    sums: Sums = {"n_rows": np.array(len(targets))}
    for number, features in enumerate(candidates):
        totals: dict[int, Any] = defaultdict(float)
        add_moments(totals, features._block_map(), X, targets, batch.weights, batch.folds)
        sums |= {(number, fold): moments for fold, moments in totals.items()}
    return sums


@dataclass(frozen=True)
class _Choice:
    """The outcome of the selection."""

    features: FourierFeatures
    alpha: float
    solution: RidgeSolution
    errors: Floats
    scores: Floats


class _RidgeHead(Head):
    """Ridge regression on features, from second moments."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**Head._parameter_constraints, "alphas": ["array-like"]}

    def __init__(
        self,
        features: FourierFeatures | None = None,
        *,
        alphas: Sequence[float] = ALPHAS,
        cv: Any = 5,
        length_scales: Sequence[float] = (1.0,),
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.alphas = alphas
        self.cv = cv
        self.length_scales = length_scales
        self.random_state = random_state
        self.verbose = verbose

    @property
    def features_(self) -> FourierFeatures:
        """The fitted features."""
        return self._solved().features

    @property
    def alpha_(self) -> float:
        """The chosen penalty, relative to the number of rows."""
        return self._solved().alpha

    @property
    def cv_errors_(self) -> Floats:
        """Mean squared errors (n_alphas, n_folds) at the chosen length scale, the mean over targets."""
        return self._solved().errors

    @property
    def best_score_(self) -> float:
        """Mean R2 over the folds of the chosen penalty and length scale."""
        return float(self._solved().scores.max())

    @property
    def length_scale_scores_(self) -> Floats:
        """The best mean R2 of each of the `length_scales`."""
        return self._solved().scores

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit_features(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the features alone, for `partial_fit` to use; without, it takes them from the first 8,192 rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A sample of the rows to come.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Their targets, for features that learn length scales; else ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        self
            With fitted features and nothing learned on them yet.
        """
        refuse_pieces(X, y, sample_weight)
        self._forget()
        options: Any = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        if y is None:
            X = validate_data(self, X, **options)
        else:
            X, y = validate_data(self, X, y, multi_output=True, **options)
        self._dtype = X.dtype.name
        self._prepared = self._fit_features(X, y, sample_weight, self._sample_targets)
        return self

    @abstractmethod
    def _sample_targets(self, y: Any) -> Floats:
        """Targets (n_samples, n_targets) of a sample of rows."""

    def _fit(
        self,
        training: TrainingSet,
        n_targets: int,
        encode: Callable[[Any], Floats],
        candidates: list[FourierFeatures] | None = None,
    ) -> Self:
        """Learn from rows whose targets `encode` makes, on the given features, or on those that the rows choose."""
        positive_values("alphas", self.alphas)
        sums = _Sums(training.n_folds, n_targets)
        sums.begin(candidates or self._fit_features(*training.for_features, encode))
        sums.origin = np.median(encode(training.first_targets(SPAN_ROWS)), axis=0)
        moments = partial(_moments, sums.candidates, encode, sums.origin)
        sums.take(training.accumulate(moments, "summing", self.verbose))
        self._sums = sums
        self._choice: _Choice | None = self._choose(sums)
        return self

    def _learn(self, source: EncodedTable | Pieces, sample: Array, targets: Array, classes: list[Any] | None) -> None:
        self.fit_features(sample, targets)
        if isinstance(source, Pieces):
            self._learn_from_pieces(source, classes)
            return
        options = {} if classes is None else {"classes": classes}
        for chunk, rows in tracked(source.batches(), "summing", self.verbose, source.table.n_chunks()):
            self.partial_fit(rows, source.table.target_values(chunk), **options)
        self._solved()

    @abstractmethod
    def _learn_from_pieces(self, pieces: Pieces, classes: list[Any] | None) -> None:
        """Learn from a table in pieces, whose folds are dealt out in turn, on the prepared features."""

    def _partial_fit(self, X: Any, targets: Floats, weights: Floats) -> Self:
        """Learn from more rows. Whole spans are summed and the rest waits, so that cuts between calls do not matter."""
        if not hasattr(self, "_sums"):
            positive_values("alphas", self.alphas)
            self._sums = _Sums(n_folds_of(self.cv), targets.shape[1])
            if hasattr(self, "_prepared"):
                self._sums.begin(self._prepared)
        self._choice = None
        sums = self._sums
        for rows in row_spans(X.shape[0], 16 * SPAN_ROWS):  # to copy a little at a time
            sums.waiting.append((X[rows].copy(), targets[rows], weights[rows]))
            sums.n_waiting += X[rows].shape[0]
            if sums.n_waiting >= SPAN_ROWS:
                seen, y, w = map(stacked, zip(*sums.waiting, strict=True))
                n_whole = sums.n_waiting // SPAN_ROWS * SPAN_ROWS
                self._add(sums, seen[:n_whole], y[:n_whole], w[:n_whole])
                sums.n_waiting -= n_whole
                sums.waiting = [(seen[n_whole:], y[n_whole:], w[n_whole:])] if sums.n_waiting else []
        return self

    def _add(self, sums: _Sums, X: Any, targets: Floats, weights: Floats) -> None:
        if not sums.candidates:
            some = slice(0, SPAN_ROWS)
            sums.begin(self._fit_features(X[some], targets[some], weights[some], target_columns))
        sums.add(X, targets, weights)

    def _solved(self) -> _Choice:
        """The outcome for all rows seen; computed now if rows came since the last time."""
        check_is_fitted(self)
        if self._choice is None:
            sums = self._sums
            if sums.waiting:
                sums = deepcopy(sums)
                self._add(sums, *map(stacked, zip(*sums.waiting, strict=True)))
            self._choice = self._choose(sums)
        return self._choice

    def _choose(self, sums: _Sums) -> _Choice:
        """The length scale and penalty with the best mean R2 over the folds, or by generalised cross-validation."""
        alphas = positive_values("alphas", self.alphas)
        n_targets = sums.n_targets
        outcomes = []
        for moments in sums.totals:
            total = moments.sum(axis=0)
            weight = total[-1 - n_targets, -1 - n_targets]
            check_folds(self.cv, moments[:-1, -1 - n_targets, -1 - n_targets], weight)
            if sums.n_folds:
                errors = cross_validated_errors(moments, n_targets, alphas * weight)
                variances = np.array([spread(held_out, n_targets) for held_out in moments[:-1]])
            else:
                errors = generalised_errors(total, n_targets, alphas * weight)
                variances = spread(total, n_targets)[None]
            scores = _determination(errors, variances, spread(total, n_targets)).mean(axis=(1, 2))
            outcomes.append((float(scores.max()), float(alphas[scores.argmax()]), errors.mean(axis=2), total))
        best = int(np.argmax([score for score, *_ in outcomes]))
        _, alpha, errors, total = outcomes[best]
        if not spread(total, n_targets).all():
            warnings.warn("A target is constant: the model predicts that constant.", UserWarning, stacklevel=2)
        solution = ridge_solution(total, n_targets, alpha * total[-1 - n_targets, -1 - n_targets])
        solution = replace(solution, intercept=solution.intercept + sums.origin)
        return _Choice(sums.candidates[best], alpha, solution, errors, np.array([score for score, *_ in outcomes]))

    def _coefficients(self) -> tuple[Floats, Floats]:
        solution = self._solved().solution
        return solution.coef, solution.intercept

    def settle(self) -> Self:
        """Solve, and keep what prediction needs alone: the model becomes small, and `partial_fit` would begin anew.

        Returns
        -------
        self
            The model without its sums.
        """
        self._choice = self._solved()
        self.__dict__.pop("_sums", None)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_choice")


STATE_TYPES = (_Sums, _Choice, RidgeSolution)  # what a ridge head is made of, for who stores one


class FourierRidge(MultiOutputMixin, RegressorMixin, _RidgeHead):
    r"""Ridge regression on Fourier features: one pass over the rows for all penalties and folds.

    Minimises :math:`\sum_i w_i (y_i - c \cdot z(x_i) - b)^2 + \alpha n |c|^2` with n the sum of the weights; `alpha`
    and the length scale have the best mean R2 over the folds. It equals scikit-learn's ``Ridge(alpha * n)`` on the
    features in a grid search with the same folds.

    Parameters
    ----------
    features : FourierFeatures, default=None
        The features; None means the default ones.
    alphas : sequence of float, default=numpy.logspace(-8, 4, 25)
        Candidates for the penalty, relative to the number of rows.
    cv : int, splitter, iterable or None, default=5
        Folds to choose by, as in scikit-learn; every row is tested at most once and trained on otherwise. None means
        generalised cross-validation.
    length_scales : sequence of float, default=(1.0,)
        Candidates for the length scale, in units of the one that the features have or measure.
    random_state : int, RandomState instance or None, default=None
        Seed of the features; None leaves them their own.
    verbose : int, default=0
        Whether to show a progress bar in a terminal.

    Attributes
    ----------
    coef_ : ndarray of shape (2 * n_frequencies,) or (n_targets, 2 * n_frequencies)
        Coefficients of the features.
    intercept_ : float or ndarray of shape (n_targets,)
        The constant.
    alpha_ : float
        The chosen penalty, relative to the number of rows.
    features_ : FourierFeatures
        The fitted features.
    cv_errors_ : ndarray of shape (n_alphas, n_folds)
        Mean squared errors at the chosen length scale.
    best_score_ : float
        Mean R2 over the folds of the chosen penalty.
    length_scale_scores_ : ndarray of shape (n_length_scales,)
        The best mean R2 of each length scale.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns seen during `fit`, if they were all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import FourierRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = FourierRidge(random_state=0, length_scales=[1, 4]).fit(X[:300], y[:300])
    >>> round(model.score(X[300:], y[300:]), 2)
    0.51
    """

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the features, sum over the rows, choose the penalty.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or path
            Training rows, or the name of a Parquet or CSV file, which is read in pieces.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or str
            Targets; of a file, the name of the column.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts, for the features too.

        Returns
        -------
        FourierRidge
            The fitted model.
        """
        if is_path(X):
            return self._fit_file(X, y, sample_weight)
        self._forget()
        pieces = in_pieces(X, y, sample_weight)
        if pieces is not None:
            return self._fit(*self._pieced_set(pieces), target_columns)
        X, targets, weights = self._validate(X, y, sample_weight, first=True)
        folds, n_folds = fold_numbers(self.cv, X, targets, classifier=False)
        return self._fit(MemorySet(X, targets, weights, folds, n_folds), targets.shape[1], target_columns)

    def _pieced_set(self, pieces: Pieces) -> tuple[PiecedSet, int]:
        """Rows in pieces and the number of targets."""
        n_folds = n_folds_of(self.cv)
        rows = self._pieced_rows(pieces)
        template = pieces.templates["y"]
        self._is_flat = template.ndim == 1
        dealing = KFolds(n_folds, rows.shape[0]) if n_folds else InTurn(0)
        return PiecedSet(rows, target_columns, dealing, first_rows(pieces)), 1 if self._is_flat else template.shape[1]

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from more rows; how the rows are split into calls makes no difference.

        Row i (of all calls) is in fold i modulo `cv`. The features are those of `fit_features`, or are fitted on the
        first 8,192 rows: shuffle rows that are in an order.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        FourierRidge
            The model; it is solved when it is first used.
        """
        X, targets, weights = self._validate(X, y, sample_weight, first=not hasattr(self, "_dtype"))
        return self._partial_fit(X, targets, np.ones(X.shape[0]) if weights is None else weights)

    def _learn_from_pieces(self, pieces: Pieces, classes: list[Any] | None) -> None:
        self._is_flat = True
        self._fit(self._dealt_in_turn(pieces, target_columns), 1, target_columns, self._prepared)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or path
            Rows, or a file when the model was fitted on one. What is returned of a Dask collection are Dask arrays.
        return_std : bool, default=False
            Whether to return the standard deviations of the predictive distribution too: those of a Bayesian linear
            model whose prior the penalty is, noise included.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictions.
        std : ndarray of the same shape
            Standard deviations, if asked for.
        """
        check_is_fitted(self)
        if not return_std:
            return self._map_scores(X, _first_column if self._is_flat else None)
        if is_path(X):
            raise ValueError(f"Standard deviations are for arrays; read {X} in pieces and predict them one by one.")
        X = self._validate_rows(X)
        solution = self._solved().solution
        found = map_rows(partial(_with_deviations, self.features_, solution), X, self.features_._prepared)
        n_targets = len(solution.intercept)
        predictions, deviations = found[:, :n_targets], found[:, n_targets:]
        return (predictions[:, 0], deviations[:, 0]) if self._is_flat else (predictions, deviations)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R2 of the predictions, the mean over targets.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        float
            The coefficient of determination.
        """
        pieces = in_pieces(X, y, sample_weight)
        if pieces is None:
            return float(super().score(X, y, sample_weight))
        check_is_fitted(self)
        origin = self._coefficients()[1]
        shape = pieces.templates["y"].shape if "y" in pieces.templates else (0, len(origin))
        if (shape[1] if len(shape) > 1 else 1) != len(origin):
            raise ValueError(f"y has shape (n_samples, *{shape[1:]}), and the model has {len(origin)} targets.")
        sums = self._score_pieces(pieces, target_columns, partial(_residuals, origin))
        mean = sums["targets"] / sums["weight"]
        variances = sums["squares"] / sums["weight"] - np.square(mean)
        errors = sums["errors"] / sums["weight"]
        return float(_determination(errors[None, None], variances[None], variances).mean())

    @property
    def coef_(self) -> Floats:
        """Coefficients of the features."""
        coef = self._solved().solution.coef
        return coef[:, 0] if self._is_flat else coef.T

    @property
    def intercept_(self) -> Any:
        """The constant."""
        intercept = self._coefficients()[1]
        return float(intercept[0]) if self._is_flat else intercept

    def _validate(self, X: Any, y: Any, sample_weight: Any, *, first: bool) -> tuple[Any, Floats, Floats | None]:
        """Rows, targets (n_samples, n_targets), weights."""
        X, y, weights = self._validate_learning(X, y, sample_weight, first, multi_output=True, y_numeric=True)
        targets = np.asarray(y, dtype=np.float64)
        _check_magnitude(targets)
        if not hasattr(self, "_sums") or first:
            self._is_flat = targets.ndim == 1
        elif targets.reshape(X.shape[0], -1).shape[1] != self._sums.n_targets:
            raise ValueError(f"y has shape {targets.shape}; in the calls before it had {self._sums.n_targets} targets.")
        return X, targets.reshape(X.shape[0], -1), weights

    def _sample_targets(self, y: Any) -> Floats:
        return target_columns(y)


class FourierRidgeClassifier(LabelMixin, _RidgeHead):
    """Classification by ridge regression of the classes (1, or -1 for the rest) on Fourier features, in one pass.

    `alpha` and the length scale have the best mean R2 of the classes' indicators over the folds.

    Parameters
    ----------
    features : FourierFeatures, default=None
        The features; None means the default ones.
    alphas : sequence of float, default=numpy.logspace(-8, 4, 25)
        Candidates for the penalty, relative to the number of rows.
    cv : int, splitter, iterable or None, default=5
        Folds to choose by, as in scikit-learn; every row is tested at most once and trained on otherwise. None means
        generalised cross-validation.
    length_scales : sequence of float, default=(1.0,)
        Candidates for the length scale, in units of the one that the features have or measure.
    random_state : int, RandomState instance or None, default=None
        Seed of the features; None leaves them their own.
    verbose : int, default=0
        Whether to show a progress bar in a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, in order.
    coef_ : ndarray of shape (1, 2 * n_frequencies) or (n_classes, 2 * n_frequencies)
        Coefficients of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Constants.
    alpha_ : float
        The chosen penalty, relative to the number of rows.
    features_ : FourierFeatures
        The fitted features.
    cv_errors_ : ndarray of shape (n_alphas, n_folds)
        Mean squared errors of the indicators at the chosen length scale.
    best_score_ : float
        Mean R2 over the folds of the chosen penalty.
    length_scale_scores_ : ndarray of shape (n_length_scales,)
        The best mean R2 of each length scale.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns seen during `fit`, if they were all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import FourierRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FourierRidgeClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> round(model.score(X[1000:], y[1000:]), 2)
    0.96
    """

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the features, sum over the rows, choose the penalty.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or path
            Training rows, or the name of a Parquet or CSV file, which is read in pieces.
        y : array-like of shape (n_samples,), or str
            Classes; of a file, the name of the column.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts, for the features too.

        Returns
        -------
        FourierRidgeClassifier
            The fitted model.
        """
        if is_path(X):
            return self._fit_file(X, y, sample_weight)
        training, _ = self._training_set(X, y, sample_weight)
        return self._fit(training, self._n_targets, partial(class_indicators, self.classes_))

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows; how the rows are split into calls makes no difference.

        Row i (of all calls) is in fold i modulo `cv`. The features are those of `fit_features`, or are fitted on the
        first 8,192 rows: shuffle rows that are in an order.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Classes.
        classes : array-like of shape (n_classes,), default=None
            All classes there will be; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        FourierRidgeClassifier
            The model; it is solved when it is first used.
        """
        if classes is None and not hasattr(self, "classes_"):
            raise ValueError("`classes` must be given in the first call of `partial_fit`: all classes there will be.")
        X, y, weights = self._validate(X, y, sample_weight, first=not hasattr(self, "_dtype"))
        if not hasattr(self, "classes_"):
            self._set_classes(np.unique(classes))
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"`classes` must be the same in every call. Got {np.unique(classes).tolist()}, and "
                f"{self.classes_.tolist()} before."
            )
        targets = class_indicators(self.classes_, y)
        return self._partial_fit(X, targets, np.ones(X.shape[0]) if weights is None else weights)

    def _learn_from_pieces(self, pieces: Pieces, classes: list[Any] | None) -> None:
        self._set_classes(np.array(classes))
        encode = partial(class_indicators, self.classes_)
        self._fit(self._dealt_in_turn(pieces, class_column), self._n_targets, encode, self._prepared)

    def _sample_targets(self, y: Any) -> Floats:
        y = class_column(y)
        return class_indicators(np.unique(y), y)


def target_columns(y: Any) -> Floats:
    """Targets of a regression, finite numbers, one column each."""
    try:
        targets = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"y must hold numbers for a regression. Got {reprlib.repr(y)} instead.") from None
    assert_all_finite(targets, input_name="y")
    _check_magnitude(targets)
    return targets.reshape(len(targets), -1)


def _check_magnitude(targets: Floats) -> None:
    largest = float(np.abs(targets).max(initial=0.0))
    if largest > LARGEST or 0.0 < largest < 1.0 / LARGEST:
        raise ValueError(f"y holds values of up to {largest:.3g}, whose squares no number holds; rescale it.")


def _first_column(columns: Floats) -> Floats:
    return columns[:, 0]


def _with_deviations(features: FourierFeatures, solution: RidgeSolution, X: Any) -> Array:
    """Predictions, then standard deviations, one column a target each."""

    def both(columns: Floats) -> Floats:
        return np.hstack([columns @ solution.coef + solution.intercept, np.sqrt(solution.variance(columns))])

    found = apply_to_features(features._block_map(), X, 2 * len(solution.intercept), both)
    return found.astype(X.dtype, copy=False)


def _residuals(origin: Floats, predictions: Floats, batch: Batch) -> Sums:
    """Weighted sums over rows for R2; targets are counted from `origin`, so that their squares keep their digits."""
    counts = np.ones(len(batch.y)) if batch.weights is None else batch.weights
    targets = batch.y - origin
    return {
        "weight": np.array(counts.sum()),
        "errors": counts @ np.square(batch.y - predictions),
        "targets": counts @ targets,
        "squares": counts @ np.square(targets),
    }


def _determination(errors: Floats, variances: Floats, overall: Floats) -> Floats:
    """R2 = 1 - error / variance (n_penalties, n_folds, n_targets).

    Where a target does not vary in one of the folds, say because a fold has a single row, its variance over all rows
    takes the place of all folds'; where it does not vary at all, R2 is 1 if it is met and 0 otherwise.
    """
    variances = np.where((variances > 0.0).all(axis=0), variances, overall)
    shares = np.divide(errors, variances, out=np.ones_like(errors), where=variances > 0.0)
    return 1.0 - np.where((variances == 0.0) & (errors == 0.0), 0.0, shares)
