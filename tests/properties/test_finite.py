# SPDX-License-Identifier: BSD-3-Clause
"""Any finite input gives finite output, or one message of validation: every estimator, all of its parameters."""

import numpy as np
import pytest
from hypothesis import strategies as st
from sklearn.base import clone

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    RobustStandardizer,
    TableClassifier,
    TableEncoder,
    TableRegressor,
)
from bochner.losses import CLASSIFICATION_LOSSES, LOSSES
from tests.properties import strategies
from tests.properties.running import LANES, assert_finite, for_examples, one_message

# Warnings of ours about constant targets, rounding and convergence; those of numpy stay errors.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::scipy.linalg.LinAlgWarning")


@LANES
@pytest.mark.parametrize(
    "features", [strategies.fourier_features(), strategies.landmark_features()], ids=["fourier", "landmark"]
)
def test_kernel_features(features, n_examples):
    @for_examples(5 * n_examples, features, strategies.any_rows(), st.data())
    def check(features, X, data):
        y = data.draw(strategies.targets(len(X)) | strategies.labels(len(X)))
        weights = data.draw(strategies.weights(len(X)))
        with one_message():
            assert_finite(features.fit(X, y, sample_weight=weights).transform(X), features.length_scale_)


@LANES
def test_ridge(n_examples):
    models = strategies.models(FeatureRegressor, "squared_error")

    @for_examples(5 * n_examples, models, strategies.any_rows(min_rows=3), st.data())
    def check(model, X, data):
        y, weights = data.draw(strategies.targets(len(X))), data.draw(strategies.weights(len(X)))
        with one_message():
            model.fit(X, y, sample_weight=weights)
            assert_finite(*model.predict(X, return_std=True), model.coef_, model.intercept_, model.score(X, y))


@LANES
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss != "squared_error"])
def test_other_losses_of_regressions(loss, n_examples):
    @for_examples(2 * n_examples, strategies.models(FeatureRegressor, loss), strategies.rows(min_rows=6), st.data())
    def check(model, X, data):
        y, weights = data.draw(strategies.targets(len(X), extreme=False)), data.draw(strategies.weights(len(X)))
        y = np.abs(y) if loss in ("poisson", "gamma") else y
        with one_message():
            model.fit(X, y, sample_weight=weights)
            assert_finite(model.predict(X), model.coef_, model.intercept_, model.score(X, y))


@LANES
@pytest.mark.parametrize("loss", CLASSIFICATION_LOSSES)
def test_classifiers(loss, n_examples):
    @for_examples(
        3 * n_examples, strategies.models(FeatureClassifier, loss), strategies.any_rows(min_rows=6), st.data()
    )
    def check(model, X, data):
        y, weights = data.draw(strategies.labels(len(X))), data.draw(strategies.weights(len(X)))
        with one_message():
            model.fit(X, y, sample_weight=weights)
            assert set(model.predict(X)) <= set(y)
            assert_finite(model.decision_function(X), model.coef_, model.intercept_, model.score(X, y))
            if hasattr(model, "predict_proba"):
                assert_finite(model.predict_proba(X))


@LANES
def test_robust_standardizer(n_examples):
    @for_examples(5 * n_examples, strategies.instances(RobustStandardizer), strategies.any_rows())
    def check(standardizer, X):
        with one_message():
            assert_finite(standardizer.fit(X).transform(X))


@LANES
def test_tables(n_examples):
    @for_examples(2 * n_examples, strategies.tables(), strategies.instances(TableEncoder, **strategies.TABLE_VALUES))
    def check(table, encoder):
        with one_message():
            assert_finite(encoder.fit(table).transform(table))


@LANES
def test_table_models(n_examples):
    regressor = TableRegressor(FeatureRegressor(strategies.FEW))
    classifier = TableClassifier(FeatureClassifier(strategies.FEW, loss="squared_error"))

    @for_examples(2 * n_examples, strategies.tables(), st.sampled_from([regressor, classifier]))
    def check(table, model):
        with one_message():
            assert_finite(clone(model).fit(table, "y").predict(table))
