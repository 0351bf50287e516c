# SPDX-License-Identifier: BSD-3-Clause
"""A data frame with numbers, categories, dates, gaps and free text, and quick models of it."""

import numpy as np
import pandas as pd

from bochner import FeatureClassifier, FeatureRegressor, LandmarkFeatures, TableClassifier, TableRegressor

JOBS = ["nurse", "engineer", "teacher", "driver"]


def make_frame(n_rows=300, seed=0):
    """Return a data frame; `price` and `label` are the targets that `make_targets` computes."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.lognormal(size=n_rows),
            "color": rng.choice(["red", "green", None], size=n_rows),
            "day": pd.to_datetime("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, size=n_rows), unit="D"),
            "ok": rng.choice(["yes", "no"], size=n_rows),
            "job": [f"{rng.choice(JOBS)} {rng.integers(1000)}" for _ in range(n_rows)],
        }
    )
    frame.loc[::6, "size"] = np.nan
    return frame


def make_targets(frame, seed=1):
    """Return numbers, and labels of two classes."""
    noise = 0.1 * np.random.default_rng(seed).normal(size=len(frame))
    y = np.log(frame["size"].fillna(3.0)) + (frame["color"] == "red") + frame["job"].str.startswith("nurse") + noise
    return y.to_numpy(), np.where(y > 0.6, "high", "low")


def quick_regressor(**options):
    estimator = FeatureRegressor(LandmarkFeatures(n_landmarks=32, random_state=0), random_state=0)
    return TableRegressor(estimator, random_state=0, **options)


def quick_classifier(**options):
    features = LandmarkFeatures(n_landmarks=16, random_state=0)
    estimator = FeatureClassifier(features, loss="log_loss", Cs=[1.0], cv=None, random_state=0)
    return TableClassifier(estimator, random_state=0, **options)
