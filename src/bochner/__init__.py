# SPDX-License-Identifier: BSD-3-Clause
"""Data-driven random Fourier features for scikit-learn."""

from importlib.metadata import version

from bochner.display import KernelErrorDisplay as KernelErrorDisplay
from bochner.display import RelevanceDisplay as RelevanceDisplay
from bochner.display import WeightsDisplay as WeightsDisplay
from bochner.frequencies import Halton as Halton
from bochner.frequencies import Lattice as Lattice
from bochner.frequencies import MonteCarlo as MonteCarlo
from bochner.frequencies import Orthogonal as Orthogonal
from bochner.frequencies import Sobol as Sobol
from bochner.frequencies import Sorf as Sorf
from bochner.kernel_error import KernelError as KernelError
from bochner.kernels import Cauchy as Cauchy
from bochner.kernels import Exponential as Exponential
from bochner.kernels import Gaussian as Gaussian
from bochner.kernels import Laplacian as Laplacian
from bochner.kernels import Matern as Matern
from bochner.kernels import RationalQuadratic as RationalQuadratic
from bochner.learned_length_scales import LearnedLengthScales as LearnedLengthScales
from bochner.objectives import MarginalLikelihood as MarginalLikelihood
from bochner.objectives import ValidationLoss as ValidationLoss
from bochner.ridge_heads import FourierRidge as FourierRidge
from bochner.ridge_heads import FourierRidgeClassifier as FourierRidgeClassifier
from bochner.sizes import Suggestion as Suggestion
from bochner.svm_head import FourierSVC as FourierSVC
from bochner.transformer import FourierFeatures as FourierFeatures
from bochner.weights import Matrix as Matrix
from bochner.weights import Quadrature as Quadrature
from bochner.weights import Shrinkage as Shrinkage
from bochner.weights import Stein as Stein
from bochner.weights import Uniform as Uniform

__version__ = version("bochner")
