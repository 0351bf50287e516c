# SPDX-License-Identifier: BSD-3-Clause
"""
Clusters that are not convex
============================

k-means on Fourier features is kernel k-means, and PCA on them is kernel PCA. This example separates two rings, which
k-means cannot do, and shows that the principal components agree with those of the exact kernel.
:doc:`/guide/clustering` has more about both.
"""

# %%
# k-means on features
# -------------------
# k-means divides the plane by straight lines, so it cuts both rings in half. On Fourier features, the same algorithm
# finds the rings. The length scale must be shorter than the gap between them.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles
from sklearn.decomposition import PCA, KernelPCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

from bochner import FourierFeatures

X, ring = make_circles(600, factor=0.35, noise=0.06, random_state=0)
features = FourierFeatures(length_scale=0.35, n_frequencies=128, random_state=0)
k_means = KMeans(2, n_init=10, random_state=0)
plain = k_means.fit_predict(X)
kernel = make_pipeline(features, k_means).fit_predict(X)

components = make_pipeline(features, PCA(2)).fit_transform(X)
exact = KernelPCA(2, kernel="rbf", gamma=0.5 / 0.35**2).fit_transform(X)
exact *= np.sign(np.sum(exact * components, axis=0))  # the sign of a component is arbitrary


def scatter(ax, points, labels, title):
    for label, color, marker in ((0, "C0", "o"), (1, "C4", "^")):
        ax.scatter(*points[labels == label].T, s=10, marker=marker, color=color, linewidths=0)
    ax.set_title(title, fontsize=9)


figure, axes = plt.subplots(1, 4, figsize=(11, 3.3))
scatter(axes[0], X, plain, f"k-means\nadjusted Rand index {abs(adjusted_rand_score(ring, plain)):.2f}")
scatter(axes[1], X, kernel, f"k-means on features\nadjusted Rand index {adjusted_rand_score(ring, kernel):.2f}")
scatter(axes[2], components, ring, "PCA of features\n(symbols: true ring)")
scatter(axes[3], exact, ring, "exact kernel PCA\n(symbols: true ring)")
for ax in axes[:2]:
    ax.set(xlabel="column 0", ylabel="column 1", aspect="equal")
for ax in axes[2:]:
    ax.set(xlabel="component 1", ylabel="component 2")
plt.show()

# %%
# Components as functions of the plane
# ------------------------------------
# A component assigns a number to every point of the plane, also where there are no rows. The first component separates
# the inner ring from the outer one, and its white line of zeros is a circle between them. Components 2 and 3 have equal
# variances, because the rings look the same from all sides; any rotation of the pair is as good.

pca = make_pipeline(features, PCA(5)).fit(X)
ticks = np.linspace(-1.4, 1.4, 121)
plane = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
values = pca.transform(plane)
shares = pca[-1].explained_variance_ratio_

figure, axes = plt.subplots(1, 5, figsize=(11, 3.0), sharex=True, sharey=True)
for i, ax in enumerate(axes):
    limit = np.abs(values[:, i]).max()
    image = ax.contourf(ticks, ticks, values[:, i].reshape(121, 121) / limit, levels=np.linspace(-1, 1, 17))
    ax.contour(ticks, ticks, values[:, i].reshape(121, 121), levels=[0], colors="white", linewidths=1)
    ax.scatter(*X.T, s=1.5, color="black", alpha=0.4, linewidths=0)
    ax.set_title(f"component {i + 1}\n{100 * shares[i]:.0f} % of the variance", fontsize=9)
    ax.set(aspect="equal", xlabel="column 0")
axes[0].set_ylabel("column 1")
figure.colorbar(image, ax=axes, ticks=[-1, 0, 1], label="value / largest value", shrink=0.8)
plt.show()

# %%
# Conclusion
# ----------
# A pipeline with features is enough for kernel methods of any kind. Its time and memory grow with the number of rows,
# and not with its square as for the exact kernel.

error = features.fit(X).kernel_error(X, random_state=0).error
difference = np.abs(components[:, 0] - exact[:, 0]).max()
print(f"kernel error {100 * error:.1f} %, largest difference of the first components {difference:.3f}")
