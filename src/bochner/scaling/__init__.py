# SPDX-License-Identifier: BSD-3-Clause
"""What rows are multiplied by before anything else: median distances, learned length scales, learned metrics.

`learned` learns a scaling from targets with `scale_learning`, which minimizes the `held_out_errors` of exact kernel
ridge regression on a sample of rows. The kernel machines learn in the same way. `kernel_values` and `cholesky` are the
compiled arithmetic below. `median` measures distances, and `robust_standardizer` scales the columns of tables.
"""

from bochner.scaling.learned import LearnedLengthScales as LearnedLengthScales
from bochner.scaling.learned import LearnedMetric as LearnedMetric
