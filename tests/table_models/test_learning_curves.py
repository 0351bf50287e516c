# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from bochner.table_models.held_out import hold_out
from bochner.table_models.learning_curves import learning_curves
from tests.table_models.test_held_out import fit_frame, make_frame


@pytest.mark.parametrize("options", [{}, {"features": "landmarks"}, {"learn": "learn-matrix"}])
def test_errors_fall_with_rows_and_features(options):
    frame = make_frame(600)
    frame["y"] = 5.0 * np.sin(2.0 * frame["x"]) + frame["noise"]
    fitted = fit_frame(frame, "y", **options)
    split = hold_out(fitted.model, fitted.survey)
    rows, features = learning_curves(split)
    assert (rows.subject, rows.sizes.tolist()) == ("training rows", [60, 120, 240, 480])
    assert (features.subject, features.sizes.tolist()) == ("features", [8, 16, 32, 64])
    assert rows.errors[-1] == features.errors[-1] == split.held_out.evidence.error
    assert rows.errors[0] > 1.05 * rows.errors[-1]
    assert features.errors[0] > 1.1 * features.errors[-1]
    assert (rows.deviations > 0).all()


def test_classes_that_small_parts_do_not_have():
    frame = make_frame(120)
    frame["kind"] = ["rare"] * 6 + ["common"] * 57 + ["other"] * 57
    fitted = fit_frame(frame, "kind", n_frequencies=4)
    split = hold_out(fitted.model, fitted.survey)
    for curve in learning_curves(split):
        assert np.isfinite(curve.errors).all()
