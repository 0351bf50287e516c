# SPDX-License-Identifier: BSD-3-Clause
"""Findings: the rows of a study as arrays, and the form of the statements that are computed from them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bochner.rows import Floats
from reproduction.datasets import Split
from reproduction.store import Row
from reproduction.studies import Study

__all__ = ["AS_LOW", "Findings", "Outcome", "Statement", "percent", "standard_error"]

AS_LOW = 1.1  # an error of up to this many times another counts as the same

Outcome = Literal["reproduced", "not reproduced", "holds here", "does not hold here", "inconclusive"]


def standard_error(values: Floats) -> Floats:
    """Return the standard error of the mean over the last axis; 0 for a single value."""
    n = values.shape[-1]
    return np.asarray(values.std(axis=-1, ddof=1) / np.sqrt(n)) if n > 1 else np.zeros(values.shape[:-1])


def percent(values: Floats) -> str:
    """Return the mean and the standard error of errors (n_seeds,) in %, with the digits for a table."""
    mean, error = 100.0 * float(values.mean()), 100.0 * float(standard_error(values))
    digits = ".1e" if 0.0 < mean < 0.01 else ".3f" if mean < 1.0 else ".2f"
    return f"{mean:{digits}}" + (f" ± {error:{digits}}" if len(values) > 1 else "")


@dataclass(frozen=True)
class Statement:
    """A statement that follows from the rows of a data set.

    Attributes
    ----------
    sentence : str
        The statement with its numbers.
    part : str
        The part of the claim that it is about.
    outcome : str
        Whether the part is reproduced, or holds on data that are not those of the paper.
    dataset : str
        The title of the data set.
    """

    sentence: str
    part: str
    outcome: Outcome
    dataset: str

    def __str__(self) -> str:
        """Return the statement as one line of text."""
        return f"{self.dataset}, {self.part}: {self.outcome}. {self.sentence}"


class Findings:
    """The rows of a study on data sets.

    Parameters
    ----------
    study : Study
        The study.
    splits : mapping from str to Split
        The data sets, by the paper's names.
    rows : iterable of Row
        One row per trial of the study.
    """

    def __init__(self, study: Study, splits: dict[str, Split], rows: Iterable[Row]) -> None:
        self.study = study
        self.splits = splits
        self.rows = list(rows)
        self._by_trial = {
            (row.dataset, row.method, row.n_frequencies, row.n_pairs, row.bandwidth, row.seed): row for row in self.rows
        }

    def values(
        self, field: str, name: str, method: str, size: int, label: str | None = None, n_pairs: int = 0
    ) -> Floats:
        """Return a field of the rows of a method (n_seeds,), at the first length scale by default."""
        return np.array([getattr(row, field) for row in self._of(name, method, size, label, n_pairs)])

    def errors(self, name: str, method: str, label: str | None = None) -> Floats:
        """Return the errors that the study is about (n_sizes, n_seeds)."""
        field = "test_error" if self.study.measure == "prediction" else "kernel_error"
        return np.array([self.values(field, name, method, size, label) for size in self.study.sizes(name)])

    def pair_errors(self, name: str, method: str, size: int) -> Floats:
        """Return kernel errors (n_ratios, n_seeds); those of a method without pairs are the same at all ratios."""
        counts = [round(ratio * size) for ratio in self.study.ratios]
        return np.array([self.values("kernel_error", name, method, size, None, count) for count in counts])

    def weights(self, name: str, method: str, size: int) -> Floats:
        """Return the weights of a method (n_seeds, M)."""
        return np.array([[float(w) for w in row.weights.split()] for row in self._of(name, method, size, None, 0)])

    def length_scale(self, name: str, label: str) -> float | None:
        """Return the mean over the seeds of a length scale; None if the study does not use it."""
        dataset = self.splits[name].name
        scales = {row.seed: row.length_scale for row in self.rows if (row.dataset, row.bandwidth) == (dataset, label)}
        return float(np.mean(list(scales.values()))) if scales else None

    def _of(self, name: str, method: str, size: int, label: str | None, n_pairs: int) -> list[Row]:
        dataset, label = self.splits[name].name, label or self.study.labels[0]
        keys = [(dataset, method, size, n_pairs, label, seed) for seed in self.study.seeds]
        return [self._by_trial.get(key) or self._by_trial[(*key[:3], 0, *key[4:])] for key in keys]
