# SPDX-License-Identifier: BSD-3-Clause
"""Studies: what is compared with what, as data.

A study names its methods, sizes, length scales and seeds, what is measured in each fit, and how the results are shown:
the kinds of its tables and figures, and the claims that are tested. Everything else reads these fields; no other module
knows a study by its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from reproduction.methods import METHODS
from reproduction.predictors import ALPHAS, CS

__all__ = ["ALL", "MEDIAN", "TUNED", "LengthScale", "Study"]

REVISION = 2  # increase it with every change of the code that changes rows
ALL = 10**9  # rows: no limit


@dataclass(frozen=True)
class LengthScale:
    """How a length scale is found: a multiple of the median distance, of the tuned length scale, or of 1 in a grid."""

    rule: Literal["median", "tuned", "grid"]
    factor: float = 1.0

    @property
    def label(self) -> str:
        """The name in rows and tables."""
        return self.rule if self.factor == 1.0 or self.rule == "grid" else f"{self.factor:g} x {self.rule}"


MEDIAN, TUNED = LengthScale("median"), LengthScale("tuned")


@dataclass(frozen=True)
class Study:
    """One comparison of methods.

    Attributes
    ----------
    name, title, claim : str
        The name on the command line, the title on the page, and what the paper claims.
    measure : {"kernel", "prediction", "weights"}
        What a fit is measured by: the kernel error, the test error of a linear model, or the weights.
    methods : tuple of str
        Names in `METHODS`.
    datasets : tuple of str
        The data sets of the study; any other data are used when none of these is at hand.
    n_frequencies : tuple of int or mapping from str to int
        Values of M, or one value per data set.
    length_scales : tuple of LengthScale
        The length scales.
    ratios : tuple of float
        Sampled pairs per frequency; empty for the default of the weighting.
    seeds : tuple of int
        Repetitions.
    n_train, n_test : int
        Largest numbers of training and test rows; more are sampled.
    tables, figures, claims : tuple of str
        Kinds of tables, figures and statements: keys of `report.TABLES`, `figures.PANELS` and `claims.CLAIMS`.
    """

    name: str
    title: str
    measure: Literal["kernel", "prediction", "weights"]
    methods: tuple[str, ...]
    claim: str = ""
    datasets: tuple[str, ...] = ()
    n_frequencies: tuple[int, ...] | Mapping[str, int] = ()
    length_scales: tuple[LengthScale, ...] = (MEDIAN,)
    ratios: tuple[float, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    n_train: int = 20_000
    n_test: int = 2_000
    tables: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()

    def sizes(self, dataset: str) -> tuple[int, ...]:
        """Return the values of M for a data set."""
        if isinstance(self.n_frequencies, Mapping):
            return (self.n_frequencies[dataset],)
        return self.n_frequencies

    @property
    def labels(self) -> list[str]:
        """The labels of the length scales."""
        return [scale.label for scale in self.length_scales]

    def protocol(self, method: str) -> str:
        """Return a few characters that change with any setting in this module that changes a method's rows."""
        penalties = [ALPHAS, CS] if self.measure == "prediction" else []
        rows = (self.n_train, self.n_test, False)  # False: all seeds share the sampled rows
        settings = (REVISION, self.name, self.measure, rows, METHODS[method].settings(), penalties)
        return sha256(repr(settings).encode()).hexdigest()[:8]
