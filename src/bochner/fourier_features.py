# SPDX-License-Identifier: BSD-3-Clause
"""`FourierFeatures`, the scikit-learn transformer: sample frequencies, weigh them, map rows."""

from collections.abc import Callable
from copy import copy, deepcopy
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
    clone,
)
from sklearn.utils import assert_all_finite, check_array, check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bochner.feature_maps import FourierMap, fourier_map
from bochner.kernel_error import KernelError, estimate_kernel_error, sampled_error
from bochner.kernels import KERNELS, Kernel
from bochner.learning.length_scales import LabelledRows, Learned, LearnedLengthScales, regression_targets
from bochner.learning.refinement import refine
from bochner.length_scales import LENGTH_SCALES, median_distance
from bochner.rows import (
    Array,
    Floats,
    Indices,
    Mask,
    PiecedRows,
    ScaledRows,
    checked_weights,
    distinct_rows,
    in_pieces,
    is_collection,
    map_rows,
    max_abs,
    norm,
    scattered_runs,
    template,
)
from bochner.samplers import SAMPLERS, Sampler
from bochner.sizes import OutOfReachError, Suggestion, smallest_size
from bochner.validation import HasMethods, Interval, StrOptions
from bochner.weightings import WEIGHTINGS, Weighting

__all__ = ["FourierFeatures"]

POSITIVE = Interval(Real, 0, np.inf, closed="neither")
FEW_ROWS = 2000  # as many as the weightings look at by default
MANY_ROWS = 1 << 20  # of more, a sample chooses the features
SAMPLE_RUNS = 16  # runs of rows in that sample: few enough that a cluster need not read all it has
RUN_ROWS = 2048
SAMPLE_BYTES = 1 << 28
POOL = 12  # frequencies a column of a suggested matrix
LARGEST_SIZE = 16384  # frequencies that `suggest` tries
LEARNERS: dict[str, type] = {"learn": LearnedLengthScales}
MOST_TO_LEARN_WITH = 512  # frequencies: length scales learned with so many are good for more
TO_LEARN_WITH = 256  # frequencies, where their number is to be found afterwards


class FourierFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Random Fourier features whose weights are chosen by the data.

    Maps rows x to ``2 * n_frequencies`` columns z(x) such that :math:`z(x) \cdot z(y) = \sum_m \beta_m \cos(w_m
    \cdot (x - y))` approximates a shift-invariant kernel :math:`k((x - y) / \ell)`, so that a linear model on the
    columns is a kernel model on the rows.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        The kernel's shape: "gaussian", "laplacian", "cauchy", "exponential", "matern", "rational_quadratic", or a
        part such as ``Matern(nu=2.5)``.
    length_scale : float, array-like of shape (n_features,), str or LearnedLengthScales, default="median"
        The unit of distance: a number; one a column; "median", the median distance of sampled pairs of rows; "scale",
        ``sqrt(n_features * X.var() / 2)``, which is scikit-learn's ``gamma="scale"``; or "learn", one a column,
        learned from y, as by the part ``LearnedLengthScales()``.
    n_frequencies : int or "auto", default=256
        Number of frequencies; each makes two columns, unless `n_components` says otherwise. "auto" takes as many as
        `suggest` finds enough for `tolerance`, before a compression to a given `n_components`.
    sampler : str or Sampler, default="orthogonal"
        How frequencies are drawn: "mc", "halton", "sobol", "lattice", "orthogonal", "sorf", or a part such as
        ``Sobol(rotate=True)``.
    weighting : str or Weighting, default="stein"
        How frequencies are weighed: "uniform", "shrinkage", "quadrature", "stein", "matrix", or a part such as
        ``Stein(sketch="pairs")``. "matrix" has in place of weights the best matrix on a pool of frequencies, which
        it compresses to `n_components` columns: the lowest error for a number of columns, at the price of a slower
        map.
    n_components : int, default=None
        Number of columns; None means ``2 * n_frequencies``. Fewer are a compression: by the best matrix with
        ``weighting="matrix"``, for which twelve frequencies a column are a good pool (and what "auto" takes), by
        principal components with the other weightings.
    refine : int, default=0
        Iterations that move frequencies and weights together to a smaller error; 60 go most of the way. They end
        earlier when rows that are held out gain no more. The map costs the same afterwards, but that of "sorf", whose
        structure moved frequencies do not have.
    tolerance : float, default=0.02
        The kernel error to stay below, for ``n_frequencies="auto"``.
    random_state : int, RandomState instance or None, default=None
        Seed of the frequencies and of the samples of rows. The two have separate streams: the weighting never
        moves the frequencies.

    Attributes
    ----------
    length_scale_ : float or ndarray of shape (n_features,)
        The length scale in use.
    frequencies_ : ndarray of shape (n_frequencies, n_features)
        One frequency a row, in units of the data.
    weights_ : ndarray of shape (n_frequencies,)
        Weights of the frequencies, none negative; plain Fourier features have ``1 / n_frequencies``.
    matrix_ : ndarray of shape (2 * n_frequencies, n_components) or None
        What the weighted cosines and sines are multiplied by; None unless ``weighting="matrix"`` or `n_components`
        is given.
    kernel_ : Kernel
        The kernel's shape, at unit length scale.
    relevance_ : ndarray of shape (n_features,)
        What part each column has in distances: one over its length scale, the sum of all being 1. Columns in different
        units are not to be compared by it: standardise them.
    learning_gain_ : float
        The share by which learned length scales lowered the squared error of ridge regression on rows held out, 0 where
        they stayed as they were at the start; only with a `length_scale` that learns.
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

    matrix_: Array | None = None  # of fits that were stored before there was one, too

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

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the length scale, draw the frequencies, weigh them.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Training rows. Of more than 2**20 rows, 2**15 choose the features: 16 runs of 2,048 consecutive rows (of
            wide ones, fewer) from all over X, so that of a Dask collection some 16 chunks are computed and no more; the
            others are checked when they are mapped.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            What to learn length scales from with ``length_scale="learn"``, else ignored. Text, true and false, and up
            to 20 different whole numbers are classes.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts. Up to 2,000 rows, a row of weight two is exactly two rows; of more rows
            samples are drawn in proportion to the weights.

        Returns
        -------
        FourierFeatures
            The fitted transformer.
        """
        return self._fit(X, y, sample_weight)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        encode: Callable[[Any], Floats] = regression_targets,
        verbose: int = 0,
    ) -> Self:
        self.__dict__.pop("learning_gain_", None)  # of an earlier fit
        streams = self._random_streams()
        training = self._validate_training(X, y, sample_weight, encode, streams)
        X, weights = training.X, training.weights
        kernel: Kernel = _part(self.kernel, KERNELS)
        sampler: Sampler = _part(self.sampler, SAMPLERS)
        weighting: Weighting = _part(self.weighting, WEIGHTINGS)

        length_scale = self._resolve_length_scale(training, streams, verbose)
        rows = ScaledRows(X, length_scale, weights)
        n_frequencies, n_components = self._resolve_size(X, weights, length_scale, streams.sizing)
        if n_components is not None and not hasattr(weighting, "compress"):
            raise ValueError(
                f"`n_components`={n_components} needs a weighting that compresses; {type(weighting).__name__} has no "
                f"`compress`: leave it None, or derive the class from bochner.weightings.Weighting."
            )
        drawn = sampler.sample(kernel, n_frequencies, rows, streams.drawing)
        beta = weighting.weigh(np.asarray(drawn), kernel, rows, streams.weighing)
        if self.refine:
            start = np.asarray(drawn)
            moved, beta = refine(start, beta, kernel, rows, self.refine, streams.moving)
            drawn = drawn if moved is start else moved  # perhaps structured, and then faster
        matrix = None
        if n_components is not None:
            matrix = weighting.compress(np.asarray(drawn), beta, kernel, rows, n_components, streams.weighing)

        self.kernel_ = kernel
        self.length_scale_ = length_scale
        # The fitted arrays have the dtype of X, and so will have the features.
        with np.errstate(over="ignore", divide="ignore"):
            self._frequencies = (drawn / length_scale).astype(X.dtype)  # perhaps structured, for the map
            self.frequencies_ = np.asarray(self._frequencies)
        if not np.isfinite(self.frequencies_).all():
            raise ValueError(
                f"The length scale {np.min(length_scale):.3g} is so short that frequencies overflow {X.dtype}; rescale "
                f"the columns of X, or give a larger `length_scale`."
            )
        self.weights_ = beta.astype(X.dtype)
        self.matrix_ = None if matrix is None else matrix.astype(X.dtype)
        self._n_features_out = self._block_map().width
        return self

    def suggest(self, X: Any, tolerance: float = 0.02, *, y: Any = None, confidence: float = 0.95) -> Suggestion:
        """How many features these settings need for a kernel error below a tolerance.

        Sizes are tried on up to 4,000 rows, some to fit and the others to judge; no larger kernel matrix is made than
        that of 2,000 rows. With ``weighting="matrix"`` it is the number of columns that counts, with twelve
        frequencies a column.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Training rows.
        tolerance : float, default=0.02
            The largest relative Frobenius error of the kernel matrix of 2,000 rows that `fit` has not seen, or of as
            many as there are; in more rows the diagonal counts less, and the error is smaller.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            What to learn length scales from, as in `fit`.
        confidence : float, default=0.95
            Probability that the features of another `random_state` stay below the tolerance.

        Returns
        -------
        Suggestion
            ``(n_frequencies, n_components, error)``, the last one the error to expect. `n_components` is None unless
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
        _check_fraction("tolerance", tolerance)
        _check_fraction("confidence", confidence)
        features: FourierFeatures = clone(self)  # which stays unfitted
        streams = features._random_streams()
        training = features._validate_training(X, y, None, regression_targets, streams)
        length_scale = features._resolve_length_scale(training, streams)
        return features._suggestion(training.X, training.weights, length_scale, tolerance, confidence, streams.sizing)

    def transform(self, X: Any, out: Array | None = None) -> Any:
        """Map rows to weighted Fourier features.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Rows.
        out : ndarray of shape (n_samples, n_features_out), default=None
            A C-contiguous array of the fitted dtype to write into, to spare its allocation; None makes a new one.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            Cosine columns, then sine columns, each times the root of its frequency's weight; with a `matrix_`, their
            product with it. Of a Dask collection, a Dask array that nothing is computed of yet.
        """
        if out is not None and is_collection(X):
            raise ValueError("`out` is for rows in memory; leave it out for a Dask collection.")
        X = self._validate(X, lazy=True)
        features = copy(self)  # what is computed later is of this fit, whatever happens to the original
        return map_rows(partial(features._map, out=out), X, features._prepared)

    def exact_kernel(self, X: Any, Y: Any = None) -> Array:
        """The kernel matrix that the features approximate.

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
        X = self._in_memory(X)
        scaled = ScaledRows(X, self.length_scale_)[:]
        other = None if Y is None else ScaledRows(self._in_memory(Y), self.length_scale_)[:]
        return self.kernel_(scaled, other).astype(X.dtype, copy=False)

    def approximate_kernel(self, X: Any, Y: Any = None) -> Array:
        """Inner products of the features: positive semidefinite, close to `exact_kernel`.

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
        features = self._map(self._in_memory(X))
        other = features if Y is None else self._map(self._in_memory(Y))
        return np.asarray(features @ other.T)

    def kernel_error(
        self,
        X: Any,
        *,
        n_pairs: int = 50_000,
        confidence: float = 0.95,
        random_state: int | np.random.RandomState | None = None,
    ) -> KernelError:
        """How far the approximate kernel matrix of X is from the exact one, without building either.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Rows; the error on rows that `fit` has not seen is the honest one.
        n_pairs : int, default=50000
            Pairs of rows to look at. When X has no more, the error is exact.
        confidence : float, default=0.95
            Probability that the interval covers the error on all pairs of rows of X.
        random_state : int, RandomState instance or None, default=None
            Seed of the sampled pairs.

        Returns
        -------
        KernelError
            ``(error, low, high)``: the relative Frobenius error and its confidence interval.
        """
        X = self._validate(X)
        if not isinstance(n_pairs, Integral) or n_pairs < 2:
            raise ValueError(f"`n_pairs` must be an integer of at least 2. Got {n_pairs!r} instead.")
        _check_fraction("confidence", confidence)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
        rows = ScaledRows(X, self.length_scale_)
        width = len(self.weights_)
        return estimate_kernel_error(self._similarity(), self.kernel_, rows, int(n_pairs), confidence, rng, width)

    def _similarity(self) -> Callable[[Floats, Floats], Floats]:
        """The approximate kernel of pairs of rows, in units of the length scale and in float64."""
        frequencies = self.frequencies_.astype(np.float64) * self.length_scale_
        weights = self.weights_.astype(np.float64)
        if self.matrix_ is None:
            return lambda x, y: np.asarray(np.cos((x - y) @ frequencies.T) @ weights)
        block_map = FourierMap(frequencies, weights, self.matrix_.astype(np.float64))
        return lambda x, y: np.einsum("ij,ij->i", block_map.features(x), block_map.features(y))

    def _map(self, X: Any, out: Array | None = None) -> Array:
        return fourier_map(X, self._frequencies, self.weights_, out, self.matrix_)

    def _block_map(self) -> FourierMap:
        """The map for blocks of validated rows, for who sums over them instead of holding the features."""
        return FourierMap(self._frequencies, self.weights_, self.matrix_)

    @property
    def relevance_(self) -> Floats:
        """One over the length scale of each column, the sum of all being 1."""
        check_is_fitted(self)
        inverse = 1.0 / np.broadcast_to(self.length_scale_, self.n_features_in_)
        return np.asarray(inverse / inverse.sum())

    def _validate_training(
        self, X: Any, y: Any, sample_weight: Any, encode: Callable[[Any], Floats], streams: "_Streams"
    ) -> "_Training":
        """Rows to fit on and their weights; and, where length scales are to be learned, with targets.

        Of many rows they are a sample, the same one whether the rows are in memory or in pieces.
        """
        learns = self._learns()
        every, y, weights = self._training_rows(X, y, sample_weight, learns)
        chosen = _sampled_rows(every, streams.choosing) if every.shape[0] > MANY_ROWS else None
        if isinstance(every, PiecedRows):
            X, y, weights = _gathered(every, chosen, learns)
        elif chosen is None:
            X = every
        else:
            X, y, weights = (None if column is None else column[chosen] for column in (every, y, weights))
        X, weights, y = _counted(X, weights, y if learns else None)
        labelled = LabelledRows(X, encode(y), weights) if learns else None
        return _Training(*_merged(X, weights), labelled, every)

    def _training_rows(self, X: Any, y: Any, sample_weight: Any, learns: bool) -> tuple[Any, Any, Floats | None]:
        """All rows with targets and weights, checked; of rows in pieces only what can be checked without a look."""
        pieces = X.pieces if isinstance(X, PiecedRows) else in_pieces(X, y if learns else None, sample_weight)
        if learns and y is None and (pieces is None or "y" not in pieces.templates):
            raise ValueError(
                f"`length_scale`={self.length_scale!r} requires y to be passed, but the target y is None; give y, or a "
                f"length scale that needs none, as 'median'."
            )
        options: Any = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        if isinstance(X, PiecedRows):  # of a model, which has seen to the names of columns
            validate_data(self, np.empty((0, X.shape[1]), dtype=X.dtype), ensure_min_samples=0)
            return X, None, None
        if pieces is not None:
            checked = validate_data(self, pieces.templates["X"], ensure_min_samples=0, **options)
            return PiecedRows(pieces, checked.dtype), None, None
        if learns:
            X, y = validate_data(self, X, y, multi_output=True, **options)
        else:
            X = validate_data(self, X, **options)
        return X, y, _checked_weights(sample_weight, X)

    def _measure(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        encode: Callable[[Any], Floats] = regression_targets,
        verbose: int = 0,
    ) -> float | Floats:
        """The length scale that `fit` would take."""
        streams = self._random_streams()
        return self._resolve_length_scale(
            self._validate_training(X, y, sample_weight, encode, streams), streams, verbose
        )

    def _learns(self) -> bool:
        """Whether the length scale is learned from targets."""
        given = self.length_scale
        return given in LEARNERS if isinstance(given, str) else hasattr(given, "learn")

    def _random_streams(self) -> "_Streams":
        seed = check_random_state(self.random_state).randint(2**31, size=4)
        return _Streams(*np.random.default_rng(seed).spawn(len(_Streams._fields)))

    def _resolve_size(
        self, X: Any, weights: Floats | None, length_scale: float | Floats, rng: np.random.Generator
    ) -> tuple[int, int | None]:
        """Numbers of frequencies and of columns, the latter None where nothing is compressed."""
        n_frequencies, n_components = self.n_frequencies, self.n_components
        if isinstance(n_frequencies, str):
            if n_components is not None and self._always_compresses():
                return POOL * n_components, n_components
            found = self._suggestion(X, weights, length_scale, self.tolerance, 0.95, rng)
            n_components = n_components or found.n_components
            n_frequencies = max(found.n_frequencies, -(-(n_components or 0) // 2))
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

    def _suggestion(
        self,
        X: Any,
        weights: Floats | None,
        length_scale: float | Floats,
        tolerance: float,
        confidence: float,
        rng: np.random.Generator,
    ) -> Suggestion:
        """The smallest size that is enough, from trials on samples of the rows; see `suggest`.

        Few rows can teach a matrix of few columns only; where those do not do, the pool stays uncompressed.
        """
        n_rows = min(X.shape[0], FEW_ROWS)  # in more rows the diagonal counts less and the error is smaller
        n_seen, n_held = _division(X.shape[0])
        n_divisions = 3 if 2 * n_held >= FEW_ROWS else 8
        seed = int(rng.integers(2**31))

        def error_at(size: int, division: int, draw: int, pool: int | None) -> float:
            dividing, drawing = np.random.default_rng([seed, division]), np.random.default_rng([seed, division, draw])
            order = dividing.permutation(X.shape[0])
            seen, held = order[-n_seen:], order[:n_held]
            counts = np.ones(len(order)) if weights is None else weights
            features = clone(self).set_params(length_scale=length_scale, random_state=int(drawing.integers(2**31)))
            features.set_params(n_frequencies=size if pool is None else pool * size)
            features.set_params(n_components=None if pool is None else size)
            features.fit(X[seen], sample_weight=None if weights is None else weights[seen])
            exact, approximate = features.exact_kernel(X[held]), features.approximate_kernel(X[held])
            return sampled_error(exact, approximate, counts[held], n_rows)

        search = partial(smallest_size, tolerance=tolerance, confidence=confidence, n_divisions=n_divisions)
        if self._always_compresses():
            largest = LARGEST_SIZE // POOL
            try:
                size, error = search(partial(error_at, pool=POOL), largest=min(largest, n_seen), unit="columns")
                return Suggestion(POOL * size, size, error)
            except OutOfReachError:
                if n_seen >= largest:
                    raise
        size, error = search(partial(error_at, pool=None), largest=LARGEST_SIZE)
        return Suggestion(size, 2 * size if self._always_compresses() else None, error)

    def _resolve_length_scale(self, training: "_Training", streams: "_Streams", verbose: int = 0) -> float | Floats:
        X, weights, labelled, every = training
        if labelled is not None:
            length_scale: float | Floats
            length_scale, self.learning_gain_ = self._learn(X, weights, labelled, streams, verbose)
        elif isinstance(self.length_scale, str):
            length_scale = LENGTH_SCALES[self.length_scale](X, streams.measuring, weights)
        else:
            length_scale = self._given_length_scale(X)
        # Of many rows in pieces each is checked when it is read; that is often only once.
        _check_resolution(X if isinstance(every, PiecedRows) else every, length_scale)
        return length_scale

    def _learn(
        self, X: Any, weights: Floats | None, labelled: LabelledRows, streams: "_Streams", verbose: int
    ) -> Learned:
        """One length scale a column, learned with the frequencies that are used later, unless they are many."""
        learner: LearnedLengthScales = _part(self.length_scale, LEARNERS)
        kernel, sampler = _part(self.kernel, KERNELS), _part(self.sampler, SAMPLERS)
        wanted = TO_LEARN_WITH if isinstance(self.n_frequencies, str) else self.n_frequencies
        rows = ScaledRows(X, median_distance(X, streams.measuring, weights), weights)
        most = min(MOST_TO_LEARN_WITH, max(64, X.shape[0]))  # few rows cannot tell more of them apart
        drawn = sampler.sample(kernel, min(wanted, most), rows, deepcopy(streams.drawing))
        return learner.learn(labelled, np.asarray(drawn), streams.learning, verbose)

    def _given_length_scale(self, X: Any) -> float | Floats:
        if isinstance(self.length_scale, Real):
            return float(self.length_scale)
        try:
            scales = np.asarray(self.length_scale, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"`length_scale` must hold numbers only. Got {self.length_scale!r} instead.") from None
        if scales.shape != (X.shape[1],):
            raise ValueError(
                f"`length_scale` has shape {scales.shape} and X has {X.shape[1]} columns; give one number, one a "
                f"column, 'median', 'scale' or 'learn'."
            )
        if not np.isfinite(scales).all() or scales.min() <= 0.0:
            raise ValueError(f"`length_scale` must hold positive numbers only. Got {scales.tolist()} instead.")
        return scales

    def _validate(self, X: Any, *, lazy: bool = False) -> Any:
        """X with the width and dtype of the fitted arrays, or one sentence about what is wrong with it.

        A Dask collection is returned as it is if `lazy`, its chunks to be checked by `_prepared`; else as rows that are
        gathered by their numbers.
        """
        check_is_fitted(self)
        options: Any = {"accept_sparse": "csr", "dtype": self.frequencies_.dtype, "reset": False}
        if is_collection(X):
            validate_data(self, template(X), ensure_min_samples=0, **options)
            if lazy:
                self._refuse_containers()
                return X
            X = PiecedRows(in_pieces(X), self.frequencies_.dtype)
        else:
            # One pass over X instead of scikit-learn's and ours: _check_resolution finds NaN and infinity as well.
            X = validate_data(self, X, ensure_all_finite=False, **options)
        _check_resolution(X, self.length_scale_)
        return X

    def _prepared(self, block: Any) -> Any:
        """A chunk of a collection that has been validated, fit for the map."""
        dtype = self.frequencies_.dtype
        X = check_array(block, accept_sparse="csr", dtype=dtype, ensure_all_finite=False, ensure_min_samples=0)
        _check_resolution(X, self.length_scale_)
        return X

    def _in_memory(self, X: Any) -> Any:
        """Validated rows for what needs all of them at a time."""
        if is_collection(X):
            raise ValueError(
                "A kernel matrix of a Dask collection would be as large as its rows squared; give rows in memory, as "
                "by `X[:1000].compute()`, or use `kernel_error`, which samples pairs."
            )
        return self._validate(X)

    def _refuse_containers(self) -> None:
        """Refuse to make pandas or polars frames of a Dask collection: that would compute all of it."""
        wanted = _get_output_config("transform", self)["dense"]
        if wanted != "default":
            raise ValueError(
                f"transform_output={wanted!r} is for rows in memory; call `set_output(transform='default')` for a Dask "
                f"collection, which becomes a Dask array."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.target_tags.required = self._learns()
        return tags


class _Streams(NamedTuple):
    """Random numbers for each step of a fit; no step moves what another one draws."""

    measuring: np.random.Generator
    drawing: np.random.Generator
    weighing: np.random.Generator
    moving: np.random.Generator
    sizing: np.random.Generator
    learning: np.random.Generator
    choosing: np.random.Generator


class _Training(NamedTuple):
    """Rows to choose features by, how many times each counts, the same with targets to learn from; and all rows."""

    X: Any
    weights: Floats | None
    labelled: LabelledRows | None
    every: Any


def _part(name_or_part: Any, table: dict[str, type]) -> Any:
    """The part of that name with its defaults, or a copy of the given part; its own parameters are checked."""
    if isinstance(name_or_part, type):
        raise TypeError(f"{name_or_part.__name__} is a class; give an instance, {name_or_part.__name__}(), or a name.")
    part = table[name_or_part]() if isinstance(name_or_part, str) else clone(name_or_part)
    if hasattr(part, "_parameter_constraints"):  # a part of a user's own need not declare them
        part._validate_params()
    return part


def _check_fraction(name: str, value: Any) -> None:
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"`{name}` must lie between 0 and 1. Got {value!r} instead.")


def _division(n_rows: int) -> tuple[int, int]:
    """How many rows fit and how many others judge in the trial of a size; a few rows do both."""
    if n_rows < 8:
        return n_rows, n_rows
    n_chosen = min(n_rows, 2 * FEW_ROWS)
    n_held = max(n_chosen // 4, n_chosen - FEW_ROWS)
    return n_chosen - n_held, n_held


def _checked_weights(sample_weight: Any, X: Any) -> Floats | None:
    if sample_weight is None:
        return None
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


def _counted(X: Any, weights: Floats | None, y: Any) -> tuple[Any, Floats | None, Any]:
    """The rows that count, their weights and targets; the weights are None when every row counts once."""
    if weights is None or weights.all():
        return X, weights, y
    count: Mask = weights > 0.0
    if not count.any():
        raise ValueError("No row has a positive `sample_weight`, of those that choose the features; shuffle the rows.")
    X = X.restricted(count) if isinstance(X, PiecedRows) else X[count]
    return X, weights[count], None if y is None else y[count]


def _sampled_rows(X: Any, rng: np.random.Generator) -> Indices:
    """The numbers of the rows that choose the features of many."""
    row_bytes = X.shape[1] * X.dtype.itemsize
    return scattered_runs(
        X.shape[0], SAMPLE_RUNS, int(np.clip(SAMPLE_BYTES // (SAMPLE_RUNS * row_bytes), 64, RUN_ROWS)), rng
    )


def _gathered(rows: PiecedRows, chosen: Indices | None, learns: bool) -> tuple[Any, Any, Floats | None]:
    """Rows, targets and weights in memory; all but the rows themselves when none are chosen."""
    names = [name for name in ("y", "weights") if name in rows.pieces.templates and (name != "y" or learns)]
    if chosen is None:
        found = {"X": rows} | (rows.take(slice(None), *names) if names else {})
    else:
        found = rows.take(chosen, "X", *names)
    return found["X"], found.get("y"), checked_weights(found.get("weights"), found["X"])


def _merged(X: Any, weights: Floats | None) -> tuple[Any, Floats | None]:
    """Of few rows equal ones merged, so that whatever is drawn from them cannot tell weights from repetitions."""
    return distinct_rows(X[:], weights) if X.shape[0] <= FEW_ROWS else (X, weights)


def _check_resolution(X: Any, length_scale: float | Floats) -> None:
    """Refuse NaN, infinity, and values so large that rounding moves a row by a noticeable part of the length scale."""
    limit = 0.01 / float(np.finfo(X.dtype).eps)
    bound = limit * float(np.min(length_scale))
    if not X.shape[0] or (bound > 1e-10 and norm(X) <= bound):  # no entry is larger than the norm
        return  # (squares below 1e-20 may underflow)
    if not isinstance(X, PiecedRows):  # those are checked where they lie
        assert_all_finite(X, estimator_name="FourierFeatures", input_name="X")
    magnitudes = max_abs(X)
    with np.errstate(over="ignore"):
        reach = float((magnitudes / length_scale).max())
    if reach > limit:
        raise ValueError(
            f"X holds values of up to {magnitudes.max():.3g}, which is {reach:.2g} times the length scale; beyond "
            f"{limit:.2g} {X.dtype} blurs the distances of rows. Centre or rescale the columns of X, or give a larger "
            f"`length_scale`."
        )
