# SPDX-License-Identifier: BSD-3-Clause
"""
Kernel error against columns
============================

Features replace a kernel matrix by the inner products of a few columns. This example shows how close five methods come
to the Gaussian kernel of the digits: first as pictures of the matrix, then as errors against the number of columns.
:doc:`/guide/kernel-error` explains the error, and :doc:`/guide/landmarks` the method with the lowest one.
"""

# %%
# The data
# --------
# The digits of scikit-learn are images of 64 pixels. All methods are fitted on two thirds of the rows. They
# approximate the same kernel, whose length scale is the median distance of two rows. Errors are measured on the other
# rows.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bochner import FourierFeatures, KernelErrorDisplay, LandmarkFeatures

X, y = load_digits(return_X_y=True)
X_train, X_test, _, y_test = train_test_split(X, y, test_size=1 / 3, random_state=0)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

length_scale = FourierFeatures(random_state=0).find_length_scale(X_train)
print(f"length scale: {length_scale:.2f}")

# %%
# The methods
# -----------
# Each entry makes features with a given number of columns. A frequency has two columns, a cosine and a sine; a landmark
# has one.


def plain(width, seed):
    return FourierFeatures(
        length_scale=length_scale, n_frequencies=width // 2, sampler="mc", weighting="uniform", random_state=seed
    )


def fourier(width, seed):
    return FourierFeatures(length_scale=length_scale, n_frequencies=width // 2, random_state=seed)


def nystroem(width, seed):
    return Nystroem(gamma=0.5 / length_scale**2, n_components=width, random_state=seed)


def landmarks(width, seed):
    return LandmarkFeatures(length_scale=length_scale, n_landmarks=width, random_state=seed)


methods = {
    "plain random Fourier features": plain,
    "FourierFeatures": fourier,
    "Nystroem (scikit-learn)": nystroem,
    "LandmarkFeatures": landmarks,
}

# %%
# The matrix as a picture
# -----------------------
# The test rows are sorted by digit, so that the exact kernel matrix has ten bright blocks on its diagonal. The other
# pictures show the absolute errors with 64 columns. Plain random Fourier features are wrong everywhere. The default
# sampler and weights reduce the errors, and landmarks leave nearly none.

order = np.argsort(y_test, kind="stable")
rows = X_test[order]
exact = fourier(2, 0).fit(X_train).exact_kernel(rows)

figure, axes = plt.subplots(1, 4, figsize=(10.5, 3.8), sharex=True, sharey=True, layout="compressed")
kernel_image = axes[0].imshow(exact)
axes[0].set_title("exact kernel", fontsize=10)
for ax, name in zip(axes[1:], ("plain random Fourier features", "FourierFeatures", "LandmarkFeatures"), strict=True):
    Z = methods[name](64, 0).fit(X_train).transform(rows)
    error_image = ax.imshow(np.abs(Z @ Z.T - exact), cmap="Greys", vmin=0.0, vmax=0.25)
    ax.set_title(name, fontsize=10)
for ax in axes:
    ax.set(xlabel="test row")
    ax.spines[:].set_visible(True)
axes[0].set_ylabel("test row, sorted by digit")
figure.colorbar(kernel_image, ax=axes[0], label="kernel", location="bottom")
figure.colorbar(error_image, ax=axes[1:], label="absolute error", location="bottom", shrink=0.4)
plt.show()

# %%
# The error against the number of columns
# ---------------------------------------
# The relative kernel error is :math:`|K - Z Z^T| / |K|` in the Frobenius norm. Each point is the mean of two seeds,
# with bars of one standard error.

widths = (16, 32, 64, 128, 256)


def error(features):
    Z = features.fit(X_train).transform(rows)
    return np.linalg.norm(exact - Z @ Z.T) / np.linalg.norm(exact)


errors = {name: [[error(make(width, seed)) for seed in range(2)] for width in widths] for name, make in methods.items()}
styles = {
    name: {"color": f"C{i}", "marker": marker, "linestyle": linestyle}
    for i, (name, marker, linestyle) in enumerate(zip(methods, "osx^", ("-.", "-", "--", "-"), strict=True))
}
figure, ax = plt.subplots(figsize=(6.4, 5.0))
KernelErrorDisplay(widths, errors).plot(ax=ax, styles=styles)
ax.set_title(f"Gaussian kernel of {len(rows)} test rows of the digits", fontsize=10)
ax.get_legend().remove()
figure.legend(loc="outside lower center", ncols=2)
plt.show()

# %%
# Conclusion
# ----------
# Weights lower the error of Fourier features without any cost in ``transform``. On smooth kernels like this one,
# landmarks have a far lower error per column, because they lie where the rows are.

for name, values in errors.items():
    print(f"{name:32s} {100 * np.mean(values[-1]):5.2f} % with {widths[-1]} columns")
