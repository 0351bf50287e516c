# SPDX-License-Identifier: BSD-3-Clause
"""Claims of the paper: whether the rows of a study reproduce them, in computed sentences.

Each kind of claim is a function in `CLAIMS` that returns statements about one data set.
"""

from collections.abc import Callable

import numpy as np

from bochner.rows import Floats, Mask
from reproduction.findings import AS_LOW, Findings, Outcome, Statement, percent, standard_error
from reproduction.methods import DEFAULT, NYSTROEM
from reproduction.paper import BASELINES, PAPER_ERRORS
from reproduction.predictors import ALPHAS, CS

__all__ = ["CLAIMS"]

WITHIN = 1.05  # an error of up to this many times the paper's counts as the paper's
FEWEST_SEEDS = 3  # that can separate a difference from noise


def lower(ours: Floats, theirs: Floats) -> Mask:
    """Return whether errors (..., n_seeds) are lower by more than one standard error of the paired differences."""
    gain = theirs - ours
    return np.asarray(gain.mean(axis=-1) > standard_error(gain))


def _claim(found: Findings, name: str, part: str, holds: bool | None, sentence: str) -> Statement:
    """Return the statement on a part of a claim; it is inconclusive where the data or the seeds allow no conclusion.

    On a data set that the paper does not use, a claim holds or not, but it is neither reproduced nor refuted.
    """
    split, study = found.splits[name], found.study
    obstacles = {
        f"The data are reduced: {split.reduced}.": bool(split.reduced),
        "The paper makes no such claim about this data set.": split.paper and name not in study.datasets,
        f"There are fewer than {FEWEST_SEEDS} seeds.": len(study.seeds) < FEWEST_SEEDS,
        "The differences are within the noise.": holds is None,
    }
    for obstacle, present in obstacles.items():
        if present:
            return Statement(f"{obstacle} {sentence}", part, "inconclusive", split.name)
    outcomes: tuple[Outcome, Outcome] = ("not reproduced", "reproduced")
    if not split.paper:
        outcomes = ("does not hold here", "holds here")
    return Statement(sentence, part, outcomes[bool(holds)], split.name)


def _value(found: Findings, name: str) -> list[Statement]:
    if not found.splits[name].paper:
        return []
    errors = {method: found.errors(name, method)[0] for method in found.study.methods}
    others = f"{DEFAULT} has {percent(errors[DEFAULT])} %, Nystroem {percent(errors[NYSTROEM])} %.{_edges(found, name)}"
    if name not in PAPER_ERRORS or found.splits[name].reduced:  # the paper has no value to compare with
        return [_claim(found, name, "value", None, f"SES has {percent(errors['SES'])} %; {others}")]
    paper = PAPER_ERRORS[name]
    ses, ours = (100.0 * float(errors[method].mean()) for method in ("SES", DEFAULT))
    above = 100.0 * (ours / min(paper.values()) - 1.0)
    reached = "no worse than" if above <= 0.0 else f"{above:.1f} % above"
    sentence = (
        f"SES has {percent(errors['SES'])} %, in the paper {paper['SES']:g} % "
        f"({100.0 * (ses / paper['SES'] - 1.0):+.1f} %; up to 5 % above counts as reproduced). {others} {DEFAULT} is "
        f"{reached} the lowest error in the paper ({min(paper.values()):g} %)."
    )
    return [_claim(found, name, "value", ses <= WITHIN * paper["SES"], sentence)]


def _edges(found: Findings, name: str) -> str:
    """Return a sentence if penalties were selected at an end of their grid."""
    grid = ALPHAS if found.splits[name].task == "regression" else CS
    rows = [row for row in found.rows if row.dataset == found.splits[name].name]
    n_edges = sum(row.penalty in (grid[0], grid[-1]) for row in rows)
    return f" In {n_edges} of {len(rows)} fits the selected penalty is at an end of its grid." if n_edges else ""


def _order(found: Findings, name: str) -> list[Statement]:
    if name not in PAPER_ERRORS or found.splits[name].reduced:
        return []
    errors = {method: found.errors(name, method)[0] for method in BASELINES}
    paper = PAPER_ERRORS[name]
    champion = min(paper, key=lambda method: (paper[method], method != "SES"))  # SES is printed in bold where tied
    others = [method for method in BASELINES if method != champion]
    beats_all = all(lower(errors[champion], errors[method]) for method in others)
    better = [method for method in others if lower(errors[method], errors[champion])]
    best = min(BASELINES, key=lambda method: float(errors[method].mean()))
    sentence = (
        f"In the paper {champion} has the lowest error of the four methods; here {best} has it with "
        f"{percent(errors[best])} %. {' and '.join(better) or 'No other method'} {'are' if len(better) > 1 else 'is'} "
        f"below {champion} by more than one standard error of the difference."
    )
    return [_claim(found, name, "order", True if beats_all else False if better else None, sentence)]


def _lowest_error(found: Findings, name: str) -> list[Statement]:
    statements = []
    for label in found.study.labels:
        errors = {method: found.errors(name, method, label) for method in found.study.methods}
        wins = np.all([lower(errors["SES"], errors[method]) for method in BASELINES[:3]], axis=0)
        below = {
            method: int((errors[method].mean(axis=1) < errors["SES"].mean(axis=1)).sum())
            for method in (DEFAULT, NYSTROEM)
        }
        competitive = bool((_ratio_to_best(found, name, label) <= WITHIN).all())  # the claim about years
        sentence = (
            f"At length scale {found.length_scale(name, label):.3g}, SES is below MC, QMC and BQ by more than one "
            f"standard error at {wins.sum()} of {len(wins)} sizes; {DEFAULT} is below SES at {below[DEFAULT]} sizes, "
            f"Nystroem at {below[NYSTROEM]}."
        )
        holds = competitive if name == "years" else bool(wins.all())
        statements.append(_claim(found, name, f"{label} length scale", holds, sentence))
    return statements


def _few_features(found: Findings, name: str) -> list[Statement]:
    statements, sizes = [], found.study.sizes(name)
    for label in found.study.labels:
        ratio = _ratio_to_best(found, name, label)
        sentence = (
            f"SES has {ratio[0]:.2f} times the error of the best of MC, QMC and BQ at M = {sizes[0]}, and "
            f"{ratio[-1]:.2f} times at M = {sizes[-1]}."
        )
        holds = bool(ratio[0] < min(1.0, ratio[-1]))
        statements.append(_claim(found, name, f"most with few features, {label}", holds, sentence))
    return statements


def _ratio_to_best(found: Findings, name: str, label: str) -> Floats:
    """Return the mean error of SES over that of the best of the paper's other methods (n_sizes,)."""
    means = {method: found.errors(name, method, label).mean(axis=1) for method in BASELINES}
    return np.asarray(means["SES"] / np.min([means[method] for method in BASELINES[:3]], axis=0))


def _end_weights(found: Findings, name: str) -> tuple[tuple[int, int], dict[str, list[Floats]]]:
    """Return a small and the largest size, and the weights of BQ and SES at both, as multiples of 1/M."""
    sizes = found.study.sizes(name)
    ends = (32 if 32 in sizes else sizes[0], sizes[-1])
    return ends, {method: [size * found.weights(name, method, size) for size in ends] for method in ("BQ", "SES")}


def _closer_to_plain(found: Findings, name: str) -> list[Statement]:
    ends, weights = _end_weights(found, name)
    sentences, holds = [], True
    for method, both in weights.items():
        spreads = [100.0 * float(np.sqrt(np.square(values - 1.0).mean())) for values in both]
        sums = [float(values.mean()) for values in both]
        holds &= spreads[1] < spreads[0]
        sentences.append(
            f"The weights of {method} differ from 1/M by {spreads[0]:.0f} % of it at M = {ends[0]} and by "
            f"{spreads[1]:.0f} % at M = {ends[1]} (root mean square); their sum is {sums[0]:.3f} and {sums[1]:.3f}."
        )
    return [_claim(found, name, "closer to 1/M", holds, " ".join(sentences))]


def _closer_to_each_other(found: Findings, name: str) -> list[Statement]:
    ends, weights = _end_weights(found, name)
    gaps = [100.0 * float(np.abs(bq - ses).mean()) for bq, ses in zip(weights["BQ"], weights["SES"], strict=True)]
    sentence = (
        f"On average they differ by {gaps[0]:.0f} % of 1/M at M = {ends[0]} and by {gaps[1]:.0f} % at M = {ends[1]}."
    )
    return [_claim(found, name, "BQ and SES closer to each other", gaps[1] < gaps[0], sentence)]


def _pairs_needed(found: Findings, name: str) -> list[Statement]:
    ratios, sentences, holds = np.array(found.study.ratios), [], True
    for size in found.study.sizes(name):
        errors = {method: found.pair_errors(name, method, size) for method in ("QMC", "SES, pairs", "SES")}
        sampled, at_four = errors["SES, pairs"], ratios == 4
        wins = lower(sampled, errors["QMC"])
        excess = float(sampled[at_four].mean() / sampled[-1].mean())
        holds &= bool(wins[ratios > 1].all()) and excess <= AS_LOW
        won = ratios[np.logical_and.accumulate(wins[::-1])[::-1]]
        where = f"for r >= {won[0]:g} M" if len(won) else "at no r"
        sentences.append(
            f"M = {size}: SES on sampled pairs is below QMC {where}; its error at 4 M pairs is {excess:.2f} times that "
            f"at {ratios[-1]:g} M pairs (up to {AS_LOW} counts as equal), and "
            f"{sampled[at_four].mean() / errors['SES'][at_four].mean():.2f} times that on all pairs of 4 M rows."
        )
    return [_claim(found, name, "pairs that SES needs", holds, " ".join(sentences))]


def _erratic(found: Findings, name: str) -> list[Statement]:
    sizes = found.study.sizes(name)
    means = [found.pair_errors(name, "BQ", size).mean(axis=1) for size in sizes]
    spreads = [float(of_ratio.max() / of_ratio.min()) for of_ratio in means]
    listed = " and ".join(f"{spread:.2f} (M = {size})" for spread, size in zip(spreads, sizes, strict=True))
    sentence = f"The largest error of BQ over all r is {listed} times its smallest; above {AS_LOW} counts as erratic."
    return [_claim(found, name, "BQ erratic", max(spreads) > AS_LOW, sentence)]


def _uniform_shrinkage(found: Findings, name: str) -> list[Statement]:
    plain, uniform = (found.errors(name, method) for method in found.study.methods[:2])
    wins = lower(uniform, plain)
    sentence = (
        f"MC with one shrinkage factor is below plain MC by more than one standard error at {wins.sum()} of "
        f"{len(wins)} sizes."
    )
    return [_claim(found, name, "uniform below plain", bool(wins.all()), sentence)]


def _weight_per_frequency(found: Findings, name: str) -> list[Statement]:
    uniform, own = (found.errors(name, method) for method in found.study.methods[1:3])
    wins, ratio = lower(own, uniform), own.mean(axis=1) / uniform.mean(axis=1)
    sizes = found.study.sizes(name)
    sentence = (
        f"One weight per frequency is below one shrinkage factor by more than one standard error at {wins.sum()} of "
        f"{len(wins)} sizes, with {ratio[0]:.2f} times its error at M = {sizes[0]} and {ratio[-1]:.2f} times at M = "
        f"{sizes[-1]}."
    )
    return [_claim(found, name, "non-uniform below uniform", bool(wins.all()), sentence)]


CLAIMS: dict[str, Callable[[Findings, str], list[Statement]]] = {
    "value": _value,
    "order": _order,
    "lowest error": _lowest_error,
    "few features": _few_features,
    "closer to 1/M": _closer_to_plain,
    "BQ and SES closer": _closer_to_each_other,
    "pairs needed": _pairs_needed,
    "BQ erratic": _erratic,
    "uniform shrinkage": _uniform_shrinkage,
    "one weight per frequency": _weight_per_frequency,
}
