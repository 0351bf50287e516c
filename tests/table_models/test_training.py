# SPDX-License-Identifier: BSD-3-Clause
"""Training on tables: in Python and by `fit_table`, interrupted, and on several files."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import PredefinedSplit
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    FourierFeatures,
    RobustStandardizer,
)
from bochner.feature_models.candidates import features_of_kernels
from bochner.feature_models.table_training import TableTraining
from bochner.table_models.model_files import load, save
from bochner.table_models.training import Settings, fit_table
from bochner.tables.file_table import FileTable
from tests.table_models.cases import SETTINGS, TARGETS, fit_case, fitted_arrays, ignore
from tests.tables.tables import N_ROWS, write_table


def assert_identical(first, second):
    for name, values in fitted_arrays(first).items():
        np.testing.assert_array_equal(fitted_arrays(second)[name], values, err_msg=name)


class TestFitOnPath:
    """`fit(path, target)` of the estimators."""

    ESTIMATORS = (
        FeatureRegressor(FourierFeatures(n_frequencies=8), random_state=0),
        FeatureClassifier(FourierFeatures(n_frequencies=8), random_state=0, loss="squared_error"),
        FeatureClassifier(FourierFeatures(n_frequencies=8), random_state=0, Cs=[0.1, 1.0]),
        FeatureRegressor(Nystroem(n_components=16, random_state=0), random_state=0),
        FeatureClassifier(FourierFeatures(n_frequencies=8), random_state=0, Cs=[0.1, 1.0], loss="log_loss"),
        FeatureClassifier(
            FourierFeatures(n_frequencies=8), random_state=0, class_weight="balanced", loss="squared_error"
        ),
        FeatureClassifier(FourierFeatures(n_frequencies=8), random_state=0, Cs=[1.0], class_weight={0: 2.0}),
    )
    NAMES = ("regression", "classification", "svm", "nystroem", "logistic", "weighted ridge", "weighted svm")

    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    @pytest.mark.parametrize("model", ESTIMATORS, ids=NAMES)
    def test_equals_fit_on_robustly_standardized_columns(self, tmp_path, rng, suffix, model):
        X, y = 10.0 + rng.normal(size=(300, 3)) * [1.0, 100.0, 0.01], (np.arange(300) % 3).astype(float)
        path = write_table(tmp_path / f"a{suffix}", {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
        standardized = RobustStandardizer().fit_transform(X)
        expected = clone(model).set_params(cv=PredefinedSplit(np.arange(300) % 5)).fit(standardized, y)
        model = clone(model).fit(path, "y")
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(model.predict(path), expected.predict(standardized), rtol=1e-6)
        on_rows = model.without_encoding()
        np.testing.assert_allclose(on_rows.predict(standardized), expected.predict(standardized), rtol=1e-6)

    @pytest.mark.parametrize("name", SETTINGS)
    def test_equals_fit_table(self, files, models, name):
        model, path = models[name], files[name]
        estimator = clone(model.estimator).fit(str(path), TARGETS[name])
        np.testing.assert_allclose(estimator.coef_, model.estimator.coef_, rtol=1e-12)
        np.testing.assert_allclose(estimator.intercept_, model.estimator.intercept_, rtol=1e-12)
        np.testing.assert_array_equal(estimator.predict(path), model.estimator.predict(path))

    def test_learns_length_scales(self, files):
        features = FourierFeatures(length_scale="learn", n_frequencies=16)
        model = FeatureRegressor(features, random_state=0).fit(files["regression"], "y")
        assert model.features_.length_scale_.shape == (6,)
        assert model.predict(files["regression"]).shape == (N_ROWS,)

    def test_continues_with_more_rows(self, files):
        model = FeatureRegressor(FourierFeatures(n_frequencies=8), random_state=0).fit(files["regression"], "y")
        before, on_rows = model.coef_, model.without_encoding()
        cells = pd.read_parquet(files["regression"])[:50]
        rows = next(rows for _, rows in model.encoding_.open(files["regression"]).batches())[:50]
        on_rows.partial_fit(rows, cells["y"] + 1.0)
        assert np.abs(on_rows.coef_ - before).max() > 0.0

    def test_target_must_be_a_suitable_column(self, files):
        with pytest.raises(ValueError, match="column 'kind' contains text, which cannot be the target of a regression"):
            FeatureRegressor().fit(files["classification"], "kind")
        with pytest.raises(ValueError, match="`y` must be the name of the column"):
            FeatureRegressor().fit(files["regression"], np.zeros(N_ROWS))
        with pytest.raises(ValueError, match="`sample_weight` needs arrays"):
            FeatureRegressor().fit(files["regression"], "y", sample_weight=np.ones(N_ROWS))

    def test_model_of_an_array_does_not_accept_paths(self, files, rng):
        model = FeatureRegressor(FourierFeatures(n_frequencies=4)).fit(rng.normal(size=(50, 2)), np.arange(50.0))
        with pytest.raises(ValueError, match="fitted on an array"):
            model.predict(files["regression"])


def test_folder_equals_one_file(folders, models):
    found, expected = fitted_arrays(fit_case("regression", folders["regression"])), fitted_arrays(models["regression"])
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-8 * np.abs(values).max(), err_msg=name)


class TestTask:
    """The choice between regression and classification."""

    def fit(self, path, values, task="auto", head="ridge", n_rows=40):
        columns = {"x": np.arange(float(n_rows)), "y": values}
        reports = []
        settings = Settings(head, task, ["gaussian"], 4, [1.0], 0)
        model = fit_table(FileTable(write_table(path, columns), "y"), settings, reports.append).model
        return model, reports

    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    @pytest.mark.parametrize(
        ("values", "task", "reason"),
        [
            ([0, 1] * 20, "classification", "2 distinct whole numbers"),
            ([0.0, 1.0] * 20, "classification", "2 distinct whole numbers"),
            ([True, False] * 20, "classification", "booleans"),
            (["1a", "2b"] * 20, "classification", "text with 2 distinct values"),
            (list(range(40)), "regression", "numbers with 40 distinct values"),
            ([0.5, 1.5] * 20, "regression", "numbers with 2 distinct values"),
        ],
    )
    def test_task_is_inferred_from_the_target(self, tmp_path, values, task, reason, suffix):
        model, reports = self.fit(tmp_path / f"a{suffix}", values)
        assert model.task == task
        assert reports == [f"Task: {task} (column 'y' contains {reason})."]

    def test_many_values_are_a_regression(self, tmp_path):
        _, reports = self.fit(tmp_path / "a.parquet", np.arange(1200), n_rows=1200)
        assert reports == ["Task: regression (column 'y' contains numbers with more than 1000 distinct values)."]

    def test_requested_task_is_used(self, tmp_path):
        model, reports = self.fit(tmp_path / "a.csv", [0, 1] * 20, task="regression")
        assert isinstance(model.estimator, FeatureRegressor)
        assert reports == ["Task: regression (as requested)."]

    def test_text_columns_are_reported(self, files):
        reports = []
        fit_table(FileTable(files["regression"], "y"), SETTINGS["regression"], reports.append)
        assert reports[1] == "Text columns, one-hot encoded: color (3 categories)."

    @pytest.mark.parametrize(
        ("values", "options", "message"),
        [
            ([1.0] * 40, {}, "column 'y' has the value 1.0 in all 40 rows, so there is nothing to predict"),
            (["a", "b"] * 20, {"task": "regression"}, "column 'y' contains text; use --task classification"),
            (np.arange(40) / 7, {"head": "logistic"}, "A logistic model cannot do regression; use --head ridge"),
            (np.arange(40) / 7, {"head": "svm"}, "support vector machine cannot do regression; use --head ridge"),
            (np.arange(40) / 7, {"task": "classification"}, "column 'y' contains fractional numbers, which cannot be"),
            ([f"row {i}" for i in range(1200)], {"n_rows": 1200}, "has more than 1000 distinct values, too many for c"),
            ([1.0, 2.0, 3.0, 4.5], {"n_rows": 4}, "a.csv has 4 rows, too few for 5 folds"),
        ],
    )
    def test_unsuitable_target_is_refused(self, tmp_path, values, options, message):
        with pytest.raises(ValueError, match=message):
            self.fit(tmp_path / "a.csv", values, **options)


def test_empty_table_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n")
    table = FileTable(tmp_path / "a.csv", "y")
    with pytest.raises(ValueError, match=r"a\.csv has no rows; its columns are 'x', 'y'"):
        TableTraining.begin(table, 0).run(table, lambda survey: FeatureRegressor())


@pytest.mark.parametrize(
    ("standardize", "scaler"),
    [("robust", RobustStandardizer()), ("plain", StandardScaler()), ("none", FunctionTransformer())],
)
def test_settings_determine_the_standardization(tmp_path, rng, standardize, scaler):
    X, y = 5.0 + rng.standard_t(2.0, size=(300, 2)), rng.normal(size=300)
    path = write_table(tmp_path / "a.parquet", {"a": X[:, 0], "b": X[:, 1], "y": y})
    settings = replace(SETTINGS["regression"], standardize=standardize)
    model = fit_table(FileTable(path, "y"), settings, ignore).model
    save(model, tmp_path / "model.skops")
    loaded = load(tmp_path / "model.skops")
    rows = np.vstack([rows for _, rows in loaded.open(path, with_target=False).batches()])
    np.testing.assert_allclose(rows, scaler.fit_transform(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(loaded.estimator.predict(path), model.estimator.predict(path))


def test_settings_determine_the_estimator(files):
    settings = Settings("ridge", "regression", ["laplacian"], 12, [0.5, 4.0], 3)
    model = fit_table(FileTable(files["regression"], "y"), settings, ignore).model
    estimator = model.estimator
    assert estimator.get_params()["features__kernel"] == "laplacian"
    assert estimator.features_.weights_.shape == (12,)
    assert estimator.length_scale_scores_.shape == (2,)
    assert estimator.kernels is None
    assert estimator.random_state == 3


@pytest.mark.parametrize("kernels", [["gaussian", "matern"], ["gaussian", "laplacian"], ["cauchy"]])
def test_each_kernel_has_a_sampler_that_suits_it(kernels):
    estimator = Settings("ridge", "regression", kernels, 12, [1.0], 3).new_estimator("regression")
    assert estimator.kernels == (kernels if len(kernels) > 1 else None)
    assert estimator.features.kernel == kernels[0]
    assert estimator.features.sampler == "auto"
    features_of_kernels(estimator.features, estimator.kernels)


@pytest.mark.parametrize("features", ["fourier", "landmarks"])
@pytest.mark.parametrize(("learn", "length_scale"), [(None, "median"), ("learn", "learn"), ("learn-matrix",) * 2])
def test_settings_say_what_is_learned(features, learn, length_scale):
    settings = replace(SETTINGS["regression"], features=features, learn=learn)
    assert settings.new_estimator("regression").features.length_scale == length_scale
