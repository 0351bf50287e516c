# SPDX-License-Identifier: BSD-3-Clause
"""`TableEncoder`; `tests.test_contract` has scikit-learn's checks."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

from bochner import FeatureRegressor, RobustStandardizer, TableEncoder


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "size": rng.lognormal(size=300),
            "color": rng.choice(["red", "green", None], size=300),
            "day": pd.to_datetime("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, size=300), unit="D"),
            "ok": rng.choice(["yes", "no"], size=300),
            "id": [f"row {i}" for i in range(300)],
        },
        index=np.arange(300) + 1000,
    )
    table.loc[table.index[::6], "size"] = np.nan
    return table


@pytest.fixture(scope="module")
def target(frame):
    rng = np.random.default_rng(1)
    return np.log(frame["size"].fillna(3.0)) + (frame["color"] == "red") + 0.1 * rng.normal(size=300)


NAMES = ["size", "day: days", "ok", "size: missing", "color=green", "color=red", "color: missing"]
NAMES += [f"day: {cycle} {part}" for cycle in ("year", "week") for part in ("sine", "cosine")]
NAMES += [f"id: text {i}" for i in range(30)]


def test_columns_are_encoded(frame):
    encoder = TableEncoder().fit(frame)
    assert encoder.get_feature_names_out().tolist() == NAMES
    assert encoder.feature_names_in_.tolist() == list(frame.columns)
    rows = encoder.transform(frame)
    assert rows.shape == (300, len(NAMES))
    assert np.isfinite(rows).all()
    numbers = RobustStandardizer().fit(frame["size"].dropna().to_numpy()[:, None])
    assert encoder.encoding_.mean[0] == pytest.approx(numbers.center_[0])


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas], ids=["polars", "Arrow"])
def test_frames_of_all_libraries_are_alike(frame, convert):
    frame = frame.reset_index(drop=True)
    other = convert(frame)
    expected = TableEncoder().fit_transform(frame)
    np.testing.assert_array_equal(TableEncoder().fit_transform(other), expected)
    np.testing.assert_array_equal(TableEncoder().fit(frame).transform(other), expected)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_are_encoded(frame, tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path, index=False)
    encoder = TableEncoder().fit(path)
    assert encoder.n_features_in_ == 5
    np.testing.assert_array_equal(encoder.transform(path), TableEncoder().fit_transform(frame))


def test_output_can_be_a_frame(frame):
    output = TableEncoder().set_output(transform="pandas").fit_transform(frame)
    assert list(output.columns) == NAMES
    assert output.index.equals(frame.index)


def test_copies_encode_identically(frame):
    encoder = TableEncoder(kinds={"ok": "category"}, drop=["id"]).fit(frame)
    for copy in (pickle.loads(pickle.dumps(encoder)), clone(encoder).fit(frame)):
        np.testing.assert_array_equal(copy.transform(frame), encoder.transform(frame))


def test_encoder_is_a_step_of_a_pipeline(frame, target):
    pipeline = make_pipeline(TableEncoder(), FeatureRegressor(random_state=0))
    assert cross_val_score(pipeline, frame, target, cv=3).mean() > 0.8
    tree = make_pipeline(TableEncoder(), DecisionTreeRegressor(max_depth=6, random_state=0))
    search = GridSearchCV(tree, {"tableencoder__standardize": ["robust", "none"]}, cv=3).fit(frame, target)
    assert search.best_score_ > 0.7


def test_unseen_categories_are_reported_once(frame):
    encoder = TableEncoder().fit(frame)
    with pytest.warns(UserWarning, match="'color' has categories that are not in the training rows, in 300 rows: 'mau"):
        encoder.transform(frame.assign(color="mauve"))


def test_names_of_new_columns_are_checked(frame):
    encoder = TableEncoder().fit(frame)
    with pytest.raises(ValueError, match="The feature names should match those that were passed during fit"):
        encoder.transform(frame.drop(columns="color"))


def test_repeated_names_are_refused(frame):
    with pytest.raises(ValueError, match="the table has more than one column named 'size'; rename one of them"):
        TableEncoder().fit(frame[["size", "size", "ok"]])


def test_columns_that_are_left_out_are_named_once():
    table = pd.DataFrame({"a": [1.0] * 9, "b": ["x"] * 9, "c": [None] * 9, "d": range(9)})
    with pytest.warns(UserWarning) as caught:  # noqa: PT030
        TableEncoder().fit(table)
    assert [str(warning.message) for warning in caught] == [
        "Columns are left out: a (constant), b (constant), c (empty); give constant ones a kind in `kinds` to keep "
        "them, or name all in `drop` to omit this warning."
    ]
    kept = TableEncoder(kinds={"a": "number"}, drop=["b", "c"]).fit(table)
    assert kept.get_feature_names_out().tolist() == ["a", "d"]


def test_columns_of_an_array_have_no_names(rng):
    X = rng.normal(size=(50, 3)).astype(np.float32)
    encoder = TableEncoder().fit(X)
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1", "x2"]
    assert encoder.transform(X).dtype == np.float32
    objects = np.column_stack([X.astype(object), np.array(["a", "b"] * 25, dtype=object)])
    assert TableEncoder().fit(objects).get_feature_names_out().tolist() == ["x0", "x1", "x2", "x3=a", "x3=b"]


def test_sample_depends_on_the_seed(rng, monkeypatch):
    monkeypatch.setattr("bochner.tables.survey.SAMPLE_ROWS", 1000)
    table = pd.DataFrame({"x": rng.normal(size=5000)})
    first, second, again = (TableEncoder(random_state=seed).fit(table).encoding_.mean for seed in (1, 2, 1))
    assert first != second
    assert first == again


def test_decimals_that_are_not_separators_are_refused(frame):
    for fit in (TableEncoder(decimal="^").fit, TableEncoder(decimal="^").survey):
        with pytest.raises(ValueError, match=r"The 'decimal' parameter of TableEncoder must be .* Got '\^' instead"):
            fit(frame)
