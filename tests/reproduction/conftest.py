# SPDX-License-Identifier: BSD-3-Clause
"""A run of all studies on small data."""

from dataclasses import replace

import joblib
import pytest

from reproduction.paper import STUDIES
from reproduction.report import Report
from reproduction.run import Plan
from reproduction.store import Store
from tests.reproduction.examples import TUNING, make_split

SMALL_STUDIES = [
    replace(
        study,
        n_frequencies=(4, 32) if isinstance(study.n_frequencies, tuple) else {"digits": 8},
        ratios=study.ratios and (0.5, 4, 16),
        seeds=(0, 1, 2),
    )
    for study in STUDIES.values()
]


@pytest.fixture(scope="session")
def small_run(tmp_path_factory):
    """The plan and the store of all studies of the paper, run once on small data, without more processes."""
    plan = Plan(SMALL_STUDIES, {"digits": make_split()}, replace(TUNING, n_frequencies={"digits": 8}))
    with (
        joblib.parallel_config(backend="sequential"),
        Store.open(tmp_path_factory.mktemp("run") / "rows.csv") as store,
    ):
        n_finished = sum(plan.run(store))
    assert n_finished == len(store.rows)
    return plan, store


@pytest.fixture(scope="session")
def small_report(small_run):
    plan, store = small_run
    return Report(plan, store.rows, "python -m reproduction <all>")
