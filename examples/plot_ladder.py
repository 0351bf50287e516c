# SPDX-License-Identifier: BSD-3-Clause
"""
The ladder: from plain Fourier features to a matrix
===================================================

Every step of the ladder on the digits at equal width, beside Nystroem and the limit that no features of that width can
pass. Run it to make ``docs/images/ladder.png`` again; it takes a few minutes.
"""

from pathlib import Path

import numpy as np

from bochner import KernelErrorDisplay
from bochner.experiments.comparison import Comparison, measure
from bochner.experiments.datasets import load
from bochner.experiments.studies import KMEANS_NYSTROEM, LIMIT, NYSTROEM, ComparisonStudy

# From the top of the picture to its bottom, colours from light to dark; not ours are broken lines.
LINES = {
    "uniform": ("orthogonal, weights 1/M", {"color": "#c9a227", "marker": "o"}),
    "stein": ("one weight a frequency (stein, the default)", {"color": "#8fb0d3", "marker": "s"}),
    "refined stein": ("frequencies moved (refine=60)", {"color": "#4c78a8", "marker": "^"}),
    "matrix": ('a matrix (weighting="matrix")', {"color": "#17304f", "marker": "D"}),
    NYSTROEM: ("Nystroem", {"color": "#9d9d9d", "marker": "x", "linestyle": "--"}),
    KMEANS_NYSTROEM: ("Nystroem, k-means landmarks", {"color": "#5f5f5f", "marker": "+", "linestyle": "--"}),
    LIMIT: ("best of that rank (SVD)", {"color": "#1b1b1b", "linestyle": ":"}),
}


def main() -> None:
    study = ComparisonStudy(widths=(16, 32, 64, 128), factors=(1.0,), seeds=(0, 1, 2, 3))
    data = load("digits")
    comparison = Comparison(study, data, measure(study, data))
    errors = {
        label: np.array([comparison.of("error", method, width) for width in study.widths])
        for method, (label, _) in LINES.items()
    }
    styles = {label: style for label, style in LINES.values()}
    display = KernelErrorDisplay(list(study.widths), errors).plot(styles=styles)
    display.ax_.set_title(
        f"Gaussian kernel on digits: {len(data.X_test)} held-out rows, mean of {len(study.seeds)} seeds", fontsize=10
    )
    display.ax_.get_legend().remove()
    display.figure_.legend(loc="outside lower center", ncols=2, frameon=False)
    display.figure_.set_size_inches(7.0, 6.0)
    display.figure_.savefig(Path(__file__).parents[1] / "docs" / "images" / "ladder.png", dpi=120)


if __name__ == "__main__":
    main()
