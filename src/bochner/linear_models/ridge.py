# SPDX-License-Identifier: BSD-3-Clause
"""`FourierRidge` and `FourierRidgeClassifier`: one pass over the rows for all penalties and folds.

A fit accumulates second moments over rows, so that a model can be continued with more rows.
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted

from bochner.feature_maps import FeatureMap, apply_to_features
from bochner.feature_maps.moments import SPAN_ROWS
from bochner.kernels import Kernel
from bochner.learning.ridge import RidgeSolution
from bochner.linear_models.candidates import best_scores, feature_map_of, features_of_kernels
from bochner.linear_models.folds import assign_folds, number_of_folds, warn_at_edge
from bochner.linear_models.labels import ClassWeights, check_labels, label_indicators
from bochner.linear_models.linear_model import LinearModel, OneVsRestMixin, is_path
from bochner.linear_models.ridge_moments import MomentAccumulator, Residuals, RidgeChoice, moments_of_batch, r2_scores
from bochner.linear_models.streamed_folds import MOST_MOMENT_BYTES, stored_bytes, streamed_bytes
from bochner.linear_models.training_sets import TrainingSet
from bochner.memory import check_memory
from bochner.parameters import RIDGE_EXPLANATIONS, Explanation
from bochner.progress import show_progress
from bochner.rows import Array, Batch, Floats, RowSource, open_rows
from bochner.validation import StrOptions, fit_context, positive_values

if TYPE_CHECKING:
    from bochner.tables.reader import Table
    from bochner.tables.survey import Survey

__all__ = ["FourierRidge", "FourierRidgeClassifier"]

LARGEST = 1e120  # squares of larger targets, times sample weights, overflow float64; those of 1 / LARGEST underflow
LARGEST_SINGLE = 1e36  # predictions for float32 rows are float32
FEWER = "use fewer frequencies, `length_scales` or classes"
ALPHAS = tuple(float(alpha) for alpha in np.logspace(-8, 4, 25))


class RidgeModel(LinearModel):
    """Ridge regression on features, from second moments."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "alphas": ["array-like", None],
    }
    _explanations: ClassVar[Mapping[str, Explanation]] = RIDGE_EXPLANATIONS
    _fitted_names = (*LinearModel._fitted_names, "_accumulator", "_choice", "_is_flat")
    alphas: Sequence[float] | None
    _choice: RidgeChoice | None

    def __init__(
        self,
        features: Any = None,
        *,
        alphas: Sequence[float] | None = None,
        cv: Any = 5,
        length_scales: Sequence[float] = (1.0,),
        kernels: Sequence[str | Kernel] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.alphas = alphas
        self.cv = cv
        self.length_scales = length_scales
        self.kernels = kernels
        self.random_state = random_state
        self.verbose = verbose

    @property
    def features_(self) -> Any:
        """The fitted features."""
        return self._chosen().features

    @property
    def alpha_(self) -> float:
        """The chosen penalty, relative to the number of rows."""
        return self._chosen().alpha

    @property
    def cv_errors_(self) -> Floats:
        """Mean squared errors (n_alphas, n_folds) of the chosen features, the mean over targets."""
        return self._chosen().errors

    @property
    def best_score_(self) -> float:
        """Mean R2 over the folds with the chosen penalty and features."""
        return float(self._chosen().scores.max())

    @property
    def length_scale_scores_(self) -> Floats:
        """The best mean R2 of each of the `length_scales` with the chosen kernel."""
        return best_scores(self._chosen().scores, self._n_kernels)[1]

    @property
    def kernel_scores_(self) -> Floats:
        """The best mean R2 of each of the `kernels`."""
        return best_scores(self._chosen().scores, self._n_kernels)[0]

    @fit_context
    def fit_features(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the features alone, for `partial_fit`, which otherwise fits them on its first 8,192 rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A sample of the rows to come.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Their targets, for features that are fitted to targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        self
            The model with fitted features and nothing learned from targets otherwise.
        """
        self._reset()
        rows: RowSource = self._in_memory("fit_features", X, y, sample_weight)
        finite = "allow-nan" if self._accepts_nan() else True
        options: Any = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "multi_output": True}
        rows = rows.validate(self, ensure_all_finite=finite, **options)
        self._dtype = rows.dtype.name
        with show_progress(self.verbose):
            self._candidates = self._fit_candidates(rows, self._encode_sample)
        return self

    @abstractmethod
    def _encode_sample(self, y: Any) -> Floats:
        """Return the targets (n_samples, n_targets) of a sample of rows, whose classes need not be known."""

    def _solve(self, training: TrainingSet, candidates: list[Any]) -> None:
        alphas = positive_values("alphas", self.alphas, default=ALPHAS)
        origin = np.median(self._encode_targets(training.first_targets(SPAN_ROWS)), axis=0)
        row = training.rows.select(slice(0, 1)).X
        maps = [feature_map_of(features, row=row) for features in candidates]
        size = max(feature_map.width for feature_map in maps) + 1 + len(origin)
        if self._is_streamed(size, training.n_folds, len(maps)):
            choice = RidgeChoice.streamed(candidates, training, self._encode_targets, origin, alphas, self.cv)
            self._choice = self._checked_for_edge(choice)
            return
        part = partial(moments_of_batch, maps, self._encode_targets, origin)
        moments = training.accumulate(part, "accumulating moments")
        self._accumulator = MomentAccumulator(training.n_folds, len(origin), candidates, origin, moments)
        choice = RidgeChoice.of(candidates, moments, origin, training.n_folds, alphas, self.cv)
        self._choice = self._checked_for_edge(choice)

    def _checked_for_edge(self, choice: RidgeChoice) -> RidgeChoice:
        """Warn of a penalty at the edge of the user's own grid; the default one leaves nothing to be gained."""
        if self.alphas is not None:
            warn_at_edge("alphas", np.asarray(self.alphas, dtype=np.float64), choice.alpha, choice.errors)
        return choice

    def _is_streamed(self, size: int, n_folds: int, n_candidates: int) -> bool:
        """Return whether the moments of the folds are too large to be stored; refuse what no memory holds."""
        stored = stored_bytes(size, n_folds, n_candidates)
        if n_folds and stored > MOST_MOMENT_BYTES:
            _check_moments(streamed_bytes(size, n_candidates), size)
            return True
        _check_moments(stored, size)
        return False

    def _check_width(self, width: int, rows: RowSource) -> None:
        del rows
        n_candidates = len(self.length_scales) * len(self.kernels or [None])
        size = width + getattr(self, "_n_targets", 0)  # of a classifier, once its classes are known
        _check_moments(streamed_bytes(size, n_candidates), size)

    def _add_rows(self, rows: RowSource) -> Self:
        """Add rows with checked targets; the model is solved when it is used next."""
        batch = rows.select(slice(None))
        if hasattr(self, "_accumulator"):
            accumulator = replace(self._accumulator, waiting=[*self._accumulator.waiting])
        else:
            positive_values("alphas", self.alphas, default=ALPHAS)
            features_of_kernels(self.features, self.kernels)  # refuses some before any row is added
            n_targets = self._encode_targets(batch.y[:1]).shape[1]
            candidates = getattr(self, "_candidates", [])
            accumulator = MomentAccumulator(number_of_folds(self.cv), n_targets, candidates)
        accumulator.add(self._weigh(batch), self._fit_candidates, self._encode_targets)
        self._accumulator, self._choice = accumulator, None
        return self

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """Leave the model as it was if the code inside fails or is interrupted, so that it can be repeated."""
        state = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__ = state
            raise

    def _weigh(self, batch: Batch) -> Batch:
        """Return a batch with the weights that it is trained with."""
        return batch

    def _chosen(self) -> RidgeChoice:
        """Return the choice for all rows added so far; it is computed now if there are new ones."""
        check_is_fitted(self)
        if self._choice is None:
            complete = self._accumulator.complete(self._fit_candidates, self._encode_targets)
            assert complete.moments is not None
            alphas = positive_values("alphas", self.alphas, default=ALPHAS)
            choice = RidgeChoice.of(
                complete.candidates, complete.moments, complete.origin, complete.n_folds, alphas, self.cv
            )
            self._choice = self._checked_for_edge(choice)
        return self._choice

    def _coefficients(self) -> tuple[Floats, Floats]:
        solution = self._chosen().solution
        return solution.coef, solution.intercept

    def finalize(self) -> Self:
        """Solve, and keep only what prediction needs; a later `partial_fit` starts from the beginning.

        Returns
        -------
        self
            The model without its accumulated moments.
        """
        self._choice = self._chosen()
        for name in ("_accumulator", "_candidates"):
            self.__dict__.pop(name, None)
        return self

    def _in_memory(self, method: str, X: Any, y: Any, sample_weight: Any) -> RowSource:
        """Return rows for a method that needs them in memory."""
        if is_path(X):
            raise ValueError(f"`{method}` does not accept file paths; use `fit(path, target)`, which streams the file.")
        if hasattr(self, "encoding_"):
            raise ValueError(
                f"`{method}` cannot continue a model that was fitted on a table; use `fit` with all rows, or "
                f"`without_encoding()`, which continues with encoded rows."
            )
        rows = open_rows(X, y, sample_weight)
        if rows.location != "memory":
            raise ValueError(f"`{method}` needs in-memory arrays; use `fit` for Dask collections.")
        return rows

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_choice")


class FourierRidge(MultiOutputMixin, RegressorMixin, RidgeModel):
    r"""Ridge regression on features: one pass over the rows for all penalties and folds.

    Minimizes :math:`\sum_i w_i (y_i - c \cdot z(x_i) - b)^2 + \alpha n |c|^2`, where n is the sum of the weights.
    `alpha`, the length scale and the kernel are those with the best mean R2 over the folds. The result equals
    scikit-learn's ``Ridge(alpha * n)`` on the features in a grid search with the same folds.

    Parameters
    ----------
    features : transformer, default=None
        The features: `FourierFeatures` (None means the default ones), or any scikit-learn transformer, such as
        ``Nystroem(256)`` or a pipeline, which is applied block by block.
    alphas : sequence of float, default=None
        Candidate penalties, relative to the number of rows; None means ``numpy.logspace(-8, 4, 25)``. A warning says
        if the best one is at an edge of three or more given ones, and the error still falls there.
    cv : int, splitter, iterable or None, default=5
        Cross-validation folds, as in scikit-learn. Each row must be in at most one test set, and in the training set of
        every other fold. None means generalized cross-validation.
    length_scales : sequence of float, default=(1.0,)
        Candidate length scales, as multiples of the length scale of the features.
    kernels : sequence of str or Kernel, default=None
        Candidate kernels, as for `FourierFeatures`, each combined with every length scale; None means the kernel of the
        features.
    random_state : int, RandomState instance or None, default=None
        Seed of the features; None keeps the `random_state` of `features`.
    verbose : int, default=0
        Show progress on standard error when `verbose` > 0: a bar in a terminal (with rich), else a few lines per task.

    Attributes
    ----------
    coef_ : ndarray of shape (n_columns,) or (n_targets, n_columns)
        Coefficients of the features.
    intercept_ : float or ndarray of shape (n_targets,)
        The intercept.
    alpha_ : float
        The chosen penalty, relative to the number of rows.
    noise_variance_ : float or ndarray of shape (n_targets,)
        Variance of the noise: the residual sum of squares divided by the residual degrees of freedom. Sample weights
        count rows: a weight of two equals two copies. Weights w with :math:`\sum w > \sum w^2`, such as shares that sum
        to 1, cannot be counts and are first multiplied by :math:`\sum w / \sum w^2`, so that the number of rows is
        their effective sample size.
    features_ : transformer
        The fitted features; ``features_.kernel_`` and ``features_.length_scale_`` are the chosen ones.
    encoding_ : Encoding
        How the columns of a table become numbers; only after a fit on a file.
    cv_errors_ : ndarray of shape (n_alphas, n_folds)
        Mean squared errors with the chosen features, the mean over targets. With more than about a thousand columns,
        those of penalties far from the best one have six digits.
    best_score_ : float
        Mean R2 over the folds with the chosen penalty.
    length_scale_scores_ : ndarray of shape (n_length_scales,)
        The best mean R2 of each length scale with the chosen kernel.
    kernel_scores_ : ndarray of shape (n_kernels,)
        The best mean R2 of each kernel; a single one if `kernels` is None.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns seen during `fit`, if they were all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import FourierRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = FourierRidge(random_state=0, length_scales=[1, 4]).fit(X[:300], y[:300])
    >>> round(model.score(X[300:], y[300:]), 2)
    0.51

    Any transformer can take the place of Fourier features:

    >>> from sklearn.kernel_approximation import Nystroem
    >>> model = FourierRidge(Nystroem(gamma=2.0, random_state=0)).fit(X[:300], y[:300])
    >>> round(model.score(X[300:], y[300:]), 2)
    0.51
    """

    _target_options: ClassVar[dict[str, bool]] = {"multi_output": True}
    _is_flat: bool

    @fit_context
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from more rows; how the rows are divided into calls makes no difference.

        Row i (of all calls) is in fold i modulo `cv`. The features are those of `fit_features`, or are fitted on the
        first 8,192 rows: shuffle rows that are ordered. A call that fails or is interrupted adds no rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        FourierRidge
            The model, which is solved when it is used next.
        """
        with self._unchanged_on_error():
            first = not hasattr(self, "_dtype")
            rows = self._validate_training(self._in_memory("partial_fit", X, y, sample_weight), reset=first)
            n_targets = target_columns(rows.target_template).shape[1]
            if not hasattr(self, "_accumulator"):
                self._is_flat = rows.target_template.ndim == 1
            elif n_targets != self._accumulator.n_targets:
                raise ValueError(f"y has {n_targets} targets, and earlier calls had {self._accumulator.n_targets}.")
            return self._add_rows(rows.with_targets(target_columns))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or path
            Rows, or a file when the model was fitted on one.
        return_std : bool, default=False
            Whether to return standard deviations of the predictive distribution too: that of a Bayesian linear model
            whose prior corresponds to the penalty, noise included.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictions; for a Dask collection a Dask array.
        std : ndarray of the same shape
            Standard deviations, if `return_std` is True.
        """
        check_is_fitted(self)
        if not return_std:
            return self._map_scores(X, _first_column if self._is_flat else None)
        if is_path(X):
            raise ValueError(f"`return_std` needs arrays; read {X} in parts and predict them one by one.")
        solution = self._chosen().solution
        predict = partial(_predict_with_std, self._feature_map, solution)
        columns = self._apply(predict, X)
        n_targets = len(solution.intercept)
        predictions, deviations = columns[:, :n_targets], columns[:, n_targets:]
        return (predictions[:, 0], deviations[:, 0]) if self._is_flat else (predictions, deviations)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Compute R2 of the predictions, the mean over targets.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            The coefficient of determination.
        """
        check_is_fitted(self)
        total: Residuals = self._accumulate_scores(X, y, sample_weight, Residuals.of)
        if total.n_rows < 2:
            warnings.warn("R2 is not defined for a single row.", UndefinedMetricWarning, stacklevel=2)
            return float("nan")
        variances = total.deviations / total.weight
        return float(r2_scores((total.errors / total.weight)[None, None], variances[None], variances).mean())

    @property
    def coef_(self) -> Floats:
        """Coefficients of the features."""
        coef = self._chosen().solution.coef
        return coef[:, 0] if self._is_flat else coef.T

    @property
    def intercept_(self) -> Any:
        """The intercept."""
        intercept = self._coefficients()[1]
        return float(intercept[0]) if self._is_flat else intercept

    @property
    def noise_variance_(self) -> Any:
        """Variance of the noise."""
        noise = self._chosen().solution.noise
        return float(noise[0]) if self._is_flat else noise

    @property
    def _scores_are_flat(self) -> bool:
        return self._is_flat

    def _encode_targets(self, y: Any) -> Floats:
        return np.asarray(y)  # checked targets are columns already

    def _encode_sample(self, y: Any) -> Floats:
        return target_columns(y)

    def _check_targets(self, rows: RowSource) -> RowSource:
        n_targets = target_columns(rows.target_template).shape[1]
        if hasattr(self, "_choice") and n_targets != len(self._coefficients()[1]):
            raise ValueError(f"y has {n_targets} targets, and the model has {len(self._coefficients()[1])}.")
        largest = LARGEST if rows.dtype == np.float64 else LARGEST_SINGLE
        return rows.with_targets(partial(target_columns, largest=largest))

    def _training_set(self, rows: RowSource) -> TrainingSet:
        self._is_flat = rows.target_template.ndim == 1
        rows = self._check_targets(rows)
        return TrainingSet(rows, *assign_folds(self.cv, rows))

    def _check_table(self, table: "Table", survey: "Survey") -> None:
        if survey.target_is_text:
            raise ValueError(
                f"{table.path}: column {table.target!r} contains text, which cannot be the target of a regression; use "
                f"FourierRidgeClassifier or FourierSVC."
            )
        self._is_flat = True


class FourierRidgeClassifier(OneVsRestMixin, RidgeModel):
    """Classification by ridge regression on features, each class (1) against the rest (-1), in one pass.

    `alpha`, the length scale and the kernel have the best mean R2 of the class indicators over the folds.

    Parameters
    ----------
    features : transformer, default=None
        The features: `FourierFeatures` (None means the default ones), or any scikit-learn transformer, such as
        ``Nystroem(256)`` or a pipeline, which is applied block by block.
    alphas : sequence of float, default=None
        Candidate penalties, relative to the number of rows; None means ``numpy.logspace(-8, 4, 25)``. A warning says
        if the best one is at an edge of three or more given ones, and the error still falls there.
    cv : int, splitter, iterable or None, default=5
        Cross-validation folds, as in scikit-learn. Each row must be in at most one test set, and in the training set of
        every other fold. None means generalized cross-validation.
    length_scales : sequence of float, default=(1.0,)
        Candidate length scales, as multiples of the length scale of the features.
    kernels : sequence of str or Kernel, default=None
        Candidate kernels, as for `FourierFeatures`, each combined with every length scale; None means the kernel of the
        features.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights of training and of held-out rows. `partial_fit`, which
        has not seen all rows, needs a dict or None.
    random_state : int, RandomState instance or None, default=None
        Seed of the features; None keeps the `random_state` of `features`.
    verbose : int, default=0
        Show progress on standard error when `verbose` > 0: a bar in a terminal (with rich), else a few lines per task.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The sorted classes.
    coef_ : ndarray of shape (1, n_columns) or (n_classes, n_columns)
        Coefficients of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    alpha_ : float
        The chosen penalty, relative to the number of rows.
    features_ : transformer
        The fitted features; ``features_.kernel_`` and ``features_.length_scale_`` are the chosen ones.
    encoding_ : Encoding
        How the columns of a table become numbers; only after a fit on a file.
    cv_errors_ : ndarray of shape (n_alphas, n_folds)
        Mean squared errors of the class indicators with the chosen features. With more than about a thousand columns,
        those of penalties far from the best one have six digits.
    best_score_ : float
        Mean R2 over the folds with the chosen penalty.
    length_scale_scores_ : ndarray of shape (n_length_scales,)
        The best mean R2 of each length scale with the chosen kernel.
    kernel_scores_ : ndarray of shape (n_kernels,)
        The best mean R2 of each kernel; a single one if `kernels` is None.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RidgeModel._parameter_constraints,
        "class_weight": [dict, StrOptions(["balanced"]), None],
    }
    _fitted_names = (*RidgeModel._fitted_names, "_class_totals")

    def __init__(
        self,
        features: Any = None,
        *,
        alphas: Sequence[float] | None = None,
        cv: Any = 5,
        length_scales: Sequence[float] = (1.0,),
        kernels: Sequence[str | Kernel] | None = None,
        class_weight: Any = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            features,
            alphas=alphas,
            cv=cv,
            length_scales=length_scales,
            kernels=kernels,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    @fit_context
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows; how the rows are divided into calls makes no difference.

        Row i (of all calls) is in fold i modulo `cv`. The features are those of `fit_features`, or are fitted on the
        first 8,192 rows: shuffle rows that are ordered. A call that fails or is interrupted adds no rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Classes.
        classes : array-like of shape (n_classes,), default=None
            All classes that will occur; required in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        FourierRidgeClassifier
            The model, which is solved when it is used next.
        """
        if classes is None and not hasattr(self, "classes_"):
            raise ValueError("`classes` must be given in the first call of `partial_fit`: all classes that will occur.")
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"`class_weight`={self.class_weight!r} needs all rows; use `fit`, or give `partial_fit` a dict."
            )
        with self._unchanged_on_error():
            first = not hasattr(self, "_dtype")
            rows = self._validate_training(self._in_memory("partial_fit", X, y, sample_weight), reset=first)
            if not hasattr(self, "classes_"):
                self._set_classes(np.unique(classes))
            elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError(
                    f"`classes` must be the same in every call. Got {np.unique(classes).tolist()}, and "
                    f"{self.classes_.tolist()} before."
                )
            rows = self._check_targets(rows)
            self._encode_targets(rows.collect_columns()[0])  # refuses unknown classes before any row is added
            return self._add_rows(rows)

    def _solve(self, training: TrainingSet, candidates: list[Any]) -> None:
        if self.class_weight is not None:
            training = replace(training, weigh=ClassWeights(self.classes_, self._class_weights(training.rows)))
        super()._solve(training, candidates)

    def _weigh(self, batch: Batch) -> Batch:
        if self.class_weight is None:
            return batch
        return ClassWeights(self.classes_, self._class_weights())(batch)

    def _encode_sample(self, y: Any) -> Floats:
        labels = check_labels(y)
        return label_indicators(np.unique(labels), labels)


def _check_moments(n_bytes: int, size: int) -> None:
    check_memory(n_bytes, f"A ridge regression on {size:,} columns and targets", "second moments", FEWER)


def target_columns(y: Any, largest: float = LARGEST) -> Floats:
    """Return the targets of a regression as columns of finite numbers."""
    given = np.asarray(y)
    is_text = given.dtype.kind in "US" or (
        given.dtype.kind == "O" and any(isinstance(target, str | bytes) for target in given.ravel())
    )
    try:
        if is_text or given.dtype.kind in "mM":  # numpy would convert numeric text, dates and durations
            raise TypeError
        targets = given.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        example = f", such as {given.ravel()[0]!r:.100}" if given.size else ""
        raise ValueError(
            f"y must contain numbers for a regression. Got values of dtype {given.dtype}{example}; convert them to "
            f"numbers, or use a classifier for class labels."
        ) from None
    assert_all_finite(targets, input_name="y")
    found = float(np.abs(targets).max(initial=0.0))
    if found > largest or 0.0 < found < 1.0 / LARGEST:
        raise ValueError(f"y contains values up to {found:.3g}, whose squares overflow or underflow; rescale it.")
    return targets if targets.ndim == 2 else targets[:, None]


def _first_column(columns: Floats) -> Floats:
    return columns[:, 0]


def _predict_with_std(feature_map: FeatureMap, solution: RidgeSolution, X: Any) -> Array:
    """Return predictions, then standard deviations, one column per target each."""

    def both(features: Floats) -> Floats:
        return np.hstack([features @ solution.coef + solution.intercept, np.sqrt(solution.variance(features))])

    columns = apply_to_features(feature_map, X, 2 * len(solution.intercept), both, feature_map.width)
    return columns.astype(X.dtype, copy=False)
