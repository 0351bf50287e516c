# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

import bochner.linear_models.feature_passes
from bochner import (
    FourierFeatures,
    FourierLogisticRegression,
    FourierRidge,
    FourierRidgeClassifier,
    FourierSVC,
    LandmarkFeatures,
)
from bochner.linear_models.memory import check_memory, expected_width
from bochner.weightings import Uniform


class Stopping(Uniform):
    """A weighting that ends a fit of features."""

    def weigh(self, *arguments):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("model", "n_bytes"),
    [
        (FourierRidge, 192000),
        (FourierRidgeClassifier, 192000),
        (FourierSVC, 256000),
        (FourierLogisticRegression, 144000),
    ],
)
def test_memory_is_refused_with_its_size_before_any_work(model, n_bytes, rng, monkeypatch):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3
    monkeypatch.setattr(bochner.linear_models.feature_passes, "HELD_BYTES", 0)
    features = FourierFeatures(n_frequencies=1_000_000, weighting=Stopping())
    message = rf"2,000,000 columns needs {n_bytes}\.\d GB for .* and this machine has .* GB; use fewer"
    with pytest.raises(ValueError, match=message):
        model(features).fit(X, y)


def test_held_features_need_no_hessians(rng):
    features = FourierFeatures(n_frequencies=100_000, weighting=Stopping())
    with pytest.raises(ZeroDivisionError):
        FourierSVC(features).fit(rng.normal(size=(60, 2)), np.arange(60) % 3)


def test_small_models_are_not_refused():
    check_memory(1, 1, "A model", "numbers")


@pytest.mark.parametrize(
    ("features", "width"),
    [
        (FourierFeatures(n_frequencies=10), 20),
        (FourierFeatures(n_frequencies=10, n_components=5), 5),
        (FourierFeatures(n_frequencies="auto"), None),
        (LandmarkFeatures(n_landmarks=7), 7),
        (object(), None),
    ],
)
def test_expected_width(features, width):
    assert expected_width(features) == width
