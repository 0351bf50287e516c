# SPDX-License-Identifier: BSD-3-Clause
"""Candidate features of a linear model: fitted transformers, and the maps through which rows are read as features."""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from bochner.feature_maps import FeatureMap, TransformerMap
from bochner.fourier_features import FourierFeatures
from bochner.kernel_features import KernelFeatures
from bochner.rows import Floats, MemoryRows, RowSource, sample_source
from bochner.validation import positive_values

__all__ = ["feature_map_of", "fit_candidates", "seed_of"]

MOST_COLLECTED = 1 << 15  # sample of remote rows that a transformer without support of partitions is fitted on


def seed_of(features: Any, random_state: Any) -> int | None:
    """Return the seed of the features: that of the model, else their own; one that has to be drawn is drawn here.

    None means that a transformer of another library keeps its own random states.
    """
    own = getattr(features, "random_state", None)
    if random_state is None and not (features is None or isinstance(features, KernelFeatures)):
        return None
    state = own if random_state is None else random_state
    return int(state) if isinstance(state, Integral) else int(check_random_state(state).randint(2**31 - 1))


def fit_candidates(
    features: Any, rows: RowSource, encode: Callable[[Any], Floats], length_scales: Any, seed: int | None
) -> list[Any]:
    """Fit one transformer for each candidate length scale.

    Parameters
    ----------
    features : transformer or None
        Unfitted features; None means `FourierFeatures()`.
    rows : RowSource
        Training rows with checked targets, on all of which or on a sample of which the features are fitted.
    encode : callable
        Returns the numeric columns of targets that length scales are learned from.
    length_scales : array-like of shape (n_candidates,)
        Multiples of the features' length scale; transformers without one accept ``(1.0,)`` only.
    seed : int or None
        Value of every `random_state` of the features; None leaves them as they are.

    Returns
    -------
    list of transformer
        The fitted candidates.
    """
    factors = positive_values("length_scales", length_scales)
    features = FourierFeatures() if features is None else clone(features)
    if seed is not None:
        names = [name for name in features.get_params() if name.split("__")[-1] == "random_state"]
        features.set_params(**dict.fromkeys(names, seed))
    if hasattr(features, "fit_length_scales"):
        candidates: list[Any] = features.fit_length_scales(rows.with_targets(encode), factors)
        return candidates
    if factors.tolist() != [1.0]:
        raise ValueError(
            f"`length_scales`={length_scales!r} needs features with a length scale, and {type(features).__name__} has "
            f"none; use (1.0,), or search over its own parameters with GridSearchCV."
        )
    return [_fit_transformer(features, rows, seed)]


def _fit_transformer(features: Any, rows: RowSource, seed: int | None) -> Any:
    """Fit any scikit-learn transformer on rows in memory, or on a sample of remote rows."""
    if rows.location == "memory":
        sample = rows
    elif rows.shape[0] > MOST_COLLECTED:
        sample = sample_source(rows, np.random.default_rng(seed))
    else:
        sample = MemoryRows(*rows.select(slice(None))[:3])
    y, weights = sample.collect_columns()
    if weights is not None and not weights.all():
        sample = sample.drop_zero_weights(weights)
        y, weights = sample.collect_columns()
    y = y[:, 0] if y is not None and y.ndim == 2 and y.shape[1] == 1 else y
    options = {"sample_weight": weights} if weights is not None and has_fit_parameter(features, "sample_weight") else {}
    return features.fit(sample.data, y, **options)


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
