# SPDX-License-Identifier: BSD-3-Clause
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from bochner import FourierFeatures
from bochner.cli import app
from bochner.experiments import predictors
from bochner.experiments.datasets import Split
from bochner.experiments.findings import JUDGES, Findings, standard_error
from bochner.experiments.reproduction import Reproduction
from bochner.experiments.run import Plan, _smallest_good
from bochner.experiments.store import Row, Store, Trial
from bochner.experiments.studies import (
    BANDWIDTH,
    DEFAULT,
    NYSTROEM,
    PAPER_ERRORS,
    STUDIES,
)
from bochner.weightings import Quadrature, Stein

SMALL = {
    name: replace(study, n_frequencies=study.n_frequencies and (4, 32), seeds=(0, 1, 2))
    for name, study in STUDIES.items()
}
N_PANELS = 2 + 2 + 2 + 2  # a data set, two sizes: Figures 1 to 4
TUNING = replace(BANDWIDTH, bandwidths=(0.25, 4.0), seeds=(0,))


def make_split(rng, name="digits", task="classification", **fields):
    X = StandardScaler().fit_transform(rng.normal(size=(180, 3)))
    y = (X[:, 0] + 0.1 * X[:, 1] > 0).astype(int) if task == "classification" else 5.0 + X[:, 0]
    return Split(name, X[:120], X[120:], y_train=y[:120], y_test=y[120:], task=task, **fields)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """All studies on a small table, run once: plan, store, tuned length scales."""
    plan = Plan(SMALL.values(), {"digits": make_split(np.random.default_rng(0))}, TUNING)
    with Store.open(tmp_path_factory.mktemp("run") / "rows.csv") as store:
        costs = list(plan.run(store))
    return plan, store, plan.tuned(store.rows), costs


@pytest.fixture(scope="module")
def small_reproduction(small_run):
    plan, store, _, _ = small_run
    return Reproduction(plan, store.rows, "bochner reproduce <all>")


@pytest.fixture(scope="module")
def small_folder(small_reproduction, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    small_reproduction.write(folder)
    return folder


def make_row(**fields):
    trial = Trial("figure1", "cpu", "MC", 16, 0, "median", 4.5, 0, "p")
    outcome = {"error": 0.1, "cv_error": float("nan"), "penalty": 1.0, "fit_seconds": 0.1, "transform_seconds": 0.2}
    return Row(**(vars(trial) | outcome | {"weights": "0.5 0.25", "versions": 'numpy 2, "x"'} | fields))


class TestRun:
    def test_every_trial_once_and_the_costs_add_up(self, small_run):
        plan, store, tuned, costs = small_run
        trials = [*plan.tuning_trials(), *plan.all_trials(tuned)]
        assert len(set(trials)) == len(trials) == len(store.rows)
        assert set(trials) == set(store.rows)
        assert sum(costs) == pytest.approx(plan.total_cost())
        lines = store.path.read_text().splitlines()
        assert len(lines) == len(trials) + 1
        assert plan.progress(store) == (len(trials), len(trials))
        assert plan.progress(Store(store.path)) == (0, len(trials))

    def test_kernel_errors_equal_the_dense_truth(self, small_run):
        plan, store, tuned, _ = small_run
        data = plan.splits["digits"]
        weightings = {"MC": "uniform", "BQ": Quadrature(), "SES": Stein()}
        for bandwidth, scale in (("median", plan.medians["digits"]), ("tuned", tuned["digits"])):
            exact = rbf_kernel(data.X_test, gamma=0.5 / scale**2)
            rows = [row for row in store.rows.values() if (row.study, row.bandwidth) == ("figure1", bandwidth)]
            checked = 0
            for row in rows:
                if row.method == NYSTROEM:
                    features = Nystroem(gamma=0.5 / scale**2, n_components=2 * row.n_frequencies, random_state=row.seed)
                elif row.method in weightings:
                    features = FourierFeatures(
                        length_scale=scale,
                        n_frequencies=row.n_frequencies,
                        sampler="mc" if row.method == "MC" else "sobol",
                        weighting=weightings[row.method],
                        random_state=row.seed,
                    )
                else:
                    continue
                Z = features.fit(data.X_train).transform(data.X_test)
                error = np.linalg.norm(exact - Z @ Z.T) / np.linalg.norm(exact)
                assert row.error == pytest.approx(error, rel=1e-7)
                assert row.length_scale == scale
                checked += 1
            assert checked == 24

    def test_the_smallest_length_scale_within_the_noise_is_chosen(self):
        assert _smallest_good({1.0: [0.5, 0.6], 4.0: [0.31, 0.33], 16.0: [0.30, 0.32], 64.0: [0.30, 0.32]}) == 4.0
        assert _smallest_good({1.0: [0.5, 0.6], 4.0: [0.32, 0.34], 16.0: [0.30, 0.32]}) == 16.0
        assert _smallest_good({1.0: [0.5], 4.0: [0.31], 16.0: [0.30]}) == 16.0

    def test_the_tuned_length_scale_has_the_lowest_cross_validated_error(self, small_run):
        _, store, tuned, _ = small_run
        errors = {row.length_scale: row.cv_error for row in store.rows.values() if row.study == "bandwidth"}
        assert set(errors) == {0.25, 4.0}
        assert errors[tuned["digits"]] == min(errors.values())

    def test_rows_tell_times_versions_and_weights(self, small_run):
        _, store, _, _ = small_run
        for row in store.rows.values():
            assert row.fit_seconds > 0.0
            assert f"numpy {np.__version__}" in row.versions
            assert (row.study == "figure2") == bool(row.weights)
        row = next(row for row in store.rows.values() if row.study == "figure2" and row.method == "QMC")
        np.testing.assert_allclose([float(weight) for weight in row.weights.split()], 1.0 / row.n_frequencies)

    def test_other_data_are_other_trials(self, small_run, rng):
        _, store, _, _ = small_run
        data = make_split(np.random.default_rng(0))
        one_label = data.y_train.copy()
        one_label[17] = 1 - one_label[17]
        other = Plan(SMALL.values(), {"digits": replace(data, y_train=one_label)}, TUNING)
        assert not set(other.tuning_trials()) & set(store.rows)

    def test_few_rows_are_drawn_at_random_and_stay_the_same(self, rng):
        study = replace(SMALL["figure4"], n_train=50, n_test=20)
        split = make_split(rng, task="regression", name="cpu")
        plan = Plan([study], {"cpu": split}, TUNING)
        trial = plan.trials(study, {})[0]
        sample = plan._rows(trial)
        assert sample.X_train.shape == (50, 3)
        assert sample.X_test.shape == (20, 3)
        assert plan._rows(trial) is sample
        positions = [int(np.flatnonzero((split.X_train == row).all(axis=1))[0]) for row in sample.X_train]
        np.testing.assert_array_equal(split.y_train[positions], sample.y_train)
        assert positions != list(range(50))

    def test_a_study_without_its_data_sets_takes_those_at_hand(self, small_run):
        plan, *_ = small_run
        assert plan.datasets(STUDIES["figure3"]) == ["digits"]
        both = Plan([], {"cpu": plan.splits["digits"], "census": replace(plan.splits["digits"], name="c")}, TUNING)
        assert both.datasets(STUDIES["figure4"]) == ["cpu", "census"]
        assert both.datasets(STUDIES["figure3"]) == ["census"]


def findings_of(study, errors, **fields):
    """Findings on cpu from a function of method, size, number of pairs and seed that gives errors or rows' fields."""
    split = replace(make_split(np.random.default_rng(0)), **({"name": "cpu", "paper": "cpu"} | fields))
    plan = Plan([study], {"cpu": split}, TUNING)
    rows = []
    for trial in plan.trials(study, {"cpu": 16.0}):
        outcome = errors(trial)
        outcome = outcome if isinstance(outcome, dict) else {"error": outcome}
        rows.append(make_row(**(vars(trial) | outcome)))
    return Findings(study, {"cpu": split}, rows)


def verdicts_of(study, errors, **fields):
    return {verdict.part: verdict for verdict in findings_of(study, errors, **fields).verdicts()}


class TestVerdicts:
    FIGURE1 = replace(STUDIES["figure1"], n_frequencies=(16, 32), seeds=(0, 1, 2))

    @staticmethod
    def errors(trial):
        """SES is 20 % below the best of the others, with a noise that all share."""
        level = {"MC": 0.6, "QMC": 0.5, "BQ": 0.55, "SES": 0.4, DEFAULT: 0.3, NYSTROEM: 0.39}[trial.method]
        return (level + 0.1 * trial.seed) / trial.n_frequencies

    def test_figure1_is_reproduced_when_lower_everywhere(self):
        found = verdicts_of(self.FIGURE1, self.errors)
        for bandwidth, scale in (("median", None), ("tuned", "16")):
            verdict = found[f"{bandwidth} length scale"]
            assert verdict.outcome == "reproduced"
            assert "at 2 of 2 sizes; orthogonal + stein is below SES at 2, Nystroem at 2." in verdict.sentence
            assert scale is None or f"At {scale} " in verdict.sentence
        assert f"SES has {0.5 / 0.6:.2f} times the error" in found["most with few features, median"].sentence
        assert found["most with few features, median"].outcome == "not reproduced"

    def test_figure1_is_judged_at_each_length_scale(self):
        found = verdicts_of(
            self.FIGURE1,
            lambda trial: self.errors(trial) * (2.0 if trial.bandwidth + trial.method == "tunedSES" else 1.0),
        )
        assert found["median length scale"].outcome == "reproduced"
        assert found["tuned length scale"].outcome == "not reproduced"

    def test_within_a_standard_error_is_not_lower(self):
        def errors(trial):
            noise = 0.2 * (trial.seed - 1) if (trial.method, trial.n_frequencies) == ("SES", 32) else 0.0
            return self.errors(trial) + noise

        found = verdicts_of(self.FIGURE1, errors)
        assert found["median length scale"].outcome == "not reproduced"
        assert "at 1 of 2 sizes" in found["median length scale"].sentence

    @pytest.mark.parametrize(
        ("fields", "study", "begin"),
        [
            ({"reduced": "22 of 119 columns"}, FIGURE1, "Reduced data: 22 of 119 columns."),
            ({"paper": ""}, FIGURE1, "Not one of the paper's data sets."),
            ({}, replace(FIGURE1, seeds=(0, 1)), "Fewer than 3 seeds."),
        ],
    )
    def test_what_cannot_be_judged(self, fields, study, begin):
        for verdict in verdicts_of(study, self.errors, **fields).values():
            assert verdict.outcome == "cannot be judged"
            assert verdict.sentence.startswith(begin)

    def test_the_paper_says_nothing_of_the_weights_on_cpu(self):
        found = verdicts_of(
            replace(STUDIES["figure2"], n_frequencies=(4, 32)), lambda trial: {"weights": "0.1 " * trial.n_frequencies}
        )
        assert {verdict.outcome for verdict in found.values()} == {"cannot be judged"}
        assert "The paper says nothing here of this data set." in found["closer to 1/M"].sentence

    @pytest.mark.parametrize(
        ("factor", "outcome"), [(0.9, "reproduced"), (1.04, "reproduced"), (1.06, "not reproduced")]
    )
    def test_table2_compares_with_the_papers_value(self, factor, outcome):
        levels = PAPER_ERRORS["cpu"] | {DEFAULT: 3.0, NYSTROEM: 5.0}

        def errors(trial):
            return {"error": 0.01 * factor * levels[trial.method], "penalty": predictors.ALPHAS[trial.seed]}

        verdict = verdicts_of(STUDIES["table2"], errors, task="regression")["value"]
        assert verdict.outcome == outcome
        assert f"({100 * (factor - 1):+.1f} %;" in verdict.sentence
        reached = "no worse than" if 3.0 * factor <= 3.27 else "above"
        assert f"{reached} the paper's best column (3.27 %)" in verdict.sentence
        assert "In 6 of 30 fits the penalty is the first or last of its grid." in verdict.sentence

    @pytest.mark.parametrize(
        ("ses", "noise", "outcome"),
        [(3.0, 0.0, "reproduced"), (3.4, 0.0, "not reproduced"), (3.25, 0.2, "cannot be judged")],
    )
    def test_table2_compares_the_order(self, ses, noise, outcome):
        levels = {"MC": 3.5, "QMC": 3.3, "BQ": 3.6, "SES": ses, DEFAULT: 3.0, NYSTROEM: 5.0}
        found = verdicts_of(
            STUDIES["table2"],
            lambda trial: 0.01 * (levels[trial.method] + noise * (trial.seed - 2) * (trial.method == "SES")),
        )
        assert found["order"].outcome == outcome

    def test_figure2_in_units_of_the_plain_weight(self):
        def weights(trial):
            swing = {"QMC": 0.0, "BQ": 0.5, "SES": -0.3}[trial.method] * (0.5 if trial.n_frequencies == 512 else 1.0)
            signs = np.resize([1.0, -1.0], trial.n_frequencies)
            return {"weights": " ".join(f"{w:.9g}" for w in (1.0 + swing * signs) / trial.n_frequencies)}

        found = verdicts_of(STUDIES["figure2"], weights, name="adult", paper="adult")
        told = found["closer to 1/M"].sentence
        assert "BQ's weights differ from 1/M by 50 % of it at M = 32 and 25 % at M = 512" in told
        assert "SES's weights differ from 1/M by 30 % of it at M = 32 and 15 % at M = 512" in told
        assert (
            "differ by 80 % of 1/M at M = 32 and 40 % at M = 512" in found["BQ and SES closer to each other"].sentence
        )

    @pytest.mark.parametrize(("floor", "outcome"), [(1.0, "reproduced"), (0.5, "not reproduced")])
    def test_figure3_needs_few_pairs(self, floor, outcome):
        """SES falls to a floor at 4 M pairs, or goes on falling by half."""

        def errors(trial):
            if trial.method in ("QMC", NYSTROEM):
                return 1.5
            ratio = trial.n_pairs / trial.n_frequencies
            return {0.5: 3.0, 1.0: 2.0, 2.0: 1.2, 4.0: 1.0}.get(ratio, floor) * (1.3 if trial.method == "BQ" else 1.0)

        study = replace(STUDIES["figure3"], datasets=("cpu",))
        found = findings_of(study, errors)
        part, erratic = JUDGES["figure3"](found, "cpu")
        assert part.holds == (outcome == "reproduced")
        assert part.sentence.count("below QMC from r = 2 M on") == 2
        assert f"{1.0 / floor:.2f} times that at 16 M" in part.sentence
        assert erratic.holds
        assert f"{3.0 / floor:.2f} (M = 64)" in erratic.sentence

    @pytest.mark.parametrize(
        ("uniform", "own", "outcomes"),
        [
            (0.4, 0.3, ("reproduced", "reproduced")),
            (0.5, 0.3, ("not reproduced", "reproduced")),
            (0.4, 0.45, ("reproduced", "not reproduced")),
        ],
    )
    def test_figure4_has_two_steps_down(self, uniform, own, outcomes):
        levels = dict(zip(STUDIES["figure4"].methods, (0.5, uniform, own, 0.1), strict=True))
        found = verdicts_of(STUDIES["figure4"], lambda trial: levels[trial.method] / trial.n_frequencies)
        assert tuple(verdict.outcome for verdict in found.values()) == outcomes

    def test_standard_error(self):
        values = np.array([[1.0, 2.0, 4.0], [1.0, 1.0, 1.0]])
        np.testing.assert_allclose(standard_error(values), [np.std([1, 2, 4], ddof=1) / np.sqrt(3), 0.0])
        assert standard_error(np.array([[3.0]])) == 0.0


class TestReport:
    def test_files(self, small_folder):
        figures = ["figure1", "figure1-tuned", "figure2", "figure3", "figure4"]
        expected = [f"{name}.{kind}" for name in figures for kind in ("png", "svg")]
        assert sorted(path.name for path in small_folder.iterdir()) == sorted(
            [*expected, "index.html", "results.md", "table2.tex"]
        )

    def test_the_page_stands_alone_and_says_everything(self, small_folder, small_reproduction):
        page = (small_folder / "index.html").read_text(encoding="utf-8")
        assert not re.search(r"(src|href)=.(https?:|//|file:)", page)
        assert "bochner reproduce &lt;all&gt;" in page
        assert f"numpy {np.__version__}" in page
        assert page.count("<svg") == page.count("<figure") == N_PANELS
        names = re.findall(r'\bid="([^"]*)"', page)
        assert len(names) == len(set(names))
        assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', page)) <= set(names)
        for found in small_reproduction.findings:
            assert found.study.claim.split(";")[0] in page
            for verdict in small_reproduction.verdicts[found.study.name]:
                assert html.escape(verdict.sentence) in page
        assert "Slips of the paper" in page

    def test_the_tables_hold_the_means(self, small_folder, small_run):
        _, store, _, _ = small_run
        rows = [row.error for row in store.rows.values() if (row.study, row.method) == ("table2", "SES")]
        cell = f"{100 * np.mean(rows):.2f}"
        for name in ("index.html", "results.md", "table2.tex"):
            assert cell in (small_folder / name).read_text(encoding="utf-8")
        assert r"\toprule" in (small_folder / "table2.tex").read_text()
        assert "%" not in (small_folder / "table2.tex").read_text().replace(r"\%", "")

    def test_the_same_rows_make_the_same_page(self, small_folder, small_reproduction, tmp_path):
        small_reproduction.write(tmp_path)
        for path in small_folder.iterdir():
            assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# The page in a frame of a given width, measured from outside: windows of a browser have a least width, frames do not.
HARNESS = """<!doctype html><meta charset="utf-8"><body style="margin:0"><script>
const page = %s, widths = %s, found = {};
let left = widths.length;
for (const width of widths) {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 900px; border: 0`;
  frame.onload = () => {
    const inside = frame.contentDocument;
    const box = (element) => element.getBoundingClientRect();
    const wide = [...inside.querySelectorAll("body *")].filter(
      (e) => !e.closest(".scroll, svg") && box(e).right > width + 0.5);
    found[width] = {
      scroll: inside.documentElement.scrollWidth,
      wide: wide.map((e) => e.outerHTML.slice(0, 80)),
      figures: [...inside.querySelectorAll("figure svg")].map((e) => [box(e).width, box(e).height]),
      text: inside.body.innerText.length,
    };
    if (--left === 0) document.body.innerHTML = "<pre id=found>" + JSON.stringify(found) + "</pre>";
  };
  frame.srcdoc = page;
  document.body.append(frame);
}
</script>"""


@pytest.fixture(scope="module")
def seen(small_folder, tmp_path_factory):
    """What a browser makes of the page at two widths, and what it complains of."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium to open the page with; install the package chromium")
    folder = tmp_path_factory.mktemp("browser")
    text = json.dumps((small_folder / "index.html").read_text(encoding="utf-8")).replace("</", "<\\/")
    (folder / "harness.html").write_text(HARNESS % (text, "[1280, 400]"), encoding="utf-8")
    options = (
        "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --enable-logging=stderr"
    )
    done = subprocess.run(
        [
            *(CHROMIUM, *options.split(), f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000"),
            *("--virtual-time-budget=20000", "--dump-dom", f"file://{folder / 'harness.html'}"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-500:]
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    measured = json.loads(html.unescape(found[1]))
    return {int(width): of for width, of in measured.items()}, complaints


class TestBrowser:
    @pytest.mark.parametrize("width", [1280, 400])
    def test_nothing_overflows(self, seen, width):
        assert seen[0][width]["scroll"] <= width
        assert seen[0][width]["wide"] == []

    @pytest.mark.parametrize("width", [1280, 400])
    def test_every_figure_is_there_and_can_be_read(self, seen, width):
        figures = seen[0][width]["figures"]
        assert len(figures) == N_PANELS
        assert all(wide >= 250 and high >= 200 for wide, high in figures)
        assert seen[0][width]["text"] > 2000

    def test_the_console_is_silent(self, seen):
        assert seen[1] == []


def run_cli(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


class TestCommandLine:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["table3"], "table3 is not one of table2, figure1, figure2, figure3, figure4 or all"),
            (
                ["figure4", "--datasets", "cpu", "iris"],
                "--datasets iris is not one of cpu, census, years",
            ),
            (["figure4", "--data", "no/such/folder", "--datasets", "cpu"], "no/such/folder"),
            (["figure4", "--quick", "--output", "file"], "--output file is a file; give the name of a folder"),
        ],
    )
    def test_bad_arguments_are_one_sentence_before_any_work(self, tmp_path, monkeypatch, arguments, message):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "file").write_text("x")
        result = run_cli(*arguments)
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith("Error: ")
        assert message in result.stderr
        assert "Traceback" not in result.output

    def test_several_data_sets_after_one_option(self, monkeypatch):
        asked = []

        def load(name, *_):
            asked.append(name)
            raise ValueError("stop")

        monkeypatch.setattr(
            "bochner.cli.experiment_commands.datasets.load",
            lambda name, *_: make_split(np.random.default_rng(0), name=name),
        )
        monkeypatch.setattr(
            "bochner.cli.experiment_commands.Plan", lambda studies, splits, tuning: load(",".join(splits))
        )
        for order in (
            ["figure4", "--datasets", "cpu", "adult"],
            ["--datasets=cpu", "adult", "--seeds=3", "figure4"],
            ["--datasets", "cpu", "adult", "--quick", "figure4"],
        ):
            assert "stop" in run_cli(*order).stderr
        assert asked == ["cpu,adult"] * 3

    def test_a_data_set_that_is_not_there_is_left_out_unless_it_was_asked_for(self, tmp_path, monkeypatch):
        def load(name, *_):
            raise ValueError(f"{name} is nowhere.")

        monkeypatch.setattr("bochner.cli.experiment_commands.datasets.load", load)
        result = run_cli("figure4", "--output", tmp_path / "out")
        assert result.exit_code == 2
        assert result.stdout == "Left out: cpu is nowhere.\nLeft out: census is nowhere.\n"
        assert "--quick" in result.stderr
        assert run_cli("figure4", "--datasets", "cpu").stderr == "Error: cpu is nowhere.\n"

    def test_an_option_without_values_is_refused(self):
        result = run_cli("figure4", "--datasets", "--quick")
        assert result.exit_code == 2
        assert "--datasets" in result.stderr

    def test_an_interrupted_run_ends_with_a_sentence(self, tmp_path, monkeypatch):
        def interrupted(plan, store):
            yield 1.0
            raise KeyboardInterrupt

        monkeypatch.setattr(Plan, "run", interrupted)
        result = run_cli("figure4", "--quick", "--output", tmp_path / "out")
        assert result.exit_code == 130
        assert result.stdout == f"72 fits, 0 of them stored in {tmp_path / 'out' / 'rows.csv'}.\n"
        assert result.stderr == "\nStopped. 0 fits are stored; the same command goes on with them.\n"

    def test_a_killed_worker_is_one_sentence(self, tmp_path, monkeypatch):
        def broken(plan, store):
            yield 1.0
            raise BrokenProcessPool("a long story")

        monkeypatch.setattr(Plan, "run", broken)
        result = run_cli("figure4", "--quick", "--output", tmp_path / "out")
        assert result.exit_code == 1
        assert "A worker was killed, perhaps for want of memory. 0 fits are stored" in result.stderr

    def test_what_is_not_used_is_said(self, tmp_path, monkeypatch):
        split = make_split(np.random.default_rng(0))
        monkeypatch.setattr("bochner.cli.experiment_commands.datasets.load", lambda name, *_: replace(split, name=name))
        monkeypatch.setattr(
            "bochner.cli.experiment_commands.Store.open", lambda path: (_ for _ in ()).throw(ValueError("stop"))
        )
        result = run_cli("figure2", "--datasets", "adult", "cpu", "--output", tmp_path / "out")
        assert "Not used: what was asked for does not need cpu." in result.stdout

    @pytest.mark.parametrize("command", ["demo", "reproduce"])
    def test_what_draws_is_missed_before_any_work(self, monkeypatch, command):
        monkeypatch.setattr("bochner.cli.console.find_spec", lambda _: None)
        result = CliRunner().invoke(app, [command])
        assert result.exit_code == 2
        assert result.stderr == "Error: The page has plots, which need matplotlib: pip install 'bochner[all]'.\n"

    def test_help_tells_the_defaults(self):
        told = " ".join(run_cli("--help").stdout.split())
        assert "or all (the default)" in told

    def test_killed_and_run_again_nothing_is_lost_or_doubled(self, tmp_path):
        code = (
            "import dataclasses, bochner.cli as cli;"
            "small = lambda s: dataclasses.replace(s, n_frequencies=s.n_frequencies and (16, 32, 64), seeds=(0, 1));"
            "cli.STUDIES = {name: small(cli.STUDIES[name]) for name in ('figure1', 'figure4')};"
            "cli.quick = lambda study, seeds=(0,): dataclasses.replace(study, datasets=('digits',), seeds=(0, 1),"
            "  bandwidths=tuple(b for b in study.bandwidths if isinstance(b, str) or b in (4.0, 16.0)));"
            "cli.app()"
        )

        def start(output):
            command = [sys.executable, "-c", code, "reproduce", "all", "--quick", "--output", str(output)]
            # A session of its own: the workers of a killed run die with it.
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True
            )

        def finish(process):
            out, err = process.communicate(timeout=300)
            assert process.returncode == 0, err
            assert "\x1b[" not in out
            return out

        whole = finish(start(tmp_path / "whole"))
        killed = start(tmp_path / "killed")
        rows = tmp_path / "killed" / "rows.csv"
        begin = time.monotonic()
        while not (rows.exists() and len(rows.read_text().splitlines()) > 8):
            assert time.monotonic() - begin < 240
            assert killed.poll() is None
            time.sleep(0.02)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
        stored = rows.read_text().splitlines()
        again = finish(start(tmp_path / "killed"))
        assert 8 < len(stored) < len(rows.read_text().splitlines())
        assert rows.read_text().splitlines()[: len(stored)] == stored
        # The same but for the line that says how many fits are stored.
        again = again.replace(f"{tmp_path / 'killed'}", f"{tmp_path / 'whole'}")
        assert f"{len(stored) - 1} of them stored" in again.splitlines()[0]
        assert again.splitlines()[1:] == whole.splitlines()[1:]
        errors = []
        for name in ("whole", "killed"):
            with Store.open(tmp_path / name / "rows.csv") as store:
                errors.append({trial: row.error for trial, row in store.rows.items()})
                assert len(store.rows) == len(store.path.read_text().splitlines()) - 1
        assert errors[0].keys() == errors[1].keys()
        for trial, error in errors[0].items():
            assert errors[1][trial] == pytest.approx(error, rel=1e-9, nan_ok=True)
