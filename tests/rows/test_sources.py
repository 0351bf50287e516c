# SPDX-License-Identifier: BSD-3-Clause
"""Row sources: one behavior, wherever the rows are."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

import bochner.rows.sources
from bochner.rows import Batch, open_rows, to_dense
from bochner.rows.sources import check_batch_weights
from bochner.tables.encoding import EncodedTable, TableRows
from tests.rows.array_partitions import ArrayPartitions
from tests.tables.tables import survey_file, write_table

N_ROWS = 230
SELECTIONS = {
    "all": slice(None),
    "slice": slice(20, 190, 7),
    "first rows": slice(0, 5),
    "no rows": slice(40, 40),
    "indices": np.array([229, 3, 3, 150, 0]),
    "no indices": np.empty(0, dtype=np.intp),
}


def double(y):
    return 2.0 * y


def one_more(y):
    return y + 1.0


def statistics(start, batch):
    """Return statistics of all columns of a batch, with the number of its first row."""
    X = to_dense(batch.X)
    numbers = start + np.arange(X.shape[0])
    weights = np.ones(X.shape[0]) if batch.sample_weight is None else batch.sample_weight
    return np.concatenate([X.sum(axis=0), (X * numbers[:, None]).sum(axis=0), [batch.y @ weights, X.shape[0]]])


def number_and_size(number, batch):
    return [(number, batch.X.shape[0])]


def sum_of_targets(start, batch):
    del start
    return batch.y.sum()


def count_after_the_first_batch(start, batch):
    return batch.X.shape[0] if start else None


def no_statistic(start, batch):
    del start, batch


class RowSourceTests:
    """The behavior of every row source; a subclass makes one from dense arrays and inherits all tests."""

    has_weights = True

    def make(self, X, y, weights, folder):
        raise NotImplementedError

    @pytest.fixture
    def arrays(self, rng, monkeypatch):
        monkeypatch.setattr(bochner.rows.sources, "MAX_BATCH_ROWS", 100)
        X = rng.normal(size=(N_ROWS, 4))
        X[X < -0.5] = 0.0
        weights = rng.integers(0, 3, size=N_ROWS).astype(np.float64)
        return X, rng.normal(size=N_ROWS), weights if self.has_weights else None

    @pytest.fixture
    def source(self, arrays, tmp_path):
        return self.make(*arrays, tmp_path).validate(BaseEstimator(), accept_sparse="csr", dtype=np.float64)

    def check(self, batch, X, y, weights):
        np.testing.assert_array_equal(to_dense(batch.X), X)
        np.testing.assert_array_equal(batch.y, y)
        if weights is None:
            assert batch.sample_weight is None
        else:
            np.testing.assert_array_equal(batch.sample_weight, weights)

    def test_shape(self, source):
        assert source.shape == (N_ROWS, 4)
        assert source.has_targets
        assert source.target_template.shape == (0,)
        assert source.location in ("memory", "file", "cluster")

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_dtype_is_kept(self, arrays, tmp_path, dtype):
        X, y, weights = arrays
        source = self.make(X.astype(dtype), y, weights, tmp_path)
        source = source.validate(BaseEstimator(), accept_sparse="csr", dtype=[np.float64, np.float32])
        assert source.dtype == dtype
        assert source[:3].dtype == dtype

    def test_validation_sets_the_number_of_columns(self, arrays, tmp_path):
        estimator = BaseEstimator()
        self.make(*arrays, tmp_path).validate(estimator, accept_sparse="csr", dtype=np.float64)
        assert estimator.n_features_in_ == 4

    @pytest.mark.parametrize("rows", SELECTIONS.values(), ids=SELECTIONS)
    def test_selected_rows_have_their_targets_and_weights(self, source, arrays, rows):
        self.check(source.select(rows), *(None if column is None else column[rows] for column in arrays))
        np.testing.assert_array_equal(to_dense(source[rows]), arrays[0][rows])

    @pytest.mark.parametrize("rows", SELECTIONS.values(), ids=SELECTIONS)
    def test_targets_and_weights_can_be_selected_alone(self, source, arrays, rows):
        batch = source.select(rows, with_rows=False)
        assert batch.X is None
        np.testing.assert_array_equal(batch.y, arrays[1][rows])
        if self.has_weights:
            np.testing.assert_array_equal(batch.sample_weight, arrays[2][rows])

    def test_encodings_of_targets_compose(self, source, arrays):
        encoded = source.with_targets(double).with_targets(one_more)
        np.testing.assert_allclose(encoded.select(slice(7, 60)).y, 2.0 * arrays[1][7:60] + 1.0, rtol=1e-15)
        assert encoded.accumulate(sum_of_targets) == pytest.approx((2.0 * arrays[1] + 1.0).sum())
        np.testing.assert_array_equal(source.select(slice(7, 60)).y, arrays[1][7:60])

    def test_targets_can_be_dropped(self, source, arrays):
        unlabeled = source.with_targets(None)
        assert not unlabeled.has_targets
        X, _, _ = arrays
        for rows in (slice(20, 60), np.array([5, 2])):
            batch = unlabeled.select(rows)
            assert batch.y is None
            np.testing.assert_array_equal(to_dense(batch.X), X[rows])

    def test_statistics_are_accumulated_over_all_rows(self, source, arrays):
        X, y, weights = arrays
        expected = statistics(0, Batch(X, y, weights))
        np.testing.assert_allclose(source.accumulate(statistics), expected, rtol=1e-12)

    def test_targets_can_be_accumulated_without_rows(self, source, arrays):
        assert source.accumulate(sum_of_targets, with_rows=False) == pytest.approx(arrays[1].sum())

    def test_batches_that_contribute_nothing_are_left_out(self, source):
        assert source.accumulate(no_statistic) is None
        starts, sizes = zip(*source.accumulate(number_and_size), strict=True)
        assert list(starts) == (np.cumsum(sizes) - sizes).tolist()
        assert (source.accumulate(count_after_the_first_batch) or 0) == N_ROWS - sizes[0]

    def test_every_partition_gets_its_argument(self, source):
        arguments = {number: f"partition {number}" for number in source.partition_numbers}
        found = source.accumulate(number_and_size, arguments)
        assert [argument for argument, _ in found] == list(arguments.values())
        assert sum(size for _, size in found) == N_ROWS

    def test_parts_read_rows(self, source, arrays):
        rows = np.array([3, 200])
        np.testing.assert_array_equal(to_dense(source.data[rows]), arrays[0][rows])

    @pytest.mark.parametrize(("value", "message"), [(np.nan, "NaN|nan|missing"), (np.inf, "inf")])
    def test_missing_and_infinite_values_are_refused(self, arrays, tmp_path, value, message):
        """Rows in memory are checked by `validate`, other rows as they are read."""
        X, y, weights = arrays
        X[150, 2] = value
        with pytest.raises(ValueError, match=message):  # noqa: PT012
            source = self.make(X, y, weights, tmp_path)
            source.validate(BaseEstimator(), accept_sparse="csr", dtype=np.float64).accumulate(statistics)


class TestDenseRows(RowSourceTests):
    def make(self, X, y, weights, folder):
        return open_rows(X, y, weights)


class TestSparseRows(RowSourceTests):
    def make(self, X, y, weights, folder):
        return open_rows(sparse.csr_array(X), y, weights)

    def test_batches_stay_sparse(self, source):
        assert sparse.issparse(source[3:9])


class TestMemoryMappedRows(RowSourceTests):
    def make(self, X, y, weights, folder):
        np.save(folder / "X.npy", X)
        return open_rows(np.load(folder / "X.npy", mmap_mode="r"), y, weights)


class TestPartitionedRows(RowSourceTests):
    def make(self, X, y, weights, folder):
        return open_rows(ArrayPartitions((0, 120, 0, 1, 109, 0), X=X, y=y, sample_weight=weights))

    def test_partitions_without_rows_are_not_visited(self, source):
        assert source.partition_numbers == [1, 3, 4]


class TestDaskRows(RowSourceTests):
    @pytest.fixture(autouse=True)
    def synchronous(self):
        dask = pytest.importorskip("dask")
        with dask.config.set(scheduler="synchronous"):
            yield

    def make(self, X, y, weights, folder):
        da = pytest.importorskip("dask.array")
        chunks = (120, 1, 109)
        return open_rows(*(da.from_array(column, chunks=(chunks, *column.shape[1:])) for column in (X, y, weights)))


class TestFileRows(RowSourceTests):
    has_weights = False
    suffix = ".parquet"

    def make(self, X, y, weights, folder):
        columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"y": y}
        survey = survey_file(write_table(folder / f"rows{self.suffix}", columns, row_group_size=90))
        return TableRows(EncodedTable(survey.table, survey.encoding("none")), survey.lengths)

    @pytest.mark.parametrize(("value", "message"), [(np.inf, "inf")])
    def test_missing_and_infinite_values_are_refused(self, arrays, tmp_path, value, message):
        """Missing cells of a table are replaced."""
        super().test_missing_and_infinite_values_are_refused(arrays, tmp_path, value, message)


class TestCsvRows(TestFileRows):
    suffix = ".csv"

    def test_dtype_is_kept(self):
        pytest.skip("the numbers of a CSV file are float64")


def test_rows_of_positive_weight_in_a_batch(rng):
    batch = Batch(rng.normal(size=(4, 2)), np.arange(4), np.array([1.0, 0.0, 2.0, 0.0]), np.array([0, 1, 0, 1]))
    kept = batch.drop_zero_weights()
    assert [kept.y.tolist(), kept.sample_weight.tolist(), kept.fold_of.tolist()] == [[0, 2], [1.0, 2.0], [0, 0]]
    assert kept.drop_zero_weights() is kept
    assert Batch(batch.X, batch.y).row_weights.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 1.0], "Negative values in data passed to `sample_weight`"),
        ([1.0, np.nan, 1.0], "sample_weight contains NaN"),
        ([1.0, 1.0], r"`sample_weight` has shape \(2,\); give one weight for each of the 3 rows"),
    ],
)
def test_bad_weights_of_a_partition(weights, message):
    with pytest.raises(ValueError, match=message):
        check_batch_weights(np.array(weights), 3)
