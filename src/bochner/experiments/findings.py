# SPDX-License-Identifier: BSD-3-Clause
"""Findings: the rows of a study as arrays, and whether they bear out what the paper claims, in computed sentences."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bochner.blocks import Floats, Mask
from bochner.experiments.datasets import Split
from bochner.experiments.store import Row
from bochner.experiments.studies import BASELINES, DEFAULT, NYSTROEM, PAPER_ERRORS, Study

__all__ = ["Findings", "Verdict", "percent", "standard_error"]

WITHIN = 1.05  # of the paper's value counts as its value


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds on a data set, and the figures that say so."""

    dataset: str
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
        """One a data set."""
        return [self._verdict(name, split) for name, split in self.splits.items()]

    def _of(self, name: str, method: str, size: int, n_pairs: int, bandwidth: str | None) -> list[Row]:
        dataset, bandwidth = self.splits[name].name, bandwidth or str(self.study.bandwidths[0])
        keys = [(dataset, method, size, n_pairs, bandwidth, seed) for seed in self.study.seeds]
        return [self._found.get(key) or self._found[(*key[:3], 0, *key[4:])] for key in keys]

    def _verdict(self, name: str, split: Split) -> Verdict:
        holds, sentence = JUDGES[self.study.name](self, name)
        if not split.paper:
            return Verdict(split.name, "cannot be judged", f"Not one of the paper's data sets. {sentence}")
        if split.reduced:
            return Verdict(split.name, "cannot be judged", f"Reduced data: {split.reduced}. {sentence}")
        return Verdict(split.name, "reproduced" if holds else "not reproduced", sentence)


def standard_error(values: Floats) -> Floats:
    """Standard error of the mean over the last axis; 0 for a single value."""
    n = values.shape[-1]
    return np.asarray(values.std(axis=-1, ddof=1) / np.sqrt(n)) if n > 1 else np.zeros(values.shape[:-1])


def percent(values: Floats) -> str:
    """Mean and standard error of errors, in %, to the digits that a table has."""
    mean, error = 100.0 * float(values.mean()), 100.0 * float(standard_error(values))
    digits = 3 if mean < 1.0 else 2
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def lower(ours: Floats, theirs: Floats) -> Mask:
    """Whether errors (..., n_seeds) are lower by more than one standard error of the seeds' differences."""
    gain = theirs - ours
    return np.asarray(gain.mean(axis=-1) > standard_error(gain))


def _judge_table2(found: Findings, name: str) -> tuple[bool, str]:
    errors = {method: found.errors(name, method)[0] for method in found.study.methods}
    mean = {method: 100.0 * float(values.mean()) for method, values in errors.items()}
    best = min(BASELINES, key=mean.__getitem__)
    ours = f"SES {percent(errors['SES'])} %"
    beside = (
        f"The lowest of the four is {best} ({percent(errors[best])} %); {DEFAULT} has {percent(errors[DEFAULT])} %, "
        f"Nystroem {percent(errors[NYSTROEM])} %."
    )
    if name not in PAPER_ERRORS:
        return True, f"{ours}. {beside}"
    paper = PAPER_ERRORS[name]
    champion = min(paper.values())
    reached = "no worse than" if mean[DEFAULT] <= champion else f"{100 * (mean[DEFAULT] / champion - 1):.1f} % above"
    return mean["SES"] <= WITHIN * paper["SES"], (
        f"{ours}, in the paper {paper['SES']:g} % ({100 * (mean['SES'] / paper['SES'] - 1):+.1f} %). {beside} "
        f"{DEFAULT} is {reached} the paper's best column ({champion:g} %)."
    )


def _judge_figure1(found: Findings, name: str) -> tuple[bool, str]:
    parts = []
    holds = True
    for bandwidth in found.study.bandwidths:
        errors = {method: found.errors(name, method, str(bandwidth)) for method in found.study.methods}
        wins = np.all([lower(errors["SES"], errors[method]) for method in BASELINES[:3]], axis=0)
        ratio = errors["SES"].mean(axis=1) / np.min([errors[method].mean(axis=1) for method in BASELINES[:3]], axis=0)
        ahead = int((errors[NYSTROEM].mean(axis=1) < errors["SES"].mean(axis=1)).sum())
        if bandwidth == found.study.bandwidths[0]:
            holds = bool(wins.all()) if name != "years" else bool((ratio <= WITHIN).all())
        parts.append(
            f"At the {bandwidth} length scale ({found.length_scale(name, str(bandwidth)):.3g}) SES is below MC, QMC "
            f"and BQ by more than one standard error at {wins.sum()} of {len(wins)} sizes, with {ratio[0]:.2f} times "
            f"the error of the best of them at M = {found.sizes(name)[0]} and {ratio[-1]:.2f} times at M = "
            f"{found.sizes(name)[-1]}; Nystroem is below SES at {ahead}."
        )
    return holds, " ".join(parts)


def _judge_figure2(found: Findings, name: str) -> tuple[bool, str]:
    sizes = found.sizes(name)
    small, large = 32 if 32 in sizes else sizes[0], sizes[-1]
    spreads, sums = {}, {}
    for method in ("BQ", "SES"):
        weights = {size: size * found.weights(name, method, size) for size in (small, large)}
        spreads[method] = [float(np.sqrt(np.square(weights[size] - 1.0).mean())) for size in (small, large)]
        sums[method] = [float(weights[size].mean()) for size in (small, large)]
    gaps = [
        float(np.abs(size * (found.weights(name, "SES", size) - found.weights(name, "BQ", size))).mean())
        for size in (small, large)
    ]
    told = "; ".join(
        f"{method}'s weights differ from 1/M by {100 * spreads[method][0]:.0f} % at M = {small} and "
        f"{100 * spreads[method][1]:.0f} % at M = {large} (root mean square), their sum is {sums[method][0]:.3f} and "
        f"{sums[method][1]:.3f}"
        for method in ("BQ", "SES")
    )
    holds = gaps[1] < gaps[0] and all(spreads[method][1] < spreads[method][0] for method in spreads)
    return holds, f"{told}; they differ from each other by {100 * gaps[0]:.0f} % and {100 * gaps[1]:.0f} % on average."


def _judge_figure3(found: Findings, name: str) -> tuple[bool, str]:
    ratios, parts, holds = np.array(found.study.ratios), [], True
    for size in found.sizes(name):
        errors = {method: found.pair_errors(name, method, size) for method in found.study.methods}
        sketched = errors["SES, pairs"]
        wins = lower(sketched, errors["QMC"])
        settled = float(sketched[ratios == 4].mean() / sketched[-1].mean())
        holds &= bool(wins[ratios > 1].all()) and settled <= 1.1
        won = ratios[np.logical_and.accumulate(wins[::-1])[::-1]]
        since = f"from r = {won[0]:g} M on" if len(won) else "at no r"
        bq = errors["BQ"].mean(axis=1)
        parts.append(
            f"M = {size}: SES on sampled pairs is below QMC {since}; its error at 4 M pairs is {settled:.2f} times "
            f"that at {ratios[-1]:g} M, and {sketched[ratios == 4].mean() / errors['SES'][ratios == 4].mean():.2f} "
            f"times that on all pairs of 4 M rows; BQ's varies by a factor of {bq.max() / bq.min():.2f} with r."
        )
    return holds, " ".join(parts)


def _judge_figure4(found: Findings, name: str) -> tuple[bool, str]:
    plain, uniform, own = (found.errors(name, method) for method in found.study.methods[:3])
    shrinks, better = lower(uniform, plain), lower(own, uniform)
    ratio = own.mean(axis=1) / uniform.mean(axis=1)
    return bool(shrinks.all() and better.all()), (
        f"The uniform shrinkage weight is below plain MC by more than one standard error at {shrinks.sum()} of "
        f"{len(shrinks)} sizes; one weight each is below it at {better.sum()}, with {ratio[0]:.2f} times its error at "
        f"M = {found.sizes(name)[0]} and {ratio[-1]:.2f} times at M = {found.sizes(name)[-1]}."
    )


JUDGES: dict[str, Callable[[Findings, str], tuple[bool, str]]] = {
    "table2": _judge_table2,
    "figure1": _judge_figure1,
    "figure2": _judge_figure2,
    "figure3": _judge_figure3,
    "figure4": _judge_figure4,
}
