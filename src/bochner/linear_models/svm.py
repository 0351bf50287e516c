# SPDX-License-Identifier: BSD-3-Clause
"""`FourierSVC`: the L2-loss support vector machine on features."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bochner.feature_maps import FeatureMap, map_rows
from bochner.kernels import Kernel
from bochner.linear_models.candidates import best_scores, feature_map_of
from bochner.linear_models.folds import check_fold_weights
from bochner.linear_models.labels import label_positions
from bochner.linear_models.linear_model import LinearModel, OneVsRestMixin
from bochner.linear_models.squared_hinge import HESSIAN_BYTES, FeatureBatch, solve_one, walk
from bochner.linear_models.training_sets import TrainingSet
from bochner.parameters import SVM_EXPLANATIONS, Explanation
from bochner.rows import Array, Batch, Floats, RowSource, Statistic, row_spans
from bochner.validation import StrOptions, positive_values

if TYPE_CHECKING:
    from bochner.tables.reader import Table
    from bochner.tables.survey import Survey

__all__ = ["FourierSVC"]

CS = tuple(float(C) for C in np.logspace(-3, 5, 9))
HELD_BYTES = 1 << 30  # features of all rows are held up to this size
BATCH_ROWS = 32_768


class FourierSVC(OneVsRestMixin, LinearModel):
    r"""L2-loss support vector machine on features, the paper's classifier; C is chosen by cross-validation.

    Minimizes liblinear's :math:`\tfrac12 (|c|^2 + b^2) + C \sum_i w_i \max(0, 1 - y_i (c \cdot z(x_i) + b))^2`, one
    class against the rest, for all folds and classes at once by Newton's method.

    Parameters
    ----------
    features : transformer, default=None
        The features: `FourierFeatures` (None means the default ones), or any scikit-learn transformer, such as
        ``Nystroem(256)`` or a pipeline, which is applied block by block.
    Cs : sequence of float, default=None
        Candidates for C; None means ``numpy.logspace(-3, 5, 9)``.
    cv : int, splitter, iterable or None, default=5
        Cross-validation folds, as in scikit-learn. Each row must be in at most one test set, and in the training set of
        every other fold. None skips cross-validation and needs a single candidate.
    length_scales : sequence of float, default=(1.0,)
        Candidate length scales, as multiples of the length scale of the features.
    kernels : sequence of str or Kernel, default=None
        Candidate kernels, as for `FourierFeatures`, each combined with every length scale; None means the kernel of the
        features.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights.
    probability : bool, default=False
        Whether to calibrate `predict_proba` with scikit-learn's `CalibratedClassifierCV`: one extra fit per fold.
    random_state : int, RandomState instance or None, default=None
        Seed of the features; None keeps the `random_state` of `features`.
    verbose : int, default=0
        Show a progress bar when `verbose` > 0 and the output is a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The sorted classes.
    coef_ : ndarray of shape (1, n_columns) or (n_classes, n_columns)
        Coefficients of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    C_ : float
        The chosen C.
    features_ : transformer
        The fitted features; ``features_.kernel_`` and ``features_.length_scale_`` are the chosen ones.
    encoding_ : Encoding
        How the columns of a table become numbers; only after a fit on a file.
    cv_errors_ : ndarray of shape (n_Cs, n_folds)
        Shares of misclassified rows with the chosen features.
    best_score_ : float
        Mean accuracy over the folds with the chosen C.
    length_scale_scores_ : ndarray of shape (n_length_scales,)
        The best mean accuracy of each length scale with the chosen kernel.
    kernel_scores_ : ndarray of shape (n_kernels,)
        The best mean accuracy of each kernel; a single one if `kernels` is None.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns seen during `fit`, if they were all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import FourierFeatures, FourierSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FourierSVC(FourierFeatures(n_frequencies=64), random_state=0).fit(X[:1000], y[:1000])
    >>> round(model.score(X[1000:], y[1000:]), 2)
    0.94
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "Cs": ["array-like", None],
        "class_weight": [dict, StrOptions(["balanced"]), None],
        "probability": ["boolean"],
    }
    _explanations: ClassVar[Mapping[str, Explanation]] = SVM_EXPLANATIONS
    _fitted_names = (
        *LinearModel._fitted_names,
        *("C_", "cv_errors_", "best_score_", "length_scale_scores_", "kernel_scores_"),
        *("_weights", "_calibrated", "_class_totals"),
    )

    def __init__(
        self,
        features: Any = None,
        *,
        Cs: Sequence[float] | None = None,
        cv: Any = 5,
        length_scales: Sequence[float] = (1.0,),
        kernels: Sequence[str | Kernel] | None = None,
        class_weight: Any = None,
        probability: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.Cs = Cs
        self.cv = cv
        self.length_scales = length_scales
        self.kernels = kernels
        self.class_weight = class_weight
        self.probability = probability
        self.random_state = random_state
        self.verbose = verbose

    @available_if(lambda self: self.probability)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Predict calibrated probabilities of the classes; only with ``probability=True``.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`; for a Dask collection a Dask array.
        """
        check_is_fitted(self)
        if not hasattr(self, "_calibrated"):
            raise ValueError("`probability` was False when the model was fitted; fit it again with `probability`=True.")
        probabilities = partial(_probabilities, self._calibrated, len(self.classes_))
        return self._apply(probabilities, X)

    def _training_set(self, rows: RowSource) -> TrainingSet:
        if self.probability and rows.location != "memory":
            raise ValueError("`probability`=True needs rows in memory; use False for a Dask collection.")
        return super()._training_set(rows)

    def _check_table(self, table: "Table", survey: "Survey") -> None:
        if self.probability or self.class_weight is not None:
            raise ValueError("A file needs `probability`=False and `class_weight`=None; read it into memory otherwise.")
        super()._check_table(table, survey)

    def _solve(self, training: TrainingSet, candidates: list[Any]) -> None:
        """Follow the path along C for every candidate, then solve on all rows."""
        Cs = positive_values("Cs", self.Cs, default=CS)
        class_weights = self._class_weights()
        passes = [FeaturePasses.of(training, self.classes_, class_weights, features) for features in candidates]
        n_folds = training.n_folds
        if n_folds:
            counts: Floats = training.accumulate(partial(_fold_counts, n_folds), with_rows=False)
            check_fold_weights(self.cv, counts[:-1], float(counts.sum()))
            # Every worker of a cluster holds Hessians of its own.
            max_bytes = HESSIAN_BYTES // (8 if training.rows.location == "cluster" else 1)
            paths = [walk(one.accumulate, n_folds, self._n_targets, Cs, max_bytes) for one in passes]
            scores = np.array([1.0 - np.average(path.errors, axis=1) for path in paths])
            best, position = (int(index) for index in np.unravel_index(scores.argmax(), scores.shape))
            self.cv_errors_ = paths[best].errors
            self.kernel_scores_, self.length_scale_scores_ = best_scores(scores.max(axis=1), self._n_kernels)
            self.best_score_ = float(scores.max())
        elif len(candidates) * len(Cs) > 1:
            raise ValueError(
                "`cv`=None cannot choose among candidates; give a number of folds, or a single C, length scale and "
                "kernel."
            )
        else:
            paths, best, position = [], 0, 0
        self.features_, self.C_ = candidates[best], float(Cs[position])
        path = paths[best] if paths else None
        self._weights = solve_one(passes[best].accumulate, self._n_targets, self.C_, path, position)
        if self.probability:
            self._calibrate(training)

    def _class_weights(self) -> Floats:
        """Return the weight of each class."""
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        # Every class is one sample that stands for all its rows.
        weights = compute_class_weight(
            self.class_weight, classes=self.classes_, y=self.classes_, sample_weight=self._class_totals
        )
        if not (weights >= 0.0).all():
            raise ValueError(f"`class_weight` must not be negative. Got {self.class_weight!r} instead.")
        return np.asarray(weights)

    def _calibrate(self, training: TrainingSet) -> None:
        """Calibrate probabilities on the folds that C was chosen on, or on five without any."""
        from sklearn.calibration import CalibratedClassifierCV  # a slow import that few fits need

        rows = training.rows.select(slice(None))
        rows = rows._replace(folds=training.assignment.folds(0, rows.y)).drop_zero_weights()
        folds, n_folds = rows.folds, training.n_folds
        if folds is None or (n_folds and (folds < 0).any()):
            raise ValueError("`probability`=True needs a `cv` that tests every row once, as KFold does.")
        splits = [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(n_folds)]
        chosen = clone(self).set_params(
            features=clone(self.features_),
            Cs=[self.C_],
            length_scales=[1.0],
            kernels=None,
            cv=None,
            probability=False,
        )
        calibration = CalibratedClassifierCV(chosen, cv=splits or 5, ensemble=False)
        self._calibrated = calibration.fit(rows.X, rows.y, sample_weight=rows.weights)

    def _coefficients(self) -> tuple[Floats, Floats]:
        check_is_fitted(self)
        return self._weights[:-1], self._weights[-1]


@dataclass(frozen=True)
class FeaturePasses:
    """Passes over the features of a training set, which are held if the rows are in memory and the features not large.

    Parameters
    ----------
    training : TrainingSet
        The rows.
    feature_map : FeatureMap
        The map to features.
    classes : ndarray of shape (n_classes,)
        The sorted classes.
    class_weights : ndarray of shape (n_classes,)
        Weights of the classes.
    held : FeatureBatch or None
        The features of all rows.
    """

    training: TrainingSet
    feature_map: FeatureMap
    classes: Array
    class_weights: Floats
    held: FeatureBatch | None = None

    @classmethod
    def of(cls, training: TrainingSet, classes: Array, class_weights: Floats, features: Any) -> "FeaturePasses":
        feature_map = feature_map_of(features, row=training.rows.select(slice(0, 1)).X)
        passes = cls(training, feature_map, classes, class_weights)
        row_bytes = feature_map.width * feature_map.dtype.itemsize
        if training.rows.location != "memory" or training.rows.shape[0] * row_bytes > HELD_BYTES:
            return passes
        rows = training.rows.select(slice(None))
        rows = rows._replace(folds=training.assignment.folds(0, rows.y)).drop_zero_weights()
        return replace(passes, held=_feature_batch(feature_map, classes, class_weights, rows))

    def accumulate(self, part: Callable[[FeatureBatch], Statistic]) -> Statistic:
        """Add up the statistics that `part` computes of batches of features."""
        if self.held is not None:
            return part(self.held)
        prepare = partial(_feature_batch, self.feature_map, self.classes, self.class_weights)
        return self.training.accumulate(partial(_part_of_features, prepare, part))


def _part_of_features(
    prepare: Callable[[Batch], FeatureBatch], part: Callable[[FeatureBatch], Statistic], rows: Batch
) -> Statistic:
    spans = row_spans(rows.X.shape[0], BATCH_ROWS)
    return reduce(operator.add, (part(prepare(rows.select(span))) for span in spans))


def _feature_batch(feature_map: FeatureMap, classes: Array, class_weights: Floats, rows: Batch) -> FeatureBatch:
    positions = label_positions(classes, rows.y)
    feature_map.check(rows.X)
    assert rows.folds is not None
    return FeatureBatch(
        map_rows(feature_map, rows.X), positions, rows.counts * class_weights[positions], rows.counts, rows.folds
    )


def _fold_counts(n_folds: int, rows: Batch) -> Floats:
    """Return the total weight of the rows of each fold, and last of those that are always trained on."""
    assert rows.folds is not None
    totals = np.bincount(rows.folds % (n_folds + 1), rows.counts, n_folds + 1)  # -1 and n_folds are equivalent
    return totals.astype(np.float64)


def _probabilities(calibrated: Any, n_classes: int, X: Any) -> Floats:
    return np.asarray(calibrated.predict_proba(X)) if X.shape[0] else np.empty((0, n_classes))
