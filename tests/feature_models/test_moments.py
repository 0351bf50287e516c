# SPDX-License-Identifier: BSD-3-Clause
"""Second moments by fold against dense products, and the choice made from them against refitting."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.preprocessing import PolynomialFeatures

from bochner.feature_maps import TransformerMap
from bochner.feature_models.moments import FIRST_ROWS, MomentAccumulator, Moments, check_moments, moments_of_batch
from bochner.rows import Batch

ALPHAS = np.array([1e-6, 1e-2, 1.0])
ORIGIN = np.array([4.0, 1.0])


def penalties(total_weight):
    """Penalties that are relative to the sum of the weights."""
    return ALPHAS


def encode(y):
    """Targets that were checked are columns already."""
    return y


@pytest.fixture
def batch(rng):
    """Rows of three folds, and rows that are always trained on."""
    X = rng.normal(size=(90, 2))
    Y = np.column_stack([X[:, 0] ** 2 + 5.0, X[:, 1]]) + 0.3 * rng.normal(size=(90, 2))
    return Batch(X, Y, rng.uniform(0.5, 2.0, size=90), rng.permutation(np.arange(90) % 4 - 1))


@pytest.fixture
def candidates(batch):
    """Polynomial features of degrees 1, 2 and 3; the second are the right ones."""
    return [PolynomialFeatures(degree, include_bias=False).fit(batch.X) for degree in (1, 2, 3)]


def maps_of(candidates):
    return [TransformerMap(features, features.n_output_features_) for features in candidates]


def dense_moments(Z, Y, weights):
    rows = np.column_stack([Z, np.ones(len(Z)), Y])
    return (rows * weights[:, None]).T @ rows


def test_moments_equal_dense_products(batch, candidates):
    moments = moments_of_batch(maps_of(candidates), encode, ORIGIN, batch)
    assert moments.sums[0] == 90
    for number, features in enumerate(candidates):
        Z = features.transform(batch.X)
        by_fold = moments.by_fold(number, 3)
        assert len(by_fold) == 4
        for fold in (0, 1, 2, -1):
            own = batch.fold_of == fold
            expected = dense_moments(Z[own], batch.y[own] - ORIGIN, batch.sample_weight[own])
            np.testing.assert_allclose(by_fold[fold], expected, rtol=1e-12, atol=1e-12)


def test_moments_of_batches_add_up(batch, candidates):
    parts = [
        moments_of_batch(maps_of(candidates), encode, ORIGIN, batch.select(rows))
        for rows in (batch.fold_of == 0, batch.fold_of > 0, batch.fold_of < 0)  # batches of different folds
    ]
    total, whole = sum(parts[1:], parts[0]), moments_of_batch(maps_of(candidates), encode, ORIGIN, batch)
    assert total.sums[0] == 90
    for number in range(3):
        np.testing.assert_allclose(total.by_fold(number, 3), whole.by_fold(number, 3), rtol=1e-12, atol=1e-12)


def test_folds_without_rows_have_zero_moments():
    moments = Moments([{0: np.ones((3, 3)), 2: np.full((3, 3), 2.0)}], np.array([5.0, 5.0, 5.0]))
    assert [part[0, 0] for part in moments.by_fold(0, 3)] == [1.0, 0.0, 2.0, 0.0]


def test_rows_are_checked_by_the_feature_map(batch, candidates):
    batch.X[3, 1] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        moments_of_batch(maps_of(candidates), encode, ORIGIN, batch)


class TestChoice:
    def refitted_scores(self, batch, features):
        """Return the R2 of each penalty, the mean over folds and targets, by refitting."""
        Z, weight = features.transform(batch.X), batch.sample_weight.sum()
        scores = np.zeros((len(ALPHAS), 3))
        for fold in range(3):
            train, test = batch.fold_of != fold, batch.fold_of == fold
            for row, alpha in zip(scores, ALPHAS, strict=True):
                model = Ridge(alpha=alpha * weight).fit(Z[train], batch.y[train], batch.sample_weight[train])
                row[fold] = r2_score(batch.y[test], model.predict(Z[test]), sample_weight=batch.sample_weight[test])
        return scores.mean(axis=1)

    def test_candidate_and_penalty_have_the_best_score(self, batch, candidates):
        moments = moments_of_batch(maps_of(candidates), encode, ORIGIN, batch)
        choice = MomentAccumulator(3, encode, candidates, ORIGIN, moments).choose(penalties, 3)
        scores = np.array([self.refitted_scores(batch, features) for features in candidates])
        np.testing.assert_allclose(choice.scores, scores.max(axis=1), rtol=1e-9)
        best = int(scores.max(axis=1).argmax())
        assert best > 0  # degree 1 cannot be right
        assert choice.features is candidates[best]
        assert choice.alpha == ALPHAS[scores[best].argmax()]
        assert choice.errors.shape == (3, 3)
        Z = choice.features.transform(batch.X)
        expected = Ridge(alpha=choice.alpha * batch.sample_weight.sum()).fit(Z, batch.y, batch.sample_weight)
        np.testing.assert_allclose(choice.coef.T, expected.coef_, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(choice.intercept, expected.intercept_, rtol=1e-9)

    def test_origin_changes_nothing_but_rounding(self, batch, candidates):
        choices = []
        for origin in (np.zeros(2), ORIGIN, np.array([-3.0, 8.0])):
            moments = moments_of_batch(maps_of(candidates), encode, origin, batch)
            choices.append(MomentAccumulator(3, encode, candidates, origin, moments).choose(penalties, 3))
        for choice in choices[1:]:
            assert choice.alpha == choices[0].alpha
            np.testing.assert_allclose(choice.errors, choices[0].errors, rtol=1e-10)
            np.testing.assert_allclose(choice.intercept, choices[0].intercept, rtol=1e-9)

    def test_without_folds_the_generalized_error_is_smallest(self, batch, candidates):
        batch = batch._replace(fold_of=np.full(90, -1), y=batch.y[:, :1])
        moments = moments_of_batch(maps_of(candidates), encode, ORIGIN[:1], batch)
        own = replace(moments, totals=moments.totals[1:2])
        choice = MomentAccumulator(0, encode, candidates[1:2], ORIGIN[:1], own).choose(penalties, None)
        Z, weight, errors = candidates[1].transform(batch.X), batch.sample_weight.sum(), []
        roots = np.sqrt(batch.sample_weight)[:, None]
        for alpha in ALPHAS:
            residuals = batch.y[:, 0] - Ridge(alpha=alpha * weight).fit(Z, batch.y[:, 0], batch.sample_weight).predict(
                Z
            )
            centered = roots * (Z - np.average(Z, axis=0, weights=batch.sample_weight))
            hat = centered @ np.linalg.solve(centered.T @ centered + alpha * weight * np.eye(5), centered.T)
            freedom = 1.0 + np.trace(hat)
            errors.append(np.sum(batch.sample_weight * residuals**2) / weight / (1.0 - freedom / weight) ** 2)
        np.testing.assert_allclose(choice.errors[:, 0], errors, rtol=1e-9)
        assert choice.alpha == ALPHAS[np.argmin(errors)]


class TestAccumulator:
    """Features of the first rows are fitted by the accumulator; the number of rows is that of two spans and a half."""

    N_ROWS = 2 * FIRST_ROWS + FIRST_ROWS // 2

    @pytest.fixture
    def rows(self, rng):
        X = rng.normal(size=(self.N_ROWS, 2))
        return Batch(X, X[:, :1] ** 2 + 7.0, rng.uniform(size=self.N_ROWS))

    def accumulate(self, rows, n_calls):
        fitted_on = []

        def fit_candidates(source):
            fitted_on.append(source.shape[0])
            return [PolynomialFeatures(2).fit(source.data)]

        accumulator = MomentAccumulator(3, encode)
        for part in np.array_split(np.arange(self.N_ROWS), n_calls):
            accumulator = accumulator.add(rows.select(slice(part[0], part[-1] + 1)), fit_candidates)
        return accumulator.complete(fit_candidates), fitted_on

    def test_moments_equal_dense_products(self, rows):
        complete, fitted_on = self.accumulate(rows, 1)
        assert fitted_on == [FIRST_ROWS]
        assert complete.moments.sums[0] == self.N_ROWS
        assert complete.origin == pytest.approx([np.median(rows.y[:FIRST_ROWS])], rel=1e-12)
        Z, fold_of = PolynomialFeatures(2).fit_transform(rows.X), np.arange(self.N_ROWS) % 3
        for fold, found in enumerate(complete.moments.by_fold(0, 3)[:-1]):
            own = fold_of == fold
            expected = dense_moments(Z[own], rows.y[own] - complete.origin, rows.sample_weight[own])
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)
        assert not complete.moments.by_fold(0, 3)[-1].any()

    @pytest.mark.parametrize("n_calls", [2, 40])
    def test_division_into_calls_changes_only_rounding(self, rows, n_calls):
        whole, _ = self.accumulate(rows, 1)
        divided, fitted_on = self.accumulate(rows, n_calls)
        assert fitted_on == [FIRST_ROWS]
        np.testing.assert_array_equal(divided.origin, whole.origin)
        np.testing.assert_allclose(divided.moments.by_fold(0, 3), whole.moments.by_fold(0, 3), rtol=1e-12, atol=1e-9)


def test_moments_that_exceed_the_memory_are_refused():
    check_moments(1000, 5, 2)
    message = r"on 100,000 columns and targets with 5 folds needs 1440\.0 GB for second moments, .*, or `cv`=None"
    with pytest.raises(ValueError, match=message):
        check_moments(100_000, 5, 2)
