# SPDX-License-Identifier: BSD-3-Clause
"""Predictions and errors of a model on other tables."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from bochner.table_models.predictions import PredictionColumns, evaluate, write_predictions
from bochner.table_models.training import Settings, fit_table
from bochner.tables.file_table import FileTable
from tests.table_models.cases import TARGETS, ignore
from tests.tables.tables import N_ROWS


@pytest.fixture(scope="module")
def new_rows(files):
    """The first rows of each table as data frames, for tests that change them."""
    return {name: pd.read_parquet(path)[:300] for name, path in files.items()}


def write(path, frame):
    """Write a data frame to a file of the type that the suffix names."""
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


def read(path):
    return pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)


def fit_frame(path, frame, target="y"):
    settings = Settings("ridge", "auto", ["gaussian"], 8, [1.0], 0)
    return fit_table(FileTable(write(path, frame), target), settings, ignore).model


class TestWritePredictions:
    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    @pytest.mark.parametrize("name", TARGETS)
    def test_predictions_are_those_of_the_estimator(self, files, models, tmp_path, name, suffix):
        output = tmp_path / f"out{suffix}"
        assert write_predictions(models[name], files[name], output) == N_ROWS
        predictions = read(output)
        assert list(predictions.columns) == [TARGETS[name]]
        expected = models[name].estimator.predict(files[name])
        if TARGETS[name] == "y":
            np.testing.assert_allclose(predictions["y"], expected, rtol=1e-12)
        else:
            assert predictions["kind"].tolist() == expected.tolist()

    def test_standard_deviations_cover_the_targets(self, files, models, tmp_path):
        write_predictions(
            models["regression"], files["regression"], tmp_path / "out.parquet", PredictionColumns(std=True)
        )
        predictions = pd.read_parquet(tmp_path / "out.parquet")
        assert list(predictions.columns) == ["y", "y_std"]
        errors = pd.read_parquet(files["regression"])["y"] - predictions["y"]
        assert 0.9 < np.mean(np.abs(errors) < 1.96 * predictions["y_std"]) < 0.99

    def test_standard_deviations_need_a_regression(self, files, models, tmp_path):
        for name in ("classification", "svm"):
            message = "Only the predictions of a regression have standard deviations; omit --std"
            with pytest.raises(ValueError, match=message):
                write_predictions(models[name], files[name], tmp_path / "out.csv", PredictionColumns(std=True))

    def test_probabilities_are_those_of_the_estimator(self, files, models, tmp_path):
        model, path = models["logistic"], files["logistic"]
        write_predictions(model, path, tmp_path / "out.parquet", PredictionColumns(proba=True))
        predictions = pd.read_parquet(tmp_path / "out.parquet")
        columns = [f"kind_probability_{label}" for label in model.estimator.classes_]
        assert list(predictions.columns) == ["kind", *columns]
        np.testing.assert_array_equal(predictions[columns], model.estimator.predict_proba(path))
        with pytest.raises(ValueError, match="This model has no probabilities"):
            write_predictions(models["svm"], files["svm"], tmp_path / "out.csv", PredictionColumns(proba=True))

    def test_intervals_and_kept_columns(self, files, models, tmp_path):
        columns = PredictionColumns(std=True, interval=0.8, keep=["color", "y", "a"])
        write_predictions(models["regression"], files["regression"], tmp_path / "out.parquet", columns)
        predictions, table = pd.read_parquet(tmp_path / "out.parquet"), pd.read_parquet(files["regression"])
        assert list(predictions.columns) == ["color", "y_observed", "a", "y", "y_std", "y_low", "y_high"]
        pd.testing.assert_frame_equal(predictions[["color", "a"]], table[["color", "a"]], check_dtype=False)
        inside = predictions["y_observed"].between(predictions["y_low"], predictions["y_high"])
        assert inside.mean() == pytest.approx(0.8, abs=0.03)

    def test_intervals_need_a_regression_and_a_share(self, files, models, tmp_path):
        columns = PredictionColumns(interval=0.9)
        with pytest.raises(ValueError, match="Only the predictions of a regression have intervals"):
            write_predictions(models["svm"], files["svm"], tmp_path / "out.csv", columns)
        columns = PredictionColumns(interval=90.0)
        with pytest.raises(ValueError, match="cannot contain a share of 90; give one between 0 and 1"):
            write_predictions(models["regression"], files["regression"], tmp_path / "out.csv", columns)

    def test_unknown_kept_column_is_refused(self, files, models, tmp_path):
        columns = PredictionColumns(keep=["number"])
        with pytest.raises(ValueError, match="no column 'number'"):
            write_predictions(models["regression"], files["regression"], tmp_path / "out.csv", columns)

    def test_output_must_be_a_table(self, files, models, tmp_path):
        with pytest.raises(ValueError, match=r"--output .*out.txt must end in .csv or .parquet, or be -"):
            write_predictions(models["regression"], files["regression"], tmp_path / "out.txt")

    def test_classes_keep_their_type(self, tmp_path):
        frame = pd.DataFrame({"x": np.arange(40.0), "y": [3, 7] * 20})
        model = fit_frame(tmp_path / "a.csv", frame)
        write_predictions(model, tmp_path / "a.csv", tmp_path / "out.parquet")
        assert pd.read_parquet(tmp_path / "out.parquet")["y"].dtype == np.int64

    def test_file_appears_only_when_it_is_complete(self, models, new_rows, tmp_path):
        frame = new_rows["regression"].astype({"b": object})
        frame.loc[250, "b"] = "many"
        path = write(tmp_path / "new.csv", frame)
        (tmp_path / "out.csv").write_text("earlier predictions")
        with pytest.raises(ValueError, match="row 251, column 'b': invalid value 'many', expected a number"):
            write_predictions(models["regression"], path, tmp_path / "out.csv")
        assert (tmp_path / "out.csv").read_text() == "earlier predictions"
        assert len(list(tmp_path.glob("out*"))) == 1

    def test_table_without_rows_is_refused(self, models, new_rows, tmp_path):
        path = write(tmp_path / "new.parquet", new_rows["regression"][:0])
        with pytest.raises(ValueError, match=r"new\.parquet has no rows to predict"):
            write_predictions(models["regression"], path, tmp_path / "out.csv")
        assert not list(tmp_path.glob("out*"))


class TestEvaluate:
    def test_regression(self, files, models):
        evaluation = evaluate(models["regression"], files["regression"])
        y = pd.read_parquet(files["regression"])["y"].to_numpy()
        errors = y - models["regression"].estimator.predict(files["regression"])
        assert evaluation.n_rows == N_ROWS
        assert evaluation.measures["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
        assert evaluation.measures["r2"] == pytest.approx(1 - np.mean(errors**2) / np.var(y))
        kernel_error = evaluation.kernel_error
        assert kernel_error.low <= kernel_error.error <= kernel_error.high

    @pytest.mark.parametrize("name", ["classification", "svm"])
    def test_classification(self, files, models, name):
        y = pd.read_parquet(files[name])["kind"].to_numpy()
        error = np.mean(models[name].estimator.predict(files[name]) != y)
        assert evaluate(models[name], files[name]).measures == {"error_rate": pytest.approx(error)}
        assert error < 0.5

    def test_r2_of_a_target_far_from_zero(self, tmp_path):
        x = np.linspace(-1.0, 1.0, 200)
        frame = pd.DataFrame({"x": x, "y": 1e9 + np.sin(3.0 * x)})
        assert evaluate(fit_frame(tmp_path / "a.parquet", frame), tmp_path / "a.parquet").measures["r2"] > 0.99

    def test_table_without_the_target_has_a_kernel_error(self, models, new_rows, tmp_path):
        path = write(tmp_path / "new.csv", new_rows["regression"].drop(columns="y"))
        evaluation = evaluate(models["regression"], path)
        assert evaluation.measures == {}
        assert evaluation.kernel_error.error > 0.0

    def test_r2_of_one_row_is_undefined(self, models, new_rows, tmp_path):
        path = write(tmp_path / "new.csv", new_rows["regression"][:1])
        assert np.isnan(evaluate(models["regression"], path).measures["r2"])

    def test_table_without_rows_is_refused(self, models, new_rows, tmp_path):
        path = write(tmp_path / "new.parquet", new_rows["regression"][:0])
        with pytest.raises(ValueError, match=r"new\.parquet has no rows to evaluate the model on"):
            evaluate(models["regression"], path)


class TestColumns:
    """Tables whose columns differ from those of the training table."""

    def test_other_columns_and_unknown_categories_are_allowed(self, models, new_rows, tmp_path):
        frame = new_rows["regression"].assign(when=pd.to_datetime("2020-01-01"), color="mauve")
        assert evaluate(models["regression"], write(tmp_path / "new.parquet", frame)).n_rows == 300

    def test_order_of_the_columns_does_not_matter(self, models, new_rows, tmp_path):
        frame = new_rows["regression"]
        predictions = models["regression"].estimator.predict(write(tmp_path / "a.parquet", frame))
        other = write(tmp_path / "b.csv", frame[frame.columns[::-1]])
        np.testing.assert_allclose(models["regression"].estimator.predict(other), predictions, rtol=1e-9)

    def test_missing_column_is_reported(self, models, new_rows, tmp_path):
        path = write(tmp_path / "new.csv", new_rows["regression"].drop(columns="b"))
        with pytest.raises(ValueError, match=r"new\.csv has no column 'b'; its columns are 'a', 'count', 'color', 'y'"):
            evaluate(models["regression"], path)

    def test_text_instead_of_numbers_is_reported(self, models, new_rows, tmp_path):
        frame = new_rows["regression"].assign(b="x")
        with pytest.raises(ValueError, match="row 1, column 'b': invalid value 'x', expected a number"):
            evaluate(models["regression"], write(tmp_path / "new.csv", frame))
        with pytest.raises(ValueError, match="row 1, column 'b': invalid value 'x', expected a number"):
            evaluate(models["regression"], write(tmp_path / "new.parquet", frame))

    def test_target_of_another_kind_is_reported(self, models, new_rows, tmp_path):
        text = write(tmp_path / "text.csv", new_rows["regression"].assign(y="high"))
        with pytest.raises(ValueError, match="column 'y' contains text, but the model was fitted on numbers; convert"):
            evaluate(models["regression"], text)
        numbers = write(tmp_path / "numbers.csv", new_rows["classification"].assign(kind=1.0))
        with pytest.raises(ValueError, match="column 'kind' contains numbers, but the model was fitted on text; conv"):
            evaluate(models["classification"], numbers)
        write_predictions(models["regression"], text, tmp_path / "out.csv")  # does not read the target

    def test_categories_may_look_like_numbers(self, tmp_path):
        frame = pd.DataFrame({"code": ["1", "x"] * 20, "y": np.arange(40.0)})
        model = fit_frame(tmp_path / "a.csv", frame)
        ones = write(tmp_path / "ones.csv", frame[frame.code == "1"])
        expected = model.estimator.predict(tmp_path / "a.csv")[::2]
        np.testing.assert_allclose(model.estimator.predict(ones), expected, rtol=1e-12)

    def test_decimals_are_numbers(self, tmp_path):
        columns = {"x": [Decimal(i) for i in range(40)], "y": [Decimal(i) / 2 for i in range(40)]}
        parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
        settings = Settings("ridge", "auto", ["gaussian"], 8, [1.0], 0)
        model = fit_table(FileTable(tmp_path / "a.parquet", "y"), settings, ignore).model
        assert evaluate(model, tmp_path / "a.parquet").measures["r2"] > 0.99
