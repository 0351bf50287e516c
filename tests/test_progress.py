# SPDX-License-Identifier: BSD-3-Clause
"""Progress on standard error: lines where there is no terminal, bars in a terminal, nothing unless asked for."""

import re
import sys
from itertools import count

import pytest
from sklearn.base import clone

import bochner.progress
from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures
from bochner.progress import progress_bar, show_progress, track

SMALL = FourierFeatures(n_frequencies=8, random_state=0)
MODELS = [
    (FeatureRegressor(), "accumulating moments"),
    (FeatureClassifier(), "choosing the penalty"),
    (FeatureClassifier(loss="log_loss"), "choosing the penalty"),
]


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 2))
    return X, X[:, 0] > 0.0


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances by one second whenever it is read."""
    seconds = count()
    monkeypatch.setattr(bochner.progress, "monotonic", lambda: float(next(seconds)))


@pytest.mark.parametrize(("model", "task"), MODELS)
def test_verbose_models_print_lines_to_a_log(model, task, data, capsys):
    model = clone(model).set_params(features=SMALL)
    clone(model).set_params(verbose=1).fit(*data)
    written = capsys.readouterr()
    assert written.out == ""
    lines = written.err.splitlines()
    assert any(re.fullmatch(rf"{task}: done after \d+\.\d s", line) for line in lines)
    assert all(re.fullmatch(r"[\w ]+: .* after \d+(\.\d)? s", line) for line in lines)
    model.fit(*data)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("force", [False, True])
def test_lines_need_no_rich(data, capsys, monkeypatch, force):
    if force:
        monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, for rich
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    FeatureRegressor(SMALL, verbose=1).fit(*data)
    assert re.fullmatch(r"accumulating moments: done after \d+\.\d s\n", capsys.readouterr().err)


def test_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with show_progress():
        list(track(range(3), "counting", 3))
    written = capsys.readouterr().err
    assert "counting" in written
    assert "\x1b[" in written
    assert "done after" not in written


def test_long_task_prints_few_lines(clock, capsys):
    with show_progress():
        assert list(track(range(500), "counting", 500)) == list(range(500))
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["counting: 2 of 500 after 2 s", "counting: 4 of 500 after 4 s", "counting: 8 of 500 after 8 s"]
    assert lines[-2:] == ["counting: 256 of 500 after 256 s", "counting: done after 501.0 s"]
    assert len(lines) == 9
    with show_progress(), progress_bar("reading") as advance:
        for _ in range(3):
            advance(0.5)
    assert capsys.readouterr().err.splitlines() == ["reading: 1 after 2 s", "reading: done after 4.0 s"]


def test_short_tasks_of_commands_print_nothing(clock, capsys):
    with show_progress(shortest=4.0), show_progress(verbose=0):
        list(track(range(1), "short", 1))
        assert capsys.readouterr().err == ""
        list(track(range(5), "long", 5))
    assert capsys.readouterr().err.splitlines()[-1] == "long: done after 6.0 s"


def test_failed_and_nameless_tasks_print_nothing(capsys):
    with show_progress():
        with pytest.raises(ZeroDivisionError):
            list(1 / x for x in track([0.0], "dividing"))
        list(track(range(3), ""))
    list(track(range(3), "counting"))
    assert capsys.readouterr().err == ""
