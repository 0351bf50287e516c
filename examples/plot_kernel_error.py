# SPDX-License-Identifier: BSD-3-Clause
"""
Kernel error against the number of columns
==========================================

Compare plain random Fourier features, orthogonal frequencies and data-driven weights with Nystroem on the digits.
Running this example writes ``docs/images/kernel-error.png``; it takes about half a minute.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler

from bochner import FourierFeatures, KernelErrorDisplay

WIDTHS = (32, 64, 128, 256, 512, 1024)
SEEDS = range(10)


def main() -> None:
    X = load_digits().data
    train, test = np.array_split(np.random.default_rng(0).permutation(len(X)), 2)
    scaler = StandardScaler().fit(X[train])
    X_train, X_test = scaler.transform(X[train]), scaler.transform(X[test])

    # All methods approximate the same kernel: the Gaussian kernel at the median distance.
    reference = FourierFeatures(n_frequencies=1, weighting="uniform", random_state=0).fit(X_train)
    length_scale, exact = reference.length_scale_, reference.exact_kernel(X_test)

    def fourier(width, seed, sampler, weighting):
        return FourierFeatures(
            length_scale=length_scale,
            n_frequencies=width // 2,
            sampler=sampler,
            weighting=weighting,
            random_state=seed,
        )

    methods = {
        "random Fourier features (mc, uniform)": lambda w, seed: fourier(w, seed, "mc", "uniform"),
        "mc, stein weights": lambda w, seed: fourier(w, seed, "mc", "stein"),
        "orthogonal, uniform": lambda w, seed: fourier(w, seed, "orthogonal", "uniform"),
        "orthogonal, stein weights (default)": lambda w, seed: fourier(w, seed, "orthogonal", "stein"),
        "Nystroem": lambda w, seed: Nystroem(
            gamma=0.5 / length_scale**2, n_components=min(w, len(train)), random_state=seed
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
