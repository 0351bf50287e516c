# SPDX-License-Identifier: BSD-3-Clause
"""
Weights instead of 1/M
======================

Plain random Fourier features give each of their M frequencies the weight 1/M. ``weighting="stein"``, the default, fits
the weights to the data. This example shows the fitted weights, what they correct, and how much the kernel error
decreases. :doc:`/guide/fourier-features` explains the method.
"""

# %%
# Fit the weights
# ---------------
# The table is scikit-learn's breast cancer table: 569 rows with 30 columns, many of which are strongly correlated.
# The weights are fitted on two thirds of the rows.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bochner import FourierFeatures, KernelErrorDisplay, WeightsDisplay

X_train, X_test = train_test_split(load_breast_cancer().data, test_size=1 / 3, random_state=0)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

M = 256
features = FourierFeatures(n_frequencies=M, sampler="mc", random_state=0).fit(X_train)

# %%
# What the weights correct
# ------------------------
# Left, by :class:`~bochner.WeightsDisplay`: many weights are several times as large or as small as 1/M, and a fifth
# of the frequencies is nearly dropped. Right: what that is good for. Along every axis, the frequencies should have
# the variance of the kernel's spectrum. A sample of 256 frequencies has it only up to sampling noise. The weights
# remove most of this noise along the leading principal axes of the rows, where the rows vary most. They accept larger
# errors along the last axes, where the rows hardly vary.

_, _, principal_axes = np.linalg.svd(X_train - X_train.mean(axis=0), full_matrices=False)
plain_deviations, weighted_deviations = [], []
for seed in range(8):
    fitted = FourierFeatures(n_frequencies=M, sampler="mc", random_state=seed).fit(X_train)
    squares = (fitted.length_scale_ * fitted.frequencies_ @ principal_axes.T) ** 2  # of mean 1 in the spectrum
    plain_deviations.append(squares.mean(axis=0) - 1)
    weighted_deviations.append(fitted.weights_ @ squares - 1)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
WeightsDisplay.from_estimator(features, ax=left)
left.locator_params(axis="x", nbins=5)
left.set_title(f"M = {M}, 30 columns", fontsize=10)
position = np.arange(1, len(principal_axes) + 1)
for label, deviations, style in (
    ("1/M", plain_deviations, {"color": "C4", "marker": "o", "linestyle": "-."}),
    ("fitted weights", weighted_deviations, {"color": "C0", "marker": "D"}),
):
    right.plot(position, np.sqrt(np.mean(np.square(deviations), axis=0)), label=label, markersize=4, **style)
right.set(xlabel="principal axis of the rows", ylabel="relative error of the variance", ylim=(0, None))
right.set_title("frequencies along the axes, 8 seeds", fontsize=10)
right.legend(loc="lower right")
plt.show()

# %%
# What the weights gain
# ---------------------
# The frequencies are the same with all three weightings, because the frequencies and the weights have separate random
# streams. "shrinkage" multiplies all weights by one number; "stein" fits one number per frequency.

sizes = (16, 32, 64, 128, 256)
weightings = ("uniform", "shrinkage", "stein")


def error(weighting, size, seed):
    fitted = FourierFeatures(n_frequencies=size, sampler="mc", weighting=weighting, random_state=seed).fit(X_train)
    return fitted.kernel_error(X_test, random_state=0).error


errors = {
    f'"{weighting}"': [[error(weighting, size, seed) for seed in range(6)] for size in sizes]
    for weighting in weightings
}
styles = {
    name: {"color": color, "marker": marker, "linestyle": linestyle}
    for name, color, marker, linestyle in zip(errors, ("C4", "C1", "C0"), "osD", ("-.", "--", "-"), strict=True)
}
figure, ax = plt.subplots(figsize=(6.0, 4.2))
KernelErrorDisplay(2 * np.array(sizes), errors).plot(ax=ax, styles=styles)
ax.set_title(f"Gaussian kernel of {len(X_test)} test rows, mean of 6 seeds", fontsize=10)
plt.show()

# %%
# Conclusion
# ----------
# The weighted features have the same columns, multiplied by other constants, so ``transform`` takes the same time.

uniform, stein = (np.mean(errors[f'"{weighting}"'], axis=1) for weighting in ("uniform", "stein"))
for size, ratio in zip(sizes, stein / uniform, strict=True):
    print(f"M = {size:3d}: the error is multiplied by {ratio:.2f}")
