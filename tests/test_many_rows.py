# SPDX-License-Identifier: BSD-3-Clause
"""Features of more than 2**20 rows, which are fitted on a sample."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from bochner import FourierFeatures, LandmarkFeatures

da = pytest.importorskip("dask.array")
N_ROWS = 2**20 + 4096


@pytest.fixture(scope="module")
def sorted_rows():
    """Rows of 100 groups, one group after the other."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(100, 2)) * 8
    groups = np.sort(rng.integers(100, size=N_ROWS))
    return (centers[groups] + 0.1 * rng.normal(size=(N_ROWS, 2))).astype(np.float32)


def memory_map(X, folder):
    np.save(folder / "rows.npy", X)
    return np.load(folder / "rows.npy", mmap_mode="r")


CONTAINERS = {
    "array": lambda X, folder: X,
    "memory map": memory_map,
    "sparse matrix": lambda X, folder: sparse.csr_array(X),
    "few chunks": lambda X, folder: da.from_array(X, chunks=(2**16, 2)),
    "many chunks": lambda X, folder: da.from_array(X, chunks=(2**12, 2)),
}


def error_of(features, X, sample):
    return features.fit(X).kernel_error(sample, random_state=0).error


@pytest.mark.parametrize("container", CONTAINERS)
def test_sorted_rows_have_landmarks_in_all_groups(container, sorted_rows, tmp_path):
    features = LandmarkFeatures(n_landmarks=128, landmarks="pivoted", length_scale=2.0, random_state=0)
    sample = np.random.default_rng(1).choice(sorted_rows, 1000)
    assert error_of(features, CONTAINERS[container](sorted_rows, tmp_path), sample) < 0.02


def test_sorted_rows_have_the_weights_and_length_scale_of_shuffled_rows(sorted_rows):
    features = FourierFeatures(n_frequencies=64, random_state=0)
    shuffled = np.random.default_rng(1).permutation(sorted_rows)
    expected = error_of(features, shuffled, shuffled[:1000])
    assert error_of(features, sorted_rows, shuffled[:1000]) < 1.2 * expected
    assert features.length_scale_ == pytest.approx(clone(features).fit(shuffled).length_scale_, rel=0.02)


def test_few_chunks_have_the_sample_of_rows_in_memory(sorted_rows):
    features = LandmarkFeatures(n_landmarks=8, landmarks="uniform", random_state=0)
    expected = features.fit(sorted_rows).landmarks_
    found = features.fit(da.from_array(sorted_rows, chunks=(2**14, 2))).landmarks_
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("n_chunks", "most"), [(100, 100), (1000, 128), (10_000, 320)])
def test_few_chunks_are_computed(n_chunks, most):
    computed = []

    def rows_of(block_info=None):
        computed.append(block_info[None]["chunk-location"])
        return np.random.default_rng(len(computed)).normal(size=block_info[None]["chunk-shape"])

    size = -(-N_ROWS // n_chunks)
    rows = da.map_blocks(rows_of, chunks=((size,) * n_chunks, (2,)), dtype=float, meta=np.empty((0, 2)))
    FourierFeatures(n_frequencies=8, random_state=0).fit(rows)
    assert 1 <= len(computed) <= most
