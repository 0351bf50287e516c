# SPDX-License-Identifier: BSD-3-Clause
"""Gradients are compared with finite differences, and learned length scales with what is known of the data."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, ImportanceDisplay
from bochner.feature_maps import fourier_map
from bochner.kernels import KERNELS
from bochner.samplers import SAMPLERS
from bochner.scaling import LearnedLengthScales, MarginalLikelihood
from bochner.scaling.learned_scales import LabeledRows, LearningProblem
from bochner.scaling.objectives import OBJECTIVES
from tests.conftest import KERNEL_SAMPLER_PAIRS

# Every kernel with one sampler and every sampler with one kernel; the other pairs are in the slow lane.
PAIRS = [
    pytest.param(kernel, sampler, marks=[] if kernel == "gaussian" or sampler == "mc" else pytest.mark.slow)
    for kernel, sampler in KERNEL_SAMPLER_PAIRS
]


def friedman(n_rows=400, seed=0, n_features=8):
    """Return rows of which columns 0 to 2 have a nonlinear effect, 3 and 4 a linear one, and the others none."""
    return make_friedman1(n_rows, n_features, noise=0.5, random_state=seed)


def learned(n_iterations=25, **parameters):
    length_scale = LearnedLengthScales(n_iterations=n_iterations)
    defaults = {"length_scale": length_scale, "n_frequencies": 64, "random_state": 0}
    return FourierFeatures(**defaults | parameters)


@pytest.fixture(scope="module")
def fitted_features():
    return learned().fit(*friedman())


@pytest.fixture(scope="module")
def fitted_ridge():
    return FeatureRegressor(learned()).fit(*friedman())


def learning_problem(rng, kernel, sampler, kind="dense", dtype=np.float64, n_targets=2):
    X = rng.normal(size=(50, 4)).astype(dtype)
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]])[:, :n_targets]
    rows = LabeledRows(sparse.csr_array(X) if kind == "sparse" else X, Y, rng.uniform(0.5, 2.0, size=50))
    frequencies = SAMPLERS[sampler]().sample(KERNELS[kernel](), 6, X, rng)
    return LearningProblem.with_folds(rows, 3, 10, np.asarray(frequencies))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("kernel", "sampler"), PAIRS)
def test_gradient_equals_finite_differences(rng, kernel, sampler, objective):
    check_gradient(rng, learning_problem(rng, kernel, sampler), OBJECTIVES[objective]())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_gradient_of_dense_and_sparse_rows(rng, dtype, kind, n_targets):
    check_gradient(rng, learning_problem(rng, "matern", "mc", kind, dtype, n_targets), OBJECTIVES["validation"]())


def check_gradient(rng, problem, objective, step=2e-6):
    logarithms, log_alpha = rng.normal(scale=0.3, size=4), -4.0

    def value(change, penalty_change=0.0):
        scales = np.exp(logarithms + change)
        return problem.evaluate(objective, scales, np.exp(log_alpha + penalty_change)).value

    evaluation = problem.evaluate(objective, np.exp(logarithms), np.exp(log_alpha))
    differences = [difference(lambda h, axis=axis: value(h * axis), step) for axis in np.eye(4)]
    np.testing.assert_allclose(evaluation.gradient, differences, rtol=1e-6, atol=1e-6 * np.abs(differences).max())
    alpha_difference = difference(lambda h: value(np.zeros(4), h), step)
    assert evaluation.log_alpha_derivative == pytest.approx(alpha_difference, rel=1e-6, abs=1e-8)


def difference(function, step):
    """Return a fourth-order difference, because frequencies of the Laplacian kernel reach into the thousands."""
    near, far = (function(h) - function(-h) for h in (step, 2 * step))
    return (8 * near - far) / (12 * step)


def test_held_out_error_equals_scikit_learn(rng):
    problem = learning_problem(rng, "gaussian", "mc")
    scales = np.exp(rng.normal(size=4))
    Z = fourier_map(problem.rows.X / scales, problem.frequencies, np.full(6, 1 / 6))
    training = problem.folds < 3
    assert np.count_nonzero(~training) == 10
    weights, Y = problem.rows.weights, problem.rows.targets
    ridge = Ridge(0.01 * weights[training].sum()).fit(Z[training], Y[training], sample_weight=weights[training])
    errors = np.square(Y[~training] - ridge.predict(Z[~training])).mean(axis=1)
    expected = np.average(errors, weights=weights[~training])
    assert problem.evaluate(OBJECTIVES["validation"](), scales, 0.01).held_out_error == pytest.approx(
        expected, rel=1e-9
    )


@pytest.mark.parametrize("objective", ["validation", "likelihood", MarginalLikelihood()])
def test_informative_columns_are_found_and_the_error_falls(objective):
    X, y = friedman()
    X_test, y_test = friedman(1000, 1)
    features = FourierFeatures(length_scale=LearnedLengthScales(objective=objective), n_frequencies=64)
    model = FeatureRegressor(features, random_state=0).fit(X, y)
    isotropic = FeatureRegressor(
        FourierFeatures(n_frequencies=64), length_scale_factors=[0.25, 0.5, 1, 2, 4], random_state=0
    )
    relevance = model.features_.relevance_
    assert relevance[:3].min() > 2 * relevance[5:].max()
    assert relevance.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(
        relevance * model.features_.length_scale_, (relevance * model.features_.length_scale_)[0]
    )
    assert 1 - model.score(X_test, y_test) < 0.6 * (1 - isotropic.fit(X, y).score(X_test, y_test))


@pytest.mark.parametrize("classifier", [partial(FeatureClassifier, loss="squared_error"), FeatureClassifier])
def test_classifiers_find_informative_columns(classifier, rng):
    X = rng.normal(size=(600, 6))
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0] * X[:, 1], [-0.4, 0.4])]
    model = classifier(learned()).fit(X[:400], y[:400])
    baseline = classifier(FourierFeatures(n_frequencies=64)).fit(X[:400], y[:400])
    assert set(np.argsort(model.features_.relevance_)[-2:]) == {0, 1}
    assert model.score(X[400:], y[400:]) > baseline.score(X[400:], y[400:])


def test_transformer_distinguishes_classes_and_numbers(rng):
    X = rng.normal(size=(200, 3))
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    scales = [
        learned(n_iterations=10).fit(X, y).length_scale_
        for y in (labels, labels.astype(float), np.array(["a", "b", "c"])[labels], 2 * np.eye(3)[labels] - 1)
    ]
    for other in scales[1:]:
        np.testing.assert_allclose(other, scales[0], rtol=1e-6)
    as_number = learned(n_iterations=10).fit(X, labels[:, None]).length_scale_
    assert not np.allclose(as_number, scales[0], rtol=0.01)


def test_gain_is_reported(fitted_features, fitted_ridge):
    X, _ = friedman()
    assert 0.3 < fitted_ridge.features_.learning_gain_ < 1.0
    assert fitted_features.learning_gain_ == fitted_ridge.features_.learning_gain_
    refitted = deepcopy(fitted_features).set_params(length_scale=1.0).fit(X)
    assert not hasattr(refitted, "learning_gain_")


def test_noise_gives_similar_length_scales(rng):
    X, y = rng.normal(size=(500, 5)), rng.normal(size=500)
    features = learned().fit(X, y)
    assert features.length_scale_.shape == (5,)
    assert features.length_scale_.max() < 1.5 * features.length_scale_.min()


def test_no_iterations_keep_the_start():
    X, y = friedman(100)
    features = FourierFeatures(length_scale=LearnedLengthScales(n_iterations=0), random_state=0).fit(X, y)
    np.testing.assert_allclose(features.length_scale_, features.length_scale_[0])
    assert features.learning_gain_ == 0.0


def test_targets_in_any_container_are_equivalent(rng):
    X = rng.normal(size=(100, 2))
    y = np.sin(2 * X[:, 0])
    expected = learned(n_iterations=5).fit(X, y).length_scale_
    for container in (y.astype(object), sparse.csr_array(y[:, None]), y[:, None]):
        np.testing.assert_array_equal(learned(n_iterations=5).fit(X, container).length_scale_, expected)


def test_invalid_targets_are_rejected(rng):
    X = rng.normal(size=(30, 2))
    for y in (np.arange(30).astype("datetime64[D]"), np.full((30, 2), "a")):
        with pytest.raises(ValueError, match=r"y must contain numbers or, in one column, class labels"):
            learned().fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        FeatureClassifier(learned(), loss="squared_error").fit_features(X, np.where(X[:, 0] > 0, np.nan, 1.0))
    with pytest.raises(ValueError, match=r"y must contain numbers for a regression"):
        FeatureRegressor(learned()).fit_features(X, np.full(30, "a"))


def test_many_classes_are_projected(rng):
    X = rng.uniform(size=(1500, 3))
    y = np.digitize(X[:, 1], np.linspace(0, 1, 41)).astype(str)
    assert learned().fit(X, y).relevance_.argmax() == 1


@pytest.mark.parametrize("y", [np.ones(50), np.full(50, "a"), np.arange(50) == 60])
def test_constant_target_gives_the_median_distance(rng, y):
    X = rng.normal(size=(50, 3))
    features = learned().fit(X, y)
    np.testing.assert_allclose(features.length_scale_, features.length_scale_[0])
    assert features.length_scale_[0] == pytest.approx(FourierFeatures(random_state=0).fit(X).length_scale_, rel=1e-12)


@pytest.mark.parametrize("n_rows", [1, 2, 5, 19, 20, 25])
def test_few_rows_give_positive_length_scales(rng, n_rows):
    X, y = rng.normal(size=(n_rows, 2)), rng.normal(size=n_rows)
    scales = learned().fit(X, y).length_scale_
    assert scales.shape == (2,)
    assert (scales > 0).all()


def test_missing_y_is_rejected(rng):
    X = rng.normal(size=(30, 2))
    for call in (FourierFeatures(length_scale="learn").fit, FourierFeatures(length_scale="learn").suggest):
        with pytest.raises(ValueError, match=r"`length_scale`='learn' requires y .*; give y, or a length scale"):
            call(X)
    with pytest.raises(ValueError, match="requires y"):
        FeatureRegressor(learned()).fit_features(X)


@pytest.mark.parametrize(
    "parameters",
    [{"n_rows": 5}, {"n_iterations": -1}, {"n_folds": 1}, {"prior_strength": -1.0}, {"objective": "evidence"}],
)
def test_invalid_parameters_are_rejected(rng, parameters):
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    (name,) = parameters
    features = FourierFeatures(length_scale=LearnedLengthScales(**parameters))
    with pytest.raises(ValueError, match=f"'{name}' parameter of LearnedLengthScales"):
        features.fit(X, y)
    with pytest.raises(ValueError, match=f"'{name}' parameter of LearnedLengthScales"):
        FeatureRegressor(features).fit(X, y)


def test_constant_columns_are_uninformative(fitted_ridge):
    X, y = friedman()
    X_test, y_test = friedman(500, 1)
    score = fitted_ridge.score(X_test, y_test)
    model = FeatureRegressor(learned()).fit(np.column_stack([X, np.full(len(X), 7.0), np.zeros(len(X))]), y)
    relevance = model.features_.relevance_
    assert relevance[-2:].max() < 1e-3 * relevance.max()
    for value in (7.0, -3.0):  # a new value hardly changes the predictions
        rows = np.column_stack([X_test, np.full(500, value), np.zeros(500)])
        assert model.score(rows, y_test) > score - 0.02


def test_units_of_columns_hardly_change_the_score(fitted_ridge):
    X, y = friedman()
    X_test, y_test = friedman(500, 1)
    units = np.array([1e-4, 1.0, 1e3, 1e-2, 10.0, 1e5, 1.0, 1e-3])
    model = FeatureRegressor(learned()).fit(X * units, y)
    assert model.score(X_test * units, y_test) > fitted_ridge.score(X_test, y_test) - 0.03


def test_sparse_equals_dense(rng):
    X = rng.normal(size=(300, 6)) * (rng.random(size=(300, 6)) < 0.4)
    y = X[:, 0] - X[:, 1] ** 2
    dense, csr = (learned(n_iterations=15).fit(rows, y) for rows in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(csr.length_scale_, dense.length_scale_, rtol=1e-4)


def test_wide_sparse_rows(rng):
    informative = (rng.random((500, 1)) < 0.5) * 3.0
    others = sparse.random_array((500, 29_999), density=1e-3, format="csr", rng=rng)
    X, y = (
        sparse.hstack([sparse.csr_array(informative), others], format="csr"),
        informative.ravel() + 0.01 * rng.normal(size=500),
    )
    part = LearnedLengthScales(n_iterations=3)
    features = FourierFeatures(length_scale=part, n_frequencies=8, sampler="mc", weighting="uniform", random_state=0)
    relevance = features.fit(X, y).relevance_
    assert relevance.shape == (30_000,)
    assert relevance.argmax() == 0


def test_float32_stays_float32(fitted_features):
    X, y = friedman()
    single = learned().fit(X.astype(np.float32), y)
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    assert single.length_scale_.dtype == np.float64
    np.testing.assert_allclose(single.length_scale_, fitted_features.length_scale_, rtol=0.05)


@pytest.mark.parametrize("n_rows", [60, 2000])
def test_sample_weights_equal_repeated_rows(rng, n_rows):
    X, y = friedman(n_rows)
    counts = rng.integers(0, 3, size=n_rows)
    order = rng.permutation(counts.sum())
    features = learned(n_frequencies=128)
    weighted = clone(features).fit(X, y, sample_weight=counts)
    repeated = clone(features).fit(np.repeat(X, counts, axis=0)[order], np.repeat(y, counts)[order])
    if n_rows == 60:
        np.testing.assert_array_equal(weighted.length_scale_, repeated.length_scale_)
    else:
        np.testing.assert_allclose(weighted.relevance_, repeated.relevance_, atol=0.05)


def test_result_does_not_depend_on_the_number_of_threads():
    X, y = friedman(1500)
    scales = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            scales.append(learned(n_iterations=10).fit(X, y).length_scale_.tobytes())
    assert scales[0] == scales[1]


def test_frequencies_and_weights_equal_those_of_given_length_scales(fitted_features):
    """Learned length scales change neither the frequencies at unit length scale nor the weights."""
    X, _ = friedman()
    given = FourierFeatures(length_scale=fitted_features.length_scale_, n_frequencies=64, random_state=0).fit(X)
    median = FourierFeatures(n_frequencies=64, random_state=0).fit(X)
    np.testing.assert_array_equal(fitted_features.frequencies_, given.frequencies_)
    np.testing.assert_array_equal(fitted_features.weights_, given.weights_)
    np.testing.assert_allclose(
        fitted_features.frequencies_ * fitted_features.length_scale_,
        median.frequencies_ * median.length_scale_,
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_frequencies": "auto", "tolerance": 0.3},
        {"weighting": "matrix", "n_frequencies": 48, "n_components": 16},
        {"n_frequencies": 600},
        {"kernel": "laplacian", "sampler": "sobol"},
        {"refine": 3},
        {"length_scale": "learn"},
    ],
)
def test_other_parameters_work_with_learned_length_scales(parameters):
    X, y = friedman(150)
    features = learned(n_iterations=10, **parameters).fit(X, y)
    assert features.relevance_.argmax() in (0, 1, 2)
    assert features.relevance_.min() > 0


def test_suggest_uses_learned_length_scales():
    X, y = friedman(150)
    features = learned(n_iterations=10)
    given = FourierFeatures(length_scale=features.fit(X, y).length_scale_, n_frequencies=64, random_state=0)
    assert features.suggest(X, 0.2, y=y) == given.suggest(X, 0.2)


def test_length_scale_candidates_multiply_the_learned_ones(fitted_ridge):
    several = FeatureRegressor(learned(), length_scale_factors=[1.0, 3.0]).fit(*friedman())
    ratio = several.features_.length_scale_ / fitted_ridge.features_.length_scale_
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
    assert several.length_scale_scores_[0] == pytest.approx(fitted_ridge.best_score_, rel=1e-9)
    assert several.features_.learning_gain_ == fitted_ridge.features_.learning_gain_


def test_cross_validation_learns_inside_the_folds():
    """Length scales that were learned on the test rows would find structure in pure noise."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 30)), rng.normal(size=120)
    scores = cross_val_score(FeatureRegressor(learned()), X, y, cv=5)
    assert scores.mean() < 0.05


def test_parameters_work_in_a_grid_search(rng):
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    features = FourierFeatures(length_scale=LearnedLengthScales(n_iterations=3), n_frequencies=4, random_state=0)
    grids = {
        "n_rows": [30, 60],
        "n_iterations": [0, 2],
        "n_folds": [2, 4],
        "prior_strength": [0.0, 10.0],
        "objective": ["validation", "likelihood"],
    }
    assert set(LearnedLengthScales().get_params()) == set(grids)
    for name, values in grids.items():
        search = GridSearchCV(
            make_pipeline(features, Ridge()),
            {f"fourierfeatures__length_scale__{name}": values},
            cv=2,
            error_score="raise",
        )
        assert len(search.fit(X, y).cv_results_["params"]) == 2


def test_partial_fit_learns_from_the_first_rows():
    X, y = friedman(600)
    whole = FeatureRegressor(learned(n_iterations=5)).fit_features(X, y).partial_fit(X[:300], y[:300])
    whole.partial_fit(X[300:], y[300:])
    batches = FeatureRegressor(learned(n_iterations=5)).partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(whole.features_.length_scale_, batches.features_.length_scale_)
    labels = np.where(y > np.median(y), "more", "less")
    classifier = FeatureClassifier(learned(n_iterations=5), loss="squared_error").fit_features(X, labels)
    classifier.partial_fit(X, labels, classes=["less", "more"])
    np.testing.assert_array_equal(
        classifier.features_.length_scale_,
        FeatureClassifier(learned(n_iterations=5), loss="squared_error").fit(X, labels).features_.length_scale_,
    )


def test_relevance_display_shows_the_most_relevant_columns(fitted_ridge):
    import matplotlib.pyplot as plt

    display = ImportanceDisplay.from_estimator(fitted_ridge, names=list("abcdefgh"), n_columns=3)
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == [list("abcdefgh")[j] for j in np.argsort(-fitted_ridge.features_.relevance_)[:3]]
    assert "3 most important of 8" in display.ax_.get_title()
    with pytest.raises(ValueError, match="`names` has 2 names and the rows have 8 columns"):
        ImportanceDisplay.from_estimator(fitted_ridge, names=["a", "b"])
    plt.close("all")


def test_progress_bar_is_drawn_if_verbose(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    X, y = friedman(100)
    FeatureRegressor(learned(n_iterations=3), verbose=1).fit(X, y)
    assert "learning length scales" in capsys.readouterr().err
    FeatureRegressor(learned(n_iterations=3)).fit(X, y)
    assert capsys.readouterr().err == ""
