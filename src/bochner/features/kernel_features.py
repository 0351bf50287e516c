# SPDX-License-Identifier: BSD-3-Clause
"""What the transformers share: a fit goes from rows to a scaling, to the arrays of the features, to a prepared map."""

import reprlib
from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bochner.feature_maps import FeatureMap, map_rows
from bochner.feature_maps.kernel_columns import kernel_diagonal, kernel_function
from bochner.inspection.kernel_error import Approximation, KernelError, estimate_kernel_error
from bochner.kernels import NAMED_KERNELS, make_kernel
from bochner.parameters import FEATURE_EXPLANATIONS, Parametrized, refuse_foreign_kernel
from bochner.rows import Array, Floats, RowSource, TrainingRows, apply_to_rows, collect_rows, open_rows, validate_rows
from bochner.rows.scalings import LengthScales, Metric, Scaling, Unscaled, make_scaling
from bochner.scaling.learned import LearnedLengthScales, LearnedMetric, regression_targets
from bochner.scaling.median import LENGTH_SCALES, warn_of_dominant_column
from bochner.validation import HasMethods, Interval, StrOptions, fit_context, make_part, positive_values, returns_frames

__all__ = ["LEARNERS", "KernelFeatures", "Parts", "Streams"]

Parts = Mapping[str, Mapping[Any, type]]
Streams = dict[str, np.random.Generator]
# The random streams of a fit. Their order determines what is drawn from a seed, not when they are used: "choosing"
# samples the rows and comes first. "measuring" is for the median distance, and "weighting" is for compression, too.
STEPS = ("measuring", "drawing", "weighting", "refining", "sizing", "learning", "choosing")
LENGTH = Interval(Real, 0, np.inf, closed="neither")
LEARNERS: dict[str, type] = {"learn": LearnedLengthScales, "learn-matrix": LearnedMetric}
LAZY_OUT = "`out` needs rows in memory; leave it out for a Dask collection."
LAZY_FRAME = "Data frames need rows in memory; use `set_output(transform='default')`, which gives a Dask array."
LAZY_KERNEL = (
    "A kernel matrix of a Dask collection has as many entries as the square of its rows; give rows in memory, as by "
    "`X[:1000].compute()`, or use `kernel_error`, which samples rows."
)


class KernelFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Parametrized):
    """Features whose inner products approximate a kernel.

    `fit_rows` scales the rows (`_fit_scaling`) and fits the features to them (`_fit_scaled`). Subclasses fit their
    arrays to scaled rows (`_fit_arrays`), make their map from the arrays (`_make_map`), find their size
    (`_resolve_size`, `_suggest_size`), and say which parameters give a number of columns (`size_parameters`).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "length_scale": [LENGTH, StrOptions([*LENGTH_SCALES, *LEARNERS]), HasMethods(["learn"]), Metric, "array-like"],
        "tolerance": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }
    _default_parts: ClassVar[Parts] = {"kernel": NAMED_KERNELS, "length_scale": LEARNERS}
    _explanations: ClassVar[Mapping[str, str]] = FEATURE_EXPLANATIONS
    kernel: Any
    length_scale: Any
    tolerance: float
    random_state: Any
    kernel_: Any
    feature_map_: FeatureMap
    _scaling: Scaling

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the features: first the length scale, then frequencies and weights, or landmarks.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, RowSource} of shape (n_samples, n_features)
            Training rows. With more than 2**20 rows, or more than 512 MiB, the features are fitted on a random sample
            of 2**15 rows, fewer where rows are wide. A Dask collection computes at most about 128 chunks for it; the
            other rows are checked when they are mapped. A `bochner.rows.RowSource` has its own targets and weights.
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
        streams = spawn_streams(self.random_state)
        return self._fit_scaled(*self._fit_scaling(rows, streams, warn), streams)

    def _fit_scaled(self, training: TrainingRows, labeled: TrainingRows, streams: Streams) -> Self:
        """Fit the features to scaled rows, as `_fit_scaling` returns them."""
        self._fit_arrays(training, labeled, streams)
        self._scaling = training.scaling
        self._prepare_map()
        return self

    def _fit_scaling(self, source: RowSource, streams: Streams, warn: bool) -> tuple[TrainingRows, TrainingRows]:
        """Find the scaling; return the scaled rows twice, as training and as labeled rows.

        Equal training rows are merged if there are few, and have no targets. Labeled rows are all rows, with targets if
        the length scale or the weighting needs them.
        """
        needs_targets = self._needs_targets()
        if needs_targets and not source.has_targets:
            name, other = ("length_scale", "median") if self._learns() else ("weighting", "stein")
            raise ValueError(
                f"`{name}`={getattr(self, name)!r} requires y to be passed, but the target y is None; give y, or a "
                f"{name.replace('_', ' ')} that does not need it, such as {other!r}."
            )
        source = self._validate_training(source if needs_targets else source.with_targets(None))
        labeled, y = collect_rows(source, streams["choosing"])
        labeled = replace(labeled, targets=regression_targets(y)) if needs_targets else labeled
        training = labeled.merged()
        scaling: Scaling
        if not self._has_length_scale():
            scaling = Unscaled()
        elif self._learns():
            scaling, self.learning_gain_ = self._learn_scaling(labeled, streams["learning"])
        elif isinstance(self.length_scale, str):
            measure = LENGTH_SCALES[self.length_scale]
            scaling = LengthScales(measure(training.X, streams["measuring"], training.weights))
        else:
            scaling = make_scaling(self.length_scale, training.shape[1])
        scaling.check(source.data if source.location == "memory" else labeled.X, type(self).__name__)
        if warn and isinstance(scaling, LengthScales) and scaling.is_uniform:
            warn_of_dominant_column(training.X, float(scaling.length_scales), training.weights, source.column_names)
        return training.scaled(scaling), labeled.scaled(scaling)

    def _learn_scaling(self, labeled: TrainingRows, rng: np.random.Generator) -> tuple[Scaling, float]:
        """Learn a scaling from targets; return its gain."""
        learner: Any = make_part(self.length_scale, LEARNERS)
        n_features = labeled.shape[1]
        result = learner.learn(labeled, make_kernel(self.kernel, n_features), rng)
        try:
            scaling, gain = result
            return make_scaling(scaling, n_features), float(gain)
        except (TypeError, ValueError):
            raise ValueError(
                f"`length_scale` {type(learner).__name__}.learn returned {reprlib.repr(result)} for {n_features} "
                f"columns; return one positive, finite length scale per column, or a `Metric`, and the gain, a number."
            ) from None

    @abstractmethod
    def _fit_arrays(self, training: TrainingRows, labeled: TrainingRows, streams: Streams) -> None:
        """Fit `kernel_` and the arrays of the features to scaled rows; the arrays are in the units of the data."""

    @abstractmethod
    def _make_map(self, dtype: Any = None) -> FeatureMap:
        """Return the map that the fitted arrays give, in their dtype or in another one."""

    @abstractmethod
    def _resolve_size(self, training: TrainingRows, rng: np.random.Generator) -> dict[str, Any]:
        """Return the parameters of the size, found by trials on scaled rows where it is "auto"."""

    @abstractmethod
    def _suggest_size(self, rows: TrainingRows, tolerance: float, confidence: float, seed: int) -> Any:
        """Find the smallest sufficient size by trials on samples of scaled rows; see `suggest`."""

    def _validate_training(self, source: RowSource) -> RowSource:
        """Return the training rows validated."""
        return source.validate(self, multi_output=True, accept_sparse="csr", dtype=[np.float64, np.float32])

    def _has_length_scale(self) -> bool:
        """Return whether the kernel compares scaled rows, unlike functions and precomputed kernels."""
        return self.kernel in NAMED_KERNELS if isinstance(self.kernel, str) else hasattr(self.kernel, "uniform_dim")

    def _learns(self) -> bool:
        """Return whether the scaling is learned from targets."""
        given = self.length_scale
        is_learner = given in LEARNERS if isinstance(given, str) else hasattr(given, "learn")
        return is_learner and self._has_length_scale()

    def _needs_targets(self) -> bool:
        """Return whether `fit` needs targets."""
        return self._learns()

    def _prepare_map(self) -> None:
        self.feature_map_ = self._make_map()
        self._n_features_out = self.feature_map_.n_columns

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the prepared map, which follows from the fitted arrays."""
        return {name: value for name, value in super().__getstate__().items() if name != "feature_map_"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_scaling" in state:
            self._prepare_map()

    @property
    def length_scale_(self) -> Any:
        """The length scale in use; see the class."""
        check_is_fitted(self)
        return self._scaling.length_scales

    @property
    def metric_(self) -> Any:
        """The map of the columns; see the class."""
        check_is_fitted(self)
        if not isinstance(self._scaling, Metric):
            raise AttributeError("Only `length_scale='learn-matrix'` learns a metric; use it, or `length_scale_`.")
        return self._scaling.directions

    @property
    def relevance_(self) -> Floats:
        """One over the length scale of each column, normalized to sum to 1."""
        if self.length_scale_ is None:
            raise AttributeError("A function or a precomputed kernel has no length scale, and no relevances.")
        inverse = 1.0 / np.broadcast_to(self.length_scale_, self.n_features_in_)
        return np.asarray(inverse / inverse.sum())

    def _validate_params(self) -> None:
        refuse_foreign_kernel(self.kernel, f"The 'kernel' parameter of {type(self).__name__}")
        super()._validate_params()
        if self._has_length_scale():
            make_part(self.kernel, NAMED_KERNELS)

    def find_length_scale(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
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
        features = clone(self)  # the estimator itself stays unfitted
        training, _ = features._fit_scaling(open_rows(X, y, sample_weight), spawn_streams(features.random_state), True)
        return training.scaling.value

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
        seed = self.random_state
        seed = seed if isinstance(seed, Integral) else int(check_random_state(seed).randint(2**31 - 1))
        features: Self = clone(self).set_params(random_state=seed)
        source, streams = open_rows(X, y, sample_weight), spawn_streams(seed)
        if multiples == [1.0]:
            return [features.fit_rows(source, warn=warn)]
        training, labeled = features._fit_scaling(source, streams, warn)
        if isinstance(training.scaling, Unscaled):
            raise ValueError(
                f"`kernel`={self.kernel!r} has no length scale, of which multiples {multiples} were asked for; leave "
                f"them at [1.0]."
            )
        with np.errstate(over="ignore", under="ignore"):  # `make_scaling` refuses infinity and zero
            scalings = [make_scaling((training.scaling * m).value, features.n_features_in_) for m in multiples]
        shortest = training.scaled(scalings[int(np.argmin(multiples))])
        features.set_params(**features._resolve_size(shortest, streams["sizing"]))
        candidates = []
        for scaling in scalings:
            scaling.check(labeled.X, type(self).__name__)
            candidate = copy(features).set_params(length_scale=scaling.value)
            rows = training.scaled(scaling), labeled.scaled(scaling)
            candidates.append(candidate._fit_scaled(*rows, spawn_streams(seed)))
        return candidates

    def suggest(self, X: Any, tolerance: float | None = None, *, y: Any = None, confidence: float = 0.95) -> Any:
        """Suggest how many features these settings need for a kernel error below a tolerance.

        Candidate sizes are fitted and validated on up to 4,000 rows. No kernel matrix is larger than that of 2,000
        rows. With ``weighting="matrix"`` the suggestion is a number of columns, with twelve frequencies per column.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Training rows.
        tolerance : float, default=None
            Largest accepted relative Frobenius error of the kernel matrix of 2,000 held-out rows, or of all rows if
            there are fewer. On more rows, the error is smaller, because the diagonal is a smaller part of the matrix.
            None means the `tolerance` of the estimator.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Targets to learn length scales from, as in `fit`.
        confidence : float, default=0.95
            Probability that the error with another `random_state` is below the tolerance.

        Returns
        -------
        Suggestion or LandmarkSuggestion
            For Fourier features ``(n_frequencies, n_components, error)``, for landmark features ``(n_landmarks,
            error)``, where `error` is the expected error. `n_components` is None unless ``weighting="matrix"``.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import FourierFeatures, LandmarkFeatures
        >>> X = np.random.default_rng(0).normal(size=(1000, 3))
        >>> n_frequencies, n_components, error = FourierFeatures(random_state=0).suggest(X, tolerance=0.05)
        >>> features = FourierFeatures(n_frequencies=n_frequencies, random_state=1).fit(X)
        >>> bool(features.kernel_error(X, random_state=0).error < 0.05)
        True
        >>> n_landmarks, error = LandmarkFeatures(random_state=0).suggest(X, tolerance=0.05)
        >>> n_landmarks < n_frequencies
        True
        """
        self._validate_params()
        tolerance = self.tolerance if tolerance is None else tolerance
        _check_fraction("tolerance", tolerance)
        _check_fraction("confidence", confidence)
        features = clone(self)  # the estimator itself stays unfitted
        streams = spawn_streams(features.random_state)
        training, _ = features._fit_scaling(open_rows(X, y), streams, True)
        return features._suggest_size(training, tolerance, confidence, int(streams["sizing"].integers(2**31)))

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
        lazy_error = LAZY_FRAME if returns_frames(self) else None
        X = self._validate(X, lazy_error if out is None else LAZY_OUT)
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
        X = self._scaling.apply(self._validate(X, LAZY_KERNEL))
        Y = None if Y is None else self._scaling.apply(self._validate(Y, LAZY_KERNEL))
        return np.asarray(self.kernel_(X, Y).astype(self.feature_map_.dtype, copy=False))

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
        features = map_rows(self.feature_map_, self._validate(X, LAZY_KERNEL))
        other = features if Y is None else map_rows(self.feature_map_, self._validate(Y, LAZY_KERNEL))
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
        source = open_rows(X).validate(self, reset=False, **self.feature_map_.row_options)
        if source.location == "memory":  # of other rows, only a sample is read
            self._scaling.check(source.data, type(self).__name__)
        kernel, diagonal = kernel_function(self.kernel_), partial(kernel_diagonal, self.kernel_)
        features = self._make_map(np.float64).features
        approximation = Approximation(source.data, self._scaling.apply, kernel, diagonal, features)
        return estimate_kernel_error(approximation, int(n_pairs), confidence, rng)

    def _validate(self, X: Any, lazy_error: str | None = None) -> Any:
        """Return X with the number of columns and the dtype of the fitted arrays; a Dask collection as it is."""
        check_is_fitted(self)
        return validate_rows(self, X, self.feature_map_.check, lazy_error, **self.feature_map_.row_options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.target_tags.required = self._needs_targets()
        return tags


def spawn_streams(random_state: Any) -> Streams:
    """Return separate random streams for the steps of a fit: no step changes what another one draws."""
    seed = check_random_state(random_state).randint(2**31, size=4)
    return dict(zip(STEPS, np.random.default_rng(seed).spawn(len(STEPS)), strict=True))


def _check_fraction(name: str, value: Any) -> None:
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"`{name}` must be between 0 and 1. Got {value!r} instead.")
