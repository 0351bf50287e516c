# SPDX-License-Identifier: BSD-3-Clause
"""Exact kernel machines: kernel ridge regression with learned scales, in leaves of the data.

Data flow one way: `training_rows` merges copies, scales columns and draws samples; `selection` chooses kernels, scales
and penalties, and `bochner.scaling.scale_learning` learns the scales; `members` fits the `leaves` of the chosen ones
and averages their predictions; `calibration` turns scores into probabilities.
"""

from bochner.kernel_models.kernel_machines import KernelClassifier as KernelClassifier
from bochner.kernel_models.kernel_machines import KernelRegressor as KernelRegressor
from bochner.scaling.scale_learning import LearnedScales as LearnedScales
from bochner.scaling.scale_learning import learn_scales as learn_scales
