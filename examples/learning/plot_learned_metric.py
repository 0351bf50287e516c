# SPDX-License-Identifier: BSD-3-Clause
"""
Metric directions of digits
===========================

``length_scale="learn-matrix"`` learns a linear map of all columns: along some *directions* in the space of the columns,
distances become longer, because the target changes along them. This example shows the directions for a function of two
columns, and then for images of digits, whose directions are images too. :doc:`/guide/learned-kernels` explains how they
are learned.
"""

# %%
# A function of two columns
# -------------------------
# The function changes quickly along one diagonal and slowly along the other one. The rows at distance 1 from the origin
# form an ellipse. With one length scale per column, the axes of the ellipse are those of the columns, so it has to be
# short in both. A metric can be short along the one diagonal alone.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures


def target(X):
    return np.sin(4 * (X[:, 0] + X[:, 1]) / np.sqrt(2)) + np.sin((X[:, 0] - X[:, 1]) / np.sqrt(2))


rng = np.random.default_rng(0)
X, X_new = rng.uniform(-2, 2, size=(200, 2)), rng.uniform(-2, 2, size=(2000, 2))
y = target(X) + 0.1 * rng.normal(size=len(X))

figure, ax = plt.subplots(figsize=(5.6, 4.6))
ticks = np.linspace(-2, 2, 81)
plane = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
levels = ax.contourf(ticks, ticks, target(plane).reshape(81, 81), levels=12, cmap="Greys", vmin=-2, vmax=5)
figure.colorbar(levels, ax=ax, label="target")

angles = np.linspace(0, 2 * np.pi, 200)
circle = np.array([np.cos(angles), np.sin(angles)])
for length_scale, color, linestyle in (("learn", "C0", "--"), ("learn-matrix", "C1", "-")):
    model = FeatureRegressor(FourierFeatures(length_scale=length_scale, n_frequencies=32), random_state=0).fit(X, y)
    fitted = model.features_
    matrix = fitted.metric_ if length_scale == "learn-matrix" else np.diag(1 / fitted.length_scale_)
    ellipse = np.linalg.solve(matrix, circle)
    label = f'"{length_scale}": R² = {model.score(X_new, target(X_new)):.3f}'
    ax.plot(*ellipse, color=color, linestyle=linestyle, linewidth=2.5, label=label)
ax.set(xlim=(-2, 2), ylim=(-2, 2), aspect="equal", xlabel="column 0", ylabel="column 1")
ax.set_title("rows at distance 1 from the origin", fontsize=10)
figure.legend(loc="outside lower center", ncols=2)
plt.show()

# %%
# Directions of digits
# --------------------
# The columns are the pixels of the digits. The squared singular values of the map ``metric_`` say how much influence
# each direction has: a few of the 64 directions have most of it. The images show these directions. Two images are far
# apart if they differ along such a direction, as by a stroke where it is bright in place of a stroke where it is dark.
# The sign of a direction has no meaning.

X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)


def classifier(length_scale):
    features = FourierFeatures(length_scale=length_scale, n_frequencies=128)
    model = FeatureClassifier(features, loss="squared_error", random_state=0)
    return make_pipeline(StandardScaler(), model).fit(X_train, y_train)


model = classifier("learn-matrix")
_, scales, directions = np.linalg.svd(model[-1].features_.metric_)
shares = scales**2 / np.sum(scales**2)
figure, axes = plt.subplots(1, 4, figsize=(9, 2.6), layout="constrained")
for ax, share, direction in zip(axes, shares, directions, strict=False):
    limit = np.abs(direction).max()
    image = ax.imshow(direction.reshape(8, 8), cmap="cividis", vmin=-limit, vmax=limit)
    ax.set(xticks=[], yticks=[], title=f"{100 * share:.0f} %")
bar = figure.colorbar(image, ax=axes, ticks=[-limit, 0.0, limit])
bar.ax.set_yticklabels(["negative", "zero", "positive"])
plt.show()

# %%
# Conclusion
# ----------
# A metric replaces the question of which columns are informative by the question of which combinations of them are. It
# also lowers the error of predictions with the same number of features:

print(f"test errors with one length scale: {100 - 100 * classifier('median').score(X_test, y_test):.1f} %")
print(f"test errors with a metric:         {100 - 100 * model.score(X_test, y_test):.1f} %")
