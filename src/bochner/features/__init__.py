# SPDX-License-Identifier: BSD-3-Clause
"""The two transformers, `FourierFeatures` and `LandmarkFeatures`, and the refinement of frequencies."""
