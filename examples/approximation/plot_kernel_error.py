# SPDX-License-Identifier: BSD-3-Clause
"""
Kernel error against the number of columns
==========================================

Compare Fourier features and landmark features with plain random Fourier features and with scikit-learn's Nystroem on
the digits. Running this example writes ``docs/images/kernel-error.png``; it takes about a minute.
"""

from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler

from bochner import FourierFeatures, KernelErrorDisplay, LandmarkFeatures
from bochner.kernels import Gaussian

WIDTHS = (16, 32, 64, 128, 256, 512)
SEEDS = range(10)


def main() -> None:
    X = load_digits().data
    train, test = np.array_split(np.random.default_rng(0).permutation(len(X)), 2)
    scaler = StandardScaler().fit(X[train])
    X_train, X_test = scaler.transform(X[train]), scaler.transform(X[test])

    # All methods approximate the same kernel: the Gaussian kernel at the median distance.
    length_scale = FourierFeatures(random_state=0).find_length_scale(X_train)
    exact = Gaussian()(X_test / length_scale)
    fourier = partial(FourierFeatures, length_scale=length_scale)
    landmarks = partial(LandmarkFeatures, length_scale=length_scale)
    plain = partial(fourier, sampler="mc", weighting="uniform")
    nystroem = partial(Nystroem, gamma=0.5 / length_scale**2)
    methods = {
        "random Fourier features": lambda w, seed: plain(n_frequencies=w // 2, random_state=seed),
        "FourierFeatures()": lambda w, seed: fourier(n_frequencies=w // 2, random_state=seed),
        "Nystroem (scikit-learn)": lambda w, seed: nystroem(n_components=w, random_state=seed),
        "LandmarkFeatures()": lambda w, seed: landmarks(n_landmarks=w, random_state=seed),
        "LandmarkFeatures, 3 landmarks per column": lambda w, seed: landmarks(
            n_landmarks=3 * w, n_components=w, random_state=seed
        ),
    }

    def error(transformer):
        Z = transformer.fit(X_train).transform(X_test)
        return np.linalg.norm(exact - Z @ Z.T) / np.linalg.norm(exact)

    errors = {
        name: [[error(make(width, seed)) for seed in SEEDS] for width in WIDTHS] for name, make in methods.items()
    }
    display = KernelErrorDisplay(WIDTHS, errors).plot()
    display.ax_.set_title(f"Gaussian kernel on digits: {len(test)} held-out rows, mean of {len(SEEDS)} seeds", size=10)
    display.ax_.get_legend().remove()
    display.figure_.legend(loc="outside lower center", ncols=2, frameon=False)
    display.figure_.set_size_inches(7.0, 5.2)
    display.figure_.savefig(Path(__file__).parents[1] / "docs" / "images" / "kernel-error.png", dpi=120)


if __name__ == "__main__":
    main()
