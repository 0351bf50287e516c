# SPDX-License-Identifier: BSD-3-Clause
"""
Quantiles
=========

A mean and a standard deviation describe noise that is symmetric and equal everywhere. Other noise is described by
quantiles: :class:`~bochner.FeatureRegressor` with the loss :class:`~bochner.losses.Quantile` predicts several of them
at once, and they do not cross. :doc:`/guide/linear-models` lists all losses.
"""

# %%
# Skewed noise that grows
# -----------------------
# The noise has a Gumbel distribution, whose right tail is longer, and its scale is proportional to x. The true
# quantiles are known.

import matplotlib.pyplot as plt
import numpy as np

from bochner import FeatureRegressor, FourierFeatures
from bochner.losses import Quantile

rng = np.random.default_rng(0)


def draw(n_rows):
    x = rng.uniform(0, 3, size=n_rows)
    return x[:, None], np.sin(2 * x) + 0.2 * x * rng.gumbel(size=n_rows)


def true_quantile(x, level):
    return np.sin(2 * x) - 0.2 * x * np.log(-np.log(level))


X, y = draw(2000)
levels = [0.05, 0.25, 0.5, 0.75, 0.95]
features = FourierFeatures(n_frequencies=32)
model = FeatureRegressor(features, loss=Quantile(levels), random_state=0).fit(X, y)
grid = np.linspace(0, 3, 301)
quantiles = model.predict(grid[:, None])

# %%
# One model for five levels
# -------------------------
# The penalty is chosen by the pinball loss of all levels together. Solid lines are predictions, dotted lines the truth.

_, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.scatter(X[:, 0], y, s=3, color="0.75")
ax.fill_between(grid, quantiles[:, 0], quantiles[:, -1], color="C0", alpha=0.15, linewidth=0)
for column, level in enumerate(levels):
    color = plt.get_cmap("viridis")(0.15 + 0.7 * level)
    ax.plot(grid, quantiles[:, column], color=color, label=f"{level:.0%}")
    ax.plot(grid, true_quantile(grid, level), color=color, linestyle=":")
ax.set(xlabel="x", ylabel="y", xlim=(0, 3))
ax.legend(title="quantile", frameon=False)

# %%
# New rows
# --------
# The share of new targets below each quantile is close to its level, also among the rows with little noise and among
# those with much.

X_new, y_new = draw(10_000)
is_below = y_new[:, None] < model.predict(X_new)
print(f"{'level':>12s} {'all rows':>10s} {'x < 1':>10s} {'x > 2':>10s}")
for column, level in enumerate(levels):
    shares = [is_below[rows, column].mean() for rows in (slice(None), X_new[:, 0] < 1, X_new[:, 0] > 2)]
    print(f"{level:12.0%}", *(f"{share:10.1%}" for share in shares))
