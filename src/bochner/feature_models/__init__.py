# SPDX-License-Identifier: BSD-3-Clause
"""Linear models on features: `FeatureRegressor` (`regressor`) and `FeatureClassifier` (`classifier`).

`feature_model` is what both share, and its `fit` the order of the steps: `folds` assigns folds to rows, `candidates`
fits features. For squared errors, `ridge` accumulates second moments in one pass and solves from them for every penalty
and fold (`band_form`). For other losses, `paths` follows a path of penalties, each of which `newton` solves for, or
`active_sets` for the squared hinge loss.
"""
