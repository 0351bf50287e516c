# SPDX-License-Identifier: BSD-3-Clause
"""What is learned from data by optimization.

`length_scales` learns one length scale per column from targets. It minimizes an objective (`objectives`), a function of
the features' second moments. `metrics` learns a linear map of all columns from the gradients of ridge models
(`gradients`). `refinement` moves frequencies to lower the kernel error.
Building blocks: `ridge` solves ridge regression for every penalty from second moments, also for the linear models
(`fold_errors` and `band_form` cross-validate it where there are many columns). `nonnegative_ridge` solves it with
non-negative coefficients, and `pair_statistics` accumulates the regression of a kernel on cosines over pairs of rows;
both are for the weightings.
"""

from bochner.scaling.learned_metric import LearnedMetric as LearnedMetric
from bochner.scaling.learned_scales import LearnedLengthScales as LearnedLengthScales
from bochner.scaling.objectives import MarginalLikelihood as MarginalLikelihood
from bochner.scaling.objectives import ValidationLoss as ValidationLoss
