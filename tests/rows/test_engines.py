# SPDX-License-Identifier: BSD-3-Clause
"""A user's own engine: rows in partitions fit, transform, predict and score like rows in memory."""

from functools import reduce

import numpy as np
import pytest
from sklearn.base import clone

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.rows import MemoryRows, Partitions


class Lists(Partitions):
    """Partitions in lists, as the shortest engine has them."""

    def __init__(self, n_partitions, **columns):
        self.blocks = {name: np.array_split(column, n_partitions) for name, column in columns.items()}
        self.templates = {name: blocks[0][:0] for name, blocks in self.blocks.items()}
        self.n_partitions = n_partitions

    def reduce(self, part, combine, names, arguments, description=""):
        parts = [part(argument, *(self.blocks[name][i] for name in names)) for i, argument in arguments.items()]
        return reduce(combine, parts)


FEATURES = FourierFeatures(n_frequencies=16, random_state=0)
LANDMARKS = LandmarkFeatures(n_landmarks=16, random_state=0)
MODELS = [
    FeatureRegressor(FEATURES),
    FeatureRegressor(LANDMARKS),
    FeatureRegressor(FEATURES, loss="huber", alphas=[1e-3]),
    FeatureClassifier(FEATURES, loss="squared_error"),
    FeatureClassifier(FEATURES, Cs=[1.0]),
    FeatureClassifier(FEATURES, loss="log_loss", Cs=[1.0]),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_models_fit_predict_and_score(model, rng):
    X = rng.normal(size=(300, 3))
    y = np.sin(X[:, 0]) if isinstance(model, FeatureRegressor) else (X[:, 0] > 0.0).astype(int)
    memory, lists = clone(model).fit(X, y), clone(model).fit(Lists(4, X=X, y=y))
    tolerance = 1e-12 if memory.loss == "squared_error" and isinstance(memory.features, FourierFeatures) else 1e-7
    np.testing.assert_allclose(lists.coef_, memory.coef_, rtol=0, atol=tolerance * np.abs(memory.coef_).max())
    np.testing.assert_allclose(lists.predict(Lists(7, X=X)), memory.predict(X), rtol=1e-7, atol=1e-9)
    assert lists.score(Lists(2, X=X, y=y)) == pytest.approx(memory.score(X, y), rel=1e-9)


@pytest.mark.parametrize("features", [FEATURES, LANDMARKS], ids=str)
def test_features_transform(features, rng):
    X = rng.normal(size=(300, 3))
    fitted = clone(features).fit(Lists(4, X=X))
    np.testing.assert_allclose(fitted.transform(Lists(4, X=X)), clone(features).fit_transform(X), rtol=0, atol=1e-12)


def test_other_columns_are_refused(rng):
    X = rng.normal(size=(60, 3))
    model = FeatureRegressor(FEATURES).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="X has 2 features, but FeatureRegressor is expecting 3"):
        model.predict(Lists(2, X=X[:, :2]))


@pytest.mark.parametrize("model", [MODELS[0], MODELS[4]], ids=str)
def test_row_sources_fit_predict_and_score(model, rng):
    X = rng.normal(size=(300, 3))
    y = np.sin(X[:, 0]) if isinstance(model, FeatureRegressor) else (X[:, 0] > 0.0).astype(int)
    memory, source = clone(model).fit(X, y), MemoryRows(X, y, np.ones(300))
    found = clone(model).fit(source)
    np.testing.assert_allclose(found.coef_, memory.coef_, rtol=0, atol=1e-12 * np.abs(memory.coef_).max())
    np.testing.assert_allclose(found.predict(source), memory.predict(X), rtol=0, atol=1e-12)
    assert found.score(source) == pytest.approx(memory.score(X, y), rel=1e-12)
