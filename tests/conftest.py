# SPDX-License-Identifier: BSD-3-Clause
"""What the tests share: the valid combinations of parts, and data."""

import os
from itertools import product
from pathlib import Path

# Workers share the cores: BLAS threads on top of them only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from bochner.frequencies import SAMPLERS
from bochner.kernels import KERNELS, IsotropicKernel
from bochner.weights import WEIGHTINGS

KERNEL_SAMPLER_PAIRS = [
    (kernel, sampler)
    for kernel, sampler in product(KERNELS, SAMPLERS)
    if sampler not in ("orthogonal", "sorf") or issubclass(KERNELS[kernel], IsotropicKernel)
]
COMBINATIONS = [(*pair, weighting) for pair, weighting in product(KERNEL_SAMPLER_PAIRS, WEIGHTINGS)]


@pytest.fixture(scope="session")
def digits():
    """Standardised digits, read-only."""
    X = StandardScaler().fit_transform(load_digits().data)
    X.flags.writeable = False
    return X


@pytest.fixture(scope="session")
def paper_data():
    """The folder with the paper's data sets as npz files; it is not part of the repository."""
    folder = Path(os.environ.get("BOCHNER_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (folder / "cpu.npz").is_file():
        pytest.skip("the paper's data sets are not here: set BOCHNER_DATA to a folder with their npz files")
    return folder


@pytest.fixture
def rng():
    return np.random.default_rng(0)
