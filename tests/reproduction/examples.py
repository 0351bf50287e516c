# SPDX-License-Identifier: BSD-3-Clause
"""Small data and rows that the tests of the experiments share."""

from dataclasses import replace

import numpy as np
from sklearn.preprocessing import StandardScaler

from reproduction.datasets import Split
from reproduction.findings import Findings
from reproduction.paper import BANDWIDTH
from reproduction.run import Plan
from reproduction.store import Row, Trial
from reproduction.studies import LengthScale

TUNING = replace(BANDWIDTH, length_scales=(LengthScale("grid", 0.25), LengthScale("grid", 4.0)), seeds=(0,))


def make_split(name="digits", task="classification", **fields):
    """Return 120 training rows and 60 test rows with 3 columns."""
    X = StandardScaler().fit_transform(np.random.default_rng(0).normal(size=(180, 3)))
    y = (X[:, 0] + 0.1 * X[:, 1] > 0).astype(int) if task == "classification" else 5.0 + X[:, 0]
    return Split(name, X[:120], X[120:], y_train=y[:120], y_test=y[120:], task=task, **fields)


def make_row(**fields):
    trial = Trial("figure1", "cpu", "MC", 16, 0, "median", 4.5, 0, "p")
    outcome = {"kernel_error": 0.1, "penalty": 1.0, "fit_seconds": 0.1, "weights": "0.5 0.25"}
    return Row(**(vars(trial) | outcome | {"versions": 'numpy 2, "x"'} | fields))


def make_findings(study, outcome, name="cpu", **fields):
    """Return findings on one data set from a function of the trial that gives its outcome."""
    split = make_split(name, **({"paper": name} | fields))
    trials = Plan([study], {name: split}, TUNING).trials(study, {name: 16.0})
    return Findings(study, {name: split}, [make_row(**(vars(trial) | outcome(trial))) for trial in trials])
