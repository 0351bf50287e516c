# SPDX-License-Identifier: BSD-3-Clause
import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from bochner import (
    FeatureRegressor,
    FourierFeatures,
    ImportanceDisplay,
    KernelErrorDisplay,
    WeightsDisplay,
)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_kernel_errors_of_estimators(digits):
    estimators = {"plain": FourierFeatures(weighting="uniform"), "stein": FourierFeatures()}
    display = KernelErrorDisplay.from_estimators(
        estimators, digits[::4], digits[1::4], n_frequencies=[8, 32], n_repeats=2
    )
    assert display.n_columns.tolist() == [16, 64]
    assert {name: values.shape for name, values in display.errors.items()} == {"plain": (2, 2), "stein": (2, 2)}
    assert (display.errors["stein"].mean(axis=1) < display.errors["plain"].mean(axis=1)).all()
    assert (np.diff(display.errors["plain"], axis=0) < 0).all()
    assert estimators["stein"].n_frequencies == 256


def test_kernel_error_plot_has_labels():
    display = KernelErrorDisplay([16, 32], {"one": [[0.2], [0.1]], "two": [[0.15], [0.05]]}).plot()
    assert display.ax_.get_ylabel() == "relative kernel error"
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["one", "two"]
    display.figure_.canvas.draw()
    assert "10 %" in [label.get_text() for label in display.ax_.get_yticklabels()]


def test_lines_have_distinct_markers():
    errors = {str(i): [[0.1 * (i + 1)], [0.05 * (i + 1)]] for i in range(6)}
    lines = KernelErrorDisplay([2, 4], errors).plot().ax_.get_lines()
    assert len({line.get_marker() for line in lines if line.get_marker() not in ("", "None")}) == 6


def test_weights_histogram_counts_all_frequencies(rng):
    features = FourierFeatures(n_frequencies=40, random_state=0).fit(rng.normal(size=(100, 3)))
    ax = plt.figure().subplots()
    display = WeightsDisplay.from_estimator(features, ax=ax)
    assert display.ax_ is ax
    assert sum(patch.get_height() for patch in ax.patches) == 40
    assert ax.get_lines()[0].get_xdata()[0] == pytest.approx(1 / 40)


def test_unfitted_estimator_is_rejected():
    with pytest.raises(NotFittedError):
        WeightsDisplay.from_estimator(FourierFeatures())


class TestPipelines:
    """Displays of a pipeline show its last step."""

    @pytest.fixture(params=[FourierFeatures(n_frequencies=4), FeatureRegressor(FourierFeatures(n_frequencies=4))])
    def last(self, request):
        return request.param

    def fit(self, rng, *steps):
        return make_pipeline(*steps).fit(rng.normal(size=(30, 3)), np.arange(30.0))

    def test_names_come_from_the_step_before(self, rng, last):
        assert ImportanceDisplay.from_estimator(self.fit(rng, PCA(2), last)).names == ["pca0", "pca1"]

    @pytest.mark.parametrize("before", [[], [FunctionTransformer()]])
    def test_names_are_numbers_without_names_before(self, rng, last, before):
        display = ImportanceDisplay.from_estimator(self.fit(rng, *before, last))
        assert display.names == ["column 0", "column 1", "column 2"]

    def test_other_features_are_rejected(self, rng):
        with pytest.raises(ValueError, match=r"no features with a length scale, but StandardScaler\(\)"):
            ImportanceDisplay.from_estimator(self.fit(rng, StandardScaler()))


def test_importance_shows_the_most_important_columns(rng):
    X = rng.normal(size=(200, 4))
    model = FeatureRegressor(FourierFeatures(n_frequencies=16), random_state=0).fit(X, 3.0 * X[:, 2] + X[:, 0])
    display = ImportanceDisplay.from_estimator(model, X, n_columns=2)
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["column 2", "column 0"]
    assert display.ax_.get_title() == "the 2 most important of 4 columns"
    widths = [bar.get_width() for bar in display.ax_.patches]
    np.testing.assert_allclose(widths, np.sort(display.effects)[::-1][:2])
    assert widths[0] == pytest.approx(3.0, rel=0.15)
