# SPDX-License-Identifier: BSD-3-Clause
"""Studies: what is compared with what, as data."""

from dataclasses import dataclass
from itertools import product

__all__ = ["DEMO", "NYSTROEM", "KernelStudy", "method_name"]

NYSTROEM = "Nystroem"


def method_name(sampler: str, weighting: str) -> str:
    """How a sampler with a weighting is called in tables and legends."""
    return f"{sampler} + {weighting}"


@dataclass(frozen=True)
class KernelStudy:
    """Error of the Gaussian kernel: every sampler with every weighting, and Nystroem, at equal numbers of columns."""

    samplers: tuple[str, ...]
    weightings: tuple[str, ...]
    n_frequencies: tuple[int, ...]
    seeds: tuple[int, ...]

    @property
    def methods(self) -> list[str]:
        """Names of the compared methods, Nystroem last."""
        return [method_name(*parts) for parts in product(self.samplers, self.weightings)] + [NYSTROEM]

    @property
    def n_fits(self) -> int:
        """How many fits the study takes."""
        return len(self.methods) * len(self.n_frequencies) * len(self.seeds)


DEMO = KernelStudy(
    samplers=("mc", "halton", "sobol", "orthogonal"),
    weightings=("uniform", "shrinkage", "quadrature", "stein"),
    n_frequencies=(16, 32, 64, 128, 256, 512),
    seeds=(0, 1, 2, 3),
)
