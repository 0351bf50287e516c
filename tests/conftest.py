# SPDX-License-Identifier: BSD-3-Clause
"""Shared by all tests: combinations of kernel, sampler and weighting, and data."""

import os
from itertools import combinations, product
from pathlib import Path

# Test workers already use every core; BLAS threads on top of them would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from bochner import samplers
from bochner.feature_maps import fourier_map
from bochner.feature_maps.hadamard import HadamardFrequencies
from bochner.kernels import KERNELS, IsotropicKernel
from bochner.samplers import SAMPLERS
from bochner.weightings import WEIGHTINGS, Weighting


class TargetPower(Weighting):
    """A weighting that needs targets: weights in proportion to the power of the targets at each frequency."""

    needs_targets = True

    def weigh(self, frequencies, kernel, X, rng):
        targets = X.targets if X.weights is None else X.targets * X.weights[:, None]
        squares = np.square(fourier_map(X[:], frequencies, np.ones(len(frequencies))).T @ targets).sum(axis=1)
        power = squares.reshape(2, -1).sum(axis=0) + 1e-9
        return power / power.sum()


def covering_set(valid, strength=2):
    """Return a few of the valid combinations that contain every valid pair of values (single values for strength 1)."""

    def tuples(combination):
        return set(combinations(enumerate(combination), strength))

    uncovered = set().union(*map(tuples, valid))
    chosen = []
    while uncovered:
        chosen.append(max(valid, key=lambda combination: len(tuples(combination) & uncovered)))
        uncovered -= tuples(chosen[-1])
    return chosen


KERNEL_SAMPLER_PAIRS = [
    (kernel, sampler)
    for kernel, sampler in product(KERNELS, SAMPLERS)
    if sampler not in ("orthogonal", "sorf") or issubclass(KERNELS[kernel], IsotropicKernel)
]
VALID_COMBINATIONS = [(*pair, weighting) for pair, weighting in product(KERNEL_SAMPLER_PAIRS, WEIGHTINGS)]
COVERING_COMBINATIONS = covering_set(VALID_COMBINATIONS)
FEW_COMBINATIONS = covering_set(VALID_COMBINATIONS, strength=1)

# The values of a parametrized test: every kernel, sampler and weighting in the fast lane, every pair in the slow lane.
COMBINATIONS = [
    pytest.param(*parts, marks=[] if parts in FEW_COMBINATIONS else pytest.mark.slow)
    for parts in [*FEW_COMBINATIONS, *(parts for parts in COVERING_COMBINATIONS if parts not in FEW_COMBINATIONS)]
]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Put tests on the paper's data, runs of its studies and examples of the pages into the slow lane."""
    for item in items:
        is_page = item.path.suffix == ".md" and item.path.name != "README.md"
        if is_page or {"paper_data", "small_run"} & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def structured_sorf(monkeypatch):
    """Make `Sorf` draw structured frequencies and multiply by them fast, however few the columns."""
    monkeypatch.setattr(samplers, "FEWEST_COLUMNS", 1)
    monkeypatch.setattr(HadamardFrequencies, "is_fast", True)


@pytest.fixture(scope="session")
def digits():
    """Standardized digits, read-only."""
    X = StandardScaler().fit_transform(load_digits().data)
    X.flags.writeable = False
    return X


@pytest.fixture(scope="session")
def paper_data():
    """The folder that BOCHNER_DATA names, with the paper's data sets as npz files."""
    folder = os.environ.get("BOCHNER_DATA")
    if folder is None:
        pytest.skip("BOCHNER_DATA is not set; it names a folder with the paper's data sets as npz files")
    return Path(folder)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
