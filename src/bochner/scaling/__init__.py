# SPDX-License-Identifier: BSD-3-Clause
"""What rows are multiplied by before anything else: length scales and metrics.

`median` computes a length scale from the rows alone. `learned_scales` learns one per column from targets, by minimizing
an objective (`objectives`), which is a function of the second moments of features. `learned_metric` learns a linear map
of all columns from the gradients of ridge models (`gradients`). `robust_standardizer` is a transformer of its own.
"""

from bochner.scaling.learned_metric import LearnedMetric as LearnedMetric
from bochner.scaling.learned_scales import LearnedLengthScales as LearnedLengthScales
from bochner.scaling.objectives import MarginalLikelihood as MarginalLikelihood
from bochner.scaling.objectives import ValidationLoss as ValidationLoss
