# SPDX-License-Identifier: BSD-3-Clause
"""Findings: the rows of a study as arrays, and whether they bear out what the paper claims, in computed sentences."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from bochner.experiments.datasets import Split
from bochner.experiments.predictors import ALPHAS, CS
from bochner.experiments.store import Row
from bochner.experiments.studies import BASELINES, DEFAULT, NYSTROEM, PAPER_ERRORS, STUDIES, Study
from bochner.rows import Floats, Mask

__all__ = ["Findings", "Verdict", "percent", "standard_error"]

WITHIN = 1.05  # times the paper's value counts as its value, and so does less
SETTLED = 1.1  # times an error counts as that error
FEWEST_SEEDS = 3  # that tell a difference from noise


class Judgement(NamedTuple):
    """A part of a claim, whether it holds (None: the differences are within the noise), and the figures."""

    part: str
    holds: bool | None
    sentence: str


@dataclass(frozen=True)
class Verdict:
    """What is to be said of a part of a claim on a data set."""

    dataset: str
    part: str
    outcome: Literal["reproduced", "not reproduced", "cannot be judged"]
    sentence: str


class Findings:
    """The finished rows of a study.

    Parameters
    ----------
    study : Study
        What was run.
    splits : mapping from str to Split
        The data sets it was run on, by the paper's names.
    rows : iterable of Row
        One a trial of the study.
    """

    def __init__(self, study: Study, splits: dict[str, Split], rows: Iterable[Row]) -> None:
        self.study = study
        self.splits = splits
        self.rows = list(rows)
        self._found = {
            (row.dataset, row.method, row.n_frequencies, row.n_pairs, row.bandwidth, row.seed): row for row in self.rows
        }

    def sizes(self, name: str) -> tuple[int, ...]:
        """Numbers of frequencies on a data set."""
        return self.study.sizes(name)

    def errors(self, name: str, method: str, bandwidth: str | None = None) -> Floats:
        """Errors (n_sizes, n_seeds) of a method; the first of the study's bandwidths unless told."""
        return np.array(
            [[row.error for row in self._of(name, method, size, 0, bandwidth)] for size in self.sizes(name)]
        )

    def pair_errors(self, name: str, method: str, size: int) -> Floats:
        """Errors (n_ratios, n_seeds) of a method at a size; a method without pairs has the same at all."""
        counts = [round(ratio * size) for ratio in self.study.ratios]
        return np.array([[row.error for row in self._of(name, method, size, count, None)] for count in counts])

    def weights(self, name: str, method: str, size: int) -> Floats:
        """Weights (n_seeds, M) of a method."""
        return np.array([[float(w) for w in row.weights.split()] for row in self._of(name, method, size, 0, None)])

    def length_scale(self, name: str, bandwidth: str) -> float:
        """The number behind a bandwidth."""
        dataset = self.splits[name].name
        return next(row.length_scale for row in self.rows if (row.dataset, row.bandwidth) == (dataset, bandwidth))

    def verdicts(self) -> list[Verdict]:
        """One or more a data set."""
        return [
            self._verdict(name, split, judgement)
            for name, split in self.splits.items()
            for judgement in JUDGES[self.study.name](self, name)
        ]

    def _of(self, name: str, method: str, size: int, n_pairs: int, bandwidth: str | None) -> list[Row]:
        dataset, bandwidth = self.splits[name].name, bandwidth or str(self.study.bandwidths[0])
        keys = [(dataset, method, size, n_pairs, bandwidth, seed) for seed in self.study.seeds]
        return [self._found.get(key) or self._found[(*key[:3], 0, *key[4:])] for key in keys]

    def _verdict(self, name: str, split: Split, judgement: Judgement) -> Verdict:
        obstacles = (
            (not split.paper, "Not one of the paper's data sets."),
            (bool(split.reduced), f"Reduced data: {split.reduced}."),
            (name not in STUDIES[self.study.name].datasets, "The paper says nothing here of this data set."),
            (len(self.study.seeds) < FEWEST_SEEDS, f"Fewer than {FEWEST_SEEDS} seeds."),
            (judgement.holds is None, "Within the noise."),
        )
        obstacle = next((sentence for stands, sentence in obstacles if stands), None)
        if obstacle:
            return Verdict(split.name, judgement.part, "cannot be judged", f"{obstacle} {judgement.sentence}")
        return Verdict(
            split.name, judgement.part, "reproduced" if judgement.holds else "not reproduced", judgement.sentence
        )


def standard_error(values: Floats) -> Floats:
    """Standard error of the mean over the last axis; 0 for a single value."""
    n = values.shape[-1]
    return np.asarray(values.std(axis=-1, ddof=1) / np.sqrt(n)) if n > 1 else np.zeros(values.shape[:-1])


def percent(values: Floats) -> str:
    """Mean and standard error of errors (n_seeds,), in %, to the digits that a table has."""
    mean, error = 100.0 * float(values.mean()), 100.0 * float(standard_error(values))
    digits = ".1e" if 0.0 < mean < 0.01 else ".3f" if mean < 1.0 else ".2f"
    return f"{mean:{digits}}" + (f" ± {error:{digits}}" if len(values) > 1 else "")


def lower(ours: Floats, theirs: Floats) -> Mask:
    """Whether errors (..., n_seeds) are lower by more than one standard error of the seeds' differences."""
    gain = theirs - ours
    return np.asarray(gain.mean(axis=-1) > standard_error(gain))


def _judge_table2(found: Findings, name: str) -> list[Judgement]:
    errors = {method: found.errors(name, method)[0] for method in found.study.methods}
    mean = {method: 100.0 * float(values.mean()) for method, values in errors.items()}
    beside = f"{DEFAULT} has {percent(errors[DEFAULT])} %, Nystroem {percent(errors[NYSTROEM])} %.{_edges(found, name)}"
    if name not in PAPER_ERRORS or found.splits[name].reduced:  # nothing to compare with
        return [Judgement("value", None, f"SES has {percent(errors['SES'])} %; {beside}")]
    paper = PAPER_ERRORS[name]
    champion = min(paper, key=lambda method: (paper[method], method != "SES"))  # of equals the one in bold
    above = 100.0 * (mean[DEFAULT] / paper[champion] - 1.0)
    reached = "no worse than" if above <= 0.0 else f"{above:.1f} % above"
    value = (
        f"SES has {percent(errors['SES'])} %, in the paper {paper['SES']:g} % "
        f"({100.0 * (mean['SES'] / paper['SES'] - 1.0):+.1f} %; within 5 %, or lower, counts as reproduced). {beside} "
        f"{DEFAULT} is {reached} the paper's best column ({paper[champion]:g} %)."
    )
    others = [method for method in BASELINES if method != champion]
    beats = all(lower(errors[champion], errors[method]) for method in others)
    beaten = [method for method in others if lower(errors[method], errors[champion])]
    best = min(BASELINES, key=mean.__getitem__)
    order = (
        f"In the paper {champion} is the lowest of the four; here it is {best} with {percent(errors[best])} %, and "
        f"{' and '.join(beaten) or 'none of the others'} {'are' if len(beaten) > 1 else 'is'} below {champion} by more "
        f"than one standard error of the difference."
    )
    return [
        Judgement("value", mean["SES"] <= WITHIN * paper["SES"], value),
        Judgement("order", True if beats else False if beaten else None, order),
    ]


def _edges(found: Findings, name: str) -> str:
    """A sentence if penalties were chosen at an end of their grid."""
    dataset, task = found.splits[name].name, found.splits[name].task
    grid = ALPHAS if task == "regression" else CS
    rows = [row for row in found.rows if row.dataset == dataset]
    n_edges = sum(row.penalty in (grid.min(), grid.max()) for row in rows)
    return f" In {n_edges} of {len(rows)} fits the penalty is the first or last of its grid." if n_edges else ""


def _judge_figure1(found: Findings, name: str) -> list[Judgement]:
    judgements = []
    sizes = found.sizes(name)
    for bandwidth in map(str, found.study.bandwidths):
        errors = {method: found.errors(name, method, bandwidth) for method in found.study.methods}
        wins = np.all([lower(errors["SES"], errors[method]) for method in BASELINES[:3]], axis=0)
        ratio = errors["SES"].mean(axis=1) / np.min([errors[method].mean(axis=1) for method in BASELINES[:3]], axis=0)
        ahead = {
            method: int((errors[method].mean(axis=1) < errors["SES"].mean(axis=1)).sum())
            for method in (DEFAULT, NYSTROEM)
        }
        holds = bool((ratio <= WITHIN).all()) if name == "years" else bool(wins.all())
        sentence = (
            f"At {found.length_scale(name, bandwidth):.3g} SES is below MC, QMC and BQ by more than one standard error "
            f"at {wins.sum()} of {len(wins)} sizes; {DEFAULT} is below SES at {ahead[DEFAULT]}, Nystroem at "
            f"{ahead[NYSTROEM]}."
        )
        judgements.append(Judgement(f"{bandwidth} length scale", holds, sentence))
        few = (
            f"SES has {ratio[0]:.2f} times the error of the best of MC, QMC and BQ at M = {sizes[0]}, and "
            f"{ratio[-1]:.2f} times at M = {sizes[-1]}."
        )
        judgements.append(Judgement(f"most with few features, {bandwidth}", bool(ratio[0] < min(1.0, ratio[-1])), few))
    return judgements


def _judge_figure2(found: Findings, name: str) -> list[Judgement]:
    sizes = found.sizes(name)
    ends = (32 if 32 in sizes else sizes[0], sizes[-1])
    weights = {method: [size * found.weights(name, method, size) for size in ends] for method in ("BQ", "SES")}
    spreads = {
        method: [100.0 * float(np.sqrt(np.square(of_size - 1.0).mean())) for of_size in both]
        for method, both in weights.items()
    }
    sums = {method: [float(of_size.mean()) for of_size in both] for method, both in weights.items()}
    told = "; ".join(
        f"{method}'s weights differ from 1/M by {spread[0]:.0f} % of it at M = {ends[0]} and {spread[1]:.0f} % at M = "
        f"{ends[1]} (root mean square), and sum to {sums[method][0]:.3f} and {sums[method][1]:.3f}"
        for method, spread in spreads.items()
    )
    gaps = [100.0 * float(np.abs(bq - ses).mean()) for bq, ses in zip(weights["BQ"], weights["SES"], strict=True)]
    apart = f"On average they differ by {gaps[0]:.0f} % of 1/M at M = {ends[0]} and {gaps[1]:.0f} % at M = {ends[1]}."
    return [
        Judgement("closer to 1/M", all(spread[1] < spread[0] for spread in spreads.values()), f"{told}."),
        Judgement("BQ and SES closer to each other", gaps[1] < gaps[0], apart),
    ]


def _judge_figure3(found: Findings, name: str) -> list[Judgement]:
    ratios, parts, varies, holds = np.array(found.study.ratios), [], [], True
    for size in found.sizes(name):
        errors = {method: found.pair_errors(name, method, size) for method in found.study.methods}
        sketched, at_four = errors["SES, pairs"], ratios == 4
        wins = lower(sketched, errors["QMC"])
        settled = float(sketched[at_four].mean() / sketched[-1].mean())
        holds &= bool(wins[ratios > 1].all()) and settled <= SETTLED
        won = ratios[np.logical_and.accumulate(wins[::-1])[::-1]]
        since = f"from r = {won[0]:g} M on" if len(won) else "at no r"
        parts.append(
            f"M = {size}: SES on sampled pairs is below QMC {since}; its error at 4 M pairs is {settled:.2f} times "
            f"that at {ratios[-1]:g} M (up to {SETTLED} counts as settled), and "
            f"{sketched[at_four].mean() / errors['SES'][at_four].mean():.2f} times that on all pairs of 4 M rows."
        )
        of_r = errors["BQ"].mean(axis=1)
        varies.append(float(of_r.max() / of_r.min()))
    told = " and ".join(f"{ratio:.2f} (M = {size})" for ratio, size in zip(varies, found.sizes(name), strict=True))
    return [
        Judgement("pairs that SES needs", holds, " ".join(parts)),
        Judgement(
            "BQ erratic",
            max(varies) > SETTLED,
            f"The largest error of BQ is {told} times its smallest over all r; above {SETTLED} counts as erratic.",
        ),
    ]


def _judge_figure4(found: Findings, name: str) -> list[Judgement]:
    plain, uniform, own = (found.errors(name, method) for method in found.study.methods[:3])
    shrinks, better = lower(uniform, plain), lower(own, uniform)
    sizes, ratio = found.sizes(name), own.mean(axis=1) / uniform.mean(axis=1)
    return [
        Judgement(
            "uniform below plain",
            bool(shrinks.all()),
            f"The uniform shrinkage weight is below plain MC by more than one standard error at {shrinks.sum()} of "
            f"{len(shrinks)} sizes.",
        ),
        Judgement(
            "non-uniform below uniform",
            bool(better.all()),
            f"One weight each is below the uniform one by more than one standard error at {better.sum()} of "
            f"{len(better)} sizes, with {ratio[0]:.2f} times its error at M = {sizes[0]} and {ratio[-1]:.2f} times at "
            f"M = {sizes[-1]}.",
        ),
    ]


JUDGES: dict[str, Callable[[Findings, str], list[Judgement]]] = {
    "table2": _judge_table2,
    "figure1": _judge_figure1,
    "figure2": _judge_figure2,
    "figure3": _judge_figure3,
    "figure4": _judge_figure4,
}
