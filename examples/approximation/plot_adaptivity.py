# SPDX-License-Identifier: BSD-3-Clause
"""
From weights to matrices
========================

Compare the levels of adaptivity on the digits at an equal number of columns: plain weights, one weight per frequency,
refined frequencies, and a matrix. Nystroem and the lowest error that any features of that rank can reach are shown for
reference. Running this example writes ``docs/images/adaptivity.png``; it takes about a minute.
"""

from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler

from bochner import FourierFeatures, KernelErrorDisplay

WIDTHS = (16, 32, 64, 128)
SEEDS = range(4)
LIMIT = "best of that rank (SVD)"
# Each line has its own marker or dash, so that the lines stay distinct in print without color.
STYLES = {
    "orthogonal, weights 1/M": {"color": "#c9a227", "marker": "o", "linestyle": "-."},
    "one weight per frequency (stein, the default)": {"color": "#8fb0d3", "marker": "s"},
    "refined frequencies (refine=60)": {"color": "#4c78a8", "marker": "^"},
    'a matrix (weighting="matrix")': {"color": "#17304f", "marker": "D"},
    "Nystroem": {"color": "#9d9d9d", "marker": "x", "linestyle": "--"},
    "Nystroem, k-means landmarks": {"color": "#5f5f5f", "marker": "+", "linestyle": "--"},
    LIMIT: {"color": "#1b1b1b", "linestyle": ":"},
}


def main() -> None:
    X = load_digits().data
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:1198], order[1198:]
    scaler = StandardScaler().fit(X[train])
    X_train, X_test = scaler.transform(X[train]), scaler.transform(X[test])

    # All methods approximate the same kernel: the Gaussian kernel at the median distance.
    reference = FourierFeatures(n_frequencies=1, weighting="uniform", random_state=0).fit(X_train)
    length_scale, exact = reference.length_scale_, reference.exact_kernel(X_test)

    def fitted(method, width, seed):
        if method.startswith("Nystroem"):
            nystroem = Nystroem(gamma=0.5 / length_scale**2, n_components=width, random_state=seed)
            if "k-means" not in method:
                return nystroem.fit(X_train)
            return nystroem.fit(KMeans(width, n_init=1, random_state=seed).fit(X_train).cluster_centers_)
        features = FourierFeatures(length_scale=length_scale, n_frequencies=width // 2, random_state=seed)
        if "1/M" in method:
            features.set_params(weighting="uniform")
        elif "refine" in method:
            features.set_params(refine=60)
        elif "matrix" in method:
            features.set_params(weighting="matrix", n_components=width, n_frequencies=12 * width)
        return features.fit(X_train)

    def error(method, width, seed):
        Z = fitted(method, width, seed).transform(X_test)
        return np.linalg.norm(exact - Z @ Z.T) / np.linalg.norm(exact)

    errors = {
        method: [[error(method, width, seed) for seed in SEEDS] for width in WIDTHS]
        for method in STYLES
        if method != LIMIT
    }
    eigenvalues = np.linalg.eigvalsh(exact)[::-1]
    errors[LIMIT] = [[np.linalg.norm(eigenvalues[width:]) / np.linalg.norm(eigenvalues)] for width in WIDTHS]

    display = KernelErrorDisplay(WIDTHS, errors).plot(styles=STYLES)
    display.ax_.set_title(f"Gaussian kernel on digits: {len(test)} held-out rows, mean of {len(SEEDS)} seeds", size=10)
    display.ax_.get_legend().remove()
    display.figure_.legend(loc="outside lower center", ncols=2, frameon=False)
    display.figure_.set_size_inches(7.0, 6.0)
    display.figure_.savefig(Path(__file__).parents[1] / "docs" / "images" / "adaptivity.png", dpi=120)


if __name__ == "__main__":
    main()
