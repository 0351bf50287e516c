# SPDX-License-Identifier: BSD-3-Clause
"""`FourierSVC`: the L2-loss support vector machine on Fourier features."""

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from bochner.fourier_features import FourierFeatures
from bochner.linear_models.folds import check_folds
from bochner.linear_models.linear_model import Head, LabelMixin, class_column, class_indicators, class_labels, is_path
from bochner.linear_models.squared_hinge import HESSIAN_BYTES, Accumulate, solve_one, walk
from bochner.linear_models.squared_hinge import Batch as FeatureBatch
from bochner.linear_models.training_sets import Batch, FileSet, MemorySet, PiecedSet, TrainingSet
from bochner.progress import tracked
from bochner.rows import Array, Floats, Pieces, Sums, added, in_pieces, map_rows, row_spans
from bochner.tables.encoding import EncodedTable
from bochner.validation import StrOptions, positive_values

__all__ = ["FourierSVC"]

CS = tuple(float(C) for C in np.logspace(-3, 5, 9))
HELD_BYTES = 1 << 30  # features that are held at most
BATCH_ROWS = 32_768


class FourierSVC(LabelMixin, Head):
    r"""L2-loss support vector machine on Fourier features, the paper's classifier; C by cross-validation.

    Minimises liblinear's :math:`\tfrac12 (|c|^2 + b^2) + C \sum_i w_i \max(0, 1 - y_i (c \cdot z(x_i) + b))^2`, one
    class against the rest, for all folds and classes at a time by Newton's method.

    Parameters
    ----------
    features : FourierFeatures, default=None
        The features; None means the default ones.
    Cs : sequence of float, default=numpy.logspace(-3, 5, 9)
        Candidates for C.
    cv : int, splitter, iterable or None, default=5
        Folds to choose by, as in scikit-learn; every row is tested at most once and trained on otherwise. None, for a
        single candidate, leaves the folds out.
    length_scales : sequence of float, default=(1.0,)
        Candidates for the length scale, in units of the one that the features have or measure.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; they multiply those of the rows.
    probability : bool, default=False
        Whether to calibrate `predict_proba` too, by scikit-learn's `CalibratedClassifierCV`: a fit a fold more.
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
    C_ : float
        The chosen C.
    features_ : FourierFeatures
        The fitted features.
    cv_errors_ : ndarray of shape (n_Cs, n_folds)
        Shares of misclassified rows at the chosen length scale.
    best_score_ : float
        Mean accuracy over the folds of the chosen C.
    length_scale_scores_ : ndarray of shape (n_length_scales,)
        The best mean accuracy of each length scale.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns seen during `fit`, if they were all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import FourierSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FourierSVC(random_state=0).fit(X[:1000], y[:1000])
    >>> round(model.score(X[1000:], y[1000:]), 2)
    0.95
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Head._parameter_constraints,
        "Cs": ["array-like"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "probability": ["boolean"],
    }

    def __init__(
        self,
        features: FourierFeatures | None = None,
        *,
        Cs: Sequence[float] = CS,
        cv: Any = 5,
        length_scales: Sequence[float] = (1.0,),
        class_weight: Any = None,
        probability: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.Cs = Cs
        self.cv = cv
        self.length_scales = length_scales
        self.class_weight = class_weight
        self.probability = probability
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the features, choose C, solve.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or path
            Training rows, or the name of a Parquet or CSV file, which is read in pieces, several times. A Dask
            collection is computed several times too: persist one that fits into the memory of the workers.
        y : array-like of shape (n_samples,), or str
            Classes; of a file, the name of the column.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts, for the features too.

        Returns
        -------
        FourierSVC
            The fitted model.
        """
        if is_path(X):
            return self._fit_file(X, y, sample_weight)
        if self.probability and in_pieces(X, y, sample_weight) is not None:
            raise ValueError("`probability`=True needs rows in memory; leave it False for a Dask collection.")
        training, class_sums = self._training_set(X, y, sample_weight)
        # Classes that stand once each for all their rows.
        of_class = compute_class_weight(
            self.class_weight, classes=self.classes_, y=self.classes_, sample_weight=class_sums
        )
        if not (of_class >= 0.0).all():
            raise ValueError(f"`class_weight` must not be negative. Got {self.class_weight!r} instead.")
        encode = partial(class_indicators, self.classes_)
        candidates = self._fit_features(*training.for_features, encode)
        self._choose(candidates, training, of_class)
        if isinstance(training, MemorySet) and self.probability:
            self._calibrate(training.counted, training.n_folds)
        return self

    @available_if(lambda self: self.probability)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Calibrated probabilities of the classes; only with ``probability=True``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`.
        """
        check_is_fitted(self)
        if not hasattr(self, "_calibrated"):
            raise ValueError("`probability` was False when the model was fitted; fit it again.")
        probabilities = partial(_probabilities, self._calibrated, len(self.classes_))
        return map_rows(probabilities, self._validate_rows(X), self.features_._prepared)

    def _calibrate(self, rows: Batch, n_folds: int) -> None:
        """Calibrate on the folds that C was chosen on, or on five without any."""
        X, y, weights, folds = rows
        from sklearn.calibration import CalibratedClassifierCV  # a heavy import for those who do not ask for it

        if n_folds and (folds < 0).any():
            raise ValueError("`probability`=True needs a `cv` that tests every row once, as KFold does.")
        splits = [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(n_folds)]
        chosen = clone(self).set_params(
            features=clone(self.features_), Cs=[self.C_], length_scales=[1.0], cv=None, probability=False
        )
        calibration = CalibratedClassifierCV(chosen, cv=splits or 5, ensemble=False)
        self._calibrated = calibration.fit(X, y, sample_weight=weights)

    def _learn(self, source: EncodedTable | Pieces, sample: Array, targets: Array, classes: list[Any] | None) -> None:
        if self.probability or self.class_weight is not None or not isinstance(self.cv, Integral):
            raise ValueError("A file needs `probability`=False, `class_weight`=None and a number of folds as `cv`.")
        self._set_classes(np.array(classes))
        sample = validate_data(self, sample, dtype=[np.float64, np.float32])
        n_folds = int(self.cv)
        if len(sample) < n_folds:
            raise ValueError(f"The table has {len(sample)} rows, too few for {n_folds} folds.")
        candidates = self._fit_features(sample, targets, None, partial(class_indicators, self.classes_))
        rows: Any = (
            self._dealt_in_turn(source, class_column) if isinstance(source, Pieces) else FileSet(source, n_folds)
        )
        self._choose(candidates, rows, np.ones(len(self.classes_)))

    def _choose(self, candidates: list[FourierFeatures], rows: "TrainingSet | FileSet", of_class: Floats) -> None:
        """Walk along C for every length scale, then solve on all rows."""
        Cs = positive_values("Cs", self.Cs)
        n_folds = rows.n_folds
        passes = partial(_passes, rows, self.classes_, of_class)
        if n_folds:
            counts = rows.accumulate(_fold_counts)
            of_folds = np.array([float(counts.get(fold, 0.0)) for fold in range(n_folds)])
            check_folds(self.cv, of_folds, sum(map(float, counts.values())))
            bar = partial(tracked, description="choosing C", verbose=self.verbose)
            # Every worker has some of its own.
            most_bytes = HESSIAN_BYTES // 8 if isinstance(rows, PiecedSet) else HESSIAN_BYTES
            paths = [walk(passes(features), n_folds, self._n_targets, Cs, bar, most_bytes) for features in candidates]
            scores = np.array([1.0 - np.average(path.errors, axis=1) for path in paths])
            best, place = (int(index) for index in np.unravel_index(scores.argmax(), scores.shape))
            self.cv_errors_ = paths[best].errors
            self.length_scale_scores_ = scores.max(axis=1)
            self.best_score_ = float(scores.max())
        elif len(candidates) * len(Cs) > 1:
            raise ValueError("`cv`=None leaves nothing to choose by; give folds, or a single C and length scale.")
        else:
            paths, best, place = [], 0, 0
        self.features_, self.C_ = candidates[best], float(Cs[place])
        path = paths[best] if paths else None
        self._weights = solve_one(passes(self.features_), self._n_targets, self.C_, path, place)

    def _coefficients(self) -> tuple[Floats, Floats]:
        check_is_fitted(self)
        return self._weights[:-1], self._weights[-1]


def _passes(rows: "TrainingSet | FileSet", classes: Array, of_class: Floats, features: FourierFeatures) -> Accumulate:
    """Passes over the rows' features, which are held if they are in memory and not too many."""
    prepared = partial(_feature_batch, features, classes, of_class)
    row_bytes = features._n_features_out * features.weights_.itemsize
    if isinstance(rows, MemorySet) and rows.n_rows * row_bytes <= HELD_BYTES:
        whole = prepared(rows.counted)
        return lambda part: part(whole)
    return lambda part: rows.accumulate(partial(_sums_of_features, prepared, part))


def _sums_of_features(
    prepared: Callable[[Batch], FeatureBatch], part: Callable[[FeatureBatch], Sums], rows: Batch
) -> Sums:
    sums: Sums = {}
    for span in row_spans(rows.X.shape[0], BATCH_ROWS):
        sums = added(sums, part(prepared(rows.at(span))))
    return sums


def _feature_batch(features: FourierFeatures, classes: Array, of_class: Floats, rows: Batch) -> FeatureBatch:
    labels = class_labels(classes, rows.y)
    counts = np.ones(len(labels)) if rows.weights is None else rows.weights
    Z = features._map(features._prepared(rows.X))
    return FeatureBatch(Z, labels, counts * of_class[labels], counts, rows.folds)


def _fold_counts(rows: Batch) -> Sums:
    """How much the rows of each fold count."""
    counts = np.ones(len(rows.y)) if rows.weights is None else rows.weights
    return {fold: counts[rows.folds == fold].sum() for fold in np.unique(rows.folds).tolist()}


def _probabilities(calibrated: Any, n_classes: int, X: Any) -> Floats:
    return np.asarray(calibrated.predict_proba(X)) if X.shape[0] else np.empty((0, n_classes))
