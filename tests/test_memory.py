# SPDX-License-Identifier: BSD-3-Clause
"""Work that exceeds the memory of the machine is refused at once, with its gigabytes."""

import numpy as np
import pytest
from sklearn.base import clone

import bochner.feature_models.paths
from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.feature_maps import map_rows
from bochner.memory import check_memory, expected_width
from bochner.weightings import Uniform


class Stopping(Uniform):
    """A weighting that ends a fit of features."""

    def weigh(self, *arguments):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("model", "n_bytes"),
    [
        (FeatureRegressor(), 384000),
        (FeatureClassifier(loss="squared_error"), 384001),
        (FeatureClassifier(), 144000),
        (FeatureClassifier(loss="log_loss"), 144000),
    ],
)
def test_memory_is_refused_with_its_size_before_any_work(model, n_bytes, rng, monkeypatch):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3
    monkeypatch.setattr(bochner.feature_models.paths, "MAX_HELD_BYTES", 0)
    features = FourierFeatures(n_frequencies=1_000_000, weighting=Stopping())
    message = rf"2,000,00\d columns.* needs {n_bytes}\.\d GB for .* and this machine has .* GB; use fewer"
    with pytest.raises(ValueError, match=message):
        clone(model).set_params(features=features).fit(X, y)


def test_held_features_need_no_hessians(rng):
    features = FourierFeatures(n_frequencies=100_000, weighting=Stopping())
    with pytest.raises(ZeroDivisionError):
        FeatureClassifier(features).fit(rng.normal(size=(60, 2)), np.arange(60) % 3)


def test_small_models_are_not_refused():
    check_memory(1, "A model", "numbers", "use fewer")


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


MANY = 5_000_000


@pytest.mark.parametrize(
    ("features", "remedy"),
    [
        (FourierFeatures(n_frequencies=MANY), "use fewer frequencies, or weighting='uniform'"),
        (FourierFeatures(n_frequencies=MANY, weighting="quadrature"), "use fewer frequencies, or weighting='uniform'"),
        (FourierFeatures(n_frequencies=MANY, weighting="matrix"), "use fewer frequencies"),
        (FourierFeatures(n_frequencies=MANY, weighting="uniform", n_components=MANY), "use fewer frequencies"),
    ],
)
def test_frequencies_are_refused_before_they_are_drawn(features, remedy, rng):
    message = rf"FourierFeatures with 5,000,000 frequencies and `weighting`='\w+' needs \d+\.\d GB .*; {remedy}\."
    with pytest.raises(ValueError, match=message):
        features.fit(rng.normal(size=(50, 2)))


def test_output_of_a_transformer_is_refused(rng):
    features = FourierFeatures(n_frequencies=4096, weighting="uniform", length_scale=1.0).fit(rng.normal(size=(5, 1)))
    rows = np.broadcast_to(np.float64(0.0), (10**8, 1))
    message = (
        r"The map of 100,000,000 rows needs 6553\.6 GB for 8,192 features per row, .* GB; map fewer rows at a time"
    )
    with pytest.raises(ValueError, match=message):
        map_rows(features.feature_map_, rows)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (
            "squared_error",
            r"A ridge regression on 100,512 columns and targets with 5 folds needs 9\d\d\.\d GB .* classes or folds",
        ),
        (
            "squared_hinge",
            r"FeatureClassifier on 500,000 rows with 100,000 outputs needs 400\.0 GB for scores.* use fewer classes",
        ),
        ("log_loss", r"FeatureClassifier on 500,000 rows with 100,000 outputs needs 400\.0 GB"),
    ],
)
def test_many_classes_are_refused_before_folds_and_features(loss, message):
    y = np.arange(500_000) % 100_000
    with pytest.raises(ValueError, match=message):
        FeatureClassifier(loss=loss).fit(np.zeros((len(y), 1)), y)
