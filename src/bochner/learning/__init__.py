# SPDX-License-Identifier: BSD-3-Clause
"""What is learned from data by optimization.

Length scales from targets (`length_scales`), by an objective that is a function of the features' second moments
(`objectives`); ridge regression for every penalty from the same moments (`ridge`), which the linear models use too; and
frequencies that are moved to lower the kernel error (`refinement`).
"""

from bochner.learning.length_scales import LearnedLengthScales as LearnedLengthScales
from bochner.learning.objectives import MarginalLikelihood as MarginalLikelihood
from bochner.learning.objectives import ValidationLoss as ValidationLoss
