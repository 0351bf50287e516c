# SPDX-License-Identifier: BSD-3-Clause
"""The exported `RobustStandardizer` against `transform`."""

import numpy as np
import pytest

from bochner import RobustStandardizer
from bochner.export import to_onnx
from tests.export.sessions import DTYPES, assert_equal_outputs

RNG = np.random.default_rng(0)
ROWS = np.column_stack(
    [RNG.standard_cauchy(size=(300, 3)), RNG.normal(1e3, 1e-2, size=300), RNG.random(300) < 0.05, np.ones(300)]
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("limit", [3.0, 0.5, np.inf])
def test_standardizer_equals_transform(limit, dtype):
    X = ROWS.astype(dtype)
    model = RobustStandardizer(limit).fit(X)
    tolerance = 1e-12 * max(1.0, np.abs(model.transform(X)).max()) if dtype == np.float64 else None
    assert_equal_outputs(to_onnx(model, X[:1]), X, model.transform(X), tolerance=tolerance)


def test_values_far_outside_stay_finite():
    model = RobustStandardizer().fit(ROWS)
    far = np.full((2, 6), 1e300) * [[1.0], [-1.0]]
    assert_equal_outputs(to_onnx(model, far), far, model.transform(far))
