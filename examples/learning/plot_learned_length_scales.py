# SPDX-License-Identifier: BSD-3-Clause
"""
Learned length scales
=====================

Friedman's function has ten columns, of which five are informative. The left panel shows the learned relevances. The
right panel shows the error on held-out rows against the number of Fourier columns, for one length scale, for Nystroem
and for one length scale per column. Running this example writes ``docs/images/learned-length-scales.png``; it takes
about a minute.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.kernel_approximation import Nystroem

from bochner import FourierFeatures, FourierRidge, RelevanceDisplay

SIZES = (16, 32, 64, 128, 256)
SEEDS = range(3)
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
STYLES = {
    "one length scale": {"color": "#c9a227", "marker": "o"},
    "Nystroem, one length scale": {"color": "#7d7d7d", "marker": "x", "linestyle": "--"},
    'one per column (length_scale="learn")': {"color": "#17304f", "marker": "D"},
}


def fit(method: str, size: int, seed: int, X: np.ndarray, y: np.ndarray) -> FourierRidge:
    """Fit the model with 2 * size columns; it selects its length scale and penalty by cross-validation."""
    if method == "one length scale":
        return FourierRidge(FourierFeatures(n_frequencies=size), length_scales=FACTORS, random_state=seed).fit(X, y)
    if method.startswith("one per column"):
        return FourierRidge(FourierFeatures(length_scale="learn", n_frequencies=size), random_state=seed).fit(X, y)
    median = FourierFeatures(n_frequencies=1, weighting="uniform", random_state=seed).fit(X).length_scale_
    gammas = [0.5 / (factor * median) ** 2 for factor in FACTORS]
    models = [FourierRidge(Nystroem(gamma=gamma, n_components=2 * size), random_state=seed) for gamma in gammas]
    return max((model.fit(X, y) for model in models), key=lambda model: model.best_score_)


def main() -> None:
    X, y = make_friedman1(4000, n_features=10, noise=1.0, random_state=0)
    X_train, y_train, X_test, y_test = X[:2000], y[:2000], X[2000:], y[2000:]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for method, style in STYLES.items():
        errors = np.array(
            [
                [1.0 - fit(method, size, seed, X_train, y_train).score(X_test, y_test) for seed in SEEDS]
                for size in SIZES
            ]
        )
        bars = errors.std(axis=1, ddof=1) / np.sqrt(len(SEEDS))
        right.errorbar([2 * size for size in SIZES], errors.mean(axis=1), bars, label=method, markersize=5, **style)
    noise = 1.0 / y_test.var()
    right.axhline(noise, color="#1b1b1b", linestyle=":", label="noise variance")
    right.set(xscale="log", yscale="log", xlabel="columns", ylabel="1 \N{MINUS SIGN} R² on held-out rows")
    right.set_xticks([2 * size for size in SIZES], labels=[str(2 * size) for size in SIZES])
    right.set_yticks([0.05, 0.1, 0.2, 0.5], labels=["0.05", "0.1", "0.2", "0.5"])
    right.minorticks_off()
    right.grid(alpha=0.3)
    right.legend(frameon=False, fontsize=9)
    learned = fit('one per column (length_scale="learn")', 256, 0, X_train, y_train)
    terms = ["sin(π x₀ x₁)", "sin(π x₀ x₁)", "(x₂ \N{MINUS SIGN} ½)²", "10 x₃", "5 x₄", *["uninformative"] * 5]
    names = [f"x{j}:  {term}" for j, term in enumerate(terms)]
    RelevanceDisplay.from_estimator(learned, names=names, ax=left)
    figure.savefig(Path(__file__).parents[1] / "docs" / "images" / "learned-length-scales.png", dpi=120)


if __name__ == "__main__":
    main()
