# SPDX-License-Identifier: BSD-3-Clause
"""The path of widths against separate fits at each width."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

from bochner import FourierFeatures, FourierRidge, FourierRidgeClassifier, LandmarkFeatures

WIDTHS = [4, 9, 20, 48]


@pytest.fixture
def regression(rng):
    X = rng.normal(size=(400, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=400)


@pytest.mark.parametrize(
    "options", [{}, {"weighting": "uniform"}, {"weighting": "matrix", "n_components": 48}, {"sampler": "sorf"}]
)
def test_errors_equal_separate_fits(regression, options):
    X, y = regression
    features = FourierFeatures(n_frequencies=64, random_state=0, **options)
    model = FourierRidge(features, widths=WIDTHS).fit(X, y)
    fitted = clone(features).fit(X)
    grid = {"alpha": np.logspace(-8, 4, 25) * len(X)}
    for width, errors, scores in zip(WIDTHS, model.width_errors_, model.width_scores_, strict=True):
        search = GridSearchCV(Ridge(), grid, cv=5).fit(fitted.narrowed(width).transform(X), y)
        assert scores.mean() == pytest.approx(search.best_score_, abs=1e-8)
        assert errors.shape == (5,)
        if width == model.width_:
            np.testing.assert_allclose(model.coef_, search.best_estimator_.coef_, rtol=1e-5, atol=1e-8)
    assert model.cv_errors_.min(axis=0).mean() <= model.width_errors_[WIDTHS.index(model.width_)].mean()


def test_predictions_use_the_chosen_frequencies_only(regression):
    X, y = regression
    model = FourierRidge(FourierFeatures(n_frequencies=64, random_state=0), widths=[4, 9]).fit(X, y)
    assert model.width_ == 9
    assert model.features_.frequencies_.shape == (9, 3)
    assert model.features_.n_frequencies == 9
    assert model.coef_.shape == (18,)
    expected = model.features_.transform(X) @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-10)
    assert model.score(X, y) == pytest.approx(1.0 - np.square(y - expected).mean() / y.var(), rel=1e-10)


def test_uniform_weights_of_narrowed_features_are_uniform(regression):
    X, _ = regression
    features = FourierFeatures(n_frequencies=64, weighting="uniform", sampler="mc", random_state=0).fit(X)
    narrowed = features.narrowed(16)
    np.testing.assert_allclose(narrowed.weights_, np.full(16, 1 / 16))
    separate = FourierFeatures(n_frequencies=16, weighting="uniform", sampler="mc", random_state=0).fit(X)
    np.testing.assert_allclose(narrowed.transform(X), separate.transform(X), rtol=1e-10, atol=1e-12)
    assert features.transform(X[:1]).shape == (1, 128)


def test_smallest_width_within_one_standard_error(regression):
    X, y = regression
    best, smallest = (
        FourierRidge(FourierFeatures(n_frequencies=64, random_state=0), widths=WIDTHS, width_rule=rule).fit(X, y)
        for rule in ("best", "smallest")
    )
    means = best.width_scores_.mean(axis=1)
    place = int(means.argmax())
    assert best.width_ == WIDTHS[place]
    deviation = best.width_scores_[place].std(ddof=1) / np.sqrt(5)
    expected = min(width for width, mean in zip(WIDTHS, means, strict=True) if mean >= means[place] - deviation)
    assert smallest.width_ == expected
    assert best.best_score_ == pytest.approx(means.max())


def test_classifier_and_partial_fit(digits):
    X, y = digits[:300], np.arange(300) % 3
    options = {"widths": [8, 32], "random_state": 0}
    model = FourierRidgeClassifier(**options).partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    model.partial_fit(X[100:], y[100:])
    whole = FourierRidgeClassifier(**options).partial_fit(X, y, classes=[0, 1, 2])
    assert model.width_ == whole.width_
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    assert model.predict(X).shape == (300,)


def test_length_scales_and_widths_are_chosen_together(regression):
    X, y = regression
    features = FourierFeatures(n_frequencies=32, random_state=0)
    model = FourierRidge(features, widths=[8, 32], length_scales=[0.3, 1.0]).fit(X, y)
    assert model.length_scale_scores_.max() == pytest.approx(model.width_scores_.mean(axis=1).max())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": []}, "`widths` must be positive integers"),
        ({"widths": [0, 4]}, "`widths` must be positive integers"),
        ({"widths": [4.5]}, "`widths` must be positive integers"),
        ({"widths": [8, 4]}, "`widths` must be in ascending order"),
        ({"widths": [8, 100]}, "A width of 100 is not possible: the features have 64 frequencies"),
        ({"widths": [8], "width_rule": "smallest", "cv": None}, "`width_rule`='smallest' needs the standard error"),
        ({"widths": [8], "features": LandmarkFeatures(n_landmarks=16)}, "`widths` needs FourierFeatures"),
    ],
)
def test_bad_widths(regression, options, message):
    options = {"features": FourierFeatures(n_frequencies=64, random_state=0)} | options
    with pytest.raises(ValueError, match=message):
        FourierRidge(**options).fit(*regression)


def test_without_widths_there_is_no_path(regression):
    model = FourierRidge(random_state=0).fit(*regression)
    with pytest.raises(AttributeError, match="fitted without `widths`"):
        model.width_errors_  # noqa: B018
    assert not hasattr(model, "width_")


def test_generalized_cross_validation(regression):
    X, y = regression
    model = FourierRidge(FourierFeatures(n_frequencies=64, random_state=0), widths=WIDTHS, cv=None).fit(X, y)
    assert model.width_errors_.shape == (4, 1)
    assert model.width_ in WIDTHS
