# SPDX-License-Identifier: BSD-3-Clause
"""What the transformers share: rows to fit on, length scales, transforms, kernels and kernel errors."""

import reprlib
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bochner.feature_maps import FeatureMap, map_rows
from bochner.feature_maps.fourier import check_resolution
from bochner.feature_maps.kernel_columns import kernel_function
from bochner.inspection.kernel_error import Approximation, KernelError, estimate_kernel_error
from bochner.kernels import NAMED_KERNELS, Kernel, make_kernel
from bochner.parameters import Parametrized, refuse_foreign_kernel
from bochner.rows import (
    Array,
    Floats,
    Metric,
    RowSource,
    ScaledRows,
    apply_to_rows,
    distinct_rows,
    open_rows,
    sample_source,
    validate_rows,
)
from bochner.samplers import Sampler, draw_frequencies
from bochner.scaling.learned_metric import LearnedMetric
from bochner.scaling.learned_scales import LabeledRows, LearnedLengthScales, regression_targets
from bochner.scaling.median import LENGTH_SCALES, median_distance, warn_of_dominant_column
from bochner.validation import (
    HasMethods,
    Interval,
    StrOptions,
    check_weight_range,
    fit_context,
    make_part,
    positive_values,
)

__all__ = ["LEARNERS", "KernelFeatures", "Streams", "TrainingRows"]

POSITIVE = Interval(Real, 0, np.inf, closed="neither")
FEW_ROWS = 2000  # as many as the weightings sample by default
SMALLEST_SHARE = 1e-30  # of the largest sample weight
MANY_ROWS = 1 << 20  # with more rows, the features are fitted on a sample
LEARNERS: dict[str, type] = {"learn": LearnedLengthScales, "learn-matrix": LearnedMetric}
Units = float | Floats | Metric  # what rows are divided by, or mapped by
MOST_TO_LEARN_WITH = 512  # frequencies: length scales learned with that many are good for more


class KernelFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Parametrized):
    """Features whose inner products approximate a kernel.

    Subclasses fit their parts (`_fit_parts`), prepare their map from the fitted arrays (`_prepare_map`) and find their
    size (`_suggest_size`).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "length_scale": [
            POSITIVE,
            StrOptions([*LENGTH_SCALES, *LEARNERS]),
            HasMethods(["learn"]),
            Metric,
            "array-like",
        ],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "tolerance": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }
    _default_parts: ClassVar[Mapping[str, Mapping[Any, type]]] = {"kernel": NAMED_KERNELS, "length_scale": LEARNERS}
    kernel: Any
    length_scale: Any
    tolerance: float
    random_state: Any
    kernel_: Any
    length_scale_: Any
    feature_map_: FeatureMap
    _metric: Metric | None = None

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the features: first the length scale, then the parts of the approximation.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, RowSource} of shape (n_samples, n_features)
            Training rows. With more than 2**20 rows, the features are fitted on a random sample of 2**15 rows, fewer
            where rows are wide. A Dask collection computes at most about 128 chunks for it; the other rows are checked
            when they are mapped. A `bochner.rows.RowSource` has its own targets and weights.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Targets to learn from with ``length_scale="learn"`` or "learn-matrix", and with a weighting that
            needs them; else ignored. Text, booleans and up to 20 distinct whole numbers are classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. Up to 2,000 rows, a weight of two equals two copies of a numeric row exactly; with more
            rows, samples are drawn in proportion to the weights.

        Returns
        -------
        self
            The fitted transformer.
        """
        return self.fit_rows(open_rows(X, y, sample_weight))

    def fit_rows(self, rows: RowSource, *, warn: bool = True) -> Self:
        """Fit the features as `fit` does, without a check of the parameters.

        Parameters
        ----------
        rows : RowSource
            Training rows, with targets and sample weights if they have any.
        warn : bool, default=True
            Whether to warn of a column beside which all others are negligible; candidates and trials do not.

        Returns
        -------
        self
            The fitted transformer.
        """
        self.__dict__.pop("learning_gain_", None)  # of an earlier fit
        streams = Streams.spawn(self.random_state)
        training = self._training_rows(rows, streams)
        length_scale = self._resolve_length_scale(training, streams, warn)
        self._fit_parts(training, length_scale, streams)
        self._prepare_map()
        return self

    @abstractmethod
    def _fit_parts(self, training: "TrainingRows", length_scale: Any, streams: "Streams") -> None:
        """Fit the parts at a length scale, and set `kernel_`, `length_scale_` and the fitted arrays."""

    def _set_units(self, units: Units | None) -> None:
        """Set `length_scale_`, and the metric behind `metric_` if there is one."""
        self._metric = units if isinstance(units, Metric) else None
        self.length_scale_ = units.length_scales if isinstance(units, Metric) else units

    @property
    def _units(self) -> Units | None:
        """What rows are divided by, or mapped by, before a kernel at unit length scale compares them."""
        return self.length_scale_ if self._metric is None else self._metric

    @property
    def metric_(self) -> Any:
        """The learned map of the columns; see the class."""
        check_is_fitted(self)
        if self._metric is None:
            raise AttributeError("Only `length_scale='learn-matrix'` learns a metric; use it, or `length_scale_`.")
        return self._metric.matrix

    @abstractmethod
    def _prepare_map(self) -> None:
        """Set `feature_map_` and `_n_features_out` from the fitted arrays."""

    @abstractmethod
    def _float64_map(self) -> FeatureMap:
        """Return the map in float64, of rows that are multiples of the length scale; of plain rows with a metric."""

    @abstractmethod
    def _suggest_size(
        self, training: "TrainingRows", length_scale: Any, tolerance: float, confidence: float, rng: np.random.Generator
    ) -> Any:
        """Find the smallest sufficient size by trials on samples of the rows; see `suggest`."""

    @abstractmethod
    def _fitted_size(self) -> dict[str, Any]:
        """Return the parameters that give other features the size of these fitted ones."""

    @abstractmethod
    def _learning_frequencies(self, kernel: Kernel) -> tuple[Sampler, int]:
        """Return the sampler and the number of the frequencies to learn length scales with."""

    @abstractmethod
    def size_parameters(self, n_columns: int) -> dict[str, Any]:
        """Return the parameters that give these features a number of columns.

        Parameters
        ----------
        n_columns : int
            Number of columns, even for Fourier features.

        Returns
        -------
        dict of str to int
            Parameters for `set_params`.
        """

    def with_fitted_length_scale(self) -> Self:
        """Return unfitted features whose length scale, or metric, is the one that this transformer has found.

        Returns
        -------
        transformer
            Features that measure and learn nothing before their parts are fitted.
        """
        check_is_fitted(self)
        unfitted: Self = clone(self)
        return unfitted if self._units is None else unfitted.set_params(length_scale=self._units)

    def check_parts(self) -> None:
        """Check the parameters, and that the parts can be combined, as `fit` does later; no rows are needed."""
        self._validate_params()

    def _validate_params(self) -> None:
        refuse_foreign_kernel(self.kernel, f"The 'kernel' parameter of {type(self).__name__}")
        super()._validate_params()

    @property
    @abstractmethod
    def _is_automatic(self) -> bool:
        """Whether the size is found by trials."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the prepared map, which follows from the fitted arrays."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("feature_map_", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "length_scale_" in state:
            self._prepare_map()

    def find_length_scale(self, X: Any, y: Any = None, sample_weight: Any = None) -> Units:
        """Return the length scale that `fit` would use, without fitting features.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, RowSource} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Targets to learn length scales from, as in `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float, ndarray of shape (n_features,) or Metric
            One length scale, one per column, or a map of the columns; a value of the parameter `length_scale`.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import FourierFeatures
        >>> FourierFeatures(random_state=0).find_length_scale(np.array([[0.0], [1.0], [3.0]]))
        2.0
        """
        self._validate_params()
        found: Units = clone(self)._find_length_scale(open_rows(X, y, sample_weight))  # self stays unfitted
        return found

    def _find_length_scale(self, source: RowSource, warn: bool = True) -> Units:
        streams = Streams.spawn(self.random_state)
        return self._resolve_length_scale(self._training_rows(source, streams), streams, warn)

    def fit_length_scales(
        self, X: Any, factors: ArrayLike, y: Any = None, sample_weight: Any = None, *, warn: bool = True
    ) -> list[Self]:
        """Fit one transformer per multiple of the length scale, which is measured or learned once.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, RowSource} of shape (n_samples, n_features)
            Training rows.
        factors : array-like of shape (n_factors,)
            Multiples of the length scale that `fit` would use.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Targets to learn length scales from, as in `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.
        warn : bool, default=True
            Whether to warn, once, of a column beside which all others are negligible.

        Returns
        -------
        list of transformer
            Fitted transformers with the same seed. With a size of "auto" all have the size that the shortest length
            scale needs.
        """
        self._validate_params()
        multiples = positive_values("factors", factors).tolist()
        source = open_rows(X, y, sample_weight)
        features: Self = clone(self).set_params(random_state=_integer_seed(self.random_state))
        if multiples == [1.0]:
            return [features.fit_rows(source, warn=warn)]
        length_scale = features._find_length_scale(source, warn)
        if length_scale is None:
            raise ValueError(
                f"`kernel`={self.kernel!r} has no length scale, of which multiples {multiples} were asked for; leave "
                f"them at [1.0]."
            )
        _check_multiples(length_scale, multiples)
        if features._is_automatic:
            shortest = clone(features).set_params(length_scale=length_scale * min(multiples))
            features.set_params(**shortest.fit_rows(source, warn=False)._fitted_size())
        variants = [clone(features).set_params(length_scale=length_scale * factor) for factor in multiples]
        candidates = [variant.fit_rows(source, warn=False) for variant in variants]
        for candidate in candidates if features._learns() else []:
            candidate.learning_gain_ = features.learning_gain_
        return candidates

    def _suggest(self, X: Any, tolerance: float | None, y: Any, confidence: float) -> Any:
        """Check the arguments of `suggest`, find the length scale, and try sizes."""
        self._validate_params()
        tolerance = self.tolerance if tolerance is None else tolerance
        _check_fraction("tolerance", tolerance)
        _check_fraction("confidence", confidence)
        features = clone(self)  # the estimator itself stays unfitted
        streams = Streams.spawn(features.random_state)
        training = features._training_rows(open_rows(X, y), streams)
        length_scale = features._resolve_length_scale(training, streams)
        return features._suggest_size(training, length_scale, tolerance, confidence, streams.sizing)

    def transform(self, X: Any, out: Array | None = None) -> Any:
        """Map rows to features.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Rows.
        out : ndarray of shape (n_samples, n_features_out), default=None
            A C-contiguous array of the fitted dtype to write into, which saves its allocation; None makes a new one.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            Features, whose inner products approximate the kernel. For a Dask collection, a lazy Dask array.
        """
        X = self._validate(X, partial(self._refuse_lazy_transform, out))
        # A lazy result holds this map, also after the estimator is fitted again.
        prepare = partial(self.feature_map_.validate_block, dtype=self.feature_map_.dtype)
        return apply_to_rows(partial(map_rows, self.feature_map_, out=out), X, prepare)

    def exact_kernel(self, X: Any, Y: Any = None) -> Array:
        """Compute the kernel matrix that the features approximate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
            Rows.
        Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
            Other rows; None means `X`.

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples_Y)
            Kernel values.
        """
        X = self._validate(X, _refuse_lazy_kernel)
        scaled = ScaledRows(X, self._units)[:]
        other = None if Y is None else ScaledRows(self._validate(Y, _refuse_lazy_kernel), self._units)[:]
        return np.asarray(self.kernel_(scaled, other).astype(self.feature_map_.dtype, copy=False))

    def approximate_kernel(self, X: Any, Y: Any = None) -> Array:
        """Compute inner products of the features: positive semidefinite, close to `exact_kernel`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
            Rows.
        Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
            Other rows; None means `X`.

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples_Y)
            Approximate kernel values.
        """
        features = map_rows(self.feature_map_, self._validate(X, _refuse_lazy_kernel))
        other = features if Y is None else map_rows(self.feature_map_, self._validate(Y, _refuse_lazy_kernel))
        return np.asarray(features @ other.T)

    def kernel_error(
        self,
        X: Any,
        *,
        n_pairs: int = 5_000_000,
        confidence: float = 0.95,
        random_state: int | np.random.RandomState | None = None,
    ) -> KernelError:
        """Estimate how far the approximate kernel matrix of X is from the exact one, without computing either.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Rows; use rows that were not used in `fit` for an unbiased estimate.
        n_pairs : int, default=5000000
            About how many pairs of rows to compare. When X has no more pairs, as up to 3,162 rows by default, the
            error is exact. Of more rows, about ``n_pairs ** 0.5`` are sampled, and all pairs of these are compared.
        confidence : float, default=0.95
            Probability that the interval covers the error on all pairs of rows of X.
        random_state : int, RandomState instance or None, default=None
            Seed of the sampled rows.

        Returns
        -------
        KernelError
            ``(error, low, high)``: the relative Frobenius error and its confidence interval.

        Warns
        -----
        UserWarning
            If a few of the sampled rows dominate the error, so that the interval may be too narrow.
        """
        check_is_fitted(self)
        if not isinstance(n_pairs, Integral) or n_pairs < 2:
            raise ValueError(f"`n_pairs` must be an integer of at least 2. Got {n_pairs!r} instead.")
        _check_fraction("confidence", confidence)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
        return estimate_kernel_error(self._approximation(X), int(n_pairs), confidence, rng)

    def _approximation(self, X: Any) -> Approximation:
        """Return validated rows, the exact kernel and the features of blocks of them, in float64."""
        source = open_rows(X).validate(self, reset=False, **self._new_row_options())
        if self.length_scale_ is not None:
            check_resolution(source, self.length_scale_, type(self).__name__)
        rows = ScaledRows(source.data, self.length_scale_ if self._metric is None else 1.0)
        points = _unchanged if self._metric is None else self._metric.map
        kernel, feature_map = self.kernel_, self._float64_map()

        def diagonal(x: Any) -> Floats:
            if self.length_scale_ is None:
                return np.asarray(kernel.pairs(x, x))
            return np.repeat(kernel.at(np.zeros((1, x.shape[1]))), x.shape[0])

        return Approximation(rows, points, kernel_function(kernel), diagonal, feature_map.features, feature_map.width)

    @property
    def relevance_(self) -> Floats:
        """One over the length scale of each column, normalized to sum to 1."""
        check_is_fitted(self)
        if self.length_scale_ is None:
            raise AttributeError("A function or a precomputed kernel has no length scale, and no relevances.")
        inverse = 1.0 / np.broadcast_to(self.length_scale_, self.n_features_in_)
        return np.asarray(inverse / inverse.sum())

    def _training_rows(self, source: RowSource, streams: "Streams") -> "TrainingRows":
        """Validate the rows to fit on, and sample them when there are many.

        The sample is the same one for rows in memory, in files and in up to 128 partitions.
        """
        needs_targets = self._needs_targets()
        if needs_targets and not source.has_targets:
            raise ValueError(self._missing_targets())
        source = source if needs_targets else source.with_targets(None)
        source = source.validate(self, multi_output=True, **self._row_options())
        rows = sample_source(source, streams.choosing) if source.shape[0] > MANY_ROWS else source
        y, weights = rows.collect_columns()
        if weights is not None and not weights.all():
            if not weights.any():
                if rows is source:
                    raise ValueError("No row has a positive `sample_weight`; give some rows a weight.")
                raise ValueError("All sampled rows have a `sample_weight` of zero; leave out the rows without weight.")
            rows, y = rows.drop_zero_weights(weights), None if y is None else y[weights > 0.0]
            weights = weights[weights > 0.0]
        if weights is not None:
            check_weight_range(weights)
            # Smaller shares change no digit of a sum, but squares of sums over such rows alone would underflow.
            weights = np.maximum(weights, SMALLEST_SHARE * weights.max())
        labeled = LabeledRows(rows.data, regression_targets(y), weights) if needs_targets else None
        checked = source if source.location == "memory" else rows  # remote rows are checked as they are read
        if rows.shape[0] > FEW_ROWS:
            return TrainingRows(rows.data, weights, False, labeled, checked)
        # Equal rows are merged, so that no draw depends on whether a row is repeated or weighted.
        return TrainingRows(*distinct_rows(rows[:], weights), True, labeled, checked)

    def _row_options(self) -> dict[str, Any]:
        """Return options of scikit-learn's `validate_data` for training rows."""
        return {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}

    def _learns(self) -> bool:
        """Return whether the length scale is learned from targets."""
        given = self.length_scale
        return given in LEARNERS if isinstance(given, str) else hasattr(given, "learn")

    def _needs_targets(self) -> bool:
        """Return whether `fit` needs targets."""
        return self._learns()

    def _missing_targets(self) -> str:
        """Return the error message for a fit without the targets that it needs."""
        return (
            f"`length_scale`={self.length_scale!r} requires y to be passed, but the target y is None; give y, or a "
            f"length scale that does not need it, such as 'median'."
        )

    def _resolve_length_scale(self, training: "TrainingRows", streams: "Streams", warn: bool = True) -> Units:
        """Return the length scale that the parameter asks for, and refuse rows that it cannot resolve."""
        length_scale: Units
        if training.labeled is not None and self._learns():
            length_scale, self.learning_gain_ = self._learn_length_scales(training, training.labeled, streams)
        elif isinstance(self.length_scale, str):
            length_scale = LENGTH_SCALES[self.length_scale](training.rows, streams.measuring, training.weights)
        else:
            length_scale = _given_length_scale(self.length_scale, training.rows.shape[1])
        lengths = length_scale.length_scales if isinstance(length_scale, Metric) else length_scale
        check_resolution(training.checked, lengths, type(self).__name__)
        # Remote rows would be read once more.
        if warn and isinstance(length_scale, float) and not isinstance(training.rows, RowSource):
            warn_of_dominant_column(training.rows, length_scale, training.weights, training.checked.column_names)
        return length_scale

    def _learn_length_scales(
        self, training: "TrainingRows", labeled: LabeledRows, streams: "Streams"
    ) -> tuple[Units, float]:
        """Learn length scales or a metric with the frequencies that are used later, or with the first 512 of them."""
        learner: LearnedLengthScales | LearnedMetric = make_part(self.length_scale, LEARNERS)
        kernel = make_kernel(self.kernel, training.rows.shape[1])
        sampler, n_frequencies = self._learning_frequencies(kernel)
        length_scale = median_distance(training.rows, streams.measuring, training.weights)
        n_rows, n_features = training.rows.shape
        most = min(MOST_TO_LEARN_WITH, max(64, n_rows))  # few rows cannot tell more of them apart
        n_frequencies = min(n_frequencies, most)
        n_added = getattr(learner, "n_added_dimensions", lambda *_: 0)(n_features, n_frequencies)
        # A metric of many columns has more coordinates than columns.
        isotropic = Metric(np.zeros((n_added, n_features)), np.full(n_features, 1.0 / length_scale))
        rows = training.scaled(isotropic if n_added else length_scale)
        drawn = draw_frequencies(sampler, kernel, n_frequencies, rows, deepcopy(streams.drawing))
        return _checked_learning(learner, learner.learn(labeled, np.asarray(drawn), streams.learning), n_features)

    def _validate(self, X: Any, refuse_lazy: Callable[[], str | None] = lambda: None) -> Any:
        """Return X with the width and dtype of the fitted arrays; a Dask collection as it is."""
        check_is_fitted(self)
        return validate_rows(self, X, self.feature_map_.check, refuse_lazy, **self._new_row_options())

    def _new_row_options(self) -> dict[str, Any]:
        """Return options of scikit-learn's `validate_data` for rows of a fitted transformer."""
        # The map's check finds NaN and infinity too, in one pass over X instead of two.
        return {"accept_sparse": "csr", "dtype": self.feature_map_.dtype, "ensure_all_finite": False}

    def _refuse_lazy_transform(self, out: Array | None) -> str | None:
        """Return why a Dask collection cannot be transformed, if it cannot."""
        if out is not None:
            return "`out` needs rows in memory; leave it out for a Dask collection."
        row = np.zeros((1, self.n_features_in_), dtype=self.feature_map_.dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about column names, which the probe does not have
            if type(self.transform(row)) is np.ndarray:
                return None
        return (
            "`set_output` or `transform_output` asks for data frames, which need rows in memory; use "
            "`set_output(transform='default')` for a Dask collection, which becomes a Dask array."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.target_tags.required = self._needs_targets()
        return tags


class Streams(NamedTuple):
    """Separate random streams for the steps of a fit: no step changes what another one draws."""

    measuring: np.random.Generator
    drawing: np.random.Generator
    weighting: np.random.Generator
    refining: np.random.Generator
    sizing: np.random.Generator
    learning: np.random.Generator
    choosing: np.random.Generator

    @classmethod
    def spawn(cls, random_state: Any) -> "Streams":
        seed = check_random_state(random_state).randint(2**31, size=4)
        return cls(*np.random.default_rng(seed).spawn(len(cls._fields)))


class TrainingRows(NamedTuple):
    """The rows that features are fitted on.

    Attributes
    ----------
    rows : {ndarray, CSR matrix, RowSource} of shape (n_samples, n_features)
        Rows with a positive weight; a sample of many rows.
    weights : ndarray of shape (n_samples,) or None
        Sample weights; None means 1 for every row.
    distinct : bool
        Whether equal rows were merged.
    labeled : LabeledRows or None
        Rows with targets, where the fit needs them.
    checked : RowSource
        The rows whose resolution is checked now.
    """

    rows: Any
    weights: Floats | None
    distinct: bool
    labeled: LabeledRows | None
    checked: RowSource

    def scaled(self, length_scale: Units | None) -> ScaledRows:
        """Return the rows as multiples of the length scale, or mapped by a metric."""
        # One divisor for all columns keeps the order of distinct rows; one per column does not.
        keeps_order = not isinstance(length_scale, np.ndarray | Metric)
        return ScaledRows(self.rows, length_scale, self.weights, self.distinct and keeps_order)

    def scaled_with_targets(self, length_scale: Units) -> ScaledRows:
        """Return the rows as multiples of the length scale, with targets; equal rows are not merged."""
        if self.labeled is None:
            raise ValueError("The training rows have no targets.")
        return ScaledRows(self.labeled.X, length_scale, self.labeled.weights, targets=self.labeled.targets)


def _unchanged(rows: Any) -> Any:
    return rows


def _integer_seed(random_state: Any) -> int:
    """Return an integer seed as it is, and draw one from any other random state."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _given_length_scale(given: Any, n_features: int) -> Units:
    """Return one positive number, one per column, or a metric."""
    if isinstance(given, Real):
        return float(given)
    if isinstance(given, Metric):
        return _checked_metric(given, n_features)
    try:
        scales = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"`length_scale` must contain numbers only. Got {given!r} instead.") from None
    if scales.shape != (n_features,):
        raise ValueError(
            f"`length_scale` has shape {scales.shape} and X has {n_features} columns; give one number, one number per "
            f"column, 'median', 'scale', 'learn' or 'learn-matrix'."
        )
    if not np.isfinite(scales).all() or scales.min() <= 0.0:
        raise ValueError(f"`length_scale` must contain positive numbers only. Got {scales.tolist()} instead.")
    return scales


def _checked_learning(learner: Any, result: Any, n_features: int) -> tuple[Units, float]:
    """Return what a learner returned, and refuse anything but length scales or a metric with a gain."""
    try:
        length_scales, gain = result
        return _given_length_scale(length_scales, n_features), float(gain)
    except (TypeError, ValueError):
        raise ValueError(
            f"`length_scale` {type(learner).__name__}.learn returned {reprlib.repr(result)} for {n_features} columns; "
            f"return one positive, finite length scale per column, or a `Metric`, and the gain, a number."
        ) from None


def _check_multiples(length_scale: Units, multiples: list[float]) -> None:
    """Refuse multiples of a length scale that overflow or underflow."""
    lengths = length_scale.length_scales if isinstance(length_scale, Metric) else np.atleast_1d(length_scale)
    with np.errstate(over="ignore", under="ignore"):
        products = np.outer(multiples, lengths[np.isfinite(lengths)])
    if not np.isfinite(products).all() or not products.all():
        raise ValueError(
            f"A multiple in {multiples} of the length scale {np.max(lengths):.3g} overflows or underflows float64; "
            f"rescale the columns of X, or give multiples closer to 1."
        )


def _checked_metric(metric: Metric, n_features: int) -> Metric:
    """Return a metric of that many columns, with finite entries of which some are not zero."""
    directions, diagonal = metric.directions, metric.diagonal
    if np.ndim(directions) == 2 and np.shape(directions)[1] != n_features:
        raise ValueError(
            f"`length_scale` is a metric of {np.shape(directions)[1]} columns and X has {n_features} columns; give a "
            f"metric of X."
        )
    is_valid = isinstance(directions, np.ndarray) and directions.ndim == 2 and bool(np.isfinite(directions).all())
    if diagonal is None:
        is_valid = is_valid and bool(directions.any())
    else:
        is_positive = np.shape(diagonal) == (n_features,) and 0.0 < np.min(diagonal) <= np.max(diagonal) < np.inf
        is_valid = is_valid and bool(is_positive)
    if not is_valid:
        raise ValueError(
            f"`length_scale` must be a metric with an array of finite `directions`, not all zero, or with one positive "
            f"number per column as `diagonal`. Got {metric!r} instead."
        )
    return metric


def _check_fraction(name: str, value: Any) -> None:
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"`{name}` must be between 0 and 1. Got {value!r} instead.")


def _refuse_lazy_kernel() -> str:
    return (
        "A kernel matrix of a Dask collection has as many entries as the square of its rows; give rows in memory, "
        "as by `X[:1000].compute()`, or use `kernel_error`, which samples rows."
    )
