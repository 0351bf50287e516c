# SPDX-License-Identifier: BSD-3-Clause
"""Constraints on parameters: names in the order of their table, numbers that are not True or False."""

import re
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, LandmarkFeatures, RobustStandardizer
from bochner.kernels import KERNELS
from bochner.landmarks import LANDMARKS, KMeans, Pivoted
from bochner.samplers import SAMPLERS
from bochner.scaling import LearnedLengthScales, LearnedMetric
from bochner.validation import Interval, StrOptions, check_weight_range, check_weights, positive_values
from bochner.weightings import WEIGHTINGS, Matrix, Quadrature, Shrinkage, Stein

X, Y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12.0)


@pytest.mark.parametrize(
    ("estimator", "parameter", "names"),
    [
        (FourierFeatures(), "kernel", KERNELS),
        (FourierFeatures(), "sampler", ["auto", *SAMPLERS]),
        (FourierFeatures(), "weighting", WEIGHTINGS),
        (FourierFeatures(), "length_scale", ["median", "scale", "learn", "learn-matrix"]),
        (LandmarkFeatures(), "kernel", [*KERNELS, "precomputed"]),
        (LandmarkFeatures(), "landmarks", LANDMARKS),
        (FourierFeatures(weighting=Stein()), "weighting__sketch", ["points", "pairs"]),
    ],
)
def test_messages_list_names_in_the_order_of_their_table(estimator, parameter, names):
    with pytest.raises(ValueError, match="a str among") as error:
        estimator.set_params(**{parameter: "unknown"}).fit(X, Y)
    assert f"a str among {{{', '.join(map(repr, names))}}}" in str(error.value)


def test_aliases_are_accepted_and_not_listed():
    options = StrOptions(["gaussian"], aliases=["rbf"])
    assert options.is_satisfied_by("rbf")
    assert options.is_satisfied_by("gaussian")
    assert not options.is_satisfied_by("poly")
    assert str(options) == "a str among {'gaussian'}"


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    ("estimator", "parameter"),
    [
        *(
            (FourierFeatures(), name)
            for name in ("n_frequencies", "refine", "n_components", "tolerance", "length_scale")
        ),
        *((LandmarkFeatures(), name) for name in ("n_landmarks", "refine")),
        *((FeatureRegressor(), name) for name in ("cv", "features__n_landmarks")),
        (FeatureClassifier(), "cv"),
        *((FourierFeatures(weighting=part()), "weighting__n_points") for part in (Stein, Matrix, Shrinkage)),
        *((FourierFeatures(weighting=part()), "weighting__n_pairs") for part in (Stein, Quadrature)),
        *((LandmarkFeatures(landmarks=part()), "landmarks__n_points") for part in (Pivoted, KMeans)),
        (LandmarkFeatures(landmarks=KMeans()), "landmarks__n_iterations"),
        *(
            (FourierFeatures(length_scale=learner()), f"length_scale__{name}")
            for learner in (LearnedLengthScales, LearnedMetric)
            for name in ("n_rows", "n_iterations")
        ),
    ],
)
def test_true_and_false_are_not_numbers(estimator, parameter, value):
    name = parameter.split("__")[-1]
    with pytest.raises(ValueError, match=rf"The '{name}' parameter of \w+ must be .* Got {value} instead"):
        estimator.set_params(**{parameter: value}).fit(X, Y)


def test_refine_says_how_many_iterations_to_use():
    with pytest.raises(ValueError, match=r"\(60 gives most of the gain, 0 switches it off\)\. Got True instead"):
        FourierFeatures(refine=True).fit(X)


def test_intervals_accept_numbers_as_those_of_scikit_learn():
    integers, reals = Interval(Integral, 0, None, closed="left"), Interval(Real, 0, 1, closed="neither")
    assert all(integers.is_satisfied_by(number) for number in (0, 3, np.int64(2)))
    assert not any(integers.is_satisfied_by(number) for number in (-1, 1.0, True, "1"))
    assert reals.is_satisfied_by(np.float32(0.5))
    assert not any(reals.is_satisfied_by(number) for number in (0.0, 1, np.nan, False))
    assert str(integers) == "an int in the range [0, inf)"


def test_default_candidates():
    np.testing.assert_array_equal(positive_values("alphas", None, default=(1.0, 2.0)), [1.0, 2.0])
    np.testing.assert_array_equal(positive_values("alphas", [3.0], default=(1.0, 2.0)), [3.0])
    with pytest.raises(ValueError, match=r"`alphas` must be a non-empty sequence of positive numbers\. Got None"):
        positive_values("alphas", None)


@pytest.mark.parametrize("value", [0.9e-100, 1.1e100])
def test_candidates_whose_products_overflow_or_underflow(value):
    np.testing.assert_array_equal(positive_values("alphas", [1e-100, 1e100]), [1e-100, 1e100])
    message = f"`alphas` contains {value:g}, whose products overflow or underflow float64; give numbers between 1e-100"
    with pytest.raises(ValueError, match=re.escape(message)):
        positive_values("alphas", [1.0, value])


class TestTextAndDates:
    """Columns that are not numbers are named, with the remedy."""

    REMEDY = "which is not a number; encode it with `TableEncoder`, or use `TableRegressor` or `TableClassifier`."
    ESTIMATORS = (
        FourierFeatures(n_frequencies=4),
        LandmarkFeatures(n_landmarks=4),
        RobustStandardizer(),
        FeatureRegressor(FourierFeatures(n_frequencies=4)),
        FeatureClassifier(FourierFeatures(n_frequencies=4), cv=2),
    )
    ROWS: ClassVar = {
        "pandas": (pd.DataFrame({"size": Y, "city": "Paris"}), "Column 'city' contains 'Paris'"),
        "polars": (pl.DataFrame({"size": Y, "city": ["Paris"] * 12}), "Column 'city' contains 'Paris'"),
        "dates": (pd.DataFrame({"size": Y, "day": pd.Timestamp("2020-01-01")}), "Column 'day' contains '2020-01-01"),
        "objects": (np.array([[1.0, "2"], [3.0, "x"]] * 6, dtype=object), "Column 1 contains 'x'"),
        "text": (np.array([["1.5", "x"]] * 12), "Column 1 contains 'x'"),
        "lists": ([[1.0, "x"]] * 12, "Column 1 contains 'x'"),
    }

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    @pytest.mark.parametrize("rows", ROWS)
    def test_column_is_named(self, estimator, rows):
        given, message = self.ROWS[rows]
        with pytest.raises(ValueError, match=re.escape(message)) as caught:
            clone(estimator).fit(given, Y > 5)
        assert str(caught.value).endswith(self.REMEDY)
        if rows not in ("pandas", "polars", "dates"):  # others have no names
            fitted = clone(estimator).fit(X, Y > 5)
            with pytest.raises(ValueError, match=re.escape(message)):
                getattr(fitted, "predict" if hasattr(fitted, "predict") else "transform")(given)

    def test_other_objects_keep_the_message_of_scikit_learn(self):
        with pytest.raises(TypeError, match=r"argument must be a string or a (real )?number"):
            FourierFeatures().fit(np.array([[{}, 1.0]] * 12, dtype=object))


class TestWeights:
    @pytest.mark.parametrize("largest", [1e-50, 1.0, 1e13, 1e50])
    def test_weights_of_all_sizes_are_accepted(self, largest):
        weights = np.r_[np.zeros(11), largest]
        np.testing.assert_array_equal(check_weights(weights, X), weights)

    @pytest.mark.parametrize("largest", [0.9e-50, 1.1e50])
    def test_weights_whose_products_overflow_or_underflow(self, largest):
        weights = np.r_[np.zeros(11), largest]
        message = re.escape(f"The largest `sample_weight` is {largest:.3g};") + ".* Divide all weights by their mean"
        for refused in (lambda: check_weights(weights, X), lambda: FeatureRegressor().fit(X, Y, sample_weight=weights)):
            with pytest.raises(ValueError, match=message):
                refused()

    def test_other_rows_may_have_larger_weights(self):
        check_weight_range(np.array([1e-200]), all_rows=False)
        with pytest.raises(ValueError, match=r"is 1e\+60;"):
            check_weight_range(np.array([1e60]), all_rows=False)
