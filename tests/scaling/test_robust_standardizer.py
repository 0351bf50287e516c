# SPDX-License-Identifier: BSD-3-Clause
import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

from bochner import FeatureRegressor, FourierFeatures, RobustStandardizer
from bochner.scaling.robust_standardizer import robust_moments, soft_clip


@pytest.fixture
def related(rng):
    """Rows of two closely related columns and one other."""
    x = rng.normal(size=2000)
    return np.column_stack([x, x + 0.01 * rng.normal(size=2000), rng.normal(size=2000)])


def test_soft_clip_is_bounded_increasing_and_the_identity_near_zero():
    z = np.concatenate([-np.logspace(300, -9, 200), [0.0], np.logspace(-9, 300, 200)])
    clipped = soft_clip(z, 3.0)
    assert (np.diff(clipped) >= 0.0).all()
    assert np.abs(clipped).max() <= 3.0
    near = np.abs(z) < 1e-3
    np.testing.assert_allclose(clipped[near], z[near], rtol=1e-6)
    np.testing.assert_array_equal(soft_clip(np.array([-np.inf, np.inf]), 3.0), [-3.0, 3.0])
    np.testing.assert_array_equal(soft_clip(z[near], np.inf), z[near])


class TestRobustMoments:
    def test_scales_are_those_of_robust_scaler(self, rng):
        X = rng.lognormal(size=(501, 3))
        expected = RobustScaler(unit_variance=True).fit(X)
        center, scale = robust_moments(X)
        np.testing.assert_allclose(center, expected.center_, rtol=1e-14)
        np.testing.assert_allclose(scale, expected.scale_, rtol=1e-12)

    def test_normal_columns_get_mean_and_standard_deviation(self, rng):
        center, scale = robust_moments(rng.normal(7.0, 3.0, size=(100_000, 1)))
        np.testing.assert_allclose([*center, *scale], [7.0, 3.0], rtol=0.01)

    def test_outliers_have_no_influence(self, rng):
        X = rng.normal(size=(1000, 2))
        X[:3] = [1e12, -1e12]
        np.testing.assert_allclose(robust_moments(X), [[0.0, 0.0], [1.0, 1.0]], atol=0.15)

    @pytest.mark.parametrize("share", [0.001, 0.01, 0.2])
    def test_rare_indicator_keeps_its_scale(self, share):
        column = (np.arange(1000) < 1000 * share).astype(float)[:, None]
        assert [float(value[0]) for value in robust_moments(column)] == [0.0, 1.0]
        assert [float(value[0]) for value in robust_moments(1.0 - column)] == [1.0, 1.0]

    def test_column_that_is_mostly_zero_is_scaled_by_its_other_values(self, rng):
        column = np.zeros((1000, 1))
        column[:100, 0] = rng.uniform(400.0, 600.0, size=100)
        column[0] = 1e9
        assert robust_moments(column)[1][0] == pytest.approx(500.0, rel=0.05)

    def test_constant_column_has_scale_one(self):
        center, scale = robust_moments(np.full((10, 1), 0.1))
        assert (center[0], scale[0]) == (0.1, 1.0)


class TestRobustStandardizer:
    def test_normal_columns_keep_their_quantiles(self, rng):
        Z = RobustStandardizer().fit_transform(rng.normal(50.0, 4.0, size=(50_000, 2)))
        levels = [0.05, 0.25, 0.5, 0.75, 0.95]
        expected = soft_clip(norm.ppf(levels), 3.0)
        np.testing.assert_allclose(np.quantile(Z, levels, axis=0)[:, 0], expected, atol=0.03)

    def test_units_of_columns_do_not_matter(self, related):
        Z = RobustStandardizer().fit_transform(related)
        other = RobustStandardizer().fit_transform(related * [1e-6, 1e3, -1.0] + [0.0, 1e4, 7.0])
        np.testing.assert_allclose(other, Z * [1.0, 1.0, -1.0], atol=1e-7)

    def test_float32_rows_are_computed_in_double_precision(self, related):
        X = (1e4 + related).astype(np.float32)
        standardizer = RobustStandardizer().fit(X)
        Z = standardizer.transform(X)
        assert Z.dtype == np.float32
        np.testing.assert_allclose(Z, standardizer.transform(X.astype(np.float64)), atol=1e-6)

    def test_sparse_matrix_is_refused(self):
        with pytest.raises(TypeError, match="dense data is required"):
            RobustStandardizer().fit(sparse.eye_array(5, format="csr"))

    def test_pickled_transformer_is_equal(self, related):
        standardizer = RobustStandardizer().fit(related)
        np.testing.assert_array_equal(
            pickle.loads(pickle.dumps(standardizer)).transform(related), standardizer.transform(related)
        )

    def test_blocks_of_rows_are_transformed_alike(self, related, monkeypatch):
        standardizer = RobustStandardizer().fit(related)
        Z = standardizer.transform(related)
        monkeypatch.setattr("bochner.scaling.robust_standardizer.BLOCK_ROWS", 77)
        np.testing.assert_allclose(standardizer.transform(related), Z, atol=1e-13)

    def test_prediction_of_an_outlying_row_stays_bounded(self, related):
        y = np.sin(3.0 * related[:, 0]) + related[:, 2]  # between -5 and 5
        model = make_pipeline(RobustStandardizer(), FeatureRegressor(FourierFeatures(n_frequencies=64), random_state=0))
        assert abs(model.fit(related, y).predict([[0.0, 0.0, 1e6]])[0]) < 10.0


def test_smallest_limit(rng):
    X = rng.normal(size=(50, 2))
    assert np.isfinite(RobustStandardizer(limit=1e-50).fit_transform(X)).all()
    with pytest.raises(ValueError, match=r"'limit' parameter of RobustStandardizer .* range \[1e-50, inf\]"):
        RobustStandardizer(limit=0.9e-50).fit(X)


def test_scale_of_numbers_near_the_largest_one_does_not_overflow():
    _, scale = robust_moments(np.array([[0.0], [0.0], [0.0], [0.0], [-1e300], [np.finfo(np.float64).max]]))
    np.testing.assert_allclose(scale, np.finfo(np.float64).max / 2, rtol=1e-7)


def test_scale_of_the_smallest_numbers_does_not_underflow():
    X = np.array([[0.0], [5e-324], [5e-324]])
    np.testing.assert_array_equal(robust_moments(X)[1], [5e-324])
    assert np.isfinite(RobustStandardizer().fit_transform(X)).all()
