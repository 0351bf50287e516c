# SPDX-License-Identifier: BSD-3-Clause
import pytest

from bochner.weightings import Stein
from reproduction.methods import METHODS
from tests.reproduction.examples import make_split


@pytest.mark.parametrize("method", METHODS)
def test_all_methods_have_the_same_number_of_columns(method):
    X = make_split().X_train
    assert METHODS[method].estimator(8, 1.0, 0, X).fit(X).transform(X).shape == (120, 16)


@pytest.mark.parametrize(("n_columns", "sequence"), [(100, "sobol"), (101, "halton")])
def test_methods_of_the_paper_share_one_sequence(n_columns, sequence):
    assert {METHODS[name].sampler_for(n_columns) for name in ("QMC", "BQ", "SES", "SES, pairs")} == {sequence}
    assert METHODS["MC"].sampler_for(n_columns) == "mc"


def test_number_of_pairs_is_set_on_a_copy_of_the_weighting():
    assert METHODS["SES"].weighting_with(0).sketch == "points"
    assert METHODS["SES"].weighting_with(99).n_points == 99
    assert METHODS["SES, pairs"].weighting_with(99).n_pairs == 99
    assert METHODS["SES, row-norm pairs"].weighting_with(99).sampling == "row-norm"
    assert METHODS["BQ"].weighting_with(99).n_pairs == 99
    assert METHODS["MC"].weighting_with(99) == "uniform"
    assert METHODS["SES"].weighting_with(0).n_points == Stein().n_points
