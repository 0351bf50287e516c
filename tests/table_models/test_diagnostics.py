# SPDX-License-Identifier: BSD-3-Clause
import pytest

from bochner.table_models.diagnostics import diagnose_table, diagnose_training
from bochner.table_models.predictions import evaluate
from tests.table_models.test_held_out import fit_frame, make_frame


@pytest.fixture(scope="module")
def fitted():
    return fit_frame(make_frame(), "y")


def test_training_rows(fitted):
    found = diagnose_training(fitted.model, fitted.survey)
    assert found.origin == "a held-out fifth of the rows (120 rows)"
    assert found.has_learned
    assert found.measures["r2"] > 0.9
    assert found.importance.ranking == ["x", "color", "noise"]
    assert found.permutation.names == ["x", "color", "noise"]
    assert [part.name for part in found.dependence] == ["x", "color", "noise"]
    assert len(found.curves) == 2


def test_rows_of_another_table(fitted):
    test = make_frame(200, seed=1)
    found = diagnose_table(fitted.model, evaluate(fitted.model, test), "test.csv")
    assert found.origin == "the 200 rows of test.csv"
    assert found.measures["r2"] == pytest.approx(fitted.model.estimator.score(test, "y"))
    assert found.held_out.estimator is fitted.model.estimator
    assert found.curves == []


def test_rows_without_a_target(fitted):
    test = make_frame(100, seed=1).drop(columns="y")
    found = diagnose_table(fitted.model, evaluate(fitted.model, test), "test.csv")
    assert found.has_learned is None
    assert found.measures == {}
    assert found.permutation is None
    assert found.importance.ranking[0] == "x"
    assert len(found.dependence) == 3


def test_no_columns_are_shown_where_nothing_was_learned(rng):
    noise = fit_frame(make_frame(400).assign(y=rng.normal(size=400)), "y")
    found = diagnose_training(noise.model, noise.survey)
    assert found.has_learned is False
    assert found.permutation is None
    assert found.dependence == []
