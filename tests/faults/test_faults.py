# SPDX-License-Identifier: BSD-3-Clause
"""Faults at random moments of commands: nothing is lost or half-written, and a second run gives the same result."""

import os
import random
from pathlib import Path

import pytest

from tests.faults import inject

N_TIMES = int(os.environ.get("BOCHNER_FAULTS", "1"))  # injections per command and fault


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    return inject.make_commands(folder), folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("fit", "SIGKILL"),
        ("fit --model features", "SIGINT"),
        ("fit --model features", "disk"),
        ("fit --model features", "memory"),
        ("fit --model features", "SIGKILL"),
        ("fit --model features", "SIGTERM"),
        ("predict", "SIGKILL"),
        ("predict", "pipe"),
        ("predict", "clock"),
        ("compare", "SIGINT"),
        ("compare", "SIGKILL"),
        ("report", "SIGTERM"),
        ("export", "disk"),
    ],
)
def test_nothing_is_lost_or_half_written(commands, name, fault):
    found, folder = commands
    dice = random.Random(f"{name}, {fault}")
    assert not inject.inject_some(found[name], fault, N_TIMES, dice, Path(folder))["lost"]
