# SPDX-License-Identifier: BSD-3-Clause
"""Settings of all property-based tests."""

import pytest

import bochner.features.fourier_features


@pytest.fixture(autouse=True, scope="package")
def few_frequencies():
    """Let automatic sizes try few frequencies, which keeps fits short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bochner.features.fourier_features, "LARGEST_SIZE", 64)
        yield
