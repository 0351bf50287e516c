# SPDX-License-Identifier: BSD-3-Clause
"""Runs: a study becomes tidy rows, one a fit."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import Nystroem

from bochner.blocks import Floats
from bochner.experiments.datasets import Split
from bochner.experiments.studies import NYSTROEM, KernelStudy, method_name
from bochner.transformer import FourierFeatures

__all__ = ["Row", "run_kernel_study"]


@dataclass(frozen=True)
class Row:
    """One fit and its relative kernel error on the test rows."""

    method: str
    n_frequencies: int
    seed: int
    error: float


def run_kernel_study(study: KernelStudy, data: Split) -> Iterator[Row]:
    """Yield the rows of a study as its fits finish, in parallel over processes with BLAS at one thread each."""
    # The largest sizes first: no core idles at the end.
    tasks = sorted(product(study.n_frequencies, study.seeds), reverse=True)
    parallel = Parallel(n_jobs=-1, return_as="generator_unordered")
    for rows in parallel(delayed(_fit_all)(study, data, size, seed) for size, seed in tasks):
        yield from rows


def _fit_all(study: KernelStudy, data: Split, size: int, seed: int) -> list[Row]:
    """Every method at one size and seed; they share the length scale and the exact kernel."""
    reference = FourierFeatures(n_frequencies=1, weighting="uniform", random_state=seed).fit(data.X_train)
    exact = reference.exact_kernel(data.X_test)
    rows = []
    for method, features in _maps(study, float(reference.length_scale_), size, seed, len(data.X_train)):
        error = _relative_error(exact, features.fit(data.X_train).transform(data.X_test))
        rows.append(Row(method, size, seed, error))
    return rows


def _maps(
    study: KernelStudy, length_scale: float, size: int, seed: int, n_rows: int
) -> Iterator[tuple[str, BaseEstimator]]:
    """The methods of the study at 2 * size columns: ours, then Nystroem with uniformly sampled landmarks."""
    for sampler, weighting in product(study.samplers, study.weightings):
        features = FourierFeatures(
            length_scale=length_scale,
            n_frequencies=size,
            sampler=sampler,
            weighting=weighting,
            random_state=seed,
        )
        yield method_name(sampler, weighting), features
    # More landmarks than rows there cannot be.
    yield NYSTROEM, Nystroem(gamma=0.5 / length_scale**2, n_components=min(2 * size, n_rows), random_state=seed)


def _relative_error(exact: Floats, features: Floats) -> float:
    return float(np.linalg.norm(exact - features @ features.T) / np.linalg.norm(exact))
