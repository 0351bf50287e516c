# SPDX-License-Identifier: BSD-3-Clause
"""
Kernel clustering and kernel PCA as pipelines
=============================================

k-means on Fourier features is kernel k-means, and PCA on them is kernel PCA: a scikit-learn pipeline is enough.
Running this example writes ``docs/images/clustering.png``; it takes a few seconds.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles
from sklearn.decomposition import PCA, KernelPCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

from bochner import FourierFeatures

COLORS = np.array(["#1f3a5f", "#c9a227"])
MARKERS = ("o", "^")


def scatter(ax: Axes, points: Any, labels: Any, title: str) -> None:
    for label, marker in enumerate(MARKERS):
        ax.scatter(*points[labels == label].T, s=9, marker=marker, color=COLORS[label], linewidths=0)
    ax.set_title(title, fontsize=9)
    ax.set(xticks=[], yticks=[])


def score(ring: Any, clusters: Any) -> str:
    return f"{abs(round(adjusted_rand_score(ring, clusters), 2)):.2f}"


def main() -> None:
    X, ring = make_circles(600, factor=0.35, noise=0.06, random_state=0)
    features = FourierFeatures(length_scale=0.35, n_frequencies=128, random_state=0)
    plain = KMeans(2, n_init=10, random_state=0).fit_predict(X)
    kernel = make_pipeline(features, KMeans(2, n_init=10, random_state=0)).fit_predict(X)
    components = make_pipeline(features, PCA(2)).fit_transform(X)
    exact = KernelPCA(2, kernel="rbf", gamma=0.5 / 0.35**2).fit_transform(X)
    exact = exact * np.sign(np.sum(exact * components, axis=0))  # the sign of a component is arbitrary

    figure = Figure(figsize=(9.6, 3.0), layout="constrained")
    axes = figure.subplots(1, 4)
    scatter(axes[0], X, plain, f"k-means\n(adjusted Rand index {score(ring, plain)})")
    scatter(axes[1], X, kernel, f"k-means on Fourier features\n(adjusted Rand index {score(ring, kernel)})")
    scatter(axes[2], components, ring, "PCA of Fourier features\n(symbols: true ring)")
    scatter(axes[3], exact, ring, "exact kernel PCA\n(symbols: true ring)")
    for ax in axes[:2]:
        ax.set(xlabel="column 0", ylabel="column 1")
    for ax in axes[2:]:
        ax.set(xlabel="component 0", ylabel="component 1")
    figure.savefig(Path(__file__).parents[1] / "docs" / "images" / "clustering.png", dpi=120)


if __name__ == "__main__":
    main()
