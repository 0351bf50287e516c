# SPDX-License-Identifier: BSD-3-Clause
"""`FourierFeatures`, the scikit-learn transformer: sample frequencies, weight them, map rows."""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from bochner.feature_maps import FeatureMap, FourierMap, ProductMap
from bochner.features.kernel_features import KernelFeatures, Parts, Streams
from bochner.features.refinement import refine
from bochner.inspection.sizes import OutOfReachError, SizeTrials, Suggestion
from bochner.kernels import KERNEL_ALIASES, KERNELS, NAMED_KERNELS, Kernel, make_kernel
from bochner.memory import check_memory
from bochner.rows import Metric, TrainingRows
from bochner.samplers import SAMPLERS, Sampler, make_sampler
from bochner.scaling.learned import LearnedLengthScales, LearnedMetric
from bochner.validation import COUNT, Interval, StrOptions, check_returned, make_part
from bochner.weightings import COMPRESSION_ROWS, WEIGHTINGS, Weighting

__all__ = ["FourierFeatures"]

POOL = 12  # frequencies per column of a suggested matrix
LARGEST_SIZE = 16384  # frequencies that `suggest` tries at most


class FourierFeatures(KernelFeatures):
    r"""Random Fourier features with weights fitted to the data.

    Maps rows x to ``2 * n_frequencies`` columns z(x) such that :math:`z(x) \cdot z(y) = \sum_m \beta_m \cos(w_m
    \cdot (x - y))` approximates a shift-invariant kernel :math:`k((x - y) / \ell)`. A linear model on the columns is
    then a kernel model on the rows.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        The kernel's shape: "gaussian" (also "rbf"), "laplacian", "cauchy", "exponential", "matern",
        "rational_quadratic", or an instance such as ``Matern(nu=2.5)``.
    length_scale : float, array-like of shape (n_features,), str or a part of `bochner.scaling`, default="median"
        Length scale of the kernel: a number; one number per column; "median", the median distance of sampled pairs of
        rows; "scale", ``sqrt(n_features * X.var() / 2)``, which is scikit-learn's ``gamma="scale"``; "learn", one
        length scale per column learned from y, with the default parameters of `LearnedLengthScales`; "learn-matrix", a
        linear map of all columns learned from y, with the default parameters of `LearnedMetric`; or a
        `bochner.rows.Metric`, a given map.
    n_frequencies : int or "auto", default=256
        Number of frequencies; each gives two columns, unless `n_components` is set. "auto" uses as many as `suggest`
        finds necessary for `tolerance`, before a compression to the given `n_components`.
    sampler : str or Sampler, default="auto"
        How frequencies are drawn: "mc", "halton", "sobol", "lattice", "orthogonal", "sorf", or an instance such as
        ``Sobol()``. "auto" means "orthogonal" for isotropic kernels and "halton" for all others, such as
        "laplacian" and "cauchy".
    weighting : str or Weighting, default="stein"
        How frequencies are weighted: "uniform", "shrinkage", "quadrature", "stein", "matrix", or an instance
        such as ``Stein(sketch="pairs")``. "matrix" replaces weights by the best matrix on a pool of
        frequencies, compressed to `n_components` columns. It has the lowest error for a given number of columns, but a
        slower `transform`.
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
        The length scale in use. With a metric, the length scales of the columns: the change of one column alone that
        moves a row by a distance of 1.
    metric_ : ndarray of shape (n_dimensions, n_features)
        The map A of the columns: the kernel has the distances ``|A (x - y)|``. Only exists with a metric.
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
        Relative reduction of the squared error of ridge regression on held-out rows by learning the length scales or
        the metric; 0 if the initial length scales were kept. Only exists if `length_scale` is "learn", "learn-matrix"
        or a part of `bochner.scaling`.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns seen during `fit`, if they were all strings.

    See Also
    --------
    sklearn.kernel_approximation.RBFSampler : Independent frequencies, random phases, no weights.
    LandmarkFeatures : Kernel values at points of the data; the lower error on smooth kernels.

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
        **KernelFeatures._parameter_constraints,
        "kernel": [StrOptions(KERNELS, aliases=KERNEL_ALIASES), Kernel],
        "n_frequencies": [COUNT, StrOptions(["auto"])],
        "sampler": [StrOptions(["auto", *SAMPLERS]), Sampler],
        "weighting": [StrOptions(WEIGHTINGS), Weighting],
        "n_components": [COUNT, None],
        "refine": [Interval(Integral, 0, None, closed="left", note="60 gives most of the gain, 0 switches it off")],
    }
    _default_parts: ClassVar[Parts] = {**KernelFeatures._default_parts, "sampler": SAMPLERS, "weighting": WEIGHTINGS}

    def __init__(
        self,
        kernel: str | Kernel = "gaussian",
        *,
        length_scale: float | ArrayLike | str | LearnedLengthScales | LearnedMetric | Metric = "median",
        n_frequencies: int | str = 256,
        sampler: str | Sampler = "auto",
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

    def _fit_arrays(self, training: TrainingRows, labeled: TrainingRows, streams: Streams) -> None:
        """Draw the frequencies, weight them, and refine or compress them where that is asked for."""
        n_frequencies, n_components = self._resolve_size(training, streams["sizing"]).values()
        kernel = make_kernel(self.kernel, training.shape[1])
        sampler = make_sampler(self.sampler, kernel)
        weighting: Weighting = make_part(self.weighting, WEIGHTINGS)
        if n_components is None and weighting.always_compresses:
            n_components = 2 * n_frequencies
        if self.refine:
            self._refuse_target_weights(f"`refine`={self.refine}")
        self._check_memory(n_frequencies, n_components, training.X.shape)

        drawn = sampler.sample(kernel, n_frequencies, training, streams["drawing"])
        name = f"`sampler` {type(sampler).__name__}.sample with `kernel` {type(kernel).__name__}"
        remedy = "one frequency of finite numbers per row"
        frequencies = check_returned(name, drawn, (n_frequencies, training.shape[1]), remedy)
        drawn = drawn if hasattr(drawn, "is_fast") else frequencies  # structured frequencies keep their structure
        rows = labeled if weighting.needs_targets else training
        weights = weighting.weigh(frequencies, kernel, rows, streams["weighting"])
        name, remedy = f"`weighting` {type(weighting).__name__}", "one non-negative, finite number per frequency"
        weights = check_returned(f"{name}.weigh", weights, (n_frequencies,), remedy, negative=False)
        if self.refine:
            moved, weights = refine(frequencies, weights, kernel, training, self.refine, streams["refining"])
            if moved is not frequencies:  # unmoved frequencies keep their structure, which maps faster
                drawn = frequencies = moved
        matrix = None
        if n_components is not None:
            matrix = weighting.compress(frequencies, weights, kernel, training, n_components, streams["weighting"])
            matrix = check_returned(f"{name}.compress", matrix, (2 * n_frequencies, n_components), "finite numbers")

        self.kernel_ = kernel
        dtype, scaling = training.X.dtype, training.scaling
        with np.errstate(over="ignore", divide="ignore"):
            self._frequencies = scaling.fold(drawn).astype(dtype)
            self.frequencies_ = np.asarray(self._frequencies)
        if not np.isfinite(self.frequencies_).all():
            raise ValueError(
                f"The length scale {np.min(scaling.length_scales):.3g} is so short that frequencies overflow {dtype}; "
                f"rescale the columns of X, or give a larger `length_scale`."
            )
        self.weights_ = weights.astype(dtype)
        self.matrix_ = None if matrix is None else matrix.astype(dtype)

    def _make_map(self, dtype: Any = None) -> FeatureMap:
        dtype = self.weights_.dtype if dtype is None else dtype
        plain = FourierMap(self._frequencies.astype(dtype), self.weights_.astype(dtype), self._scaling)
        return plain if self.matrix_ is None else ProductMap(plain, self.matrix_.astype(dtype))

    def _check_memory(self, n_frequencies: int, n_components: int | None, shape: tuple[int, ...]) -> None:
        """Refuse frequencies that the memory of the machine is too small for."""
        n_matrices = self._weighting_traits.n_square_matrices
        n_compressed = 0 if n_components is None else n_components + min(shape[0], COMPRESSION_ROWS)
        n_columns = n_matrices * n_frequencies + 3 * shape[1] + 2 * n_compressed
        subject = f"FourierFeatures with {n_frequencies:,} frequencies and `weighting`={self.weighting!r}"
        remedy = "use fewer frequencies" + (", or weighting='uniform'" if n_matrices else "")
        check_memory(8 * n_frequencies * n_columns, subject, "frequencies and their weights", remedy)

    def _resolve_size(self, training: TrainingRows, rng: np.random.Generator) -> dict[str, Any]:
        n_frequencies, n_components = self.n_frequencies, self.n_components
        if isinstance(n_frequencies, str):
            if n_components is not None and self._weighting_traits.always_compresses:
                return {"n_frequencies": POOL * n_components, "n_components": n_components}
            suggestion = self._suggest_size(training, self.tolerance, 0.95, int(rng.integers(2**31)))
            n_components = n_components or suggestion.n_components
            n_frequencies = max(suggestion.n_frequencies, -(-(n_components or 0) // 2))
        if n_components is not None and n_components > 2 * n_frequencies:
            raise ValueError(
                f"`n_components`={n_components} is more than the {2 * n_frequencies} columns of "
                f"n_frequencies={n_frequencies}; give fewer components, or leave them out and set "
                f"n_frequencies={-(-n_components // 2)}, which gives {2 * -(-n_components // 2)} columns."
            )
        return {"n_frequencies": n_frequencies, "n_components": n_components}

    def _validate_params(self) -> None:
        super()._validate_params()
        kernel: Kernel = make_part(self.kernel, NAMED_KERNELS)
        make_sampler(self.sampler, kernel).check_kernel(kernel)

    @property
    def _weighting_traits(self) -> Any:
        """The weighting, a class or an instance, for its class attributes alone; it is not validated yet."""
        return WEIGHTINGS.get(self.weighting, Weighting) if isinstance(self.weighting, str) else self.weighting

    def _needs_targets(self) -> bool:
        return super()._needs_targets() or getattr(self._weighting_traits, "needs_targets", False)

    def _refuse_target_weights(self, option: str) -> None:
        if self._weighting_traits.needs_targets:
            raise ValueError(
                f"{option} needs weights that approximate the kernel, and `weighting`={self.weighting!r} fits them to "
                f"y; use refine=0 and a number of frequencies, or another weighting, such as 'stein'."
            )

    def _suggest_size(self, rows: TrainingRows, tolerance: float, confidence: float, seed: int) -> Suggestion:
        self._refuse_target_weights("The search for a number of frequencies")
        trials = SizeTrials(rows.X, rows.weights, seed)
        features = clone(self).set_params(length_scale=rows.scaling.value)

        def pooled(size: int) -> Any:
            return clone(features).set_params(n_frequencies=POOL * size, n_components=size)

        def plain(size: int) -> Any:
            return clone(features).set_params(n_frequencies=size, n_components=None)

        compresses = self._weighting_traits.always_compresses
        if compresses:
            # A few rows determine a matrix of a few columns only; if those are not enough, the pool is not compressed.
            largest = LARGEST_SIZE // POOL
            try:
                size, error = trials.smallest(pooled, tolerance, min(largest, trials.n_fit), confidence, "columns")
                return Suggestion(POOL * size, size, error)
            except OutOfReachError:
                if trials.n_fit >= largest:
                    raise
        size, error = trials.smallest(plain, tolerance, LARGEST_SIZE, confidence)
        return Suggestion(size, 2 * size if compresses else None, error)

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
        if self.n_components is None:
            return {"n_frequencies": n_columns // 2}
        pool = POOL if isinstance(self.n_frequencies, str) else self.n_frequencies / self.n_components
        return {"n_frequencies": round(pool * n_columns), "n_components": n_columns}
