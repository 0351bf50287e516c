# SPDX-License-Identifier: BSD-3-Clause
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bochner.cli import app
from bochner.experiments import datasets
from bochner.experiments.report import Summary, write_page
from bochner.experiments.run import KernelRow, run_kernel_study
from bochner.experiments.studies import DEMO, NYSTROEM

SMALL = replace(DEMO, n_frequencies=(4, 8), seeds=(0, 1))


@pytest.fixture(scope="module")
def small_summary():
    data = datasets.split("noise", np.random.default_rng(0).normal(size=(80, 3)))
    return Summary(SMALL, data, list(run_kernel_study(SMALL, data)))


def run_cli(*arguments):
    return CliRunner().invoke(app, ["demo", *map(str, arguments)])


class TestStudy:
    def test_one_row_a_fit_and_nystroem_beside(self, small_summary):
        assert set(small_summary.errors) == set(SMALL.methods)
        assert SMALL.methods[-1] == NYSTROEM
        assert len(SMALL.methods) == 17
        assert all(errors.shape == (2, 2) for errors in small_summary.errors.values())

    def test_rows_repeat_with_their_seed(self, small_summary):
        rows = list(run_kernel_study(replace(SMALL, seeds=(1,)), small_summary.data))
        for row in rows:
            size = SMALL.n_frequencies.index(row.n_frequencies)
            assert small_summary.errors[row.method][size, 1] == pytest.approx(row.error, rel=1e-9)

    def test_best_is_the_smallest_mean(self):
        study = replace(DEMO, samplers=("mc",), weightings=("uniform", "stein"), n_frequencies=(8, 16), seeds=(0,))
        errors = {"mc + uniform": (0.4, 0.2), "mc + stein": (0.3, 0.1), NYSTROEM: (0.1, 0.3)}
        rows = [KernelRow(m, size, 0, e) for m, pair in errors.items() for size, e in zip((8, 16), pair, strict=True)]
        summary = Summary(study, datasets.digits(), rows)
        assert summary.best == [NYSTROEM, "mc + stein"]
        assert summary.best_fourier == ["mc + stein", "mc + stein"]
        assert "Nystroem is higher at 30.00 %" in summary.verdict()

    def test_page_stands_alone_and_names_seeds_and_versions(self, small_summary, tmp_path):
        write_page(small_summary, tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert not re.search(r"(src|href)=.https?:", page)
        assert page.count("<svg") == 1  # sizes 32, 128 and 512 are not in this study
        assert "Seeds 0, 1" in page
        assert f"numpy {np.__version__}" in page
        for method in SMALL.methods:
            assert f"<th>{method}</th>" in page
        assert [path.name for path in tmp_path.iterdir()] == ["page.html"]

    def test_a_failed_write_leaves_the_old_page(self, small_summary, tmp_path, monkeypatch):
        (tmp_path / "page.html").write_text("old")

        def fail(*_):
            raise OSError("disk full")

        monkeypatch.setattr("bochner.experiments.pages.os.replace", fail)
        with pytest.raises(OSError, match="disk full"):
            write_page(small_summary, tmp_path / "page.html")
        assert (tmp_path / "page.html").read_text() == "old"
        assert len(list(tmp_path.iterdir())) == 1


class TestCommandLine:
    @pytest.fixture
    def small_demo(self, monkeypatch):
        monkeypatch.setattr("bochner.cli.experiment_commands.DEMO", SMALL)

    def test_own_table(self, small_demo, tmp_path, rng):
        frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc")).assign(city="x")
        frame.to_csv(tmp_path / "mine.csv", index=False)
        result = run_cli("--data", tmp_path / "mine.csv", "--seeds", 1, "--output", tmp_path / "page.html")
        assert result.exit_code == 0, result.output
        assert "Left out of mine.csv, not numbers: city" in result.output
        assert "orthogonal + stein" in result.output
        assert "mine.csv" in (tmp_path / "page.html").read_text(encoding="utf-8")

    @pytest.mark.parametrize(
        "arguments", [["--data", "none.csv"], ["--output", "no/such/folder/page.html"], ["--output", "."]]
    )
    def test_bad_arguments_are_one_sentence_before_any_work(self, arguments):
        result = run_cli(*arguments)
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: ")
        assert "exist" in result.stderr or "is a folder" in result.stderr
        assert "Traceback" not in result.output

    def test_version(self):
        assert CliRunner().invoke(app, ["--version"]).output.startswith("bochner 0.")

    def test_a_pipe_gets_the_table_and_no_progress_bar(self, tmp_path, rng):
        np.savez(tmp_path / "t.npz", X=rng.normal(size=(40, 2)))
        code = (
            "import bochner.cli as cli, dataclasses;"
            "cli.DEMO = dataclasses.replace(cli.DEMO, n_frequencies=(4,), seeds=(0,)); cli.app()"
        )
        arguments = ["demo", "--data", "t.npz", "--seeds", "1"]
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "fitting" not in done.stdout + done.stderr
        assert "\x1b[" not in done.stdout
        assert (Path(tmp_path) / "bochner-demo.html").is_file()
