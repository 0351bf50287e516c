# SPDX-License-Identifier: BSD-3-Clause
"""Candidate features of a linear model: fitted transformers, and the maps through which rows are read as features."""

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from bochner.feature_maps import FeatureMap, TransformerMap
from bochner.features.kernel_features import KernelFeatures
from bochner.features.landmark_features import LandmarkFeatures
from bochner.kernels import KERNELS, NAMED_KERNELS
from bochner.parameters import refuse_foreign_kernel
from bochner.rows import Floats, RowSource, sample_batch
from bochner.validation import positive_values

__all__ = ["default_features", "feature_map_of", "features_of_kernels", "fit_candidates", "seed_of"]

default_features = partial(LandmarkFeatures, n_landmarks=512)  # as many columns as `FourierFeatures()` has
MAX_COLLECTED = 1 << 15  # remote rows that other transformers are fitted on; of more rows, they get a sample


def seed_of(features: Any, random_state: Any) -> int | None:
    """Return the seed of the features: that of the model, else their own; one that has to be drawn is drawn here.

    None means that a transformer of another library keeps its own random states.
    """
    own = getattr(features, "random_state", None)
    if random_state is None and not (features is None or isinstance(features, KernelFeatures)):
        return None
    state = own if random_state is None else random_state
    return int(state) if isinstance(state, Integral) else int(check_random_state(state).randint(2**31 - 1))


def features_of_kernels(features: Any, kernels: Sequence[Any] | None) -> list[Any]:
    """Return unfitted features for each candidate kernel, and refuse kernels that the features do not support.

    Parameters
    ----------
    features : transformer or None
        Unfitted features; None means the default ones.
    kernels : sequence of str or Kernel, or None
        Candidate kernels; None means the kernel of the features.

    Returns
    -------
    list of transformer
        Copies of the features with each of the kernels.

    Examples
    --------
    >>> from bochner.feature_models.candidates import features_of_kernels
    >>> features_of_kernels(None, ["matern", "exponential"])
    [LandmarkFeatures(kernel='matern', n_landmarks=512), LandmarkFeatures(kernel='exponential', n_landmarks=512)]
    """
    features = default_features() if features is None else clone(features)
    if kernels is None:
        return [features]
    if not isinstance(features, KernelFeatures):
        raise ValueError(
            f"`kernels`={kernels!r} needs FourierFeatures or LandmarkFeatures, and `features` is a "
            f"{type(features).__name__}; use None, or search over its own parameters with GridSearchCV."
        )
    if not kernels:
        raise ValueError(f"`kernels` must contain at least one kernel. Got {kernels!r} instead.")
    candidates = [clone(features).set_params(kernel=kernel) for kernel in kernels]
    for candidate in candidates:
        refuse_foreign_kernel(candidate.kernel, "Each of the `kernels`")
        if isinstance(candidate.kernel, str) and candidate.kernel not in NAMED_KERNELS:
            raise ValueError(
                f"`kernels` contains {candidate.kernel!r}; use names among {', '.join(map(repr, KERNELS))}, or "
                f"instances such as Matern(nu=2.5)."
            )
        candidate._validate_params()
    return candidates


def fit_candidates(
    features: Any,
    rows: RowSource,
    encode: Callable[[Any], Floats],
    length_scale_factors: Any,
    seed: int | None,
    kernels: Sequence[Any] | None = None,
) -> list[Any]:
    """Fit one transformer for each candidate kernel and length scale.

    Parameters
    ----------
    features : transformer or None
        Unfitted features; None means the default ones.
    rows : RowSource
        Training rows with checked targets, on all of which or on a sample of which the features are fitted.
    encode : callable
        Returns the numeric columns of targets that length scales are learned from.
    length_scale_factors : array-like of shape (n_candidates,)
        Multiples of the features' length scale; transformers without one accept ``(1.0,)`` only.
    seed : int or None
        Value of every `random_state` of the features; None leaves them as they are.
    kernels : sequence of str or Kernel, default=None
        Candidate kernels, each of which is combined with every length scale; None means the kernel of the features.
        All of them use the same samples of rows and the same random numbers for their frequencies. Length scales are
        measured or learned for each kernel.

    Returns
    -------
    list of transformer
        The fitted candidates: those of the first kernel with every length scale, then those of the next kernel.
    """
    factors = positive_values("length_scale_factors", length_scale_factors)
    variants = features_of_kernels(features, kernels)
    features = variants[0]
    if seed is not None:
        names = [name for name in features.get_params() if name.split("__")[-1] == "random_state"]
        variants = [variant.set_params(**dict.fromkeys(names, seed)) for variant in variants]
    if hasattr(features, "fit_length_scales"):
        labeled = rows.with_targets(encode)
        fits = [variant.fit_length_scales(labeled, factors, warn=variant is features) for variant in variants]
        return [candidate for fitted in fits for candidate in fitted]
    if factors.tolist() != [1.0]:
        raise ValueError(
            f"`length_scale_factors`={length_scale_factors!r} needs features with a length scale, and "
            f"{type(features).__name__} has none; use (1.0,), or search over its own parameters with GridSearchCV."
        )
    return [_fit_transformer(features, rows, seed)]


def _fit_transformer(features: Any, rows: RowSource, seed: int | None) -> Any:
    """Fit any scikit-learn transformer on rows in memory, or on a sample of remote rows."""
    if rows.location == "memory" or rows.shape[0] <= MAX_COLLECTED:
        batch = rows.select(slice(None))
    else:
        batch = sample_batch(rows, np.random.default_rng(seed))
    X, y, weights = batch.drop_zero_weights()[:3]
    y = y[:, 0] if y is not None and y.ndim == 2 and y.shape[1] == 1 else y
    options = {"sample_weight": weights} if weights is not None and has_fit_parameter(features, "sample_weight") else {}
    return features.fit(X, y, **options)


def feature_map_of(features: Any, width: int | None = None, row: Any = None) -> FeatureMap:
    """Return the map of fitted features: their own prepared one, or one through their `transform`.

    Parameters
    ----------
    features : transformer
        Fitted features.
    width : int, default=None
        Number of columns that the features have; None transforms a row to find out.
    row : {ndarray, CSR matrix} of shape (1, n_features), default=None
        A row to transform.
    """
    prepared: FeatureMap | None = getattr(features, "feature_map_", None)
    if prepared is not None:
        return prepared
    return TransformerMap.probe(features, row) if width is None else TransformerMap(features, width)
