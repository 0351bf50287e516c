# SPDX-License-Identifier: BSD-3-Clause
"""
Learned length scales
=====================

A kernel with one length scale gives all columns the same influence. ``length_scale="learn"`` learns one length scale
per column from the targets. This example does so for a table of 64 columns, the pixels of digits. It shows which
columns become relevant, and that the test error with a given number of features falls. :doc:`/guide/learned-kernels`
explains how length scales are learned.
"""

# %%
# Which columns are relevant
# --------------------------
# The relevance of a column is one over its length scale, divided by the sum over all columns. Left, by
# :class:`~bochner.ImportanceDisplay`: the most relevant columns; the dashed line is the relevance that all columns
# have with one length scale. Right: the relevances in the places of the pixels. Pixels at the left and right edges,
# which are blank in most images, have lost their influence.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bochner import FeatureClassifier, FourierFeatures, ImportanceDisplay

digits = load_digits()
X_train, X_test, y_train, y_test = train_test_split(digits.data, digits.target, test_size=1 / 3, random_state=0)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

features = FourierFeatures(length_scale="learn", n_frequencies=64)
model = FeatureClassifier(features, random_state=0, loss="squared_error").fit(X_train, y_train)
relevance = model.features_.relevance_

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4))
names = [f"row {i}, column {j}" for i in range(8) for j in range(8)]
ImportanceDisplay.from_estimator(model, names=names, n_columns=15, ax=left)
image = right.imshow(100 * relevance.reshape(8, 8))
right.set(xlabel="column of the image", ylabel="row of the image")
right.spines[:].set_visible(True)
figure.colorbar(image, ax=right, label="relevance (%)", shrink=0.8)
plt.show()

# %%
# Predictions
# -----------
# Both models have the same number of frequencies. The model with one length scale selects it from four candidates by
# cross-validation. Each point is the mean of two seeds, with bars of one standard error.

sizes = (16, 32, 64)


def one_length_scale(size, seed):
    features = FourierFeatures(n_frequencies=size)
    return FeatureClassifier(features, length_scale_factors=(0.5, 1, 2, 4), random_state=seed, loss="squared_error")


def learned(size, seed):
    return FeatureClassifier(
        FourierFeatures(length_scale="learn", n_frequencies=size), random_state=seed, loss="squared_error"
    )


def error(model):
    return 100 - 100 * model.fit(X_train, y_train).score(X_test, y_test)


figure, ax = plt.subplots(figsize=(5.8, 4.0))
errors = {}
for name, make, style in (
    ("one length scale", one_length_scale, {"color": "C4", "marker": "o", "linestyle": "-."}),
    ("one per column, learned", learned, {"color": "C0", "marker": "D"}),
):
    errors[name] = np.array([[error(make(size, seed)) for seed in range(2)] for size in sizes])
    bars = errors[name].std(axis=1, ddof=1) / np.sqrt(2)
    ax.errorbar(sizes, errors[name].mean(axis=1), bars, label=name, markersize=5, **style)
ax.set(xscale="log", yscale="log", xlabel="frequencies", ylabel="test error (%)")
ax.set_title("test error with one length scale and with learned ones", fontsize=10)
ax.set_xticks(sizes, labels=[str(size) for size in sizes])
ax.set_yticks([2, 5, 10, 20], labels=["2", "5", "10", "20"])
ax.minorticks_off()
ax.grid(alpha=0.3)
ax.legend(loc="upper right")
plt.show()

# %%
# Conclusion
# ----------
# Weights improve the approximation of a kernel; learned length scales improve the kernel. They help most where some
# columns are more informative than others. Learning takes a few seconds, whatever the number of rows.

for name, values in errors.items():
    print(f"{name:24s} {values[-1].mean():.1f} % test errors with {sizes[-1]} frequencies")
