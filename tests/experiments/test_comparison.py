# SPDX-License-Identifier: BSD-3-Clause
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from typer.testing import CliRunner

from bochner import FourierFeatures
from bochner.cli import app
from bochner.experiments.comparison import Comparison, Measurement, _features, check, measure
from bochner.experiments.comparison_page import MARKS, write_comparison
from bochner.experiments.datasets import Split, split
from bochner.experiments.studies import COMPARISON, KMEANS_NYSTROEM, LIMIT, NYSTROEM, RECIPES

SMALL = replace(COMPARISON, widths=(8, 16), factors=(0.5, 1.0), seeds=(0, 1))


def make_split(task="regression", n_rows=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=n_rows)
    return split("noise", X, 5.0 + y if task == "regression" else (y > 0).astype(float))


@pytest.fixture(scope="module", autouse=True)
def hasty():
    """Times are not what is tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bochner.experiments.comparison.MOMENT_SECONDS", 0.0)
        yield


@pytest.fixture(scope="module")
def small_comparison():
    data = make_split()
    rows = list(measure(SMALL, data))
    assert len(rows) == SMALL.n_measurements
    return Comparison(SMALL, data, rows)


def places(study=SMALL):
    return list(product(study.widths, study.factors))


class TestMeasurements:
    def test_every_method_has_finite_errors_and_times(self, small_comparison):
        assert len(SMALL.methods) == 9
        assert set(MARKS) == set(SMALL.methods)
        for method, (width, factor) in product(SMALL.methods, places()):
            for field in ("error", "fit_seconds", "row_seconds"):
                values = small_comparison.of(field, method, width, factor)
                assert values.shape == (2,)
                assert np.isfinite(values).all()
                assert (values > 0.0).all()
            tested = small_comparison.of("test_error", method, width, factor)
            assert np.isfinite(tested).all() == (factor == 1.0)

    def test_no_method_is_below_the_limit(self, small_comparison):
        for width, factor in places():
            limit = small_comparison.of("error", LIMIT, width, factor)
            assert all((small_comparison.of("error", method, width, factor) > limit).all() for method in SMALL.methods)

    def test_the_limit_is_the_truncated_decomposition(self, small_comparison):
        scale = small_comparison.of("length_scale", LIMIT, 8)[0]
        exact = rbf_kernel(small_comparison.data.X_test, gamma=0.5 / scale**2)
        U, values, V = np.linalg.svd(exact)
        error = np.linalg.norm(exact - (U[:, :8] * values[:8]) @ V[:8]) / np.linalg.norm(exact)
        assert small_comparison.of("error", LIMIT, 8)[0] == pytest.approx(error, rel=1e-9)

    @pytest.mark.parametrize("method", [NYSTROEM, KMEANS_NYSTROEM])
    def test_nystroem_is_scikit_learns(self, small_comparison, method):
        data = small_comparison.data
        for seed, (width, factor) in product(SMALL.seeds, places()):
            scale = small_comparison.of("length_scale", method, width, factor)[seed]
            rows = data.X_train
            if method == KMEANS_NYSTROEM:
                rows = KMeans(width, n_init=1, random_state=seed).fit(rows).cluster_centers_
            Z = Nystroem(gamma=0.5 / scale**2, n_components=width, random_state=seed).fit(rows).transform(data.X_test)
            exact = rbf_kernel(data.X_test, gamma=0.5 / scale**2)
            error = np.linalg.norm(exact - Z @ Z.T) / np.linalg.norm(exact)
            assert small_comparison.of("error", method, width, factor)[seed] == pytest.approx(error, rel=1e-6)

    def test_a_recipe_is_the_call_it_shows(self, small_comparison):
        data = small_comparison.data
        features = eval(RECIPES["matrix"].call(8), {"FourierFeatures": FourierFeatures})
        scale = small_comparison.of("length_scale", "matrix", 8)[1]
        features.set_params(random_state=1, length_scale=scale).fit(data.X_train)
        assert (features.n_frequencies, features.sampler) == (96, "orthogonal")
        exact = rbf_kernel(data.X_test, gamma=0.5 / scale**2)
        Z = features.transform(data.X_test)
        error = np.linalg.norm(exact - Z @ Z.T) / np.linalg.norm(exact)
        assert small_comparison.of("error", "matrix", 8)[1] == pytest.approx(error, rel=1e-6)

    @pytest.mark.parametrize("method", SMALL.methods)
    def test_all_methods_are_equally_wide(self, method):
        X = make_split().X_train
        assert _features(method, 16, 1.0, 0, X).fit(X).transform(X).shape == (100, 16)

    def test_no_more_clusters_than_different_rows(self):
        X = np.repeat(np.eye(3), 10, axis=0)
        assert _features(KMEANS_NYSTROEM, 8, 1.0, 0, X).fit(X).transform(X).shape == (30, 3)

    def test_the_test_error_of_a_regression_does_not_depend_on_the_origin(self, small_comparison):
        data = small_comparison.data
        study = replace(SMALL, widths=(8,), factors=(1.0,), seeds=(0,))
        moved = replace(data, y_train=data.y_train - 100.0, y_test=data.y_test - 100.0)
        again = Comparison(study, moved, measure(study, moved)).of("test_error", "stein", 8)[0]
        assert again == pytest.approx(small_comparison.of("test_error", "stein", 8)[0], rel=1e-6)
        assert again < 0.5


class TestChecks:
    @pytest.mark.parametrize(
        ("widths", "message"),
        [
            ((7,), "--widths 7 must be even"),
            ((0,), "--widths 0 must be even and at least 2"),
            ((8, 102), "--widths 102 is more than the 100 training rows of noise"),
            (tuple(range(2, 16, 2)), "--widths has 7 values; give at most 6"),
        ],
    )
    def test_widths_that_the_data_cannot_serve(self, widths, message):
        with pytest.raises(ValueError, match=message):
            check(replace(SMALL, widths=widths), make_split())

    def test_targets_that_nothing_can_be_learned_from(self):
        data = make_split("classification")
        assert data.task == "classification"
        with pytest.raises(ValueError, match="one and the same target"):
            check(SMALL, replace(data, y_train=np.zeros_like(data.y_train)))
        with pytest.raises(ValueError, match="6 training rows; at least 10 are needed"):
            check(replace(SMALL, widths=(2,)), make_split(n_rows=12))


def made_up(errors, seconds, elsewhere=None, tested=None):
    """A comparison with the given numbers at width 16, 100,000 rows included; other methods are far worse."""
    study = replace(COMPARISON, widths=(16,), seeds=(0, 1))
    data = make_split() if tested else Split("noise", np.ones((4, 1)), np.ones((4, 1)))
    rows = []
    for method, factor, seed in product((*study.methods, LIMIT), study.factors, study.seeds):
        of_factor = (elsewhere or {}).get(factor, errors)
        row = Measurement(method, 16, factor, seed, 2.0, of_factor.get(method, 0.9))
        time, predicted = seconds.get(method, 50.0), (tested or {}).get(method, 0.9)
        rows.append(replace(row, fit_seconds=time / 2, row_seconds=time / 2e5, test_error=predicted))
    return Comparison(study, data, rows)


class TestRecommendation:
    def test_the_matrix_when_it_has_the_lowest_error(self):
        found = made_up({"matrix": 0.013, NYSTROEM: 0.024, "stein": 0.1, LIMIT: 0.001}, {"matrix": 1.9, NYSTROEM: 0.3})
        first, second = found.recommendation()
        assert first == (
            "Use FourierFeatures(weighting='matrix', n_frequencies=192, n_components=16): 1.3 % error at 16 columns "
            "against 2.4 % for Nystroem; to fit on 4 rows and transform 100,000 it takes about 1.9 s where Nystroem "
            "takes 0.3 s."
        )
        assert second == "At 0.5 and 2 times the median distance the choice is the same."

    def test_nystroem_when_it_has_the_lowest_error(self):
        found = made_up({"matrix": 0.03, NYSTROEM: 0.02}, {"matrix": 0.1, NYSTROEM: 0.3})
        assert found.recommendation()[0].startswith(
            "Use scikit-learn's Nystroem(gamma=0.125, n_components=16): 2 % error at 16 columns against 3 % for matrix"
        )

    def test_nystroem_when_its_error_is_within_a_tenth_in_less_time(self):
        errors = {"matrix": 0.0200, NYSTROEM: 0.0219}
        assert made_up(errors, {"matrix": 2.0, NYSTROEM: 0.3}).choice(16) == NYSTROEM
        assert made_up(errors, {"matrix": 0.2, NYSTROEM: 0.3}).choice(16) == "matrix"
        assert made_up(errors | {NYSTROEM: 0.0221}, {"matrix": 2.0, NYSTROEM: 0.3}).choice(16) == "matrix"

    def test_landmarks_of_k_means(self):
        found = made_up({KMEANS_NYSTROEM: 0.01, NYSTROEM: 0.02, "stein": 0.03}, {KMEANS_NYSTROEM: 1.0})
        first = found.recommendation()[0]
        assert "n_components=16) fitted on the centres of 16 k-means clusters: 1 % error" in first
        assert "against 3 % for stein" in first

    @pytest.mark.parametrize("method", ["uniform", "stein", "refined stein"])
    def test_plain_features_where_they_suffice(self, method):
        found = made_up({method: 0.021, "matrix": 0.020, NYSTROEM: 0.05}, {method: 0.1, "matrix": 200.0, NYSTROEM: 0.3})
        first, second, *_ = found.recommendation()
        assert first.startswith(f"Use {RECIPES[method].call(16)}: 2.1 % error")
        assert "against 5 % for Nystroem" in first
        assert second == "The lowest error is that of matrix: 2 % in 3 min."

    def test_the_limit_is_never_chosen(self):
        assert made_up({LIMIT: 0.001, "stein": 0.89}, {LIMIT: 0.01, "stein": 0.2}).choice(16) == "stein"

    def test_a_slower_way_to_the_same_is_not_chosen(self):
        """Refinement that kept nothing has the very error of what it started from; noise makes its time shorter."""
        errors = {"stein": 0.05, "refined stein": 0.05}
        found = made_up(errors, {"stein": 1.1, "refined stein": 1.0})
        assert found.choice(16) == "stein"
        assert not any("The lowest error" in sentence for sentence in found.recommendation())

    def test_another_choice_at_another_length_scale_is_told(self):
        errors, seconds = {"matrix": 0.01, NYSTROEM: 0.02}, {"matrix": 20.0, NYSTROEM: 1.0}
        told = made_up(errors, seconds, elsewhere={2.0: {"matrix": 0.002, NYSTROEM: 0.001}}).recommendation()
        assert told[1:] == [
            "At 0.5 times the median distance the choice is the same.",
            "At 2 times the median distance it is Nystroem: 0.1 % in 1 s against 0.2 % in 20 s.",
        ]

    def test_the_better_kernel_is_not_always_the_better_predictor(self):
        errors = {"matrix": 0.01, NYSTROEM: 0.02}
        told = made_up(errors, {}, tested={"matrix": 0.2, NYSTROEM: 0.1}).recommendation()
        assert told[-1].endswith("has a test error of 20 %; the lowest is that of Nystroem, 10 %.")
        told = made_up(errors, {}, tested={"matrix": 0.1, NYSTROEM: 0.2}).recommendation()
        assert told[-1].endswith("has a test error of 10 %, the lowest of all.")

    def test_the_lowest_are_bold_and_the_limit_is_not(self):
        found = made_up({"matrix": 0.01, LIMIT: 0.001}, {}, tested={NYSTROEM: 0.1, LIMIT: 0.01})
        head, lines, bold = found.table(16)
        assert [line[0] for line in lines] == [*COMPARISON.methods, LIMIT]
        assert {(lines[line][0], head[column]) for line, column in bold} == {
            ("matrix", "0.5 x median"),
            ("matrix", "1 x median"),
            ("matrix", "2 x median"),
            (NYSTROEM, "test error"),
        }
        assert lines[-1][4:] == ["", "", ""]


class TestPage:
    def test_stands_alone_and_has_everything(self, small_comparison, tmp_path):
        write_comparison(small_comparison, tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert not re.search(r"(src|href)=.https?:", page)
        assert page.count("<svg") == len(SMALL.factors) + 1
        assert page.count('class="bold"') == 2 * (len(SMALL.factors) + 1)
        assert "extrapolated from the time a row" in page
        assert "Seeds 0, 1." in page
        assert f"numpy {np.__version__}" in page
        for method in (*SMALL.methods, LIMIT):
            assert page.count(f"<tr><th>{method}</th>") == 2
        assert [path.name for path in tmp_path.iterdir()] == ["page.html"]

    def test_errors_of_nothing_but_rounding_can_be_drawn(self, tmp_path):
        found = made_up(dict.fromkeys((*COMPARISON.methods, LIMIT), 0.0), {})
        write_comparison(found, tmp_path / "page.html")
        assert "0 % error at 16 columns" in (tmp_path / "page.html").read_text(encoding="utf-8")


def run_cli(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


@pytest.fixture
def table(tmp_path, rng):
    X = rng.normal(size=(200, 3))
    frame = pd.DataFrame(X, columns=list("abc")).assign(city="x", y=X[:, 0] + X[:, 1] ** 2)
    frame["kind"] = np.where(frame["a"] > 0, "up", "down")
    frame.to_csv(tmp_path / "mine.csv", index=False)
    np.savez(tmp_path / "mine.npz", X=X, y=frame["y"], short=np.arange(5))
    return tmp_path / "mine.csv"


class TestCommandLine:
    @pytest.fixture
    def one_length_scale(self, monkeypatch):
        monkeypatch.setattr("bochner.cli.experiment_commands.COMPARISON", replace(COMPARISON, factors=(1.0,)))

    def test_own_table(self, table, monkeypatch):
        monkeypatch.chdir(table.parent)
        result = run_cli(table, "--widths", 8, "--seeds", 1)
        assert result.exit_code == 0, result.output
        assert "Left out of mine.csv, not numbers: city, kind" in result.output
        assert "\nUse " in result.output
        assert "test error" not in result.output
        assert "fitting" not in result.output + result.stderr
        page = (table.parent / "bochner-comparison.html").read_text(encoding="utf-8")
        assert "<h1>Which features to use on mine.csv?</h1>" in page

    @pytest.mark.parametrize(
        ("name", "target", "left_out", "task"),
        [
            ("mine.csv", "y", "city, kind", "ridge regression"),
            ("mine.csv", "kind", "city", "support vector machine"),
            ("mine.npz", "y", "short", "ridge regression"),
        ],
    )
    def test_a_target_is_left_out_and_predicted(self, one_length_scale, table, name, target, left_out, task):
        page = table.parent / "page.html"
        data = table.parent / name
        result = run_cli(data, "--target", target, "--widths", 4, 8, "--seeds", 1, "--output", page)
        assert result.exit_code == 0, result.output
        assert f"Left out of {name}, not numbers: {left_out}\n" in result.output
        for width in (4, 8):
            assert f"{width} columns: kernel error in % on 100 held-out rows" in result.output
        assert "test error of" in " ".join(result.output.split())
        assert task in page.read_text(encoding="utf-8")

    def test_a_data_set_by_its_name(self, one_length_scale, tmp_path):
        result = run_cli("digits", "--widths=8", "--seeds", 1, "--output", tmp_path / "page.html")
        assert result.exit_code == 0, result.output
        assert "599 held-out rows of digits" in result.output

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["{table}", "--target", "z"], "no column named 'z' for --target; its columns are a, b, c, city, y, kind."),
            (["{table}", "--target", "city"], "The target of mine.csv has one value only, x"),
            (["{folder}/mine.npz", "--target", "short"], "has 200 rows and a target 'short' of shape (5,)"),
            (["{table}", "--widths", "9"], "--widths 9 must be even"),
            (["{table}", "--widths", "1000"], "--widths 1000 is more than the 100 training rows of mine.csv"),
            (["nosuch"], "nosuch is neither a table (.csv, .parquet, .npz) nor one of cpu,"),
            (["none.csv"], "none.csv does not exist"),
            (["digits", "--target", "y"], "--target y is for a table of yours"),
            (["cpu", "--data", "{folder}/nowhere"], "nowhere does not exist"),
            (["{table}", "--output", "{table}"], "would overwrite an input file"),
            (["{table}", "--output", "{folder}"], "is a folder"),
        ],
    )
    def test_bad_arguments_are_one_sentence_before_any_work(self, table, monkeypatch, arguments, message):
        def work(*_):
            raise AssertionError("work has begun")

        monkeypatch.setattr("bochner.cli.experiment_commands.measure", work)
        given = [argument.format(table=table, folder=table.parent) for argument in arguments]
        result = run_cli(*given)
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith("Error: ")
        assert message in result.stderr
        assert result.stderr.count("\n") == 1

    @pytest.mark.parametrize(
        ("target", "message"), [("y", "'y' has 1 missing"), ("kind", "'kind' has 2 missing values; fill or drop them.")]
    )
    def test_missing_targets_are_counted(self, tmp_path, target, message):
        frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "y": [1.0, None, 2.5, 3.0], "kind": ["x", None, None, "z"]})
        frame.to_parquet(tmp_path / "t.parquet")
        result = run_cli(tmp_path / "t.parquet", "--target", target)
        assert result.exit_code == 2
        assert message in result.stderr
