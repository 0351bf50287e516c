# SPDX-License-Identifier: BSD-3-Clause
"""
Kernel error against width on the digits
========================================

Plain random Fourier features, orthogonal ones, and what the data-driven weights add to each, beside Nystroem.
Run it to make ``docs/images/kernel-error.png`` again.
"""

from dataclasses import replace
from pathlib import Path

from bochner import KernelErrorDisplay
from bochner.experiments.datasets import digits
from bochner.experiments.report import Summary
from bochner.experiments.run import run_kernel_study
from bochner.experiments.studies import DEMO

LABELS = {
    "mc + uniform": "random Fourier features (mc, uniform)",
    "mc + stein": "mc, stein weights",
    "orthogonal + uniform": "orthogonal, uniform",
    "orthogonal + stein": "orthogonal, stein weights (default)",
    "Nystroem": "Nystroem",
}


def main() -> None:
    study = replace(DEMO, samplers=("mc", "orthogonal"), weightings=("uniform", "stein"), seeds=tuple(range(10)))
    data = digits()
    summary = Summary(study, data, list(run_kernel_study(study, data)))
    columns = [2 * size for size in study.n_frequencies]
    display = KernelErrorDisplay(columns, {label: summary.errors[method] for method, label in LABELS.items()}).plot()
    display.ax_.set_title(f"Gaussian kernel on digits: {len(data.X_test)} held-out rows, mean of 10 seeds", fontsize=10)
    display.ax_.get_legend().remove()
    display.figure_.legend(loc="outside lower center", ncols=2, frameon=False)
    display.figure_.set_size_inches(7.0, 5.2)
    display.figure_.savefig(Path(__file__).parents[1] / "docs" / "images" / "kernel-error.png", dpi=120)


if __name__ == "__main__":
    main()
