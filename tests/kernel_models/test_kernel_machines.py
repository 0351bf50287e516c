# SPDX-License-Identifier: BSD-3-Clause
"""The estimators: accuracy, weights, degenerate data, intervals, probabilities, gradients."""

from copy import deepcopy

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import FeatureClassifier, FeatureRegressor, KernelClassifier, KernelRegressor, column_importance
from bochner.kernel_models.leaves import LeafTree
from bochner.kernel_models.members import KernelMember, fit_members, mean_gradients, mean_prediction
from bochner.kernel_models.training_rows import ColumnScaling
from bochner.kernels import Exponential, Gaussian, Laplacian, Matern, PowerExponential
from bochner.scaling.kernel_values import kernel_shape
from bochner.scaling.scale_learning import scaled_rows

KERNELS = [Matern(), Exponential(), Laplacian(), PowerExponential(1.5, 1.0)]
BOTH = [KernelRegressor(random_state=0), KernelClassifier(random_state=0)]


def friedman(rng, n):
    X = rng.uniform(size=(n, 6))
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3]
    return X, signal + rng.normal(size=n)


@parametrize_with_checks([KernelRegressor(), KernelClassifier(), KernelClassifier(effort="fast")])
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", ["check_param_validation", "check_dataframe_column_names_consistency"])
@pytest.mark.parametrize("model", BOTH, ids=["regressor", "classifier"])
def test_own_checks_of_scikit_learn(model, name):
    getattr(estimator_checks, name)(type(model).__name__, clone(model))


@pytest.mark.parametrize("effort", ["default", "fast"])
def test_regression_learns_which_columns_matter(effort, rng):
    X, y = friedman(rng, 1200)
    model = KernelRegressor(effort=effort, random_state=0).fit(X[:800], y[:800])
    assert np.sqrt(np.mean((model.predict(X[800:]) - y[800:]) ** 2)) < 1.25  # the noise has a deviation of 1
    member = model.members_[0]
    if member.length_scale_ is not None:
        assert member.length_scale_[4:].min() > 3 * member.length_scale_[:4].max()
    assert len(model.members_) == 1 or effort == "default"
    assert model.validation_errors_[0][-1] == member.validation_error < 0.3


def test_one_leaf_equals_kernel_ridge(rng):
    X, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 1))
    member = KernelMember(Matern(), ColumnScaling(np.zeros(2), np.ones(2)), np.array([1.0, 0.5]), 0.1, 0.0)
    residuals, _ = fit_members([member], X, y, np.ones(60))
    scaled = X * [1.0, 0.5]
    ridge = KernelRidge(alpha=0.1, kernel=lambda a, b: Matern()(a[None], b[None])[0, 0])
    np.testing.assert_allclose(mean_prediction([member], X), ridge.fit(scaled, y).predict(scaled), atol=1e-4)
    others = np.delete(np.arange(60), 7)
    expected = y[7] - ridge.fit(scaled[others], y[others]).predict(scaled[7:8])[0]
    assert residuals[7] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kernel", [Gaussian(), PowerExponential(1.2, 0.9), *KERNELS], ids=str)
@pytest.mark.parametrize("scales", [[1.0, 0.5], [[1.0, 0.2], [-0.3, 0.5]]], ids=["scales", "metric"])
def test_leave_one_out_residuals_equal_refits(kernel, scales, rng):
    X, Y, w = rng.normal(size=(40, 2)), rng.normal(size=(40, 2)), rng.uniform(0.5, 2.0, size=40)
    X, shape = scaled_rows(X, np.array(scales)), kernel_shape(kernel)
    residuals, _ = LeafTree(X, max_exact_rows=100, leaf_rows=80, margin=0.0).leaves[0].fit(shape, X, Y, w, 0.05)
    K = shape.matrix(X)
    for i in range(40):
        others = np.arange(40) != i
        coef = np.linalg.solve(K[others][:, others] + 0.05 * np.diag(1 / w[others]), Y[others])
        np.testing.assert_allclose(residuals[i], Y[i] - K[i, others] @ coef, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("scales", [[1.0, 0.5], [[1.0, 0.2], [-0.3, 0.5]]], ids=["scales", "metric"])
def test_leaves_without_margin_equal_separate_fits(kernel, scales, rng):
    X, y, w = rng.normal(size=(300, 2)), rng.normal(size=(300, 1)), rng.uniform(0.5, 2.0, size=300)
    X, shape = scaled_rows(X, np.array(scales)), kernel_shape(kernel)

    def refit(rows):
        C = shape.matrix(X[rows]) + 0.1 * np.diag(1 / w[rows])
        return shape.matrix(X, X[rows]) @ np.linalg.solve(C, y[rows])

    tree = LeafTree(X, max_exact_rows=100, leaf_rows=80, margin=0.0)
    assert len(tree.leaves) == 4
    assert sorted(np.concatenate([leaf.own for leaf in tree.leaves])) == list(range(300))
    for leaf, inside in tree.route(X):
        np.testing.assert_array_equal(leaf.own, leaf.members)
        np.testing.assert_array_equal(leaf.own, np.sort(inside))
        residuals, _ = leaf.fit(shape, X, y, w, 0.1)
        np.testing.assert_allclose(leaf.predict(shape, X), refit(inside), rtol=1e-8, atol=1e-8)
        first = inside[0]
        assert residuals[0] == pytest.approx(y[first] - refit(inside[1:])[first], abs=1e-8)
    wide = LeafTree(X, max_exact_rows=100, leaf_rows=80, margin=0.1)
    assert all(80 < len(leaf.members) < 120 for leaf in wide.leaves)


def test_two_classes_are_one_newton_step_of_logistic_regression(rng):
    X, shape = rng.normal(size=(50, 2)), kernel_shape(Matern())
    y = X[:, 0] + 0.5 * rng.normal(size=50) > 0.4
    mean, K = 2 * y.mean() - 1, shape.matrix(X)
    Y, log_odds = (2.0 * y - 1 - mean)[:, None], 2 * np.arctanh(mean)
    (leaf,) = LeafTree(X, 100, 80, 0.1).leaves
    residuals, _ = leaf.fit(shape, X, Y, np.ones(50), 0.4, log_odds)
    ridge = K @ np.linalg.solve(K + 0.4 * np.eye(50), Y[:, 0])
    p = np.clip(0.5 * (1 + ridge + mean), 0.02, 0.98)
    # The Newton step of sum(log loss) + 0.05 a'Ka, where K a is the logit without the log odds
    gradient, hessian = p - y, np.diag(p * (1 - p))
    start = np.log(p / (1 - p)) - log_odds
    newton = np.linalg.solve(hessian @ K + 0.1 * np.eye(50), hessian @ start - gradient)
    np.testing.assert_allclose(leaf.coef[:, 0], newton, rtol=1e-8, atol=1e-8)
    others = np.arange(50) != 7
    z, noise = start - gradient / np.diag(hessian), 0.1 / np.diag(hessian)
    coef = np.linalg.solve(K[np.ix_(others, others)] + np.diag(noise[others]), z[others])
    assert Y[7, 0] - residuals[7, 0] == pytest.approx(K[7, others] @ coef, abs=1e-8)


def test_few_rows_are_divided_several_times(rng):
    X, y = friedman(rng, 400)
    model, single = (KernelRegressor(effort=effort, random_state=0).fit(X, y) for effort in ("default", "fast"))
    assert len(model.members_) >= 6 > len(single.members_) == 1
    points, expected = friedman(rng, 1000)
    errors = [np.mean(np.square(m.predict(points) - expected)) for m in (model, single)]
    assert errors[0] < errors[1]


def test_left_out_predictions_are_those_of_fits_without_the_row(rng):
    X = rng.normal(size=(120, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.1 * rng.normal(size=(120, 2))
    model = KernelRegressor(random_state=0).fit(X, Y)
    others, means, scales = np.arange(120) != 5, Y.mean(axis=0), Y.std(axis=0)
    members = deepcopy(model.members_)
    fit_members(members, X[others], ((Y - means) / scales)[others], np.ones(119))
    expected = means + scales * mean_prediction(members, X[5:6])[0]
    np.testing.assert_allclose(model.loo_prediction_[5], expected, atol=1e-3)
    assert np.abs(model.loo_prediction_ - model.predict(X)).max() > 0.05


def test_left_out_predictions_of_copies_and_of_rows_without_weight(rng):
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    X, y, w = np.vstack([X, X[:1]]), np.append(y, y[0]), np.append(np.ones(59), [0.0, 1.0])
    left_out = KernelRegressor(effort="fast", random_state=0).fit(X, y, sample_weight=w).loo_prediction_
    assert np.flatnonzero(np.isnan(left_out)).tolist() == [59]
    assert left_out[60] == left_out[0]


def test_more_rows_than_one_leaf_holds(rng):
    X, y = friedman(rng, 7000)
    model = KernelRegressor(effort="fast", random_state=0).fit(X[:6000], y[:6000])
    assert len(model.members_[0].tree.leaves) == 3
    assert np.sqrt(np.mean((model.predict(X[6000:]) - y[6000:]) ** 2)) < 1.1


def test_several_targets_dtype_and_seed(rng):
    X, y = friedman(rng, 200)
    Y = np.stack([y, -3 * y, X[:, 0]], axis=1).astype(np.float32)
    model = KernelRegressor(random_state=3).fit(X.astype(np.float32), Y)
    predictions, deviations = model.predict(X.astype(np.float32), return_std=True)
    assert predictions.dtype == deviations.dtype == np.float32
    assert predictions.shape == deviations.shape == (200, 3)
    np.testing.assert_allclose(predictions[:, 1], -3 * predictions[:, 0], rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(
        KernelRegressor(random_state=3).fit(X.astype(np.float32), Y).predict(X), model.predict(X)
    )
    assert model.predict_interval(X).shape == (200, 3, 2)


def test_intervals_cover_and_deviations_grow_away_from_the_rows(rng):
    X, y = friedman(rng, 1600)
    model = KernelRegressor(random_state=0).fit(X[:800], y[:800])
    for coverage in (0.8, 0.9):
        lower, upper = model.predict_interval(X[800:], coverage).T
        assert ((lower < y[800:]) & (y[800:] < upper)).mean() == pytest.approx(coverage, abs=0.05)
    deviations = model.predict(np.array([X.mean(axis=0), X.mean(axis=0) + 5]), return_std=True)[1]
    assert 0.7 < deviations[0] < 1.5 < deviations[1]
    with pytest.raises(ValueError, match=r"`coverage` must be a number between 0 and 1. Got 90"):
        model.predict_interval(X, 90)


def test_rare_classes_are_not_predicted_too_often():
    """Scales are selected on 12 rows of a class; without shrinkage, accuracy is 0.23 points below the majority."""
    differences = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows, classes = [], []
        for n_rows in (400, 5000):
            X = rng.normal(size=(n_rows, 6))
            scores = 1.4 * (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]) - 5.2845
            rows.append(X)
            classes.append(rng.random(n_rows) < 1.0 / (1.0 + np.exp(-scores)))
        model = KernelClassifier(effort="fast", random_state=0).fit(rows[0], classes[0])
        differences.append(model.score(rows[1], classes[1]) - (1.0 - classes[1].mean()))
    assert np.mean(differences) > -0.001


def test_intervals_of_few_rows_are_wide_enough():
    """The mean over 20 tables of 30 rows; without the factor for selected scales, 79 % of the targets are covered."""
    inside = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(530, 4))
        y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=530)
        lower, upper = KernelRegressor(random_state=0).fit(X[:30], y[:30]).predict_interval(X[30:], 0.9).T
        inside.append(((lower < y[30:]) & (y[30:] < upper)).mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize("n_classes", [2, 10])
def test_probabilities_are_calibrated(n_classes, rng):
    X, y = load_digits(return_X_y=True)
    y = y if n_classes == 10 else y % 2
    model = KernelClassifier(random_state=0).fit(X[:900], y[:900])
    probabilities = model.predict_proba(X[900:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-6)
    assert model.score(X[900:], y[900:]) > 0.93
    assert log_loss(y[900:], probabilities) < (0.2 if n_classes == 10 else 0.16)  # boosting: 0.39 and 0.19
    hits = probabilities.argmax(axis=1) == y[900:]
    assert probabilities.max(axis=1).mean() == pytest.approx(hits.mean(), abs=0.04)


def test_rare_classes_are_learned(rng):
    X = rng.normal(size=(6000, 8))
    y = (X[:, 0] ** 2 + X[:, 1] ** 2 + 0.5 * rng.normal(size=6000) > 8.7).astype(int)
    assert 0.01 < y.mean() < 0.03
    model = KernelClassifier(effort="fast", random_state=0).fit(X[:3000], y[:3000])
    probabilities = model.predict_proba(X[3000:])[:, 1]
    assert roc_auc_score(y[3000:], probabilities) > 0.99  # boosting: 0.988
    assert brier_score_loss(y[3000:], probabilities) < 0.6 * y.mean()


def test_few_rows_and_wrong_shares_are_refused(rng):
    model = KernelRegressor(effort="fast", random_state=0).fit(rng.normal(size=(5, 2)), rng.normal(size=5))
    with pytest.raises(ValueError, match=r"`to_features` needs 10 rows or more. Got 5; give more rows"):
        model.to_features(rng.normal(size=(5, 2)))
    with pytest.raises(ValueError, match=r"`coverage` must be a number between 0 and 1. Got '0.9' instead"):
        model.predict_interval(rng.normal(size=(5, 2)), "0.9")


def test_negative_class_weights_and_extreme_numbers_are_refused(rng):
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    with pytest.raises(ValueError, match=r"`class_weight` must not be negative. Got \{0: -1, 1: 1\} instead"):
        KernelClassifier(class_weight={0: -1, 1: 1}).fit(X, (y > 0).astype(int))
    with pytest.raises(ValueError, match=r"y contains values up to .*e\+200, whose squares overflow"):
        KernelRegressor().fit(X, 1e200 * y)
    model = KernelRegressor(effort="fast", random_state=0).fit(X, y)
    assert np.isfinite(model.predict(1e300 * X)).all()


def test_class_weights_move_predictions(rng):
    X, y = make_classification(400, 5, flip_y=0.2, weights=[0.8], random_state=0)
    y = np.array(["no", "yes"])[y]
    shares = [
        (KernelClassifier(class_weight=weight, random_state=0).fit(X, y).predict(X) == "yes").mean()
        for weight in (None, "balanced", {"yes": 100.0}, {"no": 0.0})
    ]
    assert shares[0] < shares[1] < shares[2] <= shares[3] == 1.0


@pytest.mark.parametrize(
    "model", [KernelRegressor(random_state=0), KernelClassifier(random_state=0)], ids=["y", "class"]
)
def test_weights_are_copies_and_order_does_not_matter(model, rng):
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=120) > 0).astype(int)
    w = rng.integers(0, 4, size=120)
    expected = model.fit(X, y, sample_weight=w).predict(X)
    copies = rng.permutation(np.repeat(np.arange(120), w))
    np.testing.assert_array_equal(model.fit(X[copies], y[copies]).predict(X), expected)


@pytest.mark.parametrize("n_rows", [2, 5, 19, 30])
@pytest.mark.parametrize("n_columns", [1, 500])
@pytest.mark.parametrize("kind", ["plain", "constant column", "constant", "duplicates", "large", "constant target"])
def test_degenerate_data_give_finite_numbers(n_rows, n_columns, kind, rng):
    X, y = rng.normal(size=(n_rows, n_columns)), np.arange(n_rows) / n_rows
    if kind == "constant column":
        X[:, 0] = 3.0
    elif kind == "constant":
        X[:] = 3.0
    elif kind == "duplicates":
        X[:] = X[:1]
        X[0] += 1.0
    elif kind == "large":
        X *= 1e200
    elif kind == "constant target":
        y[:] = 7.0
    model = KernelRegressor(random_state=0).fit(X, y)
    predictions, deviations = model.predict(X, return_std=True)
    assert np.isfinite(predictions).all()
    assert np.isfinite(deviations).all()
    assert np.isfinite(model.predict_interval(X)).all()
    assert np.isfinite(model.gradients(X[:2])).all()
    if kind == "constant target":
        np.testing.assert_allclose(predictions, 7.0)
    classes = np.arange(n_rows) % 2
    assert np.isfinite(KernelClassifier(random_state=0).fit(X, classes).predict_proba(X)).all()


@pytest.mark.parametrize(
    "model", [KernelRegressor(random_state=0), KernelClassifier(random_state=0)], ids=["y", "class"]
)
def test_gradients_equal_differences(model, rng):
    X = rng.normal(size=(150, 3))
    y = X[:, 0] + X[:, 1] ** 2
    y = y if isinstance(model, KernelRegressor) else np.digitize(y, [0.0, 2.0])
    model.fit(X, y)
    score = model.predict if isinstance(model, KernelRegressor) else model.decision_function
    points, step = rng.normal(size=(4, 3)), 1e-2  # predictions have the precision of float32
    gradients = model.gradients(points)
    for j, axis in enumerate(np.eye(3)):
        expected = (score(points + step * axis) - score(points - step * axis)) / (2 * step)
        np.testing.assert_allclose(gradients[:, j], expected.reshape(4, -1), rtol=0.05, atol=0.05)


def test_landmark_features_imitate(rng):
    X, y = friedman(rng, 600)
    model = KernelRegressor(random_state=0).fit(X, y)
    imitation, loss = model.to_features(X, n_landmarks=200)
    assert isinstance(imitation, FeatureRegressor)
    assert loss < 0.1
    points = friedman(rng, 300)[0]
    difference = (
        np.sqrt(np.mean((imitation.predict(points) - model.predict(points)) ** 2)) / model.predict(points).std()
    )
    assert difference == pytest.approx(loss, rel=0.4)
    classifier = KernelClassifier(random_state=0).fit(X, y > 15)
    imitation, loss = classifier.to_features(X, n_landmarks=200)
    assert isinstance(imitation, FeatureClassifier)
    assert loss < 0.1


def test_column_importance_finds_the_columns_that_matter(rng):
    X, y = friedman(rng, 500)
    importance = column_importance(KernelRegressor(random_state=0).fit(X, y), X[:100])
    assert {int(name.split()[1]) for name in importance.ranking[:4]} == {0, 1, 2, 3}


def test_leaves_learn_scales_of_their_own(rng):
    X = rng.uniform(-1, 1, size=(7500, 3))
    y = np.where(X[:, 0] > 0, np.sin(5 * X[:, 1]), np.sin(5 * X[:, 2])) + 0.1 * rng.normal(size=7500)
    member = KernelMember(Matern(), ColumnScaling(np.zeros(3), np.ones(3)), np.array([3.0, 1.0, 1.0]), 0.05, 0.0)
    errors = []
    for learns_leaves in (False, True):
        residuals, _ = fit_members([member], X, y[:, None], np.ones(7500), not learns_leaves)
        errors.append(np.mean(residuals**2))
        points = np.array([[0.5, 0.2, 0.1]])
        step = 1e-3 * np.eye(3)
        expected = (mean_prediction([member], points + step) - mean_prediction([member], points - step)) / 2e-3
        np.testing.assert_allclose(mean_gradients([member], points)[0], expected, rtol=0.02, atol=0.02)
    assert errors[1] < errors[0]


def test_messages(rng):
    X, y = rng.normal(size=(20, 2)), np.arange(20)
    with pytest.raises(TypeError, match=r"X is sparse; use FeatureRegressor\(LandmarkFeatures\(\)\), or X.toarray\(\)"):
        KernelRegressor().fit(sparse.csr_array(X), y)
    X[3, 1] = np.nan
    with pytest.raises(
        ValueError, match="contains NaN, and KernelClassifier has no missing values; use TableClassifier"
    ):
        KernelClassifier().fit(X, y)
    with pytest.raises(ValueError, match=r"needs at least two classes. Got one class: 'a'"):
        KernelClassifier().fit(rng.normal(size=(3, 2)), ["a"] * 3)


def test_progress_is_shown_on_request(rng, capsys):
    X, y = friedman(rng, 50)
    KernelRegressor(verbose=1, random_state=0).fit(X, y)
    assert "fitting leaves: done" in capsys.readouterr().err
