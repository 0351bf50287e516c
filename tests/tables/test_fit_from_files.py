# SPDX-License-Identifier: BSD-3-Clause
"""Linear models that are fitted on files."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import PredefinedSplit

from bochner import FourierFeatures, FourierRidge, FourierRidgeClassifier, FourierSVC
from tests.tables.tables import write_table


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "model",
    [
        FourierRidge(FourierFeatures(n_frequencies=8), random_state=0),
        FourierRidgeClassifier(FourierFeatures(n_frequencies=8), random_state=0),
        FourierSVC(FourierFeatures(n_frequencies=8), random_state=0, Cs=[0.1, 1.0]),
    ],
)
def test_model_of_a_file_equals_model_of_an_array(tmp_path, rng, suffix, model):
    X, y = rng.normal(size=(300, 3)), (np.arange(300) % 3).astype(float)
    path = write_table(tmp_path / f"a{suffix}", {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
    expected = clone(model).set_params(cv=PredefinedSplit(np.arange(300) % 5)).fit(X, y)
    model.fit(path, "y")
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.predict(path), expected.predict(X), rtol=1e-6)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-6)


def test_text_target_of_regression_is_refused(table_files, columns):
    with pytest.raises(ValueError, match=r"column 'color' (holds|contains) text"):
        FourierRidge().fit(table_files[".csv"], "color")
    with pytest.raises(ValueError, match="`y` must be the name of the column"):
        FourierRidge().fit(table_files[".csv"], columns["y"])


def test_model_of_an_array_does_not_accept_files(table_files, columns):
    model = FourierRidge(FourierFeatures(n_frequencies=4)).fit(columns["height"][:, None], columns["y"])
    with pytest.raises(ValueError, match="fitted on an array"):
        model.predict(table_files[".csv"])
