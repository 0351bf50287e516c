# SPDX-License-Identifier: BSD-3-Clause
"""`FourierFeatures`, the scikit-learn transformer: sample frequencies, weight them, map rows."""

import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bochner.feature_maps import FourierMap, map_rows
from bochner.feature_maps.fourier import check_resolution
from bochner.kernel_error import KernelError, estimate_kernel_error
from bochner.kernels import KERNELS, Kernel
from bochner.learning.length_scales import LabeledRows, LearnedLengthScales, LearningResult, regression_targets
from bochner.learning.refinement import refine
from bochner.length_scales import LENGTH_SCALES, median_distance
from bochner.rows import (
    Array,
    Floats,
    RowSource,
    ScaledRows,
    apply_to_rows,
    distinct_rows,
    open_rows,
    sample_source,
    validate_rows,
)
from bochner.samplers import SAMPLERS, Sampler
from bochner.sizes import OutOfReachError, SizeTrials, Suggestion
from bochner.validation import HasMethods, Interval, StrOptions, fit_context, make_part, positive_values
from bochner.weightings import WEIGHTINGS, Weighting

__all__ = ["FourierFeatures"]

POSITIVE = Interval(Real, 0, np.inf, closed="neither")
FEW_ROWS = 2000  # as many as the weightings sample by default
MANY_ROWS = 1 << 20  # with more rows, the features are fitted on a sample
POOL = 12  # frequencies per column of a suggested matrix
LARGEST_SIZE = 16384  # frequencies that `suggest` tries at most
LEARNERS: dict[str, type] = {"learn": LearnedLengthScales}
MOST_TO_LEARN_WITH = 512  # frequencies: length scales learned with that many are good for more
DEFAULT_TO_LEARN_WITH = 256  # frequencies, where their number is found afterwards


class FourierFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Random Fourier features with weights fitted to the data.

    Maps rows x to ``2 * n_frequencies`` columns z(x) such that :math:`z(x) \cdot z(y) = \sum_m \beta_m \cos(w_m
    \cdot (x - y))` approximates a shift-invariant kernel :math:`k((x - y) / \ell)`. A linear model on the columns is
    then a kernel model on the rows.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        The kernel's shape: "gaussian", "laplacian", "cauchy", "exponential", "matern", "rational_quadratic", or an
        instance such as ``Matern(nu=2.5)``.
    length_scale : float, array-like of shape (n_features,), str or LearnedLengthScales, default="median"
        Length scale of the kernel: a number; one number per column; "median", the median distance of sampled pairs of
        rows; "scale", ``sqrt(n_features * X.var() / 2)``, which is scikit-learn's ``gamma="scale"``; or "learn", one
        length scale per column learned from y, with the default parameters of `LearnedLengthScales`.
    n_frequencies : int or "auto", default=256
        Number of frequencies; each gives two columns, unless `n_components` is set. "auto" uses as many as `suggest`
        finds necessary for `tolerance`, before a compression to the given `n_components`.
    sampler : str or Sampler, default="orthogonal"
        How frequencies are drawn: "mc", "halton", "sobol", "lattice", "orthogonal", "sorf", or an instance such as
        ``Sobol(rotate=True)``.
    weighting : str or Weighting, default="stein"
        How frequencies are weighted: "uniform", "shrinkage", "quadrature", "stein", "matrix", or an instance such as
        ``Stein(sketch="pairs")``. "matrix" replaces weights by the best matrix on a pool of frequencies, compressed to
        `n_components` columns. It has the lowest error for a given number of columns, but `transform` is slower.
    n_components : int, default=None
        Number of columns; None means ``2 * n_frequencies``. A smaller number compresses the columns. With
        ``weighting="matrix"``, the best matrix compresses them; twelve frequencies per column are a good choice, and
        are what "auto" uses. With the other weightings, the columns are replaced by their principal components.
    refine : int, default=0
        Maximum number of iterations that optimize frequencies and weights together; 60 give most of the gain. They stop
        early when the error on held-out rows stops decreasing. `transform` is as fast as without refinement, except
        with "sorf", whose frequencies lose their structure.
    tolerance : float, default=0.02
        Upper bound on the kernel error, for ``n_frequencies="auto"`` and `suggest`.
    random_state : int, RandomState instance or None, default=None
        Seed of the frequencies and of the samples of rows. They use separate streams, so that changing the weighting
        never changes the frequencies.

    Attributes
    ----------
    length_scale_ : float or ndarray of shape (n_features,)
        The length scale in use.
    frequencies_ : ndarray of shape (n_frequencies, n_features)
        One frequency per row, in the units of the data.
    weights_ : ndarray of shape (n_frequencies,)
        Non-negative weights of the frequencies; plain Fourier features have ``1 / n_frequencies``.
    matrix_ : ndarray of shape (2 * n_frequencies, n_components) or None
        Matrix that multiplies the weighted cosines and sines; None unless ``weighting="matrix"`` or `n_components`
        is given.
    kernel_ : Kernel
        The kernel's shape, at unit length scale.
    feature_map_ : FeatureMap
        The prepared map, through which linear models write features block by block.
    relevance_ : ndarray of shape (n_features,)
        The share of each column in distances: one over its length scale, normalized to sum to 1. Standardize columns
        in different units before comparing their shares.
    learning_gain_ : float
        Relative reduction of the squared error of ridge regression on held-out rows by learning the length scales; 0 if
        the initial ones were kept. Only exists if `length_scale` is "learn" or a `LearnedLengthScales`.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns seen during `fit`, if they were all strings.

    See Also
    --------
    sklearn.kernel_approximation.RBFSampler : Independent frequencies, random phases, no weights.
    sklearn.kernel_approximation.Nystroem : Columns from sampled rows; often the lower error on smooth kernels.

    References
    ----------
    Chang, Li, Yang and Poczos, "Data-driven Random Fourier Features using Stein Effect", IJCAI 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from bochner import FourierFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(FourierFeatures(random_state=0), RidgeClassifier(alpha=0.01))
    >>> round(model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]), 2)
    0.96
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions(set(KERNELS)), HasMethods(["__call__", "at", "uniform_dim", "frequencies"])],
        "length_scale": [POSITIVE, StrOptions({*LENGTH_SCALES, *LEARNERS}), HasMethods(["learn"]), "array-like"],
        "n_frequencies": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "sampler": [StrOptions(set(SAMPLERS)), HasMethods(["sample"])],
        "weighting": [StrOptions(set(WEIGHTINGS)), HasMethods(["weigh"])],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "refine": [Interval(Integral, 0, None, closed="left")],
        "tolerance": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        kernel: str | Kernel = "gaussian",
        *,
        length_scale: float | ArrayLike | str | LearnedLengthScales = "median",
        n_frequencies: int | str = 256,
        sampler: str | Sampler = "orthogonal",
        weighting: str | Weighting = "stein",
        n_components: int | None = None,
        refine: int = 0,
        tolerance: float = 0.02,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.kernel = kernel
        self.length_scale = length_scale
        self.n_frequencies = n_frequencies
        self.sampler = sampler
        self.weighting = weighting
        self.n_components = n_components
        self.refine = refine
        self.tolerance = tolerance
        self.random_state = random_state

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the length scale, draw the frequencies and weight them.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, RowSource} of shape (n_samples, n_features)
            Training rows. With more than 2**20 rows, the features are fitted on a sample of 2**15 rows (16 blocks of
            2,048 consecutive rows, shorter ones where rows are wide), for which a Dask collection computes about 16
            chunks; the other rows are checked when they are mapped. A `bochner.rows.RowSource` has its own targets and
            weights.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Targets to learn length scales from with ``length_scale="learn"``, else ignored. Text, booleans and up to 20
            distinct whole numbers are classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. Up to 2,000 rows, a weight of two equals two copies of a row exactly; with more rows,
            samples are drawn in proportion to the weights.

        Returns
        -------
        FourierFeatures
            The fitted transformer.
        """
        self.__dict__.pop("learning_gain_", None)  # of an earlier fit
        streams = _Streams.spawn(self.random_state)
        training = self._training_rows(open_rows(X, y, sample_weight), streams)
        length_scale = self._resolve_length_scale(training, streams)
        n_frequencies, n_components = self._resolve_size(training, length_scale, streams.sizing)
        kernel: Kernel = make_part(self.kernel, KERNELS)
        sampler: Sampler = make_part(self.sampler, SAMPLERS)
        weighting: Weighting = make_part(self.weighting, WEIGHTINGS)
        if n_components is not None and not hasattr(weighting, "compress"):
            raise ValueError(
                f"`n_components`={n_components} needs a weighting that compresses, and {type(weighting).__name__} has "
                f"no `compress`; use None, or derive the class from bochner.weightings.Weighting."
            )

        rows = training.scaled(length_scale)
        drawn = sampler.sample(kernel, n_frequencies, rows, streams.drawing)
        beta = weighting.weigh(np.asarray(drawn), kernel, rows, streams.weighting)
        if self.refine:
            start = np.asarray(drawn)
            moved, beta = refine(start, beta, kernel, rows, self.refine, streams.refining)
            drawn = drawn if moved is start else moved  # unmoved frequencies keep their structure, which maps faster
        matrix = None
        if n_components is not None:
            matrix = weighting.compress(np.asarray(drawn), beta, kernel, rows, n_components, streams.weighting)

        self.kernel_ = kernel
        self.length_scale_ = length_scale
        self._set_arrays(drawn, beta, matrix, training.rows.dtype)
        return self

    def find_length_scale(self, X: Any, y: Any = None, sample_weight: Any = None) -> float | Floats:
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
        float or ndarray of shape (n_features,)
            One length scale, or one per column.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import FourierFeatures
        >>> FourierFeatures(random_state=0).find_length_scale(np.array([[0.0], [1.0], [3.0]]))
        2.0
        """
        self._validate_params()
        features: FourierFeatures = clone(self)  # the estimator itself stays unfitted
        return features._find_length_scale(open_rows(X, y, sample_weight))

    def _find_length_scale(self, source: RowSource) -> float | Floats:
        streams = _Streams.spawn(self.random_state)
        return self._resolve_length_scale(self._training_rows(source, streams), streams)

    def fit_length_scales(self, X: Any, factors: ArrayLike, y: Any = None, sample_weight: Any = None) -> list[Self]:
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

        Returns
        -------
        list of FourierFeatures
            Fitted transformers with the same seed. With ``n_frequencies="auto"`` all have as many frequencies as the
            shortest length scale needs.
        """
        self._validate_params()
        multiples = positive_values("factors", factors).tolist()
        source = open_rows(X, y, sample_weight)
        features: Self = clone(self).set_params(random_state=_integer_seed(self.random_state))
        if multiples == [1.0]:
            return [features.fit(source)]
        length_scale = features._find_length_scale(source)
        unlabeled = source.with_targets(None)
        if features.n_frequencies == "auto":
            shortest = clone(features).set_params(length_scale=length_scale * min(multiples)).fit(unlabeled)
            n_components = None if shortest.matrix_ is None else shortest.matrix_.shape[1]
            features.set_params(n_frequencies=len(shortest.weights_), n_components=n_components)
        candidates = [
            clone(features).set_params(length_scale=length_scale * factor).fit(unlabeled) for factor in multiples
        ]
        for candidate in candidates if features._learns() else []:
            candidate.learning_gain_ = features.learning_gain_
        return candidates

    def suggest(self, X: Any, tolerance: float | None = None, *, y: Any = None, confidence: float = 0.95) -> Suggestion:
        """Suggest how many features these settings need for a kernel error below a tolerance.

        Candidate sizes are fitted and validated on up to 4,000 rows. No kernel matrix is larger than that of 2,000
        rows. With ``weighting="matrix"`` the suggestion is a number of columns, with twelve frequencies
        per column.

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
        Suggestion
            ``(n_frequencies, n_components, error)``, where `error` is the expected error. `n_components` is None unless
            ``weighting="matrix"``.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import FourierFeatures
        >>> X = np.random.default_rng(0).normal(size=(1000, 3))
        >>> n_frequencies, n_components, error = FourierFeatures(random_state=0).suggest(X, tolerance=0.05)
        >>> features = FourierFeatures(n_frequencies=n_frequencies, random_state=1).fit(X)
        >>> bool(features.kernel_error(X, random_state=0).error < 0.05)
        True
        """
        self._validate_params()
        tolerance = self.tolerance if tolerance is None else tolerance
        _check_fraction("tolerance", tolerance)
        _check_fraction("confidence", confidence)
        features: FourierFeatures = clone(self)  # the estimator itself stays unfitted
        streams = _Streams.spawn(features.random_state)
        training = features._training_rows(open_rows(X, y), streams)
        length_scale = features._resolve_length_scale(training, streams)
        return _suggest_size(features, training, length_scale, tolerance, confidence, streams.sizing)

    def transform(self, X: Any, out: Array | None = None) -> Any:
        """Map rows to weighted Fourier features.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Rows.
        out : ndarray of shape (n_samples, n_features_out), default=None
            A C-contiguous array of the fitted dtype to write into, which saves its allocation; None makes a new one.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            Cosine columns, then sine columns, each times the root of its frequency's weight; with a `matrix_`, their
            product with it. For a Dask collection, a lazy Dask array.
        """
        X = self._validate(X, partial(self._refuse_lazy_transform, out))
        # A lazy result holds this map, also after the estimator is fitted again.
        prepare = partial(self.feature_map_.validate_block, dtype=self.frequencies_.dtype)
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
        scaled = ScaledRows(X, self.length_scale_)[:]
        other = None if Y is None else ScaledRows(self._validate(Y, _refuse_lazy_kernel), self.length_scale_)[:]
        return self.kernel_(scaled, other).astype(X.dtype, copy=False)

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
        n_pairs: int = 50_000,
        confidence: float = 0.95,
        random_state: int | np.random.RandomState | None = None,
    ) -> KernelError:
        """Estimate how far the approximate kernel matrix of X is from the exact one, without computing either.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Rows; use rows that were not used in `fit` for an unbiased estimate.
        n_pairs : int, default=50000
            Number of sampled pairs of rows. When X has no more pairs, the error is exact.
        confidence : float, default=0.95
            Probability that the interval covers the error on all pairs of rows of X.
        random_state : int, RandomState instance or None, default=None
            Seed of the sampled pairs.

        Returns
        -------
        KernelError
            ``(error, low, high)``: the relative Frobenius error and its confidence interval.
        """
        check_is_fitted(self)
        if not isinstance(n_pairs, Integral) or n_pairs < 2:
            raise ValueError(f"`n_pairs` must be an integer of at least 2. Got {n_pairs!r} instead.")
        _check_fraction("confidence", confidence)
        options: Any = {"accept_sparse": "csr", "dtype": self.frequencies_.dtype, "ensure_all_finite": False}
        source = open_rows(X).validate(self, reset=False, **options)
        check_resolution(source, self.length_scale_)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
        rows = ScaledRows(source, self.length_scale_)
        width = len(self.weights_)
        return estimate_kernel_error(self._similarity(), self.kernel_, rows, int(n_pairs), confidence, rng, width)

    @property
    def relevance_(self) -> Floats:
        """One over the length scale of each column, normalized to sum to 1."""
        check_is_fitted(self)
        inverse = 1.0 / np.broadcast_to(self.length_scale_, self.n_features_in_)
        return np.asarray(inverse / inverse.sum())

    def _set_arrays(self, drawn: Any, beta: Floats, matrix: Floats | None, dtype: Any) -> None:
        """Set the fitted arrays, in the dtype of X, which the features will have too, and prepare the map."""
        with np.errstate(over="ignore", divide="ignore"):
            self._frequencies = (drawn / self.length_scale_).astype(dtype)  # structured ones keep their structure
            self.frequencies_ = np.asarray(self._frequencies)
        if not np.isfinite(self.frequencies_).all():
            raise ValueError(
                f"The length scale {np.min(self.length_scale_):.3g} is so short that frequencies overflow {dtype}; "
                f"rescale the columns of X, or give a larger `length_scale`."
            )
        self.weights_ = beta.astype(dtype)
        self.matrix_ = None if matrix is None else matrix.astype(dtype)
        self._prepare_map()

    def _prepare_map(self) -> None:
        self.feature_map_ = FourierMap(self._frequencies, self.weights_, self.matrix_, self.length_scale_)
        self._n_features_out = self.feature_map_.width

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the prepared map, which follows from the fitted arrays."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("feature_map_", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_frequencies" in state:
            self._prepare_map()

    def _similarity(self) -> Callable[[Floats, Floats], Floats]:
        """Return the approximate kernel of pairs of rows, as multiples of the length scale and in float64."""
        frequencies = self.frequencies_.astype(np.float64) * self.length_scale_
        weights = self.weights_.astype(np.float64)
        if self.matrix_ is None:
            return lambda x, y: np.asarray(np.cos((x - y) @ frequencies.T) @ weights)
        feature_map = FourierMap(frequencies, weights, self.matrix_.astype(np.float64))
        return lambda x, y: np.einsum("ij,ij->i", feature_map.features(x), feature_map.features(y))

    def _training_rows(self, source: RowSource, streams: "_Streams") -> "_TrainingRows":
        """Validate the rows to fit on, and sample them when there are many.

        The sample is the same one for rows in memory and in partitions.
        """
        learns = self._learns()
        if learns and not source.has_targets:
            raise ValueError(
                f"`length_scale`={self.length_scale!r} requires y to be passed, but the target y is None; give y, or a "
                f"length scale that does not need it, such as 'median'."
            )
        source = source if learns else source.with_targets(None)
        source = source.validate(self, accept_sparse="csr", dtype=[np.float64, np.float32], multi_output=True)
        rows = sample_source(source, streams.choosing) if source.shape[0] > MANY_ROWS else source
        y, weights = rows.collect_columns()
        if weights is not None and not weights.all():
            if not weights.any():
                if rows is source:
                    raise ValueError("No row has a positive `sample_weight`; give some rows a weight.")
                raise ValueError("All sampled rows have a `sample_weight` of zero; shuffle the rows.")
            rows, y = rows.drop_zero_weights(weights), None if y is None else y[weights > 0.0]
            weights = weights[weights > 0.0]
        labeled = LabeledRows(rows.data, regression_targets(y), weights) if learns else None
        checked = source if source.location == "memory" else rows  # remote rows are checked as they are read
        if rows.shape[0] > FEW_ROWS:
            return _TrainingRows(rows.data, weights, False, labeled, checked)
        # Equal rows are merged, so that no draw depends on whether a row is repeated or weighted.
        return _TrainingRows(*distinct_rows(rows[:], weights), True, labeled, checked)

    def _learns(self) -> bool:
        """Return whether the length scale is learned from targets."""
        given = self.length_scale
        return given in LEARNERS if isinstance(given, str) else hasattr(given, "learn")

    def _resolve_length_scale(self, training: "_TrainingRows", streams: "_Streams") -> float | Floats:
        """Return the length scale that the parameter asks for, and refuse rows that it cannot resolve."""
        length_scale: float | Floats
        if training.labeled is not None:
            length_scale, self.learning_gain_ = self._learn_length_scales(training, training.labeled, streams)
        elif isinstance(self.length_scale, str):
            length_scale = LENGTH_SCALES[self.length_scale](training.rows, streams.measuring, training.weights)
        else:
            length_scale = _given_length_scale(self.length_scale, training.rows.shape[1])
        check_resolution(training.checked, length_scale)
        return length_scale

    def _learn_length_scales(
        self, training: "_TrainingRows", labeled: LabeledRows, streams: "_Streams"
    ) -> LearningResult:
        """Learn one length scale per column with the frequencies that are used later, or with the first 512 of them."""
        learner: LearnedLengthScales = make_part(self.length_scale, LEARNERS)
        kernel, sampler = make_part(self.kernel, KERNELS), make_part(self.sampler, SAMPLERS)
        n_frequencies = DEFAULT_TO_LEARN_WITH if isinstance(self.n_frequencies, str) else self.n_frequencies
        rows = training.scaled(median_distance(training.rows, streams.measuring, training.weights))
        most = min(MOST_TO_LEARN_WITH, max(64, training.rows.shape[0]))  # few rows cannot tell more of them apart
        drawn = sampler.sample(kernel, min(n_frequencies, most), rows, deepcopy(streams.drawing))
        return learner.learn(labeled, np.asarray(drawn), streams.learning)

    def _resolve_size(
        self, training: "_TrainingRows", length_scale: float | Floats, rng: np.random.Generator
    ) -> tuple[int, int | None]:
        """Return the numbers of frequencies and of columns, the latter None where nothing is compressed."""
        n_frequencies, n_components = self.n_frequencies, self.n_components
        if isinstance(n_frequencies, str):
            if n_components is not None and self._always_compresses():
                return POOL * n_components, n_components
            suggestion = _suggest_size(self, training, length_scale, self.tolerance, 0.95, rng)
            n_components = n_components or suggestion.n_components
            n_frequencies = max(suggestion.n_frequencies, -(-(n_components or 0) // 2))
        if n_components is None:
            return n_frequencies, 2 * n_frequencies if self._always_compresses() else None
        if n_components > 2 * n_frequencies:
            raise ValueError(
                f"`n_components`={n_components} is more than the {2 * n_frequencies} columns of "
                f"n_frequencies={n_frequencies}; give fewer components or more frequencies."
            )
        return n_frequencies, n_components

    def _always_compresses(self) -> bool:
        weighting = WEIGHTINGS[self.weighting] if isinstance(self.weighting, str) else self.weighting
        return getattr(weighting, "always_compresses", False)

    def _validate(self, X: Any, refuse_lazy: Callable[[], str | None] = lambda: None) -> Any:
        """Return X with the width and dtype of the fitted arrays; a Dask collection as it is."""
        check_is_fitted(self)
        # The map's check finds NaN and infinity too, in one pass over X instead of two.
        options: Any = {"accept_sparse": "csr", "dtype": self.frequencies_.dtype, "ensure_all_finite": False}
        return validate_rows(self, X, self.feature_map_.check, refuse_lazy, **options)

    def _refuse_lazy_transform(self, out: Array | None) -> str | None:
        """Return why a Dask collection cannot be transformed, if it cannot."""
        if out is not None:
            return "`out` needs rows in memory; leave it out for a Dask collection."
        row = np.zeros((1, self.n_features_in_), dtype=self.frequencies_.dtype)
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
        tags.target_tags.required = self._learns()
        return tags


class _Streams(NamedTuple):
    """Separate random streams for the steps of a fit: no step changes what another one draws."""

    measuring: np.random.Generator
    drawing: np.random.Generator
    weighting: np.random.Generator
    refining: np.random.Generator
    sizing: np.random.Generator
    learning: np.random.Generator
    choosing: np.random.Generator

    @classmethod
    def spawn(cls, random_state: Any) -> "_Streams":
        seed = check_random_state(random_state).randint(2**31, size=4)
        return cls(*np.random.default_rng(seed).spawn(len(cls._fields)))


class _TrainingRows(NamedTuple):
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
        Rows with targets, where length scales are learned from them.
    checked : RowSource
        The rows whose resolution is checked now.
    """

    rows: Any
    weights: Floats | None
    distinct: bool
    labeled: LabeledRows | None
    checked: RowSource

    def scaled(self, length_scale: float | Floats) -> ScaledRows:
        """Return the rows as multiples of the length scale."""
        # One divisor for all columns keeps the order of distinct rows; one per column does not.
        return ScaledRows(self.rows, length_scale, self.weights, self.distinct and np.ndim(length_scale) == 0)


def _integer_seed(random_state: Any) -> int:
    """Return an integer seed as it is, and draw one from any other random state."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _given_length_scale(given: Any, n_features: int) -> float | Floats:
    """Return one positive number, or one per column."""
    if isinstance(given, Real):
        return float(given)
    try:
        scales = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"`length_scale` must contain numbers only. Got {given!r} instead.") from None
    if scales.shape != (n_features,):
        raise ValueError(
            f"`length_scale` has shape {scales.shape} and X has {n_features} columns; give one number, one number per "
            f"column, 'median', 'scale' or 'learn'."
        )
    if not np.isfinite(scales).all() or scales.min() <= 0.0:
        raise ValueError(f"`length_scale` must contain positive numbers only. Got {scales.tolist()} instead.")
    return scales


def _suggest_size(
    features: FourierFeatures,
    training: _TrainingRows,
    length_scale: float | Floats,
    tolerance: float,
    confidence: float,
    rng: np.random.Generator,
) -> Suggestion:
    """Find the smallest sufficient size by trials on samples of the rows; see `FourierFeatures.suggest`.

    A few rows determine a matrix of a few columns only; where those are not enough, the pool stays uncompressed.
    """
    trials = SizeTrials(training.rows, training.weights, int(rng.integers(2**31)))

    def pooled(size: int) -> Any:
        return clone(features).set_params(length_scale=length_scale, n_frequencies=POOL * size, n_components=size)

    def plain(size: int) -> Any:
        return clone(features).set_params(length_scale=length_scale, n_frequencies=size, n_components=None)

    compresses = features._always_compresses()
    if compresses:
        largest = LARGEST_SIZE // POOL
        try:
            size, error = trials.smallest(pooled, tolerance, min(largest, trials.n_fit), confidence, "columns")
            return Suggestion(POOL * size, size, error)
        except OutOfReachError:
            if trials.n_fit >= largest:
                raise
    size, error = trials.smallest(plain, tolerance, LARGEST_SIZE, confidence)
    return Suggestion(size, 2 * size if compresses else None, error)


def _check_fraction(name: str, value: Any) -> None:
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"`{name}` must be between 0 and 1. Got {value!r} instead.")


def _refuse_lazy_kernel() -> str:
    return (
        "A kernel matrix of a Dask collection has as many entries as the square of its rows; give rows in memory, "
        "as by `X[:1000].compute()`, or use `kernel_error`, which samples pairs."
    )
