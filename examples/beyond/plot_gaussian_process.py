# SPDX-License-Identifier: BSD-3-Clause
r"""
A Gaussian process
==================

Bayesian linear regression on Fourier features is a Gaussian process with the approximate kernel. This example computes
its posterior with a few lines of linear algebra, draws functions from it, and shows both beside the exact posterior of
scikit-learn. :doc:`/guide/fourier-features` describes the features, and :doc:`/guide/linear-models` the models that
select their noise and length scale themselves.
"""

# %%
# The exact posterior
# -------------------
# The kernel and the noise are fixed, so that all posteriors answer the same question.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from bochner import FourierFeatures

length_scale, noise = 1.0, 0.15
rng = np.random.default_rng(0)
x = np.sort(np.concatenate([rng.uniform(0, 4, size=14), rng.uniform(7, 10, size=10)]))
y = np.sin(1.3 * x) + 0.3 * x + noise * rng.normal(size=x.size)
shift = y.mean()
grid = np.linspace(-1, 11, 300)

process = GaussianProcessRegressor(RBF(length_scale), alpha=noise**2, optimizer=None).fit(x[:, None], y - shift)
exact_mean, exact_std = process.predict(grid[:, None], return_std=True)
exact_draws = process.sample_y(grid[:, None], n_samples=5, random_state=0).T

# %%
# The posterior of the weights
# ----------------------------
# With features Z and standard normal weights w, a function is :math:`f(x) = z(x) \cdot w`. Its prior covariance is the
# approximate kernel. The posterior of w is normal with the precision :math:`A = I + Z^T Z / \sigma^2` and the mean
# :math:`A^{-1} Z^T y / \sigma^2`. A draw of w is a whole function, which can be evaluated anywhere. A draw from the
# exact process is a vector of values at the points that were asked for.


def posterior(n_frequencies):
    """Return the mean, the standard deviation and five draws on the grid."""
    features = FourierFeatures(length_scale=length_scale, n_frequencies=n_frequencies, random_state=0)
    Z, Z_grid = features.fit(grid[:, None]).transform(x[:, None]), features.transform(grid[:, None])
    root = np.linalg.cholesky(np.eye(Z.shape[1]) + Z.T @ Z / noise**2)
    mean = np.linalg.solve(root.T, np.linalg.solve(root, Z.T @ (y - shift))) / noise**2
    std = np.linalg.norm(np.linalg.solve(root, Z_grid.T), axis=0)
    weights = mean[:, None] + np.linalg.solve(root.T, np.random.default_rng(1).normal(size=(Z.shape[1], 5)))
    return Z_grid @ mean, std, (Z_grid @ weights).T


panels = {f"{n} frequencies": posterior(n) for n in (5, 80)}
panels["exact process"] = exact_mean, exact_std, exact_draws

figure, axes = plt.subplots(1, 3, figsize=(11, 4.0), sharex=True, sharey=True)
for ax, (title, (mean, std, draws)) in zip(axes, panels.items(), strict=True):
    band = (shift + mean - 1.96 * std, shift + mean + 1.96 * std)
    ax.fill_between(grid, *band, color="C2", alpha=0.35, linewidth=0, label="95 % band")
    ax.plot(grid, shift + draws.T, color="C5", linewidth=0.8, label=["draws"] + 4 * ["_"])
    ax.plot(grid, shift + mean, color="C0", linewidth=2.5, label="mean")
    ax.scatter(x, y, s=20, color="C1", zorder=3, label="rows")
    ax.set_title(title, fontsize=10)
    ax.set(xlabel="x", xlim=(-1, 11))
axes[0].set_ylabel("y")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
plt.show()

# %%
# How many frequencies
# --------------------
# With too few frequencies, the functions have too little freedom: the band is too narrow in the gap, where the exact
# process is uncertain. The mean and the standard deviation approach the exact ones as frequencies are added.

sizes = (5, 10, 20, 40, 80, 160)
found = [posterior(n) for n in sizes]
mean_differences = [np.abs(mean - exact_mean).max() for mean, _, _ in found]
std_differences = [np.abs(std - exact_std).max() for _, std, _ in found]

figure, ax = plt.subplots(figsize=(5.6, 3.9))
ax.plot(sizes, mean_differences, color="C0", marker="D", label="mean")
ax.plot(sizes, std_differences, color="C1", marker="s", linestyle="--", label="standard deviation")
ax.set(xscale="log", yscale="log", xlabel="frequencies", ylabel="largest difference from exact (units of y)")
ax.set_title("error of the posterior against the number of frequencies", fontsize=10)
ax.set_xticks(sizes, labels=[str(n) for n in sizes])
ax.minorticks_off()
ax.grid(alpha=0.3)
ax.legend(loc="upper right")
plt.show()

# %%
# Conclusion
# ----------
# The posterior of the weights takes a time proportional to the number of rows, and its draws are functions. On large
# data, :class:`~bochner.FeatureRegressor` computes the same mean and standard deviation, and estimates the noise.
