# SPDX-License-Identifier: BSD-3-Clause
"""
A predictive band
=================

:class:`~bochner.FeatureRegressor` returns standard deviations beside its predictions. This example shows the band that
they form around a curve, which is wider where there are no rows, and checks on a real table how often such bands
contain the target. :doc:`/guide/linear-models` explains the distribution behind them.
"""

# %%
# Noisy rows with a gap
# ---------------------
# The targets are a smooth curve with noise of standard deviation 0.2. There are no rows between 4 and 6.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bochner import FeatureRegressor, FourierFeatures


def curve(x):
    return np.sin(x) + 0.3 * np.sin(3 * x)


rng = np.random.default_rng(0)
x = np.sort(np.concatenate([rng.uniform(0, 4, size=60), rng.uniform(6, 10, size=60)]))
y = curve(x) + 0.2 * rng.normal(size=x.size)
features = FourierFeatures(length_scale=0.8, n_frequencies=128)
model = FeatureRegressor(features, random_state=0).fit(x[:, None], y)

grid = np.linspace(-1, 11, 400)
mean, std = model.predict(grid[:, None], return_std=True)
noise = np.sqrt(model.noise_variance_)

# %%
# The band
# --------
# The standard deviation has two parts. The noise, which ``noise_variance_`` estimates, is the same everywhere. The
# uncertainty of the curve itself is small where there are rows, and grows in the gap and beyond the ends.

figure, ax = plt.subplots(figsize=(7.5, 4.4))
ax.fill_between(grid, mean - 1.96 * std, mean + 1.96 * std, color="C2", alpha=0.35, linewidth=0, label="95 % band")
curve_std = np.sqrt(np.maximum(std**2 - noise**2, 0))
ax.fill_between(
    grid, mean - 1.96 * curve_std, mean + 1.96 * curve_std, color="C2", alpha=0.9, linewidth=0, label="without noise"
)
ax.plot(grid, mean, color="C0", label="prediction", linewidth=2)
ax.plot(grid, curve(grid), color="black", linestyle=":", label="true curve")
ax.scatter(x, y, s=10, color="C1", label="rows", zorder=3)
ax.set(xlabel="x", ylabel="y", xlim=(-1, 11))
ax.set_title(f"noise: estimated standard deviation {noise:.2f}, true 0.20", fontsize=10)
figure.legend(loc="outside lower center", ncols=5)
plt.show()

# %%
# How often a band contains the target
# ------------------------------------
# On scikit-learn's diabetes table nobody knows the noise. The plot compares the nominal probability of a band with the
# share of test rows that it contains, over ten splits of the rows. The diagonal is where both are equal.

X, y = load_diabetes(return_X_y=True)
nominal = np.linspace(0.05, 0.99, 20)
shares = []
for seed in range(10):
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed)
    scaler = StandardScaler().fit(X_train)
    table_model = FeatureRegressor(FourierFeatures(n_frequencies=128), length_scale_factors=(1, 2, 4), random_state=0)
    table_model.fit(scaler.transform(X_train), y_train)
    predicted, std = table_model.predict(scaler.transform(X_test), return_std=True)
    distance = np.abs(y_test - predicted) / std
    shares.append([(distance <= norm.ppf((1 + probability) / 2)).mean() for probability in nominal])

figure, ax = plt.subplots(figsize=(4.8, 4.4))
ax.plot([0, 100], [0, 100], color="C5", linestyle=":", label="equal")
ax.plot(100 * nominal, 100 * np.transpose(shares), color="C2", linewidth=0.8, label=["ten splits"] + 9 * ["_"])
ax.plot(100 * nominal, 100 * np.mean(shares, axis=0), color="C0", marker="o", markersize=4, label="their mean")
ax.set(xlabel="nominal probability of the band (%)", ylabel="share of test rows in the band (%)", aspect="equal")
ax.set_title("share of targets in bands, diabetes", fontsize=10)
ax.legend(loc="upper left")
plt.show()

# %%
# Conclusion
# ----------
# The bands are honest where the model is right: where the noise is the same for all rows, and the kernel suits the
# function. They cost one more product per row.
