# SPDX-License-Identifier: BSD-3-Clause
"""`LandmarkFeatures`, the scikit-learn transformer: select landmarks, fit the whitening, map rows."""

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bochner.feature_maps import FeatureMap, ProductMap, kernel_columns
from bochner.feature_maps.compression import best_matrix
from bochner.feature_maps.kernel_columns import kernel_function
from bochner.features.kernel_features import FEW_ROWS, KernelFeatures, Streams, TrainingRows, Units
from bochner.function_kernels import FunctionKernel, PrecomputedKernel
from bochner.inspection.kernel_error import Approximation
from bochner.inspection.sizes import LandmarkSuggestion, OutOfReachError, SizeTrials
from bochner.kernels import KERNEL_ALIASES, KERNELS, NAMED_KERNELS, Kernel, make_kernel
from bochner.landmarks import LANDMARKS, LandmarkSelection, inverse_root
from bochner.parameters import FEATURE_EXPLANATIONS
from bochner.rows import (
    Array,
    Floats,
    Metric,
    RowSource,
    ScaledRows,
    distinct_rows,
    is_sparse,
    serial_blas,
    shuffled_sample,
)
from bochner.samplers import Sampler, make_sampler
from bochner.scaling.learned_metric import LearnedMetric
from bochner.scaling.learned_scales import LearnedLengthScales
from bochner.validation import HasMethods, Interval, StrOptions, check_returned, make_part
from bochner.weightings import MATRIX_GRID

__all__ = ["LandmarkFeatures"]

POINTS_PER_LANDMARK = 16  # rows that the whitening is fitted on
FEWEST_POINTS, MOST_POINTS = 1000, 2000
POOL = 3  # landmarks per column of a pool
LARGEST_SIZE = 4096  # landmarks that `suggest` tries at most
TO_LEARN_WITH = 256  # frequencies


class LandmarkFeatures(KernelFeatures):
    r"""Kernel values at landmarks, whitened so that inner products approximate the kernel (Nystroem's method).

    Maps rows x to columns :math:`z(x) = W^T k(L, x)`, where L are landmarks and W is the whitening. Plain Nystroem
    features have :math:`W W^T = k(L, L)^{-1}`. Here W minimizes the kernel error on sampled rows, shrunk towards the
    plain one.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        The kernel: a name or an instance as in `FourierFeatures`; a function that returns the kernel matrix of two sets
        of rows, such as ``sklearn.metrics.pairwise.chi2_kernel``; or "precomputed". The rows of a function can be
        numbers, text or other objects, in one or two dimensions; it is called in several threads. With "precomputed",
        X is the kernel matrix of the training rows in `fit`, and of new rows and training rows in `transform`.
    length_scale : float, array-like of shape (n_features,), str or a part of `bochner.scaling`, default="median"
        Length scale of the kernel, as in `FourierFeatures`; not used with a function or a precomputed kernel.
    n_landmarks : int or "auto", default=256
        Number of landmarks; at most the number of rows, of distinct rows if they are numeric. "auto" uses as many as
        `suggest` finds necessary for `tolerance`.
    landmarks : str or LandmarkSelection, default="kmeans"
        How landmarks are selected: "uniform" (random rows), "pivoted" (randomly pivoted Cholesky), "kmeans", or an
        instance such as ``KMeans(n_iterations=10)``. A function or a precomputed kernel needs rows of the data as
        landmarks; "kmeans" then means "pivoted".
    n_components : int, default=None
        Number of columns; None means one per landmark. With fewer columns than landmarks, the features are the best
        approximation of that rank on sampled rows. Two to four landmarks per column lower the error for a given number
        of columns; `transform` is slower.
    tolerance : float, default=0.02
        Upper bound on the kernel error, for ``n_landmarks="auto"`` and `suggest`.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples of rows and of the landmarks.

    Attributes
    ----------
    length_scale_ : float or ndarray of shape (n_features,)
        The length scale in use, as in `FourierFeatures`; None for a function or a precomputed kernel.
    metric_ : {ndarray, CSR array} of shape (n_dimensions, n_features)
        The map of the columns, as in `FourierFeatures`. Only exists with a metric.
    landmarks_ : ndarray of shape (n_landmarks, n_features)
        The landmarks, in the units of the data; indices of training rows for a precomputed kernel.
    whitening_ : ndarray of shape (n_landmarks, n_features_out)
        The matrix W.
    kernel_ : Kernel or callable
        The kernel, at unit length scale.
    feature_map_ : FeatureMap
        The prepared map, through which linear models write features block by block.
    relevance_ : ndarray of shape (n_features,)
        The share of each column in distances: one over its length scale, normalized to sum to 1.
    learning_gain_ : float
        Relative reduction of the squared error of ridge regression on held-out rows by learning the length scales or
        the metric. Only exists if `length_scale` is "learn", "learn-matrix" or a part of `bochner.scaling`.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns seen during `fit`, if they were all strings.

    See Also
    --------
    FourierFeatures : Cosines and sines of random frequencies, which contain no rows of the data.
    sklearn.kernel_approximation.Nystroem : Landmarks at random rows, plain whitening.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from bochner import LandmarkFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(LandmarkFeatures(random_state=0), RidgeClassifier(alpha=0.01))
    >>> round(model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]), 2)
    0.97

    Any function of two sets of rows can be the kernel:

    >>> from sklearn.metrics.pairwise import chi2_kernel
    >>> features = LandmarkFeatures(chi2_kernel, n_landmarks=50, random_state=0)
    >>> features.fit_transform(X[:200]).shape
    (200, 50)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelFeatures._parameter_constraints,
        "kernel": [StrOptions([*KERNELS, "precomputed"], aliases=KERNEL_ALIASES), callable],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), StrOptions(["auto"])],
        "landmarks": [StrOptions(LANDMARKS), HasMethods(["select"])],
    }
    _default_parts: ClassVar[Mapping[str, Mapping[Any, type]]] = {
        **KernelFeatures._default_parts,
        "landmarks": LANDMARKS,
    }
    _explanations: ClassVar[Mapping[str, str]] = FEATURE_EXPLANATIONS

    def __init__(
        self,
        kernel: str | Kernel | Callable[[Any, Any], Array] = "gaussian",
        *,
        length_scale: float | ArrayLike | str | LearnedLengthScales | LearnedMetric | Metric = "median",
        n_landmarks: int | str = 256,
        landmarks: str | LandmarkSelection = "kmeans",
        n_components: int | None = None,
        tolerance: float = 0.02,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.kernel = kernel
        self.length_scale = length_scale
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.n_components = n_components
        self.tolerance = tolerance
        self.random_state = random_state

    def suggest(
        self, X: Any, tolerance: float | None = None, *, y: Any = None, confidence: float = 0.95
    ) -> LandmarkSuggestion:
        """Suggest how many landmarks these settings need for a kernel error below a tolerance.

        Candidate sizes are fitted and validated on up to 4,000 rows. With `n_components`, the ratio of landmarks to
        columns is kept; with ``n_landmarks="auto"`` it is three.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Training rows.
        tolerance : float, default=None
            Largest accepted relative Frobenius error of the kernel matrix of 2,000 held-out rows, or of all rows if
            there are fewer. None means the `tolerance` of the estimator.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Targets to learn length scales from, as in `fit`.
        confidence : float, default=0.95
            Probability that the error with another `random_state` is below the tolerance.

        Returns
        -------
        LandmarkSuggestion
            ``(n_landmarks, n_components, error)``, where `error` is the expected error. `n_components` is None if there
            is one column per landmark.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import LandmarkFeatures
        >>> X = np.random.default_rng(0).normal(size=(1000, 3))
        >>> n_landmarks, n_components, error = LandmarkFeatures(random_state=0).suggest(X, tolerance=0.05)
        >>> features = LandmarkFeatures(n_landmarks=n_landmarks, random_state=1).fit(X)
        >>> bool(features.kernel_error(X, random_state=0).error < 0.05)
        True
        """
        suggestion: LandmarkSuggestion = self._suggest(X, tolerance, y, confidence)
        return suggestion

    def _fit_parts(self, training: TrainingRows, length_scale: Units | None, streams: Streams) -> None:
        """Select the landmarks and fit the whitening."""
        n_landmarks, n_components = self._resolve_size(training, length_scale, streams.sizing)
        rows = training.scaled(length_scale)
        kernel = self._make_kernel(rows.shape[1])
        function = kernel_function(kernel)
        landmarks = _select(self._make_selection(), function, n_landmarks, rows, streams.drawing)
        if length_scale is None:
            self.landmarks_, dtype = landmarks, np.dtype(np.float64)
        else:
            dtype = training.rows.dtype
            self.landmarks_ = _in_data_units(landmarks, length_scale).astype(dtype)
            landmarks = ScaledRows(self.landmarks_, length_scale)[:]  # as they are stored
        n_points = int(np.clip(POINTS_PER_LANDMARK * landmarks.shape[0], FEWEST_POINTS, MOST_POINTS))
        points, counts = shuffled_sample(rows, n_points, streams.weighting)
        n_columns = min(n_components or landmarks.shape[0], landmarks.shape[0])
        self.whitening_ = _fit_whitening(function, landmarks, points, counts, n_columns, dtype)
        # New rows of a precomputed kernel are kernel values at all training rows.
        self._is_precomputed = self.kernel == "precomputed"
        self.kernel_ = FunctionKernel(_select_columns) if self._is_precomputed else kernel
        self._set_units(length_scale)

    def _make_kernel(self, n_features: int) -> Any:
        """Return the kernel as a function of two sets of rows."""
        if self._has_length_scale():
            return make_kernel(self.kernel, n_features)
        return self.kernel_ if self.kernel == "precomputed" else FunctionKernel(self.kernel)

    def _make_selection(self) -> LandmarkSelection:
        selection: LandmarkSelection = make_part(self.landmarks, LANDMARKS)
        if not selection.needs_numbers or self._has_length_scale():
            return selection
        if self.landmarks == "kmeans":  # the default
            return LANDMARKS["pivoted"]()
        raise ValueError(
            f"`landmarks`={self.landmarks!r} computes landmarks that are not rows of the data, as a function or a "
            f"precomputed matrix as `kernel` requires; use 'uniform' or 'pivoted'."
        )

    def check_parts(self) -> None:
        super().check_parts()
        if self._has_length_scale():
            make_part(self.kernel, NAMED_KERNELS)
        self._make_selection()

    def _prepare_map(self) -> None:
        inner = kernel_columns(self.kernel_, self.landmarks_, self._units, self.whitening_.dtype)
        self.feature_map_ = ProductMap(inner, self.whitening_)
        self._n_features_out = self.feature_map_.width

    def _float64_map(self) -> FeatureMap:
        landmarks, units = self.landmarks_, self._units
        if units is not None:
            landmarks = landmarks.astype(np.float64)
            if not isinstance(units, Metric):
                landmarks, units = landmarks / units, 1.0
        return ProductMap(kernel_columns(self.kernel_, landmarks, units), self.whitening_.astype(np.float64))

    def _resolve_size(
        self, training: TrainingRows, length_scale: Units | None, rng: np.random.Generator
    ) -> tuple[int, int | None]:
        """Return the numbers of landmarks and of columns, the latter None for one column per landmark."""
        n_landmarks, n_components = self.n_landmarks, self.n_components
        if isinstance(n_landmarks, str):
            if n_components is not None:
                return POOL * n_components, n_components
            try:
                n_landmarks = self._suggest_size(training, length_scale, self.tolerance, 0.95, rng).n_landmarks
            except OutOfReachError:
                if training.rows.shape[0] >= LARGEST_SIZE:
                    raise
                n_landmarks = training.rows.shape[0]  # no more landmarks are possible
        if n_components is not None and n_components > n_landmarks:
            raise ValueError(
                f"`n_components`={n_components} is more than n_landmarks={n_landmarks}; give fewer components, or "
                f"leave them out and set n_landmarks={n_components}, which gives as many columns."
            )
        return n_landmarks, n_components

    def _suggest_size(
        self,
        training: TrainingRows,
        length_scale: Units | None,
        tolerance: float,
        confidence: float,
        rng: np.random.Generator,
    ) -> LandmarkSuggestion:
        if self.kernel == "precomputed":
            raise ValueError("The number of landmarks of a precomputed kernel cannot be found; give `n_landmarks`.")
        trials = SizeTrials(training.rows, training.weights, int(rng.integers(2**31)))
        ratio = self._pool()

        def plain(size: int) -> Any:
            return self._resized(length_scale, n_landmarks=size, n_components=None)

        def pooled(size: int) -> Any:
            return self._resized(length_scale, n_landmarks=round(ratio * size), n_components=size)

        if self.n_components is None:
            largest = min(LARGEST_SIZE, trials.n_fit)
            size, error = trials.smallest(plain, tolerance, largest, confidence, "landmarks")
            return LandmarkSuggestion(size, None, error)
        largest = min(LARGEST_SIZE, int(trials.n_fit / ratio))
        size, error = trials.smallest(pooled, tolerance, max(1, largest), confidence, "columns of landmarks")
        return LandmarkSuggestion(round(ratio * size), size, error)

    def _resized(self, length_scale: Units | None, **size: Any) -> Any:
        """Return unfitted features of another size, at a length scale that was found already."""
        features = clone(self).set_params(**size)
        return features if length_scale is None else features.set_params(length_scale=length_scale)

    def _fitted_size(self) -> dict[str, Any]:
        return {"n_landmarks": self.landmarks_.shape[0], "n_components": self.n_components}

    def size_parameters(self, n_columns: int) -> dict[str, Any]:
        if self.n_components is None:
            return {"n_landmarks": n_columns}
        return {"n_landmarks": round(self._pool() * n_columns), "n_components": n_columns}

    def _pool(self) -> float:
        """Return the number of landmarks per column."""
        return POOL if isinstance(self.n_landmarks, str) else self.n_landmarks / (self.n_components or self.n_landmarks)

    @property
    def _is_automatic(self) -> bool:
        return self.n_landmarks == "auto"

    def _learning_frequencies(self, kernel: Kernel) -> tuple[Sampler, int]:
        return make_sampler("auto", kernel), TO_LEARN_WITH

    def _has_length_scale(self) -> bool:
        """Return whether the kernel is one of a length scale, and not a function or a matrix."""
        return self.kernel in NAMED_KERNELS if isinstance(self.kernel, str) else hasattr(self.kernel, "uniform_dim")

    def _learns(self) -> bool:
        return self._has_length_scale() and super()._learns()

    def _row_options(self) -> dict[str, Any]:
        if self._has_length_scale():
            return super()._row_options()
        if self.kernel == "precomputed":
            return {"dtype": np.float64}
        return {"accept_sparse": "csr", "dtype": None, "ensure_2d": False}  # rows of any kind

    def _new_row_options(self) -> dict[str, Any]:
        if self.length_scale_ is not None:
            return super()._new_row_options()
        if self._is_precomputed:
            return {"dtype": np.float64}
        return {"accept_sparse": "csr", "dtype": None, "ensure_2d": hasattr(self, "n_features_in_")}

    def _training_rows(self, source: RowSource, streams: Streams) -> TrainingRows:
        if self._has_length_scale():
            return super()._training_rows(source, streams)
        if source.location != "memory":
            raise ValueError("A function or a precomputed kernel needs rows in memory; call `X.compute()` first.")
        self.__dict__.pop("n_features_in_", None)  # of an earlier fit
        source = source.with_targets(None).validate(self, **self._row_options())
        if source.data.ndim == 2:  # scikit-learn counts columns only where rows must have some
            self.n_features_in_ = source.data.shape[1]
        rows, (_, weights) = source.data, source.collect_columns()
        if self.kernel == "precomputed":
            if rows.shape[0] != rows.shape[1]:
                raise ValueError(f"A precomputed kernel must be a square matrix. Got shape {rows.shape} instead.")
            self.kernel_ = PrecomputedKernel(rows)
            rows = np.arange(rows.shape[0])
        if weights is not None:
            if not weights.any():
                raise ValueError("No row has a positive `sample_weight`; give some rows a weight.")
            rows, weights = rows[weights > 0.0], weights[weights > 0.0]
        is_numeric = rows.ndim == 2 and rows.dtype.kind in "biuf"
        if is_numeric and rows.shape[0] <= FEW_ROWS:
            rows, weights = distinct_rows(rows, weights)  # as rows of kernels with a length scale
        # Of many numeric rows, equal ones are merged in samples; other rows cannot be compared.
        return TrainingRows(rows, weights, not is_numeric or rows.shape[0] <= FEW_ROWS, None, source)

    def _resolve_length_scale(self, training: TrainingRows, streams: Streams, warn: bool = True) -> Any:
        return super()._resolve_length_scale(training, streams, warn) if self._has_length_scale() else None

    def exact_kernel(self, X: Any, Y: Any = None) -> Array:
        check_is_fitted(self)
        if self._is_precomputed:
            raise ValueError(
                "The values of a precomputed kernel between new rows are not known; compute them yourself."
            )
        return super().exact_kernel(X, Y)

    def _approximation(self, X: Any) -> Approximation:
        if not self._is_precomputed:
            return super()._approximation(X)
        matrix = self._validate(X)
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                f"The error of a precomputed kernel needs the kernel matrix of the training rows, of shape "
                f"{(self.n_features_in_,) * 2}. Got {matrix.shape} instead."
            )
        feature_map = self.feature_map_
        return Approximation(
            rows=ScaledRows(np.arange(matrix.shape[0]), None),
            points=lambda rows: rows,
            matrix=PrecomputedKernel(matrix),
            diagonal=lambda rows: matrix[rows, rows],
            features=lambda rows: feature_map.features(matrix[rows]),
            width=feature_map.width,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        if not self._has_length_scale():
            tags.transformer_tags.preserves_dtype = ["float64"]
        return tags


def _select(
    selection: LandmarkSelection, kernel: Callable[[Any, Any], Floats], n_landmarks: int, rows: ScaledRows, rng: Any
) -> Any:
    """Select landmarks, and refuse none, too many, or ones that are not like the rows."""
    landmarks = selection.select(kernel, n_landmarks, rows, rng)
    if rows.scale is None:  # rows of any kind, of which the shape alone can be checked
        values, row_shape = np.broadcast_to(0.0, np.shape(landmarks)), rows.source.shape[1:]
    else:
        values, row_shape = landmarks.toarray() if is_sparse(landmarks) else landmarks, rows.shape[1:]
    n_selected = int(np.clip([*np.shape(values), 0][0], 1, n_landmarks))
    name, remedy = f"`landmarks` {type(selection).__name__}.select", f"1 to {n_landmarks} rows of finite numbers"
    checked = check_returned(name, values, (n_selected, *row_shape), remedy)
    return landmarks if rows.scale is None else checked


def _in_data_units(landmarks: Floats, length_scale: Units) -> Floats:
    """Return landmarks that were selected among scaled rows in the units of the data."""
    return length_scale.rows_at(landmarks) if isinstance(length_scale, Metric) else landmarks * length_scale


def _select_columns(X: Any, columns: Any) -> Any:
    return X[:, columns]


def _fit_whitening(
    kernel: Callable[[Any, Any], Floats], landmarks: Any, points: Any, counts: Floats, n_columns: int, dtype: Any
) -> Array:
    """Return the matrix W (n_landmarks, n_columns) with the smallest kernel error on some rows.

    Directions in which the landmarks are dependent to rounding are dropped; columns beyond the rank are zero.
    """
    exact, columns, inner = kernel(points, points), kernel(points, landmarks), kernel(landmarks, landmarks)
    plain = serial_blas(inverse_root)(inner, max(1e-10, float(np.finfo(dtype).eps)))
    features = serial_blas(np.matmul)(columns, plain)
    rank = plain.shape[1]
    if not rank:
        raise ValueError(
            "The kernel is zero or negative for every landmark with itself; give rows and a kernel with positive "
            "values k(x, x)."
        )
    best = best_matrix(features, exact, counts, min(n_columns, rank), np.array(MATRIX_GRID))
    fitted = serial_blas(np.matmul)(plain, best)
    return np.pad(fitted, ((0, 0), (0, n_columns - fitted.shape[1]))).astype(dtype)
