# SPDX-License-Identifier: BSD-3-Clause
"""Linear models on features: cross-validated penalties, without storing the features of all rows.

`FeatureRegressor` (`regressor`) and `FeatureClassifier` (`classifier`) minimize a loss of `bochner.losses`. Squared
errors are solved for every penalty and fold from second moments, which one pass over the rows accumulates
(`ridge_moments`). Other losses need several passes (`feature_passes`): `newton` solves any of them, and `active_sets`
the squared hinge loss of rows in memory. Folds (`folds`) are assigned in the same way to rows in memory, in files and
in partitions. All are read through `training_sets`.
"""

from bochner.feature_models.classifier import FeatureClassifier as FeatureClassifier
from bochner.feature_models.regressor import FeatureRegressor as FeatureRegressor
