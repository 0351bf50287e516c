# SPDX-License-Identifier: BSD-3-Clause
"""Exact kernel machines: kernel ridge regression with learned scales, in leaves of the data."""

from bochner.kernel_models.scale_learning import LearnedScales as LearnedScales
from bochner.kernel_models.scale_learning import learn_scales as learn_scales
