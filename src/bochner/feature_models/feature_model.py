# SPDX-License-Identifier: BSD-3-Clause
"""What `FeatureRegressor` and `FeatureClassifier` share: how the penalty is chosen and the loss minimized.

Squared errors are solved from second moments, which one pass over the rows accumulates for all penalties and folds, and
which more rows continue. Other losses follow a path of penalties with Newton's method.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bochner.feature_maps.moments import SPAN_ROWS
from bochner.feature_models.candidates import best_scores, feature_map_of, features_of_kernels
from bochner.feature_models.feature_passes import are_held
from bochner.feature_models.folds import number_of_folds
from bochner.feature_models.linear_model import LinearModel, is_path
from bochner.feature_models.path_choice import MOST_SAMPLED, PathChoice
from bochner.feature_models.ridge_moments import MomentAccumulator, RidgeChoice, moments_of_batch
from bochner.feature_models.streamed_folds import MOST_MOMENT_BYTES, stored_bytes, streamed_bytes
from bochner.feature_models.training_sets import TrainingSet
from bochner.losses import Loss, SquaredHinge
from bochner.memory import check_memory
from bochner.progress import show_progress
from bochner.rows import Array, Batch, Floats, RowSource, open_rows
from bochner.validation import HasMethods, fit_context, make_part

__all__ = ["ALPHAS", "FeatureModel", "has_closed_form"]

FEWER = "use fewer frequencies, `length_scale_factors` or classes"
ALPHAS = tuple(float(alpha) for alpha in np.logspace(-8, 4, 25))


class FeatureModel(LinearModel):
    """A model on features with any loss.

    Subclasses say what their targets and their penalties are.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "loss": [HasMethods(["evaluate", "curvature"])],  # and the names in `_losses`
    }
    _losses: ClassVar[Mapping[str, type[Loss]]]
    _fitted_names = (*LinearModel._fitted_names, "loss_", "_accumulator", "_choice", "_is_continued", "_has_no_moments")
    loss: Any
    loss_: Loss
    _choice: RidgeChoice | PathChoice | None

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
    def length_scale_scores_(self) -> Floats:
        """The best score of each of the `length_scale_factors` with the chosen kernel."""
        return best_scores(self._scored().scores, self._n_kernels)[1]

    @property
    def kernel_scores_(self) -> Floats:
        """The best score of each of the `kernels`."""
        return best_scores(self._scored().scores, self._n_kernels)[0]

    def _made_loss(self) -> Loss:
        loss: Loss = make_part(self.loss, self._losses)
        return loss

    @abstractmethod
    def _alphas(self, total_weight: float) -> Floats:
        """Return candidate penalties relative to the sum of the weights."""

    @abstractmethod
    def _Cs(self, total_weight: float) -> Floats:
        """Return candidates for the factor of the sum of losses."""

    @abstractmethod
    def _encode_sample(self, y: Any) -> Floats:
        """Return the targets (n_samples, n_targets) of a sample of rows, whose classes need not be known."""

    @abstractmethod
    def _loss_encoder(self) -> Callable[[Array], Array]:
        """Return the function whose results the loss compares with scores; workers get it without the model."""

    @abstractmethod
    def _checked_for_edge(self, choice: Any) -> Any:
        """Warn of a penalty at the edge of the user's own grid; the default one leaves nothing to be gained."""

    @abstractmethod
    def _n_loss_targets(self, targets: Array) -> int:
        """Return the number of targets, or of classes."""

    def _loss_weights(self, rows: RowSource) -> Floats | None:
        """Return the weights of the classes, which multiply the sample weights; None for a regression."""
        return None

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

    def _solve(self, training: TrainingSet, candidates: list[Any]) -> None:
        self.loss_ = self._made_loss()
        if self.loss_.has_closed_form:
            self._solve_moments(training, candidates)
        else:
            self._solve_path(training, candidates)

    def _solve_moments(self, training: TrainingSet, candidates: list[Any]) -> None:
        """Choose and solve from second moments of all rows."""
        origin = np.median(self._encode_targets(training.first_targets(SPAN_ROWS)), axis=0)
        row = training.rows.select(slice(0, 1)).X
        maps = [feature_map_of(features, row=row) for features in candidates]
        size = max(feature_map.n_columns for feature_map in maps) + 1 + len(origin)
        if self._is_streamed(size, training.n_folds, len(maps)):
            streamed = RidgeChoice.streamed(candidates, training, self._encode_targets, origin, self._alphas, self.cv)
            self._choice = self._checked_for_edge(streamed)
            return
        part = partial(moments_of_batch, maps, self._encode_targets, origin)
        moments = training.accumulate(part, "accumulating moments")
        self._accumulator = MomentAccumulator(training.n_folds, len(origin), candidates, origin, moments)
        choice = RidgeChoice.of(candidates, moments, origin, training.n_folds, self._alphas, self.cv)
        self._choice = self._checked_for_edge(choice)

    def _solve_path(self, training: TrainingSet, candidates: list[Any]) -> None:
        """Choose along paths of penalties, and solve."""
        sample, encode = training.sample_targets(MOST_SAMPLED), self._loss_encoder()
        targets, class_weights = encode(sample.y), self._loss_weights(training.rows)
        self.loss_.fit(targets, sample.counts)
        choice = PathChoice.of(
            candidates,
            training,
            self.loss_,
            self.loss_.n_outputs(self._n_loss_targets(targets)),
            encode,
            class_weights,
            self._Cs(training.total_weight(class_weights, encode)),
            self.cv,
        )
        self._choice = self._checked_for_edge(choice)

    def _is_streamed(self, size: int, n_folds: int, n_candidates: int) -> bool:
        """Return whether the moments of the folds are too large to be stored; refuse what no memory holds."""
        stored = stored_bytes(size, n_folds, n_candidates)
        if n_folds and stored > MOST_MOMENT_BYTES:
            _check_moments(streamed_bytes(size, n_candidates), size)
            return True
        _check_moments(stored, size)
        return False

    def _check_width(self, width: int, rows: RowSource) -> None:
        loss = self._made_loss()
        if loss.has_closed_form:
            n_candidates = len(self.length_scale_factors) * len(self.kernels or [None])
            size = width + getattr(self, "_n_targets", 0)  # of a classifier, once its classes are known
            _check_moments(streamed_bytes(size, n_candidates), size)
            return
        is_held = width > 0 and are_held(rows, width, 4)
        if not (isinstance(loss, SquaredHinge) and is_held):  # active sets need no matrix
            subject = f"A model with the loss {self.loss!r} on {width:,} columns"
            check_memory(36 * (width + 1) ** 2, subject, "a preconditioner", FEWER)
        if is_held:
            self._check_scores(rows)

    def _check_scores(self, rows: RowSource) -> None:
        """Refuse scores of all rows, which are held with the features, that the memory is too small for."""

    def _add_rows(self, rows: RowSource) -> Self:
        """Add rows with checked targets; the model is solved when it is used next."""
        if hasattr(self, "_has_no_moments"):
            raise ValueError(
                "`partial_fit` cannot continue a `fit` that was pickled or copied, without its moments; begin with "
                "`partial_fit`, whose moments are kept."
            )
        batch = rows.select(slice(None))
        if hasattr(self, "_accumulator"):
            accumulator = replace(self._accumulator, waiting=[*self._accumulator.waiting])
        else:
            self.loss_ = self._made_loss()
            self._alphas(1.0)  # refuses some before any row is added
            features_of_kernels(self.features, self.kernels)
            n_targets = self._encode_targets(batch.y[:1]).shape[1]
            candidates = getattr(self, "_candidates", [])
            accumulator = MomentAccumulator(number_of_folds(self.cv), n_targets, candidates)
        accumulator.add(self._weigh(batch), self._fit_candidates, self._encode_targets)
        self._accumulator, self._choice, self._is_continued = accumulator, None, True
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

    def _chosen(self) -> RidgeChoice | PathChoice:
        """Return the choice for all rows added so far; it is computed now if there are new ones."""
        check_is_fitted(self)
        if self._choice is None:
            complete = self._accumulator.complete(self._fit_candidates, self._encode_targets)
            assert complete.moments is not None
            choice = RidgeChoice.of(
                complete.candidates, complete.moments, complete.origin, complete.n_folds, self._alphas, self.cv
            )
            self._choice = self._checked_for_edge(choice)
        return self._choice

    def _scored(self) -> RidgeChoice | PathChoice:
        """Return the choice if there were errors on folds, or generalized ones, to choose by."""
        chosen = self._chosen()
        if not chosen.errors.size:
            raise AttributeError(f"`cv`=None has no errors with `loss`={self.loss!r}; give a number of folds.")
        return chosen

    def _coefficients(self) -> tuple[Floats, Floats]:
        chosen = self._chosen()
        return chosen.coef, chosen.intercept

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

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the moments that `fit` has accumulated; those of `partial_fit` are kept."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "_accumulator" in state and not state.get("_is_continued", False):
            del state["_accumulator"]
            state["_has_no_moments"] = True
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_choice")


def _check_moments(n_bytes: int, size: int) -> None:
    """Refuse second moments that no memory holds."""
    check_memory(n_bytes, f"A ridge regression on {size:,} columns and targets", "second moments", FEWER)


def has_closed_form(model: FeatureModel) -> bool:
    """Return whether a model is solved from moments; else it has no `partial_fit`."""
    if not model._made_loss().has_closed_form:
        raise AttributeError(f"`partial_fit` needs `loss`='squared_error'. Got {model.loss!r} instead; use `fit`.")
    return True
