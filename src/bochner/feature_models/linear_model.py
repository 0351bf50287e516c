# SPDX-License-Identifier: BSD-3-Clause
"""What the linear models share: fitting on arrays, files and Dask collections, validation, scores of new rows."""

import reprlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d, get_tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from bochner.feature_maps import FeatureMap, apply_to_features
from bochner.feature_maps.feature_map import accepts_nan
from bochner.feature_models.candidates import feature_map_of, features_of_kernels, fit_candidates, seed_of
from bochner.feature_models.folds import RoundRobin, assign_folds, number_of_folds
from bochner.feature_models.labels import ClassCounts, check_labels, count_classes, label_indicators
from bochner.feature_models.training_sets import TrainingSet
from bochner.features.fourier_features import FourierFeatures
from bochner.kernels import Kernel
from bochner.memory import expected_width
from bochner.parameters import LINEAR_EXPLANATIONS, Parametrized
from bochner.progress import show_progress
from bochner.rows import (
    Array,
    Batch,
    Floats,
    MemoryRows,
    RowSource,
    add_pair,
    apply_to_rows,
    for_each_span,
    open_rows,
    row_spans,
    serial_blas,
    validate_rows,
)
from bochner.tables.sources import is_frame
from bochner.validation import HasMethods, fit_context

if TYPE_CHECKING:
    from bochner.tables.encoding import EncodedTable, Encoding
    from bochner.tables.reader import Table
    from bochner.tables.survey import Standardization, Survey

__all__ = ["LinearModel", "OneVsRestMixin", "is_path"]

GRADIENT_ROWS = 256
LAZY_GRADIENTS = "Gradients need rows in memory and not a Dask collection; compute the rows first."


class LinearModel(Parametrized):
    """A linear model on features, which chooses its penalty, kernel and length scale by cross-validation.

    Subclasses say what their targets are (`_training_set`, `_encode_targets`) and how to solve (`_solve`).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "features": [HasMethods(["fit", "transform"]), None],
        "cv": ["cv_object"],
        "length_scale_factors": ["array-like"],
        "kernels": [list, tuple, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _default_parts: ClassVar[Mapping[str, Mapping[Any, type]]] = {"features": {None: FourierFeatures}}
    _explanations: ClassVar[Mapping[str, str]] = LINEAR_EXPLANATIONS
    # What fits leave behind, beside what scikit-learn's validation sets.
    _fitted_names: ClassVar[tuple[str, ...]] = (
        "features_",
        "encoding_",
        "classes_",
        "_dtype",
        "_seed",
        "_candidates",
        "_n_kernels",
    )
    _target_options: ClassVar[dict[str, bool]] = {}  # of scikit-learn's validate_data

    features: Any
    length_scale_factors: Sequence[float]
    kernels: Sequence[str | Kernel] | None
    random_state: Any
    verbose: int
    cv: Any
    features_: Any
    encoding_: "Encoding"
    _dtype: str
    _n_kernels: int

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the features and the linear model, and choose the penalty.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), path or data frame
            Training rows. If `y` is the name of a column, a table: the path of a file, which is streamed, or a pandas,
            polars or Arrow table. Its columns are encoded and standardized as by ``bochner fit``. A model that needs
            several passes reads a file or a Dask collection as often; persist a collection that fits into the memory of
            the workers.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or str
            Targets or classes; for a table, the name of the column to predict.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, which the features use too. The rows of a table have weight 1.

        Returns
        -------
        self
            The fitted model.
        """
        features_of_kernels(self.features, self.kernels)  # refuses some before any rows are read
        with show_progress(self.verbose):
            if is_path(X) or (isinstance(y, str) and is_frame(X)):
                return self._fit_table(X, y, sample_weight)
            self._reset()
            training = self._training_set(self._validate_training(open_rows(X, y, sample_weight)))
            self._solve(training, self._fit_candidates(training.rows))
            return self

    def gradients(self, X: Any) -> Floats:
        """Compute the gradients of the scores with respect to the columns of X.

        The scores are the predictions of a regression, and the values of `decision_function` of a classifier. Features
        of a kernel have gradients in closed form; those of other transformers are central differences.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or path
            Rows, or a file or data frame when the model was fitted on a table, whose encoded columns are meant.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_outputs)
            The gradients, in float64; one output per target or class, a single one for two classes.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import FeatureRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
        >>> model = FeatureRegressor(random_state=0).fit(X, 3 * X[:, 0])
        >>> model.gradients(np.zeros((1, 2))).shape
        (1, 2, 1)
        """
        check_is_fitted(self)
        return self._gradients(X, self._feature_map.gradients)

    def mean_gradients(self, X: Any, start: Any) -> Floats:
        r"""Average the gradients of the scores along the segments from a row to the rows of X.

        The average is :math:`\int_0^1 \nabla f(s + t (x - s)) \, dt`, in closed form for Fourier features. Its
        product with x - s is the difference f(x) - f(s), which it divides among the columns (integrated gradients).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or path
            Rows x, or a file or data frame when the model was fitted on a table, whose encoded columns are meant.
        start : array-like of shape (n_features,)
            The row s.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_outputs)
            The average gradients, in float64; one output per target or class, a single one for two classes.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import FeatureRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
        >>> model = FeatureRegressor(random_state=0).fit(X, X[:, 0] * X[:, 1])
        >>> total = (model.mean_gradients(X, X[0])[:, :, 0] * (X - X[0])).sum(axis=1)
        >>> bool(np.allclose(total, model.predict(X) - model.predict(X[:1])))
        True
        """
        check_is_fitted(self)
        feature_map, row = self._feature_map, np.asarray(start, dtype=np.float64)
        return self._gradients(X, lambda block, coef: feature_map.mean_gradients(block, row, coef))

    def without_encoding(self) -> Self:
        """Return the model for encoded rows, if it was fitted on a table; the copy shares all fitted arrays.

        Returns
        -------
        self
            A model whose methods take arrays, as ``encoding_.encode`` makes them of cells, and no tables.

        Examples
        --------
        >>> import pandas as pd
        >>> from bochner import FeatureRegressor
        >>> frame = pd.DataFrame({"a": range(50), "y": range(50)})
        >>> model = FeatureRegressor(random_state=0).fit(frame, "y")
        >>> model.without_encoding().predict([[0.0]]).round().tolist() == [frame["y"].median().round()]
        True
        """
        bare = type(self).__new__(type(self))
        bare.__dict__ = {name: value for name, value in vars(self).items() if name != "encoding_"}
        return bare

    def _gradients(self, X: Any, function: Callable[[Any, Floats], Floats]) -> Floats:
        """Compute gradients of the scores of validated rows, blocks of rows in threads."""
        X = self._validate_rows(self._encoded(X) if self._is_table(X) else X, lambda: LAZY_GRADIENTS)
        coef = self._coefficients()[0].astype(np.float64)
        out = np.empty((*X.shape, coef.shape[1]))

        def work(span: slice) -> None:
            for rows in row_spans(span.stop - span.start, GRADIENT_ROWS):
                out[span][rows] = function(X[span][rows], coef)

        for_each_span(work, X.shape[0], GRADIENT_ROWS)
        return out

    @abstractmethod
    def _training_set(self, rows: RowSource) -> TrainingSet:
        """Return validated rows with checked targets and with folds."""

    @abstractmethod
    def _encode_targets(self, y: Any) -> Floats:
        """Return checked targets as the columns (n_samples, n_targets) that the model is fitted to."""

    @abstractmethod
    def _check_width(self, width: int, rows: RowSource) -> None:
        """Refuse a number of columns, 0 if it is unknown, for which the memory of the machine is too small."""

    @abstractmethod
    def _solve(self, training: TrainingSet, candidates: list[Any]) -> None:
        """Choose one of the fitted candidate features and the penalty, and solve on all rows."""

    @abstractmethod
    def _coefficients(self) -> tuple[Floats, Floats]:
        """Return the coefficients (width, n_columns) and intercepts (n_columns,)."""

    @property
    @abstractmethod
    def _scores_are_flat(self) -> bool:
        """Whether predictions of a regression, or scores of a classifier, have one axis."""

    @property
    def _feature_map(self) -> FeatureMap:
        """The map of the chosen features."""
        return feature_map_of(self.features_, len(self._coefficients()[0]))

    def _accepts_nan(self) -> bool:
        return self.features is not None and accepts_nan(self.features)

    def _reset(self) -> None:
        """Drop what an earlier fit has left."""
        for name in self._fitted_names:
            self.__dict__.pop(name, None)

    def _validate_training(self, source: RowSource, **options: Any) -> RowSource:
        """Return validated training rows with targets; `reset=False` requires the columns and dtype of earlier rows."""
        if not source.has_targets:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None; give y."
            )
        dtype = [np.float64, np.float32] if options.get("reset", True) else self._dtype
        finite = "allow-nan" if self._accepts_nan() else True
        options |= {"accept_sparse": "csr", "dtype": dtype, "ensure_all_finite": finite}
        rows = source.validate(self, **options, **self._target_options)
        self._dtype = rows.dtype.name
        return rows

    def _check_size(self, rows: RowSource) -> None:
        """Refuse numbers of columns and of classes for which the memory of the machine is too small."""
        self._check_width(expected_width(FourierFeatures() if self.features is None else self.features) or 0, rows)

    def _fit_candidates(self, rows: RowSource, encode: Callable[[Any], Floats] | None = None) -> list[Any]:
        """Fit the features for each of the kernels and length scales, on rows with checked targets."""
        self._check_size(rows)
        if not hasattr(self, "_seed"):  # one that is drawn is drawn once per fit
            self._seed = seed_of(self.features, self.random_state)
        self._n_kernels = 1 if self.kernels is None else len(self.kernels)
        encode = encode or self._encode_targets
        return fit_candidates(self.features, rows, encode, self.length_scale_factors, self._seed, self.kernels)

    def _fit_table(self, data: Any, target: Any, sample_weight: Any) -> Self:
        """Fit on a file or a data frame, as `bochner fit` does."""
        if sample_weight is not None:
            raise ValueError("`sample_weight` needs arrays; the rows of a table have weight 1.")
        if not isinstance(target, str):
            raise ValueError(f"`y` must be the name of the column of {data} to predict. Got {target!r:.100} instead.")
        from bochner.feature_models.table_training import TableTraining  # most fits need no tables
        from bochner.tables.file_table import FileTable

        self._reset()
        self._seed = seed_of(self.features, self.random_state)
        table = FileTable(data, target)
        TableTraining.begin(table, self._seed or 0).run(table, lambda survey: self)
        return self

    def fit_table_features(
        self, table: "Table", survey: "Survey", standardize: "Standardization" = "robust"
    ) -> list[Any]:
        """Fit the features on the sampled rows of a table, the first step of training on one.

        Parameters
        ----------
        table : Table
            The table.
        survey : Survey
            What a pass over the table has found.
        standardize : {"robust", "plain", "none"}, default="robust"
            How numeric columns are standardized.

        Returns
        -------
        list of transformer
            The fitted candidates.
        """
        n_folds = number_of_folds(self.cv)
        if survey.n_rows < n_folds:
            raise ValueError(f"{table.path} has {survey.n_rows} rows, too few for {n_folds} folds; add rows.")
        self._check_table(table, survey)
        self.encoding_ = survey.encoding(standardize)
        cells = survey.sample.cells
        sample = MemoryRows(self.encoding_.encode(cells), self.encoding_.targets(cells))
        return self._fit_candidates(self._check_targets(self._validate_training(sample)))

    def fit_table(self, rows: RowSource, candidates: list[Any]) -> None:
        """Solve on the encoded rows of a table, the second step of training on one.

        Parameters
        ----------
        rows : RowSource
            Rows of a file or of partitions. Their folds are assigned round-robin.
        candidates : list of transformer
            What `fit_table_features` has returned.
        """
        self._solve(TrainingSet(self._check_targets(rows), RoundRobin(number_of_folds(self.cv))), candidates)

    def finalize(self) -> Self:
        """Keep only what prediction needs.

        Returns
        -------
        self
            The model.
        """
        return self

    @abstractmethod
    def _check_targets(self, rows: RowSource) -> RowSource:
        """Return rows whose targets are checked block by block."""

    @abstractmethod
    def _check_table(self, table: "Table", survey: "Survey") -> None:
        """Take the classes of a table from its survey, or refuse its target."""

    def _validate_rows(self, X: Any, refuse_lazy: Callable[[], str | None] = lambda: None) -> Any:
        """Return new rows, validated for the features; a Dask collection as it is, unless it is refused."""
        check_is_fitted(self)
        return validate_rows(self, X, self._feature_map.check, refuse_lazy, **self._new_row_options())

    def _new_row_options(self) -> dict[str, Any]:
        """Return options of scikit-learn's `validate_data` for rows of a fitted model."""
        return {"accept_sparse": "csr", "dtype": self._dtype, "ensure_all_finite": False}

    def _apply(self, function: Callable[[Any], Array], X: Any) -> Any:
        """Apply a function to new rows, lazily to those of a Dask collection."""
        if self._is_table(X):
            X = self._encoded(X)
        prepare = partial(self._feature_map.validate_block, dtype=self._dtype)
        return apply_to_rows(function, self._validate_rows(X), prepare)

    def _map_scores(self, X: Any, finish: Callable[[Floats], Any] | None = None) -> Any:
        """Return `finish` of the scores z(x) . c + b, of shape (n_samples, n_columns); lazily for a Dask collection."""
        check_is_fitted(self)
        if self._is_table(X):
            source = self._open_table(X)
            model = self.without_encoding()
            scores = [model._map_scores(rows, finish) for _, rows in source.batches()]
            if not scores:
                raise ValueError(f"{source.table.path} has no rows to predict.")
            source.unseen.warn()
            return np.concatenate(scores)
        return self._apply(self._scorer(finish), X)

    def _scorer(self, finish: Callable[[Floats], Any] | None = None) -> "_Scorer":
        return _Scorer(self._feature_map, *self._coefficients(), finish)

    def _is_table(self, X: Any) -> bool:
        """Return whether X is a table, which a model needs that was fitted on one: a file or a data frame."""
        if is_path(X) or not hasattr(self, "encoding_"):
            return is_path(X)
        if not is_frame(X):
            names = reprlib.repr([column.name for column in self.encoding_.columns])
            raise ValueError(
                f"This {type(self).__name__} was fitted on a table with the columns {names}, and X is a "
                f"{type(X).__name__}; give a data frame or a file with these columns."
            )
        return True

    def _open_table(self, data: Any, *, with_target: bool = False) -> "EncodedTable":
        if not hasattr(self, "encoding_"):
            raise ValueError(f"{type(self).__name__} was fitted on an array and cannot read {data}; give an array.")
        return self.encoding_.open(data, with_target=with_target)

    def _encoded(self, data: Any) -> Array:
        """Return all rows of a table, encoded."""
        source = self._open_table(data)
        rows = [np.empty((0, len(self.encoding_.names)), self.encoding_.dtype), *(X for _, X in source.batches())]
        source.unseen.warn()
        return np.concatenate(rows)

    def _accumulate_scores(self, X: Any, y: Any, sample_weight: Any, part: Callable[[Any, Batch], Any]) -> Any:
        """Add up what `part` computes of scores and batches of rows."""
        check_is_fitted(self)
        if self._is_table(X):
            if isinstance(y, str):
                return self._accumulate_table_scores(X, y, sample_weight, part)
            X = self._encoded(X)
        source = open_rows(X, y, sample_weight)
        if not source.has_targets:
            raise ValueError("A score compares predictions with y, but y is None; give y.")
        rows = self._check_targets(self._validate_training(source, reset=False))
        scored = TrainingSet(rows, RoundRobin(0))
        return scored.accumulate(partial(_score_batch, part, self._scorer(), self._feature_map))

    def _accumulate_table_scores(self, data: Any, target: str, sample_weight: Any, part: Callable[..., Any]) -> Any:
        """Add up what `part` computes over the rows of a table that have a target."""
        if sample_weight is not None:
            raise ValueError("`sample_weight` needs arrays; the rows of a table have weight 1.")
        source = self._open_table(data, with_target=True)
        if target != source.table.target:
            raise ValueError(f"The model predicts the column {source.table.target!r}, not {target!r}; give its name.")
        total, model = None, self.without_encoding()
        for chunk, rows in source.batches(for_training=True):
            if len(rows):
                total = add_pair(total, model._accumulate_scores(rows, source.targets(chunk), None, part))
        if total is None:
            raise ValueError(f"{source.table.path} has no rows with a value of {target!r}; a score needs some.")
        return total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._accepts_nan()
        tags.input_tags.pairwise = (
            self.kernels is None
            and hasattr(self.features, "__sklearn_tags__")
            and get_tags(self.features).input_tags.pairwise
        )
        return tags


@dataclass(frozen=True)
class _Scorer:
    """Scores of validated rows; it is sent to the workers that have them."""

    feature_map: FeatureMap
    coef: Floats
    intercept: Floats
    finish: Callable[[Floats], Any] | None

    def __call__(self, X: Any) -> Any:
        feature_map, coef = self.feature_map, self.coef
        inner, matrix = feature_map.factors()
        # One product saves one per row. Large coefficients of float32 columns would lose digits.
        if matrix is not None and inner.dtype == np.float64 and X.shape[0] > 1:
            feature_map, coef = inner, serial_blas(np.matmul)(matrix, coef)
        scores = apply_to_features(feature_map, X, coef.shape[1], lambda features: features @ coef)
        scores += self.intercept
        scores = scores.astype(X.dtype, copy=False)
        return scores if self.finish is None else self.finish(scores)


def _score_batch(part: Callable[[Any, Batch], Any], score: _Scorer, feature_map: FeatureMap, batch: Batch) -> Any:
    feature_map.check(batch.X)
    return part(score(batch.X), batch)


class OneVsRestMixin(ClassifierMixin):
    """Classification by one linear problem per class, that class against the rest; a single one for two classes."""

    classes_: Array
    cv: Any
    class_weight: Any

    def predict(self, X: Any) -> Any:
        """Predict classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or path
            Rows, or a file or data frame when the model was fitted on a table.

        Returns
        -------
        ndarray of shape (n_samples,)
            The class with the largest score; for a Dask collection a Dask array.
        """
        check_is_fitted(self)
        return self._map_scores(X, partial(_best_classes, self.classes_))

    def decision_function(self, X: Any) -> Any:
        """Compute the scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or path
            Rows, or a file or data frame when the model was fitted on a table.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the score of the second one, else one column per class; for a Dask collection a Dask array.
        """
        return self._map_scores(X, _squeeze_single)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Compute the accuracy of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), or path
            Rows, or a file or data frame when the model was fitted on a table.
        y : array-like of shape (n_samples,), or str
            Their classes, or the name of the target in the table.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            The share of rows whose class is predicted.
        """
        check_is_fitted(self)
        right, total = self._accumulate_scores(X, y, sample_weight, partial(_count_right, self.classes_))
        return float(right / total)

    @property
    def coef_(self) -> Floats:
        """Coefficients of the features, one row per class, a single row for two classes."""
        return np.asarray(self._coefficients()[0].T)

    @property
    def intercept_(self) -> Floats:
        """One intercept per row of `coef_`."""
        return np.asarray(self._coefficients()[1])

    @property
    def _scores_are_flat(self) -> bool:
        return len(self.classes_) == 2

    @property
    def _n_targets(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _set_classes(self, classes: Array) -> None:
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; y has only one class, {classes.tolist()[0]!r}."
            )
        self.classes_ = classes

    def _encode_targets(self, y: Any) -> Floats:
        return label_indicators(self.classes_, y)

    def _check_targets(self, rows: RowSource) -> RowSource:
        column_or_1d(rows.target_template, warn=True)  # here and not for every block, to warn once
        return rows.with_targets(check_labels)

    def _check_table(self, table: "Table", survey: "Survey") -> None:
        self._set_classes(np.array(survey.classes(table)))

    def _class_weights(self, rows: RowSource | None = None) -> Floats:
        """Return the weight of each class; "balanced" needs the totals of the classes, or rows to count them."""
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        if isinstance(self.class_weight, str) and rows is not None and not hasattr(self, "_class_totals"):
            total = ClassCounts.total(rows.accumulate(count_classes, with_rows=False) or [])  # those of a file
            self._class_totals = total.weights[np.argsort(total.classes)]
        totals = getattr(self, "_class_totals", np.ones(len(self.classes_)))
        # Every class is one sample that stands for all its rows.
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_, sample_weight=totals)
        if not (weights >= 0.0).all():
            raise ValueError(f"`class_weight` must not be negative. Got {self.class_weight!r} instead.")
        return np.asarray(weights)

    def _training_set(self, rows: RowSource) -> TrainingSet:
        rows = self._check_targets(rows)
        parts: list[ClassCounts] = rows.accumulate(count_classes, with_rows=False) or []
        total = ClassCounts.total(parts)
        order = np.argsort(total.classes)
        order = order[total.weights[order] > 0.0]
        if not len(order):
            raise ValueError("No row has a positive `sample_weight`; give some rows a weight.")
        self._set_classes(total.classes[order])
        self._class_totals = total.weights[order]
        self._check_size(rows)  # before stratified folds, which take long for many classes
        return TrainingSet(rows, *assign_folds(self.cv, rows, parts))


def _squeeze_single(scores: Floats) -> Floats:
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _best_classes(classes: Array, scores: Floats) -> Array:
    positions = (scores[:, 0] > 0.0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return np.asarray(classes[positions])


def _count_right(classes: Array, scores: Floats, batch: Batch) -> Floats:
    """Return the weights of the rows that are classified right, and of all rows."""
    return np.array([batch.counts @ (_best_classes(classes, scores) == batch.y), batch.counts.sum()])


def is_path(X: Any) -> bool:
    """Return whether X is the path of a file."""
    return isinstance(X, str | PathLike)
