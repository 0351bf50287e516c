# SPDX-License-Identifier: BSD-3-Clause
"""How landmarks are selected: rows, pivots of a Cholesky factorization, centers of clusters."""

from collections import Counter

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from bochner import LandmarkFeatures
from bochner.feature_maps.kernel_columns import kernel_function
from bochner.kernels import Gaussian
from bochner.landmarks import LANDMARKS, KMeans, Pivoted, Uniform, pivots
from bochner.rows import LengthScales, TrainingRows

GAUSSIAN = kernel_function(Gaussian())


def select(name, n_landmarks, X, weights=None, seed=0):
    landmarks = LANDMARKS[name]().select(
        GAUSSIAN, n_landmarks, TrainingRows(X, weights, LengthScales(1.0)), np.random.default_rng(seed)
    )
    return landmarks.toarray() if sparse.issparse(landmarks) else landmarks


def as_set(rows):
    return set(map(tuple, rows.tolist()))


def kernel_error(X, landmarks):
    """Return the relative error of plain Nystroem features."""
    exact, columns = Gaussian()(X), Gaussian()(X, landmarks)
    approximate = columns @ np.linalg.pinv(Gaussian()(landmarks), rcond=1e-10, hermitian=True) @ columns.T
    return np.linalg.norm(exact - approximate) / np.linalg.norm(exact)


@pytest.mark.parametrize("name", LANDMARKS)
class TestEverySelection:
    @pytest.mark.parametrize("n_rows", [60, 3000])
    def test_shape_and_seed(self, rng, name, n_rows):
        X = rng.normal(size=(n_rows, 3))
        landmarks = select(name, 20, X)
        assert landmarks.shape == (20, 3)
        assert len(as_set(landmarks)) == 20
        np.testing.assert_array_equal(select(name, 20, X), landmarks)
        assert (select(name, 20, X, seed=1) != landmarks).any()

    def test_all_rows_where_there_are_no_more(self, rng, name):
        X = rng.normal(size=(12, 2))
        for n_landmarks in (12, 50):
            assert as_set(select(name, n_landmarks, X)) == as_set(X)

    def test_every_distinct_row_once(self, rng, name):
        X = rng.normal(size=(5, 2))
        assert sorted(map(tuple, select(name, 8, np.repeat(X, 7, axis=0)))) == sorted(map(tuple, X))

    @pytest.mark.parametrize("X", [np.array([[1.0, 2.0]]), np.ones((9, 2)), np.zeros((9, 2))], ids=["one", "ones", "0"])
    def test_one_distinct_row(self, name, X):
        np.testing.assert_array_equal(select(name, 3, X), X[:1])

    def test_sparse_equals_dense(self, rng, name):
        X = sparse.random_array((200, 10), density=0.3, rng=rng, format="csr")
        found, expected = select(name, 15, X), select(name, 15, X.toarray())
        np.testing.assert_allclose(found, expected, atol=1e-12)

    def test_weight_is_a_number_of_copies(self, rng, name):
        X, counts = rng.normal(size=(40, 2)), rng.integers(1, 4, size=40)
        copies = rng.permutation(np.repeat(X, counts, axis=0))
        np.testing.assert_allclose(select(name, 10, X, counts.astype(float)), select(name, 10, copies), atol=1e-12)

    def test_scale_of_the_weights_does_not_matter(self, rng, name):
        X, weights = rng.normal(size=(50, 2)), rng.uniform(0.5, 2.0, size=50)
        np.testing.assert_allclose(select(name, 10, X, weights), select(name, 10, X, 1024.0 * weights), atol=1e-12)

    def test_heavy_rows_are_selected(self, rng, name):
        """Landmarks follow the weights: almost all of the weight is on the second half of the rows."""
        X = np.vstack([rng.normal(size=(300, 2)) - 8.0, rng.normal(size=(300, 2)) + 8.0])
        landmarks = select(name, 20, X, np.repeat([1e-6, 1.0], 300))
        assert np.mean(landmarks[:, 0] > 0.0) >= 0.8

    @pytest.mark.parametrize("n_rows", [30, 2500])
    def test_rows_of_weight_zero_are_absent(self, rng, name, n_rows):
        X, weights = rng.normal(size=(n_rows, 2)), rng.integers(0, 3, size=n_rows).astype(float)
        features = LandmarkFeatures(landmarks=name, n_landmarks=9, length_scale=1.0, random_state=0)
        absent = clone(features).fit(X[weights > 0], sample_weight=weights[weights > 0])
        np.testing.assert_array_equal(features.fit(X, sample_weight=weights).landmarks_, absent.landmarks_)
        np.testing.assert_array_equal(features.whitening_, absent.whitening_)

    def test_number_of_threads_changes_no_bit(self, rng, name):
        X = rng.normal(size=(6000, 8))
        found = []
        for n_threads in (1, 3):
            with threadpool_limits(n_threads):
                found.append(select(name, 150, X))
        assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize("name", ["uniform", "pivoted"])
def test_landmarks_are_rows(rng, name):
    X = rng.normal(size=(2500, 3))
    assert as_set(select(name, 40, X)) < as_set(X)


def test_uniform_landmarks_are_drawn_in_proportion_to_the_weights():
    """The probability of a single landmark is its share of the weight."""
    X, weights = np.arange(4.0)[:, None], np.array([1.0, 2.0, 3.0, 4.0])
    drawn = Counter(float(select("uniform", 1, X, weights, seed)[0, 0]) for seed in range(1000))
    assert stats.chisquare([drawn[x] for x in X[:, 0]], 100.0 * weights).pvalue > 1e-3


class TestPivots:
    # Two close points with large weights, often proposed and rejected, another close pair and a point far away.
    POINTS = np.array([[0.0], [0.7], [4.0], [4.3], [9.0]])
    COUNTS = np.array([9.0, 6.0, 1.0, 1.0, 1.0])
    MATRIX = Gaussian()(POINTS)

    def kernel(self, i, j):
        return self.MATRIX[np.ix_(i, j)]

    def probabilities(self, n_pivots):
        """Return the probability of every sequence of pivots, drawn one by one."""
        found = {}

        def extend(prefix, residual, probability):
            if len(prefix) == n_pivots:
                found[prefix] = probability
                return
            shares = np.diagonal(residual) * self.COUNTS
            for i in set(range(5)) - set(prefix):
                eliminated = residual - np.outer(residual[:, i], residual[i]) / residual[i, i]
                extend((*prefix, i), eliminated, probability * shares[i] / np.delete(shares, prefix).sum())

        extend((), self.MATRIX, 1.0)
        return found

    @pytest.mark.parametrize("n_pivots", [2, 5, 200])
    def test_distribution_is_that_of_one_pivot_at_a_time(self, rng, n_pivots):
        """Also for the first two of more pivots, which are proposed several at a time, some of them repeatedly."""
        expected = self.probabilities(2)
        assert sum(expected.values()) == pytest.approx(1.0)
        drawn = Counter(
            tuple(pivots(self.kernel, np.arange(5), self.COUNTS, n_pivots, rng)[:2].tolist()) for _ in range(2000)
        )
        assert set(drawn) <= set(expected)
        # Rare sequences are counted together.
        common = [pair for pair, probability in expected.items() if probability > 0.003]
        shares = np.array([expected[pair] for pair in common])
        counts = np.array([drawn[pair] for pair in common])
        observed = np.append(counts, 2000 - counts.sum())
        assert stats.chisquare(observed, 2000 * np.append(shares, 1.0 - shares.sum())).pvalue > 1e-3

    def test_residual_trace_has_the_distribution_of_one_pivot_at_a_time(self, rng):
        """The same for 24 pivots of 100 clustered points, drawn in blocks of eight, by the trace that they leave."""
        X = rng.normal(size=(20, 2))[rng.integers(20, size=100)] + 0.2 * rng.normal(size=(100, 2))
        matrix = Gaussian()(2.0 * X)

        def one_at_a_time():
            residual = matrix.copy()
            for _ in range(24):
                shares = np.maximum(np.diagonal(residual), 0.0)
                pivot = rng.choice(100, p=shares / shares.sum())
                residual -= np.outer(residual[pivot], residual[pivot]) / residual[pivot, pivot]
            return np.trace(residual)

        def in_blocks():
            chosen = pivots(lambda i, j: matrix[np.ix_(i, j)], np.arange(100), np.ones(100), 24, rng)
            solved = np.linalg.solve(matrix[np.ix_(chosen, chosen)], matrix[chosen])
            return 100.0 - np.vdot(matrix[chosen], solved)

        traces = [[draw() for _ in range(400)] for draw in (one_at_a_time, in_blocks)]
        assert stats.ks_2samp(*traces).pvalue > 1e-3

    def test_residuals_are_those_of_the_factorization(self, rng):
        """Rows close to a pivot are drawn last: the second of a close pair comes after every other point."""
        X = np.array([[0.0], [1e-4], [3.0], [6.0]])
        order = pivots(Gaussian(), X, np.ones(4), 4, rng).tolist()
        assert sorted(order) == [0, 1, 2, 3]
        assert order[-1] in (0, 1)

    @pytest.mark.parametrize("n_pivots", [3, 30, 200])
    def test_rank_of_the_kernel_bounds_the_number_of_pivots(self, rng, n_pivots):
        """The linear kernel of points on a plane has rank 2."""
        X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6))
        found = pivots(lambda x, y: x @ y.T, X, np.ones(300), n_pivots, rng)
        assert len(found) == 2
        assert np.linalg.matrix_rank(X[found]) == 2

    def test_kernel_in_single_precision(self, rng):
        """Rounding errors of the kernel are larger than the smallest residual, and the draw ends all the same."""

        def single(x, y):
            return (x.astype(np.float32) @ y.T.astype(np.float32)).astype(np.float64)

        X = rng.normal(size=(300, 4))
        found = pivots(single, X, np.ones(300), 300, rng)
        assert len(set(found.tolist())) == len(found)
        assert np.linalg.matrix_rank(X[found[:4]]) == 4

    def test_kernel_of_zeros_gives_one_row(self, rng):
        assert pivots(lambda x, y: np.zeros((len(x), len(y))), np.ones((7, 2)), np.ones(7), 3, rng).tolist() == [0]

    def test_pivots_cover_small_clusters(self, rng):
        """A cluster with 1 % of the rows has a pivot, which uniform landmarks miss more often than not."""
        X = np.vstack([0.1 * rng.normal(size=(990, 2)), 0.1 * rng.normal(size=(10, 2)) + 20.0])
        for seed in range(5):
            assert (select("pivoted", 8, X, seed=seed)[:, 0] > 10.0).any()


class TestKMeans:
    def test_centers_of_separate_clusters(self, rng):
        X = np.vstack([rng.normal(size=(40, 2)) + center for center in ([0, 0], [50, 0], [0, 50])])
        weights = rng.uniform(0.5, 2.0, size=120)
        expected = [np.average(X[i : i + 40], axis=0, weights=weights[i : i + 40]) for i in (0, 40, 80)]
        found = select("kmeans", 3, X, weights)
        np.testing.assert_allclose(found[np.lexsort(found.T)], np.array(expected)[np.lexsort(np.array(expected).T)])

    def test_error_is_lower_than_with_random_rows(self, digits):
        X = digits / 10.0
        errors = {name: np.mean([kernel_error(X, select(name, 40, X, seed=s)) for s in range(3)]) for name in LANDMARKS}
        assert errors["kmeans"] < 0.8 * errors["uniform"]

    @pytest.mark.parametrize("n_distinct", [12, 300])
    def test_start_with_the_lower_kernel_error_is_kept(self, rng, n_distinct):
        """The selected centers have the smaller error on all of the rows that there are."""
        X, tried = rng.standard_t(3, size=(n_distinct, 2)), []

        def record(x, y):
            if len(x) == len(y) == 10:
                tried.append(x)
            return GAUSSIAN(x, y)

        chosen = KMeans().select(record, 10, X, np.random.default_rng(0))
        errors = [kernel_error(X, centers) for centers in tried]
        assert len(errors) == 2
        assert kernel_error(X, chosen) == min(errors) < max(errors)

    def test_steps(self, rng):
        X = rng.normal(size=(500, 2))
        one, many = (KMeans(n_iterations=n).select(GAUSSIAN, 20, X, np.random.default_rng(0)) for n in (1, 50))

        def spread(centers):
            return np.square(X[:, None] - centers).sum(axis=2).min(axis=1).mean()

        assert spread(many) < spread(one)

    def test_no_warning_about_equal_centers(self):
        X = np.repeat(np.arange(30.0), 3)[:, None] * 1e-9 + 1.0
        assert select("kmeans", 25, X).shape == (25, 1)


@pytest.mark.parametrize("part", [Pivoted(n_points=30), KMeans(n_points=30)])
def test_number_of_sampled_rows(rng, part):
    """With as many sampled rows as landmarks, these are all of the sample."""
    X = rng.normal(size=(2500, 2))
    assert as_set(part.select(GAUSSIAN, 30, X, np.random.default_rng(0))) < as_set(X)
    seen = []

    def record(x, y):
        seen.extend([len(x), len(y)])
        return GAUSSIAN(x, y)

    part.select(record, 10, X, np.random.default_rng(0))
    assert max(seen) == 30


def test_uniform_has_no_use_for_the_kernel(rng):
    assert Uniform().select(None, 5, rng.normal(size=(20, 2)), rng).shape == (5, 2)
