# SPDX-License-Identifier: BSD-3-Clause
"""`bochner demo`, `compare` and `reproduce`."""

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest

from bochner.cli import console, experiment_commands
from bochner.experiments.paper import STUDIES
from bochner.experiments.run import Plan
from bochner.experiments.store import Store
from bochner.experiments.studies import COMPARISON, DEMO, MEDIAN
from tests.cli.commands import error_message, run
from tests.experiments.examples import make_split

pytest.importorskip("matplotlib")

METHODS = ("orthogonal + uniform", "orthogonal + stein", "Nystroem", "SVD limit")


@pytest.fixture
def short_timings(monkeypatch):
    monkeypatch.setattr("bochner.experiments.run.SECONDS_PER_TIMING", 0.0)
    monkeypatch.setattr("bochner.experiments.run.TIMED_ROWS", 100)


@pytest.fixture
def no_work(monkeypatch):
    """Let a test fail if a command starts to run trials."""

    def work(*_):
        raise AssertionError("a trial was run")

    monkeypatch.setattr(Plan, "run", work)


@pytest.fixture
def small_data(monkeypatch):
    """Load 180 rows instead of any data set."""
    monkeypatch.setattr(experiment_commands.datasets, "load", lambda name, _: make_split(name))


@pytest.fixture
def table(tmp_path, rng):
    X = rng.normal(size=(200, 3))
    frame = pd.DataFrame(X, columns=list("abc")).assign(city="x", y=X[:, 0] + X[:, 1] ** 2)
    frame["kind"] = np.where(frame["a"] > 0, "up", "down")
    frame.to_csv(tmp_path / "mine.csv", index=False)
    np.savez(tmp_path / "mine.npz", X=X, y=frame["y"], short=np.arange(5))
    return tmp_path / "mine.csv"


class TestDemo:
    @pytest.fixture(autouse=True)
    def small_demo(self, monkeypatch):
        monkeypatch.setattr(experiment_commands, "DEMO", replace(DEMO, n_frequencies=(4, 8), methods=METHODS))

    @pytest.mark.usefixtures("short_timings")
    def test_table_recommendation_and_page(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        result = run("demo", "--seeds", 1)
        assert result.exit_code == 0, result.output
        assert "Kernel error in % on 599 held-out rows of digits, one seed" in result.stdout
        assert all(method in result.stdout for method in METHODS)
        assert "\nUse " in result.stdout
        assert "test error" not in result.stdout  # the demo fits no linear models
        assert result.stdout.endswith("The page: bochner-demo.html\n")
        page = (tmp_path / "bochner-demo.html").read_text(encoding="utf-8")
        assert "<h1>Which features to use on digits?</h1>" in page
        assert [path.name for path in tmp_path.iterdir()] == ["bochner-demo.html"]

    @pytest.mark.usefixtures("no_work")
    @pytest.mark.parametrize(
        ("output", "message"),
        [("none/page.html", "--output none/page.html is in a folder that does not exist"), (".", "--output . is a fo")],
    )
    def test_output_that_cannot_be_written(self, output, message):
        assert message in error_message("demo", "--output", output)


class TestCompare:
    @pytest.fixture(autouse=True)
    def small_comparison(self, monkeypatch):
        study = replace(COMPARISON, length_scales=(MEDIAN,), methods=METHODS)
        monkeypatch.setattr(experiment_commands, "COMPARISON", study)

    @pytest.mark.usefixtures("short_timings")
    def test_all_methods_and_length_scales(self, table, monkeypatch):
        monkeypatch.chdir(table.parent)
        monkeypatch.setattr(experiment_commands, "COMPARISON", COMPARISON)
        result = run("compare", table, "--widths", 8, "--seeds", 1)
        assert result.exit_code == 0, result.output
        assert "Text columns, one-hot encoded: kind (2 categories).\n" in result.stdout
        assert "Left out: city (constant: all cells are 'x')." in result.stdout
        assert "8 columns: kernel error in % on 100 held-out rows of mine.csv, one seed" in result.stdout
        assert "2 x median" in result.stdout
        assert "\nUse " in result.stdout
        assert "test error" not in result.stdout
        page = (table.parent / "bochner-comparison.html").read_text(encoding="utf-8")
        assert "<h1>Which features to use on mine.csv?</h1>" in page

    @pytest.mark.usefixtures("short_timings")
    @pytest.mark.parametrize(
        ("name", "target", "message", "model"),
        [
            ("mine.csv", "y", "Left out: city (constant: all cells are 'x').", "ridge regression"),
            ("mine.csv", "kind", "Left out: city (constant: all cells are 'x').", "support vector machine"),
            ("mine.npz", "y", "Arrays of mine.npz that are not used: short.", "ridge regression"),
        ],
    )
    def test_target_is_predicted(self, table, name, target, message, model):
        page = table.parent / "page.html"
        options = ("--target", target, "--widths", "8,4", "--seeds", 1, "--output", page)
        result = run("compare", table.parent / name, *options)
        assert result.exit_code == 0, result.output
        assert message in result.stdout
        assert "4 columns │ 8 columns │ test error" in " ".join(result.stdout.replace("┃", "│").split())
        assert "A linear model on these features has a test error of" in " ".join(result.stdout.split())
        assert model in page.read_text(encoding="utf-8")

    @pytest.mark.usefixtures("short_timings", "small_data")
    def test_data_set_by_its_name(self, tmp_path):
        result = run("compare", "cpu", "--widths=8", "--seeds", 1, "--output", tmp_path / "page.html")
        assert result.exit_code == 0, result.output
        assert "60 held-out rows of cpu" in result.stdout

    @pytest.mark.usefixtures("no_work")
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["{table}", "--target", "z"],
                "mine.csv has no column 'z'; its columns are 'a', 'b', 'c', 'city', 'y'",
            ),
            (["{table}", "--target", "city"], "All targets of mine.csv are equal to x; choose another --target."),
            (["{folder}/mine.npz", "--target", "short"], "has 200 rows and a target 'short' of shape (5,)"),
            (["{table}", "--as", "a=colour"], "'a' cannot be of the kind 'colour'; give one of number, boolean"),
            (["{table}", "--drop", "a,zz"], "mine.csv has no column 'zz'"),
            (["{table}", "--widths", "9"], "--widths 9 is not an even number of at least 2"),
            (["{table}", "--widths", "0"], "--widths 0 is not an even number of at least 2"),
            (["{table}", "--widths", "4,x"], "--widths x is not an even number of at least 2"),
            (["{table}", "--widths", "1000"], "--widths 1000 is more than the 100 training rows of mine.csv"),
            (["{table}", "--widths", "2,4,6,8,10,12,14"], "--widths has 7 values; give at most 6."),
            (["nosuch"], "nosuch is neither a table (.csv, .parquet, .npz, ...) nor one of cpu,"),
            (["none.csv"], "none.csv does not exist"),
            (["digits", "--target", "y"], "--target y is only for a table; the data set digits has its own target."),
            (["cpu", "--data-folder", "{folder}/nowhere"], "nowhere does not exist"),
            (["{table}", "--output", "{table}"], "would overwrite an input file"),
            (["{table}", "--output", "{folder}"], "is a folder"),
        ],
    )
    def test_invalid_input_gives_one_error_message(self, table, arguments, message):
        given = [argument.format(table=table, folder=table.parent) for argument in arguments]
        assert message in error_message("compare", *given)


def small(study):
    return replace(study, n_frequencies=(4, 8), methods=study.methods[:3])


class TestReproduce:
    @pytest.mark.usefixtures("small_data")
    def test_run_and_run_again(self, tmp_path, monkeypatch):
        monkeypatch.setattr(experiment_commands.paper, "STUDIES", {"figure4": small(STUDIES["figure4"])})
        command = ("reproduce", "figure4", "--datasets", "cpu,census", "--seeds", 3, "--output", tmp_path / "out")
        with joblib.parallel_config(backend="sequential"):
            first = run(*command)
            again = run(*command)
        assert first.exit_code == again.exit_code == 0, first.output + again.output
        rows = tmp_path / "out" / "rows.csv"
        assert first.stdout.splitlines()[0] == f"36 fits, of which 0 are stored in {rows}."
        assert again.stdout.splitlines()[0] == f"36 fits, of which 36 are stored in {rows}."
        assert again.stdout.splitlines()[1:] == first.stdout.splitlines()[1:]
        assert len(rows.read_text().splitlines()) == 37
        assert re.search("cpu, uniform below plain: (holds|does not hold) here.", first.stdout)
        assert first.stdout.endswith(f"The page: {tmp_path / 'out' / 'index.html'}\n")
        files = sorted(path.name for path in (tmp_path / "out").iterdir())
        assert files == ["figure4.png", "figure4.svg", "index.html", "results.md", "rows.csv"]

    @pytest.mark.usefixtures("no_work")
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["table3"], "table3 is not one of table2, figure1, figure2, figure3, figure4 or all"),
            (["figure4", "--datasets", "cpu,iris"], "--datasets iris is not one of cpu, census, years"),
            (["figure4", "--data-folder", "no/such/folder", "--datasets", "cpu"], "no/such/folder does not exist"),
            (["figure4", "--quick", "--output", "file"], "--output file is a file; give the name of a folder"),
        ],
    )
    def test_invalid_input_gives_one_error_message(self, tmp_path, monkeypatch, arguments, message):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "file").write_text("x")
        assert message in error_message("reproduce", *arguments)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    @pytest.mark.usefixtures("small_data")
    @pytest.mark.parametrize(
        ("options", "names", "seeds"),
        [
            (["figure4"], ["cpu", "census"], 20),
            (["figure2", "figure4", "--seeds", "7"], ["cpu", "census", "adult"], 7),
            (["--quick"], ["digits"], 3),
            (["figure4", "--quick", "--datasets", "cpu,adult"], ["cpu", "adult"], 3),
            (["figure4", "--datasets", "cpu", "--datasets", "adult"], ["cpu", "adult"], 20),
        ],
    )
    def test_data_sets_and_seeds(self, monkeypatch, options, names, seeds):
        plans = []

        def make_plan(studies, splits, _):
            plans.append((list(splits), {len(study.seeds) for study in studies}))
            raise ValueError("stopped")

        monkeypatch.setattr(experiment_commands, "Plan", make_plan)
        assert "stopped" in error_message("reproduce", *options)
        assert plans == [(names, {seeds})]

    def test_missing_data_set_is_left_out_unless_it_is_requested(self, tmp_path, monkeypatch):
        def load(name, _):
            raise ValueError(f"{name} is not here.")

        monkeypatch.setattr(experiment_commands.datasets, "load", load)
        result = run("reproduce", "figure4", "--output", tmp_path / "out")
        assert result.exit_code == 2
        assert result.stdout == "Left out: cpu is not here.\nLeft out: census is not here.\n"
        assert "None of the data sets is available; give a folder that has them with --data-folder" in result.stderr
        assert error_message("reproduce", "figure4", "--datasets", "cpu") == "Error: cpu is not here.\n"

    def test_reduced_and_unused_data_sets_are_reported(self, tmp_path, monkeypatch):
        def load(name, _):
            return make_split(name, paper=name, reduced="180 of 999 rows")

        def open_store(_):
            raise ValueError("stopped")

        monkeypatch.setattr(experiment_commands.datasets, "load", load)
        monkeypatch.setattr(experiment_commands.Store, "open", open_store)
        result = run("reproduce", "figure2", "--datasets", "adult,cpu", "--output", tmp_path / "out")
        assert result.stdout.splitlines() == [
            "Reduced: adult has only 180 of 999 rows; its results are not comparable with the paper.",
            "Reduced: cpu has only 180 of 999 rows; its results are not comparable with the paper.",
            "Not used by these studies: cpu.",
        ]

    @pytest.mark.usefixtures("small_data")
    @pytest.mark.parametrize(
        ("error", "exit_code", "message"),
        [
            (KeyboardInterrupt(), 130, "Stopped. 0 fits are stored; run the same command to resume.\n"),
            (
                BrokenProcessPool("details"),
                1,
                "A worker process was killed, perhaps for lack of memory. 0 fits are",
            ),
        ],
    )
    def test_interrupted_run_reports_how_to_resume(self, tmp_path, monkeypatch, error, exit_code, message):
        def interrupted(plan, store):
            yield 1
            raise error

        monkeypatch.setattr(Plan, "run", interrupted)
        result = run("reproduce", "figure4", "--quick", "--output", tmp_path / "out")
        assert result.exit_code == exit_code
        assert result.stdout == f"72 fits, of which 0 are stored in {tmp_path / 'out' / 'rows.csv'}.\n"
        assert result.stderr.startswith(message)

    def test_help_has_the_default(self):
        text = run("reproduce", "--help").stdout.replace("│", " ")
        assert "or all (the default)" in " ".join(text.split())

    @pytest.mark.slow
    def test_killed_run_is_resumed(self, tmp_path):
        code = (
            "import dataclasses, bochner.experiments.paper as paper, bochner.cli as cli;"
            "small = lambda s: dataclasses.replace(s, n_frequencies=(16, 32, 64));"
            "paper.STUDIES = {name: small(paper.STUDIES[name]) for name in ('figure1', 'figure4')};"
            "paper.BANDWIDTH = dataclasses.replace(paper.BANDWIDTH,"
            "  length_scales=tuple(s for s in paper.BANDWIDTH.length_scales if s.factor in (4.0, 16.0)));"
            "cli.app()"
        )

        def start(output):
            command = [sys.executable, "-c", code, "reproduce", "all", "--quick", "--seeds", "2", "--output", output]
            # In its own session, so that the worker processes can be killed with it.
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True
            )

        def finish(process):
            out, err = process.communicate(timeout=300)
            assert process.returncode == 0, err
            return out

        whole = finish(start(tmp_path / "whole"))
        killed = start(tmp_path / "killed")
        rows = tmp_path / "killed" / "rows.csv"
        deadline = time.monotonic() + 240
        while not (rows.exists() and len(rows.read_text().splitlines()) > 8):
            assert time.monotonic() < deadline
            assert killed.poll() is None
            time.sleep(0.02)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
        stored = rows.read_text().splitlines()
        again = finish(start(tmp_path / "killed"))
        lines = rows.read_text().splitlines()
        assert 8 < len(stored) < len(lines)
        assert lines[: len(stored)] == stored
        again = again.replace(str(tmp_path / "killed"), str(tmp_path / "whole"))
        assert f"of which {len(stored) - 1} are stored" in again.splitlines()[0]
        assert again.splitlines()[1:] == whole.splitlines()[1:]
        errors = []
        for name in ("whole", "killed"):
            with Store.open(tmp_path / name / "rows.csv") as store:
                errors.append({trial: (row.kernel_error, row.cv_error) for trial, row in store.rows.items()})
                assert len(store.rows) == len(store.path.read_text().splitlines()) - 1
        assert errors[0].keys() == errors[1].keys()
        for trial, error in errors[0].items():
            assert errors[1][trial] == pytest.approx(error, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("arguments", [["demo"], ["compare", "digits"], ["reproduce"]], ids=lambda words: words[0])
@pytest.mark.usefixtures("no_work")
def test_missing_matplotlib_is_reported_before_any_work(monkeypatch, arguments):
    monkeypatch.setattr(console, "find_spec", lambda _: None)
    message = "Error: The page has plots, which need matplotlib: pip install 'bochner[all]'.\n"
    assert error_message(*arguments) == message


@pytest.mark.parametrize("arguments", [["demo"], ["compare", "digits"], ["reproduce"]], ids=lambda words: words[0])
def test_seeds_must_be_positive(arguments):
    result = run(*arguments, "--seeds", 0)
    assert result.exit_code == 2
    assert "--seeds" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_pipe_gets_the_table_in_utf_8_and_no_progress_bar(tmp_path, encoding):
    code = (
        "import dataclasses, bochner.cli.experiment_commands as commands;"
        f"commands.DEMO = dataclasses.replace(commands.DEMO, n_frequencies=(4,), methods={METHODS});"
        "commands.app()"
    )
    environment = os.environ | {"COLUMNS": "", "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [sys.executable, "-c", code, "demo", "--seeds", "2"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert " ± " in done.stdout
    assert "\x1b[" not in done.stderr  # lines, if it takes seconds
    assert "fitting" not in done.stdout
    assert "\x1b[" not in done.stdout
    assert (tmp_path / "bochner-demo.html").is_file()
