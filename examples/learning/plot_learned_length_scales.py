# SPDX-License-Identifier: BSD-3-Clause
"""
Learned length scales
=====================

A kernel with one length scale gives all columns the same influence. ``length_scale="learn"`` learns one length scale
per column from the targets. This example adds ten uninformative columns to a real table. The model with learned length
scales finds out which columns these are, and its predictions hardly suffer from them. :doc:`/guide/learned-kernels`
explains how.
"""

# %%
# A table with probes
# -------------------
# The table is scikit-learn's diabetes table: 442 patients, ten columns, and a measure of the disease one year later.
# A *probe* is a shuffled copy of a column. It has the same distribution and no relation to the target.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bochner import FourierFeatures, FourierRidge, RelevanceDisplay

diabetes = load_diabetes()
rng = np.random.default_rng(0)
probes = rng.permuted(diabetes.data, axis=0)
X, y = StandardScaler().fit_transform(np.hstack([diabetes.data, probes])), diabetes.target
names = [*diabetes.feature_names, *(f"probe of {name}" for name in diabetes.feature_names)]

# %%
# The relevance of columns
# ------------------------
# The relevance of a column is one over its length scale, divided by the sum over all columns. The dashed line is the
# relevance of all columns with one length scale.

learned = FourierRidge(FourierFeatures(length_scale="learn", n_frequencies=64), random_state=0).fit(X, y)
display = RelevanceDisplay.from_estimator(learned, names=names)
for patch, position in zip(display.ax_.patches, np.argsort(-learned.features_.relevance_, kind="stable"), strict=True):
    patch.set_hatch("///" if position >= 10 else "")
display.ax_.set_title("diabetes: ten columns and ten probes (hatched)", fontsize=10)
display.figure_.set_size_inches(6.4, 5.0)
plt.show()

# %%
# Predictions
# -----------
# Both models are fitted on two thirds of the rows, with and without the probes, for four splits. The model with one
# length scale selects it from five candidates by cross-validation. Each line connects the two models on one split.

models = {
    "one": FourierRidge(FourierFeatures(n_frequencies=64), length_scales=(0.5, 1, 2, 4, 8), random_state=0),
    "learned": FourierRidge(FourierFeatures(length_scale="learn", n_frequencies=64), random_state=0),
}
scores = {}
for title, columns in {"ten columns": slice(0, 10), "ten columns and ten probes": slice(0, 20)}.items():
    for name, model in models.items():
        for seed in range(4):
            X_train, X_test, y_train, y_test = train_test_split(X[:, columns], y, test_size=1 / 3, random_state=seed)
            scores.setdefault((title, name), []).append(model.fit(X_train, y_train).score(X_test, y_test))

figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.6), sharey=True)
for ax, title in zip(axes, ("ten columns", "ten columns and ten probes"), strict=True):
    pairs = np.array([scores[title, "one"], scores[title, "learned"]])
    ax.plot([0, 1], pairs, color="C2", marker="o", markersize=4)
    ax.plot([0, 1], pairs.mean(axis=1), color="C0", marker="D", linewidth=3, label="mean")
    ax.set_xticks([0, 1], labels=["one length scale", "learned"])
    ax.set_title(title, fontsize=10)
    ax.set_xlim(-0.3, 1.3)
    ax.grid(axis="y", alpha=0.3)
axes[0].set_ylabel("R² on test rows")
axes[0].legend(loc="lower center")
plt.show()

# %%
# Conclusion
# ----------
# On the ten columns alone there is little to learn. With uninformative columns beside them, learned length scales keep
# most of the score. If you do not know which columns are informative, learn the length scales.

for (title, name), values in scores.items():
    print(f"{title}, {name} length scale: mean R2 {np.mean(values):.3f}")
