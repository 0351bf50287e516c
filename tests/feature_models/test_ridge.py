# SPDX-License-Identifier: BSD-3-Clause
"""Second moments by fold against dense products, and ridge regression from them against refitting."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.preprocessing import PolynomialFeatures

from bochner.feature_maps import TransformerMap
from bochner.feature_models.ridge import (
    FIRST_ROWS,
    MomentAccumulator,
    Moments,
    check_moments,
    fold_errors,
    generalized_errors,
    moments_of_batch,
    r2_scores,
    solve_ridge,
    target_variances,
)
from bochner.rows import Batch


def moments(Z, Y, weights=None):
    rows = np.column_stack([Z, np.ones(len(Z)), Y])
    return (rows if weights is None else rows * weights[:, None]).T @ rows


def cross_validated_errors(fold_moments, n_targets, penalties):
    """Return errors (n_penalties, n_folds, n_targets); the last moments are those of rows in no fold."""
    total = sum(fold_moments)
    return np.stack([fold_errors(total, fold, n_targets, penalties) for fold in fold_moments[:-1]], axis=1)


@pytest.fixture
def problem(rng):
    Z = rng.normal(size=(60, 7)) + 1.0
    Y = Z[:, :2] @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(60, 3)) + 5.0
    return Z, Y, rng.uniform(0.5, 2.0, size=60)


def test_solution_equals_scikit_learn(problem):
    Z, Y, weights = problem
    coef, intercept, _ = solve_ridge(moments(Z, Y, weights), 3, 0.7)
    expected = Ridge(alpha=0.7).fit(Z, Y, sample_weight=weights)
    np.testing.assert_allclose(coef.T, expected.coef_, rtol=1e-10)
    np.testing.assert_allclose(intercept, expected.intercept_, rtol=1e-10)


def test_cross_validated_errors_equal_refitting(problem):
    Z, Y, weights = problem
    folds = np.arange(60) % 4  # fold 3 is always trained on
    per_fold = np.array([moments(Z[folds == f], Y[folds == f], weights[folds == f]) for f in range(4)])
    penalties = np.array([1e-6, 0.1, 10.0])
    errors = cross_validated_errors(per_fold, 3, penalties)
    assert errors.shape == (3, 3, 3)
    for place, penalty in enumerate(penalties):
        for fold in range(3):
            train, test = folds != fold, folds == fold
            model = Ridge(alpha=penalty).fit(Z[train], Y[train], sample_weight=weights[train])
            squares = np.square(Y[test] - model.predict(Z[test]))
            np.testing.assert_allclose(
                errors[place, fold], np.average(squares, axis=0, weights=weights[test]), rtol=1e-9
            )


def test_cross_validated_errors_of_a_single_feature(problem):
    Z, Y, _ = problem
    halves = np.array([moments(Z[:30, :1], Y[:30]), moments(Z[30:, :1], Y[30:]), np.zeros((5, 5))])
    model = Ridge(alpha=2.0).fit(Z[:30, :1], Y[:30])
    expected = np.square(Y[30:] - model.predict(Z[30:, :1])).mean(axis=0)
    np.testing.assert_allclose(cross_validated_errors(halves, 3, np.array([2.0]))[0, 1], expected, rtol=1e-10)


def test_generalized_errors_equal_dense_formula(problem):
    Z, Y, _ = problem
    found = generalized_errors(moments(Z, Y), 3, np.array([0.1, 5.0]))
    for penalty, errors in zip([0.1, 5.0], found, strict=True):
        centered = Z - Z.mean(axis=0)
        hat = centered @ np.linalg.solve(centered.T @ centered + penalty * np.eye(7), centered.T) + 1 / 60
        expected = np.square(Y - hat @ Y).mean(axis=0) / (1 - np.trace(hat) / 60) ** 2
        np.testing.assert_allclose(errors[0], expected, rtol=1e-9)


def test_predictive_variance_equals_dense_formula(problem, rng):
    Z, Y, _ = problem
    coef, intercept, posterior = solve_ridge(moments(Z, Y), 3, 0.7)
    centered = Z - Z.mean(axis=0)
    inverse = np.linalg.inv(centered.T @ centered + 0.7 * np.eye(7))
    left = 60 - 1 - np.trace(centered @ inverse @ centered.T)
    noise = np.square(Y - Z @ coef - intercept).sum(axis=0) / left
    new = rng.normal(size=(5, 7)) - Z.mean(axis=0)
    expected = (1 + 1 / 60 + np.einsum("ij,jk,ik->i", new, inverse, new))[:, None] * noise
    np.testing.assert_allclose(posterior.variance(new + Z.mean(axis=0)), expected, rtol=1e-9)


def test_singular_problem_with_negligible_penalty(problem):
    Z, Y, _ = problem
    Z = np.hstack([Z, Z])
    coef, intercept, _ = solve_ridge(moments(Z, Y), 3, 1e-300)
    residuals = Y - Z @ coef - intercept
    best = np.linalg.lstsq(np.column_stack([Z[:, :7], np.ones(60)]), Y)[1]
    np.testing.assert_allclose(np.square(residuals).sum(axis=0), best, rtol=1e-6)


def test_variance_of_a_constant_target_is_zero():
    Y = np.column_stack([np.full(10, 1 / 3), np.arange(10.0)])
    np.testing.assert_allclose(target_variances(moments(np.zeros((10, 2)), Y), 2), [0, np.arange(10).var()])


def test_cross_validated_errors_with_more_targets_than_features(rng):
    Z, Y = rng.normal(size=(60, 4)), rng.normal(size=(60, 40))
    folds = np.stack([moments(Z[::2], Y[::2]), moments(Z[1::2], Y[1::2]), np.zeros((45, 45))])
    penalties = np.logspace(-3, 1, 10)
    errors = cross_validated_errors(folds, 40, penalties)
    for i, penalty in enumerate(penalties):
        residuals = Y[::2] - Ridge(penalty).fit(Z[1::2], Y[1::2]).predict(Z[::2])
        np.testing.assert_allclose(errors[i, 0], np.square(residuals).mean(axis=0), rtol=1e-9)


class TestR2:
    def test_scores_equal_scikit_learn(self, rng):
        Y, predictions = rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
        errors, variances = np.square(Y - predictions).mean(axis=0), Y.var(axis=0)
        expected = r2_score(Y, predictions, multioutput="raw_values")
        np.testing.assert_allclose(r2_scores(errors[None, None], variances[None], variances)[0, 0], expected)

    def test_variance_that_is_negligible_beside_that_of_all_rows_is_none(self):
        """Errors of folds divided by such a variance overflow."""
        scores = r2_scores(np.array([[[1e15], [1e15]]]), np.array([[1e-310], [1e15]]), np.array([2e15]))
        np.testing.assert_allclose(scores.ravel(), 0.5)

    def test_constant_fold_uses_the_variance_of_all_rows(self):
        scores = r2_scores(np.array([[[1.0], [1.0]]]), np.array([[4.0], [0.0]]), np.array([2.0]))
        assert scores.ravel().tolist() == [0.5, 0.5]

    def test_constant_target_scores_one_if_predicted_and_zero_otherwise(self):
        scores = r2_scores(np.array([[[0.0], [1.0]]]), np.zeros((2, 1)), np.zeros(1))
        assert scores.ravel().tolist() == [1.0, 0.0]


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
