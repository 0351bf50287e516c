# SPDX-License-Identifier: BSD-3-Clause
"""Prepared maps from rows to features: nothing random, nothing fitted.

`feature_map` defines the interface `FeatureMap` that linear models use, adapts any scikit-learn transformer to it, and
accumulates the second moments of features that least squares needs. `fourier` is the compiled map to Fourier features,
on the sines and cosines of `elementary` and, for structured frequencies, the fast Walsh-Hadamard transform of
`hadamard`. `kernel_columns` computes kernel values at landmarks, on the powers of `elementary`.
"""

from bochner.feature_maps.feature_map import FeatureMap as FeatureMap
from bochner.feature_maps.feature_map import ProductMap as ProductMap
from bochner.feature_maps.feature_map import TransformerMap as TransformerMap
from bochner.feature_maps.feature_map import add_moments as add_moments
from bochner.feature_maps.feature_map import apply_to_features as apply_to_features
from bochner.feature_maps.feature_map import map_rows as map_rows
from bochner.feature_maps.fourier import FourierMap as FourierMap
from bochner.feature_maps.fourier import fourier_map as fourier_map
from bochner.feature_maps.kernel_columns import kernel_columns as kernel_columns
