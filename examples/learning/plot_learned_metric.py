# SPDX-License-Identifier: BSD-3-Clause
"""
A learned metric
================

The target changes along the diagonal of two columns. Length scales cannot express that: the rows at distance 1 from the
origin form an ellipse whose axes are those of the columns. With a metric, the ellipse has any direction. The panels on
the right show the metric of scikit-learn's digits, whose columns are pixels. Running this example writes
``docs/images/learned-metric.png``. If ``BOCHNER_DATA`` names a folder with mnist, the script also writes
``docs/images/metric-directions-mnist.png``. Together they take about two minutes.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import FourierFeatures, FourierRidge, MetricDisplay
from bochner.experiments.datasets import load

IMAGES = Path(__file__).parents[1] / "docs" / "images"
N_MNIST = 8000
STYLES = {
    "learn": {"color": "#1b1b1b", "linestyle": "--", "linewidth": 2.0},
    "learn-matrix": {"color": "#b5446e", "linestyle": "-", "linewidth": 2.5},
}


def target(X: np.ndarray) -> np.ndarray:
    """Return a function that changes quickly along one diagonal and slowly along the other."""
    along, across = (X @ [[1, 1], [1, -1]] / np.sqrt(2)).T
    return np.sin(4 * along) + np.sin(across)


def plot_function(ax: Axes) -> None:
    """Draw the function, and the rows at distance 1 from the origin with length scales and with a metric."""
    rng = np.random.default_rng(0)
    X, X_test = rng.uniform(-2, 2, size=(200, 2)), rng.uniform(-2, 2, size=(2000, 2))
    noise = 0.1 * rng.normal(size=200)
    ticks = np.linspace(-2, 2, 81)
    values = target(np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)).reshape(81, 81)
    ax.contourf(ticks, ticks, values, levels=12, cmap="Greys", alpha=0.5)
    angles = np.linspace(0, 2 * np.pi, 200)
    circle = np.array([np.cos(angles), np.sin(angles)])
    for name, style in STYLES.items():
        features = FourierFeatures(length_scale=name, n_frequencies=32)
        model = FourierRidge(features, random_state=0).fit(X, target(X) + noise)
        fitted = model.features_
        matrix = fitted.metric_ if name == "learn-matrix" else np.diag(1 / fitted.length_scale_)
        label = f'"{name}": R² {model.score(X_test, target(X_test)):.3f}'
        ax.plot(*np.linalg.solve(matrix, circle), label=label, **style)
    ax.set(xlim=(-2, 2), ylim=(-2, 2), aspect="equal", xlabel="column 0", ylabel="column 1")
    ax.set_title("rows at distance 1 from the origin", fontsize="medium")
    ax.legend(loc="upper right", fontsize="small")


def plot_example() -> None:
    """Draw the function and the directions of the digits."""
    figure = plt.figure(figsize=(14, 3.8), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 2.6))
    left.suptitle("a function of two columns", fontsize="large")
    right.suptitle("digits: 64 standardized pixels, 128 frequencies", fontsize="large")
    plot_function(left.subplots())
    features = FourierFeatures(length_scale="learn-matrix", n_frequencies=128, random_state=0)
    model = make_pipeline(StandardScaler(), features).fit(*load_digits(return_X_y=True))
    MetricDisplay.from_estimator(model, image_shape=(8, 8), n_directions=4, figure=right)
    figure.savefig(IMAGES / "learned-metric.png", dpi=110)


def plot_mnist() -> None:
    """Draw the directions of mnist."""
    split = load("mnist")
    X, y = split.X_train[:N_MNIST].astype(np.float32), split.y_train[:N_MNIST]
    features = FourierFeatures(length_scale="learn-matrix", n_frequencies=128, random_state=0).fit(X, y)
    figure = plt.figure(figsize=(14, 5), layout="constrained")
    figure.suptitle(f"mnist, {N_MNIST:,} of 60,000 rows: 784 standardized pixels, 128 frequencies", fontsize="large")
    MetricDisplay.from_estimator(features, image_shape=(28, 28), n_directions=10, figure=figure)
    figure.savefig(IMAGES / "metric-directions-mnist.png", dpi=80)


if __name__ == "__main__":
    plot_example()
    if "BOCHNER_DATA" in os.environ:
        plot_mnist()
