# SPDX-License-Identifier: BSD-3-Clause
"""Sample weights and values of C that the classifiers can solve for."""

from functools import partial

import numpy as np
import pytest

from bochner import FeatureClassifier, FourierFeatures

MODELS = pytest.mark.parametrize("kind", [FeatureClassifier, partial(FeatureClassifier, loss="log_loss")])
FEW = FourierFeatures(length_scale=1.0, n_frequencies=4, random_state=0)


@MODELS
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of folds
def test_weights_that_differ_by_a_factor_of_1e13(kind, rng):
    X = rng.normal(size=(40, 2))
    y, weights = X[:, 0] > 0.0, np.r_[1e13, np.ones(39)]
    model = kind(FEW, Cs=[1e-3, 1.0], cv=2)
    with np.errstate(all="raise", under="ignore"):
        model.fit(X, y, sample_weight=weights)
    assert np.isfinite(model.coef_).all()
    assert model.predict(X[:1]) == y[:1]


@MODELS
def test_weights_and_penalties_that_leave_nothing_to_solve(kind, rng):
    X = rng.normal(size=(40, 2))
    with pytest.raises(ValueError, match=r"C=1e\+29 times the sample weights, which sum to 40, .* at most 2.5e\+28"):
        kind(FEW, Cs=[1.0, 1e29]).fit(X, X[:, 0] > 0.0)
    with pytest.raises(ValueError, match=r"which sum to 4e\+21, is too large .* or divide the weights by their mean"):
        kind(FEW).fit(X, X[:, 0] > 0.0, sample_weight=np.full(40, 1e20))
