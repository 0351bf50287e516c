# SPDX-License-Identifier: BSD-3-Clause
"""How properties are run: few examples and always the same ones in the fast lane, eight times as many in the slow lane.

``BOCHNER_EXAMPLES=30 pytest -m slow tests/properties`` runs 30 times as many as the slow lane, new ones each time.
"""

import os
import traceback
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

FACTOR = float(os.environ.get("BOCHNER_EXAMPLES", "0"))
LANES = pytest.mark.parametrize(
    "n_examples", [6, pytest.param(int(48 * (FACTOR or 1.0)), marks=pytest.mark.slow)], ids=["fast", "slow"]
)
VALIDATING_PACKAGES = ("bochner", "sklearn")


def for_examples(n_examples, *strategies):
    """Run a function for many examples of its arguments."""
    options = settings(
        max_examples=n_examples,
        derandomize=not FACTOR,
        database=None,
        deadline=None,  # a fit takes between 1 and 100 milliseconds
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )

    def run(check):
        options(given(*strategies)(check))()

    return run


@contextmanager
def one_message():
    """Accept a ValueError or TypeError that validation raises; a failure inside numpy or LAPACK is none."""
    try:
        yield
    except (ValueError, TypeError) as error:
        source = traceback.extract_tb(error.__traceback__)[-1].filename
        if isinstance(error, np.linalg.LinAlgError) or not any(f"/{name}/" in source for name in VALIDATING_PACKAGES):
            raise AssertionError(f"not a message of validation: {error}") from error


def assert_finite(*arrays):
    """Check that all numbers are finite."""
    for array in map(np.asarray, arrays):
        assert array.dtype.kind != "f" or np.isfinite(array).all(), array


def assert_near(found, expected, tolerance):
    """Compare up to a share of the largest value."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    if expected.dtype.kind == "f":
        # Scores that are zero up to rounding have no digits.
        bound = tolerance * max(np.abs(expected).max(initial=0.0), 1e-9)
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=max(bound, 1e-300))
    else:
        assert (found == expected).all()
