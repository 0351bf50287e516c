# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import replace

import pytest

from bochner.experiments.methods import KMEANS_NYSTROEM, LIMIT, METHODS, NYSTROEM
from bochner.experiments.recommendation import choice, recommendation
from bochner.experiments.studies import COMPARISON
from tests.experiments.examples import make_findings

STEIN = "orthogonal + stein"


def make_comparison(errors, seconds, elsewhere=None, test_errors=None):
    """Return findings at 16 columns with the given kernel errors and times; other methods are much worse.

    `elsewhere` has the errors at other length scales, by label.
    """

    def outcome(trial):
        time = seconds.get(trial.method, 50.0)
        return {
            "kernel_error": (elsewhere or {}).get(trial.bandwidth, errors).get(trial.method, 0.9),
            "fit_seconds": time / 2,
            "row_seconds": time / 2e5,
            "test_error": (test_errors or {}).get(trial.method, 0.9),
        }

    study = replace(COMPARISON, n_frequencies=(8,), seeds=(0, 1))
    return make_findings(study, outcome, "noise", task="regression" if test_errors else None)


def sentences(found):
    return [statement.sentence for statement in recommendation(found, "noise")]


def test_recommends_the_method_with_the_lowest_error():
    errors = {"matrix": 0.013, NYSTROEM: 0.024, STEIN: 0.1, LIMIT: 0.001}
    first, second = sentences(make_comparison(errors, {"matrix": 1.9, NYSTROEM: 0.3}))
    assert first == (
        "Use FourierFeatures(weighting='matrix', n_frequencies=192, n_components=16): 1.3 % error at 16 columns, "
        "compared with 2.4 % for Nystroem. Fitting on 120 rows and transforming 100,000 rows takes about 1.9 s, and "
        "0.3 s with Nystroem."
    )
    assert second == "At 0.5 and 2 times the median distance the choice is the same."


def test_recommends_nystroem_with_its_gamma():
    found = make_comparison({"matrix": 0.03, NYSTROEM: 0.02}, {"matrix": 0.1, NYSTROEM: 0.3})
    gamma = 0.5 / found.length_scale("noise", "median") ** 2
    assert sentences(found)[0].startswith(
        f"Use scikit-learn's Nystroem(gamma={gamma:.3g}, n_components=16): 2 % error at 16 columns, compared with 3 % "
        "for matrix"
    )


def test_recommends_k_means_landmarks():
    found = make_comparison({KMEANS_NYSTROEM: 0.01, NYSTROEM: 0.02, STEIN: 0.03}, {KMEANS_NYSTROEM: 1.0})
    first = sentences(found)[0]
    assert "n_components=16) fitted on the centers of 16 k-means clusters: 1 % error" in first
    assert "compared with 3 % for orthogonal + stein" in first


def test_chooses_the_fastest_method_within_ten_percent_of_the_lowest_error():
    errors = {"matrix": 0.0200, NYSTROEM: 0.0219}
    assert choice(make_comparison(errors, {"matrix": 2.0, NYSTROEM: 0.3}), "noise", 8) == NYSTROEM
    assert choice(make_comparison(errors, {"matrix": 0.2, NYSTROEM: 0.3}), "noise", 8) == "matrix"
    errors[NYSTROEM] = 0.0221
    assert choice(make_comparison(errors, {"matrix": 2.0, NYSTROEM: 0.3}), "noise", 8) == "matrix"


@pytest.mark.parametrize("method", ["orthogonal + uniform", STEIN, "refined stein"])
def test_names_a_slower_method_with_a_lower_error(method):
    errors, seconds = {method: 0.021, "matrix": 0.020, NYSTROEM: 0.05}, {method: 0.1, "matrix": 200.0, NYSTROEM: 0.3}
    first, second, *_ = sentences(make_comparison(errors, seconds))
    assert first.startswith(f"Use {METHODS[method].description(8)}: 2.1 % error")
    assert "compared with 5 % for Nystroem" in first
    assert second == "The lowest error is that of matrix: 2 % in 3 min."


def test_never_chooses_the_limit():
    found = make_comparison({LIMIT: 0.001, STEIN: 0.89}, {LIMIT: 0.01, STEIN: 0.2})
    assert choice(found, "noise", 8) == STEIN


def test_chooses_the_first_of_methods_with_equal_errors():
    """Refinement without success has the error of its start; noise can make its measured time shorter."""
    found = make_comparison({STEIN: 0.05, "refined stein": 0.05}, {STEIN: 1.1, "refined stein": 1.0})
    assert choice(found, "noise", 8) == STEIN
    assert not any("The lowest error" in sentence for sentence in sentences(found))


def test_reports_another_choice_at_another_length_scale():
    found = make_comparison(
        {"matrix": 0.01, NYSTROEM: 0.02},
        {"matrix": 20.0, NYSTROEM: 1.0},
        elsewhere={"2 x median": {"matrix": 0.002, NYSTROEM: 0.001}},
    )
    assert sentences(found)[1:] == [
        "At 0.5 times the median distance the choice is the same.",
        "At 2 times the median distance the choice is Nystroem: 0.1 % in 1 s, compared with 0.2 % in 20 s for matrix.",
    ]


def test_considers_only_methods_that_predict_well():
    errors, seconds = {"matrix": 0.02, NYSTROEM: 0.021}, {"matrix": 2.0, NYSTROEM: 0.3}
    found = make_comparison(errors, seconds, test_errors={"matrix": 0.10, NYSTROEM: 0.12})
    assert choice(found, "noise", 8) == "matrix"  # Nystroem is as good by its kernel error and faster
    assert "has a test error of 10 %, the lowest of all methods" in sentences(found)[-1]
    found = make_comparison(errors, seconds, test_errors={"matrix": 0.10, NYSTROEM: 0.1009})
    assert choice(found, "noise", 8) == NYSTROEM
    assert "has a test error of 10.1 %, within the noise of the lowest, 10 % with matrix" in sentences(found)[-1]
