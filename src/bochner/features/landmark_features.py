# SPDX-License-Identifier: BSD-3-Clause
"""`LandmarkFeatures`, the scikit-learn transformer: select landmarks, fit the whitening, map rows."""

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from bochner.compression import RANK_TOLERANCE, best_matrix, inverse_root
from bochner.feature_maps import FeatureMap, ProductMap, kernel_columns
from bochner.feature_maps.kernel_columns import kernel_function
from bochner.features.kernel_features import KernelFeatures, Parts, Streams
from bochner.features.refinement import refine_landmarks
from bochner.inspection.sizes import LandmarkSuggestion, OutOfReachError, SizeTrials
from bochner.kernels import KERNEL_ALIASES, KERNELS, IsotropicKernel, Kernel, PrecomputedKernel, make_kernel
from bochner.landmarks import LANDMARKS, LandmarkSelection
from bochner.rows import Array, Floats, MemoryRows, Metric, RowSource, TrainingRows, shuffled_sample, to_dense
from bochner.scaling.learned import LearnedLengthScales, LearnedMetric
from bochner.validation import COUNT, Interval, StrOptions, check_returned, make_part
from bochner.weightings import MATRIX_GRID

__all__ = ["LandmarkFeatures"]

POINTS_PER_LANDMARK = 16  # rows that the whitening is fitted on
FEWEST_POINTS, MOST_POINTS = 1000, 2000
# Of refined landmarks, smaller penalties fit directions that hardly any sampled row has, in which an outlier then gets
# a huge feature.
SMALLEST_REFINED_ALPHA = 1e-4
REFINING_POINTS, CHECKING_POINTS = 10_000, 1000  # rows that the steps use, and of these, rows that check the result
REQUIRED_SQUARES = 0.99  # largest ratio of the squared error of refined landmarks to that of selected ones
SMALLEST_ERROR = 1e-5  # root mean square error below which landmarks are good enough
# Of refine="auto": few landmarks are refined in as short a time as they are selected in, and 256 in half a second.
STEPS_PER_LANDMARK, MOST_LANDMARK_STEPS, MANY_LANDMARKS = 4, 200 * 256, 256
LARGEST_SIZE = 4096  # landmarks that `suggest` tries at most


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
        Number of columns; None means one per landmark. With fewer columns than landmarks, they are the best
        approximation of that rank on sampled rows: lower errors per column, and a slower `transform`.
    refine : int or "auto", default="auto"
        Number of gradient steps that move the landmarks to lower the kernel error. Only kernels that are a function of
        the Euclidean distance have any. Where they do not lower the error on sampled rows by half a percent, nothing is
        changed. "auto" means four per landmark, but only 400 for 128 landmarks and 200 for 256, and 0 for more.
    tolerance : float, default=0.02
        Upper bound on the kernel error, for ``n_landmarks="auto"`` and `suggest`.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples of rows and of the landmarks.

    Attributes
    ----------
    length_scale_ : float or ndarray of shape (n_features,)
        The length scale in use, as in `FourierFeatures`; None for a function or a precomputed kernel.
    metric_ : ndarray of shape (n_dimensions, n_features)
        The map of the columns, as in `FourierFeatures`. Only exists with a metric.
    landmarks_ : ndarray of shape (n_landmarks, n_features)
        The landmarks, in the units of the data; indices of training rows for a precomputed kernel.
    whitening_ : ndarray of shape (n_landmarks, n_columns)
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
        "n_landmarks": [COUNT, StrOptions(["auto"])],
        "n_components": [COUNT, None],
        "refine": [Interval(Integral, 0, None, closed="left"), StrOptions(["auto"])],
        "landmarks": [StrOptions(LANDMARKS), LandmarkSelection],
    }
    _default_parts: ClassVar[Parts] = {**KernelFeatures._default_parts, "landmarks": LANDMARKS}

    def __init__(
        self,
        kernel: str | Kernel | Callable[[Any, Any], Array] = "gaussian",
        *,
        length_scale: float | ArrayLike | str | LearnedLengthScales | LearnedMetric | Metric = "median",
        n_landmarks: int | str = 256,
        landmarks: str | LandmarkSelection = "kmeans",
        n_components: int | None = None,
        refine: int | str = "auto",
        tolerance: float = 0.02,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.kernel = kernel
        self.length_scale = length_scale
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.n_components = n_components
        self.refine = refine
        self.tolerance = tolerance
        self.random_state = random_state

    def _fit_arrays(self, training: TrainingRows, labeled: TrainingRows, streams: Streams) -> None:
        """Select the landmarks and fit the whitening."""
        del labeled
        n_landmarks = self._resolve_size(training, streams["sizing"])["n_landmarks"]
        # `_validate_training` has put the matrix of a precomputed kernel into `kernel_`, where it does not stay.
        kernel = self.kernel_ if self.kernel == "precomputed" else make_kernel(self.kernel, training.shape[1])
        function, selection = kernel_function(kernel), self._make_selection()
        selected = selection.select(function, n_landmarks, training, streams["drawing"])
        if self._has_length_scale():  # else they are rows of any kind, about which the kernel itself complains
            selected = to_dense(selected)
            shape = int(np.clip(len(selected), 1, n_landmarks)), training.shape[1]
            name = f"`landmarks` {type(selection).__name__}.select"
            selected = check_returned(name, selected, shape, f"1 to {n_landmarks} rows of finite numbers")
        n_points = int(np.clip(POINTS_PER_LANDMARK * selected.shape[0], FEWEST_POINTS, MOST_POINTS))
        sample = shuffled_sample(training, n_points, streams["weighting"])
        dtype = training.X.dtype if self._has_length_scale() else np.dtype(np.float64)

        def whiten(landmarks: Any, alphas: list[float]) -> tuple[Any, Array]:
            """Return landmarks in the units of the data, and their whitening."""
            stored = training.scaling.invert(landmarks, training.X.dtype)
            n_columns = min(self.n_components or n_landmarks, selected.shape[0])
            return stored, _fit_whitening(function, training.scaling.apply(stored), *sample, alphas, n_columns, dtype)

        self.landmarks_, self.whitening_ = whiten(selected, list(MATRIX_GRID))
        self.kernel_ = PrecomputedKernel() if isinstance(kernel, PrecomputedKernel) else kernel
        n_steps = self._count_steps(kernel, selected.shape[0])
        if not n_steps:
            return
        # The checks are among the points: the selection has seen these rows too, so that neither has an advantage.
        points, point_weights = shuffled_sample(training, REFINING_POINTS, streams["refining"])
        checks, weights = points[:CHECKING_POINTS], point_weights[:CHECKING_POINTS]
        exact = function(checks, checks)

        def error(landmarks: Any, whitening: Array) -> float:
            features = function(checks, training.scaling.apply(landmarks)) @ whitening
            return float(weights @ np.square(exact - features @ features.T) @ weights)

        allowed = REQUIRED_SQUARES * error(self.landmarks_, self.whitening_)
        if allowed > np.square(SMALLEST_ERROR * weights.sum()):
            moved = refine_landmarks(selected, kernel, points, point_weights, n_steps)
            refined = whiten(moved, [alpha for alpha in MATRIX_GRID if alpha >= SMALLEST_REFINED_ALPHA])
            if moved is not selected and error(*refined) < allowed:
                self.landmarks_, self.whitening_ = refined

    def _count_steps(self, kernel: Any, n_landmarks: int) -> int:
        """Return the number of gradient steps; those of other than isotropic kernels would be slow."""
        if not isinstance(kernel, IsotropicKernel):
            return 0
        if not isinstance(self.refine, str):
            return self.refine
        n_steps = min(STEPS_PER_LANDMARK * n_landmarks, MOST_LANDMARK_STEPS // n_landmarks)
        return n_steps if n_landmarks <= MANY_LANDMARKS else 0

    def _make_map(self, dtype: Any = None) -> FeatureMap:
        whitening = self.whitening_ if dtype is None else self.whitening_.astype(dtype)
        return ProductMap(kernel_columns(self.kernel_, self.landmarks_, self._scaling, whitening.dtype), whitening)

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

    def _validate_params(self) -> None:
        super()._validate_params()
        self._make_selection()

    def _validate_training(self, source: RowSource) -> RowSource:
        if self._has_length_scale():
            return super()._validate_training(source)
        if source.location != "memory":
            raise ValueError("A function or a precomputed kernel needs rows in memory; call `X.compute()` first.")
        self.__dict__.pop("n_features_in_", None)  # of an earlier fit
        if self.kernel != "precomputed":
            source = source.validate(self, accept_sparse="csr", dtype=None, ensure_2d=False)  # rows of any kind
            if source.data.ndim == 2:  # scikit-learn counts columns only where rows must have some
                self.n_features_in_ = source.data.shape[1]
            return source
        source = source.validate(self, dtype=np.float64)
        if source.shape[0] != source.shape[1]:
            raise ValueError(f"A precomputed kernel must be a square matrix. Got shape {source.shape} instead.")
        self.kernel_ = PrecomputedKernel(source.data)
        weights = source.select(slice(None)).sample_weight
        return MemoryRows(np.arange(source.shape[0]), weights=weights)  # its rows are their indices

    def _resolve_size(self, training: TrainingRows, rng: np.random.Generator) -> dict[str, Any]:
        n_landmarks = self.n_landmarks
        if isinstance(n_landmarks, str):
            try:
                n_landmarks = self._suggest_size(training, self.tolerance, 0.95, int(rng.integers(2**31))).n_landmarks
            except OutOfReachError:
                if training.shape[0] >= LARGEST_SIZE:
                    raise
                n_landmarks = training.shape[0]  # no more landmarks are possible
        if (self.n_components or 0) > n_landmarks:
            raise ValueError(
                f"`n_components`={self.n_components} is more than n_landmarks={n_landmarks}; give fewer components, or "
                f"more landmarks."
            )
        return {"n_landmarks": n_landmarks}

    def _suggest_size(self, rows: TrainingRows, tolerance: float, confidence: float, seed: int) -> LandmarkSuggestion:
        if self.kernel == "precomputed":
            raise ValueError("The number of landmarks of a precomputed kernel cannot be found; give `n_landmarks`.")
        trials = SizeTrials(rows.X, rows.weights, seed)

        def resized(size: int) -> Any:
            return clone(self).set_params(length_scale=rows.scaling.value, n_landmarks=size, n_components=None)

        largest = min(LARGEST_SIZE, trials.n_fit)
        return LandmarkSuggestion(*trials.smallest(resized, tolerance, largest, confidence, "landmarks"))

    def size_parameters(self, n_columns: int) -> dict[str, Any]:
        """Return the parameters that give these features a number of columns.

        Parameters
        ----------
        n_columns : int
            Number of columns.

        Returns
        -------
        dict of str to int
            Parameters for `set_params`.
        """
        if self.n_components is None:
            return {"n_landmarks": n_columns}
        pool = 1 if isinstance(self.n_landmarks, str) else self.n_landmarks / self.n_components
        return {"n_landmarks": round(pool * n_columns), "n_components": n_columns}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        if not self._has_length_scale():
            tags.transformer_tags.preserves_dtype = ["float64"]
        return tags


def _fit_whitening(
    kernel: Callable[[Any, Any], Floats],
    landmarks: Any,
    points: Any,
    point_weights: Floats,
    alphas: list[float],
    n_columns: int,
    dtype: Any,
) -> Array:
    """Return the matrix W (n_landmarks, n_columns) with the smallest kernel error on some rows.

    Directions in which the landmarks are dependent to rounding are dropped; columns beyond the rank are zero.
    """
    exact, columns, inner = kernel(points, points), kernel(points, landmarks), kernel(landmarks, landmarks)
    plain = inverse_root(inner, max(RANK_TOLERANCE, float(np.finfo(dtype).eps)))[1][:, ::-1]
    rank = plain.shape[1]
    if not rank:
        raise ValueError("The kernel is zero or negative for every landmark with itself; use one with k(x, x) > 0.")
    rank = min(rank, n_columns)
    fitted = plain @ best_matrix(columns @ plain, exact, point_weights, rank, np.array(alphas))
    return np.pad(fitted, ((0, 0), (0, n_columns - rank))).astype(dtype)
