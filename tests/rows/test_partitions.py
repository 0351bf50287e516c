# SPDX-License-Identifier: BSD-3-Clause
"""Partitions on engines of a user's own, and the row source on top of them."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from bochner import FourierFeatures
from bochner.rows import open_rows
from bochner.rows.partitions import PartitionedRows
from tests.feature_models.examples import CHUNKINGS, MODELS, assert_same_model, fit_in_memory, make_data
from tests.rows.array_partitions import ArrayPartitions


def with_pickled_functions(part, calls):
    """Compute in this process, with a function that has travelled as it would to another one."""
    return [pickle.loads(pickle.dumps(part))(*call) for call in calls]


def with_joblib(part, calls):
    from joblib import Parallel, delayed

    return Parallel(n_jobs=2)(delayed(part)(*call) for call in calls)


def with_futures(pool, part, calls):
    return list(pool.map(part, *zip(*calls, strict=True)))


def assert_engine_fits(run, name):
    X, y = make_data(name)
    model = clone(MODELS[name]).fit(ArrayPartitions(CHUNKINGS["uneven"], run, X=X, y=y), None)
    assert_same_model(model, fit_in_memory(name))


@pytest.mark.parametrize("name", ["ridge", "classes", "svm"])
def test_models_of_partitions_in_this_process(name):
    assert_engine_fits(with_pickled_functions, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ridge", "classes", "svm"])
def test_models_of_partitions_in_other_processes(name):
    assert_engine_fits(with_joblib, name)
    with ProcessPoolExecutor(2) as pool:
        assert_engine_fits(partial(with_futures, pool), name)


def test_features_of_partitions():
    X, _ = make_data(n_rows=300)
    features = FourierFeatures(n_frequencies=8, random_state=0)
    expected = clone(features).fit(X)
    features.fit(ArrayPartitions((100, 200), X=X))
    np.testing.assert_array_equal(features.weights_, expected.weights_)


def test_rows_are_collected_by_number():
    X, y = make_data(n_rows=100)
    rows = PartitionedRows(ArrayPartitions((30, 0, 70), X=X, y=y), X.dtype, has_targets=True)
    assert rows.shape == (100, 4)
    numbers = np.array([99, 3, 3, 50])
    np.testing.assert_array_equal(rows[numbers], X[numbers])
    np.testing.assert_array_equal(rows[20:60:3], X[20:60:3])
    np.testing.assert_array_equal(rows.select(numbers).y, y[numbers])
    assert rows[np.empty(0, dtype=int)].shape == (0, 4)


def test_lengths_are_counted_once_on_the_narrowest_block():
    names = []

    class Recording(ArrayPartitions):
        def reduce(self, part, combine, given, arguments, description=""):
            names.append(given)
            return super().reduce(part, combine, given, arguments, description)

    X, y = make_data(n_rows=100)
    partitions = Recording((30, 0, 70), X=X, y=y)
    assert partitions.lengths.tolist() == partitions.lengths.tolist() == [30, 0, 70]
    assert partitions.first_rows == {0: 0, 2: 30}
    assert names == [["y"]]


def test_partitions_with_blocks_of_different_lengths_are_refused():
    X, y = make_data(n_rows=100)
    partitions = ArrayPartitions((30, 70), X=X, y=y, sample_weight=np.ones(100))
    partitions.blocks["sample_weight"][1] = np.ones(69)
    message = "a partition of 70 rows has 70 rows of X and 70 rows of y and 69 rows of sample_weight; give X, y and"
    source = open_rows(partitions).validate(BaseEstimator(), dtype=np.float64)
    with pytest.raises(ValueError, match=message):
        source.select(slice(0, 50))
    with pytest.raises(ValueError, match="69 rows of sample_weight; give X, y and `sample_weight` in partitions"):
        clone(MODELS["ridge"]).fit(partitions, None)


def test_partitions_without_rows_are_refused():
    X, y = make_data(n_rows=100)
    with pytest.raises(ValueError, match="0 sample"):
        clone(MODELS["ridge"]).fit(ArrayPartitions((0, 0), X=X[:0], y=y[:0]), None)


def test_partitions_may_hold_nan_where_the_features_accept_it():
    X, y = make_data(n_rows=100)
    X[5, 1] = np.nan
    source = open_rows(ArrayPartitions((30, 70), X=X, y=y))
    with pytest.raises(ValueError, match="X contains NaN"):
        source.validate(BaseEstimator(), dtype=np.float64).select(slice(0, 30))
    accepted = source.validate(BaseEstimator(), dtype=np.float64, ensure_all_finite="allow-nan")
    assert np.isnan(accepted[5:6][0, 1])
