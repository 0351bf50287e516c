# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import replace

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from bochner import FourierFeatures
from bochner.weightings import Quadrature, Stein
from reproduction.methods import NYSTROEM
from reproduction.paper import STUDIES
from reproduction.run import Plan, median_distance
from reproduction.store import Store
from reproduction.studies import LengthScale
from tests.reproduction.conftest import SMALL_STUDIES
from tests.reproduction.examples import TUNING, make_row, make_split

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
        sample = plan.rows(study, "cpu")
        assert sample.X_train.shape == (50, 3)
        assert sample.X_test.shape == (20, 3)
        assert plan.rows(study, "cpu") is sample
        positions = [int(np.flatnonzero((data.X_train == row).all(axis=1))[0]) for row in sample.X_train]
        np.testing.assert_array_equal(data.y_train[positions], sample.y_train)
        assert positions != list(range(50))

    def test_a_study_without_its_data_sets_uses_the_given_ones(self, small_run):
        plan, _ = small_run
        assert plan.datasets(STUDIES["figure3"]) == ["digits"]
        both = Plan([], {"cpu": make_split("cpu"), "census": make_split("census")}, TUNING)
        assert both.datasets(STUDIES["figure4"]) == ["cpu", "census"]
        assert both.datasets(STUDIES["figure3"]) == ["census"]


@pytest.mark.parametrize(
    ("errors", "tuned"),
    [
        ({1.0: [0.5, 0.6], 4.0: [0.31, 0.33], 16.0: [0.30, 0.32], 64.0: [0.30, 0.32]}, 4.0),
        ({1.0: [0.5, 0.6], 4.0: [0.32, 0.34], 16.0: [0.30, 0.32]}, 16.0),
        ({1.0: [0.5], 4.0: [0.31], 16.0: [0.30]}, 16.0),
    ],
)
def test_smallest_length_scale_within_the_noise_is_selected(errors, tuned):
    scales = tuple(LengthScale("grid", factor) for factor in errors)
    tuning = replace(TUNING, length_scales=scales, seeds=tuple(range(len(errors[1.0]))))
    plan = Plan([STUDIES["table2"]], {"digits": make_split()}, tuning)
    rows = {
        trial: make_row(**vars(trial), cv_error=errors[trial.length_scale][trial.seed])
        for trial in plan.tuning_trials()
    }
    assert plan.tuned(rows) == {"digits": tuned}
