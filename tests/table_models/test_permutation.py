# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from bochner.table_models.held_out import hold_out
from bochner.table_models.permutation import permutation_importance
from tests.table_models.test_held_out import fit_frame, make_frame


def test_shuffling_costs_as_much_as_the_column_explains():
    fitted = fit_frame(make_frame(1500), "y")
    held_out = hold_out(fitted.model, fitted.survey).held_out
    found = permutation_importance(held_out, ["x", "noise", "color"], n_repeats=10)
    assert found.names == ["x", "noise", "color"]
    assert found.n_rows == 300
    # Shuffling b x adds 2 b^2 Var(x) to the squared error.
    error = held_out.evidence.error
    red = np.mean(make_frame(1500)["color"] == "red")
    expected = [np.sqrt(error**2 + added) - error for added in (2 * 25.0, 0.0, 2 * 64.0 * red * (1 - red))]
    np.testing.assert_allclose(found.increases, expected, atol=0.12 * max(expected))
    assert found.increases[1] < 0.05
    again = permutation_importance(held_out, ["color"], n_repeats=10)
    assert again.increases[0] == found.increases[2]


def test_error_rate_of_classes():
    fitted = fit_frame(make_frame(), "kind")
    held_out = hold_out(fitted.model, fitted.survey).held_out
    found = permutation_importance(held_out, ["x", "noise"])
    assert 0.2 < found.increases[0] < 0.7
    assert found.increases[1] == pytest.approx(0.0, abs=0.05)
