# SPDX-License-Identifier: BSD-3-Clause
"""Losses: derivatives against differences, and models at the optimum of their stated objective."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import GammaRegressor, PoissonRegressor, QuantileRegressor
from sklearn.metrics import d2_pinball_score, mean_pinball_loss

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures
from bochner.losses import CLASSIFICATION_LOSSES, LOSSES, Huber, LogLoss, Loss, Poisson, Quantile, SquaredHinge

REGRESSION = {**{name: kind() for name, kind in LOSSES.items()}, "levels": Quantile([0.1, 0.5, 0.9], smoothing=0.3)}
CLASSIFICATION = {name: kind() for name, kind in CLASSIFICATION_LOSSES.items() if not kind.has_closed_form}


def _problem(name, n_rows=7):
    """Return a fitted loss, targets, and scores of two problems."""
    rng = np.random.default_rng(0)
    if name in REGRESSION:
        loss, y = REGRESSION[name], rng.uniform(0.5, 3.0, size=(n_rows, 1))
        loss.fit(y, np.ones(n_rows))
        return loss, y, rng.normal(size=(n_rows, 2, loss.n_outputs(1)))
    loss, y = CLASSIFICATION[name], rng.integers(3, size=n_rows)
    return loss, y, rng.normal(size=(n_rows, 2, 3))


ALL = [*REGRESSION, *CLASSIFICATION]


@pytest.mark.parametrize("name", ALL)
def test_derivatives_equal_differences(name):
    loss, y, scores = _problem(name)
    slopes = loss.evaluate(y, scores)[1]
    step = 1e-6
    for output in range(scores.shape[2]):
        shift = np.zeros(scores.shape[2])
        shift[output] = step
        differences = (loss.evaluate(y, scores + shift)[0] - loss.evaluate(y, scores - shift)[0]) / (2.0 * step)
        np.testing.assert_allclose(slopes[:, :, output], differences, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ALL)
def test_curvature_times_changes_equals_differences_of_slopes(name):
    loss, y, scores = _problem(name)
    changes = np.random.default_rng(1).normal(size=scores.shape)
    step = 1e-6
    differences = (loss.evaluate(y, scores + step * changes)[1] - loss.evaluate(y, scores - step * changes)[1]) / step
    product = loss.multiply(loss.curvature(y, scores), changes.copy())
    np.testing.assert_allclose(product, 0.5 * differences, rtol=1e-5, atol=1e-6)
    assert (loss.trace(loss.curvature(y, scores)) >= 0.0).all()


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_start_is_the_best_constant_with_weights_as_copies(name):
    loss, rng = LOSSES[name](), np.random.default_rng(2)
    y, weights = rng.gamma(2.0, size=(60, 1)), rng.integers(1, 4, size=60).astype(float)
    loss.fit(y, weights)
    copied = np.repeat(y, weights.astype(int), axis=0)
    start = loss.start(y, weights, 1)
    np.testing.assert_allclose(
        start, type(loss)().fit(copied, np.ones(len(copied))).start(copied, np.ones(len(copied)), 1)
    )

    def total(score):
        return float(weights @ loss.evaluate(y, np.full((60, 1, 1), score))[0][:, 0])

    best = min(total(score) for score in np.linspace(start[0] - 2.0, start[0] + 2.0, 401))
    assert total(start[0]) <= best + 0.02 * abs(best)


def _rows(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n_rows, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2, rng


TARGETS = {
    "huber": lambda signal, rng: signal + 0.2 * rng.standard_t(2, size=len(signal)),
    "quantile": lambda signal, rng: signal + 0.2 * rng.standard_t(3, size=len(signal)),
    "poisson": lambda signal, rng: rng.poisson(np.exp(signal)).astype(float),
    "gamma": lambda signal, rng: np.exp(signal) * rng.gamma(2.0, size=len(signal)),
}
FEATURES = FourierFeatures(n_frequencies=12, random_state=0)


def _optimum(loss, Z, y, weights, alpha, n_outputs):
    """Return the smallest mean loss plus penalty that a general optimizer finds."""
    size = Z.shape[1] + 1

    def objective(flat):
        W = flat.reshape(size, n_outputs)
        losses, slopes = loss.evaluate(y, (Z @ W[:-1] + W[-1])[:, None])
        shares = weights / weights.sum()
        pulls = shares[:, None] * slopes[:, 0]
        gradient = np.vstack([Z.T @ pulls + 2.0 * alpha * W[:-1], pulls.sum(axis=0)])
        return shares @ losses[:, 0] + alpha * np.square(W[:-1]).sum(), gradient.ravel()

    start = np.zeros((size, n_outputs))
    start[-1] = loss.start(y, weights, n_outputs)
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-12, "maxcor": 50}
    return minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options).fun, objective


@pytest.mark.parametrize("loss", ["huber", Quantile([0.2, 0.8], smoothing=0.05), "poisson", "gamma"], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_regression_is_at_the_optimum_of_its_stated_objective(loss, weighted):
    X, signal, rng = _rows()
    name = loss if isinstance(loss, str) else "quantile"
    y = TARGETS[name](signal, rng)
    weights = rng.uniform(0.5, 2.0, size=len(y)) if weighted else np.ones(len(y))
    alpha = 1e-4
    model = FeatureRegressor(FEATURES, loss=loss, alphas=[alpha], cv=None).fit(X, y, weights if weighted else None)
    Z, n_outputs = model.features_.transform(X), np.size(model.intercept_)
    best, objective = _optimum(model.loss_, Z, y[:, None], weights, alpha, n_outputs)
    found = objective(np.vstack([np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)]).ravel())[0]
    assert found <= best + 1e-9 * abs(best)


@pytest.mark.parametrize(("loss", "reference"), [("poisson", PoissonRegressor), ("gamma", GammaRegressor)])
def test_log_link_models_equal_scikit_learn(loss, reference):
    X, signal, rng = _rows()
    y, alpha = TARGETS[loss](signal, rng), 1e-3
    model = FeatureRegressor(FEATURES, loss=loss, alphas=[alpha], cv=None).fit(X, y)
    Z = model.features_.transform(X)
    expected = reference(alpha=2.0 * alpha, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(Z, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.predict(X), expected.predict(Z), rtol=1e-6)
    np.testing.assert_allclose(model.score(X, y), expected.score(Z, y), rtol=1e-6)


def test_quantiles_with_a_vanishing_penalty_have_the_smallest_pinball_loss():
    X, signal, rng = _rows(300)
    y = TARGETS["quantile"](signal, rng)
    levels = [0.1, 0.5, 0.9]
    loss = Quantile(levels, smoothing=0.003)
    model = FeatureRegressor(FEATURES, loss=loss, alphas=[1e-10], cv=None).fit(X, y)
    Z, predictions = model.features_.transform(X), model.predict(X)
    for level, prediction in zip(levels, predictions.T, strict=True):
        exact = QuantileRegressor(quantile=level, alpha=0.0).fit(Z, y).predict(Z)
        smallest = mean_pinball_loss(y, exact, alpha=level)
        assert smallest - 1e-9 <= mean_pinball_loss(y, prediction, alpha=level) <= smallest + 1e-4


def test_quantiles_do_not_cross_and_cover():
    X, signal, rng = _rows(2000)
    y = signal + 0.3 * (1.0 + X[:, 2]) * rng.standard_normal(2000)
    model = FeatureRegressor(FEATURES, loss=Quantile([0.9, 0.1, 0.5])).fit(X[:1000], y[:1000])
    high, low, middle = model.predict(X[1000:]).T
    assert ((low <= middle) & (middle <= high)).all()
    assert abs(np.mean((low < y[1000:]) & (y[1000:] < high)) - 0.8) < 0.05
    assert np.corrcoef(high - low, 1.0 + X[1000:, 2])[0, 1] > 0.9


def test_score_of_a_quantile_is_d2():
    X, signal, rng = _rows()
    y = TARGETS["quantile"](signal, rng)
    model = FeatureRegressor(FEATURES, loss=Quantile(0.3), alphas=[1e-3], cv=None).fit(X[:200], y[:200])
    expected = d2_pinball_score(y[200:], model.predict(X[200:]), alpha=0.3)
    assert model.score(X[200:], y[200:]) == pytest.approx(expected, abs=0.02)


def test_huber_ignores_gross_errors():
    X, signal, rng = _rows(1000)
    y = signal + 0.1 * rng.standard_normal(1000)
    y[::20] += 50.0
    errors = {
        loss: np.abs(FeatureRegressor(FEATURES, loss=loss).fit(X, y).predict(X) - signal).mean()
        for loss in ("squared_error", "huber")
    }
    assert errors["huber"] < 0.1 * errors["squared_error"]


@pytest.mark.parametrize("unit", [1e-3, 1e4])
@pytest.mark.parametrize("loss", ["huber", "quantile"])
def test_predictions_do_not_depend_on_the_unit_of_the_targets(loss, unit):
    X, signal, rng = _rows()
    y = TARGETS[loss](signal, rng)
    one, other = (FeatureRegressor(FEATURES, loss=loss).fit(X, scale * y) for scale in (1.0, unit))
    np.testing.assert_allclose(unit * one.predict(X), other.predict(X), rtol=1e-4, atol=1e-4 * unit)
    assert one.alpha_ == other.alpha_


@pytest.mark.parametrize("loss", ["huber", "quantile", "poisson", "gamma"])
def test_penalty_is_chosen_by_the_loss_on_the_folds(loss):
    X, signal, rng = _rows(600)
    y = TARGETS[loss](signal, rng)
    model = FeatureRegressor(FEATURES, loss=loss, alphas=np.logspace(-8, 2, 6)).fit(X, y)
    errors = model.cv_errors_.mean(axis=1)
    assert model.alpha_ == np.logspace(-8, 2, 6)[np.nanargmin(errors)]
    assert model.best_score_ == -np.nanmin(errors)
    assert model.score(X, y) > 0.1


@pytest.mark.parametrize(("loss", "value"), [("poisson", -1.0), ("gamma", 0.0)])
def test_targets_outside_the_domain_are_refused(loss, value):
    X, _, _ = _rows(50)
    y = np.ones(50)
    y[7] = value
    with pytest.raises(ValueError, match=f"'{loss}' needs targets .* y contains {value:g}"):
        FeatureRegressor(loss=loss).fit(X, y)


def test_quantile_refuses_levels_and_several_targets():
    X, signal, _ = _rows(50)
    with pytest.raises(ValueError, match=r"`levels` must be numbers between 0 and 1\. Got \[0\.1, 1\.5\]"):
        FeatureRegressor(loss=Quantile([0.1, 1.5])).fit(X, signal)
    with pytest.raises(ValueError, match="single target, and y has 2"):
        FeatureRegressor(loss="quantile").fit(X, np.column_stack([signal, signal]))


def test_several_targets_equal_single_ones():
    X, signal, rng = _rows()
    y = np.column_stack([TARGETS["poisson"](signal, rng), TARGETS["poisson"](-signal, rng)])
    options = {"loss": Poisson(), "alphas": [1e-3], "cv": None}
    both = FeatureRegressor(FEATURES, **options).fit(X, y).predict(X)
    for column in range(2):
        single = FeatureRegressor(FEATURES, **options).fit(X, y[:, column]).predict(X)
        np.testing.assert_allclose(both[:, column], single, rtol=1e-6)


@pytest.mark.parametrize("name", ["partial_fit"])
def test_methods_of_squared_errors_name_the_loss(name):
    assert hasattr(FeatureRegressor(), name)
    assert not hasattr(FeatureRegressor(loss="huber"), name)


def test_standard_deviations_need_squared_errors():
    X, signal, _ = _rows(100)
    model = FeatureRegressor(FEATURES, loss="huber").fit(X, signal)
    with pytest.raises(AttributeError, match="`return_std` needs `loss`='squared_error'"):
        model.predict(X, return_std=True)


class LogCosh(Loss):
    """A loss as a user would write it."""

    def evaluate(self, y, scores):
        residuals = scores - y[:, None]
        return (np.logaddexp(residuals, -residuals) - np.log(2.0)).sum(axis=2), np.tanh(residuals)

    def curvature(self, y, scores):
        return 1.0 - np.tanh(scores - y[:, None]) ** 2


def test_a_new_loss_is_one_class():
    X, signal, rng = _rows()
    y = signal + 0.1 * rng.standard_t(2, size=len(signal))
    model = FeatureRegressor(FEATURES, loss=LogCosh(), alphas=[1e-4], cv=None).fit(X, y)
    best, objective = _optimum(LogCosh(), model.features_.transform(X), y[:, None], np.ones(len(y)), 1e-4, 1)
    assert objective(np.append(model.coef_, model.intercept_))[0] <= best * (1.0 + 1e-9)


class TenfoldHinge(SquaredHinge):
    """A loss that has a loss of its own as its base."""

    def evaluate(self, y, scores):
        values, slopes = super().evaluate(y, scores)
        return 10.0 * values, 10.0 * slopes

    def curvature(self, y, scores):
        return 10.0 * super().curvature(y, scores)


def test_a_subclass_of_the_squared_hinge_is_solved_as_what_it_is():
    X, signal, _ = _rows()
    fitted = [
        FeatureClassifier(FEATURES, loss=loss, Cs=[C], cv=None).fit(X, signal > np.median(signal)).coef_
        for loss, C in ((TenfoldHinge(), 0.1), (SquaredHinge(), 1.0))
    ]
    np.testing.assert_allclose(*fitted, rtol=0, atol=1e-4 * np.abs(fitted[1]).max())


def test_losses_are_components():
    model = FeatureRegressor(loss=Huber()).set_params(loss__threshold=2.0)
    assert model.loss.threshold == 2.0
    with pytest.raises(ValueError, match="The 'threshold' parameter of Huber must be a float"):
        model.set_params(loss__threshold=-1.0).fit(*_rows(50)[:2])
    assert isinstance(FeatureClassifier(loss=LogLoss()).loss, LogLoss)


@pytest.mark.parametrize("loss", ["huber", "quantile", "poisson"])
def test_rows_in_partitions_equal_rows_in_memory(loss):
    da = pytest.importorskip("dask.array")
    X, signal, rng = _rows(500)
    y = TARGETS[loss](signal, rng)
    options = {"loss": loss, "alphas": [1e-3], "cv": 3}
    memory = FeatureRegressor(FEATURES, **options).fit(X, y)
    lazy = FeatureRegressor(FEATURES, **options).fit(da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100))
    np.testing.assert_allclose(lazy.coef_, memory.coef_, rtol=0, atol=1e-6 * np.abs(memory.coef_).max())
    np.testing.assert_allclose(lazy.predict(da.from_array(X, chunks=(100, 3))).compute(), memory.predict(X), rtol=1e-5)
