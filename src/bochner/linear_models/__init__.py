# SPDX-License-Identifier: BSD-3-Clause
"""Linear models on features: cross-validated penalties, without storing the features of all rows.

`FourierRidge` and `FourierRidgeClassifier` (`ridge`) solve for every penalty and fold from second moments that are
accumulated in one pass over the rows. `FourierSVC` (`svm`) minimizes the squared hinge loss (`squared_hinge`) and
`FourierLogisticRegression` (`logistic`) the log loss (`log_loss`) in several passes (`feature_passes`).
Folds (`folds`) are assigned in the same way to rows in memory, in files and in partitions. All are read through
`training_sets`.
"""

from bochner.linear_models.logistic import FourierLogisticRegression as FourierLogisticRegression
from bochner.linear_models.ridge import FourierRidge as FourierRidge
from bochner.linear_models.ridge import FourierRidgeClassifier as FourierRidgeClassifier
from bochner.linear_models.svm import FourierSVC as FourierSVC
