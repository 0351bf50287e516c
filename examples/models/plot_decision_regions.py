# SPDX-License-Identifier: BSD-3-Clause
"""
Decision regions at growing M
=============================

A support vector machine on a few Fourier features has coarse decision regions. With more frequencies, they approach
those of the exact kernel. This example shows the regions for two spirals, with 4 to 128 frequencies and for
scikit-learn's exact ``SVC``. :doc:`/guide/linear-models` describes :class:`~bochner.FeatureClassifier`.
"""

# %%
# Two spirals
# -----------
# Two classes wind around each other, so a linear model on the two columns is useless.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from bochner import FeatureClassifier, FourierFeatures


def spirals(n, rng):
    """Return n points of each of two spirals, and their classes."""
    turn = 3.5 * np.pi * np.sqrt(rng.uniform(0.02, 1, size=n))
    arm = np.stack([turn * np.cos(turn), turn * np.sin(turn)], axis=1) / 10
    return np.vstack([arm, -arm]) + 0.06 * rng.normal(size=(2 * n, 2)), np.repeat([0, 1], n)


rng = np.random.default_rng(0)
X, y = spirals(300, rng)
X_test, y_test = spirals(2000, rng)

# %%
# The regions
# -----------
# All models have the same Gaussian kernel with a length scale of 0.25; ``gamma`` is its value for scikit-learn. C is
# 100 for all of them. The shades are the values of the decision function, cut off at the margins -1 and 1, and the
# black line is the boundary between the classes.

length_scale, C = 0.25, 100.0
models = {
    f"FeatureClassifier, M = {M}": FeatureClassifier(
        FourierFeatures(length_scale=length_scale, n_frequencies=M), Cs=[C], cv=None, random_state=0
    )
    for M in (4, 8, 16, 32, 128)
}
models["SVC, exact kernel"] = SVC(gamma=0.5 / length_scale**2, C=C)

ticks = np.linspace(-1.35, 1.35, 150)
plane = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
figure, axes = plt.subplots(2, 3, figsize=(9, 6.6), sharex=True, sharey=True)
for ax, (name, model) in zip(axes.flat, models.items(), strict=True):
    model.fit(X, y)
    values = model.decision_function(plane).reshape(150, 150).clip(-1, 1)
    image = ax.pcolormesh(ticks, ticks, values, vmin=-1, vmax=1, alpha=0.6, rasterized=True)
    ax.contour(ticks, ticks, values, levels=[0], colors="black", linewidths=1.5)
    for label, color, marker in ((0, "C0", "o"), (1, "C1", "^")):
        shown = X[y == label][::3]
        ax.scatter(*shown.T, s=14, color=color, marker=marker, edgecolor="white", linewidth=0.4, label=f"class {label}")
    ax.set_title(f"{name}\ntest accuracy {model.score(X_test, y_test):.3f}", fontsize=10)
    ax.set(aspect="equal")
for ax in axes[1]:
    ax.set_xlabel("column 0")
for ax in axes[:, 0]:
    ax.set_ylabel("column 1")
figure.colorbar(image, ax=axes, label="decision function", shrink=0.6, extend="both")
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, markerscale=1.6)
plt.show()

# %%
# Conclusion
# ----------
# The number of frequencies that a task needs depends on how fine its boundary is. Beyond it, more frequencies change
# neither the accuracy nor the boundary near the rows. Far from all rows, where the exact decision function returns to
# its intercept, that of a few frequencies continues its waves.
