# SPDX-License-Identifier: BSD-3-Clause
"""What `FeatureRegressor` and `FeatureClassifier` share: `fit`, `partial_fit`, scores of rows, gradients.

`fit` is four steps: validate the rows, fit the candidate features, choose one of them and a penalty, and keep the
solution. Squared errors are solved from second moments (`ridge`), other losses along a path of penalties (`paths`).
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from bochner.feature_maps import FeatureMap, ProductMap, apply_to_features
from bochner.feature_maps.feature_map import accepts_nan
from bochner.feature_models.candidates import (
    default_features,
    feature_map_of,
    features_of_kernels,
    fit_candidates,
    seed_of,
)
from bochner.feature_models.folds import Choice, ClassCounts, RoundRobin, TrainingSet, assign_folds, count_folds
from bochner.feature_models.paths import fit_path, is_held, warn_at_edge
from bochner.feature_models.ridge import MomentAccumulator, check_moments, fit_ridge
from bochner.kernels import Kernel
from bochner.losses import Loss, SquaredHinge
from bochner.memory import check_memory, expected_width
from bochner.parameters import LINEAR_EXPLANATIONS, Parametrized
from bochner.progress import show_progress
from bochner.rows import (
    Array,
    Batch,
    Floats,
    RowSource,
    apply_to_rows,
    compose,
    for_each_span,
    open_rows,
    row_spans,
    serial_blas,
    validate_rows,
)
from bochner.rows.block_sizes import MAX_SMALL_ROWS
from bochner.validation import HasMethods, fit_context, make_part

__all__ = ["ALPHAS", "FeatureModel", "has_closed_form", "in_memory"]

ALPHAS = tuple(float(alpha) for alpha in np.logspace(-8, 4, 25))
LAZY_GRADIENTS = "Gradients need rows in memory and not a Dask collection; compute the rows first."


class FeatureModel(Parametrized):
    """A linear model on features with any loss, which chooses its penalty, kernel and length scale by cross-validation.

    Subclasses say what their targets are: `_check_targets`, then `_learn_targets`. After that, `_columns_of` returns a
    function that encodes them as columns, for features that are learned from targets and for squared errors;
    `_targets_of` one that encodes them for all other losses; and `_weigh` one that weights classes. Subclasses also
    have the candidates of their penalty, in their own unit (`_penalties`) and relative to the weights (`_alphas`).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "features": [HasMethods(["fit", "transform"]), None],
        "loss": [HasMethods(["evaluate", "curvature"])],  # and the names in `_default_parts`
        "cv": ["cv_object"],
        "length_scale_factors": ["array-like"],
        "kernels": [list, tuple, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _default_parts: ClassVar[Mapping[str, Mapping[Any, Any]]] = {"features": {None: default_features}}
    _explanations: ClassVar[Mapping[str, str]] = LINEAR_EXPLANATIONS
    # What fits leave behind, beside what scikit-learn's validation sets. `_choice` is None if rows were added since the
    # last solution, `_is_continued` is set by `partial_fit`, and `_has_no_moments` in copies without an accumulator.
    _fitted_names: ClassVar[tuple[str, ...]] = (
        *("loss_", "classes_", "_accumulator", "_candidates", "_choice", "_class_totals", "_dtype", "_has_no_moments"),
        *("_is_continued", "_is_flat", "_n_kernels", "_n_targets", "_seed"),
    )
    _penalty_name: ClassVar[str]
    _target_options: ClassVar[dict[str, bool]] = {}  # of scikit-learn's validate_data

    features: Any
    loss: Any
    cv: Any
    length_scale_factors: Sequence[float]
    kernels: Sequence[str | Kernel] | None
    random_state: Any
    verbose: int
    loss_: Loss
    _dtype: str
    _choice: Choice | None
    _accumulator: MomentAccumulator | None
    _n_kernels: int

    @abstractmethod
    def _check_targets(self, rows: RowSource) -> RowSource:
        """Return rows whose targets are checked block by block."""

    @abstractmethod
    def _learn_targets(self, rows: RowSource) -> list[ClassCounts] | None:
        """Learn the classes, and return those of each partition; of a regression learn the shape of the targets."""

    def _columns_of(self) -> Callable[[Any], Floats]:
        """Return the function from checked targets to columns of numbers; workers get it without the model."""
        return np.asarray  # those of a regression are columns already

    @abstractmethod
    def _columns_of_sample(self, y: Any) -> Floats:
        """Return the columns of the targets of a sample of rows, whose classes need not be known."""

    def _targets_of(self) -> Callable[[Any], Array]:
        """Return the function from checked targets to what the loss compares with scores."""
        return np.asarray

    @abstractmethod
    def _penalties(self, weight: float) -> Floats:
        """Return the candidates of the parameter `alphas` or `Cs`, for the sum of the weights."""

    def _alphas(self, weight: float) -> Floats:
        """Return candidate penalties relative to the sum of the weights."""
        return self._penalties(weight)

    @property
    @abstractmethod
    def _n_outputs(self) -> int:
        """Number of outputs, once the targets are learned."""

    def _weigh(self) -> Callable[[Array], Floats] | None:
        """Return the function from labels to weights of classes, which multiply the sample weights."""
        return None

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the features and the linear model, and choose the penalty.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features), RowSource or Partitions
            Training rows; row sources and partitions have their own targets and weights. Losses other than squared
            errors read rows that are not in memory several times; persist a Dask collection that fits into the memory
            of the workers.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets or classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, which the features use too.

        Returns
        -------
        self
            The fitted model.
        """
        features_of_kernels(self.features, self.kernels)  # refuses some before any rows are read
        with show_progress(self.verbose):
            self._reset()
            rows = self._check_targets(self._validate_training(open_rows(X, y, sample_weight)))
            class_counts = self._learn_targets(rows)
            self._check_memory(rows)  # before stratified folds, which take long for many classes
            training = TrainingSet(rows, *assign_folds(self.cv, rows, class_counts), self._weigh())
            candidates, self.loss_ = self._fit_candidates(rows), self._made_loss()
            if self.loss_.has_closed_form:
                encode = self._columns_of()
                choice, self._accumulator = fit_ridge(candidates, training, encode, self._alphas, self.cv)
            else:
                encode = self._targets_of()
                choice = fit_path(candidates, training, encode, self._alphas, self.cv, self.loss_, self._n_outputs)
            self._choice = self._finished(choice)
            return self

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
        source = in_memory("fit_features", X, y, sample_weight)
        rows = self._validate_training(source, needs_targets=False, multi_output=True)
        with show_progress(self.verbose):
            self._check_memory(rows)
            self._candidates = self._fit_candidates(rows, self._columns_of_sample)
        return self

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

    def gradients(self, X: Any) -> Floats:
        """Compute the gradients of the scores with respect to the columns of X.

        The scores are the predictions of a regression, and the values of `decision_function` of a classifier. Features
        of a kernel have gradients in closed form; those of other transformers are central differences.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

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
        X, coef = self._validate_rows(X, LAZY_GRADIENTS), self._chosen().coef.astype(np.float64)
        out, feature_map = np.empty((*X.shape, coef.shape[1])), self._feature_map

        def work(span: slice) -> None:
            for rows in row_spans(span.stop - span.start, MAX_SMALL_ROWS):
                out[span][rows] = feature_map.gradients(X[span][rows], coef)

        for_each_span(work, X.shape[0], MAX_SMALL_ROWS)
        return out

    @property
    def features_(self) -> Any:
        """The fitted features."""
        return self._chosen().features

    @property
    def cv_errors_(self) -> Floats:
        """Mean errors (n_penalties, n_folds) of the chosen features."""
        return self._scored().errors

    @property
    def best_score_(self) -> float:
        """The mean score over the folds with the chosen penalty and features."""
        return float(self._scored().scores.max())

    @property
    def kernel_scores_(self) -> Floats:
        """The best score of each of the `kernels`."""
        return np.asarray(self._scored().scores.reshape(self._n_kernels, -1).max(axis=1))

    @property
    def length_scale_scores_(self) -> Floats:
        """The best score of each of the `length_scale_factors` with the chosen kernel."""
        scores = self._scored().scores.reshape(self._n_kernels, -1)
        return np.asarray(scores[scores.max(axis=1).argmax()])

    def _made_loss(self) -> Loss:
        """Return an instance of the loss, with checked parameters."""
        loss: Loss = make_part(self.loss, self._default_parts["loss"])
        return loss

    def _reset(self) -> None:
        """Drop what an earlier fit has left."""
        for name in self._fitted_names:
            self.__dict__.pop(name, None)

    def _accepts_nan(self) -> bool:
        return self.features is not None and accepts_nan(self.features)

    def _validate_training(
        self, source: RowSource, *, reset: bool = True, needs_targets: bool = True, **options: Any
    ) -> RowSource:
        """Return validated training rows; `reset=False` requires the columns and dtype of earlier rows."""
        if needs_targets and not source.has_targets:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None; give y."
            )
        options = self._target_options | options | {"accept_sparse": "csr", "reset": reset}
        options["dtype"] = [np.float64, np.float32] if reset else self._dtype
        rows = source.validate(self, ensure_all_finite="allow-nan" if self._accepts_nan() else True, **options)
        self._dtype = rows.dtype.name
        return rows

    def _fit_candidates(self, rows: RowSource, columns_of: Callable[[Any], Floats] | None = None) -> list[Any]:
        """Fit the features for each of the kernels and length scales, on rows with checked targets."""
        if not hasattr(self, "_seed"):  # one that is drawn is drawn once per fit
            self._seed = seed_of(self.features, self.random_state)
        self._n_kernels = 1 if self.kernels is None else len(self.kernels)
        columns_of = columns_of or self._columns_of()
        return fit_candidates(self.features, rows, columns_of, self.length_scale_factors, self._seed, self.kernels)

    def _check_memory(self, rows: RowSource) -> None:
        """Refuse numbers of columns and of classes for which the memory of the machine is too small."""
        loss, width = self._made_loss(), expected_width(self.features or default_features()) or 0
        n_outputs, is_whole = getattr(self, "_n_outputs", 0), is_held(rows, width, 4)
        if loss.has_closed_form:
            n_folds = int(self.cv) if isinstance(self.cv, Integral) else 0
            check_moments(width + n_outputs, n_folds, len(self.length_scale_factors) * len(self.kernels or [None]))
            return
        if not (type(loss) is SquaredHinge and is_whole):  # active sets need no matrix
            subject = f"A model with the loss {self.loss!r} on {width:,} columns"
            check_memory(36 * (width + 1) ** 2, subject, "a preconditioner", "use fewer frequencies")
        if is_whole:
            subject = f"{type(self).__name__} on {rows.shape[0]:,} rows with {n_outputs:,} outputs"
            check_memory(8 * rows.shape[0] * n_outputs, subject, "scores", "use fewer classes or rows")

    def _finished(self, choice: Choice) -> Choice:
        """Return a choice with the user's own penalty; warn if it is at the edge of the user's own grid."""
        penalties = self._penalties(choice.weight)
        chosen = float(penalties[choice.position])
        if getattr(self, self._penalty_name) is not None:
            warn_at_edge(self._penalty_name, penalties, chosen, choice.errors)
        return replace(choice, penalty=chosen)

    def _add_rows(self, X: Any, y: Any, sample_weight: Any, learn_targets: Callable[[RowSource], object]) -> Self:
        """Add rows; the model is solved when it is used next. A call that fails can be repeated."""
        state = dict(vars(self))
        try:
            source = in_memory("partial_fit", X, y, sample_weight)
            rows = self._check_targets(self._validate_training(source, reset=not hasattr(self, "_dtype")))
            learn_targets(rows)
            if hasattr(self, "_has_no_moments"):
                raise ValueError(
                    "`partial_fit` cannot continue a `fit` that was pickled or copied, without its moments; begin with "
                    "`partial_fit`, whose moments are kept."
                )
            accumulator = getattr(self, "_accumulator", None)
            if accumulator is None:
                self.loss_ = self._made_loss()
                self._penalties(1.0)  # refuses some before any row is added
                features_of_kernels(self.features, self.kernels)
                candidates = getattr(self, "_candidates", [])
                accumulator = MomentAccumulator(count_folds(self.cv), self._columns_of(), candidates)
            batch, weigh = rows.select(slice(None)), self._weigh()
            if weigh is not None:
                batch = batch._replace(sample_weight=batch.row_weights * weigh(batch.y))
            self._accumulator = accumulator.add(batch, self._fit_candidates)
            self._choice, self._is_continued = None, True
        except BaseException:
            self.__dict__ = state
            raise
        return self

    def _chosen(self) -> Choice:
        """Return the choice for all rows added so far; it is computed now if there are new ones."""
        check_is_fitted(self)
        if self._choice is None:
            assert self._accumulator is not None
            complete = self._accumulator.complete(self._fit_candidates)
            self._choice = self._finished(complete.choose(self._alphas, self.cv))
        return self._choice

    def _scored(self) -> Choice:
        """Return the choice if there were errors on folds, or generalized ones, to choose by."""
        chosen = self._chosen()
        if not chosen.errors.size:
            raise AttributeError(f"`cv`=None has no errors with `loss`={self.loss!r}; give a number of folds.")
        return chosen

    @property
    def _feature_map(self) -> FeatureMap:
        """The map of the chosen features."""
        chosen = self._chosen()
        return feature_map_of(chosen.features, len(chosen.coef))

    def _validate_rows(self, X: Any, lazy_error: str | None = None) -> Any:
        """Return new rows, validated for the features; a Dask collection as it is, unless `lazy_error` is given."""
        options = {"accept_sparse": "csr", "dtype": self._dtype, "ensure_all_finite": False}
        return validate_rows(self, X, self._feature_map.check, lazy_error, **options)

    def _apply(self, function: Callable[[Any], Array], X: Any) -> Any:
        """Apply a function to new rows, lazily to those of a Dask collection."""
        prepare = partial(self._feature_map.validate_block, dtype=self._dtype)
        return apply_to_rows(function, self._validate_rows(X), prepare)

    def _map_scores(self, X: Any, finish: Callable[[Floats], Any]) -> Any:
        """Return `finish` of the scores z(x) . c + b, of shape (n_samples, n_outputs); lazily for a Dask collection."""
        return self._apply(compose(self._scorer(), finish), X)

    def _scorer(self) -> "_Scorer":
        chosen = self._chosen()
        return _Scorer(self._feature_map, chosen.coef, chosen.intercept)

    def _rows_to_score(self, X: Any, y: Any, sample_weight: Any) -> RowSource:
        """Return validated rows with targets."""
        check_is_fitted(self)
        source = open_rows(X, y, sample_weight)
        if not source.has_targets:
            raise ValueError("A score compares predictions with y, but y is None; give y.")
        return self._check_targets(self._validate_training(source, reset=False))

    def _accumulate_scores(self, rows: RowSource, statistic: Callable[[Any, Batch], Any]) -> Any:
        """Add up a statistic of scores and batches of rows."""
        of_batch = partial(_statistic_of_scores, statistic, self._scorer())
        return TrainingSet(rows, RoundRobin(0)).accumulate(of_batch)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the moments that `fit` has accumulated; those of `partial_fit` are kept."""
        state: dict[str, Any] = dict(super().__getstate__())
        if state.get("_accumulator") is not None and not state.get("_is_continued", False):
            del state["_accumulator"]
            state["_has_no_moments"] = True
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_choice")

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

    def __call__(self, X: Any) -> Floats:
        feature_map, coef = self.feature_map, self.coef
        # One product saves one per row. Large coefficients of float32 columns would lose digits.
        if isinstance(feature_map, ProductMap) and feature_map.dtype == np.float64 and X.shape[0] > 1:
            coef = serial_blas(np.matmul)(feature_map.matrix, coef)
            feature_map = feature_map.inner
        scores = apply_to_features(feature_map, X, coef.shape[1], lambda features: features @ coef)
        scores += self.intercept
        return scores.astype(X.dtype, copy=False)


def _statistic_of_scores(statistic: Callable[[Any, Batch], Any], score: _Scorer, batch: Batch) -> Any:
    score.feature_map.check(batch.X)
    return statistic(score(batch.X), batch)


def in_memory(method: str, X: Any, y: Any, sample_weight: Any) -> RowSource:
    """Return rows for a method that needs them in memory."""
    rows = open_rows(X, y, sample_weight)
    if rows.location != "memory":
        raise ValueError(f"`{method}` needs in-memory arrays; use `fit` for Dask collections.")
    return rows


def has_closed_form(model: FeatureModel) -> bool:
    """Return whether a model is solved from moments; else it has no `partial_fit`."""
    if not model._made_loss().has_closed_form:
        raise AttributeError(f"`partial_fit` needs `loss`='squared_error'. Got {model.loss!r} instead; use `fit`.")
    return True
