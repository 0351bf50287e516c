# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from bochner import FourierFeatures
from bochner.experiments.methods import KMEANS_NYSTROEM, METHODS
from bochner.weightings import Stein
from tests.experiments.examples import make_split


@pytest.mark.parametrize("method", METHODS)
def test_all_methods_have_the_same_number_of_columns(method):
    X = make_split().X_train
    assert METHODS[method].estimator(8, 1.0, 0, X).fit(X).transform(X).shape == (120, 16)


def test_k_means_has_at_most_one_cluster_per_distinct_row():
    X = np.repeat(np.eye(3), 10, axis=0)
    assert METHODS[KMEANS_NYSTROEM].estimator(4, 1.0, 0, X).fit(X).transform(X).shape == (30, 3)


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


@pytest.mark.parametrize("method", ["sobol + uniform", "refined stein", "matrix"])
def test_description_is_the_call_of_the_estimator(method):
    X = make_split().X_train
    described = eval(METHODS[method].description(8), {"FourierFeatures": FourierFeatures})
    if described.sampler == "auto":
        described.sampler = "orthogonal"  # what it means for the Gaussian kernel
    estimator = METHODS[method].estimator(8, 2.0, 1, X)
    assert estimator.get_params() == described.set_params(length_scale=2.0, random_state=1).get_params()


def test_description_for_any_size():
    assert METHODS["orthogonal + stein"].description() == "FourierFeatures(weighting='stein', n_frequencies=M)"
    assert "2 M training rows" in METHODS["Nystroem"].description()
