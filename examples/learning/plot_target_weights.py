# SPDX-License-Identifier: BSD-3-Clause
"""
A weighting of your own
=======================

A weighting is a class with one method, which returns one non-negative weight per frequency. With
``needs_targets = True`` it gets the targets of the rows as well. This example fits the weights to the targets instead
of the kernel, after an idea of Sinha and Duchi (NIPS 2016): frequencies at which the targets vary get more weight.
"""

# %%
# Write the weighting
# -------------------
# ``X`` holds the rows divided by the length scale, and ``X.targets`` their targets, one column per target or
# class. A parameter of the class, here ``share``, can be searched as ``features__weighting__share``.

import matplotlib.pyplot as plt
import numpy as np

from bochner import FeatureRegressor, FourierFeatures
from bochner.weightings import Weighting


class TargetPower(Weighting):
    """A mixture of equal weights and of the power of the targets at each frequency."""

    needs_targets = True

    def __init__(self, share=0.5):
        self.share = share

    def weigh(self, frequencies, kernel, X, rng):
        angles = X[:] @ frequencies.T
        targets = X.targets - X.targets.mean(axis=0)
        power = np.square(targets.T @ np.cos(angles)) + np.square(targets.T @ np.sin(angles))
        power = power.sum(axis=0)
        return (1 - self.share) / len(frequencies) + self.share * power / power.sum()


# %%
# Use it like any other
# ---------------------
# The targets depend on the first column only, so frequencies along this column get more weight.

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(3000, 2))
y = np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=len(X))
X_train, y_train, X_test, y_test = X[:2000], y[:2000], X[2000:], y[2000:]

figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True)
for ax, weighting in zip(axes, ("stein", TargetPower()), strict=True):
    features = FourierFeatures(length_scale=0.5, n_frequencies=200, weighting=weighting, random_state=0)
    features.fit(X_train, y_train)
    ax.scatter(*features.frequencies_.T, s=4000 * features.weights_, alpha=0.6)
    ax.set(xlabel="frequency of column 1", title=f"weighting={weighting!r}", aspect="equal")
axes[0].set_ylabel("frequency of column 2")
plt.show()

# %%
# Compare it
# ----------
# Such weights no longer approximate the kernel. They predict well here, where one column tells everything. Learned
# length scales use the same targets, and are the better choice for most tables; see :doc:`/guide/learned-kernels`.

for name, parameters in {
    "stein": {"weighting": "stein"},
    "TargetPower()": {"weighting": TargetPower()},
    "learned length scales": {"length_scale": "learn"},
}.items():
    features = FourierFeatures(n_frequencies=32, **parameters)
    model = FeatureRegressor(features, random_state=0).fit(X_train, y_train)
    print(f"{name:22s} R2 = {model.score(X_test, y_test):.3f}")
