# SPDX-License-Identifier: BSD-3-Clause
"""One test per line of the table in docs/guide/determinism.md: equal bits, and equality up to rounding."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    FourierFeatures,
    KernelRegressor,
    LandmarkFeatures,
    RobustStandardizer,
)
from bochner.losses import Quantile
from bochner.samplers import SAMPLERS
from bochner.weightings import WEIGHTINGS

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "determinism.md"


@cache
def data(n_features=10):
    """Return rows, a target and labels of ten classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, n_features))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X))
    return X, y, np.digitize(y, np.quantile(y, np.linspace(0.1, 0.9, 9)))


def features(n_frequencies=50, **parameters):
    return FourierFeatures(n_frequencies=n_frequencies, random_state=0, **parameters)


def of_features(**parameters):
    X, y, _ = data()
    fitted = features(**parameters).fit(X, y)
    return fitted.frequencies_, fitted.weights_, fitted.transform(X)


def of_model(model, X, y):
    """Return coefficients, outputs for all rows and for one row, and the score."""
    model.fit(X, y)
    output = getattr(model, "decision_function", model.predict)
    return model.coef_, model.intercept_, output(X), output(X[:1]), model.score(X, y)


def every_weighting():
    return [of_features(weighting=name, n_components=None if name != "matrix" else 20)[2] for name in WEIGHTINGS]


def few_rows():
    X, y, _ = data()
    wide = data(784)[0][:100].astype(np.float32)
    wide_features = features(1024, weighting="uniform").fit(wide)
    model = FeatureRegressor(features(), cv=None).fit(X, y)
    landmarks = LandmarkFeatures(n_landmarks=100, random_state=0).fit(X)
    outputs = (model.predict, model.features_.transform, landmarks.transform)
    return [wide_features.transform(wide[:1]), *(output(X[:n_rows]) for output in outputs for n_rows in (1, 2, 100))]


def landmarks(selection):
    X = data()[0]
    fitted = LandmarkFeatures(n_landmarks=40, landmarks=selection, random_state=0).fit(X)
    return fitted.landmarks_, fitted.transform(X)


def ridge_kinds():
    X, y, _ = data()
    kinds = X, X.astype(np.float32), sparse.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    return [part for kind in kinds for part in of_model(FeatureRegressor(features()), kind, y)]


def ridge_deviations():
    X, y, _ = data()
    model = FeatureRegressor(features()).fit(X, np.column_stack([y, -y]))
    return (*model.predict(X, return_std=True), *model.predict(X[:1], return_std=True))


def classifier(loss, n_classes):
    X, _, labels = data()
    return of_model(FeatureClassifier(features(20), loss=loss), X[:500], labels[:500] * n_classes // 10)


FITS = {
    "`FourierFeatures`: frequencies, weights, features": of_features,
    "every weighting": every_weighting,
    "every sampler": lambda: [of_features(sampler=name, weighting="uniform")[2] for name in SAMPLERS],
    "`transform` and `predict` of one row or a few": few_rows,
    '`length_scale="learn"` and "learn-matrix"': lambda: [
        *of_features(length_scale="learn"),
        *of_features(length_scale="learn-matrix")[1:],
    ],
    "`LandmarkFeatures`, all selections": lambda: [
        part for name in ("kmeans", "pivoted", "uniform") for part in landmarks(name)
    ],
    "`RobustStandardizer`": lambda: [RobustStandardizer().fit_transform(data()[0])],
    "`kernel_error` with a `random_state`": lambda: [
        np.array(features().fit(data()[0]).kernel_error(data()[0], random_state=0))
    ],
    "`FeatureRegressor`: float64, float32, sparse": ridge_kinds,
    "`FeatureRegressor(cv=None)`": lambda: of_model(FeatureRegressor(features(), cv=None), *data()[:2]),
    "`FeatureRegressor` with `LandmarkFeatures`": lambda: of_model(
        FeatureRegressor(LandmarkFeatures(n_landmarks=100, random_state=0)), *data()[:2]
    ),
    "`FeatureRegressor` with 1,200 columns": lambda: of_model(
        FeatureRegressor(features(600, weighting="uniform")), *data()[:2]
    ),
    "standard deviations of predictions": ridge_deviations,
    "`KernelRegressor`": lambda: [KernelRegressor(effort="fast", random_state=0).fit(*data()[:2]).predict(data()[0])],
    "`FeatureRegressor` with quantiles": lambda: of_model(
        FeatureRegressor(features(20), loss=Quantile([0.1, 0.9]), cv=3), *(part[:500] for part in data()[:2])
    ),
    "`FeatureClassifier` with squared errors": lambda: classifier("squared_error", 10),
    "`FeatureClassifier` with the log loss, two and many classes": lambda: [
        part for n_classes in (2, 10) for part in classifier("log_loss", n_classes)
    ],
    "`FeatureClassifier` with the squared hinge loss, two and many classes": lambda: [
        part for n_classes in (2, 10) for part in classifier("squared_hinge", n_classes)
    ],
}
LEARNED = ('`length_scale="learn"` and "learn-matrix"', "`KernelRegressor`")  # optimizers amplify rounding


def in_threads_of_blas(function):
    """Return what a function returns with one and with three threads."""
    results = []
    for n_threads in (1, 3):
        with threadpool_limits(n_threads, user_api="blas"):
            results.append(function())
    return results


def kernels():
    fitted = features().fit(data()[0])
    return np.stack([fitted.exact_kernel(data()[0]), fitted.approximate_kernel(data()[0])])


def refined_kernel():
    X = data(40)[0][:300]
    return features(260, refine=2, weighting="uniform").fit(X).approximate_kernel(X)


def row_alone_and_among_others():
    X, y, _ = data()
    model = FeatureRegressor(features()).fit(X, y)
    return model.predict(X[:1]), model.predict(X)[:1]


def in_memory_and_in_partitions():
    array = pytest.importorskip("dask.array")
    X, y, _ = data()
    transformer = features(weighting="uniform", length_scale=3.0)
    partitions = [array.from_array(whole, chunks=len(whole) // 4) for whole in (X, y)]
    return [FeatureRegressor(transformer, cv=None).fit(*rows).predict(X) for rows in ((X, y), partitions)]


CLOSE = {
    "`exact_kernel`, `approximate_kernel`": lambda: in_threads_of_blas(kernels),
    "`refine`": lambda: in_threads_of_blas(refined_kernel),
    "a row alone and among others": row_alone_and_among_others,
    "Dask collections and arrays in memory": in_memory_and_in_partitions,
}


def fitted_with(n_threads, line):
    with threadpool_limits(n_threads, user_api="blas"):
        return [np.ascontiguousarray(value) for value in FITS[line]()]


FAST = ("`FourierFeatures`: frequencies, weights, features", "`FeatureRegressor`: float64, float32, sparse")


@pytest.mark.parametrize("line", [pytest.param(line, marks=[pytest.mark.slow] * (line not in FAST)) for line in FITS])
def test_second_fit_has_the_same_bits(line):
    first, second, other = (fitted_with(n_threads, line) for n_threads in (2, 2, 1))
    assert [value.tobytes() for value in first] == [value.tobytes() for value in second]
    for value, expected in zip(other, first, strict=True) if line not in LEARNED else ():
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-8 * np.abs(expected).max(initial=1.0))


@pytest.mark.parametrize("line", CLOSE)
def test_results_are_equal_to_rounding(line):
    first, second = CLOSE[line]()
    np.testing.assert_allclose(first, second, rtol=1e-8, atol=1e-10)


def test_page_has_one_line_per_test():
    lines = re.findall(r"^\| (?!what )([^|]+) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert lines == [*FITS, *CLOSE]
