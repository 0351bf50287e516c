# SPDX-License-Identifier: BSD-3-Clause
"""Learned length scales: gradients against differences, what they find, and what must not harm them."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from bochner import FourierFeatures, FourierRidge, FourierRidgeClassifier, FourierSVC, RelevanceDisplay
from bochner.feature_maps import fourier_map
from bochner.kernels import KERNELS
from bochner.learning import LearnedLengthScales, MarginalLikelihood
from bochner.learning.length_scales import LabelledRows, LearningProblem
from bochner.learning.objectives import OBJECTIVES
from bochner.samplers import SAMPLERS
from tests.conftest import KERNEL_SAMPLER_PAIRS


def friedman(n_rows=400, seed=0, n_features=8):
    """Three columns matter, two more add what is linear in them, the others have no say."""
    return make_friedman1(n_rows, n_features, noise=0.5, random_state=seed)


def learned(**parameters):
    return FourierFeatures(length_scale=LearnedLengthScales(n_iterations=25), n_frequencies=64, **parameters)


def problem_of(rng, kernel, sampler, kind="dense", dtype=np.float64, n_targets=2):
    X = rng.normal(size=(50, 4)).astype(dtype)
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]])[:, :n_targets]
    rows = LabelledRows(sparse.csr_array(X) if kind == "sparse" else X, Y, rng.uniform(0.5, 2.0, size=50))
    frequencies = SAMPLERS[sampler]().sample(KERNELS[kernel](), 6, X, rng)
    return LearningProblem.of(rows, 3, 10, np.asarray(frequencies))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("kernel", "sampler"), KERNEL_SAMPLER_PAIRS)
def test_gradient_is_that_of_differences(rng, kernel, sampler, objective):
    check_gradient(rng, problem_of(rng, kernel, sampler), OBJECTIVES[objective]())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_gradient_of_any_rows(rng, dtype, kind, n_targets):
    check_gradient(rng, problem_of(rng, "matern", "mc", kind, dtype, n_targets), OBJECTIVES["validation"]())


def check_gradient(rng, problem, objective, step=2e-6):
    logarithms, log_alpha = rng.normal(scale=0.3, size=4), -4.0

    def value(move, penalty_move=0.0):
        scales = np.exp(logarithms + move)
        return problem.evaluate(objective, scales, np.exp(log_alpha + penalty_move)).value

    found = problem.evaluate(objective, np.exp(logarithms), np.exp(log_alpha))
    differences = [difference(lambda h, axis=axis: value(h * axis), step) for axis in np.eye(4)]
    np.testing.assert_allclose(found.gradient, differences, rtol=1e-6, atol=1e-6 * np.abs(differences).max())
    in_alpha = difference(lambda h: value(np.zeros(4), h), step)
    assert found.in_log_alpha == pytest.approx(in_alpha, rel=1e-6, abs=1e-8)


def difference(function, step):
    """Of fourth order: the Laplacian's frequencies reach into the thousands."""
    near, far = (function(h) - function(-h) for h in (step, 2 * step))
    return (8 * near - far) / (12 * step)


def test_risk_is_the_error_on_the_rows_held_out(rng):
    problem = problem_of(rng, "gaussian", "mc")
    scales = np.exp(rng.normal(size=4))
    Z = fourier_map(problem.rows.X / scales, problem.frequencies, np.full(6, 1 / 6))
    seen = problem.folds < 3
    assert np.count_nonzero(~seen) == 10
    weights, Y = problem.rows.weights, problem.rows.targets
    ridge = Ridge(0.01 * weights[seen].sum()).fit(Z[seen], Y[seen], sample_weight=weights[seen])
    errors = np.square(Y[~seen] - ridge.predict(Z[~seen])).mean(axis=1)
    expected = np.average(errors, weights=weights[~seen])
    assert problem.evaluate(OBJECTIVES["validation"](), scales, 0.01).risk == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("objective", ["validation", "likelihood", MarginalLikelihood()])
def test_columns_that_matter_are_found_and_the_error_falls(objective):
    X, y = friedman()
    X_test, y_test = friedman(1000, 1)
    features = FourierFeatures(length_scale=LearnedLengthScales(objective=objective), n_frequencies=64)
    model = FourierRidge(features, random_state=0).fit(X, y)
    plain = FourierRidge(FourierFeatures(n_frequencies=64), length_scales=[0.25, 0.5, 1, 2, 4], random_state=0)
    relevance = model.features_.relevance_
    assert relevance[:3].min() > 2 * relevance[5:].max()
    assert relevance.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(
        relevance * model.features_.length_scale_, (relevance * model.features_.length_scale_)[0]
    )
    assert 1 - model.score(X_test, y_test) < 0.6 * (1 - plain.fit(X, y).score(X_test, y_test))


@pytest.mark.parametrize("head", [FourierRidgeClassifier, FourierSVC])
def test_classes(head, rng):
    X = rng.normal(size=(600, 6))
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0] * X[:, 1], [-0.4, 0.4])]
    model = head(learned(random_state=0)).fit(X[:400], y[:400])
    assert set(np.argsort(model.features_.relevance_)[-2:]) == {0, 1}
    assert model.score(X[400:], y[400:]) > head(FourierFeatures(n_frequencies=64)).fit(X[:400], y[:400]).score(
        X[400:], y[400:]
    )


def test_the_transformer_tells_classes_from_quantities(rng):
    X = rng.normal(size=(200, 3))
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    scales = [
        learned(random_state=0).fit(X, y).length_scale_
        for y in (labels, labels.astype(float), np.array(["a", "b", "c"])[labels], 2 * np.eye(3)[labels] - 1)
    ]
    for other in scales[1:]:
        np.testing.assert_allclose(other, scales[0], rtol=1e-6)
    as_number = learned(random_state=0).fit(X, labels[:, None]).length_scale_
    assert not np.allclose(as_number, scales[0], rtol=0.01)


def test_the_gain_is_told():
    X, y = friedman()
    model = FourierRidge(learned(random_state=0), length_scales=[1.0, 2.0]).fit(X, y)
    assert 0.3 < model.features_.learning_gain_ < 1.0
    features = learned(random_state=0).fit(X, y)
    assert features.learning_gain_ == model.features_.learning_gain_
    assert not hasattr(features.set_params(length_scale=1.0).fit(X), "learning_gain_")


def test_noise_leaves_the_columns_equal(rng):
    X, y = rng.normal(size=(500, 5)), rng.normal(size=500)
    features = learned(random_state=0).fit(X, y)
    assert features.length_scale_.shape == (5,)
    assert features.length_scale_.max() < 1.5 * features.length_scale_.min()


def test_no_iterations_are_the_start():
    X, y = friedman(100)
    features = FourierFeatures(length_scale=LearnedLengthScales(n_iterations=0), random_state=0).fit(X, y)
    np.testing.assert_allclose(features.length_scale_, features.length_scale_[0])
    assert features.learning_gain_ == 0.0


@pytest.mark.parametrize("kind", ["object", "sparse", "column"])
def test_numbers_in_any_container_are_numbers(rng, kind):
    X = rng.normal(size=(100, 2))
    y = np.sin(2 * X[:, 0])
    given = {"object": y.astype(object), "sparse": sparse.csr_array(y[:, None]), "column": y[:, None]}[kind]
    expected = learned(random_state=0).fit(X, y).length_scale_
    np.testing.assert_array_equal(learned(random_state=0).fit(X, given).length_scale_, expected)


def test_what_is_no_target_gets_a_sentence(rng):
    X = rng.normal(size=(30, 2))
    for y in (np.arange(30).astype("datetime64[D]"), np.full((30, 2), "a")):
        with pytest.raises(ValueError, match=r"y must hold numbers or, in one column, labels of classes"):
            learned().fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        FourierRidgeClassifier(learned()).fit_features(X, np.where(X[:, 0] > 0, np.nan, 1.0))
    with pytest.raises(ValueError, match=r"y must hold numbers for a regression"):
        FourierRidge(learned()).fit_features(X, np.full(30, "a"))


def test_many_classes_cost_what_few_do(rng):
    X = rng.uniform(size=(1500, 3))
    y = np.digitize(X[:, 1], np.linspace(0, 1, 41)).astype(str)
    assert learned(random_state=0).fit(X, y).relevance_.argmax() == 1


@pytest.mark.parametrize("y", [np.ones(50), np.full(50, "a"), np.arange(50) == 60])
def test_nothing_to_learn_from_a_constant_target(rng, y):
    X = rng.normal(size=(50, 3))
    features = learned(random_state=0).fit(X, y)
    np.testing.assert_allclose(features.length_scale_, features.length_scale_[0])
    assert features.length_scale_[0] == pytest.approx(FourierFeatures(random_state=0).fit(X).length_scale_, rel=1e-12)


@pytest.mark.parametrize("n_rows", [1, 2, 5, 19, 20, 25])
def test_few_rows(rng, n_rows):
    X, y = rng.normal(size=(n_rows, 2)), rng.normal(size=n_rows)
    scales = learned(random_state=0).fit(X, y).length_scale_
    assert scales.shape == (2,)
    assert (scales > 0).all()


def test_y_is_needed(rng):
    X = rng.normal(size=(30, 2))
    for call in (FourierFeatures(length_scale="learn").fit, FourierFeatures(length_scale="learn").suggest):
        with pytest.raises(ValueError, match=r"`length_scale`='learn' requires y .*; give y, or a length scale"):
            call(X)
    with pytest.raises(ValueError, match="requires y"):
        FourierRidge(learned()).fit_features(X)


@pytest.mark.parametrize(
    "parameters", [{"n_rows": 5}, {"n_iterations": -1}, {"folds": 1}, {"penalty": -1.0}, {"objective": "evidence"}]
)
def test_bad_parameters_get_a_sentence(rng, parameters):
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    (name,) = parameters
    features = FourierFeatures(length_scale=LearnedLengthScales(**parameters))
    with pytest.raises(ValueError, match=f"'{name}' parameter of LearnedLengthScales"):
        features.fit(X, y)
    with pytest.raises(ValueError, match=f"'{name}' parameter of LearnedLengthScales"):
        FourierRidge(features).fit(X, y)


def test_constant_columns_have_no_say():
    X, y = friedman()
    constant = np.column_stack([X, np.full(len(X), 7.0), np.zeros(len(X))])
    model, with_constants = FourierRidge(learned(random_state=0)), FourierRidge(learned(random_state=0))
    score = model.fit(X, y).score(*friedman(500, 1))
    X_test, y_test = friedman(500, 1)
    relevance = with_constants.fit(constant, y).features_.relevance_
    assert relevance[-2:].max() < 1e-3 * relevance.max()
    for value in (7.0, -3.0):  # a value it has never seen changes next to nothing
        rows = np.column_stack([X_test, np.full(500, value), np.zeros(500)])
        assert with_constants.score(rows, y_test) > score - 0.02


def test_units_of_columns_are_overcome():
    X, y = friedman()
    X_test, y_test = friedman(500, 1)
    units = np.array([1e-4, 1.0, 1e3, 1e-2, 10.0, 1e5, 1.0, 1e-3])
    score = FourierRidge(learned(random_state=0)).fit(X, y).score(X_test, y_test)
    in_units = FourierRidge(learned(random_state=0)).fit(X * units, y)
    assert in_units.score(X_test * units, y_test) > score - 0.03


def test_sparse_rows_learn_what_dense_ones_do(rng):
    X = rng.normal(size=(300, 6)) * (rng.random(size=(300, 6)) < 0.4)
    y = X[:, 0] - X[:, 1] ** 2
    dense, csr = (learned(random_state=0).fit(rows, y) for rows in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(csr.length_scale_, dense.length_scale_, rtol=1e-4)


def test_wide_sparse_rows(rng):
    switch = (rng.random((500, 1)) < 0.5) * 3.0
    others = sparse.random_array((500, 99_999), density=2e-4, format="csr", rng=rng)
    X, y = sparse.hstack([sparse.csr_array(switch), others], format="csr"), switch.ravel() + 0.01 * rng.normal(size=500)
    part = LearnedLengthScales(n_iterations=3)
    features = FourierFeatures(length_scale=part, n_frequencies=8, sampler="mc", weighting="uniform", random_state=0)
    relevance = features.fit(X, y).relevance_
    assert relevance.shape == (100_000,)
    assert relevance.argmax() == 0


def test_float32_stays_float32():
    X, y = friedman()
    single = learned(random_state=0).fit(X.astype(np.float32), y)
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    assert single.length_scale_.dtype == np.float64
    np.testing.assert_allclose(single.length_scale_, learned(random_state=0).fit(X, y).length_scale_, rtol=0.05)


@pytest.mark.parametrize("n_rows", [60, 2000])
def test_weights_are_repetitions(rng, n_rows):
    X, y = friedman(n_rows)
    counts = rng.integers(0, 3, size=n_rows)
    order = rng.permutation(counts.sum())
    features = learned(random_state=0).set_params(n_frequencies=128)
    weighted = clone(features).fit(X, y, sample_weight=counts)
    repeated = clone(features).fit(np.repeat(X, counts, axis=0)[order], np.repeat(y, counts)[order])
    if n_rows == 60:
        np.testing.assert_array_equal(weighted.length_scale_, repeated.length_scale_)
    else:
        np.testing.assert_allclose(weighted.relevance_, repeated.relevance_, atol=0.05)


def test_no_bit_depends_on_the_number_of_threads():
    X, y = friedman(1500)
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            found.append(learned(random_state=0).fit(X, y).length_scale_.tobytes())
    assert found[0] == found[1]


def test_frequencies_and_weights_come_after_the_length_scale():
    """The same frequencies at unit length scale, and the same weights, as when the length scales are given."""
    X, y = friedman(200)
    features = learned(random_state=0).fit(X, y)
    given = FourierFeatures(length_scale=features.length_scale_, n_frequencies=64, random_state=0).fit(X)
    median = FourierFeatures(n_frequencies=64, random_state=0).fit(X)
    np.testing.assert_array_equal(features.frequencies_, given.frequencies_)
    np.testing.assert_array_equal(features.weights_, given.weights_)
    np.testing.assert_allclose(
        features.frequencies_ * features.length_scale_, median.frequencies_ * median.length_scale_, rtol=1e-12
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_frequencies": "auto", "tolerance": 0.3},
        {"weighting": "matrix", "n_frequencies": 48, "n_components": 16},
        {"n_frequencies": 600},
        {"kernel": "laplacian", "sampler": "sobol"},
        {"refine": 3},
    ],
)
def test_with_every_other_step(parameters):
    X, y = friedman(150)
    features = FourierFeatures(length_scale="learn", random_state=0, **parameters).fit(X, y)
    assert features.relevance_.argmax() in (0, 1, 2)
    assert features.relevance_.min() > 0


def test_suggest_learns_too():
    X, y = friedman(150)
    features = learned(random_state=0)
    given = FourierFeatures(length_scale=features.fit(X, y).length_scale_, n_frequencies=64, random_state=0)
    assert features.suggest(X, 0.2, y=y) == given.suggest(X, 0.2)


def test_length_scales_of_a_head_multiply_the_learned_ones():
    X, y = friedman(300)
    alone = FourierRidge(learned(random_state=0)).fit(X, y)
    several = FourierRidge(learned(random_state=0), length_scales=[1.0, 3.0]).fit(X, y)
    ratio = several.features_.length_scale_ / alone.features_.length_scale_
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
    assert several.length_scale_scores_[0] == pytest.approx(alone.best_score_, rel=1e-9)


def test_cross_validation_learns_inside_the_folds():
    """Many columns of noise: who learns on the rows that judge would see something in them."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 30)), rng.normal(size=120)
    scores = cross_val_score(FourierRidge(learned(random_state=0)), X, y, cv=5)
    assert scores.mean() < 0.05


def test_parameters_of_the_part_can_be_searched(rng):
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    features = FourierFeatures(length_scale=LearnedLengthScales(n_iterations=3), n_frequencies=4, random_state=0)
    grids = {
        "n_rows": [30, 60],
        "n_iterations": [0, 2],
        "folds": [2, 4],
        "penalty": [0.0, 10.0],
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


def test_partial_fit_learns_from_the_first_rows_or_a_sample():
    X, y = friedman(600)
    whole = FourierRidge(learned(random_state=0)).fit_features(X, y).partial_fit(X[:300], y[:300])
    whole.partial_fit(X[300:], y[300:])
    pieces = FourierRidge(learned(random_state=0)).partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(whole.features_.length_scale_, pieces.features_.length_scale_)
    labels = np.where(y > np.median(y), "more", "less")
    classifier = FourierRidgeClassifier(learned(random_state=0)).fit_features(X, labels)
    classifier.partial_fit(X, labels, classes=["less", "more"])
    np.testing.assert_array_equal(
        classifier.features_.length_scale_,
        FourierRidgeClassifier(learned(random_state=0)).fit(X, labels).features_.length_scale_,
    )


def test_relevance_display():
    import matplotlib.pyplot as plt

    X, y = friedman(150)
    model = FourierRidge(learned(random_state=0)).fit(X, y)
    display = RelevanceDisplay.from_estimator(model, names=list("abcdefgh"), n_columns=3)
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == [list("abcdefgh")[j] for j in np.argsort(-model.features_.relevance_)[:3]]
    assert "3 most relevant of 8" in display.ax_.get_title()
    with pytest.raises(ValueError, match="`names` has 2 names and the estimator 8 columns"):
        RelevanceDisplay.from_estimator(model, names=["a", "b"])
    plt.close("all")


def test_a_progress_bar_for_who_asks(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    X, y = friedman(100)
    FourierRidge(learned(random_state=0), verbose=1).fit(X, y)
    assert "learning length scales" in capsys.readouterr().err
    FourierRidge(learned(random_state=0)).fit(X, y)
    assert capsys.readouterr().err == ""
