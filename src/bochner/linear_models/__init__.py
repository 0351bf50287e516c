# SPDX-License-Identifier: BSD-3-Clause
"""Linear models on features, which choose their penalty by cross-validation and never hold all features of large data.

`FourierRidge` and `FourierRidgeClassifier` (`ridge`) solve every penalty and fold from second moments that one pass
over the rows accumulates; `FourierSVC` (`svm`) minimizes the squared hinge loss in a few passes. Folds (`folds`) are
assigned to rows in memory, in files and in partitions alike, and all are read through `training_sets`.
"""

from bochner.linear_models.ridge import FourierRidge as FourierRidge
from bochner.linear_models.ridge import FourierRidgeClassifier as FourierRidgeClassifier
from bochner.linear_models.svm import FourierSVC as FourierSVC
