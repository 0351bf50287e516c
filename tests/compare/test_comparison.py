# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons: what is measured and what is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from bochner import FourierFeatures, LandmarkFeatures
from bochner.compare import KMeansNystroem, compare

CLASSES = {kind.__name__: kind for kind in (FourierFeatures, LandmarkFeatures, Nystroem, KMeansNystroem)}
NAMES = ["plain Fourier", "stein", "refined stein", "matrix", "landmarks", "refined landmarks", "Nystroem"]


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(600, 3))


@pytest.fixture(scope="module")
def found(X):
    """The result of a comparison with two classes that a line separates."""
    return compare(X, np.where(X[:, 0] > 0, "up", "down"), n_components=[16, 4], n_seeds=1)


class TestCompare:
    def test_one_line_per_number_of_columns_and_method(self, found):
        assert isinstance(found, pd.DataFrame)
        methods = [*NAMES, "k-means Nystroem", "SVD limit"]
        assert found["method"].tolist() == methods * 2
        assert found["n_components"].tolist() == [4] * len(methods) + [16] * len(methods)
        measured = found[found["method"] != "SVD limit"]
        assert (measured[["kernel_error", "fit_seconds", "transform_seconds"]] > 0).all().all()
        assert measured["test_error"].between(0, 1).all()

    def test_no_method_is_below_the_limit(self, found):
        for _, lines in found.groupby("n_components"):
            limit = lines.loc[lines["method"] == "SVD limit", "kernel_error"].item()
            assert (lines["kernel_error"] >= limit).all()

    def test_calls_create_features_with_that_error(self, found, X):
        for line in found[(found["method"] != "SVD limit") & (found["n_components"] == 16)].itertuples():
            features = eval(line.call, CLASSES).set_params(random_state=0).fit(X[:300])
            columns = features.transform(X[300:])
            gamma = getattr(features, "gamma", None) or 0.5 / features.length_scale**2
            exact = rbf_kernel(X[300:], gamma=gamma)
            error = np.linalg.norm(exact - columns @ columns.T) / np.linalg.norm(exact)
            assert columns.shape == (300, line.n_components)
            assert 0.5 < error / line.kernel_error < 2.0

    def test_line_between_classes_is_found(self, found):
        assert found.loc[found["n_components"] == 16, "test_error"].max() < 0.15

    def test_length_scale_is_the_median_distance_unless_it_is_given(self, found, X):
        median = FourierFeatures(random_state=0).fit(X).length_scale_
        assert f"length_scale={median:.2f}"[:-1] in found["call"][1]
        assert compare(X[:40], length_scale=7.5, n_components=[2], n_seeds=1).attrs["length_scale"] == 7.5


def test_limit_of_few_distinct_rows_is_zero():
    X = np.repeat(np.random.default_rng(0).normal(size=(4, 2)), 20, axis=0)
    errors = compare(X, n_components=[8], n_seeds=1).set_index("method")["kernel_error"]
    assert errors["SVD limit"] < 1e-7
    assert errors["landmarks"] < 1e-5
    assert errors["plain Fourier"] > 1e-3


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (np.arange(40) % 20, "classification"),
        (np.arange(40.0) % 20, "classification"),
        (np.arange(42) % 21, "regression"),
        (np.arange(40) % 2 + 0.5, "regression"),
        (np.resize(["no", "yes"], 40), "classification"),
        (np.resize([True, False], 40), "classification"),
        (None, None),
    ],
)
def test_task_is_recognized_by_the_target(y, task):
    X = np.arange(42.0)[: 42 if y is None else len(y), None]
    assert compare(X, y, n_components=[2], n_seeds=1).attrs["task"] == task


def test_errors_of_a_regression_do_not_depend_on_the_origin(X):
    y = np.sin(X[:, 0])
    first, moved = (compare(X, target, n_components=[32], n_seeds=1)["test_error"][0] for target in (y, y - 100.0))
    assert first == pytest.approx(moved, rel=1e-6)
    assert first < 0.5


def test_fits_are_printed_one_seed_after_the_other(X, capsys):
    compare(X[:60], n_components=[2, 4], n_seeds=2, verbose=1)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 36
    assert lines[0].startswith("1 of 36: plain Fourier, 2 columns, seed 0: kernel error ")
    assert ["seed 0" in line for line in lines] == [True] * 18 + [False] * 18


def test_standard_errors_of_two_seeds(X):
    found = compare(X[:60], n_components=[2], n_seeds=2)
    assert (found["kernel_error_se"] > 0.0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": [9]}, r"n_components is \[9\]; give even numbers from 2 to 300"),
        ({"n_components": [0]}, r"n_components is \[0\]; give even numbers"),
        ({"n_components": []}, r"n_components is \[\]; give even numbers"),
        ({"n_components": [4, 302]}, r"n_components is \[4, 302\]; give even numbers from 2 to 300"),
        ({"n_seeds": 0}, "n_seeds is 0; give at least 1"),
        ({"length_scale": -1.0}, "length_scale is -1.0; give a positive number, or None for the median"),
        ({"y": np.ones(600)}, "All targets are equal to 1.0; give targets that differ, or none"),
        ({"y": np.arange(5)}, "inconsistent numbers of samples"),
    ],
)
def test_invalid_arguments_are_refused(X, options, message):
    with pytest.raises(ValueError, match=message):
        compare(X, **options)


@pytest.mark.parametrize(("n_rows", "sizes"), [(5000, (64, 256)), (2000, (64,)), (100, (24,)), (20, (4,))])
def test_default_numbers_of_columns_fit_the_rows(n_rows, sizes):
    found = compare(np.arange(float(n_rows))[:, None], n_seeds=1)
    assert tuple(found["n_components"].unique()) == sizes
