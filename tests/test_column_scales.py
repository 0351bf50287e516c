# SPDX-License-Identifier: BSD-3-Clause
"""A column beside which all others are negligible gets a warning, and a value beyond all others an error."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.rows import Metric

LARGEST = np.finfo(np.float64).max
FOURIER = FourierFeatures(n_frequencies=8, random_state=0)
LANDMARKS = LandmarkFeatures(n_landmarks=8, random_state=0)
ESTIMATORS = {
    "Fourier features": FOURIER,
    "landmarks": LANDMARKS,
    "scale": FourierFeatures(length_scale="scale", n_frequencies=8),
    "number": FourierFeatures(length_scale=1.5, n_frequencies=8),
    "size by trials": FourierFeatures(n_frequencies="auto", tolerance=0.3, random_state=0),
    "ridge": FeatureRegressor(FOURIER),
    "ridge on landmarks": FeatureRegressor(LANDMARKS, length_scale_factors=[0.5, 1, 2]),
    "ridge with size by trials": FeatureRegressor(
        FourierFeatures(n_frequencies="auto", tolerance=0.3), length_scale_factors=[1, 2], random_state=0
    ),
    "several kernels": FeatureRegressor(FOURIER, kernels=["gaussian", "exponential"], length_scale_factors=[1, 2]),
    "classifier": FeatureClassifier(FOURIER, length_scale_factors=[1, 2]),
}
REMEDY = r"hardly any effect on the distances between rows; standardize the columns, .*, or use length_scale='learn'\.$"


@pytest.fixture
def X(rng):
    return rng.normal(size=(200, 3))


@pytest.fixture
def y():
    return np.arange(200) % 2


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_column_in_much_smaller_units_gets_one_warning(name, X, y):
    with pytest.warns(UserWarning, match=REMEDY) as caught:
        ESTIMATORS[name].fit(X * [1.0, 1e6, 1.0], y)
    (message,) = (str(warning.message) for warning in caught)
    assert message.startswith("Column 1 has values from -")


@pytest.mark.parametrize("estimator", [FOURIER, FeatureRegressor(FOURIER, length_scale_factors=[1, 2])])
def test_the_warning_names_the_column_of_a_data_frame(estimator, X, y):
    frame = pd.DataFrame(X * [1.0, 1.0, 1e6], columns=["age", "size", "income"])
    with pytest.warns(UserWarning, match=r"^Column 2 \('income'\) has values from .* ranges of at most \d\.\d+, "):
        estimator.fit(frame, y)


@pytest.mark.parametrize("estimator", [FOURIER, LANDMARKS])
def test_sparse_rows(estimator, rng):
    X = sparse.random_array((300, 40), density=0.7, rng=rng, format="csr")
    estimator.fit(X)
    with pytest.warns(UserWarning, match="^Column 7 has values from 0 to "):
        estimator.fit(sparse.csr_array(X @ sparse.diags_array(np.where(np.arange(40) == 7, 1e6, 1.0))))


def test_units_beyond_squares_of_float64(X):
    with pytest.warns(UserWarning, match=r"^Column 0 has values from -.*e\+200 to "):
        FOURIER.fit(X * [1e200, 1.0, 1.0])


@pytest.mark.parametrize("features", [FOURIER, LANDMARKS], ids=["Fourier", "landmarks"])
@pytest.mark.parametrize("name", ["diabetes", "digits", "iris", "breast_cancer"])
def test_ordinary_data_get_no_warning(features, name):
    features.fit(getattr(datasets, f"load_{name}")().data)


def test_wine_gets_a_warning_until_it_is_standardized():
    X = datasets.load_wine(as_frame=True).data
    with pytest.warns(UserWarning, match=r"^Column 12 \('proline'\) has values from 278 to 1\.68e\+03"):
        FOURIER.fit(X)
    FOURIER.fit(StandardScaler().fit_transform(X))


@pytest.mark.parametrize("length_scale", ["median", "scale", 1.0, 1000.0])
def test_columns_that_do_not_vary_do_not_count(length_scale, X):
    features = FourierFeatures(length_scale=length_scale, n_frequencies=8, random_state=0)
    features.fit(X[:, :1])
    features.fit(np.column_stack([1e6 * X[:, 0], np.full(200, 0.1), np.zeros(200)]))
    features.fit(X[:1])
    features.fit(X)


@pytest.mark.parametrize("length_scale", [np.array([1.0, 1e6, 1.0]), Metric(np.diag([1.0, 1e-6, 1.0])), "learn"])
def test_length_scales_of_columns_get_no_warning(length_scale, X, y):
    FourierFeatures(length_scale=length_scale, n_frequencies=8, random_state=0).fit(X * [1.0, 1e6, 1.0], y)


@pytest.mark.parametrize("value", [1e3, 1e10])
def test_one_outlying_row_does_not_change_the_median_distance(value, X):
    """The row is far away from all others, which keep their distances."""
    expected = FOURIER.fit(X).length_scale_
    X[5, 2] = value
    assert FOURIER.fit(X).length_scale_ == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("values", [[1e200], [LARGEST], [LARGEST, -LARGEST]])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("estimator", [FOURIER, LANDMARKS, FeatureRegressor(FOURIER, length_scale_factors=[1, 2])])
def test_a_cell_beyond_all_others_is_refused(estimator, container, values, X, y):
    X[: len(values), 2] = values
    with pytest.raises(ValueError, match=r"X contains values up to 1.*e\+\d+ in column 2, .* remove outlying values"):
        estimator.fit(container(X), y)


@pytest.mark.parametrize("values", [[1e6], [1e200], [LARGEST, -LARGEST]])
def test_a_cell_that_determines_the_scale_of_all_entries_gets_a_warning(values, X):
    X[: len(values), 2] = values
    with pytest.warns(UserWarning, match=r"^Column 2 has values from .* to 1.*e\+\d+, and the other columns"):
        FourierFeatures(length_scale="scale", n_frequencies=8, random_state=0).fit(X)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("value", [1e10, 1e200, LARGEST])
def test_learned_length_scales_leave_out_a_column_with_an_outlying_cell(value, container, X):
    y = np.sin(X[:, 0])
    X[5, 2] = value
    features = FourierFeatures(length_scale="learn", n_frequencies=64)
    assert FeatureRegressor(features, random_state=0).fit(container(X), y).score(container(X), y) > 0.9
