# SPDX-License-Identifier: BSD-3-Clause
"""`TableRegressor` and `TableClassifier` as scikit-learn estimators, on data frames and on files."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import StackingClassifier, StackingRegressor
from sklearn.impute import SimpleImputer
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import bochner.tables.table_models
from bochner import FeatureRegressor, FourierFeatures, TableClassifier, TableEncoder, TableRegressor
from tests.tables.models import make_frame, make_targets, quick_classifier, quick_regressor

FRAME = make_frame()
Y, LABELS = make_targets(FRAME)
NEW = make_frame(200, seed=5)
NEW_Y, NEW_LABELS = make_targets(NEW)
MODELS = {"regression": (quick_regressor(), Y, NEW_Y), "classification": (quick_classifier(), LABELS, NEW_LABELS)}
parametrize_models = pytest.mark.parametrize(("model", "y", "new_y"), MODELS.values(), ids=MODELS)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "quartiles and landmarks are those of unweighted rows",
}


@pytest.mark.filterwarnings("ignore:A target is constant:UserWarning")
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@pytest.mark.filterwarnings("ignore:Column .* has (categories|no value):UserWarning")
@parametrize_with_checks(
    [TableRegressor(Ridge()), TableClassifier(LogisticRegression()), quick_regressor(), quick_classifier()],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_estimator_checks(estimator, check):
    check(estimator)


class TestToolsOfScikitLearn:
    @parametrize_models
    def test_copies(self, model, y, new_y):
        fitted = clone(model).fit(FRAME, y)
        expected = fitted.predict(NEW)
        np.testing.assert_array_equal(clone(model).fit(FRAME, y).predict(NEW), expected)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(NEW), expected)
        assert is_regressor(model) != is_classifier(model)

    @parametrize_models
    def test_cross_validation_and_learning_curves(self, model, y, new_y):
        assert cross_val_score(model, FRAME, y, cv=3).mean() > 0.75
        sizes, _, scores = learning_curve(model, FRAME, y, cv=2, train_sizes=[0.3, 1.0])
        assert len(sizes) == len(scores) == 2
        assert cross_val_predict(model, FRAME, y, cv=2).shape == (300,)

    @parametrize_models
    def test_grid_search(self, model, y, new_y):
        grid = {"estimator__features__n_landmarks": [4, 16], "encoder": [None, TableEncoder(drop=["job"])]}
        search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(FRAME, y)
        assert len(search.cv_results_["params"]) == 4
        assert search.score(NEW, new_y) > 0.7

    @parametrize_models
    def test_inspection(self, model, y, new_y):
        fitted = clone(model).fit(FRAME, y)
        found = permutation_importance(fitted, NEW, new_y, n_repeats=3, random_state=0).importances_mean
        assert set(np.argsort(found)[-2:]) <= {0, 1, 4}  # size, color, job
        complete = NEW.fillna({"size": 1.0, "color": ""})  # scikit-learn makes no grid of missing cells
        for name in ("size", "color"):
            average = partial_dependence(fitted, complete, [name], categorical_features=["color"])["average"]
            assert np.ptp(average) > 0.05

    def test_stacking_and_calibration(self):
        stack = StackingRegressor([("table", quick_regressor())], Ridge(), cv=2).fit(FRAME, Y)
        assert stack.score(NEW, NEW_Y) > 0.8
        stack = StackingClassifier([("table", quick_classifier())], LogisticRegression(), cv=2).fit(FRAME, LABELS)
        assert stack.score(NEW, NEW_LABELS) > 0.8
        calibrated = CalibratedClassifierCV(TableClassifier(LinearSVC()), cv=2).fit(FRAME, LABELS)
        assert calibrated.predict_proba(NEW).shape == (200, 2)

    @parametrize_models
    def test_pipelines(self, model, y, new_y):
        select = FunctionTransformer(lambda frame: frame.drop(columns="ok"), feature_names_out=None)
        assert make_pipeline(select, model).fit(FRAME, y).score(NEW, new_y) > 0.75


class TestTables:
    @parametrize_models
    @pytest.mark.parametrize(
        "convert",
        [pl.from_pandas, lambda frame: pl.from_pandas(frame).lazy(), pa.Table.from_pandas],
        ids=["polars", "lazy polars", "Arrow"],
    )
    def test_frames_of_all_libraries_are_alike(self, model, y, new_y, convert):
        expected = clone(model).fit(FRAME, y).predict(NEW)
        fitted = clone(model).fit(convert(FRAME), y)
        np.testing.assert_array_equal(fitted.predict(convert(NEW)), expected)
        named = clone(model).fit(convert(FRAME.assign(target=y)), "target")
        np.testing.assert_array_equal(named.predict(convert(NEW)), expected)
        assert named.score(convert(NEW.assign(target=new_y)), "target") == fitted.score(convert(NEW), new_y)

    @parametrize_models
    @pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "folder"])
    def test_files_give_the_same_result(self, model, y, new_y, kind, tmp_path):
        table, new = FRAME.assign(target=y), NEW.assign(target=new_y)
        paths = [tmp_path / f"train.{kind}", tmp_path / f"new.{kind}"]
        for path, frame in zip(paths, (table, new), strict=True):
            if kind == "folder":
                path.mkdir()
                frame[:100].to_parquet(path / "part-1.parquet", index=False)
                frame[100:].to_parquet(path / "part-2.parquet", index=False)
            else:
                frame.to_parquet(path, index=False) if kind == "parquet" else frame.to_csv(path, index=False)
        fitted = clone(model).fit(paths[0], "target")
        expected = clone(model).fit(FRAME, y)
        if model is MODELS["regression"][0]:
            np.testing.assert_allclose(fitted.predict(paths[1]), expected.predict(NEW), rtol=1e-10)
        assert fitted.score(paths[1], "target") == pytest.approx(expected.score(NEW, new_y), abs=1e-12)
        assert fitted.target_name_ == "target"
        assert fitted.feature_names_in_.tolist() == list(FRAME.columns)

    @parametrize_models
    def test_streamed_rows_give_nearly_the_same_result(self, model, y, new_y, monkeypatch, tmp_path):
        table = FRAME.assign(target=y)
        table.to_csv(tmp_path / "a.csv", index=False)
        expected = clone(model).fit(tmp_path / "a.csv", "target")
        monkeypatch.setattr(bochner.tables.table_models, "MEMORY_ROWS", 100)
        monkeypatch.setattr("bochner.tables.reader.CSV_BLOCK_BYTES", 4096)
        streamed = clone(model).fit(tmp_path / "a.csv", "target")
        assert streamed.n_rows_ == 300
        assert streamed.score(NEW, new_y) == pytest.approx(expected.score(NEW, new_y), abs=0.02)
        table.to_parquet(tmp_path / "a.parquet", index=False, row_group_size=70)
        for data in (tmp_path / "a.parquet", table):
            other = clone(model).fit(data, "target")
            if is_regressor(model):
                np.testing.assert_allclose(other.predict(NEW), streamed.predict(NEW), rtol=1e-8)
            else:
                np.testing.assert_allclose(other.predict_proba(NEW), streamed.predict_proba(NEW), atol=1e-6)

    def test_rows_without_a_target_are_left_out(self):
        table = FRAME.assign(target=np.where(np.arange(300) % 5 == 0, np.nan, Y))
        with pytest.warns(UserWarning, match="60 rows have no 'target' and are left out"):
            model = quick_regressor().fit(table, "target")
        assert model.n_rows_ == 240
        weights = np.arange(300) + 1.0
        with pytest.warns(UserWarning, match="are left out"):
            weighted = quick_regressor().fit(table, "target", sample_weight=weights)
        kept = np.arange(300) % 5 != 0
        expected = quick_regressor().fit(FRAME[kept], Y[kept], sample_weight=weights[kept])
        np.testing.assert_array_equal(weighted.predict(NEW), expected.predict(NEW))

    def test_arrays_are_encoded_by_position(self, rng):
        X = np.column_stack([rng.normal(size=(100, 2)).astype(object), np.array(["a", "b"] * 50, dtype=object)])
        y = X[:, 0].astype(float) + (X[:, 2] == "a")
        model = quick_regressor().fit(X, y)
        assert model.score(X, y) > 0.95
        assert model.encoder_.get_feature_names_out().tolist() == ["x0", "x1", "x2=a", "x2=b"]

    def test_target_in_new_rows_is_ignored(self):
        model = quick_regressor().fit(FRAME.assign(target=Y), "target")
        np.testing.assert_array_equal(model.predict(NEW.assign(target=0.0)), model.predict(NEW))

    def test_whole_numbers_of_a_csv_file_are_classes(self, tmp_path):
        FRAME.assign(target=(LABELS == "high").astype(int)).to_csv(tmp_path / "a.csv", index=False)
        model = quick_classifier().fit(tmp_path / "a.csv", "target")
        assert model.classes_.tolist() == [0, 1]
        assert model.classes_.dtype.kind == "i"


class TestEstimatorsAndEncoders:
    def test_default_estimators(self):
        model = TableRegressor(effort="fast", random_state=0).fit(FRAME, Y)
        assert model.score(NEW, NEW_Y) > 0.85
        model = TableClassifier(effort="fast", random_state=0).fit(FRAME, LABELS)
        assert model.score(NEW, NEW_LABELS) > 0.85
        np.testing.assert_allclose(model.predict_proba(NEW).sum(axis=1), 1.0)

    @pytest.mark.parametrize(
        "estimator",
        [
            Ridge(),
            DecisionTreeRegressor(random_state=0),
            FeatureRegressor(FourierFeatures(n_frequencies=16), random_state=0),
        ],
    )
    def test_any_regressor_can_be_given(self, estimator):
        model = TableRegressor(estimator).fit(FRAME, Y)
        rows = model.encoder_.transform(NEW)
        np.testing.assert_allclose(model.predict(NEW), model.estimator_.predict(rows))
        assert hasattr(model, "predict_interval") == isinstance(estimator, FeatureRegressor)

    def test_any_classifier_can_be_given(self):
        model = TableClassifier(RidgeClassifier()).fit(FRAME, LABELS)
        assert not hasattr(model, "predict_proba")
        assert model.decision_function(NEW).shape == (200,)

    def test_any_encoder_can_be_given(self):
        numbers = make_pipeline(SimpleImputer())
        encoder = make_column_transformer(
            (numbers, make_column_selector(dtype_include=float)),
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["color", "ok"]),
        )
        model = TableRegressor(Ridge(), encoder=encoder)
        fitted = clone(model).fit(FRAME, Y)
        expected = make_pipeline(encoder, Ridge()).fit(FRAME, Y).predict(NEW)
        np.testing.assert_allclose(fitted.predict(NEW), expected)
        named = clone(model).fit(FRAME.assign(target=Y), "target")
        np.testing.assert_allclose(named.predict(NEW), expected)
        with pytest.raises(ValueError, match=r"A target given by its name \('target'\) needs a data frame"):
            clone(model).fit("a.csv", "target")

    @pytest.mark.parametrize("estimator", [Ridge(), FeatureRegressor(random_state=0)])
    def test_encoders_may_return_sparse_rows(self, estimator):
        encoder = make_column_transformer((OneHotEncoder(), ["color", "ok"]), sparse_threshold=1.0)
        model = TableRegressor(estimator, encoder=encoder).fit(FRAME, Y)
        dense = clone(encoder).set_params(onehotencoder__sparse_output=False, sparse_threshold=0.0)
        expected = TableRegressor(estimator, encoder=dense).fit(FRAME, Y)
        np.testing.assert_allclose(model.predict(NEW), expected.predict(NEW), atol=1e-8)
        with pytest.raises(TypeError, match="KernelRegressor needs dense rows, and X is sparse; use FeatureRegressor"):
            TableRegressor(encoder=encoder).fit(FRAME, np.exp(3 * Y))

    @pytest.mark.parametrize("estimator", [None, FeatureRegressor(random_state=0)])
    def test_encoders_may_return_data_frames(self, estimator):
        encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["color", "ok"]))
        model = TableRegressor(estimator, encoder=encoder, effort="fast", random_state=0)
        frames = clone(model).set_params(encoder=clone(encoder).set_output(transform="pandas"))
        y = np.exp(3 * Y[:60])
        found, expected = (other.fit(FRAME[:60], y).predict_interval(NEW) for other in (frames, model))
        np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize("convert", [lambda frame: frame, pl.from_pandas])
    def test_named_targets_of_any_encoder(self, convert):
        encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["color", "ok"]))
        model, weights = TableRegressor(Ridge(), encoder=encoder), np.arange(300) + 1.0
        kept = np.arange(300) % 5 != 0
        table, new = convert(FRAME.assign(target=np.where(kept, Y, np.nan))), convert(NEW)
        with pytest.warns(UserWarning, match="60 rows have no 'target' and are left out"):
            found = clone(model).fit(table, "target", weights).predict(new)
        expected = clone(model).fit(FRAME[kept], Y[kept], weights[kept]).predict(NEW)
        np.testing.assert_allclose(found, expected)
        with pytest.raises(ValueError, match="the table has no column 'rnt'; its columns are 'size', 'color', 'day'"):
            clone(model).fit(table, "rnt")
        with pytest.raises(
            ValueError, match=r"A ColumnTransformer reads no files; give the rows of a\.csv as a data frame"
        ):
            model.fit(FRAME, Y).predict("a.csv")

    def test_estimators_of_the_other_task_are_refused(self):
        with pytest.raises(ValueError, match=r"of TableClassifier must be a classifier. Got the regressor Ridge\(\)"):
            TableClassifier(Ridge()).fit(FRAME, LABELS)
        with pytest.raises(ValueError, match=r"of TableRegressor must be a regressor. Got the classifier LinearSVC"):
            TableRegressor(LinearSVC()).fit(FRAME, Y)

    def test_class_weights_are_sample_weights(self):
        weights = np.where(LABELS == "high", 5.0, 1.0)
        expected = quick_classifier().fit(FRAME, LABELS, sample_weight=weights).predict_proba(NEW)
        found = quick_classifier(class_weight={"high": 5.0, "low": 1.0}).fit(FRAME, LABELS).predict_proba(NEW)
        np.testing.assert_allclose(found, expected)
        balanced = quick_classifier(class_weight="balanced").fit(FRAME, LABELS).predict_proba(NEW)
        assert not np.allclose(balanced, quick_classifier().fit(FRAME, LABELS).predict_proba(NEW))


class TestLogarithms:
    def test_skewed_targets_are_fitted_on_a_log_scale(self):
        model = TableRegressor(effort="fast", random_state=0).fit(FRAME, np.exp(3 * Y))
        assert model.log_factor_ is not None
        bounds = model.predict_interval(NEW)
        assert (bounds > 0.0).all()
        inside = (bounds[:, 0] <= np.exp(3 * NEW_Y)) & (np.exp(3 * NEW_Y) <= bounds[:, 1])
        assert inside.mean() == pytest.approx(0.9, abs=0.1)
        plain = clone(quick_regressor()).fit(FRAME, np.exp(3 * Y))
        assert model.score(NEW, np.exp(3 * NEW_Y)) > plain.score(NEW, np.exp(3 * NEW_Y))

    @pytest.mark.parametrize("noise", [0.02, 0.3])
    def test_predictions_are_means_and_lie_in_their_intervals(self, noise):
        """The factor is that of the model itself: it vanishes with the noise, and then predictions are nearly exact."""

        def simulate(seed):
            rng = np.random.default_rng(seed)
            X = rng.uniform(-1.0, 1.0, (600, 6))
            logs = 1.5 * np.sin(4 * X[:, 0]) + 2.4 * X[:, 1] * X[:, 2] + np.cos(5 * X[:, 3]) + X[:, 4]
            return pl.DataFrame(X, schema=list("abcdef")), np.exp(logs + noise * rng.normal(size=600))

        (table, y), (new, new_y) = simulate(1), simulate(2)
        model = TableRegressor(effort="fast", random_state=0).fit(table, y)
        predicted, (low, high) = model.predict(new), model.predict_interval(new, 0.8).T
        assert model.log_factor_ == pytest.approx(np.exp(0.5 * noise**2), abs=0.12)
        assert np.mean((low <= predicted) & (predicted <= high)) > 0.95
        assert predicted.mean() == pytest.approx(new_y.mean(), rel=0.1)
        best = predicted * (new_y @ predicted) / (predicted @ predicted)  # with the factor that is best afterwards
        assert np.square(predicted - new_y).mean() < 1.2 * np.square(best - new_y).mean()

    @pytest.mark.parametrize("y", [Y, np.abs(Y) + 1.0, np.full(300, 2.0)], ids=["negative", "symmetric", "constant"])
    @pytest.mark.filterwarnings("ignore:A target is constant:UserWarning")
    def test_other_targets_are_not(self, y):
        assert TableRegressor(effort="fast", random_state=0).fit(FRAME, y).log_factor_ is None


class TestErrors:
    @pytest.mark.parametrize("option", [{"standardize": "robost"}, {"missing": "k.A."}, {"drop": "age"}])
    def test_parameters_of_the_encoder_are_checked(self, option):
        with pytest.raises(ValueError, match=f"The '{next(iter(option))}' parameter of TableEncoder must be"):
            quick_regressor(encoder=TableEncoder(**option)).fit(FRAME, Y)

    def test_targets_are_needed(self):
        with pytest.raises(ValueError, match=r"`y` must be the name of a column of a\.csv. Got ndarray instead"):
            quick_regressor().fit("a.csv", Y)
        with pytest.raises(ValueError, match="the table has no column 'z'"):
            quick_regressor().fit(FRAME, "z")
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            quick_regressor().fit(FRAME, Y[:5])

    def test_text_is_no_target_of_a_regression(self):
        with pytest.raises(ValueError, match="column 'job' contains text; use `TableClassifier` for classes"):
            quick_regressor().fit(FRAME, "job")

    def test_sample_weights_of_files_are_refused(self, tmp_path):
        FRAME.assign(y=Y).to_csv(tmp_path / "a.csv", index=False)
        with pytest.raises(ValueError, match="`sample_weight` needs rows in memory"):
            quick_regressor().fit(tmp_path / "a.csv", "y", sample_weight=np.ones(300))

    @pytest.mark.parametrize("X", [FRAME.assign(y=Y), pl.from_pandas(FRAME.assign(y=Y)).lazy()], ids=["pandas", "lazy"])
    def test_sample_weights_are_checked_before_the_table_is_read(self, X, monkeypatch):
        monkeypatch.setattr(TableEncoder, "survey", None)
        with pytest.raises(ValueError, match=r"sample_weight.shape == \(299,\), expected \(300,\)"):
            quick_regressor().fit(X, "y", sample_weight=np.ones(299))
        with pytest.raises(ValueError, match=r"`sample_weight` must be one number per row\. Got the text 'w' instead"):
            quick_regressor().fit(X, "y", sample_weight="w")

    @pytest.mark.parametrize("dtype", [object, "string", "category"])
    def test_missing_targets_are_counted(self, dtype):
        y = pd.Series(np.where(Y > 0, "a", None), dtype=dtype)
        with pytest.raises(ValueError, match=f"`y` has missing values in {(Y <= 0).sum()} rows; leave these rows out"):
            quick_classifier().fit(FRAME, y)

    def test_constant_columns_are_named(self):
        with pytest.warns(UserWarning, match=r"Columns are left out: one \(constant\); give") as caught:
            quick_regressor().fit(FRAME.assign(one=1), Y)
        assert len(caught) == 1

    def test_estimators_without_sample_weights(self):
        from sklearn.neighbors import KNeighborsRegressor

        with pytest.raises(ValueError, match="KNeighborsRegressor does not accept `sample_weight`; omit it"):
            TableRegressor(KNeighborsRegressor()).fit(FRAME, Y, sample_weight=np.ones(300))

    def test_parameters_of_intervals(self):
        for model in (TableRegressor(effort="fast", random_state=0), quick_regressor()):
            assert model.fit(FRAME, Y).predict_interval(FRAME[:0]).shape == (0, 2)
        for coverage in (90, "0.9"):
            with pytest.raises(ValueError, match=rf"`coverage` must be a share .*, such as 0\.9. Got {coverage!r}"):
                model.predict_interval(FRAME, coverage)

    def test_score_of_another_column(self):
        model = quick_regressor().fit(FRAME.assign(y=Y), "y")
        assert model.score(NEW.assign(other=NEW_Y), "other") == r2_score(NEW_Y, model.predict(NEW))
