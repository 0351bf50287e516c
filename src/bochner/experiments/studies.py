# SPDX-License-Identifier: BSD-3-Clause
"""Studies: what is compared with what, as data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import product
from typing import Any, Literal

from sklearn.base import clone

from bochner.experiments.predictors import ALPHAS, CS
from bochner.weightings import Quadrature, Stein, Weighting

__all__ = [
    "BANDWIDTH",
    "COMPARISON",
    "DEMO",
    "KMEANS_NYSTROEM",
    "LIMIT",
    "METHODS",
    "NYSTROEM",
    "PAPER_ERRORS",
    "RECIPES",
    "STUDIES",
    "TASK_SIZES",
    "ComparisonStudy",
    "KernelStudy",
    "Recipe",
    "Study",
    "method_name",
    "quick",
]

NYSTROEM = "Nystroem"
KMEANS_NYSTROEM = "k-means Nystroem"
LIMIT = "SVD limit"
QMC = "quasi-Monte Carlo"
REVISION = 1  # of how rows are made; to be raised with a change of the code that changes them
DEFAULT = "orthogonal + stein"


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


@dataclass(frozen=True)
class Recipe:
    """Fourier features for a number of columns: the weighting, the frequencies a column, the moves of them."""

    weighting: str
    pool: float = 0.5
    refine: int = 0

    def settings(self, width: int) -> dict[str, Any]:
        """The parameters of `FourierFeatures` that are not its defaults.

        Examples
        --------
        >>> from bochner.experiments.studies import RECIPES
        >>> RECIPES["matrix"].settings(64)
        {'weighting': 'matrix', 'n_frequencies': 768, 'n_components': 64}
        """
        chosen: dict[str, Any] = {"weighting": self.weighting, "n_frequencies": int(self.pool * width)}
        compressed = {"n_components": width} if self.weighting == "matrix" else {}
        return chosen | compressed | ({"refine": self.refine} if self.refine else {})

    def call(self, width: int) -> str:
        """What to write in a program."""
        return f"FourierFeatures({', '.join(f'{name}={value!r}' for name, value in self.settings(width).items())})"


RECIPES = {
    "uniform": Recipe("uniform"),
    "shrinkage": Recipe("shrinkage"),
    "quadrature": Recipe("quadrature"),
    "stein": Recipe("stein"),
    "refined stein": Recipe("stein", refine=60),
    "matrix": Recipe("matrix", pool=12),
    "refined matrix": Recipe("matrix", pool=4, refine=20),
}


@dataclass(frozen=True)
class ComparisonStudy:
    """Error and time of everything that makes a number of columns, and the limit that none of it can pass.

    Attributes
    ----------
    widths : tuple of int
        Numbers of columns, rising.
    factors : tuple of float
        Length scales in units of the median distance; 1 is among them.
    seeds : tuple of int
        Repetitions.
    n_rows : int
        The most rows that are fitted on, and the most that are measured on.
    """

    widths: tuple[int, ...]
    factors: tuple[float, ...]
    seeds: tuple[int, ...]
    n_rows: int = 2000

    @property
    def methods(self) -> list[str]:
        """Names of the compared methods, the limit not among them."""
        return [*RECIPES, NYSTROEM, KMEANS_NYSTROEM]

    @property
    def n_measurements(self) -> int:
        """How many rows the study has."""
        return (len(self.methods) + 1) * len(self.widths) * len(self.factors) * len(self.seeds)


COMPARISON = ComparisonStudy(widths=(64, 256), factors=(0.5, 1.0, 2.0), seeds=(0, 1, 2, 3))


@dataclass(frozen=True)
class Method:
    """A sampler with a weighting, under the name that tables and legends give it."""

    sampler: str
    weighting: str | Weighting

    def sampling(self, n_columns: int) -> str:
        """The sampler's name for data of so many columns.

        Quasi-Monte Carlo is Sobol's sequence, the better one of the two at powers of two; in more than a hundred
        columns its first points are worse than independent ones, and Halton's are not.
        """
        if self.sampler != QMC:
            return self.sampler
        return "sobol" if n_columns <= 100 else "halton"

    def described(self) -> tuple[str, str, str]:
        """All that the method is made of."""
        parameters = "" if isinstance(self.weighting, str) else repr(sorted(self.weighting.get_params().items()))
        name = self.weighting if isinstance(self.weighting, str) else type(self.weighting).__name__
        return self.sampler, name, parameters

    def weighing(self, n_pairs: int) -> str | Weighting:
        """The weighting, with the study's number of pairs or points where there is one."""
        if not n_pairs or isinstance(self.weighting, str):
            return self.weighting
        all_pairs = isinstance(self.weighting, Stein) and self.weighting.sketch == "points"
        weighting: Weighting = clone(self.weighting)
        weighting.set_params(**{"n_points" if all_pairs else "n_pairs": n_pairs})
        return weighting


METHODS = {
    "MC": Method("mc", "uniform"),
    "QMC": Method(QMC, "uniform"),
    "BQ": Method(QMC, Quadrature()),
    "SES": Method(QMC, Stein()),
    "SES, pairs": Method(QMC, Stein(sketch="pairs")),
    "SES, row-norm pairs": Method(QMC, Stein(sketch="pairs", sampling="row-norm")),
    "MC, uniform shrinkage": Method("mc", "shrinkage"),
    "MC, SES weights": Method("mc", "stein"),
    DEFAULT: Method("orthogonal", "stein"),
}


@dataclass(frozen=True)
class Study:
    """One table or figure of the paper.

    Attributes
    ----------
    name, title, claim : str
        What it is called on the command line and on the page, and what the paper says of it.
    measure : {"kernel", "prediction", "weights"}
        Error of the kernel or of the predictions on the test rows, or the weights themselves.
    datasets, methods : tuple of str
        What is compared on what.
    n_frequencies : tuple of int
        Sizes; empty for the size that the paper gives the data set in Table 2.
    bandwidths : tuple of {"median", "tuned"} or of float
        Length scales: the median distance, the one tuned in favour of MC, or numbers.
    ratios : tuple of float
        Sampled pairs a frequency; empty for the weightings' own.
    seeds : tuple of int
        Repetitions.
    n_train, n_test : int
        The most rows that are fitted on and measured on.
    """

    name: str
    title: str
    claim: str
    measure: Literal["kernel", "prediction", "weights"]
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    n_frequencies: tuple[int, ...] = ()
    bandwidths: tuple[str | float, ...] = ("median",)
    ratios: tuple[float, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    n_train: int = 20_000
    n_test: int = 2_000

    def sizes(self, dataset: str) -> tuple[int, ...]:
        """Numbers of frequencies on a data set of the paper."""
        return self.n_frequencies or (TASK_SIZES[dataset],)

    def protocol(self, method: str) -> str:
        """A few letters that change with the settings of this file that a method's rows depend on."""
        described = METHODS[method].described() if method in METHODS else method
        penalties = [ALPHAS.tolist(), CS.tolist()] if self.measure == "prediction" else []
        told = (REVISION, self.name, self.measure, self.n_train, self.n_test, described, penalties)
        return sha256(repr(told).encode()).hexdigest()[:8]


ALL = 10**9  # rows: no limit
PAPER = ("cpu", "census", "years", "adult", "mnist", "covtype")
BASELINES = ("MC", "QMC", "BQ", "SES")
# Numbers of frequencies in Table 2; digits are ours, to have something that needs no download.
TASK_SIZES = {"cpu": 512, "census": 256, "years": 128, "adult": 64, "mnist": 256, "covtype": 128, "digits": 64}
# Table 2 of the paper: errors in %.
PAPER_ERRORS = {
    "cpu": dict(zip(BASELINES, (3.35, 3.29, 3.29, 3.27), strict=True)),
    "census": dict(zip(BASELINES, (8.46, 6.60, 6.44, 6.49), strict=True)),
    "years": dict(zip(BASELINES, (0.474, 0.473, 0.473, 0.473), strict=True)),
    "adult": dict(zip(BASELINES, (16.21, 15.57, 15.87, 15.45), strict=True)),
    "mnist": dict(zip(BASELINES, (7.33, 7.72, 7.96, 7.71), strict=True)),
    "covtype": dict(zip(BASELINES, (23.36, 22.88, 23.13, 22.67), strict=True)),
}

# Not in the paper's list, but under all of it: the length scale that the cross-validated error of MC is lowest at.
BANDWIDTH = Study(
    name="bandwidth",
    title="The length scale tuned in favour of MC",
    claim="",
    measure="prediction",
    datasets=PAPER,
    methods=("MC",),
    bandwidths=tuple(2.0**power for power in range(-10, 11, 2)),
    seeds=(0, 1, 2),
    n_train=10_000,
    n_test=ALL,
)

STUDIES = {
    study.name: study
    for study in (
        Study(
            name="table2",
            title="Table 2: errors of predictions",
            claim="At selected numbers of features, SES has the lowest test error on cpu, years (with QMC and BQ), "
            "adult and covtype; BQ has it on census and MC on mnist.",
            measure="prediction",
            datasets=PAPER,
            methods=(*BASELINES, DEFAULT, NYSTROEM),
            bandwidths=("tuned",),
            n_train=ALL,
            n_test=ALL,
        ),
        Study(
            name="figure1",
            title="Figure 1: errors of the kernel",
            claim="SES has a lower kernel error than MC, QMC and BQ on cpu, census, adult, mnist and covtype, most of "
            "all with few features, and is competitive with the best of them on years.",
            measure="kernel",
            datasets=PAPER,
            methods=(*BASELINES, DEFAULT, NYSTROEM),
            n_frequencies=(16, 32, 64, 128, 256, 512),
            bandwidths=("median", "tuned"),
        ),
        Study(
            name="figure2",
            title="Figure 2: weights of the features",
            claim="With few features the weights of BQ and SES differ much; with more they settle and come closer to "
            "1/M.",
            measure="weights",
            datasets=("adult",),
            methods=("QMC", "BQ", "SES"),
            n_frequencies=(16, 32, 64, 128, 256, 512),
        ),
        Study(
            name="figure3",
            title="Figure 3: number of sampled pairs",
            claim="As soon as the number of sampled pairs r exceeds M, SES has a lower error than QMC, and 2 M to 4 M "
            "pairs are enough, however many rows there are. The error of BQ tuned on the same pairs varies erratically "
            "with r.",
            measure="kernel",
            datasets=("census", "covtype"),
            methods=("QMC", "BQ", "SES, pairs", "SES, row-norm pairs", "SES", NYSTROEM),
            n_frequencies=(64, 256),
            ratios=(0.5, 1, 2, 4, 8, 16),
        ),
        Study(
            name="figure4",
            title="Figure 4: one weight for all features, or one for each",
            claim="Both shrink the error of plain features; non-uniform weights shrink it more than the uniform one.",
            measure="kernel",
            datasets=("cpu", "census"),
            methods=("MC", "MC, uniform shrinkage", "MC, SES weights", NYSTROEM),
            n_frequencies=(16, 32, 64, 128, 256, 512),
            seeds=tuple(range(20)),  # what one number shrinks is less than what frequencies vary
        ),
    )
}


def quick(study: Study, seeds: Sequence[int] = (0, 1, 2)) -> Study:
    """The study on the bundled digits alone, with fewer seeds and length scales: a look at everything in a minute."""
    bandwidths = tuple(scale for scale in study.bandwidths if isinstance(scale, str) or 1.0 <= scale <= 64.0)
    return replace(study, datasets=("digits",), bandwidths=bandwidths, seeds=tuple(seeds))
