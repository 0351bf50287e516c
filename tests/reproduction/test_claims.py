# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import replace

import numpy as np
import pytest

from reproduction.claims import CLAIMS
from reproduction.findings import percent, standard_error
from reproduction.methods import DEFAULT, NYSTROEM
from reproduction.paper import PAPER_ERRORS, STUDIES
from reproduction.predictors import ALPHAS
from tests.reproduction.examples import make_findings

FIGURE1 = replace(STUDIES["figure1"], n_frequencies=(16, 32), seeds=(0, 1, 2))


def statements_by_part(study, outcome, name="cpu", **fields):
    found = make_findings(study, outcome, name, **fields)
    return {statement.part: statement for kind in study.claims for statement in CLAIMS[kind](found, name)}


def figure1_error(trial):
    """SES is 20 % below the best of the other methods, with a noise that all methods share."""
    level = {"MC": 0.6, "QMC": 0.5, "BQ": 0.55, "SES": 0.4, DEFAULT: 0.3, NYSTROEM: 0.39}[trial.method]
    return {"kernel_error": (level + 0.1 * trial.seed) / trial.n_frequencies}


class TestFigure1:
    def test_reproduced_if_lower_at_every_size(self):
        found = statements_by_part(FIGURE1, figure1_error)
        for label in ("median", "tuned"):
            statement = found[f"{label} length scale"]
            assert statement.outcome == "reproduced"
            assert "at 2 of 2 sizes; orthogonal + stein is below SES at 2 sizes, Nystroem at 2." in statement.sentence
        assert "At length scale 16, " in found["tuned length scale"].sentence

    def test_gain_with_few_features_is_compared_with_the_largest_size(self):
        statement = statements_by_part(FIGURE1, figure1_error)["most with few features, median"]
        assert statement.outcome == "not reproduced"
        assert f"SES has {0.5 / 0.6:.2f} times the error" in statement.sentence

    def test_each_length_scale_has_its_own_statement(self):
        def outcome(trial):
            factor = 2.0 if (trial.bandwidth, trial.method) == ("tuned", "SES") else 1.0
            return {"kernel_error": factor * figure1_error(trial)["kernel_error"]}

        found = statements_by_part(FIGURE1, outcome)
        assert found["median length scale"].outcome == "reproduced"
        assert found["tuned length scale"].outcome == "not reproduced"

    def test_difference_within_one_standard_error_is_not_lower(self):
        def outcome(trial):
            noise = 0.2 * (trial.seed - 1) if (trial.method, trial.n_frequencies) == ("SES", 32) else 0.0
            return {"kernel_error": figure1_error(trial)["kernel_error"] + noise}

        statement = statements_by_part(FIGURE1, outcome)["median length scale"]
        assert statement.outcome == "not reproduced"
        assert "at 1 of 2 sizes" in statement.sentence

    def test_years_only_needs_competitive_errors(self):
        def outcome(trial):
            return {"kernel_error": 0.52 if trial.method == "SES" else 0.5}

        assert statements_by_part(FIGURE1, outcome, "cpu")["median length scale"].outcome == "not reproduced"
        assert statements_by_part(FIGURE1, outcome, "years")["median length scale"].outcome == "reproduced"


def test_claim_holds_on_a_data_set_that_the_paper_does_not_use():
    found = statements_by_part(FIGURE1, figure1_error, paper="")
    assert {statement.outcome for statement in found.values()} <= {"holds here", "does not hold here"}
    assert found["median length scale"].outcome == "holds here"
    assert "value" not in statements_by_part(STUDIES["table2"], lambda trial: {"test_error": 0.03}, paper="")


@pytest.mark.parametrize(
    ("fields", "study", "obstacle"),
    [
        ({"reduced": "22 of 119 columns"}, FIGURE1, "The data are reduced: 22 of 119 columns."),
        ({}, replace(FIGURE1, seeds=(0, 1)), "There are fewer than 3 seeds."),
        ({}, replace(FIGURE1, datasets=("adult",)), "The paper makes no such claim about this data set."),
    ],
)
def test_statement_is_inconclusive(fields, study, obstacle):
    for statement in statements_by_part(study, figure1_error, **fields).values():
        assert statement.outcome == "inconclusive"
        assert statement.sentence.startswith(obstacle)


class TestTable2:
    @pytest.mark.parametrize(
        ("factor", "outcome"), [(0.9, "reproduced"), (1.04, "reproduced"), (1.06, "not reproduced")]
    )
    def test_value_is_compared_with_the_paper(self, factor, outcome):
        levels = PAPER_ERRORS["cpu"] | {DEFAULT: 3.0, NYSTROEM: 5.0}

        def errors(trial):
            return {"test_error": 0.01 * factor * levels[trial.method], "penalty": ALPHAS[trial.seed]}

        statement = statements_by_part(STUDIES["table2"], errors, task="regression")["value"]
        assert statement.outcome == outcome
        assert f"({100 * (factor - 1):+.1f} %;" in statement.sentence
        reached = "no worse than" if 3.0 * factor <= 3.27 else "above"
        assert f"{reached} the lowest error in the paper (3.27 %)" in statement.sentence
        assert "In 6 of 30 fits the selected penalty is at an end of its grid." in statement.sentence

    @pytest.mark.parametrize(
        ("ses", "noise", "outcome"),
        [(3.0, 0.0, "reproduced"), (3.4, 0.0, "not reproduced"), (3.25, 0.2, "inconclusive")],
    )
    def test_order_of_the_methods(self, ses, noise, outcome):
        levels = {"MC": 3.5, "QMC": 3.3, "BQ": 3.6, "SES": ses, DEFAULT: 3.0, NYSTROEM: 5.0}

        def errors(trial):
            return {"test_error": 0.01 * (levels[trial.method] + noise * (trial.seed - 2) * (trial.method == "SES"))}

        assert statements_by_part(STUDIES["table2"], errors)["order"].outcome == outcome

    def test_reduced_data_are_not_compared_with_the_paper(self):
        found = statements_by_part(STUDIES["table2"], lambda _: {"test_error": 0.03}, reduced="5 of 9 rows")
        assert list(found) == ["value"]
        assert "in the paper" not in found["value"].sentence


def test_figure2_compares_weights_as_multiples_of_the_plain_weight():
    def outcome(trial):
        swing = {"QMC": 0.0, "BQ": 0.5, "SES": -0.3}[trial.method] * (0.5 if trial.n_frequencies == 512 else 1.0)
        signs = np.resize([1.0, -1.0], trial.n_frequencies)
        return {"weights": " ".join(f"{w:.9g}" for w in (1.0 + swing * signs) / trial.n_frequencies)}

    found = statements_by_part(STUDIES["figure2"], outcome, "adult")
    sentence = found["closer to 1/M"].sentence
    assert "The weights of BQ differ from 1/M by 50 % of it at M = 32 and by 25 % at M = 512" in sentence
    assert "The weights of SES differ from 1/M by 30 % of it at M = 32 and by 15 % at M = 512" in sentence
    apart = found["BQ and SES closer to each other"]
    assert "differ by 80 % of 1/M at M = 32 and by 40 % at M = 512" in apart.sentence
    assert {statement.outcome for statement in found.values()} == {"reproduced"}


@pytest.mark.parametrize(("floor", "outcome"), [(1.0, "reproduced"), (0.5, "not reproduced")])
def test_figure3_needs_an_error_that_no_longer_falls_at_four_pairs_per_frequency(floor, outcome):
    def errors(trial):
        if trial.method in ("QMC", NYSTROEM):
            return {"kernel_error": 1.5}
        ratio = trial.n_pairs / trial.n_frequencies
        error = {0.5: 3.0, 1.0: 2.0, 2.0: 1.2, 4.0: 1.0}.get(ratio, floor)
        return {"kernel_error": error * (1.3 if trial.method == "BQ" else 1.0)}

    found = statements_by_part(replace(STUDIES["figure3"], datasets=("cpu",)), errors)
    needed, erratic = found["pairs that SES needs"], found["BQ erratic"]
    assert needed.outcome == outcome
    assert needed.sentence.count("below QMC for r >= 2 M") == 2
    assert f"{1.0 / floor:.2f} times that at 16 M pairs" in needed.sentence
    assert erratic.outcome == "reproduced"
    assert f"{3.0 / floor:.2f} (M = 64)" in erratic.sentence


@pytest.mark.parametrize(
    ("uniform", "own", "outcomes"),
    [
        (0.4, 0.3, ("reproduced", "reproduced")),
        (0.5, 0.3, ("not reproduced", "reproduced")),
        (0.4, 0.45, ("reproduced", "not reproduced")),
    ],
)
def test_figure4_compares_both_weightings_in_turn(uniform, own, outcomes):
    levels = dict(zip(STUDIES["figure4"].methods, (0.5, uniform, own, 0.1), strict=True))
    found = statements_by_part(
        STUDIES["figure4"], lambda trial: {"kernel_error": levels[trial.method] / trial.n_frequencies}
    )
    assert tuple(statement.outcome for statement in found.values()) == outcomes


def test_standard_error():
    values = np.array([[1.0, 2.0, 4.0], [1.0, 1.0, 1.0]])
    np.testing.assert_allclose(standard_error(values), [np.std([1, 2, 4], ddof=1) / np.sqrt(3), 0.0])
    assert standard_error(np.array([[3.0]])) == 0.0


@pytest.mark.parametrize(
    ("values", "text"),
    [([0.12], "12.00"), ([0.002, 0.004], "0.300 ± 0.100"), ([0.0], "0.000"), ([2e-5], "2.0e-03")],
)
def test_percent(values, text):
    assert percent(np.array(values)) == text
