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
    FourierFeatures,
    FourierRidge,
    ImportanceDisplay,
    KernelErrorDisplay,
    MetricDisplay,
    RelevanceDisplay,
    WeightsDisplay,
)
from bochner.display import _eigenvectors
from bochner.rows import Metric


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


@pytest.fixture(scope="module")
def oblique():
    """A table of three columns, whose target depends on the difference of the first two alone."""
    X = np.random.default_rng(0).normal(size=(400, 3))
    return X, np.sin(2 * X[:, 0] - 2 * X[:, 1])


@pytest.fixture(scope="module")
def fitted(oblique):
    return FourierFeatures(length_scale="learn-matrix", n_frequencies=32, random_state=0).fit(*oblique)


class TestMetric:
    def test_leading_direction_is_that_of_the_target(self, fitted):
        display = MetricDisplay.from_estimator(fitted)
        np.testing.assert_allclose(np.abs(display.directions[0] @ [0.5**0.5, -(0.5**0.5), 0.0]), 1.0, atol=0.02)
        values = np.linalg.eigvalsh(fitted.metric_.T @ fitted.metric_)[::-1]
        np.testing.assert_allclose(display.shares, values / values.sum(), atol=1e-12)
        assert display.shares[0] > 0.8
        assert len(display.axes_) == 4
        assert display.axes_[1].get_title() == f"direction 1: {100 * display.shares[0]:.2g} %"
        widths = [bar.get_width() for bar in display.axes_[1].patches]
        np.testing.assert_allclose(widths, display.directions[0])

    def test_names_come_from_the_columns(self, fitted, oblique):
        frame = pytest.importorskip("pandas").DataFrame(oblique[0], columns=["a", "b", "c"])
        features = FourierFeatures(length_scale=Metric(np.eye(3)), n_frequencies=4).fit(frame)
        assert MetricDisplay.from_estimator(features).names == ["a", "b", "c"]
        assert MetricDisplay.from_estimator(fitted).names == ["column 0", "column 1", "column 2"]
        with pytest.raises(ValueError, match="`names` has 2 names and the estimator has 3 columns"):
            MetricDisplay.from_estimator(fitted, names=["a", "b"])

    def test_directions_as_images(self, rng):
        features = FourierFeatures(length_scale=Metric(rng.normal(size=(6, 6))), n_frequencies=4).fit(np.eye(6))
        display = MetricDisplay.from_estimator(features, image_shape=(2, 3), n_directions=6)
        images = [ax.images[0].get_array() for ax in display.axes_[1:]]
        expected = display.directions[5] / np.quantile(np.abs(display.directions[5]), 0.99)
        np.testing.assert_allclose(images[5], expected.reshape(2, 3))
        assert display.axes_[1].images[0].get_clim() == (-1.0, 1.0)
        with pytest.raises(ValueError, match=r"`image_shape`=\(3, 3\) has 9 pixels and the metric has 6 columns"):
            display.plot(image_shape=(3, 3))
        with pytest.raises(ValueError, match="`n_directions`=0 must be at least 1"):
            display.plot(n_directions=0)

    def test_few_columns_of_many_are_drawn(self, rng):
        directions = np.linalg.qr(rng.normal(size=(30, 30)))[0]
        names = [f"name {j}" for j in range(30)]
        figure = plt.figure()
        display = MetricDisplay([0.5, 0.3, 0.2], directions[:3], names).plot(n_directions=2, n_columns=4, figure=figure)
        assert display.figure_ is figure
        assert len(display.axes_) == 3
        labels = [label.get_text() for label in display.axes_[1].get_yticklabels()]
        largest = np.argsort(-np.abs(directions[:2] * np.sqrt([[0.5], [0.3]])).max(axis=0))[:4]
        assert labels == [names[j] for j in sorted(largest)]

    @pytest.mark.parametrize("n_directions", [0, 5])
    def test_metric_of_many_columns_is_not_made_dense(self, rng, monkeypatch, n_directions):
        diagonal, directions = rng.uniform(0.5, 1.0, size=300), rng.normal(size=(n_directions, 300))
        metric = Metric(directions, diagonal)
        monkeypatch.setattr("bochner.display.linalg.svd", None)
        shares, vectors = _eigenvectors(metric.matrix, 4)
        values, expected = np.linalg.eigh(np.diag(diagonal**2) + directions.T @ directions)
        np.testing.assert_allclose(shares, values[:-5:-1] / values.sum(), rtol=1e-9)
        np.testing.assert_allclose(np.abs(np.sum(vectors * expected[:, :-5:-1].T, axis=1)), 1.0, rtol=1e-9)
        assert (vectors.max(axis=1) == np.abs(vectors).max(axis=1)).all()

    def test_length_scales_have_no_metric(self, rng):
        with pytest.raises(AttributeError, match="learn-matrix"):
            MetricDisplay.from_estimator(FourierFeatures(n_frequencies=4).fit(rng.normal(size=(20, 3))))


class TestPipelines:
    """Displays of a pipeline show its last step."""

    @pytest.fixture(params=[FourierFeatures(n_frequencies=4), FourierRidge(FourierFeatures(n_frequencies=4))])
    def last(self, request):
        return request.param

    def fit(self, rng, *steps):
        return make_pipeline(*steps).fit(rng.normal(size=(30, 3)), np.arange(30.0))

    def test_names_come_from_the_step_before(self, rng, last):
        assert RelevanceDisplay.from_estimator(self.fit(rng, PCA(2), last)).names == ["pca0", "pca1"]

    @pytest.mark.parametrize("before", [[], [FunctionTransformer()]])
    def test_names_are_numbers_without_names_before(self, rng, last, before):
        display = RelevanceDisplay.from_estimator(self.fit(rng, *before, last))
        assert display.names == ["column 0", "column 1", "column 2"]

    def test_metric_of_a_pipeline(self, rng):
        features = FourierFeatures(length_scale=Metric(np.diag([3.0, 1.0, 1.0])), n_frequencies=4)
        display = MetricDisplay.from_estimator(self.fit(rng, StandardScaler(), FourierRidge(features)))
        assert display.names == ["x0", "x1", "x2"]
        np.testing.assert_allclose(display.directions[0], [1.0, 0.0, 0.0], atol=1e-12)
        np.testing.assert_allclose(display.shares, [9 / 11, 1 / 11, 1 / 11])

    def test_other_features_are_rejected(self, rng):
        with pytest.raises(ValueError, match=r"no features with a length scale, but StandardScaler\(\)"):
            RelevanceDisplay.from_estimator(self.fit(rng, StandardScaler()))


def test_importance_shows_the_most_important_columns(rng):
    X = rng.normal(size=(200, 4))
    model = FourierRidge(FourierFeatures(n_frequencies=16), random_state=0).fit(X, 3.0 * X[:, 2] + X[:, 0])
    display = ImportanceDisplay.from_estimator(model, X, n_columns=2)
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["column 2", "column 0"]
    assert display.ax_.get_title() == "the 2 most important of 4 columns"
    widths = [bar.get_width() for bar in display.ax_.patches]
    np.testing.assert_allclose(widths, np.sort(display.effects)[::-1][:2])
    assert widths[0] == pytest.approx(3.0, rel=0.15)
