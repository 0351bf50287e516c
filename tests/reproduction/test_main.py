# SPDX-License-Identifier: BSD-3-Clause
"""`make reproduce`: runs that are stopped and resumed, data sets that are left out."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import joblib
import pytest

from reproduction import __main__ as command
from reproduction import paper
from reproduction.paper import STUDIES
from reproduction.run import Plan
from reproduction.store import Store
from tests.reproduction.examples import make_split

pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder to run in, with 180 rows instead of any data set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "load", lambda name: make_split(name, paper=name))
    return tmp_path


def test_run_and_run_again(folder, monkeypatch, capsys):
    study = STUDIES["figure4"]
    small = replace(study, n_frequencies=(4, 8), methods=study.methods[:3], seeds=(0, 1, 2))
    monkeypatch.setattr(paper, "STUDIES", {"figure4": small})
    texts = []
    for _ in range(2):
        with joblib.parallel_config(backend="sequential"):
            command.main(["figure4"])
        texts.append(capsys.readouterr().out.splitlines())
    first, again = texts
    assert first[0] == "36 fits, of which 0 are stored in bochner-results/rows.csv."
    assert again[0] == "36 fits, of which 36 are stored in bochner-results/rows.csv."
    assert again[1:] == first[1:]
    assert re.search("cpu, uniform below plain: (not )?reproduced.", "\n".join(first))
    assert first[-1] == "The page: bochner-results/index.html"
    files = sorted(path.name for path in (folder / "bochner-results").iterdir())
    assert files == ["figure4.png", "figure4.svg", "index.html", "results.md", "rows.csv"]
    assert len((folder / "bochner-results" / "rows.csv").read_text().splitlines()) == 37


def test_unknown_study_is_refused(folder):
    with pytest.raises(SystemExit, match="Error: table3 is not one of table2, figure1, figure2, figure3, figure4"):
        command.main(["table3"])
    assert list(folder.iterdir()) == []


def test_missing_data_sets_are_left_out_and_reduced_ones_reported(monkeypatch, capsys):
    def load(name):
        raise ValueError(f"{name} is not here.")

    monkeypatch.setattr(command, "load", load)
    with pytest.raises(SystemExit, match="None of the data sets is available; set BOCHNER_DATA to a folder"):
        command.main(["figure4"])
    assert capsys.readouterr().out == "Left out: cpu is not here.\nLeft out: census is not here.\n"
    monkeypatch.setattr(command, "load", lambda name: make_split(name, paper=name, reduced="180 of 999 rows"))
    monkeypatch.setattr(Plan, "run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(SystemExit, match=r"Stopped\. Finished fits are stored; run the same command to resume"):
        command.main(["figure2"])
    message = "Reduced: adult has only 180 of 999 rows; its results are not comparable with the paper."
    assert capsys.readouterr().out.splitlines()[0] == message


@pytest.mark.slow
def test_killed_run_is_resumed(folder):
    code = (
        "import dataclasses, sys, reproduction.paper as paper; from reproduction.__main__ import main;"
        "small = lambda s: dataclasses.replace(s, n_frequencies=(16, 32, 64));"
        "paper.STUDIES = {name: small(paper.STUDIES[name]) for name in ('figure1', 'figure4')};"
        "main(['--quick'])"
    )
    root = Path(command.__file__).parent.parent

    def start(name):
        (folder / name).mkdir(exist_ok=True)
        # In its own session, so that the worker processes can be killed with it.
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder / name,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])},
            start_new_session=True,
        )

    def finish(process):
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        return out

    whole = finish(start("whole"))
    killed = start("killed")
    rows = folder / "killed" / "bochner-results" / "rows.csv"
    deadline = time.monotonic() + 240
    while not (rows.exists() and len(rows.read_text().splitlines()) > 8):
        assert time.monotonic() < deadline
        assert killed.poll() is None
        time.sleep(0.02)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    stored = rows.read_text().splitlines()
    again = finish(start("killed"))
    lines = rows.read_text().splitlines()
    assert 8 < len(stored) < len(lines)
    assert lines[: len(stored)] == stored
    assert f"of which {len(stored) - 1} are stored" in again.splitlines()[0]
    assert again.splitlines()[1:] == whole.splitlines()[1:]
    errors = []
    for name in ("whole", "killed"):
        with Store.open(folder / name / "bochner-results" / "rows.csv") as store:
            errors.append({trial: (row.kernel_error, row.cv_error) for trial, row in store.rows.items()})
    assert errors[0].keys() == errors[1].keys()
    for trial, error in errors[0].items():
        assert errors[1][trial] == pytest.approx(error, rel=1e-9, nan_ok=True)
