# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from bochner import FourierFeatures
from bochner.experiments import run
from bochner.experiments.datasets import Split
from bochner.experiments.methods import KMEANS_NYSTROEM, LIMIT, METHODS, NYSTROEM
from bochner.experiments.paper import STUDIES
from bochner.experiments.run import Plan, _smallest_of_lowest, check_comparison, median_distance
from bochner.experiments.store import Store
from bochner.weightings import Quadrature, Stein
from tests.experiments.conftest import SMALL_COMPARISON, SMALL_STUDIES
from tests.experiments.examples import TUNING, make_split

SMALL = {study.name: study for study in SMALL_STUDIES}


def relative_error(exact, Z):
    return np.linalg.norm(exact - Z @ Z.T) / np.linalg.norm(exact)


class TestPlan:
    def test_runs_every_trial_once(self, small_run):
        plan, store = small_run
        trials = [*plan.tuning_trials(), *plan.all_trials(plan.tuned(store.rows))]
        assert len(set(trials)) == len(trials)
        assert set(trials) == set(store.rows)
        assert len(store.path.read_text().splitlines()) == len(trials) + 1

    def test_reports_the_numbers_of_stored_and_of_all_trials(self, small_run):
        plan, store = small_run
        assert plan.progress(store) == (len(store.rows), len(store.rows))
        assert plan.progress(Store()) == (0, len(store.rows))

    def test_kernel_errors_equal_a_dense_computation(self, small_run):
        plan, store = small_run
        data = plan.splits["digits"]
        weightings = {"MC": "uniform", "BQ": Quadrature(), "SES": Stein()}
        rows = [row for row in store.rows.values() if row.study == "figure1" and row.method in (NYSTROEM, *weightings)]
        assert len(rows) == 48
        scales = {"median": median_distance(data), "tuned": plan.tuned(store.rows)["digits"]}
        for row in rows:
            scale = scales[row.bandwidth]
            features = FourierFeatures(
                length_scale=scale,
                n_frequencies=row.n_frequencies,
                sampler="mc" if row.method == "MC" else "sobol",
                weighting=weightings.get(row.method, "stein"),
                random_state=row.seed,
            )
            if row.method == NYSTROEM:
                features = Nystroem(gamma=0.5 / scale**2, n_components=2 * row.n_frequencies, random_state=row.seed)
            Z = features.fit(data.X_train).transform(data.X_test)
            exact = rbf_kernel(data.X_test, gamma=0.5 / scale**2)
            assert row.kernel_error == pytest.approx(relative_error(exact, Z), rel=1e-7)
            assert row.length_scale == scale

    def test_tuned_length_scale_has_the_lowest_cross_validated_error(self, small_run):
        plan, store = small_run
        errors = {row.length_scale: row.cv_error for row in store.rows.values() if row.study == "bandwidth"}
        assert set(errors) == {0.25, 4.0}
        assert errors[plan.tuned(store.rows)["digits"]] == min(errors.values())

    def test_rows_have_times_versions_and_weights(self, small_run):
        _, store = small_run
        for row in store.rows.values():
            assert row.fit_seconds > 0.0
            assert f"numpy {np.__version__}" in row.versions
            assert (row.study == "figure2") == bool(row.weights)
        row = next(row for row in store.rows.values() if row.study == "figure2" and row.method == "QMC")
        np.testing.assert_allclose([float(weight) for weight in row.weights.split()], 1.0 / row.n_frequencies)

    def test_trials_depend_on_the_data(self, small_run):
        plan, store = small_run
        data = make_split()
        labels = data.y_train.copy()
        labels[17] = 1 - labels[17]
        other = Plan(SMALL.values(), {"digits": replace(data, y_train=labels)}, plan.tuning)
        assert not set(other.tuning_trials()) & set(store.rows)

    def test_the_same_sample_of_rows_is_used_for_every_trial(self):
        study = replace(SMALL["figure4"], n_train=50, n_test=20)
        data = make_split("cpu", task="regression")
        plan = Plan([study], {"cpu": data}, TUNING)
        sample = plan.rows(study, "cpu", seed=3)
        assert sample.X_train.shape == (50, 3)
        assert sample.X_test.shape == (20, 3)
        assert plan.rows(study, "cpu", seed=4) is sample
        positions = [int(np.flatnonzero((data.X_train == row).all(axis=1))[0]) for row in sample.X_train]
        np.testing.assert_array_equal(data.y_train[positions], sample.y_train)
        assert positions != list(range(50))

    def test_a_comparison_samples_rows_for_each_seed(self):
        study = replace(SMALL_COMPARISON, n_train=50)
        plan = Plan([study], {"noise": make_split("noise")})
        assert not np.array_equal(plan.rows(study, "noise", 0).X_train, plan.rows(study, "noise", 1).X_train)
        medians = {trial.seed: trial.length_scale for trial in plan.trials(study, {}) if trial.bandwidth == "median"}
        for seed, scale in medians.items():
            assert scale == median_distance(plan.rows(study, "noise", seed))

    def test_a_study_without_its_data_sets_uses_the_given_ones(self, small_run):
        plan, _ = small_run
        assert plan.datasets(STUDIES["figure3"]) == ["digits"]
        both = Plan([], {"cpu": make_split("cpu"), "census": make_split("census")}, TUNING)
        assert both.datasets(STUDIES["figure4"]) == ["cpu", "census"]
        assert both.datasets(STUDIES["figure3"]) == ["census"]


def test_smallest_length_scale_within_the_noise_is_selected():
    assert _smallest_of_lowest({1.0: [0.5, 0.6], 4.0: [0.31, 0.33], 16.0: [0.30, 0.32], 64.0: [0.30, 0.32]}) == 4.0
    assert _smallest_of_lowest({1.0: [0.5, 0.6], 4.0: [0.32, 0.34], 16.0: [0.30, 0.32]}) == 16.0
    assert _smallest_of_lowest({1.0: [0.5], 4.0: [0.31], 16.0: [0.30]}) == 16.0


class TestComparison:
    PLACES = tuple(product(SMALL_COMPARISON.n_frequencies, SMALL_COMPARISON.labels))

    @pytest.mark.parametrize("method", [method for method in SMALL_COMPARISON.methods if method != LIMIT])
    def test_errors_and_times_are_positive(self, small_comparison, method):
        found, _ = small_comparison
        for size, label in self.PLACES:
            for field in ("kernel_error", "fit_seconds", "row_seconds"):
                values = found.values(field, "noise", method, size, label)
                assert values.shape == (2,)
                assert (values > 0.0).all()
            limit = found.values("kernel_error", "noise", LIMIT, size, label)
            assert (found.values("kernel_error", "noise", method, size, label) > limit).all()

    def test_test_errors_are_measured_at_the_median_distance_only(self, small_comparison):
        found, _ = small_comparison
        for size, label in self.PLACES:
            errors = found.values("test_error", "noise", "matrix", size, label)
            assert np.isfinite(errors).all() == (label == "median")

    def test_limit_is_the_error_of_the_truncated_decomposition(self, small_comparison):
        found, _ = small_comparison
        scale = found.values("length_scale", "noise", LIMIT, 4, "median")[0]
        exact = rbf_kernel(found.splits["noise"].X_test, gamma=0.5 / scale**2)
        U, values, V = np.linalg.svd(exact)
        error = np.linalg.norm(exact - (U[:, :8] * values[:8]) @ V[:8]) / np.linalg.norm(exact)
        assert found.values("kernel_error", "noise", LIMIT, 4, "median")[0] == pytest.approx(error, rel=1e-9)

    @pytest.mark.parametrize("method", [NYSTROEM, KMEANS_NYSTROEM, "matrix"])
    def test_kernel_errors_equal_a_dense_computation(self, small_comparison, method):
        found, _ = small_comparison
        data = found.splits["noise"]
        for seed, (size, label) in product(SMALL_COMPARISON.seeds, self.PLACES):
            scale = found.values("length_scale", "noise", method, size, label)[seed]
            rows = data.X_train
            features = Nystroem(gamma=0.5 / scale**2, n_components=2 * size, random_state=seed)
            if method == KMEANS_NYSTROEM:
                rows = KMeans(2 * size, n_init=1, random_state=seed).fit(rows).cluster_centers_
            elif method == "matrix":
                features = METHODS["matrix"].estimator(size, scale, seed, rows)
            error = relative_error(
                rbf_kernel(data.X_test, gamma=0.5 / scale**2), features.fit(rows).transform(data.X_test)
            )
            measured = found.values("kernel_error", "noise", method, size, label)[seed]
            assert measured == pytest.approx(error, rel=1e-6)

    def test_test_error_of_a_regression_does_not_depend_on_the_origin(self, small_comparison, monkeypatch):
        monkeypatch.setattr("bochner.experiments.run.SECONDS_PER_TIMING", 0.0)
        found, _ = small_comparison
        data = found.splits["noise"]
        study = replace(SMALL_COMPARISON, methods=("orthogonal + stein",), n_frequencies=(4,), seeds=(0,))
        moved = replace(data, y_train=data.y_train - 100.0, y_test=data.y_test - 100.0)
        store = Store()
        list(Plan([study], {"noise": moved}).run(store))
        (error,) = (row.test_error for row in store.rows.values() if row.bandwidth == "median")
        assert error == pytest.approx(
            found.values("test_error", "noise", "orthogonal + stein", 4, "median")[0], rel=1e-6
        )
        assert error < 0.5


@pytest.mark.parametrize(
    ("seconds", "shortest"),
    [([0.05, 0.04, 0.03], 0.03), ([0.03, 0.02, 0.025, 0.01, 0.02], 0.01), ([9.0, 8.0, 7.0], 7.0)],
)
def test_shortest_of_at_least_three_calls_counts(monkeypatch, seconds, shortest):
    """Calls are repeated until they took 0.1 s in total."""
    remaining = iter(seconds)
    monkeypatch.setattr(run, "_timed", lambda *_: (None, next(remaining)))
    assert run._shortest_seconds(None, None) == shortest
    assert next(remaining, None) is None


class TestCheckComparison:
    @pytest.mark.parametrize(
        ("sizes", "message"),
        [
            ((4, 61), "--widths 122 is more than the 120 training rows of digits"),
            (tuple(range(1, 8)), "--widths has 7 values; give at most 6"),
        ],
    )
    def test_widths(self, sizes, message):
        with pytest.raises(ValueError, match=message):
            check_comparison(replace(SMALL_COMPARISON, n_frequencies=sizes), make_split())

    def test_targets(self):
        data = make_split()
        with pytest.raises(ValueError, match="all have the same target; omit --target"):
            check_comparison(SMALL_COMPARISON, replace(data, y_train=np.zeros_like(data.y_train)))
        few = Split("few", np.ones((9, 1)), np.ones((9, 1)), np.arange(9.0), np.arange(9.0), "regression")
        with pytest.raises(ValueError, match="9 training rows; predictions need at least 10"):
            check_comparison(replace(SMALL_COMPARISON, n_frequencies=(2,)), few)
