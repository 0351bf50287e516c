# SPDX-License-Identifier: BSD-3-Clause
"""What the linear models share, above all features of other libraries; rows in files are in tests/table_models."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, PolynomialCountSketch
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, LabelBinarizer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    FourierFeatures,
    LandmarkFeatures,
)
from bochner.rows import threads

SMALL = FourierFeatures(n_frequencies=8, random_state=0)
MODELS = [
    FeatureRegressor(SMALL),
    FeatureClassifier(SMALL, loss="squared_error"),
    FeatureClassifier(SMALL, Cs=[1.0]),
    FeatureClassifier(SMALL, Cs=[1.0], loss="log_loss"),
]
CLASSIFIERS = MODELS[1:]
ALPHAS = np.logspace(-8, 4, 25)
CS = np.logspace(-2, 2, 5)
N_ROWS = 400


def nystroem(n_components):
    return Nystroem(n_components=n_components, random_state=0)


def count_sketch(n_components):
    sketch = PolynomialCountSketch(n_components=n_components, random_state=0)
    return make_pipeline(StandardScaler(), sketch)


# The fast lane has fewer columns than the slow one.
OTHER_FEATURES = [
    pytest.param(nystroem(64), id="64 Nystroem columns"),
    pytest.param(count_sketch(50), id="50 columns of a sketch"),
    pytest.param(nystroem(256), id="256 Nystroem columns", marks=pytest.mark.slow),
    pytest.param(count_sketch(500), id="500 columns of a sketch", marks=pytest.mark.slow),
]


@pytest.fixture
def model(request):
    """An unfitted copy of the model that a test is parametrized with."""
    return clone(request.param)


@pytest.fixture(scope="module")
def regression():
    """Rows and targets, read-only."""
    rng = np.random.default_rng(0)
    X = 3.0 + rng.normal(size=(N_ROWS, 4)) * [1.0, 2.0, 0.5, 1.0]
    y = np.sin(X[:, 0]) + 0.2 * X[:, 1] ** 2 + 0.3 * rng.normal(size=N_ROWS) + 50.0
    X.flags.writeable = y.flags.writeable = False
    return X, y


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def classification(request, regression):
    X, y = regression
    bounds = np.quantile(y, np.arange(1, request.param) / request.param)
    return X, np.array(["b", "c", "a"])[np.digitize(y, bounds)]


class TestOtherFeatures:
    """Any transformer can take the place of Fourier features, and the search is that of scikit-learn."""

    @pytest.mark.parametrize("features", OTHER_FEATURES)
    def test_ridge_equals_grid_search(self, regression, features):
        X, y = regression
        model = FeatureRegressor(features).fit(X, y)
        Z = features.fit(X).transform(X)
        search = GridSearchCV(Ridge(), {"alpha": ALPHAS * N_ROWS}, cv=5).fit(Z, y)
        assert model.alpha_ == pytest.approx(search.best_params_["alpha"] / N_ROWS, rel=1e-12)
        assert model.best_score_ == pytest.approx(search.best_score_, rel=1e-9)
        np.testing.assert_allclose(model.predict(X), search.predict(Z), rtol=1e-9)
        assert model.coef_.shape == (Z.shape[1],)
        assert model.score(X, y) == pytest.approx(search.score(Z, y), rel=1e-9)

    @pytest.mark.parametrize("features", OTHER_FEATURES)
    def test_classifier_equals_grid_search(self, classification, features):
        X, y = classification
        model = FeatureClassifier(features, loss="squared_error").fit(X, y)
        Z, targets = features.fit(X).transform(X), LabelBinarizer(pos_label=1, neg_label=-1).fit_transform(y)
        folds = list(StratifiedKFold(5).split(X, y))
        search = GridSearchCV(Ridge(), {"alpha": ALPHAS * N_ROWS}, cv=folds).fit(Z, targets)
        assert pytest.approx(0.5 / search.best_params_["alpha"], rel=1e-12) == model.C_
        assert model.best_score_ == pytest.approx(search.best_score_, rel=1e-9)
        expected = RidgeClassifier(**search.best_params_).fit(Z, y)
        np.testing.assert_allclose(model.decision_function(X), expected.decision_function(Z), rtol=1e-7, atol=1e-9)
        np.testing.assert_array_equal(model.predict(X), expected.predict(Z))

    @pytest.mark.parametrize("features", OTHER_FEATURES)
    def test_svc_equals_grid_search(self, classification, features):
        X, y = classification
        model = FeatureClassifier(features, Cs=CS).fit(X, y)
        Z = features.fit(X).transform(X)
        linear = LinearSVC(dual=False, tol=1e-8, max_iter=10_000)
        search = GridSearchCV(linear, {"C": CS}, cv=5).fit(Z, y)
        tried, expected = np.isfinite(model.cv_errors_[:, 0]), search.cv_results_["mean_test_score"]
        np.testing.assert_allclose(1 - model.cv_errors_.mean(axis=1)[tried], expected[tried], rtol=1e-12)
        assert search.best_params_["C"] == model.C_
        np.testing.assert_allclose(model.decision_function(X), search.decision_function(Z), rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(model.predict(X), search.predict(Z))

    def test_partial_fit_equals_fit_with_round_robin_folds(self, regression):
        X, y = regression
        whole = FeatureRegressor(nystroem(20), cv=PredefinedSplit(np.arange(N_ROWS) % 5)).fit(X, y)
        divided = FeatureRegressor(nystroem(20)).fit_features(X, y)
        for rows in np.array_split(np.arange(N_ROWS), 3):
            divided.partial_fit(X[rows], y[rows])
        assert divided.alpha_ == whole.alpha_
        np.testing.assert_allclose(divided.predict(X), whole.predict(X), rtol=1e-9)
        finalized = divided.finalize()
        np.testing.assert_array_equal(finalized.predict(X), divided.predict(X))

    def test_standard_deviations_need_no_fourier_features(self, regression):
        """With the columns themselves as features, the predictive distribution is that of a linear regression."""
        X, y = regression
        model = FeatureRegressor(FunctionTransformer(), alphas=[1e-10]).fit(X, y)
        _, deviations = model.predict(X, return_std=True)
        rows = np.column_stack([X, np.ones(N_ROWS)])
        residuals = y - rows @ np.linalg.lstsq(rows, y)[0]
        leverage = np.einsum("ij,jk,ik->i", rows, np.linalg.inv(rows.T @ rows), rows)
        expected = np.sqrt(residuals @ residuals / (N_ROWS - 5) * (1.0 + leverage))
        np.testing.assert_allclose(deviations, expected, rtol=1e-6)

    def test_features_are_selected_by_the_targets(self, regression):
        X, y = regression
        labels = y > 50
        model = FeatureRegressor(SelectKBest(f_regression, k=2)).fit(X, y)
        np.testing.assert_array_equal(
            model.features_.get_support(), SelectKBest(f_regression, k=2).fit(X, y).get_support()
        )
        for classifier in (partial(FeatureClassifier, loss="squared_error"), FeatureClassifier):
            selected = classifier(SelectKBest(f_classif, k=2)).fit(X, labels).features_.get_support()
            np.testing.assert_array_equal(selected, SelectKBest(f_classif, k=2).fit(X, labels).get_support())

    def test_random_state_of_the_model_reaches_the_features(self, regression):
        X, y = regression
        seeded = FeatureRegressor(Nystroem(n_components=9), random_state=4).fit(X, y)
        expected = Nystroem(n_components=9, random_state=4).fit(X)
        np.testing.assert_array_equal(seeded.features_.components_, expected.components_)

    def test_sparse_rows_and_sparse_features(self, regression):
        X, y = regression
        X = np.where(X > 3.5, X, 0.0)
        dense = FeatureRegressor(FunctionTransformer(accept_sparse=True)).fit(X, y)
        model = FeatureRegressor(FunctionTransformer(accept_sparse=True)).fit(sparse.csr_array(X), y)
        np.testing.assert_allclose(model.predict(sparse.csr_array(X)), dense.predict(X), rtol=1e-10)

    def test_float32_rows_give_float32_predictions(self, regression):
        X, y = regression
        model = FeatureRegressor(nystroem(20)).fit(X.astype(np.float32), y)
        assert model.predict(X.astype(np.float32)).dtype == np.float32
        np.testing.assert_allclose(
            model.predict(X.astype(np.float32)), FeatureRegressor(nystroem(20)).fit(X, y).predict(X), rtol=1e-4
        )

    def test_length_scales_need_features_that_have_one(self, regression):
        with pytest.raises(ValueError, match="needs features with a length scale, and Nystroem has none"):
            FeatureRegressor(nystroem(20), length_scale_factors=[0.5, 1.0]).fit(*regression)

    def test_kernels_need_features_that_have_one(self, regression):
        with pytest.raises(ValueError, match="needs FourierFeatures or LandmarkFeatures, and `features` is a Nystroem"):
            FeatureRegressor(nystroem(20), kernels=["gaussian", "exponential"]).fit(*regression)

    def test_features_must_transform(self, regression):
        with pytest.raises(ValueError, match="The 'features' parameter of FeatureRegressor must be"):
            FeatureRegressor(Ridge()).fit(*regression)


class TestKernels:
    """Kernels that the features do not support."""

    @pytest.mark.parametrize("model", MODELS, ids=["ridge", "classifier", "svm", "logistic"], indirect=True)
    def test_kernels_are_refused_before_any_work(self, model):
        model.set_params(kernels=["gaussian", "laplacian"], features__sampler="orthogonal")
        for rows in (np.zeros((3, 2)), "no such file.parquet"):
            with pytest.raises(ValueError, match="Laplacian is not compatible with sampler Orthogonal"):
                model.fit(rows, None)

    @pytest.mark.parametrize("method", ["partial_fit", "fit_features"])
    def test_other_methods_refuse_them(self, regression, method):
        model = FeatureRegressor(SMALL, kernels=["gaussian", "laplacian"]).set_params(features__sampler="orthogonal")
        with pytest.raises(ValueError, match="Laplacian is not compatible with sampler Orthogonal"):
            getattr(model, method)(*regression)

    def test_precomputed_kernel_that_is_replaced(self):
        features = LandmarkFeatures("precomputed")
        assert get_tags(FeatureRegressor(features)).input_tags.pairwise
        assert not get_tags(FeatureRegressor(features, kernels=["gaussian"])).input_tags.pairwise


class TestMissingValues:
    """Rows with NaN are accepted where the features begin with an imputer."""

    @pytest.fixture
    def rows(self, regression):
        X, y = regression
        X = X.copy()
        X[::7, 1] = np.nan
        return X, y

    def features(self):
        return make_pipeline(SimpleImputer(), nystroem(20))

    @pytest.mark.parametrize("model", MODELS, ids=["ridge", "classifier", "svm", "logistic"], indirect=True)
    def test_missing_values_are_imputed(self, rows, model):
        X, y = rows
        targets = y if isinstance(model, FeatureRegressor) else y > 50
        imputed = SimpleImputer().fit_transform(X)
        expected = clone(model).set_params(features=nystroem(20)).fit(imputed, targets)
        model.set_params(features=self.features()).fit(X, targets)
        np.testing.assert_allclose(model.predict(X), expected.predict(imputed), rtol=1e-9)
        assert model.score(X, targets) == pytest.approx(expected.score(imputed, targets), rel=1e-9)

    def test_partial_fit_and_fit_features_accept_them(self, rows):
        X, y = rows
        model = FeatureRegressor(self.features(), cv=None).fit_features(X).partial_fit(X[:100], y[:100])
        model.partial_fit(X[100:], y[100:])
        expected = FeatureRegressor(self.features(), cv=None).fit(X, y)
        np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-9)

    @pytest.mark.parametrize("features", [None, nystroem(20)], ids=["Fourier features", "Nystroem"])
    def test_other_features_refuse_them(self, rows, regression, features):
        X, y = rows
        model = FeatureRegressor(features)
        for method in (model.fit, model.fit_features, model.partial_fit):
            with pytest.raises(ValueError, match="contains NaN"):
                method(X, y)
        model.fit(*regression)
        with pytest.raises(ValueError, match="contains NaN"):
            model.predict(X)
        with pytest.raises(ValueError, match="contains NaN"):
            model.score(X, y)

    def test_infinity_is_always_refused(self, rows):
        X, y = rows
        X[3, 0] = np.inf
        with pytest.raises(ValueError, match="contains infinity"):
            FeatureRegressor(self.features()).fit(X, y)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=["ridge", "svm", "logistic"], indirect=True)
class TestClassifiers:
    def test_score_equals_scikit_learn(self, classification, model):
        X, y = classification
        weights = np.random.default_rng(0).uniform(size=N_ROWS)
        model = model.fit(X[:300], y[:300])
        expected = accuracy_score(y, model.predict(X), sample_weight=weights)
        assert 0.5 < expected < 1.0
        assert model.score(X, y, weights) == pytest.approx(expected, rel=1e-12)

    def test_class_of_weight_zero_is_left_out(self, regression, model):
        X, y = regression
        labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
        weights = (labels != 1).astype(float)
        model.fit(X, labels, weights)
        assert model.classes_.tolist() == [0, 2]
        assert model.coef_.shape[0] == 1

    @pytest.mark.parametrize(
        "container",
        [
            list,
            pd.Series,
            lambda y: pd.Series(y).astype("category"),
            lambda y: pd.Series(y, dtype="string"),
            lambda y: np.asarray(y, dtype=object),
        ],
        ids=["list", "series", "category", "string", "object"],
    )
    def test_labels_in_any_container_are_equivalent(self, classification, model, container):
        X, y = classification
        expected = model.fit(X, y)
        scores, classes = expected.decision_function(X), expected.classes_.tolist()
        found = model.fit(X, container(y))
        assert found.classes_.tolist() == classes
        np.testing.assert_array_equal(found.decision_function(X), scores)

    def test_column_of_labels_gives_one_warning(self, classification, model):
        X, y = classification
        with pytest.warns(UserWarning, match="A column-vector y was passed") as warnings:
            model.fit(X, y[:, None])
        assert len(warnings) == 1

    def test_one_class_is_refused(self, regression, model):
        X, _ = regression
        with pytest.raises(
            ValueError, match=f"{type(model).__name__} needs at least two classes; y has only one class, 'a'"
        ):
            model.fit(X, np.full(N_ROWS, "a"))
        with pytest.raises(ValueError, match="y has only one class, 1"):
            model.fit(X, np.arange(N_ROWS) % 2, np.arange(N_ROWS) % 2)

    def test_numbers_are_not_classes(self, regression, model):
        with pytest.raises(ValueError, match="Unknown label type: continuous"):
            model.fit(*regression)


@pytest.mark.parametrize("model", MODELS, ids=["ridge", "classifier", "svm", "logistic"], indirect=True)
class TestErrors:
    def test_targets_are_required(self, regression, model):
        X, y = regression
        with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
            model.fit(X)
        model.fit(X, y > 50)
        with pytest.raises(ValueError, match="A score compares predictions with y, but y is None; give y"):
            model.score(X)

    def test_model_is_not_fitted_after_a_fit_that_has_failed(self, regression, model):
        X, y = regression
        model.fit(X, y > 50).set_params(features=FourierFeatures(length_scale=[1.0] * 99))
        with pytest.raises(ValueError, match="`length_scale` has shape"):
            model.fit(X, y > 50)
        for method in (model.predict, lambda rows: model.score(rows, y > 50), model.gradients):
            with pytest.raises(NotFittedError):
                method(X)

    def test_some_row_needs_a_positive_weight(self, regression, model):
        X, y = regression
        # scikit-learn 1.9 refuses such weights itself.
        message = "Sample weights must contain at least one non-zero number|No row has a positive `sample_weight`"
        with pytest.raises(ValueError, match=message):
            model.fit(X, y > 50, np.zeros(N_ROWS))
        model.fit(X, y > 50)
        with pytest.raises(ValueError, match=message):
            model.score(X, y > 50, np.zeros(N_ROWS))

    def test_negative_weights_are_refused(self, regression, model):
        X, y = regression
        with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
            model.fit(X, y > 50, -np.ones(N_ROWS))

    def test_unfitted_models_are_refused(self, regression, model):
        X, y = regression
        for method in (model.predict, lambda rows: model.score(rows, y > 50)):
            with pytest.raises(NotFittedError):
                method(X)

    def test_magnitudes_that_lose_all_digits_are_refused(self, regression, model):
        X, y = regression
        model.fit(X, y > 50)
        far = X.copy()
        far[3, 1] = 1e20
        for method in (model.predict, lambda rows: model.score(rows, y > 50)):
            with pytest.raises(ValueError, match="Center or rescale the columns"):
                method(far)


@pytest.mark.parametrize(
    "kind",
    [
        FeatureRegressor,
        partial(FeatureClassifier, loss="squared_error"),
        FeatureClassifier,
        partial(FeatureClassifier, loss="log_loss"),
    ],
)
def test_prediction_of_one_row_needs_no_thread_and_no_limit_of_blas(kind, rng, monkeypatch):
    """Either would take longer than the prediction itself."""
    X = rng.normal(size=(60, 5))
    model = kind(FourierFeatures(n_frequencies=64, random_state=0), cv=2).fit(X, X[:, 0] > 0.0)
    expected = model.predict(X)

    def fail(*_):
        raise AssertionError

    monkeypatch.setattr(threads._Crew, "run", fail)
    monkeypatch.setattr(threads._Limit, "__enter__", fail)
    with threadpool_limits(2, user_api="blas"):
        np.testing.assert_allclose(model.predict(X[:1]), expected[:1])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(N_ROWS, "1.5"), r"Got values of dtype <U3; convert them to numbers, or use a classifier"),
        (["1.5"] * N_ROWS, r"Got values of dtype <U3"),
        (pd.Series(["1.5"] * N_ROWS, dtype=object), r"Got values of dtype object, such as '1.5'"),
        (np.full(N_ROWS, "2020-01-01", dtype="datetime64[D]"), r"Got values of dtype datetime64\[D\]"),
        (pd.Series(pd.Timedelta("1h"), range(N_ROWS)), r"Got values of dtype timedelta64"),
    ],
)
def test_targets_of_a_regression_are_numbers(regression, y, message):
    X = regression[0]
    with pytest.raises(ValueError, match=f"y must contain numbers for a regression. {message}"):
        FeatureRegressor(SMALL).fit(X, y)
    with pytest.raises(ValueError, match=f"y must contain numbers for a regression. {message}"):
        FeatureRegressor(SMALL).partial_fit(X, y)
    with pytest.raises(ValueError, match=f"y must contain numbers for a regression. {message}"):
        FeatureRegressor(SMALL).fit(*regression).score(X, y)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_classes_can_be_numeric_text_and_dates(regression, classifier):
    X, y = regression
    for classes in (["1.5", "2"], np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")):
        labels = np.asarray(classes)[(y > 50).astype(int)]
        assert clone(classifier).fit(X, labels).predict(X).dtype == labels.dtype


class TestEdgeOfAGrid:
    """The best penalty at an edge of the user's grid is mentioned where the error still falls."""

    @pytest.fixture
    @staticmethod
    def data(rng):
        X = rng.normal(size=(N_ROWS, 2))
        return X, np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=N_ROWS)

    @pytest.mark.parametrize(
        ("alphas", "message"),
        [
            ([1e2, 1e1, 1.0], r"best one of `alphas` is the smallest, 1, whose error is \d+% below .* add smaller"),
            (
                [1e-7, 1e-6, 1e-5],
                r"best one of `alphas` is the largest, 1e-05, whose error is \d+% below .* add larger",
            ),
        ],
    )
    def test_alphas(self, data, alphas, message):
        features = FourierFeatures(n_frequencies=64, length_scale=0.3, random_state=0)
        with pytest.warns(UserWarning, match=message):
            FeatureRegressor(features, alphas=alphas).fit(*data)
        streamed = FeatureRegressor(features, alphas=alphas).partial_fit(*data)
        with pytest.warns(UserWarning, match=message):
            streamed.predict(data[0])

    @pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
    def test_cs(self, data, loss):
        X = data[0]
        features = FourierFeatures(n_frequencies=64, random_state=0)
        with pytest.warns(UserWarning, match=r"best one of `Cs` is the largest, 0\.1, .* add larger values"):
            FeatureClassifier(features, loss=loss, Cs=[1e-3, 1e-2, 1e-1]).fit(X, X[:, 0] > 0.5)

    @pytest.mark.parametrize("alphas", [None, [1e2], [1e2, 1e3], [1e-4, 1e-2, 1.0], [1e8, 1e9, 1e10]])
    @pytest.mark.filterwarnings("error")
    def test_nothing_is_said_where_nothing_can_be_gained(self, data, alphas):
        FeatureRegressor(SMALL, alphas=alphas).fit(*data)
