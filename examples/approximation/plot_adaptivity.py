# SPDX-License-Identifier: BSD-3-Clause
"""
From weights to matrices
========================

More of a feature map can be fitted to the data than weights: the frequencies themselves, or a matrix that combines many
frequencies. This example compares these levels on the digits with equal numbers of columns. A dotted line shows the
lowest error that any features with as many columns can reach. :doc:`/guide/weights-to-matrices` explains the levels.
"""

# %%
# The levels
# ----------
# Each level keeps what the level before it has, and fits more:
#
# - nothing: orthogonal frequencies with the weight 1/M;
# - one weight per frequency, the default;
# - the frequencies and their weights together, by at most 60 iterations of an optimizer;
# - a matrix on a pool of twelve frequencies per column.
#
# Nystroem, whose columns are kernel values at rows of the data, is included as a reference.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bochner import FourierFeatures, KernelErrorDisplay

X_train, X_test = train_test_split(load_digits().data, test_size=1 / 3, random_state=0)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
length_scale = FourierFeatures(random_state=0).find_length_scale(X_train)


def fourier(seed, **parameters):
    return FourierFeatures(length_scale=length_scale, random_state=seed, **parameters)


levels = {
    "weights 1/M": lambda width, seed: fourier(seed, n_frequencies=width // 2, weighting="uniform"),
    "one weight per frequency": lambda width, seed: fourier(seed, n_frequencies=width // 2),
    "refined frequencies": lambda width, seed: fourier(seed, n_frequencies=width // 2, refine=60),
    "matrix": lambda width, seed: fourier(seed, n_frequencies=12 * width, n_components=width, weighting="matrix"),
    "Nystroem": lambda width, seed: Nystroem(gamma=0.5 / length_scale**2, n_components=width, random_state=seed),
}

# %%
# Errors on held-out rows
# -----------------------
# The singular value decomposition of the exact kernel matrix gives the lowest error of any matrix of that rank. It
# knows the test rows, which no method does.

widths = (16, 32, 64)
exact = fourier(0, n_frequencies=1).fit(X_train).exact_kernel(X_test)


def error(features):
    Z = features.fit(X_train).transform(X_test)
    return np.linalg.norm(exact - Z @ Z.T) / np.linalg.norm(exact)


errors = {name: [[error(make(width, seed)) for seed in range(2)] for width in widths] for name, make in levels.items()}
eigenvalues = np.linalg.eigvalsh(exact)[::-1]
limit = [np.linalg.norm(eigenvalues[width:]) / np.linalg.norm(eigenvalues) for width in widths]

styles = {
    "weights 1/M": {"color": "C4", "marker": "o", "linestyle": "-."},
    "one weight per frequency": {"color": "C2", "marker": "s"},
    "refined frequencies": {"color": "C1", "marker": "^"},
    "matrix": {"color": "C0", "marker": "D"},
    "Nystroem": {"color": "C5", "marker": "x", "linestyle": "--"},
}
figure, ax = plt.subplots(figsize=(6.4, 5.0))
KernelErrorDisplay(widths, errors).plot(ax=ax, styles=styles)
ax.plot(widths, limit, color="black", linestyle=":", label="best of that rank (SVD)")
ax.set_title(f"Gaussian kernel of {len(X_test)} test rows of the digits, mean of 2 seeds", fontsize=10)
ax.get_legend().remove()
figure.legend(loc="outside lower center", ncols=3)
plt.show()

# %%
# Conclusion
# ----------
# Weights and refined frequencies leave the cost of ``transform`` as it is. A matrix needs the cosines of the whole
# pool, and has the lowest error for the number of columns that it returns. It is worth its price if what follows is
# more expensive than the features, as a model with many columns is.

for name, values in errors.items():
    print(f"{name:25s} {np.mean(values[-1]) / limit[-1]:4.1f} times the SVD limit with {widths[-1]} columns")
