# SPDX-License-Identifier: BSD-3-Clause
"""Exact kernel machines: kernel ridge regression with learned scales, in leaves of the data.

Data flow one way: `training_rows` merges copies, scales columns and draws samples; `selection` chooses kernels, scales
and penalties with `scale_learning`, which minimizes the errors of `held_out_errors`; `members` fits the `leaves` of the
chosen ones and averages their predictions; `calibration` turns scores into probabilities. `kernel_values` and
`cholesky` are the compiled arithmetic below.
"""

from bochner.kernel_models.kernel_machines import KernelClassifier as KernelClassifier
from bochner.kernel_models.kernel_machines import KernelRegressor as KernelRegressor
from bochner.scaling.scale_learning import LearnedScales as LearnedScales
from bochner.scaling.scale_learning import learn_scales as learn_scales
