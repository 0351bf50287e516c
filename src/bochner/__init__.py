# SPDX-License-Identifier: BSD-3-Clause
"""Data-driven random Fourier features for scikit-learn.

Estimators, displays and `KernelError` are imported from here; the parts that estimators are made of have modules of
their own: `bochner.kernels`, `bochner.samplers`, `bochner.weightings`, `bochner.learning`.
"""

from importlib.metadata import version

from bochner.display import KernelErrorDisplay as KernelErrorDisplay
from bochner.display import RelevanceDisplay as RelevanceDisplay
from bochner.display import WeightsDisplay as WeightsDisplay
from bochner.fourier_features import FourierFeatures as FourierFeatures
from bochner.kernel_error import KernelError as KernelError
from bochner.landmark_features import LandmarkFeatures as LandmarkFeatures
from bochner.linear_models import FourierRidge as FourierRidge
from bochner.linear_models import FourierRidgeClassifier as FourierRidgeClassifier
from bochner.linear_models import FourierSVC as FourierSVC

__version__ = version("bochner")
